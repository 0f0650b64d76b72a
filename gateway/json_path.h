#pragma once
// Which value of a body is meant?
//
//   $.a.b   $.a[0].b   $['a b'].c   $["a"]      names and numbers of items; no wildcards, filters or slices
//   /a/b    /a/0/b     /a~1b                    JSON Pointer (RFC 6901)

#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gateway {

class JsonTree;

/// Longer texts are no key.
inline constexpr std::size_t kLongestPathValue = 255;

class JsonPath {
 public:
  /// The error says how it would be right: "must begin with $ or /".
  [[nodiscard]] static std::expected<JsonPath, std::string> read(std::string_view text);

  /// A text as it is, a number as it is written, "true" or "false"; nothing where there is no such value, null, or an
  /// empty text. An error if it is an object or a list, longer than kLongestPathValue bytes or has control
  /// characters, or if the body cannot be read (gateway/json_tree.h); without anything of the body in it.
  [[nodiscard]] std::expected<std::optional<std::string>, std::string> value_in(std::string_view body) const;
  [[nodiscard]] std::expected<std::optional<std::string>, std::string> value_in(const JsonTree& body) const;

  [[nodiscard]] const std::string& text() const { return text_; }
  bool operator==(const JsonPath&) const = default;

 private:
  struct Step {
    std::optional<std::string> name{};    // Of an object's member, …
    std::optional<std::size_t> number{};  // … of an array's item; of a pointer's step it may be either.
    bool operator==(const Step&) const = default;
  };
  std::string text_{};  // As it was written.
  std::vector<Step> steps_{};
};

}  // namespace gateway
