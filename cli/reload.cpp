#include "cli/reload.h"

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "cli/admin_client.h"
#include "cli/config.h"
#include "gateway/config_files.h"
#include "gateway/config_values.h"

namespace cli {
namespace {

using Json = nlohmann::json;
using gateway::Problem;

constexpr std::chrono::milliseconds kPatience{10'000};

/// As it came over the wire; enough to be printed like our own.
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

std::string shown(const Json& value) { return value.is_string() ? value.get<std::string>() : "(absent)"; }

void print_done(const Json& answer, Terminal& terminal) {
  const bool changed = !answer.at("changed").empty();
  terminal.out << (changed ? "reloaded:\n" : "nothing has changed\n");
  for (const Json& change : answer.at("changed")) {
    terminal.out << "  " << change.at("path").get<std::string>() << ": " << shown(change.at("from")) << " -> "
                 << shown(change.at("to")) << '\n';
  }
  for (const Json& key : answer.at("restart_needed")) {
    terminal.out << key.get<std::string>() << ": keeps its old value until a restart\n";
  }
}

int told(const AdminAnswer& answer, const std::string& address, bool as_json, Terminal& terminal) {
  const Json json = Json::parse(answer.body, nullptr, false);
  const bool readable = json.is_object();
  if (as_json && readable) terminal.out << answer.body;
  if (readable && (answer.status == 200 || answer.status == 422)) {
    if (!as_json) {
      if (answer.status == 200) print_done(json, terminal);
      print_problems(problems_in(json), answer.status == 200 ? terminal.err : terminal.out, terminal.colour_out);
    }
    if (answer.status == 200) return kDone;
    terminal.err << "callgate reload: refused; the old configuration stays\n";
    return kInvalid;
  }
  const std::string why = readable ? json.value("detail", "") : "";
  terminal.err << "callgate reload: callgate at " << address << " answers " << answer.status
               << (why.empty() ? "" : ": " + why) << '\n';
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
    const auto secret = gateway::read_secret(token, gateway::process_environment());
    if (!secret) {
      terminal.err << "callgate reload: listen.admin_token " << secret.error() << '\n';
      return kFailed;
    }
    request.token = *secret;
  }
  const auto answer = ask_admin(request, kPatience);
  if (answer) return told(*answer, request.address, arguments.has("--json"), terminal);
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
