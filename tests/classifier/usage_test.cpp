// Goal: what providers report comes to the same six numbers, and parts never exceed their whole.

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "classifier/dialect.h"
#include "classifier/reported.h"
#include "tests/classifier/help.h"

namespace {

using classifier::Reported;
using classifier::TokenCounts;
using classifier_tests::told;

TEST(SettleOpenAi, total_tells_what_stands_outside) {
  const struct {
    std::string_view name;
    Reported reported;
    TokenCounts want;
  } kCases[] = {
      {"parts inside",
       {.input = 100, .cached = 60, .output = 50, .reasoning = 20, .total = 150},
       {100, 60, 0, 0, 50, 20}},
      {"reasoning outside",
       {.input = 12, .cached = 3, .output = 2, .reasoning = 424, .total = 438},
       {12, 3, 0, 0, 426, 424}},
      {"cached outside", {.input = 10, .cached = 90, .output = 5, .total = 105}, {100, 90, 0, 0, 5, 0}},
      {"both outside",
       {.input = 10, .cached = 90, .output = 5, .reasoning = 7, .total = 112},
       {100, 90, 0, 0, 12, 7}},
      {"hidden thinking", {.input = 35, .output = 12, .total = 109}, {35, 0, 0, 0, 74, 62}},
      {"a difference that is nothing known",
       {.input = 10, .output = 5, .reasoning = 3, .total = 100},
       {10, 0, 0, 0, 5, 3}},
      {"a total that is too small", {.input = 10, .output = 5, .total = 3}, {10, 0, 0, 0, 5, 0}},
      {"no total, and parts larger than their whole",
       {.input = 5, .cached = 8, .output = 2, .reasoning = 9},
       {13, 8, 0, 0, 11, 9}},
      {"input alone", {.input = 7, .total = 7}, {7, 0, 0, 0, 0, 0}},
  };
  for (const auto& c : kCases) EXPECT_EQ(classifier::settle_openai(c.reported), c.want) << c.name;
  EXPECT_EQ(classifier::settle_openai({.total = 5}), std::nullopt);
}

TEST(SettleAnthropic, input_leaves_the_cache_out) {
  EXPECT_EQ(classifier::settle_anthropic({.input = 6,
                                          .cached = 20'443,
                                          .written = 1'574,
                                          .written_5m = 574,
                                          .written_1h = 1'000,
                                          .output = 489,
                                          .reasoning = 77}),
            (TokenCounts{22'023, 20'443, 574, 1'000, 489, 77}));
  EXPECT_EQ(classifier::settle_anthropic({.input = 4, .written = 1'165, .output = 207}),
            (TokenCounts{1'169, 0, 1'165, 0, 207, 0}));
  EXPECT_EQ(classifier::settle_anthropic({.input = 4, .written = 100, .written_1h = 40, .output = 1}),
            (TokenCounts{104, 0, 60, 40, 1, 0}));
  EXPECT_EQ(classifier::settle_anthropic({}), std::nullopt);
}

TEST(SettleGemini, adds_what_its_counts_leave_out) {
  EXPECT_EQ(classifier::settle_gemini({.input = 15, .tool_input = 288, .output = 40, .reasoning = 257}),
            (TokenCounts{303, 0, 0, 0, 297, 257}));
  EXPECT_EQ(classifier::settle_gemini({.input = 14}), (TokenCounts{14, 0, 0, 0, 0, 0}));
  EXPECT_EQ(classifier::settle_gemini({}), std::nullopt);
}

TEST(Settle, parts_never_exceed_their_whole) {
  for (unsigned seed = 0; seed < 20'000; ++seed) {
    std::mt19937 chance{seed};
    const auto maybe = [&]() -> std::optional<std::int64_t> {
      if (chance() % 3 == 0) return std::nullopt;
      return static_cast<std::int64_t>(chance() % 50);
    };
    const Reported reported{.input = maybe(),
                            .tool_input = maybe(),
                            .cached = maybe(),
                            .written = maybe(),
                            .written_5m = maybe(),
                            .written_1h = maybe(),
                            .output = maybe(),
                            .reasoning = maybe(),
                            .total = maybe()};
    for (const classifier::Settle settle : {classifier::settle_openai,
                                            classifier::settle_anthropic,
                                            classifier::settle_gemini,
                                            classifier::settle_plain}) {
      const auto counts = settle(reported);
      if (!counts) continue;
      ASSERT_LE(counts->cached_input + counts->cache_write_5m + counts->cache_write_1h, counts->input)
          << "seed " << seed;
      ASSERT_LE(counts->reasoning, counts->output) << "seed " << seed;
    }
  }
}

std::string usage_of(std::string_view dialect, std::string_view path, std::string_view body) {
  const classifier::Dialect& d = *classifier::find_dialect(dialect);
  const classifier::Headers json = {{"content-type", "application/json"}};
  return told(d.read(d.endpoint("POST", path), {.status = 200, .headers = &json, .body = body}).usage);
}

TEST(ReadUsage, unknown_is_not_zero_and_junk_is_unknown) {
  const std::string_view chat = "/v1/chat/completions";
  EXPECT_EQ(usage_of("openai", chat, R"({"model":"m","choices":[],"usage":null})"), "m unknown unfinished");
  EXPECT_EQ(usage_of("openai", chat, R"({"model":"m","choices":[],"usage":{}})"), "m unknown unfinished");
  EXPECT_EQ(
      usage_of("openai", chat, R"({"model":"m","choices":[],"usage":{"prompt_tokens":"7","completion_tokens":-2}})"),
      "m unknown unfinished");
  EXPECT_EQ(
      usage_of("openai", chat, R"({"model":"m","choices":[],"usage":{"prompt_tokens":7.0,"completion_tokens":2}})"),
      "m 7 0 0 0 2 0 unfinished");
  EXPECT_EQ(usage_of("openai", chat, R"({"model":"m","usage":{"type":"duration","seconds":5,"input_tokens":3}})"),
            "m unknown unfinished");
  EXPECT_EQ(usage_of("openai", chat, "not json"), " unknown unfinished");
  EXPECT_EQ(usage_of("openai", chat, R"({"model":"m","usage":{"prompt_tokens":7,)"), " unknown unfinished");
  EXPECT_EQ(usage_of("anthropic", "/v1/messages/count_tokens", R"({"input_tokens":2095})"), " unknown unfinished")
      << "counting is free";
  EXPECT_EQ(usage_of("gemini", "/v1beta/models/m:countTokens", R"({"totalTokens":31})"), " unknown unfinished");
}

TEST(ReadUsage, a_count_that_is_none_is_unknown_and_never_zero) {
  const struct {
    std::string_view dialect;
    std::string_view path;
    std::string_view before;  // The count comes between.
    std::string_view after;
    std::string_view with_12;
    std::string_view unknown;
  } kPlaces[] = {
      {"openai",
       "/v1/chat/completions",
       R"({"model":"m","usage":{"completion_tokens":2,"prompt_tokens":)",
       "}}",
       "m 12 0 0 0 2 0 unfinished",
       "m unknown unfinished"},
      {"openai",
       "/v1/chat/completions",
       R"({"model":"m","usage":{"completion_tokens":2,"prompt_tokens":20,"prompt_tokens_details":{"cached_tokens":)",
       "}}}",
       "m 20 12 0 0 2 0 unfinished",
       "m unknown unfinished"},
      {"anthropic",
       "/v1/messages",
       R"({"model":"m","usage":{"input_tokens":1,"output_tokens":)",
       "}}",
       "m 1 0 0 0 12 0 unfinished",
       "m unknown unfinished"},
      {"anthropic",
       "/v1/messages",
       R"({"model":"m","usage":{"iterations":[{"type":"compaction","input_tokens":1},{"type":"message","output_tokens":3,"input_tokens":)",
       "}]}}",
       "m 13 0 0 0 3 0 unfinished",
       "m unknown unfinished"},
      {"gemini",
       "/v1beta/models/m:generateContent",
       R"({"modelVersion":"m","usageMetadata":{"promptTokenCount":1,"thoughtsTokenCount":)",
       "}}",
       "m 1 0 0 0 12 12 unfinished",
       "m unknown unfinished"},
      {"cohere",
       "/v2/chat",
       R"({"usage":{"billed_units":{"output_tokens":1,"input_tokens":)",
       "}}}",
       " 12 0 0 0 1 0 unfinished",
       " unknown unfinished"},
      {"ollama",
       "/api/chat",
       R"({"model":"m","prompt_eval_count":1,"eval_count":)",
       "}",
       "m 1 0 0 0 12 0 unfinished",
       "m unknown unfinished"},
  };
  for (const auto& place : kPlaces) {
    const auto usage = [&](std::string_view count) {
      std::string body{place.before};
      body += count;
      body += place.after;
      return usage_of(place.dialect, place.path, body);
    };
    for (const std::string_view count : {"12", "12.0", "\"12\""}) EXPECT_EQ(usage(count), place.with_12) << count;
    for (const std::string_view count : {"9223372036854775808",
                                         "-9223372036854775809",
                                         "99999999999999999999999999",
                                         "1e999",
                                         "-1",
                                         "12.5",
                                         "\"twelve\"",
                                         "\"12.5\"",
                                         "\"-12\"",
                                         "\"\"",
                                         "true",
                                         "{}",
                                         "[12]"}) {
      EXPECT_EQ(usage(count), place.unknown) << place.dialect << ' ' << count;
    }
  }
}

TEST(ReadUsage, cohere_is_paid_by_billed_units_and_ollama_leaves_zeros_out) {
  EXPECT_EQ(
      usage_of(
          "cohere",
          "/v1/chat",
          R"({"text":"a","finish_reason":"COMPLETE","meta":{"billed_units":{"input_tokens":4,"output_tokens":3},"tokens":{"input_tokens":70,"output_tokens":3}}})"),
      " 4 0 0 0 3 0 COMPLETE");
  EXPECT_EQ(usage_of("cohere", "/v2/embed", R"({"embeddings":{},"meta":{"tokens":{"input_tokens":70}}})"),
            " 70 0 0 0 0 0 unfinished")
      << "what was counted, where nothing says what was billed";
  EXPECT_EQ(usage_of("cohere", "/v2/rerank", R"({"results":[],"meta":{"billed_units":{"search_units":1}}})"),
            " unknown unfinished");
  EXPECT_EQ(usage_of("ollama", "/api/embed", R"({"model":"m","embeddings":[],"prompt_eval_count":3})"),
            "m 3 0 0 0 0 0 unfinished");
  EXPECT_EQ(usage_of("ollama", "/api/chat", R"({"model":"m","done":true})"), "m unknown unfinished");
}

TEST(ReadUsage, an_array_of_chunks_tells_the_last_ones_counts) {
  EXPECT_EQ(
      usage_of(
          "gemini",
          "/v1beta/models/m:streamGenerateContent",
          R"([{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1}},
{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":9},"modelVersion":"m"}])"),
      "m 5 0 0 0 9 0 STOP");
}

TEST(ReadUsage, of_several_spellings_of_the_cached_input_the_largest_counts) {
  for (const std::string_view usage : {R"("num_cached_tokens":5,"prompt_tokens_details":{"cached_tokens":0})",
                                       R"("prompt_tokens_details":{"cached_tokens":5},"prompt_cache_hit_tokens":0)",
                                       R"("cached_tokens":0,"prompt_token_details":{"cached_tokens":5})"}) {
    const std::string body =
        R"({"model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,)" + std::string{usage} + "}}";
    EXPECT_EQ(usage_of("openai", "/v1/chat/completions", body), "m 9 5 0 0 1 0 unfinished") << usage;
  }
}

TEST(ReadUsage, names_are_bounded) {
  const std::string body = R"({"model":")" + std::string(1'000, 'm') +
                           R"(","choices":[{"index":0,"finish_reason":")" + std::string(1'000, 'f') + R"("}]})";
  EXPECT_EQ(usage_of("openai", "/v1/chat/completions", body),
            std::string(128, 'm') + " unknown " + std::string(128, 'f'));
}

TEST(ReadUsage, the_service_tier_is_told_as_named) {
  const auto tier = [](std::string_view dialect, std::string_view path, std::string_view body) {
    const classifier::Dialect& d = *classifier::find_dialect(dialect);
    const classifier::Headers none;
    return d.read(d.endpoint("POST", path), {.status = 200, .headers = &none, .body = body}).usage.service_tier;
  };
  EXPECT_EQ(tier("openai", "/v1/chat/completions", R"({"service_tier":"flex","usage":{"prompt_tokens":1}})"), "flex");
  EXPECT_EQ(tier("anthropic", "/v1/messages", R"({"usage":{"input_tokens":1,"service_tier":"priority"}})"),
            "priority");
  EXPECT_EQ(
      tier("gemini", "/v1beta/models/m:generateContent", R"({"usageMetadata":{"trafficType":"ON_DEMAND_FLEX"}})"),
      "ON_DEMAND_FLEX");
}

}  // namespace
