#include "classifier/families/openai.h"

#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <optional>
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
void read_details(Value value, bool output, Reported& reported, std::optional<std::int64_t>& cached, Billed& billed) {
  walk::object_members(value, [&](std::string_view key, Value& part) {
    if (key == "cached_tokens") {
      walk::keep_largest(cached, part);
    } else if (key == "cache_write_tokens") {
      walk::keep_count(reported.written, part);
    } else if (key == "reasoning_tokens") {
      walk::keep_count(reported.reasoning, part);
    } else if (key == "audio_tokens") {
      walk::keep_billed(output ? billed.audio_output : billed.audio_input, part);
    } else if (key == "image_tokens") {
      walk::keep_billed(output ? billed.image_output : billed.image_input, part);
    } else if (key == "cached_tokens_details") {
      walk::object_members(part, [&](std::string_view name, Value& inner) {
        if (name == "audio_tokens") walk::keep_billed(billed.cached_audio_input, inner);
        if (name == "image_tokens") walk::keep_billed(billed.cached_image_input, inner);
      });
    }
  });
}

/// What the answer says that it cost (OpenRouter, xAI, Perplexity).
struct StatedCost {
  std::string usd{};
  std::string behind{};  // What the provider behind it took.
  bool own_key = false;  // And from whom: from the owner of a key that was brought along.

  void member(std::string_view key, Value& value) {
    if (key == "cost" && std::string_view{value.raw_json_token()}.starts_with('{')) {
      walk::object_members(value, [this](std::string_view name, Value& part) {
        if (name == "total_cost") usd = walk::decimal(part);
      });
    } else if (key == "cost") {
      usd = walk::decimal(value);
    } else if (key == "cost_in_usd_ticks") {
      if (const auto ticks = walk::count(value)) usd = std::to_string(*ticks) + "e-10";
    } else if (key == "is_byok") {
      own_key = walk::truth(value).value_or(false);
    } else if (key == "cost_details") {
      walk::object_members(value, [this](std::string_view name, Value& part) {
        if (name == "upstream_inference_cost") behind = walk::decimal(part);
      });
    }
  }

  void keep(Reading& into) {
    if (usd.empty()) return;
    // With a key of one's own it is a fee, and alone it is not the cost.
    into.stated_usd = own_key && behind.empty() ? std::string{} : std::move(usd);
    into.stated_beside_usd = own_key ? std::move(behind) : std::string{};
  }
};

/// Quantities beside tokens.
void read_units(std::string_view key, Value& value, Billed& billed) {
  if (key == "seconds" || key == "prompt_audio_seconds") {
    walk::keep_seconds(billed.input_ms, value);
  } else if (key == "num_sources_used" || key == "num_search_queries") {
    walk::keep_billed(billed.web_searches, value);
  } else if (key == "server_tool_use") {
    walk::object_members(value, [&](std::string_view name, Value& part) {
      if (name == "web_search_requests") walk::keep_billed(billed.web_searches, part);
    });
  }
}

void read_usage(Value value, Reading& into) {
  Reported now = into.reported;
  std::optional<std::int64_t> cached;
  Billed billed = into.billed;
  StatedCost stated;
  bool duration = false;
  bool any = false;
  const bool object = walk::object_members(value, [&](std::string_view key, Value& part) {
    any = true;
    if (key == "prompt_tokens" || key == "input_tokens") {
      walk::keep_whole(now.input, part);
    } else if (key == "completion_tokens" || key == "output_tokens") {
      walk::keep_whole(now.output, part);
    } else if (key == "total_tokens") {
      walk::keep_count(now.total, part);
    } else if (key == "cached_tokens" || key == "num_cached_tokens" || key == "prompt_cache_hit_tokens") {
      walk::keep_largest(cached, part);
    } else if (key.starts_with("cost") || key == "is_byok") {
      stated.member(key, part);
    } else if (key.ends_with("_details")) {
      read_details(part, key.starts_with("completion") || key.starts_with("output"), now, cached, billed);
    } else if (key == "type") {
      duration = walk::text(part) == "duration";
    } else {
      read_units(key, part, billed);
    }
  });
  if (!object || !any) return;
  into.billed = billed;
  stated.keep(into);
  if (duration) return;
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
    std::string_view stop;
    bool says_finish = false;
    walk::object_members(choice, [&](std::string_view key, Value& part) {
      if (key == "index") {
        index = walk::count(part).value_or(0);
      } else if (key == "finish_reason") {
        finish = walk::text(part);
        says_finish = true;
      } else if (key == "stop_reason") {
        stop = walk::text(part);
      } else if (key == "delta" || key == "message") {
        read_delta(part, into);
      } else if (key == "text") {
        into.content = into.content || walk::holds_something(part);
      } else if (key == "error") {
        error = error || walk::holds_something(part);
      }
    });
    into.choices.begun(static_cast<std::uint64_t>(index));
    // Mistral's models on Bedrock have no other word for it; beside a finish reason it is the text that stopped it.
    if (!says_finish) finish = stop;
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
  std::int64_t images = 0;    // That were made.
  std::int64_t searches = 0;  // Of the web, by the provider's own tool.
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
    } else if (key == "id" || key == "results" || key == "text") {
      answers = true;
    } else if (key == "data") {
      answers = true;
      read_data(value);
    } else if (key == "output") {
      answers = true;
      read_output(value);
    } else if (key == "tokens_evaluated" || key == "tokens_predicted") {
      // llama.cpp's own form.
      walk::keep_whole(key == "tokens_evaluated" ? into.reported.input : into.reported.output, value);
      into.usage_seen = into.usage_changed = true;
    } else if (key == "usage_info") {
      walk::object_members(value, [this](std::string_view name, Value& part) {
        if (name == "pages_processed") walk::keep_billed(into.billed.pages, part);
      });
    } else if (key == "message" || key == "detail") {
      flat = flat || walk::holds_something(value);
    }
  }

  /// Images, among all that may be listed there: what has a name or words beside its URL was found, not made.
  void read_data(Value& value) {
    walk::elements(value, [this](Value one) {
      bool image = false;
      bool found = false;
      walk::object_members(one, [&](std::string_view key, Value& part) {
        found = found || key == "id" || key == "object" || key == "title" || key == "text" || key == "content";
        image = image || ((key == "b64_json" || key == "url") && walk::holds_something(part));
      });
      images += image && !found ? 1 : 0;
    });
  }

  /// Items of a response. Opening a page that was found is no search.
  void read_output(Value& value) {
    if (!value.raw_json_token().starts_with('[')) {
      into.any_content = walk::holds_something(value) || into.any_content;
      return;
    }
    std::int64_t count = 0;
    walk::elements(value, [&](Value item) {
      into.any_content = true;
      bool search = false;
      bool counts = true;
      walk::object_members(item, [&](std::string_view key, Value& part) {
        if (key == "type") {
          search = walk::text(part) == "web_search_call";
        } else if (key == "status") {
          counts = counts && walk::text(part) != "failed";
        } else if (key == "action") {
          walk::object_members(part, [&](std::string_view name, Value& inner) {
            if (name == "type") counts = counts && walk::text(inner) == "search";
          });
        }
      });
      count += search && counts ? 1 : 0;
    });
    searches = std::max(searches, count);
  }

  /// What the usage does not say and the rest of the answer does.
  void keep_billed() {
    if (type == "image_generation.completed" || type == "image_edit.completed")
      images = std::max<std::int64_t>(images, 1);
    Billed& billed = into.billed;
    billed.web_searches = std::max(billed.web_searches, searches);
    const std::int64_t output = into.reported.output.value_or(0);
    // Without details, all output is what was asked for.
    const bool split = billed.image_output > 0 || billed.audio_output > 0;
    if (images > 0 && !into.reported.input && !into.reported.output) billed.output_images = images;
    if (images > 0 && !split) billed.image_output = std::max<std::int64_t>(output, 0);
    if (type == "speech.audio.done" && !split) billed.audio_output = std::max<std::int64_t>(output, 0);
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

  /// A whole response may say that it failed and nothing more; that is what its streams end with, too.
  void keep_silent_failure() const {
    if (!into.error.empty() || object != "response" || status != "failed") return;
    into.error = Json{{"message", "the response failed and does not say why"}, {"code", "server_error"}}.dump();
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
      walker.keep_billed();
      walker.keep_error(json);
      walker.keep_silent_failure();
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
      walker.keep_billed();
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
  const Json json = is_shallow(event) ? Json::parse(event, nullptr, false) : Json();
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
