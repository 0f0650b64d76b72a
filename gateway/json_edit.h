#pragma once
// Changing members of a kept request's body by hand (callgate dead edit --set).

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace gateway {

struct EditedMember {
  std::string at{};   // JSON Pointer (RFC 6901).
  std::string was{};  // As JSON; empty: it was not there.
  std::string is{};
};
struct EditedJson {
  std::string body{};
  std::vector<EditedMember> members{};
};

/// `set`: a JSON object of pointers and values, {"/model":"gpt-5-mini","/temperature":0}. A member is added where its
/// object is there; "/-" at the end of an array's pointer appends. The error says which pointer leads nowhere.
[[nodiscard]] std::expected<EditedJson, std::string> edit_json(std::string_view body, std::string_view set);

}  // namespace gateway
