#pragma once
// The front door: a request becomes a call, its story is played, and what came of it is told to log and metrics.

#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gateway/addressing.h"
#include "gateway/event_feed.h"
#include "gateway/live_calls.h"
#include "gateway/log.h"
#include "gateway/metrics.h"
#include "gateway/once.h"
#include "gateway/recent_calls.h"
#include "gateway/server.h"
#include "gateway/tenants.h"
#include "gateway/trace_context.h"
#include "gateway/webhook_sender.h"
#include "ledger/runs.h"

namespace gateway {

/// What somebody has done by hand.
struct OperatorAct {
  std::string_view act{};   // "cancel", "pause", "resume", "grant", "drain"
  std::string_view what{};  // "call", "run_id", "tenant", "lane", "upstream", "day", …
  std::string_view name{};
  std::size_t count = 0;  // Calls that were told to end.
  std::string value{};    // Pauses: until when (RFC 3339), or "resumed"; of a grant how much.
};

/// A request that no connection has brought: a run's, or a replay's. It is a call like any other, whose answer goes
/// to `caller`.
struct Errand {
  std::string tenant{}, run_id{}, queue{}, labels{};
  budget::Lane lane = budget::Lane::Bulk;
  std::shared_ptr<const ledger::KeptRequest> request{};
  /// What its key stands for, if that is another request: before it was edited. Null: the same.
  std::shared_ptr<const ledger::KeptRequest> original{};
  ledger::Digest scope{};  // By which it is known again, …
  std::string key{};       // … and for people.
  TimePoint deadline = TimePoint::max();
  std::optional<budget::RetryPolicy> retry{};
  std::string version{};  // Of the payload, for its letter.
  std::shared_ptr<RunHold> run{};
};

/// A request that is understood: a call, and by what it is known again.
struct Understood {
  Call call{};
  std::optional<JobKey> key{};
};

/// Answers what is asked under the reserved name (/callgate/…), and takes what is to be done later.
class OwnApi {
 public:
  virtual ~OwnApi() = default;
  [[nodiscard]] virtual bool is_asked(const Inbound& request) const = 0;
  virtual task<void> serve(Inbound request, std::shared_ptr<const TenantConfig> tenant, Caller& caller,
                           Signal& signal) = 0;
  /// Prefer: respond-async. For at most `wait` the answer itself is waited for.
  virtual task<void> later(Understood what, std::chrono::milliseconds wait, Caller& caller, Signal& signal) = 0;
};

/// I/O thread only.
class Front {
 public:
  Front(Services services, Metrics& metrics, Log& log, RecentCalls& recent);

  /// For calls that begin from now on; those under way keep what they began with.
  void configure(const Config& config);
  /// Who answers for the feed of events.
  void serve_events_by(EventFeed& feed) { events_ = &feed; }
  /// Who hears of calls that leave a dead letter.
  void letters_by(std::function<void(const CallRecord&)> heard) { died_ = std::move(heard); }
  /// Who exports the spans of a call that is sampled.
  void traces_by(std::function<void(const CallRecord&)> heard) { traced_ = std::move(heard); }
  /// One attempt to tell of a run's end.
  void told(const ledger::WebhookRow& row, const WebhookResult& result, WallTime began);
  /// Who makes runs.
  void serve_runs_by(OwnApi& runs) { runs_ = &runs; }

  task<void> serve(Inbound request, Caller& caller, Signal& signal);
  /// As serve() would understand it, of a tenant who is known: headers of ours count, credentials do not.
  [[nodiscard]] std::expected<Understood, RefusedRequest> understand(Inbound request,
                                                                     std::shared_ptr<const TenantConfig> tenant);
  /// The record of the call by which the errand was done; or why it is no call any more (its upstream is gone, …).
  /// Where a run's call goes on behind that, RunHold says so.
  task<std::expected<CallRecord, RefusedRequest>> run_errand(Errand errand, Caller& caller, Signal& signal);
  /// What waits gives up, what is in flight goes on: calls that no connection waits for, too.
  void drain() { once_.drain(); }
  /// Stops those; the others are stopped by their connections.
  void stop_all() { once_.stop_all(); }
  /// Calls with a key or run id that are under way, those without a caller included.
  [[nodiscard]] const Once& once() const { return once_; }
  /// Calls being played, and callers who read along.
  [[nodiscard]] std::size_t active() const { return live_.size(); }
  [[nodiscard]] const LiveCalls& live() const { return live_; }
  /// Until it is empty again, every new call is refused for it (store.on_failure: refuse).
  void refuse_all_because(std::string why) { refuse_all_because_ = std::move(why); }
  /// How many calls are told to end; counted and logged.
  std::size_t cancel(const CancelWhat& what);
  /// Counts and logs what an operator or a worker has done by hand.
  void acted(const OperatorAct& act);
  [[nodiscard]] std::pair<AnswerHead, std::string> refuse(const RefusedRequest& refused);

 private:
  struct Asked;
  std::expected<Understood, RefusedRequest> call_of(Inbound request, Asked asked);
  task<void> play(Understood what, Caller& caller, Signal& signal);
  /// Null: tracing is off.
  [[nodiscard]] std::shared_ptr<ledger::CallTrace> trace_of(const Inbound& request);
  void ended(CallRecord record);
  /// Null: its queue has no contract that says anything of letters.
  [[nodiscard]] std::shared_ptr<const LetterTerms> letter_terms(const std::string& queue) const;
  /// DELETE /callgate/v1/calls/{id}: a worker takes back a call of its own tenant.
  [[nodiscard]] std::pair<AnswerHead, std::string> own_api(const Inbound& request, const TenantConfig& tenant);

  Services services_;
  Metrics& metrics_;
  Log& log_;
  RecentCalls& recent_;
  LiveCalls live_{};
  EventFeed* events_ = nullptr;
  OwnApi* runs_ = nullptr;
  std::function<void(const CallRecord&)> died_{};
  std::function<void(const CallRecord&)> traced_{};
  std::optional<Sampling> sampling_{};                                        // Nothing: tracing is off.
  std::map<std::string, std::optional<CallRecord>*, std::less<>> awaited_{};  // Records of errands, by call id.
  std::string refuse_all_because_{};
  std::shared_ptr<const Directory> directory_{};
  std::shared_ptr<const CallPolicy> policy_{};
  std::shared_ptr<const Tenants> tenants_{};
  std::map<std::string, std::shared_ptr<const LetterTerms>, std::less<>> letter_terms_{};  // By queue.
  Once once_;
  Config::Idempotency::Derive derive_ = Config::Idempotency::Derive::Undelivered;
};

/// Why what is done later cannot be done there.
[[nodiscard]] std::string no_credential(std::string_view upstream);
[[nodiscard]] std::shared_ptr<const Directory> directory_of(const Config& config);
[[nodiscard]] std::shared_ptr<const CallPolicy> policy_of(const Config& config);

}  // namespace gateway
