#pragma once
// Changing members of a kept request's body by hand (callgate dead edit --set).
//
// Only the bytes of what is set change: numbers, escapes, blanks and names that stand twice stay as they were
// written.

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace gateway {

struct EditedMember {
  std::string at{};   // JSON Pointer (RFC 6901).
  std::string was{};  // As JSON, as it was written; empty: it was not there.
  std::string is{};
};
struct EditedJson {
  std::string body{};
  std::vector<EditedMember> members{};  // Those that are not as they were.
};

/// `set`: a JSON object of pointers and values, {"/model":"gpt-5-mini","/temperature":0}; the values go in as they
/// are written there, one after the other. A member is added at the end of its object; "/-" at the end of an array's
/// pointer appends. The error says which pointer leads nowhere, or to a name that stands twice.
[[nodiscard]] std::expected<EditedJson, std::string> edit_json(std::string_view body, std::string_view set);

}  // namespace gateway
