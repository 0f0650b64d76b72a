#pragma once
// The whole sidecar: what it is made of, how it starts, how it goes (design §10).

#include <string>

#include "gateway/config.h"

namespace gateway {

/// Serves until SIGTERM or SIGINT, then drains; a second signal ends it at once. Returns the exit code: 0 after a
/// complete drain, 1 if calls had to be broken off. Throws std::runtime_error, with the mend, for what cannot start.
int run_sidecar(const Config& config, const std::string& config_file);

/// limits.buffered_bytes: auto. 40 % of our cgroup's memory limit, or of the machine's memory where there is none.
[[nodiscard]] std::uint64_t automatic_buffered_bytes();

}  // namespace gateway
