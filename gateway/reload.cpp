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
#include "gateway/weaker_contracts.h"

namespace gateway {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kQuiet{100};        // For so long a changed file must stay as it is before it is read.
constexpr milliseconds kRestless{10'000};  // But one that never rests is read all the same, if somebody asks.
constexpr milliseconds kLook{20};          // Between two looks at a file that does not rest.
constexpr milliseconds kVanished{2'000};   // A file that editors or deployments replace is away for a moment.
constexpr milliseconds kLatePause{1'000};  // Before what could not be handed over is read and handed over again.

/// As if `path` had been decided in `fresh` as it was before, and at its place in the documentation's order.
void put_back(std::string_view path, const Loaded& running, Loaded& fresh) {
  std::erase_if(fresh.settings, [&](const Setting& s) { return text_of(s.path) == path; });
  const auto held = std::ranges::find_if(running.settings, [&](const Setting& s) { return text_of(s.path) == path; });
  if (held == running.settings.end()) return;
  const auto next = std::ranges::find_if(fresh.settings, [&](const Setting& s) {
    return std::find_if(held, running.settings.end(), [&](const Setting& r) { return r.path == s.path; }) !=
           running.settings.end();
  });
  fresh.settings.insert(next, *held);
}

bool is_loopback(const std::string& address) {
  const auto read = read_address(address);
  return read && read->loopback;
}

constexpr FileStamp kNever{.size = -1};  // Of no file.

/// Since its last change, by the machine's clock; of a file from elsewhere it may be anything.
std::chrono::nanoseconds age_of(const FileStamp& stamp) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return now - std::chrono::nanoseconds{stamp.changed};
}

Problem still_written(const std::string& file) {
  Problem problem;
  problem.severity = Problem::Severity::Warning;
  problem.kind = Problem::Kind::Unreadable;
  problem.file = file;
  problem.message = "somebody has been writing it for 10 s without an end; it was read as it stands";
  return problem;
}

}  // namespace

std::string_view name_of(ReloadCause cause) {
  constexpr std::string_view kNames[] = {"signal", "file_change", "admin", "admin"};
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
  const Config::Store& store_now = running.config.store;
  Config::Store& store_wanted = fresh.config.store;
  keep("store.path", store_now.path, store_wanted.path);
  keep("store.commit", store_now.disk, store_wanted.disk);
  keep("store.payloads", store_now.payloads, store_wanted.payloads);
  keep("store.payload_key", store_now.payload_key, store_wanted.payload_key);
  // Where others can reach us, the token may become another one but not none.
  if (!is_loopback(now.admin) && !wanted.admin_token.given()) {
    keep("listen.admin_token", now.admin_token, wanted.admin_token);
  }
  return keys;
}

void refuse_weaker(const Loaded& running, Loaded& fresh, ReloadCause cause, const std::string& file) {
  // One that cannot be read promises nothing yet.
  if (!fresh.usable()) return;
  const bool accepted = cause == ReloadCause::Accepting;
  for (Problem& problem : weaker_problems(running.config, fresh, file)) {
    if (accepted) {
      problem.severity = Problem::Severity::Warning;
      problem.message += "; accepted";
    } else {
      problem.message += "; `callgate reload --accept-weaker` accepts it";
    }
    fresh.problems.push_back(std::move(problem));
  }
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
      ::eventfd_write(waker_, 1);
    }
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
    bool look = true;  // It may have changed since the start.
    while (!stopping()) {
      if (late_) {
        rest(kLatePause, -1);
      } else if (!std::exchange(look, false)) {
        rest(watch_ ? std::optional{watch_->look_again()} : std::nullopt, watch_ ? watch_->descriptor() : -1);
      }
      if (late_ || asked() || file_changed()) reload();
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

  /// It is another one than was read last.
  bool file_changed() {
    if (!watch_) return false;
    watch_->listen();
    return stamp_of(watch_->file()) != seen_;
  }

  /// By somebody; a mere change has time.
  bool wanted() { return asked() || (late_ && *late_ != ReloadCause::FileChange); }

  enum class Rest : std::uint8_t { Reached, Overdue, NotYet };
  /// Waits until nobody seems to be in the midst of writing the file. Half a configuration may be a valid one, in
  /// which an upstream has its built-in URL. NotYet: the end of the writing will be heard, or we stop.
  Rest come_to_rest(Clock::time_point& begin) {
    bool wanted_before = wanted();
    FileStamp last;
    Clock::time_point since = begin;
    for (;; rest(kLook, -1)) {
      if (stopping()) return Rest::NotYet;
      watch_->listen();
      const FileStamp now = stamp_of(watch_->file());
      const auto time = Clock::now();
      if (now != last) since = time;
      last = now;
      const bool wanted_now = wanted();
      if (wanted_now && !std::exchange(wanted_before, true)) begin = time;
      if (watch_->being_written()) {
        if (!wanted_now) return Rest::NotYet;
      } else {
        const bool quiet = now == seen_ || time - since >= kQuiet || age_of(now) >= kQuiet;
        const bool usable = now.there && now.size > 0;
        if (wanted_now && (!now.there || quiet || watch_->moved_in())) return Rest::Reached;
        if (!wanted_now && (usable ? quiet : time - begin >= kVanished)) return Rest::Reached;
      }
      if (time - begin >= kRestless) return Rest::Overdue;
    }
  }

  void reload() {
    auto begin = Clock::now();
    std::uint64_t serving = 0;
    ReloadCause cause = ReloadCause::FileChange;
    Loaded fresh;
    for (bool whole = false; !whole;) {
      const Rest how = watch_ ? come_to_rest(begin) : Rest::Reached;
      if (how == Rest::NotYet || (!late_ && !asked() && !file_changed())) return;
      cause = late_.value_or(ReloadCause::FileChange);
      {
        const std::scoped_lock lock{mutex_};
        serving = asked_;
        if (asked_ > done_) cause = cause_;
        eventfd_t served_now = 0;  // Else what is served here would wake us once more.
        ::eventfd_read(waker_, &served_now);
      }
      // What changes from here on is the next reload's.
      if (watch_) seen_ = stamp_of(watch_->file());
      fresh = doors_.read();
      if (how == Rest::Overdue) fresh.problems.push_back(still_written(watch_->file()));
      // Written to while it was read: that was neither the old one nor the new one.
      whole = how == Rest::Overdue || !watch_ || (!file_changed() && !watch_->being_written());
      if (!whole) seen_ = kNever;
    }
    std::optional<ReloadReport> report = doors_.take(std::move(fresh), cause);
    // Those who wait are told; the change itself must not be lost.
    late_ = report ? std::nullopt : std::optional{cause};
    {
      const std::scoped_lock lock{mutex_};
      done_ = serving;
      last_ = std::move(report);
    }
    served_.notify_all();
  }

  const Doors doors_;
  const int waker_;
  std::optional<FileWatch> watch_{};  // The thread's own, as are the next two.
  FileStamp seen_{};
  std::optional<ReloadCause> late_{};  // Of the reload that could not be handed over and comes again.

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
