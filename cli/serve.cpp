#include "cli/serve.h"

#include <ostream>
#include <stdexcept>

#include "cli/config.h"
#include "gateway/process.h"

namespace cli {

int serve(const Arguments& arguments, Terminal& terminal) {
  const std::string file = config_file(arguments);
  const gateway::FileStamp stamp = gateway::stamp_of(file);  // Before it is read, so that no change is missed.
  const gateway::Loaded loaded = load(arguments, terminal);
  print_problems(loaded.problems, terminal.err, terminal.colour_err);
  if (!loaded.usable()) return kInvalid;
  try {
    const int code = gateway::run_sidecar(loaded, {file, overrides_of(arguments), stamp});
    if (code != 0) terminal.err << "callgate serve: calls were still in flight at the end and were broken off\n";
    return code;
  } catch (const std::runtime_error& error) {
    terminal.err << "callgate serve: " << error.what() << '\n';
    return kFailed;
  }
}

}  // namespace cli
