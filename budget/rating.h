#pragma once
// What did an attempt cost, by the usage that was reported? The same rules while it runs and when it is priced anew.

#include <optional>
#include <string>
#include <string_view>

#include "budget/price_book.h"

namespace budget {

struct Rated {
  std::optional<NanoUsd> cost{};  // Nothing: unknown.
  /// A literal: "provider" (stated in the answer), "table", "table_plain" (for want of a price for the tier or
  /// modifier that the answer names), "fallback" (the model has no price), "unpriced" (something used has none);
  /// empty: nothing was reported.
  std::string_view source{};
  std::string_view tier{};  // "standard", "flex", …: by which it was priced, "other" for a word not known; or empty.
  std::string prices{};     // Version of the table that had the price, else the digest of its file; or empty.
};

/// What the provider states beats the table, the table beats the fallback. `book` null: no tables.
[[nodiscard]] Rated rate(const PriceBook* book, const Price& fallback, const Sought& sought, std::string_view region,
                         const classifier::Usage& usage);

}  // namespace budget
