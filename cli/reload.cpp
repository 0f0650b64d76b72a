#include "cli/reload.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/admin_command.h"
#include "cli/config.h"
#include "gateway/reload.h"

namespace cli {
namespace {

using Json = nlohmann::json;
using gateway::Problem;

constexpr std::string_view kCommand = "reload";

/// What callgate answered, enough of it to be printed.
struct Told {
  std::vector<gateway::Change> changed{};
  std::vector<std::string> restart_needed{};
  std::vector<Problem> problems{};
  std::string detail{};  // Of a refusal to answer.
};

std::string text_in(const Json& value) { return value.is_null() ? std::string{} : value.get<std::string>(); }

std::vector<Problem> problems_in(const Json& answer) {
  std::vector<Problem> problems;
  for (const Json& one : answer.at("problems")) {
    Problem problem;
    const bool warning = one.at("severity") == name_of(Problem::Severity::Warning);
    problem.severity = warning ? Problem::Severity::Warning : Problem::Severity::Error;
    problem.file = one.at("file");
    problem.line = one.at("line");
    problem.column = one.at("column");
    problem.path = one.at("path");
    problem.message = one.at("message");
    problems.push_back(std::move(problem));
  }
  return problems;
}

/// Nothing: no callgate has said this. Anything may listen at an address, and answer anything.
std::optional<Told> read(const AdminAnswer& answer) {
  try {
    const Json json = Json::parse(answer.body);
    Told told;
    if (answer.status != 200 && answer.status != 422) {
      told.detail = json.at("detail");
      return told;
    }
    for (const Json& change : json.at("changed")) {
      told.changed.push_back({change.at("path"), text_in(change.at("from")), text_in(change.at("to"))});
    }
    told.restart_needed = json.at("restart_needed").get<std::vector<std::string>>();
    told.problems = problems_in(json);
    return told;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string shown(const std::string& value) { return value.empty() ? "(absent)" : value; }

void print_done(const Told& told, Terminal& terminal) {
  terminal.out << (told.changed.empty() ? "nothing has changed\n" : "reloaded:\n");
  for (const gateway::Change& change : told.changed) {
    terminal.out << "  " << change.path << ": " << shown(change.from) << " -> " << shown(change.to) << '\n';
  }
  for (const std::string& key : told.restart_needed) {
    terminal.out << key << ": keeps its old value until a restart\n";
  }
}

}  // namespace

int reload(const Arguments& arguments, Terminal& terminal) {
  const auto reply = ask_running(kCommand,
                                 "POST",
                                 arguments.has("--accept-weaker") ? "/v1/reload?accept_weaker=true" : "/v1/reload",
                                 arguments,
                                 terminal);
  if (!reply) return reply.error();
  const AdminAnswer& answer = reply->answer;
  const std::optional<Told> told = read(answer);
  if (!told) return no_callgate(kCommand, *reply, terminal);
  const bool as_json = arguments.has("--json");
  if (as_json) terminal.out << answer.body;
  if (answer.status != 200 && answer.status != 422) return refused_by(kCommand, *reply, told->detail, terminal);
  if (!as_json) {
    if (answer.status == 200) print_done(*told, terminal);
    print_problems(told->problems, answer.status == 200 ? terminal.err : terminal.out, terminal.colour_out);
  }
  if (answer.status == 200) return kDone;
  terminal.err << "callgate reload: refused; the old configuration stays\n";
  return kInvalid;
}

}  // namespace cli
