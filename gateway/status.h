#pragma once
// What does an operator see of a running callgate: who waits for what, who holds what, and what is left?

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "budget/dispatcher.h"
#include "gateway/live_calls.h"
#include "gateway/queue_state.h"

namespace gateway {

/// All of one moment.
struct StatusSnapshot {
  TimePoint now{};
  WallTime wall{};
  std::vector<budget::TenantState> tenants{};
  std::array<budget::LaneState, 3> lanes{};
  std::vector<budget::UpstreamLoad> upstreams{};
  std::vector<QueueState> queues{};                 // Of runs.
  std::array<std::size_t, budget::kLimits> held{};  // How many wait, by what holds them.
  std::vector<budget::BudgetState> budgets{};
  std::vector<LiveCall> calls{};  // The oldest ones.
  std::size_t calls_in_all = 0;
};

/// As docs/operations.md describes them.
[[nodiscard]] std::string status_json(const StatusSnapshot& snapshot);
[[nodiscard]] std::string budgets_json(const StatusSnapshot& snapshot);

}  // namespace gateway
