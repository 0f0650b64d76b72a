#pragma once
// Has a file become another one? Seen at once for writes, for the renames of editors, and for swaps of any symbolic
// link on the way to it, such as the `..data` of a Kubernetes ConfigMap.

#include <chrono>
#include <set>
#include <string>

struct inotify_event;

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
  /// Takes in what was heard and listens along the way to the file as it is now. Before stamp_of(), not after.
  void listen();

  // As of the last listen(); without inotify always no.
  /// It was written to, or made, and not closed since: what stands in it may be half of what shall.
  [[nodiscard]] bool being_written() const { return created_ || modified_; }
  /// It was renamed to its place, whole, and not written to since.
  [[nodiscard]] bool moved_in() const { return moved_in_; }

 private:
  void hear(const inotify_event& event);

  std::string file_;
  int inotify_ = -1;
  bool complete_ = false;    // Every folder on the way is listened to.
  std::set<int> watches_{};  // Of the folders on the way as it was last.
  std::string way_end_{};    // The file without any link, …
  int last_folder_ = -1;     // … the watch of the folder that it is in, …
  int itself_ = -1;          // … and its own.
  bool created_ = false;
  bool modified_ = false;
  bool moved_in_ = false;
};

}  // namespace gateway
