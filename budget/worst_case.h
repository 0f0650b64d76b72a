#pragma once
// What does a call cost at most? Budgets put that aside (design §5).

#include <cstdint>

#include "budget/estimator.h"
#include "budget/price.h"

namespace budget {

/// The most tokens that such a request should take. Input: two bytes to a token is dense for any text; twice of what
/// its media are expected to take. Output: what was asked for at most; where nothing was, twice what the model's
/// answers usually stay below, and 4096 at least: then an answer may cost more than this.
[[nodiscard]] Expected most_tokens(const Sizes& sizes, const Expected& expected);

/// At the plain rates of its length of prompt; the dearest kind of input (a cache write, say) and of output.
/// `price` null, or without a rate for one of them: `fallback`.
[[nodiscard]] NanoUsd worst_case(const Price* price, const Price& fallback, const Expected& most);

}  // namespace budget
