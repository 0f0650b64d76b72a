#pragma once
// How do calls and their attempts become rows?

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/records.h"
#include "ledger/sql.h"

namespace ledger {

[[nodiscard]] std::int64_t ms_of(std::chrono::system_clock::time_point time);

/// Quarters of an hour: time zones differ by no less.
inline constexpr std::int64_t kSlotMs = 15LL * 60 * 1'000;
[[nodiscard]] constexpr std::int64_t slot_of(std::int64_t ms) { return ms - (ms % kSlotMs + kSlotMs) % kSlotMs; }

/// {"web_searches":2,…}, and what a bring-your-own-key costs beside; empty: nothing besides tokens.
[[nodiscard]] std::string billed_json(const classifier::Usage& usage);
/// {"queue":12,…} of those that were waited for, in microseconds; empty: none.
[[nodiscard]] std::string waits_json(const budget::WaitTimes& waits);
/// "reported", "unknown" (it may have used some), "none" (it used none).
[[nodiscard]] std::string_view tokens_from(const CallRecord& call, const AttemptRow& attempt);

/// An attempt of which a reservation is known, though its open row was never written.
struct Reservation {
  int attempt = 0;
  std::int64_t nano = 0;
};

/// A million dollars. What one attempt may say at most, so that sums of thousands of absurd ones still fit.
inline constexpr std::int64_t kMostNano = 1'000'000'000'000'000;

/// Writes within the transaction that is open; throws SqlError. Writing the same again changes nothing.
///
/// spend_by_period and spend_by_run are written with what they sum up: an attempt's line when its ended row is first
/// written (and as a retry's once another one follows), a call's when it ends. Amounts are cut at kMostNano.
class Rows {
 public:
  explicit Rows(Database& database);
  void open(const CallRecord& call, const OpenRow& row, std::span<const Reservation> reserved);
  /// Its attempts so far, which have ended; the call has not.
  void attempt_ended(const CallRecord& call, std::span<const Reservation> reserved);
  /// An attempt that is still open then, since something of ours lost it, ends with the call: class internal,
  /// possibly billed, charged at its reservation. False: it had ended before, nothing was written.
  bool end(const CallRecord& record, std::span<const Reservation> reserved);
  /// What was open when the process before this one ended: outcome unknown, possibly billed. How many attempts.
  std::uint64_t close_unknown(std::int64_t now_ms);
  /// Those that are older, the oldest first, about so many rows at most. Returns how many went.
  std::uint64_t forget_calls(std::int64_t older_than_ms, int most);
  /// With what they were granted.
  std::uint64_t forget_runs(std::int64_t older_than_ms, int most);
  std::uint64_t forget_events(std::int64_t older_than_ms, int most);
  /// `data`: a JSON object on one line.
  void event(std::int64_t at_ms, std::string_view type, const std::string& tenant, const std::string& data);
  [[nodiscard]] std::int64_t last_event() const { return last_event_; }
  void committed() { last_committed_ = last_event_; }
  void rolled_back() { last_event_ = last_committed_; }

 private:
  struct Line;
  struct Lost;
  void open_call(const CallRecord& call, std::string_view upstream, int attempts);
  void end_attempts(const CallRecord& call, bool followed, std::span<const Reservation> reserved,
                    std::vector<Line>& lines, std::int64_t& charged);
  Lost end_lost_attempts(const CallRecord& call, std::vector<Line>& lines, std::int64_t& charged);
  void add(const CallRecord& call, const std::vector<Line>& lines);
  void add_to_run(const std::string& tenant, const std::string& run_id, std::int64_t charged, std::int64_t at_ms);

  Database& database_;
  Statement open_call_, open_attempt_, end_call_, end_attempt_, last_attempt_, lost_attempts_, add_spend_, add_run_,
      add_event_;
  std::int64_t last_event_ = 0;
  std::int64_t last_committed_ = 0;
};

}  // namespace ledger
