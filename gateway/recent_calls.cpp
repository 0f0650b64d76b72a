#include "gateway/recent_calls.h"

#include <algorithm>
#include <utility>

#include "ledger/call_detail.h"

namespace gateway {

void RecentCalls::add(CallRecord record, WallTime ended) {
  if (calls_.size() == most_) calls_.pop_front();
  record.ended = ended;
  calls_.push_back(std::move(record));
}

std::string RecentCalls::json_of(std::string_view call_id) const {
  const auto found =
      std::find_if(calls_.rbegin(), calls_.rend(), [&](const CallRecord& record) { return record.id == call_id; });
  return found == calls_.rend() ? std::string{} : ledger::json_of(ledger::detail_of(*found)) + "\n";
}

}  // namespace gateway
