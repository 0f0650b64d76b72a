#pragma once
// An operator's hands on a running callgate: look, stop, hold, let go, allow more.

#include "cli/command.h"

namespace cli {

int status(const Arguments& arguments, Terminal& terminal);
int cancel(const Arguments& arguments, Terminal& terminal);
int pause(const Arguments& arguments, Terminal& terminal);
int resume(const Arguments& arguments, Terminal& terminal);
/// Ends it, or its work on runs alone; and waits for that.
int drain(const Arguments& arguments, Terminal& terminal);
int budget_show(const Arguments& arguments, Terminal& terminal);
int budget_grant(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
