#include "gateway/json_schema.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "gateway/config_values.h"
#include "gateway/json_tree.h"

namespace gateway {
namespace {

using Kind = JsonValue::Kind;

constexpr std::size_t kMostRules = 10'000;
constexpr int kLongestChain = 100;          // Of schemas that look at one and the same value.
constexpr int kDeepestCheck = 1'000;        // Schemas within each other, at one moment of a check.
constexpr std::size_t kMostWork = 500'000;  // Schemas and values looked at in one check.
constexpr std::size_t kBytesOfWork = 64;
constexpr std::size_t kListShown = 200;

constexpr std::array<std::string_view, 7> kTypes{"null", "boolean", "number", "string", "array", "object", "integer"};
constexpr std::size_t kIntegerType = 6;

/// Say nothing about a payload.
constexpr std::array<std::string_view, 10> kAnnotations{"$schema",
                                                        "$id",
                                                        "$comment",
                                                        "title",
                                                        "description",
                                                        "default",
                                                        "examples",
                                                        "deprecated",
                                                        "readOnly",
                                                        "writeOnly"};

/// One schema, or part of one. What is not said holds for everything.
struct Rule {
  bool nothing = false;               // `false`: no value fits.
  std::uint32_t types = 0;            // Bits by kTypes; 0: any.
  bool listed = false;                // enum or const: one of …
  std::vector<std::string> values{};  // … these, as canonical() has them.
  std::string shown{};                // As the schema writes them.
  std::optional<Decimal> minimum{}, maximum{}, above{}, below{};
  std::string minimum_text{}, maximum_text{}, above_text{}, below_text{};
  std::uint64_t multiple_of = 0;
  std::optional<std::uint64_t> min_length{}, max_length{}, min_items{}, max_items{}, min_members{}, max_members{};
  bool unique = false;
  std::vector<std::uint32_t> prefix{};
  std::optional<std::uint32_t> items{}, additional{}, inverse{}, reference{};
  std::map<std::string, std::uint32_t, std::less<>> properties{};
  std::map<std::string, std::size_t, std::less<>> required{};
  std::vector<std::uint32_t> all{}, any{}, one{};
};

/// The same for values that are equal, another for others.
void canonical(const JsonTree& tree, std::uint32_t index, std::string& out) {
  const JsonValue& value = tree[index];
  const auto text = [&out](const std::string& said) { out += std::to_string(said.size()) + ":" + said; };
  switch (value.kind) {
    case Kind::Null:
      out += 'n';
      return;
    case Kind::False:
      out += 'f';
      return;
    case Kind::True:
      out += 't';
      return;
    case Kind::Number:
      out += '#';
      return text(decimal_of(value.text).text());
    case Kind::String:
      return text(unescaped(value.text));
    case Kind::Array:
      out += '[';
      for (std::uint32_t i = index + 1; i < value.end; i = tree[i].end) canonical(tree, i, out);
      out += ']';
      return;
    case Kind::Object: {
      std::vector<std::pair<std::string, std::uint32_t>> members;
      members.reserve(value.count);
      for (std::uint32_t i = index + 1; i < value.end; i = tree[i].end)
        members.emplace_back(unescaped(tree[i].key), i);
      std::ranges::sort(members);
      out += '{';
      for (const auto& [name, member] : members) {
        text(name);
        canonical(tree, member, out);
      }
      out += '}';
    }
  }
}

std::size_t type_index(Kind kind) {
  constexpr std::array<std::size_t, 7> kOf{0, 1, 1, 2, 3, 4, 5};
  return kOf[static_cast<std::size_t>(kind)];
}

std::string with_article(std::string_view type) {
  if (type == "null") return "null";
  return (type == "array" || type == "object" || type == "integer" ? "an " : "a ") + std::string{type};
}

std::string said_types(std::uint32_t types) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (types >> i & 1U) names.push_back(with_article(kTypes[i]));
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

/// A schema's text becomes rules.
class Compiler {
 public:
  Compiler(std::string_view text, const JsonTree& tree, std::vector<Rule>& rules)
      : text_(text), tree_(tree), rules_(rules) {}

  std::vector<SchemaProblem> compile() {
    rule(0, {});
    resolve();
    if (problems_.empty()) look_for_circles();
    return std::move(problems_);
  }

 private:
  using Keyword = void (Compiler::*)(std::uint32_t rule, std::uint32_t value, const std::string& pointer);
  struct Known {
    std::string_view name;
    Keyword read;
  };
  static const std::array<Known, 26>& keywords();

  void problem(std::uint32_t value, std::string pointer, std::string message) {
    if (problems_.size() >= kMostSchemaProblems) return;
    const std::string_view before = text_.substr(0, tree_[value].at);
    const std::size_t line_begin = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
    problems_.push_back({std::move(pointer),
                         std::move(message),
                         static_cast<int>(std::ranges::count(before, '\n')) + 1,
                         static_cast<int>(before.size() - line_begin) + 1});
  }

  std::uint32_t rule(std::uint32_t value, const std::string& pointer) {
    const auto index = static_cast<std::uint32_t>(rules_.size());
    if (rules_.size() >= kMostRules) {
      if (rules_.size() == kMostRules) problem(value, pointer, "there are more than 10000 schemas in this one");
      return 0;
    }
    rules_.emplace_back();
    places_.push_back({value, pointer});
    const JsonValue& found = tree_[value];
    if (found.kind == Kind::False) rules_[index].nothing = true;
    if (found.kind == Kind::False || found.kind == Kind::True) return index;
    if (found.kind != Kind::Object) {
      problem(value,
              pointer,
              "must be a schema: an object, true or false (is " + with_article(name_of(found.kind)) + ")");
      return index;
    }
    for (std::uint32_t i = value + 1; i < found.end; i = tree_[i].end) {
      const std::string name = unescaped(tree_[i].key);
      const std::string below = pointer_to(pointer, name);
      if (std::ranges::find(kAnnotations, name) != kAnnotations.end()) continue;
      const auto known = std::ranges::find(keywords(), name, &Known::name);
      if (known == keywords().end()) {
        problem(i, below, say_unknown(name));
      } else {
        (this->*known->read)(index, i, below);
      }
    }
    return index;
  }

  static std::string say_unknown(const std::string& name) {
    std::vector<std::string> names;
    std::string list;
    for (const Known& known : keywords()) {
      names.emplace_back(known.name);
      list += (list.empty() ? "" : ", ") + std::string{known.name};
    }
    if (name == "definitions") return "is not supported; in 2020-12 it is called $defs";
    const std::string meant = nearest(name, names);
    return "is not supported" + (meant.empty() ? "; known are: " + list : "; did you mean " + meant + "?");
  }

  bool is(Kind kind, std::uint32_t value, const std::string& pointer) {
    const JsonValue& found = tree_[value];
    if (found.kind == kind) return true;
    problem(
        value, pointer, "must be " + with_article(name_of(kind)) + " (is " + with_article(name_of(found.kind)) + ")");
    return false;
  }

  void read_type(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    const JsonValue& found = tree_[value];
    const auto add = [&](std::uint32_t one) {
      const auto type = tree_[one].kind == Kind::String ? std::ranges::find(kTypes, tree_[one].text) : kTypes.end();
      if (type == kTypes.end())
        return problem(one, pointer, "must be null, boolean, number, integer, string, array or object");
      rules_[rule].types |= 1U << static_cast<std::size_t>(type - kTypes.begin());
    };
    if (found.kind != Kind::Array) return add(value);
    if (found.count == 0) return problem(value, pointer, "must name at least one type");
    for (std::uint32_t i = value + 1; i < found.end; i = tree_[i].end) add(i);
  }

  void allow(std::uint32_t rule, std::uint32_t value) {
    Rule& into = rules_[rule];
    std::string text;
    canonical(tree_, value, text);
    into.values.push_back(std::move(text));
    const std::size_t begin = tree_[value].at;
    const JsonValue& found = tree_[value];
    const bool plain = found.kind != Kind::Array && found.kind != Kind::Object;
    std::string shown = "an " + std::string{name_of(found.kind)};
    if (plain) shown = found.kind == Kind::String ? '"' + std::string{found.text} + '"' : std::string{found.text};
    if (plain && shown.empty()) shown = found.kind == Kind::Null ? "null" : text_[begin] == 't' ? "true" : "false";
    if (into.shown.size() > kListShown) {
      if (!into.shown.ends_with("…")) into.shown += ", …";
      return;
    }
    if (shown.size() > kListShown) shown = "a long text";
    into.shown += (into.shown.empty() ? "" : ", ") + shown;
  }
  void read_enum(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    if (!is(Kind::Array, value, pointer)) return;
    if (tree_[value].count == 0) return problem(value, pointer, "must have at least one value");
    if (std::exchange(rules_[rule].listed, true))
      return problem(value, pointer, "stands beside const; one is enough");
    for (std::uint32_t i = value + 1; i < tree_[value].end; i = tree_[i].end) allow(rule, i);
    std::ranges::sort(rules_[rule].values);
  }
  void read_const(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    if (std::exchange(rules_[rule].listed, true)) return problem(value, pointer, "stands beside enum; one is enough");
    allow(rule, value);
  }

  template <std::optional<Decimal> Rule::*bound, std::string Rule::*shown>
  void read_bound(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    if (!is(Kind::Number, value, pointer)) return;
    rules_[rule].*bound = decimal_of(tree_[value].text);
    rules_[rule].*shown = tree_[value].text.substr(0, kListShown);
  }

  /// A whole number from 0 to 10^9.
  std::optional<std::uint64_t> whole(std::uint32_t value) {
    if (tree_[value].kind != Kind::Number) return std::nullopt;
    const Decimal number = decimal_of(tree_[value].text);
    if (!number.whole() || number.negative || number.exponent > 10) return std::nullopt;
    std::uint64_t read = 0;
    for (std::int64_t i = 0; i < number.exponent; ++i) {
      const auto at = static_cast<std::size_t>(i);
      read = read * 10 + (at < number.digits.size() ? static_cast<std::uint64_t>(number.digits[at] - '0') : 0);
    }
    return read <= 1'000'000'000 ? std::optional{read} : std::nullopt;
  }
  template <std::optional<std::uint64_t> Rule::*bound>
  void read_count(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    rules_[rule].*bound = whole(value);
    if (!(rules_[rule].*bound)) problem(value, pointer, "must be a whole number from 0 to 1000000000");
  }
  void read_multiple_of(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    const auto factor = whole(value);
    if (!factor || *factor == 0)
      return problem(value, pointer, "must be a whole number from 1 to 1000000000; fractions are not supported");
    rules_[rule].multiple_of = *factor;
  }
  void read_unique(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    const Kind kind = tree_[value].kind;
    if (kind != Kind::True && kind != Kind::False) return problem(value, pointer, "must be true or false");
    rules_[rule].unique = kind == Kind::True;
  }

  template <std::optional<std::uint32_t> Rule::*below>
  void read_schema(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    if (tree_[value].kind == Kind::Array)
      return problem(value, pointer, "must be one schema; a list of them is called prefixItems (items) or anyOf");
    const std::uint32_t child = this->rule(value, pointer);
    rules_[rule].*below = child;
  }
  template <std::vector<std::uint32_t> Rule::*below>
  void read_schemas(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    if (!is(Kind::Array, value, pointer)) return;
    if (tree_[value].count == 0) return problem(value, pointer, "must have at least one schema");
    std::size_t number = 0;
    for (std::uint32_t i = value + 1; i < tree_[value].end; i = tree_[i].end) {
      const std::uint32_t child = this->rule(i, pointer_to(pointer, std::to_string(number++)));
      (rules_[rule].*below).push_back(child);
    }
  }
  void read_properties(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    if (!is(Kind::Object, value, pointer)) return;
    for (std::uint32_t i = value + 1; i < tree_[value].end; i = tree_[i].end) {
      std::string name = unescaped(tree_[i].key);
      const std::uint32_t child = this->rule(i, pointer_to(pointer, name));
      rules_[rule].properties.emplace(std::move(name), child);
    }
  }
  void read_required(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    if (!is(Kind::Array, value, pointer)) return;
    for (std::uint32_t i = value + 1; i < tree_[value].end; i = tree_[i].end) {
      if (!is(Kind::String, i, pointer)) return;
      const std::size_t number = rules_[rule].required.size();
      rules_[rule].required.emplace(unescaped(tree_[i].text), number);
    }
  }
  void read_definitions(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    if (rule != 0) return problem(value, pointer, "may stand only at the top of the schema");
    if (!is(Kind::Object, value, pointer)) return;
    for (std::uint32_t i = value + 1; i < tree_[value].end; i = tree_[i].end) {
      std::string name = unescaped(tree_[i].key);
      const std::uint32_t child = this->rule(i, pointer_to(pointer, name));
      definitions_.emplace(std::move(name), child);
    }
  }
  void read_reference(std::uint32_t rule, std::uint32_t value, const std::string& pointer) {
    if (is(Kind::String, value, pointer)) references_.push_back({rule, value, pointer});
  }

  /// When all definitions are known.
  void resolve() {
    for (const auto& [rule, value, pointer] : references_) {
      const std::string target = unescaped(tree_[value].text);
      constexpr std::string_view kHere = "#/$defs/";
      std::string name;
      for (std::size_t i = kHere.size(); i < target.size(); ++i) {
        const bool escape = target[i] == '~' && i + 1 < target.size();
        name += escape ? (target[++i] == '1' ? '/' : '~') : target[i];
      }
      const auto found = definitions_.find(name);
      if (target == "#") {
        rules_[rule].reference = 0;
      } else if (!target.starts_with(kHere)) {
        problem(value, pointer, "must be # or #/$defs/NAME; schemas elsewhere are not fetched");
      } else if (found == definitions_.end()) {
        std::vector<std::string> names;
        for (const auto& [known, index] : definitions_) names.push_back(known);
        const std::string meant = nearest(name, names);
        problem(value, pointer, "names no schema in $defs" + (meant.empty() ? "" : "; did you mean " + meant + "?"));
      } else {
        rules_[rule].reference = found->second;
      }
    }
  }

  /// A schema that leads back to itself without going into the value would never come to an end.
  void look_for_circles() {
    lengths_.assign(rules_.size(), 0);
    for (std::uint32_t i = 0; i < rules_.size() && problems_.empty(); ++i) length_of(i, 1);
  }
  int length_of(std::uint32_t index, int depth) {
    constexpr int kOpen = -1;
    if (lengths_[index] == kOpen) {
      problem(places_[index].value, places_[index].pointer, "refers to itself without an end");
      return 0;
    }
    if (depth > kLongestChain || depth + lengths_[index] > kLongestChain + 1) {
      problem(places_[index].value, places_[index].pointer, "is the end of more than 100 schemas for one value");
      return 0;
    }
    if (lengths_[index] > 0) return lengths_[index];
    lengths_[index] = kOpen;
    const Rule& rule = rules_[index];
    int longest = 0;
    const auto follow = [&](std::uint32_t next) {
      if (problems_.empty()) longest = std::max(longest, length_of(next, depth + 1));
    };
    for (const auto* list : {&rule.all, &rule.any, &rule.one}) {
      for (const std::uint32_t next : *list) follow(next);
    }
    if (rule.inverse) follow(*rule.inverse);
    if (rule.reference) follow(*rule.reference);
    lengths_[index] = longest + 1;
    return longest + 1;
  }

  struct Place {
    std::uint32_t value;
    std::string pointer;
  };
  struct Reference {
    std::uint32_t rule;
    std::uint32_t value;
    std::string pointer;
  };
  std::string_view text_;
  const JsonTree& tree_;
  std::vector<Rule>& rules_;
  std::vector<Place> places_{};  // Of the rules.
  std::vector<Reference> references_{};
  std::map<std::string, std::uint32_t, std::less<>> definitions_{};
  std::vector<int> lengths_{};
  std::vector<SchemaProblem> problems_{};
};

const std::array<Compiler::Known, 26>& Compiler::keywords() {
  using C = Compiler;
  static constexpr std::array<Known, 26> kKeywords{{
      {"type", &C::read_type},
      {"enum", &C::read_enum},
      {"const", &C::read_const},
      {"properties", &C::read_properties},
      {"required", &C::read_required},
      {"additionalProperties", &C::read_schema<&Rule::additional>},
      {"minProperties", &C::read_count<&Rule::min_members>},
      {"maxProperties", &C::read_count<&Rule::max_members>},
      {"items", &C::read_schema<&Rule::items>},
      {"prefixItems", &C::read_schemas<&Rule::prefix>},
      {"minItems", &C::read_count<&Rule::min_items>},
      {"maxItems", &C::read_count<&Rule::max_items>},
      {"uniqueItems", &C::read_unique},
      {"minimum", &C::read_bound<&Rule::minimum, &Rule::minimum_text>},
      {"maximum", &C::read_bound<&Rule::maximum, &Rule::maximum_text>},
      {"exclusiveMinimum", &C::read_bound<&Rule::above, &Rule::above_text>},
      {"exclusiveMaximum", &C::read_bound<&Rule::below, &Rule::below_text>},
      {"multipleOf", &C::read_multiple_of},
      {"minLength", &C::read_count<&Rule::min_length>},
      {"maxLength", &C::read_count<&Rule::max_length>},
      {"allOf", &C::read_schemas<&Rule::all>},
      {"anyOf", &C::read_schemas<&Rule::any>},
      {"oneOf", &C::read_schemas<&Rule::one>},
      {"not", &C::read_schema<&Rule::inverse>},
      {"$ref", &C::read_reference},
      {"$defs", &C::read_definitions},
  }};
  return kKeywords;
}

/// The way to a value, made into text only where something is wrong.
struct Where {
  const Where* above = nullptr;
  std::string_view key{};
  std::size_t number = 0;
  bool item = false;
};
std::string pointer_of(const Where* where) {
  if (!where || !where->above) return {};
  std::vector<const Where*> way;
  for (; where->above; where = where->above) way.push_back(where);
  std::string pointer;
  for (auto step = way.rbegin(); step != way.rend(); ++step)
    pointer = pointer_to(pointer, (*step)->item ? std::to_string((*step)->number) : unescaped((*step)->key));
  return pointer;
}

/// One payload beside the rules.
class Check {
 public:
  Check(const std::vector<Rule>& rules, const JsonTree& tree) : rules_(rules), tree_(tree) {}

  std::vector<PayloadFault> run() {
    const Where root{};
    fits(0, 0, root, true);
    if (spent_) return {{{}, "takes too much work to be checked by this schema"}};
    return std::move(faults_);
  }

 private:
  [[nodiscard]] bool enough(bool told) const { return spent_ || (told && faults_.size() >= kMostPayloadFaults); }

  void work(std::size_t amount) {
    work_ += amount;
    if (work_ > kMostWork) spent_ = true;
  }

  /// `told`: what is wrong is told, all of it; else the first thing decides.
  bool fits(std::uint32_t rule_index, std::uint32_t index, const Where& where, bool told) {
    work(1);
    if (++depth_ > kDeepestCheck) spent_ = true;
    const bool good = !spent_ && look(rules_[rule_index], index, where, told);
    --depth_;
    return good;
  }

  bool look(const Rule& rule, std::uint32_t index, const Where& where, bool told) {
    const JsonValue& value = tree_[index];
    bool good = true;
    const auto wrong = [&](std::string expected) {
      good = false;
      if (told && faults_.size() < kMostPayloadFaults) faults_.push_back({pointer_of(&where), std::move(expected)});
    };
    if (rule.nothing) {
      wrong("must not be there");
      return false;
    }
    if (rule.types != 0 && !is_of(rule.types, value)) {
      wrong("must be " + said_types(rule.types));
      return false;  // All else would be noise.
    }
    if (rule.listed && !in(rule.values, index))
      wrong("must be " + std::string{rule.values.size() > 1 ? "one of " : ""} + rule.shown);
    if (!good && !told) return false;
    if (value.kind == Kind::Number) look_at_number(rule, value, wrong);
    if (value.kind == Kind::String) look_at_text(rule, value, wrong);
    if (!good && !told) return false;
    if (value.kind == Kind::Array) good = look_at_items(rule, index, where, told, wrong) && good;
    if (value.kind == Kind::Object) good = look_at_members(rule, index, where, told, wrong) && good;
    if (!good && (!told || enough(told))) return false;
    return look_in_place(rule, index, where, told, wrong) && good;
  }

  static bool is_of(std::uint32_t types, const JsonValue& value) {
    if (types >> type_index(value.kind) & 1U) return true;
    return (types >> kIntegerType & 1U) && value.kind == Kind::Number && decimal_of(value.text).whole();
  }

  std::string canonical_of(std::uint32_t index) {
    std::string text;
    work(tree_[index].end - index);
    if (!spent_) canonical(tree_, index, text);
    work(text.size() / kBytesOfWork);
    return text;
  }
  bool in(const std::vector<std::string>& values, std::uint32_t index) {
    return std::ranges::binary_search(values, canonical_of(index));
  }

  template <typename Wrong>
  void look_at_number(const Rule& rule, const JsonValue& value, const Wrong& wrong) {
    if (!rule.minimum && !rule.maximum && !rule.above && !rule.below && rule.multiple_of == 0) return;
    const Decimal number = decimal_of(value.text);
    if (rule.minimum && less(number, *rule.minimum)) wrong("must be at least " + rule.minimum_text);
    if (rule.maximum && less(*rule.maximum, number)) wrong("must be at most " + rule.maximum_text);
    if (rule.above && !less(*rule.above, number)) wrong("must be above " + rule.above_text);
    if (rule.below && !less(number, *rule.below)) wrong("must be below " + rule.below_text);
    if (rule.multiple_of != 0 && !number.multiple_of(rule.multiple_of))
      wrong("must be a multiple of " + std::to_string(rule.multiple_of));
  }

  template <typename Wrong>
  void look_at_text(const Rule& rule, const JsonValue& value, const Wrong& wrong) {
    if (!rule.min_length && !rule.max_length) return;
    work(value.text.size() / kBytesOfWork);
    const std::string text = unescaped(value.text);
    const auto length = static_cast<std::uint64_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
    bounded(length, rule.min_length, rule.max_length, "characters", wrong);
  }

  template <typename Wrong>
  static void bounded(std::uint64_t count, const std::optional<std::uint64_t>& least,
                      const std::optional<std::uint64_t>& most, const std::string& of, const Wrong& wrong) {
    if (least && count < *least) wrong("must have at least " + std::to_string(*least) + " " + of);
    if (most && count > *most) wrong("must have at most " + std::to_string(*most) + " " + of);
  }

  template <typename Wrong>
  bool look_at_items(const Rule& rule, std::uint32_t index, const Where& where, bool told, const Wrong& wrong) {
    const JsonValue& array = tree_[index];
    bounded(array.count, rule.min_items, rule.max_items, "items", wrong);
    if (rule.unique && array.count > 1) {
      std::vector<std::string> texts;
      for (std::uint32_t i = index + 1; i < array.end && !spent_; i = tree_[i].end) texts.push_back(canonical_of(i));
      std::ranges::sort(texts);
      if (std::ranges::adjacent_find(texts) != texts.end()) wrong("must not have an item twice");
    }
    if (!rule.items && rule.prefix.empty()) return true;
    bool good = true;
    std::size_t number = 0;
    for (std::uint32_t i = index + 1; i < array.end; i = tree_[i].end, ++number) {
      const bool prefixed = number < rule.prefix.size();
      if (!prefixed && !rule.items) break;
      const Where item{.above = &where, .number = number, .item = true};
      good = fits(prefixed ? rule.prefix[number] : *rule.items, i, item, told) && good;
      if ((!good && !told) || enough(told)) return false;
    }
    return good;
  }

  template <typename Wrong>
  bool look_at_members(const Rule& rule, std::uint32_t index, const Where& where, bool told, const Wrong& wrong) {
    const JsonValue& object = tree_[index];
    bounded(object.count, rule.min_members, rule.max_members, "members", wrong);
    bool good = true;
    if (!rule.required.empty() || !rule.properties.empty() || rule.additional) {
      work(rule.required.size() / kBytesOfWork);
      std::vector<bool> there(rule.required.size());
      std::string plain;
      for (std::uint32_t i = index + 1; i < object.end; i = tree_[i].end) {
        std::string_view name = tree_[i].key;
        if (name.find('\\') != std::string_view::npos) name = plain = unescaped(name);
        if (const auto needed = rule.required.find(name); needed != rule.required.end()) there[needed->second] = true;
        const auto own = rule.properties.find(name);
        if (own == rule.properties.end() && !rule.additional) continue;
        const Where member{.above = &where, .key = tree_[i].key};
        good = fits(own != rule.properties.end() ? own->second : *rule.additional, i, member, told) && good;
        if ((!good && !told) || enough(told)) return false;
      }
      for (const auto& [name, number] : rule.required) {
        if (!there[number]) wrong("needs " + pointer_to({}, name).substr(1));
      }
    }
    return good;
  }

  /// What looks at the same value. Of the ways of anyOf and oneOf only their number is told: which one was meant
  /// nobody knows.
  template <typename Wrong>
  bool look_in_place(const Rule& rule, std::uint32_t index, const Where& where, bool told, const Wrong& wrong) {
    bool good = true;
    const auto count = [&](const std::vector<std::uint32_t>& ways, std::size_t most) {
      std::size_t fitting = 0;
      for (const std::uint32_t way : ways) {
        if (fits(way, index, where, false) && ++fitting == most) break;
      }
      return fitting;
    };
    for (const std::uint32_t part : rule.all) {
      good = fits(part, index, where, told) && good;
      if ((!good && !told) || enough(told)) return false;
    }
    if (rule.reference) good = fits(*rule.reference, index, where, told) && good;
    if ((!good && !told) || enough(told)) return false;
    const auto say = [&](std::string text) {
      wrong(std::move(text));
      good = false;
    };
    if (!rule.any.empty() && count(rule.any, 1) == 0)
      say("must fit one of the " + std::to_string(rule.any.size()) + " ways of anyOf");
    if (!rule.one.empty()) {
      const std::size_t fitting = count(rule.one, 2);
      if (fitting != 1)
        say("must fit exactly one of the " + std::to_string(rule.one.size()) + " ways of oneOf (fits " +
            (fitting == 0 ? "none" : "more") + ")");
    }
    if (rule.inverse && fits(*rule.inverse, index, where, false)) say("must not fit what stands in not");
    return good;
  }

  const std::vector<Rule>& rules_;
  const JsonTree& tree_;
  std::vector<PayloadFault> faults_{};
  std::size_t work_ = 0;
  int depth_ = 0;
  bool spent_ = false;
};

}  // namespace

class JsonSchema::Impl {
 public:
  std::vector<Rule> rules{};
};

JsonSchema::JsonSchema(std::string source, std::unique_ptr<const Impl> impl)
    : source_(std::move(source)), impl_(std::move(impl)) {}
JsonSchema::~JsonSchema() = default;

std::expected<std::shared_ptr<const JsonSchema>, std::vector<SchemaProblem>> JsonSchema::read(std::string text) {
  const auto tree = JsonTree::read(text);
  if (!tree) {
    const JsonFault& fault = tree.error();
    const std::string_view before = std::string_view{text}.substr(0, fault.at);
    const std::size_t newline = before.rfind('\n');
    const std::size_t column = before.size() - (newline == before.npos ? 0 : newline + 1) + 1;
    return std::unexpected(std::vector<SchemaProblem>{{fault.pointer,
                                                       fault.message,
                                                       static_cast<int>(std::ranges::count(before, '\n')) + 1,
                                                       static_cast<int>(column)}});
  }
  auto impl = std::make_unique<Impl>();
  if (auto problems = Compiler{text, *tree, impl->rules}.compile(); !problems.empty())
    return std::unexpected(std::move(problems));
  return std::shared_ptr<const JsonSchema>{new JsonSchema{std::move(text), std::move(impl)}};
}

std::vector<PayloadFault> JsonSchema::check(std::string_view body) const {
  const auto tree = JsonTree::read(body);
  if (!tree) return {{tree.error().pointer, tree.error().message}};
  return check(*tree);
}

std::vector<PayloadFault> JsonSchema::check(const JsonTree& body) const { return Check{impl_->rules, body}.run(); }

std::string text_of(const PayloadFault& fault) {
  return (fault.pointer.empty() ? "the body" : fault.pointer) + " " + fault.expected;
}

}  // namespace gateway
