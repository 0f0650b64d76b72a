#pragma once
// `callgate calls …`: which calls there were, and what became of them.

#include "cli/command.h"

namespace cli {

int calls_list(const Arguments& arguments, Terminal& terminal);
int calls_show(const Arguments& arguments, Terminal& terminal);
int calls_tail(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
