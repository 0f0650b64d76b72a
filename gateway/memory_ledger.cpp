#include "gateway/memory_ledger.h"

namespace gateway {

task<Claim> MemoryLedger::claim(const CallRecord&, Signal&) { co_return Claim::Ours; }

task<void> MemoryLedger::open(const OpenRow& row, Signal&) {
  open_.insert(row.call_id);
  co_return;
}

task<bool> MemoryLedger::end(const CallRecord& record) {
  open_.erase(record.id);
  ++ended_;
  co_return true;
}

}  // namespace gateway
