#include "gateway/cause.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "classifier/headers.h"
#include "gateway/digest.h"

namespace gateway {
namespace {

using classifier::Class;
using classifier::lower;
using ledger::Advice;

constexpr std::size_t kReadMax = 4'096;
constexpr std::size_t kWordsMax = 200;
constexpr std::size_t kEchoMin = 24;            // Bytes that message and body share; fewer are chance.
constexpr std::size_t kBodyRead = 1024 * 1024;  // Of the body; a few milliseconds.
constexpr char kMask = '#';

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_small(char c) { return c >= 'a' && c <= 'z'; }
bool is_large(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_small(c) || is_large(c); }
bool is_blank(char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; }

/// What is one word: letters, digits, and what ids, keys, URLs, addresses and numbers are made of.
bool in_word(char c) {
  return is_digit(c) || is_small(c) || is_large(c) || static_cast<unsigned char>(c) >= 0x80U ||
         std::string_view{"_-./:@%+=&?~*$#\\|^"}.find(c) != std::string_view::npos;
}

bool same_begin(std::string_view word, std::string_view front) {
  return word.size() >= front.size() && classifier::same_name(word.substr(0, front.size()), front);
}

/// A word of the language, which is the same in every such message: letters alone, as people write them (small,
/// Capital, RPM), maybe several joined by - or _ ("x-api-key", "max_tokens").
bool is_plain(std::string_view word) {
  constexpr std::size_t kLongest = 32;
  constexpr std::size_t kPartMax = 18;
  constexpr std::size_t kCapitalsMax = 12;
  constexpr std::string_view kIds[] = {"sk-",   "sk_",   "pk-",    "pk_",   "rk_",       "gsk_",  "hf_",
                                       "xai-",  "pplx-", "aiza",   "akia",  "asia",      "cg_",   "whsec_",
                                       "req_",  "req-",  "org-",   "org_",  "proj_",     "acct_", "msg_",
                                       "resp_", "run_",  "batch_", "file-", "chatcmpl-", "user-"};
  if (word.empty() || word.size() > kLongest) return false;
  if (std::ranges::any_of(kIds, [&](std::string_view front) { return same_begin(word, front); })) return false;
  while (!word.empty()) {
    const std::size_t end = std::min(word.find_first_of("-_"), word.size());
    const std::string_view part = word.substr(0, end);
    if (part.empty() || part.size() > kPartMax) return false;
    const bool capitals = std::ranges::all_of(part, is_large) && part.size() <= kCapitalsMax;
    const bool written = is_letter(part[0]) && std::ranges::all_of(part.substr(1), is_small);
    if (!capitals && !written) return false;
    if (end == word.size() - 1 && end > 0) return false;
    word.remove_prefix(std::min(end + 1, word.size()));
  }
  return true;
}

/// "<=", "-": signs that are no part of anything.
bool is_sign(std::string_view word) {
  const auto sign = [](char c) { return static_cast<unsigned char>(c) < 0x80U && !is_letter(c) && !is_digit(c); };
  return word.size() <= 2 && std::ranges::all_of(word, sign);
}

/// Behind these words, and a colon, stands somebody's key.
bool announces_key(std::string_view word) {
  constexpr std::string_view kWords[] = {"key",
                                         "keys",
                                         "token",
                                         "secret",
                                         "password",
                                         "provided",
                                         "credential",
                                         "credentials",
                                         "bearer",
                                         "authorization"};
  return std::ranges::any_of(kWords, [&](std::string_view one) { return classifier::same_name(one, word); });
}

/// Of something hidden: it whole, or a part of it that is not there by chance.
bool is_of(std::string_view hidden, std::string_view word) {
  constexpr std::size_t kHiddenMin = 4;
  constexpr std::size_t kPartMin = 6;
  if (hidden.size() < kHiddenMin) return false;
  const auto contains = [](std::string_view whole, std::string_view part) {
    return !std::ranges::search(whole, part, [](char a, char b) { return lower(a) == lower(b); }).empty();
  };
  return contains(word, hidden) || (word.size() >= kPartMin && contains(hidden, word));
}

/// Which bytes of the message stand in the body, too, in a row of kEchoMin or more? One pass over the body.
std::vector<bool> echoes(std::string_view message, std::string_view body) {
  std::vector<bool> echoed(message.size(), false);
  body = body.substr(0, kBodyRead);
  if (message.size() < kEchoMin || body.size() < kEchoMin) return echoed;
  // Most places of a body are told apart from all rows by eight bytes of theirs.
  constexpr std::size_t kTail = 8;
  const auto slot = [](const char* at) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, at, kTail);
    return static_cast<std::size_t>(bytes * 0x9E3779B97F4A7C15ULL >> 48U);
  };
  std::bitset<65'536> known;
  std::unordered_set<std::string_view> rows;  // Each is marked once, however often the body has it.
  for (std::size_t end = kEchoMin; end <= message.size(); ++end) {
    known.set(slot(message.data() + end - kTail));
    rows.insert(message.substr(end - kEchoMin, kEchoMin));
  }
  for (std::size_t end = kEchoMin; end <= body.size(); ++end) {
    if (!known.test(slot(body.data() + end - kTail))) continue;
    const auto row = rows.find(body.substr(end - kEchoMin, kEchoMin));
    if (row == rows.end()) continue;
    for (std::size_t at = message.find(*row); at != message.npos; at = message.find(*row, at + 1))
      std::fill_n(echoed.begin() + static_cast<std::ptrdiff_t>(at), kEchoMin, true);
    rows.erase(row);
    if (rows.empty()) break;
  }
  return echoed;
}

struct Quote {
  std::string_view open{};
  std::string_view close{};
};
constexpr Quote kQuotes[] = {{"\"", "\""},
                             {"'", "'"},
                             {"`", "`"},
                             {"{", "}"},
                             {"<", ">"},
                             {"\u201c", "\u201d"},
                             {"\u201e", "\u201c"},
                             {"\u2018", "\u2019"},
                             {"\u00ab", "\u00bb"},
                             {"\u300c", "\u300d"}};

/// Length of the quotation, or of the object, that begins here, with its marks; to the end if nothing closes it. 0:
/// none begins.
std::size_t quoted_length(std::string_view text) {
  for (const Quote& quote : kQuotes) {
    if (!text.starts_with(quote.open)) continue;
    // "a <= b" opens nothing.
    if (quote.open == "<" && (text.size() < 2 || !(is_letter(text[1]) || text[1] == '/'))) continue;
    int depth = 0;
    for (std::size_t at = quote.open.size(); at < text.size(); ++at) {
      if (text[at] == '\\') {
        ++at;
      } else if (text.substr(at).starts_with(quote.close)) {
        // An apostrophe within a word closes nothing: 'don't'.
        const std::size_t next = at + quote.close.size();
        const bool inside =
            quote.close == "'" && next < text.size() && (is_letter(text[next]) || is_digit(text[next]));
        if (!inside && depth-- == 0) return next;
      } else if (quote.open != quote.close && text.substr(at).starts_with(quote.open)) {
        ++depth;
      }
    }
    return text.size();
  }
  return 0;
}

/// The words as they come, "#" in place of one that is not to be seen; one "#" for several in a row.
class Words {
 public:
  void mask() {
    if (text_.ends_with("# ") || text_.ends_with('#')) return;
    text_ += kMask;
  }
  void put(std::string_view piece) { text_ += piece; }
  void blank() {
    if (!text_.empty() && text_.back() != ' ') text_ += ' ';
  }
  [[nodiscard]] bool full() const { return text_.size() > kWordsMax; }
  [[nodiscard]] std::string end() && {
    if (full()) text_.resize(kWordsMax);
    while (text_.ends_with(' ')) text_.pop_back();
    return std::move(text_);
  }

 private:
  std::string text_{};
};

/// Every model's name, however it is written, is another word: "#" in its place. Long ones alone: "o" is in all
/// words.
std::vector<bool> places_of(std::string_view text, std::string_view model) {
  constexpr std::size_t kModelMin = 3;
  std::vector<bool> found(text.size(), false);
  if (model.size() < kModelMin) return found;
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  for (auto from = text.begin();;) {
    const auto at = std::search(from, text.end(), model.begin(), model.end(), same);
    if (at == text.end()) return found;
    std::fill_n(found.begin() + (at - text.begin()), model.size(), true);
    from = at + 1;
  }
}

std::string masked_words(const Death& death) {
  const std::string_view text = death.message.substr(0, kReadMax);
  std::vector<bool> hide = echoes(text, death.body);
  const std::vector<bool> model = places_of(text, death.model);
  for (std::size_t i = 0; i < hide.size(); ++i) hide[i] = hide[i] || model[i];

  Words words;
  bool announced = false;    // The word before says that a key follows, …
  bool key_follows = false;  // … and so does the colon behind it.
  for (std::size_t at = 0; at < text.size() && !words.full();) {
    const char c = text[at];
    // An apostrophe in "don't" opens nothing; a brace does everywhere.
    const bool within = at > 0 && in_word(text[at - 1]) && (c == '\'' || c == '<');
    if (const std::size_t length = within ? 0 : quoted_length(text.substr(at)); length > 0) {
      words.mask();
      at += length;
      announced = key_follows = false;
    } else if (in_word(c)) {
      std::size_t end = at;
      do {
        ++end;
      } while (end < text.size() && in_word(text[end]) &&
               (static_cast<unsigned char>(text[end]) < 0x80U || quoted_length(text.substr(end)) == 0));
      std::string_view word = text.substr(at, end - at);
      const bool hidden_place = std::any_of(hide.begin() + static_cast<std::ptrdiff_t>(at),
                                            hide.begin() + static_cast<std::ptrdiff_t>(end),
                                            [](bool one) { return one; });
      at = end;
      if (announced && (word == ":" || word == "=")) {
        words.put(word);
        announced = false;
        key_follows = true;
        continue;
      }
      // What ends a sentence is no part of its last word.
      std::string_view ending = word.substr(word.find_last_not_of(".:?") + 1);
      word.remove_suffix(ending.size());
      if (ending.size() > 1) ending = ending.substr(0, 1);
      const bool hidden_word =
          std::ranges::any_of(death.hidden, [word](const std::string& one) { return is_of(one, word); });
      if (!word.empty() && (hidden_place || hidden_word || key_follows || !(is_plain(word) || is_sign(word)))) {
        words.mask();
      } else {
        words.put(word);
      }
      words.put(ending);
      announced = announces_key(word);
      key_follows = announced && (ending == ":" || classifier::same_name(word, "bearer"));
    } else if (is_blank(c)) {
      words.blank();
      ++at;
    } else {
      words.put({&c, 1});
      ++at;
    }
  }
  return std::move(words).end();
}

std::string hex_of(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

bool says_something(std::string_view words) { return std::ranges::any_of(words, is_letter); }

}  // namespace

Advice advice_for(Class cls, std::string_view code) {
  // Codes that tell more than their class: the request is fine, but not for this route, version or account.
  constexpr std::string_view kFixFirst[] = {"billing_hard_limit_reached",
                                            "invalid_api_version",
                                            "unsupported_api_version",
                                            "OperationNotSupported",
                                            "model_not_supported"};
  const auto is_code = [code](std::string_view one) { return classifier::same_name(one, code); };
  switch (cls) {
    case Class::Auth:
    case Class::Permission:
    case Class::QuotaExhausted:
    case Class::NotFound:
    case Class::Conflict:
    case Class::LocalRequest:  // An unknown route, say, that the configuration had once.
      return Advice::FixFirst;
    case Class::InvalidRequest:
    case Class::ContextLength:
    case Class::ContentPolicy:
    case Class::TooLarge:
      return std::ranges::any_of(kFixFirst, is_code) ? Advice::FixFirst : Advice::Discard;
    default:
      return Advice::Replay;
  }
}

Cause cause_of(const Death& death) {
  Cause cause;
  cause.text = masked_words(death);
  if (!says_something(cause.text)) {
    cause.text = !death.code.empty()          ? std::string{death.code}
                 : !death.fingerprint.empty() ? "unknown answer " + std::string{death.fingerprint}
                                              : std::string{classifier::name_of(death.cls)};
    if (cause.text.size() > kWordsMax) cause.text.resize(kWordsMax);
    std::ranges::replace_if(
        cause.text,
        [](char c) { return (is_blank(c) && c != ' ') || static_cast<unsigned char>(c) >= 0x80U; },
        kMask);
  }
  Digest digest;
  for (const std::string_view part :
       {death.queue, classifier::name_of(death.cls), death.code, std::string_view{cause.text}, death.model}) {
    digest.add(part);
  }
  constexpr std::size_t kGroupBytes = 8;
  const auto whole = digest.end();
  cause.group = hex_of(std::span{whole}.first(kGroupBytes));
  cause.advice = advice_for(death.cls, death.code);
  return cause;
}

}  // namespace gateway
