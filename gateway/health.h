#pragma once
// The health listener: /livez, /readyz and /metrics, nothing else.

#include <functional>
#include <string>

#include "gateway/endpoint.h"

namespace gateway {

/// All are called on the listener's thread.
struct HealthSources {
  /// Is the I/O thread turning?
  std::function<bool()> alive;
  /// Empty when ready, else why not, one reason a line.
  std::function<std::string()> not_ready_because;
  /// What is amiss although it is ready, for people; may be empty.
  std::function<std::string()> remark{};
  std::function<std::string()> metrics;
  /// Are the metrics that are made after this the last ones? If so, `last_taken` is called once a GET's answer with
  /// them has reached its reader.
  std::function<bool()> settled{};
  std::function<void()> last_taken{};
};

class HealthServer {
 public:
  /// `address` like "127.0.0.1:4601", port 0 picks a free one. Throws std::runtime_error that names address and mend.
  HealthServer(const std::string& address, HealthSources sources);
  /// The address that was bound, with the real port.
  [[nodiscard]] const std::string& address() const { return endpoint_.address(); }

 private:
  Endpoint endpoint_;
};

}  // namespace gateway
