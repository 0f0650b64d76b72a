// Decimal text to integers and back, without a floating point number between them.

#include <algorithm>
#include <limits>

#include "budget/price.h"

namespace budget {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes the digits at the front.
std::string_view take_digits(std::string_view& text) {
  const auto* end = std::ranges::find_if_not(text, is_digit);
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

std::string decimal_text(std::int64_t units, std::size_t digits) {
  std::string text = std::to_string(units);
  if (text.size() <= digits) text.insert(0, digits + 1 - text.size(), '0');
  text.insert(text.size() - digits, 1, '.');
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text, int digits) {
  constexpr int kFarExponent = 10'000;
  const std::string_view whole = take_digits(text);
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text);
    if (fraction.empty()) return std::nullopt;
  }
  if (whole.empty()) return std::nullopt;
  int exponent = 0;
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    const std::string_view power = take_digits(text);
    if (power.empty()) return std::nullopt;
    for (const char c : power) exponent = std::min(exponent * 10 + (c - '0'), kFarExponent);
    if (negative) exponent = -exponent;
  }
  if (!text.empty()) return std::nullopt;

  std::string all{whole};
  all += fraction;
  // Where the units end within the digits: those behind are rounded off.
  const std::int64_t end = static_cast<std::int64_t>(whole.size()) + exponent + digits;
  const std::size_t first = all.find_first_not_of('0');
  if (first == std::string::npos) return Decimal{};
  Decimal result;
  for (std::int64_t i = static_cast<std::int64_t>(first); i < end; ++i) {
    const int digit = i < static_cast<std::int64_t>(all.size()) ? all[static_cast<std::size_t>(i)] - '0' : 0;
    if (__builtin_mul_overflow(result.units, 10, &result.units) ||
        __builtin_add_overflow(result.units, digit, &result.units)) {
      return std::nullopt;
    }
  }
  const std::size_t rest = static_cast<std::size_t>(std::clamp<std::int64_t>(end, 0, std::ssize(all)));
  result.exact = all.find_first_not_of('0', rest) == std::string::npos;
  const bool half = end >= 0 && end < std::ssize(all) && all[static_cast<std::size_t>(end)] >= '5';
  if (half && __builtin_add_overflow(result.units, 1, &result.units)) return std::nullopt;
  return result;
}

std::optional<NanoUsd> parse_usd(std::string_view text) {
  const std::optional<Decimal> amount = parse_decimal(text, 9);
  if (!amount) return std::nullopt;
  return NanoUsd{amount->units};
}

std::string usd_text(NanoUsd amount) { return decimal_text(amount.value, 9); }
std::string usd_text(PicoUsd amount) { return decimal_text(amount.value, 12); }

}  // namespace budget
