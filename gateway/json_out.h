#pragma once
// How does any text, whatever its bytes, become part of one line that nobody can forge?
//
// What would end a line, move a terminal's cursor or turn the direction of writing comes out as \uXXXX; bytes that
// are no UTF-8 as \ufffd. Of a text longer than `max_bytes` its beginning is kept, and an ellipsis.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gateway {

/// As what stands between a JSON string's quotes.
void append_escaped(std::string& out, std::string_view text, std::size_t max_bytes);
/// As a JSON string, quotes included.
void append_json(std::string& out, std::string_view text, std::size_t max_bytes);
/// For people: bare if it is one plain word, else as append_json().
void append_word(std::string& out, std::string_view text, std::size_t max_bytes);
void append_number(std::string& out, std::int64_t number);
void append_number(std::string& out, std::uint64_t number);
/// Milliseconds with up to three decimals: 9120, 0.412.
void append_ms(std::string& out, std::chrono::microseconds time);
/// RFC 3339 in UTC with microseconds: 2026-11-29T16:40:01.123456Z. Years 0 to 9999.
void append_time(std::string& out, std::chrono::system_clock::time_point time);

}  // namespace gateway
