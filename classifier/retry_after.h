#pragma once
// How long did the provider ask us to stay away? Every form in which providers say it, in one order of trust.

#include <chrono>
#include <optional>
#include <string_view>

#include "classifier/headers.h"

namespace classifier {

using WallClock = std::chrono::system_clock::time_point;

/// Where a hint may stand. The first usable one counts: retry-after-ms, Retry-After, `retry_delay`, the reset
/// headers of exhausted dimensions, text. Negative, not a number or above ten years is not usable; zero is.
struct HintSources {
  const Headers* headers = nullptr;
  std::string_view retry_delay{};  // google.rpc.RetryInfo: "40.025771073s".
  std::string_view text{};         // The provider's own words.
  std::optional<WallClock> now{};  // Dates are measured against the Date header, and against this without one.
};
/// Rounded up to whole milliseconds, never negative. A date that has passed is zero.
[[nodiscard]] std::optional<std::chrono::milliseconds> retry_after(const HintSources& sources);

/// The headers that retry_after() and x-should-retry live in: what a stream must keep of its head.
[[nodiscard]] Headers hint_headers(const Headers& headers);

/// The parts, each nothing for what is not of its form.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_seconds(std::string_view text);      // "1.5"
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_go_duration(std::string_view text);  // "6m0.5s"
[[nodiscard]] std::optional<WallClock> parse_http_date(std::string_view text, std::optional<WallClock> near);
[[nodiscard]] std::optional<WallClock> parse_rfc3339(std::string_view text);

}  // namespace classifier
