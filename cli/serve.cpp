#include "cli/serve.h"

#include <ostream>

#include "cli/config.h"

namespace cli {

int serve(const Arguments& arguments, Terminal& terminal) {
  const gateway::Loaded loaded = load(arguments, terminal);
  print_problems(loaded.problems, terminal.err, terminal.colour_err);
  if (!loaded.usable()) return kInvalid;
  terminal.err << "callgate serve: the configuration is good, but nothing was started: this build has no listener\n";
  return kFailed;
}

}  // namespace cli
