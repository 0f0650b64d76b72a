#include "cli/calls.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/ask_books.h"
#include "cli/table.h"
#include "cli/upstreams.h"
#include "gateway/config_values.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::chrono::milliseconds kLookAgain{500};
constexpr std::string_view kIdLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

const std::vector<std::string> kHeading{"call",
                                        "ended",
                                        "tenant",
                                        "lane",
                                        "upstream",
                                        "model",
                                        "outcome",
                                        "class",
                                        "status",
                                        "attempts",
                                        "ms",
                                        "cost USD"};

/// Of an event as of a list: both name things alike.
std::vector<std::string> row_of(const Json& one, const std::string& ended) {
  const auto told = [&](const char* name) { return one.contains(name) ? word(one.at(name)) : std::string{"-"}; };
  const std::string outcome =
      one.contains("outcome") && !one.at("outcome").is_null() ? told("outcome") : told("state");
  return {told("call_id"),
          ended,
          told("tenant"),
          told("lane"),
          told("upstream"),
          told("model"),
          outcome,
          told("class"),
          told("status"),
          told("attempts"),
          told("duration_ms"),
          told("cost_usd")};
}

bool is_number(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number > 0;
}

/// What the feed can tell apart; the tenant is asked for.
bool wanted(const Json& data, const Arguments& arguments) {
  constexpr std::pair<const char*, const char*> kFilters[] = {{"--run-id", "run_id"},
                                                              {"--upstream", "upstream"},
                                                              {"--model", "model"},
                                                              {"--outcome", "outcome"},
                                                              {"--class", "class"},
                                                              {"--queue", "queue"}};
  for (const auto& [option, name] : kFilters) {
    if (arguments.has(option) && (!data.contains(name) || data.at(name) != arguments.get(option))) return false;
  }
  return true;
}

std::string json_line(const Json& event) { return event.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n"; }

/// Reads the feed for ever, or until so many events were said. `say` tells whether it has said that one.
int follow(std::string_view command, const Arguments& arguments, Terminal& terminal,
           const std::function<bool(const Json& event)>& say) {
  if (arguments.has("--count") && !is_number(arguments.get("--count")))
    return misuse(command, "--count must be a number from 1 on", terminal);
  std::uint64_t left = arguments.has("--count") ? std::stoull(arguments.get("--count")) : UINT64_MAX;
  const std::string tenant = arguments.get("--tenant");
  std::string after = arguments.get("--after");
  for (bool first = after.empty(); left > 0; first = false) {
    const auto reply =
        ask_books(command, "/v1/events" + query_of({{"after", after}, {"tenant", tenant}}), arguments, terminal);
    if (!reply) return reply.error();
    if (reply->status != 200) return refused_books(command, *reply, terminal);
    try {
      const Json json = Json::parse(reply->body);
      // Without a place to begin at, from now on.
      if (first) {
        after = json.at("last").dump();
        continue;
      }
      const Json& events = json.at("events");
      for (const Json& event : events) {
        after = event.at("id").dump();
        if (left > 0 && say(event)) --left;
      }
      // Nobody reads it any more.
      if (!terminal.out.flush()) return kFailed;
      if (events.empty() && left > 0) std::this_thread::sleep_for(kLookAgain);
    } catch (const Json::exception&) {
      return no_books(command, *reply, terminal);
    }
  }
  return kDone;
}

}  // namespace

int calls_list(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "calls list";
  const std::string query = query_of({{"tenant", arguments.get("--tenant")},
                                      {"run_id", arguments.get("--run-id")},
                                      {"upstream", arguments.get("--upstream")},
                                      {"model", arguments.get("--model")},
                                      {"outcome", arguments.get("--outcome")},
                                      {"class", arguments.get("--class")},
                                      {"queue", arguments.get("--queue")},
                                      {"idempotency_key", arguments.get("--key")},
                                      {"since", arguments.get("--since")},
                                      {"until", arguments.get("--until")},
                                      {"before", arguments.get("--before")},
                                      {"after", arguments.get("--after")},
                                      {"most", arguments.get("--most")}});
  const auto reply = ask_books(kCommand, "/v1/calls" + query, arguments, terminal);
  if (!reply) return reply.error();
  if (reply->status != 200) return refused_books(kCommand, *reply, terminal);
  try {
    const Json json = Json::parse(reply->body);
    Rows rows{kHeading};
    for (const Json& one : json.at("calls")) rows.push_back(row_of(one, word(one.at("ended_at"))));
    if (arguments.has("--json")) {
      terminal.out << reply->body;
    } else if (rows.size() == 1) {
      terminal.err << "no such calls\n";
    } else {
      print_list(rows, arguments, terminal);
    }
    return kDone;
  } catch (const Json::exception&) {
    return no_books(kCommand, *reply, terminal);
  }
}

int calls_show(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "calls show";
  if (arguments.words.empty())
    return misuse(kCommand, "needs a call's id, as in Callgate-Call-Id and in the log", terminal);
  const std::string& id = arguments.words[0];
  if (id.size() > 64 || id.find_first_not_of(kIdLetters) != std::string::npos)
    return misuse(kCommand, gateway::say(id) + " is no call's id", terminal);
  const auto reply = ask_books(kCommand, "/v1/calls/" + id, arguments, terminal);
  if (!reply) return reply.error();
  if (reply->status != 200) return refused_books(kCommand, *reply, terminal);
  const auto rows = rows_of_call(reply->body);
  if (!rows) return no_books(kCommand, *reply, terminal);
  if (arguments.has("--json")) {
    terminal.out << reply->body;
  } else {
    print_rows(*rows, terminal.out);
  }
  return kDone;
}

int calls_tail(const Arguments& arguments, Terminal& terminal) {
  const auto say = [&](const Json& event) {
    const Json& data = event.at("data");
    if (!event.at("type").get<std::string>().starts_with("call.") || !wanted(data, arguments)) return false;
    const std::vector<std::string> row = row_of(data, word(event.at("at")));
    for (std::size_t i = 0; i < row.size(); ++i)
      terminal.out << (i == 0 ? "" : arguments.has("--plain") ? "\t" : "  ") << row[i];
    terminal.out << '\n';
    return true;
  };
  const auto as_json = [&](const Json& event) {
    if (!event.at("type").get<std::string>().starts_with("call.") || !wanted(event.at("data"), arguments))
      return false;
    terminal.out << json_line(event);
    return true;
  };
  if (arguments.has("--json")) return follow("calls tail", arguments, terminal, as_json);
  return follow("calls tail", arguments, terminal, say);
}

int events_tail(const Arguments& arguments, Terminal& terminal) {
  return follow("events tail", arguments, terminal, [&](const Json& event) {
    if (arguments.has("--type") && event.at("type") != arguments.get("--type")) return false;
    terminal.out << json_line(event);
    return true;
  });
}

}  // namespace cli
