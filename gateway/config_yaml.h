#pragma once
// What stands in a YAML text, and where? The one place that knows yaml-cpp.
//
// Strict on purpose: one document, text keys, no tags, no duplicate keys, bounded size, depth and aliases.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config.h"

namespace gateway {

struct YamlNode {
  enum class Form : std::uint8_t { Null, Scalar, List, Map };
  struct Entry {
    std::string key{};
    int line = 0;  // Of the key.
    int column = 0;
    const YamlNode* value = nullptr;
  };
  Form form = Form::Null;
  std::string text{};                    // Scalar.
  bool quoted = false;                   // Scalar in quotes, or a block of text.
  std::vector<const YamlNode*> items{};  // List.
  std::vector<Entry> entries{};          // Map; of duplicate keys the first.
  int line = 0;                          // From 1.
  int column = 0;
  std::size_t weight = 1;  // Nodes below, aliases counted each time.
};

struct YamlDocument {
  std::deque<YamlNode> nodes{};
  const YamlNode* root = nullptr;  // Null: empty, or not readable (then there are problems).
};

/// Problems are added; their `file` is left to the caller.
[[nodiscard]] YamlDocument read_yaml(std::string_view text, std::vector<Problem>& problems);

}  // namespace gateway
