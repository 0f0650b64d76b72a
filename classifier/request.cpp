#include "classifier/request.h"

#include <simdjson.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>

#include "classifier/json.h"
#include "classifier/walk.h"

namespace classifier {

namespace {

namespace ondemand = simdjson::ondemand;
using Value = ondemand::value;

constexpr std::size_t kModelMax = 128;
constexpr std::int64_t kChoicesMax = 1'024;
constexpr std::int64_t kPromptsMax = 65'536;

std::string_view literal(std::string_view token) { return trimmed(token); }

/// What it may be taken for at most: to some, digits in a text are a number, and what is beyond all sense is the
/// most.
std::optional<std::int64_t> wish(Value& value) {
  const std::string_view token = literal(value.raw_json_token());
  const bool quoted = token.starts_with('"');
  const auto most_of = [](std::string_view digits) -> std::optional<std::int64_t> {
    const bool all = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
    return all ? std::optional{walk::kCountMax} : std::nullopt;
  };
  if (quoted) {
    const std::string_view text = walk::text(value);
    const auto read = walk::count_in(text);
    return read ? read : most_of(text);
  }
  const auto read = walk::count(value);
  const bool number = !token.empty() && token.front() >= '1' && token.front() <= '9';
  return read || !number ? read : std::optional{walk::kCountMax};
}

/// Of several names that say it, each provider knows another one: the largest is the bound.
void raise(std::optional<std::int64_t>& most, std::optional<std::int64_t> said) {
  if (said) most = std::max(most.value_or(0), *said);
}

/// A legacy completion has as many answers as its list has prompts; a list of numbers is one prompt, as tokens.
std::int64_t prompts_in(Value& value) {
  if (!literal(value.raw_json_token()).starts_with('[')) return 1;
  std::int64_t prompts = 0;
  walk::elements(value, [&](Value one) {
    const std::string_view token = literal(one.raw_json_token());
    if (token.starts_with('"') || token.starts_with('[')) ++prompts;
  });
  return std::max<std::int64_t>(prompts, 1);
}

void read_options(Value& value, std::optional<std::int64_t>& limit, std::int64_t& choices) {
  walk::object_members(value, [&](std::string_view key, Value& part) {
    // num_predict is Ollama's, in `options`; the last three are those of models at Bedrock.
    constexpr std::string_view kLimits[] = {
        "maxOutputTokens", "max_output_tokens", "num_predict", "maxTokens", "max_new_tokens", "maxTokenCount"};
    if (std::ranges::find(kLimits, key) != std::end(kLimits)) raise(limit, wish(part));
    if (key == "candidateCount" || key == "candidate_count") choices = std::max(choices, wish(part).value_or(1));
  });
}

}  // namespace

RequestFacts read_request_body(std::string_view body, bool streams_unasked) {
  RequestFacts facts;
  facts.stream = streams_unasked;
  facts.usage_asked = false;
  std::int64_t choices = 1;
  std::int64_t asked = 1;  // By `n`; Gemini may give fewer candidates than are asked for, and says no end.
  std::int64_t prompts = 1;
  std::optional<std::int64_t> limit;
  const bool read = walk::document<ondemand::parser>({body}, [&](ondemand::document& document) {
    auto object = document.get_object();
    if (object.error()) return false;
    return walk::members(object.value_unsafe(), [&](std::string_view key, Value& value) {
      if (key == "model") {
        facts.model = walk::text(value).substr(0, kModelMax);
      } else if (key == "stream") {
        facts.stream = walk::truth(value).value_or(streams_unasked);
      } else if (key == "max_tokens" || key == "max_output_tokens" || key == "max_gen_len" ||
                 key == "max_completion_tokens") {
        raise(limit, wish(value));
      } else if (key == "n") {
        asked = wish(value).value_or(1);
        choices = std::max(choices, asked);
      } else if (key == "best_of") {
        choices = std::max(choices, wish(value).value_or(1));
      } else if (key == "prompt") {
        prompts = prompts_in(value);
      } else if (key == "stream_options") {
        facts.usage_asked = false;
        walk::object_members(value, [&](std::string_view name, Value& part) {
          if (name == "include_usage") facts.usage_asked = walk::truth(part).value_or(false);
        });
      } else if (key == "generationConfig" || key == "generation_config" || key == "options" ||
                 key == "inferenceConfig" || key == "textGenerationConfig") {
        read_options(value, limit, choices);
      }
    });
  });
  facts.unreadable = !read;
  facts.choices = std::clamp<std::int64_t>(asked, 1, kChoicesMax);
  // The limit is one for each choice.
  const std::int64_t answers = std::clamp<std::int64_t>(choices, 1, kChoicesMax) * std::min(prompts, kPromptsMax);
  if (limit) facts.max_output_tokens = std::min(*limit, walk::kCountMax / answers) * answers;
  return facts;
}

std::optional<Edit> include_usage(std::string_view body) {
  constexpr std::string_view kMember = "\"include_usage\":true";
  bool stream = false;
  bool options_there = false;
  std::optional<Edit> edit;
  const auto offset = [&](std::string_view token) { return static_cast<std::size_t>(token.data() - body.data()); };

  const bool read = walk::document<ondemand::parser>(
      {body},
      [&](ondemand::document& document) {
        auto object = document.get_object();
        if (object.error()) return false;
        return walk::members(object.value_unsafe(), [&](std::string_view key, Value& value) {
          if (key == "stream") stream = walk::truth(value).value_or(false);
          if (key != "stream_options") return;
          options_there = true;
          edit.reset();  // Of two such members the last one counts.
          const std::string_view token = value.raw_json_token();
          if (literal(token) == "null") {
            edit = Edit{.offset = offset(token), .length = 4, .text = "{" + std::string{kMember} + "}"};
            return;
          }
          if (!token.starts_with('{')) return;
          bool empty = true;
          bool there = false;
          std::optional<Edit> flip;
          walk::object_members(value, [&](std::string_view name, Value& part) {
            empty = false;
            if (name != "include_usage") return;
            there = true;
            flip.reset();
            const std::string_view inner = part.raw_json_token();
            const std::string_view word = literal(inner);
            if (word == "false" || word == "null")
              flip = Edit{.offset = offset(inner), .length = word.size(), .text = "true"};
          });
          if (there) {
            edit = flip;
          } else {
            edit = Edit{.offset = offset(token) + 1, .length = 0, .text = std::string{kMember} + (empty ? "" : ",")};
          }
        });
      },
      walk::Broken::Refuse);
  if (!read || !stream) return std::nullopt;
  if (options_there) return edit;
  const std::size_t brace = body.find('{');
  return Edit{.offset = brace + 1, .length = 0, .text = "\"stream_options\":{" + std::string{kMember} + "},"};
}

std::vector<Edit> rename_model(std::string_view body, const ModelNames& names) {
  std::vector<Edit> edits;
  const auto rename = [&](std::string_view key, Value& value) {
    const std::string_view token = literal(value.raw_json_token());
    if (key != "model" || !token.starts_with('"')) return;
    std::string_view name = walk::text(value);
    const bool fronted = !names.front.empty() && name.starts_with(names.front);
    if (fronted) name.remove_prefix(names.front.size());
    if (name == names.to || (!names.from.empty() && name != names.from)) return;
    std::string text{fronted ? names.front : std::string_view{}};
    text += names.to;
    edits.push_back(Edit{.offset = static_cast<std::size_t>(token.data() - body.data()),
                         .length = token.size(),
                         .text = classifier::quoted(text)});
  };
  const bool repeated = !names.front.empty() && !names.from.empty();
  const bool read = walk::document<ondemand::parser>(
      {body},
      [&](ondemand::document& document) {
        auto object = document.get_object();
        if (object.error()) return false;
        return walk::members(object.value_unsafe(), [&](std::string_view key, Value& value) {
          if (repeated && key == "requests") {
            walk::elements(value, [&](Value& element) { walk::object_members(element, rename); });
          } else if (repeated && key == "generateContentRequest") {
            walk::object_members(value, rename);
          } else {
            rename(key, value);
          }
        });
      },
      walk::Broken::Refuse);
  // The walk passes over what it does not look for, without a look at it.
  if (!read || (!edits.empty() && !well_formed(without_bom(body)))) edits.clear();
  return edits;
}

std::string edited(std::string_view body, std::span<const Edit> edits) {
  std::size_t size = body.size() + kBodyPadding;
  for (const Edit& edit : edits) size += edit.text.size();
  std::string out;
  out.reserve(size);
  std::size_t at = 0;
  for (const Edit& edit : edits) {
    assert(edit.offset >= at && edit.length <= body.size() - edit.offset);
    out.append(body, at, edit.offset - at).append(edit.text);
    at = edit.offset + edit.length;
  }
  return out.append(body, at);
}

}  // namespace classifier
