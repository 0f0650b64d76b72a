#pragma once
// How does a call wait for the store? The ledger's door, between the I/O thread and the store's own.

#include <chrono>
#include <cstdint>

#include "gateway/services.h"
#include "ledger/store.h"

namespace gateway {

/// I/O thread only. The store must be gone before the io_context is.
class StoreLedger final : public Ledger {
 public:
  StoreLedger(Runtime& runtime, asio::io_context& io, ledger::Store& store);
  void configure(std::chrono::milliseconds commit_wait) { commit_wait_ = commit_wait; }
  /// While the disk refuses, no answer waits for it.
  void in_trouble(bool yes) { trouble_ = yes; }

  task<ledger::ClaimAnswer> claim(ledger::ClaimAsk ask) override;
  void forget_claim(const ledger::Digest& scope, const std::string& call_id) override;
  task<void> open(const OpenRow& row) override;
  void attempt_ended(const CallRecord& record) override;
  task<bool> end(const CallRecord& record, ledger::CallEnd end) override;

  [[nodiscard]] std::uint64_t ended() const { return ended_; }

 private:
  Runtime& runtime_;
  asio::io_context& io_;
  ledger::Store& store_;
  std::chrono::milliseconds commit_wait_{250};
  bool trouble_ = false;
  std::uint64_t ended_ = 0;
};

}  // namespace gateway
