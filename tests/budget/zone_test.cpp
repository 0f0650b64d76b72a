#include "budget/zone.h"

#include <date/tz.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sstream>
#include <stdexcept>
#include <string>

namespace budget {
namespace {

using namespace std::chrono_literals;

WallTime at(const std::string& text) {
  std::istringstream in{text};
  date::sys_seconds when;
  in >> date::parse("%FT%TZ", when);
  EXPECT_FALSE(in.fail()) << text;
  return when;
}

struct Case {
  const char* name;
  const char* zone;
  const char* when;
  const char* begin;
  const char* end;
};

TEST(Zone, days_begin_where_their_people_say) {
  const Case cases[] = {
      {"UTC", "UTC", "2026-03-10T12:00:00Z", "2026-03-10T00:00:00Z", "2026-03-11T00:00:00Z"},
      {"the first moment", "UTC", "2026-03-10T00:00:00Z", "2026-03-10T00:00:00Z", "2026-03-11T00:00:00Z"},
      {"the last one", "UTC", "2026-03-09T23:59:59Z", "2026-03-09T00:00:00Z", "2026-03-10T00:00:00Z"},
      {"leap day", "UTC", "2028-02-29T05:00:00Z", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"},
      {"before 1970", "UTC", "1969-12-31T23:00:00Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z"},
      {"23 hours", "Europe/Berlin", "2026-03-29T10:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
      {"25 hours", "Europe/Berlin", "2026-10-25T10:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
      {"half an hour", "Asia/Kolkata", "2026-03-10T18:29:59Z", "2026-03-09T18:30:00Z", "2026-03-10T18:30:00Z"},
      {"no midnight", "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
      {"the day before", "America/Sao_Paulo", "2018-11-04T02:59:59Z", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"},
      {"23h twice", "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
      {"a day left out", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
      // At 00:01 the clock went back to 23:01: the new day has begun and is not taken back.
      {"midnight twice", "America/St_Johns", "2010-11-07T02:45:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Zone::Span day = Zone{c.zone}.day(at(c.when));
    EXPECT_EQ(day.begin, at(c.begin));
    EXPECT_EQ(day.end, at(c.end));
  }
}

TEST(Zone, months_begin_with_their_first_day) {
  const Case cases[] = {
      {"31 days", "UTC", "2026-01-31T23:59:59Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
      {"28 days", "UTC", "2026-02-28T23:59:59Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
      {"29 days", "UTC", "2028-02-29T23:59:59Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
      {"the year's end", "UTC", "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
      {"clocks set", "Europe/Berlin", "2026-03-31T21:59:59Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"},
      {"and back", "Europe/Berlin", "2026-10-01T00:00:00Z", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"},
      {"already the next", "Asia/Kolkata", "2026-03-31T18:30:00Z", "2026-03-31T18:30:00Z", "2026-04-30T18:30:00Z"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Zone::Span month = Zone{c.zone}.month(at(c.when));
    EXPECT_EQ(month.begin, at(c.begin));
    EXPECT_EQ(month.end, at(c.end));
  }
}

TEST(Zone, a_name_that_nobody_knows_is_refused) {
  EXPECT_THROW(Zone{"Mars/Olympus"}, std::invalid_argument);
  EXPECT_THROW(Zone{""}, std::invalid_argument);
  EXPECT_EQ(Zone{}.name(), "UTC");
}

// Goal: no moment lies outside its own period, and periods follow one another without a gap.
RC_GTEST_PROP(Zone, every_moment_lies_in_one_period, ()) {
  const Zone zone{*rc::gen::element<std::string>("UTC",
                                                 "Europe/Berlin",
                                                 "Asia/Kolkata",
                                                 "America/Sao_Paulo",
                                                 "America/St_Johns",
                                                 "America/Havana",
                                                 "Pacific/Apia",
                                                 "Asia/Beirut",
                                                 "Africa/Cairo")};
  const WallTime when{std::chrono::seconds{*rc::gen::inRange<std::int64_t>(473'385'600, 1'900'000'000)}};
  for (const bool by_day : {true, false}) {
    const auto span = [&](WallTime of) { return by_day ? zone.day(of) : zone.month(of); };
    const Zone::Span now = span(when);
    RC_ASSERT(now.holds(when));
    RC_ASSERT(span(now.begin).begin == now.begin);
    RC_ASSERT(span(now.end - 1s).end == now.end);
    RC_ASSERT(span(now.end).begin == now.end);
  }
}

}  // namespace
}  // namespace budget
