#pragma once
// What does a call cost at most? Budgets put that aside (design §5).

#include <cstdint>

#include "budget/estimator.h"
#include "budget/price.h"

namespace budget {

/// The most tokens that such a request should take. Input: two bytes to a token is dense for text, and where this
/// model's is denser, down to one (digits), twice what is expected; with media, twice what is expected. Output: what
/// was asked for at most; where nothing was, twice what the model's answers usually stay below, and 4096 at least:
/// then an answer may cost more than this.
[[nodiscard]] Expected most_tokens(const Sizes& sizes, const Expected& expected);

/// At the rates of its length of prompt, by the tier, modifiers and region of `terms`; the dearest kind of input (a
/// cache write; of media only if it `has_media`) and of output that has a price. `price` null, or without a rate for
/// one of them: `fallback`.
[[nodiscard]] NanoUsd worst_case(const Price* price, const Price& fallback, const Expected& most,
                                 bool has_media = false, const Terms& terms = {});

}  // namespace budget
