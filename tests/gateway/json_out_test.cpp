#include "gateway/json_out.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace json_out_test {

using namespace std::chrono_literals;

std::string json(std::string_view text, std::size_t max_bytes = 1000) {
  std::string out;
  gateway::append_json(out, text, max_bytes);
  return out;
}

TEST(JsonOut, escapes_what_could_forge_a_line) {
  struct Case {
    const char* name;
    std::string text;
    std::string want;
  };
  const Case cases[] = {
      {"plain", "gpt-5 (preview)", "\"gpt-5 (preview)\""},
      {"nothing", "", R"("")"},
      {"quote and backslash", R"(a"b\c)", R"("a\"b\\c")"},
      {"line ends", "a\r\nb", R"("a\u000d\u000ab")"},
      {"a zero", std::string{"a\0b", 3}, R"("a\u0000b")"},
      {"escape and delete", "\x1b[31m\x7f", R"("\u001b[31m\u007f")"},
      {"C1 control sequence introducer", "\xc2\x9b", R"("\u009b")"},
      {"next line", "\xc2\x85", R"("\u0085")"},
      {"line separator", "\xe2\x80\xa8", R"("\u2028")"},
      {"right-to-left override", "\xe2\x80\xae", R"("\u202e")"},
      {"letters of the world stay", "Größe 東京 😀", R"("Größe 東京 😀")"},
      {"a lone byte",
       "a\xff"
       "b",
       R"("a\ufffdb")"},
      {"a lone continuation", "\x80", R"("\ufffd")"},
      {"cut short", "\xe2\x82", R"("\ufffd\ufffd")"},
      {"an overlong slash", "\xc0\xaf", R"("\ufffd\ufffd")"},
      {"an overlong euro", "\xf0\x82\x82\xac", R"("\ufffd\ufffd\ufffd\ufffd")"},
      {"a surrogate", "\xed\xa0\x80", R"("\ufffd\ufffd\ufffd")"},
      {"above the last", "\xf4\x90\x80\x80", R"("\ufffd\ufffd\ufffd\ufffd")"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(json(c.text), c.want);
  }
}

TEST(JsonOut, keeps_the_beginning_of_what_is_too_long_and_says_so) {
  EXPECT_EQ(json("abcdef", 6), R"("abcdef")");
  EXPECT_EQ(json("abcdef", 5), R"("abcde…")");
  EXPECT_EQ(json("abcdé", 5), R"("abcd…")");
  EXPECT_EQ(json("abc\n\n\n", 4), R"("abc\u000a…")");
  EXPECT_EQ(json("abc", 0), R"("…")");
}

// Any bytes at all: one line of strict JSON in UTF-8 without a control character, and readable text comes back whole.
TEST(JsonOut, whatever_the_bytes_the_result_parses) {
  std::mt19937 chance{7};
  for (int i = 0; i < 20'000; ++i) {
    std::string text(chance() % 40, '\0');
    for (char& c : text) c = static_cast<char>(chance() % 4 == 0 ? chance() % 256 : 0x20 + chance() % 0x5f);
    const std::string out = json(text, 20 + chance() % 30);
    SCOPED_TRACE(out);
    EXPECT_TRUE(nlohmann::json::accept(out));
    EXPECT_TRUE(std::ranges::none_of(out, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
  }
  const std::string readable = "\"\\\n\t\x01 Größe 東京 😀";
  EXPECT_EQ(nlohmann::json::parse(json(readable)).get<std::string>(), readable);
}

TEST(JsonOut, for_people_one_plain_word_stands_bare) {
  const auto word = [](std::string_view text) {
    std::string out;
    gateway::append_word(out, text, 10);
    return out;
  };
  EXPECT_EQ(word("openai"), "openai");
  EXPECT_EQ(word("two words"), R"("two words")");
  EXPECT_EQ(word("a=b"), R"("a=b")");
  EXPECT_EQ(word("a]"), R"("a]")");
  EXPECT_EQ(word(""), R"("")");
  EXPECT_EQ(word("a\nb"), R"("a\u000ab")");
  EXPECT_EQ(word("12345678901"), R"("1234567890…")");
}

TEST(JsonOut, milliseconds_are_exact_and_never_negative) {
  const auto ms = [](std::chrono::microseconds time) {
    std::string out;
    gateway::append_ms(out, time);
    return out;
  };
  EXPECT_EQ(ms(0us), "0");
  EXPECT_EQ(ms(9120ms), "9120");
  EXPECT_EQ(ms(412us), "0.412");
  EXPECT_EQ(ms(1'000'045us), "1000.045");
  EXPECT_EQ(ms(7us), "0.007");
  EXPECT_EQ(ms(-5ms), "0");
}

TEST(JsonOut, time_is_utc_with_microseconds) {
  const auto time = [](std::chrono::system_clock::time_point when) {
    std::string out;
    gateway::append_time(out, when);
    return out;
  };
  const std::chrono::sys_days day{std::chrono::year{2026} / 11 / 29};
  EXPECT_EQ(time(day + 16h + 40min + 1s + 123'456us), "2026-11-29T16:40:01.123456Z");
  EXPECT_EQ(time(day + 5us), "2026-11-29T00:00:00.000005Z");
  EXPECT_EQ(time(std::chrono::sys_days{std::chrono::year{2028} / 2 / 29} + 24h - 1us), "2028-02-29T23:59:59.999999Z");
  EXPECT_EQ(time(std::chrono::system_clock::time_point{} - 1us), "1969-12-31T23:59:59.999999Z");
}

}  // namespace json_out_test
