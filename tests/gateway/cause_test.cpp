#include "gateway/cause.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "classifier/error_reader.h"

namespace gateway {
namespace cause_test {

using classifier::Class;
using ledger::Advice;

Death death_of(std::string_view message) {
  Death death;
  death.queue = "q";
  death.cls = Class::RateLimited;
  death.code = "rate_limit_exceeded";
  death.message = message;
  death.model = "gpt-4o";
  return death;
}
std::string words_of(std::string_view message) { return cause_of(death_of(message)).text; }

TEST(Cause, says_what_happened_without_what_differs) {
  struct Case {
    const char* message;
    const char* words;
  };
  const Case kCases[] = {
      {"Rate limit reached for gpt-4o-mini in organization org-abc123 on requests per min (RPM): Limit 3, Used 3, "
       "Requested 1. Please try again in 20s.",
       "Rate limit reached for # in organization # on requests per min (RPM): Limit #, Used #, Requested #. Please "
       "try "
       "again in #."},
      {"Incorrect API key provided: sk-proj-****WXYZ. You can find your API key in the dashboard.",
       "Incorrect API key provided: #. You can find your API key in the dashboard."},
      {"Incorrect API key provided: sk-\u2026abcd.", "Incorrect API key provided: #."},
      {"Incorrect API key provided: hello. You can", "Incorrect API key provided: #. You can"},
      {"invalid token = swordfish", "invalid token = #"},
      {"Authorization was Bearer swordfish, no", "Authorization was Bearer #, no"},
      {"Authentication Fails, Your api key: ****abcd is invalid", "Authentication Fails, Your api key: # is invalid"},
      {"The model `foo bar` does not exist.", "The model # does not exist."},
      {"Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with length 107 "
       "instead.",
       "Invalid #: string too long. Expected a string with maximum length #, but got a string with length # "
       "instead."},
      {"This model's maximum context length is 8192 tokens; the messages have 8227.",
       "This model's maximum context length is # tokens; the messages have #."},
      {"max_tokens: 99999 > 64000, which is the maximum", "max_tokens: # > #, which is the maximum"},
      {"must be <= 4097. Given: 3500", "must be <= #. Given: #"},
      {"Your IP 203.0.113.9 is not authorized", "Your IP # is not authorized"},
      {"You will regain access on 2026-12-01 at 00:00 UTC.", "You will regain access on # at # UTC."},
      {"request req_abc failed, see https://x.example/a?key=b or ask a.b@example.com",
       "request # failed, see # or ask #"},
      {"id 0190A5d0-ac96-774b-bcce-b302099a8057 and deadbeefcafe1234", "id # and #"},
      {"token aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ=", "token #"},
      {"mixedCase survives nowhere", "# survives nowhere"},
      {"input was {\"role\": \"user\", \"content\": {\"a\": \"my secret\"}} and no more", "input was # and no more"},
      {"input was {'role': 'it's mine' and cut", "input was #"},
      {"you said \"a \\\"very\\\" secret thing\" twice", "you said # twice"},
      {"you said \u201cmy secret\u201d and \u00abmine\u00bb", "you said # and #"},
      {"model\u201cmy secret\u201d gone", "model# gone"},
      {"an unclosed 'my secret thing", "an unclosed #"},
      {"a\r\n\tb\x1b[31mc\x01 \x7f d", "a b [# d"},
      {"not utf-8: \xff\xc3( here", "not #: #( here"},
      {"\u4f59\u989d\u4e0d\u8db3 balance", "# balance"},
      {"models/gemini-3.6-flahs is not found for API version v1beta", "# is not found for API version #"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.message);
    EXPECT_EQ(words_of(c.message), c.words);
  }
  EXPECT_EQ(words_of("Head " + std::string(100'000, 'a') + " b"), "Head #") << "read is the beginning";
  std::string words;
  for (int i = 0; i < 1'000; ++i) words += "word ";
  EXPECT_EQ(words_of(words).size(), 199u);
}

TEST(Cause, has_words_where_there_is_no_message) {
  Death death = death_of("");
  EXPECT_EQ(cause_of(death).text, "rate_limit_exceeded");
  death.message = " 429 \n";
  EXPECT_EQ(cause_of(death).text, "rate_limit_exceeded");
  death.code = {};
  death.fingerprint = "0123456789ab";
  EXPECT_EQ(cause_of(death).text, "unknown answer 0123456789ab");
  death.fingerprint = {};
  EXPECT_EQ(cause_of(death).text, "rate_limited");
}

TEST(Cause, groups_what_died_of_the_same) {
  const Death one = death_of("Limit 3, used 3, request req_1");
  const std::string group = cause_of(one).group;
  EXPECT_EQ(group.size(), 16u);
  EXPECT_EQ(group.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(cause_of(death_of("Limit 4, used 77, request req_2a")).group, group);
  EXPECT_NE(cause_of(death_of("Another limit 3")).group, group);
  Death other = one;
  other.queue = "r";
  EXPECT_NE(cause_of(other).group, group);
  other = one;
  other.cls = Class::Overloaded;
  EXPECT_NE(cause_of(other).group, group);
  other = one;
  other.code = "other";
  EXPECT_NE(cause_of(other).group, group);
  other = one;
  other.model = "other-model";
  EXPECT_NE(cause_of(other).group, group);
}

TEST(Cause, does_not_name_the_model_or_what_is_hidden) {
  Death death = death_of("model: Claude-Does-Not-Exist is unknown to swordfish and Sword and fishy");
  death.model = "claude-does-not-exist";
  const std::vector<std::string> hidden = {"Swordfish", "ab"};
  death.hidden = hidden;
  EXPECT_EQ(cause_of(death).text, "model: # is unknown to # and Sword and fishy");
}

TEST(Cause, shows_nothing_of_a_prompt_that_is_echoed_without_quotes) {
  const std::string prompt = "please tell nobody that my sister hides the gold below the oak";
  Death death = death_of("Invalid prompt: my sister hides the gold below the oak is flagged by policy");
  const std::string body = R"({"messages":[{"content":")" + prompt + R"("}]})";
  death.body = body;
  EXPECT_EQ(cause_of(death).text, "Invalid prompt: # is flagged by policy");
  death.body = R"({"messages":[{"content":"the gold below"}]})";
  EXPECT_EQ(cause_of(death).text, "Invalid prompt: my sister hides the gold below the oak is flagged by policy")
      << "a few words in common are chance";
}

TEST(Cause, takes_no_long_time_for_a_message_made_to_take_one) {
  const std::string message(4'096, 'a');
  const std::string body(4'000'000, 'a');
  std::string mixed;
  while (mixed.size() < 4'096) mixed += "word " + std::to_string(mixed.size()) + " ";
  std::string repeated;
  while (repeated.size() < 4'000'000) repeated += mixed;
  const std::string quotes(4'096, '<');
  const auto began = std::chrono::steady_clock::now();
  for (const auto& [said, sent] :
       {std::pair{&message, &body}, {&mixed, &repeated}, {&mixed, &body}, {&quotes, &body}}) {
    Death death = death_of(*said);
    death.body = *sent;
    EXPECT_FALSE(cause_of(death).text.empty());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds{5}) << "it was hours, or milliseconds";
}

TEST(Cause, gives_an_advice_by_class) {
  struct Case {
    Advice advice;
    std::vector<Class> classes;
  };
  const Case kCases[] = {
      {Advice::Replay,
       {Class::RateLimited,
        Class::Overloaded,
        Class::ServerError,
        Class::Timeout,
        Class::Network,
        Class::MalformedResponse,
        Class::Unknown,
        Class::Crash,
        Class::Internal,
        Class::LocalLimit,
        Class::LocalBudget,
        Class::LocalBreaker,
        Class::LocalMemory,
        Class::LocalDraining}},
      {Advice::FixFirst,
       {Class::Auth,
        Class::QuotaExhausted,
        Class::Permission,
        Class::NotFound,
        Class::Conflict,
        Class::LocalRequest}},
      {Advice::Discard, {Class::InvalidRequest, Class::ContextLength, Class::ContentPolicy, Class::TooLarge}},
  };
  for (const Case& c : kCases) {
    for (const Class cls : c.classes) EXPECT_EQ(advice_for(cls, ""), c.advice) << classifier::name_of(cls);
  }
  EXPECT_EQ(advice_for(Class::InvalidRequest, "OperationNotSupported"), Advice::FixFirst);
  EXPECT_EQ(advice_for(Class::InvalidRequest, "unsupported_value"), Advice::Discard);
  EXPECT_EQ(advice_for(Class::RateLimited, "OperationNotSupported"), Advice::Replay);
}

// Goal: whatever providers say, nothing of somebody's is in the words. Method: every error of the corpus.
TEST(Cause, keeps_ids_keys_and_numbers_of_the_corpus_to_itself) {
  std::ifstream file{PROJECT_ROOT "/tests/fixtures/errors.jsonl"};
  ASSERT_TRUE(file);
  int seen = 0;
  std::set<std::string> all;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("body") || !json["body"].is_string()) continue;
    const std::string message = classifier::said_error(json["body"].get<std::string>()).message;
    const Cause cause = cause_of(death_of(message));
    SCOPED_TRACE(message);
    ++seen;
    all.insert(cause.text);
    EXPECT_FALSE(cause.text.empty());
    EXPECT_LE(cause.text.size(), 200u);
    for (const char c : cause.text) EXPECT_TRUE(c >= ' ' && c < '\x7f') << cause.text;
    if (cause.text == "rate_limit_exceeded") continue;
    EXPECT_EQ(cause.text.find_first_of("0123456789@\"`{}"), std::string::npos) << cause.text;
    for (const char* never : {"org-", "req_", "sk-", "http", "WXYZ", "abcd", "deadbeef"})
      EXPECT_EQ(cause.text.find(never), std::string::npos) << cause.text;
  }
  EXPECT_GT(seen, 100);
  EXPECT_GT(all.size(), 80u) << "words that are told apart by nothing are of no use";
}

}  // namespace cause_test
}  // namespace gateway
