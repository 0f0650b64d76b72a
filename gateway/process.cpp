#include "gateway/process.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <string>

#include "gateway/admission.h"
#include "gateway/front.h"
#include "gateway/health.h"
#include "gateway/memory_ledger.h"
#include "gateway/runtime.h"
#include "gateway/upstream_curl.h"

namespace gateway {
namespace {

using std::chrono::milliseconds;
using Level = Config::Log::Level;

constexpr milliseconds kTick{250};
// The loop that has not turned for so long is stuck: the liveness probe should say so.
constexpr milliseconds kStuckAfter{5'000};
// After the drain's deadline: time for error events and resets to leave.
constexpr milliseconds kLastWords{1'000};
constexpr milliseconds kDrainPoll{10};
constexpr double kBufferedShare = 0.4;

constexpr asio::use_awaitable_t<asio::io_context::executor_type> kAwait{};

/// Sockets are what a proxy is made of: take all that we may have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint64_t number_in(const char* file) {
  std::ifstream in{file};
  std::uint64_t number = 0;
  return in >> number ? number : 0;  // "max" is no number.
}

AdmissionLimits admission_limits(const Config& config) {
  AdmissionLimits limits;
  limits.queue = config.queue;
  for (const UpstreamConfig& upstream : config.upstreams) limits.concurrent[upstream.name] = upstream.concurrent;
  return limits;
}

MetricNames metric_names(const Config& config) {
  MetricNames names;
  for (const UpstreamConfig& upstream : config.upstreams) names.upstreams.push_back(upstream.name);
  names.tenants = {"default"};
  return names;
}

class Sidecar {
 public:
  Sidecar(const Config& config, std::string config_file)
      : config_(config),
        config_file_(std::move(config_file)),
        metrics_(metric_names(config)),
        log_(config.log, 1, [this](std::string_view level) { metrics_.log_message(level); }),
        upstream_(io_, {}),
        admission_(
            runtime_, admission_limits(config),
            [this](budget::Lane lane, int by) { by > 0 ? metrics_.queue_entered(lane) : metrics_.queue_left(lane); }),
        front_(Services{runtime_, admission_, ledger_, upstream_}, metrics_, log_),
        server_(io_, server_options(), server_events()) {}

  int run() {
    front_.configure(config_);
    server_.listen();
    HealthServer health{config_.listen.health, health_sources()};
    say(Level::Info,
        "listening",
        "callgate is ready",
        {{"data", server_.address()},
         {"health", health.address()},
         {"version", CALLGATE_VERSION},
         {"config", config_file_.empty() ? "built-in defaults" : config_file_}});
    ready_ = true;
    turn();
    // Spawned by name: a lambda born inside the call would die with it.
    asio::co_spawn(io_, tick(), asio::detached);
    asio::co_spawn(io_, live_and_go(), asio::detached);
    asio::co_spawn(io_, survive_hangups(), asio::detached);
    io_.run();
    return broken_off_ ? 1 : 0;
  }

 private:
  void say(Level level, std::string_view event, std::string_view message, Log::Fields fields) {
    log_.line(level, event, message, fields, runtime_.wall_now());
  }

  ServerOptions server_options() const {
    ServerOptions options;
    options.address = config_.listen.data;
    options.hosts = config_.listen.hosts;
    options.limits = config_.limits;
    options.buffered_bytes =
        config_.limits.buffered_bytes ? config_.limits.buffered_bytes : automatic_buffered_bytes();
    return options;
  }
  ServerEvents server_events() {
    ServerEvents events;
    events.serve = [this](Inbound request, Caller& caller, Signal& signal) {
      return front_.serve(std::move(request), caller, signal);
    };
    events.refuse = [this](const RefusedRequest& refused) { return front_.refuse(refused); };
    return events;
  }
  HealthSources health_sources() {
    HealthSources sources;
    sources.alive = [this] { return loop_turns(); };
    sources.not_ready_because = [this]() -> std::string {
      if (draining_) return "draining: the process is going\n";
      if (!loop_turns()) return "stuck: the I/O thread does not turn\n";
      return ready_ ? "" : "starting\n";
    };
    sources.metrics = [this] { return metrics_.text(); };
    return sources;
  }

  /// Any thread.
  [[nodiscard]] bool loop_turns() const {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return now - std::chrono::steady_clock::duration{last_turn_.load()} < kStuckAfter;
  }
  void turn() {
    last_turn_ = runtime_.now().time_since_epoch().count();
    const Server::Figures server = server_.figures();
    const CurlUpstream::Figures upstream = upstream_.figures();
    metrics_.live(
        {server.connections, upstream.connections, upstream.exchanges, server.buffered_bytes, log_.dropped()});
  }

  /// Shows the world that the loop turns.
  task<void> tick() {
    asio::steady_timer timer{io_};
    while (!gone_) {
      turn();
      timer.expires_after(kTick);
      boost::system::error_code error;
      co_await timer.async_wait(asio::redirect_error(kAwait, error));
    }
  }

  /// A hang-up asks for the file to be read again, which this version cannot; it must not end calls either.
  task<void> survive_hangups() {
    asio::signal_set hangups{io_, SIGHUP};
    while (!gone_) {
      boost::system::error_code error;
      co_await hangups.async_wait(asio::redirect_error(kAwait, error));
      if (!error) {
        say(Level::Warn, "no_reload", "SIGHUP: reading the configuration again is not in this version; restart", {});
      }
    }
  }

  task<void> live_and_go() {
    asio::signal_set signals{io_, SIGTERM, SIGINT};
    boost::system::error_code error;
    const int first = co_await signals.async_wait(asio::redirect_error(kAwait, error));
    const std::string name = first == SIGINT ? "SIGINT" : "SIGTERM";
    draining_ = true;
    metrics_.draining(true);
    say(Level::Info,
        "draining",
        "no new calls; those in flight have until the drain's deadline",
        {{"signal", name}, {"in_flight", std::to_string(server_.figures().requests)}});
    server_.drain();

    bool hurry = false;
    signals.async_wait([&hurry](const boost::system::error_code& failed, int) { hurry = hurry || !failed; });
    const TimePoint deadline = runtime_.now() + config_.shutdown.drain;
    asio::steady_timer timer{io_};
    while (server_.figures().requests > 0 && runtime_.now() < deadline && !hurry) {
      timer.expires_after(kDrainPoll);
      co_await timer.async_wait(asio::redirect_error(kAwait, error));
    }
    if (server_.figures().requests > 0) {
      // A request that is still being sent to us is nobody's call yet.
      broken_off_ = front_.active() > 0;
      say(Level::Warn,
          "drain_over",
          hurry ? "second signal: ending now" : "the drain's deadline has passed",
          {{"broken_off", std::to_string(front_.active())}});
      server_.stop_all();
      const TimePoint end = runtime_.now() + kLastWords;
      while (server_.figures().requests > 0 && runtime_.now() < end) {
        timer.expires_after(kDrainPoll);
        co_await timer.async_wait(asio::redirect_error(kAwait, error));
      }
    }
    // Transfers that are only being seen out have a second; they are nobody's call any more.
    const TimePoint end = runtime_.now() + kLastWords + kLastWords;
    while (upstream_.figures().exchanges > 0 && runtime_.now() < end) {
      timer.expires_after(kDrainPoll);
      co_await timer.async_wait(asio::redirect_error(kAwait, error));
    }
    say(Level::Info, "stopped", "callgate is gone", {{"calls", std::to_string(ledger_.ended())}});
    gone_ = true;
    // The pending wait refers to this frame; let it go before the frame does.
    signals.cancel();
    timer.expires_after(milliseconds{0});
    co_await timer.async_wait(asio::redirect_error(kAwait, error));
    io_.stop();
  }

  // In the order in which they are needed; the last one goes first.
  const Config config_;
  const std::string config_file_;
  asio::io_context io_{1};
  RealRuntime runtime_;
  Metrics metrics_;
  Log log_;
  CurlUpstream upstream_;
  LineAdmission admission_;
  MemoryLedger ledger_;
  Front front_;
  Server server_;

  std::atomic<bool> ready_{false};
  std::atomic<bool> draining_{false};
  std::atomic<std::int64_t> last_turn_{0};
  bool broken_off_ = false;
  bool gone_ = false;
};

}  // namespace

std::uint64_t automatic_buffered_bytes() {
  std::uint64_t limit = number_in("/sys/fs/cgroup/memory.max");
  if (limit == 0) limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  struct sysinfo machine {};
  const std::uint64_t memory = sysinfo(&machine) == 0 ? std::uint64_t{machine.totalram} * machine.mem_unit : 0;
  // An absent limit is shown as a number beyond all memory.
  if (limit == 0 || (memory != 0 && limit > memory)) limit = memory;
  return static_cast<std::uint64_t>(static_cast<double>(limit) * kBufferedShare);
}

int run_sidecar(const Config& config, const std::string& config_file) {
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  Sidecar sidecar{config, config_file};
  return sidecar.run();
}

}  // namespace gateway
