// Goal: an operator's rule is tried before all others, fits what it says and nothing else, and is told by its name.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/dialect.h"
#include "classifier/rules.h"
#include "tests/classifier/help.h"

namespace extra_rules_test {

using classifier::Class;
using classifier::ExtraRule;
using classifier::Headers;
using classifier::Verdict;

ExtraRule rule(int status, std::string_view code, std::string_view text, Class cls,
               std::optional<bool> retryable = {}) {
  ExtraRule made = classifier::rule_for_code(code).value_or(ExtraRule{});
  made.status = status;
  made.text = text;
  made.cls = cls;
  made.retryable = retryable;
  made.name = "here";
  return made;
}

Verdict judge(const std::vector<ExtraRule>& rules, int status, std::string_view body, const Headers& headers = {}) {
  const classifier::Dialect& openai = *classifier::find_dialect("openai");
  return openai.judge(openai.endpoint("POST", "/v1/chat/completions"),
                      {.status = status, .headers = &headers, .body = body, .rules = rules});
}

TEST(ExtraRules, speak_first_and_are_named) {
  const std::vector<ExtraRule> rules{rule(520, "", "", Class::Overloaded)};
  const Verdict verdict = judge(rules, 520, "x");
  EXPECT_EQ(classifier_tests::spelled(verdict), "overloaded retryable");
  EXPECT_EQ(verdict.rule, "here");
  EXPECT_FALSE(verdict.unexplained);
  EXPECT_EQ(classifier_tests::spelled(judge(rules, 521, "x")), "server_error retryable");
  EXPECT_EQ(classifier_tests::spelled(judge({rule(429, "insufficient_quota", "", Class::RateLimited)},
                                            429,
                                            R"({"error":{"code":"insufficient_quota"}})")),
            "rate_limited retryable")
      << "before the dialect's own and the common ones";
}

TEST(ExtraRules, fit_when_all_that_they_give_fits) {
  const std::vector<ExtraRule> rules{rule(400, "warm*", "model*warming up", Class::Overloaded)};
  EXPECT_EQ(classifier_tests::spelled(
                judge(rules, 400, R"({"error":{"code":"WARMING_UP","message":"The model x is warming up."}})")),
            "overloaded retryable");
  for (const auto& [status, body] : {std::pair{409, R"({"error":{"code":"warming","message":"model warming up"}})"},
                                     std::pair{400, R"({"error":{"code":"cold","message":"model warming up"}})"},
                                     std::pair{400, R"({"error":{"code":"warming","message":"not yet"}})"}}) {
    EXPECT_NE(judge(rules, status, body).rule, "here") << status << body;
  }
}

TEST(ExtraRules, look_at_either_status_of_an_answer_that_has_two) {
  const std::vector<ExtraRule> inner{rule(520, "", "", Class::Overloaded)};
  EXPECT_EQ(judge(inner, 200, R"({"error":{"code":520,"message":"x"}})").rule, "here");
  const std::vector<ExtraRule> outer{rule(500, "", "", Class::Overloaded)};
  EXPECT_EQ(judge(outer, 500, R"({"error":{"code":404,"message":"x"}})").rule, "here");
}

TEST(ExtraRules, have_the_last_word_on_retryable) {
  const Headers no{{"x-should-retry", "false"}, {"retry-after", "3"}};
  EXPECT_EQ(classifier_tests::spelled(judge({rule(402, "", "", Class::QuotaExhausted, true)}, 402, "", no)),
            "quota_exhausted retryable 3000 ms");
  EXPECT_EQ(classifier_tests::spelled(
                judge({rule(503, "", "", Class::Overloaded, false)}, 503, "", {{"x-should-retry", "true"}})),
            "overloaded final");
  EXPECT_EQ(classifier_tests::spelled(judge({rule(503, "", "", Class::Overloaded)}, 503, "", no)), "overloaded final")
      << "without a word of the rule the provider's counts";
}

TEST(ExtraRules, judge_errors_inside_streams) {
  const std::vector<ExtraRule> rules{rule(0, "weird", "", Class::Overloaded)};
  const classifier::Dialect& openai = *classifier::find_dialect("openai");
  const Headers head{{"Content-Type", "text/event-stream"}};
  const auto reader =
      openai.stream_reader(openai.endpoint("POST", "/v1/chat/completions"), {.stream = true}, head, false, rules);
  reader->feed("data: {\"error\":{\"code\":\"weird\",\"message\":\"x\"}}\n\n");
  ASSERT_TRUE(reader->error());
  EXPECT_EQ(reader->error()->rule, "here");
  EXPECT_EQ(reader->error_status(), 503);
}

TEST(ExtraRules, take_stars_at_either_end_of_a_code) {
  const auto fits = [](std::string_view code, std::string_view word) {
    return judge({rule(0, code, "", Class::Conflict)}, 418, R"({"error":{"code":")" + std::string{word} + "\"}}")
               .rule == "here";
  };
  EXPECT_TRUE(fits("rate_limited", "RateLimitedError"));
  EXPECT_FALSE(fits("rate_limited", "rate_limited_by_us"));
  EXPECT_TRUE(fits("rate_*", "rate_limited_by_us"));
  EXPECT_TRUE(fits("*by_us", "rate_limited_by_us"));
  EXPECT_TRUE(fits("*limited*", "rate_limited_by_us"));
  EXPECT_FALSE(classifier::rule_for_code("*"));
  EXPECT_FALSE(classifier::rule_for_code("--"));
  EXPECT_FALSE(classifier::rule_for_code(""));
}

TEST(ExtraRules, cover_those_that_can_then_never_fit) {
  const auto covered = [](const ExtraRule& earlier, const ExtraRule& later) { return covers(earlier, later); };
  const auto any = Class::Unknown;
  EXPECT_TRUE(covered(rule(520, "", "", any), rule(520, "x", "y", any)));
  EXPECT_FALSE(covered(rule(520, "", "", any), rule(0, "x", "", any)));
  EXPECT_FALSE(covered(rule(520, "", "", any), rule(521, "", "", any)));
  EXPECT_TRUE(covered(rule(0, "rate_*", "", any), rule(429, "rate_limited", "", any)));
  EXPECT_TRUE(covered(rule(0, "rate_*", "", any), rule(0, "rate_limit*", "", any)));
  EXPECT_FALSE(covered(rule(0, "rate_limit*", "", any), rule(0, "rate*", "", any)));
  EXPECT_FALSE(covered(rule(0, "rate*", "", any), rule(0, "*rate", "", any)));
  EXPECT_TRUE(covered(rule(0, "", "warm", any), rule(0, "", "is warming up", any)));
  EXPECT_FALSE(covered(rule(0, "", "is warming up", any), rule(0, "", "warm", any)));
}

TEST(Unexplained, is_what_no_rule_knew_the_words_of) {
  EXPECT_TRUE(judge({}, 400, R"({"error":{"code":"never_heard_of","message":"x"}})").unexplained);
  EXPECT_TRUE(judge({}, 418, "").unexplained) << "a status of no class";
  EXPECT_TRUE(judge({}, 200, "{}").unexplained) << "malformed";
  EXPECT_FALSE(judge({}, 503, "").unexplained) << "the status says it all";
  EXPECT_FALSE(judge({}, 429, R"({"error":{"code":"insufficient_quota"}})").unexplained);
}

}  // namespace extra_rules_test
