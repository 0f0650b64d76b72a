#pragma once
// `callgate ledger …`: care for the file in which everything is remembered.

#include "cli/command.h"

namespace cli {

int ledger_check(const Arguments& arguments, Terminal& terminal);
int ledger_backup(const Arguments& arguments, Terminal& terminal);
int ledger_export(const Arguments& arguments, Terminal& terminal);
int ledger_rerate(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
