#pragma once
// What finally failed, and what is made good again: dead letters, replays of them, and who did what (design §9).
//
//   a call with a key or run id ends …  … and there is an open letter of its scope    … and there is none
//   ----------------------------------  -------------------------------------------  --------------------------
//   failed, with a letter                it has failed once more: `failures` grows,    a new letter; its id is
//                                        class and cause are the new ones, cost is     the call's
//                                        added; request and arrival stay
//   answered                             resolved by it                                –
//   otherwise                            left as it is                                 –
//
// Who asks by tenant sees only that tenant's; another's id is as unknown as one that never was.

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/records.h"

namespace ledger {

/// What to do with a letter, in one word.
enum class Advice : std::uint8_t { Replay, FixFirst, Discard };
inline constexpr std::array<std::string_view, 3> kAdviceNames = {"replay", "fix-first", "discard"};

/// In which form a letter's request is kept.
enum class LetterForm : std::uint8_t {
  AsStore,    // As StoreOptions::payloads says.
  Encrypted,  // So, or not at all.
  Plain,      // Whatever the store does with others.
  LeftOut,
};

/// LetterLine::operation of an end of a run that could not be told. Its request is what was to be told, and where but
/// for the path.
inline constexpr std::string_view kWebhook = "webhook";

/// What is written of a call that finally failed, beside its record.
struct Letter {
  std::string group{};        // 16 hex digits: of the same cause.
  std::string cause{};        // For people: the provider's message without what differs from call to call.
  std::string code{};         // The provider's own.
  std::string fingerprint{};  // Of an answer that no rule knew, else empty.
  Advice advice = Advice::Replay;
  std::shared_ptr<const KeptRequest> request{};
  bool callers_key = false;                // It went with a key of the caller's own, which is not kept.
  std::string run{};                       // Of a run: its id; else empty.
  std::string version{};                   // Of the payload, by its queue's contract.
  std::chrono::milliseconds retention{0};  // Of its queue's contract; 0: store.retention.dead_letters.
  LetterForm form = LetterForm::AsStore;   // Of its queue's contract.
};

/// What becomes of a scope's letter with the end of its call.
struct LetterOutcome {
  Digest scope{};
  std::string key{};               // For people.
  std::optional<Letter> letter{};  // Nothing: answered.
};

enum class LetterState : std::uint8_t { Open, Resolved, Discarded };
inline constexpr std::array<std::string_view, 3> kLetterStateNames = {"open", "resolved", "discarded"};

/// Why a letter has no request. Full: dead_letters.max_bytes were used up; the letter itself is kept all the same.
/// Erased: it was kept until the letter was resolved or discarded.
enum class Payload : std::uint8_t { Kept, LeftOut, Full, Unreadable, Erased };
inline constexpr std::array<std::string_view, 5> kPayloadNames = {"kept", "left_out", "full", "unreadable", "erased"};

/// Who changed what by hand. Written in the transaction that changes it.
struct AuditRow {
  std::int64_t seq = 0;
  std::int64_t at_ms = 0;
  std::string who{};     // "admin", or a tenant's name.
  std::string act{};     // "dead.discard", "dead.edit", "replay.start", "replay.stop", "run.cancel", "run.retry", …
  std::string what{};    // Of what: an id, a group, a queue's name.
  std::string reason{};  // As given; asked for where an act is on many.
  std::int64_t count = 0;
};

/// Which letters. Empty: any. All that is said must hold.
struct LettersAsk {
  std::string tenant{}, queue{}, group{}, cls{}, model{}, upstream{}, operation{}, advice{}, key{}, run_id{};
  std::vector<std::string> ids{};  // Not empty: of these alone.
  std::string of_run{};            // The id of a run, whose own letter is asked for.
  std::optional<LetterState> state = LetterState::Open;
  std::int64_t since_ms = 0, until_ms = INT64_MAX;  // Of arrival.
  std::string after{};                              // A letter's id: older ones than this; the newest first.
  std::size_t most = 100;
};

struct LetterLine {
  std::string id{}, tenant{}, queue{}, lane{}, run_id{}, key{}, run{}, route{}, upstream{}, model{}, operation{};
  std::string cls{}, code{}, fingerprint{}, group{}, cause{}, advice{}, state{}, payload{}, version{}, call_id{};
  std::int64_t arrived_ms = 0, last_ms = 0, expires_ms = 0;
  std::optional<std::int64_t> ended_ms{};  // Resolved or discarded.
  int status = 0;
  int failures = 1;            // Calls that ended so; each had attempts of its own.
  int revision = 0;            // Of the request; 0: as it came.
  std::int64_t cost_nano = 0;  // Lost so far.
  std::int64_t bytes = 0;      // Of the request as stored.
  bool callers_key = false;
  Digest scope{};
};

struct LetterGroup {
  std::string group{}, cls{}, code{}, cause{}, advice{}, queue{}, model{}, sample{};  // sample: the newest one's id.
  std::int64_t count = 0, first_ms = 0, last_ms = 0, cost_nano = 0;
};

/// One act in a letter's life.
struct LetterStep {
  std::int64_t at_ms = 0;
  std::string what{};  // "failed", "edited", "resolved", "discarded"
  std::string call_id{};
  std::string cls{};
  std::string detail{};  // Of "failed" its attempts, a JSON array as in ledger/call_detail.h; else words or nothing.
};

struct LetterDetail {
  LetterLine line{};
  std::string labels{};
  std::vector<LetterStep> steps{};  // The oldest first.
};

/// For gauges.
struct LettersPending {
  std::string cls{}, queue{};
  std::int64_t count = 0, oldest_ms = 0;
};

enum class ReplayState : std::uint8_t { Planned, Running, Paused, Stopped, Done, Cancelled };
inline constexpr std::array<std::string_view, 6> kReplayStateNames = {
    "planned", "running", "paused", "stopped", "done", "cancelled"};
enum class ItemState : std::uint8_t { Waiting, Running, Resolved, DeadAgain, Skipped };
inline constexpr std::array<std::string_view, 5> kItemStateNames = {
    "waiting", "running", "resolved", "dead_again", "skipped"};

struct Replay {
  std::string id{};  // UUIDv7.
  ReplayState state = ReplayState::Planned;
  std::int64_t created_ms = 0;
  std::optional<std::int64_t> started_ms{}, ended_ms{};
  std::string who{}, reason{};
  std::string tenant{};  // Whose letters; empty: anybody's.
  std::string filter{};  // As asked, a JSON object.
  std::string limits{};  // A JSON object; what it holds is the gateway's business.
  std::string digest{};  // Hex: over items and limits, what is agreed to.
  std::string why{};     // Why it stopped.
  std::string approved_by{};
  bool canary_passed = false;
  // Sums over its items; the store's to fill.
  std::int64_t waiting = 0, running = 0, resolved = 0, dead_again = 0, skipped = 0, cost_nano = 0;
};

struct ReplayItem {
  std::string letter{};
  int revision = 0;
  ItemState state = ItemState::Waiting;
  std::string why{};  // Of a skip, or the class it died of.
  std::string call_id{};
  std::int64_t cost_nano = 0;
};

}  // namespace ledger
