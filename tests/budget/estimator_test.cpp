#include "budget/estimator.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace budget {
namespace estimator_test {

constexpr std::int64_t kAbsurd = 1'000'000'000;

Sizes text(std::uint64_t bytes) { return {.text_bytes = bytes}; }

void learn(Estimator& estimator, int times, const Sizes& sizes, std::int64_t input, std::int64_t output) {
  for (int i = 0; i < times; ++i) estimator.learn("openai", "gpt", sizes, input, output);
}

TEST(Estimator, an_unknown_model_begins_at_what_is_usual) {
  Estimator estimator;
  struct Case {
    const char* name;
    Sizes sizes;
    Expected want;
  };
  const Case cases[] = {
      {"four bytes a token", {.text_bytes = 4'000}, {1'000, 512}},
      {"rounded up", {.text_bytes = 4'001}, {1'001, 512}},
      {"no body", {}, {0, 512}},
      {"media by the piece, not by the byte",
       {.text_bytes = 400, .media_bytes = 5'000'000, .media = 2},
       {2'100, 512}},
      {"the asked maximum, if lower", {.text_bytes = 400, .most_output = 16}, {100, 16}},
      {"not if higher", {.text_bytes = 400, .most_output = 100'000}, {100, 512}},
      {"no maximum below nothing", {.text_bytes = 400, .most_output = -5}, {100, 0}},
      {"a number of pieces that cannot be", {.text_bytes = 400, .media = -3}, {100, 512}},
      {"a body that cannot be", {.text_bytes = UINT64_MAX}, {100'000'000, 512}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Expected got = estimator.expect("openai", "gpt", c.sizes);
    EXPECT_EQ(got.input, c.want.input);
    EXPECT_EQ(got.output, c.want.output);
  }
}

TEST(Estimator, first_samples_count_most) {
  Estimator estimator;  // Two bytes a token.
  learn(estimator, 1, text(2'000), 1'000, 100);
  EXPECT_NEAR(static_cast<double>(estimator.expect("openai", "gpt", text(2'000)).input), 1'000, 200);
  learn(estimator, 2, text(2'000), 1'000, 100);
  EXPECT_NEAR(static_cast<double>(estimator.expect("openai", "gpt", text(2'000)).input), 1'000, 100);
  learn(estimator, 30, text(2'000), 1'000, 100);
  EXPECT_NEAR(static_cast<double>(estimator.expect("openai", "gpt", text(2'000)).input), 1'000, 10);
}

TEST(Estimator, follows_when_what_is_asked_changes) {
  Estimator estimator;
  learn(estimator, 500, text(4'000), 1'000, 100);
  learn(estimator, 60, text(2'000), 1'000, 100);
  EXPECT_NEAR(static_cast<double>(estimator.expect("openai", "gpt", text(2'000)).input), 1'000, 100);
}

TEST(Estimator, media_is_learned_by_the_piece_and_leaves_text_alone) {
  Estimator estimator;
  const Sizes two{.text_bytes = 400, .media_bytes = 200'000, .media = 2};
  learn(estimator, 20, two, 100 + 2 * 250, 100);
  EXPECT_NEAR(static_cast<double>(estimator.expect("openai", "gpt", two).input), 600, 15);
  EXPECT_EQ(estimator.expect("openai", "gpt", text(4'000)).input, 1'000);
}

TEST(Estimator, output_is_the_ninth_of_ten) {
  Estimator estimator;
  std::mt19937 chance{7};
  for (int i = 0; i < 1'000; ++i)
    learn(estimator, 1, text(400), 100, static_cast<std::int64_t>(1 + chance() % 1'000));
  EXPECT_NEAR(static_cast<double>(estimator.expect("openai", "gpt", text(400)).output), 900, 90);
  // Shorter ones now: two hundred are enough to forget the others by half, five hundred wholly.
  for (int i = 0; i < 500; ++i) learn(estimator, 1, text(400), 100, static_cast<std::int64_t>(1 + chance() % 100));
  EXPECT_NEAR(static_cast<double>(estimator.expect("openai", "gpt", text(400)).output), 95, 25);
}

TEST(Estimator, a_model_without_output_is_soon_known) {
  Estimator estimator;  // Embeddings.
  learn(estimator, 12, text(400), 100, 0);
  EXPECT_EQ(estimator.expect("openai", "gpt", text(400)).output, 0);
}

TEST(Estimator, one_absurd_sample_spoils_nothing) {
  for (const int before : {0, 1, 5, 100}) {
    for (const std::int64_t absurd : {std::int64_t{0}, std::int64_t{1}, kAbsurd, INT64_MAX, std::int64_t{-1}}) {
      SCOPED_TRACE(std::to_string(before) + " before, then " + std::to_string(absurd));
      Estimator estimator;
      const Sizes media{.text_bytes = 400, .media_bytes = 200'000, .media = 1};
      learn(estimator, before, text(4'000), 1'000, 300);
      learn(estimator, 1, text(4'000), absurd, absurd);
      learn(estimator, 1, media, absurd, 300);
      const Expected after = estimator.expect("openai", "gpt", text(4'000));
      EXPECT_LE(after.input, 3'000);
      EXPECT_GE(after.input, 300);
      EXPECT_LE(after.output, 512 * 20);
      learn(estimator, 20, text(4'000), 1'000, 300);
      const Expected later = estimator.expect("openai", "gpt", text(4'000));
      EXPECT_NEAR(static_cast<double>(later.input), 1'000, 150);
      EXPECT_NEAR(static_cast<double>(later.output), 300, 60);
    }
  }
}

TEST(Estimator, models_and_upstreams_are_told_apart) {
  Estimator estimator;
  for (int i = 0; i < 60; ++i) estimator.learn("a", "m", text(4'000), 4'000, 10);
  EXPECT_NEAR(static_cast<double>(estimator.expect("a", "m", text(4'000)).input), 4'000, 50);
  EXPECT_EQ(estimator.expect("a", "n", text(4'000)).input, 1'000);
  EXPECT_EQ(estimator.expect("b", "m", text(4'000)).input, 1'000);
  EXPECT_EQ(estimator.expect("am", "", text(4'000)).input, 1'000);
}

TEST(Estimator, names_made_up_by_callers_do_not_pile_up) {
  Estimator estimator;
  learn(estimator, 30, text(4'000), 4'000, 10);
  for (int i = 0; i < 10'000; ++i) {
    estimator.learn("openai", "made-up-" + std::to_string(i), text(4'000), 1'000, 10);
    if (i % 100 != 0) continue;
    EXPECT_GT(estimator.expect("openai", "gpt", text(4'000)).input, 3'900);  // In use: it stays.
  }
  EXPECT_EQ(estimator.expect("openai", "made-up-1", text(4'000)).input, 1'000);
}

// Whatever the ratio, from dense scripts to JSON full of escapes, thirty noisy samples tell it, and a tenth of them
// that is absurd moves it by less than a factor of two.
RC_GTEST_PROP(Estimator, is_near_the_truth_after_thirty_samples, ()) {
  const double ratio = *rc::gen::inRange(100, 1'000) / 100.0;
  const int absurd_in_a_hundred = *rc::gen::inRange(0, 11);
  std::mt19937_64 chance{*rc::gen::arbitrary<std::uint64_t>()};
  Estimator estimator;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t bytes = 100 + chance() % 20'000;
    const double noise = 0.8 + static_cast<double>(chance() % 400) / 1'000;
    auto tokens = static_cast<std::int64_t>(static_cast<double>(bytes) / ratio * noise) + 1;
    if (static_cast<int>(chance() % 100) < absurd_in_a_hundred) tokens = chance() % 2 == 0 ? 1 : kAbsurd;
    learn(estimator, 1, text(bytes), tokens, 100);
    if (i < 30) continue;
    const double got = static_cast<double>(estimator.expect("openai", "gpt", text(100'000)).input);
    RC_ASSERT(std::abs(std::log(got * ratio / 100'000)) < (absurd_in_a_hundred == 0 ? std::log(1.2) : std::log(3.0)));
  }
}

RC_GTEST_PROP(Estimator, never_expects_more_than_was_asked_for, ()) {
  Estimator estimator;
  const auto outputs = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::arbitrary<std::int64_t>());
  for (const std::int64_t output : outputs) learn(estimator, 1, text(400), output, output);
  const std::int64_t most = *rc::gen::inRange<std::int64_t>(0, 100'000);
  const Expected got = estimator.expect("openai", "gpt", {.text_bytes = 400, .most_output = most});
  RC_ASSERT(got.output >= 0);
  RC_ASSERT(got.output <= most);
  RC_ASSERT(got.input >= 1);
  RC_ASSERT(got.input <= 800);
}

}  // namespace estimator_test
}  // namespace budget
