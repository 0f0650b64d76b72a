#pragma once
// The whole sidecar: what it is made of, how it starts, how it goes (design §10).

#include <cstdint>
#include <string>

#include "gateway/config.h"
#include "gateway/file_watch.h"

namespace gateway {

/// Where the configuration came from and can be read again.
struct ConfigSource {
  std::string file{};  // "-": standard input, which cannot be read again; empty: none.
  Overrides overrides{};
  FileStamp stamp{};  // Of the file before it was read for the start.
  /// The file to watch; empty: none.
  [[nodiscard]] std::string watched() const;
  [[nodiscard]] Loaded read_again() const;
};

/// Serves until SIGTERM or SIGINT, then drains; a second signal ends it at once. SIGHUP, a changed file and the admin
/// API make it read its configuration again. Returns the exit code: 0 after a complete drain, 1 if calls had to be
/// broken off or rows could not be written. Throws std::runtime_error, with the mend, for what cannot start.
int run_sidecar(const Loaded& loaded, ConfigSource source);

/// limits.buffered_bytes: auto. 40 % of our cgroup's memory limit, or of the machine's memory where there is none.
[[nodiscard]] std::uint64_t automatic_buffered_bytes();

}  // namespace gateway
