#pragma once
// Where does a call's story sleep, and what wakes it?
//
// A call has one coroutine and therefore at most one wait. Everything that may end that wait (bytes from the
// provider, an alarm, the caller's leaving, a drain, a commit) rings the same bell; the story then looks at the
// conditions themselves. So nothing has to be cancelled, and no wake-up can be lost between check and sleep.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>

namespace gateway {

namespace asio = boost::asio;
/// All our coroutines run on the one I/O thread.
template <typename T>
using task = asio::awaitable<T, asio::io_context::executor_type>;

/// Why a call must end early. The first reason stays.
enum class StopReason : std::uint8_t {
  CallerGone,  // The connection closed or broke.
  Cancelled,   // An operator, or the worker by our own API.
  Shutdown,    // The drain's deadline has passed, or a second signal came.
};

/// Not thread-safe: I/O thread only.
class Signal {
 public:
  explicit Signal(asio::io_context& io);
  ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  /// Wakes the sleeper, never inline (it is posted); a ring with nobody asleep is kept for the next wait().
  void ring();
  /// Sleeps until the next ring. At most one coroutine may sleep here.
  task<void> wait();

  void stop(StopReason why);
  [[nodiscard]] std::optional<StopReason> stopped() const { return stopped_; }
  /// The process drains: what waits in a queue or a backoff gives up, what is in flight goes on.
  void drain();
  [[nodiscard]] bool draining() const { return draining_; }

  [[nodiscard]] asio::io_context& io() const { return io_; }

  /// The sleeping coroutine, type-erased.
  struct Sleeper {
    virtual ~Sleeper() = default;
    virtual void resume() = 0;  // Gives itself up to the executor.
  };

 private:
  asio::io_context& io_;
  std::unique_ptr<Sleeper> sleeper_{};
  bool rung_ = false;
  bool draining_ = false;
  std::optional<StopReason> stopped_{};
};

}  // namespace gateway
