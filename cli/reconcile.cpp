#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "budget/price.h"
#include "cli/ask_books.h"
#include "cli/spend.h"
#include "cli/table.h"
#include "ledger/reconcile.h"
#include "ledger/times.h"
#include "ledger/usage_export.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCommand = "spend reconcile";
constexpr std::streamsize kLargest = 256LL * 1024 * 1024;

std::optional<std::string> text_of(const std::string& file, Terminal& terminal) {
  std::ifstream opened;
  if (file != "-") opened.open(file, std::ios::binary);
  std::istream& in = file == "-" ? terminal.in : opened;
  if (!in) return std::nullopt;
  // No more than is wanted: /dev/zero has no end.
  std::string text;
  std::array<char, 65'536> piece{};
  while (in.read(piece.data(), piece.size()) || in.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    if (static_cast<std::streamsize>(text.size()) > kLargest) return std::nullopt;
  }
  return text;
}

std::vector<ledger::UsageLine> lines_of(const Json& json) {
  std::vector<ledger::UsageLine> lines;
  for (const Json& one : json.at("usage")) {
    ledger::UsageLine line;
    line.day = one.at("day").get<std::string>();
    line.model = one.at("model").get<std::string>();
    line.attempts = one.at("attempts").get<std::int64_t>();
    line.requests = one.at("requests").get<std::int64_t>();
    line.input = one.at("input_tokens").get<std::int64_t>();
    line.cached_input = one.at("cached_input_tokens").get<std::int64_t>();
    line.cache_write = one.at("cache_write_tokens").get<std::int64_t>();
    line.output = one.at("output_tokens").get<std::int64_t>();
    line.cost_nano = one.at("cost_nano_usd").get<std::int64_t>();
    line.unknown = one.at("unknown").get<std::int64_t>();
    line.unpriced = one.at("unpriced").get<std::int64_t>();
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string figure(const ledger::Difference& one, std::int64_t value) {
  return one.what == "cost_usd" ? budget::usd_text(budget::NanoUsd{value}) : std::to_string(value);
}

std::int64_t apart(const ledger::Difference& one) {
  std::int64_t apart = 0;
  return __builtin_sub_overflow(one.ours, one.theirs, &apart) ? INT64_MAX : apart;
}

Json json_of(const ledger::UsageExport& read, const ledger::Reconciliation& found) {
  Json differences = Json::array();
  for (const ledger::Difference& one : found.differences) {
    differences.push_back({{"day", one.day},
                           {"model", one.model},
                           {"what", one.what},
                           {"ours", one.what == "cost_usd" ? Json(figure(one, one.ours)) : Json(one.ours)},
                           {"theirs", one.what == "cost_usd" ? Json(figure(one, one.theirs)) : Json(one.theirs)},
                           {"perhaps", one.perhaps.empty() ? Json() : Json(one.perhaps)}});
  }
  return {{"form", read.form},
          {"days", read.days},
          {"whole", read.whole},
          {"compared", found.compared},
          {"differences", std::move(differences)}};
}

}  // namespace

int spend_reconcile(const Arguments& arguments, Terminal& terminal) {
  if (arguments.words.empty())
    return misuse(kCommand, "needs the file of a provider's usage or cost report", terminal);
  std::vector<ledger::UsageExport> pages;
  for (const std::string& file : arguments.words) {
    const auto text = text_of(file, terminal);
    if (!text) {
      terminal.err << "callgate " << kCommand << ": " << cell(file) << ": cannot be read\n";
      return kFailed;
    }
    auto page = ledger::read_usage_export(*text);
    if (!page) {
      terminal.err << "callgate " << kCommand << ": " << cell(file) << ": " << cell(page.error(), 500) << '\n';
      return kFailed;
    }
    pages.push_back(std::move(*page));
  }
  const auto read = ledger::joined(std::move(pages));
  if (!read) {
    terminal.err << "callgate " << kCommand << ": " << cell(read.error(), 500) << '\n';
    return kFailed;
  }
  if (read->days.empty()) {
    terminal.err << "callgate " << kCommand << ": there is no day in it\n";
    return kFailed;
  }
  const auto last = ledger::read_time(read->days.back());
  std::string upstreams;
  for (const std::string& name : arguments.all("--upstream")) upstreams += (upstreams.empty() ? "" : ",") + name;
  const auto reply =
      ask_books(kCommand,
                "/v1/usage" + query_of({{"upstream", upstreams.empty() ? read->provider : upstreams},
                                        {"since", read->days.front()},
                                        {"until", ledger::time_text(last.value_or(0) + ledger::kDayMs)}}),
                arguments,
                terminal);
  if (!reply) return reply.error();
  if (reply->status != 200) return refused_books(kCommand, *reply, terminal);
  std::vector<ledger::UsageLine> ours;
  std::string complete_since;
  try {
    const Json json = Json::parse(reply->body);
    ours = lines_of(json);
    if (!json.at("rows_complete_since").is_null()) complete_since = word(json.at("rows_complete_since"));
  } catch (const Json::exception&) {
    return no_books(kCommand, *reply, terminal);
  }
  const ledger::Reconciliation found = ledger::reconcile(*read, ours);
  if (arguments.has("--json")) {
    terminal.out << json_of(*read, found).dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  } else if (found.differences.empty()) {
    terminal.out << "equal: " << found.compared << " pairs of day and model\n";
  } else {
    std::vector<std::vector<std::string>> rows{
        {"day", "model", "what", "callgate", read->provider, "difference", "perhaps"}};
    for (const ledger::Difference& one : found.differences) {
      rows.push_back({cell(one.day),
                      cell(one.model),
                      one.what,
                      figure(one, one.ours),
                      figure(one, one.theirs),
                      figure(one, apart(one)),
                      cell(one.perhaps)});
    }
    print_list(rows, arguments, terminal);
  }
  terminal.err << read->form << ", " << read->days.front() << " to " << read->days.back()
               << " (UTC): " << found.compared << " pairs of day and model compared, " << found.differences.size()
               << " differences\n";
  if (!read->whole) terminal.err << "The report has further pages (has_more): give all of them for the whole.\n";
  if (!complete_since.empty())
    terminal.err << "Calls that ended before " << complete_since << " are not in the ledger any more.\n";
  return found.differences.empty() ? kDone : kInvalid;
}

}  // namespace cli
