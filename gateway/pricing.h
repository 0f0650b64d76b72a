#pragma once
// What did an attempt cost, at the prices under which its call began?

#include "gateway/call.h"

namespace gateway {

/// `to`: where it was made. Sets cost, cost_source, cost_tier and prices of the row from its usage (budget/rating.h);
/// usage that was not reported leaves them empty.
void price_attempt(const Call& call, const Target& to, WallTime now, AttemptRow& row);

/// Of each of its ways what it may cost at most; whatever budgets there are, since a reload may bring some.
[[nodiscard]] std::vector<budget::NanoUsd> worst_costs(const Call& call, Admission& admission, WallTime now);

/// Which of its ways may be gone where models without a price are refused.
[[nodiscard]] std::vector<char> may_be_priced(const Call& call, WallTime now);

}  // namespace gateway
