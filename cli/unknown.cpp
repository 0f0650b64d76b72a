#include "cli/unknown.h"

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
#include "gateway/json_out.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCommand = "unknown";
constexpr std::size_t kCellMax = 64;

/// What callgate answered, ready to be printed.
struct Told {
  std::vector<std::vector<std::string>> rows{};  // Without the heading.
  std::vector<std::string> case_lines{};         // One a row.
  std::uint64_t dropped = 0;
  std::string detail{};  // Of a refusal to answer.
};

/// Anything may listen at an address, and say what moves a terminal's cursor.
std::string cell(const std::string& text) {
  std::string out;
  gateway::append_escaped(out, text, kCellMax);
  return out;
}

std::optional<Told> read(const AdminAnswer& answer) {
  try {
    const Json json = Json::parse(answer.body);
    Told told;
    if (answer.status != 200) {
      told.detail = cell(json.at("detail").get<std::string>());
      return told;
    }
    for (const Json& one : json.at("answers")) {
      const auto word = [&one](const char* key) { return cell(one.at(key).get<std::string>()); };
      told.rows.push_back({word("fingerprint"),
                           word("upstream"),
                           std::to_string(one.at("status").get<int>()),
                           word("class"),
                           std::to_string(one.at("count").get<std::uint64_t>()),
                           word("first_seen"),
                           word("last_seen"),
                           word("last_call_id")});
      // Read and written anew: one line, whatever it was.
      told.case_lines.push_back(Json::parse(one.at("case_line").get<std::string>()).dump(-1, ' ', true));
    }
    told.dropped = json.at("dropped");
    return told;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void print(Told told, const Arguments& arguments, Terminal& terminal) {
  if (told.rows.empty()) {
    (arguments.has("--plain") ? terminal.err : terminal.out) << "no unknown answers since callgate was started\n";
    return;
  }
  told.rows.insert(told.rows.begin(),
                   {"fingerprint", "upstream", "status", "class", "count", "first seen", "last seen", "last call"});
  if (arguments.has("--plain")) {
    for (std::size_t i = 0; i < told.case_lines.size(); ++i) told.rows[i + 1].push_back(told.case_lines[i]);
    print_list(told.rows, arguments, terminal);
    return;
  }
  const std::vector<std::string> lines = aligned(told.rows);
  terminal.out << toned(lines[0], Tone::Bold, terminal.colour_out) << '\n';
  for (std::size_t i = 0; i < told.case_lines.size(); ++i) {
    terminal.out << lines[i + 1] << '\n' << told.case_lines[i] << '\n';
  }
  if (told.dropped > 0) {
    terminal.err << told.dropped << " more had to make room for these; callgate_unknown_answers_total counts all\n";
  }
}

}  // namespace

int unknown(const Arguments& arguments, Terminal& terminal) {
  const auto reply = ask_running(kCommand, "GET", "/v1/unknown-answers", arguments, terminal);
  if (!reply) return reply.error();
  std::optional<Told> told = read(reply->answer);
  if (!told) return no_callgate(kCommand, *reply, terminal);
  if (arguments.has("--json")) terminal.out << reply->answer.body;
  if (reply->answer.status != 200) return refused_by(kCommand, *reply, told->detail, terminal);
  if (!arguments.has("--json")) print(std::move(*told), arguments, terminal);
  return kDone;
}

}  // namespace cli
