#include "budget/group_rate.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace budget {
namespace group_rate_test {

using namespace std::chrono_literals;
using classifier::AnnouncedLimit;
using Unit = AnnouncedLimit::Unit;

const TimePoint kNow{1'000s};
const Use kCall{.requests = 1, .input = 60, .output = 40};

GroupRate configured(const RateLimits& limits) {
  GroupRate rate;
  rate.configure(limits, kNow);
  return rate;
}
/// One that began at `began` comes back with a 429.
void refuse(GroupRate& rate, TimePoint began, TimePoint now) {
  rate.take(kCall, began);
  rate.settle(kCall, {}, true, began, now);
}
/// `per_second` calls each second, all answered at once.
TimePoint answer(GroupRate& rate, TimePoint now, std::chrono::seconds length, int per_second) {
  for (int i = 0; i < length.count() * per_second; ++i) {
    rate.take(kCall, now);
    rate.settle(kCall, kCall, false, now, now);
    now += std::chrono::nanoseconds{1s} / per_second;
  }
  return now;
}

struct Announcement {
  const char* name;
  RateLimits configured;
  std::vector<AnnouncedLimit> told;
  RateLimits want;
};

TEST(GroupRate, takes_the_lower_of_configured_and_announced) {
  const Announcement cases[] = {
      {"nothing", {}, {}, {}},
      {"configured", {.requests = 60, .tokens = 1'000}, {}, {.requests = 60, .tokens = 1'000}},
      {"announced without a window", {}, {{.unit = Unit::Requests, .limit = 500}}, {.requests = 500}},
      {"announced for a minute", {}, {{.unit = Unit::Tokens, .limit = 500, .window = 60s}}, {.tokens = 500}},
      {"the lower of both", {.requests = 60}, {{.unit = Unit::Requests, .limit = 500}}, {.requests = 60}},
      {"each for itself",
       {.requests = 60, .tokens = 1'000},
       {{.unit = Unit::Requests, .limit = 50}, {.unit = Unit::Tokens, .limit = 5'000}},
       {.requests = 50, .tokens = 1'000}},
      {"every unit",
       {},
       {{.unit = Unit::InputTokens, .limit = 400}, {.unit = Unit::OutputTokens, .limit = 80}},
       {.input_tokens = 400, .output_tokens = 80}},
      {"a day's or ten seconds' is another matter",
       {},
       {{.unit = Unit::Requests, .limit = 500, .window = 24h}, {.unit = Unit::Requests, .limit = 5, .window = 10s}},
       {}},
      {"what comes back after more than a minute is no minute's",
       {},
       {{.unit = Unit::Requests, .limit = 14'400, .remaining = 14'370, .resets_in = 179'560ms}},
       {}},
      {"two of one unit",
       {},
       {{.unit = Unit::Tokens, .limit = 500}, {.unit = Unit::Tokens, .limit = 400}},
       {.tokens = 400}},
      {"no limit told", {.requests = 60}, {{.unit = Unit::Requests, .remaining = 3}}, {.requests = 60}},
  };
  for (const Announcement& c : cases) {
    SCOPED_TRACE(c.name);
    GroupRate rate = configured(c.configured);
    rate.announced(c.told, kNow);
    EXPECT_EQ(rate.effective(kNow), c.want);
  }
}

TEST(GroupRate, an_announced_change_holds_at_once) {
  GroupRate rate;
  const AnnouncedLimit before[] = {{.unit = Unit::Requests, .limit = 600}};
  const AnnouncedLimit after[] = {{.unit = Unit::Requests, .limit = 60}};
  rate.announced(before, kNow);
  for (int i = 0; i < 10; ++i) rate.take(kCall, kNow);
  EXPECT_EQ(rate.next(kCall, kNow), kNow + 100ms);
  rate.announced(after, kNow);
  EXPECT_EQ(rate.next(kCall, kNow), kNow + 1s);
  EXPECT_STREQ(rate.holds(kCall, kNow), "requests_per_minute");
}

TEST(GroupRate, a_day_s_limit_that_looked_like_a_minute_s_is_found_out_and_remembered) {
  GroupRate rate;
  const AnnouncedLimit first[] = {{.unit = Unit::Requests, .limit = 14'400, .remaining = 14'399, .resets_in = 6s}};
  const AnnouncedLimit later[] = {{.unit = Unit::Requests, .limit = 14'400, .remaining = 14'380, .resets_in = 120s}};
  rate.announced(first, kNow);
  EXPECT_EQ(rate.effective(kNow).requests, 14'400);
  rate.announced(later, kNow);
  EXPECT_EQ(rate.effective(kNow).requests, 0);
  rate.announced(first, kNow);
  EXPECT_EQ(rate.effective(kNow).requests, 0);
}

TEST(GroupRate, a_429_takes_a_tenth_and_time_brings_it_back) {
  GroupRate rate = configured({.requests = 600, .tokens = 60'000});
  EXPECT_EQ(rate.share(kNow), 1.0);
  refuse(rate, kNow, kNow + 1s);
  EXPECT_NEAR(rate.share(kNow + 1s), 0.9, 1e-9);
  EXPECT_EQ(rate.effective(kNow + 1s), (RateLimits{.requests = 540, .tokens = 54'000}));
  EXPECT_NEAR(rate.share(kNow + 11s), 0.95, 1e-9);
  EXPECT_EQ(rate.effective(kNow + 1h), (RateLimits{.requests = 600, .tokens = 60'000}));
}

TEST(GroupRate, a_429_counts_once_for_all_that_was_in_flight) {
  GroupRate rate = configured({.requests = 600});
  for (int i = 0; i < 50; ++i) refuse(rate, kNow + 1ms * i, kNow + 1s);
  EXPECT_NEAR(rate.share(kNow + 1s), 0.9, 1e-9);
  refuse(rate, kNow + 1s + 1ms, kNow + 2s);
  EXPECT_NEAR(rate.share(kNow + 2s), 0.9 * 0.905, 1e-9);
}

TEST(GroupRate, a_tenth_stays) {
  GroupRate rate = configured({.requests = 600});
  for (int i = 1; i <= 100; ++i) refuse(rate, kNow + 10ms * i, kNow + 10ms * i + 5ms);
  EXPECT_NEAR(rate.share(kNow + 1'005ms), 0.1, 0.005);
}

TEST(GroupRate, after_a_429_nothing_is_left_for_the_moment) {
  GroupRate rate = configured({.requests = 600});
  EXPECT_EQ(rate.next(kCall, kNow), kNow);
  refuse(rate, kNow, kNow + 10s);
  EXPECT_GT(rate.next(kCall, kNow + 10s), kNow + 10s);
}

TEST(GroupRate, a_refused_attempt_counts_as_a_request_and_took_no_tokens) {
  GroupRate rate = configured({.requests = 60, .tokens = 600'000});
  refuse(rate, kNow, kNow);  // The cut empties it.
  rate.take(kCall, kNow + 10s);
  rate.settle(kCall, {}, true, kNow, kNow + 10s);  // No second cut.
  EXPECT_STREQ(rate.holds(kCall, kNow + 10s), "requests_per_minute");
  EXPECT_STREQ(rate.holds({.requests = 0, .input = 9'000}, kNow + 10s), "");
}

TEST(GroupRate, learns_from_what_was_accepted_where_nothing_is_known) {
  GroupRate rate;
  const TimePoint later = answer(rate, kNow, 20s, 10);
  EXPECT_EQ(rate.effective(later), RateLimits{});
  refuse(rate, later, later + 50ms);
  const RateLimits limits = rate.effective(later + 50ms);
  EXPECT_NEAR(static_cast<double>(limits.requests), 540, 30);
  EXPECT_NEAR(static_cast<double>(limits.tokens), 54'000, 3'000);
  EXPECT_EQ(rate.share(later + 50ms), 1.0);
  // It grows without an end, a percent of it each second (some tenth less, as there are few).
  const RateLimits grown = rate.effective(later + 50s);
  EXPECT_NEAR(static_cast<double>(grown.requests), static_cast<double>(limits.requests) * 1.45, 30);
  // Where nothing is refused for long, it was a mistake, or is one by now.
  EXPECT_GT(rate.effective(later + 300s).requests, limits.requests * 50);
}

TEST(GroupRate, what_is_refused_at_any_rate_is_not_helped_by_a_slower_one) {
  GroupRate rate;
  TimePoint now = kNow;
  std::int64_t least = 1'000'000;
  // Three in five are refused whatever the rate is, at 50 a second if they may.
  for (int i = 0; i < 3'000; ++i) {
    now = std::max(now + 20ms, rate.next(kCall, now + 20ms));
    rate.take(kCall, now);
    rate.settle(kCall, kCall, i % 5 < 3, now, now + 5ms);
    if (const auto limit = rate.effective(now + 5ms).requests; limit > 0) least = std::min(least, limit);
  }
  EXPECT_LT(now - kNow, 200s) << "3000 attempts take 60 s without any limit";
  EXPECT_GT(least, 15);
}

// Chance may make a first sample look worse than the slower one after it, so that the slower rate seems to help.
TEST(GroupRate, chance_does_not_keep_it_at_its_slowest) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 chance{seed};
    const double refused = 0.25 + 0.05 * (seed % 5);
    GroupRate rate;
    TimePoint now = kNow;
    for (int i = 0; i < 800; ++i) {
      now = std::max(now + 20ms, rate.next(kCall, now + 20ms));
      rate.take(kCall, now);
      rate.settle(kCall, kCall, std::generate_canonical<double, 32>(chance) < refused, now, now + 5ms);
    }
    EXPECT_LT(now - kNow, 90s) << "seed " << seed
                               << ": 800 attempts take 16 s without any limit, 160 s at the slowest";
  }
}

TEST(GroupRate, does_not_learn_from_few) {
  GroupRate rate;
  const TimePoint later = answer(rate, kNow, 1s, 19);
  refuse(rate, later + 5s, later + 6s);
  EXPECT_EQ(rate.effective(later + 6s), RateLimits{});
}

TEST(GroupRate, a_pause_in_which_nothing_went_is_not_counted) {
  GroupRate rate;
  answer(rate, kNow, 5s, 100);
  const TimePoint later = answer(rate, kNow + 8s, 2s, 100);
  refuse(rate, later, later + 50ms);
  EXPECT_NEAR(static_cast<double>(rate.effective(later + 50ms).requests), 5'400, 300);
}

TEST(GroupRate, what_was_refused_was_not_accepted) {
  GroupRate rate;
  TimePoint now = kNow;
  for (int i = 0; i < 1'000; ++i, now += 10ms) rate.take(kCall, now);
  // Of two one comes back. The first of them tell nothing: too few went before them.
  for (int i = 0; i < 1'000; i += 2) rate.settle(kCall, {}, true, kNow + 10ms * i, now);
  EXPECT_NEAR(static_cast<double>(rate.effective(now).requests), 2'700, 200);
}

TEST(GroupRate, what_was_learned_is_forgotten_after_ten_minutes_without_a_429) {
  GroupRate rate;
  const TimePoint later = answer(rate, kNow, 20s, 10);
  refuse(rate, later, later);
  (void)rate.next(kCall, later + 10min - 1s);
  EXPECT_GT(rate.effective(later + 10min - 1s).requests, 0);
  (void)rate.next(kCall, later + 10min);
  EXPECT_EQ(rate.effective(later + 10min), RateLimits{});
}

TEST(GroupRate, learns_too_where_a_tenth_of_what_is_known_is_too_much) {
  GroupRate rate = configured({.requests = 14'400});  // A day's, in truth.
  TimePoint now = answer(rate, kNow, 60s, 1);
  for (int i = 1; i <= 100; ++i) refuse(rate, now + 10ms * i, now + 10ms * i + 5ms);
  EXPECT_LE(rate.effective(now + 2s).requests, 60);
}

TEST(GroupRate, a_reload_keeps_what_is_used_and_what_429s_left) {
  GroupRate rate = configured({.requests = 600});
  refuse(rate, kNow, kNow);
  rate.configure({.requests = 6'000}, kNow);
  EXPECT_EQ(rate.effective(kNow).requests, 5'400);
  EXPECT_GT(rate.next(kCall, kNow), kNow);
}

// Goal: whatever comes, the share stays within its bounds, what is told as next can be taken then, and a limit that
// was configured is never passed. Method: random stories.
RC_GTEST_PROP(GroupRate, keeps_its_bounds, ()) {
  const RateLimits limits{.requests = *rc::gen::inRange(1, 10'000), .tokens = *rc::gen::inRange(1, 1'000'000)};
  GroupRate rate = configured(limits);
  TimePoint now = kNow;
  const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 10), rc::gen::inRange(0, 5'000)));
  std::vector<TimePoint> out;
  for (const auto& [kind, number] : steps) {
    now += Milliseconds{number};
    if (kind < 5) {
      now = rate.next(kCall, now);
      RC_ASSERT(rate.next(kCall, now) == now);
      rate.take(kCall, now);
      out.push_back(now);
    } else if (!out.empty()) {
      rate.settle(kCall, {.requests = 1, .input = static_cast<double>(number)}, kind < 8, out.back(), now);
      out.pop_back();
    }
    const double share = rate.share(now);
    RC_ASSERT(share >= 0.1);
    RC_ASSERT(share <= 1.0);
    const RateLimits effective = rate.effective(now);
    RC_ASSERT(effective.requests >= 1 && effective.requests <= limits.requests);
    RC_ASSERT(effective.tokens >= 1 && effective.tokens <= limits.tokens);
  }
}

}  // namespace group_rate_test
}  // namespace budget
