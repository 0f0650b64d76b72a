#pragma once
// What would stored attempts cost by other prices? The tokens in their rows, rated anew; the sums follow.

#include <cstdint>
#include <expected>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "budget/price_book.h"

namespace ledger {

struct RerateAsk {
  std::int64_t since_ms = 0;          // Of attempts that ended from then on, …
  std::int64_t until_ms = INT64_MAX;  // … and before this.
  const budget::PriceBook* book = nullptr;
  budget::Price fallback{};
  /// Whose prices hold at an upstream of that name, and in which region it serves (price_book.h).
  std::function<std::string(std::string_view upstream)> provider_of{};
  std::function<std::string(std::string_view upstream)> region_of{};
  bool apply = false;
};

/// One line of what changes.
struct RerateLine {
  std::string upstream{};
  std::string model{};        // As answered, else as asked for there.
  std::int64_t attempts = 0;  // With usage, …
  std::int64_t changed = 0;   // … of which cost or its source would be another.
  std::int64_t before_nano = 0;
  std::int64_t after_nano = 0;
  std::int64_t unpriced_before = 0, unpriced_after = 0;
};

/// Dry unless `apply`: then in transactions of some hundred calls each, which change rows and sums together, so that
/// it may be broken off and begun again. Budgets keep what they were charged. The file must be served by nobody while
/// it is applied: PATH-lock is taken, and the error says who holds it.
[[nodiscard]] std::expected<std::vector<RerateLine>, std::string> rerate(const std::string& path,
                                                                         const RerateAsk& ask);

}  // namespace ledger
