#pragma once
// `callgate doctor`: is all well with configuration, keys, ports, providers, clock, store and the running instance?

#include "cli/command.h"

namespace cli {

int doctor(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
