#pragma once
// The units in which we promise: time that only moves forward, money that is never a fraction.

#include <chrono>
#include <cstdint>

namespace budget {

/// Readings come from gateway::Runtime; nothing in this room has a clock.
using TimePoint = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::milliseconds;

/// Integer nano-dollars: 1 USD = 1'000'000'000.
struct NanoUsd {
  std::int64_t value = 0;
  auto operator<=>(const NanoUsd&) const = default;
};

}  // namespace budget
