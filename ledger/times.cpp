#include "ledger/times.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>

namespace ledger {
namespace {

using std::chrono::milliseconds;
using std::chrono::sys_days;
using std::chrono::sys_time;

constexpr std::int64_t kEarliest = -62'135'596'800'000;  // Year 1 …
constexpr std::int64_t kLatest = 253'402'300'799'999;    // … to 9999.

struct Parts {
  int year, month, day, hour, minute, second, ms;
};

Parts parts_of(std::int64_t ms) {
  const sys_time<milliseconds> at{milliseconds{std::clamp(ms, kEarliest, kLatest)}};
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date{day};
  const auto rest = static_cast<int>((at - day).count());
  return {static_cast<int>(date.year()),
          static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(static_cast<unsigned>(date.day())),
          rest / 3'600'000,
          rest / 60'000 % 60,
          rest / 1'000 % 60,
          rest % 1'000};
}

template <typename... Numbers>
std::string printed(const char* format, Numbers... numbers) {
  std::array<char, 80> text{};
  const int size = std::snprintf(text.data(), text.size(), format, numbers...);
  return {text.data(), static_cast<std::size_t>(std::max(size, 0))};
}

/// Takes `digits` digits from the front; nothing: they are not there.
std::optional<int> digits_of(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return value;
}
bool take(std::string_view& text, char expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<int> offset_of(std::string_view text) {
  if (text == "Z" || text == "z") return 0;
  const bool behind = text.starts_with('-');
  if (!behind && !text.starts_with('+')) return std::nullopt;
  text.remove_prefix(1);
  const auto hours = digits_of(text, 2);
  if (!hours || !take(text, ':')) return std::nullopt;
  const auto minutes = digits_of(text, 2);
  if (!minutes || !text.empty() || *hours > 23 || *minutes > 59) return std::nullopt;
  const int all = *hours * 60 + *minutes;
  return behind ? -all : all;
}

std::string id_at(std::int64_t ms, std::string_view rest) {
  const auto stamp = static_cast<unsigned long long>(std::clamp<std::int64_t>(ms, 0, (std::int64_t{1} << 48) - 1));
  return printed("%08llx-%04llx-", stamp >> 16U, stamp & 0xFFFFU) + std::string{rest};
}

}  // namespace

std::string time_text(std::int64_t ms) {
  const Parts p = parts_of(ms);
  return printed("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", p.year, p.month, p.day, p.hour, p.minute, p.second, p.ms);
}

std::string day_text(std::int64_t ms, int utc_offset_minutes) {
  const Parts p = parts_of(ms + utc_offset_minutes * kMinuteMs);
  return printed("%04d-%02d-%02d", p.year, p.month, p.day);
}

std::string hour_text(std::int64_t ms, int utc_offset_minutes) {
  const Parts p = parts_of(ms + utc_offset_minutes * kMinuteMs);
  std::string text = printed("%04d-%02d-%02dT%02d", p.year, p.month, p.day, p.hour);
  if (utc_offset_minutes == 0) return text;
  const int minutes = std::abs(utc_offset_minutes);
  return text + printed("%c%02d:%02d", utc_offset_minutes < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

std::optional<std::int64_t> read_time(std::string_view text) {
  const auto year = digits_of(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = digits_of(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = digits_of(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{*year},
                                         std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  if (!date.ok()) return std::nullopt;
  const std::int64_t midnight = milliseconds{sys_days{date}.time_since_epoch()}.count();
  if (text.empty()) return midnight;
  if (!take(text, 'T') && !take(text, 't') && !take(text, ' ')) return std::nullopt;
  const auto hour = digits_of(text, 2);
  if (!hour || !take(text, ':')) return std::nullopt;
  const auto minute = digits_of(text, 2);
  if (!minute || *hour > 23 || *minute > 59) return std::nullopt;
  std::int64_t ms = 0;
  if (take(text, ':')) {
    const auto second = digits_of(text, 2);
    if (!second || *second > 60) return std::nullopt;
    ms = *second * 1'000;
    if (take(text, '.')) {
      std::int64_t scale = 100;
      std::size_t digits = 0;
      for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits, scale /= 10)
        ms += (text[digits] - '0') * scale;
      if (digits == 0) return std::nullopt;
      text.remove_prefix(digits);
    }
  }
  const auto offset = offset_of(text);
  if (!offset) return std::nullopt;
  return midnight + *hour * kHourMs + *minute * kMinuteMs + ms - *offset * kMinuteMs;
}

std::optional<int> read_utc_offset(std::string_view text) {
  const auto offset = offset_of(text);
  return offset && *offset % 15 == 0 ? offset : std::nullopt;
}

std::string first_id(std::int64_t ms) { return id_at(ms, "0000-0000-000000000000"); }
std::string last_id(std::int64_t ms) { return id_at(ms, "ffff-ffff-ffffffffffff"); }

}  // namespace ledger
