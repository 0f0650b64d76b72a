#pragma once
// How do providers write a wait, or a moment? Every spelling that is read anywhere, each nothing for what is not of
// its form.

#include <chrono>
#include <optional>
#include <string_view>

namespace classifier {

using WallClock = std::chrono::system_clock::time_point;

// Waits are rounded up to whole milliseconds and never negative. Above ten years they are none.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_seconds(std::string_view text);       // "1.5"
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_milliseconds(std::string_view text);  // "1500"
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_go_duration(std::string_view text);   // "6m0.5s"
/// The wait with which a text begins, as people write it: "20s.", "1m2s, or", "45 seconds".
[[nodiscard]] std::optional<std::chrono::milliseconds> wait_at_front(std::string_view text);

/// `near` settles the century of years with two digits.
[[nodiscard]] std::optional<WallClock> parse_http_date(std::string_view text, std::optional<WallClock> near);
[[nodiscard]] std::optional<WallClock> parse_rfc3339(std::string_view text);
/// Seconds or milliseconds since 1970, which of them is told by their size. Nothing for a number that is no such
/// moment after 2001.
[[nodiscard]] std::optional<WallClock> parse_epoch(std::string_view text);

/// Zero for what has passed; nothing for what is not known or too far away.
[[nodiscard]] std::optional<std::chrono::milliseconds> until(std::optional<WallClock> when,
                                                             std::optional<WallClock> now);

}  // namespace classifier
