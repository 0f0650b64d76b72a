#pragma once
// By when is each step of the end over? One clock for all of them, so that their sum keeps what `end_takes_ms` and
// the documents promise to whoever stops us.

#include <algorithm>
#include <chrono>

#include "budget/units.h"

namespace gateway {

/// What an end takes beyond the drain's deadline and the final scrape: last words, the flush, the last spans. More
/// only with a disk that hangs, whose threads nobody can end.
inline constexpr std::chrono::milliseconds kEndMargin{5'000};

class EndTimes {
 public:
  /// `drained`: the drain's deadline, or when a second signal has ended it.
  explicit EndTimes(budget::TimePoint drained) : drained_(drained) {}
  [[nodiscard]] budget::TimePoint last_words() const { return drained_ + kLastWordsBy; }
  [[nodiscard]] budget::TimePoint transfers() const { return drained_ + kTransfersBy; }
  [[nodiscard]] budget::TimePoint flushed() const { return drained_ + kFlushedBy; }
  [[nodiscard]] budget::TimePoint answered() const { return drained_ + kAnsweredBy; }
  [[nodiscard]] budget::TimePoint spans() const { return drained_ + kSpansBy; }
  /// The store's last try; `scraped` is what the final scrape has taken, which has a time of its own.
  [[nodiscard]] budget::TimePoint stored(std::chrono::milliseconds scraped) const {
    return drained_ + scraped + kStoredBy;
  }

 private:
  static constexpr std::chrono::milliseconds kLastWordsBy{1'000}, kTransfersBy{2'000}, kFlushedBy{3'250},
      kAnsweredBy{3'750}, kSpansBy{4'250}, kStoredBy{4'750};
  static_assert(kLastWordsBy < kTransfersBy && kTransfersBy < kFlushedBy && kFlushedBy < kAnsweredBy &&
                kAnsweredBy < kSpansBy && kSpansBy < kStoredBy && kStoredBy < kEndMargin);
  budget::TimePoint drained_;
};

/// What is left of a patience that must not reach behind `end`.
[[nodiscard]] inline std::chrono::milliseconds patience_until(budget::TimePoint end, budget::TimePoint now,
                                                              std::chrono::milliseconds longest) {
  const auto left = std::chrono::floor<std::chrono::milliseconds>(end - now);
  return std::clamp(left, std::chrono::milliseconds{0}, longest);
}

}  // namespace gateway
