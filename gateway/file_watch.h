#pragma once
// Has a file become another one? Seen at once for writes, for the renames of editors, and for swaps of any symbolic
// link on the way to it, such as the `..data` of a Kubernetes ConfigMap.

#include <chrono>
#include <set>
#include <string>

namespace gateway {

/// Which file stands under a name, and in which state.
struct FileStamp {
  bool there = false;
  unsigned long long device = 0, inode = 0;
  long long size = 0, changed = 0, written = 0;  // Nanoseconds since 1970.
  bool operator==(const FileStamp&) const = default;
};
[[nodiscard]] FileStamp stamp_of(const std::string& file);

/// One thread.
class FileWatch {
 public:
  /// Without inotify (no descriptor, no kernel support) it is a poll of the stamp. `use_inotify`: for tests of that.
  explicit FileWatch(std::string file, bool use_inotify = true);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  [[nodiscard]] const std::string& file() const { return file_; }
  /// Readable when something has happened near the file; -1: there is none.
  [[nodiscard]] int descriptor() const { return inotify_; }
  /// When to look at the stamp although nothing was heard: soon without inotify; seldom with it, for what it does not
  /// hear of (network file systems, an overflow).
  [[nodiscard]] std::chrono::milliseconds look_again() const;
  /// Forgets what was heard and listens along the way to the file as it is now. Before stamp_of(), not after.
  void listen();

 private:
  std::string file_;
  int inotify_ = -1;
  bool complete_ = false;    // Every folder on the way is listened to.
  std::set<int> watches_{};  // Of the folders on the way as it was last.
};

}  // namespace gateway
