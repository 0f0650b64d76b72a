#pragma once
// What waits for the writer: everything that was handed to a store, as values.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ledger/owed.h"
#include "ledger/records.h"
#include "ledger/rows.h"
#include "ledger/store.h"

namespace ledger {

struct OpenOp {
  CallRecord call{};
  OpenRow row{};
};
struct AttemptEndedOp {
  CallRecord call{};  // As far as it has come.
};
struct EndOp {
  CallRecord record{};
  CallEnd end{};
  std::string as_stored{};  // Made at the first try.
  MadeBefore made{};
};
struct ClaimOp {
  ClaimAsk ask{};
  std::function<void(ClaimAnswer)> answered{};
  ClaimAnswer answer{};
};
struct ForgetOp {
  Digest scope{};
  std::string call_id{};
};
struct PauseOp {
  PauseRow row{};
  bool forget = false;
};
struct GrantOp {
  GrantRow row{};
};
/// Something of letters, replays or runs.
struct WorkOp {
  std::string_view what{};                                          // A literal, should it be lost.
  std::function<void(const Owed&, std::int64_t now_ms)> prepare{};  // Before the transaction, and possibly again.
  std::function<void(Owed&, std::int64_t now_ms)> work{};           // Within it, and possibly again.
  std::function<void(bool written)> tell{};                         // After it, or when it is given up.
  bool waits = false;  // Until the disk takes it; else it is told at once that the disk does not.
  bool synced = true;
  std::uint64_t bytes = 0;
};
struct Op {
  std::variant<OpenOp, AttemptEndedOp, EndOp, ClaimOp, ForgetOp, PauseOp, GrantOp, WorkOp> what{};
  Store::Done done{};
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  // In the order in which they were handed over.
  std::chrono::steady_clock::time_point since{};
  bool urgent = true;  // Somebody waits for it.
  // As found in a batch: the last row of the same call, in the same transaction, says all that this one says but its
  // reservation, which that one is given.
  bool said_later = false;
  std::vector<Reservation> reserved{};
};

/// About what it takes in memory.
[[nodiscard]] std::uint64_t bytes_of(const CallRecord& record);
[[nodiscard]] std::uint64_t bytes_of(const classifier::Headers& headers);
[[nodiscard]] std::uint64_t bytes_of(const StoredAnswer& answer);
[[nodiscard]] std::uint64_t bytes_of(const KeptRequest& request);
[[nodiscard]] std::uint64_t bytes_of(const Op& op);
/// Answered at once where the disk refuses.
[[nodiscard]] bool is_impatient(const Op& op);
/// What would be lost with it is owed to somebody: it outlasts ordinary rows while the disk refuses.
[[nodiscard]] bool is_owed(const Op& op);
/// Marks openings and ended attempts that are said later.
void fold(std::vector<Op>& batch);
/// Undoes it, where each op gets a transaction of its own.
void unfold(std::vector<Op>& batch);

}  // namespace ledger
