#include "gateway/store_ledger.h"

#include <utility>

#include "gateway/awaited.h"
#include "gateway/fault_point.h"

namespace gateway {
namespace {

using ClaimAwaited = Awaited<ledger::ClaimAnswer>;
using WriteAwaited = Awaited<ledger::Written>;

/// A store that is in trouble says so at once; one that is only slow is worth waiting for, since without an answer a
/// job might be paid twice.
constexpr std::chrono::milliseconds kClaimPatience{5'000};

}  // namespace

StoreLedger::StoreLedger(Runtime& runtime, asio::io_context& io, ledger::Store& store)
    : runtime_(runtime), io_(io), store_(store) {}

task<ledger::ClaimAnswer> StoreLedger::claim(ledger::ClaimAsk ask) {
  auto awaited = std::make_shared<ClaimAwaited>(io_);
  // Should it be taken after all, it is nobody's.
  awaited->if_late([this, scope = ask.scope, call_id = ask.call_id](const ledger::ClaimAnswer& answer) {
    using Kind = ledger::ClaimAnswer::Kind;
    if (answer.kind == Kind::Ours || answer.kind == Kind::Unknown) store_.forget_claim(scope, call_id);
  });
  store_.claim(std::move(ask), ClaimAwaited::teller(awaited));
  std::optional<ledger::ClaimAnswer> answer =
      co_await ClaimAwaited::told(awaited, runtime_, trouble_ ? TimePoint::min() : runtime_.now() + kClaimPatience);
  if (answer) {
    fault_point(Step::Claimed);
    co_return std::move(*answer);
  }
  ledger::ClaimAnswer none;
  none.kind = ledger::ClaimAnswer::Kind::NoStore;
  co_return none;
}

void StoreLedger::forget_claim(const ledger::Digest& scope, const std::string& call_id) {
  store_.forget_claim(scope, call_id);
}

task<void> StoreLedger::open(const OpenRow& row) {
  if (!row.durable) {
    store_.open_attempt(row);
    co_return;
  }
  auto awaited = std::make_shared<WriteAwaited>(io_);
  store_.open_attempt(row, WriteAwaited::teller(awaited));
  const TimePoint until = trouble_ ? TimePoint::min() : runtime_.now() + commit_wait_;
  (void)co_await WriteAwaited::told(awaited, runtime_, until);
}

void StoreLedger::attempt_ended(const CallRecord& record) { store_.attempt_ended(record); }

task<bool> StoreLedger::end(const CallRecord& record, ledger::CallEnd end) {
  auto awaited = std::make_shared<WriteAwaited>(io_);
  ++ended_;
  store_.end_call(record, std::move(end), WriteAwaited::teller(awaited));
  const TimePoint until = trouble_ ? TimePoint::min() : runtime_.now() + commit_wait_;
  const std::optional<ledger::Written> written = co_await WriteAwaited::told(awaited, runtime_, until);
  co_return written == ledger::Written::Committed;
}

}  // namespace gateway
