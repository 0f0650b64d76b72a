#include "gateway/our_headers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace gateway {
namespace {

using classifier::Header;
using classifier::Headers;
using classifier::same_name;
using std::chrono::milliseconds;

constexpr std::string_view kPrefix = "callgate-";
constexpr std::size_t kRunIdMax = 128;
constexpr std::size_t kLabelsMax = 8;
constexpr milliseconds kDeadlineMax = std::chrono::hours{24 * 7};

std::string quoted(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, 64)) shown += (c >= ' ' && c < 127) ? c : '?';
  return shown + '"';
}

/// "250ms", "90s", "1.5m", "2h".
std::optional<milliseconds> duration_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || !(value >= 0) || value > 1e12) return std::nullopt;
  const std::string_view unit{end, static_cast<std::size_t>(text.data() + text.size() - end)};
  double scale = 0;
  if (unit == "ms") scale = 1;
  if (unit == "s") scale = 1'000;
  if (unit == "m") scale = 60'000;
  if (unit == "h") scale = 3'600'000;
  if (scale == 0) return std::nullopt;
  const double most = static_cast<double>(kDeadlineMax.count());
  return milliseconds{static_cast<std::int64_t>(std::min(value * scale, most))};
}

/// RFC 3339: "2026-11-29T18:00:00Z", fraction and numeric offset allowed.
std::optional<WallTime> instant_of(const std::string& text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  int used = 0;
  if (std::sscanf(
          text.c_str(), "%4d-%2u-%2u%*1[Tt ]%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute, &second, &used) !=
      6) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{month}, std::chrono::day{day}};
  if (!date.ok() || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60)
    return std::nullopt;
  std::string_view rest = std::string_view{text}.substr(static_cast<std::size_t>(used));
  milliseconds fraction{0};
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    int scale = 100;
    std::size_t digits = 0;
    while (digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9') {
      fraction += milliseconds{(rest[digits] - '0') * scale};
      scale /= 10;
      ++digits;
    }
    if (digits == 0) return std::nullopt;
    rest.remove_prefix(digits);
  }
  std::chrono::minutes offset{0};
  if (rest != "Z" && rest != "z") {
    int hours = 0;
    int minutes = 0;
    char sign = 0;
    int end = 0;
    const std::string zone{rest};
    if (std::sscanf(zone.c_str(), "%c%2d:%2d%n", &sign, &hours, &minutes, &end) != 3 ||
        static_cast<std::size_t>(end) != zone.size() || (sign != '+' && sign != '-') || hours < 0 || minutes < 0) {
      return std::nullopt;
    }
    offset = std::chrono::hours{hours} + std::chrono::minutes{minutes};
    if (sign == '-') offset = -offset;
  }
  return WallTime{std::chrono::sys_days{date} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
                  std::chrono::seconds{second} + fraction - offset};
}

bool visible(std::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < 127; });
}

std::optional<std::string> bad_labels(std::string_view text) {
  std::size_t count = 0;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view pair = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) return quoted(pair);
    if (++count > kLabelsMax) return "more than 8 pairs";
  }
  return std::nullopt;
}

}  // namespace

std::expected<OurHeaders, BadHeader> take_our_headers(Headers& headers, WallTime now) {
  OurHeaders ours;
  for (const Header& header : headers) {
    const std::string& value = header.value;
    if (same_name(header.name, "prefer") && value.find("respond-async") != std::string::npos) {
      return std::unexpected(
          BadHeader{"Prefer: respond-async: runs are not in this version; send the call without it", 501});
    }
    if (header.name.size() < kPrefix.size() || !same_name(header.name.substr(0, kPrefix.size()), kPrefix)) continue;
    if (same_name(header.name, "callgate-lane")) {
      ours.lane = budget::lane_named(value);
      if (!ours.lane) {
        return std::unexpected(
            BadHeader{"Callgate-Lane is " + quoted(value) + "; it may be interactive, bulk or backfill"});
      }
    } else if (same_name(header.name, "callgate-run-id")) {
      if (!visible(value, kRunIdMax)) {
        return std::unexpected(BadHeader{"Callgate-Run-Id must be 1 to 128 visible ASCII characters without blanks"});
      }
      ours.run_id = value;
    } else if (same_name(header.name, "callgate-deadline")) {
      if (const auto span = duration_of(value)) {
        ours.deadline = *span;
      } else if (const auto instant = instant_of(value)) {
        ours.deadline = std::min(std::chrono::duration_cast<milliseconds>(*instant - now), kDeadlineMax);
      } else {
        return std::unexpected(
            BadHeader{"Callgate-Deadline is " + quoted(value) +
                      "; it may be a span such as 90s or 5m, or a time such as 2026-11-29T18:00:00Z"});
      }
    } else if (same_name(header.name, "callgate-tenant")) {
      // No tenant is configured in this version, so each is the default one (tenancy.unknown: default).
      if (!visible(value, kRunIdMax)) {
        return std::unexpected(BadHeader{"Callgate-Tenant must be 1 to 128 visible ASCII characters without blanks"});
      }
    } else if (same_name(header.name, "callgate-labels")) {
      if (const auto bad = bad_labels(value)) {
        return std::unexpected(
            BadHeader{"Callgate-Labels must be at most 8 pairs such as team=search,prompt=v7 (" + *bad + ")"});
      }
    } else if (same_name(header.name, "callgate-fresh")) {
      if (value != "true" && value != "false") {
        return std::unexpected(BadHeader{"Callgate-Fresh is " + quoted(value) + "; it may be true or false"});
      }
    } else if (same_name(header.name, "callgate-queue")) {
      return std::unexpected(BadHeader{"Callgate-Queue: no queue of that name is configured"});
    } else {
      return std::unexpected(
          BadHeader{"unknown header " + quoted(header.name) +
                    "; known are Callgate-Tenant, -Lane, -Run-Id, -Deadline, -Queue, -Labels and -Fresh"});
    }
  }
  std::erase_if(headers, [](const Header& header) {
    return header.name.size() >= kPrefix.size() && same_name(header.name.substr(0, kPrefix.size()), kPrefix);
  });
  return ours;
}

}  // namespace gateway
