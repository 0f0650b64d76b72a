#include "cli/serve.h"

#include <csignal>
#include <cstdlib>
#include <ostream>
#include <stdexcept>

#include "cli/config.h"
#include "gateway/process.h"

namespace cli {
namespace {

/// Until the sidecar listens to signals. Reading the configuration from a pipe may take long, so they are not just
/// blocked. Whatever a SIGHUP wants to be read is read then: the file's stamp tells.
void take_signals_from_the_start() {
  std::signal(SIGHUP, SIG_IGN);
  for (const int number : {SIGTERM, SIGINT}) std::signal(number, [](int) { std::_Exit(0); });  // Nothing has begun.
}

}  // namespace

int serve(const Arguments& arguments, Terminal& terminal) {
  take_signals_from_the_start();
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
