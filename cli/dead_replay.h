#pragma once
// `callgate dead replay` and what belongs to it: letters are sent again, as planned and agreed to.

#include <chrono>
#include <string>

#include "cli/command.h"

namespace cli {

int dead_replay(const Arguments& arguments, Terminal& terminal);
int dead_replays(const Arguments& arguments, Terminal& terminal);
int dead_approve(const Arguments& arguments, Terminal& terminal);
int dead_pause(const Arguments& arguments, Terminal& terminal);
int dead_cancel(const Arguments& arguments, Terminal& terminal);

/// Following one. The replay goes on whether it is followed or not.
struct Pace {
  std::chrono::milliseconds look_again{500};
  std::chrono::milliseconds say_again{10'000};  // Where a line cannot be written over.
  std::chrono::milliseconds patience{120'000};  // While callgate cannot be reached.
};
/// Until it is over; the exit code.
int follow_replay(const std::string& id, const Arguments& arguments, Terminal& terminal, const Pace& pace = {});

}  // namespace cli
