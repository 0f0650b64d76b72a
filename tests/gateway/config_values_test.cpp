#include "gateway/config_values.h"

#include <gtest/gtest.h>

namespace config_values_test {

using namespace gateway;

TEST(ConfigValues, tell_addresses_from_other_texts) {
  struct Row {
    std::string_view text;
    bool good;
    bool loopback;
  };
  const Row kRows[] = {
      {"127.0.0.1:4600", true, true},
      {"127.8.9.1:0", true, true},
      {"localhost:1", true, true},
      {"[::1]:4600", true, true},
      {"unix:/run/x.sock", true, true},
      {"0.0.0.0:4600", true, false},
      {"[::]:4600", true, false},
      {"10.1.2.3:65535", true, false},
      {"::1:4600", false, false},
      {"127.0.0.1", false, false},
      {"127.0.0.1:65536", false, false},
      {"127.0.0.1:", false, false},
      {"[127.0.0.1]:1", false, false},
      {"example.com:80", false, false},
      {"unix:x.sock", false, false},
      {":4600", false, false},
      {"", false, false},
      {"[::1]", false, false},
      {"127.0.0.1:-1", false, false},
      {"127.1:4600", false, false},
  };
  for (const Row& row : kRows) {
    const auto address = read_address(row.text);
    EXPECT_EQ(address.has_value(), row.good) << row.text;
    EXPECT_EQ(address && address->loopback, row.loopback) << row.text;
  }
  EXPECT_FALSE(read_address("unix:/" + std::string(107, 'x')).has_value()) << "longer than a socket's path may be";
}

TEST(ConfigValues, tell_urls_from_other_texts) {
  const std::string_view kGood[] = {"https://api.openai.com",
                                    "http://127.0.0.1:8000",
                                    "http://[::1]:8000/base",
                                    "https://h/a/b/",
                                    "https://my_host-1.local:1"};
  for (const std::string_view text : kGood) EXPECT_TRUE(read_url(text).has_value()) << text;
  const std::string_view kBad[] = {"",
                                   "https://",
                                   "ftp://h",
                                   "https:/h",
                                   "https://h:0",
                                   "https://h:99999",
                                   "https://h:x",
                                   "//h",
                                   "https://a b",
                                   "https://h?x",
                                   "https://h#x",
                                   "https://u@h",
                                   "https://[::1",
                                   "https://:80",
                                   "https://ü",
                                   "https://h/\\",
                                   "HTTPS://h",
                                   "https://h\n"};
  for (const std::string_view text : kBad) EXPECT_FALSE(read_url(text).has_value()) << text;
  EXPECT_TRUE(read_url("http://localhost/")->loopback);
  EXPECT_TRUE(read_url("http://[::1]:80")->loopback);
  EXPECT_FALSE(read_url("http://localhost.example.com")->loopback);
}

TEST(ConfigValues, find_the_word_that_was_meant_and_no_other) {
  const std::vector<std::string> words{"base", "cap", "longest_wait", "on_timeout", "url", "http"};
  struct Row {
    std::string_view written;
    std::string_view meant;
  };
  const Row kRows[] = {
      {"bse", "base"},
      {"BASE", "base"},
      {"Cap", "cap"},
      {"longest-wait", "longest_wait"},
      {"longestwait", "longest_wait"},
      {"ulr", "url"},
      {"https", "http"},
      {"elephant", ""},
      {"", ""},
      {"xyz", ""},
      {"on_timout", "on_timeout"},
      {"ontimeouts", "on_timeout"},
  };
  for (const Row& row : kRows) EXPECT_EQ(nearest(row.written, words), row.meant) << row.written;
  EXPECT_EQ(nearest(std::string(100'000, 'x'), words), "");

  const std::vector<std::string> options{
      "--admin", "--paste", "--most", "--state", "--json", "--plain", "--timeout", "--rate", "--canary", "--date"};
  const Row kOptions[] = {
      {"--limit", ""},  // Not --admin.
      {"--stats", "--state"},
      {"--jsn", "--json"},
      {"--adnim", "--admin"},
      {"--time-out", "--timeout"},
      {"--cannary", "--canary"},
      {"--raste", "--rate"},  // As near to --paste.
      {"--dade", "--date"},
      {"--x", ""},
      {"--", ""},
  };
  for (const Row& row : kOptions) EXPECT_EQ(nearest(row.written, options), row.meant) << row.written;
}

TEST(ConfigValues, count_money_exactly) {
  const Key key{.path = "x", .type = Type::Money, .range = {0, 9e18}};
  const auto nano = [&](const std::string& text) {
    const auto value = read_value(key, {.text = text, .said = text, .quoted = true});
    return value ? value->number : -1;
  };
  EXPECT_EQ(nano("0.1"), 100'000'000);
  EXPECT_EQ(nano("12.50"), 12'500'000'000);
  EXPECT_EQ(nano("0.000000001"), 1);
  EXPECT_EQ(nano("9000000000"), 9'000'000'000'000'000'000);
  for (const char* bad :
       {"0.0000000001", "9300000000", "-1", "1e3", "1,5", ".5", "5.", "$5", "", "99999999999999999999"}) {
    EXPECT_EQ(nano(bad), -1) << bad;
  }
}

TEST(ConfigValues, write_durations_and_sizes_in_the_largest_unit_that_is_exact) {
  EXPECT_EQ(say_duration(0), "0s");
  EXPECT_EQ(say_duration(1), "1ms");
  EXPECT_EQ(say_duration(1'500), "1500ms");
  EXPECT_EQ(say_duration(90'000), "90s");
  EXPECT_EQ(say_duration(7 * 86'400'000), "7d");
  EXPECT_EQ(say_size(0), "0");
  EXPECT_EQ(say_size(1'000), "1000");
  EXPECT_EQ(say_size(65'536), "64KiB");
  EXPECT_EQ(say_size(std::int64_t{1} << 40), "1024GiB");
}

TEST(ConfigValues, repeat_only_what_a_terminal_can_bear) {
  EXPECT_EQ(say("5m"), "5m");
  EXPECT_EQ(say("5 m"), "\"5 m\"");
  EXPECT_EQ(say(""), "\"\"");
  EXPECT_EQ(say("a\x1b[31m\n"), R"("a\u001b[31m\u000a")");
  EXPECT_EQ(say("a\u202eb"), R"("a\u202eb")");
  EXPECT_EQ(yaml_text("a\u202e\u0085\x1b\"b"), R"("a\u202e\u0085\u001b\"b")");
  EXPECT_EQ(say(std::string(70, 'x')), "\"" + std::string(60, 'x') + "…\"");
  EXPECT_EQ(say(std::string(59, 'x') + "üü"), "\"" + std::string(59, 'x') + "…\"") << "no half characters";
}

TEST(ConfigValues, paths_are_read_as_they_are_written) {
  for (const char* text : {"retry.base", "upstreams.\"my.gpu\".url", "a"}) EXPECT_EQ(text_of(path_of(text)), text);
  for (const char* text : {"", "a.", "\"a", "a\"b\".c.", "\"a\"b"}) EXPECT_TRUE(path_of(text).empty()) << text;
  EXPECT_EQ(path_of("upstreams.\"my.gpu\".url"), (Path{"upstreams", "my.gpu", "url"}));
}

}  // namespace config_values_test
