#pragma once
// What does a call cost at most? Budgets put that aside (design §5).

#include <cstdint>
#include <string_view>

#include "budget/estimator.h"
#include "budget/price.h"
#include "classifier/asked_terms.h"

namespace budget {

/// The most tokens that such a request should take. Input: two bytes to a token is dense for text, and where this
/// model's is denser, down to one (digits), twice what is expected; with media, twice what is expected. Output: what
/// was asked for at most; where nothing was, twice what the model's answers usually stay below, and 4096 at least:
/// then an answer may cost more than this.
[[nodiscard]] Expected most_tokens(const Sizes& sizes, const Expected& expected);

/// By the dearest terms that may come of what was asked: a tier may be given or refused (then the plain one holds),
/// and one that is left to the provider may be priority. At the rates of the length of prompt that is dearest; the
/// dearest kind of input (of media only if it `has_media`) and of output that has a price. `region`: where it is
/// made, by URL or model's name. `price` null, or without a rate for one of them: `fallback`. An answer of this model
/// within `most` costs no more.
[[nodiscard]] NanoUsd worst_case(const Price* price, const Price& fallback, const Expected& most,
                                 const classifier::AskedTerms& asked = {}, std::string_view region = {},
                                 bool has_media = false);

}  // namespace budget
