#include "cli/ask_books.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/admin_command.h"
#include "cli/table.h"
#include "gateway/book_answers.h"
#include "ledger/books.h"

namespace cli {
namespace {

std::string encoded(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                       c == '_' || c == '.' || c == '~';
    if (plain) {
      out += c;
    } else {
      out.append({'%', kHex[byte >> 4U], kHex[byte & 15U]});
    }
  }
  return out;
}

}  // namespace

std::string query_of(std::initializer_list<std::pair<std::string_view, std::string>> parameters) {
  std::string query;
  for (const auto& [name, value] : parameters) {
    if (value.empty()) continue;
    query.append(query.empty() ? "?" : "&").append(name).append("=").append(encoded(value));
  }
  return query;
}

std::expected<BookReply, int> ask_books(std::string_view command, const std::string& path, const Arguments& arguments,
                                        Terminal& terminal) {
  if (arguments.has("--store")) {
    const std::string file = arguments.get("--store");
    const auto books = ledger::open_books(file);
    if (!books) {
      terminal.err << "callgate " << command << ": " << books.error() << '\n';
      return std::unexpected(kFailed);
    }
    const std::size_t mark = std::min(path.find('?'), path.size());
    gateway::EndpointAnswer answer = gateway::answer_of_books(**books,
                                                              path.substr(0, mark),
                                                              mark == path.size() ? "" : path.substr(mark + 1),
                                                              std::chrono::system_clock::now());
    return BookReply{file, answer.status, std::move(answer.body)};
  }
  auto reply = ask_running(command, "GET", path, arguments, terminal);
  if (!reply) return std::unexpected(reply.error());
  return BookReply{std::move(reply->address), reply->answer.status, std::move(reply->answer.body)};
}

int refused_books(std::string_view command, const BookReply& reply, Terminal& terminal) {
  const auto json = nlohmann::json::parse(reply.body, nullptr, false);
  const auto detail = json.is_object() ? json.find("detail") : json.end();
  if (!json.is_object() || detail == json.end() || !detail->is_string()) return no_books(command, reply, terminal);
  const std::string text = cell(detail->get<std::string>(), 400);
  if (reply.status == 400 || reply.status == 404) {
    terminal.err << "callgate " << command << ": " << text << '\n';
    return reply.status == 404 ? kNotFound : kUsage;
  }
  return refused_by(command, AdminReply{reply.from, {reply.status, {}}}, text, terminal);
}

int no_books(std::string_view command, const BookReply& reply, Terminal& terminal) {
  return no_callgate(command, AdminReply{reply.from, {}}, terminal);
}

int misuse(std::string_view command, std::string_view what, Terminal& terminal) {
  terminal.err << "callgate " << command << ": " << what << "\nSee \"callgate " << command << " --help\".\n";
  return kUsage;
}

}  // namespace cli
