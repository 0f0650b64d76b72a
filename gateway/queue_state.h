#pragma once
// How does a queue of runs stand?

#include <cstdint>
#include <optional>
#include <string>

#include "budget/units.h"

namespace gateway {

struct QueueState {
  std::string name{};
  std::int64_t waiting = 0, scheduled = 0, running = 0;
  std::optional<budget::TimePoint> paused_until{};  // TimePoint::max(): until somebody resumes it.
};

}  // namespace gateway
