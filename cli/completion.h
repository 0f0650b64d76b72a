#pragma once
// What does a shell need to complete our commands? Scripts for bash, zsh and fish, from the command table.

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace cli {

/// What may stand where a value is asked for.
struct Choices {
  bool files = false;
  std::vector<std::string> words{};  // Empty, and no files: anything.
};
[[nodiscard]] Choices choices_of(const Option& option);
/// Of a command's arguments.
[[nodiscard]] Choices choices_of(const Command& command);

[[nodiscard]] std::string bash_completion();
[[nodiscard]] std::string zsh_completion();
[[nodiscard]] std::string fish_completion();

/// `callgate completion bash|zsh|fish`
int completion(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
