#include "gateway/json_out.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "gateway/plain_text.h"

namespace gateway {
namespace {

// Needs no second look: printable ASCII but for the quote and the backslash.
constexpr auto kPlain = [] {
  std::array<bool, 256> plain{};
  for (std::size_t c = 0x20; c < 0x7f; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();
bool is_plain(char c) { return kPlain[static_cast<unsigned char>(c)]; }

void append_two(std::string& out, unsigned number) {
  out += static_cast<char>('0' + number / 10 % 10);
  out += static_cast<char>('0' + number % 10);
}

template <typename Number>
void append_digits(std::string& out, Number number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

}  // namespace

void append_escaped(std::string& out, std::string_view text, std::size_t max_bytes) {
  for (std::size_t at = 0; at < text.size();) {
    const auto run_end =
        std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at),
                         text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), max_bytes)),
                         is_plain);
    const auto run = static_cast<std::size_t>(run_end - text.begin()) - at;
    out.append(text, at, run);
    at += run;
    if (at == text.size()) break;

    const Character character = character_at(text.substr(at));
    const std::size_t length = std::max<std::size_t>(1, character.length);
    if (at + length > max_bytes) {
      out += "…";
      break;
    }
    if (character.length == 0) {
      append_escape(out, 0xfffd);
    } else if (character.code == '"' || character.code == '\\') {
      out += '\\';
      out += static_cast<char>(character.code);
    } else if (is_treacherous(character.code)) {
      append_escape(out, character.code);
    } else {
      out.append(text, at, length);
    }
    at += length;
  }
}

void append_json(std::string& out, std::string_view text, std::size_t max_bytes) {
  out += '"';
  append_escaped(out, text, max_bytes);
  out += '"';
}

void append_word(std::string& out, std::string_view text, std::size_t max_bytes) {
  const bool bare = !text.empty() && text.size() <= max_bytes && std::ranges::all_of(text, [](char c) {
    return is_plain(c) && c != ' ' && c != '=' && c != '[' && c != ']';
  });
  if (bare) {
    out += text;
  } else {
    append_json(out, text, max_bytes);
  }
}

void append_number(std::string& out, std::int64_t number) { append_digits(out, number); }
void append_number(std::string& out, std::uint64_t number) { append_digits(out, number); }

void append_ms(std::string& out, std::chrono::microseconds time) {
  const std::int64_t all = std::max<std::int64_t>(0, time.count());
  append_digits(out, all / 1000);
  const auto fraction = static_cast<unsigned>(all % 1000);
  if (fraction == 0) return;
  out += '.';
  out += static_cast<char>('0' + fraction / 100);
  append_two(out, fraction);
}

void append_time(std::string& out, std::chrono::system_clock::time_point time) {
  const auto micros = std::chrono::floor<std::chrono::microseconds>(time);
  const auto day = std::chrono::floor<std::chrono::days>(micros);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{micros - day};
  const auto year = static_cast<unsigned>(static_cast<int>(date.year()));
  append_two(out, year / 100);
  append_two(out, year);
  out += '-';
  append_two(out, static_cast<unsigned>(date.month()));
  out += '-';
  append_two(out, static_cast<unsigned>(date.day()));
  out += 'T';
  append_two(out, static_cast<unsigned>(clock.hours().count()));
  out += ':';
  append_two(out, static_cast<unsigned>(clock.minutes().count()));
  out += ':';
  append_two(out, static_cast<unsigned>(clock.seconds().count()));
  out += '.';
  const auto fraction = static_cast<unsigned>(clock.subseconds().count());
  append_two(out, fraction / 10'000);
  append_two(out, fraction / 100);
  append_two(out, fraction);
  out += 'Z';
}

}  // namespace gateway
