#include "gateway/json_path.h"

#include <algorithm>
#include <charconv>

#include "gateway/json_tree.h"

namespace gateway {
namespace {

constexpr std::size_t kLongestPath = 256;
constexpr std::size_t kMostSteps = 32;

/// "0", "17"; no leading zeros, as RFC 6901 has it.
std::optional<std::size_t> number_of(std::string_view text) {
  std::size_t number = 0;
  if (text.empty() || text.size() > 7 || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_name(char c, bool first) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<signed char>(c) < 0;
  return letter || (!first && ((c >= '0' && c <= '9') || c == '-'));
}

}  // namespace

std::expected<JsonPath, std::string> JsonPath::read(std::string_view text) {
  JsonPath path;
  path.text_ = text;
  if (text.size() > kLongestPath) return std::unexpected("must have at most 256 bytes");
  if (text.starts_with('/')) {
    while (!text.empty()) {
      text.remove_prefix(1);
      const std::size_t end = std::min(text.find('/'), text.size());
      std::string name;
      for (std::size_t i = 0; i < end; ++i) {
        if (text[i] != '~') {
          name += text[i];
          continue;
        }
        const char kind = i + 1 < end ? text[++i] : '\0';
        if (kind != '0' && kind != '1') return std::unexpected("has a ~ that is neither ~0 (for ~) nor ~1 (for /)");
        name += kind == '0' ? '~' : '/';
      }
      text.remove_prefix(end);
      const auto number = number_of(name);
      path.steps_.push_back({std::move(name), number});
    }
  } else if (text.starts_with('$')) {
    text.remove_prefix(1);
    while (!text.empty()) {
      if (text.starts_with("..") || text.starts_with("[*]") || text.starts_with(".*") || text.starts_with("[?"))
        return std::unexpected("must mean one value; wildcards, filters and .. are not for that");
      if (text.front() == '.') {
        text.remove_prefix(1);
        std::size_t end = 0;
        while (end < text.size() && is_name(text[end], end == 0)) ++end;
        if (end == 0) return std::unexpected("needs a name after the dot; other names stand in ['…']");
        path.steps_.push_back({std::string{text.substr(0, end)}, std::nullopt});
        text.remove_prefix(end);
      } else if (text.starts_with("['") || text.starts_with("[\"")) {
        const std::size_t end = text.find(text[1], 2);
        if (end == std::string_view::npos || !text.substr(end + 1).starts_with(']'))
          return std::unexpected("has a [ that is not closed by a quote and ]");
        const std::string_view name = text.substr(2, end - 2);
        if (name.find('\\') != std::string_view::npos)
          return std::unexpected("has a backslash in a name; write the path as a JSON Pointer");
        path.steps_.push_back({std::string{name}, std::nullopt});
        text.remove_prefix(end + 2);
      } else if (text.front() == '[') {
        const std::size_t end = text.find(']');
        const auto number = number_of(text.substr(1, end == std::string_view::npos ? 0 : end - 1));
        if (!number) return std::unexpected("needs the number of an item, from 0, or a name in quotes within [ ]");
        path.steps_.push_back({std::nullopt, number});
        text.remove_prefix(end + 1);
      } else {
        return std::unexpected("must go on with .name, [0] or ['name']");
      }
    }
  } else {
    return std::unexpected("must be a path such as $.metadata.invoice_id or /metadata/invoice_id");
  }
  if (path.steps_.empty()) return std::unexpected("must name a value within the body, such as $.metadata.invoice_id");
  if (path.steps_.size() > kMostSteps) return std::unexpected("must have at most 32 steps");
  return path;
}

std::expected<std::optional<std::string>, std::string> JsonPath::value_in(std::string_view body) const {
  const auto tree = JsonTree::read(body);
  if (!tree) return std::unexpected("the body " + tree.error().message + ", so that " + text_ + " cannot be read");
  return value_in(*tree);
}

std::expected<std::optional<std::string>, std::string> JsonPath::value_in(const JsonTree& body) const {
  using Kind = JsonValue::Kind;
  std::uint32_t at = 0;
  for (const Step& step : steps_) {
    std::uint32_t next = 0;
    if (step.name) next = body.member(at, *step.name);
    if (next == 0 && step.number) next = body.item(at, *step.number);
    if (next == 0) return std::nullopt;
    at = next;
  }
  const JsonValue& found = body[at];
  std::string text;
  switch (found.kind) {
    case Kind::Null:
      return std::nullopt;
    case Kind::False:
      return "false";
    case Kind::True:
      return "true";
    case Kind::Array:
    case Kind::Object:
      return std::unexpected(text_ + " must be a text, a number or a flag (is an " +
                             std::string{name_of(found.kind)} + ")");
    case Kind::Number:
      text = found.text;
      break;
    case Kind::String:
      text = unescaped(found.text);
  }
  if (text.empty()) return std::nullopt;
  if (text.size() > kLongestPathValue)
    return std::unexpected(text_ + " must have at most " + std::to_string(kLongestPathValue) + " bytes (has " +
                           std::to_string(text.size()) + ")");
  if (std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
    return std::unexpected(text_ + " must be without control characters");
  return text;
}

}  // namespace gateway
