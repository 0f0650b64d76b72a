#pragma once
// The doors of the story: all that a call needs of the world. Tests put fakes behind each.

#include <array>
#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "budget/dispatcher.h"
#include "budget/lane.h"
#include "budget/memo.h"
#include "budget/units.h"
#include "classifier/announced.h"
#include "classifier/usage.h"
#include "classifier/verdict.h"
#include "gateway/caller.h"
#include "gateway/signal.h"
#include "gateway/upstream.h"
#include "ledger/records.h"
#include "ledger/store.h"

namespace gateway {

using WallTime = std::chrono::system_clock::time_point;

/// Time and chance.
class Runtime {
 public:
  virtual ~Runtime() = default;
  [[nodiscard]] virtual TimePoint now() const = 0;
  [[nodiscard]] virtual WallTime wall_now() const = 0;
  /// In [0, 1).
  [[nodiscard]] virtual double roll() = 0;
  [[nodiscard]] virtual std::uint64_t random_bits() = 0;
  /// Sleeps until the signal's next ring or until `until` (TimePoint::max(): only a ring ends it). It may return
  /// early, so whoever waits looks at the conditions again.
  virtual task<void> wait(Signal& signal, TimePoint until) = 0;
};

/// What admission must know of a call that wants to make an attempt.
struct Ask {
  std::span<const budget::Candidate> candidates{};  // In order of preference.
  /// For each of them the call's own backoff: not before then; max(): not at all any more.
  std::span<const TimePoint> not_before{};
  /// For each of them: this call has tried its upstream before, so that it needs the upstream's retry budget.
  std::span<const char> tried{};
  /// For each of them what it may cost at most; empty: no budget counts.
  std::span<const budget::NanoUsd> worst{};
  budget::Sizes sizes{};  // What its tokens are guessed from.
  std::string_view tenant = "default";
  std::string_view run_id{};
  budget::Lane lane = budget::Lane::Bulk;
  TimePoint deadline{};                            // After that, waiting is for nothing.
  std::chrono::milliseconds longest_wait{60'000};  // Longer pauses are not waited out.
  /// Of the call's first attempt, 0 before it: a repetition has its place before those who have not begun.
  std::uint64_t number = 0;
  bool again = false;
};

using budget::Refusal;
using budget::WaitTimes;

/// The leave to make an attempt, held while it runs.
struct Admitted {
  std::size_t candidate = 0;                 // Of Ask::candidates.
  std::shared_ptr<const std::string> key{};  // The credential's; null: the caller's own goes on.
  budget::Sizes sizes{};
  budget::Grant grant{};
};

class Admission {
 public:
  virtual ~Admission() = default;
  /// `waiter` is one call's, over all its attempts. `waits` grows. `ask.number` is set at the first.
  virtual task<std::expected<Admitted, Refusal>> admit(Ask& ask, budget::Waiter& waiter, WaitTimes& waits,
                                                       Signal& signal) = 0;
  /// How many tokens such a request is expected to take there.
  [[nodiscard]] virtual budget::Expected expected(const budget::Candidate& way, const budget::Sizes& sizes) = 0;
  /// The greatest share of its budgets that is spent, from warn_at on; else nothing.
  [[nodiscard]] virtual std::optional<double> warned_share(std::string_view tenant, std::string_view run_id) = 0;
  /// Content has come: whatever becomes of it, the upstream works.
  virtual void proved(Admitted& admitted) = 0;
  /// The attempt is over; all is given back. Without this call it ends as if nothing had been learned.
  virtual void ended(Admitted& admitted, const budget::Ended& end) = 0;
  /// What an answer's head said of the provider's limits.
  virtual void announced(const Admitted& admitted, std::span<const classifier::AnnouncedLimit> limits) = 0;
};

using ledger::AttemptRow;
using ledger::CallRecord;
using ledger::kOutcomeNames;
using ledger::OpenRow;
using ledger::Outcome;

/// What is remembered. Each waits as long as store.commit_wait says at most; what comes later is counted, not
/// awaited.
class Ledger {
 public:
  virtual ~Ledger() = default;
  /// Was this job seen before? A claim of ours lasts until the call's end().
  virtual task<ledger::ClaimAnswer> claim(ledger::ClaimAsk ask) = 0;
  /// Of a job that was certainly never seen the answer is known before it is asked. True: its claim is handed over,
  /// and whatever is told of the call later is written behind it; the call's end() says it again
  /// (OnceOutcome::unclaimed), should it have been given up. False: claim() must be asked.
  [[nodiscard]] virtual bool claim_ahead(const ledger::ClaimAsk& ask) = 0;
  /// What is stored under it is not wanted any more, or the claim is given up without a call.
  virtual void forget_claim(const ledger::Digest& scope, const std::string& call_id) = 0;
  /// Returns once the row is handed over; if it is to be durable, once it is committed.
  virtual task<void> open(const OpenRow& row) = 0;
  /// A retry follows later; what is known of the attempts so far must not wait in memory until then.
  virtual void attempt_ended(const CallRecord& record) = 0;
  /// Returns once the ending is committed; false: not in time, or not at all.
  virtual task<bool> end(const CallRecord& record, ledger::CallEnd end) = 0;
};

class UnknownAnswers;

struct Services {
  Runtime& runtime;
  Admission& admission;
  Ledger& ledger;
  Upstream& upstream;
  budget::Memo& memo;
  UnknownAnswers& unknown;
};

}  // namespace gateway
