#include "budget/price_file.h"

#include <algorithm>
#include <map>
#include <set>

#include "budget/price_book.h"
#include "budget/price_read.h"

namespace budget {
namespace {

using Kind = Json::Kind;

constexpr std::string_view kMark = "callgate_prices";

std::string digest_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a.
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  std::string digest;
  for (int shift = 60; shift >= 0; shift -= 4) digest += "0123456789abcdef"[hash >> shift & 15];
  return digest;
}

std::string is(const Json& json) {
  if (json.kind != Kind::String && json.kind != Kind::Number) return " (is " + std::string{name_of(json.kind)} + ")";
  return " (is " + (json.text.size() <= 40 ? json.text : json.text.substr(0, 40) + "…") + ")";
}

/// Reads one entry of our own format.
class Entry {
 public:
  Entry(const Json& json, PriceProblems& problems) : json_(json), problems_(problems) {}

  std::optional<Price> read(std::string_view path) {
    where_ = path;
    if (!expect(json_, "", Kind::Map, "a map such as {\"model\": \"gpt-5\", \"usd_per_mtok\": {\"input\": 1.25}}")) {
      return std::nullopt;
    }
    Price price;
    const Json* model = json_.find("model");
    if (!model) {
      error(json_.at, "model", "is missing; every entry names its model");
      return std::nullopt;
    }
    if (!text(*model, "model", price.model)) return std::nullopt;
    where_ = price.model;
    for (const JsonMember& member : json_.members) read_member(member, price);
    if (price.tables.empty()) {
      error(json_.at, "", "has no price; it needs usd_per_mtok, usd_per_unit or both (0 is a price: free)");
    }
    if (!price.provider.empty() && canonical_provider(price.provider) != price.provider) {
      error(json_.find("provider")->at,
            "provider",
            "must be written " + std::string{canonical_provider(price.provider)} + " (is " + price.provider + ")");
    }
    if (!well_) return std::nullopt;
    sort_tables(price);
    return price;
  }

 private:
  void error(std::size_t at, const std::string& key, std::string message) {
    well_ = false;
    problems_.error(at, where_ + (key.empty() || where_.empty() ? "" : ": ") + key, std::move(message));
  }

  bool expect(const Json& json, const std::string& key, Kind kind, std::string_view form) {
    if (json.kind == kind) return true;
    error(json.at, key, "must be " + std::string{form} + is(json));
    return false;
  }

  bool text(const Json& json, const std::string& key, std::string& into) {
    if (!expect(json, key, Kind::String, "a text in quotes")) return false;
    if (json.text.empty() || json.text.size() > 200) {
      error(json.at, key, "must have 1 to 200 characters");
      return false;
    }
    into = json.text;
    return true;
  }

  void unknown(const JsonMember& member, const std::string& key, std::string_view known) {
    error(member.at, key, "unknown key; known are " + std::string{known});
  }

  void read_member(const JsonMember& member, Price& price) {
    const std::string& key = member.name;
    const Json& value = member.value;
    if (key == "model") return;
    if (key == "provider") {
      text(value, key, price.provider);
    } else if (key == "aliases") {
      texts(value, key, [&](const std::string& one) { price.aliases.push_back(one); });
    } else if (key == "from") {
      price.from = date(value, key);
    } else if (key == "as_of") {
      if (date(value, key)) price.as_of = value.text;
    } else if (key == "note") {
      text(value, key, price.note);
    } else if (key == "sources") {
      texts(value, key, [&](const std::string& one) { price.sources += (price.sources.empty() ? "" : " ") + one; });
    } else if (key == "usd_per_mtok" || key == "usd_per_unit") {
      rates(value, key, key == "usd_per_mtok", rates_of(price, Tier::Standard, kAnyPrompt));
    } else if (key == "long") {
      longer(value, key, Tier::Standard, price);
    } else if (key == "tiers") {
      tiers(value, price);
    } else if (key == "multipliers") {
      multipliers(value, price);
    } else {
      unknown(member,
              key,
              "model, provider, aliases, from, as_of, note, sources, usd_per_mtok, usd_per_unit, long, tiers "
              "and multipliers");
    }
  }

  std::optional<std::chrono::sys_days> date(const Json& json, const std::string& key) {
    if (!expect(json, key, Kind::String, "a date such as \"2026-09-01\"")) return std::nullopt;
    const std::optional<std::chrono::sys_days> day = price_date(json.text);
    if (!day) error(json.at, key, "must be a date such as \"2026-09-01\"" + is(json));
    return day;
  }

  template <typename Put>
  void texts(const Json& json, const std::string& key, const Put& put) {
    if (!expect(json, key, Kind::List, "a list of texts")) return;
    for (std::size_t i = 0; i < json.members.size(); ++i) {
      std::string one;
      if (text(json.members[i].value, key + "[" + std::to_string(i) + "]", one)) put(one);
    }
  }

  void rates(const Json& json, const std::string& key, bool tokens, Rates& into) {
    if (!expect(json, key, Kind::Map, "a map of prices such as {\"input\": 1.25, \"output\": 10}")) return;
    if (json.members.empty()) error(json.at, key, "is empty; leave it out, or say a price (0 is free)");
    for (const JsonMember& member : json.members) {
      const std::string path = key + "." + member.name;
      const std::optional<Meter> meter = meter_named(member.name);
      if (!meter || is_token(*meter) != tokens) {
        unknown(member, path, names(tokens));
      } else if (const auto rate = amount(member.value, path, tokens ? 6 : 12)) {
        into.set(*meter, {*rate});
      }
    }
  }

  static std::string names(bool tokens) {
    std::string all;
    for (std::size_t i = 0; i < kMeters; ++i) {
      const Meter meter = static_cast<Meter>(i);
      if (is_token(meter) == tokens) all += (all.empty() ? "" : ", ") + std::string{name_of(meter)};
    }
    return all;
  }

  std::optional<std::int64_t> amount(const Json& json, const std::string& key, int digits) {
    const std::optional<Decimal> rate = decimal_of(json, digits);
    if (!rate) {
      error(json.at, key, "must be a number in USD, 0 or more, such as 0.25" + is(json));
    } else if (!rate->exact) {
      error(json.at, key, "must have at most " + std::to_string(digits) + " digits behind the point" + is(json));
    } else if (rate->units > kMostRate) {
      error(json.at, key, "is more than 1000 USD for one unit; is it in another unit?" + is(json));
    } else {
      return rate->units;
    }
    return std::nullopt;
  }

  void longer(const Json& json, const std::string& key, Tier tier, Price& price) {
    if (!expect(json, key, Kind::List, "a list such as [{\"above\": 200000, \"usd_per_mtok\": {…}}]")) return;
    for (std::size_t i = 0; i < json.members.size(); ++i) {
      const Json& one = json.members[i].value;
      const std::string path = key + "[" + std::to_string(i) + "]";
      if (!expect(one, path, Kind::Map, "a map such as {\"above\": 200000, \"usd_per_mtok\": {…}}")) continue;
      const Json* above = one.find("above");
      const Json* at_least = one.find("at_least");
      const Json* tokens = one.find("usd_per_mtok");
      for (const JsonMember& member : one.members) {
        if (member.name != "above" && member.name != "at_least" && member.name != "usd_per_mtok") {
          unknown(member, path + "." + member.name, "above or at_least, and usd_per_mtok");
        }
      }
      if ((above == nullptr) == (at_least == nullptr)) {
        error(one.at, path, "needs either above or at_least, a number of prompt tokens");
        continue;
      }
      if (!tokens) {
        error(one.at, path, "needs usd_per_mtok, the prices of such prompts");
        continue;
      }
      const Json& threshold = above ? *above : *at_least;
      const std::optional<Decimal> limit = decimal_of(threshold, 0);
      if (!limit || !limit->exact || limit->units < 1) {
        error(threshold.at,
              path + (above ? ".above" : ".at_least"),
              "must be a whole number of tokens, 1 or more" + is(threshold));
        continue;
      }
      const std::int64_t over = above ? limit->units : limit->units - 1;
      rates(*tokens, path + ".usd_per_mtok", true, rates_of(price, tier, over));
    }
  }

  void tiers(const Json& json, Price& price) {
    if (!expect(json, "tiers", Kind::Map, "a map such as {\"flex\": 0.5}")) return;
    for (const JsonMember& member : json.members) {
      const std::string path = "tiers." + member.name;
      const std::optional<Tier> tier = tier_named(member.name);
      if (!tier || *tier == Tier::Standard || name_of(*tier) != member.name) {
        unknown(member, path, "flex, priority and batch");
      } else if (member.value.kind == Kind::Map) {
        own_tier(member.value, path, *tier, price);
      } else {
        multiplier(member, path, price);
      }
    }
  }

  void own_tier(const Json& json, const std::string& path, Tier tier, Price& price) {
    for (const JsonMember& member : json.members) {
      if (member.name == "usd_per_mtok") {
        rates(member.value, path + ".usd_per_mtok", true, rates_of(price, tier, kAnyPrompt));
      } else if (member.name == "long") {
        longer(member.value, path + ".long", tier, price);
      } else {
        unknown(member,
                path + "." + member.name,
                "usd_per_mtok and long; or write a factor such as 0.5 instead of the map");
      }
    }
  }

  void multipliers(const Json& json, Price& price) {
    if (!expect(json, "multipliers", Kind::Map, "a map such as {\"us\": 1.1}")) return;
    for (const JsonMember& member : json.members) {
      const std::string path = "multipliers." + member.name;
      const std::optional<Tier> tier = tier_named(member.name);
      if (member.name.empty() || (tier && name_of(*tier) == member.name)) {
        error(member.at, path, "is no modifier; write tiers under tiers");
      } else {
        multiplier(member, path, price);
      }
    }
  }

  void multiplier(const JsonMember& member, const std::string& path, Price& price) {
    const std::optional<Decimal> factor = decimal_of(member.value, 6);
    if (!factor || !factor->exact || factor->units == 0 || factor->units > 100'000'000) {
      error(member.value.at, path, "must be a factor above 0 and up to 100, such as 0.5" + is(member.value));
    } else {
      price.factors.push_back({member.name, factor->units});
    }
  }

  const Json& json_;
  PriceProblems& problems_;
  std::string where_{};
  bool well_ = true;
};

/// Two entries may share a name only if they are one model at different dates.
void refuse_repetitions(const std::vector<std::pair<Price, std::size_t>>& prices, PriceProblems& problems) {
  std::map<std::string_view, std::string_view> owner;
  std::set<std::pair<std::string_view, std::optional<std::chrono::sys_days>>> dated;
  for (const auto& [price, at] : prices) {
    if (!dated.insert({price.model, price.from}).second) {
      problems.error(
          at, price.model, "stands twice with the same date; a model with several prices needs a from for each");
    }
    owner.emplace(price.model, price.model);
  }
  for (const auto& [price, at] : prices) {
    for (const std::string& alias : price.aliases) {
      if (const auto [known, fresh] = owner.emplace(alias, price.model); !fresh && known->second != price.model) {
        problems.error(at, price.model, "its alias " + alias + " belongs to " + std::string{known->second});
      }
    }
  }
}

}  // namespace

std::optional<std::chrono::sys_days> price_date(std::string_view text) {
  const auto digits = [&](std::size_t at, std::size_t count) {
    return std::ranges::all_of(text.substr(at, count), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (text.size() != 10 || text[4] != '-' || text[7] != '-' || !digits(0, 4) || !digits(5, 2) || !digits(8, 2)) {
    return std::nullopt;
  }
  const auto number = [&](std::size_t at, std::size_t count) {
    return std::stoi(std::string{text.substr(at, count)});
  };
  const std::chrono::year_month_day day{std::chrono::year{number(0, 4)},
                                        std::chrono::month{static_cast<unsigned>(number(5, 2))},
                                        std::chrono::day{static_cast<unsigned>(number(8, 2))}};
  if (!day.ok()) return std::nullopt;
  return std::chrono::sys_days{day};
}

std::optional<Decimal> decimal_of(const Json& json, int digits) {
  if (json.kind != Kind::Number && json.kind != Kind::String) return std::nullopt;
  return parse_decimal(json.text, digits);
}

Rates& rates_of(Price& price, Tier tier, std::int64_t over) {
  for (RateTable& table : price.tables) {
    if (table.tier == tier && table.over == over) return table.rates;
  }
  return price.tables.emplace_back(RateTable{tier, over, {}}).rates;
}

void read_own_prices(const Json& root, PriceFile& file, PriceProblems& problems) {
  const Json* mark = root.find(kMark);
  if (mark->kind != Kind::Number || mark->text != "1") {
    problems.error(
        mark->at, std::string{kMark}, "must be 1, the version of the format that is known here" + is(*mark));
  }
  const Json* models = nullptr;
  for (const JsonMember& member : root.members) {
    const Json& value = member.value;
    if (member.name == "models") {
      models = &value;
    } else if (member.name == "version") {
      if (value.kind == Kind::String) {
        file.table.version = value.text;
      } else {
        problems.error(value.at, "version", "must be a text in quotes, such as \"2026-09-01\"" + is(value));
      }
    } else if (member.name != kMark && member.name != "note" && member.name != "sources") {
      problems.error(
          member.at, member.name, "unknown key; known are callgate_prices, version, note, sources and models");
    }
  }
  if (!models || models->kind != Kind::List) {
    problems.error(models ? models->at : root.at,
                   "models",
                   "must be a list of entries" + (models ? is(*models) : std::string{" (is missing)"}));
    return;
  }
  std::vector<std::pair<Price, std::size_t>> prices;
  for (std::size_t i = 0; i < models->members.size(); ++i) {
    const Json& one = models->members[i].value;
    if (auto price = Entry{one, problems}.read("models[" + std::to_string(i) + "]")) {
      prices.emplace_back(std::move(*price), one.at);
    }
  }
  refuse_repetitions(prices, problems);
  for (auto& [price, at] : prices) {
    for (const std::string& what : suspicions(price)) problems.warning(at, price.model, what);
    file.table.prices.push_back(std::move(price));
  }
}

bool PriceFile::usable() const {
  return std::ranges::find(problems, PriceProblem::Severity::Error, &PriceProblem::severity) == problems.end();
}

std::string text_of(const PriceProblem& problem, std::string_view file) {
  const bool error = problem.severity == PriceProblem::Severity::Error;
  return std::string{file} + ":" + std::to_string(problem.line) + ":" + std::to_string(problem.column) +
         (error ? ": error: " : ": warning: ") + problem.path + (problem.path.empty() ? "" : ": ") + problem.message;
}

PriceFile read_price_file(std::string_view text, std::string name) {
  PriceFile file;
  file.table.name = std::move(name);
  file.table.digest = digest_of(text);
  PriceProblems problems{text};
  auto document = read_json(text);
  if (!document) {
    problems.error(document.error().at, "", std::move(document.error().message));
  } else if (document->root.kind != Kind::Map) {
    problems.error(
        document->root.at, "", "must be a map: {\"callgate_prices\": 1, \"models\": [ … ]}, or LiteLLM's file");
  } else {
    const bool own = document->root.find(kMark) != nullptr;
    file.table.format = own ? PriceFormat::Own : PriceFormat::LiteLlm;
    for (JsonError& repeated : document->repeated) {
      if (own) {
        problems.error(repeated.at, std::move(repeated.message), "stands twice in its map");
      } else {
        problems.warning(repeated.at, std::move(repeated.message), "stands twice in its map; the last one counts");
      }
    }
    (own ? read_own_prices : read_litellm_prices)(document->root, file, problems);
  }
  file.problems = problems.take();
  std::ranges::stable_sort(file.problems, {}, [](const PriceProblem& one) {
    return std::pair{one.line, one.column};
  });
  if (!file.usable()) file.table.prices.clear();
  return file;
}

}  // namespace budget
