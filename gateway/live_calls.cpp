#include "gateway/live_calls.h"

#include <algorithm>

namespace gateway {
namespace {

bool is_meant(const LiveCall& call, const CancelWhat& what) {
  if (!what.tenant.empty() && call.tenant != what.tenant) return false;
  if (!what.call_id.empty()) return call.id == what.call_id;
  if (!what.run_id.empty()) return call.run_id == what.run_id;
  return !what.tenant.empty();
}

}  // namespace

std::size_t LiveCalls::cancel(const CancelWhat& what) {
  std::size_t ended = 0;
  for (LiveCall& call : calls_) {
    if (!is_meant(call, what) || call.signal->stopped()) continue;
    call.signal->stop(StopReason::Cancelled);
    ++ended;
  }
  return ended;
}

std::vector<LiveCall> LiveCalls::list(std::size_t most) const {
  std::vector<LiveCall> some;
  for (const LiveCall& call : calls_) {
    if (some.size() == most) break;
    some.push_back(call);
  }
  return some;
}

}  // namespace gateway
