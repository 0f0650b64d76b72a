// What looks wrong about a price although it can be read.

#include <algorithm>

#include "budget/price_file.h"

namespace budget {
namespace {

__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): this form is let pass by -Wpedantic.

struct Bound {
  Tier tier;
  std::int64_t least_percent;  // Of the plain price; none that is published lies outside.
  std::int64_t most_percent;
};
constexpr Bound kTierBounds[] = {
    {Tier::Flex, 10, 100},
    {Tier::Priority, 100, 400},
    {Tier::Batch, 10, 100},
};

struct Pair {
  Meter meter;
  Meter beside;
  std::int64_t least_percent;
  std::int64_t most_percent;
};
constexpr Pair kPairs[] = {
    {Meter::CachedInput, Meter::Input, 0, 100},
    {Meter::CacheWrite, Meter::Input, 0, 300},
    {Meter::CacheWrite1h, Meter::CacheWrite, 100, 400},
    {Meter::CachedAudioInput, Meter::AudioInput, 0, 100},
    {Meter::CachedImageInput, Meter::ImageInput, 0, 100},
    {Meter::Output, Meter::Input, 0, 5000},
};
constexpr std::int64_t kMostPerToken = 2'000'000'000;  // 2000 USD per million tokens.

std::string times_text(PicoUsd rate, PicoUsd beside) {
  const auto hundredths = static_cast<std::int64_t>(static_cast<Wide>(rate.value) * 100 / beside.value);
  std::string text = std::to_string(hundredths % 100 + 100).substr(1);
  return std::to_string(hundredths / 100) + "." + text;
}

std::string words(Meter meter, Tier tier, std::int64_t over) {
  std::string text = tier == Tier::Standard ? "" : std::string{name_of(tier)} + " ";
  text += name_of(meter);
  if (over != kAnyPrompt) text += " above " + std::to_string(over) + " tokens";
  return text;
}

bool outside(PicoUsd rate, PicoUsd beside, std::int64_t least_percent, std::int64_t most_percent) {
  const Wide hundredfold = static_cast<Wide>(rate.value) * 100;
  return hundredfold < static_cast<Wide>(beside.value) * least_percent ||
         hundredfold > static_cast<Wide>(beside.value) * most_percent;
}

const Rates* rates_at(const Price& price, Tier tier, std::int64_t over) {
  for (const RateTable& table : price.tables) {
    if (table.tier == tier && table.over == over) return &table.rates;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> suspicions(const Price& price) {
  std::vector<std::string> found;
  const auto compare = [&](const std::string& what,
                           PicoUsd rate,
                           const std::string& other,
                           PicoUsd beside,
                           std::int64_t least,
                           std::int64_t most) {
    if (!outside(rate, beside, least, most)) return;
    found.push_back(what + (beside.value == 0 ? " has a price where " + other + " is free"
                                              : " is " + times_text(rate, beside) + " times " + other));
  };
  for (const RateTable& table : price.tables) {
    const Rates* plain = rates_at(price, Tier::Standard, table.over);
    const Rates* shorter = rates_at(price, table.tier, kAnyPrompt);
    for (std::size_t i = 0; i < kMeters; ++i) {
      const Meter meter = static_cast<Meter>(i);
      const std::optional<PicoUsd> rate = table.rates.at(meter);
      if (!rate) continue;
      const std::string what = words(meter, table.tier, table.over);
      if (is_token(meter) && rate->value > kMostPerToken) {
        found.push_back(what + " is more than 2000 USD per million tokens");
      }
      for (const Bound& bound : kTierBounds) {
        if (bound.tier != table.tier || !plain || !plain->at(meter)) continue;
        compare(what,
                *rate,
                words(meter, Tier::Standard, table.over),
                *plain->at(meter),
                bound.least_percent,
                bound.most_percent);
      }
      if (table.over != kAnyPrompt && shorter && shorter->at(meter)) {
        compare(what, *rate, words(meter, table.tier, kAnyPrompt), *shorter->at(meter), 100, 1000);
      }
      for (const Pair& pair : kPairs) {
        if (pair.meter != meter || !table.rates.at(pair.beside)) continue;
        // What is charged per query or image often has a zero for its tokens.
        if (pair.meter == Meter::Output && table.rates.at(pair.beside)->value == 0) continue;
        compare(what,
                *rate,
                words(pair.beside, table.tier, table.over),
                *table.rates.at(pair.beside),
                pair.least_percent,
                pair.most_percent);
      }
    }
  }
  return found;
}

}  // namespace budget
