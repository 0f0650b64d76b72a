#pragma once
// What does a process cost? Starts one on a core of its own and reads its figures from /proc.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

/// This process and those that it starts from now on run on that core (on a machine that has it).
void pin_to_core(int core);

/// A child, its own children included in all figures. The destructor stops it and waits.
class Process {
 public:
  /// Output goes to the file. Throws if it cannot be started.
  Process(const std::vector<std::string>& command, const std::string& output_file, int core);
  /// A copy of this process that runs `body`, which must not return.
  explicit Process(const std::function<void()>& body);
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  [[nodiscard]] bool running();
  /// Run time of all threads, as the scheduler counts it.
  [[nodiscard]] std::chrono::nanoseconds cpu() const;
  [[nodiscard]] std::uint64_t rss_bytes() const;
  /// The highest since the last reset.
  [[nodiscard]] std::uint64_t peak_rss_bytes() const;
  void reset_peak_rss() const;

 private:
  [[nodiscard]] std::vector<pid_t> family() const;
  [[nodiscard]] std::uint64_t status_bytes(const std::string& field) const;
  pid_t pid_ = -1;
};

}  // namespace bench
