#include "classifier/reported.h"

#include <algorithm>

namespace classifier {

bool unreadable(const Reported& reported) {
  // The total is only there to check the others by.
  const auto bad = [](const std::optional<std::int64_t>& count) { return count && *count < 0; };
  return bad(reported.input) || bad(reported.tool_input) || bad(reported.cached) || bad(reported.written) ||
         bad(reported.written_5m) || bad(reported.written_1h) || bad(reported.output) || bad(reported.reasoning);
}

std::optional<TokenCounts> settle_plain(const Reported& reported) {
  if (unreadable(reported) || (!reported.input && !reported.output)) return std::nullopt;
  return TokenCounts{.input = reported.input.value_or(0), .output = reported.output.value_or(0)};
}

std::optional<TokenCounts> settle_openai(const Reported& said) {
  Reported reported = said;
  if (reported.output == kNull && reported.input && reported.total && *reported.total >= *reported.input) {
    reported.output = *reported.total - *reported.input;
  }
  if (unreadable(reported) || (!reported.input && !reported.output)) return std::nullopt;
  const std::int64_t prompt = reported.input.value_or(0);
  const std::int64_t completion = reported.output.value_or(0);
  const std::int64_t cached = reported.cached.value_or(0);
  const std::int64_t written = reported.written.value_or(0);
  const std::int64_t reasoning = reported.reasoning.value_or(0);
  const std::int64_t outside =
      reported.total && reported.input && reported.output ? *reported.total - prompt - completion : 0;

  TokenCounts counts{.input = prompt,
                     .cached_input = cached,
                     .cache_write_5m = written,
                     .output = completion,
                     .reasoning = reasoning};
  if (outside > 0) {
    if (outside == reasoning) {
      counts.output += reasoning;
    } else if (cached > prompt && outside == cached) {
      counts.input += cached;
    } else if (cached > 0 && outside == cached + reasoning) {
      counts.input += cached;
      counts.output += reasoning;
    } else if (reasoning == 0) {
      counts.output += outside;  // Thinking that the provider does not show as such.
      counts.reasoning = outside;
    }
  }
  // A part that is larger than its whole was not in it.
  if (counts.cached_input + counts.cache_write_5m > counts.input)
    counts.input += counts.cached_input + counts.cache_write_5m;
  if (counts.reasoning > counts.output) counts.output += counts.reasoning;
  return counts;
}

std::optional<TokenCounts> settle_anthropic(const Reported& reported) {
  if (unreadable(reported)) return std::nullopt;
  if (!reported.input && !reported.output) return std::nullopt;
  TokenCounts counts;
  counts.cached_input = reported.cached.value_or(0);
  counts.cache_write_5m = reported.written_5m.value_or(0);
  counts.cache_write_1h = reported.written_1h.value_or(0);
  // Without the split by lifetime, or beyond it: the default lifetime is five minutes.
  const std::int64_t split = counts.cache_write_5m + counts.cache_write_1h;
  if (reported.written) counts.cache_write_5m += std::max<std::int64_t>(0, *reported.written - split);
  counts.input = reported.input.value_or(0) + counts.cached_input + counts.cache_write_5m + counts.cache_write_1h;
  counts.output = reported.output.value_or(0);
  counts.reasoning = std::min(reported.reasoning.value_or(0), counts.output);
  return counts;
}

std::optional<TokenCounts> settle_gemini(const Reported& reported) {
  if (unreadable(reported)) return std::nullopt;
  if (!reported.input && !reported.output && !reported.reasoning && !reported.tool_input) return std::nullopt;
  TokenCounts counts;
  counts.cached_input = reported.cached.value_or(0);
  counts.input = std::max(reported.input.value_or(0) + reported.tool_input.value_or(0), counts.cached_input);
  counts.reasoning = reported.reasoning.value_or(0);
  counts.output = reported.output.value_or(0) + counts.reasoning;
  return counts;
}

}  // namespace classifier
