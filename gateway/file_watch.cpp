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
// Not IN_MODIFY of a folder: a database that writes in the same folder would wake us all day. A file's writer closes
// it.
constexpr std::uint32_t kEvents = IN_CLOSE_WRITE | IN_ATTRIB | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                                  IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
constexpr std::uint32_t kOwnEvents = IN_MODIFY | IN_CLOSE_WRITE;

long long nanoseconds(const timespec& time) {
  return static_cast<long long>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

struct Way {
  std::set<fs::path> folders{};  // Whose entries decide what stands under a name: of each link, and of the file.
  fs::path end{};                // The file, without any link.
};
Way way_to(const fs::path& file) {
  Way way;
  std::error_code error;
  const fs::path whole = fs::absolute(file, error);
  std::deque<fs::path> rest(whole.begin(), whole.end());
  fs::path done;  // Without any link.
  for (int links = 0; !rest.empty() && links < kLinksMax;) {
    const fs::path part = rest.front();
    rest.pop_front();
    const fs::path target = fs::read_symlink(done / part, error);
    if (!error || rest.empty()) way.folders.insert(done);
    if (error) {
      done /= part;
      continue;
    }
    ++links;
    if (target.is_absolute()) done.clear();
    rest.insert(rest.begin(), target.begin(), target.end());
  }
  way.end = done;
  return way;
}

/// And not a second name of a file that was there before.
bool is_new_file(const std::string& file) {
  struct stat about {};
  return ::lstat(file.c_str(), &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 1;
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

void FileWatch::hear(const inotify_event& event) {
  if ((event.mask & IN_Q_OVERFLOW) != 0) {  // Its end may have been among what was lost.
    created_ = modified_ = moved_in_ = false;
    return;
  }
  const bool own = event.wd == itself_;
  // By its name only: who goes on writing to a file that was replaced does not write to ours.
  const bool named = event.wd == last_folder_ && event.len > 0 && fs::path{way_end_}.filename() == event.name;
  if (!own && !named) return;
  if ((event.mask & IN_MODIFY) != 0) {
    modified_ = true;
    moved_in_ = false;
  }
  if ((event.mask & IN_CREATE) != 0) {
    created_ = is_new_file(way_end_);
    moved_in_ = false;
  }
  if ((event.mask & IN_CLOSE_WRITE) != 0) created_ = modified_ = false;
  if ((event.mask & (IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE)) != 0) {
    created_ = modified_ = false;
    moved_in_ = (event.mask & IN_MOVED_TO) != 0;
  }
}

void FileWatch::listen() {
  if (inotify_ < 0) return;
  alignas(inotify_event) std::array<char, 16384> heard;
  for (;;) {
    const ssize_t bytes = ::read(inotify_, heard.data(), heard.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    for (ssize_t at = 0; at < bytes;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(heard.data() + at);
      hear(*event);
      at += static_cast<ssize_t>(sizeof *event + event->len);
    }
  }
  const Way way = way_to(file_);
  if (way.end != way_end_) created_ = modified_ = moved_in_ = false;
  way_end_ = way.end;
  complete_ = true;
  std::set<int> now;
  for (const fs::path& folder : way.folders) {
    // The same number again for a folder that is listened to already.
    const int watch = ::inotify_add_watch(inotify_, folder.c_str(), kEvents);
    if (watch >= 0) now.insert(watch);
    if (folder == way.end.parent_path()) last_folder_ = watch;
    complete_ = complete_ && watch >= 0;
  }
  const int itself = ::inotify_add_watch(inotify_, way_end_.c_str(), kOwnEvents);
  if (itself != itself_) modified_ = false;
  itself_ = itself;
  if (itself >= 0) now.insert(itself);
  for (const int watch : watches_) {
    if (!now.contains(watch)) ::inotify_rm_watch(inotify_, watch);
  }
  watches_ = std::move(now);
}

}  // namespace gateway
