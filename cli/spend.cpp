#include "cli/spend.h"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "budget/price.h"
#include "cli/admin_command.h"
#include "cli/ask_books.h"
#include "cli/plain_output.h"
#include "cli/table.h"
#include "gateway/config_values.h"
#include "ledger/csv.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

/// As the JSON names them, in the CSV's order.
constexpr std::array<const char*, 17> kFigures = {
    "calls",
    "answered",
    "attempts",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_usd",
    "retry_usd",
    "failed_usd",
    "possibly_billed",
    "possibly_billed_usd",
    "unknown",
    "unpriced",
    "estimated_usd",
    "saved_usd",
};

std::string bare(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// "12 %" of the cost; "-" where there is none.
std::string share_of(const Json& line, const char* part) {
  const auto whole = budget::parse_usd(line.at("cost_usd").get<std::string>());
  const auto some = budget::parse_usd(line.at(part).get<std::string>());
  if (!whole || !some || whole->value <= 0 || some->value <= 0) return "-";
  const auto percent = static_cast<double>(some->value) * 100.0 / static_cast<double>(whole->value);
  return percent < 1.0 ? "<1 %" : std::to_string(static_cast<int>(percent + 0.5)) + " %";
}

std::string amount(const Json& line, const char* name) {
  const std::string text = word(line.at(name));
  return text == "0" ? "-" : text;
}

std::vector<std::string> row_of(const Json& line, std::vector<std::string> by) {
  const auto possibly = line.at("possibly_billed").get<std::int64_t>();
  by.push_back(word(line.at("calls")));
  by.push_back(word(line.at("answered")));
  by.push_back(word(line.at("attempts")));
  by.push_back(word(line.at("input_tokens")));
  by.push_back(word(line.at("output_tokens")));
  by.push_back(word(line.at("cost_usd")));
  by.push_back(amount(line, "retry_usd"));
  by.push_back(amount(line, "failed_usd"));
  by.push_back(possibly == 0 ? "-" : std::to_string(possibly) + ", " + word(line.at("possibly_billed_usd")));
  by.push_back(share_of(line, "estimated_usd"));
  by.push_back(amount(line, "saved_usd"));
  return by;
}

void print_csv(const Json& json, std::ostream& out) {
  std::string text;
  std::vector<std::string> heading;
  for (const Json& group : json.at("by")) heading.push_back(bare(group));
  for (const char* name : kFigures) heading.emplace_back(name);
  ledger::append_csv(text, heading);
  for (const Json& line : json.at("lines")) {
    std::vector<std::string> row;
    for (const Json& value : line.at("by")) row.push_back(bare(value));
    for (const char* name : kFigures) row.push_back(bare(line.at(name)));
    ledger::append_csv(text, row);
  }
  out << text;
}

void print_spend(const Json& json, const Arguments& arguments, Terminal& terminal) {
  std::vector<std::string> heading;
  for (const Json& group : json.at("by")) heading.push_back(word(group));
  const std::size_t groups = heading.size();
  for (const char* name : {"calls",
                           "answered",
                           "attempts",
                           "input",
                           "output",
                           "cost USD",
                           "retries",
                           "failed",
                           "possibly billed",
                           "estimated",
                           "saved"}) {
    heading.emplace_back(name);
  }
  Rows rows{heading};
  for (const Json& line : json.at("lines")) {
    std::vector<std::string> by;
    for (const Json& value : line.at("by")) by.push_back(word(value));
    rows.push_back(row_of(line, std::move(by)));
  }
  const Json& total = json.at("total");
  if (groups > 0 && !arguments.has("--plain")) {
    std::vector<std::string> by(groups);
    by[0] = "total";
    rows.push_back(row_of(total, std::move(by)));
  }
  print_list(rows, arguments, terminal);
  terminal.err << "from " << word(json.at("since")) << " to " << word(json.at("until")) << '\n';
  if (const auto unpriced = total.at("unpriced").get<std::int64_t>(); unpriced > 0)
    terminal.err << unpriced << " attempts used something that has no price: the cost is more than this\n";
  if (const auto unknown = total.at("unknown").get<std::int64_t>(); unknown > 0)
    terminal.err << unknown << " attempts may have used tokens and told none\n";
  if (!json.at("rows_complete_since").is_null()) {
    terminal.err
        << "calls that ended before " << word(json.at("rows_complete_since"))
        << " are kept as sums alone (store.retention.calls): ask by tenant, model, upstream, lane, queue, day "
           "or hour for all\n";
  }
}

/// Parses and tells; what is no answer of a callgate is said.
template <typename Tell>
int told(std::string_view command, const BookReply& reply, Terminal& terminal, Tell tell) {
  if (reply.status != 200) return refused_books(command, reply, terminal);
  try {
    tell(Json::parse(reply.body));
    return kDone;
  } catch (const Json::exception&) {
    return no_books(command, reply, terminal);
  }
}

std::string span(const Json& ms) {
  return ms.is_number_integer() ? gateway::say_duration(ms.get<std::int64_t>()) : "-";
}

}  // namespace

int spend(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "spend";
  if (arguments.has("--json") + arguments.has("--csv") + arguments.has("--plain") > 1)
    return misuse(kCommand, "prints in one form: --json, --csv or --plain", terminal);
  const std::string query = query_of({{"by", arguments.get("--by")},
                                      {"since", arguments.get("--since")},
                                      {"until", arguments.get("--until")},
                                      {"tenant", arguments.get("--tenant")},
                                      {"utc_offset", arguments.get("--utc-offset")},
                                      {"most", arguments.get("--most")}});
  const auto reply = ask_books(kCommand, "/v1/spend" + query, arguments, terminal);
  if (!reply) return reply.error();
  return told(kCommand, *reply, terminal, [&](const Json& json) {
    if (arguments.has("--csv")) {
      print_csv(json, as_is(terminal.out));
    } else if (arguments.has("--json")) {
      terminal.out << reply->body;
    } else {
      print_spend(json, arguments, terminal);
    }
  });
}

int report_timeouts(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "report timeouts";
  const auto reply =
      ask_books(kCommand, "/v1/timeouts" + query_of({{"since", arguments.get("--since")}}), arguments, terminal);
  if (!reply) return reply.error();
  return told(kCommand, *reply, terminal, [&](const Json& json) {
    if (arguments.has("--json")) {
      terminal.out << reply->body;
      return;
    }
    Rows rows{{"model",
               "queue",
               "calls",
               "p50",
               "p95",
               "p99",
               "p99.9",
               "longest",
               "SDK timeout",
               "visibility timeout",
               "note"}};
    for (const Json& one : json.at("timeouts")) {
      const bool none = one.at("sdk_timeout_ms").is_null();
      std::string note;
      if (none) {
        note = "too few calls: " + word(json.at("fewest_calls")) + " are needed";
      } else if (!one.at("enough_calls").get<bool>()) {
        note = "few calls: twice the longest; p99.9 needs " + word(json.at("enough_calls"));
      }
      rows.push_back({word(one.at("model")),
                      word(one.at("queue")),
                      word(one.at("calls")),
                      span(one.at("p50_ms")),
                      span(one.at("p95_ms")),
                      span(one.at("p99_ms")),
                      span(one.at("p999_ms")),
                      span(one.at("most_ms")),
                      none ? "-" : "at least " + span(one.at("sdk_timeout_ms")),
                      none ? "-" : "at least " + span(one.at("visibility_timeout_ms")),
                      note});
    }
    if (rows.size() == 1) {
      terminal.err << "no answered calls since " << word(json.at("since")) << '\n';
      return;
    }
    print_list(rows, arguments, terminal);
    if (!arguments.has("--plain")) {
      terminal.err << "from calls that began since " << word(json.at("since"))
                   << " and were answered, waiting and retries included; docs/queues.md says how to use it\n";
    }
  });
}

int idem_show(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "idem show";
  if (arguments.words.empty()) return misuse(kCommand, "needs a key", terminal);
  const std::string query = query_of({{"key", arguments.words[0]}, {"tenant", arguments.get("--tenant")}});
  const auto reply = ask_books(kCommand, "/v1/idempotency" + query, arguments, terminal);
  if (!reply) return reply.error();
  return told(kCommand, *reply, terminal, [&](const Json& json) {
    if (arguments.has("--json")) {
      terminal.out << reply->body;
      return;
    }
    Rows rows{{"key", "tenant", "state", "call", "claimed", "lease until", "expires", "bytes", "cost USD"}};
    for (const Json& one : json.at("keys")) {
      std::vector<std::string> row;
      for (const char* name :
           {"key", "tenant", "state", "call_id", "claimed_at", "lease_until", "expires_at", "bytes", "cost_usd"}) {
        row.push_back(word(one.at(name)));
      }
      rows.push_back(std::move(row));
    }
    print_list(rows, arguments, terminal);
  });
}

int idem_forget(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "idem forget";
  if (arguments.words.empty()) return misuse(kCommand, "needs a key", terminal);
  const std::string query = query_of({{"key", arguments.words[0]}, {"tenant", arguments.get("--tenant")}});
  auto reply = ask_running(kCommand, "POST", "/v1/idempotency/forget" + query, arguments, terminal);
  if (!reply) return reply.error();
  const BookReply answer{reply->address, reply->answer.status, std::move(reply->answer.body)};
  if (answer.status == 409) {
    (void)refused_books(kCommand, answer, terminal);
    return kConflict;
  }
  return told(kCommand, answer, terminal, [&](const Json& json) {
    if (arguments.has("--json")) {
      terminal.out << answer.body;
      return;
    }
    terminal.out << "forgotten: " << word(json.at("count")) << '\n';
    terminal.err << "The next call with this key is a new one, and is paid.\n";
  });
}

}  // namespace cli
