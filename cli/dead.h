#pragma once
// `callgate dead …`: what finally failed, and what to do with it. Replays stand in dead_replay.h.

#include "cli/command.h"

namespace cli {

int dead_groups(const Arguments& arguments, Terminal& terminal);
int dead_list(const Arguments& arguments, Terminal& terminal);
int dead_show(const Arguments& arguments, Terminal& terminal);
int dead_export(const Arguments& arguments, Terminal& terminal);
int dead_edit(const Arguments& arguments, Terminal& terminal);
int dead_discard(const Arguments& arguments, Terminal& terminal);
int dead_audit(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
