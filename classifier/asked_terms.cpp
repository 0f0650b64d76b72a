#include "classifier/asked_terms.h"

#include <simdjson.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "classifier/walk.h"

namespace classifier {

namespace {

namespace ondemand = simdjson::ondemand;
using Value = ondemand::value;

struct Habit {
  std::string_view dialect;
  bool set_elsewhere = false;
  bool place_set_elsewhere = false;
  std::string_view tier_header{};  // Asks for a tier beside or instead of the body.
};
// Elsewhere, a request that does not speak of it gets the plain tier.
constexpr Habit kHabits[] = {
    {"openai", true},           // By the project.
    {"azure", true},            // By the deployment.
    {"anthropic", true, true},  // By what was committed to, and by the workspace.
    {"bedrock", false, false, "x-amzn-bedrock-service-tier"},
    {"vertex", false, false, "x-vertex-ai-llm-shared-request-type"},
};

constexpr std::int64_t kUsualSearches = 10;
constexpr std::int64_t kUsualPredictions = 4;  // Vertex's :predict, where `parameters.sampleCount` is not said.

/// A text, or at Bedrock an object that has it as its type.
void read_tier(Value& value, std::string& tier) {
  if (!std::string_view{value.raw_json_token()}.starts_with('{')) return walk::keep_name(tier, value);
  walk::object_members(value, [&](std::string_view key, Value& part) {
    if (key == "type") walk::keep_name(tier, part);
  });
}

/// How often its tools may search the web, all together.
std::int64_t searches_in(Value& tools) {
  std::int64_t searches = 0;
  walk::elements(tools, [&](Value tool) {
    bool is_search = false;
    std::int64_t most = kUsualSearches;
    walk::object_members(tool, [&](std::string_view key, Value& part) {
      if (key == "type") is_search = walk::text(part).starts_with("web_search");
      if (key == "max_uses") most = walk::count(part).value_or(kUsualSearches);
    });
    if (is_search) searches = std::min(searches + most, walk::kCountMax);
  });
  return searches;
}

void read_body(std::string_view body, AskedTerms& asked) {
  std::optional<std::int64_t> samples;
  std::optional<std::int64_t> tool_calls;  // At most so many of the provider's own tools.
  const bool read = walk::document<ondemand::parser>({body}, [&](ondemand::document& document) {
    auto object = document.get_object();
    if (object.error()) return false;
    return walk::members(object.value_unsafe(), [&](std::string_view key, Value& value) {
      if (key == "service_tier" || key == "serviceTier") {
        read_tier(value, asked.service_tier);
      } else if (key == "speed") {
        walk::keep_name(asked.speed, value);
      } else if (key == "inference_geo") {
        walk::keep_name(asked.inference_geo, value);
      } else if (key == "n") {
        asked.images = walk::count(value).value_or(1);
      } else if (key == "instances") {
        asked.images = std::max(asked.images, kUsualPredictions);
      } else if (key == "parameters") {
        walk::object_members(value, [&](std::string_view name, Value& part) {
          if (name == "sampleCount") samples = walk::count(part);
        });
      } else if (key == "tools") {
        asked.web_searches = std::max(asked.web_searches, searches_in(value));
      } else if (key == "web_search_options") {
        asked.web_searches = std::max(asked.web_searches, kUsualSearches);
      } else if (key == "max_tool_calls") {
        tool_calls = walk::count(value);
      }
    });
  });
  if (read && samples) asked.images = *samples;
  if (read && tool_calls) asked.web_searches = std::min(asked.web_searches, *tool_calls);
}

}  // namespace

AskedTerms read_asked_terms(const Dialect& dialect, const Headers& headers, std::string_view body) {
  AskedTerms asked;
  if (!body.empty()) read_body(body, asked);
  const auto* habit = std::ranges::find(kHabits, dialect.name(), &Habit::dialect);
  if (habit == std::end(kHabits)) return asked;
  asked.set_elsewhere = habit->set_elsewhere;
  asked.place_set_elsewhere = habit->place_set_elsewhere;
  if (habit->tier_header.empty()) return asked;
  if (const auto tier = find(headers, habit->tier_header)) {
    // Which of two that differ holds is the provider's to know.
    const bool other = !asked.service_tier.empty() && asked.service_tier != *tier;
    asked.service_tier = other ? "auto" : tier->substr(0, walk::kNameMax);
  }
  return asked;
}

}  // namespace classifier
