// Goal: what providers report comes to the same six numbers, and parts never exceed their whole.

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "classifier/dialect.h"
#include "classifier/reported.h"
#include "tests/classifier/help.h"

namespace usage_test {

using classifier::Reported;
using classifier::TokenCounts;
using classifier_tests::spelled;

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
  return spelled(d.read(d.endpoint("POST", path), {.status = 200, .headers = &json, .body = body}).usage);
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

classifier::Usage usage_in(std::string_view dialect, std::string_view path, std::string_view body) {
  const classifier::Headers none;
  const classifier::Dialect& d = *classifier::find_dialect(dialect);
  return d.read(d.endpoint("POST", path), {.status = 200, .headers = &none, .body = body}).usage;
}

TEST(ReadUsage, what_is_billed_beside_plain_tokens_is_told_apart) {
  using classifier::Billed;
  const struct {
    std::string_view name;
    std::string_view dialect;
    std::string_view path;
    std::string_view body;
    Billed want;
  } kCases[] = {
      {"audio in and out",
       "openai",
       "/v1/chat/completions",
       R"({"usage":{"prompt_tokens":28,"completion_tokens":117,"prompt_tokens_details":{"audio_tokens":11,"cached_tokens":0,"image_tokens":3,"cached_tokens_details":{"audio_tokens":2}},"completion_tokens_details":{"audio_tokens":90}}})",
       {.audio_input = 11, .cached_audio_input = 2, .image_input = 3, .audio_output = 90}},
      {"images by tokens",
       "openai",
       "/v1/images/generations",
       R"({"data":[{"b64_json":"iVBO"}],"usage":{"input_tokens":50,"input_tokens_details":{"image_tokens":40,"text_tokens":10},"output_tokens":4160,"output_tokens_details":{"image_tokens":4000,"text_tokens":160}}})",
       {.image_input = 40, .image_output = 4000}},
      {"images by tokens, all of the output without details",
       "openai",
       "/v1/images/generations",
       R"({"data":[{"b64_json":"iVBO"}],"usage":{"input_tokens":50,"output_tokens":4160}})",
       {.image_output = 4160}},
      {"images by the piece",
       "openai",
       "/v1/images/generations",
       R"({"created":1,"data":[{"url":"https://e.org/1"},{"url":"https://e.org/2"}]})",
       {.output_images = 2}},
      {"documents are no images",
       "openai",
       "/v1/documents/search",
       R"({"data":[{"id":"d1","url":"https://e.org/1"},{"url":"https://e.org/2","title":"x"}]})",
       {}},
      {"embeddings are no images",
       "openai",
       "/v1/embeddings",
       R"({"data":[{"index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":5,"total_tokens":5}})",
       {}},
      {"a transcript by seconds",
       "openai",
       "/v1/audio/transcriptions",
       R"({"text":"hello","usage":{"type":"duration","seconds":12.5}})",
       {.input_ms = 12'500}},
      {"audio of a chat by seconds",
       "mistral",
       "/v1/chat/completions",
       R"({"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_audio_seconds":3}})",
       {.input_ms = 3'000}},
      {"pages",
       "mistral",
       "/v1/ocr",
       R"({"pages":[],"usage_info":{"pages_processed":7,"doc_size_bytes":9}})",
       {.pages = 7}},
      {"searches of a response, pages that were opened left out",
       "openai",
       "/v1/responses",
       R"({"output":[{"type":"web_search_call","status":"completed","action":{"type":"search"}},{"type":"web_search_call","action":{"type":"open_page"}},{"type":"web_search_call","status":"failed"},{"type":"web_search_call"}],"usage":{"input_tokens":5,"output_tokens":1}})",
       {.web_searches = 2}},
      {"searches of a message",
       "anthropic",
       "/v1/messages",
       R"({"content":[],"usage":{"input_tokens":5,"output_tokens":1,"server_tool_use":{"web_search_requests":3,"web_fetch_requests":9}}})",
       {.web_searches = 3}},
      {"modalities",
       "gemini",
       "/v1beta/models/m:generateContent",
       R"({"usageMetadata":{"promptTokenCount":300,"candidatesTokenCount":50,"promptTokensDetails":[{"modality":"TEXT","tokenCount":20},{"modality":"AUDIO","tokenCount":200},{"modality":"IMAGE","tokenCount":80}],"cacheTokensDetails":[{"modality":"AUDIO","tokenCount":100}],"candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":50}]}})",
       {.audio_input = 200, .cached_audio_input = 100, .image_input = 80, .image_output = 50}},
      {"search units",
       "cohere",
       "/v2/rerank",
       R"({"results":[],"meta":{"billed_units":{"search_units":4}}})",
       {.queries = 4}},
      {"image tokens beside the input",
       "cohere",
       "/v2/embed",
       R"({"embeddings":{},"meta":{"billed_units":{"input_tokens":6,"images":1,"image_tokens":700}}})",
       {.image_input_apart = 700}},
      {"pictures that Vertex made",
       "vertex",
       "/v1/projects/p/locations/us/publishers/google/models/imagen-4.0:predict",
       R"({"predictions":[{"mimeType":"image/png","bytesBase64Encoded":"iVBO"},{"bytesBase64Encoded":"iVBO","mimeType":"image/png"},{"raiFilteredReason":"x"},{"mimeType":"audio/wav","bytesBase64Encoded":"UklG"}]})",
       {.output_images = 2}},
      {"junk says nothing",
       "openai",
       "/v1/chat/completions",
       R"({"usage":{"prompt_tokens":28,"completion_tokens":1,"prompt_tokens_details":{"audio_tokens":-3},"num_sources_used":"x","seconds":"y"}})",
       {}},
  };
  for (const auto& c : kCases) EXPECT_EQ(usage_in(c.dialect, c.path, c.body).billed, c.want) << c.name;
}

TEST(ReadUsage, a_cost_that_the_answer_states_keeps_its_digits) {
  const struct {
    std::string_view usage;
    std::string_view stated;
    std::string_view beside;
  } kCases[] = {
      {R"("cost":0.0079)", "0.0079", ""},
      {R"("cost" : 1.2e-05 )", "1.2e-05", ""},
      {R"("cost":0)", "0", ""},
      {R"("cost":"0.5")", "0.5", ""},
      {R"("cost":0.01,"is_byok":false,"cost_details":{"upstream_inference_cost":0.01})", "0.01", ""},
      {R"("cost":0.01,"is_byok":true,"cost_details":{"upstream_inference_cost":0.2})", "0.01", "0.2"},
      {R"("cost":0.01,"is_byok":true,"cost_details":{"upstream_inference_cost":null})", "", ""},
      {R"("cost_in_usd_ticks":37756000)", "37756000e-10", ""},
      {R"("cost":{"request_cost":0.005,"total_cost":0.0061})", "0.0061", ""},
      {R"("cost":null)", "", ""},
      {R"("cost":-1)", "", ""},
      {R"("cost":true)", "", ""},
  };
  for (const auto& c : kCases) {
    const classifier::Usage usage =
        usage_in("openrouter",
                 "/v1/chat/completions",
                 R"({"usage":{"prompt_tokens":1,"completion_tokens":1,)" + std::string{c.usage} + "}}");
    EXPECT_EQ(usage.stated_usd, c.stated) << c.usage;
    EXPECT_EQ(usage.stated_beside_usd, c.beside) << c.usage;
  }
}

TEST(ReadUsage, vertex_tells_of_each_embedded_text_by_itself_and_of_other_predictions_nothing) {
  constexpr std::string_view kPredict =
      "/v1/projects/p/locations/global/publishers/google/models/gemini-embedding-001:predict";
  const auto tokens = [&](std::string_view body) { return usage_in("vertex", kPredict, body).tokens; };
  EXPECT_EQ(
      tokens(
          R"({"predictions":[{"embeddings":{"statistics":{"truncated":false,"token_count":6},"values":[0.1]}},{"embeddings":{"values":[0.2],"statistics":{"token_count":5.0}}}],"metadata":{"billableCharacterCount":40}})"),
      (TokenCounts{11, 0, 0, 0, 0, 0}));
  EXPECT_EQ(
      tokens(R"({"predictions":[{"embeddings":{"statistics":{"token_count":6}}},{"embeddings":{"values":[0.2]}}]})"),
      std::nullopt)
      << "of one text it is not known";
  EXPECT_EQ(tokens(R"({"predictions":[{"textEmbedding":[0.1]}]})"), std::nullopt);
  EXPECT_EQ(tokens(R"({"predictions":[{"embeddings":{"statistics":{"token_count":-6}}}]})"), std::nullopt);
  EXPECT_EQ(tokens(R"({"predictions":[]})"), std::nullopt);
}

TEST(ReadUsage, null_is_unknown_and_not_zero) {
  const auto openai = [](std::string_view usage) {
    return usage_in("openai", "/v1/chat/completions", "{\"usage\":{" + std::string{usage} + "}}");
  };
  const classifier::Usage input = openai(R"("prompt_tokens":null,"completion_tokens":5,"total_tokens":9)");
  EXPECT_EQ(input.tokens, std::nullopt);
  EXPECT_TRUE(input.tokens_unknown);
  EXPECT_EQ(openai(R"("prompt_tokens":7,"completion_tokens":null)").tokens, std::nullopt);
  EXPECT_EQ(openai(R"("prompt_tokens":7,"completion_tokens":null,"total_tokens":9)").tokens,
            (TokenCounts{.input = 7, .output = 2}))
      << "the total tells";
  EXPECT_EQ(
      openai(R"("prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":null})").tokens,
      (TokenCounts{.input = 7, .output = 2}))
      << "a part of null is none";
  EXPECT_FALSE(openai(R"("prompt_tokens":7)").tokens_unknown);
  EXPECT_EQ(usage_in("anthropic", "/v1/messages", R"({"content":[],"usage":{"input_tokens":null,"output_tokens":5}})")
                .tokens,
            std::nullopt);
}

TEST(ReadUsage, null_in_a_later_event_takes_nothing_back) {
  const classifier::Dialect& d = *classifier::find_dialect("anthropic");
  const classifier::Endpoint endpoint = d.endpoint("POST", "/v1/messages");
  const classifier::Headers head{{"content-type", "text/event-stream"}};
  const auto reader = d.stream_reader(endpoint, {}, head, false);
  reader->feed(
      "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n"
      "data: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":null,\"output_tokens\":5,"
      "\"server_tool_use\":{\"web_search_requests\":2}}}\n\n"
      "data: {\"type\":\"message_stop\"}\n\n");
  EXPECT_EQ(reader->usage().tokens, (TokenCounts{.input = 9, .output = 5}));
  EXPECT_EQ(reader->usage().billed, classifier::Billed{.web_searches = 2});
}

TEST(ReadUsage, what_changes_the_price_is_told_as_named) {
  const classifier::Usage claude =
      usage_in("anthropic",
               "/v1/messages",
               R"({"content":[],"usage":{"input_tokens":1,"output_tokens":1,"speed":"fast","inference_geo":"us"}})");
  EXPECT_EQ(claude.speed, "fast");
  EXPECT_EQ(claude.inference_geo, "us");
  const classifier::Dialect& vertex = *classifier::find_dialect("vertex");
  const auto region = [&](const std::string& location) {
    const std::string path =
        "/v1/projects/p/locations/" + location + "/publishers/anthropic/models/claude-haiku-4-5:rawPredict";
    return vertex.read_request(vertex.endpoint("POST", path), path, "", {}).region;
  };
  EXPECT_EQ(region("us-east5"), "regional");
  EXPECT_EQ(region("eu"), "regional");
  EXPECT_EQ(region("global"), "");
}

TEST(ReadUsage, llama_cpp_and_mistral_on_bedrock_have_words_of_their_own) {
  EXPECT_EQ(usage_in("llamacpp",
                     "/completion",
                     R"({"content":"hi","stop":true,"tokens_evaluated":12,"tokens_predicted":3,"tokens_cached":14})")
                .tokens,
            (TokenCounts{.input = 12, .output = 3}));
  EXPECT_EQ(
      usage_in("bedrock",
               "/model/mistral.mistral-large-2407-v1:0/invoke",
               R"({"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"stop_reason":"length"}]})")
          .finish,
      "length");
  EXPECT_EQ(
      usage_in("vllm",
               "/v1/chat/completions",
               R"({"choices":[{"index":0,"message":{"content":"hi"},"stop_reason":"END","finish_reason":"stop"}]})")
          .finish,
      "stop");
}

}  // namespace usage_test
