#include "budget/worst_case.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace budget {
namespace worst_case_test {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct Rate {
  Meter meter;
  std::int64_t pico;
};

RateTable table(Tier tier, std::int64_t over, const std::vector<Rate>& rates) {
  RateTable made{tier, over, {}};
  for (const Rate& rate : rates) made.rates.set(rate.meter, {rate.pico});
  return made;
}

Price price_of(std::vector<RateTable> tables, std::vector<Factor> factors = {}) {
  Price price;
  price.tables = std::move(tables);
  price.factors = std::move(factors);
  sort_tables(price);
  return price;
}

Price plain(const std::vector<Rate>& rates) { return price_of({table(Tier::Standard, kAnyPrompt, rates)}); }

const Price kFallback = flat_price({5'000'000}, {25'000'000});
const Price kFlat = flat_price({2'000'000}, {10'000'000});
const Price kCached = plain({{Meter::Input, 3'000'000},
                             {Meter::CachedInput, 300'000},
                             {Meter::CacheWrite, 3'750'000},
                             {Meter::CacheWrite1h, 6'000'000},
                             {Meter::Output, 15'000'000}});
const Price kReasons = plain({{Meter::Input, 1'000'000},
                              {Meter::CacheWrite, 1'250'000},
                              {Meter::Output, 4'000'000},
                              {Meter::Reasoning, 8'000'000}});
const Price kLong =
    price_of({table(Tier::Standard, kAnyPrompt, {{Meter::Input, 1'000'000}, {Meter::Output, 2'000'000}}),
              table(Tier::Standard, 200, {{Meter::Input, 2'000'000}, {Meter::Output, 3'000'000}})});
const Price kHears = plain({{Meter::Input, 1'000'000}, {Meter::AudioInput, 7'000'000}, {Meter::Output, 2'000'000}});
const Price kSpeaks = plain({{Meter::Input, 1'000'000}, {Meter::Output, 2'000'000}, {Meter::AudioOutput, 9'000'000}});
const Price kRegional =
    price_of({table(Tier::Standard, kAnyPrompt, {{Meter::Input, 1'000'000}, {Meter::Output, 2'000'000}})},
             {{"us", 1'100'000}, {"priority", 2'000'000}});
const Price kNoOutput = plain({{Meter::Input, 1'000'000}});
const Price kFree = flat_price({0}, {0});

struct Case {
  const char* name;
  const Price* price;
  Expected most;
  bool has_media;
  Terms terms;
  std::int64_t nano;
};

const Case kCases[] = {
    {"input and output", &kFlat, {1'000, 100}, false, {}, 3'000'000},
    {"nothing at all", &kFlat, {0, 0}, false, {}, 0},
    {"no price: the fallback", nullptr, {1'000, 100}, false, {}, 7'500'000},
    {"a price that lacks what may be used: the fallback", &kNoOutput, {1'000, 100}, false, {}, 7'500'000},
    {"where no output may be, a price of input will do", &kNoOutput, {1'000, 0}, false, {}, 1'000'000},
    {"a free model is free", &kFree, {1'000, 100}, false, {}, 0},
    {"all of it is written to the dearest cache", &kCached, {1'000, 100}, false, {}, 7'500'000},
    {"the dearest input with the dearest output", &kReasons, {1'000, 100}, false, {}, 2'050'000},
    {"a short prompt", &kLong, {200, 100}, false, {}, 400'000},
    {"a long prompt is dearer as a whole", &kLong, {201, 100}, false, {}, 702'000},
    {"audio that is not there costs nothing", &kHears, {1'000, 100}, false, {}, 1'200'000},
    {"media may be audio", &kHears, {1'000, 100}, true, {}, 7'200'000},
    {"who can speak may speak", &kSpeaks, {1'000, 100}, false, {}, 1'900'000},
    {"a region is dearer", &kRegional, {1'000, 100}, false, {.region = "us"}, 1'320'000},
    {"a tier is dearer", &kRegional, {1'000, 100}, false, {.service_tier = "priority"}, 2'400'000},
    {"the fallback knows no terms",
     nullptr,
     {1'000, 100},
     false,
     {.service_tier = "priority", .region = "us"},
     7'500'000},
    {"negative counts are none", &kFlat, {-5, -1}, false, {}, 0},
    {"counts beyond all sense are cut", &kCached, {kMost, kMost}, true, {}, 21'000'000'000'000'000},
};

TEST(WorstCase, takes_the_dearest_rates_that_may_apply) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(worst_case(c.price, kFallback, c.most, c.has_media, c.terms).value, c.nano);
  }
}

struct Guess {
  const char* name;
  Sizes sizes;
  Expected expected;
  std::int64_t input;
  std::int64_t output;
};

const Guess kGuesses[] = {
    {"text, and a maximum", {.text_bytes = 4'001, .most_output = 300}, {1'000, 200}, 2'001, 300},
    {"denser text than usual", {.text_bytes = 4'000, .most_output = 300}, {1'500, 200}, 3'000, 300},
    {"no token without a byte", {.text_bytes = 4'000, .most_output = 300}, {3'900, 200}, 4'000, 300},
    {"media", {.text_bytes = 400, .media_bytes = 90'000, .media = 1, .most_output = 300}, {1'100, 200}, 2'200, 300},
    {"little media in much text",
     {.text_bytes = 4'000, .media_bytes = 9, .media = 1, .most_output = 300},
     {900, 9},
     2'000,
     300},
    {"a maximum above what is usual holds", {.text_bytes = 4, .most_output = 64'000}, {1, 200}, 2, 64'000},
    {"a maximum of none", {.text_bytes = 4, .most_output = 0}, {1, 200}, 2, 0},
    {"no maximum: at least this", {.text_bytes = 4}, {1, 200}, 2, 4'096},
    {"no maximum: twice what is usual", {.text_bytes = 4}, {1, 5'000}, 2, 10'000},
    {"no body", {}, {0, 512}, 0, 4'096},
    {"nonsense", {.text_bytes = ~std::uint64_t{0}, .most_output = -1}, {kMost, kMost}, 1'000'000'000'000, 0},
};

TEST(WorstCase, counts_the_most_tokens_that_a_request_should_take) {
  for (const Guess& c : kGuesses) {
    SCOPED_TRACE(c.name);
    const Expected most = most_tokens(c.sizes, c.expected);
    EXPECT_EQ(most.input, c.input);
    EXPECT_EQ(most.output, c.output);
  }
}

// Goal: no answer within these tokens costs more, however they are divided. Method: seeded divisions, at every price
// of the table above.
TEST(WorstCase, is_not_passed_by_any_answer_within_it) {
  std::mt19937_64 random{6};
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  for (const Price* price : {&kFlat, &kCached, &kReasons, &kLong, &kHears, &kSpeaks, &kRegional}) {
    for (int i = 0; i < 2'000; ++i) {
      const Expected most{up_to(400), up_to(400)};
      const NanoUsd worst = worst_case(price, kFallback, most, true);
      classifier::TokenCounts used{.input = up_to(most.input), .output = up_to(most.output)};
      used.cached_input = up_to(used.input);
      used.cache_write_5m = up_to(used.input - used.cached_input);
      used.cache_write_1h = up_to(used.input - used.cached_input - used.cache_write_5m);
      used.reasoning = up_to(used.output);
      const Billed billed{.audio_input = up_to(used.input), .audio_output = up_to(used.output - used.reasoning)};
      const std::optional<NanoUsd> cost = cost_of(price, {}, used, billed).total;
      ASSERT_TRUE(cost);
      ASSERT_LE(*cost, worst) << "input " << used.input << " of " << most.input << ", try " << i;
    }
  }
}

}  // namespace worst_case_test
}  // namespace budget
