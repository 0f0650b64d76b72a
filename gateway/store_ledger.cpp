#include "gateway/store_ledger.h"

#include <utility>

#include "gateway/awaited.h"
#include "gateway/fault_point.h"

namespace gateway {
namespace {

using ClaimAwaited = Awaited<ledger::ClaimAnswer>;
using WriteAwaited = Awaited<ledger::Written>;

}  // namespace

StoreLedger::StoreLedger(Runtime& runtime, asio::io_context& io, ledger::Store& store)
    : runtime_(runtime), io_(io), store_(store) {}

task<ledger::ClaimAnswer> StoreLedger::claim(ledger::ClaimAsk ask) {
  auto awaited = std::make_shared<ClaimAwaited>(io_);
  const ledger::Digest scope = ask.scope;
  std::string call_id = ask.call_id;
  store_.claim(std::move(ask), ClaimAwaited::teller(awaited));
  std::optional<ledger::ClaimAnswer> answer =
      co_await ClaimAwaited::told(awaited, runtime_, runtime_.now() + commit_wait_);
  if (answer) {
    fault_point(Step::Claimed);
    co_return std::move(*answer);
  }
  // Should it be taken after all, it is nobody's.
  store_.forget_claim(scope, std::move(call_id));
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
  (void)co_await WriteAwaited::told(awaited, runtime_, runtime_.now() + commit_wait_);
}

void StoreLedger::attempt_ended(const CallRecord& record) { store_.attempt_ended(record); }

task<bool> StoreLedger::end(const CallRecord& record, std::optional<ledger::OnceOutcome> once) {
  auto awaited = std::make_shared<WriteAwaited>(io_);
  ++ended_;
  store_.end_call(record, std::move(once), WriteAwaited::teller(awaited));
  const std::optional<ledger::Written> written =
      co_await WriteAwaited::told(awaited, runtime_, runtime_.now() + commit_wait_);
  co_return written == ledger::Written::Committed;
}

}  // namespace gateway
