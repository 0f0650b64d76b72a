#include "classifier/families/openai.h"

#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "classifier/walk.h"

namespace classifier::families {

namespace {

namespace ondemand = simdjson::ondemand;
using Value = ondemand::value;
using Json = nlohmann::ordered_json;

// Members of a delta or message that are no content by themselves; what we do not know is taken for content, since
// the price of holding a head for nothing is paid by every caller.
constexpr std::string_view kNoContent[] = {"role", "provider_specific_fields", "tool_call_id", "name", "annotations"};

// Events of the Responses API and of the audio and image streams, by the end of their type.
enum class Effect { None, Content, Completed, Failed };
struct EventRow {
  std::string_view type;
  Effect effect;
};
constexpr EventRow kEvents[] = {
    {"response.completed", Effect::Completed},
    {"response.incomplete", Effect::Completed},
    {"response.failed", Effect::Failed},
    {"conversation.response.done", Effect::Completed},
    {"conversation.response.error", Effect::Failed},
    {"transcript.text.done", Effect::Completed},
    {"transcription.done", Effect::Completed},
    {"speech.audio.done", Effect::Completed},
    {"image_generation.completed", Effect::Completed},
    {"image_edit.completed", Effect::Completed},
    {"*.delta", Effect::Content},
    {"*.done", Effect::Content},
    {"*.partial_image", Effect::Content},
};

Effect effect_of(std::string_view type) {
  for (const EventRow& row : kEvents) {
    const bool fits = row.type.starts_with('*') ? type.ends_with(row.type.substr(1)) : type == row.type;
    if (fits) return row.effect;
  }
  return Effect::None;
}

/// `*_details`, whatever the front of its name: parts of the counts beside it.
void read_details(Value value, Reported& reported, std::optional<std::int64_t>& cached) {
  walk::object_members(value, [&](std::string_view key, Value& part) {
    if (key == "cached_tokens") walk::keep_largest(cached, part);
    if (key == "cache_write_tokens") walk::keep_count(reported.written, part);
    if (key == "reasoning_tokens") walk::keep_count(reported.reasoning, part);
  });
}

void read_usage(Value value, Reading& into) {
  Reported now = into.reported;
  std::optional<std::int64_t> cached;
  bool duration = false;
  bool any = false;
  const bool object = walk::object_members(value, [&](std::string_view key, Value& part) {
    any = true;
    if (key == "prompt_tokens" || key == "input_tokens") {
      walk::keep_count(now.input, part);
    } else if (key == "completion_tokens" || key == "output_tokens") {
      walk::keep_count(now.output, part);
    } else if (key == "total_tokens") {
      walk::keep_count(now.total, part);
    } else if (key == "cached_tokens" || key == "num_cached_tokens" || key == "prompt_cache_hit_tokens") {
      walk::keep_largest(cached, part);
    } else if (key.ends_with("_details")) {
      read_details(part, now, cached);
    } else if (key == "type") {
      duration = walk::text(part) == "duration";
    }
  });
  if (!object || !any || duration) return;
  if (cached) now.cached = cached;
  into.reported = now;
  into.usage_seen = true;
  into.usage_changed = true;
}

/// A delta, a message: does it hold anything that a caller would see as the answer?
void read_delta(Value value, Reading& into) {
  walk::object_members(value, [&](std::string_view key, Value& part) {
    if (into.content || std::ranges::find(kNoContent, key) != std::end(kNoContent)) return;
    into.content = walk::holds_something(part);
  });
}

// A choice that ended so was never finished.
constexpr std::string_view kNoCause = "error";
constexpr std::string_view kFailures[] = {kNoCause, "insufficient_system_resource"};
constexpr std::string_view kByPolicy = "content_filter";

/// How many choices there are; nothing if it is no array. `failure`: the reason for which one of them ended too
/// early.
std::optional<std::size_t> read_choices(Value value, Reading& into, bool& error, std::string& failure) {
  return walk::elements(value, [&](Value choice) {
    std::int64_t index = 0;
    std::string_view finish;
    walk::object_members(choice, [&](std::string_view key, Value& part) {
      if (key == "index") {
        index = walk::count(part).value_or(0);
      } else if (key == "finish_reason") {
        finish = walk::text(part);
      } else if (key == "delta" || key == "message") {
        read_delta(part, into);
      } else if (key == "text") {
        into.content = into.content || walk::holds_something(part);
      } else if (key == "error") {
        error = error || walk::holds_something(part);
      }
    });
    into.choices.begun(static_cast<std::uint64_t>(index));
    if (finish.empty()) return;
    if (std::ranges::find(kFailures, finish) != std::end(kFailures)) failure = finish;
    into.choices.ended(static_cast<std::uint64_t>(index));
    if (index == 0) into.finish = std::string{finish.substr(0, walk::kNameMax)};
  });
}

/// What is common to a chat completion, a chunk of one, a response, and the object inside a response event.
struct Walker {
  Reading& into;
  std::string_view type{};  // Views last as long as the document.
  std::string_view object{};
  std::string_view status{};
  std::string_view incomplete{};
  std::optional<std::size_t> choices{};
  bool error = false;
  bool answers = false;  // A member is there that only an answer has.
  bool flat = false;     // So is one that only an error has, at the top.
  std::string failure{};

  bool walk(ondemand::object root) {
    const bool whole = walk::members(root, [this](std::string_view key, Value& value) { member(key, value); });
    into.answered = into.answered || answers;
    return whole;
  }

  void member(std::string_view key, Value& value) {
    if (key == "choices") {
      choices = read_choices(value, into, error, failure);
      answers = answers || choices;
    } else if (key == "model") {
      walk::keep_name(into.model, value);
    } else if (key == "usage") {
      read_usage(value, into);
    } else if (key == "service_tier") {
      walk::keep_name(into.service_tier, value);
    } else if (key == "type") {
      type = walk::text(value);
    } else if (key == "object") {
      object = walk::text(value);
      answers = answers || object != "error";
    } else if (key == "status") {
      status = walk::text(value);
    } else if (key == "error") {
      error = error || walk::holds_something(value);
    } else if (key == "incomplete_details") {
      walk::object_members(value, [this](std::string_view name, Value& part) {
        if (name == "reason") incomplete = walk::text(part);
      });
    } else if (key == "response") {
      walk::object_members(value, [this](std::string_view name, Value& part) { member(name, part); });
    } else if (key == "x_groq") {
      walk::object_members(value, [this](std::string_view name, Value& part) {
        if (name == "usage") read_usage(part, into);
      });
    } else if (key == "output") {
      answers = true;
      into.any_content = walk::holds_something(value) || into.any_content;
    } else if (key == "id" || key == "data" || key == "results" || key == "text") {
      answers = true;
    } else if (key == "message" || key == "detail") {
      flat = flat || walk::holds_something(value);
    }
  }

  /// Flat errors have little to be known by: {"object":"error","message":…}.
  [[nodiscard]] bool says_error() const { return error || object == "error" || type == "error"; }
  /// {"message":…} or {"detail":…} and nothing else: in the midst of a stream that can only be an error.
  [[nodiscard]] bool is_flat() const { return flat && !answers && type.empty(); }

  void keep_error(PaddedJson json) const {
    if (says_error()) {
      into.error = json.text;
    } else if (!failure.empty()) {
      into.error = Json{{"message", "the answer ended with " + failure}, {"code", failure}}.dump();
      into.cause_owed = failure == kNoCause;
    }
  }

  /// Responses and batches say in `status` how they ended, chat says it in its choices.
  void keep_finish() const {
    if (status.empty() || choices) return;
    const bool ended = status == "completed" || status == "failed" || status == "cancelled";
    if (status == "incomplete") {
      into.finish = std::string{incomplete.empty() ? status : incomplete.substr(0, walk::kNameMax)};
    } else if (ended || object == "batch") {
      into.finish = std::string{status.substr(0, walk::kNameMax)};
    }
  }
};

bool read_answer(PaddedJson json, Reading& into) {
  into.begin_event();
  return walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document, [&](ondemand::object object) {
      Walker walker{.into = into};
      if (!walker.walk(object)) return false;
      walker.keep_finish();
      walker.keep_error(json);
      if (into.finish == kByPolicy) into.ended_by_policy();
      return true;
    });
  });
}

bool read_event(std::string_view, PaddedJson json, Reading& into) {
  if (trimmed(json.text) == "[DONE]") {
    into.terminal = into.complete = true;
    return false;
  }
  return walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document, [&](ondemand::object object) {
      Walker walker{.into = into};
      const bool whole = walker.walk(object);
      const Effect effect = effect_of(walker.type);
      if (effect == Effect::Content) into.content = true;
      if (effect == Effect::Completed || effect == Effect::Failed) into.terminal = into.complete = true;
      if (into.terminal) walker.keep_finish();
      walker.keep_error(json);
      if (effect == Effect::Failed || walker.is_flat()) {
        into.error = json.text;
        into.cause_owed = effect == Effect::Failed && !walker.error && !walker.flat;
      }
      if (into.finish == kByPolicy) into.ended_by_policy();
      into.usage_only = into.usage_changed && walker.choices == std::size_t{0};
      return whole;
    });
  });
}

/// The object that stands under "error", wherever: at the top, in an array, in a response, in a choice.
const Json* error_object(const Json& json) {
  if (json.is_array()) {
    for (const Json& element : json) {
      if (const Json* const error = error_object(element)) return error;
    }
    return nullptr;
  }
  if (!json.is_object()) return nullptr;
  if (const auto error = json.find("error"); error != json.end() && error->is_object()) {
    const auto message = error->find("message");
    return message != error->end() && message->is_string() ? &*error : nullptr;
  }
  for (const char* const key : {"response", "choices"}) {
    const auto inner = json.find(key);
    if (inner == json.end()) continue;
    if (const Json* const error = error_object(*inner)) return error;
  }
  return nullptr;
}

/// SDKs take a body under any other key than "error" for no body, and read message, type, param and code there.
std::string error_document(std::string_view event, const SaidError& said) {
  const Json json = Json::parse(event, nullptr, false);
  Json inner;
  if (const Json* const error = error_object(json)) {
    inner = *error;
  } else {
    // Flat ones have a word for their kind in the place of a type, or none: {"type":"error","code":"server_error",…}.
    const bool typed = !said.type.empty() && said.type != "error";
    inner["message"] = said.message;
    inner["param"] = json.is_object() && json.contains("param") ? json["param"] : Json();
    inner["code"] = said.code.empty() ? Json() : Json(said.code);
    inner["type"] = typed ? said.type : !said.code.empty() ? said.code : "server_error";
  }
  return Json{{"error", inner}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

const Family kOpenAi{
    .read_answer = read_answer, .read_event = read_event, .settle = settle_openai, .error_document = error_document};

}  // namespace classifier::families
