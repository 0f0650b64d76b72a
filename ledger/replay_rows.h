#pragma once
// How do replays and acts become rows? The tables replays, replay_items, audit (ledger/letters.h).

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "ledger/letters.h"
#include "ledger/sql.h"

namespace ledger {

/// Works within the transaction that is open and throws SqlError. Nothing is kept beside the file.
class ReplayRows {
 public:
  explicit ReplayRows(Database& database);

  /// False: it was planned before.
  bool plan(const Replay& replay, const std::vector<ReplayItem>& items);
  std::expected<ReplayState, std::string> move(const std::string& id, const std::vector<ReplayState>& from,
                                               ReplayState to, const std::string& why, std::int64_t now_ms,
                                               bool& changed);
  /// One of a replay's items; another's is not added.
  void item(const std::string& replay, const ReplayItem& item);
  void canary_passed(const std::string& replay);
  /// False: it was approved before.
  std::expected<bool, std::string> approve(const std::string& id, const std::string& by);

  /// seq is given here, and at_ms where it is 0. One without an act is none.
  void act(AuditRow row, std::int64_t now_ms);
  /// A small step of replays that are over, and of acts.
  bool expire(std::int64_t older_than_ms, int most);

 private:
  Database& database_;
  Statement insert_item_, item_, update_item_, add_, act_;
};

}  // namespace ledger
