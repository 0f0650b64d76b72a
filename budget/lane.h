#pragma once
// Who waits for this call: a user, a queue, or nobody in particular?

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace budget {

enum class Lane : std::uint8_t { Interactive, Bulk, Backfill };
inline constexpr std::array<std::string_view, 3> kLaneNames = {"interactive", "bulk", "backfill"};
[[nodiscard]] constexpr std::string_view name_of(Lane lane) { return kLaneNames[static_cast<std::size_t>(lane)]; }
[[nodiscard]] constexpr std::optional<Lane> lane_named(std::string_view name) {
  for (std::size_t i = 0; i < kLaneNames.size(); ++i) {
    if (kLaneNames[i] == name) return static_cast<Lane>(i);
  }
  return std::nullopt;
}

}  // namespace budget
