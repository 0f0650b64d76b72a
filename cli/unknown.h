#pragma once
// `callgate unknown`: what providers said to a running callgate and no rule knew.

#include "cli/command.h"

namespace cli {

/// Options: --config FILE, --set KEY=VALUE, --admin ADDRESS, --json.
int unknown(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
