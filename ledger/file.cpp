#include "ledger/file.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "ledger/schema.h"

namespace ledger {
namespace {

using std::chrono::milliseconds;

Problem unusable(std::string text) { return {Problem::Kind::Unusable, std::move(text)}; }

std::string errno_text() { return std::strerror(errno); }

/// Each memory database is one of its own, though its two connections find it by name.
std::string memory_name() {
  static std::atomic<int> count{0};
  return ":memory:callgate-" + std::to_string(++count);
}

/// Behind all that SQLite reads, writes or locks: its largest file has 2^48 bytes.
constexpr off_t kLockAt = off_t{1} << 50;
constexpr int kMostLinks = 40;  // As the kernel has it.
constexpr std::string_view kMending = ".mending";
constexpr std::string_view kBeside[] = {"-shm", "-wal", "-journal"};

/// Log and index are named after the file that symbolic links lead to; so is all else that stands beside it.
std::string behind_links(const std::string& path) {
  std::filesystem::path at = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(at, error); ++i) {
    const std::filesystem::path to = std::filesystem::read_symlink(at, error);
    if (error) return path;
    at = to.is_absolute() ? to : at.parent_path() / to;
  }
  return at.string();
}

FileId id_of(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
}

FileId id_at(const std::string& name) {
  struct stat status {};
  return ::stat(name.c_str(), &status) == 0 ? id_of(status) : FileId{};
}

/// Log and index are there from the first look into the file on.
void remember_place(OpenFile& file) {
  (void)file.database->number("SELECT count(*) FROM sqlite_schema");
  file.file = id_at(file.path);
  file.log = id_at(file.path + "-wal");
  file.index = id_at(file.path + "-shm");
}

void set_up(Database& database, const StoreOptions& options, bool in_memory) {
  // A page that is not as it should be is told, not used.
  database.run("PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY");
  // Deleted answers leave nothing readable where that costs no extra writing.
  database.run("PRAGMA secure_delete = FAST");
  // Of a new file. A call touches a dozen pages, and each goes whole into the log: small ones cost half the CPU of 4
  // KiB (bench/ledger).
  database.run("PRAGMA page_size = 1024");
  if (in_memory) return;
  // An empty log and the index stay when it is closed: on a full disk they could not be made anew, and then nothing
  // of what was remembered could be read at the next start.
  int persist = 1;
  sqlite3_file_control(database.raw(), "main", SQLITE_FCNTL_PERSIST_WAL, &persist);
  const std::optional<std::string> mode = database.text("PRAGMA journal_mode = WAL");
  if (mode != "wal") throw SqlError(SQLITE_CANTOPEN, "this file system cannot hold a write-ahead log");
  set_durability(database, options.commit);
  // Once less is in the log, it does not keep its greatest size.
  database.run("PRAGMA journal_size_limit = 33554432");
  database.count_log_pages();
}

/// Before anything is changed there.
std::expected<void, Problem> known(Database& database, const std::string& path) {
  const std::int64_t version = database.number("PRAGMA user_version").value_or(0);
  const bool ours = database.number("PRAGMA application_id").value_or(0) == kApplicationId;
  if (!ours && database.number("SELECT count(*) FROM sqlite_schema").value_or(0) != 0) {
    return std::unexpected(
        unusable(path + ": this is another program's database; set store.path to a file of callgate's own"));
  }
  if (version > kSchemaVersion) {
    return std::unexpected(Problem{Problem::Kind::Newer,
                                   path + ": written by a newer callgate (schema " + std::to_string(version) +
                                       ", this one knows " + std::to_string(kSchemaVersion) +
                                       "): use that version, or its backup from before the upgrade"});
  }
  return {};
}

/// One transaction, so that a crash leaves no half of a schema.
void migrate(Database& database) {
  if (database.number("PRAGMA user_version").value_or(0) == kSchemaVersion) return;
  Transaction transaction(database, Transaction::Kind::Write);
  database.run(std::string{schema_sql()});
  database.run("PRAGMA application_id = " + std::to_string(kApplicationId));
  database.run("PRAGMA user_version = " + std::to_string(kSchemaVersion));
  transaction.commit();
}

/// "20261130T094500Z"
std::string stamp(std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts)};
}

/// With its log, which may hold what the file lacks.
std::expected<std::string, Problem> set_aside(const std::string& path, std::chrono::system_clock::time_point now) {
  const std::string to = free_name(path, "broken", now);
  for (const char* ending : {"-shm", "-wal", ""}) {
    std::error_code error;
    if (!std::filesystem::exists(path + ending, error)) continue;
    std::filesystem::rename(path + ending, to + ending, error);
    if (error) {
      return std::unexpected(Problem{
          Problem::Kind::Broken,
          path + ending + ": is damaged and cannot be set aside (" + error.message() + "): move it away by hand"});
    }
  }
  return to;
}

std::expected<OpenFile, Problem> open_once(const StoreOptions& options, const std::string& path, bool in_memory,
                                           std::string& broken) {
  OpenFile file;
  file.path = path;
  try {
    file.database = std::make_unique<Database>(path, Database::Open::Write);
    const std::expected<void, Problem> ours = known(*file.database, path);
    if (!ours) return std::unexpected(ours.error());
    set_up(*file.database, options, in_memory);
    const Inspection found = inspect(*file.database, 1, kCheckFor);
    if (!found.wrong.empty()) {
      broken = found.wrong.front();
      return std::unexpected(Problem{});
    }
    migrate(*file.database);
    if (!in_memory) remember_place(file);
    return file;
  } catch (const SqlError& error) {
    if (error.of_the_file()) {
      broken = error.what();
      return std::unexpected(Problem{});
    }
    return std::unexpected(unusable(trouble_text(path, error)));
  }
}

}  // namespace

std::expected<FileLock, Problem> FileLock::take(const std::string& path) {
  const std::string name = path + "-lock";
  const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return std::unexpected(unusable(name + ": cannot be opened for writing (" + errno_text() +
                                    "): store.path must be in a folder that callgate may write to"));
  }
  FileLock lock(fd);
  std::array<char, 32> text{};
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return std::unexpected(unusable(name + ": cannot be locked (" + errno_text() + ")"));
    const ssize_t size = ::pread(fd, text.data(), text.size() - 1, 0);
    std::string pid(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    while (!pid.empty() && pid.back() == '\n') pid.pop_back();
    return std::unexpected(Problem{Problem::Kind::InUse,
                                   path + ": another callgate works with it" +
                                       (pid.empty() ? std::string{} : " (process " + pid + ")") +
                                       ": stop that one, or give this one a store.path of its own"});
  }
  // Only for people who look; without it (a full disk) the lock holds all the same.
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd, 0) == 0) (void)!::pwrite(fd, pid.data(), pid.size(), 0);
  return lock;
}

std::expected<FileLock, Problem> FileLock::take_itself(const std::string& path) {
  // SQLite gives its log and index the same mode as the file has.
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    const std::string why = errno_text();
    std::string mend = "see its permissions";
    if (errno == ENOENT) mend = "make the folder " + std::filesystem::path(path).parent_path().string() + " first";
    if (errno == EROFS) mend = "the file system is mounted read-only; set store.path to one that is not";
    if (errno == EISDIR) mend = "store.path must name a file";
    return std::unexpected(unusable(path + ": cannot be opened for writing (" + why + "): " + mend));
  }
  FileLock lock(fd);
  struct flock byte {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = kLockAt;
  byte.l_len = 1;
  // A file system that knows no such locks leaves the one by name.
  if (::fcntl(fd, F_OFD_SETLK, &byte) == 0 || (errno != EAGAIN && errno != EACCES)) return lock;
  return std::unexpected(Problem{Problem::Kind::InUse,
                                 path + ": another callgate works with this very file under another name (a hard "
                                        "link, a bind mount): stop that one, or give this one a store.path of its "
                                        "own"});
}

bool FileLock::stands_at(const std::string& name) const {
  struct stat status {};
  return ::fstat(fd_, &status) == 0 && id_of(status) == id_at(name);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

void set_durability(Database& database, Commit commit) {
  // NORMAL syncs before the log begins anew only, so that after a power cut the file is whole and lacks the last
  // moments; OFF would not do more for a process that dies, whose writes are the kernel's already, and could leave a
  // torn file (https://www.sqlite.org/pragma.html#pragma_synchronous, https://www.sqlite.org/wal.html §2.2). FULL
  // syncs the log at each commit.
  database.run(commit == Commit::Disk ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
}

Inspection inspect(Database& database, int most, milliseconds patience) {
  Inspection found;
  // The walk over the pages asks no progress handler, but heeds an interruption.
  std::atomic<bool> over = false;
  std::mutex mutex;
  std::condition_variable_any done;
  std::jthread alarm{[&](const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    done.wait_for(lock, stop, patience, [] { return false; });
    if (stop.stop_requested()) return;
    over = true;
    sqlite3_interrupt(database.raw());
  }};
  try {
    Statement check(database, "PRAGMA quick_check(" + std::to_string(most) + ")");
    // Of a walk that was broken off it says that pages are used by nobody.
    while (check.step() && !over) {
      if (check.text(0) != "ok") found.wrong.emplace_back(check.text(0));
    }
  } catch (const SqlError& error) {
    if (error.of_the_file()) {
      found.wrong.emplace_back(error.what());
    } else if (error.primary() != SQLITE_INTERRUPT) {
      throw;
    }
  }
  alarm.request_stop();
  alarm.join();
  found.whole = !over || !found.wrong.empty();
  return found;
}

std::string trouble_text(const std::string& path, const SqlError& error) {
  struct Mend {
    int code;  // Primary.
    std::string_view what;
    std::string_view mend;
  };
  static constexpr Mend kMends[] = {
      {SQLITE_FULL, "the disk is full", "free some space there"},
      {SQLITE_IOERR, "the disk gave an error", "see the kernel's log and the volume"},
      {SQLITE_READONLY, "cannot be written", "see its permissions, and whether the volume is mounted read-only"},
      {SQLITE_PERM, "cannot be written", "see its permissions, and whether the volume is mounted read-only"},
      {SQLITE_BUSY, "another program has locked it", "end what holds it (fuser names it)"},
      {SQLITE_LOCKED, "another program has locked it", "end what holds it (fuser names it)"},
      {SQLITE_CANTOPEN, "cannot be opened", "see whether the volume is there, and its permissions"},
      {SQLITE_NOMEM, "there was no memory for it", "give callgate more"},
      {SQLITE_CORRUPT, "is damaged", "start callgate anew: it sets the file aside and begins another"},
      {SQLITE_NOTADB, "is no database", "start callgate anew: it sets the file aside and begins another"},
  };
  std::string text = path + ": ";
  if (error.code() == kMoved) {
    return text.append("was removed or replaced while callgate works with it: what is known is to be written into a ")
        .append("new file; until then rows wait");
  }
  for (const Mend& row : kMends) {
    if (row.code != error.primary()) continue;
    return text.append(row.what).append(" (").append(error.what()).append("): ").append(row.mend);
  }
  return text.append("cannot be written (").append(error.what()).append(")");
}

std::expected<OpenFile, Problem> open_file(const StoreOptions& options) {
  const bool in_memory = options.path == ":memory:";
  const std::string path = in_memory ? memory_name() : behind_links(options.path);
  const std::string given = path == options.path || in_memory ? std::string{} : options.path;
  std::shared_ptr<FileLock> by_name;
  std::string aside;
  if (!in_memory) {
    std::expected<FileLock, Problem> taken = FileLock::take(path);
    if (!taken) return std::unexpected(taken.error());
    by_name = std::make_shared<FileLock>(std::move(*taken));
  }
  for (int tries = 0;; ++tries) {
    std::shared_ptr<FileLock> itself;
    if (!in_memory) {
      std::expected<FileLock, Problem> taken = FileLock::take_itself(path);
      if (!taken) return std::unexpected(taken.error());
      itself = std::make_shared<FileLock>(std::move(*taken));
    }
    std::string broken;
    std::expected<OpenFile, Problem> file = open_once(options, path, in_memory, broken);
    if (file) {
      file->by_name = std::move(by_name);
      file->itself = std::move(itself);
      file->given = given;
      file->set_aside = aside;
      return file;
    }
    if (broken.empty()) return std::unexpected(file.error());
    if (tries > 0 || !options.set_aside_if_broken) {
      return std::unexpected(
          Problem{Problem::Kind::Broken,
                  path + ": is damaged (" + broken + "): put a backup in its place, or move it away to begin anew"});
    }
    std::expected<std::string, Problem> to = set_aside(path, options.now());
    if (!to) return std::unexpected(to.error());
    aside = std::move(*to);
  }
}

std::string place_name(const OpenFile& file) {
  return !file.given.empty() && id_at(file.given) != id_at(file.path) ? file.given : file.path;
}

Place place_of(const OpenFile& file) {
  const std::string name = place_name(file);
  const FileId there = id_at(name);
  if (there == file.file) {
    const bool whole = id_at(file.path + "-wal") == file.log && id_at(file.path + "-shm") == file.index;
    return whole ? Place::Same : Place::Gone;
  }
  std::error_code error;
  return there == FileId{} || std::filesystem::file_size(name, error) == 0 ? Place::Gone : Place::Anothers;
}

void forget_log(const OpenFile& file) {
  if (id_at(file.path + "-wal") == file.log) ::unlink((file.path + "-wal").c_str());
  if (id_at(file.path + "-shm") == file.index) ::unlink((file.path + "-shm").c_str());
}

std::string free_name(const std::string& path, const std::string& why, std::chrono::system_clock::time_point now) {
  const std::string name = path + "." + why + "-" + stamp(now);
  std::string to = name;
  std::error_code error;
  for (int i = 2; std::filesystem::exists(to, error) && i < 1'000; ++i) to = name + "-" + std::to_string(i);
  return to;
}

bool holds_rows(Database& database) {
  constexpr std::string_view kTables[] = {
      "calls", "spend_by_period", "idempotency", "events", "pauses", "grants", "dead_letters", "audit", "runs"};
  return std::ranges::any_of(kTables, [&](std::string_view table) {
    return database.number("SELECT 1 FROM " + std::string{table} + " LIMIT 1").has_value();
  });
}

void copy_rows(Database& from, const std::string& to, const std::function<bool()>& go_on) {
  constexpr int kPages = 256;
  Database target(to, Database::Open::Write);
  {
    // A copy that was begun with one snapshot ends with it, however much is written meanwhile.
    Transaction snapshot(from, Transaction::Kind::Read);
    (void)from.number("SELECT count(*) FROM sqlite_schema");
    sqlite3_backup* copy = sqlite3_backup_init(target.raw(), "main", from.raw(), "main");
    if (copy == nullptr) throw SqlError(sqlite3_extended_errcode(target.raw()), sqlite3_errmsg(target.raw()));
    int code = SQLITE_OK;
    do {
      code = go_on() ? sqlite3_backup_step(copy, kPages) : SQLITE_INTERRUPT;
    } while (code == SQLITE_OK);
    sqlite3_backup_finish(copy);
    if (code != SQLITE_DONE) throw SqlError(code, sqlite3_errstr(code));
  }
  // A single file: whoever opens it needs no log beside it.
  target.run("PRAGMA journal_mode = DELETE");
}

std::expected<OpenFile, Problem> open_copy(const OpenFile& from, const std::string& path, const StoreOptions& options,
                                           const std::function<bool()>& go_on) {
  OpenFile file;
  file.path = path;
  file.by_name = from.by_name;
  // What a try that fails leaves behind would add up.
  struct Traces {
    std::vector<std::string> files{};
    ~Traces() {
      std::error_code ignored;
      for (const std::string& file : files) std::filesystem::remove(file, ignored);
    }
  } traces;
  // Who removes all that begins with its name removes the lock too.
  if (!file.by_name || !file.by_name->stands_at(path + "-lock")) {
    std::expected<FileLock, Problem> taken = FileLock::take(path);
    if (!taken) return std::unexpected(taken.error());
    file.by_name = std::make_shared<FileLock>(std::move(*taken));
    traces.files.push_back(path + "-lock");
  }
  const std::string fresh = path + std::string{kMending};
  std::error_code error;
  const auto clear = [&] {
    for (const std::string_view ending : kBeside) std::filesystem::remove(fresh + std::string{ending}, error);
    std::filesystem::remove(fresh, error);
  };
  clear();
  std::expected<FileLock, Problem> itself = FileLock::take_itself(fresh);
  if (!itself) return std::unexpected(itself.error());
  file.itself = std::make_shared<FileLock>(std::move(*itself));
  try {
    copy_rows(*from.database, fresh, go_on);
  } catch (const SqlError&) {
    clear();
    throw;
  }
  // The file first: should we die between the two, a log of the old one brings it to where it is already.
  std::filesystem::rename(fresh, path, error);
  if (error) {
    clear();
    return std::unexpected(unusable(path + ": cannot be written anew (" + error.message() + ")"));
  }
  // Else the next look would take our own copy for somebody's file.
  traces.files.push_back(path);
  for (const std::string_view ending : kBeside) {
    std::filesystem::remove(path + std::string{ending}, error);
    traces.files.push_back(path + std::string{ending});
  }
  file.database = std::make_unique<Database>(path, Database::Open::Again);
  set_up(*file.database, options, false);
  remember_place(file);
  traces.files.clear();
  return file;
}

}  // namespace ledger
