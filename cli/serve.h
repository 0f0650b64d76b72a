#pragma once
// `callgate serve`: the process itself.

#include "cli/command.h"

namespace cli {

/// Options: --config FILE, --set KEY=VALUE (repeated).
int serve(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
