#include "budget/zone.h"

#include <date/tz.h>

#include <stdexcept>

namespace budget {
namespace {

/// The first moment with that date.
WallTime begin_of(date::local_days day, const date::time_zone* zone) {
  if (!zone) return WallTime{day.time_since_epoch()};
  // Where midnight is left out, the moment at which the clock jumps over it.
  return std::chrono::time_point_cast<WallTime::duration>(zone->to_sys(day, date::choose::earliest));
}

date::year_month_day date_of(WallTime when, const date::time_zone* zone) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(when);
  const date::local_seconds local = zone ? zone->to_local(seconds) : date::local_seconds{seconds.time_since_epoch()};
  return date::year_month_day{std::chrono::floor<date::days>(local)};
}

}  // namespace

Zone::Zone(std::string_view name) : name_{name} {
  if (name_ == "UTC" || name_ == "Etc/UTC") return;
  try {
    const date::time_zone* zone = date::locate_zone(name_);
    // Its file is read at the first use; what is wrong with it is to be known now, not at some call.
    (void)date_of(WallTime{}, zone);
    zone_ = zone;
  } catch (const std::exception&) {
    throw std::invalid_argument("no time zone " + name_ + " in this system's database (tzdata)");
  }
}

Zone::Span Zone::day(WallTime when) const {
  const auto* zone = static_cast<const date::time_zone*>(zone_);
  date::local_days today{date_of(when, zone)};
  Span span{begin_of(today, zone), begin_of(today + date::days{1}, zone)};
  // Clocks were set back behind midnight (St. John's, one minute after it): the date is yesterday's once more.
  while (when >= span.end) {
    today += date::days{1};
    span = {span.end, begin_of(today + date::days{1}, zone)};
  }
  return span;
}

Zone::Span Zone::month(WallTime when) const {
  const auto* zone = static_cast<const date::time_zone*>(zone_);
  const date::year_month_day today = date_of(when, zone);
  const auto first_of = [&](date::year_month month) { return begin_of(date::local_days{month / 1}, zone); };
  date::year_month month{today.year(), today.month()};
  Span span{first_of(month), first_of(month + date::months{1})};
  while (when >= span.end) {  // As with days.
    month += date::months{1};
    span = {span.end, first_of(month + date::months{1})};
  }
  return span;
}

}  // namespace budget
