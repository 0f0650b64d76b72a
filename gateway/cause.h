#pragma once
// Of what did it die, in words that are the same for all that died of it? For grouping dead letters, and for people.

#include <span>
#include <string>
#include <string_view>

#include "classifier/verdict.h"
#include "ledger/letters.h"

namespace gateway {

struct Death {
  std::string_view queue{};
  classifier::Class cls = classifier::Class::Unknown;
  std::string_view code{};         // The provider's own.
  std::string_view message{};      // The provider's, or ours; any bytes. The first 4 KiB count.
  std::string_view model{};        // As asked; it is no part of the text, but of the group.
  std::string_view fingerprint{};  // Of an answer that no rule knew, else empty.
  /// What was sent. A message that repeats a piece of it shows somebody's prompt, quoted or not.
  std::string_view body{};
  std::span<const std::string> hidden{};  // Keys and the like (callers_secrets()): no word that is of them stays.
};

struct Cause {
  /// "Rate limit reached for # in organization # on requests per min (RPM): Limit #": "#" stands for all that differs
  /// from call to call or may be somebody's. Never empty, at most 200 characters, of ASCII. Where there is no
  /// message: the code, or "unknown answer <fingerprint>", or the class.
  std::string text{};
  std::string group{};  // 16 hex digits of SHA-256 over queue, class, code, text and model.
  ledger::Advice advice = ledger::Advice::Replay;
};
[[nodiscard]] Cause cause_of(const Death& death);

/// Replay: it may go well as it is. Fix-first: somebody must mend something that is not the request. Discard: this
/// very request will never go well; edited it may.
[[nodiscard]] ledger::Advice advice_for(classifier::Class cls, std::string_view code);

}  // namespace gateway
