#pragma once
// How is a command line read, and what does each command look like? commands.cpp holds the table.

#include <iosfwd>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

/// What every command ends with; `callgate help exit-codes` prints this table.
enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kInvalid = 3,
  kNotFound = 4,
  kUnreachable = 5,
  kDenied = 6,
  kPartly = 7,
  kConflict = 8,
  kTimedOut = 9,
};

/// Results go to `out`, all talk to `err`.
struct Terminal {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool colour_out = false;
  bool colour_err = false;
  bool in_person = false;  // Somebody is there, to read `err` and to answer on `in`.
  bool live_err = false;   // A line on `err` can be written over.
};

struct Option {
  std::string_view name;     // "--config"
  std::string_view value{};  // "FILE"; empty: a flag.
  std::string_view meaning{};
  bool repeated = false;
};

struct Arguments {
  std::vector<std::string> words{};  // What stands behind the command's own words.
  std::map<std::string, std::vector<std::string>, std::less<>> options{};  // By name; flags have one empty value.
  [[nodiscard]] bool has(std::string_view option) const { return options.contains(option); }
  /// The value of an option, or what to take without it.
  [[nodiscard]] std::string get(std::string_view option, std::string_view otherwise = {}) const;
  [[nodiscard]] std::vector<std::string> all(std::string_view option) const;
};

struct Example {
  std::string_view line;
  std::string_view says;
};

struct Command {
  std::string_view words;        // "config show"
  std::string_view summary;      // One line.
  std::string_view arguments{};  // "[FILE…]"
  std::size_t most_arguments = 0;
  std::span<const Example> examples{};
  std::span<const Option> options{};
  std::string_view details{};  // Further paragraphs of its help.
  int (*run)(const Arguments& arguments, Terminal& terminal) = nullptr;
};

[[nodiscard]] std::span<const Command> commands();

/// A command's own options and those that come with them, in the order of its help: --timeout beside --admin,
/// --no-input beside --yes, --no-color and --help always. -h and -y are short for --help and --yes.
[[nodiscard]] std::vector<Option> options_of(const Command& command);

/// The whole program, from words to exit code.
int run(const std::vector<std::string>& words, Terminal& terminal);

/// `callgate help [COMMAND…]`, here since it reads the table.
int help(const Arguments& arguments, Terminal& terminal);

/// Text in bold or colour where the terminal wants that.
enum class Tone { Bold, Red, Yellow, Dim };
[[nodiscard]] std::string toned(std::string_view text, Tone tone, bool colour);

}  // namespace cli
