#pragma once
// Where do our books and a provider's differ? Per day (UTC) and model.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ledger/books.h"
#include "ledger/usage_export.h"

namespace ledger {

struct Difference {
  std::string day{};
  std::string model{};    // "(all)": the export does not tell models apart.
  std::string what{};     // "requests", "input", "cached_input", "cache_write", "output", "cost_usd"
  std::int64_t ours = 0;  // Nano-USD of a cost.
  std::int64_t theirs = 0;
  std::string perhaps{};  // Why, where our own books know a reason; else empty.
};

struct Reconciliation {
  std::int64_t compared = 0;  // Pairs of day and model.
  std::vector<Difference> differences{};
};

/// `ours` of the days that the export covers. Costs are equal up to the export's rounding and a nano-dollar for each
/// of our attempts, which are rounded one by one.
[[nodiscard]] Reconciliation reconcile(const UsageExport& theirs, const std::vector<UsageLine>& ours);

}  // namespace ledger
