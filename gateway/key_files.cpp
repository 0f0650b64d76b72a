#include "gateway/key_files.h"

#include <pthread.h>

#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "gateway/config_files.h"
#include "gateway/file_watch.h"

namespace gateway {
namespace {

constexpr std::chrono::milliseconds kLook{500};

struct Watched {
  KeySource source{};
  FileStamp known{};  // Of what was read last.
  FileStamp seen{};   // At the last look.
};

}  // namespace

class KeyFiles::Impl {
 public:
  explicit Impl(std::function<void(KeyChange)> changed) : changed_(std::move(changed)) {
    thread_ = std::thread{[this] { run(); }};
  }
  ~Impl() {
    {
      const std::scoped_lock lock{mutex_};
      stopping_ = true;
    }
    waker_.notify_all();
    thread_.join();
  }
  void watch(std::vector<KeySource> sources) {
    std::vector<Watched> fresh;
    // Read once more in any case: they may have changed since somebody read them.
    for (KeySource& source : sources) fresh.push_back({std::move(source), {}, {}});
    const std::scoped_lock lock{mutex_};
    watched_ = std::move(fresh);
    ++version_;
  }

 private:
  void run() {
    // Signals are for the threads that wait for them.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock{mutex_};
    while (!waker_.wait_for(lock, kLook, [this] { return stopping_; })) {
      // A file system that hangs must hold up nobody but us.
      std::vector<Watched> now = watched_;
      const std::uint64_t version = version_;
      lock.unlock();
      look(now);
      lock.lock();
      if (version == version_) watched_ = std::move(now);
    }
  }
  void look(std::vector<Watched>& all) {
    for (Watched& one : all) {
      const FileStamp now = stamp_of(one.source.source.name);
      const bool at_rest = now == std::exchange(one.seen, now);
      if (!at_rest || now == one.known) continue;  // One that is not there is like one that never was.
      one.known = now;
      changed_({one.source.name, read_key(one.source.source, {})});
    }
  }

  const std::function<void(KeyChange)> changed_;
  std::mutex mutex_{};
  std::condition_variable waker_{};
  bool stopping_ = false;
  std::uint64_t version_ = 0;  // Of what is watched.
  std::vector<Watched> watched_{};
  std::thread thread_{};
};

KeyFiles::KeyFiles(std::function<void(KeyChange)> changed) : impl_(std::make_unique<Impl>(std::move(changed))) {}
KeyFiles::~KeyFiles() = default;
void KeyFiles::watch(std::vector<KeySource> sources) { impl_->watch(std::move(sources)); }

}  // namespace gateway
