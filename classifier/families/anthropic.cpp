#include "classifier/families/anthropic.h"

#include <simdjson.h>

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

constexpr std::string_view kByPolicy = "refusal";

void read_counter(std::string_view key, Value& value, Reported& reported) {
  if (key == "input_tokens") {
    walk::keep_whole(reported.input, value);
  } else if (key == "output_tokens") {
    walk::keep_whole(reported.output, value);
  } else if (key == "cache_read_input_tokens") {
    walk::keep_count(reported.cached, value);
  } else if (key == "cache_creation_input_tokens") {
    walk::keep_count(reported.written, value);
  } else if (key == "cache_creation") {
    walk::object_members(value, [&](std::string_view name, Value& part) {
      if (name == "ephemeral_5m_input_tokens") walk::keep_count(reported.written_5m, part);
      if (name == "ephemeral_1h_input_tokens") walk::keep_count(reported.written_1h, part);
    });
  } else if (key == "output_tokens_details") {
    walk::object_members(value, [&](std::string_view name, Value& part) {
      if (name == "thinking_tokens") walk::keep_count(reported.reasoning, part);
    });
  }
}

void add(std::optional<std::int64_t>& sum, const std::optional<std::int64_t>& more) {
  if (!more) return;
  sum = *more < 0 || sum.value_or(0) < 0 ? kUnreadable : sum.value_or(0) + *more;
}

/// The passes of one answer. What a compaction used stands nowhere else; another model's pass is not ours to count.
struct Iterations {
  Reported sum{};
  bool compacted = false;

  void read(Value value) {
    walk::elements(value, [this](Value iteration) {
      std::string_view type;
      Reported one;
      walk::object_members(iteration, [&](std::string_view key, Value& part) {
        if (key == "type") {
          type = walk::text(part);
        } else {
          read_counter(key, part, one);
        }
      });
      if (type != "compaction" && type != "message") return;
      compacted = compacted || type == "compaction";
      add(sum.input, one.input);
      add(sum.output, one.output);
      add(sum.cached, one.cached);
      add(sum.written, one.written);
      add(sum.written_5m, one.written_5m);
      add(sum.written_1h, one.written_1h);
      add(sum.reasoning, one.reasoning);
    });
  }
};

void read_usage(Value value, Reading& into) {
  Iterations iterations;
  const bool object = walk::object_members(value, [&](std::string_view key, Value& part) {
    if (key == "iterations") {
      iterations.read(part);
    } else if (key == "service_tier") {
      walk::keep_name(into.service_tier, part);
    } else if (key == "speed") {
      walk::keep_name(into.speed, part);
    } else if (key == "inference_geo") {
      walk::keep_name(into.inference_geo, part);
    } else if (key == "server_tool_use") {
      walk::object_members(part, [&](std::string_view name, Value& count) {
        if (name == "web_search_requests") walk::keep_billed(into.billed.web_searches, count);
      });
    } else {
      read_counter(key, part, into.reported);
    }
  });
  if (!object) return;
  if (iterations.compacted) {
    const auto reasoning = into.reported.reasoning;
    into.reported = iterations.sum;
    if (!into.reported.reasoning) into.reported.reasoning = reasoning;
  }
  into.usage_seen = true;
  into.usage_changed = true;
}

void keep_finish(Value& value, Reading& into) {
  const std::string_view finish = walk::text(value).substr(0, walk::kNameMax);
  if (!finish.empty()) into.finish = std::string{finish};
}

void read_message(std::string_view key, Value& value, Reading& into) {
  if (key == "model") {
    walk::keep_name(into.model, value);
  } else if (key == "stop_reason") {
    keep_finish(value, into);
  } else if (key == "usage") {
    read_usage(value, into);
  } else if (key == "content") {
    into.content = into.content || walk::holds_something(value);
    into.answered = true;
  }
}

bool read_object(ondemand::object object, PaddedJson json, Reading& into) {
  std::string type;
  bool error = false;
  const bool whole = walk::members(object, [&](std::string_view key, Value& value) {
    if (key == "type") {
      type = walk::text(value);
    } else if (key == "error") {
      error = walk::holds_something(value);
    } else if (key == "result") {  // A line of a batch's results.
      into.answered = true;
      walk::object_members(value, [&](std::string_view name, Value& part) {
        if (name != "message") return;
        walk::object_members(part, [&](std::string_view inner, Value& field) { read_message(inner, field, into); });
      });
    } else if (key == "id" || key == "input_tokens" || key == "data") {
      into.answered = true;
    } else {
      read_message(key, value, into);
    }
  });
  if (!whole) return false;
  if (error || type == "error") into.error = json.text;
  if (into.finish == kByPolicy) into.ended_by_policy();
  return true;
}

bool read_answer(PaddedJson json, Reading& into) {
  into.begin_event();
  return walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document, [&](ondemand::object object) { return read_object(object, json, into); });
  });
}

/// Text and thinking blocks open empty and are filled by deltas; all others have content from the start.
void read_block_start(Value& value, Reading& into) {
  walk::object_members(value, [&](std::string_view key, Value& part) {
    if (key != "type") return;
    const std::string_view type = walk::text(part);
    into.content = into.content || (type != "text" && type != "thinking");
  });
}

bool read_event_object(ondemand::object object, bool& error, Reading& into) {
  return walk::members(object, [&](std::string_view key, Value& value) {
    if (key == "type") {
      const std::string_view type = walk::text(value);
      if (type == "content_block_delta") into.content = true;
      if (type == "message_stop") into.terminal = into.complete = true;
      error = error || type == "error";
    } else if (key == "message" && !walk::text(value).empty()) {
      error = true;  // What stands before a provider has forms of its own.
    } else if (key == "message") {
      const bool content = into.content;
      walk::object_members(value, [&](std::string_view inner, Value& part) { read_message(inner, part, into); });
      into.content = content;  // message_start shows an empty message.
    } else if (key == "usage") {
      read_usage(value, into);
    } else if (key == "delta") {
      walk::object_members(value, [&](std::string_view inner, Value& part) {
        if (inner != "stop_reason") return;
        keep_finish(part, into);
        if (into.finish) into.choices.ended(0);  // All has been said, should message_stop be lost.
      });
    } else if (key == "content_block") {
      read_block_start(value, into);
    } else if (key == "error") {
      error = error || walk::holds_something(value);
    }
  });
}

bool read_event(std::string_view, PaddedJson json, Reading& into) {
  bool error = false;
  const bool read = walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document,
                             [&](ondemand::object object) { return read_event_object(object, error, into); });
  });
  if (error && read) into.error = json.text;
  if (into.finish == kByPolicy) into.ended_by_policy();
  return read;
}

/// Its own form is the document as it stands: {"type":"error","error":{"type","message"}}.
std::string error_document(std::string_view event, const SaidError& said) {
  const Json json = is_shallow(event) ? Json::parse(event, nullptr, false) : Json();
  const bool has_object = json.is_object() && json.contains("error") && json["error"].is_object();
  const Json error = has_object ? json["error"] : Json::object();
  const auto is_text = [&](const char* key) { return error.contains(key) && error[key].is_string(); };
  if (has_object && json.contains("type") && is_text("type") && is_text("message")) return std::string{event};
  // SDKs choose their class by the status, and users by the type.
  const bool typed = !said.type.empty() && said.type != "error";
  const Json made = {{"type", "error"},
                     {"error", {{"type", typed ? said.type : "api_error"}, {"message", said.message}}}};
  return made.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

const Family kAnthropic{.read_answer = read_answer,
                        .read_event = read_event,
                        .settle = settle_anthropic,
                        .error_document = error_document};

}  // namespace classifier::families
