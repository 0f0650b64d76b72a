#pragma once
// What stands in a message head: names and values as they came, in order.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace classifier {

/// One header field. The name keeps the spelling that it came with; compare with same_name().
struct Header {
  std::string name;
  std::string value;
  bool operator==(const Header&) const = default;
};
using Headers = std::vector<Header>;

[[nodiscard]] constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Field names are case-insensitive (RFC 9110 §5.1).
[[nodiscard]] constexpr bool same_name(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

/// The first value under that name, or nothing.
[[nodiscard]] inline std::optional<std::string_view> find(const Headers& headers, std::string_view name) {
  for (const Header& header : headers) {
    if (same_name(header.name, name)) return std::string_view{header.value};
  }
  return std::nullopt;
}

}  // namespace classifier
