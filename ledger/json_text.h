#pragma once
// How does any text, whatever its bytes, become part of a JSON value on one line?

#include <cstdint>
#include <string>
#include <string_view>

namespace ledger {

/// A JSON string, quotes included. Bytes that are no UTF-8 become U+FFFD, controls \uXXXX.
void append_json_string(std::string& out, std::string_view text);

/// Members of an object, one after the other. Names are literals of ours.
class JsonObject {
 public:
  explicit JsonObject(std::string& out) : out_(out) { out_ += '{'; }
  void text(std::string_view name, std::string_view value);
  void number(std::string_view name, std::int64_t value);
  /// A whole JSON value.
  void raw(std::string_view name, std::string_view json);
  void close() { out_ += '}'; }

 private:
  void key(std::string_view name);
  std::string& out_;
  bool first_ = true;
};

}  // namespace ledger
