#pragma once
// Which class does a provider mean by this status, these words and this text?

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/headers.h"
#include "classifier/verdict.h"

namespace classifier {

/// Groups of statuses, as a mask: what a word or a text may mean depends on them.
using Statuses = std::uint32_t;
namespace on {
inline constexpr Statuses k400 = 1U << 0U;
inline constexpr Statuses k401 = 1U << 1U;
inline constexpr Statuses k402 = 1U << 2U;
inline constexpr Statuses k403 = 1U << 3U;
inline constexpr Statuses k404 = 1U << 4U;
inline constexpr Statuses k409 = 1U << 5U;
inline constexpr Statuses k412 = 1U << 6U;
inline constexpr Statuses k413 = 1U << 7U;
inline constexpr Statuses k422 = 1U << 8U;
inline constexpr Statuses k429 = 1U << 9U;
inline constexpr Statuses kOther4xx = 1U << 10U;
inline constexpr Statuses k503 = 1U << 11U;
inline constexpr Statuses kOther5xx = 1U << 12U;
inline constexpr Statuses kNone = 1U << 13U;  // An error inside a 200 that names no status.
inline constexpr Statuses k498 = 1U << 14U;   // Each provider's that uses it means something else by it.
inline constexpr Statuses k5xx = k503 | kOther5xx;
inline constexpr Statuses kAny = ~Statuses{0};
[[nodiscard]] Statuses group_of(int status);
}  // namespace on

enum class Retry : std::uint8_t { ByClass, Yes, No };

/// The letters and digits of a word in lower case, without a last "error" or "exception": what is left of
/// rate_limit_exceeded is left of RateLimitExceeded too.
[[nodiscard]] constexpr std::string letters_of(std::string_view word) {
  std::string letters;
  for (const char c : word) {
    const char low = lower(c);
    if ((low >= 'a' && low <= 'z') || (low >= '0' && low <= '9')) letters += low;
  }
  for (const std::string_view tail : {std::string_view{"error"}, std::string_view{"exception"}}) {
    if (letters.size() > tail.size() && letters.ends_with(tail)) {
      letters.resize(letters.size() - tail.size());
      break;
    }
  }
  return letters;
}

/// A word of a table, as some provider spells it; with "*" before it the end of one, with "*" behind it the
/// beginning. Its letters are taken by the compiler, so that a lookup only compares them.
class Word {
 public:
  // Implicit, since rows are written with plain literals.
  consteval Word(const char* spelling) : spelling_(spelling) {  // NOLINT(google-explicit-constructor)
    const std::string letters = letters_of(spelling_);
    if (letters.size() > letters_.size()) throw "too long a word";
    for (const char c : letters) letters_[size_++] = c;
  }
  [[nodiscard]] constexpr std::string_view spelling() const { return spelling_; }
  [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
  [[nodiscard]] constexpr bool fits(std::string_view letters) const {
    const std::string_view own{letters_.data(), size_};
    if (spelling_.starts_with('*')) return letters.ends_with(own);
    return spelling_.ends_with('*') ? letters.starts_with(own) : letters == own;
  }

 private:
  std::string_view spelling_;
  std::array<char, 40> letters_{};
  std::size_t size_ = 0;
};

/// One row of a table; the first that matches wins. A row may ask for a word, for a text, or for both.
struct Rule {
  Statuses statuses = on::kAny;
  /// Compared with type, code, status, reason and the like.
  Word word{""};
  /// Looked for in the provider's own words, lower case, from the start of a word; "*" is up to 80 bytes of anything.
  std::string_view text{};
  Class cls = Class::Unknown;
  Retry retry = Retry::ByClass;
};

/// A row that an operator wrote for one upstream; tried before all others, and its word on retryable is the last.
/// At least one of status, word and text is given.
struct ExtraRule {
  int status = 0;      // Of the answer, or the one by which it is judged; 0: any.
  std::string word{};  // As letters_of() leaves it; empty: any. What stood before and behind it:
  bool open_front = false;
  bool open_back = false;
  std::string text{};  // Lower case; as Rule::text. Empty: any.
  Class cls = Class::Unknown;
  std::optional<bool> retryable{};  // Nothing: by class.
  std::string name{};               // For Verdict::rule: "callgate.yaml:12: upstreams.x.classifier.rules[0]".
};
/// From a code as an operator writes it, "*" at either end; nothing if it can fit no word.
[[nodiscard]] std::optional<ExtraRule> rule_for_code(std::string_view code);
/// Whatever `later` fits, `earlier` fits, too.
[[nodiscard]] bool covers(const ExtraRule& earlier, const ExtraRule& later);

/// What an answer is judged by, before the rules that all dialects share. Both outlive whoever is given them.
struct RuleSet {
  std::span<const ExtraRule> extra{};
  std::span<const Rule> own{};
};

/// What an error answer says, in whatever form it came (error_reader.h).
struct ErrorFacts {
  int status = 0;    // The one to judge by: the answer's, or one inside the body where that counts. 0: none.
  int answered = 0;  // The answer's own.
  std::vector<std::string> words{};  // As letters_of() leaves them.
  std::string text{};                // The provider's own words, lower case, without what it quotes.
  std::string retry_delay{};         // google.rpc.RetryInfo.
  std::string code{};                // For Verdict::code.
};

/// Class, retryable and rule; `by_operator` tells whether an extra rule said if it is retryable.
[[nodiscard]] Verdict verdict_of(const RuleSet& rules, const ErrorFacts& facts, bool& by_operator);

[[nodiscard]] bool has_text(std::string_view needle, std::string_view text);
[[nodiscard]] bool retryable_by_class(Class cls);
/// Classes that no header of the provider makes retryable: only somebody's deed clears them.
[[nodiscard]] bool never_retryable(Class cls);
[[nodiscard]] Verdict verdict_of(Transport transport);

}  // namespace classifier
