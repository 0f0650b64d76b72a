#include "gateway/signal.h"

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cassert>
#include <utility>

namespace gateway {
namespace {

template <typename Handler>
struct SleeperOf final : Signal::Sleeper {
  SleeperOf(asio::io_context& io, Handler handler_in) : context(io), handler(std::move(handler_in)) {}
  void resume() override { asio::post(context, std::move(handler)); }
  asio::io_context& context;
  Handler handler;
};

}  // namespace

Signal::Signal(asio::io_context& io) : io_(io) {}
Signal::~Signal() = default;

void Signal::ring() {
  if (const std::unique_ptr<Sleeper> sleeper = std::move(sleeper_)) {
    sleeper->resume();
  } else {
    rung_ = true;
  }
}

task<void> Signal::wait() {
  if (std::exchange(rung_, false)) co_return;
  assert(!sleeper_);
  // Named, since g++ 12 destroys a capturing lambda twice that is born beside a co_await.
  auto fall_asleep = [this](auto handler) {
    sleeper_ = std::make_unique<SleeperOf<decltype(handler)>>(io_, std::move(handler));
  };
  constexpr asio::use_awaitable_t<asio::io_context::executor_type> token{};
  co_await asio::async_initiate<const asio::use_awaitable_t<asio::io_context::executor_type>, void()>(fall_asleep,
                                                                                                      token);
}

void Signal::stop(StopReason why) {
  if (stopped_) return;
  stopped_ = why;
  ring();
}

void Signal::drain() {
  draining_ = true;
  ring();
}

}  // namespace gateway
