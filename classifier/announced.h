#pragma once
// What does an answer's head say of the provider's limits: how much there is, what is left, when it comes back?
// Sources: facts on providers (OpenAI and its imitators, Azure, Anthropic, Mistral, OpenRouter, Together, Fireworks)
// and draft-ietf-httpapi-ratelimit-headers-10.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "classifier/headers.h"
#include "classifier/times.h"

namespace classifier {

/// One limit of a provider. What it did not say, or not in a way that can be true, is missing; one of `limit`,
/// `remaining` and `resets_in` is always there.
struct AnnouncedLimit {
  enum class Unit : std::uint8_t { Requests, Tokens, InputTokens, OutputTokens };
  Unit unit = Unit::Requests;
  std::optional<std::int64_t> limit{};      // At least 1.
  std::optional<std::int64_t> remaining{};  // At least 0; may be above the limit where bursts are allowed.
  /// Until the limit is whole again (its window ends, or its bucket is full). Never negative.
  std::optional<std::chrono::milliseconds> resets_in{};
  /// The time for which `limit` is meant, where the provider tells it ("-tokens-month", w=60). Most do not: then a
  /// minute is usual, but not sure (Groq counts requests by the day).
  std::optional<std::chrono::seconds> window{};
  bool operator==(const AnnouncedLimit&) const = default;
};

/// No head announces more than this; what is beyond it is left out.
inline constexpr std::size_t kAnnouncedMax = 16;

/// In the order in which they stand there; a unit may have several (a minute's and a month's). One pass over the
/// headers, which allocates nothing where there is nothing. Of a header that stands twice the first usable value
/// counts. Dates are measured against the answer's Date header, and against `now` without one.
[[nodiscard]] std::vector<AnnouncedLimit> read_announced(const Headers& headers, WallClock now);

}  // namespace classifier
