#pragma once
// Where do a day and a month begin?

#include <chrono>
#include <string>
#include <string_view>

namespace budget {

using WallTime = std::chrono::system_clock::time_point;

/// A zone of the system's time-zone database (tzdata); "UTC" needs none.
class Zone {
 public:
  /// Throws std::invalid_argument for a name that is not in the database.
  explicit Zone(std::string_view name = "UTC");
  [[nodiscard]] const std::string& name() const { return name_; }

  struct Span {
    WallTime begin{};
    WallTime end{};  // The first moment that is not in it.
    [[nodiscard]] bool holds(WallTime when) const { return when >= begin && when < end; }
  };
  /// The day, or the month, in which that moment lies; days (and months) follow one another without a gap. A day
  /// begins at the first moment that has its date or, where that date is left out, a later one: so it has 23 to 25
  /// hours where clocks are set, and one that has begun goes on where they are set back behind midnight.
  [[nodiscard]] Span day(WallTime when) const;
  [[nodiscard]] Span month(WallTime when) const;

 private:
  std::string name_;
  const void* zone_ = nullptr;  // date::time_zone, which lives as long as the process; null: UTC.
};

}  // namespace budget
