#pragma once
// What can a call cost at most? (design §5)

#include <cstdint>
#include <optional>

#include "budget/price.h"

namespace budget {

/// `price` null: the model has none, and `fallback` holds. `input_tokens`: an upper bound. `most_output`: what was asked
/// for at most; nothing: as much as models usually may.
[[nodiscard]] NanoUsd worst_case(const Price* price, const Price& fallback, std::int64_t input_tokens,
                                 std::optional<std::int64_t> most_output);

}  // namespace budget
