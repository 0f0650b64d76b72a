#pragma once
// How is callgate asked about dead letters and replays (gateway/dead_answers.h) and about runs
// (gateway/run_answers.h), and whom does one ask before much is changed?

#include <cstddef>
#include <cstdint>
#include <expected>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/ask_books.h"
#include "cli/command.h"
#include "cli/table.h"
#include "gateway/json_out.h"

namespace cli {

inline constexpr std::size_t kLargestLetter = 512ULL * 1024 * 1024;  // A body of 64 MiB is longer as JSON.

/// The letters that the arguments mean, ids and options, and what else is asked: "?group=…&reason=…".
[[nodiscard]] std::string dead_query(const Arguments& arguments,
                                     std::initializer_list<std::pair<std::string_view, std::string>> more = {});
/// None of the words is an id: the first such, as it is said.
[[nodiscard]] std::optional<std::string> no_id(const Arguments& arguments);

/// The answer if it is a good one; else the exit code, and why stands on terminal.err by then. --store, where a
/// command has it, is read instead.
[[nodiscard]] std::expected<BookReply, int> ask_dead(std::string_view command, std::string_view method,
                                                     const std::string& path, const Arguments& arguments,
                                                     Terminal& terminal, std::size_t largest = 8 * 1024 * 1024);

/// What has to be typed for consent instead of "y": the queue's name where all its letters are meant, "all" where
/// nothing narrower is named. Empty: "y" will do.
[[nodiscard]] std::string name_to_type(const Arguments& arguments);
/// Can nobody be asked, and is nothing agreed to by --yes (by --confirm NAME, where a name has to be typed)? Says the
/// mend; the exit code.
[[nodiscard]] std::optional<int> nobody_to_ask(std::string_view command, const std::string& name,
                                               const Arguments& arguments, Terminal& terminal);
/// Asks, unless it was agreed to beforehand. Nothing: agreed; else the exit code.
[[nodiscard]] std::optional<int> declined(std::string_view command, std::string_view question,
                                          const std::string& name, const Arguments& arguments, Terminal& terminal);

/// A JSON library's value of what was answered; nothing: it is none, or nested deeper than any that callgate gives,
/// so that what walks through it is safe.
template <typename Json>
[[nodiscard]] std::optional<Json> shallow(const std::string& body) {
  constexpr int kDeepest = 256;  // A request is shown as it is up to 200.
  bool deep = false;
  Json json = Json::parse(
      body,
      [&deep](int depth, auto, auto&) {
        deep = deep || depth > kDeepest;
        return !deep;
      },
      false);
  if (json.is_discarded() || deep) return std::nullopt;
  return json;
}

/// A member as a cell: "-" where it is not there, null or empty.
template <typename Json>
[[nodiscard]] std::string told(const Json& one, const char* name, std::size_t most = 96) {
  const auto found = one.find(name);
  if (found == one.end() || found->is_null()) return "-";
  return cell(found->is_string() ? found->template get<std::string>() : found->dump(), most);
}
/// A count; throws what the library does where it is none. Not there: 0.
template <typename Json>
[[nodiscard]] std::uint64_t count_in(const Json& one, const char* name) {
  const auto found = one.find(name);
  if (found == one.end()) return 0;
  return found->template get_ref<const typename Json::number_unsigned_t&>();
}
/// As it came, but ASCII, on several lines.
template <typename Json>
[[nodiscard]] std::string pages_of(const Json& json) {
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

/// Readable JSON: letters as they are, but nothing that a terminal obeys.
template <typename Json>
void append_readable(std::string& out, const Json& value, std::size_t depth) {
  const auto line = [&](std::size_t to) { out.append("\n").append(2 * to, ' '); };
  if (value.is_string()) {
    const auto& text = value.template get_ref<const std::string&>();
    gateway::append_json(out, text, text.size());
  } else if (value.is_structured() && !value.empty()) {
    out += value.is_object() ? '{' : '[';
    bool first = true;
    for (const auto& [name, member] : value.items()) {
      if (!first) out += ',';
      first = false;
      line(depth + 1);
      if (value.is_object()) {
        gateway::append_json(out, name, name.size());
        out += ": ";
      }
      append_readable(out, member, depth + 1);
    }
    line(depth);
    out += value.is_object() ? '}' : ']';
  } else {
    out += value.dump();
  }
}

}  // namespace cli
