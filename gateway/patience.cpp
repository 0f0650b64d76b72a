#include "gateway/patience.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Kind {
  std::string_view prefix;  // Of the user agent, in any case.
  seconds waits;
};
// The first that fits wins: old node-fetch versions stand before the fetch clients, which give up after 300 s
// whatever they say.
constexpr Kind kKinds[] = {
    {"openai/js 4.", seconds{600}},
    {"anthropic/js 0.", seconds{600}},
    {"groq/", seconds{60}},
    {"boto3/", seconds{60}},
    {"botocore/", seconds{60}},
    {"openai/js", seconds{300}},
    {"anthropic/js", seconds{300}},
    {"ai/", seconds{300}},
    {"ai-sdk/", seconds{300}},
    {"mistral-client-typescript/", seconds{300}},
    {"cohere-ai/", seconds{300}},
    {"langchainjs", seconds{300}},
    {"node", seconds{300}},
    {"undici", seconds{300}},
};
constexpr seconds kOthers{600};

// Larger values are milliseconds (an old SDK sends 600000); nobody waits three hours for a first byte.
constexpr double kSecondsMax = 10'000;
constexpr const char* kDeclared[] = {"x-stainless-read-timeout", "x-stainless-timeout", "x-server-timeout"};

bool begins(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && classifier::same_name(text.substr(0, prefix.size()), prefix);
}

std::optional<milliseconds> declared(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) || value <= 0)
    return std::nullopt;
  if (value <= kSecondsMax) value *= 1'000;
  if (value > kSecondsMax * 1'000) return std::nullopt;
  return milliseconds{static_cast<std::int64_t>(std::ceil(value))};
}

}  // namespace

milliseconds patience_of(const classifier::Headers& headers) {
  milliseconds waits = kOthers;
  const auto agent = classifier::find(headers, "user-agent").value_or(std::string_view{});
  for (const Kind& kind : kKinds) {
    if (!begins(agent, kind.prefix)) continue;
    waits = kind.waits;
    break;
  }
  for (const char* name : kDeclared) {
    const auto value = classifier::find(headers, name);
    if (const auto said = value ? declared(*value) : std::nullopt) waits = std::min(waits, *said);
  }
  const milliseconds margin = std::clamp<milliseconds>(waits / 12, milliseconds{50}, seconds{10});
  return std::max(waits - margin, milliseconds{50});
}

}  // namespace gateway
