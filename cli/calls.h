#pragma once
// `callgate calls …`, `callgate events …`: which calls there were, and what became of them.

#include "cli/command.h"

namespace cli {

int calls_list(const Arguments& arguments, Terminal& terminal);
int calls_show(const Arguments& arguments, Terminal& terminal);
int calls_tail(const Arguments& arguments, Terminal& terminal);
int events_tail(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
