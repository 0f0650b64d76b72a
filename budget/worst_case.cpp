#include "budget/worst_case.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>

namespace budget {
namespace {

constexpr std::int64_t kDenseBytes = 2;
constexpr std::int64_t kLeastOutput = 4'096;
constexpr std::int64_t kMost = 1'000'000'000'000;  // Tokens; products stay far from overflow.

using classifier::AskedTerms;

constexpr Meter kTextInputs[] = {Meter::CacheWrite, Meter::CacheWrite1h, Meter::CachedInput};
constexpr Meter kMediaInputs[] = {
    Meter::AudioInput, Meter::ImageInput, Meter::CachedAudioInput, Meter::CachedImageInput};
constexpr Meter kOutputs[] = {Meter::Reasoning, Meter::AudioOutput, Meter::ImageOutput};

constexpr std::string_view kAuto = "auto";
constexpr std::string_view kUsualElsewhere = "us";  // The one place that can be set for a whole workspace.

std::int64_t tokens(std::int64_t count) { return std::clamp<std::int64_t>(count, 0, kMost); }

const Factor* factor_of(const Price& price, std::string_view name) {
  const auto found = std::ranges::find(price.factors, name, &Factor::name);
  return found == price.factors.end() ? nullptr : &*found;
}

/// Some table has a rate for it that is above some table's for plain input or output: else it can cost no more.
bool may_be_dearer(const Price& price, Meter meter, Meter plain) {
  std::optional<PicoUsd> most;
  std::optional<PicoUsd> least;
  for (const RateTable& table : price.tables) {
    if (const auto rate = table.rates.at(meter); rate && (!most || *rate > *most)) most = rate;
    if (const auto rate = table.rates.at(plain); rate && (!least || *rate < *least)) least = rate;
  }
  return most && (!least || *most > *least);
}

bool has_tier(const Price& price, Tier tier) {
  return std::ranges::find(price.tables, tier, &RateTable::tier) != price.tables.end() ||
         factor_of(price, name_of(tier)) != nullptr;
}

/// Which tier, beside the plain one, the answer may name.
Tier other_tier(const AskedTerms& asked) {
  if (asked.service_tier == kAuto || (asked.service_tier.empty() && asked.set_elsewhere)) return Tier::Priority;
  return tier_named(asked.service_tier).value_or(Tier::Priority);  // A word that is not known may mean anything.
}

/// Those that make it dearer; the answer need not confirm one.
struct Modifiers {
  std::array<std::string_view, 2> names{};
  std::size_t count = 0;
};
Modifiers modifiers_of(const Price& price, const AskedTerms& asked) {
  constexpr std::int64_t kOne = 1'000'000;
  Modifiers modifiers;
  std::string_view place = asked.inference_geo;
  if (place.empty() && asked.place_set_elsewhere) place = kUsualElsewhere;
  for (const std::string_view name : {std::string_view{asked.speed}, place}) {
    const Factor* factor = name.empty() ? nullptr : factor_of(price, name);
    if (factor != nullptr && factor->millionths > kOne) modifiers.names[modifiers.count++] = name;
  }
  return modifiers;
}

/// Of one way to divide the tokens.
struct Divided {
  Meter input = Meter::Input;
  Meter output = Meter::Output;
};

/// All input as one kind, all output as another.
std::optional<NanoUsd> cost_as(const Price& price, const Terms& terms, const Expected& most, const Divided& divided) {
  classifier::TokenCounts counts{.input = most.input, .output = most.output};
  Billed billed;
  switch (divided.input) {
    case Meter::CacheWrite:
      counts.cache_write_5m = most.input;
      break;
    case Meter::CacheWrite1h:
      counts.cache_write_1h = most.input;
      break;
    case Meter::CachedInput:
      counts.cached_input = most.input;
      break;
    case Meter::AudioInput:
      billed.audio_input = most.input;
      break;
    case Meter::ImageInput:
      billed.image_input = most.input;
      break;
    case Meter::CachedAudioInput:
      counts.cached_input = billed.audio_input = billed.cached_audio_input = most.input;
      break;
    case Meter::CachedImageInput:
      counts.cached_input = billed.image_input = billed.cached_image_input = most.input;
      break;
    default:
      break;
  }
  if (divided.output == Meter::Reasoning) counts.reasoning = most.output;
  if (divided.output == Meter::AudioOutput) billed.audio_output = most.output;
  if (divided.output == Meter::ImageOutput) billed.image_output = most.output;
  return cost_of(&price, terms, counts, billed).total;
}

/// By these terms. Input and output are charged apart, so that the dearest of each is the dearest of both.
std::optional<NanoUsd> dearest(const Price& price, const Terms& terms, const Expected& most, bool has_media) {
  Divided divided;
  std::optional<NanoUsd> worst = cost_as(price, terms, most, divided);
  const auto try_input = [&](Meter meter) {
    if (!may_be_dearer(price, meter, Meter::Input)) return;
    const auto cost = cost_as(price, terms, most, {.input = meter, .output = Meter::Output});
    if (!cost || (worst && *cost <= *worst)) return;
    worst = cost;
    divided.input = meter;
  };
  std::ranges::for_each(kTextInputs, try_input);
  if (has_media) std::ranges::for_each(kMediaInputs, try_input);
  for (const Meter output : kOutputs) {
    if (!may_be_dearer(price, output, Meter::Output)) continue;
    worst = std::max(worst, cost_as(price, terms, most, {.input = divided.input, .output = output}));
  }
  return worst;
}

/// Of what is no token, at its highest rate; nothing where none of it has one. No tier or multiplier changes it.
std::optional<NanoUsd> cost_of_units(const Price& price, const AskedTerms& asked) {
  Price highest;
  highest.tables.emplace_back();
  Billed units;
  const auto count = [&](Meter meter, std::int64_t quantity, std::int64_t& into) {
    std::optional<PicoUsd> rate;
    for (const RateTable& table : price.tables) rate = std::max(rate, table.rates.at(meter));
    if (!rate || quantity <= 0) return;
    highest.tables[0].rates.set(meter, *rate);
    into = tokens(quantity);
  };
  count(Meter::OutputImage, asked.images, units.output_images);
  count(Meter::WebSearch, asked.web_searches, units.web_searches);
  return cost_of(&highest, {}, std::nullopt, units).total;
}

/// What is rounded once is at most one more than what is rounded twice.
NanoUsd sum(NanoUsd tokens, NanoUsd units) {
  NanoUsd both{std::numeric_limits<std::int64_t>::max()};
  if (__builtin_add_overflow(tokens.value, units.value, &both.value) ||
      __builtin_add_overflow(both.value, 1, &both.value))
    both.value = std::numeric_limits<std::int64_t>::max();
  return both;
}

/// By all terms and at all lengths of prompt that may come of it; `otherwise` for those that have no price.
template <class Otherwise>
NanoUsd dearest(const Price& price, const Expected& most, const AskedTerms& asked, std::string_view region,
                bool has_media, const Otherwise& otherwise) {
  const Modifiers modifiers = modifiers_of(price, asked);
  Terms terms{.modifiers = std::span{modifiers.names}.first(modifiers.count), .region = region};
  NanoUsd worst;
  const auto try_input = [&](std::int64_t input) {
    const auto cost = dearest(price, terms, {input, most.output}, has_media);
    worst = std::max(worst, cost ? *cost : otherwise());
  };
  const auto try_all = [&] {
    try_input(most.input);
    // In a file of somebody's own, prompts just below a threshold may be dearer.
    for (const RateTable& table : price.tables) {
      if (table.over >= 0 && table.over < most.input) try_input(table.over);
    }
  };
  try_all();
  if (const Tier tier = other_tier(asked); tier != Tier::Standard && has_tier(price, tier)) {
    terms.service_tier = name_of(tier);
    try_all();
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

NanoUsd worst_case(const Price* price, const Price& fallback, const Expected& most, const AskedTerms& asked,
                   std::string_view region, bool has_media) {
  const Expected sane{tokens(most.input), tokens(most.output)};
  const auto otherwise = [&] { return dearest(fallback, {}, sane, has_media).value_or(NanoUsd{}); };
  if (!price) return otherwise();
  const NanoUsd of_tokens = dearest(*price, sane, asked, region, has_media, otherwise);
  const std::optional<NanoUsd> of_units = cost_of_units(*price, asked);
  return of_units ? sum(of_tokens, *of_units) : of_tokens;
}

}  // namespace budget
