#include "cli/dead.h"

#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/ask_dead.h"
#include "cli/table.h"
#include "gateway/config_values.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kTextMax = 400;
constexpr std::size_t kPage = 500;  // Letters at once.

/// "callgate COMMAND" on a GET that answers a list: `row_of` each, under the heading, or `none`.
struct List {
  std::string_view command{};
  const char* member{};
  std::vector<std::string> heading{};
  std::string_view none{};
  std::vector<std::string> (*row_of)(const Json& one){};
  std::string_view next{};  // The option that asks for the next page, …
  const char* cursor{};     // … and what of the last row it takes.
};

std::vector<std::string> group_row(const Json& one) {
  return {cell(one.at("group").get<std::string>()),
          std::to_string(count_in(one, "count")),
          told(one, "advice"),
          told(one, "class"),
          told(one, "queue"),
          told(one, "model"),
          told(one, "first_at"),
          told(one, "last_at"),
          told(one, "cost_usd"),
          told(one, "cause")};
}
const std::vector<std::string> kGroupHeading{
    "group", "letters", "advice", "class", "queue", "model", "first", "last", "lost USD", "cause"};

std::vector<std::string> letter_row(const Json& one) {
  return {cell(one.at("id").get<std::string>()),
          told(one, "arrived_at"),
          told(one, "state"),
          told(one, "advice"),
          told(one, "class"),
          told(one, "failures"),
          told(one, "tenant"),
          told(one, "queue"),
          told(one, "model"),
          told(one, "group"),
          told(one, "cost_usd"),
          told(one, "cause")};
}

std::vector<std::string> act_row(const Json& one) {
  return {std::to_string(one.at("seq").get_ref<const Json::number_unsigned_t&>()),
          told(one, "at"),
          told(one, "who"),
          told(one, "act"),
          told(one, "what"),
          told(one, "count"),
          told(one, "reason", kTextMax)};
}

int print(const List& list, const std::string& path, std::size_t page, const Arguments& arguments,
          Terminal& terminal) {
  const auto reply = ask_dead(list.command, "GET", path, arguments, terminal);
  if (!reply) return reply.error();
  const auto json = shallow<Json>(reply->body);
  if (!json) return no_books(list.command, *reply, terminal);
  try {
    Rows rows{list.heading};
    const Json& all = json->at(list.member);
    for (const Json& one : all) rows.push_back(list.row_of(one));
    if (arguments.has("--json")) {
      terminal.out << pages_of(*json);
    } else if (rows.size() == 1) {
      terminal.err << list.none << '\n';
    } else {
      print_list(rows, arguments, terminal);
      if (!list.next.empty() && rows.size() > page)
        terminal.err << "There may be more: " << list.next << ' ' << told(all.back(), list.cursor) << '\n';
    }
    return kDone;
  } catch (const Json::exception&) {
    return no_books(list.command, *reply, terminal);
  }
}

std::size_t page_of(const Arguments& arguments) {
  const std::string most = arguments.get("--most", "100");
  std::size_t number = 100;
  std::from_chars(most.data(), most.data() + most.size(), number);  // What is no number is refused by callgate.
  return number;
}

/// A pointer and a value, of each --set; a JSON object, or what is wrong.
std::expected<std::string, std::string> changes_of(const Arguments& arguments) {
  Json changes = Json::object();
  for (const std::string& text : arguments.all("--set")) {
    const std::size_t equals = text.find('=');
    const std::string pointer = text.substr(0, equals);
    if (equals == std::string::npos || !pointer.starts_with('/')) {
      return std::unexpected("--set must be a JSON pointer and a value, such as /model=gpt-5 (is " +
                             gateway::say(text) + ")");
    }
    if (changes.contains(pointer)) return std::unexpected("--set names " + gateway::say(pointer) + " twice");
    const std::string value = text.substr(equals + 1);
    Json read = Json::parse(value, nullptr, false);
    changes[pointer] = read.is_discarded() ? Json(value) : std::move(read);
  }
  try {
    if (changes.empty()) return std::unexpected("needs --set /POINTER=VALUE");
    return changes.dump(-1, ' ', true);
  } catch (const Json::exception&) {
    return std::unexpected("--set must be UTF-8");
  }
}

std::string readable(const Json& value) {
  std::string text;
  append_readable(text, value, 2);
  return text;
}

}  // namespace

int dead_groups(const Arguments& arguments, Terminal& terminal) {
  const List list{"dead groups", "groups", kGroupHeading, "no such dead letters", group_row};
  return print(
      list, "/v1/dead/groups" + dead_query(arguments, {{"state", arguments.get("--state")}}), 0, arguments, terminal);
}

int dead_list(const Arguments& arguments, Terminal& terminal) {
  const List list{"dead list",
                  "letters",
                  {"letter",
                   "arrived",
                   "state",
                   "advice",
                   "class",
                   "failures",
                   "tenant",
                   "queue",
                   "model",
                   "group",
                   "lost USD",
                   "cause"},
                  "no such dead letters",
                  letter_row,
                  "--after",
                  "id"};
  const std::string query = dead_query(
      arguments,
      {{"state", arguments.get("--state")}, {"after", arguments.get("--after")}, {"most", arguments.get("--most")}});
  return print(list, "/v1/dead" + query, page_of(arguments), arguments, terminal);
}

int dead_audit(const Arguments& arguments, Terminal& terminal) {
  const List list{"dead audit",
                  "acts",
                  {"seq", "at", "who", "act", "what", "count", "reason"},
                  "nothing was done by hand",
                  act_row,
                  "--before",
                  "seq"};
  const std::string query = query_of({{"before", arguments.get("--before")}, {"most", arguments.get("--most")}});
  return print(list, "/v1/audit" + query, page_of(arguments), arguments, terminal);
}

int dead_export(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "dead export";
  if (const auto bad = no_id(arguments)) return misuse(kCommand, *bad + " is no letter's id", terminal);
  const std::string state = arguments.get("--state");
  std::uint64_t letters = 0;
  std::uint64_t gone = 0;
  const auto part = [&](int code) {
    if (letters > 0) terminal.err << "What was written is a part: " << letters << " letters.\n";
    return code;
  };
  for (std::string after;;) {
    const std::string query =
        dead_query(arguments, {{"state", state}, {"after", after}, {"most", std::to_string(kPage)}});
    const auto reply = ask_dead(kCommand, "GET", "/v1/dead" + query, arguments, terminal);
    if (!reply) return part(reply.error());
    const auto page = shallow<Json>(reply->body);
    std::string first = after;
    std::size_t count = 0;
    try {
      if (!page) return part(no_books(kCommand, *reply, terminal));
      for (const Json& one : page->at("letters")) {
        const std::string id = one.at("id").get<std::string>();
        after = id;
        ++count;
        if (!arguments.has("--request")) {
          terminal.out << one.dump(-1, ' ', true, Json::error_handler_t::replace) << '\n';
          ++letters;
          continue;
        }
        if (no_id({.words = {id}})) return part(no_books(kCommand, *reply, terminal));
        std::ostringstream said;
        Terminal aside{terminal.in, terminal.out, said};
        const auto whole =
            ask_dead(kCommand,
                     "GET",
                     "/v1/dead/" + id + query_of({{"tenant", arguments.get("--tenant")}, {"request", "true"}}),
                     arguments,
                     aside,
                     kLargestLetter);
        // Its time was over while others were written.
        if (!whole && whole.error() == kNotFound) {
          ++gone;
          continue;
        }
        terminal.err << said.str();
        if (!whole) return part(whole.error());
        const auto json = shallow<Json>(whole->body);
        if (!json || !json->is_object()) return part(no_books(kCommand, *whole, terminal));
        terminal.out << json->dump(-1, ' ', true, Json::error_handler_t::replace) << '\n';
        ++letters;
      }
    } catch (const Json::exception&) {
      return part(no_books(kCommand, *reply, terminal));
    }
    if (!terminal.out.flush()) return part(kFailed);
    // A callgate whose pages do not move on is none.
    if (count == 0) break;
    if (after == first) return part(no_books(kCommand, *reply, terminal));
  }
  terminal.err << letters << " letters written";
  if (gone > 0) terminal.err << ", " << gone << " were gone by then";
  terminal.err << '\n';
  if (arguments.has("--request") && letters > 0)
    terminal.err << "That their requests were shown stands in callgate dead audit.\n";
  return kDone;
}

int dead_edit(const Arguments& given, Terminal& terminal) {
  constexpr std::string_view kCommand = "dead edit";
  if (given.words.empty()) return misuse(kCommand, "needs a letter's id, as callgate dead list shows it", terminal);
  if (const auto bad = no_id(given)) return misuse(kCommand, *bad + " is no letter's id", terminal);
  const auto changes = changes_of(given);
  if (!changes) return misuse(kCommand, changes.error(), terminal);
  if (!given.has("--reason")) return misuse(kCommand, "needs --reason TEXT, for the audit log", terminal);
  if (const auto nobody = nobody_to_ask(kCommand, {}, given, terminal)) return *nobody;
  // Where other commands have the configuration's keys.
  Arguments arguments = given;
  arguments.options.erase("--set");
  const auto edit = [&](std::string_view dry) {
    return ask_dead(kCommand,
                    "POST",
                    "/v1/dead/" + given.words[0] + "/edit" +
                        query_of({{"set", *changes},
                                  {"reason", given.get("--reason")},
                                  {"tenant", given.get("--tenant")},
                                  {"dry", std::string{dry}}}),
                    arguments,
                    terminal,
                    kLargestLetter);
  };
  auto reply = edit("true");
  if (!reply) return reply.error();
  try {
    auto json = shallow<Json>(reply->body);
    if (!json) return no_books(kCommand, *reply, terminal);
    const Json& difference = json->at("difference");
    if (difference.empty()) {
      terminal.err << "callgate dead edit: this changes nothing\n";
      return kDone;
    }
    for (const Json& change : difference) {
      terminal.err << told(change, "at", kTextMax) << '\n'
                   << toned("  - " + readable(change.at("was")), Tone::Red, terminal.colour_err) << '\n'
                   << "  + " << readable(change.at("is")) << '\n';
    }
    if (const auto code = declined(kCommand, "Change the request so?", {}, given, terminal)) return *code;
    reply = edit("");
    if (!reply) return reply.error();
    json = shallow<Json>(reply->body);
    if (!json) return no_books(kCommand, *reply, terminal);
    const std::uint64_t revision = json->at("revision").get_ref<const Json::number_unsigned_t&>();
    if (given.has("--json")) {
      terminal.out << pages_of(*json);
    } else {
      terminal.out << "revision " << revision << "; callgate dead replay " << given.words[0] << " sends it\n";
    }
    return kDone;
  } catch (const Json::exception&) {
    return no_books(kCommand, *reply, terminal);
  }
}

int dead_discard(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "dead discard";
  if (const auto bad = no_id(arguments)) return misuse(kCommand, *bad + " is no letter's id", terminal);
  if (arguments.words.empty() && !arguments.has("--group") && !arguments.has("--queue") && !arguments.has("--class"))
    return misuse(kCommand, "needs letters' ids, or --group, --queue or --class", terminal);
  if (!arguments.has("--reason")) return misuse(kCommand, "needs --reason TEXT, for the audit log", terminal);
  const std::string name = name_to_type(arguments);
  if (const auto nobody = nobody_to_ask(kCommand, name, arguments, terminal)) return *nobody;
  std::expected<BookReply, int> reply = std::unexpected(kFailed);
  try {
    if (!arguments.has("--confirm") && !(name.empty() && arguments.has("--yes"))) {
      reply = ask_dead(kCommand, "GET", "/v1/dead/groups" + dead_query(arguments), arguments, terminal);
      if (!reply) return reply.error();
      const auto json = shallow<Json>(reply->body);
      if (!json) return no_books(kCommand, *reply, terminal);
      std::uint64_t count = 0;
      Rows rows{kGroupHeading};
      for (const Json& group : json->at("groups")) {
        count += count_in(group, "count");
        rows.push_back(group_row(group));
      }
      if (count == 0) {
        terminal.err << "callgate dead discard: no open letter is meant by this\n";
        return kNotFound;
      }
      print_rows(rows, terminal.err);
      const std::string question =
          "Discard " + std::to_string(count) + (count == 1 ? " letter" : " letters") + "? They are not sent again.";
      if (const auto code = declined(kCommand, question, name, arguments, terminal)) return *code;
    }
    reply = ask_dead(kCommand,
                     "POST",
                     "/v1/dead/discard" + dead_query(arguments, {{"reason", arguments.get("--reason")}}),
                     arguments,
                     terminal);
    if (!reply) return reply.error();
    const auto json = shallow<Json>(reply->body);
    if (!json) return no_books(kCommand, *reply, terminal);
    const std::uint64_t count = json->at("count").get_ref<const Json::number_unsigned_t&>();
    if (arguments.has("--json")) {
      terminal.out << pages_of(*json);
    } else if (count > 0) {
      terminal.out << "discarded: " << count << '\n';
    }
    if (count > 0) return kDone;
    terminal.err << "callgate dead discard: no open letter is meant by this\n";
    return kNotFound;
  } catch (const Json::exception&) {
    return no_books(kCommand, *reply, terminal);
  }
}

}  // namespace cli
