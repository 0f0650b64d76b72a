#include "cli/ask_dead.h"

#include <algorithm>
#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/admin_command.h"
#include "gateway/config_values.h"
#include "gateway/dead_answers.h"
#include "ledger/books.h"

namespace cli {
namespace {

constexpr std::string_view kIdLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
constexpr std::size_t kLongestId = 64;
constexpr std::size_t kLongestPath = 60'000;  // The admin listener takes heads of 64 KiB.

/// A file has no writer, so what would be audited is not asked of one.
std::expected<BookReply, int> ask_file(std::string_view command, const std::string& path, const Arguments& arguments,
                                       Terminal& terminal) {
  const std::string file = arguments.get("--store");
  const auto books = ledger::open_books(file);
  if (!books) {
    terminal.err << "callgate " << command << ": " << books.error() << '\n';
    return std::unexpected(kFailed);
  }
  gateway::DeadSources sources;
  sources.books = [&](const std::function<void(ledger::Books&)>& question) {
    question(**books);
    return true;
  };
  const std::size_t mark = std::min(path.find('?'), path.size());
  gateway::EndpointAnswer answer = gateway::answer_of_dead(sources,
                                                           "GET",
                                                           path.substr(0, mark),
                                                           mark == path.size() ? "" : path.substr(mark + 1),
                                                           std::chrono::system_clock::now());
  return BookReply{file, answer.status, std::move(answer.body)};
}

}  // namespace

std::string dead_query(const Arguments& arguments,
                       std::initializer_list<std::pair<std::string_view, std::string>> more) {
  std::string ids;
  for (const std::string& id : arguments.words) ids += (ids.empty() ? "" : ",") + id;
  std::string query = query_of({{"id", ids},
                                {"group", arguments.get("--group")},
                                {"queue", arguments.get("--queue")},
                                {"class", arguments.get("--class")},
                                {"tenant", arguments.get("--tenant")},
                                {"model", arguments.get("--model")},
                                {"upstream", arguments.get("--upstream")},
                                {"advice", arguments.get("--advice")},
                                {"key", arguments.get("--key")},
                                {"run_id", arguments.get("--run-id")},
                                {"since", arguments.get("--since")},
                                {"until", arguments.get("--until")}});
  std::string rest = query_of(more);
  if (!query.empty() && !rest.empty()) rest[0] = '&';
  return query + rest;
}

std::optional<std::string> no_id(const Arguments& arguments) {
  for (const std::string& id : arguments.words) {
    if (id.empty() || id.size() > kLongestId || id.find_first_not_of(kIdLetters) != std::string::npos)
      return gateway::say(id);
  }
  return std::nullopt;
}

std::expected<BookReply, int> ask_dead(std::string_view command, std::string_view method, const std::string& path,
                                       const Arguments& arguments, Terminal& terminal, std::size_t largest) {
  if (path.size() > kLongestPath)
    return std::unexpected(misuse(command, "this is too much at once; name a group, or fewer letters", terminal));
  BookReply answered;
  if (arguments.has("--store")) {
    auto read = ask_file(command, path, arguments, terminal);
    if (!read) return read;
    answered = std::move(*read);
  } else {
    auto reply = ask_running(command, method, path, arguments, terminal, largest);
    if (!reply) return std::unexpected(reply.error());
    answered = BookReply{std::move(reply->address), reply->answer.status, std::move(reply->answer.body)};
  }
  if (answered.status >= 200 && answered.status < 300) return answered;
  const int code = refused_books(command, answered, terminal);
  return std::unexpected(answered.status == 409 && code == kFailed ? kConflict : code);
}

std::string name_to_type(const Arguments& arguments) {
  if (!arguments.words.empty()) return {};
  for (const std::string_view narrower :
       {"--group", "--class", "--model", "--upstream", "--advice", "--key", "--run-id"}) {
    if (arguments.has(narrower)) return {};
  }
  return arguments.get("--queue", "all");
}

std::optional<int> nobody_to_ask(std::string_view command, const std::string& name, const Arguments& arguments,
                                 Terminal& terminal) {
  if (arguments.has("--confirm")) {
    if (arguments.get("--confirm") == name || (name.empty() && arguments.has("--yes"))) return std::nullopt;
    return misuse(command,
                  "--confirm must be " + (name.empty() ? "left out: --yes agrees to this" : cell(name)) + " (is " +
                      gateway::say(arguments.get("--confirm")) + ")",
                  terminal);
  }
  if (terminal.in_person || (name.empty() && arguments.has("--yes"))) return std::nullopt;
  if (name.empty()) return misuse(command, "there is no terminal to ask for consent; --yes gives it", terminal);
  return misuse(
      command,
      "this is much, and there is no terminal to ask for consent; --confirm " + gateway::say(name) + " gives it",
      terminal);
}

std::optional<int> declined(std::string_view command, std::string_view question, const std::string& name,
                            const Arguments& arguments, Terminal& terminal) {
  if (const auto nobody = nobody_to_ask(command, name, arguments, terminal)) return nobody;
  if (arguments.has("--confirm") || (name.empty() && arguments.has("--yes"))) return std::nullopt;
  terminal.err << question << (name.empty() ? " [y/N] " : " Type " + cell(name) + " to agree: ") << std::flush;
  std::string answer;
  std::getline(terminal.in, answer);
  while (!answer.empty() && (answer.back() == ' ' || answer.back() == '\r')) answer.pop_back();
  const bool typed = !name.empty() && answer == name;
  std::ranges::transform(answer, answer.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  if (typed || (name.empty() && (answer == "y" || answer == "yes"))) return std::nullopt;
  terminal.err << "callgate " << command << ": not agreed to, so nothing was done\n";
  return kFailed;
}

}  // namespace cli
