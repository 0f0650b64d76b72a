#include "gateway/json_edit.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "gateway/json_out.h"
#include "gateway/json_tree.h"

namespace gateway {
namespace {

using Kind = JsonValue::Kind;
using Wrong = std::unexpected<std::string>;

std::string_view written(std::string_view text, const JsonValue& value) {
  return text.substr(value.at, value.until - value.at);
}

/// The steps of a pointer; nothing: it is none.
std::optional<std::vector<std::string>> steps_of(std::string_view pointer) {
  if (!pointer.starts_with('/')) return std::nullopt;
  std::vector<std::string> steps;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      steps.emplace_back();
    } else if (pointer[i] != '~') {
      steps.back() += pointer[i];
    } else if (++i < pointer.size() && (pointer[i] == '0' || pointer[i] == '1')) {
      steps.back() += pointer[i] == '0' ? '~' : '/';
    } else {
      return std::nullopt;
    }
  }
  return steps;
}

/// Where one step leads: to a value within `parent`, or (where `index` is 0) to none.
struct Led {
  std::uint32_t index = 0;
  bool twice = false;
};
Led step(const JsonTree& tree, std::uint32_t parent, const std::string& name) {
  Led led;
  const JsonValue& container = tree[parent];
  if (container.kind == Kind::Object) {
    for (std::uint32_t i = parent + 1; i < container.end; i = tree[i].end) {
      if (unescaped(tree[i].key) != name) continue;
      led.twice = led.index != 0;
      led.index = i;
      if (led.twice) break;
    }
  } else if (container.kind == Kind::Array) {
    std::size_t number = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool plain = read.ec == std::errc{} && read.ptr == name.data() + name.size();
    if (plain && (name.size() == 1 || name.front() != '0')) led.index = tree.item(parent, number);
  }
  return led;
}

/// Of one pointer: the body with it.
std::expected<std::string, std::string> with(std::string_view body, const std::string& pointer,
                                             EditedMember& member) {
  const auto steps = steps_of(pointer);
  if (!steps) return Wrong{"pointer " + pointer + " is none: it must begin with / and name a member, as /model does"};
  const auto tree = JsonTree::read(body, JsonTree::Twice::Kept);
  if (!tree) return Wrong{"the request's body cannot be edited: it " + tree.error().message};
  std::uint32_t parent = 0;
  for (std::size_t i = 0;; ++i) {
    const std::string& name = (*steps)[i];
    const bool last = i + 1 == steps->size();
    const JsonValue& container = (*tree)[parent];
    if (container.kind != Kind::Object && container.kind != Kind::Array)
      return Wrong{"pointer " + pointer + " leads into a value that has no members"};
    const Led led = step(*tree, parent, name);
    if (led.twice)
      return Wrong{"pointer " + pointer + " is not clear: the name " + name + " stands twice in its object"};
    if (led.index != 0 && !last) {
      parent = led.index;
      continue;
    }
    if (led.index != 0) {
      const JsonValue& value = (*tree)[led.index];
      member.was = written(body, value);
      return std::string{body.substr(0, value.at)} + member.is + std::string{body.substr(value.until)};
    }
    const bool object = container.kind == Kind::Object;
    if (!last || (!object && name != "-"))
      return Wrong{"pointer " + pointer + " leads nowhere in the request's body"};
    std::string added;
    std::size_t at = container.at + 1;
    for (std::uint32_t child = parent + 1; child < container.end; child = (*tree)[child].end) {
      at = (*tree)[child].until;
      added = ",";
    }
    if (object) {
      append_json(added, name, name.size());
      added += ':';
    }
    return std::string{body.substr(0, at)} + added + member.is + std::string{body.substr(at)};
  }
}

}  // namespace

std::expected<EditedJson, std::string> edit_json(std::string_view body, std::string_view set) {
  if (const auto json = JsonTree::read(body, JsonTree::Twice::Kept); !json)
    return Wrong{"the request's body has no members to set: as JSON it " + json.error().message};
  const auto wanted = JsonTree::read(set, JsonTree::Twice::Kept);
  if (!wanted || (*wanted)[0].kind != Kind::Object || (*wanted)[0].count == 0) {
    return Wrong{R"(what is set must be a JSON object of pointers, such as {"/model":"gpt-5-mini"})" +
                 (wanted ? std::string{} : "; it " + wanted.error().message)};
  }
  EditedJson edited;
  edited.body = body;
  std::vector<std::string> named;
  for (std::uint32_t i = 1; i < (*wanted)[0].end; i = (*wanted)[i].end) {
    EditedMember member;
    member.at = unescaped((*wanted)[i].key);
    member.is = written(set, (*wanted)[i]);
    if (std::ranges::find(named, member.at) != named.end())
      return Wrong{"what is set names pointer " + member.at + " twice"};
    named.push_back(member.at);
    if (member.at.empty()) return Wrong{"the pointer \"\" is the whole body; name a member, such as /model"};
    auto fresh = with(edited.body, member.at, member);
    if (!fresh) return Wrong{std::move(fresh.error())};
    edited.body = *std::move(fresh);
    if (member.was != member.is) edited.members.push_back(std::move(member));
  }
  return edited;
}

}  // namespace gateway
