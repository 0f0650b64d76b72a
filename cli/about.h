#pragma once
// What is this build, and what does it speak?

#include "cli/command.h"

namespace cli {

int version(const Arguments& arguments, Terminal& terminal);
int dialects(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
