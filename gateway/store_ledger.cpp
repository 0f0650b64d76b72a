#include "gateway/store_ledger.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace gateway {

/// Told by the store's thread through the loop; whoever waited may be gone by then.
template <typename T>
struct StoreLedger::Awaited {
  explicit Awaited(asio::io_context& io) : bell(io) {}
  Signal bell;
  std::optional<T> told{};

  static auto teller(std::shared_ptr<Awaited> self) {
    return [self = std::move(self)](T value) mutable {
      asio::io_context& io = self->bell.io();
      // Moved on, so that the last reference never dies on the store's thread.
      asio::post(io, [awaited = std::move(self), value = std::move(value)]() mutable {
        awaited->told = std::move(value);
        awaited->bell.ring();
      });
    };
  }
};

StoreLedger::StoreLedger(Runtime& runtime, asio::io_context& io, ledger::Store& store)
    : runtime_(runtime), io_(io), store_(store) {}

template <typename T>
task<std::optional<T>> StoreLedger::wait_for(std::shared_ptr<Awaited<T>> awaited) {
  const TimePoint until = runtime_.now() + commit_wait_;
  while (!awaited->told && runtime_.now() < until) co_await runtime_.wait(awaited->bell, until);
  co_return std::move(awaited->told);
}

task<ledger::ClaimAnswer> StoreLedger::claim(ledger::ClaimAsk ask) {
  auto awaited = std::make_shared<Awaited<ledger::ClaimAnswer>>(io_);
  const ledger::Digest scope = ask.scope;
  std::string call_id = ask.call_id;
  store_.claim(std::move(ask), Awaited<ledger::ClaimAnswer>::teller(awaited));
  std::optional<ledger::ClaimAnswer> answer = co_await wait_for<ledger::ClaimAnswer>(awaited);
  if (answer) co_return std::move(*answer);
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
  auto awaited = std::make_shared<Awaited<ledger::Written>>(io_);
  store_.open_attempt(row, Awaited<ledger::Written>::teller(awaited));
  (void)co_await wait_for<ledger::Written>(awaited);
}

task<bool> StoreLedger::end(const CallRecord& record, std::optional<ledger::OnceOutcome> once) {
  auto awaited = std::make_shared<Awaited<ledger::Written>>(io_);
  ++ended_;
  store_.end_call(record, std::move(once), Awaited<ledger::Written>::teller(awaited));
  const std::optional<ledger::Written> written = co_await wait_for<ledger::Written>(awaited);
  const bool committed = written == ledger::Written::Committed;
  if (!committed) ++late_;
  co_return committed;
}

}  // namespace gateway
