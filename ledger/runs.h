#pragma once
// Work that is handed over now and done later: runs (design §9).
//
//   state      means                                              goes on to
//   ---------  -------------------------------------------------  ----------------------------------------
//   queued     accepted; waits for its time and a free place       running, cancelled, dead (too late)
//   running    taken, with a lease that is renewed and a fence     succeeded, failed, dead, cancelled;
//              that grows with each taking                         queued: given back, lease over
//   succeeded  its answer is kept                                  –
//   failed     the provider's last word: the request is at fault   queued (retry by hand)
//   dead       tried as long as it may be; has a dead letter       queued (retry by hand), succeeded (replay)
//   cancelled  taken back                                          –
//
// A result is written in the transaction that ends the run's call, and only where the fence is that of the last
// taking: a late owner's is refused. A run that failed or died succeeds where a call of its scope is answered later
// (a replay of its letter): the store does that by itself, with the answer of RunOutcome, or else of OnceOutcome.
// What is written of runs is synced to disk before it is told, whatever store.commit says.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/records.h"

namespace ledger {

enum class RunState : std::uint8_t { Queued, Running, Succeeded, Failed, Dead, Cancelled };
inline constexpr std::array<std::string_view, 6> kRunStateNames = {
    "queued", "running", "succeeded", "failed", "dead", "cancelled"};
[[nodiscard]] constexpr bool is_over(RunState state) { return state > RunState::Running; }

struct NewRun {
  std::string id{};  // UUIDv7.
  std::string tenant{}, queue{}, lane{}, run_id{}, labels{}, route{}, model{};
  std::string key{};           // For people; empty: it has none, and no other run is the same.
  Digest scope{};              // JobKey's; of a run without a key one of its own.
  Digest fingerprint{};        // Another body under the same key is refused.
  std::string ordering_key{};  // Empty: none.
  std::string version{};       // Of the payload, by its queue's contract.
  std::string webhook{};       // Where its end is told; empty: nowhere.
  std::int64_t created_ms = 0;
  std::int64_t not_before_ms = 0;             // 0: at once.
  std::optional<std::int64_t> deadline_ms{};  // Later it is of no use.
  std::shared_ptr<const KeptRequest> request{};
  // By its queue's contract; of one that is taken they are not known.
  std::int64_t key_ttl_ms = 0;    // So long after its end it is the same; 0: as long as it is kept.
  std::int64_t most_letters = 0;  // Open ones of its queue, and runs that may leave one; 0: no limit.
};

/// How many runs may be open (queued or running), and what their requests may take, as stored. Whoever comes beyond
/// that is refused; what is there stays.
struct RunBounds {
  std::int64_t open = INT64_MAX;
  std::int64_t bytes = INT64_MAX;
};

struct RunAnswer {
  /// Full: of dead letters, by its queue's contract. TooMany, TooMuch: it is beyond RunBounds.
  enum class Kind : std::uint8_t { Accepted, Same, OtherBody, Full, NoStore, TooMany, TooMuch } kind = Kind::NoStore;
  std::string id{};  // Of the run that there is now (Same, OtherBody: the earlier one).
  RunState state = RunState::Queued;
  std::int64_t letters = 0, unfinished = 0;  // Full: of its queue.
};

/// A run as the worker needs it to choose the next one.
struct WaitingRun {
  std::string id{}, tenant{}, queue{}, lane{}, ordering_key{};
  std::int64_t created_ms = 0, not_before_ms = 0;
  std::optional<std::int64_t> deadline_ms{};
  int starts = 0;   // Times it was taken.
  int crashes = 0;  // Times it was found open at a start of the process, with an attempt begun.
};

struct TakenRun {
  bool taken = false;  // False: it is not queued (any more), or the store cannot say: `why`.
  std::int64_t fence = 0;
  NewRun run{};  // Its request is null where it cannot be read: `why`.
  int starts = 0;
  int crashes = 0;
  std::int64_t started_ms = 0;  // For the first time since it was accepted or retried by hand.
  std::string why{};
};

/// What becomes of a run with the end of its call, or without one.
struct RunOutcome {
  std::string id{};
  std::int64_t fence = 0;
  RunState state = RunState::Succeeded;  // Queued: given back, to be taken at not_before_ms at the earliest.
  std::int64_t not_before_ms = 0;
  std::string cls{};  // "none", or the class.
  std::string why{};  // For people.
  std::string call_id{};
  int status = 0;                                // Of the answer.
  std::optional<std::int64_t> cost_nano{};       // Of this call; the store adds them up.
  std::shared_ptr<const StoredAnswer> answer{};  // What a caller would have got; null: nothing.
  std::string webhook_body{};  // To be told where the run has a webhook; empty: what told_of_run() says.
};

struct RunLine {
  std::string id{}, tenant{}, queue{}, lane{}, run_id{}, key{}, ordering_key{}, version{}, state{}, cls{}, why{};
  std::string route{}, model{}, call_id{}, webhook{}, labels{};
  std::string webhook_state{};  // "", "waiting", "told", "dead"
  std::int64_t created_ms = 0, not_before_ms = 0;
  std::optional<std::int64_t> started_ms{}, ended_ms{}, deadline_ms{}, lease_until_ms{};
  int starts = 0, crashes = 0, status = 0;
  std::optional<std::int64_t> cost_nano{};
  bool has_answer = false;
};

struct RunsAsk {
  std::string tenant{}, queue{}, state{}, run_id{}, key{};  // Empty: any.
  std::string after{};                                      // A run's id: older ones; the newest first.
  std::int64_t since_ms = 0;                                // Accepted from then on.
  std::size_t most = 100;
};

/// For gauges, and for the worker to know where there is work.
struct RunsPending {
  std::string queue{};
  std::int64_t waiting = 0, running = 0;
  std::int64_t oldest_ms = 0;  // Since when the oldest waiting one could have begun; 0: none waits.
  std::int64_t scheduled = 0;  // Queued, too, but not to begin yet.
};

/// An end that is still to be told.
struct WebhookRow {
  std::string run{};       // The run's id.
  std::int64_t fence = 0;  // Which of its ends; with the run's id that of the message.
  std::string tenant{}, url{};
  std::string queue{};       // The run's.
  std::string body{};        // As it is signed and sent; empty once nobody has to tell it any more.
  std::string unreadable{};  // Why url and body are not to be had; empty: they are.
  std::int64_t next_ms = 0;
  int attempts = 0;
  std::string cls{};  // What came of the last attempt: its class, …
  int status = 0;     // … and the receiver's answer; 0: none.
};

}  // namespace ledger
