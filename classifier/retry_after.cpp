#include "classifier/retry_after.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "classifier/json.h"

namespace classifier {

namespace {

using std::chrono::milliseconds;

std::string lowered(std::string_view text) {
  std::string out{text};
  std::ranges::transform(out, out.begin(), lower);
  return out;
}

/// "try again in 20s", "retry after 45 seconds": the first such place that holds a usable wait.
std::optional<milliseconds> from_text(std::string_view text) {
  constexpr std::array<std::string_view, 3> kPhrases = {"try again in ", "retry in ", "retry after "};
  const std::string low = lowered(text);
  std::size_t at = 0;
  while (at < low.size()) {
    std::size_t found = std::string::npos;
    std::size_t behind = 0;
    for (const std::string_view phrase : kPhrases) {
      const std::size_t place = low.find(phrase, at);
      if (place < found) {
        found = place;
        behind = place + phrase.size();
      }
    }
    if (found == std::string::npos) return std::nullopt;
    at = behind;

    if (const auto wait = wait_at_front(std::string_view{low}.substr(behind))) return wait;
  }
  return std::nullopt;
}

/// Which dimensions are used up, and how their reset is written.
struct ResetHeader {
  std::string_view remaining;
  std::string_view reset;
  std::optional<milliseconds> (*read)(std::string_view value, std::optional<WallClock> now);
};

std::optional<milliseconds> go_or_seconds(std::string_view value, std::optional<WallClock>) {
  if (const auto duration = parse_go_duration(value)) return duration;
  return parse_seconds(value);
}

std::optional<milliseconds> rfc3339_from(std::string_view value, std::optional<WallClock> now) {
  return until(parse_rfc3339(value), now);
}

std::optional<milliseconds> seconds_or_epoch(std::string_view value, std::optional<WallClock> now) {
  if (const auto when = parse_epoch(value)) return until(when, now);
  return parse_seconds(value);
}

constexpr ResetHeader kResetHeaders[] = {
    {"x-ratelimit-remaining-requests", "x-ratelimit-reset-requests", go_or_seconds},
    {"x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", go_or_seconds},
    {"anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset", rfc3339_from},
    {"anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset", rfc3339_from},
    {"anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset", rfc3339_from},
    {"anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset", rfc3339_from},
    {"x-ratelimit-remaining", "x-ratelimit-reset", seconds_or_epoch},
};

std::optional<milliseconds> from_resets(const Headers& headers, std::optional<WallClock> now) {
  std::optional<milliseconds> latest;
  for (const ResetHeader& row : kResetHeaders) {
    const auto remaining = find(headers, row.remaining);
    if (!remaining || trimmed(*remaining) != "0") continue;
    const auto reset = find(headers, row.reset);
    if (!reset) continue;
    const auto wait = row.read(trimmed(*reset), now);
    if (wait && (!latest || *wait > *latest)) latest = wait;
  }
  return latest;
}

}  // namespace

std::optional<milliseconds> retry_after(const HintSources& sources) {
  std::optional<WallClock> now = sources.now;
  if (sources.headers != nullptr) {
    const Headers& headers = *sources.headers;
    if (const auto date = find(headers, "date")) {
      if (const auto parsed = parse_http_date(*date, sources.now)) now = parsed;
    }
    if (const auto value = find(headers, "retry-after-ms")) {
      if (const auto wait = parse_milliseconds(*value)) return wait;
    }
    if (const auto value = find(headers, "retry-after")) {
      if (const auto wait = parse_seconds(*value)) return wait;
      if (const auto wait = until(parse_http_date(*value, now), now)) return wait;
    }
  }
  if (!sources.retry_delay.empty()) {
    if (const auto wait = parse_go_duration(sources.retry_delay)) return wait;
  }
  if (sources.headers != nullptr) {
    if (const auto wait = from_resets(*sources.headers, now)) return wait;
  }
  return from_text(sources.text);
}

Headers hint_headers(const Headers& headers) {
  constexpr std::array<std::string_view, 4> kNames = {"date", "retry-after", "retry-after-ms", "x-should-retry"};
  Headers kept;
  for (const Header& header : headers) {
    bool wanted = std::ranges::any_of(kNames, [&](std::string_view name) { return same_name(name, header.name); });
    for (const ResetHeader& row : kResetHeaders) {
      wanted = wanted || same_name(row.remaining, header.name) || same_name(row.reset, header.name);
    }
    if (wanted) kept.push_back(header);
  }
  return kept;
}

}  // namespace classifier
