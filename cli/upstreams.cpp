#include "cli/upstreams.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/admin_command.h"
#include "cli/table.h"
#include "gateway/config_values.h"
#include "gateway/json_out.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

std::string seconds(const Json& ms) {
  if (!ms.is_number()) return "-";
  std::string text;
  gateway::append_number(text, ms.get<std::int64_t>());
  return text + " ms";
}

/// What to print, or nothing: no callgate has said this.
struct Told {
  Rows rows{};
  std::string detail{};  // Of a refusal to answer.
  bool listed = false;   // The first row is a heading.
};

Told told_of_upstreams(const Json& json) {
  Told told;
  told.listed = true;
  told.rows.push_back({"upstream", "in flight", "retries left", "what is the matter"});
  for (const Json& one : json.at("upstreams")) {
    std::vector<std::string> matters;
    for (const Json& breaker : one.at("breakers")) {
      matters.push_back("breaker " + word(breaker.at("state")) + " for " + word(breaker.at("model")) + " (" +
                        word(breaker.at("reason")) + "), next probe in " + seconds(breaker.at("next_probe_ms")));
    }
    for (const Json& credential : one.at("credentials")) {
      if (credential.at("quarantined_for").is_null()) continue;
      matters.push_back("key " + word(credential.at("name")) + " left out (" +
                        word(credential.at("quarantined_for")) + "), next probe in " +
                        seconds(credential.at("next_probe_ms")));
    }
    for (const Json& pause : one.at("pauses")) {
      matters.push_back("pause of " + word(pause.at("group")) + " with key " + word(pause.at("credential")) +
                        ", ends in " + seconds(pause.at("ends_ms")));
    }
    if (matters.empty()) matters.emplace_back("-");
    const auto retries = static_cast<std::int64_t>(one.at("retries_available").get<double>());
    for (std::size_t i = 0; i < matters.size(); ++i) {
      const bool first = i == 0;
      told.rows.push_back({first ? word(one.at("name")) : "",
                           first ? word(one.at("in_flight")) : "",
                           first ? std::to_string(retries) : "",
                           matters[i]});
    }
  }
  return told;
}

void add_attempts(std::vector<std::vector<std::string>>& rows, const Json& attempts) {
  for (const Json& one : attempts) {
    std::string text = word(one.at("upstream")) + " with key " + word(one.at("credential"));
    if (!one.at("model").is_null()) text += " as " + word(one.at("model"));
    if (!one.at("waited_for").is_null())
      text += ", after " + seconds(one.at("wait_ms")) + " (" + word(one.at("waited_for")) + ")";
    text += ": status " + word(one.at("status")) + ", class " + word(one.at("class"));
    if (!one.at("rule").is_null()) text += " by rule " + word(one.at("rule"));
    if (!one.at("hint_ms").is_null()) text += ", asked to wait " + seconds(one.at("hint_ms"));
    text += ", took " + seconds(one.at("ms"));
    if (const Json& tokens = one.at("tokens"); !tokens.is_null()) {
      text += ", tokens " + word(tokens.at("input")) + " in (" + word(tokens.at("cached_input")) + " cached), " +
              word(tokens.at("output")) + " out";
    }
    if (!one.at("cost_usd").is_null())
      text += ", " + word(one.at("cost_usd")) + " USD (" + word(one.at("cost_source")) + ")";
    if (one.at("possibly_billed") == true) text += ", possibly billed";
    // To budgets, where that is not the cost: of what a crash or a timeout cut off the worst case.
    if (const auto charged = one.find("charged_usd");
        charged != one.end() && !charged->is_null() && *charged != one.at("cost_usd"))
      text += ", charged " + word(*charged) + " USD";
    if (!one.at("detail").is_null()) text += "; " + word(one.at("detail"));
    if (!one.at("next").is_null()) text += " -> " + word(one.at("next"));
    rows.push_back({"attempt " + word(one.at("number")), std::move(text)});
  }
}

Told told_of_call(const Json& json) {
  Told told;
  const auto line = [&](const char* name, std::string text) { told.rows.push_back({name, std::move(text)}); };
  line("call", word(json.at("call_id")));
  line("asked",
       word(json.at("method")) + " " + word(json.at("path")) + " at " + word(json.at("route")) + ", model " +
           word(json.at("model")) + ", lane " + word(json.at("lane")));
  line("tenant", word(json.at("tenant")));
  line("run", word(json.at("run_id")));
  line("queue", word(json.at("queue")));
  std::string labels;
  for (const auto& [name, value] : json.at("labels").items())
    labels += (labels.empty() ? "" : ", ") + cell(name) + "=" + word(value);
  if (!labels.empty()) line("labels", labels);
  if (!json.at("idempotency_key").is_null() || !json.at("once").is_null()) {
    std::string once = word(json.at("idempotency_key")) + ": " + word(json.at("once"));
    if (!json.at("origin").is_null()) once += " from call " + word(json.at("origin"));
    if (!json.at("saved_usd").is_null()) once += ", " + word(json.at("saved_usd")) + " USD saved";
    line("idempotency", once);
  }
  line("state", word(json.at("state")));
  line("ended",
       word(json.at("ended_at")) + " after " + seconds(json.at("duration_ms")) + " (" + seconds(json.at("queue_ms")) +
           " waiting for its turn, " + seconds(json.at("backoff_ms")) + " between attempts)");
  line("outcome",
       word(json.at("outcome")) + ", status " + word(json.at("status")) + ", class " + word(json.at("class")) +
           ", reason " + word(json.at("reason")));
  line("cost", json.at("cost_usd").is_null() ? "unknown" : word(json.at("cost_usd")) + " USD");
  add_attempts(told.rows, json.at("attempts"));
  return told;
}

std::optional<Told> read(const AdminAnswer& answer, Told (*tell)(const Json&)) {
  try {
    const Json json = Json::parse(answer.body);
    if (answer.status == 200) return tell(json);
    Told told;
    told.detail = cell(json.at("detail").get<std::string>());
    return told;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

int ask(std::string_view command, const std::string& path, Told (*tell)(const Json&), const Arguments& arguments,
        Terminal& terminal) {
  const auto reply = ask_running(command, "GET", path, arguments, terminal);
  if (!reply) return reply.error();
  const std::optional<Told> told = read(reply->answer, tell);
  if (!told) return no_callgate(command, *reply, terminal);
  if (arguments.has("--json")) terminal.out << reply->answer.body;
  if (reply->answer.status == 404) {
    terminal.err << "callgate " << command << ": " << told->detail << '\n';
    return kNotFound;
  }
  if (reply->answer.status != 200) return refused_by(command, *reply, told->detail, terminal);
  if (arguments.has("--json")) return kDone;
  if (told->listed) {
    print_list(told->rows, arguments, terminal);
  } else {
    print_rows(told->rows, terminal.out);
  }
  return kDone;
}

}  // namespace

std::optional<std::vector<std::vector<std::string>>> rows_of_call(const std::string& json) {
  try {
    return told_of_call(Json::parse(json)).rows;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::optional<std::vector<std::vector<std::string>>> rows_of_attempts(const std::string& json) {
  try {
    std::vector<std::vector<std::string>> rows;
    add_attempts(rows, Json::parse(json));
    return rows;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

int upstreams(const Arguments& arguments, Terminal& terminal) {
  return ask("upstreams", "/v1/upstreams", told_of_upstreams, arguments, terminal);
}

int explain(const Arguments& arguments, Terminal& terminal) {
  if (arguments.words.empty()) {
    terminal.err
        << "callgate explain: needs a call's id, as in Callgate-Call-Id and in the log\nSee \"callgate explain "
           "--help\".\n";
    return kUsage;
  }
  const std::string& id = arguments.words[0];
  if (id.size() > 64 ||
      id.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != id.npos) {
    terminal.err << "callgate explain: " << gateway::say(id)
                 << " is no call's id; one looks like "
                    "0193c3b5-7d43-7b1c-a4c4-3e2f5b8d9a10\n";
    return kUsage;
  }
  return ask("explain", "/v1/calls/" + id, told_of_call, arguments, terminal);
}

}  // namespace cli
