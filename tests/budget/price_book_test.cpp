#include "budget/price_book.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace price_book_test {

using budget::Found;
using budget::Miss;
using budget::NanoUsd;
using budget::PriceBook;
using budget::PriceTable;
using classifier::TokenCounts;
using std::chrono::sys_days;

constexpr sys_days kToday{std::chrono::year{2026} / 11 / 29};

sys_days day(std::string_view text) { return *budget::price_date(text); }

PriceTable own(const std::string& name, const std::string& models) {
  budget::PriceFile file = budget::read_price_file("{\"callgate_prices\": 1, \"models\": [" + models + "]}", name);
  for (const budget::PriceProblem& problem : file.problems) ADD_FAILURE() << text_of(problem, name);
  return std::move(file.table);
}

std::string entry(const std::string& model, const std::string& provider, int usd_per_mtok,
                  const std::string& more = {}) {
  return "{\"model\": \"" + model + "\"" + (provider.empty() ? "" : ", \"provider\": \"" + provider + "\"") +
         ", \"usd_per_mtok\": {\"input\": " + std::to_string(usd_per_mtok) + "}" + more + "}";
}

PriceBook book(std::vector<std::string> files) {
  std::vector<PriceTable> tables;
  for (const std::string& models : files) tables.push_back(own("file " + std::to_string(tables.size() + 1), models));
  return PriceBook{std::move(tables)};
}

/// What one token costs there, in pico-dollars; -1: not found.
std::int64_t rate(const Found& found) {
  return found.price ? found.price->tables.back().rates.at(budget::Meter::Input)->value : -1;
}

struct Row {
  std::string provider;
  std::string model;
  std::string found;  // The price's own name; empty: a miss.
  std::string how{};
};

void expect_rows(const PriceBook& prices, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.provider + " | " + row.model);
    const Found found = prices.find({row.provider, row.model, kToday});
    if (row.found.empty()) {
      EXPECT_EQ(found.price, nullptr) << (found.price ? found.price->model : "");
      EXPECT_NE(found.miss, Miss::No);
      continue;
    }
    ASSERT_NE(found.price, nullptr);
    EXPECT_EQ(found.price->model, row.found);
    EXPECT_EQ(text_of(found.how), row.how);
    EXPECT_EQ(found.miss, Miss::No);
  }
}

TEST(PriceNames, are_found_by_one_rule_and_never_guessed) {
  const PriceBook prices =
      book({entry("gpt-5", "openai", 1) + "," + entry("gpt-5-mini", "openai", 1) + "," +
            entry("gpt-4o", "openai", 1) + "," + entry("gpt-4o-2024-05-13", "openai", 2) + "," +
            entry("claude-sonnet-4-5", "anthropic", 1, R"(, "aliases": ["claude-sonnet-4.5"])") + "," +
            entry("gemini-2.5-pro", "gemini", 1) + "," + entry("deepseek-v4-pro", "deepseek", 1) + "," +
            entry("groq/openai/gpt-oss-120b", "groq", 1) + "," + entry("fireworks/kimi-k2p6", "fireworks", 1) + "," +
            entry("anthropic.claude-sonnet-4-5-20250929-v1:0",
                  "bedrock",
                  1,
                  R"(, "aliases": ["anthropic.claude-sonnet-4-5"], "multipliers": {"us": 1.1})") +
            "," + entry("amazon.nova-pro", "bedrock", 1) + "," + entry("us.amazon.nova-lite-v1:0", "bedrock", 1) +
            "," + entry("my-model", "", 1)});
  expect_rows(
      prices,
      {
          {"openai", "gpt-5", "gpt-5", "provider"},
          {"", "gpt-5", "gpt-5", "exact"},
          {"openai", "gpt-5-2025-08-07", "gpt-5", "provider, without date"},
          {"", "gpt-5-20250807", "gpt-5", "without date"},
          {"openai", "gpt-5-latest", "gpt-5", "provider, without date"},
          {"openai", "gpt-4o-2024-05-13", "gpt-4o-2024-05-13", "provider"},  // Its own price comes first.
          {"openai", "gpt-4o-2024-11-20", "gpt-4o", "provider, without date"},
          // No part of a name is a name.
          {"openai", "gpt-5-pro", ""},
          {"openai", "gpt-5-mini-high", ""},
          {"openai", "gpt", ""},
          {"openai", "my-gpt-5", ""},
          {"openai", "GPT-5", ""},
          {"openai", "", ""},
          {"openai", "gpt-5-", ""},
          {"openai", "-2025-08-07", ""},
          // What only looks like a date.
          {"openai", "gpt-5-2025-13-07", ""},
          {"openai", "gpt-5-2025-08-32", ""},
          {"openai", "gpt-5-1999-08-07", ""},
          {"openai", "gpt-5-0613", ""},
          {"openai", "gpt-5-2025-0807", ""},

          {"anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5", "provider, without date"},
          {"anthropic", "claude-sonnet-4.5", "claude-sonnet-4-5", "provider"},
          {"openrouter", "anthropic/claude-sonnet-4.5", "claude-sonnet-4-5", "vendor"},
          {"openrouter", "openai/gpt-5-2025-08-07", "gpt-5", "vendor, without date"},
          {"openrouter", "openai/gpt-4o-2024-05-13", "gpt-4o-2024-05-13", "vendor"},
          {"openrouter", "google/gemini-2.5-pro", "gemini-2.5-pro", "vendor"},
          {"openrouter", "openai/gpt-5:free", ""},
          {"openrouter", "anthropic/gpt-5", ""},
          {"openrouter", "nobody/gpt-5", ""},
          {"", "anthropic/claude-sonnet-4-5", "claude-sonnet-4-5", "vendor"},

          {"vertex", "claude-sonnet-4-5@20250929", "claude-sonnet-4-5", "without date"},
          {"vertex",
           "publishers/anthropic/models/claude-sonnet-4-5@20250929",
           "claude-sonnet-4-5",
           "unwrapped, without date"},
          {"vertex",
           "projects/p/locations/us-east5/publishers/google/models/gemini-2.5-pro",
           "gemini-2.5-pro",
           "unwrapped"},
          {"gemini", "models/gemini-2.5-pro", "gemini-2.5-pro", "provider, unwrapped"},
          {"azure", "gpt-5-2025-08-07", "gpt-5", "without date"},
          {"", "accounts/fireworks/models/gpt-5", "gpt-5", "unwrapped"},

          // The same model at another host has another price.
          {"groq", "openai/gpt-oss-120b", "groq/openai/gpt-oss-120b", "provider"},
          {"", "groq/openai/gpt-oss-120b", "groq/openai/gpt-oss-120b", "exact"},
          {"openrouter", "openai/gpt-oss-120b", ""},
          {"", "openai/gpt-oss-120b", ""},
          {"together", "openai/gpt-oss-120b", ""},
          {"fireworks", "accounts/fireworks/models/kimi-k2p6", "fireworks/kimi-k2p6", "provider, unwrapped"},
          {"fireworks", "accounts/fireworks/models/deepseek-v4-pro", ""},
          {"fireworks", "deepseek-v4-pro", ""},
          {"groq", "gpt-5", ""},
          {"openrouter", "deepseek/deepseek-v4-pro", ""},
          {"deepseek", "deepseek-v4-pro", "deepseek-v4-pro", "provider"},

          {"bedrock",
           "anthropic.claude-sonnet-4-5-20250929-v1:0",
           "anthropic.claude-sonnet-4-5-20250929-v1:0",
           "provider"},
          {"bedrock",
           "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
           "anthropic.claude-sonnet-4-5-20250929-v1:0",
           "provider, without region"},
          {"bedrock",
           "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
           "anthropic.claude-sonnet-4-5-20250929-v1:0",
           "provider, unwrapped, without region"},
          {"bedrock", "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", ""},
          {"bedrock",
           "anthropic.claude-sonnet-4-5-20251231-v2:0",
           "anthropic.claude-sonnet-4-5-20250929-v1:0",
           "provider, without version, without date"},
          {"bedrock", "amazon.nova-pro-v1:0", "amazon.nova-pro", "provider, without version"},
          {"bedrock", "apac.amazon.nova-pro-v1:0", "amazon.nova-pro", "provider, without region, without version"},
          {"bedrock", "us.amazon.nova-lite-v1:0", "us.amazon.nova-lite-v1:0", "provider"},
          {"bedrock", "eu.amazon.nova-lite-v1:0", ""},
          {"bedrock", "mars.amazon.nova-pro-v1:0", ""},
          {"bedrock", "us.gpt-5", ""},

          {"anywhere", "my-model", "my-model", "exact"},
          {"groq", "my-model", "my-model", "exact"},
          {"anywhere", "gpt-5", ""},
      });
}

TEST(PriceNames, that_mean_two_prices_are_not_found) {
  // LiteLLM's file, where two entries have one name at one provider.
  const std::string text = R"({
    "vertex_ai/m": {"litellm_provider": "vertex_ai-language-models", "input_cost_per_token": 1e-06},
    "vertex_ai-beta/m": {"litellm_provider": "vertex_ai", "input_cost_per_token": 2e-06, "aliases": ["vertex_ai/m", "other"]},
    "x": {"litellm_provider": "xai", "input_cost_per_token": 3e-06},
    "xai/x": {"litellm_provider": "xai", "input_cost_per_token": 4e-06},
    "same/a": {"litellm_provider": "same", "input_cost_per_token": 5e-06, "aliases": ["s"]},
    "same/b": {"litellm_provider": "same", "input_cost_per_token": 5e-06, "aliases": ["s"]}
  })";
  budget::PriceFile file = budget::read_price_file(text, "litellm");
  ASSERT_TRUE(file.usable());
  std::vector<PriceTable> tables;
  tables.push_back(std::move(file.table));
  const PriceBook prices{std::move(tables)};
  const Found twice = prices.find({"vertex", "m", kToday});
  EXPECT_EQ(twice.miss, Miss::Ambiguous);
  EXPECT_EQ(twice.price, nullptr);
  EXPECT_EQ(prices.find({"", "vertex_ai/m", kToday}).miss, Miss::Ambiguous);
  EXPECT_EQ(rate(prices.find({"", "other", kToday})), 2'000'000);
  EXPECT_EQ(rate(prices.find({"xai", "x", kToday})), 4'000'000)
      << "what has the provider in its name was written for it";
  EXPECT_EQ(rate(prices.find({"", "x", kToday})), 3'000'000);
  EXPECT_EQ(rate(prices.find({"", "s", kToday})), 5'000'000) << "two names of one price are no doubt";
}

TEST(PriceBook, asks_a_later_file_with_all_steps_before_an_earlier_one) {
  const PriceBook prices = book({
      entry("gpt-5", "openai", 1) + "," + entry("gpt-5-2025-08-07", "openai", 2) + "," +
          entry("gpt-5-mini", "openai", 3),
      entry("gpt-5", "openai", 10),
      entry("gpt-5", "openai", 20) + "," + entry("other", "openai", 21),
  });
  const Found found = prices.find({"openai", "gpt-5-2025-08-07", kToday});
  EXPECT_EQ(rate(found), 20'000'000) << "who names a price for gpt-5 means its dated names, too";
  EXPECT_EQ(found.table->name, "file 3");
  EXPECT_EQ(found.name, "gpt-5");
  EXPECT_EQ(rate(prices.find({"openai", "gpt-5-mini", kToday})), 3'000'000) << "what is not overridden stays";
  EXPECT_EQ(prices.find({"openai", "gpt-6", kToday}).miss, Miss::Unknown);
}

TEST(PriceBook, takes_the_latest_date_that_has_come) {
  const PriceBook prices = book({
      entry("a", "", 1) + "," + entry("b", "", 7),
      entry("a", "", 2, R"(, "from": "2026-09-01")") + "," + entry("a", "", 3, R"(, "from": "2027-01-01")"),
      entry("c", "", 4, R"(, "from": "2027-01-01")"),
  });
  struct Case {
    std::string_view day;
    std::int64_t usd_per_mtok;
  };
  const Case kCases[] = {
      {"2026-08-31", 1},  // Not yet in the later file: the earlier one holds.
      {"2026-09-01", 2},
      {"2026-12-31", 2},
      {"2027-01-01", 3},
      {"2100-01-01", 3},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(rate(prices.find({"", "a", day(c.day)})), c.usd_per_mtok * 1'000'000) << c.day;
  }
  EXPECT_EQ(prices.find({"", "c", day("2026-12-31")}).miss, Miss::NotYet);
  EXPECT_EQ(rate(prices.find({"", "c", day("2027-01-01")})), 4'000'000);
}

TEST(PriceBook, stays_whole_when_it_is_moved) {
  PriceBook first = book({entry("gpt-5", "openai", 1)});
  const Found before = first.find({"openai", "gpt-5", kToday});
  const PriceBook second = std::move(first);
  EXPECT_EQ(second.find({"openai", "gpt-5", kToday}).price, before.price);
}

TEST(PriceBook, charges_the_region_that_it_took_off_a_name) {
  const PriceBook prices = book({entry("anthropic.claude-x-v1:0", "bedrock", 10, R"(, "multipliers": {"us": 1.1})")});
  const TokenCounts kTokens{.input = 1000};
  const auto cost = [&](const std::string& model) {
    return cost_of(prices.find({"bedrock", model, kToday}), {}, kTokens).total;
  };
  EXPECT_EQ(cost("anthropic.claude-x-v1:0"), NanoUsd{10'000'000});
  EXPECT_EQ(cost("us.anthropic.claude-x-v1:0"), NanoUsd{11'000'000});
  EXPECT_EQ(cost("global.anthropic.claude-x-v1:0"), NanoUsd{10'000'000});
  const std::vector<std::string_view> kSaid = {"us"};
  const Found found = prices.find({"bedrock", "us.anthropic.claude-x-v1:0", kToday});
  EXPECT_EQ(found.region, "us");
  EXPECT_EQ(cost_of(found, {"", kSaid}, kTokens).total, NanoUsd{11'000'000}) << "once, although told twice";
  EXPECT_EQ(cost_of(Found{}, {}, kTokens).unpriced, budget::Unpriced::NoModel);
}

TEST(Provider, is_told_by_the_host_before_the_upstreams_name) {
  struct Case {
    std::string_view host;
    std::string_view upstream;
    std::string_view provider;
  };
  const Case kCases[] = {
      {"api.openai.com", "mine", "openai"},
      {"eu.api.openai.com", "mine", "openai"},
      {"api.groq.com", "openai", "groq"},
      {"r.openai.azure.com", "openai", "azure"},
      {"us-east5-aiplatform.googleapis.com", "gemini", "vertex"},
      {"aiplatform.googleapis.com", "", "vertex"},
      {"bedrock-runtime.us-east-1.amazonaws.com", "aws", "bedrock"},
      {"127.0.0.1", "openai", "openai"},
      {"127.0.0.1", "mine", ""},
      {"notapi.openai.com.example", "mine", ""},
      {"evilapi.openai.com", "mine", ""},
      {"", "", ""},
  };
  for (const Case& c : kCases) EXPECT_EQ(budget::provider_of(c.host, c.upstream), c.provider) << c.host;
  EXPECT_EQ(budget::canonical_provider("bedrock_converse"), "bedrock");
  EXPECT_EQ(budget::canonical_provider("vertex_ai-anthropic_models"), "vertex");
  EXPECT_EQ(budget::canonical_provider("fireworks_ai-embedding-models"), "fireworks");
  EXPECT_EQ(budget::canonical_provider("never heard of"), "never heard of");
}

class Shipped : public testing::Test {
 protected:
  static PriceBook make() {
    std::vector<PriceTable> tables;
    tables.push_back(budget::shipped_prices());
    return PriceBook{std::move(tables)};
  }
  std::optional<NanoUsd> cost(std::string_view provider, std::string_view model, const TokenCounts& tokens,
                              std::string_view tier = {}, const budget::Billed& billed = {}) const {
    return cost_of(prices_.find({provider, model, kToday}), {tier, {}}, tokens, billed).total;
  }
  const PriceBook prices_ = make();
};

TEST_F(Shipped, file_is_without_a_problem_and_each_entry_says_whence_it_is) {
  const budget::PriceFile file = budget::read_price_file(budget::shipped_prices_text(), "shipped");
  for (const budget::PriceProblem& problem : file.problems) ADD_FAILURE() << text_of(problem, "prices.json");
  EXPECT_EQ(file.table.format, budget::PriceFormat::Own);
  EXPECT_FALSE(file.table.version.empty());
  EXPECT_EQ(file.table.digest.size(), 16U);
  for (const budget::Price& price : file.table.prices) {
    SCOPED_TRACE(price.model);
    EXPECT_FALSE(price.sources.empty());
    EXPECT_TRUE(budget::price_date(price.as_of));
    EXPECT_FALSE(price.provider.empty());
    const Found found = prices_.find({price.provider, price.model, kToday});
    ASSERT_NE(found.price, nullptr);
    EXPECT_EQ(found.price->model, price.model);
  }
}

TEST_F(Shipped, prices_give_what_the_providers_lists_say) {
  struct Case {
    std::string provider;
    std::string model;
    TokenCounts tokens;
    std::int64_t micro_usd;
    std::string tier{};
  };
  constexpr std::int64_t k1M = 1'000'000;
  const Case kCases[] = {
      {"openrouter", "openai/gpt-5.6-sol", {.input = 4020, .cache_write_5m = 4012}, 25'115},
      {"openrouter", "openai/gpt-5.6-sol", {.input = 4020, .cached_input = 4012}, 2'046},
      {"openai", "gpt-5.6-terra", {.input = 100'000, .output = 10'000}, 200'000 + 120'000},
      {"openai", "gpt-5.4", {.input = 272'000, .output = 1000}, 680'000 + 15'000},
      {"openai", "gpt-5.4", {.input = 272'001, .output = 1000}, 1'360'005 + 22'500},
      {"openai", "gpt-5.4", {.input = 272'001, .output = 1000}, 680'003 + 11'250, "flex"},  // 680'002.5
      {"openai", "gpt-5-mini-2025-08-07", {.input = 1000, .cached_input = 1000}, 25},
      {"openai", "gpt-5-mini-2025-08-07", {.input = 1000, .cached_input = 1000}, 45, "priority"},
      {"openai", "gpt-4o-2024-08-06", {.input = 1000, .output = 1000}, 12'500},
      {"openai", "gpt-4o-2024-05-13", {.input = 1000, .output = 1000}, 20'000},
      {"openai", "o4-mini", {.input = 1000, .output = 1000}, 10'000, "priority"},
      {"openai", "text-embedding-3-small", {.input = k1M}, 20'000},
      {"anthropic", "claude-sonnet-5", {.input = 1000, .cache_write_1h = 1000}, 6'000},
      {"anthropic", "claude-sonnet-4-5-20250929", {.input = 200'000, .cached_input = 100'000}, 330'000},
      {"anthropic", "claude-sonnet-4-5-20250929", {.input = 200'001, .cached_input = 100'000}, 660'006},
      {"anthropic", "claude-sonnet-4-6", {.input = 200'001}, 600'003},
      {"anthropic", "claude-haiku-4-5-20251001", {.input = 100, .output = 20}, 100, "batch"},
      {"bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", {.input = 1000, .output = 100}, 3'300 + 1'650},
      {"gemini", "gemini-3.1-pro-preview", {.input = 1000, .output = 1000, .reasoning = 900}, 2'000 + 12'000},
      {"gemini", "gemini-3.1-pro-preview", {.input = 1000}, 3'600, "ON_DEMAND_PRIORITY"},
      {"xai", "grok-4.5", {.input = 199'999}, 399'998},
      {"xai", "grok-4.5", {.input = 200'000}, 800'000},
      {"deepseek", "deepseek-v4-pro", {.input = k1M, .cached_input = k1M}, 3'625},
      {"deepseek", "deepseek-v4-pro", {.input = k1M, .cache_write_5m = k1M}, 0},
      {"groq", "openai/gpt-oss-120b", {.input = 1000, .cached_input = 1000}, 75},
      {"fireworks", "accounts/fireworks/models/kimi-k2p6", {.input = 100, .output = 10}, 135},
      {"together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", {.input = 100, .output = 100}, 176},
      {"mistral", "codestral-latest", {.input = 1000, .output = 1000}, 1'200},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.model + " " + c.tier);
    const auto total = cost(c.provider, c.model, c.tokens, c.tier);
    ASSERT_TRUE(total);
    EXPECT_EQ((total->value + 500) / 1000, c.micro_usd);
  }
}

TEST_F(Shipped, prices_know_images_audio_searches_and_queries) {
  EXPECT_EQ(
      cost("openai", "gpt-image-2", {.input = 50, .output = 4160}, {}, {.image_input = 40, .image_output = 4160}),
      NanoUsd{10 * 5'000 + 40 * 8'000 + 4160 * 30'000});
  EXPECT_EQ(cost("gemini", "gemini-2.5-flash", {.input = 100}, {}, {.audio_input = 60}),
            NanoUsd{40 * 300 + 60 * 1000});
  EXPECT_EQ(cost("anthropic", "claude-haiku-4-5", {.input = 100}, {}, {.web_searches = 2}), NanoUsd{20'100'000});
  const auto whole = [&](std::string_view provider, std::string_view model, const budget::Billed& billed) {
    return cost_of(prices_.find({provider, model, kToday}), {}, std::nullopt, billed).total;
  };
  EXPECT_EQ(whole("cohere", "rerank-v3.5", {.queries = 1}), NanoUsd{2'000'000});
  EXPECT_EQ(whole("openai", "whisper-1", {.input_ms = 60'000}), NanoUsd{6'000'000});
  EXPECT_EQ(whole("openai", "dall-e-3", {.output_images = 1}), std::nullopt);
}

TEST_F(Shipped, sonnet_5_has_both_its_dates) {
  const TokenCounts kTokens{.input = 1'000'000, .output = 1'000'000};
  const auto on = [&](std::string_view text) {
    return cost_of(prices_.find({"anthropic", "claude-sonnet-5", day(text)}), {}, kTokens).total;
  };
  EXPECT_EQ(on("2026-08-31"), NanoUsd{12'000'000'000});
  EXPECT_EQ(on("2026-09-01"), NanoUsd{18'000'000'000});
}

}  // namespace price_book_test
