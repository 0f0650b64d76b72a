#include "cli/completion.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <utility>

#include "classifier/dialect.h"
#include "classifier/verdict.h"
#include "gateway/config_values.h"

namespace cli {
namespace {

using Words = std::vector<std::string>;

/// What an option's VALUE may be, by the option and how its value is called.
struct Closed {
  std::string_view option;
  std::string_view value;
  std::string_view words;
};
constexpr Closed kClosed[] = {
    {"--outcome", "OUTCOME", "answered failed refused cancelled drained crashed"},
    {"--state", "STATE", "open resolved discarded any"},
    {"--state", "RUN_STATE", "queued running succeeded failed dead cancelled"},
    {"--advice", "WORD", "replay fix-first discard"},
    {"--period", "PERIOD", "day month run"},
    {"--type", "TYPE", "call.ended call.unknown"},
    {"--transport", "HOW", "timeout connect_refused reset tls dns"},
    {"--progress", "FORM", "text json"},
    {"--by", "GROUPS", "tenant model upstream lane queue day hour run_id class"},
};

Words split(std::string_view text, char at) {
  Words out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string joined(const Words& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : std::string{between}) + word;
  return out;
}

/// In single quotes, as bash and zsh read them.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}
std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return out + "'";
}

/// One place on a line: the words of a command, or of a group ("config"), or none.
struct Place {
  std::string words{};
  std::vector<std::pair<std::string, std::string_view>> next{};  // A word that may follow, and its summary.
  const Command* command = nullptr;
};

/// In the table's order, the empty place first.
std::vector<Place> places() {
  std::vector<Place> all{Place{}};
  const auto at = [&](const std::string& words) -> Place& {
    const auto found = std::ranges::find(all, words, &Place::words);
    if (found != all.end()) return *found;
    all.push_back({words, {}, nullptr});
    return all.back();
  };
  for (const Command& command : commands()) {
    std::string before;
    const Words own = split(command.words, ' ');
    for (std::size_t i = 0; i < own.size(); ++i) {
      const bool last = i + 1 == own.size();
      auto& next = at(before).next;
      const auto known = std::ranges::find(next, own[i], &std::pair<std::string, std::string_view>::first);
      const std::string_view says = last ? command.summary : std::string_view{"More commands."};
      if (known == next.end()) {
        next.emplace_back(own[i], says);
      } else if (last) {
        known->second = says;
      }
      before += (before.empty() ? "" : " ") + own[i];
      (void)at(before);
    }
    at(before).command = &command;
  }
  return all;
}

Words names_of(const Place& place) {
  Words names;
  for (const auto& [word, says] : place.next) names.push_back(word);
  return names;
}

std::vector<Option> options_at(const Place& place) {
  if (place.command) return options_of(*place.command);
  std::vector<Option> options{{"--help", "", "Show the help."}};
  if (place.words.empty()) options.push_back({"--version", "", "Print the version."});
  return options;
}

/// For bash and zsh, "PLACE:OPTION" by what may follow: files, these words, or (empty) anything.
struct Values {
  std::map<std::string, Words> by_words{};
  Words files{};
  Words anything{};
};
Values values_of(const std::vector<Place>& all) {
  Values values;
  for (const Place& place : all) {
    for (const Option& option : options_at(place)) {
      if (option.value.empty()) continue;
      const Choices choices = choices_of(option);
      const std::string pattern = "'" + place.words + ":" + std::string{option.name} + "'";
      (choices.files           ? values.files
       : choices.words.empty() ? values.anything
                               : values.by_words[joined(choices.words, " ")])
          .push_back(pattern);
    }
  }
  return values;
}

/// Every place but the empty one, as a pattern of `case`.
std::string place_pattern(const std::vector<Place>& all) {
  Words patterns;
  for (const Place& place : all) {
    if (!place.words.empty()) patterns.push_back("'" + place.words + "'");
  }
  return joined(patterns, " | ");
}

constexpr std::string_view kBashBegin =
    R"(# Completion of callgate's commands for bash; printed by "callgate completion bash".
_callgate() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} at='' words='' files='' i=1 first=1
  COMPREPLY=()
  # bash takes --option=value apart.
  if [[ $cur == = ]]; then
    cur=''
  elif [[ $prev == = ]] && ((COMP_CWORD > 2)); then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [[ ${COMP_WORDS[1]} == help ]] && ((COMP_CWORD > 1)); then first=2; fi
  for ((i = first; i < COMP_CWORD; i++)); do
    case "${at:+$at }${COMP_WORDS[i]}" in
)";
constexpr std::string_view kBashEnd = R"(  if [[ -n $files ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    compopt -o filenames 2>/dev/null
  fi
  if [[ -n $words ]]; then
    local -a more
    mapfile -t more < <(compgen -W "$words" -- "$cur")
    COMPREPLY+=("${more[@]}")
  fi
}
complete -F _callgate callgate
)";

constexpr std::string_view kZshBegin = R"(#compdef callgate
# Completion of callgate's commands for zsh; printed by "callgate completion zsh".
_callgate() {
  local at='' prev=${words[CURRENT-1]} i first=2
  local -a entries
  if [[ ${words[CURRENT]} == --*=* ]]; then
    prev=${words[CURRENT]%%=*}
    compset -P '*='
  fi
  if [[ ${words[2]} == help ]] && ((CURRENT > 2)); then first=3; fi
  for ((i = first; i < CURRENT; i++)); do
    case "${at:+$at }${words[i]}" in
)";
constexpr std::string_view kZshEnd = R"(}
if [[ ${funcstack[1]} == _callgate ]]; then _callgate "$@"; else compdef _callgate callgate; fi
)";

constexpr std::string_view kFishBegin =
    R"(# Completion of callgate's commands for fish; printed by "callgate completion fish".
function __callgate_read --description 'The place on the line, and whether nothing else stands there'
  set -g __callgate_place
  set -g __callgate_bare yes
  set -g __callgate_help no
  set -l tokens (commandline -opc)
  set -e tokens[1]
  if test (count $tokens) -gt 0; and test "$tokens[1]" = help
    set -g __callgate_help yes
    set -e tokens[1]
  end
  for token in $tokens
    set -l further (string join -- ' ' $__callgate_place $token)
    if contains -- $further $__callgate_places
      set -g __callgate_place $further
    else
      set -g __callgate_bare no
      break
    end
  end
end
function __callgate_at
  __callgate_read
  test "$__callgate_place" = "$argv[1]"; and test $__callgate_help = no
end
function __callgate_below
  __callgate_read
  test "$__callgate_place" = "$argv[1]"; and test $__callgate_bare = yes
end
)";

}  // namespace

Choices choices_of(const Option& option) {
  Choices choices;
  if (option.value == "FILE" || option.value == "OLD") choices.files = true;
  if (option.value == "CLASS")
    choices.words.assign(classifier::kClassNames.begin() + 1, classifier::kClassNames.end());
  if (option.name == "--dialect") {
    for (const classifier::Dialect* dialect : classifier::dialects()) choices.words.emplace_back(dialect->name());
  }
  for (const Closed& closed : kClosed) {
    if (closed.option == option.name && closed.value == option.value) choices.words = split(closed.words, ' ');
  }
  return choices;
}

Choices choices_of(const Command& command) {
  Choices choices;
  const std::string_view text = command.arguments;
  choices.files = text.find("FILE") != std::string_view::npos || text.find("BODY") != std::string_view::npos;
  if (text.find('|') != std::string_view::npos) {
    std::string_view first = text.substr(0, text.find(' '));
    if (first.starts_with('[')) first = first.substr(1, first.size() - 2);
    choices.words = split(first, '|');
  }
  return choices;
}

std::string bash_completion() {
  const std::vector<Place> all = places();
  std::string out{kBashBegin};
  out += "      " + place_pattern(all) + ") at=${at:+$at }${COMP_WORDS[i]} ;;\n      *) break ;;\n    esac\n  done\n";
  const Values values = values_of(all);
  out += "  case \"$at:$prev\" in\n";
  for (const auto& [words, patterns] : values.by_words)
    out += "    " + joined(patterns, " | ") + ") words=" + quoted(words) + " ;;\n";
  if (!values.files.empty()) out += "    " + joined(values.files, " | ") + ") files=yes ;;\n";
  if (!values.anything.empty()) out += "    " + joined(values.anything, " | ") + ") return ;;\n";
  out += "    *)\n      if [[ $cur == -* ]]; then\n        ((first == 1)) || return\n        case $at in\n";
  for (const Place& place : all) {
    Words names;
    for (const Option& option : options_at(place)) names.emplace_back(option.name);
    out += "          '" + place.words + "') words=" + quoted(joined(names, " ")) + " ;;\n";
  }
  out += "        esac\n      else\n        case \"$at\" in\n";
  for (const Place& place : all) {
    Words names = names_of(place);
    const Choices choices = place.command ? choices_of(*place.command) : Choices{};
    std::string then;
    names.insert(names.end(), choices.words.begin(), choices.words.end());
    // Words belong right behind the command.
    if (!names.empty()) then += " ((i == COMP_CWORD)) && words=" + quoted(joined(names, " "));
    if (choices.files) then += (then.empty() ? "" : ";") + std::string{" files=yes"};
    if (!then.empty()) out += "          '" + place.words + "')" + then + " ;;\n";
  }
  out +=
      "        esac\n        if ((first == 2 && COMP_CWORD == 2)); then words+=' exit-codes'; fi\n      fi\n      "
      ";;\n  esac\n";
  return out + std::string{kBashEnd};
}

std::string zsh_completion() {
  const std::vector<Place> all = places();
  const auto entry = [](std::string_view word, std::string_view says) {
    return quoted(std::string{word} + ":" + std::string{says});
  };
  std::string out{kZshBegin};
  out += "      " + place_pattern(all) + ") at=${at:+$at }${words[i]} ;;\n      *) break ;;\n    esac\n  done\n";
  const Values values = values_of(all);
  out += "  case \"$at:$prev\" in\n";
  for (const auto& [words, patterns] : values.by_words)
    out += "    " + joined(patterns, " | ") + ") compadd -- " + words + "; return ;;\n";
  if (!values.files.empty()) out += "    " + joined(values.files, " | ") + ") _files; return ;;\n";
  if (!values.anything.empty()) out += "    " + joined(values.anything, " | ") + ") return ;;\n";
  out += "  esac\n  if [[ ${words[CURRENT]} == -* ]]; then\n    ((first == 2)) || return\n    case $at in\n";
  for (const Place& place : all) {
    Words entries;
    for (const Option& option : options_at(place)) entries.push_back(entry(option.name, option.meaning));
    out += "      '" + place.words + "') entries=(" + joined(entries, " ") + ") ;;\n";
  }
  out += "    esac\n    _describe -o option entries\n    return\n  fi\n  case $at in\n";
  for (const Place& place : all) {
    Words entries;
    for (const auto& [word, says] : place.next) entries.push_back(entry(word, says));
    const Choices choices = place.command ? choices_of(*place.command) : Choices{};
    std::string then;
    if (!entries.empty()) then += "((i == CURRENT)) && entries=(" + joined(entries, " ") + "); ";
    if (!choices.words.empty()) then += "((i == CURRENT)) && entries+=(" + joined(choices.words, " ") + "); ";
    if (choices.files) then += "_files; ";
    if (!then.empty()) out += "    '" + place.words + "') " + then + ";;\n";
  }
  out +=
      "  esac\n  if ((first == 3 && CURRENT == 3)); then entries+=(exit-codes); fi\n"
      "  if ((${#entries})); then _describe command entries; fi\n";
  return out + std::string{kZshEnd};
}

std::string fish_completion() {
  const std::vector<Place> all = places();
  Words names;
  for (const Place& place : all) {
    if (!place.words.empty()) names.push_back(fish_quoted(place.words));
  }
  std::string out{kFishBegin};
  out += "set -g __callgate_places " + joined(names, " ") + "\ncomplete -c callgate -f\n";
  for (const Place& place : all) {
    const auto when = [&](const std::string& how) {
      return "complete -c callgate -n " + fish_quoted("__callgate_" + how + " \"" + place.words + "\"");
    };
    for (const auto& [word, says] : place.next)
      out += when("below") + " -a " + fish_quoted(word) + " -d " + fish_quoted(says) + "\n";
    const Choices arguments = place.command ? choices_of(*place.command) : Choices{};
    if (!arguments.words.empty()) out += when("below") + " -a " + fish_quoted(joined(arguments.words, " ")) + "\n";
    if (arguments.files) out += when("at") + " -F\n";
    if (place.words.empty())
      out += when("below") + " -a " + fish_quoted("(test $__callgate_help = yes; and echo exit-codes)") + "\n";
    for (const Option& option : options_at(place)) {
      const bool is_long = option.name.starts_with("--");
      out += when("at") + (is_long ? " -l " : " -s ") + std::string{option.name.substr(is_long ? 2 : 1)};
      const Choices choices = choices_of(option);
      if (choices.files) {
        out += " -r -F";
      } else if (!option.value.empty()) {
        out += " -x";
        if (!choices.words.empty()) out += " -a " + fish_quoted(joined(choices.words, " "));
      }
      out += " -d " + fish_quoted(option.meaning) + "\n";
    }
  }
  return out;
}

int completion(const Arguments& arguments, Terminal& terminal) {
  const std::string shell = arguments.words.empty() ? std::string{} : arguments.words[0];
  if (shell == "bash") {
    terminal.out << bash_completion();
  } else if (shell == "zsh") {
    terminal.out << zsh_completion();
  } else if (shell == "fish") {
    terminal.out << fish_completion();
  } else {
    terminal.err << "callgate completion: "
                 << (shell.empty() ? "needs a shell: bash, zsh or fish"
                                   : "there are bash, zsh and fish, not " + gateway::say(shell))
                 << "\nSee \"callgate completion --help\".\n";
    return kUsage;
  }
  return kDone;
}

}  // namespace cli
