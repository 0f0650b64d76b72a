#include "ledger/claims.h"

#include <algorithm>
#include <utility>

#include "ledger/pack.h"
#include "ledger/rows.h"

namespace ledger {
namespace {

enum State : std::int8_t { Claimed = 0, Stored = 1, Unknown = 2 };

/// What a row costs besides its body, about.
constexpr std::int64_t kRowBytes = 256;

std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};  // NOLINT
}

std::chrono::system_clock::time_point time_of(std::int64_t ms) {
  return std::chrono::system_clock::time_point{std::chrono::milliseconds{ms}};
}

/// A sealed answer cannot be given for another job, nor for another call of it.
std::string bound_to(const Digest& scope, const std::string& call_id) {
  return std::string{bytes_of(scope)} + call_id;
}

Digest digest_of(std::string_view bytes) {
  Digest digest{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), digest.size()), digest.begin());
  return digest;
}

}  // namespace

Claims::Claims(Database& database, const StoreOptions& options)
    : database_(database),
      payloads_(options.payloads),
      answers_for_ms_(options.answers_for.count()),
      answers_bytes_(options.answers_bytes),
      select_(database,
              "SELECT fingerprint, state, call_id, lease_until_ms, expires_ms, give_once, status, stream, cost_nano, "
              "bytes "
              "FROM idempotency WHERE scope = ?"),
      body_(database, "SELECT body FROM idempotency WHERE scope = ?"),
      insert_(database,
              "INSERT INTO idempotency(scope, fingerprint, key, tenant, state, call_id, claimed_ms, lease_until_ms) "
              "VALUES (?, ?, ?, ?, 0, ?, ?, ?)"),
      take_over_(database,
                 "UPDATE idempotency SET fingerprint = ?2, key = ?3, tenant = ?4, state = 0, call_id = ?5, "
                 "claimed_ms = ?6, lease_until_ms = ?7, expires_ms = NULL, used_ms = NULL, give_once = 0, "
                 "status = NULL, stream = NULL, cost_nano = NULL, body = NULL, bytes = 0 WHERE scope = ?1"),
      use_(database, "UPDATE idempotency SET used_ms = ? WHERE scope = ?"),
      store_(
          database,
          "UPDATE idempotency SET state = 1, lease_until_ms = NULL, expires_ms = ?3, used_ms = ?4, give_once = ?5, "
          "status = ?6, stream = ?7, cost_nano = ?8, body = ?9, bytes = ?10 "
          "WHERE scope = ?1 AND call_id = ?2 AND state = 0"),
      give_up_(database, "DELETE FROM idempotency WHERE scope = ? AND call_id = ? AND state = 0"),
      remove_(database, "DELETE FROM idempotency WHERE scope = ?"),
      renew_(database, "UPDATE idempotency SET lease_until_ms = ? WHERE scope = ? AND call_id = ? AND state = 0") {
  if (payloads_ == Payloads::Encrypted) seal_.emplace(options.payload_key, options.old_payload_keys);
  Statement sums(database, "SELECT count(*), sum(bytes) FROM idempotency WHERE state = 1");
  if (sums.step()) {
    figures_.answers = static_cast<std::uint64_t>(sums.number(0));
    figures_.bytes = static_cast<std::uint64_t>(sums.number(1));
  }
  before_ = figures_;
}

const std::string* Claims::in_memory(const Digest& scope) const {
  const auto change =
      std::find_if(changes_.rbegin(), changes_.rend(), [&](const Change& c) { return c.scope == scope; });
  if (change != changes_.rend()) return change->body ? &*change->body : nullptr;
  const auto kept = bodies_.find(scope);
  return kept == bodies_.end() ? nullptr : &kept->second;
}

bool Claims::holds(const Digest& scope, const std::string& call_id) const {
  const auto change =
      std::find_if(changes_.rbegin(), changes_.rend(), [&](const Change& c) { return c.scope == scope; });
  if (change != changes_.rend()) return change->held && change->held->call_id == call_id;
  const auto held = held_.find(scope);
  return held != held_.end() && held->second.call_id == call_id;
}

std::expected<StoredAnswer, std::string> Claims::read(const Digest& scope, const std::string& call_id) {
  if (const std::string* body = in_memory(scope)) return unpack(*body);
  body_.bind_blob(1, bytes_of(scope));
  const bool found = body_.step() && !body_.is_null(0);
  const std::string body{found ? body_.blob(0) : std::string_view{}};
  body_.reset();
  if (!found) return std::unexpected("its body was kept in memory, and that process is gone");
  if (!seal_) return unpack(body);
  const std::expected<std::string, std::string> opened = seal_->open(body, bound_to(scope, call_id));
  if (opened) return unpack(*opened);
  // It may have been stored in the clear, before there was a key.
  std::expected<StoredAnswer, std::string> plain = unpack(body);
  if (!plain) return std::unexpected(opened.error());
  return plain;
}

ClaimAnswer Claims::take(const ClaimAsk& ask, ClaimAnswer::Kind kind, std::string earlier) {
  const std::int64_t now = ms_of(ask.now);
  ClaimAnswer answer;
  answer.kind = kind;
  answer.until = ask.now + ask.lease;
  answer.call_id = kind == ClaimAnswer::Kind::Unknown ? std::move(earlier) : ask.call_id;
  Change change;
  change.scope = ask.scope;
  change.held = Held{ask.call_id, now, ask.lease.count()};
  changes_.push_back(std::move(change));
  return answer;
}

void Claims::count_out() {
  if (select_.number(1) != Stored) return;
  --figures_.answers;
  figures_.bytes -= static_cast<std::uint64_t>(select_.number(9));
}

ClaimAnswer Claims::ask(const ClaimAsk& ask) {
  using Kind = ClaimAnswer::Kind;
  const std::int64_t now = ms_of(ask.now);
  const std::int64_t lease_until = now + ask.lease.count();
  const auto write = [&](Statement& statement) {
    statement.bind_blob(1, bytes_of(ask.scope)).bind_blob(2, bytes_of(ask.fingerprint)).bind(3, ask.key);
    statement.bind(4, ask.tenant).bind(5, ask.call_id).bind(6, now).bind(7, lease_until).run();
  };
  select_.bind_blob(1, bytes_of(ask.scope));
  if (!select_.step()) {
    write(insert_);
    return take(ask, Kind::Ours, {});
  }
  const std::string call_id{select_.text(2)};
  const std::int64_t state = select_.number(1);
  const std::int64_t lease_end = select_.number(3);
  const bool expired = !select_.is_null(4) && select_.number(4) <= now;
  const bool same = select_.blob(0) == bytes_of(ask.fingerprint);
  const auto take_over = [&](Kind kind) {
    count_out();
    select_.reset();
    write(take_over_);
    return take(ask, kind, call_id);
  };
  if (expired) return take_over(Kind::Ours);
  if (!same) {
    select_.reset();
    ClaimAnswer other;
    other.kind = Kind::OtherBody;
    other.call_id = call_id;
    return other;
  }
  if (state == Claimed && call_id == ask.call_id) return take_over(Kind::Ours);
  if (state == Claimed && lease_end > now) {
    select_.reset();
    ClaimAnswer held;
    held.kind = Kind::Held;
    held.call_id = call_id;
    held.until = time_of(lease_end);
    return held;
  }
  const auto unknown = [&] {
    if (ask.rerun) return take_over(Kind::Unknown);
    select_.reset();
    ClaimAnswer told;
    told.kind = Kind::Unknown;
    told.call_id = call_id;
    return told;
  };
  if (state != Stored) return unknown();

  std::expected<StoredAnswer, std::string> stored = read(ask.scope, call_id);
  if (!stored) {
    ++figures_.unreadable;
    return unknown();
  }
  *stored = with_row(std::move(*stored), call_id);
  const bool once = select_.number(5) != 0;
  if (once) count_out();
  select_.reset();
  if (once) {
    remove_.bind_blob(1, bytes_of(ask.scope)).run();
    Change gone;
    gone.scope = ask.scope;
    changes_.push_back(std::move(gone));
  } else {
    use_.bind(1, now).bind_blob(2, bytes_of(ask.scope)).run();
  }
  ClaimAnswer answer;
  answer.kind = Kind::Stored;
  answer.call_id = call_id;
  answer.answer = std::make_shared<const StoredAnswer>(std::move(*stored));
  return answer;
}

/// What its row says of an answer, besides its body.
StoredAnswer Claims::with_row(StoredAnswer answer, std::string call_id) const {
  answer.status = static_cast<int>(select_.number(6));
  answer.stream = select_.number(7) != 0;
  if (!select_.is_null(8)) answer.cost = budget::NanoUsd{select_.number(8)};
  answer.call_id = std::move(call_id);
  return answer;
}

Claims::Seen Claims::look(const ClaimAsk& ask, const OnceOutcome* waiting, bool recovered) {
  using Kind = ClaimAnswer::Kind;
  const auto says = [](Kind kind, std::string call_id = {}) {
    Seen seen;
    seen.answer.kind = kind;
    seen.answer.call_id = std::move(call_id);
    return seen;
  };
  const std::int64_t now = ms_of(ask.now);
  select_.bind_blob(1, bytes_of(ask.scope));
  struct Reset {  // A statement left on its row would hold a snapshot.
    Statement& statement;
    ~Reset() { statement.reset(); }
  };
  const Reset reset{select_};
  const bool there = select_.step();
  const std::string call_id{there ? select_.text(2) : std::string_view{}};
  const std::int64_t state = there ? select_.number(1) : std::int64_t{Unknown};
  const bool expired = there && !select_.is_null(4) && select_.number(4) <= now;
  std::expected<StoredAnswer, std::string> stored = std::unexpected(std::string{});
  if (there && state == Stored && !expired) stored = read(ask.scope, call_id);
  // The asker's own end, which has overtaken its claim.
  if (waiting != nullptr && waiting->call_id == ask.call_id) return says(Kind::NoStore);
  const bool its = there && waiting != nullptr && waiting->call_id == call_id;
  if (waiting != nullptr && (its || (waiting->unclaimed && !stored))) {
    if (!waiting->answer) return says(Kind::NoStore);
    const bool same = waiting->unclaimed ? waiting->unclaimed->fingerprint == ask.fingerprint
                                         : select_.blob(0) == bytes_of(ask.fingerprint);
    if (!same) return says(Kind::OtherBody, waiting->call_id);
    Seen seen = says(Kind::Stored, waiting->call_id);
    StoredAnswer answer = *waiting->answer;
    answer.call_id = waiting->call_id;
    seen.answer.answer = std::make_shared<const StoredAnswer>(std::move(answer));
    seen.give_once = waiting->give_once;
    return seen;
  }
  if (!there || expired) return says(Kind::NoStore);
  if (select_.blob(0) != bytes_of(ask.fingerprint)) return says(Kind::OtherBody, call_id);
  if (state == Claimed && call_id == ask.call_id) return says(Kind::NoStore);
  // Its lease could not be renewed: it is as good as its holder.
  const bool held = holds(ask.scope, call_id);
  if (state == Claimed && recovered && (held || select_.number(3) > now)) {
    Seen seen = says(Kind::Held, call_id);
    seen.answer.until = held ? ask.now + ask.lease : time_of(select_.number(3));
    return seen;
  }
  if (!stored) return says(ask.rerun ? Kind::NoStore : Kind::Unknown, call_id);
  Seen seen = says(Kind::Stored, call_id);
  seen.give_once = select_.number(5) != 0;
  seen.answer.answer = std::make_shared<const StoredAnswer>(with_row(std::move(*stored), call_id));
  return seen;
}

std::string Claims::as_stored(const OnceOutcome& once) const {
  if (!once.answer) return {};
  std::string bytes = pack(*once.answer);
  return seal_ ? seal_->seal(bytes, bound_to(once.scope, once.call_id)) : bytes;
}

void Claims::end(const OnceOutcome& once, const std::string& as_stored, std::int64_t now_ms) {
  if (once.unclaimed && once.answer && !holds(once.scope, once.call_id)) {
    const ClaimAnswer::Kind kind = ask(*once.unclaimed).kind;
    if (kind != ClaimAnswer::Kind::Ours && kind != ClaimAnswer::Kind::Unknown) {
      if (kind == ClaimAnswer::Kind::Stored) ++figures_.paid_again;
      return;
    }
  }
  Change change;
  change.scope = once.scope;
  const std::int64_t bytes = static_cast<std::int64_t>(as_stored.size()) + kRowBytes;
  // One that alone is more than all may be is not worth the others' place.
  if (!once.answer || static_cast<std::uint64_t>(bytes) > answers_bytes_) {
    give_up_.bind_blob(1, bytes_of(once.scope)).bind(2, once.call_id).run();
    if (database_.changes() > 0) changes_.push_back(std::move(change));
    return;
  }
  const bool on_disk = payloads_ != Payloads::Memory;
  store_.bind_blob(1, bytes_of(once.scope)).bind(2, once.call_id).bind(3, now_ms + answers_for_ms_).bind(4, now_ms);
  store_.bind(5, once.give_once).bind(6, once.answer->status).bind(7, once.answer->stream);
  store_.bind(8, once.answer->cost ? std::optional<std::int64_t>{once.answer->cost->value} : std::nullopt);
  if (on_disk) {
    store_.bind_blob(9, as_stored);
  } else {
    store_.bind(9, nullptr);
  }
  store_.bind(10, bytes).run();
  if (database_.changes() == 0) return;
  ++figures_.answers;
  figures_.bytes += static_cast<std::uint64_t>(bytes);
  if (!on_disk) change.body = as_stored;
  changes_.push_back(std::move(change));
}

void Claims::forget(const Digest& scope, const std::string& call_id) {
  select_.bind_blob(1, bytes_of(scope));
  if (!select_.step()) return;
  const bool its = select_.text(2) == call_id;
  if (its) count_out();
  select_.reset();
  if (!its) return;
  remove_.bind_blob(1, bytes_of(scope)).run();
  Change gone;
  gone.scope = scope;
  changes_.push_back(std::move(gone));
}

void Claims::abandon(const Digest& scope, const std::string& call_id) {
  const auto held = held_.find(scope);
  if (held != held_.end() && held->second.call_id == call_id) held_.erase(held);
}

void Claims::close_unknown(std::int64_t now_ms) {
  Statement close(database_,
                  "UPDATE idempotency SET state = 2, lease_until_ms = NULL, expires_ms = ? WHERE state = 0");
  close.bind(1, now_ms + answers_for_ms_).run();
}

bool Claims::to_renew(std::int64_t now_ms) const {
  return std::ranges::any_of(
      held_, [&](const auto& held) { return now_ms - held.second.renewed_ms >= held.second.lease_ms / 2; });
}

void Claims::renew(std::int64_t now_ms) {
  for (const auto& [scope, held] : held_) {
    if (now_ms - held.renewed_ms < held.lease_ms / 2) continue;
    renew_.bind(1, now_ms + held.lease_ms).bind_blob(2, bytes_of(scope)).bind(3, held.call_id).run();
    Change change;
    change.scope = scope;
    // Taken over by another, or ended: no row of its own any more.
    if (database_.changes() > 0) change.held = Held{held.call_id, now_ms, held.lease_ms};
    changes_.push_back(std::move(change));
  }
}

bool Claims::tidy(std::int64_t now_ms, int most) {
  std::vector<Digest> scopes;
  const auto collect = [&](Statement& rows) {
    while (rows.step()) {
      const bool stored = rows.number(1) == Stored;
      if (stored) {
        --figures_.answers;
        figures_.bytes -= static_cast<std::uint64_t>(rows.number(2));
      }
      scopes.push_back(digest_of(rows.blob(0)));
      if (static_cast<int>(scopes.size()) >= most) break;
    }
    rows.reset();
  };
  Statement expired(
      database_,
      "SELECT scope, state, bytes FROM idempotency WHERE expires_ms IS NOT NULL AND expires_ms <= ? LIMIT ?");
  expired.bind(1, now_ms).bind(2, most);
  collect(expired);
  const auto drop = [&] {
    for (const Digest& scope : scopes) {
      remove_.bind_blob(1, bytes_of(scope)).run();
      Change gone;
      gone.scope = scope;
      changes_.push_back(std::move(gone));
    }
  };
  drop();
  bool more = static_cast<int>(scopes.size()) >= most;
  scopes.clear();
  if (figures_.bytes > answers_bytes_ && !more) {
    Statement oldest(database_,
                     "SELECT scope, state, bytes FROM idempotency WHERE state = 1 ORDER BY used_ms LIMIT ?");
    oldest.bind(1, most);
    std::uint64_t before = figures_.answers;
    while (figures_.bytes > answers_bytes_ && oldest.step()) {
      --figures_.answers;
      figures_.bytes -= static_cast<std::uint64_t>(oldest.number(2));
      scopes.push_back(digest_of(oldest.blob(0)));
    }
    oldest.reset();
    figures_.evicted += before - figures_.answers;
    drop();
    more = figures_.bytes > answers_bytes_ && !scopes.empty();
  }
  return more;
}

void Claims::configure(std::chrono::milliseconds answers_for, std::uint64_t answers_bytes) {
  answers_for_ms_ = answers_for.count();
  answers_bytes_ = answers_bytes;
}

void Claims::committed() {
  for (Change& change : changes_) {
    if (change.held) {
      held_.insert_or_assign(change.scope, std::move(*change.held));
    } else {
      held_.erase(change.scope);
    }
    if (change.body) {
      bodies_.insert_or_assign(change.scope, std::move(*change.body));
    } else {
      bodies_.erase(change.scope);
    }
  }
  changes_.clear();
  before_ = figures_;
}

void Claims::rolled_back() {
  select_.reset();
  body_.reset();
  changes_.clear();
  figures_ = before_;
}

}  // namespace ledger
