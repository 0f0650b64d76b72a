#pragma once
// What does a price file say, and where? JSON whose numbers stay the text that they are (a price is no double) and
// whose values know their place, so that a problem can be pointed at.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace budget {

inline constexpr std::size_t kMostJsonBytes = 16U << 20;
inline constexpr std::size_t kMostJsonValues = 500'000;
inline constexpr int kMostJsonDepth = 32;

struct JsonMember;

struct Json {
  enum class Kind : std::uint8_t { Null, Bool, Number, String, List, Map };
  Kind kind = Kind::Null;
  std::size_t at = 0;               // Byte offset.
  std::string text{};               // Of a number as it is written, of a string decoded, "true" or "false".
  std::vector<JsonMember> members;  // Of a map by name, once each (the last one counts), of a list without names.
  [[nodiscard]] const Json* find(std::string_view name) const;  // Null if there is none.
};
struct JsonMember {
  std::string name{};
  std::size_t at = 0;
  Json value{};
};
[[nodiscard]] std::string_view name_of(Json::Kind kind);  // "a text", "a list", …

struct JsonError {
  std::size_t at = 0;
  std::string message{};
};
struct JsonDocument {
  Json root{};
  std::vector<JsonError> repeated{};  // Names that stand twice in one map.
};
[[nodiscard]] std::expected<JsonDocument, JsonError> read_json(std::string_view text);

/// Where in a text a byte stands.
class JsonLines {
 public:
  struct Place {  // Both from 1, columns in bytes.
    std::size_t line = 1;
    std::size_t column = 1;
  };
  explicit JsonLines(std::string_view text);
  [[nodiscard]] Place place(std::size_t at) const;

 private:
  std::vector<std::size_t> starts_{};
};

}  // namespace budget
