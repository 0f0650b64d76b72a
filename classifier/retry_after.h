#pragma once
// How long did the provider ask us to stay away? Every form in which providers say it, in one order of trust.

#include <chrono>
#include <optional>
#include <string_view>

#include "classifier/headers.h"
#include "classifier/times.h"

namespace classifier {

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

}  // namespace classifier
