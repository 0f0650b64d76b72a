#pragma once
// `callgate inject`: puts callgate into the pods of a manifest. Text in, text out; no cluster is asked.

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/sidecar.h"

namespace cli {

struct InjectWishes {
  SidecarWishes sidecar{};
  bool make_config_map = true;            // Named after the first workload; else there is one of that name.
  std::vector<std::string> containers{};  // That get the environment; none: all but init containers.
};
struct Injected {
  std::string text{};
  std::vector<std::string> notes{};  // For people, one line each.
  std::size_t workloads = 0;         // Found, those that had it already included.
};
/// Documents without a pod stay as they are, byte for byte, and so does all of the others that is not added to,
/// unless they are in JSON style where something has to be added. The error says which document and line is wrong.
[[nodiscard]] std::expected<Injected, std::string> inject_into(std::string_view manifest, InjectWishes wishes);

int inject(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
