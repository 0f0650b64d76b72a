#include "gateway/answer_headers.h"

#include <gtest/gtest.h>

namespace gateway {
namespace answer_headers_test {

using namespace std::chrono_literals;
using classifier::Headers;

std::string get(const Headers& headers, std::string_view name) {
  return std::string{classifier::find(headers, name).value_or("(none)")};
}

TEST(AnswerHeaders, passes_on_what_is_the_callers_and_nothing_that_poses_as_ours) {
  const Headers headers = {{"Content-Type", "application/json"},
                           {"X-Request-Id", "r1"},
                           {"Connection", "close, X-Hop"},
                           {"X-Hop", "1"},
                           {"Callgate-Attempts", "99"},
                           {"x-empty", ""},
                           {"Set-Cookie", "a=1"},
                           {"Set-Cookie", "b=2"}};
  const Headers expected = {{"Content-Type", "application/json"},
                            {"X-Request-Id", "r1"},
                            {"Connection", "close, X-Hop"},
                            {"x-empty", ""},
                            {"Set-Cookie", "a=1"},
                            {"Set-Cookie", "b=2"}};
  EXPECT_EQ(passable(headers), expected);
}

struct WaitCase {
  const char* theirs;  // The provider's Retry-After; "" for none.
  std::optional<std::chrono::milliseconds> wait;
  const char* user_agent;
  const char* retry_after;  // What the caller must see.
};

TEST(AnswerHeaders, says_a_retry_after_that_no_client_trips_over) {
  const WaitCase cases[] = {
      {"171", 171s, "OpenAI/JS 6.49.0", "171"},
      {"0", 0ms, "OpenAI/JS 6.49.0", "1"},
      {"-5", std::nullopt, "OpenAI/JS 6.49.0", "1"},
      {"soon", std::nullopt, "Groq/JS 1.6.0", "1"},
      {"1.5", 1500ms, "", "2"},
      {"Sun, 06 Nov 1994 08:49:37 GMT", 0ms, "", "1"},
      {"Sun, 29 Nov 2026 08:49:37 GMT", 42'001ms, "", "43"},
      {"99999999999999999999", std::nullopt, "", "1"},
      {"", 360ms, "", "1"},
      {"", 20s, "", "20"},
      {"", std::nullopt, "", "(none)"},
      {"3600", 3600s, "cohere-ai/8.1.0", "2"},
  };
  for (const WaitCase& c : cases) {
    SCOPED_TRACE(c.theirs);
    Headers headers;
    if (*c.theirs != '\0') headers.push_back({"Retry-After", c.theirs});
    set_come_back(headers, {.retryable = true, .wait = c.wait, .sdk_may_retry = false}, c.user_agent);
    EXPECT_EQ(get(headers, "retry-after"), c.retry_after);
    EXPECT_EQ(get(headers, "x-should-retry"), "false");
    EXPECT_EQ(get(headers, "callgate-retry-after-ms"), c.wait ? std::to_string(c.wait->count()) : "(none)");
  }
}

TEST(AnswerHeaders, keeps_the_finer_hint_only_where_it_is_one) {
  Headers headers = {{"Retry-After", "2"}, {"retry-after-ms", "1500"}};
  set_come_back(headers, {.retryable = true, .wait = 1500ms}, "");
  EXPECT_EQ(get(headers, "retry-after-ms"), "1500");
  headers = {{"retry-after-ms", "0"}};
  set_come_back(headers, {.retryable = true, .wait = 0ms}, "");
  EXPECT_EQ(get(headers, "retry-after-ms"), "(none)");
  EXPECT_EQ(get(headers, "retry-after"), "1");
}

TEST(AnswerHeaders, replaces_the_providers_word_on_retrying_with_its_own) {
  Headers headers = {{"X-Should-Retry", "true"}};
  set_come_back(headers, {.retryable = true}, "");
  EXPECT_EQ(get(headers, "x-should-retry"), "false");
  EXPECT_EQ(headers.size(), 2u) << "one of it, and Callgate-Retryable";
}

TEST(AnswerHeaders, says_no_token_count_where_none_was_reported) {
  Headers headers;
  add_token_headers(headers, {});
  EXPECT_TRUE(headers.empty());
  classifier::Usage usage;
  usage.tokens = classifier::TokenCounts{.input = 9, .output = 0};
  add_token_headers(headers, usage);
  EXPECT_EQ(get(headers, "callgate-input-tokens"), "9");
  EXPECT_EQ(get(headers, "callgate-output-tokens"), "0");
}

TEST(AnswerHeaders, of_an_own_error_name_its_type_where_sdks_look_for_it_there) {
  const classifier::OwnError error{.status = 429,
                                   .cls = classifier::Class::LocalLimit,
                                   .message = "m",
                                   .code = "callgate_queue_full",
                                   .call_id = "id1"};
  const auto bedrock = own_answer(*classifier::find_dialect("bedrock"), error);
  EXPECT_EQ(get(bedrock.head.headers, "x-amzn-errortype"), "ThrottlingException");
  EXPECT_EQ(get(bedrock.head.headers, "x-amzn-requestid"), "id1");
  EXPECT_EQ(bedrock.body, R"({"message":"m"})");
  const auto openai = own_answer(*classifier::find_dialect("openai"), error);
  EXPECT_EQ(get(openai.head.headers, "x-amzn-errortype"), "(none)");
}

TEST(AnswerHeaders, lead_an_upload_home_and_touch_no_other_url) {
  const std::string base = "https://generativelanguage.googleapis.com";
  const std::string home = "http://127.0.0.1:4600/gemini";
  Headers headers = {{"X-Goog-Upload-URL", base + "/upload/v1beta/files?upload_id=1"},
                     {"Location", base},
                     {"location", base + ".evil.example/x"},
                     {"x-other", base + "/x"}};
  lead_home(headers, base, home);
  EXPECT_EQ(headers[0].value, home + "/upload/v1beta/files?upload_id=1");
  EXPECT_EQ(headers[1].value, home);
  EXPECT_EQ(headers[2].value, base + ".evil.example/x");
  EXPECT_EQ(headers[3].value, base + "/x");
}

}  // namespace answer_headers_test
}  // namespace gateway
