#include "gateway/json_edit.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gateway {
namespace json_edit_test {

TEST(EditJson, leaves_every_other_byte_as_it_was_written) {
  const struct {
    const char* name;
    const char* body;
    const char* set;
    const char* want;
  } kCases[] = {
      {"numbers, escapes and blanks",
       "{ \"model\" : \"a\",\n\t\"t\": 1.10, \"big\": 123456789012345678901234567890, \"e\": 1e400,"
       " \"u\": \"\\u00e9\\/\" }\n",
       R"({"/model":"b"})",
       "{ \"model\" : \"b\",\n\t\"t\": 1.10, \"big\": 123456789012345678901234567890, \"e\": 1e400,"
       " \"u\": \"\\u00e9\\/\" }\n"},
      {"a name that stands twice elsewhere",
       R"({"x":{"a":1,"a":2},"m":0})",
       R"({"/m":1})",
       R"({"x":{"a":1,"a":2},"m":1})"},
      {"the value goes in as it is written",
       R"({"m":0})",
       R"({"/m": [1.0, 2e5,{"z" :-0}]})",
       R"({"m":[1.0, 2e5,{"z" :-0}]})"},
      {"an escaped name", R"({"a\/b":1,"c~d":2})", R"({"/a~1b":3,"/c~0d":4})", R"({"a\/b":3,"c~d":4})"},
      {"added to an object", R"({"a": 1 })", R"({"/b\"c":2})", R"({"a": 1,"b\"c":2 })"},
      {"added to an empty object", R"({"a": { } })", R"({"/a/b":2})", R"({"a": {"b":2 } })"},
      {"appended", R"({"a": [1, 2 ] })", R"({"/a/-":3})", R"({"a": [1, 2,3 ] })"},
      {"appended to nothing", R"([])", R"({"/-":3})", R"([3])"},
      {"one after the other", R"({})", R"({"/a":{},"/a/b":1,"/a/b":[]})", nullptr},
      {"into what was set before", R"({})", R"({"/a":{},"/a/b":1})", R"({"a":{"b":1}})"},
      {"a name that stands twice itself", R"({"a":1,"a":2})", R"({"/a":3})", nullptr},
      {"a way through a name that stands twice", R"({"a":{"b":1},"a":{}})", R"({"/a/b":3})", nullptr},
      {"an index with a zero before it", R"([1,2])", R"({"/01":3})", nullptr},
      {"a broken escape of the pointer", R"({"a~":1})", R"({"/a~":3})", nullptr},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.name);
    const auto edited = edit_json(one.body, one.set);
    ASSERT_EQ(edited.has_value(), one.want != nullptr) << (edited ? edited->body : edited.error());
    EXPECT_EQ(edited ? edited->body : "", one.want == nullptr ? "" : one.want);
  }
}

TEST(EditJson, tells_of_what_is_not_as_it_was) {
  const auto edited = edit_json(R"({"a":1.0,"b":"x"})", R"({"/a":1.0,"/b":"y"})");
  ASSERT_TRUE(edited);
  ASSERT_EQ(edited->members.size(), 1u);
  EXPECT_EQ(edited->members[0].at, "/b");
  EXPECT_EQ(edited->members[0].was, R"("x")");
  EXPECT_EQ(edited->members[0].is, R"("y")");
}

/// A text of JSON, and where in it those values stand that one pointer means.
class Writer {
 public:
  explicit Writer(std::uint32_t seed) : chance_(seed) { value("", 0, true); }
  struct Place {
    std::string pointer;
    std::size_t begin, end;
  };
  std::string text{};
  std::vector<Place> places{};
  std::size_t pick(std::size_t of) { return std::uniform_int_distribution<std::size_t>{0, of - 1}(chance_); }
  std::string scalar() {
    static const std::vector<std::string> kScalars = {"null",
                                                      "true",
                                                      "false",
                                                      "0",
                                                      "-0",
                                                      "1.10",
                                                      "1e400",
                                                      "-2.5E+007",
                                                      "123456789012345678901234567890",
                                                      "\"\"",
                                                      R"("\u00e9\/\ud83d\ude00")",
                                                      R"("say \"}],[{\" \\")",
                                                      "\"pläin\"",
                                                      R"("a\nb")"};
    return kScalars[pick(kScalars.size())];
  }

 private:
  void blank() {
    static const std::vector<std::string> kBlanks = {"", "", "", " ", "\n\t", "\r\n  "};
    text += kBlanks[pick(kBlanks.size())];
  }
  void value(const std::string& pointer, int depth, bool clear) {
    const std::size_t begin = text.size();
    const std::size_t kind = depth == 0 ? 2 : pick(depth > 4 ? 2 : 4);
    if (kind < 2) {
      text += scalar();
    } else if (kind == 2) {
      object(pointer, depth, clear);
    } else {
      const std::size_t count = pick(4);
      text += '[';
      for (std::size_t i = 0; i < count; ++i) {
        if (i > 0) text += ',';
        blank();
        value(pointer + "/" + std::to_string(i), depth + 1, clear);
        blank();
      }
      if (count == 0) blank();
      text += ']';
    }
    if (clear && depth > 0) places.push_back({pointer, begin, text.size()});
  }
  void object(const std::string& pointer, int depth, bool clear) {
    // As written, as a step of a pointer.
    static const std::vector<std::pair<std::string, std::string>> kNames = {{"a", "a"},
                                                                            {R"(\u0061)", "a"},
                                                                            {"b", "b"},
                                                                            {"0", "0"},
                                                                            {"x/y", "x~1y"},
                                                                            {R"(~\/)", "~0~1"},
                                                                            {R"(\"q)", "\"q"},
                                                                            {"", ""},
                                                                            {"é", "é"}};
    std::vector<std::size_t> names(pick(5));
    for (std::size_t& name : names) name = pick(kNames.size());
    text += '{';
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto& [raw, step] = kNames[names[i]];
      std::size_t same = 0;
      for (const std::size_t other : names) same += kNames[other].second == step ? 1U : 0U;
      if (i > 0) text += ',';
      blank();
      text += "\"" + raw + "\"";
      blank();
      text += ':';
      blank();
      value(pointer + "/" + step, depth + 1, clear && same == 1);
      blank();
    }
    if (names.empty()) blank();
    text += '}';
  }
  std::mt19937 chance_;
};

TEST(EditJson, sets_any_member_of_any_json_and_no_other_byte) {
  std::size_t tried = 0;
  for (std::uint32_t seed = 1; seed <= 3'000; ++seed) {
    Writer json{seed};
    for (const Writer::Place& place : json.places) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + place.pointer + " in " + json.text);
      std::string pointer;
      for (const char c : place.pointer) pointer += c == '"' ? "\\\"" : std::string{c};
      const std::string value = json.scalar();
      const auto edited = edit_json(json.text, "{ \"" + pointer + "\" : " + value + " }");
      ASSERT_TRUE(edited) << edited.error();
      const std::string was = json.text.substr(place.begin, place.end - place.begin);
      ASSERT_EQ(edited->body, json.text.substr(0, place.begin) + value + json.text.substr(place.end));
      ASSERT_EQ(edited->members.size(), was == value ? 0u : 1u);
      ASSERT_EQ(was == value ? value : edited->members[0].was, was);
      ++tried;
    }
  }
  EXPECT_GT(tried, 5'000u);
}

}  // namespace json_edit_test
}  // namespace gateway
