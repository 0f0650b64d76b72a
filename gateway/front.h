#pragma once
// The front door: a request becomes a call, its story is played, and what came of it is told to log and metrics.

#include <memory>
#include <string>
#include <utility>

#include "gateway/addressing.h"
#include "gateway/log.h"
#include "gateway/metrics.h"
#include "gateway/recent_calls.h"
#include "gateway/server.h"
#include "gateway/tenants.h"

namespace gateway {

/// I/O thread only.
class Front {
 public:
  Front(Services services, Metrics& metrics, Log& log, RecentCalls& recent);

  /// For calls that begin from now on; those under way keep what they began with.
  void configure(const Config& config);

  task<void> serve(Inbound request, Caller& caller, Signal& signal);
  /// Calls being played.
  [[nodiscard]] std::size_t active() const { return active_; }
  [[nodiscard]] std::pair<AnswerHead, std::string> refuse(const RefusedRequest& refused);

 private:
  Services services_;
  Metrics& metrics_;
  Log& log_;
  RecentCalls& recent_;
  std::shared_ptr<const Directory> directory_{};
  std::shared_ptr<const CallPolicy> policy_{};
  std::shared_ptr<const Tenants> tenants_{};
  std::size_t active_ = 0;
};

[[nodiscard]] std::shared_ptr<const Directory> directory_of(const Config& config);
[[nodiscard]] std::shared_ptr<const CallPolicy> policy_of(const Config& config);

}  // namespace gateway
