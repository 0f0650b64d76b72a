#include "classifier/families/ollama.h"

#include <simdjson.h>

#include <algorithm>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "classifier/json_depth.h"
#include "classifier/walk.h"

namespace classifier::families {

namespace {

namespace ondemand = simdjson::ondemand;
using Value = ondemand::value;
using Json = nlohmann::ordered_json;

// Members of a message that are no content by themselves.
constexpr std::string_view kNoContent[] = {"role", "tool_name"};

/// A whole answer and a line of a stream differ only in `done`.
bool read_object(ondemand::object object, PaddedJson json, Reading& into) {
  bool done = false;
  const bool whole = walk::members(object, [&](std::string_view key, Value& value) {
    if (key == "message") {
      into.answered = true;
      walk::object_members(value, [&](std::string_view name, Value& part) {
        if (into.content || std::ranges::find(kNoContent, name) != std::end(kNoContent)) return;
        into.content = walk::holds_something(part);
      });
    } else if (key == "response" || key == "thinking" || key == "image") {
      into.answered = true;
      into.content = into.content || walk::holds_something(value);
    } else if (key == "embeddings" || key == "embedding") {
      into.answered = true;
    } else if (key == "done") {
      done = walk::truth(value).value_or(false);
    } else if (key == "done_reason") {
      const std::string_view reason = walk::text(value).substr(0, walk::kNameMax);
      if (!reason.empty()) into.finish = std::string{reason};
    } else if (key == "model") {
      walk::keep_name(into.model, value);
    } else if (key == "prompt_eval_count" || key == "eval_count") {
      // A count of zero is left out.
      walk::keep_count(key == "eval_count" ? into.reported.output : into.reported.input, value);
      into.usage_seen = into.usage_changed = true;
    } else if (key == "error" && walk::holds_something(value)) {
      into.error = json.text;
    }
  });
  if (done) into.terminal = into.complete = true;
  return whole;
}

bool read_event(std::string_view, PaddedJson json, Reading& into) {
  return walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document, [&](ondemand::object object) { return read_object(object, json, into); });
  });
}

bool read_answer(PaddedJson json, Reading& into) {
  into.begin_event();
  return read_event({}, json, into);
}

/// {"error":"text"}: its clients take nothing else for a message.
std::string error_document(std::string_view event, const SaidError& said) {
  const Json json = is_shallow(event) ? Json::parse(event, nullptr, false) : Json();
  if (json.is_object() && json.contains("error") && json["error"].is_string()) return std::string{event};
  return Json{{"error", said.message}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

const Family kOllama{.read_answer = read_answer,
                     .read_event = read_event,
                     .settle = settle_plain,
                     .error_document = error_document,
                     .lines = true,
                     .streams_unasked = true};

}  // namespace classifier::families
