#include "budget/concurrency.h"

#include <algorithm>

namespace budget {
namespace {

constexpr int kSlowStart = 64;
constexpr Milliseconds kDoubles{250};
constexpr std::int64_t kMostDoublings = 20;
// It is what limits while four of five places are taken: with fewer, whoever wanted one had one.
constexpr int kUsedParts = 4;
constexpr int kAllParts = 5;
constexpr int kCutParts = 7;
constexpr int kCutOf = 10;
constexpr int kMost = 1'000'000;
constexpr int kLeastPart = 8;
constexpr int kLeast = 16;
constexpr double kShareLearns = 1.0 / 32;
constexpr double kMuch = 0.1;
constexpr Milliseconds kBetweenCuts{1'000};

}  // namespace

void Concurrency::configure(int most, bool adaptive) {
  const int old_most = most_;
  most_ = std::clamp(most, 0, kMost);
  const bool was_adaptive = adaptive_;
  adaptive_ = adaptive && most_ > 0;
  const bool first = !configured_;
  configured_ = true;
  if (!adaptive_) {
    slow_start_ = false;
    return;
  }
  if (first) {
    slow_start_ = true;
    limit_ = std::min(most_, kSlowStart);
  } else if (!was_adaptive) {
    // It has been called all the while: what it bears is known, and nothing begins anew.
    limit_ = most_;
  } else if (slow_start_) {
    limit_ = std::max(limit_, kSlowStart);
  } else if (limit_ == old_most) {
    // Only the number itself was in the way.
    limit_ = std::max(limit_, most_);
  }
  limit_ = std::clamp(limit_, 1, most_);
  credit_ = 0;
}

int Concurrency::limit() const { return adaptive_ ? limit_ : most_; }

std::optional<TimePoint> Concurrency::grow(TimePoint now) {
  if (!began_) began_ = now;
  if (!adaptive_ || !slow_start_ || limit_ >= most_) return std::nullopt;
  const auto doublings = std::min<std::int64_t>((now - *began_) / kDoubles, kMostDoublings);
  limit_ = static_cast<int>(std::clamp<std::int64_t>(std::int64_t{kSlowStart} << doublings, limit_, most_));
  if (limit_ >= most_) return std::nullopt;
  return *began_ + kDoubles * (doublings + 1);
}

void Concurrency::succeeded(int in_use, TimePoint /*now*/) {
  overloaded_share_ -= kShareLearns * overloaded_share_;
  if (!adaptive_ || limit_ >= most_) return;
  if (std::int64_t{in_use} * kAllParts < std::int64_t{limit_} * kUsedParts) return;
  if (!slow_start_ && ++credit_ < limit_) return;
  credit_ = 0;
  ++limit_;
}

void Concurrency::overloaded(TimePoint began, int in_use, TimePoint now) {
  overloaded_share_ += kShareLearns * (1.0 - overloaded_share_);
  slow_start_ = false;
  if (!adaptive_ || overloaded_share_ < kMuch) return;
  if (cut_at_ && (began <= *cut_at_ || now - *cut_at_ < kBetweenCuts)) return;
  cut_at_ = now;
  credit_ = 0;
  // What was in flight was too much, and what was free beside it no help; but one moment does not take it all.
  const int from = std::clamp(in_use, (limit_ + 1) / 2, limit_);
  const int least = std::min(limit_, std::clamp(most_ / kLeastPart, 1, kLeast));
  limit_ = std::max(least, static_cast<int>(std::int64_t{from} * kCutParts / kCutOf));
}

}  // namespace budget
