#include "ledger/json_text.h"

#include <cstddef>

namespace ledger {
namespace {

/// Bytes of the UTF-8 sequence that stands at `at`, 0 if none does (RFC 3629: no overlong forms, no surrogates).
std::size_t sequence(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  std::size_t size = 0;
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) size = 2;
  if (lead >= 0xe0 && lead <= 0xef) size = 3;
  if (lead >= 0xf0 && lead <= 0xf4) size = 4;
  if (size == 0 || text.size() - at < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xc0U) != 0x80U) return 0;
  }
  const unsigned char next = byte(at + 1);
  const bool overlong = (lead == 0xe0 && next < 0xa0) || (lead == 0xf0 && next < 0x90);
  const bool outside = (lead == 0xed && next > 0x9f) || (lead == 0xf4 && next > 0x8f);
  return overlong || outside ? 0 : size;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[at++];
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
      ++at;
    } else if (const std::size_t size = sequence(text, at); size > 0) {
      out += text.substr(at, size);
      at += size;
    } else {
      out += "\\ufffd";
      ++at;
    }
  }
  out += '"';
}

void JsonObject::key(std::string_view name) {
  if (!first_) out_ += ',';
  first_ = false;
  out_ += '"';
  out_ += name;
  out_ += "\":";
}

void JsonObject::text(std::string_view name, std::string_view value) {
  key(name);
  append_json_string(out_, value);
}

void JsonObject::number(std::string_view name, std::int64_t value) {
  key(name);
  out_ += std::to_string(value);
}

void JsonObject::raw(std::string_view name, std::string_view json) {
  key(name);
  out_ += json;
}

}  // namespace ledger
