#include "gateway/json_tree.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "gateway/json_out.h"

namespace gateway {
namespace {

using Kind = JsonValue::Kind;

constexpr std::size_t kLongestText = std::size_t{1} << 31U;  // So that places fit into 32 bits.
constexpr std::size_t kNameShown = 64;
constexpr std::size_t kPointerShown = 512;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The four hexadecimal digits at `at`; -1: they are none.
int unit_at(std::string_view text, std::size_t at) {
  if (at + 4 > text.size()) return -1;
  int unit = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    const int digit = hex_digit(text[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}
bool is_high(int unit) { return unit >= 0xD800 && unit <= 0xDBFF; }
bool is_low(int unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }

/// Bytes of the UTF-8 character that begins at `at`; 0: none does.
std::size_t character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool beyond = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return overlong || beyond ? 0 : length;
}

/// Without recursion: a text decides nothing about our stack.
class JsonReader {
 public:
  JsonReader(std::string_view text, std::vector<JsonValue>& values, JsonTree::Twice twice)
      : text_(text), values_(values), twice_(twice) {}

  bool read() {
    if (text_.size() >= kLongestText) return fail("is too large");
    do {
      if (!value()) return false;
    } while (!open_.empty());
    blanks();
    return at_ == text_.size() || fail("ends before its text does");
  }
  JsonFault fault{};

 private:
  bool fail(std::string message) {
    fault.at = at_;
    fault.message = std::move(message);
    // The way down to what is open.
    for (std::size_t depth = 0; depth + 1 < open_.size(); ++depth) {
      const JsonValue& container = values_[open_[depth]];
      std::uint32_t child = open_[depth] + 1;
      for (std::uint32_t i = 1; i < container.count; ++i) child = values_[child].end;
      const bool is_object = container.kind == Kind::Object;
      fault.pointer =
          pointer_to(fault.pointer, is_object ? unescaped(values_[child].key) : std::to_string(container.count - 1));
    }
    return false;
  }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }
  bool bad() { return fail(at_ >= text_.size() ? "is cut off" : "has something that is no JSON"); }

  /// One scalar or the beginning of a container, and the ends of all that end with it.
  bool value() {
    std::string_view key;
    if (!open_.empty() && values_[open_.back()].kind == Kind::Object) {
      blanks();
      if (!string(key)) return false;
      blanks();
      if (peek() != ':') return bad();
      ++at_;
    }
    blanks();
    if (values_.size() >= kMostJsonValues)
      return fail("has more than " + std::to_string(kMostJsonValues) + " values");
    const auto index = static_cast<std::uint32_t>(values_.size());
    JsonValue found{.end = index + 1, .at = static_cast<std::uint32_t>(at_), .key = key};
    const char first = peek();
    if (first == '{' || first == '[') {
      if (open_.size() >= kDeepestJson) return fail("is nested deeper than " + std::to_string(kDeepestJson));
      found.kind = first == '{' ? Kind::Object : Kind::Array;
      ++at_;
      add(found);
      open_.push_back(index);
      blanks();
      if (peek() != (first == '{' ? '}' : ']')) return true;
      ++at_;
      return close() && next();
    }
    if (first == '"') {
      found.kind = Kind::String;
      if (!string(found.text)) return false;
    } else if (first == '-' || is_digit(first)) {
      found.kind = Kind::Number;
      if (!number(found.text)) return false;
    } else if (!word("null", Kind::Null, found) && !word("false", Kind::False, found) &&
               !word("true", Kind::True, found)) {
      return bad();
    }
    found.until = static_cast<std::uint32_t>(at_);
    add(found);
    return next();
  }

  void add(const JsonValue& found) {
    values_.push_back(found);
    if (!open_.empty()) ++values_[open_.back()].count;
  }

  /// Behind a value: a comma and then the next one, or ends.
  bool next() {
    while (!open_.empty()) {
      blanks();
      if (peek() == ',') {
        ++at_;
        return true;
      }
      if (peek() != (values_[open_.back()].kind == Kind::Object ? '}' : ']')) return bad();
      ++at_;
      if (!close()) return false;
    }
    return true;
  }

  bool close() {
    JsonValue& container = values_[open_.back()];
    container.end = static_cast<std::uint32_t>(values_.size());
    container.until = static_cast<std::uint32_t>(at_);
    if (twice_ == JsonTree::Twice::Refused && container.kind == Kind::Object && container.count > 1) {
      std::vector<std::string> names;
      names.reserve(container.count);
      for (std::uint32_t i = open_.back() + 1; i < container.end; i = values_[i].end)
        names.push_back(unescaped(values_[i].key));
      std::ranges::sort(names);
      const auto twice = std::ranges::adjacent_find(names);
      if (twice != names.end()) {
        return fail("has the name " + pointer_to({}, *twice).substr(1) + " twice in one object");
      }
    }
    open_.pop_back();
    return true;
  }

  bool word(std::string_view text, Kind kind, JsonValue& found) {
    if (text_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    found.kind = kind;
    return true;
  }

  bool digits() {
    if (!is_digit(peek())) return bad();
    while (is_digit(peek())) ++at_;
    return true;
  }
  bool number(std::string_view& out) {
    const std::size_t begin = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else if (!digits()) {
      return false;
    }
    if (peek() == '.') {
      ++at_;
      if (!digits()) return false;
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return false;
    }
    out = text_.substr(begin, at_ - begin);
    if (out.size() > kLongestNumber)
      return fail("has a number of more than " + std::to_string(kLongestNumber) + " characters");
    return true;
  }

  bool string(std::string_view& out) {
    if (peek() != '"') return bad();
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') {
        if (!escape()) return false;
        continue;
      }
      if (static_cast<unsigned char>(text_[at_]) < ' ') return fail("has a control character in a string");
      const std::size_t length = character_at(text_, at_);
      if (length == 0) return fail("has bytes that are no UTF-8");
      at_ += length;
    }
    if (at_ >= text_.size()) return bad();
    out = text_.substr(begin, at_ - begin);
    ++at_;
    return true;
  }

  bool escape() {
    const char kind = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (kind != 'u') {
      if (kind == '\0' || std::string_view{"\"\\/bfnrt"}.find(kind) == std::string_view::npos)
        return fail("has an escape that JSON does not know");
      at_ += 2;
      return true;
    }
    const int unit = unit_at(text_, at_ + 2);
    const bool pair = is_high(unit) && text_.substr(at_ + 6, 2) == "\\u" && is_low(unit_at(text_, at_ + 8));
    if (unit < 0 || (!pair && (is_high(unit) || is_low(unit)))) return fail("has a \\u that is no character");
    at_ += pair ? 12 : 6;
    return true;
  }

  std::string_view text_;
  std::vector<JsonValue>& values_;
  JsonTree::Twice twice_;
  std::size_t at_ = 0;
  std::vector<std::uint32_t> open_{};
};

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | (code >> 6U));
  } else {
    if (code < 0x10000) {
      put(0xE0 | (code >> 12U));
    } else {
      put(0xF0 | (code >> 18U));
      put(0x80 | ((code >> 12U) & 0x3FU));
    }
    put(0x80 | ((code >> 6U) & 0x3FU));
  }
  put(0x80 | (code & 0x3FU));
}

}  // namespace

std::expected<JsonTree, JsonFault> JsonTree::read(std::string_view text, Twice twice) {
  JsonTree tree;
  JsonReader reader{text, tree.values_, twice};
  if (!reader.read()) return std::unexpected(std::move(reader.fault));
  return tree;
}

std::uint32_t JsonTree::member(std::uint32_t index, std::string_view name) const {
  const JsonValue& object = values_[index];
  if (object.kind != Kind::Object) return 0;
  for (std::uint32_t i = index + 1; i < object.end; i = values_[i].end) {
    const std::string_view key = values_[i].key;
    const bool plain = key.find('\\') == std::string_view::npos;
    if (plain ? key == name : unescaped(key) == name) return i;
  }
  return 0;
}

std::uint32_t JsonTree::item(std::uint32_t index, std::size_t number) const {
  const JsonValue& array = values_[index];
  if (array.kind != Kind::Array || number >= array.count) return 0;
  std::uint32_t found = index + 1;
  while (number-- > 0) found = values_[found].end;
  return found;
}

std::string unescaped(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out += raw[i];
      continue;
    }
    const char kind = raw[++i];
    constexpr std::string_view kLetters = "bfnrt";
    constexpr std::string_view kMeant = "\b\f\n\r\t";
    if (const std::size_t letter = kLetters.find(kind); letter != std::string_view::npos) {
      out += kMeant[letter];
    } else if (kind != 'u') {
      out += kind;
    } else {
      const int unit = unit_at(raw, i + 1);
      auto code = static_cast<std::uint32_t>(unit);
      i += 4;
      if (is_high(unit)) {
        code = 0x10000 + ((code - 0xD800) << 10U) + (static_cast<std::uint32_t>(unit_at(raw, i + 3)) - 0xDC00);
        i += 6;
      }
      append_utf8(out, code);
    }
  }
  return out;
}

std::string pointer_to(std::string_view pointer, std::string_view name) {
  std::string out{pointer};
  if (out.size() > kPointerShown) return out.ends_with("/…") ? out : out + "/…";
  std::string step;
  append_escaped(step, name, kNameShown);
  out += '/';
  for (const char c : step) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, 7> kNames{
      "null", "boolean", "boolean", "number", "string", "array", "object"};
  return kNames[static_cast<std::size_t>(kind)];
}

Decimal decimal_of(std::string_view number) {
  constexpr std::int64_t kFar = 1'000'000'000'000'000;  // An exponent beyond it is as good as it.
  Decimal out;
  out.negative = number.starts_with('-');
  if (out.negative) number.remove_prefix(1);
  const std::size_t e = std::min(number.find_first_of("eE"), number.size());
  if (e < number.size()) {
    std::string_view exponent = number.substr(e + 1);
    const bool down = exponent.starts_with('-');
    if (down || exponent.starts_with('+')) exponent.remove_prefix(1);
    std::int64_t read = 0;
    const auto [end, error] = std::from_chars(exponent.data(), exponent.data() + exponent.size(), read);
    if (error != std::errc{} || read > kFar) read = kFar;
    out.exponent = down ? -read : read;
  }
  std::string_view digits = number.substr(0, e);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  out.digits = digits.substr(0, point);
  if (point < digits.size()) out.digits += digits.substr(point + 1);
  out.exponent += static_cast<std::int64_t>(point);
  const std::size_t first = std::min(out.digits.find_first_not_of('0'), out.digits.size());
  out.digits.erase(0, first);
  out.exponent -= static_cast<std::int64_t>(first);
  out.digits.erase(out.digits.find_last_not_of('0') + 1);
  if (out.digits.empty()) return {};
  return out;
}

bool Decimal::whole() const { return digits.empty() || exponent >= static_cast<std::int64_t>(digits.size()); }

bool Decimal::multiple_of(std::uint64_t factor) const {
  if (digits.empty()) return true;
  if (!whole() || factor == 0) return false;
  std::uint64_t rest = 0;
  for (const char c : digits) rest = (rest * 10 + static_cast<std::uint64_t>(c - '0')) % factor;
  std::uint64_t power = 10 % factor;
  for (auto zeros = static_cast<std::uint64_t>(exponent) - digits.size(); zeros > 0; zeros /= 2) {
    if (zeros % 2 == 1) rest = rest * power % factor;
    power = power * power % factor;
  }
  return rest == 0;
}

std::string Decimal::text() const {
  return digits.empty() ? "0" : (negative ? "-" : "") + digits + "e" + std::to_string(exponent);
}

bool less(const Decimal& a, const Decimal& b) {
  if (a.digits.empty() || b.digits.empty() || a.negative != b.negative) {
    const auto sign = [](const Decimal& one) { return one.digits.empty() ? 0 : one.negative ? -1 : 1; };
    return sign(a) < sign(b);
  }
  const Decimal& small = a.negative ? b : a;
  const Decimal& large = a.negative ? a : b;
  return small.exponent != large.exponent ? small.exponent < large.exponent : small.digits < large.digits;
}

}  // namespace gateway
