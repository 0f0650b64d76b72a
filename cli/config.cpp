#include "cli/config.h"

#include <algorithm>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "gateway/config_keys.h"
#include "gateway/config_print.h"
#include "gateway/reload.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using gateway::Loaded;
using gateway::Problem;

/// Some bytes more than a configuration may have, so that the reader can say that it is too large.
constexpr std::size_t kMostInput = (1 << 20) + 1;
const std::string kStandardInput = "<stdin>";

Loaded load_named(const std::string& file, const Arguments& arguments, Terminal& terminal) {
  if (file != "-") return gateway::load_config(file, overrides_of(arguments));
  std::string text(kMostInput, '\0');
  terminal.in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(terminal.in.gcount()));
  return gateway::parse_config(text, kStandardInput, overrides_of(arguments));
}

std::string file_from_environment() {
  const gateway::Environment environment = gateway::process_environment();
  const auto found = environment.find("CALLGATE_CONFIG");
  return found == environment.end() ? std::string{} : found->second;
}

std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

std::string counted(std::size_t number, std::string_view word) {
  return std::to_string(number) + " " + std::string{word} + (number == 1 ? "" : "s");
}

/// Maps as YAML, with who decided as a comment: what is printed can be a file again.
void print_settings(std::span<const gateway::Setting> settings, std::ostream& out, bool colour) {
  std::size_t width = 0;
  const auto line_of = [](const gateway::Setting& setting) {
    const std::size_t depth = setting.path.size() - 1;
    return std::string(2 * depth, ' ') + setting.path.back() + ": " + setting.value;
  };
  for (const gateway::Setting& setting : settings) width = std::max(width, line_of(setting).size());
  std::vector<std::string> open;  // The groups that the last line stands in.
  for (const gateway::Setting& setting : settings) {
    const std::span groups = std::span{setting.path}.first(setting.path.size() - 1);
    const auto [other, same] = std::ranges::mismatch(groups, open);
    for (auto group = other; group != groups.end(); ++group) {
      out << std::string(2 * static_cast<std::size_t>(group - groups.begin()), ' ') << *group << ":\n";
    }
    open.assign(groups.begin(), groups.end());
    const std::string line = line_of(setting);
    out << line << std::string(width - line.size() + 2, ' ') << toned("# " + setting.origin, Tone::Dim, colour)
        << '\n';
  }
}

}  // namespace

gateway::Overrides overrides_of(const Arguments& arguments) {
  return {gateway::process_environment(), arguments.all("--set")};
}

std::string config_file(const Arguments& arguments) { return arguments.get("--config", file_from_environment()); }

Loaded load(const Arguments& arguments, Terminal& terminal) {
  return load_named(config_file(arguments), arguments, terminal);
}

void print_problems(std::span<const Problem> problems, std::ostream& out, bool colour) {
  for (const Problem& problem : problems) {
    const bool error = problem.severity == Problem::Severity::Error;
    std::string text = text_of(problem);
    const std::string word = std::string{name_of(problem.severity)} + ":";
    const std::size_t at = text.find(word, problem.file.size());
    if (at != std::string::npos) text.replace(at, word.size(), toned(word, error ? Tone::Red : Tone::Yellow, colour));
    out << text << '\n';
  }
}

int validate(const Arguments& arguments, Terminal& terminal) {
  std::vector<std::string> files = arguments.words;
  if (files.empty()) files.push_back(file_from_environment());
  std::optional<Loaded> old;
  if (arguments.has("--against")) {
    const std::string name = arguments.get("--against");
    old = load_named(name, arguments, terminal);
    if (!old->usable()) {
      print_problems(old->problems, terminal.err, terminal.colour_err);
      terminal.err << "callgate validate: --against must be a configuration without errors\n";
      return kInvalid;
    }
  }
  Json report = Json::array();
  std::size_t errors = 0;
  std::size_t warnings = 0;
  for (const std::string& file : files) {
    Loaded loaded = load_named(file, arguments, terminal);
    if (old) {
      const auto cause =
          arguments.has("--accept-weaker") ? gateway::ReloadCause::Accepting : gateway::ReloadCause::Signal;
      refuse_weaker(*old, loaded, cause, file == "-" ? kStandardInput : file);
    }
    if (arguments.has("--strict")) {
      // What was accepted by its own option stays so.
      for (Problem& problem : loaded.problems) {
        if (problem.kind != Problem::Kind::Weaker) problem.severity = Problem::Severity::Error;
      }
    }
    const std::string name = file.empty() ? "defaults and environment" : file == "-" ? kStandardInput : file;
    for (const Problem& problem : loaded.problems) {
      ++(problem.severity == Problem::Severity::Error ? errors : warnings);
    }
    report.push_back({{"file", name},
                      {"valid", loaded.usable()},
                      {"problems", Json::parse(gateway::problems_json(loaded.problems))}});
    if (arguments.has("--json")) continue;
    print_problems(loaded.problems, terminal.out, terminal.colour_out);
    if (loaded.usable()) terminal.out << name << ": valid\n";
  }
  if (arguments.has("--json")) {
    terminal.out << dumped({{"valid", errors == 0}, {"files", report}}) << '\n';
  } else if (errors + warnings > 0) {
    terminal.err << counted(errors, "error") << ", " << counted(warnings, "warning") << '\n';
  }
  return errors == 0 ? kDone : kInvalid;
}

int config_show(const Arguments& arguments, Terminal& terminal) {
  const Loaded loaded = load(arguments, terminal);
  print_problems(loaded.problems, terminal.err, terminal.colour_err);
  if (!loaded.usable()) return kInvalid;
  if (!arguments.has("--json")) {
    print_settings(loaded.settings, terminal.out, terminal.colour_out);
    return kDone;
  }
  terminal.out << gateway::settings_json(loaded.settings);
  return kDone;
}

int config_schema(const Arguments& /*arguments*/, Terminal& terminal) {
  terminal.out << gateway::config_schema();
  return kDone;
}

int config_docs(const Arguments& /*arguments*/, Terminal& terminal) {
  terminal.out << gateway::config_docs();
  return kDone;
}

}  // namespace cli
