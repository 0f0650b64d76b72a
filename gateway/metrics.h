#pragma once
// What does callgate tell Prometheus? The table of all families stands in metrics.cpp, their meaning in
// docs/metrics.md.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/services.h"
#include "gateway/trace_exporter.h"
#include "ledger/store.h"

namespace gateway {

/// A queue with a contract.
struct QueueName {
  std::string name{};
  std::string owner{};                                     // The contract's team; empty: none is named.
  std::optional<std::chrono::milliseconds> oldest_wait{};  // Its objectives.
  std::optional<double> success_ratio{};
  std::optional<std::chrono::milliseconds> complete_within{};
  std::chrono::milliseconds letters_kept{0};  // Its own retention; 0: that of all others.
};

/// What may become a label value; everything else folds into "_other" (a caller's text must not grow the scrape).
struct MetricNames {
  std::vector<std::string> upstreams{};
  std::vector<std::string> routes{};
  std::vector<std::pair<std::string, std::string>> credentials{};  // Ours: upstream, name.
  std::vector<std::string> models{};  // Names in the price table. At most 50 more are learned from answered calls.
  std::vector<std::string> tenants{};
  std::vector<QueueName> queues{};
  std::array<std::chrono::milliseconds, 3> max_wait{};  // By lane.
  std::chrono::milliseconds letters_kept{0};            // Where no contract says otherwise.
  bool tell_tenants = true;                             // False: all are "_other".
};

/// Figures that are read when Prometheus asks (on its thread), kept current by the I/O thread.
struct LiveFigures {
  std::size_t connections = 0;
  std::size_t upstream_connections = 0;
  std::size_t upstream_exchanges = 0;
  std::uint64_t buffered_bytes = 0;
  std::uint64_t log_lines_dropped = 0;  // Log::dropped().
  std::size_t event_subscribers = 0;
  std::size_t shared_calls = 0;  // Once::Figures, as the next.
  std::size_t lingering_calls = 0;
  std::uint64_t shared_bytes = 0;
};

/// Called on the I/O thread, except for text(). Handles are resolved once and found again without allocation.
/// Words (`reason`, `code`, record.reason, record.operation) are literals of ours, never a caller's or provider's
/// text.
class Metrics {
 public:
  explicit Metrics(const MetricNames& names);
  ~Metrics();

  void call_began(std::string_view upstream, budget::Lane lane);
  /// Once per call_began(), with the same upstream and lane in the record.
  void call_ended(const CallRecord& record);
  void idempotency(std::string_view result);  // Of kOnceResults.
  void queue_entered(budget::Lane lane);
  void queue_left(budget::Lane lane);
  void retry_denied(std::string_view upstream, std::string_view reason);
  void request_refused(std::string_view code);  // Before it became a call: bad HTTP, unknown name, too large.
  void log_message(std::string_view level);
  void health_event(const budget::HealthEvent& event);
  void health(const std::vector<budget::UpstreamHealth>& upstreams);
  void key_read(std::string_view upstream, std::string_view credential, bool good);
  /// How full everything is; called a few times a second.
  void loads(const std::vector<budget::UpstreamLoad>& upstreams, const std::vector<budget::TenantState>& tenants,
             const std::vector<budget::BudgetState>& budgets);
  void lanes(const std::array<budget::LaneState, 3>& lanes, budget::TimePoint now);
  void budget_event(const budget::SpendEvent& event);
  void operator_act(std::string_view act, std::string_view what);
  void replay_moved(std::string_view state);  // Of ledger::kReplayStateNames.
  void replay_item(std::string_view state);   // Of ledger::kItemStateNames.
  void estimated(const budget::Expected& guess, const budget::Expected& truth);
  void run_accepted(std::string_view queue, bool is_new);             // Else its key was that of a run that is there.
  void run_refused(std::string_view queue, std::string_view reason);  // "max_open", "max_bytes"
  void run_began(std::string_view queue, std::chrono::milliseconds waited);  // For the first time.
  /// Queued: given back.
  void run_ended(std::string_view queue, ledger::RunState state, std::string_view cls);
  void run_took(std::string_view queue, std::chrono::milliseconds time);  // From its acceptance to its end.
  void letter_written(std::string_view queue, classifier::Class cls);
  void webhook(ledger::Store::Telling how);
  /// What waits, every few seconds.
  void pending(const std::vector<ledger::RunsPending>& runs, const std::vector<ledger::LettersPending>& letters,
               WallTime now);
  /// Of all queues these are paused, the others are not.
  void paused(std::span<const std::string> queues);
  void draining(bool on);
  void live(const LiveFigures& figures);
  /// `well`: rows reach the file that was asked for.
  void store(const ledger::StoreFigures& figures, bool well);
  void exports(const TraceExporter::Figures& figures);
  /// A configuration was read again; `result` of kReloadResults. The first one, at the start, is not counted.
  void config_read(std::string_view result, WallTime now);
  /// The keys of kRestartKeys whose new value waits for a restart; all others do not.
  void restart_needed(std::span<const std::string> keys);
  /// Names that have come with a new configuration. Those that have gone keep their series.
  void update(const MetricNames& names);

  /// The whole scrape as text/plain; version=0.0.4. Any thread.
  [[nodiscard]] std::string text() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gateway
