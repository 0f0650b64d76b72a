#pragma once
// What do we owe? Letters, runs and replays together: what a call's end means for them, and their retention.

#include <cstdint>
#include <optional>
#include <string>

#include "ledger/box.h"
#include "ledger/letter_rows.h"
#include "ledger/replay_rows.h"
#include "ledger/rows.h"
#include "ledger/run_rows.h"
#include "ledger/store.h"

namespace ledger {

/// What is made before the transaction, since nobody else can write while one is open.
struct MadeBefore {
  bool made = false;
  std::string letter{};   // A new letter's id, …
  std::string request{};  // … its request as stored, …
  std::string answer{};   // … and the run's answer.
};

/// Works within the transaction that is open and throws SqlError.
struct Owed {
  Owed(Database& database, const StoreOptions& options, Rows& rows);

  /// What is written here outlives the process.
  bool lasting;
  Box box;
  QueueLoad load;
  LetterRows letters;
  RunRows runs;
  ReplayRows replays;

  /// Of a call, or (`letter_id` empty) of something without one.
  [[nodiscard]] MadeBefore make(const std::optional<LetterOutcome>& letter, const std::optional<RunOutcome>& run,
                                const std::string& letter_id, std::int64_t now_ms) const;
  void call_ended(const CallRecord& record, const CallEnd& end, const MadeBefore& made, std::int64_t now_ms);
  /// False: by another's fence. Its letter is written all the same only where it is its own.
  bool run_ended(const RunOutcome& outcome, const std::optional<LetterOutcome>& letter, const MadeBefore& made,
                 std::int64_t now_ms);
  void webhook_ended(const WebhookRow& row, Store::Telling how, const std::optional<LetterOutcome>& letter,
                     const MadeBefore& made, std::int64_t now_ms);
  /// Must the end of this call be synced before it is told?
  [[nodiscard]] bool to_disk(const CallEnd& end);

  /// False: nothing is left to be removed.
  bool tidy(std::int64_t now_ms, const Retention& retention, int most);
  void committed();
  void rolled_back();
};

/// UUIDv7 of that moment.
[[nodiscard]] std::string fresh_id(std::int64_t now_ms);

}  // namespace ledger
