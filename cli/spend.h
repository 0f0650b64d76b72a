#pragma once
// `callgate spend …`, `report timeouts`, `idem …`: what was paid for, how long it takes, what is not paid twice.

#include "cli/command.h"

namespace cli {

int spend(const Arguments& arguments, Terminal& terminal);
int spend_reconcile(const Arguments& arguments, Terminal& terminal);
int report_timeouts(const Arguments& arguments, Terminal& terminal);
int idem_show(const Arguments& arguments, Terminal& terminal);
int idem_forget(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
