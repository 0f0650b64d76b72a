#include "budget/memo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace budget {
namespace memo_test {

using namespace std::chrono_literals;

const TimePoint kNow{100s};

MemoKey key_of(std::uint8_t number) {
  MemoKey key{};
  key[31] = number;  // Equal in its first bytes, so hashes collide.
  return key;
}
RememberedFailure failure_of(std::string model, std::string body = "busy", std::string upstream = "openai") {
  return {.status = 503,
          .headers = {{"Content-Type", "application/json"}},
          .body = std::move(body),
          .cls = classifier::Class::Overloaded,
          .upstream = std::move(upstream),
          .model = std::move(model),
          .first_began = kNow - 1s,
          .come_back = kNow + 40s};
}

TEST(Memo, gives_back_what_it_remembers) {
  Memo memo;
  EXPECT_TRUE(memo.empty(kNow));
  EXPECT_TRUE(memo.remember(key_of(1), failure_of("m"), kNow));
  EXPECT_FALSE(memo.empty(kNow));
  const RememberedFailure* found = memo.find(key_of(1), kNow + 1s);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(*found, failure_of("m"));
  EXPECT_EQ(memo.find(key_of(2), kNow + 1s), nullptr);
}

TEST(Memo, forgets_after_its_time) {
  Memo memo;
  memo.remember(key_of(1), failure_of("m"), kNow);
  EXPECT_NE(memo.find(key_of(1), kNow + 15s - 1ns), nullptr);
  EXPECT_EQ(memo.find(key_of(1), kNow + 15s), nullptr);
  EXPECT_TRUE(memo.empty(kNow + 15s));
  EXPECT_EQ(memo.bytes(), 0U);
}

TEST(Memo, a_look_does_not_prolong_it_but_a_new_failure_does) {
  Memo memo;
  memo.remember(key_of(1), failure_of("m", "first"), kNow);
  ASSERT_NE(memo.find(key_of(1), kNow + 14s), nullptr);
  EXPECT_EQ(memo.find(key_of(1), kNow + 16s), nullptr);

  memo.remember(key_of(2), failure_of("m", "first"), kNow + 20s);
  memo.remember(key_of(2), failure_of("m", "second"), kNow + 30s);
  EXPECT_EQ(memo.count(), 1U);
  ASSERT_NE(memo.find(key_of(2), kNow + 44s), nullptr);
  EXPECT_EQ(memo.find(key_of(2), kNow + 44s)->body, "second");
}

TEST(Memo, a_success_forgets_what_its_upstream_and_model_left) {
  Memo memo;
  memo.remember(key_of(1), failure_of("m"), kNow);
  memo.remember(key_of(2), failure_of("m"), kNow);
  memo.remember(key_of(3), failure_of("n"), kNow);
  memo.remember(key_of(4), failure_of("m", "busy", "azure"), kNow);
  memo.success("openai", "other", kNow);
  EXPECT_EQ(memo.count(), 4U);
  memo.success("openai", "m", kNow);
  EXPECT_EQ(memo.find(key_of(1), kNow), nullptr);
  EXPECT_EQ(memo.find(key_of(2), kNow), nullptr);
  EXPECT_NE(memo.find(key_of(3), kNow), nullptr);
  EXPECT_NE(memo.find(key_of(4), kNow), nullptr);
  // Names do not run together.
  memo.remember(key_of(5), failure_of("bc", "busy", "a"), kNow);
  memo.success("ab", "c", kNow);
  EXPECT_NE(memo.find(key_of(5), kNow), nullptr);
  memo.success("openai", "n", kNow);
  memo.success("azure", "m", kNow);
  memo.success("a", "bc", kNow);
  EXPECT_TRUE(memo.empty(kNow));
  EXPECT_EQ(memo.bytes(), 0U);
}

TEST(Memo, a_failure_while_others_are_answered_is_chance) {
  Memo memo;
  memo.success("openai", "m", kNow);
  RememberedFailure failure = failure_of("m");
  failure.first_began = kNow - 1s;
  EXPECT_FALSE(memo.remember(key_of(1), failure, kNow + 5s));
  EXPECT_TRUE(memo.empty(kNow + 5s));
  // Nothing was answered since: it is down.
  failure.first_began = kNow + 1ns;
  EXPECT_TRUE(memo.remember(key_of(2), failure, kNow + 5s));
  // Of another model, or elsewhere, nothing is known.
  EXPECT_TRUE(memo.remember(key_of(3), failure_of("n"), kNow + 5s));
  EXPECT_TRUE(memo.remember(key_of(4), failure_of("m", "busy", "azure"), kNow + 5s));
  // Chance says that what was remembered before is not the last word, either.
  failure.first_began = kNow - 1s;
  EXPECT_FALSE(memo.remember(key_of(2), failure, kNow + 6s));
  EXPECT_EQ(memo.find(key_of(2), kNow + 6s), nullptr);
}

TEST(Memo, holds_no_more_than_its_count) {
  Memo memo{{.max_count = 2}};
  for (std::uint8_t i = 1; i <= 3; ++i) memo.remember(key_of(i), failure_of("m"), kNow);
  EXPECT_EQ(memo.count(), 2U);
  EXPECT_EQ(memo.find(key_of(1), kNow), nullptr);
  EXPECT_NE(memo.find(key_of(3), kNow), nullptr);
}

TEST(Memo, does_not_remember_large_answers) {
  Memo memo{{.max_bytes = 160'000}};
  EXPECT_TRUE(memo.remember(key_of(1), failure_of("m", std::string(9'000, 'x')), kNow));
  EXPECT_FALSE(memo.remember(key_of(2), failure_of("m", std::string(10'001, 'x')), kNow));
  RememberedFailure headers = failure_of("m");
  headers.headers.assign(3, {"X", std::string(4'000, 'x')});
  EXPECT_FALSE(memo.remember(key_of(3), headers, kNow));
  // What it could have been asked for is not answered with something older.
  EXPECT_FALSE(memo.remember(key_of(1), failure_of("m", std::string(10'001, 'x')), kNow));
  EXPECT_TRUE(memo.empty(kNow));
}

TEST(Memo, can_be_turned_off) {
  for (const MemoPolicy& off : {MemoPolicy{.ttl = 0ms}, MemoPolicy{.max_count = 0}, MemoPolicy{.max_bytes = 0}}) {
    Memo memo{off};
    EXPECT_FALSE(memo.remember(key_of(1), failure_of("m"), kNow));
    EXPECT_TRUE(memo.empty(kNow));
  }
}

TEST(Memo, an_update_keeps_what_the_new_bounds_hold) {
  Memo memo;
  for (std::uint8_t i = 1; i <= 5; ++i) memo.remember(key_of(i), failure_of("m"), kNow + i * 1s);
  memo.update({.max_count = 3}, kNow + 6s);
  EXPECT_EQ(memo.count(), 3U);
  EXPECT_EQ(memo.find(key_of(2), kNow + 6s), nullptr);
  memo.update({.ttl = 2s, .max_count = 3}, kNow + 6s);
  EXPECT_EQ(memo.count(), 1U);
  EXPECT_NE(memo.find(key_of(5), kNow + 6s), nullptr);
  memo.update({.max_bytes = 10}, kNow + 6s);
  EXPECT_EQ(memo.count(), 0U);
}

// Goal: it finds exactly what a plain list would, within its bounds.
// Method: seeded random failures, looks and successes; a failure prints its seed.
TEST(Memo, is_a_bounded_list_with_an_index) {
  struct Known {
    std::uint8_t key;
    RememberedFailure failure;
    TimePoint at;
  };
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng{seed};
    const auto up_to = [&](unsigned most) { return static_cast<unsigned>(rng() % (most + 1)); };
    const std::size_t max_count = 1 + up_to(20);
    Memo memo{{.ttl = 10s, .max_count = max_count, .max_bytes = 1'000'000}};
    std::vector<Known> model;
    std::map<std::string, TimePoint> answered;
    TimePoint now = kNow;
    for (int step = 0; step < 300; ++step) {
      now += Milliseconds{up_to(1'500)};
      std::erase_if(model, [&](const Known& known) { return now - known.at >= 10s; });
      const auto number = static_cast<std::uint8_t>(up_to(25));
      const std::string name{static_cast<char>('a' + up_to(2))};
      switch (up_to(3)) {
        case 0:
          memo.success("openai", name, now);
          answered[name] = now;
          std::erase_if(model, [&](const Known& known) { return known.failure.model == name; });
          break;
        case 1: {
          const auto same = [&](const Known& known) { return known.key == number; };
          const auto want = std::find_if(model.begin(), model.end(), same);
          const RememberedFailure* found = memo.find(key_of(number), now);
          ASSERT_EQ(found != nullptr, want != model.end());
          if (found != nullptr) {
            ASSERT_EQ(*found, want->failure);
          }
          break;
        }
        default:
          RememberedFailure failure = failure_of(name, std::string(up_to(100), 'x'));
          failure.first_began = now - Milliseconds{up_to(3'000)};
          const bool news = !answered.contains(name) || answered[name] < failure.first_began;
          ASSERT_EQ(memo.remember(key_of(number), failure, now), news);
          std::erase_if(model, [&](const Known& known) { return known.key == number; });
          if (!news) break;
          model.push_back({number, failure, now});
          if (model.size() > max_count) model.erase(model.begin());
      }
      ASSERT_EQ(memo.empty(now), model.empty());
      ASSERT_EQ(memo.count(), model.size());
      ASSERT_EQ(memo.bytes() == 0, model.empty());
    }
  }
}

TEST(Memo, holds_no_more_than_its_bytes) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng{seed};
    Memo memo{{.max_bytes = 50'000}};
    std::size_t most = 0;
    for (int i = 0; i < 500; ++i) {
      memo.remember(
          key_of(static_cast<std::uint8_t>(rng() % 256)), failure_of("m", std::string(rng() % 4'000, 'x')), kNow);
      ASSERT_LE(memo.bytes(), 50'000U);
      most = std::max(most, memo.bytes());
    }
    EXPECT_GT(most, 45'000U);
  }
}

}  // namespace memo_test
}  // namespace budget
