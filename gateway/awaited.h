#pragma once
// How does a coroutine wait for what another thread will tell?

#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "gateway/services.h"

namespace gateway {

/// Told once, through the loop; whoever waited may be gone by then. Owned by both sides.
template <typename T>
class Awaited {
 public:
  explicit Awaited(asio::io_context& io) : bell_(io) {}

  /// For the other thread: call it once with the value.
  static auto teller(std::shared_ptr<Awaited> self) {
    return [self = std::move(self)](T value) mutable {
      asio::io_context& io = self->bell_.io();
      // Moved on, so that the last reference never dies on the other thread.
      asio::post(io, [awaited = std::move(self), value = std::move(value)]() mutable {
        if (awaited->given_up_) {
          if (awaited->if_late_) awaited->if_late_(std::move(value));
          return;
        }
        awaited->told_ = std::move(value);
        awaited->bell_.ring();
      });
    };
  }
  /// Who gets it on the loop, should it come when nobody waits any more.
  void if_late(std::function<void(T)> late) { if_late_ = std::move(late); }
  /// Nothing: it was not told in time.
  static task<std::optional<T>> told(std::shared_ptr<Awaited> self, Runtime& runtime, TimePoint until) {
    while (!self->told_ && runtime.now() < until) co_await runtime.wait(self->bell_, until);
    self->given_up_ = true;
    co_return std::move(self->told_);
  }

 private:
  Signal bell_;
  std::optional<T> told_{};
  std::function<void(T)> if_late_{};
  bool given_up_ = false;
};

}  // namespace gateway
