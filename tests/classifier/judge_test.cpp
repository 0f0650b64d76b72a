// Goal: a whole answer gets the right verdict in whatever form its error comes, and a good one gets none, whatever
// words stand in it. Method: tables of answers that no corpus has, each with one point.

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "classifier/dialect.h"
#include "classifier/inflate.h"
#include "tests/classifier/help.h"

namespace judge_test {

using classifier::Dialect;
using classifier::Headers;
using classifier::ProviderAnswer;
using classifier::Transport;
using classifier::Verdict;
using classifier_tests::deflated;
using classifier_tests::kGzip;
using classifier_tests::kRawDeflate;
using classifier_tests::kZlib;
using classifier_tests::spelled;

constexpr std::string_view kChat = "/v1/chat/completions";

Verdict judge(std::string_view dialect, std::string_view path, int status, std::string_view body,
              Headers headers = {}, std::optional<Transport> transport = {}, bool truncated = false) {
  const Dialect& d = *classifier::find_dialect(dialect);
  return d.judge(
      d.endpoint("POST", path),
      {.status = status, .headers = &headers, .body = body, .transport = transport, .truncated = truncated});
}

std::string chat(int status, std::string_view body, Headers headers = {}) {
  return spelled(judge("openai", kChat, status, body, std::move(headers)));
}

TEST(Judge, an_error_is_found_in_every_form) {
  const struct {
    int status;
    std::string_view body;
    std::string_view want;
  } kCases[] = {
      {429, R"({"error":{"code":"insufficient_quota"}})", "quota_exhausted final"},
      {429, R"({"code":"insufficient_quota","message":"x"})", "quota_exhausted final"},
      {429, R"([{"error":{"code":"insufficient_quota"}}])", "quota_exhausted final"},
      {429, R"({"error":[{"code":"insufficient_quota"}]})", "quota_exhausted final"},
      {429, R"({"error":{"error":{"code":"insufficient_quota"}}})", "quota_exhausted final"},
      {429, R"({"error":{"message":"{\"error\":{\"code\":\"insufficient_quota\"}}"}})", "quota_exhausted final"},
      {429,
       R"({"error":{"message":"x","metadata":{"raw":"{\"error\":{\"type\":\"insufficient_quota\"}}"}}})",
       "quota_exhausted final"},
      {429, R"("{\"error\":{\"code\":\"insufficient_quota\"}}")", "quota_exhausted final"},
      {429, "event: error\ndata: {\"error\":{\"code\":\"insufficient_quota\"}}\n\n", "quota_exhausted final"},
      {429, "\xEF\xBB\xBF {\"error\":{\"code\":\"INSUFFICIENT-QUOTA\"}}", "quota_exhausted final"},
      {429, "{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"\xff\"}}", "quota_exhausted final"},
      {200, R"({"error":{"code":"insufficient_quota"}})", "quota_exhausted final"},
      {200, R"({"error":"Unauthorized"})", "server_error retryable"},
      {200, R"({"object":"error","message":"m","code":503})", "overloaded retryable"},
      {200, R"({"response":{"error":{"code":"rate_limit_exceeded"}}})", "rate_limited retryable"},
      {200,
       R"({"id":"x","choices":[{"index":0,"error":{"code":529},"message":{"content":""}}]})",
       "overloaded retryable"},
      {200,
       R"({"id":"r","object":"response","status":"failed","error":{"code":"server_error","message":"m"}})",
       "server_error retryable"},
      {200, R"({"id":"r","object":"response","status":"failed","error":null,"output":[]})", "server_error retryable"},
      {200, R"({"id":"r","object":"response","status":"incomplete","error":null,"output":[]})", "none"},
      {200, R"({"id":"b","object":"batch","status":"failed","errors":null})", "none"},
      {500, R"({"error":{"code":"429","message":"m"}})", "rate_limited retryable"},
      {502, R"({"error":{"status":"RESOURCE_EXHAUSTED"}})", "rate_limited retryable"},
      {500, R"({"error":{"code":400,"message":"m"}})", "invalid_request final"},
  };
  for (const auto& c : kCases) EXPECT_EQ(chat(c.status, c.body), c.want) << c.body;
}

TEST(Judge, each_dialect_has_codes_and_words_of_its_own) {
  const struct {
    std::string_view dialect;
    std::string_view path;
    int status;
    std::string_view body;
    std::string_view want;
  } kCases[] = {
      {"mistral",
       kChat,
       429,
       R"({"object":"error","message":"Slow","type":"x","code":1300})",
       "rate_limited retryable"},
      {"mistral", kChat, 503, R"({"object":"error","message":"m","type":"x","code":"3505"})", "overloaded retryable"},
      {"mistral", kChat, 429, R"({"object":"error","message":"m","type":"x","code":3505})", "overloaded retryable"},
      {"mistral", kChat, 400, R"({"object":"error","message":"m","type":"x","code":"1500"})", "not_found final"},
      {"mistral",
       kChat,
       400,
       R"({"object":"error","message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length","type":"x","code":null})",
       "context_length final"},
      {"mistral", kChat, 400, R"({"object":"error","message":"m","type":"x","code":3051})", "context_length final"},
      {"mistral", kChat, 429, R"({"message":"Monthly token limit exceeded"})", "quota_exhausted final"},
      {"mistral", kChat, 200, R"({"object":"error","message":"m","type":"x","code":"3505"})", "overloaded retryable"},
      {"mistral",
       kChat,
       200,
       R"({"id":"a","object":"chat.completion","choices":[{"index":0,"message":{"content":""},"finish_reason":"error"}]})",
       "server_error retryable"},
      {"cohere", "/v2/chat", 498, R"({"message":"m"})", "content_policy final"},
      {"cohere", "/v1/chat", 498, "", "content_policy final"},
      {"cohere",
       "/v2/chat",
       400,
       R"({"message":"too many tokens: max tokens must be less than 4097"})",
       "invalid_request final"},
      {"cohere",
       "/v2/chat",
       400,
       R"({"message":"too many tokens: the prompt cannot exceed 4081 - received 5000"})",
       "context_length final"},
      {"cohere", "/v2/chat", 429, R"({"message":"limited to 1000 API calls / month"})", "quota_exhausted final"},
      {"cohere", "/v2/chat", 400, R"({"message":"model 'command' was removed on 2025-09-15"})", "not_found final"},
      {"cohere", "/v2/chat", 200, R"({"id":"a","message":"internal"})", "server_error retryable"},
      {"cohere",
       "/v2/chat",
       200,
       R"({"id":"a","message":{"role":"assistant","content":[]},"finish_reason":"COMPLETE"})",
       "none"},
      {"cohere",
       "/v2/chat",
       200,
       R"({"id":"a","message":{"role":"assistant"},"finish_reason":"ERROR"})",
       "server_error retryable"},
      {"cohere", "/v1/chat", 200, R"({"text":"a","finish_reason":"ERROR_LIMIT"})", "context_length final"},
      {"cohere", "/v2/embed", 200, R"({"id":"a","embeddings":{"float":[]}})", "none"},
      {"cohere", "/v2/rerank", 200, R"({"id":"a","results":[]})", "none"},
      {"ollama", "/api/chat", 404, R"({"error":"model \"x\" not found, try pulling it first"})", "not_found final"},
      {"ollama", "/api/chat", 200, R"({"error":"model \"x\" not found, try pulling it first"})", "not_found final"},
      {"ollama", "/api/embed", 500, R"({"error":"input length exceeds the context length"})", "context_length final"},
      {"ollama",
       "/api/chat",
       429,
       R"({"error":"you have reached your weekly usage limit"})",
       "quota_exhausted final"},
      {"ollama", "/api/chat", 500, R"({"error":"llama runner process has terminated"})", "server_error retryable"},
      {"ollama", "/api/chat", 200, R"({"model":"m","message":{"content":"a"},"done":true})", "none"},
      {"ollama", "/api/embed", 200, R"({"model":"m","embeddings":[[1]]})", "none"},
      {"ollama", "/api/embeddings", 200, R"({"embedding":[1]})", "none"},
      {"ollama", "/api/chat", 200, R"({"status":"ok"})", "malformed_response retryable"},
      {"ollama", kChat, 200, R"({"object":"chat.completion","choices":[]})", "none"},
      {"openai", kChat, 498, R"({"error":{"message":"m"}})", "unknown final"},
      {"openai", kChat, 498, R"({"error":{"code":"capacity_exceeded"}})", "overloaded retryable"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(spelled(judge(c.dialect, c.path, c.status, c.body)), c.want)
        << c.dialect << ' ' << c.path << ' ' << c.body;
  }
}

TEST(Judge, a_stream_under_a_head_that_lies_is_still_read_as_one) {
  const Headers json = {{"content-type", "application/json"}};
  EXPECT_EQ(spelled(judge("openai", kChat, 200, "data: {\"error\":{\"code\":529}}\n\n", json)),
            "overloaded retryable");
  EXPECT_EQ(spelled(judge("openai", kChat, 200, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n", json)), "none");
  EXPECT_EQ(spelled(judge("openai", "/v1/audio/transcriptions", 200, "data: what we speak of\n", json)), "none");
  EXPECT_EQ(spelled(judge("ollama", "/api/chat", 200, "{\"done\":false}\n{\"done\":true}\n", json)), "none");
  EXPECT_EQ(spelled(judge("ollama", "/api/chat", 200, "{\"done\":false}\n{\"done\":false}\n", json)),
            "malformed_response retryable");
  EXPECT_EQ(spelled(judge("ollama", "/api/chat", 200, "{\n \"done\": true, \"message\":\n{}\n}", json)), "none");
}

TEST(Judge, an_array_of_chunks_is_an_answer) {
  const std::string_view path = "/v1beta/models/m:streamGenerateContent";
  EXPECT_EQ(spelled(judge("gemini", path, 200, R"([{"candidates":[{"finishReason":"STOP"}]},{"usageMetadata":{}}])")),
            "none");
  EXPECT_EQ(spelled(judge("gemini", path, 200, R"([{"candidates":[]},{"error":{"code":503,"message":"m"}}])")),
            "overloaded retryable");
  EXPECT_EQ(spelled(judge("gemini", path, 200, R"([{"candidates":[{"finishReason":"STOP"}]})")),
            "malformed_response retryable");
}

TEST(Judge, a_number_in_the_body_makes_no_4xx_pass) {
  EXPECT_EQ(chat(400, R"({"error":{"code":429,"message":"Too many requests"}})"), "invalid_request final");
  EXPECT_EQ(chat(400, R"({"error":{"code":503}})"), "invalid_request final");
  EXPECT_EQ(chat(401, R"({"error":{"code":"429"}})"), "auth final");
  EXPECT_EQ(chat(400, R"({"error":{"code":404}})"), "not_found final");
}

TEST(Judge, words_beat_the_status_and_money_beats_every_hint) {
  const Headers hint = {{"retry-after", "2"}, {"x-should-retry", "true"}};
  EXPECT_EQ(chat(429, R"({"error":{"type":"billing_not_active"}})", hint), "quota_exhausted final");
  EXPECT_EQ(chat(429, R"({"error":{"type":"tokens","code":"rate_limit_exceeded"}})", hint),
            "rate_limited retryable 2000 ms");
  EXPECT_EQ(chat(500, R"({"error":{"type":"server_error"}})", {{"x-should-retry", "false"}, {"retry-after", "2"}}),
            "server_error final");
  EXPECT_EQ(chat(400, R"({"error":{"type":"invalid_request_error"}})", {{"X-Should-Retry", " True "}}),
            "invalid_request retryable");
  EXPECT_EQ(chat(404, "", {{"x-should-retry", "true"}}), "not_found final");
}

TEST(Judge, an_echoed_prompt_makes_no_verdict) {
  const std::string_view bodies[] = {
      R"({"error":{"message":"Invalid value: 'my account says the credit balance is too low, insufficient_quota'. Supported: 'a'.","type":"invalid_request_error","code":"invalid_value"}})",
      R"({"error":{"message":"Invalid 'messages[0]': \"Rate limit reached, please try again in 20s, maximum context length\"","code":null}})",
      R"({"error":{"message":"unexpected text `this model was not found and does not exist anywhere`"}})",
      R"({"error":{"message":"could not parse","param":"insufficient_quota","failed_generation":"{\"error\":{\"code\":\"insufficient_quota\"}}"}})",
      "Failed to read: \"blocked by content policy, spending limit, api key not valid\"",
  };
  for (const std::string_view body : bodies) EXPECT_EQ(chat(400, body), "invalid_request final") << body;
}

TEST(Judge, generated_content_makes_no_verdict) {
  const struct {
    std::string_view dialect;
    std::string_view path;
    std::string_view body;
  } kAnswers[] = {
      {"openai",
       kChat,
       R"({"id":"x","error":null,"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"{\"error\":{\"code\":\"insufficient_quota\"}} 429 rate limit","tool_calls":[{"function":{"arguments":"{\"error\":1}"}}]}}]})"},
      {"openai",
       "/v1/responses",
       R"({"id":"r","object":"response","status":"completed","error":null,"output":[{"type":"message","content":[{"text":"\"error\":{\"code\":500}"}]}],"metadata":{"error":"x"}})"},
      {"anthropic",
       "/v1/messages",
       R"({"id":"m","type":"message","content":[{"type":"text","text":"{\"type\":\"error\"}"},{"type":"tool_use","input":{"error":{"type":"overloaded_error"},"type":"error"}}],"stop_reason":"tool_use"})"},
      {"gemini",
       "/v1beta/models/m:generateContent",
       R"({"candidates":[{"content":{"parts":[{"functionCall":{"args":{"error":{"code":503},"promptFeedback":{"blockReason":"X"}}}}]},"finishReason":"STOP"}]})"},
  };
  for (const auto& answer : kAnswers)
    EXPECT_EQ(spelled(judge(answer.dialect, answer.path, 200, answer.body)), "none") << answer.body;
}

TEST(Judge, a_200_that_is_no_answer_is_malformed) {
  for (const std::string_view body : {"",
                                      "  \n\n",
                                      "{",
                                      "{\"id\":\"x\",\"choices\":[",
                                      R"({"id":"x","choices":[{"message":{"content":"cut)",
                                      "{}",
                                      "null",
                                      "[]",
                                      "ok",
                                      R"({"detail":"Not here"})"}) {
    EXPECT_EQ(chat(200, body), "malformed_response retryable") << body;
  }
  EXPECT_EQ(chat(200, "<!DOCTYPE html><html>"), "malformed_response final");
  EXPECT_EQ(chat(200, " \n<html>"), "malformed_response final");
  EXPECT_EQ(chat(204, ""), "malformed_response retryable");
  EXPECT_EQ(spelled(judge("gemini", "/v1beta/models/m:generateContent", 200, R"([{"candidates":[]},)")),
            "malformed_response retryable");
}

TEST(Judge, what_it_has_only_the_beginning_of_is_not_malformed) {
  EXPECT_EQ(spelled(judge("openai", kChat, 200, R"({"id":"x","choices":[)", {}, {}, true)), "none");
  EXPECT_EQ(spelled(judge("openai", kChat, 429, R"({"error":{"code":"insuff)", {}, {}, true)),
            "rate_limited retryable");
}

TEST(Judge, a_broken_connection_is_one_unless_the_status_had_said_more) {
  EXPECT_EQ(spelled(judge("openai", kChat, 0, "", {}, Transport::Dns)), "network retryable");
  EXPECT_EQ(spelled(judge("openai", kChat, 0, "", {}, Transport::Tls)), "network final");
  EXPECT_EQ(spelled(judge("openai", kChat, 200, R"({"id":"x","choices":[)", {}, Transport::Timeout)),
            "timeout retryable");
  EXPECT_EQ(spelled(judge("openai", "/v1/files", 200, "", {}, Transport::Reset)), "network retryable");
  EXPECT_EQ(spelled(judge("openai", kChat, 401, "", {}, Transport::Reset)), "auth final");
}

TEST(Judge, an_endpoint_that_is_not_understood_is_judged_by_status_and_error_only) {
  EXPECT_EQ(spelled(judge("openai", "/v1/files", 200, "<html>")), "none");
  EXPECT_EQ(spelled(judge("openai", "/v1/files", 200, R"({"error":{"code":"x"}})")), "none");
  EXPECT_EQ(spelled(judge("openai", "/v1/files", 429, R"({"error":{"code":"insufficient_quota"}})")),
            "quota_exhausted final");
  EXPECT_EQ(spelled(judge("openai", "/v1/files", 304, "")), "none");
  EXPECT_EQ(spelled(judge("openai", "/v1/audio/transcriptions", 200, "1\n00:00:00 --> hello")), "none");
}

TEST(Judge, a_page_is_judged_by_its_status_alone) {
  EXPECT_EQ(chat(403, "<html>usage policy, credit balance is too low, api key not valid</html>"), "permission final");
  EXPECT_EQ(chat(503, "<html>rate limit, retry in 5s</html>"), "overloaded retryable");
}

TEST(Judge, statuses_keep_their_family) {
  const struct {
    int status;
    std::string_view want;
  } kCases[] = {
      {301, "invalid_request final"},  {405, "invalid_request final"},  {408, "timeout retryable"},
      {409, "conflict retryable"},     {410, "not_found final"},        {413, "too_large final"},
      {418, "unknown final"},          {421, "network retryable"},      {425, "network retryable"},
      {451, "permission final"},       {499, "cancelled retryable"},    {500, "server_error retryable"},
      {501, "invalid_request final"},  {502, "server_error retryable"}, {503, "overloaded retryable"},
      {504, "timeout retryable"},      {520, "server_error retryable"}, {521, "server_error retryable"},
      {522, "timeout retryable"},      {523, "server_error retryable"}, {524, "timeout retryable"},
      {525, "server_error retryable"}, {526, "server_error retryable"}, {529, "overloaded retryable"},
      {530, "server_error retryable"}, {599, "server_error retryable"}, {444, "unknown final"},
      {700, "unknown final"},
  };
  for (const auto& c : kCases) EXPECT_EQ(chat(c.status, ""), c.want) << c.status;
}

TEST(Judge, more_of_what_the_three_providers_are_known_to_say) {
  const std::string_view messages = "/v1/messages";
  const std::string_view generate = "/v1beta/models/m:generateContent";
  const struct {
    std::string_view dialect;
    std::string_view path;
    int status;
    std::string_view body;
    std::string_view want;
  } kCases[] = {
      {"openai",
       kChat,
       403,
       R"({"error":{"message":"Project `p` does not have access to model `gpt-5`","code":"model_not_found"}})",
       "permission final"},
      {"openai",
       kChat,
       429,
       R"({"error":{"message":"You exceeded your current quota, please check your plan and billing details."}})",
       "quota_exhausted final"},
      {"openai",
       kChat,
       429,
       R"({"error":{"message":"The engine is currently overloaded, please try again later","type":"requests"}})",
       "overloaded retryable"},
      {"openai",
       kChat,
       429,
       R"({"error":{"message":"Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s.","code":"rate_limit_exceeded"}})",
       "rate_limited retryable 432000 ms"},
      {"openai",
       kChat,
       429,
       R"({"error":{"message":"No capacity","type":"resource_unavailable"}})",
       "overloaded retryable"},
      {"openai",
       "/v1/responses",
       200,
       R"({"id":"r","object":"response","status":"failed","error":{"code":"image_parse_error","message":"m"}})",
       "invalid_request final"},
      {"openai",
       "/v1/responses",
       200,
       R"({"id":"r","object":"response","status":"failed","error":{"code":"image_content_policy_violation","message":"m"}})",
       "content_policy final"},
      {"openai",
       "/v1/responses",
       200,
       R"({"id":"r","object":"response","status":"failed","error":{"code":"invalid_image_url","message":"m"}})",
       "invalid_request final"},
      {"anthropic",
       messages,
       429,
       R"({"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}})",
       "quota_exhausted final"},
      {"anthropic",
       messages,
       429,
       R"({"type":"error","error":{"type":"rate_limit_error","message":"Number of request tokens has exceeded your daily rate limit"}})",
       "quota_exhausted final"},
      {"anthropic",
       messages,
       400,
       R"({"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}})",
       "context_length final"},
      {"anthropic",
       messages,
       400,
       R"({"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}})",
       "quota_exhausted final"},
      {"anthropic",
       messages,
       400,
       R"({"type":"error","error":{"type":"invalid_request_error","message":"This organization has been disabled."}})",
       "permission final"},
      {"anthropic", messages, 413, "<html>cloudflare</html>", "too_large final"},
      {"gemini",
       generate,
       400,
       R"({"error":{"code":400,"message":"Request payload size exceeds the limit: 20971520 bytes.","status":"INVALID_ARGUMENT"}})",
       "too_large final"},
      {"gemini",
       generate,
       400,
       R"({"error":{"code":400,"message":"Please enable billing on your project.","status":"FAILED_PRECONDITION"}})",
       "quota_exhausted final"},
      {"gemini",
       generate,
       403,
       R"({"error":{"code":403,"message":"Method doesn't allow unregistered callers","status":"PERMISSION_DENIED"}})",
       "auth final"},
      {"gemini",
       generate,
       429,
       R"({"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_limit":"RequestsPerDayPerProject","quota_limit_value":"50"}},{"retryDelay":"9s"}]}})",
       "quota_exhausted final"},
      {"gemini",
       generate,
       429,
       R"({"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_limit":"RequestsPerMinutePerProject","quota_limit_value":"50"}},{"retryDelay":"9s"}]}})",
       "rate_limited retryable 9000 ms"},
      {"gemini",
       generate,
       503,
       R"([{"error":{"code":503,"status":"UNAVAILABLE","message":"m"}}])",
       "overloaded retryable"},
      {"gemini",
       generate,
       200,
       R"([{"candidates":[{"content":{"parts":[{"text":"a"}]}}]},{"error":{"code":503,"status":"UNAVAILABLE","message":"m"}}])",
       "overloaded retryable"},
      {"gemini",
       generate,
       200,
       R"({"usageMetadata":{"promptTokenCount":4},"modelVersion":"m"})",
       "malformed_response retryable"},
      {"gemini",
       "/v1beta/openai/chat/completions",
       429,
       R"([{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}])",
       "rate_limited retryable"},
  };
  for (const auto& c : kCases) EXPECT_EQ(spelled(judge(c.dialect, c.path, c.status, c.body)), c.want) << c.body;
}

TEST(Judge, conflicts_over_an_idempotency_key_do_not_pass) {
  EXPECT_EQ(chat(409, R"({"error":{"message":"Idempotency key was used with another body"}})"), "conflict final");
  EXPECT_EQ(chat(409, R"({"error":{"type":"conflict_error"}})"), "conflict retryable");
}

TEST(Judge, the_providers_code_is_told_tame) {
  const struct {
    std::string_view body;
    std::string_view code;
  } kCases[] = {
      {R"({"error":{"code":"rate_limit_exceeded","type":"tokens"}})", "rate_limit_exceeded"},
      {R"({"error":{"code":null,"type":"server_error"}})", "server_error"},
      {R"({"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}})", "RESOURCE_EXHAUSTED"},
      {R"({"code":"Client specified an invalid argument","error":"x"})", ""},
      {R"({"error":{"code":"a\n\"b\u0000é"}})", "a__b___"},
      {R"({"error":{"code":503}})", "503"},
      {"busy", ""},
  };
  for (const auto& c : kCases) EXPECT_EQ(judge("openai", kChat, 429, c.body).code, c.code) << c.body;
  const std::string endless = R"({"error":{"code":")" + std::string(500, 'x') + R"("}})";
  EXPECT_EQ(judge("openai", kChat, 429, endless).code, std::string(64, 'x'));
}

TEST(Judge, a_refusal_in_an_answer_is_recorded_and_passed_on) {
  const std::string_view path = "/v1beta/models/m:generateContent";
  const Verdict blocked = judge("gemini", path, 200, R"({"promptFeedback":{"blockReason":"SAFETY"}})");
  EXPECT_EQ(spelled(blocked), "content_policy final");
  EXPECT_TRUE(blocked.is_answer);
  EXPECT_FALSE(judge("openai", kChat, 400, R"({"error":{"code":"content_policy_violation"}})").is_answer);
  EXPECT_EQ(spelled(judge("gemini",
                          path,
                          200,
                          R"({"candidates":[{"content":{"parts":[{"text":"half"}]},"finishReason":"SAFETY"}]})")),
            "none");
  const struct {
    std::string_view dialect;
    std::string_view path;
    std::string_view body;
    std::string_view want;
  } kCases[] = {
      {"openai",
       kChat,
       R"({"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"content_filter"}]})",
       "content_policy final"},
      {"openai",
       kChat,
       R"({"choices":[{"index":0,"message":{"role":"assistant","content":"half"},"finish_reason":"content_filter"}]})",
       "none"},
      {"openai",
       "/v1/responses",
       R"({"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]})",
       "content_policy final"},
      {"openai",
       "/v1/responses",
       R"({"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[{"type":"message"}]})",
       "none"},
      {"anthropic",
       "/v1/messages",
       R"({"type":"message","content":[],"stop_reason":"refusal"})",
       "content_policy final"},
      {"anthropic",
       "/v1/messages",
       R"({"type":"message","content":[{"type":"text","text":"I can't."}],"stop_reason":"refusal"})",
       "none"},
  };
  for (const auto& c : kCases) {
    const Verdict verdict = judge(c.dialect, c.path, 200, c.body);
    EXPECT_EQ(spelled(verdict), c.want) << c.body;
    EXPECT_EQ(verdict.is_answer, c.want != "none") << c.body;
  }
}

TEST(Judge, reads_compressed_bodies_and_headers_that_lie_about_them) {
  const std::string_view text = R"({"error":{"code":"insufficient_quota","message":"m"}})";
  const std::string want = "quota_exhausted final";
  EXPECT_EQ(chat(429, deflated(text, kGzip), {{"Content-Encoding", "gzip"}}), want);
  EXPECT_EQ(chat(429, deflated(text, kGzip)), want) << "without a header";
  EXPECT_EQ(chat(429, deflated(text, kZlib), {{"content-encoding", "deflate"}}), want);
  EXPECT_EQ(chat(429, deflated(text, kRawDeflate), {{"content-encoding", "deflate"}}), want);
  EXPECT_EQ(chat(429, text, {{"content-encoding", "gzip"}}), want) << "a header that lies";
  EXPECT_EQ(chat(429, text, {{"content-encoding", "br"}}), "rate_limited retryable") << "not ours to read";
  EXPECT_EQ(chat(200, "\x01\x02", {{"content-encoding", "zstd"}}), "none");
}

TEST(Inflate, is_bounded_and_takes_what_can_be_read) {
  const std::string zeros(1'000'000, '\0');
  const auto bomb = classifier::inflate(deflated(zeros, kGzip), 1'000);
  ASSERT_TRUE(bomb);
  EXPECT_EQ(bomb->text.size(), 1'000U);
  EXPECT_FALSE(bomb->whole);

  const std::string two = deflated("one ", kGzip) + deflated("two", kGzip);
  ASSERT_TRUE(classifier::inflate(two, 1'000));
  EXPECT_EQ(classifier::inflate(two, 1'000)->text, "one two");

  std::string noise(5'000, '\0');
  std::mt19937 chance{7};
  for (char& c : noise) c = static_cast<char>(chance() & 0xFFU);
  const std::string packed = deflated(noise, kGzip);
  const auto half = classifier::inflate(std::string_view{packed}.substr(0, packed.size() / 2), 100'000);
  ASSERT_TRUE(half);
  EXPECT_FALSE(half->whole);
  EXPECT_TRUE(noise.starts_with(half->text));
  EXPECT_FALSE(half->text.empty());

  EXPECT_FALSE(classifier::inflate("no compressed bytes at all", 1'000));
  EXPECT_FALSE(classifier::inflate("", 1'000));
}

TEST(Judge, junk_gets_a_verdict_and_never_breaks) {
  constexpr std::string_view kBits[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        "\"error\":",
                                        "\"code\":",
                                        "429",
                                        "\"message\":",
                                        "\"{\\\"error\\\":",
                                        ",",
                                        "null",
                                        "\"choices\":[",
                                        "\xff",
                                        "\"details\":[{",
                                        "\"violations\":[",
                                        "1e999",
                                        "\\u00",
                                        "\x1f\x8b",
                                        "\"",
                                        "data: "};
  constexpr int kStatuses[] = {200, 204, 400, 429, 500, 503};
  for (unsigned seed = 0; seed < 5'000; ++seed) {
    std::mt19937 chance{seed};
    std::string body;
    for (auto i = chance() % 25; i > 0; --i) body += kBits[chance() % std::size(kBits)];
    const int status = kStatuses[chance() % std::size(kStatuses)];
    for (const auto& [dialect, path] : {std::pair{"openai", kChat},
                                        {"anthropic", "/v1/messages"},
                                        {"gemini", "/v1beta/models/m:generateContent"},
                                        {"mistral", kChat},
                                        {"cohere", "/v2/chat"},
                                        {"ollama", "/api/chat"}}) {
      const Verdict verdict = judge(dialect, path, status, body);
      ASSERT_FALSE(status >= 400 && verdict.cls == classifier::Class::None) << body;
      ASSERT_FALSE(verdict.retry_after && !verdict.retryable) << body;
    }
  }
}

}  // namespace judge_test
