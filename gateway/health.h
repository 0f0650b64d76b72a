#pragma once
// The health listener: /livez, /readyz and /metrics, nothing else, on a thread of its own.
//
// cpp-httplib reads the requests and writes the answers, but does not listen: its pool gives each open connection a
// thread, so that a hundred silent ones keep a probe waiting for more than 20 s (measured), and kubelet restarts us.

#include <functional>
#include <memory>
#include <string>

namespace gateway {

/// All are called on the health thread.
struct HealthSources {
  /// Is the I/O thread turning?
  std::function<bool()> alive;
  /// Empty when ready, else why not, one reason a line.
  std::function<std::string()> not_ready_because;
  std::function<std::string()> metrics;
};

class HealthServer {
 public:
  /// `address` like "127.0.0.1:4601", port 0 picks a free one. Throws std::runtime_error that names address and mend.
  HealthServer(const std::string& address, HealthSources sources);
  ~HealthServer();  // Stops and joins.
  /// The address that was bound, with the real port.
  [[nodiscard]] std::string address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gateway
