#include "classifier/fingerprint.h"

#include <algorithm>
#include <cstddef>

#include "classifier/error_reader.h"
#include "classifier/json.h"

namespace classifier {

namespace {

constexpr std::size_t kTextMax = 512;
constexpr std::size_t kReadMax = 4'096;
constexpr std::string_view kMask = "#";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

/// What is one word of a message: letters, digits, and what ids, URLs and names are made of.
bool in_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return is_digit(c) || is_letter(c) || byte >= 0x80U ||
         std::string_view{"_-./:@%+=&?~*$"}.find(c) != std::string_view::npos;
}

/// A word that is the same in every such message: letters, maybe joined by _ - or an apostrophe.
bool is_plain(std::string_view word) {
  constexpr std::size_t kLongest = 32;  // Longer ones are keys.
  if (word.size() > kLongest) return false;
  return std::ranges::all_of(word, [](char c) { return is_letter(c) || c == '_' || c == '-' || c == '.'; }) &&
         word.find('.') >= word.size() - 1;
}

/// FNV-1a: short, and for ever the same.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

std::string hex_of(std::uint64_t number, std::size_t digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < digits; ++i) out += kDigits[(number >> (60 - 4 * i)) & 0xFU];
  return out;
}

/// Length of the quotation at the front of `text`, its quotes included; 0 if none begins there.
std::size_t quoted_length(std::string_view text) {
  const std::size_t close = text.find(text[0], 1);
  return close == std::string_view::npos ? 0 : close + 1;
}

}  // namespace

std::string masked(std::string_view text) {
  std::string low;
  for (const char c : text.substr(0, kReadMax)) low += lower(c);
  std::string out;
  const auto put = [&](std::string_view piece) {
    if (piece == kMask && (out.ends_with("# ") || out == "#")) return;
    out += piece;
  };
  for (std::size_t at = 0; at < low.size() && out.size() < kTextMax;) {
    const char c = low[at];
    const bool opens = (c == '"' || c == '`' || c == '\'') && (at == 0 || !in_word(low[at - 1]));
    if (const std::size_t length = opens ? quoted_length(std::string_view{low}.substr(at)) : 0; length > 0) {
      put(kMask);
      at += length;
    } else if (in_word(c)) {
      std::size_t end = at;
      while (end < low.size() && in_word(low[end])) ++end;
      std::string_view word = std::string_view{low}.substr(at, end - at);
      at = end;
      // The end of a sentence is no part of its last word.
      while (!word.empty() && std::string_view{".:?"}.find(word.back()) != std::string_view::npos)
        word.remove_suffix(1);
      if (!word.empty()) put(is_plain(word) ? word : kMask);
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (!out.empty() && out.back() != ' ') out += ' ';
      ++at;
    } else {
      if (c != ',' && c != ';' && c != '"' && c != '`') out += c;
      ++at;
    }
  }
  if (out.size() > kTextMax) out.resize(kTextMax);
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

Fingerprint fingerprint_of(std::string_view dialect, int status, const Headers* headers, std::string_view body) {
  const ErrorFacts facts = read_error(status, headers, body);
  Fingerprint made;
  for (const std::string& word : facts.words) {
    // A code may hold digits ("1300"), an id or a key holds many and is long.
    constexpr std::size_t kCodeMax = 40;
    const auto digits = static_cast<std::size_t>(std::ranges::count_if(word, is_digit));
    const bool code = word.size() <= kCodeMax && (digits <= 5 || digits * 4 < word.size());
    if (!made.words.empty()) made.words += ' ';
    made.words += code ? std::string_view{word} : kMask;
  }
  made.text = masked(facts.text);
  const std::string whole =
      std::string{dialect} + '\n' + std::to_string(status) + '\n' + made.words + '\n' + made.text;
  made.id = hex_of(hash_of(whole), 12);
  return made;
}

std::string case_line(const Fingerprint& fingerprint, std::string_view dialect, int status) {
  std::string error = "{\"error\":{\"message\":" + classifier::quoted(fingerprint.text);
  if (!fingerprint.words.empty()) error += ",\"code\":" + classifier::quoted(fingerprint.words);
  error += "}}";
  return "{\"id\":" + classifier::quoted("unknown-" + fingerprint.id) +
         ",\"provider\":" + classifier::quoted(dialect) +
         ",\"endpoint\":\"any\",\"status\":" + (status == 0 ? std::string{"null"} : std::to_string(status)) +
         ",\"headers\":{},\"body\":" + classifier::quoted(error) + ",\"stream\":false,\"transport\":null}";
}

}  // namespace classifier
