#pragma once
// The manual pages: callgate(1) from the command table, callgate.yaml(5) from the table of configuration keys.

#include <string>

#include "cli/command.h"

namespace cli {

/// In man(7) macros, ASCII, no line beyond 80 bytes where words allow.
[[nodiscard]] std::string command_page();
[[nodiscard]] std::string config_page();

/// `callgate man [callgate|callgate.yaml]`
int man(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
