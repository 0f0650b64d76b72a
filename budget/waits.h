#pragma once
// What does a call wait for before an attempt?

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace budget {

enum class Wait : std::uint8_t { Queue, Concurrency, Rate, Pause, Breaker, RetryBudget, Backoff, Budget, Operator };
inline constexpr std::array<std::string_view, 9> kWaitNames = {
    "queue", "concurrency", "rate", "pause", "breaker", "retry_budget", "backoff", "budget", "operator"};
inline constexpr std::size_t kWaits = kWaitNames.size();
[[nodiscard]] constexpr std::string_view name_of(Wait wait) { return kWaitNames[static_cast<std::size_t>(wait)]; }

/// By kind; they do not overlap.
using WaitTimes = std::array<std::chrono::microseconds, kWaits>;

}  // namespace budget
