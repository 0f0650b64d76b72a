#include "ledger/reconcile.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <ranges>
#include <utility>

#include "ledger/spend_sums.h"

namespace ledger {
namespace {

using Key = std::pair<std::string, std::string>;  // Day and model.

/// "-20251001" or "-2024-08-06" at its end.
std::string_view without_date(std::string_view model) {
  const auto digits = [](std::string_view text) {
    return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  if (model.size() > 9 && model[model.size() - 9] == '-' && digits(model.substr(model.size() - 8)))
    return model.substr(0, model.size() - 9);
  if (model.size() > 11) {
    const std::string_view date = model.substr(model.size() - 11);
    if (date[0] == '-' && date[5] == '-' && date[8] == '-' && digits(date.substr(1, 4)) &&
        digits(date.substr(6, 2)) && digits(date.substr(9))) {
      return model.substr(0, model.size() - 11);
    }
  }
  return model;
}

/// As names of models for people and for programs come together: "Claude Haiku 4.5" and claude-haiku-4-5-20251001.
std::string plain_name(std::string_view model) {
  std::string out;
  for (const char c : without_date(model)) {
    const bool gap = c == ' ' || c == '.';
    out += gap ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return std::string{without_date(out)};
}

struct Pair {
  std::optional<ExportLine> theirs{};
  UsageLine ours{};
  bool is_ours = false;
};

}  // namespace

Reconciliation reconcile(const UsageExport& theirs, const std::vector<UsageLine>& ours) {
  const bool models = std::ranges::none_of(theirs.lines, [](const ExportLine& line) { return line.model.empty(); });
  const auto key_of = [&](const std::string& day, const std::string& model) -> Key {
    if (!models) return {day, "(all)"};
    return {day, theirs.display_names ? plain_name(model) : model};
  };
  constexpr std::optional<std::int64_t> ExportLine::*kFigures[] = {&ExportLine::requests,
                                                                   &ExportLine::input,
                                                                   &ExportLine::cached_input,
                                                                   &ExportLine::cache_write,
                                                                   &ExportLine::output,
                                                                   &ExportLine::cost_nano};
  std::map<Key, Pair> pairs;
  ExportLine has;  // Which figures the form has at all.
  for (const ExportLine& line : theirs.lines) {
    std::optional<ExportLine>& there = pairs[key_of(line.day, line.model)].theirs;
    if (!there) there.emplace();
    ExportLine& sum = *there;
    for (const auto figure : kFigures) {
      if (!(line.*figure)) continue;
      std::int64_t whole = (sum.*figure).value_or(0);
      add(whole, *(line.*figure));
      sum.*figure = whole;
      has.*figure = 0;
    }
    add(sum.rounding_nano, line.rounding_nano);
  }
  for (const UsageLine& line : ours) {
    if (std::ranges::find(theirs.days, line.day) == theirs.days.end()) continue;
    Pair& pair = pairs[key_of(line.day, line.model)];
    pair.is_ours = true;
    constexpr std::int64_t UsageLine::*kOurs[] = {&UsageLine::attempts,
                                                  &UsageLine::requests,
                                                  &UsageLine::input,
                                                  &UsageLine::cached_input,
                                                  &UsageLine::cache_write,
                                                  &UsageLine::output,
                                                  &UsageLine::cost_nano,
                                                  &UsageLine::unknown,
                                                  &UsageLine::unpriced};
    for (const auto figure : kOurs) add(pair.ours.*figure, line.*figure);
  }

  Reconciliation out;
  for (const auto& [key, pair] : pairs) {
    const ExportLine none = has;
    const ExportLine& there = pair.theirs ? *pair.theirs : none;
    // Refusals cost nothing and are in nobody's usage.
    const bool idle = !pair.theirs && pair.ours.requests == 0 && pair.ours.input == 0 && pair.ours.output == 0 &&
                      pair.ours.cost_nano == 0 && pair.ours.unknown == 0;
    if (idle) continue;
    ++out.compared;
    std::string perhaps;
    if (!pair.theirs) perhaps = "not in the export; is that of the same account and key?";
    if (!pair.is_ours) perhaps = "not in the ledger; was it called by another way?";
    if (perhaps.empty() && pair.ours.unknown > 0)
      perhaps = std::to_string(pair.ours.unknown) + " attempts told no usage";
    const auto compare = [&](const char* what,
                             const std::optional<std::int64_t>& theirs_value,
                             std::int64_t ours_value,
                             std::int64_t slack,
                             const std::string& why) {
      if (!theirs_value) return;
      std::int64_t apart = 0;
      if (__builtin_sub_overflow(*theirs_value, ours_value, &apart)) apart = INT64_MAX;
      if (apart <= slack && apart >= -slack) return;
      out.differences.push_back({key.first, key.second, what, ours_value, *theirs_value, why});
    };
    compare("requests", there.requests, pair.ours.requests, 0, perhaps);
    compare("input", there.input, pair.ours.input, 0, perhaps);
    compare("cached_input", there.cached_input, pair.ours.cached_input, 0, perhaps);
    compare("cache_write", there.cache_write, pair.ours.cache_write, 0, perhaps);
    compare("output", there.output, pair.ours.output, 0, perhaps);
    std::string why = perhaps;
    if (why.empty() && pair.ours.unpriced > 0) why = std::to_string(pair.ours.unpriced) + " attempts have no price";
    compare("cost_usd", there.cost_nano, pair.ours.cost_nano, there.rounding_nano + pair.ours.attempts, why);
  }
  return out;
}

}  // namespace ledger
