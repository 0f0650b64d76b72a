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
    zone_ = date::locate_zone(name_);
  } catch (const std::exception&) {
    throw std::invalid_argument("no time zone " + name_ + " in this system's database (tzdata)");
  }
}

Zone::Span Zone::day(WallTime when) const {
  const auto* zone = static_cast<const date::time_zone*>(zone_);
  date::local_days today{date_of(when, zone)};
  // Where clocks go back over midnight, the day that has begun is not taken back.
  if (when >= begin_of(today + date::days{1}, zone)) today += date::days{1};
  return {begin_of(today, zone), begin_of(today + date::days{1}, zone)};
}

Zone::Span Zone::month(WallTime when) const {
  const auto* zone = static_cast<const date::time_zone*>(zone_);
  const date::year_month_day today = date_of(when, zone);
  date::year_month month{today.year(), today.month()};
  if (when >= begin_of(date::local_days{(month + date::months{1}) / 1}, zone)) month += date::months{1};
  const date::year_month next = month + date::months{1};
  return {begin_of(date::local_days{month / 1}, zone), begin_of(date::local_days{next / 1}, zone)};
}

}  // namespace budget
