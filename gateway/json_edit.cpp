#include "gateway/json_edit.h"

#include <nlohmann/json.hpp>

#include "classifier/json_depth.h"

namespace gateway {

using Json = nlohmann::ordered_json;

std::expected<EditedJson, std::string> edit_json(std::string_view body, std::string_view set) {
  if (!classifier::is_shallow(body) || !classifier::is_shallow(set))
    return std::unexpected{"this JSON is nested too deeply to be edited"};
  Json json = Json::parse(body, nullptr, false);
  if (json.is_discarded()) return std::unexpected{"the request's body is no JSON, so it has no members to set"};
  const Json wanted = Json::parse(set, nullptr, false);
  if (!wanted.is_object() || wanted.empty())
    return std::unexpected{R"(what is set must be a JSON object of pointers, such as {"/model":"gpt-5-mini"})"};
  EditedJson edited;
  for (const auto& [pointer, value] : wanted.items()) {
    try {
      const Json::json_pointer at{pointer};
      EditedMember member;
      member.at = pointer;
      if (at.empty()) return std::unexpected{"the pointer \"\" is the whole body; name a member, such as /model"};
      Json& parent = json.at(at.parent_pointer());
      if (!parent.is_object() && !parent.is_array())
        return std::unexpected{"pointer " + pointer + " leads into a value that has no members"};
      // Beyond its end an array would be filled up with nulls.
      if (parent.is_array() && at.back() != "-" && !json.contains(at))
        return std::unexpected{"pointer " + pointer + " leads nowhere in the request's body"};
      if (json.contains(at)) member.was = json.at(at).dump();
      json[at] = value;
      member.is = value.dump();
      edited.members.push_back(std::move(member));
    } catch (const Json::exception&) {
      return std::unexpected{"pointer " + pointer + " leads nowhere in the request's body"};
    }
  }
  edited.body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return edited;
}

}  // namespace gateway
