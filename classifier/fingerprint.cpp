#include "classifier/fingerprint.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "classifier/answer_body.h"
#include "classifier/cases.h"
#include "classifier/error_reader.h"
#include "classifier/json.h"
#include "classifier/rules.h"

namespace classifier {

namespace {

constexpr std::size_t kTextMax = 512;
constexpr std::size_t kWordsMax = 256;
constexpr std::size_t kReadMax = 4'096;
constexpr std::string_view kMask = "#";
constexpr std::string_view kBetween = " ()[]{}<>!|\\^\"'";  // What may stand between two words of a masked text.

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
  constexpr std::string_view kKeys[] = {"sk-", "sk_", "pk-", "pk_", "gsk_", "hf_", "xai-", "pplx-", "aiza", "akia"};
  const auto begins = [word](std::string_view front) { return word.starts_with(front); };
  if (word.size() > kLongest || std::ranges::any_of(kKeys, begins)) return false;
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

/// Of something hidden: a part of it that is not there by chance, or it whole.
bool is_of(std::string_view hidden, std::string_view word) {
  constexpr std::size_t kHiddenMin = 4;
  constexpr std::size_t kPartMin = 6;
  constexpr std::size_t kPiece = 8;  // Within other letters.
  if (hidden.size() < kHiddenMin) return false;
  for (std::size_t at = 0; at + kPiece <= word.size(); ++at) {
    if (hidden.contains(word.substr(at, kPiece))) return true;
  }
  return word.contains(hidden) || (word.size() >= kPartMin && hidden.contains(word));
}

/// Is a word, as letters_of() leaves it, one of the provider's and not somebody's?
bool is_code(std::string_view word, std::span<const std::string> hidden) {
  // A code may hold digits ("1300"), an id or a key holds many and is long.
  constexpr std::size_t kCodeMax = 40;
  constexpr std::string_view kKeys[] = {"skproj", "skant", "sklive", "sktest", "skor", "gsk", "aiza", "akia", "pplx"};
  const auto digits = static_cast<std::size_t>(std::ranges::count_if(word, is_digit));
  if (word.size() > kCodeMax || (digits > 5 && digits * 4 >= word.size())) return false;
  if (std::ranges::any_of(kKeys, [word](std::string_view front) { return word.starts_with(front); })) return false;
  return std::ranges::none_of(hidden, [word](const std::string& text) { return is_of(letters_of(text), word); });
}

/// A masked text without the words that are, hold or are a part of something hidden.
std::string without(std::span<const std::string> hidden, std::string text) {
  if (hidden.empty()) return text;
  std::vector<std::string> low;
  for (const std::string& one : hidden) {
    low.emplace_back();
    for (const char c : one) low.back() += lower(c);
  }
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find_first_of(kBetween), rest.size());
    const std::string_view word = rest.substr(0, end);
    const bool hide = std::ranges::any_of(low, [word](const std::string& one) { return is_of(one, word); });
    out += hide ? kMask : word;
    if (end < rest.size()) out += rest[end];
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (out.size() > kTextMax) out.resize(kTextMax);
  return out;
}

/// What an error says, and no more.
struct Said {
  std::string_view text{};
  std::span<const std::string> words{};
  int inner_status = 0;  // 0: none that counts.
};
enum class Form : std::uint8_t { Error, Aws };  // {"error":{…}}, and what AWS takes for one inside a 200.

/// Each word has a member of its own, so that none is read together with the next.
std::string body_saying(const Said& said, Form form) {
  std::string body = "\"message\":" + quoted(said.text);
  if (said.inner_status != 0) body += ",\"status\":" + std::to_string(said.inner_status);
  std::string reasons;
  if (form == Form::Aws && said.words.empty()) body += ",\"__type\":" + quoted(kMask);
  for (std::size_t i = 0; i < said.words.size(); ++i) {
    const std::string& word = said.words[i];
    if (i == 0 && form == Form::Aws) {
      body += ",\"__type\":" + quoted(word);
    } else if (i == 0 && !std::ranges::all_of(word, is_digit)) {
      // A number would be taken for a status there.
      body += ",\"code\":" + quoted(word);
    } else {
      reasons += (reasons.empty() ? "{\"reason\":" : ",{\"reason\":") + quoted(word) + "}";
    }
  }
  if (!reasons.empty()) body += ",\"errors\":[" + reasons + "]";
  return form == Form::Aws ? "{" + body + "}" : "{\"error\":{" + body + "}}";
}

/// Is that an error to the dialect, and one that no rule knows?
bool is_unknown_error(std::string_view dialect, int status, const std::string& body) {
  Case one;
  one.dialect = find_dialect(dialect);
  if (one.dialect == nullptr) return true;
  one.path = usual_path(dialect);
  one.status = status;
  one.body = body;
  const Verdict verdict = judge(one);
  return verdict.unexplained && verdict.cls != Class::MalformedResponse;
}

/// The first form that fits. What was apart may stand together in a masked text and mean something to a rule; then it
/// goes without.
std::string body_for(std::string_view dialect, int status, const Said& said) {
  for (const std::string_view text : {said.text, kMask}) {
    for (const Form form : {Form::Error, Form::Aws}) {
      std::string body = body_saying({text, said.words, said.inner_status}, form);
      if (is_unknown_error(dialect, status, body)) return body;
    }
  }
  return body_saying(said, Form::Error);
}

std::string id_of(std::string_view dialect, int status, std::string_view words, std::string_view text) {
  std::string whole{dialect};
  whole.append(1, '\n').append(std::to_string(status)).append(1, '\n').append(words).append(1, '\n').append(text);
  return hex_of(hash_of(whole), 12);
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

Fingerprint fingerprint_of(std::string_view dialect, int status, const Headers* headers, std::string_view body,
                           std::span<const std::string> hidden) {
  const AnswerBody read{headers, body};
  const ErrorFacts facts = read_error(status, headers, read.readable ? read.text : std::string_view{});
  Fingerprint made;
  std::vector<std::string> words;
  for (const std::string& word : facts.words) {
    const std::string shown{is_code(word, hidden) ? std::string_view{word} : kMask};
    if (made.words.size() + 1 + shown.size() > kWordsMax) break;
    if (!made.words.empty()) made.words += ' ';
    made.words += shown;
    words.push_back(shown);
  }
  made.text = without(hidden, masked(facts.text));
  const int inner = facts.status == status ? 0 : facts.status;
  made.body = body_for(dialect, status, {made.text, words, inner});
  made.id = id_of(dialect, status, inner == 0 ? made.words : made.words + ' ' + std::to_string(inner), made.text);
  return made;
}

Fingerprint fingerprint_of_malformed(std::string_view dialect, int status, std::string_view rule) {
  constexpr std::pair<std::string_view, std::string_view> kBodies[] = {
      {"empty answer", ""}, {"markup in place of an answer", "<html></html>"}, {"no whole JSON", "{"}};
  Fingerprint made;
  made.text = rule;
  const auto* const known = std::ranges::find(kBodies, rule, &std::pair<std::string_view, std::string_view>::first);
  made.body = known == std::end(kBodies) ? std::string_view{"{}"} : known->second;
  made.id = id_of(dialect, status, {}, rule);
  return made;
}

std::string case_line(const Fingerprint& fingerprint, std::string_view dialect, int status, const Verdict& verdict) {
  std::string headers;
  const auto add = [&headers](std::string_view name, std::string_view value) {
    headers += (headers.empty() ? "" : ",") + quoted(name) + ":" + quoted(value);
  };
  if (verdict.retry_after) add("retry-after-ms", std::to_string(verdict.retry_after->count()));
  const bool by_class =
      verdict.cls == Class::MalformedResponse || verdict.retryable == retryable_by_class(verdict.cls);
  if (!by_class) add("x-should-retry", verdict.retryable ? "true" : "false");
  return "{\"id\":" + quoted("unknown-" + fingerprint.id) + ",\"provider\":" + quoted(dialect) +
         ",\"endpoint\":" + quoted(usual_endpoint(dialect)) + ",\"status\":" + std::to_string(status) +
         ",\"headers\":{" + headers + "},\"body\":" + quoted(fingerprint.body) +
         ",\"stream\":false,\"transport\":null}";
}

}  // namespace classifier
