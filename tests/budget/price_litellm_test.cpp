// tests/fixtures/prices/litellm_excerpt.json is an excerpt of model_prices_and_context_window.json of BerriAI/litellm
// (MIT License), state of July 2026, less some keys that are no prices.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "budget/price_book.h"
#include "budget/price_file.h"

namespace price_litellm_test {

using budget::EntryReading;
using budget::Meter;
using budget::NanoUsd;
using budget::Price;
using budget::PriceFile;
using budget::PriceProblem;
using budget::read_price_file;
using budget::Tier;
using classifier::TokenCounts;
using How = budget::EntryReading::How;

constexpr std::chrono::sys_days kToday{std::chrono::year{2026} / 11 / 29};

std::string excerpt() {
  std::ifstream in{PROJECT_ROOT "/tests/fixtures/prices/litellm_excerpt.json"};
  return {std::istreambuf_iterator<char>{in}, {}};
}

const Price* price_named(const PriceFile& file, std::string_view model) {
  const auto found = std::ranges::find(file.table.prices, model, &Price::model);
  return found == file.table.prices.end() ? nullptr : &*found;
}

const EntryReading* reading_of(const PriceFile& file, std::string_view model) {
  const auto found = std::ranges::find(file.readings, model, &EntryReading::model);
  return found == file.readings.end() ? nullptr : &*found;
}

std::optional<std::int64_t> rate(const Price& price, Tier tier, std::int64_t over, Meter meter) {
  for (const budget::RateTable& table : price.tables) {
    if (table.tier != tier || table.over != over) continue;
    if (const auto found = table.rates.at(meter)) return found->value;
  }
  return std::nullopt;
}

PriceFile one(const std::string& keys) { return read_price_file("{\"m\": {" + keys + "}}", "l.json"); }

TEST(LiteLlmFile, is_understood_to_the_last_rate) {
  struct Case {
    std::string model;
    Tier tier;
    std::int64_t over;
    Meter meter;
    std::int64_t pico;
  };
  constexpr std::int64_t kAny = budget::kAnyPrompt;
  const Case kCases[] = {
      {"gpt-5.4", Tier::Standard, kAny, Meter::Input, 2'500'000},
      {"gpt-5.4", Tier::Standard, kAny, Meter::CachedInput, 250'000},
      {"gpt-5.4", Tier::Standard, 272'000, Meter::Output, 22'500'000},
      {"gpt-5.4", Tier::Flex, kAny, Meter::CachedInput, 130'000},
      {"gpt-5.4", Tier::Batch, kAny, Meter::Output, 7'500'000},
      {"gpt-5.4", Tier::Priority, kAny, Meter::Output, 30'000'000},
      {"gemini/gemini-3.1-pro-preview", Tier::Priority, 200'000, Meter::CachedInput, 720'000},
      {"gpt-5.6-sol", Tier::Standard, 272'000, Meter::CacheWrite, 12'500'000},
      {"claude-sonnet-4-5", Tier::Standard, kAny, Meter::CacheWrite1h, 6'000'000},
      {"claude-sonnet-4-5", Tier::Standard, 200'000, Meter::CacheWrite1h, 12'000'000},
      {"claude-sonnet-4-5", Tier::Standard, 200'000, Meter::CacheWrite, 7'500'000},
      {"xai/grok-4.5", Tier::Standard, 199'999, Meter::Output, 12'000'000},  // At xAI the threshold belongs to it.
      {"dashscope/qwen-plus-2025-07-28", Tier::Standard, kAny, Meter::Reasoning, 4'000'000},
      {"dashscope/qwen-plus-2025-07-28", Tier::Standard, 256'000, Meter::Reasoning, 12'000'000},
      {"deepseek/deepseek-v4-flash", Tier::Standard, kAny, Meter::CachedInput, 2'800},
      {"deepseek/deepseek-v4-flash", Tier::Standard, kAny, Meter::CacheWrite, 0},
      {"gpt-image-2", Tier::Standard, kAny, Meter::ImageOutput, 30'000'000},
      {"gemini/gemini-2.5-flash", Tier::Standard, kAny, Meter::AudioInput, 1'000'000},
      {"whisper-1", Tier::Standard, kAny, Meter::InputSecond, 100'000'000},
      {"rerank-v3.5", Tier::Standard, kAny, Meter::Query, 2'000'000'000},
      {"perplexity/pplx-7b-online", Tier::Standard, kAny, Meter::Request, 5'000'000'000},
      {"mistral/mistral-ocr-latest", Tier::Standard, kAny, Meter::Page, 4'000'000'000},
      {"claude-sonnet-4-5", Tier::Standard, kAny, Meter::WebSearch, 10'000'000'000},
      {"databricks/databricks-claude-opus-4", Tier::Standard, kAny, Meter::Input, 15'000'020},
  };
  const PriceFile file = read_price_file(excerpt(), "l.json");
  ASSERT_TRUE(file.usable());
  EXPECT_EQ(file.table.format, budget::PriceFormat::LiteLlm);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.model + " " + std::string{name_of(c.meter)});
    const Price* price = price_named(file, c.model);
    ASSERT_NE(price, nullptr);
    EXPECT_EQ(rate(*price, c.tier, c.over, c.meter), c.pico);
  }
  EXPECT_EQ(price_named(file, "claude-opus-4-6")->factors,
            (std::vector<budget::Factor>{{"us", 1'100'000}, {"fast", 6'000'000}}));
  EXPECT_EQ(price_named(file, "gpt-5.4")->factors,
            (std::vector<budget::Factor>{{"eu", 1'100'000}, {"us", 1'100'000}}));
}

TEST(LiteLlmFile, has_a_verdict_on_every_entry) {
  struct Case {
    std::string model;
    How how;
    std::string reason;
  };
  const Case kCases[] = {
      {"gpt-5.4", How::Whole, ""},
      {"sample_spec", How::NotAtAll, "the file's own explanation, no model"},
      {"last_updated", How::NotAtAll, "no map of keys, so no model"},
      {"github_copilot/gpt-4o", How::NotAtAll, "no price in it"},
      {"1024-x-1024/dall-e-2",
       How::NotAtAll,
       "input_cost_per_pixel is not charged: nothing here counts it; output_cost_per_pixel is not charged: nothing "
       "here "
       "counts it"},
      {"gpt-4o-search-preview", How::Partly, "web searches of any context size are charged as medium ones"},
      {"mistral/mistral-ocr-latest", How::Partly, "annotation_cost_per_page is not charged: nothing here counts it"},
      {"databricks/databricks-claude-opus-4", How::Whole, ""},
  };
  const PriceFile file = read_price_file(excerpt(), "l.json");
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.model);
    const EntryReading* reading = reading_of(file, c.model);
    ASSERT_NE(reading, nullptr);
    EXPECT_EQ(reading->how, c.how);
    EXPECT_EQ(reading->reason, c.reason);
    EXPECT_EQ(price_named(file, c.model) == nullptr, c.how == How::NotAtAll);
  }
  const auto priced = std::ranges::count_if(file.readings, [](const auto& one) { return one.how != How::NotAtAll; });
  EXPECT_EQ(static_cast<std::size_t>(priced), file.table.prices.size());
}

TEST(LiteLlmFile, is_warned_of_where_it_looks_wrong) {
  const PriceFile file = read_price_file(excerpt(), "l.json");
  std::vector<std::string> said;
  for (const PriceProblem& problem : file.problems) said.push_back(problem.path + ": " + problem.message);
  for (const char* what : {"gpt-5-nano: priority input is 50.00 times input",
                           "wandb/openai/gpt-oss-120b: input is more than 2000 USD per million tokens",
                           "claude-3-haiku-20240307: cache_write_1h is 20.00 times cache_write"}) {
    EXPECT_NE(std::ranges::find(said, what), said.end()) << what;
  }
  EXPECT_EQ(said.size(), 4U) << "the output of gpt-oss-120b, too, and no more";
}

TEST(LiteLlmFile, may_be_written_by_hand) {
  struct Case {
    std::string keys;
    How how;
    std::optional<std::int64_t> input{};
    std::string reason{};
  };
  const Case kCases[] = {
      {R"("input_cost_per_token": "1.5e-06")", How::Whole, 1'500'000},
      {R"("input_cost_per_token": 0.0000015)", How::Whole, 1'500'000},
      {R"("input_cost_per_token": 0)", How::Whole, 0},
      {R"("input_cost_per_token": 1E-6, "anything_else": [{}])", How::Whole, 1'000'000},
      {R"("input_cost_per_token": 1e-6, "max_tokens": "many", "supports_vision": "yes")", How::Whole, 1'000'000},
      {R"("input_cost_per_token": 1e-6, "output_cost_per_token": null)", How::Whole, 1'000'000},
      {R"("input_cost_per_token": null)", How::NotAtAll, {}, "no price in it"},
      {R"("input_cost_per_token": "free")", How::NotAtAll, {}, "input_cost_per_token is no number of USD, 0 or more"},
      {R"("input_cost_per_token": -1e-6)", How::NotAtAll, {}, "input_cost_per_token is no number of USD, 0 or more"},
      {R"("input_cost_per_token": true)", How::NotAtAll, {}, "input_cost_per_token is no number of USD, 0 or more"},
      {R"("input_cost_per_token": {})", How::NotAtAll, {}, "input_cost_per_token is no number of USD, 0 or more"},
      {R"("input_cost_per_token": "NaN")", How::NotAtAll, {}, "input_cost_per_token is no number of USD, 0 or more"},
      {R"("input_cost_per_token": 1e300)", How::NotAtAll, {}, "input_cost_per_token is no number of USD, 0 or more"},
      {R"("input_cost_per_token": 5000)",
       How::NotAtAll,
       {},
       "input_cost_per_token is more than 1000 USD for one unit"},
      {R"("input_cost_per_token": 1e-14)",
       How::NotAtAll,
       {},
       "input_cost_per_token is below a millionth of a millionth of a USD, the smallest price here"},
      {R"("input_cost_per_token": 1e-6, "output_cost_per_token": -1)",
       How::NotAtAll,
       {},
       "output_cost_per_token is no number of USD, 0 or more"},
      {R"("input_cost_per_token": 1e-6, "input_cost_per_token_above_fewk_tokens": 2e-6)",
       How::Partly,
       1'000'000,
       "input_cost_per_token_above_fewk_tokens is not charged: nothing here counts it"},
      {R"("input_cost_per_token": 1e-6, "input_cost_per_token_above_99999999999999999999k_tokens": 2e-6)",
       How::Partly,
       1'000'000,
       "input_cost_per_token_above_99999999999999999999k_tokens is not charged: nothing here counts it"},
      {R"("input_cost_per_token": 1e-6, "off_peak_pricing": {})",
       How::Partly,
       1'000'000,
       "off_peak_pricing is not charged: nothing here counts it"},
      {R"("input_cost_per_token": 1e-6, "provider_specific_entry": {"us": -1})",
       How::NotAtAll,
       {},
       "us is no factor above 0 and up to 100"},
      {R"("input_cost_per_token": 1e-6, "provider_specific_entry": {"schema": "v2"})", How::Whole, 1'000'000},
      {R"("tiered_pricing": [{"input_cost_per_token": 1e-6}])",
       How::NotAtAll,
       {},
       "tiered_pricing needs range: [from, to] in each of its maps"},
      {R"("tiered_pricing": "cheap")", How::NotAtAll, {}, "no price in it"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.keys);
    const PriceFile file =
        read_price_file("{\"good\": {\"input_cost_per_token\": 1e-6}, \"m\": {" + c.keys + "}}", "l.json");
    EXPECT_TRUE(file.usable());
    const EntryReading* reading = reading_of(file, "m");
    ASSERT_NE(reading, nullptr);
    EXPECT_EQ(reading->how, c.how);
    EXPECT_EQ(reading->reason, c.reason);
    const Price* price = price_named(file, "m");
    EXPECT_EQ(price ? rate(*price, Tier::Standard, budget::kAnyPrompt, Meter::Input) : std::nullopt, c.input);
  }
}

TEST(LiteLlmFile, has_thresholds_of_any_size_and_lifetimes_that_are_none) {
  const PriceFile file = one(R"("input_cost_per_token": 1e-6,
                                "input_cost_per_token_above_33_tokens": 2e-6,
                                "input_cost_per_token_above_512k_tokens_flex": 3e-6,
                                "cache_creation_input_token_cost_above_1hr": 4e-6,
                                "cache_creation_input_token_cost_above_1hr_above_7k_tokens_priority": 5e-6)");
  const Price& price = file.table.prices.at(0);
  EXPECT_EQ(rate(price, Tier::Standard, 33, Meter::Input), 2'000'000);
  EXPECT_EQ(rate(price, Tier::Flex, 512'000, Meter::Input), 3'000'000);
  EXPECT_EQ(rate(price, Tier::Standard, budget::kAnyPrompt, Meter::CacheWrite1h), 4'000'000);
  EXPECT_EQ(rate(price, Tier::Priority, 7'000, Meter::CacheWrite1h), 5'000'000);
  EXPECT_EQ(file.readings.at(0).how, How::Whole);
}

TEST(LiteLlmFile, takes_the_older_word_for_cached_tokens_only_without_the_newer) {
  const auto cached = [](const std::string& keys) {
    return rate(one(keys).table.prices.at(0), Tier::Standard, budget::kAnyPrompt, Meter::CachedInput);
  };
  EXPECT_EQ(cached(R"("input_cost_per_token_cache_hit": 1e-6)"), 1'000'000);
  EXPECT_EQ(cached(R"("input_cost_per_token_cache_hit": 1e-6, "cache_read_input_token_cost": 2e-6)"), 2'000'000);
  EXPECT_EQ(cached(R"("cache_read_input_token_cost": 2e-6, "input_cost_per_token_cache_hit": 1e-6)"), 2'000'000);
}

TEST(LiteLlmFile, with_a_model_twice_has_it_as_it_stands_last) {
  const PriceFile file = read_price_file(
      "{\"m\": {\"input_cost_per_token\": 1e-6},\n \"m\": {\"input_cost_per_token\": 2e-6}}", "l.json");
  ASSERT_EQ(file.table.prices.size(), 1U);
  EXPECT_EQ(rate(file.table.prices[0], Tier::Standard, budget::kAnyPrompt, Meter::Input), 2'000'000);
  ASSERT_EQ(file.problems.size(), 1U);
  EXPECT_EQ(text_of(file.problems[0], "l.json"),
            "l.json:1:2: warning: m: stands twice in its map; the last one counts");
}

TEST(LiteLlmFile, gives_each_provider_its_own_models) {
  PriceFile file = read_price_file(excerpt(), "l.json");
  std::vector<budget::PriceTable> tables;
  tables.push_back(std::move(file.table));
  const budget::PriceBook prices{std::move(tables)};
  struct Case {
    std::string provider;
    std::string model;
    std::string found;
  };
  const Case kCases[] = {
      {"openai", "gpt-4o-2024-08-06", "gpt-4o"},
      {"openai", "gpt-4o-2024-05-13", "gpt-4o-2024-05-13"},
      {"azure", "gpt-4o-2024-08-06", "azure/gpt-4o"},
      {"azure", "gpt-4o-2024-05-13", "azure/gpt-4o-2024-05-13"},
      {"openrouter", "openai/gpt-4o", "openrouter/openai/gpt-4o"},
      {"gemini", "gemini-2.5-flash", "gemini/gemini-2.5-flash"},
      {"vertex", "gemini-2.5-flash", "gemini-2.5-flash"},
      {"xai", "grok-4.5", "xai/grok-4.5"},
      {"groq", "openai/gpt-oss-120b", "groq/openai/gpt-oss-120b"},
      {"fireworks", "accounts/fireworks/models/kimi-k2p6", "fireworks_ai/accounts/fireworks/models/kimi-k2p6"},
      {"together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo"},
      {"bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"},
      {"bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-sonnet-4-5-20250929-v1:0"},
      {"anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"},
      {"cohere", "rerank-v3.5", "rerank-v3.5"},
      {"together", "openai/gpt-oss-120b", ""},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.provider + " " + c.model);
    const budget::Found found = prices.find({c.provider, c.model, kToday});
    EXPECT_EQ(found.price ? found.price->model : "", c.found);
  }
  for (const Price& price : prices.tables()[0].prices) {
    EXPECT_EQ(prices.find({"", price.model, kToday}).price, &price) << "each is found by the name that it has there";
  }
  const budget::Found flash = prices.find({"deepseek", "deepseek-v4-flash", kToday});
  EXPECT_EQ(cost_of(flash, {}, TokenCounts{.input = 1000, .cached_input = 1000}).total, NanoUsd{2800});
}

}  // namespace price_litellm_test
