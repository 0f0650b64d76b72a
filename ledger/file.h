#pragma once
// How does a ledger's file come to be open? Lock, check, schema, or why not.

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ledger/sql.h"
#include "ledger/store.h"

namespace ledger {

/// "CGL1": what `file` and a look at the header's bytes 68 to 71 tell of it.
inline constexpr std::int64_t kApplicationId = 0x43474c31;

/// What one process alone may have. The kernel frees it when the process ends, however it ends.
class FileLock {
 public:
  /// A file beside the ledger, PATH-lock, with the pid of who has it. It stays, since removing it would let two hold
  /// "the" lock.
  [[nodiscard]] static std::expected<FileLock, Problem> take(const std::string& path);
  /// The file itself, made if there is none: two names of it (a hard link, a bind mount) are one. A lock of the open
  /// file, on a byte where no page can be, so that SQLite's own never meet it. It must outlive all connections to the
  /// file: closing any descriptor of a file drops SQLite's locks on it, which are the process' (fcntl(2)).
  [[nodiscard]] static std::expected<FileLock, Problem> take_itself(const std::string& path);
  /// Is what is locked what stands there?
  [[nodiscard]] bool stands_at(const std::string& name) const;
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

/// Which file it is; of one that is not there all is 0.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileId&) const = default;
};

struct OpenFile {
  // In this order, so that locks go last. None in memory.
  std::shared_ptr<FileLock> by_name{};
  std::shared_ptr<FileLock> itself{};
  std::unique_ptr<Database> database{};
  std::string path{};   // As Database wants it.
  std::string given{};  // As it was asked for, where symbolic links lead from there to `path`; else empty.
  FileId file{}, log{}, index{};
  std::string set_aside{};  // Where a broken file went.
};

/// Ready to be written: mode 0600, write-ahead log, newest schema, checked as far as that takes no longer than
/// `kCheckFor`.
[[nodiscard]] std::expected<OpenFile, Problem> open_file(const StoreOptions& options);
inline constexpr std::chrono::milliseconds kCheckFor{1'000};

/// What has become of a file that is open.
enum class Place : std::uint8_t {
  Same,      // It stands where it stood, with its log.
  Gone,      // Nothing stands there, or an empty file; or its log has gone, so that others would see less than we.
  Anothers,  // Another file stands there.
};
[[nodiscard]] Place place_of(const OpenFile& file);
/// The name that is looked at: `given`, where its links lead to `path` no longer.
[[nodiscard]] std::string place_name(const OpenFile& file);
/// Removes its log and index, where they still stand beside what has taken its place.
void forget_log(const OpenFile& file);

/// The ledger that `from` has, as a new file at `path`, where nothing of worth stands. Of `from`, which is still open
/// then, only the locks may be shared. `go_on` is asked now and then. Throws SqlError too.
[[nodiscard]] std::expected<OpenFile, Problem> open_copy(const OpenFile& from, const std::string& path,
                                                         const StoreOptions& options,
                                                         const std::function<bool()>& go_on);
/// Copies what is committed there into the file `to`, which is new or empty. Throws SqlError.
void copy_rows(Database& from, const std::string& to, const std::function<bool()>& go_on);
/// PATH.WHY-20261130T094500Z, or with a number behind it: there is nothing of that name.
[[nodiscard]] std::string free_name(const std::string& path, const std::string& why,
                                    std::chrono::system_clock::time_point now);
/// Whether it has any row at all.
[[nodiscard]] bool holds_rows(Database& database);

/// What is synced when; of the connection alone.
void set_durability(Database& database, Commit commit);

/// What is wrong with a file's inside, at most `most` lines; empty: nothing was found. Stops after `patience` (then
/// `whole` is false). Throws SqlError.
struct Inspection {
  std::vector<std::string> wrong{};
  bool whole = true;
};
[[nodiscard]] Inspection inspect(Database& database, int most, std::chrono::milliseconds patience);

/// Why it cannot be written now, and what helps: "/data/callgate.db: the disk is full (…): free some space".
[[nodiscard]] std::string trouble_text(const std::string& path, const SqlError& error);
/// As SQLite calls a file that is not where it was opened (SQLITE_READONLY_DBMOVED).
inline constexpr int kMoved = 1'032;

}  // namespace ledger
