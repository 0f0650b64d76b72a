#pragma once
// `callgate validate` and `callgate config …`: is the configuration right, and what does it come to?

#include <iosfwd>
#include <span>

#include "cli/command.h"
#include "gateway/config.h"

namespace cli {

/// The file that --config or CALLGATE_CONFIG names; empty for none.
[[nodiscard]] std::string config_file(const Arguments& arguments);
/// What wins over the file: --set over CALLGATE_ variables.
[[nodiscard]] gateway::Overrides overrides_of(const Arguments& arguments);
/// The configuration that --config, --set, the environment and CALLGATE_CONFIG come to.
[[nodiscard]] gateway::Loaded load(const Arguments& arguments, Terminal& terminal);
/// One line each, as text_of() says it.
void print_problems(std::span<const gateway::Problem> problems, std::ostream& out, bool colour);

int validate(const Arguments& arguments, Terminal& terminal);
int config_show(const Arguments& arguments, Terminal& terminal);
int config_schema(const Arguments& arguments, Terminal& terminal);
int config_docs(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
