#include "budget/price.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <tuple>

namespace budget {
namespace {

// In 10^-18 USD: a rate times a count times millionths. Only this form of the extension is let pass by -Wpedantic.
__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using)

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr Wide kMostWide = (((static_cast<Wide>(1) << 126) - 1) << 1) + 1;
constexpr std::int64_t kOne = 1'000'000;  // A factor of 1, in millionths.

constexpr std::string_view kMeterNames[kMeters] = {
    "input",
    "cached_input",
    "cache_write",
    "cache_write_1h",
    "output",
    "reasoning",
    "audio_input",
    "cached_audio_input",
    "audio_output",
    "image_input",
    "cached_image_input",
    "image_output",
    "input_second",
    "output_second",
    "input_image",
    "output_image",
    "input_character",
    "output_character",
    "query",
    "request",
    "page",
    "web_search",
};

struct Chain {
  Meter meter;
  std::array<Meter, 4> asked;  // Whose price is taken, first that has one; the last repeats.
};
// Missing is not zero: what has no price of its own costs as much as what it is a kind of. A cached audio token of a
// model with an audio price but none for cached audio costs like fresh audio: rather too much than too little.
using enum Meter;
constexpr Chain kChains[] = {
    {CachedInput, {CachedInput, Input, Input, Input}},
    {CacheWrite, {CacheWrite, Input, Input, Input}},
    {CacheWrite1h, {CacheWrite1h, CacheWrite, Input, Input}},
    {Reasoning, {Reasoning, Output, Output, Output}},
    {AudioInput, {AudioInput, Input, Input, Input}},
    {ImageInput, {ImageInput, Input, Input, Input}},
    {AudioOutput, {AudioOutput, Output, Output, Output}},
    {ImageOutput, {ImageOutput, Output, Output, Output}},
    {CachedAudioInput, {CachedAudioInput, AudioInput, CachedInput, Input}},
    {CachedImageInput, {CachedImageInput, ImageInput, CachedInput, Input}},
};

std::array<Meter, 4> chain_of(Meter meter) {
  const auto* found = std::ranges::find(kChains, meter, &Chain::meter);
  return found == std::end(kChains) ? std::array{meter, meter, meter, meter} : found->asked;
}

struct TierWord {
  std::string_view word;
  Tier tier;
};
constexpr TierWord kTierWords[] = {
    {"", Tier::Standard},
    {"standard", Tier::Standard},
    {"default", Tier::Standard},
    {"standard_only", Tier::Standard},  // Anthropic's request word; the next four are Google's.
    {"service_tier_unspecified", Tier::Standard},
    {"service_tier_standard", Tier::Standard},
    {"service_tier_flex", Tier::Flex},
    {"service_tier_priority", Tier::Priority},
    {"auto", Tier::Standard},
    {"on_demand", Tier::Standard},  // Groq, Vertex.
    {"flex", Tier::Flex},
    {"on_demand_flex", Tier::Flex},
    {"priority", Tier::Priority},
    {"on_demand_priority", Tier::Priority},
    {"fast", Tier::Priority},  // OpenAI's request word for it.
    {"batch", Tier::Batch},
};
constexpr std::string_view kTierNames[] = {"standard", "flex", "priority", "batch"};

constexpr std::string_view kPlainModifiers[] = {"", "standard", "default", "global", "not_available"};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lowered(std::string_view text) {
  std::string out{text};
  std::ranges::transform(out, out.begin(), lower);
  return out;
}

/// It says that nothing changes the price.
bool is_plain_modifier(std::string_view word) {
  return std::ranges::find(kPlainModifiers, lowered(word)) != std::end(kPlainModifiers);
}

std::int64_t at_least_zero(std::int64_t count) { return std::max<std::int64_t>(count, 0); }

std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMost : sum;
}

Wide plus_wide(Wide a, Wide b) {
  Wide sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMostWide : sum;
}

Wide times(Wide a, Wide b) {
  Wide product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMostWide : product;
}

NanoUsd rounded(Wide amount) {
  constexpr Wide kNano = 1'000'000'000;
  const Wide nano = plus_wide(amount, kNano / 2) / kNano;
  return {nano > kMost ? kMost : static_cast<std::int64_t>(nano)};
}

using Quantities = std::array<std::int64_t, kMeters>;

/// What is left of `whole` after `used`, at most `wanted`.
std::int64_t take(std::int64_t whole, std::int64_t& used, std::int64_t wanted) {
  const std::int64_t taken = std::clamp<std::int64_t>(wanted, 0, at_least_zero(whole - used));
  used = plus(used, taken);
  return taken;
}

void count_tokens(const classifier::TokenCounts& tokens, const Billed& billed, Quantities& of) {
  const auto at = [&](Meter meter) -> std::int64_t& { return of[static_cast<std::size_t>(meter)]; };
  // Cached and written tokens are charged as reported, even if a provider reports more of them than of input: the
  // rest is then none.
  const std::int64_t cached = at_least_zero(tokens.cached_input);
  std::int64_t used_cached = 0;
  at(CachedAudioInput) = take(cached, used_cached, billed.cached_audio_input);
  at(CachedImageInput) = take(cached, used_cached, billed.cached_image_input);
  at(CachedInput) = cached - used_cached;
  at(CacheWrite) = at_least_zero(tokens.cache_write_5m);
  at(CacheWrite1h) = at_least_zero(tokens.cache_write_1h);
  const std::int64_t input = at_least_zero(tokens.input);
  std::int64_t used = plus(plus(cached, at(CacheWrite)), at(CacheWrite1h));
  at(AudioInput) = take(input, used, at_least_zero(billed.audio_input) - at(CachedAudioInput));
  at(ImageInput) = take(input, used, at_least_zero(billed.image_input) - at(CachedImageInput));
  at(Input) = at_least_zero(input - used);

  const std::int64_t output = at_least_zero(tokens.output);
  at(Reasoning) = at_least_zero(tokens.reasoning);
  std::int64_t made = at(Reasoning);
  at(AudioOutput) = take(output, made, billed.audio_output);
  at(ImageOutput) = take(output, made, billed.image_output);
  at(Output) = at_least_zero(output - made);
}

void count_units(const Billed& billed, Quantities& of) {
  const std::tuple<Meter, std::int64_t> kUnits[] = {
      {InputSecond, billed.input_ms},
      {OutputSecond, billed.output_ms},
      {InputImage, billed.input_images},
      {OutputImage, billed.output_images},
      {InputCharacter, billed.input_characters},
      {OutputCharacter, billed.output_characters},
      {Query, billed.queries},
      {Page, billed.pages},
      {WebSearch, billed.web_searches},
  };
  for (const auto& [meter, count] : kUnits) of[static_cast<std::size_t>(meter)] = at_least_zero(count);
  std::int64_t& images = of[static_cast<std::size_t>(ImageInput)];
  images = plus(images, at_least_zero(billed.image_input_apart));
}

bool is_per_second(Meter meter) { return meter == InputSecond || meter == OutputSecond; }

const Factor* factor_named(const Price& price, std::string_view name) {
  const auto found = std::ranges::find(price.factors, name, &Factor::name);
  return found == price.factors.end() ? nullptr : &*found;
}

std::int64_t combined(std::int64_t a, std::int64_t b) {
  const Wide product = (static_cast<Wide>(a) * b + kOne / 2) / kOne;
  return product > kMost ? kMost : static_cast<std::int64_t>(product);
}

/// The first table that knows the meter or what it falls back to; tables are in the order of sort_tables().
void find_rate(const Price& price, Tier tier, std::int64_t prompt, Charge& charge) {
  for (const Meter meter : chain_of(charge.meter)) {
    for (const RateTable& table : price.tables) {
      if (table.over >= prompt || (table.tier != tier && table.tier != Tier::Standard)) continue;
      const std::optional<PicoUsd> rate = table.rates.at(meter);
      if (!rate) continue;
      charge.priced_as = meter;
      charge.rate = rate;
      charge.over = table.over;
      charge.tiered = table.tier == tier;
      return;
    }
  }
}

}  // namespace

std::string_view name_of(Meter meter) { return kMeterNames[static_cast<std::size_t>(meter)]; }

std::optional<Meter> meter_named(std::string_view name) {
  const auto* found = std::ranges::find(kMeterNames, name);
  if (found == std::end(kMeterNames)) return std::nullopt;
  return static_cast<Meter>(found - std::begin(kMeterNames));
}

std::string_view name_of(Tier tier) { return kTierNames[static_cast<std::size_t>(tier)]; }

std::optional<Tier> tier_named(std::string_view word) {
  const auto* found = std::ranges::find(kTierWords, lowered(word), &TierWord::word);
  if (found == std::end(kTierWords)) return std::nullopt;
  return found->tier;
}

std::string_view name_of(Unpriced why) {
  constexpr std::string_view kNames[] = {"", "no_usage", "no_model", "no_rate"};
  return kNames[static_cast<std::size_t>(why)];
}

std::string_view name_of(Cost::Part part) {
  constexpr std::string_view kNames[Cost::kParts] = {"input", "cached", "write", "output", "reasoning", "other"};
  return kNames[part];
}

Cost::Part part_of(Meter meter) {
  switch (meter) {
    case Input:
    case AudioInput:
    case ImageInput:
      return Cost::Input;
    case CachedInput:
    case CachedAudioInput:
    case CachedImageInput:
      return Cost::Cached;
    case CacheWrite:
    case CacheWrite1h:
      return Cost::Write;
    case Output:
    case AudioOutput:
    case ImageOutput:
      return Cost::Output;
    case Reasoning:
      return Cost::Reasoning;
    default:
      return Cost::Other;
  }
}

std::optional<PicoUsd> Rates::at(Meter meter) const {
  const auto found = std::ranges::find(rates_, meter, &Rate::meter);
  if (found == rates_.end()) return std::nullopt;
  return found->rate;
}

void Rates::set(Meter meter, PicoUsd rate) {
  assert(rate.value >= 0);
  const auto place = std::ranges::lower_bound(rates_, meter, {}, &Rate::meter);
  if (place != rates_.end() && place->meter == meter) {
    place->rate = rate;
  } else {
    rates_.insert(place, {meter, rate});
  }
}

void sort_tables(Price& price) {
  std::ranges::sort(price.tables, [](const RateTable& a, const RateTable& b) {
    return std::tuple{-a.over, a.tier == Tier::Standard, a.tier} <
           std::tuple{-b.over, b.tier == Tier::Standard, b.tier};
  });
}

Price flat_price(PicoUsd input, PicoUsd output) {
  Price price;
  price.tables.emplace_back();
  price.tables[0].rates.set(Meter::Input, input);
  price.tables[0].rates.set(Meter::Output, output);
  return price;
}

Cost cost_of(const Price* price, const Terms& terms, const std::optional<classifier::TokenCounts>& tokens,
             const Billed& billed) {
  Cost cost;
  const std::optional<Tier> tier = tier_named(terms.service_tier);
  cost.tier = tier.value_or(Tier::Standard);
  if (terms.stated && terms.stated->value >= 0) {
    cost.stated = true;
    cost.total = terms.stated;
    return cost;
  }
  Quantities of{};
  if (tokens) count_tokens(*tokens, billed, of);
  count_units(billed, of);
  if (!tokens && std::ranges::all_of(of, [](std::int64_t count) { return count == 0; })) {
    cost.unpriced = Unpriced::NoUsage;
    return cost;
  }
  if (!price) {
    cost.unpriced = Unpriced::NoModel;
    return cost;
  }

  std::int64_t prompt = 0;  // All of it decides on the threshold, whatever kind its tokens are.
  for (const Meter meter :
       {Input, CachedInput, CacheWrite, CacheWrite1h, AudioInput, CachedAudioInput, ImageInput, CachedImageInput}) {
    prompt = plus(prompt, of[static_cast<std::size_t>(meter)]);
  }
  for (const RateTable& table : price->tables) {
    if (table.over < prompt && (table.tier == cost.tier || table.tier == Tier::Standard)) {
      cost.over = std::max(cost.over, table.over);
    }
  }
  const bool has_table = std::ranges::find(price->tables, cost.tier, &RateTable::tier) != price->tables.end();
  const Factor* tier_factor = has_table ? nullptr : factor_named(*price, name_of(cost.tier));
  cost.plain_for_tier = !tier;
  std::int64_t factor = tier_factor ? tier_factor->millionths : kOne;
  for (const std::string_view modifier : terms.modifiers) {
    const Factor* one = factor_named(*price, modifier);
    if (one) factor = combined(factor, one->millionths);
    if (!one && !is_plain_modifier(modifier)) cost.plain_for_tier = true;
  }
  // What says the same twice counts once.
  const bool said = std::ranges::find(terms.modifiers, terms.region) != terms.modifiers.end();
  if (const Factor* one = said ? nullptr : factor_named(*price, terms.region)) {
    factor = combined(factor, one->millionths);
  }

  // A fee for each request is charged where a model has one.
  for (const RateTable& table : price->tables) {
    if (table.rates.at(Request)) of[static_cast<std::size_t>(Request)] = 1;
  }
  Wide total = 0;
  std::array<Wide, Cost::kParts> parts{};
  for (std::size_t i = 0; i < kMeters; ++i) {
    if (of[i] == 0) continue;
    Charge charge{.meter = static_cast<Meter>(i), .priced_as = static_cast<Meter>(i), .quantity = of[i]};
    find_rate(*price, cost.tier, prompt, charge);
    if (!charge.rate) {
      cost.unpriced = Unpriced::NoRate;
      cost.charges.push_back(charge);
      continue;
    }
    if (is_token(charge.meter)) {
      charge.millionths = factor;
      charge.tiered = charge.tiered || tier_factor;
      if (!charge.tiered) cost.plain_for_tier = true;
    }
    Wide amount = times(static_cast<Wide>(charge.quantity) * charge.rate->value, charge.millionths);
    if (is_per_second(charge.meter)) amount /= 1000;
    charge.amount = rounded(amount);
    total = plus_wide(total, amount);
    Wide& part = parts[part_of(charge.meter)];
    part = plus_wide(part, amount);
    cost.charges.push_back(charge);
  }
  for (std::size_t i = 0; i < Cost::kParts; ++i) cost.parts[i] = rounded(parts[i]);
  if (cost.unpriced == Unpriced::No) cost.total = rounded(total);
  return cost;
}

}  // namespace budget
