// Goal: what does not matter changes nothing. Method: the recorded cases and made-up ones, varied by seeds: bytes
// split anywhere, members shuffled and added, white space, encodings; words of errors put where a model or a prompt
// puts them.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "classifier/cases.h"
#include "classifier/json.h"
#include "tests/classifier/help.h"

namespace property_test {

using classifier::Case;
using classifier::Class;
using classifier::Headers;
using Json = nlohmann::ordered_json;

constexpr unsigned kSeeds = 6;

std::vector<std::string> lines_of(const std::string& name) {
  std::ifstream file{std::string{PROJECT_ROOT} + "/tests/fixtures/" + name};
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

/// Members in another order, further ones that nobody knows, at every depth. Members of the same name stay apart from
/// ours.
Json varied(const Json& json, std::mt19937& chance, int depth = 0) {
  if (json.is_array()) {
    Json out = Json::array();
    for (const Json& element : json) out.push_back(varied(element, chance, depth + 1));
    return out;
  }
  if (!json.is_object()) return json;
  std::vector<std::pair<std::string, Json>> members;
  for (const auto& [key, value] : json.items()) members.emplace_back(key, varied(value, chance, depth + 1));
  const Json kUnrelated[] = {1, "x", nullptr, true, Json::array({1, "rate limit"}), Json{{"deep", Json{{"er", 2}}}}};
  for (unsigned i = 0; i < chance() % 3; ++i) {
    members.emplace_back("zz_unrelated_" + std::to_string(i), kUnrelated[chance() % std::size(kUnrelated)]);
  }
  std::ranges::shuffle(members, chance);
  Json out = Json::object();
  for (auto& [key, value] : members) out[key] = std::move(value);
  return out;
}

std::string verdict_text(const Case& recorded) { return classifier_tests::spelled(classifier::judge(recorded)); }

std::string usage_text(const Case& recorded) {
  const classifier::ExpectedUsage usage = classifier::usage_of(recorded);
  return classifier_tests::spelled(
      classifier::Usage{.tokens = usage.tokens, .model = usage.model, .finish = usage.finish});
}

/// Another body of the same meaning; nothing for what is no plain JSON.
std::string rewritten(const Case& recorded, std::mt19937& chance) {
  const Json json = Json::parse(recorded.body, nullptr, false);
  if (json.is_discarded() || recorded.stream || !json.is_structured()) return {};
  return "\r\n\t " + varied(json, chance).dump(chance() % 2 == 0 ? -1 : 3) + " \n";
}

Case packed(Case recorded, int window_bits) {
  recorded.body = classifier_tests::deflated(recorded.body, window_bits);
  recorded.headers.push_back({"Content-Encoding", window_bits == classifier_tests::kGzip ? "gzip" : "deflate"});
  return recorded;
}

TEST(Property, order_white_space_unrelated_members_and_encoding_change_no_verdict) {
  int varied_cases = 0;
  for (const char* file : {"errors.jsonl", "fresh.jsonl"}) {
    for (const std::string& line : lines_of(file)) {
      const auto recorded = classifier::read_verdict_case(line);
      ASSERT_TRUE(recorded) << line;
      const std::string want = verdict_text(*recorded);
      for (unsigned seed = 0; seed < kSeeds; ++seed) {
        std::mt19937 chance{seed};
        Case other = *recorded;
        other.body = rewritten(*recorded, chance);
        if (other.body.empty()) break;
        ++varied_cases;
        EXPECT_EQ(verdict_text(other), want) << recorded->id << " seed " << seed << '\n' << other.body;
        EXPECT_EQ(verdict_text(packed(other, classifier_tests::kGzip)), want) << recorded->id;
        EXPECT_EQ(verdict_text(packed(other, classifier_tests::kRawDeflate)), want) << recorded->id;
      }
    }
  }
  EXPECT_GT(varied_cases, 1'000);
}

TEST(Property, brackets_are_counted_alike_at_any_split) {
  const std::string_view kTexts[] = {R"({"a":"\\"})",
                                     R"({"a":"\""})",
                                     R"({"a":"\\\"}]"})",
                                     R"(["{",'}',[]])",
                                     R"({"a":"b)",
                                     R"({"a":"b\)",
                                     R"(]{})",
                                     R"([DONE])",
                                     ""};
  for (const std::string_view text : kTexts) {
    const bool whole = classifier::balanced(text);
    for (std::size_t first = 0; first <= text.size(); ++first) {
      for (std::size_t second = first; second <= text.size(); ++second) {
        classifier::JsonBalance balance;
        balance.feed(text.substr(0, first));
        balance.feed(text.substr(first, second - first));
        balance.feed(text.substr(second));
        EXPECT_EQ(balance.whole(), whole) << text << " cut at " << first << " and " << second;
      }
    }
  }
  EXPECT_TRUE(classifier::balanced(kTexts[0]) && classifier::balanced(kTexts[1]) && classifier::balanced(kTexts[2]));
  EXPECT_FALSE(classifier::balanced(kTexts[4]) || classifier::balanced(kTexts[5]) || classifier::balanced(kTexts[6]));
}

TEST(Property, a_whole_answer_that_is_cut_anywhere_is_none) {
  std::size_t cuts = 0;
  for (const std::string& line : lines_of("usage.jsonl")) {
    auto recorded = classifier::read_usage_case(line);
    ASSERT_TRUE(recorded) << line;
    const auto endpoint = recorded->dialect->endpoint("POST", recorded->path);
    if (recorded->stream || !endpoint.understood || endpoint.operation == classifier::Operation::Other) continue;
    if (!recorded->body.starts_with('{') && !recorded->body.starts_with('[')) continue;
    const std::string whole = recorded->body;
    for (std::size_t size = 1; size <= whole.find_last_of("]}"); ++size) {
      recorded->body = whole.substr(0, size);
      const auto verdict = classifier::judge(*recorded);
      if (verdict.cls == classifier::Class::MalformedResponse) ++cuts;
      ASSERT_EQ(name_of(verdict.cls), "malformed_response") << recorded->id << " cut at " << size;
    }
  }
  EXPECT_GT(cuts, 5'000U);
}

TEST(Property, order_white_space_unrelated_members_and_encoding_change_no_usage) {
  for (const std::string& line : lines_of("usage.jsonl")) {
    const auto recorded = classifier::read_usage_case(line);
    ASSERT_TRUE(recorded) << line;
    const std::string want = usage_text(*recorded);
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      std::mt19937 chance{seed};
      Case other = *recorded;
      other.body = rewritten(*recorded, chance);
      if (other.body.empty()) break;
      EXPECT_EQ(usage_text(other), want) << recorded->id << " seed " << seed << '\n' << other.body;
      EXPECT_EQ(usage_text(packed(other, classifier_tests::kGzip)), want) << recorded->id;
    }
  }
}

// What providers say, as a prompt or an answer may quote it.
constexpr std::string_view kQuoted[] = {
    "Rate limit reached for gpt-4o. Please try again in 20s.",
    R"({"error":{"code":"insufficient_quota","message":"You exceeded your current quota","type":"insufficient_quota"}})",
    "This model's maximum context length is 8192 tokens.",
    "The server is overloaded or not ready yet.",
    "invalid api key",
    "data: {\"error\":{\"message\":\"overloaded\"}}\n\n",
    R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})",
};

TEST(Property, an_error_quoted_in_generated_content_makes_no_verdict) {
  for (const classifier::Dialect* dialect : classifier::dialects()) {
    const std::string_view path = classifier::usual_path(dialect->name());
    const classifier::Endpoint endpoint = dialect->endpoint("POST", path);
    for (const std::string_view text : kQuoted) {
      Json answer;
      if (endpoint.operation == classifier::Operation::Messages) {
        answer = {{"type", "message"},
                  {"content", {{{"type", "text"}, {"text", text}}}},
                  {"stop_reason", "end_turn"},
                  {"usage", {{"input_tokens", 1}, {"output_tokens", 2}}}};
      } else if (endpoint.operation == classifier::Operation::GenerateContent) {
        answer = {{"candidates",
                   {{{"content", {{"parts", {{{"text", text}}}}, {"role", "model"}}}, {"finishReason", "STOP"}}}}};
      } else if (dialect->name() == "ollama") {
        answer = {{"model", "m"}, {"message", {{"role", "assistant"}, {"content", text}}}, {"done", true}};
      } else if (dialect->name() == "cohere") {
        answer = {{"id", "x"},
                  {"finish_reason", "COMPLETE"},
                  {"message", {{"role", "assistant"}, {"content", {{{"type", "text"}, {"text", text}}}}}}};
      } else if (path == "/v1/chat/completions") {
        answer = {
            {"id", "x"},
            {"choices",
             {{{"index", 0}, {"message", {{"role", "assistant"}, {"content", text}}}, {"finish_reason", "stop"}}}}};
      } else {
        continue;  // Dialects with a language of their own are looked at in their tests.
      }
      const Headers head{{"Content-Type", "application/json"}};
      const std::string body = answer.dump();
      EXPECT_EQ(classifier_tests::spelled(dialect->judge(endpoint, {.status = 200, .headers = &head, .body = body})),
                "none")
          << dialect->name() << '\n'
          << body;
    }
  }
}

TEST(Property, an_error_quoted_in_the_echo_of_a_prompt_makes_no_verdict) {
  const Headers head{{"Content-Type", "application/json"}};
  for (const classifier::Dialect* dialect : classifier::dialects()) {
    const classifier::Endpoint endpoint = dialect->endpoint("POST", classifier::usual_path(dialect->name()));
    for (const std::string_view text : kQuoted) {
      for (const char quote : {'"', '\'', '`'}) {
        if (text.find(quote) != std::string_view::npos) continue;
        const std::string message =
            std::string{"Invalid value: "} + quote + std::string{text} + quote + ". Use another.";
        const std::string body =
            Json{{"error", {{"message", message}, {"type", "invalid_request_error"}, {"param", "input"}}}}.dump();
        EXPECT_EQ(
            classifier_tests::spelled(dialect->judge(endpoint, {.status = 400, .headers = &head, .body = body})),
            "invalid_request final")
            << dialect->name() << '\n'
            << body;
      }
    }
  }
}

TEST(Property, parts_of_usage_are_never_negative_nor_more_than_their_total) {
  const std::vector<std::string> lines = lines_of("usage.jsonl");
  const Json kNumbers[] = {0, 1, 7, 1000, -1, -5, 1.5, 12.0, "12", nullptr, 9007199254740993LL, 1e300, "x", true};
  for (const std::string& line : lines) {
    const auto recorded = classifier::read_usage_case(line);
    ASSERT_TRUE(recorded);
    const Json json = Json::parse(recorded->body, nullptr, false);
    if (json.is_discarded() || recorded->stream) continue;
    for (unsigned seed = 0; seed < 40; ++seed) {
      std::mt19937 chance{seed};
      Json flat = json.flatten();
      for (auto& [key, value] : flat.items()) {
        const bool counts =
            value.is_number() && (key.find("oken") != std::string::npos || key.find("count") != std::string::npos);
        if (counts && chance() % 2 == 0) value = kNumbers[chance() % std::size(kNumbers)];
      }
      Case other = *recorded;
      other.body = flat.unflatten().dump();
      const auto tokens = classifier::usage_of(other).tokens;
      if (!tokens) continue;
      const std::string what = recorded->id + " seed " + std::to_string(seed) + "\n" + other.body;
      for (const std::int64_t part : {tokens->input,
                                      tokens->cached_input,
                                      tokens->cache_write_5m,
                                      tokens->cache_write_1h,
                                      tokens->output,
                                      tokens->reasoning}) {
        ASSERT_GE(part, 0) << what;
      }
      ASSERT_LE(tokens->cached_input + tokens->cache_write_5m + tokens->cache_write_1h, tokens->input) << what;
      ASSERT_LE(tokens->reasoning, tokens->output) << what;
    }
  }
}

}  // namespace property_test
