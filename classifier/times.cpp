#include "classifier/times.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "classifier/json.h"

namespace classifier {

namespace {

using std::chrono::milliseconds;
using Nanoseconds = std::chrono::nanoseconds;

constexpr Nanoseconds kLongest = std::chrono::hours{24} * 3650;
constexpr std::int64_t kSecond = 1'000'000'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Reads what it is asked for from the front of a text; once something is missing, `ok` stays false.
struct Scanner {
  std::string_view left;
  bool ok = true;

  bool take(std::string_view word) {
    if (!left.starts_with(word)) return false;
    left.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) { ok = ok && take(word); }
  /// A whole number of so many digits.
  int number(std::size_t digits_min, std::size_t digits_max) {
    int value = 0;
    std::size_t digits = 0;
    while (digits < digits_max && digits < left.size() && is_digit(left[digits])) {
      value = value * 10 + (left[digits] - '0');
      ++digits;
    }
    ok = ok && digits >= digits_min;
    left.remove_prefix(digits);
    return value;
  }
  std::string_view letters() {
    std::size_t length = 0;
    while (length < left.size() && is_letter(left[length])) ++length;
    const std::string_view word = left.substr(0, length);
    left.remove_prefix(length);
    return word;
  }
};

/// A decimal number of units, exact: what binary floating point makes of 0.07 s must not be rounded up to 71 ms.
/// Nothing if there is no number or it is above kLongest; its digits are taken all the same.
std::optional<Nanoseconds> take_decimal(Scanner& scan, std::int64_t unit_ns) {
  const std::int64_t units_max = kLongest.count() / unit_ns;
  std::int64_t whole = 0;
  bool any = false;
  bool fits = true;
  for (; !scan.left.empty() && is_digit(scan.left[0]); scan.left.remove_prefix(1)) {
    any = true;
    if (fits) whole = whole * 10 + (scan.left[0] - '0');
    fits = fits && whole <= units_max;
  }
  std::int64_t part_ns = 0;
  bool rest = false;  // Digits below a nanosecond still round up.
  if (scan.take(".")) {
    std::int64_t worth_ns = unit_ns;
    for (; !scan.left.empty() && is_digit(scan.left[0]); scan.left.remove_prefix(1)) {
      any = true;
      const std::int64_t digit = scan.left[0] - '0';
      if (worth_ns % 10 == 0) {
        worth_ns /= 10;
        part_ns += digit * worth_ns;
      } else {
        rest = rest || digit != 0;
      }
    }
  }
  if (!any || !fits) return std::nullopt;
  const Nanoseconds value{whole * unit_ns + part_ns + (rest ? 1 : 0)};
  if (value > kLongest) return std::nullopt;
  return value;
}

std::optional<milliseconds> rounded_up(std::optional<Nanoseconds> value) {
  if (!value) return std::nullopt;
  return std::chrono::ceil<milliseconds>(*value);
}

std::optional<milliseconds> parse_number(std::string_view text, std::int64_t unit_ns) {
  Scanner scan{trimmed(text)};
  scan.take("+");
  const auto value = take_decimal(scan, unit_ns);
  if (!scan.left.empty()) return std::nullopt;
  return rounded_up(value);
}

struct Unit {
  std::string_view name;
  std::int64_t ns;
};
// Longer names first where one begins with the other.
constexpr Unit kGoUnits[] = {{"ns", 1},
                             {"us", 1'000},
                             {"\xC2\xB5s", 1'000},
                             {"\xCE\xBCs", 1'000},
                             {"ms", 1'000'000},
                             {"s", kSecond},
                             {"m", 60 * kSecond},
                             {"h", 3'600 * kSecond}};
constexpr Unit kWordUnits[] = {{"milliseconds", 1'000'000},
                               {"millisecond", 1'000'000},
                               {"seconds", kSecond},
                               {"second", kSecond},
                               {"secs", kSecond},
                               {"sec", kSecond},
                               {"minutes", 60 * kSecond},
                               {"minute", 60 * kSecond},
                               {"hours", 3'600 * kSecond},
                               {"hour", 3'600 * kSecond}};

/// A Go duration from the front: as many number-unit pairs as stand there, at least one.
std::optional<Nanoseconds> take_go_duration(Scanner& scan) {
  Nanoseconds sum{0};
  bool any = false;
  while (!scan.left.empty() && (is_digit(scan.left[0]) || scan.left[0] == '.')) {
    Scanner ahead = scan;
    while (!ahead.left.empty() && (is_digit(ahead.left[0]) || ahead.left[0] == '.')) ahead.left.remove_prefix(1);
    const Unit* unit = nullptr;
    for (const Unit& candidate : kGoUnits) {
      if (ahead.left.starts_with(candidate.name)) {
        unit = &candidate;
        break;
      }
    }
    if (unit == nullptr) break;
    Scanner number = scan;
    const auto value = take_decimal(number, unit->ns);
    if (!value || number.left.data() != ahead.left.data()) return std::nullopt;
    ahead.take(unit->name);
    scan = ahead;
    sum += *value;
    any = true;
    if (sum > kLongest) return std::nullopt;
  }
  if (!any) return std::nullopt;
  return sum;
}

constexpr std::array<std::string_view, 12> kMonths = {
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

unsigned month_of(std::string_view word) {
  for (unsigned i = 0; i < kMonths.size(); ++i) {
    if (word == kMonths[i]) return i + 1;
  }
  return 0;
}

struct Calendar {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

std::optional<WallClock> instant_of(const Calendar& c) {
  const std::chrono::year_month_day date{
      std::chrono::year{c.year}, std::chrono::month{c.month}, std::chrono::day{c.day}};
  // 60 is a leap second. Years beyond 2200 would come near what a nanosecond clock can hold.
  if (!date.ok() || c.year < 1900 || c.year > 2200 || c.hour > 23 || c.minute > 59 || c.second > 60)
    return std::nullopt;
  return WallClock{std::chrono::sys_days{date}} + std::chrono::hours{c.hour} + std::chrono::minutes{c.minute} +
         std::chrono::seconds{c.second};
}

void take_clock(Scanner& scan, Calendar& c) {
  c.hour = scan.number(2, 2);
  scan.expect(":");
  c.minute = scan.number(2, 2);
  scan.expect(":");
  c.second = scan.number(2, 2);
}

int year_of(WallClock when) {
  const std::chrono::year_month_day date{std::chrono::floor<std::chrono::days>(when)};
  return static_cast<int>(date.year());
}

}  // namespace

std::optional<milliseconds> parse_seconds(std::string_view text) { return parse_number(text, kSecond); }

std::optional<milliseconds> parse_milliseconds(std::string_view text) { return parse_number(text, 1'000'000); }

std::optional<milliseconds> parse_go_duration(std::string_view text) {
  Scanner scan{trimmed(text)};
  const auto duration = take_go_duration(scan);
  if (!scan.left.empty()) return std::nullopt;
  return rounded_up(duration);
}

std::optional<milliseconds> wait_at_front(std::string_view text) {
  Scanner go{text};
  const auto duration = take_go_duration(go);
  if (duration && (go.left.empty() || !is_letter(go.left[0]))) return rounded_up(duration);
  for (const Unit& unit : kWordUnits) {
    Scanner words{text};
    const auto value = take_decimal(words, unit.ns);
    if (words.take(" ") && words.letters() == unit.name) return rounded_up(value);
  }
  return std::nullopt;
}

std::optional<WallClock> parse_http_date(std::string_view text, std::optional<WallClock> near) {
  Scanner scan{trimmed(text)};
  Calendar c;
  const std::string_view weekday = scan.letters();
  if (weekday.size() < 3) return std::nullopt;
  if (scan.take(", ")) {
    c.day = static_cast<unsigned>(scan.number(2, 2));
    const bool short_year = scan.take("-");  // RFC 850: "Sunday, 06-Nov-94 08:49:37 GMT".
    if (!short_year) scan.expect(" ");
    c.month = month_of(scan.letters());
    if (short_year) {
      scan.expect("-");
      // Two digits mean the year that is at most 50 years ahead (RFC 9110 §5.6.7).
      const int base = near ? year_of(*near) : 2026;
      c.year = base - base % 100 + scan.number(2, 2);
      if (c.year > base + 50) c.year -= 100;
      if (c.year <= base - 50) c.year += 100;
    } else {
      scan.expect(" ");
      c.year = scan.number(4, 4);
    }
    scan.expect(" ");
    take_clock(scan, c);
    scan.expect(" GMT");
  } else {  // asctime: "Sun Nov  6 08:49:37 1994".
    scan.expect(" ");
    c.month = month_of(scan.letters());
    scan.expect(" ");
    c.day = static_cast<unsigned>(scan.take(" ") ? scan.number(1, 1) : scan.number(2, 2));
    scan.expect(" ");
    take_clock(scan, c);
    scan.expect(" ");
    c.year = scan.number(4, 4);
  }
  if (!scan.ok || !scan.left.empty()) return std::nullopt;
  return instant_of(c);
}

std::optional<WallClock> parse_rfc3339(std::string_view text) {
  Scanner scan{trimmed(text)};
  Calendar c;
  c.year = scan.number(4, 4);
  scan.expect("-");
  c.month = static_cast<unsigned>(scan.number(2, 2));
  scan.expect("-");
  c.day = static_cast<unsigned>(scan.number(2, 2));
  if (!scan.take("T") && !scan.take("t")) scan.expect(" ");
  take_clock(scan, c);
  Nanoseconds fraction{0};
  if (!scan.left.empty() && scan.left[0] == '.') {
    const auto part = take_decimal(scan, kSecond);
    if (!part) return std::nullopt;
    fraction = *part;
  }
  std::chrono::minutes offset{0};
  if (!scan.take("Z") && !scan.take("z")) {
    const bool east = scan.take("+");
    if (!east) scan.expect("-");
    const int hours = scan.number(2, 2);
    scan.expect(":");
    const int minutes = scan.number(2, 2);
    if (hours > 23 || minutes > 59) return std::nullopt;
    offset = std::chrono::minutes{(hours * 60 + minutes) * (east ? 1 : -1)};
  }
  if (!scan.ok || !scan.left.empty()) return std::nullopt;
  const auto instant = instant_of(c);
  if (!instant) return std::nullopt;
  return *instant + std::chrono::duration_cast<WallClock::duration>(fraction) - offset;
}

std::optional<WallClock> parse_epoch(std::string_view text) {
  constexpr std::int64_t kSecondsMin = 1'000'000'000;
  constexpr std::int64_t kMillisecondsMin = 1'000'000'000'000;
  constexpr std::int64_t kYear2262 = 9'223'372'036;
  constexpr std::size_t kDigitsMax = 15;
  Scanner scan{trimmed(text)};
  const std::size_t digits = std::min(scan.left.find_first_not_of("0123456789"), scan.left.size());
  if (digits > kDigitsMax) return std::nullopt;
  std::int64_t whole = 0;
  for (const char c : scan.left.substr(0, digits)) whole = whole * 10 + (c - '0');
  scan.left.remove_prefix(digits);
  if (whole < kSecondsMin) return std::nullopt;
  // A fraction is rounded up.
  if (scan.take(".")) ++whole;
  if (scan.left.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  const milliseconds since_epoch{whole >= kMillisecondsMin ? whole : whole * 1'000};
  if (since_epoch >= std::chrono::seconds{kYear2262}) return std::nullopt;
  return WallClock{since_epoch};
}

std::optional<milliseconds> until(std::optional<WallClock> when, std::optional<WallClock> now) {
  if (!when || !now) return std::nullopt;
  if (*when <= *now) return milliseconds::zero();
  // Compared as seconds: a far date minus a far date must not wrap.
  const auto seconds =
      std::chrono::floor<std::chrono::seconds>(*when) - std::chrono::floor<std::chrono::seconds>(*now);
  if (seconds > kLongest) return std::nullopt;
  return std::chrono::ceil<milliseconds>(*when - *now);
}

}  // namespace classifier
