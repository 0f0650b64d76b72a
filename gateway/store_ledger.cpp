#include "gateway/store_ledger.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <expected>
#include <utility>
#include <vector>

#include "gateway/awaited.h"
#include "gateway/fault_point.h"

namespace gateway {
namespace {

using ledger::ClaimAnswer;
using std::chrono::milliseconds;
using WriteAwaited = Awaited<ledger::Written>;
using ScopePage = ledger::Books::Answer<std::vector<ledger::ScopeRow>>;

/// A store that is in trouble says so at once; one that is only slow is worth waiting for, since without an answer a
/// job might be paid twice.
constexpr milliseconds kClaimPatience{5'000};
constexpr std::size_t kScopesPage = 10'000;
constexpr milliseconds kLearnAgain{5'000};
/// Rows leave the store some time after they have expired, and the wall's clock may be set back.
constexpr std::chrono::hours kMargin{1};
constexpr std::chrono::hours kLongest{24 * 365 * 10};  // Nothing true in a row is later.

}  // namespace

StoreLedger::StoreLedger(Runtime& runtime, asio::io_context& io, ledger::Store& store, Mistaken mistaken)
    : runtime_(runtime), io_(io), store_(store), mistaken_(std::move(mistaken)) {}

void StoreLedger::know(const ledger::Digest& scope) {
  const WallTime now = runtime_.wall_now();
  known_.add(scope, now + key_lives_ + kMargin, now);
}

void StoreLedger::learn() { asio::co_spawn(io_, read_scopes(), asio::detached); }

task<void> StoreLedger::read_scopes() {
  std::int64_t after = 0;
  while (!known_.is_complete()) {
    auto awaited = std::make_shared<Awaited<ScopePage>>(io_);
    auto tell = Awaited<ScopePage>::teller(awaited);
    store_.read(
        [after, tell = std::move(tell)](ledger::Books& books) mutable { tell(books.scopes(after, kScopesPage)); });
    const std::optional<ScopePage> page = co_await Awaited<ScopePage>::told(awaited, runtime_, TimePoint::max());
    if (!page || !*page) {
      const TimePoint again = runtime_.now() + kLearnAgain;
      Signal pause{io_};
      while (runtime_.now() < again) co_await runtime_.wait(pause, again);
      continue;
    }
    const WallTime now = runtime_.wall_now();
    for (const ledger::ScopeRow& row : **page) {
      after = row.row;
      WallTime until = now + key_lives_;
      if (row.expires_ms) {
        const WallTime latest = now + kLongest;
        const milliseconds last = std::chrono::floor<milliseconds>(latest.time_since_epoch());
        until = WallTime{std::min(milliseconds{*row.expires_ms}, last)};
      }
      // What has expired is as never seen, and goes.
      if (until + kMargin >= now) known_.add(row.scope, until + kMargin, now);
    }
    if ((*page)->size() < kScopesPage) known_.complete();
  }
}

task<ClaimAnswer> StoreLedger::claim(ledger::ClaimAsk ask) {
  know(ask.scope);
  auto awaited = std::make_shared<ClaimAwaited>(io_);
  // Should it be taken after all, it is nobody's.
  awaited->if_late([this, scope = ask.scope, call_id = ask.call_id](const ClaimAnswer& answer) {
    using Kind = ClaimAnswer::Kind;
    if (answer.kind == Kind::Ours || answer.kind == Kind::Unknown) store_.forget_claim(scope, call_id);
  });
  store_.claim(std::move(ask), ClaimAwaited::teller(awaited));
  std::optional<ClaimAnswer> answer = co_await ClaimAwaited::told(awaited, runtime_, runtime_.now() + kClaimPatience);
  if (answer) {
    fault_point(Step::Claimed);
    co_return std::move(*answer);
  }
  ClaimAnswer none;
  none.kind = ClaimAnswer::Kind::NoStore;
  co_return none;
}

bool StoreLedger::claim_ahead(const ledger::ClaimAsk& ask) {
  if (trouble_ || !known_.certainly_new(ask.scope)) return false;
  know(ask.scope);
  auto awaited = std::make_shared<ClaimAwaited>(io_);
  awaited->if_late([this, call_id = ask.call_id](const ClaimAnswer& answer) { look_at(call_id, answer); });
  ahead_.insert_or_assign(ask.call_id, awaited);
  store_.claim(ask, ClaimAwaited::teller(std::move(awaited)));
  fault_point(Step::Claimed);
  return true;
}

/// Given up (NoStore) is what the call's end says again; Unknown was taken over.
void StoreLedger::look_at(const std::string& call_id, const ClaimAnswer& answer) const {
  using Kind = ClaimAnswer::Kind;
  const bool anothers = answer.kind == Kind::Stored || answer.kind == Kind::Held || answer.kind == Kind::OtherBody;
  if (anothers && mistaken_) mistaken_(call_id, answer);
}

void StoreLedger::forget_claim(const ledger::Digest& scope, const std::string& call_id) {
  ahead_.erase(call_id);
  store_.forget_claim(scope, call_id);
}

task<void> StoreLedger::open(const OpenRow& row) {
  if (!row.durable) {
    store_.open_attempt(row);
    co_return;
  }
  const std::string call_id = row.call->id;
  std::shared_ptr<ClaimAwaited> ahead;
  if (const auto found = ahead_.find(call_id); found != ahead_.end()) {
    ahead = std::move(found->second);
    ahead_.erase(found);
  }
  auto awaited = std::make_shared<WriteAwaited>(io_);
  store_.open_attempt(row, WriteAwaited::teller(awaited));
  const TimePoint begun = runtime_.now();
  const TimePoint until = trouble_ ? TimePoint::min() : begun + commit_wait_;
  (void)co_await WriteAwaited::told(awaited, runtime_, until);
  if (!ahead) co_return;
  // Where the row has been written, so has the claim before it.
  const std::optional<ClaimAnswer> claimed = co_await ClaimAwaited::told(ahead, runtime_, begun + kClaimPatience);
  if (claimed) look_at(call_id, *claimed);
}

void StoreLedger::attempt_ended(const CallRecord& record) { store_.attempt_ended(record); }

task<bool> StoreLedger::end(const CallRecord& record, ledger::CallEnd end) {
  ahead_.erase(record.id);
  auto awaited = std::make_shared<WriteAwaited>(io_);
  ++ended_;
  // An answer lives from its commit on, however long the call has taken and the disk has refused.
  std::optional<ledger::Digest> stored;
  if (end.once && end.once->answer) stored = end.once->scope;
  if (stored) {
    know(*stored);
    awaited->if_late([this, scope = *stored](ledger::Written) { know(scope); });
  }
  store_.end_call(record, std::move(end), WriteAwaited::teller(awaited));
  const TimePoint until = trouble_ ? TimePoint::min() : runtime_.now() + commit_wait_;
  const std::optional<ledger::Written> written = co_await WriteAwaited::told(awaited, runtime_, until);
  co_return written == ledger::Written::Committed;
}

}  // namespace gateway
