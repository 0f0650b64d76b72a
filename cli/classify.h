#pragma once
// What does callgate make of an answer, and of a file of them?

#include "cli/command.h"

namespace cli {

int classify(const Arguments& arguments, Terminal& terminal);
int usage(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
