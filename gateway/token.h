#pragma once
// What may be the name of a header field, or a method? (RFC 9110 §5.6.2)

#include <array>
#include <string_view>

namespace gateway {

inline constexpr std::array<bool, 256> kTokenChars = [] {
  std::array<bool, 256> table{};
  for (const char c :
       std::string_view{"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"}) {
    table[static_cast<unsigned char>(c)] = true;
  }
  return table;
}();

[[nodiscard]] constexpr bool is_token(std::string_view text) {
  for (const char c : text) {
    if (!kTokenChars[static_cast<unsigned char>(c)]) return false;
  }
  return !text.empty();
}

}  // namespace gateway
