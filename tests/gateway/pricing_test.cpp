// Goal: an attempt costs what its tokens cost at its model's price, at the fallback without one, and nothing is said
// where nothing was reported.

#include "gateway/pricing.h"

#include <gtest/gtest.h>

namespace gateway {
namespace {

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
  call.to = std::move(target);
  call.facts.model = model;
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

TEST(Pricing, F15_cached_tokens_are_charged_once_and_at_their_own_price) {
  AttemptRow row = row_of("gpt-5-2025-08-07", 9'025, 9'000, 100);
  price_attempt(call_of("gpt-5"), kNow, row);
  // 25 at 1.25, 9000 at 0.125 and 100 at 10 USD per million.
  EXPECT_EQ(row.cost, budget::NanoUsd{25 * 1'250 + 9'000 * 125 + 100 * 10'000});
  EXPECT_EQ(row.cost_source, "table");
}

TEST(Pricing, F18_a_model_without_a_price_never_costs_nothing) {
  AttemptRow row = row_of("m-new", 1'000, 0, 10);
  const Call call = call_of("m-new");
  price_attempt(call, kNow, row);
  EXPECT_EQ(row.cost, budget::NanoUsd{1'000 * 5'000 + 10 * 25'000});
  EXPECT_EQ(row.cost_source, "fallback");
  EXPECT_TRUE(may_be_priced(call, kNow)) << "charged, not refused";
  EXPECT_FALSE(may_be_priced(call_of("m-new", true), kNow));
  EXPECT_TRUE(may_be_priced(call_of("gpt-5", true), kNow));
}

TEST(Pricing, F17_what_was_not_reported_has_no_cost_and_a_reported_zero_costs_nothing) {
  AttemptRow unknown;
  price_attempt(call_of("gpt-5"), kNow, unknown);
  EXPECT_FALSE(unknown.cost.has_value());
  AttemptRow zero = row_of("gpt-5", 0, 0, 0);
  price_attempt(call_of("gpt-5"), kNow, zero);
  EXPECT_EQ(zero.cost, budget::NanoUsd{0});
}

}  // namespace
}  // namespace gateway
