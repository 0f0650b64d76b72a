#pragma once
// How are moments written and read in reports? UTC, RFC 3339; milliseconds since the epoch in rows.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ledger {

inline constexpr std::int64_t kMinuteMs = 60'000;
inline constexpr std::int64_t kHourMs = 60 * kMinuteMs;
inline constexpr std::int64_t kDayMs = 24 * kHourMs;
inline constexpr std::int64_t kQuarterMs = 15 * kMinuteMs;  // Of spend_by_period; time zones differ by no less.

[[nodiscard]] constexpr std::int64_t floor_to(std::int64_t ms, std::int64_t unit) {
  const std::int64_t rest = ms % unit;
  return ms - (rest < 0 ? rest + unit : rest);
}

/// "2026-11-29T16:40:01.123Z"
[[nodiscard]] std::string time_text(std::int64_t ms);
/// "2026-11-29", of a place that is so far ahead of UTC.
[[nodiscard]] std::string day_text(std::int64_t ms, int utc_offset_minutes = 0);
/// "2026-11-29T16", "+02:00" behind it where the offset is not zero.
[[nodiscard]] std::string hour_text(std::int64_t ms, int utc_offset_minutes = 0);
/// "2026-11-29" (its midnight in UTC), "2026-11-29T16:40Z", "2026-11-29T16:40:01.5+02:00"; nothing if it is neither.
[[nodiscard]] std::optional<std::int64_t> read_time(std::string_view text);
/// "+02:00", "-05:30", "Z" as minutes, whole quarters of an hour, a day at most.
[[nodiscard]] std::optional<int> read_utc_offset(std::string_view text);

/// The first and the last id that a call which began then may have (UUIDv7).
[[nodiscard]] std::string first_id(std::int64_t ms);
[[nodiscard]] std::string last_id(std::int64_t ms);

}  // namespace ledger
