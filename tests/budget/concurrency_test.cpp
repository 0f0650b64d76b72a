#include "budget/concurrency.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace budget {
namespace concurrency_test {

using namespace std::chrono_literals;

const TimePoint kNow{1'000s};

Concurrency adaptive(int most) {
  Concurrency concurrency;
  concurrency.configure(most, true);
  return concurrency;
}
/// Out of its slow start.
Concurrency settled(int most) {
  Concurrency concurrency;
  concurrency.configure(most, false);
  concurrency.configure(most, true);
  return concurrency;
}
void succeed(Concurrency& concurrency, int times) {
  for (int i = 0; i < times; ++i) concurrency.succeeded(concurrency.limit(), kNow);
}

/// Enough of it to be more than chance.
void overload(Concurrency& concurrency, TimePoint began, int in_use, TimePoint now) {
  for (int i = 0; i < 4; ++i) concurrency.overloaded(began, in_use, now);
}

TEST(Concurrency, what_fails_now_and_then_at_any_load_takes_nothing) {
  Concurrency concurrency = settled(100);
  for (int i = 0; i < 10'000; ++i) {
    const TimePoint now = kNow + 10ms * i;
    i % 25 == 0 ? concurrency.overloaded(now - 1ms, 100, now) : concurrency.succeeded(100, now);
  }
  EXPECT_EQ(concurrency.limit(), 100) << "one in twenty-five is no overload";
}

TEST(Concurrency, an_eighth_stays_whatever_happens) {
  Concurrency concurrency = settled(100);
  for (int i = 0; i < 100; ++i) overload(concurrency, kNow + 2s * i, 100, kNow + 2s * i + 1s);
  EXPECT_EQ(concurrency.limit(), 12);
}

TEST(Concurrency, a_process_begins_low_and_doubles) {
  Concurrency concurrency = adaptive(1'000);
  EXPECT_EQ(concurrency.limit(), 64);
  succeed(concurrency, 64);
  EXPECT_EQ(concurrency.limit(), 128);
  succeed(concurrency, 128);
  EXPECT_EQ(concurrency.limit(), 256);
  succeed(concurrency, 10'000);
  EXPECT_EQ(concurrency.limit(), 1'000);
  EXPECT_EQ(adaptive(10).limit(), 10);
}

TEST(Concurrency, a_slow_start_does_not_wait_for_long_answers) {
  Concurrency concurrency = adaptive(1'000);
  EXPECT_EQ(concurrency.grow(kNow), kNow + 250ms);
  EXPECT_EQ(concurrency.limit(), 64);
  EXPECT_EQ(concurrency.kept_back(), 936);
  EXPECT_EQ(concurrency.grow(kNow + 500ms), kNow + 750ms);
  EXPECT_EQ(concurrency.limit(), 256);
  EXPECT_EQ(concurrency.grow(kNow + 1h), std::nullopt);
  EXPECT_EQ(concurrency.limit(), 1'000);
  Concurrency cut = adaptive(1'000);
  EXPECT_EQ(cut.grow(kNow), kNow + 250ms);
  overload(cut, kNow, 64, kNow);
  EXPECT_EQ(cut.grow(kNow + 10s), std::nullopt);
  EXPECT_EQ(cut.kept_back(), 0);
  EXPECT_EQ(cut.limit(), 44);
}

TEST(Concurrency, the_first_overload_ends_the_slow_start) {
  Concurrency concurrency = adaptive(1'000);
  overload(concurrency, kNow, 64, kNow + 1s);
  EXPECT_EQ(concurrency.limit(), 44);
  succeed(concurrency, 43);
  EXPECT_EQ(concurrency.limit(), 44);
  succeed(concurrency, 1);
  EXPECT_EQ(concurrency.limit(), 45);
}

TEST(Concurrency, a_raised_number_holds_at_once_where_only_the_old_one_was_in_the_way) {
  Concurrency fresh = adaptive(4);
  fresh.configure(6, true);
  EXPECT_EQ(fresh.limit(), 6);
  Concurrency known = settled(100);
  known.configure(300, true);
  EXPECT_EQ(known.limit(), 300);
  overload(known, kNow, 300, kNow + 1s);
  known.configure(400, true);
  EXPECT_EQ(known.limit(), 210) << "what it bears is known by now";
}

TEST(Concurrency, a_cut_counts_once_for_all_that_was_in_flight) {
  Concurrency concurrency = settled(100);
  for (int i = 0; i < 100; ++i) concurrency.overloaded(kNow + 1ms * i, 100, kNow + 1s + 1ms * i);
  EXPECT_EQ(concurrency.limit(), 70);
  overload(concurrency, kNow + 1s, 70, kNow + 3s);  // It began before the cut was made.
  EXPECT_EQ(concurrency.limit(), 70);
  overload(concurrency, kNow + 1s + 10ms, 70, kNow + 1900ms);  // The last cut has not shown yet what it does.
  EXPECT_EQ(concurrency.limit(), 70);
  overload(concurrency, kNow + 1s + 10ms, 70, kNow + 3s);
  EXPECT_EQ(concurrency.limit(), 49);
}

TEST(Concurrency, a_cut_is_one_of_what_was_in_flight) {
  Concurrency half = settled(100);
  overload(half, kNow, 60, kNow);
  EXPECT_EQ(half.limit(), 42);
  Concurrency few = settled(100);
  overload(few, kNow, 3, kNow);
  EXPECT_EQ(few.limit(), 35);
  Concurrency more = settled(100);
  overload(more, kNow, 1'000, kNow);
  EXPECT_EQ(more.limit(), 70);
}

TEST(Concurrency, grows_only_while_it_is_what_limits) {
  Concurrency concurrency = settled(100);
  overload(concurrency, kNow, 100, kNow);
  for (int i = 0; i < 1'000; ++i) concurrency.succeeded(55, kNow);
  EXPECT_EQ(concurrency.limit(), 70);
  for (int i = 0; i < 70; ++i) concurrency.succeeded(56, kNow);
  EXPECT_EQ(concurrency.limit(), 71);
}

TEST(Concurrency, a_reload_clamps_and_does_not_begin_anew) {
  Concurrency concurrency = adaptive(200);
  succeed(concurrency, 1'000);
  concurrency.configure(150, true);
  EXPECT_EQ(concurrency.limit(), 150);
  overload(concurrency, kNow, 150, kNow);
  EXPECT_EQ(concurrency.limit(), 105);
  concurrency.configure(1'000, true);
  EXPECT_EQ(concurrency.limit(), 105);
  succeed(concurrency, 105);
  EXPECT_EQ(concurrency.limit(), 106);
  concurrency.configure(50, true);
  EXPECT_EQ(concurrency.limit(), 50);
}

TEST(Concurrency, a_higher_number_is_reached_as_fast_as_the_first_if_nothing_failed) {
  Concurrency concurrency = adaptive(100);
  succeed(concurrency, 100);
  concurrency.configure(400, true);
  EXPECT_EQ(concurrency.limit(), 100);
  succeed(concurrency, 300);
  EXPECT_EQ(concurrency.limit(), 400);
}

TEST(Concurrency, a_fixed_number_stays) {
  Concurrency concurrency;
  EXPECT_EQ(concurrency.limit(), 0);
  concurrency.configure(100, false);
  overload(concurrency, kNow, 100, kNow);
  EXPECT_EQ(concurrency.limit(), 100);
  concurrency.configure(0, true);
  overload(concurrency, kNow, 100, kNow);
  concurrency.succeeded(100, kNow);
  EXPECT_EQ(concurrency.limit(), 0);
  concurrency.configure(300, true);  // It has been called all the while.
  EXPECT_EQ(concurrency.limit(), 300);
  concurrency.configure(-1, true);
  EXPECT_EQ(concurrency.limit(), 0);
}

RC_GTEST_PROP(Concurrency, stays_between_one_and_the_configured_number_and_moves_by_its_rule, ()) {
  int most = *rc::gen::inRange(1, 300);
  Concurrency concurrency = adaptive(most);
  TimePoint now = kNow;
  TimePoint cut = TimePoint::min();
  const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 100), rc::gen::inRange(0, 400)));
  for (const auto& [kind, number] : steps) {
    const int before = concurrency.limit();
    now += 40ms;
    if (kind < 70) {
      concurrency.succeeded(number, now);
      RC_ASSERT(concurrency.limit() == before || (concurrency.limit() == before + 1 && number * 5 >= before * 4));
    } else if (kind < 95) {
      const TimePoint began = now - Milliseconds{number / 20};
      concurrency.overloaded(began, number, now);
      if (concurrency.limit() == before) continue;
      // A cut is of all that had begun before it, not more often than once a second, and never below an eighth.
      RC_ASSERT(began > cut && (cut == TimePoint::min() || now - cut >= 1s));
      RC_ASSERT(concurrency.limit() < before);
      RC_ASSERT(concurrency.limit() >= std::min(before, std::max({1, before * 7 / 20, std::min(16, most / 8)})));
      cut = now;
    } else {
      most = 1 + number;
      concurrency.configure(most, true);
      RC_ASSERT(concurrency.limit() >= std::min(before, most));
    }
    RC_ASSERT(concurrency.limit() >= 1);
    RC_ASSERT(concurrency.limit() <= most);
  }
}

}  // namespace concurrency_test
}  // namespace budget
