#include "ledger/sql.h"

#include <sqlite3.h>

#include <cassert>
#include <limits>
#include <utility>
#include <vector>

namespace ledger {
namespace {

[[noreturn]] void fail(sqlite3* db, int code) {
  const int extended = db == nullptr ? code : sqlite3_extended_errcode(db);
  std::string text = db == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db);
  throw SqlError(extended == SQLITE_OK ? code : extended, text);
}

int size_of(std::string_view bytes) {
  // SQLite's own limit is lower.
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw SqlError(SQLITE_TOOBIG, "string or blob too big");
  }
  return static_cast<int>(bytes.size());
}

/// As part of a file: URI.
std::string escaped(std::string_view path) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (c != '%' && c != '?' && c != '#' && byte >= 0x20 && byte < 0x7f) {
      out += c;
      continue;
    }
    out += '%';
    out += kHex[byte >> 4U];
    out += kHex[byte & 15U];
  }
  return out;
}

std::string uri_of(const std::string& path, Database::Open how) {
  static constexpr std::string_view kMemory = ":memory:";
  if (path.starts_with(kMemory)) return "file:/" + escaped(path.substr(kMemory.size())) + "?vfs=memdb";
  // An empty authority, or a path that begins with two slashes would be taken for one.
  std::string uri = (path.starts_with('/') ? "file://" : "file:") + escaped(path);
  if (how == Database::Open::Frozen) uri += "?immutable=1";
  return uri;
}

}  // namespace

bool SqlError::of_the_place() const {
  switch (primary()) {
    case SQLITE_PERM:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_NOMEM:
    case SQLITE_READONLY:
    case SQLITE_INTERRUPT:
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_CANTOPEN:
    case SQLITE_PROTOCOL:
      return true;
    default:
      return false;
  }
}

bool SqlError::of_the_file() const { return primary() == SQLITE_CORRUPT || primary() == SQLITE_NOTADB; }

Database::Database(const std::string& path, Open how, std::chrono::milliseconds busy) {
  int flags = SQLITE_OPEN_READONLY;
  if (how == Open::Again || path.starts_with(":memory:")) flags = SQLITE_OPEN_READWRITE;
  if (how == Open::Write) flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(uri_of(path, how).c_str(),
                                   &db_,
                                   flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                                   nullptr);
  if (code != SQLITE_OK) {
    const std::string text = db_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db_);
    sqlite3_close_v2(std::exchange(db_, nullptr));
    throw SqlError(code, text);
  }
  be_patient(busy);
}

int Database::count_log(void* self, sqlite3*, const char*, int pages) {
  static_cast<Database*>(self)->log_pages_ = pages;
  return SQLITE_OK;
}

void Database::count_log_pages() {
  counts_log_ = true;
  sqlite3_wal_hook(db_, &count_log, this);
}

// Statements that are still there keep it open until they go.
Database::~Database() {
  for (Statement* one = first_; one != nullptr; one = one->after_) one->database_ = nullptr;
  sqlite3_close_v2(db_);
}

void Database::become(Database&& other) {
  assert(other.first_ == nullptr);
  std::vector<sqlite3_stmt*> anew;
  for (const Statement* one = first_; one != nullptr; one = one->after_) {
    sqlite3_stmt* made = nullptr;
    const int code =
        sqlite3_prepare_v3(other.db_, sqlite3_sql(one->statement_), -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr);
    if (code != SQLITE_OK) {
      for (sqlite3_stmt* statement : anew) sqlite3_finalize(statement);
      fail(other.db_, code);
    }
    anew.push_back(made);
  }
  auto made = anew.begin();
  for (Statement* one = first_; one != nullptr; one = one->after_) {
    sqlite3_finalize(std::exchange(one->statement_, *made));
    ++made;
  }
  std::swap(db_, other.db_);
  log_pages_ = 0;
  if (counts_log_ || other.counts_log_) count_log_pages();
}

void Database::run(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(db_, code);
}

std::optional<std::int64_t> Database::number(const std::string& sql) {
  Statement statement(*this, sql);
  if (!statement.step()) return std::nullopt;
  return statement.maybe_number(0);
}

std::optional<std::string> Database::text(const std::string& sql) {
  Statement statement(*this, sql);
  if (!statement.step() || statement.is_null(0)) return std::nullopt;
  return std::string{statement.text(0)};
}

std::int64_t Database::changes() const { return sqlite3_changes64(db_); }
std::int64_t Database::last_rowid() const { return sqlite3_last_insert_rowid(db_); }
bool Database::in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }
void Database::be_patient(std::chrono::milliseconds busy) {
  sqlite3_busy_timeout(db_, static_cast<int>(busy.count()));
}

Statement::Statement(Database& database, std::string_view sql) : database_(&database) {
  const int code =
      sqlite3_prepare_v3(database.raw(), sql.data(), size_of(sql), SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
  if (code != SQLITE_OK) fail(database.raw(), code);
  enlist();
}

Statement::~Statement() {
  strike_off();
  sqlite3_finalize(statement_);
}

Statement::Statement(Statement&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)), database_(other.database_) {
  other.strike_off();
  enlist();
}

void Statement::enlist() {
  if (database_ == nullptr) return;
  after_ = std::exchange(database_->first_, this);
  if (after_ != nullptr) after_->before_ = this;
}

void Statement::strike_off() {
  if (database_ == nullptr) return;
  (before_ != nullptr ? before_->after_ : database_->first_) = after_;
  if (after_ != nullptr) after_->before_ = before_;
  database_ = nullptr;
}

namespace {

void checked(sqlite3_stmt* statement, int code) {
  if (code != SQLITE_OK) fail(sqlite3_db_handle(statement), code);
}

}  // namespace

Statement& Statement::bind(int at, std::int64_t value) {
  checked(statement_, sqlite3_bind_int64(statement_, at, value));
  return *this;
}

Statement& Statement::bind(int at, std::string_view value) {
  // A null pointer would be NULL.
  const char* bytes = value.data() == nullptr ? "" : value.data();
  checked(statement_, sqlite3_bind_text(statement_, at, bytes, size_of(value), SQLITE_STATIC));
  return *this;
}

Statement& Statement::bind(int at, std::nullptr_t) {
  checked(statement_, sqlite3_bind_null(statement_, at));
  return *this;
}

Statement& Statement::bind_blob(int at, std::string_view bytes) {
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  checked(statement_, sqlite3_bind_blob(statement_, at, data, size_of(bytes), SQLITE_STATIC));
  return *this;
}

Statement& Statement::bind_blob(int at, std::span<const std::uint8_t> bytes) {
  const void* data = bytes.data() == nullptr ? static_cast<const void*>("") : bytes.data();
  checked(statement_, sqlite3_bind_blob(statement_, at, data, static_cast<int>(bytes.size()), SQLITE_STATIC));
  return *this;
}

int Statement::parameters() const { return sqlite3_bind_parameter_count(statement_); }

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement_);
    return false;
  }
  sqlite3* db = sqlite3_db_handle(statement_);
  const int extended = sqlite3_extended_errcode(db);
  const std::string text = sqlite3_errmsg(db);
  sqlite3_reset(statement_);
  throw SqlError(extended == SQLITE_OK ? code : extended, text);
}

void Statement::run() {
  while (step()) {
  }
}

void Statement::reset() { sqlite3_reset(statement_); }

int Statement::columns() const { return sqlite3_column_count(statement_); }
std::string_view Statement::name(int column) const { return sqlite3_column_name(statement_, column); }
bool Statement::is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
std::int64_t Statement::number(int column) const { return sqlite3_column_int64(statement_, column); }

std::optional<std::int64_t> Statement::maybe_number(int column) const {
  if (is_null(column)) return std::nullopt;
  return number(column);
}

double Statement::real(int column) const { return sqlite3_column_double(statement_, column); }

std::string_view Statement::text(int column) const { return blob(column); }

std::string_view Statement::blob(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

Transaction::Transaction(Database& database, Kind kind) : database_(database) {
  database.run(kind == Kind::Write ? "BEGIN IMMEDIATE" : "BEGIN");
}

Transaction::~Transaction() {
  // Some failures (a full disk) have rolled back already.
  if (open_ && database_.in_transaction()) sqlite3_exec(database_.raw(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace ledger
