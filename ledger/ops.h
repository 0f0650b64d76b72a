#pragma once
// What waits for the writer: everything that was handed to a store, as values.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

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
  std::optional<OnceOutcome> once{};
  std::string as_stored{};  // Made at the first try.
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
struct Op {
  std::variant<OpenOp, AttemptEndedOp, EndOp, ClaimOp, ForgetOp, PauseOp, GrantOp> what{};
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
[[nodiscard]] std::uint64_t bytes_of(const Op& op);
/// Marks openings and ended attempts that are said later.
void fold(std::vector<Op>& batch);
/// Undoes it, where each op gets a transaction of its own.
void unfold(std::vector<Op>& batch);

}  // namespace ledger
