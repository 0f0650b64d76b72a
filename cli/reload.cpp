#include "cli/reload.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/admin_client.h"
#include "cli/config.h"
#include "gateway/config_files.h"
#include "gateway/config_values.h"
#include "gateway/reload.h"

namespace cli {
namespace {

using Json = nlohmann::json;
using gateway::Problem;

constexpr std::chrono::milliseconds kPatience{10'000};

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

int tell(const AdminAnswer& answer, const std::string& address, bool as_json, Terminal& terminal) {
  const std::optional<Told> told = read(answer);
  if (!told) {
    terminal.err << "callgate reload: what listens at " << address
                 << " is no callgate\nGive the address of its admin listener with --admin.\n";
    return kUnreachable;
  }
  if (as_json) terminal.out << answer.body;
  if (answer.status == 200 || answer.status == 422) {
    if (!as_json) {
      if (answer.status == 200) print_done(*told, terminal);
      print_problems(told->problems, answer.status == 200 ? terminal.err : terminal.out, terminal.colour_out);
    }
    if (answer.status == 200) return kDone;
    terminal.err << "callgate reload: refused; the old configuration stays\n";
    return kInvalid;
  }
  terminal.err << "callgate reload: callgate at " << address << " answers " << answer.status << ": " << told->detail
               << '\n';
  if (answer.status == 401 || answer.status == 403) return kDenied;
  return answer.status == 503 ? kTimedOut : kFailed;
}

}  // namespace

int reload(const Arguments& arguments, Terminal& terminal) {
  const std::string named = arguments.get("--admin");
  if (arguments.has("--admin") && !gateway::read_address(named)) {
    terminal.err << "callgate reload: --admin must be an address such as 127.0.0.1:4602 or unix:/path (is "
                 << gateway::say(named) << ")\nSee \"callgate reload --help\".\n";
    return kUsage;
  }
  // What is wrong with the file is the running callgate's to say; here it only tells where that is.
  const gateway::Loaded loaded = load(arguments, terminal);
  AdminRequest request;
  request.address = arguments.get("--admin", loaded.config.listen.admin);
  request.method = "POST";
  request.path = "/v1/reload";
  const gateway::SecretSource& token = loaded.config.listen.admin_token;
  if (token.given()) {
    const auto secret = gateway::read_token(token, gateway::process_environment());
    if (!secret) {
      terminal.err << "callgate reload: listen.admin_token " << secret.error() << '\n';
      return kFailed;
    }
    request.token = *secret;
  }
  const auto answer = ask_admin(request, kPatience);
  if (answer) return tell(*answer, request.address, arguments.has("--json"), terminal);
  terminal.err << "callgate reload: cannot ask callgate at " << request.address << ": " << answer.error().why << '\n';
  if (!loaded.usable() && !arguments.has("--admin")) {
    terminal.err
        << "The configuration has errors, so this may be the wrong address; name the right one with --admin.\n";
    print_problems(loaded.problems, terminal.err, terminal.colour_err);
  } else if (!answer.error().timed_out) {
    terminal.err << "Is it running, and with this configuration? --admin names another address.\n";
  }
  return answer.error().timed_out ? kTimedOut : kUnreachable;
}

}  // namespace cli
