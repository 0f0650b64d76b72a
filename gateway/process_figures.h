#pragma once
// What does this process use of its machine right now?

#include <cstdint>

namespace gateway {

struct ProcessFigures {
  double cpu_seconds = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t open_fds = 0;
  std::uint64_t max_fds = 0;
  double started_at = 0;  // Unix time.
};
/// Any thread. What cannot be read stays zero.
[[nodiscard]] ProcessFigures process_figures();

}  // namespace gateway
