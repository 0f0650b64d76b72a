#include "budget/bucket.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

namespace budget {
namespace bucket_test {

using namespace std::chrono_literals;

const TimePoint kNow{1'000s};

Bucket bucket_of(double per_minute, Milliseconds burst = 1s) {
  Bucket bucket{burst};
  bucket.limit(per_minute, kNow);
  return bucket;
}

struct Case {
  const char* name;
  double per_minute;
  Milliseconds burst;
  double taken;
  double wanted;
  Milliseconds wait;
};

TEST(Bucket, says_when_an_amount_may_go) {
  const Case cases[] = {
      {"a first limit finds it full", 600, 1s, 0, 10, 0ms},
      {"one is missing", 600, 1s, 10, 1, 100ms},
      {"rounded up to the millisecond", 7'000, 1s, 7'000.0 / 60, 1, 9ms},
      {"never less than one", 1e9, 1s, 1e9 / 60, 1, 1ms},
      {"holds at least one, however slow", 1, 1s, 0, 1, 0ms},
      {"a minute for one a minute", 1, 1s, 1, 1, 60s},
      {"more than it holds goes when it is full", 600, 1s, 0, 1'000, 0ms},
      {"and else when it will be", 600, 1s, 5, 1'000, 500ms},
      {"a debt is waited for", 600, 1s, 110, 10, 11s},
      {"nothing waits for nothing", 600, 1s, 110, 0, 0ms},
      {"nor does less than nothing", 600, 1s, 110, -5, 0ms},
      {"no limit holds nobody", 0, 1s, 1e9, 1e9, 0ms},
      {"a negative limit is none", -5, 1s, 1e9, 1e9, 0ms},
      {"a burst of a minute", 600, 60s, 0, 600, 0ms},
      {"no burst holds one", 600, 0ms, 1, 1, 100ms},
      {"no number is nothing", 600, 1s, 10, std::numeric_limits<double>::quiet_NaN(), 0ms},
      {"an endless amount goes when it is full", 600, 1s, 5, std::numeric_limits<double>::infinity(), 500ms},
      {"a debt ends after a day", 600, 1s, 1e30, 10, 24h + 1s},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Bucket bucket = bucket_of(c.per_minute, c.burst);
    bucket.take(c.taken, kNow);
    EXPECT_EQ(bucket.next(c.wanted, kNow), kNow + c.wait);
    EXPECT_EQ(bucket.next(c.wanted, kNow + c.wait), kNow + c.wait);
  }
}

TEST(Bucket, a_new_limit_keeps_what_is_in_it_or_owed) {
  Bucket bucket = bucket_of(600);
  bucket.take(6, kNow);
  bucket.limit(6'000, kNow);
  EXPECT_DOUBLE_EQ(bucket.level(kNow), 4);
  bucket.limit(120, kNow);
  EXPECT_DOUBLE_EQ(bucket.level(kNow), 2);  // As much as it holds.
  bucket.take(10, kNow);
  bucket.limit(600, kNow);
  EXPECT_DOUBLE_EQ(bucket.level(kNow), -8);
  bucket.limit(600, kNow + 100ms);
  EXPECT_DOUBLE_EQ(bucket.level(kNow + 100ms), -7);
}

TEST(Bucket, what_is_full_stays_full) {
  Bucket bucket = bucket_of(600);
  bucket.limit(6'000, kNow);
  EXPECT_DOUBLE_EQ(bucket.level(kNow), 100);
  bucket.take(1, kNow);
  bucket.limit(60'000, kNow);
  EXPECT_DOUBLE_EQ(bucket.level(kNow), 99);
}

TEST(Bucket, the_time_before_a_new_limit_counts_by_the_old_one) {
  Bucket bucket = bucket_of(60, 60s);
  bucket.take(60, kNow);
  bucket.limit(6'000, kNow + 10s);
  EXPECT_NEAR(bucket.level(kNow + 10s), 10, 1e-9);
}

TEST(Bucket, time_may_stand_still_go_back_or_jump) {
  Bucket bucket = bucket_of(600);
  bucket.take(10, kNow);
  EXPECT_EQ(bucket.level(kNow - 1h), 0);
  bucket.take(1, kNow - 1h);
  EXPECT_EQ(bucket.level(kNow), -1);
  EXPECT_EQ(bucket.level(TimePoint::min()), -1);
  EXPECT_EQ(bucket.level(TimePoint::max()), 10);
  bucket.take(1'000, TimePoint::max());
  EXPECT_EQ(bucket.next(10, TimePoint::max()), TimePoint::max());

  Bucket early{1s};
  early.limit(600, TimePoint::min());
  early.take(1'000, TimePoint::min());
  EXPECT_EQ(early.level(TimePoint::max()), 10);
}

TEST(Bucket, a_million_small_steps_are_as_long_as_one_large) {
  Bucket bucket = bucket_of(60, 3600s);
  bucket.take(3'600, kNow);
  TimePoint now = kNow;
  for (int i = 0; i < 1'000'000; ++i) bucket.give(0, now += 1'001us);
  EXPECT_NEAR(bucket.level(now), 1'001, 1e-6);
}

TEST(Bucket, what_is_emptied_keeps_its_debt) {
  Bucket bucket = bucket_of(600);
  bucket.empty(kNow);
  EXPECT_EQ(bucket.level(kNow), 0);
  bucket.take(5, kNow);
  bucket.empty(kNow);
  EXPECT_EQ(bucket.level(kNow), -5);
}

TEST(Buckets, name_what_holds_longest) {
  Buckets buckets{1s};
  EXPECT_FALSE(buckets.limited());
  EXPECT_STREQ(buckets.holds({.requests = 9, .input = 9, .output = 9}, kNow), "");
  buckets.limit({.requests = 60, .tokens = 6'000, .input_tokens = 6'000, .output_tokens = 600}, kNow);
  EXPECT_TRUE(buckets.limited());
  EXPECT_STREQ(buckets.holds({.input = 50, .output = 10}, kNow), "");
  buckets.take({.input = 50, .output = 10}, kNow);
  EXPECT_STREQ(buckets.holds({.input = 50, .output = 1}, kNow), "requests_per_minute");
  EXPECT_EQ(buckets.next({.input = 50, .output = 1}, kNow), kNow + 1s);
  buckets.settle({}, {.requests = 0, .output = 40}, kNow);
  EXPECT_STREQ(buckets.holds({.input = 1, .output = 1}, kNow), "output_tokens_per_minute");
  buckets.settle({}, {.requests = 0, .input = 1'000}, kNow);
  EXPECT_STREQ(buckets.holds({.input = 1, .output = 1}, kNow), "tokens_per_minute");
  buckets.limit({.input_tokens = 6'000}, kNow);
  EXPECT_STREQ(buckets.holds({.input = 1, .output = 1}, kNow), "input_tokens_per_minute");
}

TEST(Buckets, an_attempt_that_used_nothing_leaves_no_trace) {
  Buckets buckets{60s};
  buckets.limit({.requests = 10, .tokens = 100}, kNow);
  const Use use{.input = 60, .output = 40};
  buckets.take(use, kNow);
  EXPECT_GT(buckets.next(use, kNow), kNow);
  buckets.settle(use, {.requests = 0}, kNow);
  EXPECT_EQ(buckets.next({.requests = 10, .input = 100}, kNow), kNow);
}

// ---- Properties -----------------------------------------------------------------------------------------------

/// Limits from one a minute to a billion.
rc::Gen<double> limits() {
  return rc::gen::map(rc::gen::inRange(0, 9'000),
                      [](int part) { return std::round(std::pow(10.0, part / 1'000.0)); });
}
rc::Gen<Milliseconds> bursts() {
  return rc::gen::map(rc::gen::inRange(0, 60'001), [](int length) { return Milliseconds{length}; });
}
/// Of what it holds: thousandths, up to three times as much.
rc::Gen<int> parts() { return rc::gen::inRange(0, 3'001); }

RC_GTEST_PROP(Bucket, lets_go_as_early_as_may_be_and_no_earlier, ()) {
  Bucket bucket = bucket_of(*limits(), *bursts());
  bucket.take(bucket.size() * *parts() / 1'000.0, kNow);
  const TimePoint now = kNow + std::chrono::nanoseconds{*rc::gen::inRange(0, 1'000'000'000)};
  const double wanted = std::max(1e-3, bucket.size() * *parts() / 1'000.0);
  const TimePoint next = bucket.next(wanted, now);
  const double needed = std::min(wanted, bucket.size());
  RC_ASSERT(next >= now);
  RC_ASSERT(bucket.next(wanted, next) == next);
  RC_ASSERT(bucket.level(next) >= needed - 1e-5);
  if (next > now) {
    RC_ASSERT(next >= now + 1ms);
    RC_ASSERT(bucket.level(next - 1ms) < needed);
  }
}

// Goal: whoever asks next() and takes then never gets more in any stretch of time than the limit, what was in it at
// first, and the one amount that was more than it holds. Method: every stretch between two takes.
RC_GTEST_PROP(Bucket, never_gives_more_than_the_limit_and_one_burst, ()) {
  Bucket bucket = bucket_of(*limits(), *bursts());
  const auto amounts = *rc::gen::container<std::vector<int>>(parts());
  const auto pauses = *rc::gen::container<std::vector<int>>(amounts.size(), rc::gen::inRange(0, 2'000));
  struct Taken {
    TimePoint when;
    double amount;
  };
  std::vector<Taken> taken;
  TimePoint now = kNow;
  double most = 0;
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    now += Milliseconds{pauses[i] < 1'000 ? 0 : pauses[i]};
    const double amount = bucket.size() * amounts[i] / 1'000.0;
    now = bucket.next(amount, now);
    bucket.take(amount, now);
    taken.push_back({now, amount});
    most = std::max(most, amount);
  }
  for (std::size_t first = 0; first < taken.size(); ++first) {
    double sum = 0;
    for (std::size_t last = first; last < taken.size(); ++last) {
      sum += taken[last].amount;
      const std::chrono::duration<double> length = taken[last].when - taken[first].when;
      const double allowed = bucket.per_minute() / 60 * length.count() + bucket.size() + most;
      RC_ASSERT(sum <= allowed * (1 + 1e-9) + 1e-5);
    }
  }
}

// The rule written out by nanoseconds, in whole numbers: units are such that a nanosecond brings `per_minute` of
// them.
RC_GTEST_PROP(Bucket, is_what_the_rule_says_after_whatever_was_taken_and_given, ()) {
  using Whole = std::int64_t;
  constexpr Whole kUnit = 60'000'000'000;
  const std::int64_t per_minute = *rc::gen::inRange<std::int64_t>(1'000, 10'000'000);
  Bucket bucket = bucket_of(static_cast<double>(per_minute), 60s);
  const Whole size = per_minute * kUnit;
  Whole level = size;
  TimePoint now = kNow;
  const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(-2'000, 2'000), rc::gen::inRange(0, 2'000'000'000)));
  for (const auto& [amount, nanos] : steps) {
    now += std::chrono::nanoseconds{nanos};
    level = std::min(size, level + per_minute * nanos);
    if (amount > 0) {
      bucket.take(amount, now);
    } else {
      bucket.give(-amount, now);
    }
    level = std::min(size, level - Whole{amount} * kUnit);
    RC_ASSERT(std::abs(bucket.level(now) - static_cast<double>(level) / 6e10) < 1e-5);
  }
}

RC_GTEST_PROP(Buckets, settling_is_as_if_the_truth_had_been_known, ()) {
  Buckets guessed{60s};
  Buckets known{60s};
  const RateLimits limits{.requests = 1'000, .tokens = 100'000, .input_tokens = 80'000, .output_tokens = 50'000};
  guessed.limit(limits, kNow);
  known.limit(limits, kNow);
  // Something is owed, so that nothing overflows while it is out.
  const Use owed{.requests = 2'000, .input = 90'000, .output = 90'000};
  guessed.take(owed, kNow);
  known.take(owed, kNow);
  const auto uses = *rc::gen::container<std::vector<std::tuple<int, int, int, int>>>(rc::gen::tuple(
      rc::gen::inRange(0, 500), rc::gen::inRange(0, 500), rc::gen::inRange(0, 500), rc::gen::inRange(0, 500)));
  for (const auto& [input, output, true_input, true_output] : uses) {
    const Use expected{.input = static_cast<double>(input), .output = static_cast<double>(output)};
    const Use truth{.input = static_cast<double>(true_input), .output = static_cast<double>(true_output)};
    guessed.take(expected, kNow);
    guessed.settle(expected, truth, kNow);
    known.take(truth, kNow);
  }
  const Use probe{.requests = 10, .input = 700, .output = 300};
  const auto difference = guessed.next(probe, kNow) - known.next(probe, kNow);
  RC_ASSERT(std::chrono::abs(difference) <= 1ms);
  RC_ASSERT(std::string{guessed.holds(probe, kNow)} == known.holds(probe, kNow));
}

}  // namespace bucket_test
}  // namespace budget
