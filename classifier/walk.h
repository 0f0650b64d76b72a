#pragma once
// How is JSON walked once, in the order in which it stands, without building anything? For .cpp files that have
// included simdjson; this header knows its types only as template arguments, so that it need not include it.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "classifier/dialect.h"
#include "classifier/json.h"
#include "classifier/reported.h"

namespace classifier::walk {

/// Counts beyond that are junk, and sums of a few of them still fit.
inline constexpr std::int64_t kCountMax = std::int64_t{1} << 53U;

/// No reader here goes deeper; what is passed over may be as deep as it likes.
inline constexpr std::size_t kDepthMax = 32;

enum class Broken : std::uint8_t { Repair, Refuse };  // What to do with text that is not whole UTF-8.

/// Calls `each(document)`, which says whether it could read it.
template <class Parser, class Each>
[[nodiscard]] bool document(PaddedJson json, Each&& each, Broken broken = Broken::Repair) {
  const std::string_view text = without_bom(json.text);
  // One parser serves all that is small: its room is worth more than the walk. No `each` parses again, and this room
  // is the I/O thread's alone.
  static constexpr std::size_t kShared = std::size_t{64} << 10U;
  static Parser shared;
  Parser own;
  Parser& parser = text.size() <= kShared ? shared : own;
  // A parser makes room for a depth of a thousand unless it is told.
  const std::size_t room = text.size() <= kShared ? kShared : text.size();
  if (parser.capacity() < text.size() && parser.allocate(room, kDepthMax)) return false;
  auto result = parser.iterate(text.data(), text.size(), text.size() + kBodyPadding);
  if (!result.error()) return each(result.value_unsafe());
  if (broken == Broken::Refuse || utf8_whole(text)) return false;
  // Models emit broken characters, and an echo may be cut inside one; all else of the text is as good as ever.
  const std::string repaired = as_utf8(text);
  return document<Parser>(PaddedJson{repaired}, each, Broken::Refuse);
}

/// Calls `each(key, value)` for the members of an object. False if it is not whole.
template <class Object, class Each>
bool members(Object&& object, Each&& each) {
  for (auto field : object) {
    if (field.error()) return false;
    auto raw = field.key();
    if (raw.error()) return false;
    const char* const from = raw.value_unsafe().raw();
    const char* to = from;
    while (*to != '"' && *to != '\\') ++to;
    std::string_view key{from, static_cast<std::size_t>(to - from)};
    // "\u006dodel" is "model" to whoever gets it. What cannot be read is no name that we know.
    if (*to == '\\' && field.unescaped_key().get(key)) key = {};
    auto value = field.value();
    if (value.error()) return false;
    each(key, value.value_unsafe());
  }
  return true;
}

/// The same for a value that should be an object; anything else is passed over.
template <class Value, class Each>
bool object_members(Value&& value, Each&& each) {
  auto object = value.get_object();
  if (object.error()) return false;
  return members(object.value_unsafe(), each);
}

/// Calls `each(element)` for a value that should be an array. The count of elements, nothing if it is none.
template <class Value, class Each>
std::optional<std::size_t> elements(Value&& value, Each&& each) {
  auto array = value.get_array();
  if (array.error()) return std::nullopt;
  std::size_t count = 0;
  for (auto element : array.value_unsafe()) {
    if (element.error()) break;
    ++count;
    each(element.value_unsafe());
  }
  return count;
}

/// Valid until the document is let go. Empty for what is no string.
template <class Value>
std::string_view text(Value&& value) {
  std::string_view out;
  if (value.get_string().get(out)) return {};
  return out;
}

template <class Value>
std::optional<bool> truth(Value&& value) {
  bool out = false;
  if (value.get_bool().get(out)) return std::nullopt;
  return out;
}

/// A count: a whole number that is not negative, also when it is written as 12.0.
template <class Value>
std::optional<std::int64_t> count(Value&& value) {
  std::int64_t whole = 0;
  if (!value.get_int64().get(whole)) {
    if (whole < 0 || whole > kCountMax) return std::nullopt;
    return whole;
  }
  double number = 0.0;
  if (value.get_double().get(number)) return std::nullopt;
  if (!(number >= 0.0) || number > static_cast<double>(kCountMax) || std::floor(number) != number)
    return std::nullopt;
  return static_cast<std::int64_t>(number);
}

/// A name that the provider gives: the last one that is not empty, and never more than a name's length of it.
inline constexpr std::size_t kNameMax = 128;
template <class Value>
void keep_name(std::string& into, Value&& value) {
  const std::string_view name = text(value).substr(0, kNameMax);
  if (!name.empty() && into != name) into = name;
}

/// The same in quotes, as some write numbers of 64 bits.
inline std::optional<std::int64_t> count_in(std::string_view digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number >= 0 && number <= kCountMax ? std::optional{number} : std::nullopt;
}

/// Overwrites only with what is there. What is there and can be no count is kept as kUnreadable (reported.h): it must
/// not be taken for zero.
template <class Value>
void keep_count(std::optional<std::int64_t>& into, Value&& value) {
  const std::string_view token = value.raw_json_token();
  if (token.starts_with('n')) return;
  into = (token.starts_with('"') ? count_in(text(value)) : count(value)).value_or(kUnreadable);
}

/// The same for all input or all output, where null says that nobody knows. A stream's later events may leave out by
/// null what an earlier one told.
template <class Value>
void keep_whole(std::optional<std::int64_t>& into, Value&& value) {
  if (std::string_view{value.raw_json_token()}.starts_with('n')) {
    if (!into) into = kNull;
  } else {
    keep_count(into, value);
  }
}

/// A quantity beside the counts, or a part of one: what is none says nothing.
template <class Value>
void keep_billed(std::int64_t& into, Value&& value) {
  std::optional<std::int64_t> number;
  keep_count(number, value);
  if (number && *number >= 0) into = *number;
}

/// Seconds, whole or not, as milliseconds; what is no such number says nothing.
template <class Value>
void keep_seconds(std::int64_t& into_ms, Value&& value) {
  constexpr double kSecondsMax = 1e9;
  double seconds = 0.0;
  if (value.get_double().get(seconds) || !(seconds >= 0.0) || seconds > kSecondsMax) return;
  into_ms = static_cast<std::int64_t>(std::ceil(seconds * 1000.0 - 1e-6));
}

/// A decimal number as it is written, quoted or not: money is not read by way of a fraction. Empty for anything else.
template <class Value>
std::string decimal(Value&& value) {
  constexpr std::size_t kDigitsMax = 40;
  std::string_view token = value.raw_json_token();
  if (token.starts_with('"')) token = text(value);
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ') token.remove_suffix(1);
  const bool number = !token.empty() && token.front() >= '0' && token.front() <= '9' && token.size() <= kDigitsMax;
  return number ? std::string{token} : std::string{};
}

/// The same number may have several spellings; where they differ, some are only there for form and say zero.
template <class Value>
void keep_largest(std::optional<std::int64_t>& into, Value&& value) {
  std::optional<std::int64_t> number;
  keep_count(number, value);
  if (number) into = into ? std::max(*into, *number) : number;
}

/// A document that is an object, or an array of them (a stream in one piece; gateways that wrap their errors).
template <class Document, class Each>
bool each_object(Document& document, Each&& each) {
  auto object = document.get_object();
  if (!object.error()) return each(object.value_unsafe());
  auto array = document.get_array();
  if (array.error()) return false;
  bool any = false;
  for (auto element : array.value_unsafe()) {
    auto inner = element.get_object();
    if (inner.error() || !each(inner.value_unsafe())) return false;
    any = true;
  }
  return any;
}

/// Null, "", [] and {} hold nothing.
template <class Value>
bool holds_something(Value&& value) {
  const std::string_view token = value.raw_json_token();
  if (token.starts_with("\"\"") || token.starts_with('n')) return false;
  if (token.starts_with('[')) {
    auto array = value.get_array();
    bool empty = true;
    if (array.error() || array.value_unsafe().is_empty().get(empty)) return false;
    return !empty;
  }
  if (token.starts_with('{')) {
    auto object = value.get_object();
    bool empty = true;
    if (object.error() || object.value_unsafe().is_empty().get(empty)) return false;
    return !empty;
  }
  return true;
}

}  // namespace classifier::walk
