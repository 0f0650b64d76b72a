#pragma once
// The health listener: /livez, /readyz and /metrics, nothing else, on threads of its own (cpp-httplib).

#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace gateway {

struct HealthSources {
  /// Is the I/O thread turning? Any thread.
  std::function<bool()> alive;
  /// Empty when ready, else why not, one reason a line. Any thread.
  std::function<std::string()> not_ready_because;
  std::function<std::string()> metrics;   // Any thread.
};

class HealthServer {
 public:
  /// `address` like "127.0.0.1:4601", port 0 picks a free one. Throws std::runtime_error that names address and mend.
  HealthServer(const std::string& address, HealthSources sources);
  ~HealthServer();  // Stops and joins.
  [[nodiscard]] std::string address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gateway
