#pragma once
// How fast is an answer there? Callers on keep-alive connections: in a closed loop, at a fixed pace, or holding
// streams.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace bench {

struct LoadPlan {
  std::uint16_t port = 0;
  std::string target{};  // "/up/v1/chat/completions"
  std::string body{};
  int connections = 1;
  double calls_per_second = 0;  // All connections together; 0: closed loop.
};

struct LoadFigures {
  std::uint64_t calls = 0;                              // Whole answers with status 200.
  std::uint64_t events = 0;                             // Of event streams.
  std::uint64_t errors = 0;                             // Another status, or a connection that broke in a call.
  std::vector<std::chrono::nanoseconds> took{};         // Call due → whole answer.
  std::vector<std::chrono::nanoseconds> first_event{};  // Call due → first event.
  std::vector<std::chrono::nanoseconds> event_delay{};  // Provider's stamp inside the event → here.
};

/// Connections stay open between runs, and streams go on; all work is done inside run_for() and
/// run_until_streaming().
class Load {
 public:
  explicit Load(LoadPlan plan);
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  /// Forgets what was counted before, then runs.
  LoadFigures run_for(std::chrono::milliseconds duration);
  /// Until every connection has had an event; throws if that takes longer than the limit.
  void run_until_streaming(std::chrono::milliseconds limit);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// At q in [0, 1], by partial sorting; zero of nothing.
[[nodiscard]] std::chrono::nanoseconds quantile(std::vector<std::chrono::nanoseconds>& values, double q);

}  // namespace bench
