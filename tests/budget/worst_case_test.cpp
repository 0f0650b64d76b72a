#include "budget/worst_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "budget/price_book.h"
#include "budget/price_file.h"
#include "classifier/cases.h"

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
  classifier::AskedTerms asked;
  std::string_view region;
  std::int64_t nano;
};

const Price kTiers =
    price_of({table(Tier::Standard, kAnyPrompt, {{Meter::Input, 1'000'000}, {Meter::Output, 2'000'000}})},
             {{"flex", 500'000}, {"priority", 2'000'000}});
const Price kTierTable = price_of({table(Tier::Standard, kAnyPrompt, {{Meter::Input, 1'000'000}, {Meter::Output, 0}}),
                                   table(Tier::Standard, 200, {{Meter::Input, 2'000'000}}),
                                   table(Tier::Priority, 200, {{Meter::Input, 7'000'000}})});
const Price kClaude =
    price_of({table(Tier::Standard, kAnyPrompt,
                    {{Meter::Input, 1'000'000}, {Meter::Output, 2'000'000}, {Meter::WebSearch, 10'000'000'000}})},
             {{"us", 1'100'000}, {"fast", 6'000'000}});
const Price kDiscount =
    price_of({table(Tier::Standard, kAnyPrompt, {{Meter::Input, 1'000'000}})}, {{"slow", 500'000}});
const Price kBulk = price_of({table(Tier::Standard, kAnyPrompt, {{Meter::Input, 1'000'000}}),
                              table(Tier::Standard, 200, {{Meter::Input, 500'000}})});
const Price kOddCache =
    plain({{Meter::Input, 1'000'000}, {Meter::CachedInput, 3'000'000}, {Meter::Output, 2'000'000}});
const Price kPainter = plain({{Meter::OutputImage, 40'000'000'000}});

const Case kCases[] = {
    {"input and output", &kFlat, {1'000, 100}, false, {}, "", 3'000'000},
    {"nothing at all", &kFlat, {0, 0}, false, {}, "", 0},
    {"no price: the fallback", nullptr, {1'000, 100}, false, {}, "", 7'500'000},
    {"a price that lacks what may be used: the fallback", &kNoOutput, {1'000, 100}, false, {}, "", 7'500'000},
    {"where no output may be, a price of input will do", &kNoOutput, {1'000, 0}, false, {}, "", 1'000'000},
    {"a free model is free", &kFree, {1'000, 100}, false, {}, "", 0},
    {"all of it is written to the dearest cache", &kCached, {1'000, 100}, false, {}, "", 7'500'000},
    {"the dearest input with the dearest output", &kReasons, {1'000, 100}, false, {}, "", 2'050'000},
    {"a short prompt", &kLong, {200, 100}, false, {}, "", 400'000},
    {"a long prompt is dearer as a whole", &kLong, {201, 100}, false, {}, "", 702'000},
    {"audio that is not there costs nothing", &kHears, {1'000, 100}, false, {}, "", 1'200'000},
    {"media may be audio", &kHears, {1'000, 100}, true, {}, "", 7'200'000},
    {"who can speak may speak", &kSpeaks, {1'000, 100}, false, {}, "", 1'900'000},
    {"a region is dearer", &kRegional, {1'000, 100}, false, {}, "us", 1'320'000},
    {"a tier is dearer", &kRegional, {1'000, 100}, false, {.service_tier = "priority"}, "", 2'400'000},
    {"the fallback knows no terms", nullptr, {1'000, 100}, false, {.service_tier = "priority"}, "us", 7'500'000},
    {"a tier may be given or refused", &kTiers, {1'000, 100}, false, {.service_tier = "flex"}, "", 1'200'000},
    {"OpenAI's request word for one", &kTiers, {1'000, 100}, false, {.service_tier = "fast"}, "", 2'400'000},
    {"a project may have set it", &kTiers, {1'000, 100}, false, {.set_elsewhere = true}, "", 2'400'000},
    {"unless the request says no",
     &kTiers,
     {1'000, 100},
     false,
     {.service_tier = "default", .set_elsewhere = true},
     "",
     1'200'000},
    {"or leaves it to the provider", &kTiers, {1'000, 100}, false, {.service_tier = "auto"}, "", 2'400'000},
    {"a word that nobody knows", &kTiers, {1'000, 100}, false, {.service_tier = "turbo"}, "", 2'400'000},
    {"nothing is said where nobody sets it", &kTiers, {1'000, 100}, false, {}, "", 1'200'000},
    {"a tier with prices of its own, above a threshold",
     &kTierTable,
     {300, 0},
     false,
     {.service_tier = "priority"},
     "",
     2'100'000},
    {"speed", &kClaude, {1'000, 100}, false, {.speed = "fast"}, "", 7'200'000},
    {"speed and place", &kClaude, {1'000, 100}, false, {.speed = "fast", .inference_geo = "us"}, "", 7'920'000},
    {"a place that a workspace may have set",
     &kClaude,
     {1'000, 100},
     false,
     {.place_set_elsewhere = true},
     "",
     1'320'000},
    {"no place is set where a tier is", &kClaude, {1'000, 100}, false, {.set_elsewhere = true}, "", 1'200'000},
    {"a place without a price",
     &kClaude,
     {1'000, 100},
     false,
     {.inference_geo = "eu", .place_set_elsewhere = true},
     "",
     1'200'000},
    {"what says the same twice counts once", &kClaude, {1'000, 100}, false, {.inference_geo = "us"}, "us", 1'320'000},
    {"searches", &kClaude, {1'000, 100}, false, {.web_searches = 5}, "", 51'200'001},
    {"searches that have no price", &kFlat, {1'000, 100}, false, {.web_searches = 5}, "", 3'000'000},
    {"a discount that the answer need not confirm", &kDiscount, {1'000, 0}, false, {.speed = "slow"}, "", 1'000'000},
    {"just below a threshold it may be dearer", &kBulk, {300, 0}, false, {}, "", 200'000},
    {"cached tokens that are dearer than fresh ones", &kOddCache, {1'000, 100}, false, {}, "", 3'200'000},
    {"images at a price for one", &kPainter, {0, 0}, false, {.images = 4}, "", 160'000'001},
    {"and the tokens at the fallback, if it counts some",
     &kPainter,
     {1'000'000, 0},
     false,
     {.images = 4},
     "",
     5'160'000'001},
    {"negative counts are none", &kFlat, {-5, -1}, false, {}, "", 0},
    {"counts beyond all sense are cut", &kCached, {kMost, kMost}, true, {}, "", 21'000'000'000'000'000},
};

TEST(WorstCase, takes_the_dearest_rates_that_may_apply) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(worst_case(c.price, kFallback, c.most, c.asked, c.region, c.has_media).value, c.nano);
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
      const NanoUsd worst = worst_case(price, kFallback, most, {}, {}, true);
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

// ---- Of any price file, whatever is asked for

struct Dice {
  std::mt19937_64 random;
  std::int64_t up_to(std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  }
  bool chance(int in) { return up_to(in - 1) == 0; }
  std::string_view one_of(std::initializer_list<std::string_view> words) {
    return *(words.begin() + up_to(static_cast<std::int64_t>(words.size()) - 1));
  }
};

/// A price as odd as a file can make it: every meter at any price or none, tiers, thresholds and multipliers at will.
Price any_price(Dice& dice) {
  std::vector<RateTable> tables;
  const auto add = [&](Tier tier, std::int64_t over) {
    RateTable made{tier, over, {}};
    for (std::size_t i = 0; i < kMeters; ++i) {
      const auto meter = static_cast<Meter>(i);
      const bool base =
          tier == Tier::Standard && over == kAnyPrompt && (meter == Meter::Input || meter == Meter::Output);
      if (base || (is_token(meter) && dice.chance(3))) made.rates.set(meter, {dice.up_to(9'000'000)});
      if ((meter == Meter::WebSearch || meter == Meter::Request || meter == Meter::OutputImage) && dice.chance(4))
        made.rates.set(meter, {dice.up_to(20'000'000'000)});
    }
    tables.push_back(std::move(made));
  };
  add(Tier::Standard, kAnyPrompt);
  for (const Tier tier : {Tier::Standard, Tier::Flex, Tier::Priority}) {
    if (tier != Tier::Standard && dice.chance(3)) add(tier, kAnyPrompt);
    for (const std::int64_t over : {100, 250}) {
      if (dice.chance(3)) add(tier, over);
    }
  }
  std::vector<Factor> factors;
  for (const char* name : {"flex", "priority", "us", "eu", "fast"}) {
    if (dice.chance(2)) factors.push_back({name, 200'000 + dice.up_to(6'000'000)});
  }
  return price_of(std::move(tables), std::move(factors));
}

/// The words with which a provider may answer what was asked for.
std::string_view tier_for(Dice& dice, const classifier::AskedTerms& asked) {
  if (dice.chance(2)) return dice.one_of({"", "default"});
  if (asked.service_tier.empty()) return asked.set_elsewhere ? "priority" : "";
  if (asked.service_tier == "auto" || asked.service_tier == "turbo") return dice.one_of({"priority", "turbo"});
  return asked.service_tier == "fast" ? "priority" : std::string_view{asked.service_tier};
}

// Goal: what a call puts aside is never less than what it then costs, within its tokens, whatever file has the price,
// whatever the request asks for and whichever of it the provider grants. Method: seeded prices, requests and answers.
TEST(WorstCase, is_an_upper_bound_of_any_price_and_any_terms) {
  constexpr std::uint64_t kSeed = 20'261'130;
  Dice dice{std::mt19937_64{kSeed}};
  for (int i = 0; i < 20'000; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", price " + std::to_string(i));
    const Price price = any_price(dice);
    classifier::AskedTerms asked{
        .service_tier = std::string{dice.one_of({"", "", "auto", "default", "flex", "priority", "fast", "turbo"})},
        .speed = std::string{dice.one_of({"", "standard", "fast"})},
        .inference_geo = std::string{dice.one_of({"", "global", "us"})},
        .set_elsewhere = dice.chance(2),
        .place_set_elsewhere = dice.chance(2),
        .images = dice.up_to(3),
        .web_searches = dice.up_to(4)};
    const std::string_view region = dice.one_of({"", "us", "eu", "regional"});
    const Expected most{dice.up_to(400), dice.up_to(400)};
    const NanoUsd worst = worst_case(&price, kFallback, most, asked, region, true);
    for (int k = 0; k < 10; ++k) {
      classifier::TokenCounts used{.input = dice.up_to(most.input), .output = dice.up_to(most.output)};
      used.cached_input = dice.up_to(used.input);
      used.cache_write_5m = dice.up_to(used.input - used.cached_input);
      used.cache_write_1h = dice.up_to(used.input - used.cached_input - used.cache_write_5m);
      used.reasoning = dice.up_to(used.output);
      Billed billed{.audio_input = dice.up_to(used.input),
                    .audio_output = dice.up_to(used.output - used.reasoning),
                    .output_images = dice.up_to(asked.images),
                    .web_searches = dice.up_to(asked.web_searches)};
      billed.cached_audio_input = dice.up_to(std::min(billed.audio_input, used.cached_input));
      const bool placed = asked.inference_geo.empty() && asked.place_set_elsewhere;
      const std::string_view geo = placed ? std::string_view{"us"} : std::string_view{asked.inference_geo};
      const std::string_view modifiers[] = {dice.chance(2) ? std::string_view{} : std::string_view{asked.speed},
                                            dice.chance(2) ? std::string_view{} : geo};
      const Terms terms{.service_tier = tier_for(dice, asked), .modifiers = modifiers, .region = region};
      const Cost cost = cost_of(&price, terms, used, billed);
      if (!cost.total) continue;  // Units without a price: unknown, and charged at what was put aside.
      ASSERT_LE(*cost.total, worst) << "tier " << terms.service_tier << " for " << asked.service_tier << ", input "
                                    << used.input << " of " << most.input << ", output " << used.output << " of "
                                    << most.output;
    }
  }
}

// Goal: the same of what providers really answer, at all prices that are shipped. Method: every recorded answer of
// the corpora, at every price, against its own recorded request.
TEST(WorstCase, is_an_upper_bound_of_every_recorded_answer_at_every_shipped_price) {
  const PriceTable shipped = shipped_prices();
  int answers = 0;
  for (const char* name : {"usage.jsonl", "fresh_usage.jsonl"}) {
    std::ifstream file{std::string{PROJECT_ROOT} + "/tests/fixtures/" + name};
    for (std::string line; std::getline(file, line);) {
      const auto recorded = classifier::read_usage_case(line);
      ASSERT_TRUE(recorded) << recorded.error();
      SCOPED_TRACE(recorded->id);
      const classifier::Usage usage = classifier::whole_usage_of(*recorded);
      if (!usage.tokens) continue;
      ++answers;
      classifier::AskedTerms asked = classifier::read_asked_terms(*recorded->dialect, {}, recorded->request);
      // Corpora keep little of their requests: tools are left out of some, and of some there is none.
      asked.web_searches = std::max(asked.web_searches, usage.billed.web_searches);
      if (recorded->request.empty()) asked.images = std::max(asked.images, usage.billed.output_images);
      const Expected most{std::max(usage.tokens->input, usage.billed.image_input_apart), usage.tokens->output};
      const std::string_view modifiers[] = {usage.speed, usage.inference_geo};
      const Terms terms{.service_tier = usage.service_tier, .modifiers = modifiers};
      for (const Price& price : shipped.prices) {
        const Cost cost = cost_of(&price, terms, usage.tokens, usage.billed);
        if (cost.total) {
          EXPECT_LE(*cost.total, worst_case(&price, kFallback, most, asked, {}, true)) << price.model;
        }
      }
    }
  }
  EXPECT_GT(answers, 60);
}

}  // namespace worst_case_test
}  // namespace budget
