#pragma once
// What does an attempt add to a spend report? Said once, for what is summed while rows are written, while they are
// read, and when they are priced anew.

#include <cstdint>
#include <optional>
#include <string_view>

#include "ledger/books.h"

namespace ledger {

/// What of an attempt's row counts.
struct AttemptSpend {
  bool followed = false;       // Another attempt of the same call came after it.
  bool call_answered = false;  // In the end.
  bool possibly_billed = false;
  bool used = false;  // Tokens or other quantities are known.
  std::string_view tokens_from{};
  std::string_view cost_source{};
  std::int64_t input = 0, cached_input = 0, cache_write = 0, output = 0, reasoning = 0;
  std::optional<std::int64_t> cost_nano{}, charged_nano{};
};

/// Ends at the largest number instead of overflowing.
inline void add(std::int64_t& to, std::int64_t amount) {
  if (__builtin_add_overflow(to, amount, &to)) to = amount < 0 ? INT64_MIN : INT64_MAX;
}
void add(SpendLine& to, const AttemptSpend& attempt);
void add(SpendLine& to, const SpendLine& from);  // All figures, not `by`.

}  // namespace ledger
