#include "classifier/families/gemini.h"

#include <simdjson.h>

#include <algorithm>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "classifier/families/openai.h"
#include "classifier/json_depth.h"
#include "classifier/walk.h"

namespace classifier::families {

namespace {

namespace ondemand = simdjson::ondemand;
using Value = ondemand::value;
using Json = nlohmann::ordered_json;

// What may stand in a part beside content, or marks it without being any.
constexpr std::string_view kNoContent[] = {"thought", "thoughtSignature", "thought_signature"};
// A candidate that ended so without any content was refused.
constexpr std::string_view kRefusals[] = {"SAFETY",
                                          "RECITATION",
                                          "BLOCKLIST",
                                          "PROHIBITED_CONTENT",
                                          "SPII",
                                          "IMAGE_SAFETY",
                                          "IMAGE_PROHIBITED_CONTENT",
                                          "IMAGE_RECITATION"};
// Members by which an answer of one of the operations is known.
constexpr std::string_view kAnswers[] = {"candidates",
                                         "promptFeedback",
                                         "embedding",
                                         "embeddings",
                                         "totalTokens",
                                         "data",
                                         "id",
                                         "object",
                                         "name",
                                         "predictions"};

template <std::size_t N>
bool among(const std::string_view (&words)[N], std::string_view word) {
  return std::ranges::find(words, word) != std::end(words);
}

/// [{"modality":"AUDIO","tokenCount":11}, …]: parts of the count beside it.
void read_modalities(Value& value, std::int64_t& audio, std::int64_t& images) {
  std::int64_t audio_sum = 0;
  std::int64_t image_sum = 0;
  walk::elements(value, [&](Value one) {
    std::string modality;
    std::int64_t tokens = 0;
    walk::object_members(one, [&](std::string_view key, Value& part) {
      if (key == "modality") modality = walk::text(part);
      if (key == "tokenCount") walk::keep_billed(tokens, part);
    });
    if (modality == "AUDIO") audio_sum += tokens;
    if (modality == "IMAGE") image_sum += tokens;
  });
  audio = audio_sum;
  images = image_sum;
}

void read_usage(Value& value, Reading& into) {
  const bool object = walk::object_members(value, [&](std::string_view key, Value& part) {
    Reported& reported = into.reported;
    if (key == "promptTokenCount") {
      walk::keep_whole(reported.input, part);
    } else if (key == "candidatesTokenCount") {
      walk::keep_whole(reported.output, part);
    } else if (key == "thoughtsTokenCount") {
      walk::keep_count(reported.reasoning, part);
    } else if (key == "cachedContentTokenCount") {
      walk::keep_count(reported.cached, part);
    } else if (key == "toolUsePromptTokenCount") {
      walk::keep_count(reported.tool_input, part);
    } else if (key == "promptTokensDetails") {
      read_modalities(part, into.billed.audio_input, into.billed.image_input);
    } else if (key == "cacheTokensDetails") {
      read_modalities(part, into.billed.cached_audio_input, into.billed.cached_image_input);
    } else if (key == "candidatesTokensDetails") {
      read_modalities(part, into.billed.audio_output, into.billed.image_output);
    } else if (key == "trafficType" || key == "serviceTier") {
      walk::keep_name(into.service_tier, part);
    }
  });
  if (!object) return;
  into.usage_seen = true;
  into.usage_changed = true;
}

void read_parts(Value& value, Reading& into) {
  walk::elements(value, [&](Value part) {
    walk::object_members(part, [&](std::string_view key, Value& member) {
      if (into.content || among(kNoContent, key)) return;
      into.content = walk::holds_something(member);
    });
  });
}

/// Whether there is any.
bool read_candidates(Value& value, Reading& into) {
  const auto count = walk::elements(value, [&](Value candidate) {
    std::int64_t index = 0;
    std::string finish;
    walk::object_members(candidate, [&](std::string_view key, Value& part) {
      if (key == "index") {
        index = walk::count(part).value_or(0);
      } else if (key == "finishReason") {
        finish = walk::text(part).substr(0, walk::kNameMax);
      } else if (key == "content") {
        walk::object_members(part, [&](std::string_view name, Value& inner) {
          if (name == "parts") read_parts(inner, into);
        });
      }
    });
    into.choices.begun(static_cast<std::uint64_t>(index));
    if (finish.empty()) return;
    into.choices.ended(static_cast<std::uint64_t>(index));
    if (index == 0) into.finish = finish;
  });
  return count.value_or(0) > 0;
}

/// Of Vertex's :predict, which has no usageMetadata: each text that was embedded says its tokens, and pictures are
/// counted. What neither says (other media, models that do not tell) stays unknown.
void read_predictions(Value& value, Reading& into) {
  std::int64_t tokens = 0;
  std::int64_t texts = 0;
  std::int64_t told = 0;
  std::int64_t images = 0;
  walk::elements(value, [&](Value prediction) {
    bool bytes = false;
    bool image = false;
    walk::object_members(prediction, [&](std::string_view key, Value& part) {
      if (key == "bytesBase64Encoded") bytes = walk::holds_something(part);
      if (key == "mimeType") image = walk::text(part).starts_with("image/");
      if (key != "embeddings") return;
      ++texts;
      walk::object_members(part, [&](std::string_view name, Value& inner) {
        if (name != "statistics") return;
        walk::object_members(inner, [&](std::string_view statistic, Value& number) {
          const auto count = statistic == "token_count" ? walk::count(number) : std::nullopt;
          if (!count) return;
          tokens = std::min(tokens + *count, walk::kCountMax);
          ++told;
        });
      });
    });
    images += bytes && image ? 1 : 0;
  });
  into.billed.output_images = std::max(into.billed.output_images, images);
  if (texts == 0 || told != texts) return;
  into.reported.input = tokens;
  into.usage_seen = into.usage_changed = true;
}

struct Chunk {
  Reading& into;
  bool candidates = false;
  bool error = false;
  bool openai = false;
  std::string blocked{};

  bool read(ondemand::object object) {
    return walk::members(object, [this](std::string_view key, Value& value) { member(key, value); });
  }

  void member(std::string_view key, Value& value) {
    into.answered = into.answered || among(kAnswers, key);
    if (key == "candidates") {
      candidates = read_candidates(value, into) || candidates;
    } else if (key == "usageMetadata") {
      read_usage(value, into);
    } else if (key == "predictions") {
      read_predictions(value, into);
    } else if (key == "modelVersion") {
      walk::keep_name(into.model, value);
    } else if (key == "promptFeedback") {
      walk::object_members(value, [this](std::string_view name, Value& part) {
        if (name == "blockReason") blocked = walk::text(part).substr(0, walk::kNameMax);
      });
    } else if (key == "error") {
      error = error || walk::holds_something(value);
    } else if (key == "usage") {
      openai = true;
    }
  }

  void conclude() {
    into.any_content = into.any_content || into.content;
    if (!blocked.empty() && !candidates) {
      into.finish = blocked;
      into.refusal = Class::ContentPolicy;
      into.terminal = true;
    }
    if (candidates && into.choices.all_ended()) {
      // Usage may still follow, so only the end of the transfer completes the stream.
      into.terminal = true;
      if (!into.any_content && into.finish && among(kRefusals, *into.finish)) into.refusal = Class::ContentPolicy;
    }
  }
};

bool read_answer(PaddedJson json, Reading& into) {
  into.begin_event();
  Chunk chunk{.into = into};
  const bool read = walk::document<ondemand::parser>(json, [&](ondemand::document& document) {
    // A stream that was asked for without alt=sse is one array of chunks.
    return walk::each_object(document, [&](ondemand::object object) { return chunk.read(object); });
  });
  if (!read) return false;
  chunk.conclude();
  if (chunk.error) into.error = json.text;
  // Embeddings of the endpoint that speaks OpenAI's language.
  if (chunk.openai) return kOpenAi.read_answer(json, into);
  return true;
}

bool read_event(std::string_view, PaddedJson json, Reading& into) { return read_answer(json, into); }

/// Its own form is the document as it stands: {"error":{"code","message","status"}}.
std::string error_document(std::string_view event, const SaidError& said) {
  Json json = is_shallow(event) ? Json::parse(event, nullptr, false) : Json();
  if (json.is_array()) {
    const auto error =
        std::ranges::find_if(json, [](const Json& one) { return one.is_object() && one.contains("error"); });
    if (error != json.end()) json = Json(*error);
  }
  const auto error = json.is_object() ? json.find("error") : json.end();
  if (error != json.end() && error->is_object() && error->contains("message") && (*error)["message"].is_string() &&
      error->contains("code")) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  Json made = {{"error", {{"code", said.status}, {"message", said.message}, {"status", said.code}}}};
  if (said.code.empty()) made["error"]["status"] = said.type.empty() ? "INTERNAL" : said.type;
  return made.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

const Family kGemini{
    .read_answer = read_answer, .read_event = read_event, .settle = settle_gemini, .error_document = error_document};

}  // namespace classifier::families
