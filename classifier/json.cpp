#include "classifier/json.h"

#include <algorithm>

#include "classifier/dialect.h"

namespace classifier {

namespace {

constexpr std::string_view kBom = "\xEF\xBB\xBF";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
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
