#pragma once
// `callgate upstreams` and `callgate explain`: how are the providers, and what became of a call?

#include "cli/command.h"

namespace cli {

int upstreams(const Arguments& arguments, Terminal& terminal);
int explain(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
