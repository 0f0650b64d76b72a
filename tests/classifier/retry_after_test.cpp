// Goal: every hint is read in its order of trust, rounded up, and nothing that is no wait is taken for one.

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "classifier/retry_after.h"

namespace retry_after_test {

using namespace std::chrono_literals;
using classifier::Headers;
using classifier::WallClock;
using std::chrono::milliseconds;
using Wait = std::optional<milliseconds>;

// 2026-11-10 08:00:00 UTC.
const WallClock kNow = std::chrono::sys_days{std::chrono::year{2026} / 11 / 10} + 8h;
const std::string kDate = "Tue, 10 Nov 2026 08:00:00 GMT";

struct Case {
  std::string_view name;
  Headers headers;
  std::string_view retry_delay;
  std::string_view text;
  Wait want;
};
const Case kCases[] = {
    {"nothing says nothing", {}, "", "", {}},
    {"milliseconds first", {{"Retry-After-Ms", "1357"}, {"retry-after", "2"}}, "9s", "try again in 8s", 1357ms},
    {"part of a millisecond is rounded up", {{"retry-after-ms", "0.2"}}, "", "", 1ms},
    {"seconds", {{"retry-after", " 7 "}}, "", "", 7000ms},
    {"a fraction of a second", {{"retry-after", "1.5"}}, "", "", 1500ms},
    {"0.07 s are 70 ms, not 71", {{"retry-after", "0.07"}}, "", "", 70ms},
    {"rounded up", {{"retry-after", "1.00000000001"}}, "", "", 1001ms},
    {"zero is usable", {{"retry-after", "0"}}, "3s", "", 0ms},
    {"a plus is a number's", {{"retry-after", "+3"}}, "", "", 3000ms},
    {"negative is not usable", {{"retry-after", "-5"}}, "", "", {}},
    {"nor empty", {{"retry-after", ""}}, "", "", {}},
    {"nor NaN, so the next counts", {{"retry-after-ms", "NaN"}, {"retry-after", "4"}}, "", "", 4000ms},
    {"nor infinite", {{"retry-after", "Infinity"}}, "", "", {}},
    {"nor words", {{"retry-after", "soon"}}, "2s", "", 2000ms},
    {"nor what fits no integer", {{"retry-after", "99999999999999999999999"}}, "", "", {}},
    {"nor above ten years", {{"retry-after", "315360001"}}, "", "", {}},
    {"ten years are", {{"retry-after", "315360000"}}, "", "", milliseconds{315'360'000'000}},
    {"a day is a day", {{"retry-after", "86400"}}, "", "", 24h},
    {"a number and more is none", {{"retry-after", "5s"}}, "", "", {}},
    {"hex is none", {{"retry-after", "0x10"}}, "", "", {}},

    {"a date against the answer's own",
     {{"date", kDate}, {"retry-after", "Tue, 10 Nov 2026 08:00:07 GMT"}},
     "",
     "",
     7000ms},
    {"RFC 850", {{"date", kDate}, {"retry-after", "Tuesday, 10-Nov-26 08:01:00 GMT"}}, "", "", 60s},
    {"asctime", {{"date", kDate}, {"retry-after", "Tue Nov 10 08:00:30 2026"}}, "", "", 30s},
    {"asctime with a short day",
     {{"date", "Tue, 03 Nov 2026 08:00:00 GMT"}, {"retry-after", "Tue Nov  3 08:00:30 2026"}},
     "",
     "",
     30s},
    {"a past date is now", {{"date", kDate}, {"retry-after", "Tue, 10 Nov 2026 07:59:30 GMT"}}, "", "", 0ms},
    {"a date without Date, by our clock", {{"retry-after", "Tue, 10 Nov 2026 08:00:05 GMT"}}, "", "", 5s},
    {"Date wins over our clock",
     {{"Date", "Tue, 10 Nov 2026 07:00:00 GMT"}, {"retry-after", "Tue, 10 Nov 2026 07:00:05 GMT"}},
     "",
     "",
     5s},
    {"a date that is none", {{"date", kDate}, {"retry-after", "Tue, 31 Feb 2026 08:00:00 GMT"}}, "", "", {}},
    {"a date in twenty years", {{"date", kDate}, {"retry-after", "Tue, 10 Nov 2046 08:00:00 GMT"}}, "", "", {}},

    {"RetryInfo", {}, "40.025771073s", "retry in 56s", 40'026ms},
    {"RetryInfo that is none", {}, "-3s", "Please retry in 56.185908122s.", 56'186ms},

    {"only a dimension at zero counts",
     {{"x-ratelimit-remaining-requests", "0"},
      {"x-ratelimit-reset-requests", "6m0s"},
      {"x-ratelimit-remaining-tokens", "199998"},
      {"x-ratelimit-reset-tokens", "9h"}},
     "",
     "",
     360s},
    {"none at zero",
     {{"x-ratelimit-remaining-requests", "4999"}, {"x-ratelimit-reset-requests", "12ms"}},
     "",
     "",
     {}},
    {"zero is exactly 0", {{"x-ratelimit-remaining-tokens", "-1"}, {"x-ratelimit-reset-tokens", "1s"}}, "", "", {}},
    {"the latest of two",
     {{"x-ratelimit-remaining-requests", "0"},
      {"x-ratelimit-reset-requests", "120ms"},
      {"x-ratelimit-remaining-tokens", "0"},
      {"x-ratelimit-reset-tokens", "17.399999999s"}},
     "",
     "",
     17'400ms},
    {"Azure's plain seconds",
     {{"x-ratelimit-remaining-tokens", "0"}, {"x-ratelimit-reset-tokens", "45"}},
     "",
     "",
     45s},
    {"Anthropic's instants",
     {{"date", kDate},
      {"anthropic-ratelimit-tokens-remaining", "0"},
      {"anthropic-ratelimit-tokens-reset", "2026-11-10T08:00:30Z"},
      {"anthropic-ratelimit-requests-remaining", "0"},
      {"anthropic-ratelimit-requests-reset", "2026-11-10T08:00:05Z"}},
     "",
     "",
     30s},
    {"with an offset and a fraction",
     {{"date", kDate},
      {"anthropic-ratelimit-output-tokens-remaining", "0"},
      {"anthropic-ratelimit-output-tokens-reset", "2026-11-10T09:00:01.2505+01:00"}},
     "",
     "",
     1251ms},
    {"seconds to a reset", {{"x-ratelimit-remaining", "0"}, {"x-ratelimit-reset", "2"}}, "", "", 2s},
    {"epoch seconds",
     {{"date", kDate}, {"x-ratelimit-remaining", "0"}, {"x-ratelimit-reset", "1794297660"}},
     "",
     "",
     60s},
    {"epoch milliseconds",
     {{"date", kDate}, {"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "1794297660000"}},
     "",
     "",
     60s},
    {"an epoch that is past",
     {{"date", kDate}, {"x-ratelimit-remaining", "0"}, {"x-ratelimit-reset", "1700000000"}},
     "",
     "",
     0ms},
    {"an epoch beyond all",
     {{"date", kDate}, {"x-ratelimit-remaining", "0"}, {"x-ratelimit-reset", "99999999999999999"}},
     "",
     "",
     {}},

    {"text, seconds", {}, "", "please try again in 20s.", 20s},
    {"text, milliseconds", {}, "", "Please try again in 360ms. Visit", 360ms},
    {"text, minutes and seconds", {}, "", "Please try again in 7m12s.", 432s},
    {"text, a long fraction", {}, "", "try again in 9m38.016s.", 578'016ms},
    {"text, words", {}, "", "Please retry after 45 seconds.", 45s},
    {"text, one second", {}, "", "Try again in 1 second", 1s},
    {"text, minutes in words", {}, "", "try again in 5 minutes", 300s},
    {"text without a number", {}, "", "please try again in a few minutes", {}},
    {"text, the first that is one", {}, "", "try again in a moment, or retry in 3s", 3s},
    {"text, another unit", {}, "", "retry in 3 parsecs", {}},
    {"text, no unit", {}, "", "retry after 30.", {}},
    {"text, overflow", {}, "", "retry in 99999999999999999999999999h", {}},
    {"text, not a unit but a word", {}, "", "try again in 5months", {}},
};

TEST(RetryAfter, reads_every_form_in_its_order) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(
        classifier::retry_after({.headers = &c.headers, .retry_delay = c.retry_delay, .text = c.text, .now = kNow}),
        c.want);
  }
}

TEST(RetryAfter, a_date_is_nothing_without_a_clock) {
  const Headers headers = {{"retry-after", "Tue, 10 Nov 2026 08:00:05 GMT"}};
  EXPECT_EQ(classifier::retry_after({.headers = &headers}), std::nullopt);
}

TEST(RetryAfter, two_digit_years_are_at_most_fifty_ahead) {
  EXPECT_EQ(classifier::parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT", kNow),
            std::chrono::sys_days{std::chrono::year{1994} / 11 / 6} + 8h + 49min + 37s);
  EXPECT_EQ(classifier::parse_http_date("Friday, 06-Nov-70 08:49:37 GMT", kNow),
            std::chrono::sys_days{std::chrono::year{2070} / 11 / 6} + 8h + 49min + 37s);
}

TEST(RetryAfter, junk_is_never_negative_and_never_long) {
  constexpr std::string_view kBits[] = {"-",
                                        "+",
                                        "9",
                                        "00",
                                        ".",
                                        "e9",
                                        "s",
                                        "ms",
                                        "h",
                                        "m",
                                        " ",
                                        "NaN",
                                        "inf",
                                        "Tue, ",
                                        "10 Nov 2026 ",
                                        "08:00:00 GMT",
                                        "2026-11-10T08:00:00",
                                        "Z",
                                        "+99:99",
                                        "try again in ",
                                        "retry after ",
                                        "999999999999",
                                        "seconds",
                                        "\xC2\xB5s",
                                        ":"};
  for (unsigned seed = 0; seed < 20'000; ++seed) {
    std::mt19937 chance{seed};
    const auto junk = [&] {
      std::string out;
      for (auto i = chance() % 6; i > 0; --i) out += kBits[chance() % std::size(kBits)];
      return out;
    };
    const Headers headers = {{"date", junk()},
                             {"retry-after-ms", junk()},
                             {"retry-after", junk()},
                             {"x-ratelimit-remaining", "0"},
                             {"x-ratelimit-reset", junk()},
                             {"x-ratelimit-remaining-tokens", "0"},
                             {"x-ratelimit-reset-tokens", junk()},
                             {"anthropic-ratelimit-tokens-remaining", "0"},
                             {"anthropic-ratelimit-tokens-reset", junk()}};
    const std::string delay = junk();
    const std::string text = junk();
    const Wait wait = classifier::retry_after({.headers = &headers, .retry_delay = delay, .text = text, .now = kNow});
    if (!wait) continue;
    ASSERT_GE(*wait, 0ms) << "seed " << seed;
    ASSERT_LE(*wait, 3650 * 24h) << "seed " << seed;
  }
}

TEST(RetryAfter, keeps_of_a_head_what_hints_are_made_of) {
  const Headers head = {{"Content-Type", "text/event-stream"},
                        {"Date", kDate},
                        {"X-RateLimit-Remaining-Tokens", "0"},
                        {"x-ratelimit-reset-tokens", "3s"},
                        {"set-cookie", "x"},
                        {"x-should-retry", "true"}};
  const Headers kept = classifier::hint_headers(head);
  EXPECT_EQ(kept,
            (Headers{{"Date", kDate},
                     {"X-RateLimit-Remaining-Tokens", "0"},
                     {"x-ratelimit-reset-tokens", "3s"},
                     {"x-should-retry", "true"}}));
  EXPECT_EQ(classifier::retry_after({.headers = &kept}), Wait{3s});
}

}  // namespace retry_after_test
