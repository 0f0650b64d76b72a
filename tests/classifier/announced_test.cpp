// Goal: what a head says of a provider's limits is read in every habit of saying it, and what cannot be true says
// nothing. Method: tables of heads as they were seen, and seeded junk.

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/announced.h"

namespace announced_test {

using namespace std::chrono_literals;
using classifier::AnnouncedLimit;
using classifier::Headers;
using classifier::WallClock;

// 2026-11-10 08:00:00 UTC.
const WallClock kNow = std::chrono::sys_days{std::chrono::year{2026} / 11 / 10} + 8h;

template <class Value>
std::string shown(const std::optional<Value>& value) {
  if (!value) return "-";
  if constexpr (requires { value->count(); }) {
    return std::to_string(value->count());
  } else {
    return std::to_string(*value);
  }
}

/// "tokens 50/1000 6000ms w60s; …": unit, remaining of limit, reset, window.
std::string told(const Headers& headers, WallClock now = kNow) {
  constexpr std::string_view kUnits[] = {"requests", "tokens", "input", "output"};
  std::string out;
  for (const AnnouncedLimit& limit : classifier::read_announced(headers, now)) {
    if (!out.empty()) out += "; ";
    out += std::string{kUnits[static_cast<std::size_t>(limit.unit)]} + " " + shown(limit.remaining) + "/" +
           shown(limit.limit) + " " + shown(limit.resets_in);
    if (limit.window) out += " w" + shown(limit.window);
  }
  return out;
}

TEST(Announced, is_read_in_every_habit_of_saying_it) {
  const struct {
    std::string_view name;
    Headers headers;
    std::string_view want;
  } kCases[] = {
      {"nothing", {}, ""},
      {"nothing of that kind", {{"date", "x"}, {"x-request-id", "1"}, {"retry-after", "3"}, {"", ""}}, ""},
      {"OpenAI",
       {{"x-ratelimit-limit-requests", "10000"},
        {"x-ratelimit-limit-tokens", "30000000"},
        {"x-ratelimit-remaining-requests", "9999"},
        {"x-ratelimit-remaining-tokens", "29999728"},
        {"x-ratelimit-reset-requests", "6ms"},
        {"x-ratelimit-reset-tokens", "6m0s"},
        {"x-ratelimit-limit-input-images", "250000"}},
       "requests 9999/10000 6; tokens 29999728/30000000 360000"},
      {"Groq",
       {{"X-RateLimit-Limit-Requests", "14400"},
        {"X-RateLimit-Remaining-Requests", "14370"},
        {"X-RateLimit-Reset-Requests", "2m59.56s"},
        {"x-ratelimit-reset-tokens", "7.66s"}},
       "requests 14370/14400 179560; tokens -/- 7660"},
      {"Azure",
       {{"x-ratelimit-limit-requests", "40"},
        {"x-ratelimit-remaining-requests", "39"},
        {"x-ratelimit-renewalperiod-requests", "60"},
        {"x-ratelimit-reset-requests", "24"}},
       "requests 39/40 24000 w60"},
      {"Azure knows nothing",
       {{"x-ratelimit-limit-requests", "0"},
        {"x-ratelimit-remaining-requests", "-1"},
        {"x-ratelimit-reset-requests", "0"},
        {"x-ratelimit-remaining-tokens", "-1"}},
       ""},
      {"Anthropic",
       {{"anthropic-ratelimit-requests-limit", "4000"},
        {"anthropic-ratelimit-requests-remaining", "3999"},
        {"anthropic-ratelimit-requests-reset", "2026-11-10T08:00:01Z"},
        {"anthropic-ratelimit-tokens-limit", "480000"},
        {"anthropic-ratelimit-tokens-remaining", "0"},
        {"anthropic-ratelimit-tokens-reset", "2026-11-10T09:00:02+01:00"},
        {"anthropic-ratelimit-input-tokens-limit", "400000"},
        {"anthropic-ratelimit-output-tokens-remaining", "80000"},
        {"anthropic-ratelimit-unified-reset", "1794300000"},
        {"anthropic-ratelimit-unified-5h-remaining", "3"}},
       "requests 3999/4000 1000; tokens 0/480000 2000; input -/400000 -; output 80000/- -"},
      {"Mistral, one for each window",
       {{"x-ratelimit-limit-req-10-second", "2"},
        {"x-ratelimit-remaining-req-10-second", "0"},
        {"x-ratelimit-limit-tokens-minute", "5000000"},
        {"x-ratelimit-remaining-tokens-minute", "4999911"},
        {"x-ratelimit-limit-tokens-month", "1000000000000"},
        {"x-ratelimit-remaining-tokens-month", "999999999911"},
        {"x-ratelimit-tokens-query-cost", "89"}},
       "requests 0/2 - w10; tokens 4999911/5000000 - w60; tokens 999999999911/1000000000000 - w2592000"},
      {"Mistral of old",
       {{"ratelimitbysize-limit", "500000"},
        {"ratelimitbysize-remaining", "499900"},
        {"ratelimitbysize-reset", "28"},
        {"ratelimitbysize-query-cost", "32000"}},
       "tokens 499900/500000 28000"},
      {"OpenRouter, in milliseconds since 1970",
       {{"X-RateLimit-Limit", "50"}, {"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "1794297605000"}},
       "requests 0/50 5000"},
      {"Together",
       {{"x-ratelimit-limit", "10"},
        {"x-ratelimit-remaining", "9"},
        {"x-ratelimit-reset", "1"},
        {"x-tokenlimit-limit", "3000"},
        {"x-tokenlimit-remaining", "2999"},
        {"x-tokenlimit-limit-dynamic", "7"}},
       "requests 9/10 1000; tokens 2999/3000 -"},
      {"Fireworks",
       {{"x-ratelimit-limit-tokens-prompt", "11250000"},
        {"x-ratelimit-limit-tokens-cache-adjusted-prompt", "5400000"},
        {"x-ratelimit-limit-tokens-generated", "36000"},
        {"x-ratelimit-over-limit", "no"}},
       "input -/11250000 -; output -/36000 -"},
      {"IETF, policies behind the state",
       {{"RateLimit", R"("burst";r=50;t=30, "day";r=7;t=3600;pk=:cHJ:, "bytes";r=1)"},
        {"RateLimit-Policy", R"("burst";q=100;w=60,"day";q=1000;w=86400;qu="tokens")"},
        {"RateLimit-Policy", R"("bytes";q=65535;qu="content-bytes")"}},
       "requests 50/100 30000 w60; tokens 7/1000 3600000 w86400"},
      {"IETF of old",
       {{"RateLimit-Limit", "100"}, {"RateLimit-Remaining", "3"}, {"RateLimit-Reset", "50"}},
       "requests 3/100 50000"},
      {"two habits are two limits",
       {{"x-ratelimit-limit-requests", "100"}, {"ratelimit-remaining", "3"}},
       "requests -/100 -; requests 3/- -"},
  };
  for (const auto& c : kCases) EXPECT_EQ(told(c.headers), c.want) << c.name;
}

TEST(Announced, what_cannot_be_true_says_nothing) {
  for (const std::string_view odd : {"",
                                     " ",
                                     "-1",
                                     "-0",
                                     "soon",
                                     "12a",
                                     "1,000",
                                     "0x10",
                                     "1e9",
                                     "NaN",
                                     "Infinity",
                                     "9223372036854775808",
                                     "99999999999999999999999999"}) {
    const std::string value{odd};
    EXPECT_EQ(told({{"x-ratelimit-limit-requests", value},
                    {"x-ratelimit-remaining-requests", value},
                    {"x-ratelimit-reset-requests", value}}),
              "")
        << odd;
    EXPECT_EQ(told({{"RateLimit", "\"a\";r=" + value + ";t=" + value}, {"RateLimit-Policy", "\"a\";q=" + value}}), "")
        << odd;
  }
  for (const std::string_view past :
       {"2026-11-10T07:59:59Z", "2026-02-30T08:00:00Z", "2046-11-10T08:00:00Z", "1794297599000", "1794297599"}) {
    EXPECT_EQ(told({{"anthropic-ratelimit-tokens-reset", std::string{past}}}), "") << past;
  }
  // An unusable value leaves the others, and a second header their place.
  EXPECT_EQ(told({{"x-ratelimit-limit-tokens", "7"},
                  {"x-ratelimit-remaining-tokens", "-1"},
                  {"x-ratelimit-remaining-tokens", "3"},
                  {"x-ratelimit-remaining-tokens", "2"}}),
            "tokens 3/7 -");
  for (const std::string_view list :
       {"\"a", "\"a\";r", "\"a\" r=5", ";r=5", "=", ",", "\"a\\", "a;r=:5", "limit=100, remaining=50"}) {
    EXPECT_EQ(told({{"RateLimit", std::string{list}}}), "") << list;
  }
}

TEST(Announced, dates_are_measured_by_the_answers_own_clock) {
  const Headers headers = {{"anthropic-ratelimit-tokens-reset", "2026-11-10T08:00:09Z"},
                           {"Date", "Tue, 10 Nov 2026 08:00:04 GMT"}};
  EXPECT_EQ(told(headers, kNow - 3h), "tokens -/- 5000");
}

TEST(Announced, is_bounded_and_survives_anything) {
  Headers many;
  for (int i = 1; i <= 40; ++i) many.push_back({"x-ratelimit-limit-req-" + std::to_string(i) + "-second", "5"});
  EXPECT_EQ(classifier::read_announced(many, kNow).size(), classifier::kAnnouncedMax);

  constexpr std::string_view kNames[] = {"x-ratelimit-limit-requests",
                                         "x-ratelimit-remaining-tokens",
                                         "X-RateLimit-Reset-Tokens",
                                         "x-ratelimit-reset-req-10-second",
                                         "x-ratelimit-renewalperiod-tokens",
                                         "anthropic-ratelimit-input-tokens-reset",
                                         "ratelimitbysize-remaining",
                                         "ratelimit",
                                         "ratelimit-policy",
                                         "date"};
  constexpr std::string_view kValues[] = {"0",          "1",   "9",   "-",   ".", "s", "m", "\"a\"",
                                          ";r=",        ";q=", ";w=", ",",   ":", "T", "Z", "2026-11-10T08:00:01Z",
                                          "1794297605", "\\",  " ",   "\xff"};
  std::size_t heard = 0;
  for (unsigned seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 chance{seed};
    Headers headers;
    for (auto i = chance() % 6; i > 0; --i) {
      std::string value;
      std::string name{kNames[chance() % std::size(kNames)]};
      if (chance() % 4 == 0) name.erase(chance() % name.size(), chance() % 5);
      for (auto j = chance() % 6; j > 0; --j) value += kValues[chance() % std::size(kValues)];
      headers.push_back({name, value});
    }
    for (const AnnouncedLimit& limit : classifier::read_announced(headers, kNow)) {
      ++heard;
      ASSERT_TRUE(limit.limit || limit.remaining || limit.resets_in);
      ASSERT_GE(limit.limit.value_or(1), 1);
      ASSERT_GE(limit.remaining.value_or(0), 0);
      ASSERT_GE(limit.resets_in.value_or(0ms), 0ms);
      ASSERT_LE(limit.resets_in.value_or(0ms), 24h * 3650);
    }
  }
  EXPECT_GT(heard, 500U);
}

}  // namespace announced_test
