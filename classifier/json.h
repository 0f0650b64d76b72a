#pragma once
// Small things that every reader and writer of JSON here needs. The parsers themselves stay in .cpp files.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace classifier {

/// JSON text that is followed by readable bytes (dialect.h, kBodyPadding), as simdjson needs it.
struct PaddedJson {
  std::string_view text{};
};

/// A copy with such bytes behind it, for text that comes without.
class PaddedCopy {
 public:
  explicit PaddedCopy(std::string_view text);
  [[nodiscard]] PaddedJson json() const { return {copy_}; }

 private:
  std::string copy_{};
};

/// Appends `text` as a JSON string, quotes included. Any bytes may come; what is not UTF-8 becomes U+FFFD.
void append_quoted(std::string& out, std::string_view text);
[[nodiscard]] std::string quoted(std::string_view text);

/// `text` with every byte that is not UTF-8 replaced by '?': readable again, if not the same.
[[nodiscard]] std::string as_utf8(std::string_view text);

/// Every byte of it belongs to a well-formed character.
[[nodiscard]] bool utf8_whole(std::string_view text);
/// Length of the well-formed UTF-8 character at the start of `text`, 0 if there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

/// Does a text close every bracket and string that it opens? It may come in pieces. A reader that goes through a text
/// once, as ours do, takes one that is cut behind any "}" for whole.
class JsonBalance {
 public:
  void feed(std::string_view bytes);
  [[nodiscard]] bool whole() const { return depth_ == 0 && !in_string_ && !broken_; }

 private:
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escape_open_ = false;  // The last piece ended inside a string, in a backslash that escapes what comes.
  bool broken_ = false;       // More was closed than had been opened.
};
[[nodiscard]] bool balanced(std::string_view json);

/// Is that one JSON value with nothing missing and nothing behind it (RFC 8259)? Its characters are another question.
[[nodiscard]] bool well_formed(std::string_view json);

[[nodiscard]] std::string_view without_bom(std::string_view text);
[[nodiscard]] std::string_view trimmed(std::string_view text);

}  // namespace classifier
