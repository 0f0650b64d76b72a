#pragma once
// What do the rows say? Questions to a ledger, and their answers as values.
//
// Money in nano-USD, times as milliseconds since the epoch (UTC), spans as the unit in their name.

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/letters.h"
#include "ledger/runs.h"

namespace ledger {

struct PauseRow {
  std::string what{};  // "tenant", "lane", "upstream"
  std::string name{};
  std::optional<std::int64_t> until_ms{};  // Nothing: until resumed.
};

struct GrantRow {
  std::int64_t at_ms = 0;
  std::string tenant{};
  std::string period{};  // "day", "month", "run"
  std::string run_id{};
  std::int64_t amount_nano = 0;
};

/// What was charged to budgets, for their restoring.
struct ChargedRow {
  std::int64_t slot_ms = 0;  // Begin of the quarter of an hour (time zones differ by no less).
  std::string tenant{};
  std::int64_t charged_nano = 0;
};
struct ChargedRun {
  std::string tenant{};
  std::string run_id{};
  std::int64_t charged_nano = 0;
  std::int64_t last_ms = 0;
};

/// One line of a spend report.
struct SpendLine {
  std::vector<std::string> by{};  // The values of what was asked for, in that order.
  std::int64_t calls = 0;
  std::int64_t attempts = 0;
  std::int64_t answered = 0;
  std::int64_t input = 0, cached_input = 0, cache_write = 0, output = 0, reasoning = 0;  // Tokens.
  std::int64_t cost_nano = 0;                                                            // Of everything below, too.
  std::int64_t retry_nano = 0;            // Of attempts that were followed by another one of the same call.
  std::int64_t failed_nano = 0;           // Of calls that were not answered in the end.
  std::int64_t possibly_billed = 0;       // Attempts of which nobody knows whether they were billed, …
  std::int64_t possibly_billed_nano = 0;  // … and what budgets were charged for them.
  std::int64_t unknown = 0;               // Attempts that may have used tokens and told none.
  std::int64_t unpriced = 0;              // Attempts that used tokens and have no cost.
  /// Part of cost_nano that was not priced by the provider or at a price of the model's own.
  std::int64_t estimated_nano = 0;
  std::int64_t saved_nano = 0;  // Not paid again, by replays and joins.
  bool others = false;          // All that found no place: `by` says "(others)" throughout.
};

struct SpendAsk {
  /// "tenant", "model", "upstream", "lane", "queue", "day", "hour"; "run_id", "class", "label:NAME" need the rows.
  std::vector<std::string> by{};
  std::int64_t since_ms = 0;
  std::int64_t until_ms = INT64_MAX;
  std::string tenant{};        // Only this one's; empty: all.
  int utc_offset_minutes = 0;  // For "day".
  std::size_t most = 10'000;   // Lines; the dearest where there are more, and one of all others.
};
/// Begin and end as they are counted: whole quarters of an hour.
[[nodiscard]] SpendAsk in_quarters(SpendAsk ask);
/// What of `by` there is no such thing as, if anything.
[[nodiscard]] std::optional<std::string> unknown_group(const SpendAsk& ask);
/// Is it answered from the rows of calls, which are not kept as long as the sums?
[[nodiscard]] bool needs_rows(const SpendAsk& ask);
/// Every line's sum; `by` is empty.
[[nodiscard]] SpendLine total_of(const std::vector<SpendLine>& lines);

struct CallsAsk {
  std::string tenant{}, run_id{}, upstream{}, model{}, outcome{}, cls{}, queue{}, idempotency_key{};  // Empty: any.
  std::int64_t since_ms = 0;
  std::int64_t until_ms = INT64_MAX;
  std::string before{};  // A call id: older ones than this.
  std::string after{};   // A call id: younger ones than this, the oldest first.
  std::size_t most = 100;
};

struct CallLine {
  std::string id{}, tenant{}, lane{}, run_id{}, queue{}, upstream{}, model{}, state{}, outcome{}, cls{}, once{};
  std::int64_t began_ms = 0;
  std::optional<std::int64_t> ended_ms{};
  int status = 0;
  int attempts = 0;
  std::optional<std::int64_t> cost_nano{};
  std::int64_t duration_us = 0;
};

struct TimeoutLine {
  std::string model{}, queue{};
  std::int64_t calls = 0;  // Answered ones, without those that were given an earlier answer.
  /// Exact up to 1 000 calls, else never below the truth and less than 2 % above it; most_ms is exact.
  std::int64_t p50_ms = 0, p95_ms = 0, p99_ms = 0, p999_ms = 0, most_ms = 0;
};

/// What was used of a provider on one day (UTC), as it counts itself.
struct UsageLine {
  std::string day{};
  std::string model{};  // As named in the answer, else as asked for there.
  std::int64_t attempts = 0;
  std::int64_t requests = 0;  // That were answered with success.
  std::int64_t input = 0, cached_input = 0, cache_write = 0, output = 0;
  std::int64_t cost_nano = 0;
  std::int64_t unknown = 0;   // Attempts that may have used tokens and told none, …
  std::int64_t unpriced = 0;  // … or that have no cost.
};

struct UsageAsk {
  std::vector<std::string> upstreams{};  // Empty: all.
  std::int64_t since_ms = 0;
  std::int64_t until_ms = INT64_MAX;
};

/// Calls as JSON lines (ledger/call_detail.h), the oldest first.
struct ExportAsk {
  std::int64_t since_ms = 0;
  std::int64_t until_ms = INT64_MAX;
  std::string after{};  // The last page's last_id.
  std::string tenant{};
  std::size_t most = 1'000;
};
struct ExportPage {
  std::vector<std::string> lines{};
  std::string last_id{};
  bool more = false;
};

struct EventRow {
  std::int64_t seq = 0;
  std::int64_t at_ms = 0;
  std::string type{};  // "call.ended"
  std::string tenant{};
  std::string data{};  // A JSON object on one line.
};

struct KeyRow {
  std::string key{}, tenant{}, state{}, call_id{};  // state: "claimed", "stored", "unknown"
  std::string scope{};                              // Hex.
  std::int64_t claimed_ms = 0;
  std::optional<std::int64_t> lease_until_ms{}, expires_ms{};
  std::int64_t bytes = 0;
  std::optional<std::int64_t> cost_nano{};
};

/// What stands in the table `idempotency`, of every state.
struct ScopeRow {
  std::int64_t row = 0;
  Digest scope{};
  std::optional<std::int64_t> expires_ms{};  // Nothing: claimed.
};

/// Read-only. A call may fail (a disk that is away): the text says why. Each question is a snapshot of its own; long
/// ones are read in pages.
class Books {
 public:
  template <typename T>
  using Answer = std::expected<T, std::string>;
  virtual ~Books() = default;

  [[nodiscard]] virtual Answer<std::vector<ChargedRow>> charged_since(std::int64_t since_ms) = 0;
  [[nodiscard]] virtual Answer<std::vector<ChargedRun>> charged_runs(std::size_t most) = 0;     // The latest.
  [[nodiscard]] virtual Answer<std::vector<GrantRow>> grants_since(std::int64_t since_ms) = 0;  // Of runs: all.
  [[nodiscard]] virtual Answer<std::vector<PauseRow>> pauses(std::int64_t now_ms) = 0;

  [[nodiscard]] virtual Answer<std::vector<SpendLine>> spend(const SpendAsk& ask) = 0;
  /// Of calls that ended before this, rows have been removed (store.retention.calls); their sums are kept. 0: none.
  [[nodiscard]] virtual Answer<std::int64_t> removed_until() = 0;
  [[nodiscard]] virtual Answer<std::vector<CallLine>> calls(const CallsAsk& ask) = 0;
  /// All of one call as a JSON object, attempts included; empty: no such call (of that tenant, if one is named).
  [[nodiscard]] virtual Answer<std::string> call(std::string_view id, std::string_view tenant) = 0;
  [[nodiscard]] virtual Answer<std::vector<TimeoutLine>> durations(std::int64_t since_ms) = 0;
  /// Lines by day, then by model.
  [[nodiscard]] virtual Answer<std::vector<UsageLine>> usage(const UsageAsk& ask) = 0;
  [[nodiscard]] virtual Answer<ExportPage> export_calls(const ExportAsk& ask) = 0;
  [[nodiscard]] virtual Answer<std::vector<EventRow>> events(std::int64_t after_seq, std::string_view tenant,
                                                             std::size_t most) = 0;
  /// The first and the last that are kept; {0, 0}: none.
  [[nodiscard]] virtual Answer<std::pair<std::int64_t, std::int64_t>> event_span() = 0;

  [[nodiscard]] virtual Answer<std::vector<LetterLine>> letters(const LettersAsk& ask) = 0;
  [[nodiscard]] virtual Answer<std::optional<LetterDetail>> letter(std::string_view id, std::string_view tenant) = 0;
  /// Nothing: it was not kept, or cannot be read. `revision` -1: the newest.
  [[nodiscard]] virtual Answer<std::shared_ptr<const KeptRequest>> letter_request(std::string_view id,
                                                                                  int revision) = 0;
  /// The greatest first.
  [[nodiscard]] virtual Answer<std::vector<LetterGroup>> letter_groups(const LettersAsk& ask) = 0;
  [[nodiscard]] virtual Answer<std::vector<LettersPending>> letters_pending() = 0;
  [[nodiscard]] virtual Answer<std::vector<Replay>> replays(std::string_view tenant, std::size_t most) = 0;
  [[nodiscard]] virtual Answer<std::optional<Replay>> replay(std::string_view id, std::string_view tenant) = 0;
  /// In the order of their letters' arrival.
  [[nodiscard]] virtual Answer<std::vector<ReplayItem>> replay_items(std::string_view replay,
                                                                     std::optional<ItemState> state,
                                                                     std::string_view after, std::size_t most) = 0;
  /// Of these letters, those that a running or paused replay has still to do.
  [[nodiscard]] virtual Answer<std::vector<std::string>> in_replay(const std::vector<std::string>& letters) = 0;
  /// The youngest first.
  [[nodiscard]] virtual Answer<std::vector<AuditRow>> acts(std::int64_t before_seq, std::size_t most) = 0;

  [[nodiscard]] virtual Answer<std::vector<RunLine>> runs(const RunsAsk& ask) = 0;
  [[nodiscard]] virtual Answer<std::optional<RunLine>> run(std::string_view id, std::string_view tenant) = 0;
  /// Null: it has none, or it cannot be read.
  [[nodiscard]] virtual Answer<std::shared_ptr<const StoredAnswer>> run_answer(std::string_view id) = 0;
  /// Queued ones of a queue that may begin before then, the oldest first. Not those behind another one of their
  /// ordering key: one that is running, or an older one that is queued, whenever that may begin.
  [[nodiscard]] virtual Answer<std::vector<WaitingRun>> waiting_runs(std::string_view queue, std::int64_t before_ms,
                                                                     std::string_view after, std::size_t most) = 0;
  /// When the first of those begins that may not begin yet; nothing: there is none.
  [[nodiscard]] virtual Answer<std::optional<std::int64_t>> next_run_at(std::int64_t now_ms) = 0;
  [[nodiscard]] virtual Answer<std::vector<RunsPending>> runs_pending(std::int64_t now_ms) = 0;
  [[nodiscard]] virtual Answer<std::vector<WebhookRow>> webhooks_due(std::int64_t now_ms, std::size_t most) = 0;
  /// The last end of that run, if nobody tells it any more; without its body, which its letter has.
  [[nodiscard]] virtual Answer<std::optional<WebhookRow>> untold_webhook(std::string_view run) = 0;

  [[nodiscard]] virtual Answer<std::vector<KeyRow>> keys(std::string_view key, std::string_view tenant,
                                                         std::size_t most) = 0;
  /// By ScopeRow::row, those after `after` (0: from the first). A row that comes between two pages may be in none.
  [[nodiscard]] virtual Answer<std::vector<ScopeRow>> scopes(std::int64_t after, std::size_t most) = 0;
};

/// By which payloads are opened (ledger/seal.h); 32 bytes each. Never to be logged or told. Empty: what is encrypted
/// cannot be read.
struct SealKeys {
  std::string key{};
  std::vector<std::string> old_keys{};
};

class Database;
/// The database must outlive them, and belong to their thread.
[[nodiscard]] std::unique_ptr<Books> make_books(Database& database, const SealKeys& keys = {});

/// A file that nobody need be serving, such as a backup, for reading alone. The error says why not, and the mend.
[[nodiscard]] std::expected<std::unique_ptr<Books>, std::string> open_books(const std::string& path,
                                                                            const SealKeys& keys = {});

}  // namespace ledger
