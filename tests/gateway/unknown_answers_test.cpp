// Goal: what is kept of unknown answers is bounded in number and size, the newest stays, and nothing of a caller is
// in it.

#include "gateway/unknown_answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace gateway {
namespace unknown_answers_test {

using namespace std::chrono_literals;
using classifier::Class;

const WallTime kBegin{1'700'000'000s};

classifier::Fingerprint odd(const std::string& code, const std::string& message = "odd") {
  const classifier::Headers none;
  return classifier::fingerprint_of(
      "openai", 418, &none, R"({"error":{"code":")" + code + R"(","message":")" + message + "\"}}");
}

void note(UnknownAnswers& unknown, const classifier::Fingerprint& fingerprint, WallTime now,
          const std::string& upstream = "openai", const std::string& call = "call-1") {
  const classifier::Verdict verdict{.cls = Class::Unknown, .rule = "unknown 4xx", .unexplained = true};
  unknown.note({.upstream = upstream,
                .dialect = "openai",
                .status = 418,
                .call_id = call,
                .fingerprint = fingerprint,
                .verdict = verdict},
               now);
}

/// A word of letters for each number.
std::string word(int number) {
  std::string out = "odd";
  for (int left = number + 1; left > 0; left /= 10) out += static_cast<char>('a' + left % 10);
  return out;
}

TEST(UnknownAnswers, count_by_fingerprint_and_upstream_and_remember_the_last_call) {
  UnknownAnswers unknown;
  EXPECT_TRUE(unknown.list().answers.empty());
  note(unknown, odd("odd_thing", "failed after 3 ms"), kBegin, "openai", "call-1");
  note(unknown, odd("other_thing"), kBegin + 1s);
  note(unknown, odd("odd_thing", "failed after 99 ms"), kBegin + 2s, "openai", "call-3");
  note(unknown, odd("odd_thing", "failed after 1 ms"), kBegin + 3s, "lab");
  const auto& answers = unknown.list().answers;
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].upstream, "lab") << "last seen first";
  EXPECT_EQ(answers[1].count, 2U);
  EXPECT_EQ(answers[1].words, "oddthing");
  EXPECT_EQ(answers[1].text, "failed after # ms");
  EXPECT_EQ(answers[1].first_seen, kBegin);
  EXPECT_EQ(answers[1].last_seen, kBegin + 2s);
  EXPECT_EQ(answers[1].last_call_id, "call-3");
  EXPECT_EQ(answers[1].cls, Class::Unknown);
  EXPECT_TRUE(answers[1].case_line.contains("\"unknown-" + answers[1].fingerprint + "\"")) << answers[1].case_line;
  EXPECT_EQ(answers[2].words, "otherthing");
  EXPECT_EQ(unknown.list().dropped, 0U);
}

TEST(UnknownAnswers, are_bounded_and_what_was_not_seen_for_longest_goes) {
  UnknownAnswers unknown;
  const int most = static_cast<int>(UnknownAnswers::kMost);
  for (int i = 0; i < most; ++i) note(unknown, odd(word(i)), kBegin + std::chrono::seconds{i});
  note(unknown, odd(word(0)), kBegin + 1h);
  for (int i = most; i < most + 3; ++i) note(unknown, odd(word(i)), kBegin + 2h);
  const UnknownAnswers::List& list = unknown.list();
  EXPECT_EQ(list.answers.size(), UnknownAnswers::kMost);
  EXPECT_EQ(list.dropped, 3U);
  const auto has = [&](int i) {
    return std::ranges::any_of(list.answers, [&](const UnknownAnswer& one) { return one.words == word(i); });
  };
  EXPECT_TRUE(has(0)) << "seen again";
  EXPECT_FALSE(has(1));
  EXPECT_FALSE(has(3));
  EXPECT_TRUE(has(4));
  EXPECT_TRUE(has(most + 2));
}

TEST(UnknownAnswers, are_small_whatever_the_answer_was) {
  UnknownAnswers unknown;
  std::string noise;
  for (int i = 0; i < 5'000; ++i) noise += word(i) + "\\u0007 ";
  note(unknown, odd(std::string(5'000, 'x'), noise), kBegin, "openai", std::string(1'000, 'i'));
  const UnknownAnswer& one = unknown.list().answers.at(0);
  EXPECT_LE(one.case_line.size() + one.text.size() + one.words.size() + one.last_call_id.size(), 6'000U);
}

TEST(CallersSecrets, are_what_its_headers_and_its_query_say) {
  const auto has = [](const std::vector<std::string>& all, const char* one) {
    return std::ranges::find(all, one) != all.end();
  };
  const auto secrets = callers_secrets({{"Authorization", "Bearer topsecretkey"},
                                        {"X-Customer", "Acme; tier=gold"},
                                        {"User-Agent", "OpenAI/Python 2.0"},
                                        {"X-Stainless-Lang", "python"},
                                        {"Content-Type", "application/json"}},
                                       "/v1/x?key=querykey&alt=sse");
  for (const char* secret : {"topsecretkey", "Acme", "gold", "querykey"}) EXPECT_TRUE(has(secrets, secret)) << secret;
  for (const char* plain : {"Bearer", "python", "OpenAI/Python", "application/json"})
    EXPECT_FALSE(has(secrets, plain)) << plain;
}

}  // namespace unknown_answers_test
}  // namespace gateway
