#pragma once
// What does the service manager that started us want to hear? sd_notify(3) without libsystemd, of which there is no
// static library. Where nobody asked (no NOTIFY_SOCKET), nothing is said.

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "budget/units.h"

namespace gateway {

class ServiceManager {
 public:
  /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID and takes them out of the environment: they are not for
  /// children. Before there are other threads.
  [[nodiscard]] static ServiceManager from_environment();
  ServiceManager() = default;

  /// Any thread, as all that only say something.
  void ready(std::string_view status) const;
  void reloading() const;
  void stopping(std::string_view status) const;

  /// From the event loop, often: that it turns, by WATCHDOG=1 at half of what the unit allows, and how things are,
  /// once a second if that has changed. While we are stopping it asks for more time, so that what drains is not
  /// killed as long as the loop turns.
  void beat(std::string_view status, bool draining, budget::TimePoint now);

  [[nodiscard]] bool listens() const { return !socket_.empty(); }
  [[nodiscard]] std::chrono::microseconds watchdog() const { return watchdog_; }  // 0: none.

 private:
  bool say(std::string_view text) const;

  std::string socket_{};  // "/run/systemd/notify", "@abstract"
  std::chrono::microseconds watchdog_{0};
  std::string told_{};
  budget::TimePoint told_at_{};
  budget::TimePoint alive_at_{};
  /// READY=1 could not be said; the next beat does.
  std::unique_ptr<std::atomic<bool>> owes_ready_ = std::make_unique<std::atomic<bool>>(false);
};

}  // namespace gateway
