#pragma once
// Virtual time: when nothing can run, jump to the next sleeper. An hour of backoff takes a millisecond.

#include <boost/asio.hpp>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "gateway/services.h"

class SimRuntime final : public gateway::Runtime {
 public:
  explicit SimRuntime(unsigned seed) : rng_(seed) {}

  [[nodiscard]] gateway::TimePoint now() const override { return now_; }
  [[nodiscard]] gateway::WallTime wall_now() const override {
    return gateway::WallTime{std::chrono::duration_cast<gateway::WallTime::duration>(now_.time_since_epoch())};
  }
  [[nodiscard]] double roll() override {
    return fixed_roll_ ? *fixed_roll_ : std::uniform_real_distribution<>{0.0, 1.0}(rng_);
  }
  [[nodiscard]] std::uint64_t random_bits() override { return (std::uint64_t{rng_()} << 32U) | rng_(); }
  gateway::task<void> wait(gateway::Signal& signal, gateway::TimePoint until) override {
    const auto waiting = std::make_shared<bool>(true);
    if (until != gateway::TimePoint::max()) {
      at(until, [&signal, waiting] {
        if (*waiting) signal.ring();
      });
    }
    co_await signal.wait();
    *waiting = false;
  }

  void fix_roll(double roll) { fixed_roll_ = roll; }
  /// Does something at that time.
  void at(gateway::TimePoint when, std::function<void()> act) { due_.emplace(when, std::move(act)); }
  boost::asio::io_context& io() { return io_; }

  /// Until nothing can happen any more.
  void run() {
    for (;;) {
      io_.restart();
      if (io_.poll() > 0) continue;
      if (due_.empty()) return;
      now_ = std::max(now_, due_.begin()->first);
      const auto act = std::move(due_.begin()->second);
      due_.erase(due_.begin());
      act();
    }
  }

 private:
  boost::asio::io_context io_;
  gateway::TimePoint now_{std::chrono::seconds{1'000}};
  std::mt19937 rng_;
  std::optional<double> fixed_roll_{};
  std::multimap<gateway::TimePoint, std::function<void()>> due_;
};
