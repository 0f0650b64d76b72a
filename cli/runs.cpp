#include "cli/runs.h"

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/ask_dead.h"
#include "cli/table.h"
#include "cli/upstreams.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kTextMax = 400;

const std::vector<std::string> kHeading{
    "run", "accepted", "state", "class", "tenant", "queue", "model", "starts", "ended", "cost USD"};

std::vector<std::string> row_of(const Json& one) {
  return {cell(one.at("id").get<std::string>()),
          told(one, "created_at"),
          told(one, "state"),
          told(one, "class"),
          told(one, "tenant"),
          told(one, "queue"),
          told(one, "model"),
          told(one, "starts"),
          told(one, "ended_at"),
          told(one, "cost_usd")};
}

/// A variable that was not set must not mean: all of them.
std::optional<int> hollow(std::string_view command, const Arguments& arguments, Terminal& terminal) {
  for (const char* option : {"--tenant", "--queue", "--state", "--run-id", "--key", "--since", "--after", "--most"}) {
    if (arguments.has(option) && arguments.get(option).empty())
      return misuse(command, std::string{option} + " is empty; is a variable not set?", terminal);
  }
  return std::nullopt;
}

/// "callgate runs COMMAND RUN": the run's path, or the exit code.
std::expected<std::string, int> path_of(std::string_view command, const Arguments& arguments, Terminal& terminal) {
  if (arguments.words.empty())
    return std::unexpected(misuse(command, "needs a run's id, as callgate runs list shows it", terminal));
  if (const auto bad = no_id(arguments)) return std::unexpected(misuse(command, *bad + " is no run's id", terminal));
  if (const auto code = hollow(command, arguments, terminal)) return std::unexpected(*code);
  return "/v1/runs/" + arguments.words[0];
}

/// All of one, for people.
void print_run(const Json& json, Terminal& terminal) {
  Rows rows;
  const auto line = [&](const char* name, const std::string& text) {
    if (text != "-" && !text.empty()) rows.push_back({name, text});
  };
  // "a NAME, b NAME" of those that are there.
  const auto several = [](const Json& from, std::initializer_list<std::pair<const char*, const char*>> members) {
    std::string text;
    for (const auto& [says, name] : members) {
      const std::string value = told(from, name);
      if (value != "-") text += (text.empty() ? "" : ", ") + std::string{says} + value;
    }
    return text;
  };
  const std::string id = cell(json.at("id").get<std::string>());
  const std::string state = cell(json.at("state").get<std::string>());
  line("run", id);
  line("state", state);
  line("class", told(json, "class"));
  line("why", told(json, "why", kTextMax));
  line("of", several(json, {{"tenant ", "tenant"}, {"queue ", "queue"}, {"lane ", "lane"}, {"version ", "version"}}));
  line("asked", several(json, {{"route ", "route"}, {"model ", "model"}}));
  line("work",
       several(json,
               {{"key ", "key"}, {"job ", "run_id"}, {"ordering key ", "ordering_key"}, {"last call ", "call_id"}}));
  line("accepted", several(json, {{"", "created_at"}, {"not before ", "not_before"}, {"deadline ", "deadline"}}));
  line("begun", several(json, {{"", "started_at"}, {"starts ", "starts"}, {"lease until ", "lease_until"}}));
  if (told(json, "crashes") != "0") line("crashes", told(json, "crashes"));
  line("ended", told(json, "ended_at"));
  line("cost USD", told(json, "cost_usd"));
  if (const auto result = json.find("result"); result != json.end() && result->is_object())
    line("result", several(*result, {{"status ", "status"}, {"for its worker at ", "at"}}));
  line("webhook", told(json, "webhook"));
  if (const auto labels = json.find("labels"); labels != json.end() && labels->is_object()) {
    std::string text;
    for (const auto& [name, value] : labels->items())
      text += (text.empty() ? "" : ", ") + cell(name) + "=" + word(value);
    line("labels", text);
  }
  const auto letter = json.find("dead_letter");
  const bool dead = letter != json.end() && letter->is_object();
  if (dead) line("dead letter", several(*letter, {{"", "id"}, {"advice ", "advice"}}));
  if (dead) line("cause", told(*letter, "cause", kTextMax));
  print_rows(rows, terminal.out);
  if (const auto attempts = json.find("attempts");
      attempts != json.end() && attempts->is_array() && !attempts->empty()) {
    const std::string text = attempts->dump(-1, ' ', true, Json::error_handler_t::replace);
    terminal.out << '\n' << toned("attempts of its last call", Tone::Bold, terminal.colour_out) << '\n';
    if (const auto cells = rows_of_attempts(text))
      print_rows(*cells, terminal.out);
    else
      terminal.out << cell(text, kTextMax) << '\n';
  }
  if (state != "dead" && state != "failed") return;
  terminal.out << '\n' << toned("what to do", Tone::Bold, terminal.colour_out) << '\n';
  if (dead) terminal.out << "callgate dead show " << told(*letter, "id") << " says what it takes. Then:\n";
  terminal.out << "callgate runs retry " << id << '\n';
}

int act(std::string_view command, std::string_view method, std::string_view below, const Arguments& arguments,
        Terminal& terminal) {
  const auto path = path_of(command, arguments, terminal);
  if (!path) return path.error();
  const std::string query = query_of({{"tenant", arguments.get("--tenant")}, {"reason", arguments.get("--reason")}});
  const auto reply = ask_dead(command, method, *path + std::string{below} + query, arguments, terminal);
  if (!reply) return reply.error();
  const auto json = shallow<Json>(reply->body);
  if (!json) return no_books(command, *reply, terminal);
  try {
    const std::string state = json->at("state").get<std::string>();
    if (arguments.has("--json")) {
      terminal.out << pages_of(*json);
    } else {
      terminal.out << "run " << cell(arguments.words[0]) << " is " << cell(state) << '\n';
    }
    if (method == "DELETE" && state != "cancelled")
      terminal.err << "It is not over yet, and is cancelled by whoever takes it next: callgate runs show "
                   << arguments.words[0] << '\n';
    return kDone;
  } catch (const Json::exception&) {
    return no_books(command, *reply, terminal);
  }
}

}  // namespace

int runs_list(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "runs list";
  if (const auto code = hollow(kCommand, arguments, terminal)) return *code;
  const std::string query = query_of({{"queue", arguments.get("--queue")},
                                      {"state", arguments.get("--state")},
                                      {"tenant", arguments.get("--tenant")},
                                      {"run_id", arguments.get("--run-id")},
                                      {"key", arguments.get("--key")},
                                      {"since", arguments.get("--since")},
                                      {"after", arguments.get("--after")},
                                      {"most", arguments.get("--most")}});
  const auto reply = ask_dead(kCommand, "GET", "/v1/runs" + query, arguments, terminal);
  if (!reply) return reply.error();
  const auto json = shallow<Json>(reply->body);
  if (!json) return no_books(kCommand, *reply, terminal);
  try {
    Rows rows{kHeading};
    for (const Json& one : json->at("runs")) rows.push_back(row_of(one));
    if (arguments.has("--json")) {
      terminal.out << pages_of(*json);
    } else if (rows.size() == 1) {
      terminal.err << "no such runs\n";
    } else {
      print_list(rows, arguments, terminal);
      if (const std::string next = told(*json, "next"); next != "-")
        terminal.err << "There may be more: --after " << next << '\n';
    }
    return kDone;
  } catch (const Json::exception&) {
    return no_books(kCommand, *reply, terminal);
  }
}

int runs_show(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "runs show";
  const auto path = path_of(kCommand, arguments, terminal);
  if (!path) return path.error();
  const auto reply =
      ask_dead(kCommand, "GET", *path + query_of({{"tenant", arguments.get("--tenant")}}), arguments, terminal);
  if (!reply) return reply.error();
  const auto json = shallow<Json>(reply->body);
  if (!json) return no_books(kCommand, *reply, terminal);
  try {
    (void)json->at("id").get_ref<const std::string&>();
    if (arguments.has("--json")) {
      terminal.out << pages_of(*json);
    } else {
      print_run(*json, terminal);
    }
    return kDone;
  } catch (const Json::exception&) {
    return no_books(kCommand, *reply, terminal);
  }
}

int runs_cancel(const Arguments& arguments, Terminal& terminal) {
  return act("runs cancel", "DELETE", "", arguments, terminal);
}

int runs_retry(const Arguments& arguments, Terminal& terminal) {
  return act("runs retry", "POST", "/retry", arguments, terminal);
}

}  // namespace cli
