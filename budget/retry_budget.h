#pragma once
// Retries stay a share of the traffic, however many callers would like one (design §4).

#include "budget/share_window.h"
#include "budget/units.h"

namespace budget {

struct RetryBudgetPolicy {
  /// Of the first attempts of the last 60 s. Each answer counts as three more, so that an upstream which answers is
  /// not kept from finishing jobs (three in five failing, a job takes one and a half retries), and one which is down
  /// is.
  double share = 0.5;
  double floor = 10;  // Retries that a quiet upstream may have on top, at most saved up.
  double floor_refill_per_second = 0.1;
  bool operator==(const RetryBudgetPolicy&) const = default;
};

/// One upstream's. Single-threaded; memory does not grow with traffic.
class RetryBudget {
 public:
  explicit RetryBudget(RetryBudgetPolicy policy = {});

  /// A call's first attempt begins. Its retries ask take() instead.
  void call_began(TimePoint now);
  /// An attempt was answered.
  void answered(TimePoint now);
  /// May a retry begin now? Yes has taken it: from the share while that lasts, else from the floor.
  [[nodiscard]] bool take(TimePoint now);
  /// The earliest moment at which take() can succeed if no further call comes; TimePoint::max() if never.
  [[nodiscard]] TimePoint next(TimePoint now) const;
  /// Retries that could begin now, for a gauge.
  [[nodiscard]] double available(TimePoint now) const;
  /// What was counted and saved up stays, as far as the new floor holds it.
  void update(const RetryBudgetPolicy& policy);

 private:
  [[nodiscard]] double share_left(TimePoint now) const;
  [[nodiscard]] double floor_level(TimePoint now) const;

  RetryBudgetPolicy policy_;
  ShareWindow window_;   // Whole: first attempts; part: retries, those from the floor too.
  ShareWindow answers_;  // Whole: attempts that were answered.
  double floor_level_;
  TimePoint floor_as_of_ = TimePoint::min();
};

}  // namespace budget
