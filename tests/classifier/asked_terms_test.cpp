#include "classifier/asked_terms.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/classifier/help.h"

namespace asked_terms_test {

using classifier::AskedTerms;
using classifier::Headers;

/// "priority fast us elsewhere 2 images 5 searches": what is said, the numbers always.
std::string told(const AskedTerms& asked) {
  std::string out;
  for (const std::string& word : {asked.service_tier, asked.speed, asked.inference_geo}) {
    if (!word.empty()) out += word + " ";
  }
  if (asked.set_elsewhere) out += "elsewhere ";
  if (asked.place_set_elsewhere) out += "placed ";
  return out + std::to_string(asked.images) + " images " + std::to_string(asked.web_searches) + " searches";
}

TEST(AskedTerms, says_what_a_request_asks_for_that_changes_its_price) {
  const struct {
    std::string_view dialect;
    std::string_view body;
    std::string_view want;
    Headers headers{};
  } kCases[] = {
      {"openai", R"({"model":"m"})", "elsewhere 1 images 0 searches"},
      {"openai", R"({"service_tier":"priority","n":3})", "priority elsewhere 3 images 0 searches"},
      {"openai", R"({"service_tier":null})", "elsewhere 1 images 0 searches"},
      {"openai", R"({"service_tier":5})", "elsewhere 1 images 0 searches"},
      {"openai", R"({"messages":[{"service_tier":"priority"}]})", "elsewhere 1 images 0 searches"},
      {"openai", R"({"tools":[{"type":"web_search"},{"type":"function"}]})", "elsewhere 1 images 10 searches"},
      {"openai", R"({"tools":[{"type":"web_search_preview"}],"max_tool_calls":4})", "elsewhere 1 images 4 searches"},
      {"openai", R"({"web_search_options":{}})", "elsewhere 1 images 10 searches"},
      {"openai", R"({"tools":[{"type":"function","name":"web_search"}]})", "elsewhere 1 images 0 searches"},
      {"anthropic",
       R"({"speed":"fast","inference_geo":"us","service_tier":"standard_only"})",
       "standard_only fast us elsewhere placed 1 images 0 searches"},
      {"anthropic",
       R"({"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":5}]})",
       "elsewhere placed 1 images 5 searches"},
      {"azure", "{}", "elsewhere 1 images 0 searches"},
      {"groq", R"({"service_tier":"flex"})", "flex 1 images 0 searches"},
      {"gemini", R"({"service_tier":"SERVICE_TIER_PRIORITY"})", "SERVICE_TIER_PRIORITY 1 images 0 searches"},
      {"gemini", R"({"serviceTier":"flex"})", "flex 1 images 0 searches"},
      {"bedrock", R"({"serviceTier":{"type":"priority"}})", "priority 1 images 0 searches"},
      {"bedrock", "{}", "priority 1 images 0 searches", {{"X-Amzn-Bedrock-Service-Tier", "priority"}}},
      {"bedrock",
       R"({"serviceTier":{"type":"priority"}})",
       "auto 1 images 0 searches",
       {{"X-Amzn-Bedrock-Service-Tier", "default"}}},
      {"vertex", "{}", "flex 1 images 0 searches", {{"X-Vertex-AI-LLM-Shared-Request-Type", "flex"}}},
      {"vertex", "{}", "1 images 0 searches", {{"X-Amzn-Bedrock-Service-Tier", "priority"}}},
      {"vertex", R"({"instances":[{"prompt":"a"}]})", "4 images 0 searches"},
      {"vertex", R"({"parameters":{"sampleCount":2},"instances":[{"prompt":"a"}]})", "2 images 0 searches"},
      {"openai", "--form-boundary", "elsewhere 1 images 0 searches"},
      {"openai", "", "elsewhere 1 images 0 searches"},
      {"openai", R"({"service_tier":"priority")", "elsewhere 1 images 0 searches"},
  };
  for (const auto& c : kCases) {
    const std::string body = classifier_tests::padded(c.body);
    const classifier::Dialect* dialect = classifier::find_dialect(c.dialect);
    ASSERT_NE(dialect, nullptr);
    EXPECT_EQ(told(classifier::read_asked_terms(*dialect, c.headers, body)), c.want) << c.dialect << " " << c.body;
  }
}

}  // namespace asked_terms_test
