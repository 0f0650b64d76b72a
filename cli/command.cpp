#include "cli/command.h"

#include <algorithm>
#include <istream>
#include <optional>
#include <ostream>
#include <set>

#include "cli/plain_output.h"
#include "gateway/config_values.h"

namespace cli {
namespace {

constexpr ExitMeaning kExitCodes[] = {
    {kDone, "done"},
    {kFailed, "failed; stderr says why"},
    {kUsage, "wrong usage: unknown command, option or argument"},
    {kInvalid, "invalid configuration, or a check that found something; a refused reload"},
    {kNotFound, "what was named does not exist"},
    {kUnreachable, "callgate or what it needs cannot be reached"},
    {kDenied, "not allowed"},
    {kPartly, "partly done: some of many failed"},
    {kConflict, "things have changed since they were planned"},
    {kTimedOut, "timed out while waiting"},
    {130, "ended by Ctrl-C; serve drains instead and ends with 0, or 1"},
    {143, "ended by SIGTERM; serve drains instead and ends with 0, or 1"},
};

constexpr Option kHelp{.name = "--help", .value = {}, .meaning = "Show this help (also -h)."};
constexpr Option kNoColour{.name = "--no-color", .value = {}, .meaning = "No colours (as NO_COLOR=1)."};
constexpr Option kNoInput{.name = "--no-input",
                          .value = {},
                          .meaning = "Never ask; where consent is needed, fail and say which option gives it."};
constexpr Option kTimeout{
    .name = "--timeout", .value = "TIME", .meaning = "How long callgate has for an answer; 10s without it."};

bool has_option(const Command& command, std::string_view name) {
  return std::ranges::find(command.options, name, &Option::name) != command.options.end();
}

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> out;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    out.emplace_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return out;
}

std::string join(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// Does the command begin with these words? ("config" is the beginning of "config show".)
bool begins(const Command& command, std::span<const std::string> words) {
  const std::vector<std::string> own = split(command.words);
  return words.size() <= own.size() && std::equal(words.begin(), words.end(), own.begin());
}

/// The command whose words begin the line, the most of them ("spend reconcile" before "spend"), and how many those
/// are.
const Command* find(std::span<const std::string> words, std::size_t& used) {
  const Command* found = nullptr;
  for (const Command& command : commands()) {
    const std::vector<std::string> own = split(command.words);
    if (own.size() > words.size() || !std::equal(own.begin(), own.end(), words.begin())) continue;
    if (found != nullptr && own.size() <= used) continue;
    found = &command;
    used = own.size();
  }
  return found;
}

std::vector<std::string> next_words(std::span<const std::string> group) {
  std::vector<std::string> out;
  for (const Command& command : commands()) {
    const std::vector<std::string> own = split(command.words);
    if (begins(command, group) && own.size() > group.size() &&
        std::ranges::find(out, own[group.size()]) == out.end()) {
      out.push_back(own[group.size()]);
    }
  }
  return out;
}

void print_column(std::ostream& out, std::string_view left, std::string_view right, std::size_t width) {
  out << "  " << left << std::string(width - std::min(width, left.size()) + 2, ' ') << right << '\n';
}

void print_list(std::ostream& out, std::span<const std::string> group) {
  std::size_t width = 0;
  for (const Command& command : commands()) {
    if (begins(command, group)) width = std::max(width, command.words.size());
  }
  for (const Command& command : commands()) {
    if (begins(command, group)) print_column(out, command.words, command.summary, width);
  }
}

void print_overview(std::ostream& out, bool colour) {
  const auto title = [&](std::string_view text) { out << toned(text, Tone::Bold, colour) << '\n'; };
  out << "callgate stands between background workers and LLM providers.\n\n";
  title("Examples");
  print_column(out, "callgate serve", "with the defaults, on http://127.0.0.1:4600", 40);
  print_column(out, "callgate validate callgate.yaml", "every problem of a configuration", 40);
  print_column(out, "callgate config show", "what holds in the end, and why", 40);
  out << '\n';
  title("Commands");
  print_list(out, {});
  out << "\ncallgate help COMMAND says more; callgate help exit-codes lists the exit codes.\n";
}

void print_group(std::ostream& out, std::span<const std::string> group, bool colour) {
  const auto title = [&](std::string_view text) { out << toned(text, Tone::Bold, colour) << '\n'; };
  title("Examples");
  std::size_t width = 0;
  for (const Command& command : commands()) {
    if (begins(command, group) && !command.examples.empty()) width = std::max(width, command.examples[0].line.size());
  }
  for (const Command& command : commands()) {
    if (begins(command, group) && !command.examples.empty()) {
      print_column(out, command.examples[0].line, command.examples[0].says, width);
    }
  }
  out << '\n';
  title("Commands");
  print_list(out, group);
}

void print_command(std::ostream& out, const Command& command, bool colour) {
  const auto title = [&](std::string_view text) { out << '\n' << toned(text, Tone::Bold, colour) << '\n'; };
  out << command.summary << '\n';
  if (!command.examples.empty()) title("Examples");
  std::size_t width = 0;
  for (const Example& example : command.examples) width = std::max(width, example.line.size());
  for (const Example& example : command.examples) print_column(out, example.line, example.says, width);

  title("Usage");
  out << "  callgate " << command.words << (command.options.empty() ? "" : " [OPTION…]");
  if (!command.arguments.empty()) out << ' ' << command.arguments;
  out << '\n';

  title("Options");
  const std::vector<Option> options = options_of(command);
  const auto shown = [](const Option& option) {
    return std::string{option.name} + (option.value.empty() ? "" : " " + std::string{option.value});
  };
  width = 0;
  for (const Option& option : options) width = std::max(width, shown(option).size());
  for (const Option& option : options) print_column(out, shown(option), option.meaning, width);
  if (!command.details.empty()) out << '\n' << command.details << '\n';
}

/// Words of a line that no command has.
int unknown_command(std::span<const std::string> words, Terminal& terminal) {
  std::size_t known = 0;
  while (known < words.size() &&
         std::ranges::any_of(commands(), [&](const Command& c) { return begins(c, words.first(known + 1)); })) {
    ++known;
  }
  const std::string group = join(words.first(known));
  const std::string prefix = "callgate " + (group.empty() ? "" : group + " ");
  if (known == words.size()) {
    terminal.err << "callgate: " << group << " needs one more word\n\n";
    print_group(terminal.err, words, terminal.colour_err);
    return kUsage;
  }
  const std::string& word = words[known];
  terminal.err << "callgate: unknown command: " << prefix.substr(9) << gateway::say(word) << '\n';
  const std::vector<std::string> names = next_words(words.first(known));
  if (const std::string meant = gateway::nearest(word, names); !meant.empty()) {
    terminal.err << "Did you mean \"" << prefix << meant << "\"?\n";
  } else {
    terminal.err << "See \"" << prefix << "--help\".\n";
  }
  return kUsage;
}

int misused(const Command& command, Terminal& terminal, const std::string& message) {
  terminal.err << "callgate " << command.words << ": " << message << "\nSee \"callgate " << command.words
               << " --help\".\n";
  return kUsage;
}

/// Reads what stands behind the command's words; says what is wrong, or nothing.
std::optional<std::string> read_arguments(const Command& command, std::span<const std::string> rest,
                                          Arguments& into) {
  const std::vector<Option> options = options_of(command);
  bool options_ended = false;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const std::string& word = rest[i];
    if (options_ended || word == "-" || !word.starts_with('-')) {
      into.words.push_back(word);
      continue;
    }
    if (word == "--") {
      options_ended = true;
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word == "-y" ? "--yes" : word.substr(0, equals);
    const auto option = std::ranges::find(options, name, &Option::name);
    if (option == options.end()) {
      std::vector<std::string> names;
      for (const Option& known : options) names.emplace_back(known.name);
      const std::string meant = gateway::nearest(name, names);
      return "unknown option " + gateway::say(name) + (meant.empty() ? "" : "; did you mean " + meant + "?");
    }
    std::string value;
    if (option->value.empty()) {
      if (equals != std::string::npos) return name + " takes no value";
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (++i < rest.size()) {
      value = rest[i];
    } else {
      return name + " needs a value: " + name + " " + std::string{option->value};
    }
    if (!option->value.empty() && value.empty())
      return name + " must not be empty: " + name + " " + std::string{option->value};
    std::vector<std::string>& values = into.options[name];
    if (!values.empty() && !option->repeated) return name + " is given twice";
    values.push_back(std::move(value));
  }
  if (std::ranges::any_of(into.words, &std::string::empty)) return "an argument is empty; is a variable not set?";
  if (into.words.size() > command.most_arguments) {
    return "does not take the argument " + gateway::say(into.words[command.most_arguments]);
  }
  return std::nullopt;
}

bool asks_for_help(std::span<const std::string> words) {
  const auto end = std::ranges::find(words, "--");
  return std::any_of(words.begin(), end, [](const std::string& word) { return word == "--help" || word == "-h"; });
}

}  // namespace

std::string Arguments::get(std::string_view option, std::string_view otherwise) const {
  const auto found = options.find(option);
  return found == options.end() ? std::string{otherwise} : found->second.front();
}

std::vector<std::string> Arguments::all(std::string_view option) const {
  const auto found = options.find(option);
  return found == options.end() ? std::vector<std::string>{} : found->second;
}

std::span<const ExitMeaning> exit_codes() { return kExitCodes; }

std::vector<Option> options_of(const Command& command) {
  std::vector<Option> options(command.options.begin(), command.options.end());
  if (has_option(command, "--yes")) options.push_back(kNoInput);
  if (has_option(command, "--admin") && !has_option(command, "--timeout")) options.push_back(kTimeout);
  options.push_back(kNoColour);
  options.push_back(kHelp);
  return options;
}

std::string toned(std::string_view text, Tone tone, bool colour) {
  constexpr std::string_view kCodes[] = {"1", "31", "33", "2"};
  if (!colour) return std::string{text};
  return "\x1b[" + std::string{kCodes[static_cast<std::size_t>(tone)]} + "m" + std::string{text} + "\x1b[0m";
}

int help(const Arguments& arguments, Terminal& terminal) {
  const std::vector<std::string>& words = arguments.words;
  if (words.empty()) {
    print_overview(terminal.out, terminal.colour_out);
    return kDone;
  }
  if (words.size() == 1 && words[0] == "exit-codes") {
    for (const ExitMeaning& one : kExitCodes) print_column(terminal.out, std::to_string(one.code), one.meaning, 3);
    return kDone;
  }
  std::size_t used = 0;
  if (const Command* command = find(words, used); command && used == words.size()) {
    print_command(terminal.out, *command, terminal.colour_out);
    return kDone;
  }
  if (std::ranges::any_of(commands(), [&](const Command& command) { return begins(command, words); })) {
    print_group(terminal.out, words, terminal.colour_out);
    return kDone;
  }
  return unknown_command(words, terminal);
}

int run(const std::vector<std::string>& words, Terminal& terminal) {
  if (words.empty()) {
    print_overview(terminal.err, terminal.colour_err);
    return kUsage;
  }
  if (words[0] == "--version") return run({"version"}, terminal);
  // Of any line, since its help and what is said of its mistakes have colours, too.
  if (std::find(words.begin(), std::ranges::find(words, "--"), "--no-color") != std::ranges::find(words, "--"))
    terminal.colour_out = terminal.colour_err = false;

  std::size_t used = 0;
  const Command* command = find(words, used);
  if (!command) {
    const auto option = std::ranges::find_if(words, [](const std::string& word) { return word.starts_with('-'); });
    const std::span<const std::string> names{words.begin(), option};
    if (asks_for_help(words)) return help({.words = {names.begin(), names.end()}}, terminal);
    return unknown_command(names.empty() ? std::span<const std::string>{words} : names, terminal);
  }
  const std::span<const std::string> rest = std::span{words}.subspan(used);
  if (asks_for_help(rest)) {
    print_command(terminal.out, *command, terminal.colour_out);
    return kDone;
  }
  Arguments arguments;
  if (const auto wrong = read_arguments(*command, rest, arguments)) return misused(*command, terminal, *wrong);
  if (arguments.has("--no-input")) terminal.in_person = false;
  PlainOutput plain_out{terminal.out, terminal.colour_out ? "\x1b" : ""};
  PlainOutput plain_err{terminal.err, terminal.live_err ? "\x1b\r" : terminal.colour_err ? "\x1b" : ""};
  Terminal plain{terminal.in,
                 plain_out,
                 plain_err,
                 terminal.colour_out,
                 terminal.colour_err,
                 terminal.in_person,
                 terminal.live_err};
  const int code = command->run(arguments, plain);
  plain_err.flush();
  const bool written = plain_out.flush() && terminal.out.flush();
  // A result that could not be written, as to a full disk, is no success.
  if (!written && code == kDone) {
    terminal.err << "callgate: the output could not be written\n";
    return kFailed;
  }
  return code;
}

}  // namespace cli
