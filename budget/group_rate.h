#pragma once
// How fast may one credential's limit group be called? What is configured or announced, moved by 429s (design §5).

#include <optional>
#include <span>

#include "budget/bucket.h"
#include "classifier/announced.h"

namespace budget {

/// Additive increase, multiplicative decrease on the rate: a 429 takes a tenth, time brings it back slowly. Where
/// nothing is configured or announced, the rate that was answered when a 429 came is the first guess, and is forgotten
/// when none has come for long. Single-threaded.
class GroupRate {
 public:
  GroupRate();

  void configure(const RateLimits& configured, TimePoint now);
  /// Takes up the limits that are meant for a minute.
  void announced(std::span<const classifier::AnnouncedLimit> limits, TimePoint now);
  [[nodiscard]] TimePoint next(const Use& expected, TimePoint now);
  void take(const Use& expected, TimePoint now);
  /// An attempt that began at `began` is over. `refused`: the provider said 429; it had not used anything then.
  void settle(const Use& expected, const Use& truth, bool refused, TimePoint began, TimePoint now);
  /// What holds now; 0: no limit.
  [[nodiscard]] RateLimits effective(TimePoint now);
  /// In (0, 1]: what 429s left of it.
  [[nodiscard]] double share(TimePoint now);
  [[nodiscard]] const char* holds(const Use& expected, TimePoint now);

 private:
  // (state is the implementer's)
};

}  // namespace budget
