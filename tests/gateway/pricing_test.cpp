// Goal: an attempt costs what its tokens cost at its model's price, at the fallback without one, and nothing is said
// where nothing was reported.

#include "gateway/pricing.h"

#include <gtest/gtest.h>

namespace gateway {
namespace pricing_test {

Call call_of(const std::string& model, bool refuse = false) {
  auto policy = std::make_shared<CallPolicy>();
  std::vector<budget::PriceTable> tables{budget::shipped_prices()};
  policy->prices = std::make_shared<const budget::PriceBook>(std::move(tables));
  policy->fallback = budget::flat_price(budget::PicoUsd{5'000'000}, budget::PicoUsd{25'000'000});
  policy->refuse_unpriced = refuse;
  auto target = std::make_shared<Target>();
  target->provider = "openai";
  Call call;
  call.policy = std::move(policy);
  call.to = target;
  call.facts.model = model;
  call.ways.push_back({.to = std::move(target), .model = {}});
  call.candidates.push_back({.upstream = "openai", .credential = {}, .group = model, .model = model});
  call.endpoint.understood = true;
  return call;
}

AttemptRow row_of(const std::string& model, std::int64_t input, std::int64_t cached, std::int64_t output) {
  AttemptRow row;
  row.usage.model = model;
  row.usage.tokens = classifier::TokenCounts{.input = input, .cached_input = cached, .output = output};
  return row;
}

const WallTime kNow{std::chrono::sys_days{std::chrono::year{2026} / 11 / 29}};

void price(const Call& call, AttemptRow& row) { price_attempt(call, *call.to, kNow, row); }

TEST(Pricing, F15_cached_tokens_are_charged_once_and_at_their_own_price) {
  AttemptRow row = row_of("gpt-5-2025-08-07", 9'025, 9'000, 100);
  price(call_of("gpt-5"), row);
  // 25 at 1.25, 9000 at 0.125 and 100 at 10 USD per million.
  EXPECT_EQ(row.cost, budget::NanoUsd{25 * 1'250 + 9'000 * 125 + 100 * 10'000});
  EXPECT_EQ(row.cost_source, "table");
}

TEST(Pricing, F18_a_model_without_a_price_never_costs_nothing) {
  AttemptRow row = row_of("m-new", 1'000, 0, 10);
  const Call call = call_of("m-new");
  price(call, row);
  EXPECT_EQ(row.cost, budget::NanoUsd{1'000 * 5'000 + 10 * 25'000});
  EXPECT_EQ(row.cost_source, "fallback");
  EXPECT_EQ(may_be_priced(call, kNow), std::vector<char>{1}) << "charged, not refused";
  EXPECT_EQ(may_be_priced(call_of("m-new", true), kNow), std::vector<char>{0});
  EXPECT_EQ(may_be_priced(call_of("gpt-5", true), kNow), std::vector<char>{1});
}

TEST(Pricing, F17_what_was_not_reported_has_no_cost_and_a_reported_zero_costs_nothing) {
  AttemptRow unknown;
  price(call_of("gpt-5"), unknown);
  EXPECT_FALSE(unknown.cost.has_value());
  AttemptRow zero = row_of("gpt-5", 0, 0, 0);
  price(call_of("gpt-5"), zero);
  EXPECT_EQ(zero.cost, budget::NanoUsd{0});
}

TEST(Pricing, audio_images_seconds_and_searches_have_prices_of_their_own) {
  const struct {
    std::string_view model;
    std::optional<classifier::TokenCounts> tokens;
    classifier::Billed billed;
    std::int64_t nano;
  } kCases[] = {
      // 10 text at 5, 40 image at 8, 4160 image at 30 USD per million.
      {"gpt-image-2",
       classifier::TokenCounts{.input = 50, .output = 4160},
       {.image_input = 40, .image_output = 4160},
       10 * 5'000 + 40 * 8'000 + 4160 * 30'000},
      {"whisper-1", std::nullopt, {.input_ms = 12'500}, 1'250'000},
      // 0.01 USD a search.
      {"claude-sonnet-4-5",
       classifier::TokenCounts{.input = 100, .output = 10},
       {.web_searches = 3},
       100 * 3'000 + 10 * 15'000 + 30'000'000},
      {"rerank-v3.5", std::nullopt, {.queries = 2}, 4'000'000},
  };
  for (const auto& c : kCases) {
    AttemptRow row;
    row.usage.tokens = c.tokens;
    row.usage.billed = c.billed;
    Call call = call_of(std::string{c.model});
    auto target = std::make_shared<Target>();
    call.to = std::move(target);
    price(call, row);
    EXPECT_EQ(row.cost, budget::NanoUsd{c.nano}) << c.model;
    EXPECT_EQ(row.cost_source, "table") << c.model;
  }
}

TEST(Pricing, what_has_no_price_or_no_count_makes_no_cost) {
  AttemptRow searched = row_of("gpt-5", 100, 0, 10);
  searched.usage.billed.web_searches = 1;
  price(call_of("gpt-5"), searched);
  EXPECT_FALSE(searched.cost.has_value()) << "tokens alone are not what it cost";
  EXPECT_EQ(searched.cost_source, "unpriced");

  AttemptRow nulls;
  nulls.usage.model = "claude-sonnet-4-5";
  nulls.usage.tokens_unknown = true;
  nulls.usage.billed.web_searches = 1;
  price(call_of("claude-sonnet-4-5"), nulls);
  EXPECT_FALSE(nulls.cost.has_value()) << "one search is not all that was used";
  EXPECT_EQ(nulls.cost_source, "");
}

TEST(Pricing, what_the_provider_states_beats_every_table) {
  AttemptRow row = row_of("gpt-5", 1'000, 0, 10);
  row.usage.stated_usd = "0.025115";
  price(call_of("gpt-5"), row);
  EXPECT_EQ(row.cost, budget::NanoUsd{25'115'000});
  EXPECT_EQ(row.cost_source, "provider");

  row = row_of("m-new", 1'000, 0, 10);
  row.usage.stated_usd = "37756000e-10";
  price(call_of("m-new"), row);
  EXPECT_EQ(row.cost, budget::NanoUsd{3'775'600}) << "also where the model has no price";

  row.usage.stated_usd = "0.01";
  row.usage.stated_beside_usd = "0.2";
  price(call_of("m-new"), row);
  EXPECT_EQ(row.cost, budget::NanoUsd{210'000'000}) << "with a key of one's own, two are paid";

  row = row_of("gpt-5", 1'000, 0, 10);
  row.usage.stated_usd = "0.1 EUR";
  price(call_of("gpt-5"), row);
  EXPECT_EQ(row.cost_source, "table") << "what is no amount is not believed";
}

TEST(Pricing, a_tier_and_modifiers_of_the_answer_change_the_price_and_unknown_ones_are_told) {
  const struct {
    std::string_view model;
    std::string_view tier;
    std::string_view speed;
    std::string_view geo;
    std::int64_t nano;  // Of 1000 tokens of input.
    std::string_view source;
    std::string_view priced_tier;
  } kCases[] = {
      {"gpt-5.4", "default", "", "", 2'500'000, "table", "standard"},
      {"gpt-5.4", "flex", "", "", 1'250'000, "table", "flex"},
      {"gpt-5.4", "priority", "", "", 5'000'000, "table", "priority"},
      {"gpt-5.4", "turbo", "", "", 2'500'000, "table_plain", "other"},
      {"claude-opus-4-7", "standard", "standard", "global", 5'000'000, "table", "standard"},
      {"claude-opus-4-7", "standard", "fast", "us", 33'000'000, "table", "standard"},
      {"claude-opus-4-7", "batch", "standard", "not_available", 2'500'000, "table", "batch"},
      {"claude-haiku-4-5", "standard", "fast", "", 1'000'000, "table_plain", "standard"},
      {"claude-haiku-4-5", "priority", "", "", 1'000'000, "table_plain", "priority"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(std::string{c.model} + " " + std::string{c.tier} + " " + std::string{c.speed});
    AttemptRow row = row_of(std::string{c.model}, 1'000, 0, 0);
    row.usage.service_tier = c.tier;
    row.usage.speed = c.speed;
    row.usage.inference_geo = c.geo;
    Call call = call_of(std::string{c.model});
    call.to = std::make_shared<Target>();
    price(call, row);
    EXPECT_EQ(row.cost, budget::NanoUsd{c.nano});
    EXPECT_EQ(row.cost_source, c.source);
    EXPECT_EQ(row.cost_tier, c.priced_tier);
  }
}

TEST(Pricing, a_region_of_path_or_host_costs_more_where_the_price_says_so) {
  Call call = call_of("claude-haiku-4-5");
  auto vertex = std::make_shared<Target>();
  vertex->provider = "vertex";
  call.to = vertex;
  AttemptRow row = row_of("claude-haiku-4-5", 1'000, 0, 0);
  price(call, row);
  EXPECT_EQ(row.cost, budget::NanoUsd{1'000'000});
  call.facts.region = "regional";
  price(call, row);
  EXPECT_EQ(row.cost, budget::NanoUsd{1'100'000});
  EXPECT_EQ(row.cost_source, "table");

  auto europe = std::make_shared<Target>();
  europe->provider = "openai";
  europe->region = budget::region_of("eu.api.openai.com");
  call = call_of("gpt-5.4");
  call.to = europe;
  row = row_of("gpt-5.4", 1'000, 0, 0);
  price(call, row);
  EXPECT_EQ(row.cost, budget::NanoUsd{2'750'000});
  EXPECT_EQ(budget::region_of("api.openai.com"), "");
}

}  // namespace pricing_test
}  // namespace gateway
