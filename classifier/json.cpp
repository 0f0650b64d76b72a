#include "classifier/json.h"

#include <algorithm>
#include <array>

#include "classifier/dialect.h"

namespace classifier {

namespace {

constexpr std::string_view kBom = "\xEF\xBB\xBF";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

/// What may stand in a string as it is, which is most of any body.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (std::size_t c = 0x20; c < plain.size(); ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

/// Takes one token from the front of a text; false if it is not whole.
bool take_string(std::string_view& text) {
  if (!text.starts_with('"')) return false;
  std::size_t at = 1;
  for (;;) {
    while (at < text.size() && kPlain[static_cast<unsigned char>(text[at])]) ++at;
    if (at == text.size()) return false;
    if (text[at] == '"') break;
    if (text[at] != '\\' || at + 1 == text.size()) return false;
    const char escape = text[at + 1];
    at += 2;
    if (escape == 'u') {
      const std::string_view digits = text.substr(at, 4);
      if (digits.size() < 4 || !std::ranges::all_of(digits, is_hex)) return false;
      at += 4;
    } else if (!std::string_view{"\"\\/bfnrt"}.contains(escape)) {
      return false;
    }
  }
  text.remove_prefix(at + 1);
  return true;
}

bool take_digits(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(digits);
  return digits > 0;
}

bool take_number(std::string_view& text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.starts_with('0')) {
    text.remove_prefix(1);
  } else if (!take_digits(text)) {
    return false;
  }
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!take_digits(text)) return false;
  }
  if (!text.starts_with('e') && !text.starts_with('E')) return true;
  text.remove_prefix(1);
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return take_digits(text);
}

/// A value that holds no others.
bool take_scalar(std::string_view& text) {
  if (text.starts_with('"')) return take_string(text);
  for (const std::string_view word : {"true", "false", "null"}) {
    if (!text.starts_with(word)) continue;
    text.remove_prefix(word.size());
    return true;
  }
  return take_number(text);
}

}  // namespace

PaddedCopy::PaddedCopy(std::string_view text) {
  copy_.reserve(text.size() + kBodyPadding);
  copy_ = text;
}

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80U) return 1;
  const auto second = static_cast<unsigned char>(text.size() > 1 ? text[1] : '\0');
  if (first >= 0xC2U && first <= 0xDFU) return continues(text, 1) ? 2 : 0;
  if (first >= 0xE0U && first <= 0xEFU) {
    if (!continues(text, 1) || !continues(text, 2)) return 0;
    if (first == 0xE0U && second < 0xA0U) return 0;  // Overlong.
    if (first == 0xEDU && second > 0x9FU) return 0;  // Surrogate.
    return 3;
  }
  if (first >= 0xF0U && first <= 0xF4U) {
    if (!continues(text, 1) || !continues(text, 2) || !continues(text, 3)) return 0;
    if (first == 0xF0U && second < 0x90U) return 0;  // Overlong.
    if (first == 0xF4U && second > 0x8FU) return 0;  // Above U+10FFFF.
    return 4;
  }
  return 0;
}

void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out.reserve(out.size() + text.size() + 2);
  out += '"';
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[0];
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20U) {
      out += "\\u00";
      out += kHex[c >> 4U];
      out += kHex[c & 0xFU];
    } else if (const std::size_t length = utf8_length(text); length > 0) {
      out += text.substr(0, length);
      text.remove_prefix(length);
      continue;
    } else {
      out += kReplacement;
    }
    text.remove_prefix(1);
  }
  out += '"';
}

std::string quoted(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size() + kBodyPadding);
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out += '?';
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

bool utf8_whole(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void JsonBalance::feed(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (!in_string_) {
      const char c = bytes[at++];
      in_string_ = c == '"';
      if (c == '{' || c == '[') ++depth_;
      if (c == '}' || c == ']') broken_ = broken_ || depth_-- == 0;
      continue;
    }
    // Most of an answer is text, and a search for its end is quicker than looking at each byte.
    const std::size_t quote = std::min(bytes.find('"', at), bytes.size());
    std::size_t front = quote;
    while (front > at && bytes[front - 1] == '\\') --front;
    const bool escaped = ((quote - front) % 2 == 1) != (front == at && escape_open_);
    escape_open_ = quote == bytes.size() && escaped;
    in_string_ = quote == bytes.size() || escaped;
    at = quote + 1;
  }
}

bool balanced(std::string_view json) {
  JsonBalance balance;
  balance.feed(json);
  return balance.whole();
}

bool well_formed(std::string_view json) {
  enum class Next : std::uint8_t { Value, FirstElement, FirstKey, Key, Colon, Behind };
  Next next = Next::Value;
  std::string open;  // The bracket of each that is open.
  const auto close = [&] {
    open.pop_back();
    next = Next::Behind;
  };
  for (;;) {
    json.remove_prefix(std::min(json.find_first_not_of(" \t\r\n"), json.size()));
    if (json.empty()) return open.empty() && next == Next::Behind;
    const char c = json[0];
    const bool value = next == Next::Value || next == Next::FirstElement;
    if (value && (c == '{' || c == '[')) {
      json.remove_prefix(1);
      open += c;
      next = c == '{' ? Next::FirstKey : Next::FirstElement;
    } else if ((next == Next::FirstElement && c == ']') || (next == Next::FirstKey && c == '}')) {
      json.remove_prefix(1);
      close();
    } else if (value) {
      if (!take_scalar(json)) return false;
      next = Next::Behind;
    } else if (next == Next::FirstKey || next == Next::Key) {
      if (!take_string(json)) return false;
      next = Next::Colon;
    } else if (next == Next::Colon) {
      if (c != ':') return false;
      json.remove_prefix(1);
      next = Next::Value;
    } else {
      if (open.empty()) return false;
      const bool object = open.back() == '{';
      json.remove_prefix(1);
      if (c == ',') {
        next = object ? Next::Key : Next::Value;
      } else if (c == (object ? '}' : ']')) {
        close();
      } else {
        return false;
      }
    }
  }
}

std::string_view without_bom(std::string_view text) {
  if (text.starts_with(kBom)) text.remove_prefix(kBom.size());
  return text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t from = text.find_first_not_of(kBlank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kBlank) - from + 1);
}

}  // namespace classifier
