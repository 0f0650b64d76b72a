#pragma once
// What does a model cost, why, and is a price file right?

#include "cli/command.h"

namespace cli {

int prices_list(const Arguments& arguments, Terminal& terminal);
int prices_show(const Arguments& arguments, Terminal& terminal);
int prices_check(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
