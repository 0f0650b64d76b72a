#include "budget/retry_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace budget {
namespace retry_budget_test {

using namespace std::chrono_literals;

const TimePoint kNow{100s};

int take_all(RetryBudget& budget, TimePoint now) {
  int taken = 0;
  while (taken < 1'000 && budget.take(now)) ++taken;
  return taken;
}
void calls(RetryBudget& budget, int count, TimePoint now) {
  for (int i = 0; i < count; ++i) budget.call_began(now);
}

struct Case {
  const char* name;
  RetryBudgetPolicy policy;
  int calls;
  int want;
};

TEST(RetryBudget, allows_a_share_of_the_calls_and_a_floor) {
  const Case cases[] = {
      {"a quiet upstream has the floor", {.share = 0.5, .floor = 10}, 0, 10},
      {"the share comes on top", {.share = 0.5, .floor = 10}, 100, 60},
      {"a share that is no whole number is rounded up", {.share = 0.5, .floor = 0}, 3, 2},
      {"no floor, no calls, no retry", {.share = 0.5, .floor = 0}, 0, 0},
      {"no share leaves the floor", {.share = 0.0, .floor = 3}, 100, 3},
      {"half a retry is none", {.share = 0.0, .floor = 0.9}, 0, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    RetryBudget budget{c.policy};
    calls(budget, c.calls, kNow);
    EXPECT_EQ(take_all(budget, kNow), c.want);
    EXPECT_FALSE(budget.take(kNow));
  }
}

TEST(RetryBudget, forgets_calls_after_a_minute) {
  RetryBudget budget{{.share = 0.5, .floor = 0}};
  calls(budget, 100, kNow);
  EXPECT_EQ(budget.available(kNow + 59s), 50);
  EXPECT_EQ(budget.available(kNow + 60s), 0);
  EXPECT_FALSE(budget.take(kNow + 60s));
}

TEST(RetryBudget, refills_the_floor_slowly_and_not_above_itself) {
  RetryBudget budget{{.share = 0.5, .floor = 2, .floor_refill_per_second = 0.1}};
  EXPECT_EQ(take_all(budget, kNow), 2);
  EXPECT_FALSE(budget.take(kNow + 9'999ms));
  EXPECT_TRUE(budget.take(kNow + 10s));
  EXPECT_EQ(take_all(budget, kNow + 1h), 2);
}

TEST(RetryBudget, says_when_the_next_retry_may_go) {
  RetryBudget floor{{.share = 0.5, .floor = 1, .floor_refill_per_second = 0.1}};
  EXPECT_EQ(floor.next(kNow), kNow);
  ASSERT_TRUE(floor.take(kNow));
  EXPECT_NEAR(std::chrono::duration<double>(floor.next(kNow) - kNow).count(), 10.0, 1e-6);

  // The retry of half a minute later leaves the window before the call that was made after it.
  RetryBudget share{{.share = 0.5, .floor = 0}};
  calls(share, 18, kNow);
  EXPECT_EQ(take_all(share, kNow), 9);
  share.call_began(kNow + 30s);
  ASSERT_TRUE(share.take(kNow + 30s));
  share.call_began(kNow + 40s);
  EXPECT_FALSE(share.take(kNow + 40s));
  EXPECT_EQ(share.next(kNow + 40s), kNow + 90s);
  EXPECT_FALSE(share.take(kNow + 90s - 1ns));
  EXPECT_TRUE(share.take(kNow + 90s));

  RetryBudget never{{.share = 0.5, .floor = 0.5}};
  EXPECT_EQ(never.next(kNow), TimePoint::max());
}

TEST(RetryBudget, an_old_retry_that_leaves_the_window_makes_room) {
  RetryBudget budget{{.share = 0.5, .floor = 3, .floor_refill_per_second = 0}};
  EXPECT_EQ(take_all(budget, kNow), 3);  // By the floor, and they count as retries.
  calls(budget, 4, kNow + 20s);
  EXPECT_FALSE(budget.take(kNow + 20s));
  EXPECT_EQ(budget.next(kNow + 20s), kNow + 60s);
  EXPECT_FALSE(budget.take(kNow + 60s - 1ns));
  EXPECT_TRUE(budget.take(kNow + 60s));
}

TEST(RetryBudget, an_update_keeps_what_was_counted) {
  RetryBudget budget{{.share = 0.5, .floor = 10}};
  calls(budget, 10, kNow);
  EXPECT_EQ(take_all(budget, kNow), 15);
  budget.update({.share = 2.0, .floor = 10});
  EXPECT_EQ(take_all(budget, kNow), 5);
  budget.update({.share = 0.5, .floor = 100});
  EXPECT_EQ(take_all(budget, kNow), 0);  // More room in the bucket is not more in it.

  RetryBudget saved{{.share = 0.5, .floor = 10}};
  saved.update({.share = 0.5, .floor = 2});
  EXPECT_EQ(take_all(saved, kNow), 2);
}

// Goal: every answer is that of the rule written out naively, next() is the earliest moment that works, and no minute
// sees more retries than the share of its calls plus what the floor can give.
// Method: seeded random traffic against lists of moments; a failure prints its seed.
TEST(RetryBudget, never_lets_more_through_than_the_rule) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng{seed};
    const auto up_to = [&](int most) { return static_cast<int>(rng() % static_cast<unsigned>(most + 1)); };
    const RetryBudgetPolicy policy{.share = up_to(10) / 10.0,
                                   .floor = static_cast<double>(up_to(12)),
                                   .floor_refill_per_second = up_to(4) / 20.0};
    RetryBudget budget{policy};
    std::vector<std::int64_t> began;
    std::vector<std::int64_t> retried;
    double level = policy.floor;
    TimePoint now = kNow;
    for (int step = 0; step < 400; ++step) {
      const auto gap = Milliseconds{up_to(3) == 0 ? up_to(20'000) : up_to(300)};
      now += gap;
      level = std::min(policy.floor, level + policy.floor_refill_per_second * static_cast<double>(gap.count()) / 1e3);
      const std::int64_t second = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
      const auto within = [&](const std::vector<std::int64_t>& all) {
        return std::count_if(all.begin(), all.end(), [&](std::int64_t s) { return s > second - 60; });
      };
      if (up_to(1) == 0) {
        budget.call_began(now);
        began.push_back(second);
        continue;
      }
      const bool by_share = static_cast<double>(within(retried)) < policy.share * static_cast<double>(within(began));
      const bool want = by_share || level > 1.0 - 1e-6;
      const TimePoint next = budget.next(now);
      EXPECT_EQ(next == now, want);
      if (next != TimePoint::max()) {
        RetryBudget then = budget;
        EXPECT_TRUE(then.take(next));
        RetryBudget early = budget;
        const TimePoint before = next - std::min<std::chrono::nanoseconds>(1us, next - now);
        EXPECT_EQ(early.take(before), want);
      } else {
        for (const auto wait : {1s, 59s, 61s, 86'400s}) {
          RetryBudget later = budget;
          EXPECT_FALSE(later.take(now + wait));
        }
      }
      ASSERT_EQ(budget.take(now), want);
      if (!want) continue;
      if (!by_share) level = std::max(0.0, level - 1.0);
      retried.push_back(second);
      EXPECT_LE(static_cast<double>(within(retried)),
                std::ceil(policy.share * static_cast<double>(began.size())) + policy.floor +
                    policy.floor_refill_per_second * 61.0 + 1.0);
    }
  }
}

TEST(RetryBudget, answers_earn_retries_and_failures_do_not) {
  const TimePoint now{100s};
  RetryBudget budget{{.share = 0.5, .floor = 0, .floor_refill_per_second = 0}};
  // Three in five fail: a job takes one and a half retries, and its answer pays for them.
  for (int job = 0; job < 100; ++job) {
    budget.call_began(now);
    budget.answered(now);
  }
  int retries = 0;
  while (budget.take(now)) ++retries;
  EXPECT_EQ(retries, 200);
  RetryBudget down{{.share = 0.5, .floor = 0, .floor_refill_per_second = 0}};
  for (int job = 0; job < 100; ++job) down.call_began(now);
  retries = 0;
  while (down.take(now)) ++retries;
  EXPECT_EQ(retries, 50);
  RetryBudget none{{.share = 0, .floor = 0, .floor_refill_per_second = 0}};
  none.answered(now);
  EXPECT_FALSE(none.take(now)) << "no share, no retries";
}

}  // namespace retry_budget_test
}  // namespace budget
