#include "gateway/plain_text.h"

#include <algorithm>

namespace gateway {
namespace {

constexpr char kEscape = '\x1b';
constexpr std::string_view kToneDigits = "0123456789;";

// Sets colours, or clears the line's rest.
bool is_tone(std::string_view text) {
  if (!text.starts_with("\x1b[")) return false;
  const std::size_t end = text.find_first_not_of(kToneDigits, 2);
  return end != text.npos && (text[end] == 'm' || text[end] == 'K');
}

// Would more bytes make a character of it, or something that is let through?
bool is_begun(std::string_view text, std::string_view let_through) {
  if (text == "\r") return !let_through.contains('\r');
  if (text.front() == kEscape)
    return text.size() < 8 && let_through.contains(kEscape) &&
           (text.size() == 1 || (text[1] == '[' && text.find_first_not_of(kToneDigits, 2) == text.npos));
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead >= 0xf0 ? 4u : lead >= 0xe0 ? 3u : lead >= 0xc2 ? 2u : 1u;
  return text.size() < length &&
         std::ranges::all_of(text.substr(1), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
}

}  // namespace

Character character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xc2 && lead < 0xe0   ? 2u
                             : (lead & 0xf0) == 0xe0       ? 3u
                             : lead >= 0xf0 && lead < 0xf5 ? 4u
                                                           : 0u;
  if (length == 0 || text.size() < length) return {};
  char32_t code = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (overlong || surrogate || code > 0x10ffff) return {};
  return {code, length};
}

bool is_treacherous(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff ||
         code == 0xfffe || code == 0xffff;
}

void append_escape(std::string& out, char32_t code) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[code >> shift & 0xfu];
}

std::size_t append_harmless(std::string& out, std::string_view text, std::string_view let_through, bool end) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Character character = character_at(text.substr(at));
    const std::string_view rest = text.substr(at);
    const bool may_pass = character.length == 1 && let_through.contains(rest.front());
    const bool as_group = rest.starts_with("\r\n") || (may_pass && is_tone(rest));
    if (!end && !as_group && is_begun(rest, let_through)) break;
    if (character.length == 0) {
      append_escape(out, 0xfffd);
    } else if (is_treacherous(character.code) && !as_group && (!may_pass || rest.front() == kEscape)) {
      append_escape(out, character.code);
    } else {
      out.append(text, at, character.length);
    }
    at += std::max<std::size_t>(1, character.length);
  }
  return at;
}

}  // namespace gateway
