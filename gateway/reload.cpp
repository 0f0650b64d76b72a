#include "gateway/reload.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "gateway/config_values.h"

namespace gateway {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kQuiet{100};       // For so long a changed file must stay as it is before it is read.
constexpr milliseconds kRestless{2'000};  // But one that never rests is read all the same.
constexpr milliseconds kVanished{2'000};  // A file that editors or deployments replace is away for a moment.

/// As if `path` had been decided in `fresh` as it was before.
void put_back(std::string_view path, const Loaded& running, Loaded& fresh) {
  std::erase_if(fresh.settings, [&](const Setting& s) { return text_of(s.path) == path; });
  for (const Setting& setting : running.settings) {
    if (text_of(setting.path) == path) fresh.settings.insert(fresh.settings.begin(), setting);
  }
}

bool is_loopback(const std::string& address) {
  const auto read = read_address(address);
  return read && read->loopback;
}

}  // namespace

std::string_view name_of(ReloadCause cause) {
  constexpr std::string_view kNames[] = {"signal", "file_change", "admin"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::string_view name_of(ReloadReport::Result result) { return kReloadResults[static_cast<std::size_t>(result)]; }

std::vector<Change> changes(std::span<const Setting> before, std::span<const Setting> after) {
  std::map<std::string, std::string> old;
  for (const Setting& setting : before) old[text_of(setting.path)] = setting.value;
  std::vector<Change> all;
  for (const Setting& setting : after) {
    const std::string path = text_of(setting.path);
    const auto was = old.extract(path);
    const std::string from = was ? was.mapped() : std::string{};
    if (!was || from != setting.value) all.push_back({path, from, setting.value});
  }
  for (const auto& [path, value] : old) all.push_back({path, value, {}});
  return all;
}

std::vector<std::string> keep_until_restart(const Loaded& running, Loaded& fresh) {
  std::vector<std::string> keys;
  const Config::Listen& now = running.config.listen;
  Config::Listen& wanted = fresh.config.listen;
  const auto keep = [&](std::string_view key, const auto& held, auto& asked) {
    if (held == asked) return;
    keys.emplace_back(key);
    asked = held;
    put_back(key, running, fresh);
  };
  keep("listen.data", now.data, wanted.data);
  keep("listen.health", now.health, wanted.health);
  keep("listen.admin", now.admin, wanted.admin);
  // Where others can reach us, the token may become another one but not none.
  if (!is_loopback(now.admin) && !wanted.admin_token.given()) {
    keep("listen.admin_token", now.admin_token, wanted.admin_token);
  }
  return keys;
}

Loaded load_again(const std::string& file, const Overrides& overrides) {
  Loaded loaded = load_config(file, overrides);
  const FileStamp stamp = stamp_of(file);
  if (!file.empty() && stamp.there && stamp.size == 0) {
    Problem problem;
    problem.kind = Problem::Kind::Unreadable;
    problem.file = file;
    problem.message =
        "it is empty, which would set everything back to the defaults; write {} into it if that is meant";
    loaded.problems.push_back(std::move(problem));
  }
  return loaded;
}

class Reloader::Impl {
 public:
  Impl(const std::string& file, const FileStamp& seen, Doors doors)
      : doors_(std::move(doors)), waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (waker_ < 0) throw std::runtime_error("no event descriptor for reloads: out of descriptors?");
    if (!file.empty()) watch_.emplace(file);
    seen_ = seen;
    thread_ = std::thread{[this] { run(); }};
  }
  ~Impl() {
    {
      const std::scoped_lock lock{mutex_};
      stopping_ = true;
    }
    served_.notify_all();
    ::eventfd_write(waker_, 1);
    thread_.join();
    ::close(waker_);
  }

  std::uint64_t ask(ReloadCause cause) {
    std::uint64_t ticket = 0;
    {
      const std::scoped_lock lock{mutex_};
      ticket = ++asked_;
      cause_ = cause;
    }
    ::eventfd_write(waker_, 1);
    return ticket;
  }

  std::optional<ReloadReport> wait(std::uint64_t ticket, milliseconds patience) {
    std::unique_lock lock{mutex_};
    served_.wait_for(lock, patience, [&] { return done_ >= ticket || stopping_; });
    return done_ >= ticket ? last_ : std::nullopt;
  }

 private:
  void run() {
    // Signals are for the threads that wait for them.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    bool look = watch_ && stamp_of(watch_->file()) != seen_;  // It may have changed since the start.
    for (;;) {
      if (!std::exchange(look, false))
        rest(watch_ ? std::optional{watch_->look_again()} : std::nullopt, watch_ ? watch_->descriptor() : -1);
      if (stopping()) return;
      if (!asked() && !(watch_ && file_changed())) continue;
      if (stopping()) return;
      reload();
    }
  }

  /// Until somebody asks, something is heard on the descriptor, or the time is up.
  void rest(std::optional<milliseconds> patience, int descriptor) {
    std::array<pollfd, 2> polled = {{{waker_, POLLIN, 0}, {descriptor, POLLIN, 0}}};
    ::poll(polled.data(), polled.size(), patience ? static_cast<int>(patience->count()) : -1);
    eventfd_t heard = 0;
    ::eventfd_read(waker_, &heard);
  }
  bool stopping() {
    const std::scoped_lock lock{mutex_};
    return stopping_;
  }
  bool asked() {
    const std::scoped_lock lock{mutex_};
    return asked_ > done_;
  }

  /// It is another one than was read last, and has come to rest.
  bool file_changed() {
    watch_->listen();
    FileStamp now = stamp_of(watch_->file());
    if (now == seen_) return false;
    const auto begin = Clock::now();
    for (;;) {
      rest(kQuiet, -1);
      if (stopping() || asked()) return true;
      const FileStamp later = stamp_of(watch_->file());
      const bool usable = later.there && later.size > 0;
      const auto patience = usable ? kRestless : kVanished;
      if ((later == now && usable) || Clock::now() - begin >= patience) break;
      now = later;
    }
    watch_->listen();
    return stamp_of(watch_->file()) != seen_;
  }

  void reload() {
    std::uint64_t serving = 0;
    ReloadCause cause = ReloadCause::FileChange;
    {
      const std::scoped_lock lock{mutex_};
      serving = asked_;
      if (asked_ > done_) cause = cause_;
    }
    // What changes from here on is the next reload's.
    if (watch_) {
      watch_->listen();
      seen_ = stamp_of(watch_->file());
    }
    std::optional<ReloadReport> report = doors_.take(doors_.read(), cause);
    {
      const std::scoped_lock lock{mutex_};
      done_ = serving;
      last_ = std::move(report);
    }
    served_.notify_all();
  }

  const Doors doors_;
  const int waker_;
  std::optional<FileWatch> watch_{};  // The thread's own, as is seen_.
  FileStamp seen_{};

  std::mutex mutex_{};
  std::condition_variable served_{};
  std::uint64_t asked_ = 0;  // Tickets given out, …
  std::uint64_t done_ = 0;   // … and served.
  ReloadCause cause_ = ReloadCause::Signal;
  std::optional<ReloadReport> last_{};
  bool stopping_ = false;
  std::thread thread_{};
};

Reloader::Reloader(const std::string& file, const FileStamp& seen, Doors doors)
    : impl_(std::make_unique<Impl>(file, seen, std::move(doors))) {}
Reloader::~Reloader() = default;
void Reloader::ask(ReloadCause cause) { impl_->ask(cause); }
std::optional<ReloadReport> Reloader::ask_and_wait(ReloadCause cause, milliseconds patience) {
  return impl_->wait(impl_->ask(cause), patience);
}

}  // namespace gateway
