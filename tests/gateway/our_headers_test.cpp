#include "gateway/our_headers.h"

#include <gtest/gtest.h>

namespace gateway {
namespace our_headers_test {

using namespace std::chrono_literals;
using classifier::Headers;

const WallTime kNow = std::chrono::sys_days{std::chrono::year{2026} / 11 / 29} + 18h;

TEST(OurHeaders, are_read_and_taken_out_and_all_others_stay) {
  Headers headers = {{"Authorization", "Bearer k"},
                     {"callgate-lane", "interactive"},
                     {"X-Other", ""},
                     {"Callgate-Run-Id", "job-42"},
                     {"CALLGATE-DEADLINE", "90s"},
                     {"Callgate-Labels", "team=search,prompt=v7"}};
  const auto ours = take_our_headers(headers, kNow);
  ASSERT_TRUE(ours.has_value()) << ours.error().message;
  EXPECT_EQ(ours->lane, budget::Lane::Interactive);
  EXPECT_EQ(ours->run_id, "job-42");
  EXPECT_EQ(ours->deadline, 90s);
  EXPECT_EQ(ours->labels, R"({"team":"search","prompt":"v7"})");
  EXPECT_EQ(headers, (Headers{{"Authorization", "Bearer k"}, {"X-Other", ""}}));
}

TEST(OurHeaders, a_key_a_queue_and_labels_are_taken_as_they_stand) {
  Headers headers = {{"idempotency-key", "job 42: step \"one\""},
                     {"Callgate-Queue", "nightly.imports"},
                     {"Callgate-Labels", "a=1 , b.c-d = \"x\\y\""}};
  const auto ours = take_our_headers(headers, kNow);
  ASSERT_TRUE(ours.has_value()) << ours.error().message;
  EXPECT_EQ(ours->idempotency_key, "job 42: step \"one\"");
  EXPECT_EQ(ours->queue, "nightly.imports");
  EXPECT_EQ(ours->labels, R"({"a":"1","b.c-d":"\"x\\y\""})");
  EXPECT_EQ(headers, (Headers{{"idempotency-key", "job 42: step \"one\""}})) << "it goes on to the provider";
}

TEST(OurHeaders, a_deadline_may_be_a_span_or_a_time) {
  const std::pair<const char*, std::chrono::milliseconds> good[] = {{"250ms", 250ms},
                                                                    {"90s", 90s},
                                                                    {"1.5m", 90s},
                                                                    {"2h", 2h},
                                                                    {"0s", 0ms},
                                                                    {"2026-11-29T18:01:00Z", 1min},
                                                                    {"2026-11-29T18:00:00.25Z", 250ms},
                                                                    {"2026-11-29T19:00:30+01:00", 30s},
                                                                    {"2026-11-29T17:59:00z", -1min},
                                                                    {"9999h", 24h * 7}};
  for (const auto& [text, span] : good) {
    SCOPED_TRACE(text);
    Headers headers = {{"Callgate-Deadline", text}};
    const auto ours = take_our_headers(headers, kNow);
    ASSERT_TRUE(ours.has_value());
    EXPECT_EQ(ours->deadline, span);
  }
  for (const char* text : {"",
                           "soon",
                           "90",
                           "90 s",
                           "-5s",
                           "nan",
                           "1e3s",
                           "2026-11-29",
                           "2026-13-29T18:00:00Z",
                           "2026-11-29T18:00:00",
                           "2026-11-29T18:00:00+1",
                           "5days",
                           "9999-12-31T23:00:00Z",
                           "2026- 1-02T-0:+5: 7"}) {
    SCOPED_TRACE(text);
    Headers headers = {{"Callgate-Deadline", text}};
    const auto ours = take_our_headers(headers, kNow);
    ASSERT_FALSE(ours.has_value());
    EXPECT_NE(ours.error().message.find("Callgate-Deadline"), std::string::npos);
  }
}

TEST(OurHeaders, that_contradict_themselves_are_refused) {
  Headers headers = {{"Callgate-Lane", "bulk"}, {"callgate-lane", "interactive"}};
  const auto ours = take_our_headers(headers, kNow);
  ASSERT_FALSE(ours.has_value());
  EXPECT_NE(ours.error().message.find("given twice"), std::string::npos);
}

TEST(OurHeaders, prefer_asks_for_a_run_and_is_not_an_error_whatever_it_says) {
  const struct {
    const char* value;
    std::optional<std::chrono::milliseconds> wait;
  } kPreferences[] = {{"respond-async", 0ms},
                      {"respond-async, wait=20", 20s},
                      {"wait=20", std::nullopt},
                      {"return=minimal", std::nullopt},
                      {"respond-async, wait=soon", 0ms}};
  for (const auto& one : kPreferences) {
    SCOPED_TRACE(one.value);
    Headers headers = {{"Prefer", one.value}};
    const auto ours = take_our_headers(headers, kNow);
    ASSERT_TRUE(ours.has_value());
    EXPECT_EQ(ours->respond_async, one.wait);
  }
}

TEST(OurHeaders, that_cannot_be_read_are_named_with_their_mend) {
  const std::pair<classifier::Header, const char*> bad[] = {
      {{"Callgate-Lane", "fast"}, "interactive, bulk or backfill"},
      {{"Callgate-Lan", "bulk"}, "unknown header"},
      {{"Callgate-Run-Id", "two words"}, "Callgate-Run-Id"},
      {{"Callgate-Run-Id", std::string(129, 'x')}, "128"},
      {{"Callgate-Labels", "team"}, "team=search"},
      {{"Callgate-Labels", "a=1,b=2,c=3,d=4,e=5,f=6,g=7,h=8,i=9"}, "at most 8"},
      {{"Callgate-Fresh", "yes"}, "true or false"},
      {{"Callgate-Labels", ""}, "no pair"},
      {{"Callgate-Labels", "a=1,"}, "no pair"},
      {{"Callgate-Labels", "=1"}, "no name"},
      {{"Callgate-Labels", "a b=1"}, "no name"},
      {{"Callgate-Labels", "a="}, "visible"},
      {{"Callgate-Labels", "a=" + std::string(65, 'x')}, "64"},
      {{"Callgate-Labels", "a=1,b=2,a=3"}, "\"a\" is given twice"},
      {{"Callgate-Queue", "two words"}, "Callgate-Queue"},
      {{"Callgate-Queue", ""}, "Callgate-Queue"},
      {{"Idempotency-Key", ""}, "Idempotency-Key"},
      {{"Idempotency-Key", std::string(256, 'k')}, "255"},
      {{"Idempotency-Key", "caf\xc3\xa9"}, "printable"},
  };
  for (const auto& [header, part] : bad) {
    SCOPED_TRACE(header.name + ": " + header.value);
    Headers headers = {header};
    const auto ours = take_our_headers(headers, kNow);
    ASSERT_FALSE(ours.has_value());
    EXPECT_NE(ours.error().message.find(part), std::string::npos) << ours.error().message;
  }
}

}  // namespace our_headers_test
}  // namespace gateway
