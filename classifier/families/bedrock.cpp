#include "classifier/families/bedrock.h"

#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "classifier/base64.h"
#include "classifier/families/anthropic.h"
#include "classifier/families/openai.h"
#include "classifier/json_depth.h"
#include "classifier/walk.h"

namespace classifier::families {

namespace {

namespace ondemand = simdjson::ondemand;
using Value = ondemand::value;
using Json = nlohmann::ordered_json;

// Members by which an answer of one of the operations beside InvokeModel is known.
constexpr std::string_view kAnswers[] = {"output", "stopReason", "inputTokens", "action", "assessments"};
// Members of a Nova stream's chunks: what are events of their own in ConverseStream.
constexpr std::string_view kEvents[] = {
    "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"};

// What stands in the answer then is a sentence of the guardrail's owner, or what was left of the model's.
constexpr std::string_view kByPolicy[] = {"guardrail_intervened", "content_filtered", "CONTENT_FILTERED"};

template <std::size_t N>
bool among(const std::string_view (&words)[N], std::string_view word) {
  return std::ranges::find(words, word) != std::end(words);
}

void keep_finish(Value& value, Reading& into) {
  const std::string_view finish = walk::text(value).substr(0, walk::kNameMax);
  if (finish.empty()) return;
  into.finish = std::string{finish};
  into.choices.ended(0);
  if (among(kByPolicy, finish)) into.refusal = Class::ContentPolicy;
}

void usage_read(const Reported& reported, Settle settle, Reading& into) {
  if (!reported.input && !reported.output) return;
  into.reported = reported;
  into.settle = settle;
  into.usage_seen = true;
  into.usage_changed = true;
}

/// What was written to the cache, by how long it stays there.
void read_cache_details(Value& value, Reported& reported) {
  reported.written_5m.reset();
  reported.written_1h.reset();
  walk::elements(value, [&](Value detail) {
    std::string_view lifetime;
    std::optional<std::int64_t> tokens;
    walk::object_members(detail, [&](std::string_view key, Value& part) {
      if (key == "ttl") lifetime = walk::text(part);
      if (key == "inputTokens") walk::keep_count(tokens, part);
    });
    if (!tokens) return;
    std::optional<std::int64_t>& sum = lifetime == "1h" ? reported.written_1h : reported.written_5m;
    sum = *tokens == kUnreadable || sum == kUnreadable ? kUnreadable : sum.value_or(0) + *tokens;
  });
}

void read_usage(Value& value, Reading& into) {
  Reported now = into.reported;
  std::optional<std::int64_t> cached;
  std::optional<std::int64_t> written;
  walk::object_members(value, [&](std::string_view key, Value& part) {
    if (key == "inputTokens") {
      walk::keep_whole(now.input, part);
    } else if (key == "outputTokens") {
      walk::keep_whole(now.output, part);
    } else if (key == "cacheReadInputTokens" || key == "cacheReadInputTokenCount") {
      walk::keep_largest(cached, part);
    } else if (key == "cacheWriteInputTokens" || key == "cacheWriteInputTokenCount") {
      walk::keep_largest(written, part);
    } else if (key == "cacheDetails") {
      read_cache_details(part, now);
    }
  });
  if (cached) now.cached = cached;
  if (written) now.written = written;
  usage_read(now, settle_anthropic, into);
}

void read_tier(Value& value, Reading& into) {
  if (!std::string_view{value.raw_json_token()}.starts_with('{')) return walk::keep_name(into.service_tier, value);
  walk::object_members(value, [&](std::string_view key, Value& part) {
    if (key == "type") walk::keep_name(into.service_tier, part);
  });
}

/// Members of a Converse answer and of the events of its stream.
void read_member(std::string_view key, Value& value, Reading& into) {
  into.answered = into.answered || among(kAnswers, key);
  if (key == "stopReason") {
    keep_finish(value, into);
  } else if (key == "usage") {
    read_usage(value, into);
  } else if (key == "serviceTier") {
    read_tier(value, into);
  } else if (key == "delta" || key == "start") {
    walk::object_members(
        value, [&](std::string_view, Value& part) { into.content = walk::holds_something(part) || into.content; });
  }
}

/// An answer of nothing but words, or an error's type, in a 200.
struct ErrorMarks {
  bool words = false;
  bool type = false;
  void see(std::string_view key, Value& value) {
    words = words || ((key == "message" || key == "Message") && !walk::text(value).empty());
    type = type || (key == "__type" && walk::holds_something(value));
  }
  void conclude(PaddedJson json, Reading& into) const {
    if (type || (words && !into.answered)) into.error = json.text;
  }
};

bool read_converse(PaddedJson json, Reading& into) {
  into.begin_event();
  ErrorMarks marks;
  const bool read = walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document, [&](ondemand::object object) {
      return walk::members(object, [&](std::string_view key, Value& value) {
        marks.see(key, value);
        read_member(key, value, into);
      });
    });
  });
  if (read) marks.conclude(json, into);
  return read;
}

/// Usage comes last, behind the stop reason.
void end_of(std::string_view event, Reading& into) {
  if (event == "metadata") into.terminal = into.complete = true;
}

bool read_converse_event(std::string_view name, PaddedJson json, Reading& into) {
  const bool read = walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document, [&](ondemand::object object) {
      return walk::members(object, [&](std::string_view key, Value& value) { read_member(key, value, into); });
    });
  });
  if (read) end_of(name, into);
  return read;
}

/// In whose form a model answers.
enum class Form { Anthropic, OpenAi, Converse, ConverseEvent, Other };

/// What can be told of a document before its form is known.
struct Outline {
  Form form = Form::Other;
  bool metrics = false;  // Bedrock's own counts, in the last chunk of every stream.
  bool intervened = false;
  Reported counted{};

  void see(std::string_view key, Value& value) {
    if (key == "amazon-bedrock-invocationMetrics") {
      read_metrics(value);
    } else if (key == "amazon-bedrock-guardrailAction") {
      intervened = walk::text(value) == "INTERVENED";
    } else if (key == "choices" || key == "object") {
      form = Form::OpenAi;
    } else if (form == Form::OpenAi) {
      return;  // Whatever else is there: a `type` or an `output` of its own.
    } else if (key == "type") {
      form = Form::Anthropic;
    } else if (among(kEvents, key)) {
      form = Form::ConverseEvent;
    } else if (key == "stopReason" || key == "output") {
      form = Form::Converse;
    }
  }

  void read_metrics(Value& value) {
    metrics = true;
    walk::object_members(value, [this](std::string_view key, Value& part) {
      if (key == "inputTokenCount") walk::keep_count(counted.input, part);
      if (key == "outputTokenCount") walk::keep_count(counted.output, part);
      if (key == "cacheReadInputTokenCount") walk::keep_count(counted.cached, part);
      if (key == "cacheWriteInputTokenCount") walk::keep_count(counted.written, part);
    });
  }
};

/// Llama, Titan, Mistral, Cohere, embeddings, images: few members, and no two models have them alike.
struct OtherForm {
  Reading& into;
  Reported reported{};
  ErrorMarks marks{};
  bool error = false;

  void member(std::string_view key, Value& value) {
    marks.see(key, value);
    into.answered = into.answered || (key != "message" && key != "Message" && key != "__type" && key != "error");
    if (key == "prompt_token_count" || key == "inputTextTokenCount") {
      walk::keep_count(reported.input, value);
    } else if (key == "generation_token_count" || key == "totalOutputTextTokenCount") {
      walk::keep_count(reported.output, value);
    } else if (key == "generation" || key == "outputText" || key == "text" || key == "completion") {
      into.content = walk::holds_something(value) || into.content;
    } else if (key == "stop_reason" || key == "finish_reason" || key == "completionReason") {
      keep_finish(value, into);
    } else if (key == "results" || key == "outputs" || key == "generations") {
      read_results(value);
    } else if (key == "error") {
      error = walk::holds_something(value);
    }
  }

  void read_results(Value& value) {
    std::optional<std::int64_t> sum;
    bool first = true;
    walk::elements(value, [&](Value result) {
      std::optional<std::int64_t> tokens;
      walk::object_members(result, [&](std::string_view key, Value& part) {
        if (key == "tokenCount") {
          walk::keep_count(tokens, part);
        } else if (key == "text" || key == "outputText") {
          into.content = walk::holds_something(part) || into.content;
        } else if (first && (key == "completionReason" || key == "stop_reason" || key == "finish_reason")) {
          keep_finish(part, into);
        }
      });
      first = false;
      if (tokens) sum = *tokens == kUnreadable || sum == kUnreadable ? kUnreadable : sum.value_or(0) + *tokens;
    });
    if (sum) reported.output = sum;
  }

  void conclude(PaddedJson json) {
    usage_read(reported, settle_plain, into);
    marks.conclude(json, into);
    if (error) into.error = json.text;
  }
};

bool read_other(PaddedJson json, Reading& into) {
  OtherForm other{.into = into, .reported = into.reported};
  const bool read = walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document, [&](ondemand::object object) {
      return walk::members(object, [&](std::string_view key, Value& value) { other.member(key, value); });
    });
  });
  if (read) other.conclude(json);
  return read;
}

bool read_chunk_of_events(PaddedJson json, Reading& into) {
  return walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document, [&](ondemand::object object) {
      return walk::members(object, [&](std::string_view name, Value& value) {
        if (!among(kEvents, name)) return;
        walk::object_members(value, [&](std::string_view key, Value& part) { read_member(key, part, into); });
        end_of(name, into);
      });
    });
  });
}

bool read_form(Form form, bool event, PaddedJson json, Reading& into) {
  switch (form) {
    case Form::Anthropic:
      return event ? kAnthropic.read_event({}, json, into) : kAnthropic.read_answer(json, into);
    case Form::OpenAi:
      return event ? kOpenAi.read_event({}, json, into) : kOpenAi.read_answer(json, into);
    case Form::Converse:
      return event ? read_converse_event({}, json, into) : read_converse(json, into);
    case Form::ConverseEvent:
      return read_chunk_of_events(json, into);
    case Form::Other:
      break;
  }
  return read_other(json, into);
}

bool read_models_own(bool event, PaddedJson json, Reading& into) {
  Outline outline;
  const bool read = walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document, [&](ondemand::object object) {
      return walk::members(object, [&](std::string_view key, Value& value) { outline.see(key, value); });
    });
  });
  if (!read || !read_form(outline.form, event, json, into)) return false;
  // In the forms of other APIs the reason is the guardrail's, too.
  if (outline.intervened || (into.finish && among(kByPolicy, *into.finish))) into.refusal = Class::ContentPolicy;
  if (into.usage_changed && outline.form == Form::Anthropic) into.settle = settle_anthropic;
  if (into.usage_changed && outline.form == Form::OpenAi) into.settle = settle_openai;
  if (!outline.metrics) return true;
  // They repeat what the model has said of its tokens, if it has.
  if (!into.usage_seen) usage_read(outline.counted, settle_anthropic, into);
  into.terminal = into.complete = true;
  return true;
}

bool read_invoked(PaddedJson json, Reading& into) {
  into.begin_event();
  return read_models_own(false, json, into);
}

/// {"bytes": the model's own event in base64}, with padding beside it.
bool read_chunk(std::string_view, PaddedJson json, Reading& into) {
  std::string inner;
  const bool read = walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    return walk::each_object(document, [&](ondemand::object object) {
      return walk::members(object, [&](std::string_view key, Value& value) {
        if (key == "bytes") inner = from_base64(walk::text(value));
      });
    });
  });
  if (!read || inner.empty()) return read;
  const PaddedCopy copy{inner};
  return read_models_own(true, copy.json(), into);
}

/// {"__type","message"}: SDKs look there for the type if no header names it.
std::string error_document(std::string_view event, const SaidError& said) {
  const Json json = is_shallow(event) ? Json::parse(event, nullptr, false) : Json();
  std::string type;
  if (json.is_object() && json.contains("__type") && json["__type"].is_string()) type = json["__type"];
  // In a stream its first letter is a small one.
  if (!type.empty() && type[0] >= 'a' && type[0] <= 'z') type[0] = static_cast<char>(type[0] - 'a' + 'A');
  if (type.empty()) type = bedrock_error_type(said.status);
  return Json{{"__type", type}, {"message", said.message}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string_view bedrock_error_type(int status) {
  switch (status) {
    case 401:
      return "UnrecognizedClientException";
    case 402:
      return "ServiceQuotaExceededException";
    case 403:
      return "AccessDeniedException";
    case 404:
      return "ResourceNotFoundException";
    case 408:
    case 504:
      return "ModelTimeoutException";
    case 409:
      return "ConflictException";
    case 424:
      return "ModelErrorException";
    case 429:
      return "ThrottlingException";
    case 503:
    case 529:
      return "ServiceUnavailableException";
    default:
      return status < 500 ? "ValidationException" : "InternalServerException";
  }
}

void read_bedrock_head(const Headers& head, Reading& into) {
  if (const auto tier = find(head, "x-amzn-bedrock-service-tier"); tier && into.service_tier.empty())
    into.service_tier = tier->substr(0, walk::kNameMax);
  if (into.usage_seen) return;
  Reported counted;
  const auto keep = [&](std::string_view name, std::optional<std::int64_t>& count) {
    if (const auto value = find(head, name)) count = walk::count_in(trimmed(*value)).value_or(kUnreadable);
  };
  keep("x-amzn-bedrock-input-token-count", counted.input);
  keep("x-amzn-bedrock-output-token-count", counted.output);
  keep("x-amzn-bedrock-cache-read-input-token-count", counted.cached);
  keep("x-amzn-bedrock-cache-write-input-token-count", counted.written);
  usage_read(counted, settle_anthropic, into);
}

const Family kConverse{.read_answer = read_converse,
                       .read_event = read_converse_event,
                       .settle = settle_anthropic,
                       .error_document = error_document,
                       .frames = true};
const Family kInvoke{.read_answer = read_invoked,
                     .read_event = read_chunk,
                     .settle = settle_anthropic,
                     .error_document = error_document,
                     .frames = true};

}  // namespace classifier::families
