#pragma once
// How does another thread have something done on the I/O thread? By posting, and with a bound on its patience.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>

namespace gateway {

class LoopDoor {
 public:
  explicit LoopDoor(boost::asio::io_context& io) : io_(io) {}
  LoopDoor(const LoopDoor&) = delete;
  LoopDoor& operator=(const LoopDoor&) = delete;

  /// Any thread but the I/O thread. True: `work` was done there. False: it was not and never will be, since the loop
  /// did not turn in time or has ended.
  [[nodiscard]] bool run(std::function<void()> work, std::chrono::milliseconds patience);
  /// The loop turns no more: whoever waits is told at once.
  void close() { closed_ = true; }

 private:
  boost::asio::io_context& io_;
  std::atomic<bool> closed_{false};
};

}  // namespace gateway
