#include "budget/worst_case.h"

#include <algorithm>
#include <optional>

namespace budget {
namespace {

constexpr std::int64_t kDenseBytes = 2;
constexpr std::int64_t kLeastOutput = 4'096;
constexpr std::int64_t kMost = 1'000'000'000'000;  // Tokens; products stay far from overflow.

constexpr Meter kTextInputs[] = {Meter::CacheWrite, Meter::CacheWrite1h};
constexpr Meter kMediaInputs[] = {Meter::AudioInput, Meter::ImageInput};
constexpr Meter kOutputs[] = {Meter::Reasoning, Meter::AudioOutput, Meter::ImageOutput};

std::int64_t tokens(std::int64_t count) { return std::clamp<std::int64_t>(count, 0, kMost); }

bool has_rate(const Price& price, Meter meter) {
  return std::ranges::any_of(price.tables, [&](const RateTable& table) { return table.rates.at(meter).has_value(); });
}

/// All input as one kind, all output as another.
std::optional<NanoUsd> cost_as(const Price& price, const Terms& terms, const Expected& most, Meter input,
                               Meter output) {
  classifier::TokenCounts counts{.input = most.input, .output = most.output};
  Billed billed;
  if (input == Meter::CacheWrite) counts.cache_write_5m = most.input;
  if (input == Meter::CacheWrite1h) counts.cache_write_1h = most.input;
  if (input == Meter::AudioInput) billed.audio_input = most.input;
  if (input == Meter::ImageInput) billed.image_input = most.input;
  if (output == Meter::Reasoning) counts.reasoning = most.output;
  if (output == Meter::AudioOutput) billed.audio_output = most.output;
  if (output == Meter::ImageOutput) billed.image_output = most.output;
  return cost_of(&price, terms, counts, billed).total;
}

/// Input and output are charged apart, so that the dearest of each is the dearest of both.
std::optional<NanoUsd> dearest(const Price& price, const Terms& terms, const Expected& most, bool has_media) {
  Meter input = Meter::Input;
  std::optional<NanoUsd> worst = cost_as(price, terms, most, input, Meter::Output);
  const auto try_input = [&](Meter meter) {
    if (!has_rate(price, meter)) return;
    const auto cost = cost_as(price, terms, most, meter, Meter::Output);
    if (!cost || (worst && *cost <= *worst)) return;
    worst = cost;
    input = meter;
  };
  std::ranges::for_each(kTextInputs, try_input);
  if (has_media) std::ranges::for_each(kMediaInputs, try_input);
  for (const Meter output : kOutputs) {
    if (has_rate(price, output)) worst = std::max(worst, cost_as(price, terms, most, input, output));
  }
  return worst;
}

}  // namespace

Expected most_tokens(const Sizes& sizes, const Expected& expected) {
  const auto text = static_cast<std::int64_t>(std::min<std::uint64_t>(sizes.text_bytes, kMost));
  const std::int64_t twice = 2 * tokens(expected.input);
  Expected most;
  most.input = std::max((text + kDenseBytes - 1) / kDenseBytes, sizes.media > 0 ? twice : std::min(twice, text));
  most.input = tokens(most.input);
  most.output = tokens(sizes.most_output.value_or(std::max(kLeastOutput, 2 * tokens(expected.output))));
  return most;
}

NanoUsd worst_case(const Price* price, const Price& fallback, const Expected& most, bool has_media,
                   const Terms& terms) {
  const Expected sane{tokens(most.input), tokens(most.output)};
  std::optional<NanoUsd> worst;
  if (price) worst = dearest(*price, terms, sane, has_media);
  if (!worst) worst = dearest(fallback, {}, sane, has_media);
  return worst.value_or(NanoUsd{});
}

}  // namespace budget
