#pragma once
// How does a call wait for the store? The ledger's door, between the I/O thread and the store's own.
//
// A call with a key waits once, not twice: the claim of a job that is certainly new (known_scopes.h) is handed over
// without waiting, and the attempt's durable row, which the store writes behind it, is waited for in its place.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "gateway/known_scopes.h"
#include "gateway/services.h"
#include "ledger/store.h"

namespace gateway {

template <typename T>
class Awaited;

/// I/O thread only. The store must be gone before the io_context is.
class StoreLedger final : public Ledger {
 public:
  /// Of a job that was taken for new and is another's: it may be paid twice. Not to happen.
  using Mistaken = std::function<void(const std::string& call_id, const ledger::ClaimAnswer& answer)>;
  StoreLedger(Runtime& runtime, asio::io_context& io, ledger::Store& store, Mistaken mistaken = {});
  /// `key_lives`: for how long the store may know a job behind its last sign of life.
  void configure(std::chrono::milliseconds commit_wait, std::chrono::milliseconds key_lives) {
    commit_wait_ = commit_wait;
    key_lives_ = key_lives;
  }
  /// While the disk refuses, no answer waits for it.
  void in_trouble(bool yes) { trouble_ = yes; }
  /// Reads in the background which jobs the store knows. Until it is done, none is certainly new.
  void learn();

  task<ledger::ClaimAnswer> claim(ledger::ClaimAsk ask) override;
  bool claim_ahead(const ledger::ClaimAsk& ask) override;
  void forget_claim(const ledger::Digest& scope, const std::string& call_id) override;
  task<void> open(const OpenRow& row) override;
  void attempt_ended(const CallRecord& record) override;
  task<bool> end(const CallRecord& record, ledger::CallEnd end) override;

  [[nodiscard]] std::uint64_t ended() const { return ended_; }
  [[nodiscard]] const KnownScopes& known() const { return known_; }

 private:
  using ClaimAwaited = Awaited<ledger::ClaimAnswer>;
  void know(const ledger::Digest& scope);
  task<void> read_scopes();
  void look_at(const std::string& call_id, const ledger::ClaimAnswer& answer) const;

  Runtime& runtime_;
  asio::io_context& io_;
  ledger::Store& store_;
  Mistaken mistaken_;
  std::chrono::milliseconds commit_wait_{250};
  std::chrono::milliseconds key_lives_{0};
  bool trouble_ = false;
  std::uint64_t ended_ = 0;
  KnownScopes known_{};
  std::map<std::string, std::shared_ptr<ClaimAwaited>> ahead_{};  // By call; until its first durable row.
};

}  // namespace gateway
