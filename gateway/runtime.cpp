#include "gateway/runtime.h"

#include <boost/asio/steady_timer.hpp>
#include <memory>

namespace gateway {

RealRuntime::RealRuntime() {
  std::random_device seed;
  std::seed_seq seeds{seed(), seed(), seed(), seed(), seed(), seed(), seed(), seed()};
  chance_.seed(seeds);
}

TimePoint RealRuntime::now() const { return std::chrono::steady_clock::now(); }
WallTime RealRuntime::wall_now() const { return std::chrono::system_clock::now(); }
double RealRuntime::roll() { return std::generate_canonical<double, 53>(chance_); }
std::uint64_t RealRuntime::random_bits() { return chance_(); }

task<void> RealRuntime::wait(Signal& signal, TimePoint until) {
  if (until == TimePoint::max()) {
    co_await signal.wait();
    co_return;
  }
  asio::steady_timer timer{signal.io(), until};
  // The handler may already be queued when the wait ends for another reason, and then outlive the signal.
  const auto waiting = std::make_shared<bool>(true);
  timer.async_wait([&signal, waiting](const boost::system::error_code& error) {
    if (!error && *waiting) signal.ring();
  });
  co_await signal.wait();
  *waiting = false;
}

}  // namespace gateway
