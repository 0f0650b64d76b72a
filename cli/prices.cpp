#include "cli/prices.h"

#include <algorithm>
#include <chrono>
#include <expected>
#include <fstream>
#include <istream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "budget/price_book.h"
#include "budget/price_file.h"
#include "budget/price_json.h"
#include "cli/table.h"
#include "gateway/config_values.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using budget::Billed;
using budget::Charge;
using budget::Cost;
using budget::Meter;
using budget::Price;
using budget::PriceFile;
using budget::PriceProblem;
using budget::PriceTable;
using budget::Rates;
using budget::RateTable;
using budget::Tier;
using classifier::TokenCounts;
using Days = std::chrono::sys_days;

std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string date_text(Days day) {
  const std::chrono::year_month_day date{day};
  const auto two = [](unsigned number) { return (number < 10 ? "0" : "") + std::to_string(number); };
  return std::to_string(static_cast<int>(date.year())) + "-" + two(static_cast<unsigned>(date.month())) + "-" +
         two(static_cast<unsigned>(date.day()));
}

/// Per million tokens, exactly.
std::string per_mtok(budget::PicoUsd rate) { return budget::usd_text(budget::NanoUsd{rate.value * 1000}); }

std::string rate_text(Meter meter, budget::PicoUsd rate) {
  return budget::is_token(meter) ? per_mtok(rate) + " USD/Mtok" : budget::usd_text(rate) + " USD";
}

std::string factor_text(std::int64_t millionths) { return budget::usd_text(budget::PicoUsd{millionths * 1'000'000}); }

std::string table_text(const PriceTable& table) {
  return table.name + (table.version.empty() ? "" : " " + table.version) + " #" + table.digest;
}

/// As much of it as may be read and some bytes more, so that the reader can say that it is too large.
std::string text_of(std::istream& in) {
  std::string text;
  std::string piece(1 << 16, '\0');
  while (text.size() <= budget::kMostJsonBytes && in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece, 0, static_cast<std::size_t>(in.gcount()));
  }
  return text;
}

/// Nothing if it cannot be read.
std::optional<std::string> text_of_file(const std::string& file, Terminal& terminal) {
  if (file == "-") return text_of(terminal.in);
  std::ifstream in{file, std::ios::binary};
  if (!in) return std::nullopt;
  std::string text = text_of(in);
  if (in.bad()) return std::nullopt;  // A folder opens, too.
  return text;
}

PriceFile unreadable(const std::string& file) {
  PriceFile none;
  none.table.name = file;
  none.problems.push_back({PriceProblem::Severity::Error, 1, 1, {}, "cannot be read; is it there, and a file?"});
  return none;
}

PriceFile read_file(const std::string& file, Terminal& terminal) {
  const std::string name = file == "-" ? "<stdin>" : file;
  const std::optional<std::string> text = text_of_file(file, terminal);
  return text ? budget::read_price_file(*text, name) : unreadable(name);
}

void print_problem(const PriceProblem& problem, const std::string& file, std::ostream& out, bool colour) {
  const bool error = problem.severity == PriceProblem::Severity::Error;
  std::string text = budget::text_of(problem, file);
  const std::string word = error ? "error:" : "warning:";
  const std::size_t at = text.find(word, file.size());
  if (at != std::string::npos) text.replace(at, word.size(), toned(word, error ? Tone::Red : Tone::Yellow, colour));
  out << text << '\n';
}

Json json_of(const Rates& rates) {
  Json json = Json::object();
  for (std::size_t i = 0; i < budget::kMeters; ++i) {
    const Meter meter = static_cast<Meter>(i);
    if (const auto rate = rates.at(meter)) json[std::string{name_of(meter)}] = budget::usd_text(*rate);
  }
  return json;
}

Json json_of(const Price& price, const PriceTable& table) {
  Json rates = Json::array();
  for (const RateTable& one : price.tables) {
    Json json{{"tier", name_of(one.tier)}};
    if (one.over != budget::kAnyPrompt) json["above_prompt_tokens"] = one.over;
    json["usd"] = json_of(one.rates);
    rates.push_back(std::move(json));
  }
  Json factors = Json::object();
  for (const budget::Factor& factor : price.factors) factors[factor.name] = factor_text(factor.millionths);
  Json json{{"model", price.model}, {"provider", price.provider}, {"aliases", price.aliases}};
  if (price.from) json["from"] = date_text(*price.from);
  json["rates"] = std::move(rates);
  json["multipliers"] = std::move(factors);
  json["sources"] = price.sources;
  json["as_of"] = price.as_of;
  json["note"] = price.note;
  json["table"] = {{"name", table.name}, {"version", table.version}, {"digest", table.digest}};
  return json;
}

const Rates* plain_rates(const Price& price) {
  for (const RateTable& table : price.tables) {
    if (table.tier == Tier::Standard && table.over == budget::kAnyPrompt) return &table.rates;
  }
  return nullptr;
}

std::vector<std::string> row_of(const Price& price) {
  const auto cell = [&](Meter meter) {
    const Rates* rates = plain_rates(price);
    const auto rate = rates ? rates->at(meter) : std::nullopt;
    return rate ? per_mtok(*rate) : std::string{"–"};
  };
  std::string more;
  const auto add = [&](const std::string& what) { more += (more.empty() ? "" : ", ") + what; };
  if (price.from) add("from " + date_text(*price.from));
  for (const RateTable& table : price.tables) {
    if (table.tier == Tier::Standard && table.over != budget::kAnyPrompt) add("above " + std::to_string(table.over));
    if (table.tier != Tier::Standard && table.over == budget::kAnyPrompt) add(std::string{name_of(table.tier)});
  }
  for (const budget::Factor& factor : price.factors) add(factor.name + " ×" + factor_text(factor.millionths));
  if (const Rates* rates = plain_rates(price)) {
    for (std::size_t i = 0; i < budget::kMeters; ++i) {
      const Meter meter = static_cast<Meter>(i);
      const bool shown = meter == Meter::Input || meter == Meter::CachedInput || meter == Meter::CacheWrite ||
                         meter == Meter::Output;
      if (const auto rate = rates->at(meter); rate && !shown) {
        add(std::string{name_of(meter)} + " " +
            (budget::is_token(meter) ? per_mtok(*rate) : budget::usd_text(*rate)));
      }
    }
  }
  return {price.model,
          price.provider,
          cell(Meter::Input),
          cell(Meter::CachedInput),
          cell(Meter::CacheWrite),
          cell(Meter::Output),
          more};
}

struct Counter {
  std::string_view name;
  std::int64_t TokenCounts::*tokens = nullptr;
  std::int64_t Billed::*billed = nullptr;
};
constexpr Counter kCounters[] = {
    {"input", &TokenCounts::input},
    {"cached", &TokenCounts::cached_input},
    {"write", &TokenCounts::cache_write_5m},
    {"write_1h", &TokenCounts::cache_write_1h},
    {"output", &TokenCounts::output},
    {"reasoning", &TokenCounts::reasoning},
    {"audio_input", nullptr, &Billed::audio_input},
    {"cached_audio_input", nullptr, &Billed::cached_audio_input},
    {"image_input", nullptr, &Billed::image_input},
    {"cached_image_input", nullptr, &Billed::cached_image_input},
    {"image_input_apart", nullptr, &Billed::image_input_apart},
    {"audio_output", nullptr, &Billed::audio_output},
    {"image_output", nullptr, &Billed::image_output},
    {"input_ms", nullptr, &Billed::input_ms},
    {"output_ms", nullptr, &Billed::output_ms},
    {"input_images", nullptr, &Billed::input_images},
    {"output_images", nullptr, &Billed::output_images},
    {"input_characters", nullptr, &Billed::input_characters},
    {"output_characters", nullptr, &Billed::output_characters},
    {"queries", nullptr, &Billed::queries},
    {"pages", nullptr, &Billed::pages},
    {"web_searches", nullptr, &Billed::web_searches},
};

struct UsedUp {
  std::optional<TokenCounts> tokens{};
  Billed billed{};
};

std::expected<UsedUp, std::string> usage_of(const std::string& text) {
  UsedUp used;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    const auto* counter = std::ranges::find(kCounters, name, &Counter::name);
    if (counter == std::end(kCounters)) {
      std::vector<std::string> names;
      for (const Counter& known : kCounters) names.emplace_back(known.name);
      const std::string meant = gateway::nearest(name, names);
      return std::unexpected{"--usage knows no " + gateway::say(name) +
                             (meant.empty() ? "" : "; did you mean " + meant + "?")};
    }
    const std::string number = equals == std::string::npos ? "" : item.substr(equals + 1);
    const auto count = budget::parse_decimal(number, 0);
    if (!count || !count->exact) {
      return std::unexpected{"--usage needs a whole number: " + name + "=1000 (has " + gateway::say(item) + ")"};
    }
    if (counter->tokens) {
      if (!used.tokens) used.tokens.emplace();
      (*used.tokens).*(counter->tokens) = count->units;
    } else {
      used.billed.*(counter->billed) = count->units;
    }
  }
  return used;
}

/// Parts of a whole that were named alone: `--usage cached=10` means ten input tokens, too.
void fill_wholes(UsedUp& used) {
  const Billed& billed = used.billed;
  const auto sum = [](std::initializer_list<std::int64_t> parts) {
    std::int64_t all = 0;
    for (const std::int64_t part : parts) {
      if (__builtin_add_overflow(all, part, &all)) all = std::numeric_limits<std::int64_t>::max();
    }
    return all;
  };
  const std::int64_t input = sum({billed.audio_input, billed.image_input});
  const std::int64_t output = sum({billed.audio_output, billed.image_output});
  if (!used.tokens && input == 0 && output == 0) return;
  if (!used.tokens) used.tokens.emplace();
  TokenCounts& tokens = *used.tokens;
  tokens.input =
      std::max({tokens.input, input, sum({tokens.cached_input, tokens.cache_write_5m, tokens.cache_write_1h})});
  tokens.output = std::max({tokens.output, sum({output, tokens.reasoning})});
}

Json json_of(const Cost& cost) {
  Json charges = Json::array();
  for (const Charge& charge : cost.charges) {
    Json json{{"meter", name_of(charge.meter)}, {"quantity", charge.quantity}};
    if (charge.rate) {
      json["priced_as"] = name_of(charge.priced_as);
      json["rate_usd"] = budget::usd_text(*charge.rate);
      json["multiplier"] = factor_text(charge.millionths);
      json["cost_nano_usd"] = charge.amount.value;
    }
    charges.push_back(std::move(json));
  }
  Json parts = Json::object();
  for (std::size_t i = 0; i < Cost::kParts; ++i) {
    parts[std::string{name_of(static_cast<Cost::Part>(i))}] = cost.parts[i].value;
  }
  Json json{{"cost_nano_usd", nullptr}};
  if (cost.total) json["cost_nano_usd"] = cost.total->value;
  json["unpriced"] = name_of(cost.unpriced);
  json["tier"] = name_of(cost.tier);
  json["plain_for_tier"] = cost.plain_for_tier;
  if (cost.over != budget::kAnyPrompt) json["above_prompt_tokens"] = cost.over;
  json["parts_nano_usd"] = std::move(parts);
  json["charges"] = std::move(charges);
  return json;
}

void print_cost(const Cost& cost, std::ostream& out) {
  out << "\nWhat it costs, tier " << name_of(cost.tier);
  if (cost.over != budget::kAnyPrompt) out << ", prompt above " << cost.over << " tokens";
  out << '\n';
  std::vector<std::vector<std::string>> rows;
  for (const Charge& charge : cost.charges) {
    const bool per_second = charge.meter == Meter::InputSecond || charge.meter == Meter::OutputSecond;
    std::vector<std::string> row{"  " + std::string{name_of(charge.meter)},
                                 std::to_string(charge.quantity) + (per_second ? " ms" : "")};
    if (!charge.rate) {
      row.insert(row.end(), {"", "no price for it, so the cost is unknown"});
      rows.push_back(std::move(row));
      continue;
    }
    std::string rate = "× " + rate_text(charge.meter, *charge.rate);
    if (charge.millionths != 1'000'000) rate += " × " + factor_text(charge.millionths);
    std::string amount = "= " + budget::usd_text(charge.amount) + " USD";
    if (charge.priced_as != charge.meter)
      amount += "  (at the price of " + std::string{name_of(charge.priced_as)} + ")";
    row.insert(row.end(), {std::move(rate), std::move(amount)});
    rows.push_back(std::move(row));
  }
  print_rows(rows, out);
  if (cost.plain_for_tier)
    out << "  The answer's tier or modifier has no price here, or not for all of it: plain price.\n";
  out << "  total " << (cost.total ? budget::usd_text(*cost.total) + " USD" : std::string{"unknown"}) << '\n';
}

void print_price(const budget::Found& found, const std::string& asked, std::ostream& out, bool colour) {
  const Price& price = *found.price;
  out << toned(price.model, Tone::Bold, colour) << (price.provider.empty() ? "" : " of " + price.provider) << '\n';
  out << "  found   " << asked << " → " << found.name << " (" << text_of(found.how) << ")\n";
  out << "  table   " << table_text(*found.table) << '\n';
  if (price.from) out << "  from    " << date_text(*price.from) << '\n';
  if (!price.as_of.empty()) out << "  as of   " << price.as_of << ", sources " << price.sources << '\n';
  if (!price.note.empty()) out << "  note    " << price.note << '\n';
  for (const RateTable& table : price.tables) {
    out << "  " << name_of(table.tier);
    if (table.over != budget::kAnyPrompt) out << ", prompt above " << table.over << " tokens";
    out << '\n';
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < budget::kMeters; ++i) {
      const Meter meter = static_cast<Meter>(i);
      if (const auto rate = table.rates.at(meter)) {
        rows.push_back({"    " + std::string{name_of(meter)}, rate_text(meter, *rate)});
      }
    }
    print_rows(rows, out);
  }
  for (const budget::Factor& factor : price.factors) {
    out << "  " << factor.name << ": tokens × " << factor_text(factor.millionths) << '\n';
  }
}

std::string why_missed(const budget::Found& found) {
  switch (found.miss) {
    case budget::Miss::Ambiguous:
      return "several models with different prices have the name " + found.name;
    case budget::Miss::NotYet:
      return "its price begins at a later date";
    default:
      return "no price for it, neither in the files nor in the shipped table";
  }
}

using Readings = std::map<std::string, std::vector<std::string>>;

/// Names by reason, of the entries that were read like that.
Readings readings_of(const PriceFile& file, budget::EntryReading::How how) {
  Readings by_reason;
  for (const budget::EntryReading& reading : file.readings) {
    if (reading.how == how) by_reason[reading.reason].push_back(reading.model);
  }
  return by_reason;
}

void print_readings(const Readings& readings, std::string_view title, std::ostream& out) {
  constexpr std::size_t kShown = 3;
  if (readings.empty()) return;
  out << "  " << title << ":\n";
  std::vector<std::pair<std::string, std::vector<std::string>>> sorted(readings.begin(), readings.end());
  std::ranges::stable_sort(sorted, std::ranges::greater{}, [](const auto& one) { return one.second.size(); });
  for (const auto& [reason, names] : sorted) {
    out << "    " << padded(std::to_string(names.size()), 5) << reason << "\n         ";
    for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i)
      out << (i == 0 ? "" : ", ") << gateway::say(names[i]);
    if (names.size() > kShown) out << " and " << names.size() - kShown << " more";
    out << '\n';
  }
}

std::size_t names_in(const Readings& readings) {
  std::size_t all = 0;
  for (const auto& [reason, names] : readings) all += names.size();
  return all;
}

Json json_of(const PriceFile& file) {
  using How = budget::EntryReading::How;
  const bool litellm = file.table.format == budget::PriceFormat::LiteLlm;
  Json problems = Json::array();
  for (const PriceProblem& problem : file.problems) {
    problems.push_back({{"line", problem.line},
                        {"column", problem.column},
                        {"path", problem.path},
                        {"severity", problem.severity == PriceProblem::Severity::Error ? "error" : "warning"},
                        {"message", problem.message}});
  }
  Json json{{"file", file.table.name},
            {"valid", file.usable()},
            {"format", litellm ? "litellm" : "callgate"},
            {"version", file.table.version},
            {"digest", file.table.digest},
            {"models", file.table.prices.size()},
            {"problems", std::move(problems)}};
  if (litellm) {
    json["entries"] = file.readings.size();
    json["in_part"] = readings_of(file, How::Partly);
    json["not_understood"] = readings_of(file, How::NotAtAll);
  }
  return json;
}

void print_check(const PriceFile& file, Terminal& terminal) {
  using How = budget::EntryReading::How;
  for (const PriceProblem& problem : file.problems) {
    print_problem(problem, file.table.name, terminal.out, terminal.colour_out);
  }
  if (!file.usable()) return;
  if (file.table.format == budget::PriceFormat::Own) {
    terminal.out << file.table.name << ": valid, entries: " << file.table.prices.size() << '\n';
    return;
  }
  const Readings partly = readings_of(file, How::Partly);
  const Readings not_at_all = readings_of(file, How::NotAtAll);
  const std::size_t in_part = names_in(partly);
  const std::size_t left_out = names_in(not_at_all);
  terminal.out << file.table.name << ": LiteLLM's format, entries: " << file.readings.size()
               << "; understood: " << file.readings.size() - in_part - left_out << ", in part: " << in_part
               << ", not: " << left_out << '\n';
  print_readings(partly, "in part", terminal.out);
  print_readings(not_at_all, "not understood", terminal.out);
}

int misused(std::string_view command, const std::string& message, Terminal& terminal) {
  terminal.err << "callgate prices " << command << ": " << message << "\nSee \"callgate prices " << command
               << " --help\".\n";
  return kUsage;
}

}  // namespace

std::optional<budget::PriceBook> price_book_of(const Arguments& arguments, Terminal& terminal) {
  std::vector<PriceTable> tables{budget::shipped_prices()};
  bool well = true;
  for (const std::string& file : arguments.all("--file")) {
    PriceFile read = read_file(file, terminal);
    for (const PriceProblem& problem : read.problems) {
      if (problem.severity == PriceProblem::Severity::Error) {
        print_problem(problem, read.table.name, terminal.err, terminal.colour_err);
      }
    }
    well = well && read.usable();
    tables.push_back(std::move(read.table));
  }
  if (!well) return std::nullopt;
  return budget::PriceBook{std::move(tables)};
}

int prices_list(const Arguments& arguments, Terminal& terminal) {
  const std::optional<budget::PriceBook> book = price_book_of(arguments, terminal);
  if (!book) return kInvalid;
  const std::string filter = arguments.words.empty() ? "" : arguments.words.front();
  std::vector<std::vector<std::string>> rows{
      {"model", "provider", "input", "cached", "write", "output", "USD per million tokens; further"}};
  Json list = Json::array();
  std::map<std::string, const PriceTable*, std::less<>> shown;  // A later file's model hides an earlier one's.
  const auto tables = book->tables();
  for (std::size_t i = tables.size(); i-- > 0;) {
    for (const Price& price : tables[i].prices) {
      if (price.model.find(filter) == std::string::npos && price.provider.find(filter) == std::string::npos) continue;
      if (const auto [known, fresh] = shown.emplace(price.model, &tables[i]); !fresh && known->second != &tables[i]) {
        continue;
      }
      if (arguments.has("--json")) {
        list.push_back(json_of(price, tables[i]));
      } else {
        rows.push_back(row_of(price));
      }
    }
  }
  if (shown.empty()) {
    terminal.err << "callgate prices list: no model or provider has " << gateway::say(filter) << " in its name\n";
    return kNotFound;
  }
  if (arguments.has("--json")) {
    terminal.out << dumped(list) << '\n';
  } else {
    print_list(rows, arguments, terminal);
  }
  return kDone;
}

int prices_show(const Arguments& arguments, Terminal& terminal) {
  if (arguments.words.empty()) return misused("show", "needs a model: callgate prices show gpt-5-mini", terminal);
  Days day = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  if (arguments.has("--date")) {
    const std::optional<Days> wanted = budget::price_date(arguments.get("--date"));
    if (!wanted) return misused("show", "--date needs a date such as 2026-09-01", terminal);
    day = *wanted;
  }
  UsedUp used;
  if (arguments.has("--usage")) {
    auto read = usage_of(arguments.get("--usage"));
    if (!read) return misused("show", read.error(), terminal);
    used = *read;
    fill_wholes(used);
  }
  const std::string tier = arguments.get("--tier");
  if (!budget::tier_named(tier)) return misused("show", "--tier knows standard, flex, priority and batch", terminal);

  const std::optional<budget::PriceBook> book = price_book_of(arguments, terminal);
  if (!book) return kInvalid;
  const std::string& model = arguments.words.front();
  const std::string provider{budget::canonical_provider(arguments.get("--provider"))};
  const budget::Found found = book->find({provider, model, day});
  if (!found.price) {
    terminal.err << "callgate prices show: " << gateway::say(model) << ": " << why_missed(found) << '\n';
    return kNotFound;
  }
  const std::vector<std::string> words = arguments.all("--modifier");
  const std::vector<std::string_view> modifiers(words.begin(), words.end());
  const Cost cost = budget::cost_of(found, {tier, modifiers}, used.tokens, used.billed);
  if (arguments.has("--json")) {
    Json json{{"asked", model}, {"found_as", found.name}, {"how", text_of(found.how)}};
    json["price"] = json_of(*found.price, *found.table);
    if (arguments.has("--usage")) json["cost"] = json_of(cost);
    terminal.out << dumped(json) << '\n';
    return kDone;
  }
  print_price(found, model, terminal.out, terminal.colour_out);
  if (arguments.has("--usage")) print_cost(cost, terminal.out);
  return kDone;
}

int prices_check(const Arguments& arguments, Terminal& terminal) {
  if (arguments.words.empty()) return misused("check", "needs a file: callgate prices check prices.json", terminal);
  Json report = Json::array();
  bool valid = true;
  for (const std::string& name : arguments.words) {
    const PriceFile file = read_file(name, terminal);
    valid = valid && file.usable();
    if (arguments.has("--json")) {
      report.push_back(json_of(file));
    } else {
      print_check(file, terminal);
    }
  }
  if (arguments.has("--json")) terminal.out << dumped({{"valid", valid}, {"files", report}}) << '\n';
  return valid ? kDone : kInvalid;
}

}  // namespace cli
