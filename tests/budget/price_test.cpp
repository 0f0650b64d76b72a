#include "budget/price.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

namespace price_test {

using budget::Billed;
using budget::Cost;
using budget::cost_of;
using budget::Meter;
using budget::NanoUsd;
using budget::PicoUsd;
using budget::Price;
using budget::RateTable;
using budget::Terms;
using budget::Tier;
using budget::Unpriced;
using classifier::TokenCounts;

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

Price price_of(std::vector<RateTable> tables, std::vector<budget::Factor> factors = {}) {
  Price price;
  price.model = "m";
  price.tables = std::move(tables);
  price.factors = std::move(factors);
  budget::sort_tables(price);
  return price;
}

Price plain(const std::vector<Rate>& rates) { return price_of({table(Tier::Standard, budget::kAnyPrompt, rates)}); }

TEST(Cost, of_recorded_calls_is_what_the_provider_said) {
  // Two calls to gpt-5.6-sol through OpenRouter, whose usage.cost was 0.025115 and 0.002046.
  const Price sol = plain({{Meter::Input, 5'000'000},
                           {Meter::CachedInput, 500'000},
                           {Meter::CacheWrite, 6'250'000},
                           {Meter::Output, 30'000'000}});
  const Cost written = cost_of(&sol, {}, TokenCounts{.input = 4020, .cache_write_5m = 4012});
  EXPECT_EQ(written.total, NanoUsd{25'115'000});
  EXPECT_EQ(written.total, budget::parse_usd("0.025115"));
  const Cost read = cost_of(&sol, {}, TokenCounts{.input = 4020, .cached_input = 4012});
  EXPECT_EQ(read.total, NanoUsd{2'046'000});
  EXPECT_EQ(read.total, budget::parse_usd("0.002046"));
}

TEST(Cost, counts_each_token_once_at_the_price_of_its_kind) {
  const std::vector<Rate> kAll = {
      {Meter::Input, 1000},
      {Meter::CachedInput, 2000},
      {Meter::CacheWrite, 3000},
      {Meter::CacheWrite1h, 4000},
      {Meter::Output, 5000},
      {Meter::Reasoning, 6000},
      {Meter::AudioInput, 7000},
      {Meter::CachedAudioInput, 8000},
      {Meter::AudioOutput, 9000},
      {Meter::ImageInput, 10000},
      {Meter::CachedImageInput, 11000},
      {Meter::ImageOutput, 12000},
  };
  struct Case {
    std::string name;
    TokenCounts tokens;
    Billed billed;
    std::int64_t nano;
  };
  const Case kCases[] = {
      {"all kinds of text",
       {.input = 100, .cached_input = 10, .cache_write_5m = 20, .cache_write_1h = 30, .output = 50, .reasoning = 20},
       {},
       40 * 1 + 10 * 2 + 20 * 3 + 30 * 4 + 30 * 5 + 20 * 6},
      {"audio and images are parts",
       {.input = 100, .output = 50},
       {.audio_input = 30, .image_input = 20, .audio_output = 10, .image_output = 15},
       50 * 1 + 30 * 7 + 20 * 10 + 25 * 5 + 10 * 9 + 15 * 12},
      {"what is cached of them is a part of both",
       {.input = 100, .cached_input = 50},
       {.audio_input = 30, .cached_audio_input = 25, .image_input = 20, .cached_image_input = 15},
       (100 - 50 - 5 - 5) * 1 + (50 - 25 - 15) * 2 + 5 * 7 + 25 * 8 + 5 * 10 + 15 * 11},
      {"cached ones of no told kind are text, but no token is charged twice",
       {.input = 100, .cached_input = 90},
       {.audio_input = 60},
       90 * 2 + 10 * 7},
      {"more cached than there is input is charged as reported, the rest is none",
       {.input = 10, .cached_input = 90},
       {.audio_input = 60},
       90 * 2},
      {"more reasoning than output", {.input = 0, .output = 5, .reasoning = 8}, {}, 8 * 6},
      {"more audio than output", {.input = 0, .output = 5}, {.audio_output = 9}, 5 * 9},
      {"negative counts are none", {.input = -5, .cached_input = -7, .output = -1}, {.pages = -3}, 0},
  };
  const Price price = plain(kAll);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(cost_of(&price, {}, c.tokens, c.billed).total, NanoUsd{c.nano});
  }
}

TEST(Cost, takes_the_price_of_what_a_kind_belongs_to_where_it_has_none) {
  struct Case {
    std::string name;
    std::vector<Rate> rates;
    TokenCounts tokens;
    Billed billed;
    Meter priced_as;
    std::int64_t pico;
  };
  const TokenCounts kCached{.input = 1, .cached_input = 1};
  const TokenCounts kWritten{.input = 1, .cache_write_5m = 1};
  const TokenCounts kWritten1h{.input = 1, .cache_write_1h = 1};
  const TokenCounts kReasoned{.input = 0, .output = 1, .reasoning = 1};
  const TokenCounts kIn{.input = 1};
  const TokenCounts kOut{.input = 0, .output = 1};
  const Rate kInput{Meter::Input, 7000};
  const Rate kOutput{Meter::Output, 9000};
  const Billed kCachedAudio{.audio_input = 1, .cached_audio_input = 1};
  const Case kCases[] = {
      {"cached as input", {kInput}, kCached, {}, Meter::Input, 7000},
      {"cached at its own", {kInput, {Meter::CachedInput, 3000}}, kCached, {}, Meter::CachedInput, 3000},
      {"cached for nothing", {kInput, {Meter::CachedInput, 0}}, kCached, {}, Meter::CachedInput, 0},
      {"written as input", {kInput}, kWritten, {}, Meter::Input, 7000},
      {"written for nothing", {kInput, {Meter::CacheWrite, 0}}, kWritten, {}, Meter::CacheWrite, 0},
      {"for an hour as written", {kInput, {Meter::CacheWrite, 8000}}, kWritten1h, {}, Meter::CacheWrite, 8000},
      {"for an hour as input", {kInput}, kWritten1h, {}, Meter::Input, 7000},
      {"reasoning as output", {kOutput}, kReasoned, {}, Meter::Output, 9000},
      {"reasoning at its own", {kOutput, {Meter::Reasoning, 3000}}, kReasoned, {}, Meter::Reasoning, 3000},
      {"audio as text", {kInput}, kIn, {.audio_input = 1}, Meter::Input, 7000},
      {"images as text", {kInput}, kIn, {.image_input = 1}, Meter::Input, 7000},
      {"audio out as text", {kOutput}, kOut, {.audio_output = 1}, Meter::Output, 9000},
      {"images out as text", {kOutput}, kOut, {.image_output = 1}, Meter::Output, 9000},
      {"cached audio as cached text",
       {kInput, {Meter::CachedInput, 3000}},
       kCached,
       kCachedAudio,
       Meter::CachedInput,
       3000},
      {"cached audio as audio rather than as cached text",
       {kInput, {Meter::CachedInput, 3000}, {Meter::AudioInput, 20000}},
       kCached,
       kCachedAudio,
       Meter::AudioInput,
       20000},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Price price = plain(c.rates);
    const Cost cost = cost_of(&price, {}, c.tokens, c.billed);
    ASSERT_EQ(cost.charges.size(), 1U);
    EXPECT_EQ(cost.charges[0].priced_as, c.priced_as);
    EXPECT_EQ(cost.charges[0].rate, PicoUsd{c.pico});
    EXPECT_EQ(cost.total, NanoUsd{c.pico / 1000});
  }
}

TEST(Cost, without_a_price_is_unknown_and_never_zero) {
  const Price no_output = plain({{Meter::Input, 1000}});
  const Price nothing;
  struct Case {
    std::string name;
    const Price* price;
    std::optional<TokenCounts> tokens;
    Billed billed;
    Unpriced why;
  };
  const Case kCases[] = {
      {"an unknown model", nullptr, TokenCounts{.input = 1}, {}, Unpriced::NoModel},
      {"nothing reported", &no_output, std::nullopt, {}, Unpriced::NoUsage},
      {"nothing reported of an unknown model", nullptr, std::nullopt, {}, Unpriced::NoUsage},
      {"output without a price", &no_output, TokenCounts{.input = 1, .output = 1}, {}, Unpriced::NoRate},
      {"reasoning without a price of output",
       &no_output,
       TokenCounts{.output = 1, .reasoning = 1},
       {},
       Unpriced::NoRate},
      {"a web search without a price", &no_output, TokenCounts{.input = 1}, {.web_searches = 1}, Unpriced::NoRate},
      {"seconds without a price", &no_output, std::nullopt, {.input_ms = 1}, Unpriced::NoRate},
      {"a price without rates", &nothing, TokenCounts{.input = 1}, {}, Unpriced::NoRate},
      {"an input that was not used", &no_output, TokenCounts{.input = 1, .output = 0}, {}, Unpriced::No},
      {"reported, but none", &nothing, TokenCounts{}, {}, Unpriced::No},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Cost cost = cost_of(c.price, {}, c.tokens, c.billed);
    EXPECT_EQ(cost.unpriced, c.why);
    EXPECT_EQ(cost.total.has_value(), c.why == Unpriced::No);
  }
  const Cost half = cost_of(&no_output, {}, TokenCounts{.input = 3000, .output = 1});
  EXPECT_EQ(half.parts[Cost::Input], NanoUsd{3000}) << "what has a price is told all the same";
  ASSERT_EQ(half.charges.size(), 2U);
  EXPECT_FALSE(half.charges[1].rate);
}

TEST(Cost, above_a_threshold_is_the_higher_price_for_all_tokens) {
  const Price price = price_of({
      table(Tier::Standard,
            budget::kAnyPrompt,
            {{Meter::Input, 1000}, {Meter::CachedInput, 100}, {Meter::CacheWrite, 1250}, {Meter::Output, 5000}}),
      table(Tier::Standard, 200, {{Meter::Input, 2000}, {Meter::Output, 7000}}),
      table(Tier::Standard, 500, {{Meter::Input, 4000}}),
  });
  struct Case {
    std::string name;
    TokenCounts tokens;
    std::int64_t over;
    std::int64_t nano;
  };
  const Case kCases[] = {
      {"at it", {.input = 200, .output = 10}, -1, 200 * 1 + 10 * 5},
      {"over it", {.input = 201, .output = 10}, 200, 201 * 2 + 10 * 7},
      {"cached tokens count, and have the price below where there is none above",
       {.input = 210, .cached_input = 200, .output = 0},
       200,
       10 * 2 + 20},
      {"output does not count", {.input = 200, .output = 1000}, -1, 200 + 5000},
      {"the highest that is passed, the one below it for what it lacks",
       {.input = 501, .output = 10},
       500,
       501 * 4 + 70},
      {"cached tokens beyond a wrong input count, too", {.input = 0, .cached_input = 201}, 200, 20},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Cost cost = cost_of(&price, {}, c.tokens);
    EXPECT_EQ(cost.over, c.over);
    EXPECT_EQ(cost.total, NanoUsd{c.nano});
  }
}

TEST(Cost, follows_the_tier_that_the_answer_names) {
  const Price price = price_of(
      {
          table(Tier::Standard,
                budget::kAnyPrompt,
                {{Meter::Input, 1000}, {Meter::CachedInput, 100}, {Meter::Output, 4000}}),
          table(Tier::Standard, 100, {{Meter::Input, 2000}, {Meter::CachedInput, 200}}),
          table(Tier::Priority, budget::kAnyPrompt, {{Meter::Input, 3000}, {Meter::Output, 9000}}),
          table(Tier::Priority, 100, {{Meter::Input, 6000}}),
          table(
              Tier::Flex, budget::kAnyPrompt, {{Meter::Input, 500}, {Meter::CachedInput, 50}, {Meter::Output, 2000}}),
      },
      {{"batch", 250'000}});
  const TokenCounts kShort{.input = 10, .output = 10};
  const TokenCounts kCached{.input = 10, .cached_input = 10};
  const TokenCounts kLong{.input = 101};
  const TokenCounts kLongOut{.input = 101, .output = 10};
  struct Case {
    std::string_view word;
    TokenCounts tokens;
    std::int64_t nano;
    bool plain;
    Tier tier;
  };
  const Case kCases[] = {
      {"", kShort, 10 + 40, false, Tier::Standard},
      {"default", kShort, 10 + 40, false, Tier::Standard},
      {"on_demand", kShort, 10 + 40, false, Tier::Standard},
      {"ON_DEMAND", kShort, 10 + 40, false, Tier::Standard},
      {"flex", kShort, 5 + 20, false, Tier::Flex},
      {"ON_DEMAND_FLEX", kShort, 5 + 20, false, Tier::Flex},
      {"priority", kShort, 30 + 90, false, Tier::Priority},
      {"fast", kShort, 30 + 90, false, Tier::Priority},
      {"ON_DEMAND_PRIORITY", kShort, 30 + 90, false, Tier::Priority},
      {"batch", kShort, 13, false, Tier::Batch},  // 12.5
      {"priority", kCached, 1, true, Tier::Priority},
      {"priority", kLong, 606, false, Tier::Priority},
      {"priority", kLongOut, 606 + 90, false, Tier::Priority},  // Of the tier below the threshold.
      {"flex", kLong, 202, true, Tier::Flex},                   // Plain above the threshold, not flex below it.
      {"PROVISIONED_THROUGHPUT", kShort, 10 + 40, true, Tier::Standard},
      {"made up", kShort, 10 + 40, true, Tier::Standard},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.word);
    const Cost cost = cost_of(&price, {.service_tier = c.word}, c.tokens);
    EXPECT_EQ(cost.tier, c.tier);
    EXPECT_EQ(cost.plain_for_tier, c.plain);
    EXPECT_EQ(cost.total, NanoUsd{c.nano});
  }
  const Price untiered = plain({{Meter::Input, 1000}, {Meter::WebSearch, 1000}});
  EXPECT_TRUE(cost_of(&untiered, {.service_tier = "flex"}, kLong).plain_for_tier);
  EXPECT_FALSE(cost_of(&untiered, {.service_tier = "flex"}, std::nullopt, {.web_searches = 1}).plain_for_tier)
      << "tiers are about tokens";
}

TEST(Cost, multiplies_tokens_by_what_the_answer_says_and_nothing_else) {
  const Price price =
      price_of({table(Tier::Standard,
                      budget::kAnyPrompt,
                      {{Meter::Input, 1'000'000}, {Meter::Output, 5'000'000}, {Meter::WebSearch, 10'000'000'000}})},
               {{"us", 1'100'000}, {"fast", 6'000'000}, {"batch", 500'000}});
  const TokenCounts kTokens{.input = 1000, .output = 100};  // 1'500'000 nano.
  struct Case {
    std::vector<std::string_view> modifiers;
    std::string_view tier;
    std::int64_t nano;
  };
  const Case kCases[] = {
      {{}, "", 1'500'000},
      {{"us"}, "", 1'650'000},
      {{"fast"}, "", 9'000'000},
      {{"us", "fast"}, "", 9'900'000},
      {{"fast", "us"}, "batch", 4'950'000},
      {{"global", "standard", ""}, "", 1'500'000},
  };
  for (const Case& c : kCases) {
    const Cost cost = cost_of(&price, {c.tier, c.modifiers}, kTokens);
    EXPECT_EQ(cost.total, NanoUsd{c.nano});
    const Cost searched = cost_of(&price, {c.tier, c.modifiers}, kTokens, {.web_searches = 2});
    EXPECT_EQ(searched.total, NanoUsd{c.nano + 20'000'000});
    EXPECT_EQ(searched.parts[Cost::Other], NanoUsd{20'000'000});
  }
}

TEST(Cost, says_so_where_a_modifier_has_no_factor) {
  const Price price = price_of({table(Tier::Standard, budget::kAnyPrompt, {{Meter::Input, 1'000'000}})},
                               {{"us", 1'100'000}, {"eu", 1'100'000}});
  const TokenCounts kTokens{.input = 1000};
  const auto cost = [&](const std::vector<std::string_view>& modifiers, std::string_view region) {
    return cost_of(&price, {.modifiers = modifiers, .region = region}, kTokens);
  };
  EXPECT_FALSE(cost({"us", "Global", "not_available", ""}, "").plain_for_tier);
  EXPECT_TRUE(cost({"fast"}, "").plain_for_tier) << "no factor for it: the plain price was taken";
  EXPECT_EQ(cost({"fast"}, "").total, NanoUsd{1'000'000});
  EXPECT_FALSE(cost({}, "apac").plain_for_tier) << "a region without a factor costs as much as any";
  EXPECT_EQ(cost({}, "eu").total, NanoUsd{1'100'000});
  EXPECT_EQ(cost({"us"}, "us").total, NanoUsd{1'100'000}) << "said twice, counted once";
  EXPECT_EQ(cost({"us"}, "eu").total, NanoUsd{1'210'000});
}

TEST(Cost, knows_units_beside_tokens) {
  const Price price = plain({{Meter::InputSecond, 100'000'000},
                             {Meter::OutputSecond, 400'000'000'000},
                             {Meter::InputImage, 1'000'000},
                             {Meter::OutputImage, 40'000'000'000},
                             {Meter::InputCharacter, 15'000'000},
                             {Meter::OutputCharacter, 3'000'000},
                             {Meter::Query, 2'000'000'000},
                             {Meter::Page, 1'000'000'000}});
  struct Case {
    Billed billed;
    std::int64_t nano;
  };
  const Case kCases[] = {
      {{.input_ms = 90'000}, 9'000'000},
      {{.input_ms = 1}, 100},
      {{.output_ms = 2'500}, 1'000'000'000},
      {{.input_images = 3}, 3'000},
      {{.output_images = 2}, 80'000'000},
      {{.input_characters = 1'000}, 15'000'000},
      {{.output_characters = 1}, 3'000},
      {{.queries = 1}, 2'000'000},
      {{.pages = 7}, 7'000'000},
  };
  for (const Case& c : kCases) EXPECT_EQ(cost_of(&price, {}, std::nullopt, c.billed).total, NanoUsd{c.nano});
}

TEST(Cost, charges_a_fee_for_each_request_where_a_model_has_one) {
  const Price price = plain({{Meter::Input, 1000}, {Meter::Request, 5'000'000'000}});
  EXPECT_EQ(cost_of(&price, {}, TokenCounts{.input = 10}).total, NanoUsd{5'000'010});
  EXPECT_EQ(cost_of(&price, {}, std::nullopt).unpriced, Unpriced::NoUsage);
}

TEST(Cost, that_the_provider_states_beats_every_table) {
  const Price price = plain({{Meter::Input, 1'000'000}});
  for (const Price* one : {&price, static_cast<const Price*>(nullptr)}) {
    const Cost cost = cost_of(one, {.stated = NanoUsd{42}}, TokenCounts{.input = 10});
    EXPECT_TRUE(cost.stated);
    EXPECT_EQ(cost.total, NanoUsd{42});
    EXPECT_TRUE(cost.charges.empty());
  }
  EXPECT_EQ(cost_of(nullptr, {.stated = NanoUsd{0}}, std::nullopt).total, NanoUsd{0}) << "it says that it is free";
  EXPECT_EQ(cost_of(&price, {.stated = NanoUsd{-1}}, TokenCounts{.input = 1}).total, NanoUsd{1000});
}

TEST(Cost, is_rounded_once_and_half_up) {
  const Price price = plain({{Meter::Input, 400}, {Meter::Output, 100}});
  EXPECT_EQ(cost_of(&price, {}, TokenCounts{.input = 1}).total, NanoUsd{0});
  EXPECT_EQ(cost_of(&price, {}, TokenCounts{.input = 1, .output = 1}).total, NanoUsd{1}) << "500 pico together";
  EXPECT_EQ(cost_of(&price, {}, TokenCounts{.input = 3, .output = 2}).total, NanoUsd{1}) << "1400";
  const Cost cost = cost_of(&price, {}, TokenCounts{.input = 1, .output = 1});
  EXPECT_EQ(cost.parts[Cost::Input].value + cost.parts[Cost::Output].value, 0) << "parts are rounded by themselves";
}

TEST(Cost, ends_at_the_largest_number_instead_of_overflowing) {
  const Price dear = price_of(
      {table(
          Tier::Standard, budget::kAnyPrompt, {{Meter::Input, kMost}, {Meter::Output, kMost}, {Meter::Page, kMost}})},
      {{"us", kMost}, {"fast", kMost}});
  const std::vector<std::string_view> kBoth = {"us", "fast"};
  const TokenCounts kHuge{kMost, kMost, kMost, kMost, kMost, kMost};
  const Cost cost = cost_of(&dear, {"", kBoth}, kHuge, {.audio_input = kMost, .audio_output = kMost, .pages = kMost});
  EXPECT_EQ(cost.total, NanoUsd{kMost});
  for (const NanoUsd part : cost.parts) EXPECT_GE(part.value, 0);
  EXPECT_EQ(cost_of(&dear, {}, std::nullopt, {.pages = 2}).total, NanoUsd{kMost / 500 + 1})
      << "two of them still fit";
}

/// A price where all is known, dearer above the threshold, as published prices are.
Price random_price(std::mt19937& random) {
  const auto rate = [&] { return static_cast<std::int64_t>(random() % 100'000'000); };
  std::vector<Rate> low;
  std::vector<Rate> high;
  for (std::size_t i = 0; i < budget::kMeters; ++i) {
    if (static_cast<Meter>(i) == Meter::Request) continue;  // Charged once, whatever is used.
    if (random() % 3 != 0 || i == 0 || static_cast<Meter>(i) == Meter::Output || i >= 12) {
      low.push_back({static_cast<Meter>(i), rate()});
      high.push_back({static_cast<Meter>(i), low.back().pico * 2});
    }
  }
  return price_of({table(Tier::Standard, budget::kAnyPrompt, low), table(Tier::Standard, 100'000, high)});
}

struct Used {
  TokenCounts tokens{};
  Billed billed{};
};

// Adds so many of one disjoint kind; returns how many kinds there are.
constexpr std::size_t kKinds = 19;
void add(Used& used, std::size_t kind, std::int64_t count) {
  TokenCounts& tokens = used.tokens;
  Billed& billed = used.billed;
  const auto both = [&](std::int64_t& part, std::int64_t& whole) {
    part += count;
    whole += count;
  };
  switch (kind) {
    case 0:
      tokens.input += count;
      break;
    case 1:
      both(tokens.cached_input, tokens.input);
      break;
    case 2:
      both(tokens.cache_write_5m, tokens.input);
      break;
    case 3:
      both(tokens.cache_write_1h, tokens.input);
      break;
    case 4:
      tokens.output += count;
      break;
    case 5:
      both(tokens.reasoning, tokens.output);
      break;
    case 6:
      both(billed.audio_input, tokens.input);
      break;
    case 7:
      both(billed.image_input, tokens.input);
      break;
    case 8:
      both(billed.audio_output, tokens.output);
      break;
    case 9:
      both(billed.image_output, tokens.output);
      break;
    case 10:
      billed.input_ms += count;
      break;
    case 11:
      billed.queries += count;
      break;
    case 12:
      billed.pages += count;
      break;
    case 13:
      billed.web_searches += count;
      break;
    case 14:
      billed.image_input_apart += count;
      break;
    case 15:
      billed.output_ms += count;
      break;
    case 16:
      billed.input_images += count;
      break;
    case 17:
      billed.output_images += count;
      break;
    case 18:
      both(billed.audio_input, tokens.input);
      both(billed.cached_audio_input, tokens.cached_input);
      break;
    default:
      FAIL();
  }
}

TEST(Cost, never_falls_when_more_is_used) {
  // Method: random prices and usages, one part more each; also across the threshold.
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    const Price price = random_price(random);
    Used used;
    for (std::size_t kind = 0; kind < kKinds; ++kind) add(used, kind, static_cast<std::int64_t>(random() % 15'000));
    std::int64_t before = cost_of(&price, {}, used.tokens, used.billed).total->value;
    EXPECT_GE(before, 0);
    for (int step = 0; step < 30; ++step) {
      add(used, random() % kKinds, static_cast<std::int64_t>(random() % 10'000));
      const std::int64_t after = cost_of(&price, {}, used.tokens, used.billed).total->value;
      EXPECT_GE(after, before);
      before = after;
    }
  }
}

TEST(Cost, of_the_whole_is_the_sum_of_its_disjoint_parts) {
  // Method: counts are multiples of 1000, so that no part is rounded, and stay below the threshold. A token that was
  // counted twice, or lost, would break the sum.
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    const Price price = random_price(random);
    Used whole;
    std::int64_t sum = 0;
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      Used part;
      // Milliseconds at a price per second: only whole thousands of seconds come out even.
      const std::int64_t unit = kind == 10 || kind == 15 ? 1'000'000 : 1000;
      const auto count = static_cast<std::int64_t>(random() % 12) * unit;
      add(part, kind, count);
      add(whole, kind, count);
      sum += cost_of(&price, {}, part.tokens, part.billed).total->value;
    }
    const Cost cost = cost_of(&price, {}, whole.tokens, whole.billed);
    EXPECT_EQ(cost.total, NanoUsd{sum});
    std::int64_t parts = 0;
    for (const NanoUsd part : cost.parts) parts += part.value;
    EXPECT_EQ(parts, sum);
    std::int64_t tokens = 0;
    for (const budget::Charge& charge : cost.charges) tokens += budget::is_token(charge.meter) ? charge.quantity : 0;
    EXPECT_EQ(tokens, whole.tokens.input + whole.tokens.output + whole.billed.image_input_apart);
  }
}

TEST(Price, that_is_flat_has_two_rates) {
  const Price price = budget::flat_price({5'000'000}, {25'000'000});
  EXPECT_EQ(cost_of(&price, {}, TokenCounts{.input = 1000, .cached_input = 500, .output = 100}).total,
            NanoUsd{7'500'000});
}

TEST(Names, of_meters_and_tiers_are_found_again) {
  for (std::size_t i = 0; i < budget::kMeters; ++i) {
    const Meter meter = static_cast<Meter>(i);
    EXPECT_EQ(budget::meter_named(name_of(meter)), meter);
  }
  EXPECT_FALSE(budget::meter_named("inputs"));
  for (const Tier tier : {Tier::Standard, Tier::Flex, Tier::Priority, Tier::Batch}) {
    EXPECT_EQ(budget::tier_named(name_of(tier)), tier);
  }
}

TEST(Decimals, are_read_exactly) {
  struct Case {
    std::string_view text;
    int digits;
    std::optional<std::int64_t> units;
    bool exact = true;
  };
  const Case kCases[] = {
      {"0", 12, 0},
      {"1", 12, 1'000'000'000'000},
      {"2.8e-09", 12, 2800},
      {"2.8E-9", 12, 2800},
      {"5e-06", 12, 5'000'000},
      {"0.000005", 12, 5'000'000},
      {"1e+2", 0, 100},
      {"1.5e1", 0, 15},
      {"0.0000029999900000000002", 12, 2'999'990, false},
      {"2.9999999999999997e-07", 12, 300'000, false},
      {"0.5", 0, 1, false},  // Half up.
      {"0.49999", 0, 0, false},
      {"0.05", 0, 0, false},
      {"1e-13", 12, 0, false},
      {"5e-13", 12, 1, false},
      {"1e-9999999999", 12, 0, false},
      {"0e9999999999", 12, 0},
      {"00.10", 2, 10},
      {"9223372036854775807", 0, kMost},
      {"9223372036854775808", 0, std::nullopt},
      {"9223372036854775807.5", 0, std::nullopt},
      {"1e9999999999", 0, std::nullopt},
      {"", 0, std::nullopt},
      {"-1", 0, std::nullopt},
      {"+1", 0, std::nullopt},
      {".5", 0, std::nullopt},
      {"5.", 0, std::nullopt},
      {"1e", 0, std::nullopt},
      {"1e-", 0, std::nullopt},
      {"1 ", 0, std::nullopt},
      {"NaN", 0, std::nullopt},
      {"inf", 0, std::nullopt},
      {"0x10", 0, std::nullopt},
      {"1,5", 0, std::nullopt},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.text);
    const auto read = budget::parse_decimal(c.text, c.digits);
    ASSERT_EQ(read.has_value(), c.units.has_value());
    if (!read) continue;
    EXPECT_EQ(read->units, *c.units);
    EXPECT_EQ(read->exact, c.exact);
  }
}

TEST(Decimals, are_written_without_needless_zeros) {
  EXPECT_EQ(budget::usd_text(NanoUsd{25'115'000}), "0.025115");
  EXPECT_EQ(budget::usd_text(NanoUsd{0}), "0");
  EXPECT_EQ(budget::usd_text(NanoUsd{1}), "0.000000001");
  EXPECT_EQ(budget::usd_text(NanoUsd{1'000'000'000}), "1");
  EXPECT_EQ(budget::usd_text(PicoUsd{2800}), "0.0000000028");
}

}  // namespace price_test
