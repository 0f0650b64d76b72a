#pragma once
// How does this room speak to SQLite? A connection and a statement that close themselves, errors as one exception
// that stays inside this room.
//
// A connection and its statements belong to one thread at a time. Texts and blobs are bytes: a NUL or what is no
// UTF-8 goes in and comes out as it was.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace ledger {

/// What SQLite said. `code` is its extended result code, e.g. 13 for a full disk.
class SqlError : public std::runtime_error {
 public:
  SqlError(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  [[nodiscard]] int code() const { return code_; }
  [[nodiscard]] int primary() const { return code_ & 0xff; }
  /// The place where the rows are, not the rows: full, read-only, locked, gone. The same may do well later.
  [[nodiscard]] bool of_the_place() const;
  /// What is there is no database, or a damaged one.
  [[nodiscard]] bool of_the_file() const;

 private:
  int code_;
};

class Statement;

class Database {
 public:
  enum class Open : std::uint8_t {
    Write,   // Makes the file if there is none.
    Again,   // As Write, of a file that is there.
    Read,    // Never writes a row. It takes part in locking, so it may have to write beside the file.
    Frozen,  // A file that nobody writes, such as one on a read-only medium: no locking, no log.
  };
  /// Path ":memory:NAME": a database of that name in this process, gone with its last connection.
  Database(const std::string& path, Open how, std::chrono::milliseconds busy = std::chrono::milliseconds{1'000});
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// One or several statements without parameters whose rows nobody wants.
  void run(const char* sql);
  void run(const std::string& sql) { run(sql.c_str()); }
  /// The first column of the first row; nothing: no row, or NULL.
  [[nodiscard]] std::optional<std::int64_t> number(const std::string& sql);
  [[nodiscard]] std::optional<std::string> text(const std::string& sql);
  /// Rows that the last INSERT, UPDATE or DELETE changed.
  [[nodiscard]] std::int64_t changes() const;
  [[nodiscard]] std::int64_t last_rowid() const;
  [[nodiscard]] bool in_transaction() const;
  /// From now on log_pages() is told, and SQLite writes nothing back by itself.
  void count_log_pages();
  /// Of the write-ahead log, as the last commit of this connection left it.
  [[nodiscard]] std::int64_t log_pages() const { return log_pages_; }
  /// How long to wait for a lock that another process holds.
  void be_patient(std::chrono::milliseconds busy);
  /// Goes on with the file of `other`, which has the same schema: statements of this connection, none of them under
  /// way, are prepared anew there. Throws SqlError, and is as it was then.
  void become(Database&& other);
  [[nodiscard]] sqlite3* raw() { return db_; }

 private:
  friend class Statement;
  static int count_log(void* self, sqlite3* db, const char* name, int pages);
  sqlite3* db_ = nullptr;
  std::int64_t log_pages_ = 0;
  bool counts_log_ = false;
  Statement* first_ = nullptr;  // Of those that live.
};

/// Prepared once, used often, within its connection's life:  for (statement.bind(1, id); statement.step();)
/// use(statement.text(0));
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Parameters count from 1. Texts and blobs must live until the next reset() or bind() in their place.
  Statement& bind(int at, std::int64_t value);
  Statement& bind(int at, int value) { return bind(at, std::int64_t{value}); }
  Statement& bind(int at, bool value) { return bind(at, std::int64_t{value ? 1 : 0}); }
  Statement& bind(int at, std::string_view value);
  Statement& bind(int at, const char* value) { return bind(at, std::string_view{value}); }
  Statement& bind(int at, const std::string& value) { return bind(at, std::string_view{value}); }
  Statement& bind(int at, std::nullptr_t);
  Statement& bind_blob(int at, std::string_view bytes);
  Statement& bind_blob(int at, std::span<const std::uint8_t> bytes);
  template <typename T>
  Statement& bind(int at, const std::optional<T>& value) {
    return value ? bind(at, *value) : bind(at, nullptr);
  }
  [[nodiscard]] int parameters() const;

  /// True: there is a row. False: no more, and the statement is as new (parameters stay bound).
  bool step();
  /// To the end, whatever rows come.
  void run();
  void reset();

  // Columns count from 0. Views live until the next step() or reset().
  [[nodiscard]] int columns() const;
  [[nodiscard]] std::string_view name(int column) const;
  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t number(int column) const;  // NULL: 0.
  [[nodiscard]] std::optional<std::int64_t> maybe_number(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] std::string_view text(int column) const;  // NULL: empty.
  [[nodiscard]] std::string_view blob(int column) const;

 private:
  friend class Database;
  void enlist();
  void strike_off();
  sqlite3_stmt* statement_ = nullptr;
  Database* database_ = nullptr;
  Statement *before_ = nullptr, *after_ = nullptr;  // Among those of its connection.
};

/// Leaving it without commit() rolls back.
class Transaction {
 public:
  enum class Kind : std::uint8_t { Read, Write };
  Transaction(Database& database, Kind kind);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace ledger
