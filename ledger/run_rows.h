#pragma once
// How do runs become rows? The tables runs, run_bodies, webhooks (ledger/runs.h has the states).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ledger/box.h"
#include "ledger/queue_load.h"
#include "ledger/rows.h"
#include "ledger/runs.h"
#include "ledger/sql.h"
#include "ledger/store.h"

namespace ledger {

/// Works within the transaction that is open and throws SqlError; what it keeps beside the file follows in
/// committed() or is as before in rolled_back().
class RunRows {
 public:
  RunRows(Database& database, const Box& box, Rows& rows, QueueLoad& load);

  /// `request`: as stored.
  RunAnswer accept(const NewRun& run, const std::string& request, const RunBounds& bounds);
  TakenRun take(const std::string& id, std::int64_t lease_ms, std::int64_t now_ms);
  /// Those that are not held any more.
  std::vector<std::string> renew(const std::vector<std::pair<std::string, std::int64_t>>& held, std::int64_t lease_ms,
                                 std::int64_t now_ms);
  /// False: it is not running, or by another's fence; that is counted. `answer`: as stored; empty: none.
  bool end(const RunOutcome& outcome, const std::string& answer, std::int64_t now_ms);
  /// A run that failed or died, whose job was done all the same.
  void answered(const Digest& scope, const std::string& call_id, const StoredAnswer* answer, int status,
                std::optional<std::int64_t> cost_nano, const std::string& webhook_body, std::int64_t now_ms);
  /// The id of one that failed or died.
  [[nodiscard]] std::optional<std::string> in_vain(const Digest& scope);
  std::optional<RunState> cancel(const std::string& id, const std::string& tenant, const std::string& webhook_body,
                                 std::int64_t now_ms, bool& changed);
  /// As it stands then: one that is still over is beyond the bounds.
  std::optional<RunState> retry(const std::string& id, const std::string& tenant, const RunBounds& bounds,
                                std::int64_t now_ms, bool& changed);
  /// False: there has been another end since.
  bool webhook_ended(const WebhookRow& row, Store::Telling how);
  [[nodiscard]] std::optional<NewRun> find(const std::string& id);  // Without its request.

  /// At the start, before the claims of the last process are closed: whoever held these is gone. Those for which an
  /// attempt was begun may be what it died of.
  void queue_again();
  /// Leases that are over for another whole lease.
  void sweep(std::int64_t now_ms);
  [[nodiscard]] bool to_sweep(std::int64_t now_ms) const { return sweep_at_ms_ && now_ms >= *sweep_at_ms_; }
  [[nodiscard]] bool holds_any() const { return sweep_at_ms_.has_value(); }
  /// Of the leases that are held; nothing: none is.
  [[nodiscard]] std::optional<std::int64_t> shortest_lease_ms() const { return shortest_lease_ms_; }
  /// Nobody could renew anything up to now (the disk refused, the process was stopped): owners get a lease's time.
  void forbear(std::int64_t now_ms);
  bool expire(std::int64_t older_than_ms, int most);

  void committed();
  void rolled_back();
  [[nodiscard]] std::uint64_t late_results() const { return late_; }
  /// Queued and running ones, and their requests as stored.
  struct Open {
    std::int64_t runs = 0;
    std::int64_t bytes = 0;
  };
  [[nodiscard]] Open open() const { return open_; }

 private:
  struct Row;
  std::optional<Row> row_of(const std::string& id);
  void ended(const Row& row, RunState state, std::string_view cls, std::string_view why, std::string_view call_id,
             int status, std::optional<std::int64_t> cost_nano, const std::string& webhook_body, std::int64_t now_ms);
  void keep_answer(const std::string& id, const std::string& bytes);
  void next_end(const std::string& id);
  std::int64_t request_bytes(const std::string& id);
  void left(const std::string& id);
  void give_up_scope(const std::string& id, const Digest& scope, bool same_job);
  void sweep_by(std::int64_t at_ms);
  void lease_is(std::int64_t lease_ms);

  Database& database_;
  const Box& box_;
  Rows& rows_;
  QueueLoad& load_;
  Statement select_, by_scope_, insert_, body_, keep_body_, drop_body_, take_, renew_, end_, give_back_, webhook_,
      size_;
  std::optional<std::int64_t> sweep_at_ms_{}, sweep_before_{};
  std::int64_t longest_lease_ms_ = 0;
  std::optional<std::int64_t> shortest_lease_ms_{};
  std::uint64_t late_ = 0;
  std::uint64_t late_before_ = 0;
  Open open_{};
  Open open_before_{};
};

}  // namespace ledger
