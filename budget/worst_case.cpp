#include "budget/worst_case.h"

#include <algorithm>
#include <array>

namespace budget {
namespace {

using classifier::TokenCounts;

constexpr std::int64_t kDenseBytes = 2;
constexpr std::int64_t kLeastOutput = 4'096;
constexpr std::int64_t kMost = 1'000'000'000'000;  // Tokens; products stay far from overflow.

}  // namespace

Expected most_tokens(const Sizes& sizes, const Expected& expected) {
  Expected most;
  const auto text = static_cast<std::int64_t>(std::min<std::uint64_t>(sizes.text_bytes, kMost));
  most.input = (text + kDenseBytes - 1) / kDenseBytes;
  if (sizes.media > 0) most.input = std::max(most.input, 2 * std::min(expected.input, kMost));
  most.output = sizes.most_output.value_or(std::max(kLeastOutput, 2 * std::min(expected.output, kMost)));
  most.input = std::clamp<std::int64_t>(most.input, 0, kMost);
  most.output = std::clamp<std::int64_t>(most.output, 0, kMost);
  return most;
}

NanoUsd worst_case(const Price* price, const Price& fallback, const Expected& most) {
  const std::array<TokenCounts, 4> shapes = {
      TokenCounts{.input = most.input, .output = most.output},
      TokenCounts{.input = most.input, .cache_write_5m = most.input, .output = most.output},
      TokenCounts{.input = most.input, .cache_write_1h = most.input, .output = most.output},
      TokenCounts{.input = most.input, .output = most.output, .reasoning = most.output}};
  NanoUsd worst{};
  for (const TokenCounts& shape : shapes) {
    Cost cost = cost_of(price, {}, shape);
    if (!cost.total) cost = cost_of(&fallback, {}, shape);
    if (cost.total) worst = std::max(worst, *cost.total);
  }
  return worst;
}

}  // namespace budget
