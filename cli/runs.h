#pragma once
// `callgate runs …`: work that was handed over, whose it may be (gateway/run_answers.h).

#include "cli/command.h"

namespace cli {

int runs_list(const Arguments& arguments, Terminal& terminal);
int runs_show(const Arguments& arguments, Terminal& terminal);
int runs_cancel(const Arguments& arguments, Terminal& terminal);
int runs_retry(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
