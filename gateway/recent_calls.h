#pragma once
// What became of a call a moment ago, attempt by attempt? The last few are kept in memory: they
// are there before the store has them.

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "gateway/services.h"

namespace gateway {

/// I/O thread only.
class RecentCalls {
 public:
  explicit RecentCalls(std::size_t most = 500) : most_(most) {}
  void add(CallRecord record, WallTime ended);
  /// The call as JSON (docs/spend.md has the form), or empty: it is not, or not any more, among them.
  [[nodiscard]] std::string json_of(std::string_view call_id) const;
  [[nodiscard]] std::size_t size() const { return calls_.size(); }

 private:
  std::size_t most_;
  std::deque<CallRecord> calls_{};  // The newest last.
};

}  // namespace gateway
