#pragma once
// What does a call cost? Rates are whole pico-dollars, a cost is whole nano-dollars, rounded once; nothing here is a
// fraction, nothing overflows, and what has no price is unknown, never zero.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "budget/units.h"
#include "classifier/usage.h"

namespace budget {

/// Integer pico-dollars, for one unit: 1 USD = 1'000'000'000'000; 5 USD per million tokens = 5'000'000 per token.
struct PicoUsd {
  std::int64_t value = 0;
  auto operator<=>(const PicoUsd&) const = default;
};

/// What is counted, each with a price of its own. No token is counted by two of them.
enum class Meter : std::uint8_t {
  Input,  // Text neither read from a cache nor written to one.
  CachedInput,
  CacheWrite,
  CacheWrite1h,
  Output,  // Text that is not reasoning.
  Reasoning,
  AudioInput,
  CachedAudioInput,
  AudioOutput,
  ImageInput,
  CachedImageInput,
  ImageOutput,
  InputSecond,  // Up to here tokens, from here other units.
  OutputSecond,
  InputImage,
  OutputImage,
  InputCharacter,
  OutputCharacter,
  Query,
  Request,
  Page,
  WebSearch,
};
inline constexpr std::size_t kMeters = 22;
[[nodiscard]] std::string_view name_of(Meter meter);  // "input", "cached_input", … as in price files.
[[nodiscard]] std::optional<Meter> meter_named(std::string_view name);
[[nodiscard]] constexpr bool is_token(Meter meter) { return meter < Meter::InputSecond; }

enum class Tier : std::uint8_t { Standard, Flex, Priority, Batch };
[[nodiscard]] std::string_view name_of(Tier tier);  // "standard", …
/// From an answer's word ("default", "on_demand", "ON_DEMAND_FLEX", "fast", …; none: standard), in any case.
[[nodiscard]] std::optional<Tier> tier_named(std::string_view word);

/// Prices of some meters. One that is missing is not zero.
class Rates {
 public:
  [[nodiscard]] std::optional<PicoUsd> at(Meter meter) const;
  void set(Meter meter, PicoUsd rate);  // Never negative.
  [[nodiscard]] bool empty() const { return rates_.empty(); }
  bool operator==(const Rates&) const = default;

 private:
  struct Rate {
    Meter meter;
    PicoUsd rate;
    bool operator==(const Rate&) const = default;
  };
  std::vector<Rate> rates_{};  // Most models have four of the many.
};

inline constexpr std::int64_t kAnyPrompt = -1;

/// The rates of one tier for prompts of more than `over` tokens, cached ones included. Such a prompt is charged by
/// them as a whole, output too; what they lack is taken from the plain tier, then from shorter prompts.
struct RateTable {
  Tier tier = Tier::Standard;
  std::int64_t over = kAnyPrompt;
  Rates rates{};
  bool operator==(const RateTable&) const = default;
};

/// Multiplies all token prices, where the answer says so: a tier without a table ("flex"), "us", "fast".
struct Factor {
  std::string name{};
  std::int64_t millionths = 1'000'000;  // 1.1 = 1'100'000
  bool operator==(const Factor&) const = default;
};

/// What a model costs, from a day on.
struct Price {
  std::string model{};     // The name under which it was written, "groq/…" included.
  std::string provider{};  // "openai", "groq", "bedrock", …; empty: not told.
  std::vector<std::string> aliases{};
  std::optional<std::chrono::sys_days> from{};  // Nothing: always.
  std::vector<RateTable> tables{};              // In any order; see sort_tables().
  std::vector<Factor> factors{};
  std::string sources{};  // Where the figures come from, for people.
  std::string as_of{};
  std::string note{};
};
/// Puts the tables into the order in which cost_of() asks them; whoever makes a Price calls it once.
void sort_tables(Price& price);

/// A model without a price of its own, at what the operator says.
[[nodiscard]] Price flat_price(PicoUsd input, PicoUsd output);

using classifier::Billed;

/// Under which terms the answer says that it was made.
struct Terms {
  std::string_view service_tier{};                // As named in the answer, else empty.
  std::span<const std::string_view> modifiers{};  // As named in the answer: "us" (inference_geo), "fast" (speed).
  std::string_view
      region{};  // Where it was made, by URL or model's name; counts where the price has a factor for it.
  /// The provider's own word on what it cost (OpenRouter's usage.cost); it beats every table.
  std::optional<NanoUsd> stated{};
};

/// One product of the sum.
struct Charge {
  Meter meter{};
  Meter priced_as{};                    // Another meter where its own has no price.
  std::int64_t quantity = 0;            // Milliseconds where the rate is per second.
  std::optional<PicoUsd> rate{};        // Nothing: no price at all.
  std::int64_t over = kAnyPrompt;       // Of the table that had it.
  bool tiered = false;                  // By the answer's tier, table or factor; false: plain price.
  std::int64_t millionths = 1'000'000;  // All factors together.
  NanoUsd amount{};                     // Rounded by itself, so the sum of these may differ from the total.
};

enum class Unpriced : std::uint8_t { No, NoUsage, NoModel, NoRate };
[[nodiscard]] std::string_view name_of(Unpriced why);  // "no_usage", "no_model", "no_rate"; "" if priced.

struct Cost {
  /// Nothing: unknown, `unpriced` says why. It is never zero for want of a price.
  std::optional<NanoUsd> total{};
  Unpriced unpriced = Unpriced::No;
  bool stated = false;  // By the provider; then there are no charges.
  Tier tier = Tier::Standard;
  /// The answer names a tier that we do not know, or for which this model or one of its used meters has no price of
  /// its own, or a modifier for which it has no factor: the plain price was taken.
  bool plain_for_tier = false;
  std::int64_t over = kAnyPrompt;  // The threshold that the prompt passed.
  std::vector<Charge> charges{};   // What was used, priced or not; nothing of quantity 0.

  enum Part : std::uint8_t { Input, Cached, Write, Output, Reasoning, Other };
  static constexpr std::size_t kParts = 6;
  std::array<NanoUsd, kParts> parts{};  // Each rounded by itself, of what has a price.
};
[[nodiscard]] std::string_view name_of(Cost::Part part);
[[nodiscard]] Cost::Part part_of(Meter meter);

/// `price` null: the model was not found. `tokens` nothing: the provider reported none; other quantities may still
/// be priced. Negative counts are taken as none, sums end at the largest number instead of overflowing.
[[nodiscard]] Cost cost_of(const Price* price, const Terms& terms,
                           const std::optional<classifier::TokenCounts>& tokens, const Billed& billed = {});

/// Exactly what the decimal text says ("0.025115", "2.8e-09"), in units of 10^-digits, rounded half up where it says
/// more. Nothing if it is no number, negative, or beyond 64 bits.
struct Decimal {
  std::int64_t units = 0;
  bool exact = true;  // Nothing was rounded off.
};
[[nodiscard]] std::optional<Decimal> parse_decimal(std::string_view text, int digits);
/// A cost that the provider states in USD.
[[nodiscard]] std::optional<NanoUsd> parse_usd(std::string_view text);
/// As dollars, without needless zeros: "0.025115".
[[nodiscard]] std::string usd_text(NanoUsd amount);
[[nodiscard]] std::string usd_text(PicoUsd amount);

}  // namespace budget
