#pragma once
// How much of what happened lately was of one kind: failures among outcomes, retries among calls.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "budget/units.h"

namespace budget {

/// Counts over the last `seconds` in buckets of one second, so the window ends between one second early and on time.
/// Memory is fixed by its length. A query looks at every bucket; neither query nor clock moves anything.
class ShareWindow {
 public:
  explicit ShareWindow(Milliseconds length) : buckets_(buckets_for(length)) {}

  void add_whole(TimePoint now) { ++bucket_at(now).whole; }
  void add_part(TimePoint now) { ++bucket_at(now).part; }

  [[nodiscard]] std::int64_t whole(TimePoint now) const { return sum(now, &Bucket::whole); }
  [[nodiscard]] std::int64_t part(TimePoint now) const { return sum(now, &Bucket::part); }

  void clear() { std::fill(buckets_.begin(), buckets_.end(), Bucket{}); }

  /// What still fits keeps counting.
  void resize(Milliseconds length) {
    std::vector<Bucket> old(buckets_for(length));
    if (old.size() == buckets_.size()) return;
    old.swap(buckets_);
    for (const Bucket& bucket : old) {
      Bucket& place = buckets_[index_of(bucket.second)];
      if (bucket.used() && (!place.used() || place.second < bucket.second)) place = bucket;
    }
  }

  /// The moments after `now` at which something falls out of the window, in order.
  [[nodiscard]] std::vector<TimePoint> expiries(TimePoint now) const {
    const std::int64_t second = second_of(now);
    std::vector<TimePoint> moments;
    for (const Bucket& bucket : buckets_) {
      if (counts(bucket, second) && bucket.used()) {
        moments.emplace_back(std::chrono::seconds{bucket.second + length()});
      }
    }
    std::sort(moments.begin(), moments.end());
    return moments;
  }

 private:
  struct Bucket {
    std::int64_t second = 0;
    std::int64_t whole = 0;
    std::int64_t part = 0;
    [[nodiscard]] bool used() const { return whole != 0 || part != 0; }
  };

  static std::size_t buckets_for(Milliseconds length) {
    return static_cast<std::size_t>(
        std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(length).count()));
  }
  static std::int64_t second_of(TimePoint now) {
    return std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  }
  [[nodiscard]] std::int64_t length() const { return static_cast<std::int64_t>(buckets_.size()); }
  [[nodiscard]] bool counts(const Bucket& bucket, std::int64_t second) const {
    return bucket.second > second - length() && bucket.second <= second;
  }
  [[nodiscard]] std::size_t index_of(std::int64_t second) const {
    return static_cast<std::size_t>(((second % length()) + length()) % length());
  }
  Bucket& bucket_at(TimePoint now) {
    const std::int64_t second = second_of(now);
    Bucket& bucket = buckets_[index_of(second)];
    if (bucket.second != second) bucket = {.second = second};
    return bucket;
  }
  [[nodiscard]] std::int64_t sum(TimePoint now, std::int64_t Bucket::*kind) const {
    const std::int64_t second = second_of(now);
    std::int64_t all = 0;
    for (const Bucket& bucket : buckets_) {
      if (counts(bucket, second)) all += bucket.*kind;
    }
    return all;
  }

  std::vector<Bucket> buckets_;
};

}  // namespace budget
