#include "gateway/json_path.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "gateway/json_tree.h"

namespace gateway {
namespace json_path_test {

constexpr std::string_view kBody = R"({
  "model": "m", "metadata": {"id": "inv-7", "n": 17, "big": 123456789012345678901234567890, "tiny": 1.50e-3,
  "yes": true, "no": false, "none": null, "empty": "", "0": "zero", "a b": "blank", "a/b": "slash", "t~": "tilde",
  "umlaut": "\u00e4\ud83d\ude00", "quote": "a\"b", "line": "a\nb", "list": [1, {"x": "in"}], "object": {}}})";

/// "=text", "nothing", or the error.
std::string found(std::string_view path, std::string_view body = kBody) {
  const auto read = JsonPath::read(path);
  if (!read) return "unreadable: " + read.error();
  EXPECT_EQ(read->text(), path);
  const auto value = read->value_in(body);
  if (!value) return value.error();
  return *value ? "=" + **value : "nothing";
}

TEST(JsonPath, finds_one_value_and_says_it_as_text) {
  const struct {
    std::string_view path;
    std::string_view want;
  } kCases[] = {
      {"$.model", "=m"},
      {"$.metadata.id", "=inv-7"},
      {"/metadata/id", "=inv-7"},
      {"$['metadata'][\"id\"]", "=inv-7"},
      {"$.metadata.n", "=17"},
      {"$.metadata.big", "=123456789012345678901234567890"},
      {"$.metadata.tiny", "=1.50e-3"},
      {"$.metadata.yes", "=true"},
      {"$.metadata.no", "=false"},
      {"$.metadata.none", "nothing"},
      {"$.metadata.empty", "nothing"},
      {"$.metadata.missing", "nothing"},
      {"$.metadata.id.deeper", "nothing"},
      {"$.metadata['a b']", "=blank"},
      {"/metadata/a b", "=blank"},
      {"/metadata/a~1b", "=slash"},
      {"/metadata/t~0", "=tilde"},
      {"/metadata/0", "=zero"},
      {"$.metadata[0]", "nothing"},
      {"$.metadata['0']", "=zero"},
      {"$.metadata.list[0]", "=1"},
      {"$.metadata.list[1].x", "=in"},
      {"/metadata/list/1/x", "=in"},
      {"/metadata/list/01", "nothing"},
      {"$.metadata.list[2]", "nothing"},
      {"$.metadata.umlaut", "=ä😀"},
      {"$.metadata.quote", "=a\"b"},
      {"$.metadata.line", "$.metadata.line must be without control characters"},
      {"$.metadata.list", "$.metadata.list must be a text, a number or a flag (is an array)"},
      {"/metadata/object", "/metadata/object must be a text, a number or a flag (is an object)"},
  };
  for (const auto& c : kCases) EXPECT_EQ(found(c.path), c.want) << c.path;
}

TEST(JsonPath, that_is_none_is_told_how_it_would_be_right) {
  const struct {
    std::string_view path;
    std::string_view said;
  } kCases[] = {
      {"", "must be a path such as"},
      {"metadata.id", "must be a path such as"},
      {"$", "must name a value within the body"},
      {"$.", "needs a name after the dot"},
      {"$..id", "must mean one value"},
      {"$.*", "must mean one value"},
      {"$.a[*]", "must mean one value"},
      {"$.a[?(@.b)]", "must mean one value"},
      {"$.a[", "needs the number of an item"},
      {"$.a[-1]", "needs the number of an item"},
      {"$.a[01]", "needs the number of an item"},
      {"$.a[0:2]", "needs the number of an item"},
      {"$.a[99999999]", "needs the number of an item"},
      {"$['a", "is not closed"},
      {"$['a'", "is not closed"},
      {"$['a\\b']", "has a backslash"},
      {"$a", "must go on with"},
      {"$.a b", "must go on with"},
      {"/a~2", "neither ~0"},
      {"/a~", "neither ~0"},
  };
  for (const auto& c : kCases) {
    const auto read = JsonPath::read(c.path);
    ASSERT_FALSE(read) << c.path;
    EXPECT_NE(read.error().find(c.said), std::string::npos) << c.path << ": " << read.error();
  }
  EXPECT_FALSE(JsonPath::read("$" + std::string(300, 'a')));
  std::string deep = "$";
  for (int i = 0; i < 33; ++i) deep += ".a";
  EXPECT_FALSE(JsonPath::read(deep));
}

TEST(JsonPath, in_a_body_that_cannot_be_trusted_says_so_without_repeating_it) {
  EXPECT_EQ(found("$.a", R"({"a": "SECRET", "a": "b"})"),
            "the body has the name a twice in one object, so that $.a cannot be read");
  EXPECT_EQ(found("$.a", R"({"a": "SECRET)"), "the body is cut off, so that $.a cannot be read");
  EXPECT_EQ(found("$.a", R"({"a": "\ud800"})"),
            "the body has a \\u that is no character, so that $.a cannot be read");
  EXPECT_EQ(found("$.a", R"([1])"), "nothing");
  EXPECT_EQ(found("/0", R"([1])"), "=1");
  EXPECT_EQ(found("$.a", R"({"a": ")" + std::string(255, 'x') + "\"}"), "=" + std::string(255, 'x'));
  EXPECT_EQ(found("$.a", R"({"a": ")" + std::string(256, 'x') + "\"}"), "$.a must have at most 255 bytes (has 256)");
}

std::string fault(std::string_view text) {
  const auto tree = JsonTree::read(text);
  return tree ? "" : tree.error().pointer + ": " + tree.error().message + " at " + std::to_string(tree.error().at);
}

TEST(JsonTree, reads_all_of_json_and_nothing_else) {
  for (const std::string_view good : {"0",
                                      " -0.5e+10 ",
                                      "1e400",
                                      "\"\\u0000\\\\\\/\"",
                                      "[]",
                                      "{}",
                                      "[[],{}]",
                                      "null",
                                      R"({"a":{"b":[1,2,{"c":null}]},"":true})",
                                      "\"\xC3\xA4\""})
    EXPECT_EQ(fault(good), "") << good;
  const struct {
    std::string_view text;
    std::string_view said;
  } kBad[] = {
      {"", ": is cut off at 0"},
      {"[1", ": is cut off at 2"},
      {"[1,]", ": has something that is no JSON at 3"},
      {"{\"a\":1,}", ": has something that is no JSON at 7"},
      {"01", ": ends before its text does at 1"},
      {"1 2", ": ends before its text does at 2"},
      {"NaN", ": has something that is no JSON at 0"},
      {"-Infinity", ": has something that is no JSON at 1"},
      {"'a'", ": has something that is no JSON at 0"},
      {"\xEF\xBB\xBF{}", ": has something that is no JSON at 0"},
      {"\"\x01\"", ": has a control character in a string at 1"},
      {"\"\xFF\"", ": has bytes that are no UTF-8 at 1"},
      {"\"\xED\xA0\x80\"", ": has bytes that are no UTF-8 at 1"},
      {"\"\\x\"", ": has an escape that JSON does not know at 1"},
      {"\"\\udc00\"", ": has a \\u that is no character at 1"},
      {"{\"a\":[{\"b\":1,\"\\u0062\":2}]}", "/a/0: has the name b twice in one object at 24"},
      {"tru", ": has something that is no JSON at 0"},
  };
  for (const auto& c : kBad) EXPECT_EQ(fault(c.text), c.said) << c.text;
}

TEST(JsonTree, is_bounded_in_depth_and_number) {
  EXPECT_EQ(fault(std::string(200, '[') + std::string(200, ']')), "");
  EXPECT_NE(fault(std::string(201, '[') + std::string(201, ']')).find("is nested deeper than 200"),
            std::string::npos);
  EXPECT_NE(fault(std::string(1'000'000, '[')).find("is nested deeper than 200"), std::string::npos);
  std::string many = "[0";
  for (int i = 0; i < 500'000; ++i) many += ",0";
  EXPECT_NE(fault(many + "]").find("has more than 500000 values"), std::string::npos);
  EXPECT_EQ(fault("[" + std::string(1'000, '9') + "]"), "");
  EXPECT_EQ(fault("[" + std::string(1'001, '9') + "]"), ": has a number of more than 1000 characters at 1002");
}

TEST(Decimal, compares_numbers_as_they_are_written) {
  const auto is_less = [](std::string_view a, std::string_view b) { return less(decimal_of(a), decimal_of(b)); };
  const std::string_view kAscending[] = {"-1e400",
                                         "-100",
                                         "-99.5",
                                         "-1",
                                         "-1e-400",
                                         "0",
                                         "1e-400",
                                         "0.1",
                                         "0.11",
                                         "1",
                                         "1.5",
                                         "9",
                                         "10",
                                         "100",
                                         "1e3",
                                         "1e400",
                                         "1e999999999999"};
  for (std::size_t i = 0; i < std::size(kAscending); ++i) {
    for (std::size_t j = 0; j < std::size(kAscending); ++j)
      EXPECT_EQ(is_less(kAscending[i], kAscending[j]), i < j) << kAscending[i] << " " << kAscending[j];
  }
  EXPECT_EQ(decimal_of("100"), decimal_of("1.00e2"));
  EXPECT_EQ(decimal_of("-0"), decimal_of("0.0e5"));
  EXPECT_TRUE(decimal_of("1e400").whole());
  EXPECT_TRUE(decimal_of("150e-1").whole());
  EXPECT_FALSE(decimal_of("1.5").whole());
  EXPECT_TRUE(decimal_of("123456789012345678901234567890").multiple_of(9));
  EXPECT_FALSE(decimal_of("123456789012345678901234567891").multiple_of(9));
  EXPECT_TRUE(decimal_of("1e400").multiple_of(1024));
  EXPECT_FALSE(decimal_of("1e400").multiple_of(3));
  EXPECT_TRUE(decimal_of("3e400").multiple_of(3));
  EXPECT_TRUE(decimal_of("0").multiple_of(3));
  EXPECT_TRUE(decimal_of("-9").multiple_of(3));
  EXPECT_FALSE(decimal_of("1.5").multiple_of(1));
}

}  // namespace json_path_test
}  // namespace gateway
