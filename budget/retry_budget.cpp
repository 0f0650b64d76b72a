#include "budget/retry_budget.h"

#include <algorithm>
#include <cassert>
#include <chrono>

namespace budget {
namespace {

constexpr Milliseconds kWindow{60'000};
// A level is a sum of fractions: a whole retry may be there but for the last bit.
constexpr double kCallsOfAnAnswer = 3.0;
constexpr double kAlmost = 1e-9;

void check(const RetryBudgetPolicy& policy) {
  assert(policy.share >= 0.0);
  assert(policy.floor >= 0.0);
  assert(policy.floor_refill_per_second >= 0.0);
}

}  // namespace

RetryBudget::RetryBudget(RetryBudgetPolicy policy)
    : policy_{policy}, window_{kWindow}, answers_{kWindow}, floor_level_{policy.floor} {
  check(policy_);
}

void RetryBudget::call_began(TimePoint now) { window_.add_whole(now); }

void RetryBudget::answered(TimePoint now) { answers_.add_whole(now); }

bool RetryBudget::take(TimePoint now) {
  if (share_left(now) <= 0.0) {
    const double level = floor_level(now);
    if (level + kAlmost < 1.0) return false;
    floor_level_ = std::max(0.0, level - 1.0);
    floor_as_of_ = now;
  }
  window_.add_part(now);
  return true;
}

TimePoint RetryBudget::next(TimePoint now) const {
  if (share_left(now) > 0.0) return now;
  const double missing = 1.0 - floor_level(now);
  if (missing <= kAlmost) return now;

  TimePoint earliest = TimePoint::max();
  const double rate = policy_.floor_refill_per_second;
  if (policy_.floor + kAlmost >= 1.0 && rate > 0.0) {
    const std::chrono::duration<double> wait{missing / rate};
    // Beyond a year, nobody waits, and nanoseconds would overflow.
    if (wait < std::chrono::years{1}) earliest = now + std::chrono::ceil<TimePoint::duration>(wait);
  }
  // Retries fall out of the window, and the calls that they were measured by with them.
  for (const TimePoint moment : window_.expiries(now)) {
    if (moment >= earliest) break;
    if (share_left(moment) > 0.0) return moment;
  }
  return earliest;
}

double RetryBudget::available(TimePoint now) const { return std::max(0.0, share_left(now)) + floor_level(now); }

void RetryBudget::update(const RetryBudgetPolicy& policy) {
  check(policy);
  policy_ = policy;
  floor_level_ = std::min(floor_level_, policy_.floor);
}

double RetryBudget::share_left(TimePoint now) const {
  const double calls =
      static_cast<double>(window_.whole(now)) + kCallsOfAnAnswer * static_cast<double>(answers_.whole(now));
  return policy_.share * calls - static_cast<double>(window_.part(now));
}

double RetryBudget::floor_level(TimePoint now) const {
  if (now <= floor_as_of_ || floor_as_of_ == TimePoint::min()) return floor_level_;
  const std::chrono::duration<double> since = now - floor_as_of_;
  return std::min(policy_.floor, floor_level_ + policy_.floor_refill_per_second * since.count());
}

}  // namespace budget
