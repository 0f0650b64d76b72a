#pragma once
// What do we remember while there is no store? Which attempts are open, and how calls ended, in memory.

#include <cstdint>
#include <set>
#include <string>

#include "gateway/services.h"

namespace gateway {

/// Answers at once. I/O thread only.
class MemoryLedger final : public Ledger {
 public:
  task<Claim> claim(const CallRecord& record, Signal& signal) override;
  task<void> open(const OpenRow& row, Signal& signal) override;
  task<bool> end(const CallRecord& record) override;

  /// Calls with an attempt under way.
  [[nodiscard]] std::size_t open_rows() const { return open_.size(); }
  [[nodiscard]] std::uint64_t ended() const { return ended_; }

 private:
  std::set<std::string, std::less<>> open_{};  // Call ids: one attempt of a call at a time.
  std::uint64_t ended_ = 0;
};

}  // namespace gateway
