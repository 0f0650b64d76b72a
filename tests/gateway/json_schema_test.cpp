#include "gateway/json_schema.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/json_tree.h"

namespace gateway {
namespace json_schema_test {

using namespace std::chrono_literals;

std::shared_ptr<const JsonSchema> schema_of(const std::string& text) {
  auto schema = JsonSchema::read(text);
  if (schema) return *schema;
  for (const SchemaProblem& problem : schema.error())
    ADD_FAILURE() << text << ": " << problem.pointer << " " << problem.message;
  return nullptr;
}

std::string said(const std::vector<PayloadFault>& faults) {
  std::string text;
  for (const PayloadFault& fault : faults) text += (text.empty() ? "" : "; ") + text_of(fault);
  return text;
}

struct Case {
  std::string_view schema;
  std::string_view body;
  std::string_view said;  // Empty: it fits.
};

const Case kCases[] = {
    {"{}", "null", ""},
    {"true", "[1]", ""},
    {"false", "1", "the body must not be there"},
    {R"({"type": "string"})", R"("a")", ""},
    {R"({"type": "string"})", "1", "the body must be a string"},
    {R"({"type": ["string", "null"]})", "null", ""},
    {R"({"type": ["string", "null", "integer"]})", "1.5", "the body must be null, a string or an integer"},
    {R"({"type": "integer"})", "1.0", ""},
    {R"({"type": "integer"})", "1e400", ""},
    {R"({"type": "integer"})", "1.5", "the body must be an integer"},
    {R"({"type": "number"})", "1e400", ""},
    {R"({"type": "boolean"})", "false", ""},
    {R"({"type": "boolean"})", "0", "the body must be a boolean"},
    // Members.
    {R"({"properties": {"a": {"type": "string"}}})", R"({"a": 1, "b": 2})", "/a must be a string"},
    {R"({"properties": {"a": {"type": "string"}}})", R"({"\u0061": 1})", "/a must be a string"},
    {R"({"properties": {"a": {"type": "string"}}})", R"(["a"])", ""},
    {R"({"required": ["a", "b/c"]})", R"({"a": null})", "the body needs b~1c"},
    {R"({"required": ["a"]})", R"({"\u0061": 1})", ""},
    {R"({"required": ["a"]})", "1", ""},
    {R"({"properties": {"a": true}, "additionalProperties": false})", R"({"a": 1})", ""},
    {R"({"properties": {"a": true}, "additionalProperties": false})", R"({"a": 1, "b": 1})", "/b must not be there"},
    {R"({"additionalProperties": {"type": "number"}})", R"({"a": 1, "b": ""})", "/b must be a number"},
    {R"({"minProperties": 1, "maxProperties": 2})", "{}", "the body must have at least 1 members"},
    {R"({"minProperties": 1, "maxProperties": 2})", R"({"a":1,"b":2,"c":3})", "the body must have at most 2 members"},
    // Items.
    {R"({"items": {"type": "number"}})", R"([1, "x", 2, "y"])", "/1 must be a number; /3 must be a number"},
    {R"({"prefixItems": [{"type": "number"}], "items": {"type": "string"}})", R"([1, "x"])", ""},
    {R"({"prefixItems": [{"type": "number"}], "items": false})", "[1, 2]", "/1 must not be there"},
    {R"({"prefixItems": [{"type": "number"}]})", R"([1, "x"])", ""},
    {R"({"minItems": 2})", "[1]", "the body must have at least 2 items"},
    {R"({"maxItems": 1})", "[1, 2]", "the body must have at most 1 items"},
    {R"({"uniqueItems": true})", R"([1, 2, {"a": 1, "b": [2]}, "1"])", ""},
    {R"({"uniqueItems": true})",
     R"([{"a": 1, "b": 2}, {"b": 2.0, "a": 10e-1}])",
     "the body must not have an item twice"},
    {R"({"uniqueItems": false})", "[1, 1]", ""},
    // Values.
    {R"({"enum": ["a", 1, null, {"x": [1]}]})", R"({"x": [1.0]})", ""},
    {R"({"enum": ["a", 1, null, {"x": [1]}]})", R"("b")", "the body must be one of \"a\", 1, null, an object"},
    {R"({"enum": [true, false]})", "1", "the body must be one of true, false"},
    {R"({"const": "v2"})", R"("v2")", ""},
    {R"({"const": "v2"})", R"("v3")", "the body must be \"v2\""},
    {R"({"const": 1})", "1.0", ""},
    // Numbers.
    {R"({"minimum": 0.1, "maximum": 10})", "0.1", ""},
    {R"({"minimum": 0.1, "maximum": 10})", "0.09", "the body must be at least 0.1"},
    {R"({"minimum": 0.1, "maximum": 10})", "1e400", "the body must be at most 10"},
    {R"({"exclusiveMinimum": 0, "exclusiveMaximum": 1})", "0", "the body must be above 0"},
    {R"({"exclusiveMinimum": 0, "exclusiveMaximum": 1})", "1", "the body must be below 1"},
    {R"({"minimum": 9007199254740993})", "9007199254740992", "the body must be at least 9007199254740993"},
    {R"({"multipleOf": 5})", "15", ""},
    {R"({"multipleOf": 5})", "16", "the body must be a multiple of 5"},
    {R"({"multipleOf": 5})", "2.5", "the body must be a multiple of 5"},
    {R"({"minimum": 1})", R"("a")", ""},
    // Texts, in characters.
    {R"({"minLength": 2, "maxLength": 3})", R"("ä😀")", ""},
    {R"({"minLength": 2, "maxLength": 3})", R"("\ud83d\ude00")", "the body must have at least 2 characters"},
    {R"({"minLength": 2, "maxLength": 3})", R"("abcd")", "the body must have at most 3 characters"},
    // More than one schema.
    {R"({"allOf": [{"type": "object"}, {"required": ["a"]}]})", "{}", "the body needs a"},
    {R"({"anyOf": [{"type": "string"}, {"type": "number"}]})", "1", ""},
    {R"({"anyOf": [{"type": "string"}, {"type": "number"}]})",
     "null",
     "the body must fit one of the 2 ways of anyOf"},
    {R"({"oneOf": [{"type": "integer"}, {"minimum": 5}]})",
     "7",
     "the body must fit exactly one of the 2 ways of oneOf (fits more)"},
    {R"({"oneOf": [{"type": "integer"}, {"minimum": 5}]})",
     "1.5",
     "the body must fit exactly one of the 2 ways of oneOf (fits none)"},
    {R"({"oneOf": [{"type": "integer"}, {"minimum": 5}]})", "1", ""},
    {R"({"not": {"type": "null"}})", "null", "the body must not fit what stands in not"},
    {R"({"not": {"type": "null"}})", "1", ""},
    {R"({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}, "minLength": 2})",
     R"("x")",
     "the body must have at least 2 characters"},
    // A tree of any depth.
    {R"({"type": "object", "properties": {"children": {"items": {"$ref": "#"}}}, "required": ["name"]})",
     R"({"name": 1, "children": [{"name": 2, "children": [{}]}]})",
     "/children/0/children/0 needs name"},
    // What says nothing.
    {R"({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "x", "title": 1, "description": {}, "default": 0, "examples": [], "$comment": ""})",
     "1",
     ""},
    // Payloads that are none.
    {"{}", "{\"a\": 1, \"a\": 2}", "the body has the name a twice in one object"},
    {"{}", "", "the body is cut off"},
    {"{}", "NaN", "the body has something that is no JSON"},
};

TEST(JsonSchema, says_of_a_payload_what_was_expected_and_where) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::string{c.schema} + "  " + std::string{c.body});
    const auto schema = schema_of(std::string{c.schema});
    ASSERT_TRUE(schema);
    EXPECT_EQ(said(schema->check(c.body)), c.said);
  }
}

TEST(JsonSchema, refuses_what_it_does_not_know_and_says_where) {
  const struct {
    std::string_view schema;
    std::string_view pointer;
    std::string_view said;
  } kRefused[] = {
      {R"({"pattern": "^a"})", "/pattern", "is not supported; known are: type, enum, const"},
      {R"({"properties": {"a": {"format": "date"}}})", "/properties/a/format", "is not supported; known are"},
      {R"({"propertis": {}})", "/propertis", "did you mean properties?"},
      {R"({"definitions": {}})", "/definitions", "it is called $defs"},
      {R"({"if": {}})", "/if", "is not supported"},
      {R"({"$dynamicRef": "#a"})", "/$dynamicRef", "is not supported"},
      {R"({"type": "text"})", "/type", "must be null, boolean, number"},
      {R"({"type": []})", "/type", "at least one type"},
      {R"({"type": "string", "items": [{}]})", "/items", "prefixItems"},
      {R"({"items": 5})", "/items", "must be a schema: an object, true or false (is a number)"},
      {R"({"anyOf": {}})", "/anyOf", "must be an array (is an object)"},
      {R"({"anyOf": []})", "/anyOf", "at least one schema"},
      {R"({"anyOf": [{}, {"x": 1}]})", "/anyOf/1/x", "is not supported"},
      {R"({"required": "a"})", "/required", "must be an array (is a string)"},
      {R"({"required": [1]})", "/required", "must be a string (is a number)"},
      {R"({"enum": []})", "/enum", "at least one value"},
      {R"({"enum": [1], "const": 1})", "/const", "stands beside enum"},
      {R"({"minimum": "1"})", "/minimum", "must be a number (is a string)"},
      {R"({"minLength": -1})", "/minLength", "must be a whole number from 0"},
      {R"({"maxItems": 1.5})", "/maxItems", "must be a whole number from 0"},
      {R"({"maxItems": 1e300})", "/maxItems", "must be a whole number from 0"},
      {R"({"multipleOf": 0})", "/multipleOf", "fractions are not supported"},
      {R"({"multipleOf": 0.1})", "/multipleOf", "fractions are not supported"},
      {R"({"uniqueItems": 1})", "/uniqueItems", "must be true or false"},
      {R"({"$ref": "https://example.com/s"})", "/$ref", "schemas elsewhere are not fetched"},
      {R"({"$ref": "#/properties/a"})", "/$ref", "must be # or #/$defs/NAME"},
      {R"({"$ref": "#/$defs/invoise", "$defs": {"invoice": {}}})", "/$ref", "did you mean invoice?"},
      {R"({"properties": {"a": {"$defs": {}}}})", "/properties/a/$defs", "only at the top"},
      {R"({"$ref": "#"})", "", "refers to itself without an end"},
      {R"({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}})",
       "/$defs/a",
       "refers to itself without an end"},
      {"[]", "", "must be a schema"},
      {R"({"type": "string", "type": "number"})", "", "has the name type twice in one object"},
      {R"({"type": )", "", "is cut off"},
  };
  for (const auto& c : kRefused) {
    SCOPED_TRACE(c.schema);
    const auto schema = JsonSchema::read(std::string{c.schema});
    ASSERT_FALSE(schema);
    EXPECT_EQ(schema.error()[0].pointer, c.pointer);
    EXPECT_NE(schema.error()[0].message.find(c.said), std::string::npos) << schema.error()[0].message;
  }
  const auto placed = JsonSchema::read("{\n  \"type\": \"object\",\n  \"patern\": \"x\"\n}");
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error()[0].line, 3);
  EXPECT_EQ(placed.error()[0].column, 13);
}

TEST(JsonSchema, tells_the_first_twenty_faults_and_nothing_of_the_values) {
  const auto schema = schema_of(R"({"items": {"type": "integer", "enum": [1, 2]}})");
  std::string body = "[";
  for (int i = 0; i < 100; ++i) body += "\"SECRET\",";
  const auto faults = schema->check(body + "1]");
  EXPECT_EQ(faults.size(), kMostPayloadFaults);
  EXPECT_EQ(faults[19], (PayloadFault{"/19", "must be an integer"}));
  EXPECT_EQ(said(faults).find("SECRET"), std::string::npos);

  const auto closed = schema_of(R"({"additionalProperties": false})");
  const auto long_name = closed->check("{\"" + std::string(10'000, 'x') + "\": 1}");
  ASSERT_EQ(long_name.size(), 1U);
  EXPECT_LT(long_name[0].pointer.size(), 80U) << "a name is cut";
}

/// Each definition looks twice at the next one: 2^n ways.
std::string doubling(int definitions, std::string_view word) {
  std::string text = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < definitions; ++i) {
    const std::string next = R"({"$ref": "#/$defs/d)" + std::to_string(i + 1) + R"("})";
    text += "\"d" + std::to_string(i) + "\": {\"" + std::string{word} + "\": [" + next + "," + next + "]},";
  }
  return text + "\"d" + std::to_string(definitions) + R"(": {"type": "string"}}})";
}

TEST(JsonSchema, that_would_take_for_ever_ends_soon_and_says_so) {
  std::string wide = "[";
  for (int i = 0; i < 60'000; ++i) wide += "{\"a\":1},";
  wide += "0]";
  const struct {
    std::string schema;
    std::string body;
    bool spent;
  } kHostile[] = {
      {doubling(30, "anyOf"), "1", true},
      {doubling(30, "allOf"), "1", false},  // Twenty faults are enough.
      {doubling(30, "allOf"), "\"x\"", true},
      {doubling(30, "oneOf"), "1", true},
      {R"({"uniqueItems": true, "items": {"uniqueItems": true, "enum": [{"a": 2}, 0]}})", wide, false},
      {R"({"items": {"anyOf": [{"const": 1}, {"const": 2}, {"const": 3}, {"const": 4}, {"const": {"a": 1}}]}})",
       wide,
       true},
      {R"({"additionalProperties": {"$ref": "#"}, "items": {"$ref": "#"}, "uniqueItems": true})",
       std::string(199, '[') + "1" + std::string(199, ']'),
       false},
  };
  for (const auto& c : kHostile) {
    const auto schema = schema_of(c.schema);
    ASSERT_TRUE(schema);
    const auto begin = std::chrono::steady_clock::now();
    const auto faults = schema->check(c.body);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s) << c.schema.substr(0, 60);
    EXPECT_EQ(said(faults) == "the body takes too much work to be checked by this schema", c.spent)
        << c.schema.substr(0, 60) << said(faults);
  }
  std::string chain = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 5'000; ++i)
    chain += "\"d" + std::to_string(i) + R"(": {"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"},";
  const auto long_chain = JsonSchema::read(chain + R"("d5000": {}}})");
  ASSERT_FALSE(long_chain);
  EXPECT_NE(long_chain.error()[0].message.find("more than 100 schemas"), std::string::npos);
  std::string many = R"({"anyOf": [true)";
  for (int i = 0; i < 20'000; ++i) many += ",true";
  EXPECT_FALSE(JsonSchema::read(many + "]}"));
}

// Goal: whatever stands in schema and payload, reading and checking neither throw nor crash, and are the same twice.
// Method: both grown at random by seed, then changed in some bytes.
class Grower {
 public:
  explicit Grower(unsigned seed) : random_(seed) {}
  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>{0, bound - 1}(random_); }

  std::string value(int depth) {
    static const std::vector<std::string> kPlain{"null",
                                                 "true",
                                                 "false",
                                                 "0",
                                                 "-1",
                                                 "1.5",
                                                 "1e400",
                                                 "\"\"",
                                                 "\"a\"",
                                                 "\"\\u00e4\"",
                                                 "12345678901234567890",
                                                 "1e-400",
                                                 "\"\\ud83d\\ude00\""};
    const std::size_t kind = depth > 4 ? 0 : below(4);
    if (kind < 2) return kPlain[below(kPlain.size())];
    std::string text = kind == 2 ? "[" : "{";
    const std::size_t count = below(4);
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) text += ",";
      if (kind == 3) text += "\"" + std::string(1, static_cast<char>('a' + i)) + "\":";
      text += value(depth + 1);
    }
    return text + (kind == 2 ? "]" : "}");
  }

  std::string schema(int depth) {
    if (depth > 4) return below(2) == 0 ? "true" : R"({"$ref":"#/$defs/d"})";
    static const std::vector<std::string> kWords{
        "type",       "enum",        "const",        "properties",  "required", "additionalProperties",
        "items",      "prefixItems", "minItems",     "uniqueItems", "minimum",  "exclusiveMaximum",
        "multipleOf", "minLength",   "allOf",        "anyOf",       "oneOf",    "not",
        "title",      "$ref",        "maxProperties"};
    std::string text = "{";
    std::vector<bool> used(kWords.size());
    for (std::size_t n = below(4); n > 0; --n) {
      const std::size_t at = below(kWords.size());
      if (used[at]) continue;
      used[at] = true;
      const std::string& word = kWords[at];
      if (text.size() > 1) text += ",";
      text += "\"" + word + "\":";
      if (word == "type") {
        text += below(2) == 0 ? "[\"integer\",\"array\",\"object\"]" : "\"string\"";
      } else if (word == "enum") {
        text += "[" + value(3) + "," + value(3) + "]";
      } else if (word == "const" || word == "title") {
        text += value(2);
      } else if (word == "properties") {
        text += "{\"a\":" + schema(depth + 1) + ",\"b\":" + schema(depth + 1) + "}";
      } else if (word == "required") {
        text += "[\"a\"]";
      } else if (word == "items" || word == "not" || word == "additionalProperties") {
        text += schema(depth + 1);
      } else if (word.ends_with("Of") && word != "multipleOf") {
        text += "[" + schema(depth + 1) + "," + schema(depth + 1) + "]";
      } else if (word == "prefixItems") {
        text += "[" + schema(depth + 1) + "]";
      } else if (word == "uniqueItems") {
        text += "true";
      } else if (word == "$ref") {
        text += below(4) == 0 ? "\"#\"" : "\"#/$defs/d\"";
      } else {
        text += std::to_string(1 + below(4));
      }
    }
    if (depth == 0) text += std::string{text.size() > 1 ? "," : ""} + "\"$defs\":{\"d\":{\"maxItems\":2}}";
    return text + "}";
  }

  std::string spoilt(std::string text) {
    for (std::size_t n = below(3); n > 0 && !text.empty(); --n) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, 1 + below(5));
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), below(20)));
          break;
        default:
          text.resize(at);
      }
    }
    return text;
  }

 private:
  std::mt19937 random_;
};

TEST(JsonSchema, of_any_text_never_throws_and_says_the_same_twice) {
  std::size_t read = 0;
  std::size_t fitting = 0;
  std::size_t faulty = 0;
  for (unsigned seed = 1; seed <= 4'000; ++seed) {
    SCOPED_TRACE(seed);
    Grower grower{seed};
    std::string text = grower.schema(0);
    if (seed % 4 == 0) text = grower.spoilt(std::move(text));
    const auto schema = JsonSchema::read(text);
    if (!schema) {
      ASSERT_FALSE(schema.error().empty());
      ASSERT_LE(schema.error().size(), kMostSchemaProblems);
      continue;
    }
    ++read;
    for (int i = 0; i < 10; ++i) {
      std::string body = grower.value(0);
      if (i % 3 == 0) body = grower.spoilt(std::move(body));
      const auto faults = (*schema)->check(body);
      ASSERT_EQ(faults, (*schema)->check(body)) << text << "\n" << body;
      ASSERT_LE(faults.size(), kMostPayloadFaults);
      ++(faults.empty() ? fitting : faulty);
    }
  }
  EXPECT_GT(read, 2'000U);
  EXPECT_GT(fitting, 2'000U);
  EXPECT_GT(faulty, 2'000U);
}

}  // namespace json_schema_test
}  // namespace gateway
