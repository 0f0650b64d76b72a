#include "cli/man.h"

#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config_keys.h"
#include "gateway/config_values.h"

namespace cli {
namespace {

constexpr std::string_view kDate = "2026-11-30";  // Of the pages' texts; moves with a release.
constexpr std::size_t kWidth = 78;
constexpr std::size_t kLongestExample = 60;  // No line has room for more.

/// What means something to roff is written so that it does not; what is not ASCII, in ASCII.
std::string plain(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("…")) {
      out += "...";
      i += std::string_view{"…"}.size() - 1;
    } else if (text[i] == '\\') {
      out += "\\e";
    } else if (text[i] == '-') {
      out += "\\-";
    } else if (text[i] == '\'') {
      out += "\\(aq";
    } else {
      out += text[i];
    }
  }
  return out;
}

/// Markdown as the configuration's texts use it: `code` is bold, of a link its text is left.
std::string marked(std::string_view text) {
  std::string out;
  bool code = false;
  std::string run;
  const auto flush = [&] {
    out += plain(run);
    run.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t close = text[i] == '[' && !code ? text.find("](", i) : std::string_view::npos;
    const std::size_t end = close == std::string_view::npos ? close : text.find(')', close);
    if (text[i] == '`') {
      flush();
      out += code ? "\\fR" : "\\fB";
      code = !code;
    } else if (end != std::string_view::npos) {
      run += text.substr(i + 1, close - i - 1);
      i = end;
    } else {
      run += text[i];
    }
  }
  flush();
  return out;
}

/// Lines of words. A sentence begins a line, as roff likes it; none begins with what would be a request.
std::string filled(const std::string& text) {
  std::string out;
  std::string line;
  const auto end_line = [&] {
    if (line.empty()) return;
    if (line[0] == '.') line.insert(0, "\\&");
    out += line + "\n";
    line.clear();
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (line.size() + 1 + word.size() > kWidth) end_line();
    line += (line.empty() ? "" : " ") + word;
    if (word.ends_with('.') || word.ends_with(".)")) end_line();
  }
  end_line();
  return out;
}

std::string head(std::string_view title, std::string_view section, std::string_view of) {
  return ".\\\" Printed by \"callgate man\".\n.TH " + std::string{title} + " " + std::string{section} + " " +
         std::string{kDate} + " \"callgate " CALLGATE_VERSION "\" \"" + std::string{of} + "\"\n";
}

std::string item(const std::string& tag, const std::string& text) { return ".TP\n" + tag + "\n" + filled(text); }
std::string bold(std::string_view text) { return "\\fB" + plain(text) + "\\fR"; }

std::string example_lines(std::span<const Example> examples) {
  std::string out;
  for (const Example& example : examples) {
    if (!example.says.empty()) out += "# " + plain(example.says) + "\n";
    out += plain(example.line) + "\n";
  }
  return out.empty() ? out : ".PP\n.nf\n.RS 4\n" + out + ".RE\n.fi\n";
}

std::string command_text(const Command& command) {
  std::string out = ".SS \"callgate " + plain(command.words) + "\"\n";
  std::string usage = "\\fBcallgate " + plain(command.words) + "\\fR";
  if (!command.options.empty()) usage += " [\\fIOPTION\\fR...]";
  if (!command.arguments.empty()) usage += " \\fI" + plain(command.arguments) + "\\fR";
  out += filled(usage) + ".PP\n" + filled(plain(command.summary));
  if (!command.details.empty()) out += filled(plain(command.details));
  for (const Option& option : options_of(command)) {
    if (option.name == "--help" || option.name == "--no-color") continue;  // Of all; described once.
    std::string tag = bold(option.name);
    if (!option.value.empty()) tag += " \\fI" + plain(option.value) + "\\fR";
    out += item(tag, plain(option.meaning));
  }
  return out + example_lines(command.examples);
}

}  // namespace

std::string command_page() {
  std::string out = head("CALLGATE", "1", "User Commands");
  out += ".SH NAME\ncallgate \\- stand between background workers and LLM providers\n";
  out += ".SH SYNOPSIS\n\\fBcallgate\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n";
  out +=
      ".SH DESCRIPTION\n" +
      filled(plain("callgate takes the calls of workers, passes them to the providers that are configured, and sees "
                   "to what can go wrong: limits, retries, budgets, jobs that come twice, runs that outlive their "
                   "worker. It writes down what each call cost. \"callgate serve\" is the server; all other commands "
                   "ask it, look into its files, or check its configuration, callgate.yaml(5)."));
  out += ".PP\n" + filled(plain("Results go to standard output, all talk to standard error. --help after any command "
                                "shows what stands here, --no-color leaves colours away, -y is short for --yes. A "
                                "value follows its option as the next word or after \"=\"; "
                                "\"--\" ends the options."));
  out += ".SH COMMANDS\n";
  for (const Command& command : commands()) out += command_text(command);
  out += ".SH \"EXIT STATUS\"\n";
  for (const ExitMeaning& one : exit_codes()) out += item(bold(std::to_string(one.code)), plain(one.meaning));
  out += ".SH ENVIRONMENT\n";
  out += item(bold("CALLGATE_CONFIG"), plain("The configuration, where --config names none."));
  out += item(bold("CALLGATE_SECTION__KEY"),
              plain("One key of the configuration, over the file, such as CALLGATE_RETRY__BASE=1s."));
  out += item(bold("NO_COLOR, FORCE_COLOR"), plain("Not empty: never, or always, colours."));
  out += item(bold("NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID"),
              plain("Set by systemd(1) for a unit of Type=notify: serve tells when it is ready, reloads, lives and "
                    "stops."));
  out += item(bold("CREDENTIALS_DIRECTORY"),
              plain("Set by systemd(1): where a key is that the configuration calls {credential: NAME}."));
  out += ".SH SIGNALS\n";
  out += item(bold("SIGTERM, SIGINT"),
              plain("serve takes no new calls, ends those under way within shutdown.drain, and goes; a second "
                    "one ends it at once."));
  out += item(bold("SIGHUP"), plain("serve reads its configuration again."));
  out += ".SH FILES\n" + item("\\fI/etc/callgate/config.yaml\\fR",
                              plain("The configuration of the Debian package's "
                                    "unit, callgate.service."));
  out += item("\\fI/var/lib/callgate\\fR", plain("Its store."));
  out += item("\\fI/run/callgate/admin.sock\\fR", plain("Its admin listener, for members of the group callgate."));
  return out + ".SH \"SEE ALSO\"\n.BR callgate.yaml (5)\n";
}

std::string config_page() {
  using gateway::Key;
  using gateway::Type;
  std::string out = head("CALLGATE.YAML", "5", "File Formats");
  out += ".SH NAME\ncallgate.yaml \\- configuration of callgate\n";
  out +=
      ".SH DESCRIPTION\n" +
      filled(plain("One YAML file, named by --config or CALLGATE_CONFIG. Every key may be left out: without a file "
                   "callgate uses the defaults and the built-in upstreams. An unknown key is an error. \"callgate "
                   "validate FILE\" lists all problems, \"callgate config show\" what holds in the end and who "
                   "decided it, \"callgate config schema\" is for editors.")) +
      ".PP\n" +
      filled(
          plain("--set KEY=VALUE wins over CALLGATE_SECTION__KEY in the environment, that over the file, that over "
                "the defaults. ${env:NAME} or ${NAME} in a value puts in an environment variable, "
                "${env:NAME:-default} has a default, $$ is a dollar sign.")) +
      ".PP\n" +
      filled(
          plain("Durations are 250ms, 30s, 5m, 24h, 7d; sizes 65536, 64KiB, 256MiB; money is a decimal string in US "
                "dollars; addresses are 127.0.0.1:4600 or unix:/path. Secrets never stand in the file, but where "
                "they are: {file: /path}, {env: NAME}, or {credential: NAME} for a credential of the systemd "
                "unit. \"*\" below is any name, \"[]\" the items of a list."));
  out += ".SH KEYS\n";
  for (const Key& key : gateway::config_keys()) {
    const bool top = key.path.find('.') == std::string_view::npos;
    if (top) out += ".SS " + plain(key.path) + "\n";
    std::string text = marked(key.meaning);
    std::string words;
    for (const std::string& word : gateway::words_of(key.words)) words += (words.empty() ? "" : ", ") + bold(word);
    if (!words.empty()) text += " One of: " + words + (key.type == Type::Word ? "." : ", or a value.");
    if (const std::string range = gateway::range_of(key); !range.empty()) text += " Range: " + plain(range) + ".";
    if (!key.standard.empty()) text += " Default: " + bold(key.standard) + ".";
    if (!key.example.empty() && key.example.size() <= kLongestExample) text += " Example: " + bold(key.example) + ".";
    if (!key.later.empty()) text += " Not in this version.";
    if (top && key.type == Type::Map) {
      out += filled(text);
    } else {
      out += item(bold(key.path), text);
    }
  }
  out += ".SH EXAMPLES\n.nf\n.RS 4\n" + plain(R"(listen:
  admin: unix:/run/callgate/admin.sock
upstreams:
  openai:
    credentials:
      - {name: main, key: {file: /etc/callgate/keys/openai}}
    limits: {requests_per_minute: 5000}
)") + ".RE\n.fi\n";
  return out + ".SH \"SEE ALSO\"\n.BR callgate (1)\n";
}

int man(const Arguments& arguments, Terminal& terminal) {
  const std::string page = arguments.words.empty() ? "callgate" : arguments.words[0];
  if (page == "callgate") {
    terminal.out << command_page();
  } else if (page == "callgate.yaml") {
    terminal.out << config_page();
  } else {
    terminal.err << "callgate man: there are callgate and callgate.yaml, not " << gateway::say(page)
                 << "\nSee \"callgate man --help\".\n";
    return kUsage;
  }
  return kDone;
}

}  // namespace cli
