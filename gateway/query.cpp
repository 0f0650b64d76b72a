#include "gateway/query.h"

#include <algorithm>
#include <charconv>

namespace gateway {

std::optional<std::map<std::string, std::string>> parameters_of(std::string_view query) {
  const auto decoded = [](std::string_view text) -> std::optional<std::string> {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') {
        out += text[i] == '+' ? ' ' : text[i];
        continue;
      }
      unsigned value = 0;
      const auto end = text.data() + std::min(i + 3, text.size());
      if (i + 2 >= text.size() || std::from_chars(text.data() + i + 1, end, value, 16).ptr != end)
        return std::nullopt;
      out += static_cast<char>(value);
      i += 2;
    }
    return out;
  };
  std::map<std::string, std::string> all;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const auto name = decoded(pair.substr(0, equals));
    const auto value = decoded(pair.substr(std::min(equals + 1, pair.size())));
    if (!name || !value || !all.emplace(*name, *value).second) return std::nullopt;
  }
  return all;
}

}  // namespace gateway
