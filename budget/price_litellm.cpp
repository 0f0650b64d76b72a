// LiteLLM's model_prices_and_context_window.json: one map, a key per model, USD per single unit. Its keys are
// composed
// (`cache_read_input_token_cost_above_200k_tokens_priority`), so they are taken apart instead of listed.

#include <algorithm>
#include <charconv>

#include "budget/price_book.h"
#include "budget/price_read.h"

namespace budget {
namespace {

using Kind = Json::Kind;

struct Key {
  std::string_view name;
  Meter meter;
};
constexpr Key kKeys[] = {
    {"input_cost_per_token", Meter::Input},
    {"cache_read_input_token_cost", Meter::CachedInput},
    {"input_cost_per_token_cache_hit", Meter::CachedInput},  // The older word; see read_rates().
    {"cache_creation_input_token_cost", Meter::CacheWrite},
    {"cache_creation_input_token_cost_above_1hr", Meter::CacheWrite1h},  // A lifetime, no threshold.
    {"output_cost_per_token", Meter::Output},
    {"output_cost_per_reasoning_token", Meter::Reasoning},
    {"input_cost_per_audio_token", Meter::AudioInput},
    {"cache_read_input_audio_token_cost", Meter::CachedAudioInput},
    {"output_cost_per_audio_token", Meter::AudioOutput},
    {"input_cost_per_image_token", Meter::ImageInput},
    {"cache_read_input_image_token_cost", Meter::CachedImageInput},
    {"output_cost_per_image_token", Meter::ImageOutput},
    {"input_cost_per_second", Meter::InputSecond},
    {"output_cost_per_second", Meter::OutputSecond},
    {"input_cost_per_image", Meter::InputImage},
    {"output_cost_per_image", Meter::OutputImage},
    {"input_cost_per_character", Meter::InputCharacter},
    {"output_cost_per_character", Meter::OutputCharacter},
    {"input_cost_per_query", Meter::Query},
    {"input_cost_per_request", Meter::Request},
    {"ocr_cost_per_page", Meter::Page},
};
constexpr std::string_view kOlderCached = "input_cost_per_token_cache_hit";

struct Suffix {
  std::string_view text;
  Tier tier;
};
constexpr Suffix kSuffixes[] = {
    {"_flex", Tier::Flex},
    {"_priority", Tier::Priority},
    {"_batches", Tier::Batch},
};

/// Databricks' own unit, beside the same price in USD.
constexpr std::string_view kInformative[] = {"input_dbu_cost_per_token", "output_dbu_cost_per_token"};

struct Target {
  Meter meter;
  Tier tier = Tier::Standard;
  std::int64_t over = kAnyPrompt;
};

/// Takes `_above_N[k]_tokens` off the end; nothing if it stands there with a number that is none.
std::optional<std::int64_t> take_threshold(std::string_view& key) {
  constexpr std::string_view kAbove = "_above_";
  constexpr std::string_view kTokens = "_tokens";
  const std::size_t at = key.rfind(kAbove);
  if (!key.ends_with(kTokens) || at == std::string_view::npos) return kAnyPrompt;
  std::string_view number = key.substr(at + kAbove.size());
  number.remove_suffix(kTokens.size());
  const bool thousands = number.ends_with('k');
  if (thousands) number.remove_suffix(1);
  std::int64_t limit = 0;
  const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), limit);
  if (failure != std::errc{} || end != number.data() + number.size() || limit < 1 || limit > 1'000'000'000) {
    return std::nullopt;
  }
  key = key.substr(0, at);
  return thousands ? limit * 1000 : limit;
}

std::optional<Target> target_of(std::string_view key) {
  Target target{};
  for (const Suffix& suffix : kSuffixes) {
    if (!key.ends_with(suffix.text)) continue;
    key.remove_suffix(suffix.text.size());
    target.tier = suffix.tier;
    break;
  }
  const std::optional<std::int64_t> over = take_threshold(key);
  const auto* known = std::ranges::find(kKeys, key, &Key::name);
  if (!over || known == std::end(kKeys)) return std::nullopt;
  target.meter = known->meter;
  target.over = *over;
  return target;
}

bool is_price_key(std::string_view key) {
  return key.find("cost") != std::string_view::npos || key.find("pric") != std::string_view::npos;
}

class Entry {
 public:
  Entry(const JsonMember& member, PriceProblems& problems) : member_(member), problems_(problems) {}

  std::optional<Price> read(EntryReading& reading) {
    reading.model = member_.name;
    if (member_.name == "sample_spec") return not_at_all(reading, "the file's own explanation, no model");
    if (member_.value.kind != Kind::Map) return not_at_all(reading, "no map of keys, so no model");
    price_.model = member_.name;
    if (const Json* provider = member_.value.find("litellm_provider"); provider && provider->kind == Kind::String) {
      price_.provider = canonical_provider(provider->text);
    }
    if (const Json* aliases = member_.value.find("aliases"); aliases && aliases->kind == Kind::List) {
      for (const JsonMember& one : aliases->members) {
        if (one.value.kind == Kind::String && !one.value.text.empty()) price_.aliases.push_back(one.value.text);
      }
    }
    read_rates(member_.value, kAnyPrompt);
    if (!refused_.empty()) return not_at_all(reading, refused_);
    std::erase_if(price_.tables, [](const RateTable& table) { return table.rates.empty(); });
    if (price_.tables.empty()) return not_at_all(reading, left_out_.empty() ? "no price in it" : left_out_);
    reading.how = left_out_.empty() ? EntryReading::How::Whole : EntryReading::How::Partly;
    reading.reason = left_out_;
    sort_tables(price_);
    for (const std::string& what : suspicions(price_)) problems_.warning(member_.at, price_.model, what);
    return std::move(price_);
  }

 private:
  static std::nullopt_t not_at_all(EntryReading& reading, std::string_view reason) {
    reading.how = EntryReading::How::NotAtAll;
    reading.reason = reason;
    return std::nullopt;
  }

  void leave_out(const std::string& what) {
    if (left_out_.find(what) == std::string::npos) left_out_ += (left_out_.empty() ? "" : "; ") + what;
  }

  void refuse(const JsonMember& member, const std::string& what) {
    problems_.warning(member.value.at, price_.model + ": " + member.name, what + "; the model is left out");
    if (refused_.empty()) refused_ = member.name + " " + what;
  }

  /// `over`: what the prices of this map begin with; LiteLLM's tiered_pricing has a map for each range.
  void read_rates(const Json& json, std::int64_t over) {
    for (const JsonMember& member : json.members) {
      if (member.value.kind == Kind::Null) continue;  // As if it were not there.
      if (member.name == kOlderCached && json.find("cache_read_input_token_cost")) continue;
      if (const std::optional<Target> target = target_of(member.name)) {
        put(member, *target, over);
      } else if (member.name == "search_context_cost_per_query") {
        read_search(member);
      } else if (member.name == "tiered_pricing") {
        read_ranges(member);
      } else if (member.name == "provider_specific_entry") {
        for (const JsonMember& factor : member.value.members) read_factor(factor, factor.name);
      } else if (constexpr std::string_view kUplift = "regional_processing_uplift_multiplier_";
                 member.name.starts_with(kUplift)) {
        read_factor(member, member.name.substr(kUplift.size()));
      } else if (is_price_key(member.name) &&
                 std::ranges::find(kInformative, member.name) == std::end(kInformative)) {
        leave_out(member.name + " is not charged: nothing here counts it");
      }
    }
  }

  std::optional<PicoUsd> rate_of(const JsonMember& member) {
    const std::optional<Decimal> rate = decimal_of(member.value, 12);
    if (!rate) {
      refuse(member, "is no number of USD, 0 or more");
    } else if (rate->units == 0 && !rate->exact) {
      refuse(member, "is below a millionth of a millionth of a USD, the smallest price here");
    } else if (rate->units > kMostRate) {
      refuse(member, "is more than 1000 USD for one unit");
    } else {
      return PicoUsd{rate->units};
    }
    return std::nullopt;
  }

  void put(const JsonMember& member, const Target& target, std::int64_t over) {
    const std::optional<PicoUsd> rate = rate_of(member);
    if (!rate) return;
    if (target.over != kAnyPrompt) {
      over = price_.provider == "xai" ? target.over - 1 : target.over;  // xAI counts the threshold itself in.
    }
    rates_of(price_, target.tier, over).set(target.meter, *rate);
  }

  void read_search(const JsonMember& member) {
    const Json* medium = member.value.find("search_context_size_medium");
    if (!medium) return leave_out(member.name + " is not charged: it has no search_context_size_medium");
    const std::optional<PicoUsd> rate = rate_of({member.name, medium->at, *medium});
    if (!rate) return;
    rates_of(price_, Tier::Standard, kAnyPrompt).set(Meter::WebSearch, *rate);
    for (const JsonMember& size : member.value.members) {
      const std::optional<Decimal> other = decimal_of(size.value, 12);
      if (other && other->units != rate->value) {
        leave_out("web searches of any context size are charged as medium ones");
      }
    }
  }

  void read_ranges(const JsonMember& member) {
    for (const JsonMember& one : member.value.members) {
      const Json* range = one.value.find("range");
      const bool pair = range && range->kind == Kind::List && range->members.size() == 2;
      const std::optional<Decimal> from = pair ? decimal_of(range->members[0].value, 0) : std::nullopt;
      if (!from || !from->exact) return refuse(member, "needs range: [from, to] in each of its maps");
      read_rates(one.value, from->units == 0 ? kAnyPrompt : from->units);
    }
  }

  void read_factor(const JsonMember& member, std::string_view name) {
    if (member.value.kind != Kind::Number) return;  // Other things that a provider wants to be told.
    const std::optional<Decimal> factor = decimal_of(member.value, 6);
    if (!factor || factor->units == 0 || factor->units > 100'000'000) {
      refuse(member, "is no factor above 0 and up to 100");
    } else {
      price_.factors.push_back({std::string{name}, factor->units});
    }
  }

  const JsonMember& member_;
  PriceProblems& problems_;
  Price price_{};
  std::string left_out_{};
  std::string refused_{};
};

}  // namespace

void read_litellm_prices(const Json& root, PriceFile& file, PriceProblems& problems) {
  for (const JsonMember& member : root.members) {
    EntryReading reading;
    if (auto price = Entry{member, problems}.read(reading)) file.table.prices.push_back(std::move(*price));
    file.readings.push_back(std::move(reading));
  }
  if (file.table.prices.empty()) {
    problems.error(root.at,
                   "",
                   "no model with a price: neither LiteLLM's file nor one of our own, which begins with "
                   "\"callgate_prices\": 1");
  }
}

}  // namespace budget
