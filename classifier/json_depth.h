#pragma once
// Is this text so deep that a reader or writer that calls itself would need more stack than there is?

#include <cstddef>
#include <string_view>

namespace classifier {

/// No provider and no SDK comes near it.
inline constexpr std::size_t kJsonDepthMax = 200;

/// Counts brackets outside of strings; what is no JSON may be called either.
[[nodiscard]] constexpr bool is_shallow(std::string_view text, std::size_t most = kJsonDepthMax) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if ((c == '[' || c == '{') && ++depth > most) return false;
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return true;
}

}  // namespace classifier
