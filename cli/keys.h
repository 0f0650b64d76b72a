#pragma once
// `callgate keys …`: keys that callgate issues to workers.

#include "cli/command.h"

namespace cli {

int keys_issue(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
