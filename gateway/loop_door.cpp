#include "gateway/loop_door.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

namespace gateway {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{20};  // Between two looks whether the door was closed.

struct Turn {
  std::mutex mutex{};
  std::condition_variable changed{};
  std::function<void()> work{};
  bool done = false;
  bool given_up = false;
};

}  // namespace

bool LoopDoor::run(std::function<void()> work, std::chrono::milliseconds patience) {
  const auto turn = std::make_shared<Turn>();
  turn->work = std::move(work);
  boost::asio::post(io_, [turn] {
    // Held while working, so that giving up and doing exclude each other.
    const std::scoped_lock lock{turn->mutex};
    if (turn->given_up) return;
    turn->work();
    turn->done = true;
    turn->changed.notify_all();
  });
  const auto until = Clock::now() + patience;
  std::unique_lock lock{turn->mutex};
  while (!turn->done && !closed_ && Clock::now() < until) {
    turn->changed.wait_until(lock, std::min(until, Clock::now() + kLook));
  }
  turn->given_up = !turn->done;
  return turn->done;
}

}  // namespace gateway
