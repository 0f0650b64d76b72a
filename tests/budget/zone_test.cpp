#include "budget/zone.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <stdexcept>
#include <string>

namespace budget {
namespace zone_test {

using namespace std::chrono_literals;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::sys_days;
using std::chrono::year;

WallTime at(int y, unsigned month, unsigned day, minutes of_day = 0min) {
  return WallTime{sys_days{year{y} / static_cast<int>(month) / static_cast<int>(day)}} + of_day;
}

struct Case {
  const char* name;
  const char* zone;
  WallTime when;
  WallTime begin;
  minutes length;
};

const Case kDays[] = {
    {"UTC", "UTC", at(2026, 3, 29, 13h), at(2026, 3, 29), 24h},
    {"UTC, the first moment", "UTC", at(2026, 3, 29), at(2026, 3, 29), 24h},
    {"UTC, a nanosecond before it", "UTC", at(2026, 3, 29) - 1ns, at(2026, 3, 28), 24h},
    {"UTC by its long name", "Etc/UTC", at(2026, 3, 29, 13h), at(2026, 3, 29), 24h},
    {"an hour is left out", "Europe/Berlin", at(2024, 3, 31, 12h), at(2024, 3, 30, 23h), 23h},
    {"an hour comes twice", "Europe/Berlin", at(2024, 10, 27, 12h), at(2024, 10, 26, 22h), 25h},
    {"the day after", "Europe/Berlin", at(2024, 10, 28, 12h), at(2024, 10, 27, 23h), 24h},
    {"west of Greenwich", "America/New_York", at(2026, 7, 4, 2h), at(2026, 7, 3, 4h), 24h},
    {"half an hour", "Asia/Kolkata", at(2024, 1, 1, 18h + 29min), at(2023, 12, 31, 18h + 30min), 24h},
    {"half an hour, at midnight", "Asia/Kolkata", at(2024, 1, 1, 18h + 30min), at(2024, 1, 1, 18h + 30min), 24h},
    {"three quarters", "Asia/Kathmandu", at(2024, 1, 1, 12h), at(2023, 12, 31, 18h + 15min), 24h},
    {"clocks set by half an hour", "Australia/Lord_Howe", at(2024, 4, 7, 1h), at(2024, 4, 6, 13h), 24h + 30min},
    {"midnight is left out", "America/Sao_Paulo", at(2018, 11, 4, 12h), at(2018, 11, 4, 3h), 23h},
    {"the day before", "America/Sao_Paulo", at(2018, 11, 4, 3h) - 1ns, at(2018, 11, 3, 3h), 24h},
    {"the hour before midnight comes twice",
     "America/Sao_Paulo",
     at(2018, 2, 18, 2h + 30min),
     at(2018, 2, 17, 2h),
     25h},
    {"Cairo, spring", "Africa/Cairo", at(2024, 4, 26, 12h), at(2024, 4, 25, 22h), 23h},
    {"Cairo, autumn", "Africa/Cairo", at(2024, 10, 31, 12h), at(2024, 10, 30, 21h), 25h},
    {"midnight comes twice: the first begins the day",
     "America/Havana",
     at(2024, 11, 3, 12h),
     at(2024, 11, 3, 4h),
     25h},
    {"midnight comes twice: between them", "America/Havana", at(2024, 11, 3, 4h + 30min), at(2024, 11, 3, 4h), 25h},
    {"set back behind midnight: the minute after it",
     "America/St_Johns",
     at(2010, 11, 7, 2h + 30min),
     at(2010, 11, 7, 2h + 30min),
     25h},
    {"set back behind midnight: yesterday's date once more",
     "America/St_Johns",
     at(2010, 11, 7, 3h),
     at(2010, 11, 7, 2h + 30min),
     25h},
    {"a date is left out: the day before", "Pacific/Apia", at(2011, 12, 30, 9h), at(2011, 12, 29, 10h), 24h},
    {"a date is left out: the day after", "Pacific/Apia", at(2011, 12, 30, 10h), at(2011, 12, 30, 10h), 24h},
};

const Case kMonths[] = {
    {"UTC", "UTC", at(2026, 1, 31, 13h), at(2026, 1, 1), 31 * 24h},
    {"the last moment of a year", "UTC", at(2027, 1, 1) - 1ns, at(2026, 12, 1), 31 * 24h},
    {"a leap year", "UTC", at(2028, 2, 29, 5h), at(2028, 2, 1), 29 * 24h},
    {"a century without a leap day", "UTC", at(2100, 2, 28, 5h), at(2100, 2, 1), 28 * 24h},
    {"before 1970", "UTC", at(1969, 12, 31, 5h), at(1969, 12, 1), 31 * 24h},
    {"an hour less", "Europe/Berlin", at(2024, 3, 15), at(2024, 2, 29, 23h), 31 * 24h - 1h},
    {"an hour more", "Europe/Berlin", at(2024, 10, 15), at(2024, 9, 30, 22h), 31 * 24h + 1h},
    {"already the next one", "Asia/Tokyo", at(2026, 1, 31, 15h), at(2026, 1, 31, 15h), 28 * 24h},
    {"still the last one", "America/Los_Angeles", at(2026, 2, 1, 7h), at(2026, 1, 1, 8h), 31 * 24h},
    {"its first day begins at one o'clock",
     "America/Asuncion",
     at(2017, 10, 1, 12h),
     at(2017, 10, 1, 4h),
     31 * 24h - 1h},
    {"its first day begins twice", "America/Havana", at(2026, 11, 1, 4h + 30min), at(2026, 11, 1, 4h), 30 * 24h + 1h},
};

TEST(Zone, knows_where_a_day_begins_and_ends) {
  for (const Case& c : kDays) {
    SCOPED_TRACE(c.name);
    const Zone::Span day = Zone{c.zone}.day(c.when);
    EXPECT_EQ(day.begin - c.begin, 0ns) << std::chrono::duration_cast<minutes>(day.begin - c.begin).count() << " min";
    EXPECT_EQ(std::chrono::duration_cast<minutes>(day.end - day.begin).count(), c.length.count());
    EXPECT_TRUE(day.holds(c.when));
  }
}

TEST(Zone, knows_where_a_month_begins_and_ends) {
  for (const Case& c : kMonths) {
    SCOPED_TRACE(c.name);
    const Zone::Span month = Zone{c.zone}.month(c.when);
    EXPECT_EQ(month.begin - c.begin, 0ns) << std::chrono::duration_cast<minutes>(month.begin - c.begin).count();
    EXPECT_EQ(std::chrono::duration_cast<minutes>(month.end - month.begin).count(), c.length.count());
    EXPECT_TRUE(month.holds(c.when));
  }
}

TEST(Zone, refuses_a_name_that_is_not_in_the_database) {
  for (const char* name : {"Europe/Atlantis",
                           "",
                           "utc",
                           "Europe",
                           "leapseconds",
                           "tzdata.zi",
                           "../../etc/passwd",
                           "Europe/Berlin ",
                           "UTC+1"}) {
    SCOPED_TRACE(name);
    EXPECT_THROW(Zone{name}, std::invalid_argument);
  }
  try {
    Zone{"Europe/Atlantis"};
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string{error.what()}.find("Europe/Atlantis"), std::string::npos);
  }
  EXPECT_EQ(Zone{"Asia/Kolkata"}.name(), "Asia/Kolkata");
  EXPECT_EQ(Zone{}.name(), "UTC");
}

// Goal: whatever the zone and the moment, each moment is in exactly one day and one month, and they join. Method:
// seeded moments of 1972 to 2036, zones with all kinds of odd clocks, and a walk from period to period.
TEST(Zone, leaves_no_moment_out_and_counts_none_twice) {
  std::mt19937_64 random{20261130};
  for (const char* name : {"UTC",
                           "Europe/Berlin",
                           "America/Sao_Paulo",
                           "Africa/Cairo",
                           "America/St_Johns",
                           "Pacific/Apia",
                           "Australia/Lord_Howe",
                           "America/Havana",
                           "Asia/Kathmandu",
                           "Asia/Beirut",
                           "Pacific/Kwajalein",
                           "Antarctica/Troll",
                           "Africa/Casablanca",
                           "Asia/Gaza",
                           "America/Nuuk"}) {
    SCOPED_TRACE(name);
    const Zone zone{name};
    const std::int64_t span = (at(2036, 1, 1) - at(1972, 1, 1)) / 1s;
    for (int i = 0; i < 300; ++i) {
      const WallTime when =
          at(1972, 1, 1) +
          std::chrono::seconds{static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(span))};
      const Zone::Span day = zone.day(when);
      const Zone::Span month = zone.month(when);
      ASSERT_TRUE(day.holds(when) && month.holds(when));
      ASSERT_EQ(zone.day(day.begin).begin, day.begin);
      ASSERT_EQ(zone.day(day.end - 1ns).end, day.end);
      ASSERT_EQ(zone.day(day.end).begin, day.end);
      ASSERT_EQ(zone.day(day.begin - 1ns).end, day.begin);
      ASSERT_EQ(zone.month(month.begin).end, month.end);
      ASSERT_EQ(zone.month(month.end).begin, month.end);
      ASSERT_EQ(zone.day(month.begin).begin, month.begin);
      ASSERT_GE(day.end - day.begin, 22h);
      ASSERT_LE(day.end - day.begin, 26h);
    }
    // Every half hour of the years in which the oddest things happened.
    WallTime begin = zone.day(at(2010, 1, 1)).begin;
    for (WallTime when = at(2010, 1, 1); when < at(2012, 1, 2); when += 30min) {
      const Zone::Span day = zone.day(when);
      ASSERT_TRUE(day.holds(when));
      ASSERT_GE(day.begin, begin);
      begin = day.begin;
    }
  }
}

}  // namespace zone_test
}  // namespace budget
