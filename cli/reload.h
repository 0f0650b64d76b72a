#pragma once
// `callgate reload`: a running callgate reads its configuration again.

#include "cli/command.h"

namespace cli {

/// Options: --config FILE, --set KEY=VALUE, --admin ADDRESS, --accept-weaker, --json.
int reload(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
