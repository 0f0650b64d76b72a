#pragma once
// How does a ledger's file come to be open? Lock, check, schema, or why not.

#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "ledger/sql.h"
#include "ledger/store.h"

namespace ledger {

/// "CGL1": what `file` and a look at the header's bytes 68 to 71 tell of it.
inline constexpr std::int64_t kApplicationId = 0x43474c31;

/// A file beside the ledger that one process has locked: PATH-lock, with its pid. The kernel frees it when the
/// process ends, however it ends; the file itself stays, since removing it would let two hold "the" lock.
class FileLock {
 public:
  [[nodiscard]] static std::expected<FileLock, Problem> take(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

struct OpenFile {
  std::unique_ptr<FileLock> lock{};  // None in memory.
  std::unique_ptr<Database> database{};
  std::string path{};       // As Database wants it.
  std::string set_aside{};  // Where a broken file went.
};

/// Ready to be written: mode 0600, write-ahead log, newest schema, checked as far as that takes no longer than
/// `kCheckFor`.
[[nodiscard]] std::expected<OpenFile, Problem> open_file(const StoreOptions& options);
inline constexpr std::chrono::milliseconds kCheckFor{1'000};

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

}  // namespace ledger
