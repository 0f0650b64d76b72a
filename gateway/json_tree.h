#pragma once
// What stands in a JSON text that anybody may have written?
//
// Stricter than most readers: UTF-8, no key twice in one object, no half characters, bounded depth and count. Numbers
// stay as they are written, so that none is too large and none is rounded.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace gateway {

inline constexpr std::size_t kDeepestJson = 200;         // Values within each other.
inline constexpr std::size_t kMostJsonValues = 500'000;  // In one text.
inline constexpr std::size_t kLongestNumber = 1'000;     // Characters; what is exact takes time.

struct JsonValue {
  enum class Kind : std::uint8_t { Null, False, True, Number, String, Array, Object };
  Kind kind = Kind::Null;
  std::uint32_t end = 0;    // Index behind the last value within it; the first within it comes right after it.
  std::uint32_t count = 0;  // Of items or members.
  std::uint32_t at = 0;     // Byte of the text at which it begins, …
  std::uint32_t until = 0;  // … and the first one behind it.
  std::string_view text{};  // Of a number as written, of a string what is between its quotes.
  std::string_view key{};   // Of a member: its name, as between its quotes.
};

/// Why a text cannot be read. Nothing of the text is in it but names of members.
struct JsonFault {
  std::string pointer{};  // Of the value in which it is: "/a/0"; empty: the whole.
  std::string message{};  // "is cut off"
  std::size_t at = 0;     // Byte.
};

/// A text and the values in it, each before those within it. The text must outlive it.
class JsonTree {
 public:
  enum class Twice : std::uint8_t { Refused, Kept };  // A name that stands twice in one object.
  [[nodiscard]] static std::expected<JsonTree, JsonFault> read(std::string_view text, Twice twice = Twice::Refused);

  [[nodiscard]] const JsonValue& operator[](std::uint32_t index) const { return values_[index]; }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  /// The member of that name of the object at `index`; 0 (which nothing is within): it has none.
  [[nodiscard]] std::uint32_t member(std::uint32_t index, std::string_view name) const;
  [[nodiscard]] std::uint32_t item(std::uint32_t index, std::size_t number) const;  // Of an array, as member().

 private:
  std::vector<JsonValue> values_{};
};

/// What a string's or name's raw text says.
[[nodiscard]] std::string unescaped(std::string_view raw);
/// One more step of a JSON pointer, escaped (RFC 6901), without control characters and of bounded length.
[[nodiscard]] std::string pointer_to(std::string_view pointer, std::string_view name);
/// "null", "boolean", "number", "string", "array", "object"
[[nodiscard]] std::string_view name_of(JsonValue::Kind kind);

/// A number, exactly: 0.<digits> * 10^exponent. What is equal is written in one way.
struct Decimal {
  bool negative = false;
  std::string digits{};  // Without zeros at either end; empty: 0.
  std::int64_t exponent = 0;
  [[nodiscard]] bool whole() const;
  /// Whether it is a whole multiple of `factor` (from 1 to 10^9).
  [[nodiscard]] bool multiple_of(std::uint64_t factor) const;
  [[nodiscard]] std::string text() const;  // For comparing.
  bool operator==(const Decimal&) const = default;
};
[[nodiscard]] Decimal decimal_of(std::string_view number);
[[nodiscard]] bool less(const Decimal& a, const Decimal& b);

}  // namespace gateway
