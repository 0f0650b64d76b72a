#include "cli/control.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cli/admin_command.h"
#include "cli/ask_books.h"
#include "cli/table.h"
#include "gateway/config_values.h"
#include "gateway/json_out.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::chrono::milliseconds kLookAgain{200};
constexpr std::chrono::milliseconds kClosing{
    10'000};  // The longest that a process is waited for that answers no more.

std::string paused_word(const Json& paused) {
  if (paused.is_null()) return "";
  const Json& ends = paused.at("ends_ms");
  return ends.is_null() ? "paused until resumed"
                        : "paused for " + gateway::say_duration((ends.get<std::int64_t>() + 999) / 1'000 * 1'000);
}

/// "12 of 256"
std::string share_word(const Json& used, const Json& most) {
  return word(used) + (most.is_null() ? "" : " of " + word(most));
}

std::string rates_word(const Json& one) {
  std::string text;
  for (const auto& [name, value] : one.items()) {
    if (!name.ends_with("_per_minute") || value.is_null()) continue;
    text.append(text.empty() ? "" : ", ").append(word(value)).append(" ").append(name);
  }
  return text;
}

/// What a command has to show: each table with the word that its lines begin with where they are for programs.
struct Shown {
  std::string_view kind{};
  Rows rows{};
  std::string_view none{};  // What to say where there are none.
};

void say_tables(const std::vector<Shown>& tables, const Arguments& arguments, Terminal& terminal) {
  bool first = true;
  for (const auto& [kind, rows, none] : tables) {
    if (rows.size() < 2 && !none.empty()) terminal.err << none << '\n';
    if (rows.size() < 2) continue;
    if (!std::exchange(first, false) && !arguments.has("--plain")) terminal.out << '\n';
    print_list(rows, arguments, terminal, tables.size() > 1 ? kind : std::string_view{});
  }
}

Rows budget_rows(const Json& json) {
  Rows rows{{"tenant", "period", "spent USD", "in reserve", "limit", "granted", "begins anew"}};
  for (const Json& one : json.at("budgets")) {
    std::string period = word(one.at("period"));
    if (!one.at("run_id").is_null()) period += " " + word(one.at("run_id"));
    rows.push_back({word(one.at("tenant")),
                    std::move(period),
                    word(one.at("spent_usd")),
                    word(one.at("held_usd")),
                    word(one.at("limit_usd")),
                    word(one.at("granted_usd")),
                    word(one.at("resets_at"))});
  }
  return rows;
}

std::vector<Shown> tables_of_status(const Json& json) {
  Rows tenants{{"tenant", "weight", "waiting (interactive, bulk, backfill)", "in flight", "limits", ""}};
  for (const Json& one : json.at("tenants")) {
    const Json& waiting = one.at("waiting");
    tenants.push_back(
        {word(one.at("name")),
         word(one.at("weight")),
         word(waiting.at("interactive")) + ", " + word(waiting.at("bulk")) + ", " + word(waiting.at("backfill")),
         share_word(one.at("in_flight"), one.at("concurrent")),
         rates_word(one),
         paused_word(one.at("paused"))});
  }
  Rows lanes{{"lane", "waiting", ""}};
  for (const Json& one : json.at("lanes"))
    lanes.push_back({word(one.at("name")), word(one.at("waiting")), paused_word(one.at("paused"))});
  Rows upstreams{{"upstream", "in flight", "rates", ""}};
  for (const Json& one : json.at("upstreams")) {
    // Those that nobody uses would hide the others.
    if (one.at("in_flight") == 0 && one.at("paused").is_null() && one.at("rates").empty()) continue;
    upstreams.push_back({word(one.at("name")),
                         share_word(one.at("in_flight"), one.at("concurrent")),
                         "",
                         paused_word(one.at("paused"))});
    for (const Json& group : one.at("rates"))
      upstreams.push_back(
          {"",
           "",
           word(group.at("group")) + " with key " + word(group.at("credential")) + ": " + rates_word(group),
           ""});
  }
  Rows queues{{"queue of runs", "waiting", "scheduled", "running", ""}};
  // Of a callgate before this table there is none.
  for (const Json& one : json.value("queues", Json::array()))
    queues.push_back({one.at("name") == "" ? "(none)" : word(one.at("name")),
                      word(one.at("waiting")),
                      word(one.at("scheduled")),
                      word(one.at("running")),
                      paused_word(one.at("paused"))});
  Rows held{{"waits for", "calls"}};
  for (const auto& [limit, count] : json.at("waiting_for").items()) held.push_back({cell(limit), word(count)});
  Rows calls{{"call", "tenant", "lane", "run", "model", "age", "state", "upstream", "attempt"}};
  for (const Json& one : json.at("calls")) {
    calls.push_back({word(one.at("call_id")),
                     word(one.at("tenant")),
                     word(one.at("lane")),
                     word(one.at("run_id")),
                     word(one.at("model")),
                     word(one.at("age_ms")) + " ms",
                     word(one.at("state")),
                     word(one.at("upstream")),
                     word(one.at("attempt"))});
  }
  const auto in_all = json.at("calls_in_all").get<std::uint64_t>();
  if (in_all >= calls.size()) calls.push_back({"… " + std::to_string(in_all) + " in all"});
  return {{"tenant", tenants},
          {"lane", lanes},
          {"upstream", upstreams},
          {"queue", queues},
          {"waits", held},
          {"budget", budget_rows(json)},
          {"call", calls}};
}

int ask(std::string_view command, std::string_view method, const std::string& path, const Arguments& arguments,
        Terminal& terminal, std::vector<Shown> (*tell)(const Json&)) {
  const auto reply = ask_running(command, method, path, arguments, terminal);
  if (!reply) return reply.error();
  try {
    const Json json = Json::parse(reply->answer.body);
    const int code = reply->answer.status;
    if (arguments.has("--json")) terminal.out << reply->answer.body;
    if (code == 200) {
      if (!arguments.has("--json")) say_tables(tell(json), arguments, terminal);
      return kDone;
    }
    const std::string detail = cell(json.at("detail").get<std::string>());
    if (code != 400 && code != 404) return refused_by(command, *reply, detail, terminal);
    terminal.err << "callgate " << command << ": " << detail << '\n';
    return code == 404 ? kNotFound : kUsage;
  } catch (const Json::exception&) {
    return no_callgate(command, *reply, terminal);
  }
}

std::vector<Shown> nothing(const Json& /*json*/) { return {}; }

/// The same, and what has changed by it.
int ask_and_say(std::string_view command, const std::string& path, const std::string& done,
                const Arguments& arguments, Terminal& terminal) {
  const int code = ask(command, "POST", path, arguments, terminal, nothing);
  if (code == kDone) terminal.err << done << '\n';
  return code;
}

}  // namespace

int status(const Arguments& arguments, Terminal& terminal) {
  return ask("status", "GET", "/v1/status", arguments, terminal, tables_of_status);
}

int cancel(const Arguments& arguments, Terminal& terminal) {
  const std::string call = arguments.words.empty() ? std::string{} : arguments.words[0];
  const std::string run = arguments.get("--run-id");
  const std::string tenant = arguments.get("--tenant");
  const bool hollow = (!arguments.words.empty() && call.empty()) || (arguments.has("--run-id") && run.empty()) ||
                      (arguments.has("--tenant") && tenant.empty());
  if (hollow) return misuse("cancel", "a name is empty; is a variable not set?", terminal);
  const int named = (call.empty() ? 0 : 1) + (run.empty() ? 0 : 1);
  if (named > 1 || (named == 0 && tenant.empty()))
    return misuse(
        "cancel", "needs a call's id, or --run-id, or --tenant (which may stand beside --run-id)", terminal);
  const auto count = [](const Json& json) {
    return std::vector<Shown>{{{}, {{"calls cancelled"}, {word(json.at("count"))}}}};
  };
  return ask("cancel",
             "POST",
             "/v1/cancel" + query_of({{"call", call}, {"run_id", run}, {"tenant", tenant}}),
             arguments,
             terminal,
             count);
}

int pause(const Arguments& arguments, Terminal& terminal) {
  if (arguments.words.size() != 2)
    return misuse("pause", "needs tenant, lane, upstream or queue, and its name", terminal);
  std::string ms;
  if (arguments.has("--for")) {
    const auto time = gateway::read_duration(arguments.get("--for"));
    if (!time || *time <= 0) return misuse("pause", "--for must be a duration such as 90s, 30m or 1h", terminal);
    ms = std::to_string(*time);
  }
  const std::string named = arguments.words[0] + " " + cell(arguments.words[1]);
  return ask_and_say(
      "pause",
      "/v1/pause" + query_of({{"what", arguments.words[0]}, {"name", arguments.words[1]}, {"for_ms", ms}}),
      named + " is paused " + (ms.empty() ? "until it is resumed" : "for " + arguments.get("--for")) +
          "; to end that: callgate resume " + named,
      arguments,
      terminal);
}

int resume(const Arguments& arguments, Terminal& terminal) {
  if (arguments.words.size() != 2)
    return misuse("resume", "needs tenant, lane, upstream or queue, and its name", terminal);
  return ask_and_say("resume",
                     "/v1/resume" + query_of({{"what", arguments.words[0]}, {"name", arguments.words[1]}}),
                     arguments.words[0] + " " + cell(arguments.words[1]) + " goes on",
                     arguments,
                     terminal);
}

/// Its listener goes before its store is closed. Where it runs with other process ids than ours, there is nothing to
/// see.
void wait_until_gone(std::int64_t pid) {
  const std::string file = "/proc/" + std::to_string(pid) + "/comm";
  for (auto left = kClosing; left.count() > 0; left -= kLookAgain) {
    std::string name;
    if (!(std::ifstream{file} >> name) || name != "callgate") return;
    std::this_thread::sleep_for(kLookAgain);
  }
}

int drain(const Arguments& arguments, Terminal& terminal) {
  const bool runs = arguments.has("--runs-only");
  const std::string path = std::string{"/v1/drain?what="} + (runs ? "runs" : "all");
  const std::string done = runs ? "no run and no replay begins any more until callgate is started anew"
                                : "callgate drains, and is gone when its calls are over";
  const int begun = ask_and_say("drain", path, done, arguments, terminal);
  if (begun != kDone || arguments.has("--no-wait")) return begun;
  // The order again says what is left of the runs; a process that drains wholly is waited for until it has gone.
  std::ostringstream unheard;
  std::istringstream none;
  Terminal mute{none, unheard, unheard};
  std::int64_t pid = 0;
  for (;; std::this_thread::sleep_for(kLookAgain)) {
    const auto reply = ask_running("drain", runs ? "POST" : "GET", runs ? path : "/v1/version", arguments, mute);
    if (!reply) {
      if (runs) terminal.err << "callgate drain: callgate went before its runs were over\n";
      if (runs || reply.error() != kUnreachable) return reply.error();
      if (pid > 0) wait_until_gone(pid);
      return kDone;
    }
    const Json json = Json::parse(reply->answer.body, nullptr, false);
    if (!json.is_object()) continue;
    if (runs && json.value("count", -1) == 0) return kDone;
    if (const auto told = json.find("pid"); told != json.end() && told->is_number_integer())
      pid = told->get<std::int64_t>();
  }
}

int budget_show(const Arguments& arguments, Terminal& terminal) {
  const auto rows = [](const Json& json) {
    return std::vector<Shown>{{{}, budget_rows(json), "no tenant has a budget (tenants.*.budget)"}};
  };
  return ask("budget show", "GET", "/v1/budgets", arguments, terminal, rows);
}

int budget_grant(const Arguments& arguments, Terminal& terminal) {
  if (arguments.words.size() != 1)
    return misuse("budget grant", "needs the amount in USD, such as 12.50 (a negative one takes back)", terminal);
  const std::string run = arguments.get("--run-id");
  const std::string tenant = arguments.get("--tenant", "default");
  const std::string period = arguments.get("--period", run.empty() ? "day" : "run");
  return ask_and_say(
      "budget grant",
      "/v1/budgets/grant" +
          query_of({{"tenant", tenant}, {"period", period}, {"run_id", run}, {"usd", arguments.words[0]}}),
      "USD " + cell(arguments.words[0]) + " granted to tenant " + cell(tenant) + " for this " + cell(period) +
          (run.empty() ? "" : " (" + cell(run) + ")") + "; callgate budget show tells what is left",
      arguments,
      terminal);
}

}  // namespace cli
