#include "gateway/file_watch.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <system_error>
#include <utility>

namespace gateway {
namespace {

using std::chrono::milliseconds;
namespace fs = std::filesystem;

constexpr milliseconds kSeldom{10'000};
constexpr milliseconds kSoon{1'000};
constexpr int kLinksMax = 40;
// Not IN_MODIFY: a database that writes in the same folder would wake us all day. A file's writer closes it.
constexpr std::uint32_t kEvents = IN_CLOSE_WRITE | IN_ATTRIB | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                                  IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

long long nanoseconds(const timespec& time) {
  return static_cast<long long>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// The folders whose entries decide what stands under this name: of each symbolic link on the way, and of the file.
std::set<fs::path> folders_on_the_way(const fs::path& file) {
  std::set<fs::path> folders;
  std::error_code error;
  const fs::path whole = fs::absolute(file, error);
  std::deque<fs::path> rest(whole.begin(), whole.end());
  fs::path done;  // Without any link.
  for (int links = 0; !rest.empty() && links < kLinksMax;) {
    const fs::path part = rest.front();
    rest.pop_front();
    const fs::path target = fs::read_symlink(done / part, error);
    if (!error || rest.empty()) folders.insert(done);
    if (error) {
      done /= part;
      continue;
    }
    ++links;
    if (target.is_absolute()) done.clear();
    rest.insert(rest.begin(), target.begin(), target.end());
  }
  return folders;
}

}  // namespace

FileStamp stamp_of(const std::string& file) {
  struct stat about {};
  if (::stat(file.c_str(), &about) != 0) return {};
  return {true,
          about.st_dev,
          about.st_ino,
          static_cast<long long>(about.st_size),
          nanoseconds(about.st_ctim),
          nanoseconds(about.st_mtim)};
}

FileWatch::FileWatch(std::string file, bool use_inotify)
    : file_(std::move(file)), inotify_(use_inotify ? ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC) : -1) {
  listen();
}

FileWatch::~FileWatch() {
  if (inotify_ >= 0) ::close(inotify_);
}

milliseconds FileWatch::look_again() const { return complete_ ? kSeldom : kSoon; }

void FileWatch::listen() {
  if (inotify_ < 0) return;
  alignas(inotify_event) std::array<char, 16384> heard;
  while (::read(inotify_, heard.data(), heard.size()) > 0 || errno == EINTR) {
  }
  complete_ = true;
  std::set<int> now;
  for (const fs::path& folder : folders_on_the_way(file_)) {
    // The same number again for a folder that is listened to already.
    const int watch = ::inotify_add_watch(inotify_, folder.c_str(), kEvents);
    if (watch >= 0) now.insert(watch);
    complete_ = complete_ && watch >= 0;
  }
  for (const int watch : watches_) {
    if (!now.contains(watch)) ::inotify_rm_watch(inotify_, watch);
  }
  watches_ = std::move(now);
}

}  // namespace gateway
