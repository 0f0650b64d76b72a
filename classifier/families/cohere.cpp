#include "classifier/families/cohere.h"

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

// Events that only frame others; all others bring something. The second version calls it `type`, the first
// `event_type`.
constexpr std::string_view kNoContent[] = {"message-start",
                                           "content-start",
                                           "content-end",
                                           "tool-call-end",
                                           "citation-end",
                                           "message-end",
                                           "stream-start",
                                           "stream-end",
                                           "debug"};
// Members by which an answer of one of the operations is known.
constexpr std::string_view kAnswers[] = {"text",
                                         "generations",
                                         "embeddings",
                                         "results",
                                         "classifications",
                                         "tokens",
                                         "summary",
                                         "generation_id",
                                         "finish_reason",
                                         "meta"};

template <std::size_t N>
bool among(const std::string_view (&words)[N], std::string_view word) {
  return std::ranges::find(words, word) != std::end(words);
}

/// "ERROR", "ERROR_TOXIC", "ERROR_LIMIT", "TIMEOUT": the answer ended because something went wrong.
bool is_failure(std::string_view finish) { return finish.starts_with("ERROR") || finish == "TIMEOUT"; }

void read_counts(Value& value, Reported& reported) {
  walk::object_members(value, [&](std::string_view key, Value& part) {
    if (key == "input_tokens") walk::keep_whole(reported.input, part);
    if (key == "output_tokens") walk::keep_whole(reported.output, part);
  });
}

/// The bill: image tokens are beside the input tokens, and an image is charged by them where there are any.
void read_billed(Value& value, Reading& into) {
  std::int64_t images = 0;
  walk::object_members(value, [&](std::string_view key, Value& part) {
    if (key == "input_tokens") {
      walk::keep_whole(into.reported.input, part);
    } else if (key == "output_tokens") {
      walk::keep_whole(into.reported.output, part);
    } else if (key == "image_tokens") {
      walk::keep_billed(into.billed.image_input_apart, part);
    } else if (key == "images") {
      walk::keep_billed(images, part);
    } else if (key == "search_units") {
      walk::keep_billed(into.billed.queries, part);
    }
  });
  into.billed.input_images = into.billed.image_input_apart > 0 ? 0 : images;
}

/// `usage`, or `meta` of those without one. What is billed is what is paid; `tokens` counts a preamble too.
void read_usage(Value& value, Reading& into) {
  bool billed = false;
  Reported counted;
  walk::object_members(value, [&](std::string_view key, Value& part) {
    if (key == "billed_units") {
      billed = true;
      read_billed(part, into);
    } else if (key == "tokens") {
      read_counts(part, counted);
    }
  });
  if (!billed && !counted.input && !counted.output) return;
  if (!billed) into.reported = counted;
  into.usage_seen = true;
  into.usage_changed = true;
}

/// A whole answer, the `delta` of an event, or the `response` at the end of a stream of the first version.
struct Walker {
  Reading& into;
  std::string type{};
  std::string finish{};
  std::string failure{};  // What is said of it.
  bool error = false;
  bool plain_message = false;

  bool walk(ondemand::object object) {
    return walk::members(object, [this](std::string_view key, Value& value) { member(key, value); });
  }

  void member(std::string_view key, Value& value) {
    into.answered = into.answered || among(kAnswers, key);
    if (key == "type" || key == "event_type") {
      type = walk::text(value);
    } else if (key == "finish_reason") {
      finish = walk::text(value).substr(0, walk::kNameMax);
    } else if (key == "usage" || key == "meta") {
      read_usage(value, into);
    } else if (key == "model") {
      walk::keep_name(into.model, value);
    } else if (key == "delta" || key == "response") {
      walk::object_members(value, [this](std::string_view name, Value& part) {
        if (name != "type") member(name, part);
      });
    } else if (key == "error") {
      error = error || walk::holds_something(value);
      failure = walk::text(value);
    } else if (key == "message") {
      // An object in an answer, a text in an error.
      plain_message = std::string_view{value.raw_json_token()}.starts_with('"');
      into.answered = into.answered || !plain_message;
    }
  }

  void conclude(PaddedJson json) {
    if (!finish.empty()) {
      into.finish = finish;
      into.choices.ended(0);
    }
    if (is_failure(finish)) {
      const Json said = {{"message", failure.empty() ? "the answer ended with " + finish : failure},
                         {"code", finish}};
      into.error = said.dump(-1, ' ', false, Json::error_handler_t::replace);
      into.cause_owed = finish == "ERROR" && failure.empty();
    } else if (error || (plain_message && !into.answered)) {
      into.error = json.text;
    }
  }
};

bool read_answer(PaddedJson json, Reading& into) {
  into.begin_event();
  return walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document, [&](ondemand::object object) {
      Walker walker{.into = into};
      if (!walker.walk(object)) return false;
      walker.conclude(json);
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
      into.answered = false;
      Walker walker{.into = into};
      if (!walker.walk(object)) return false;
      if (!walker.type.empty()) {
        into.answered = true;
        into.content = !among(kNoContent, walker.type);
        // The first version has no other end.
        if (walker.type == "stream-end") into.terminal = into.complete = true;
      }
      walker.conclude(json);
      return true;
    });
  });
}

/// {"id","message"}.
std::string error_document(std::string_view event, const SaidError& said) {
  const Json json = is_shallow(event) ? Json::parse(event, nullptr, false) : Json();
  const bool own = json.is_object() && json.contains("message") && json["message"].is_string();
  if (own && !json.contains("error") && !json.contains("code")) return std::string{event};
  Json made;
  if (json.is_object() && json.contains("id")) made["id"] = json["id"];
  made["message"] = said.message;
  return made.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

const Family kCohere{
    .read_answer = read_answer, .read_event = read_event, .settle = settle_plain, .error_document = error_document};
const Family kCohere1{.read_answer = read_answer,
                      .read_event = read_event,
                      .settle = settle_plain,
                      .error_document = error_document,
                      .lines = true};

}  // namespace classifier::families
