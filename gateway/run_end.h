#pragma once
// A run's call is over: what becomes of the run?
//
//   the call …                                            the run is
//   ----------------------------------------------------  ----------------------------------------------------------
//   was answered                                          succeeded
//   failed, and the request itself is at fault            failed
//   failed otherwise, after all its attempts              dead
//   was refused by callgate for now (limit, budget, open  queued again, behind what the refusal said (1 s to 5 min);
//   breaker, memory, no usable key)                       dead where that would be too late
//   met the process' end                                  queued again, at once
//   was cancelled by hand                                 cancelled, whatever came of the call
//
// Too late is behind the run's deadline, or later than max_elapsed after its first start.

#include <memory>
#include <optional>
#include <string>

#include "gateway/services.h"
#include "ledger/runs.h"

namespace gateway {

/// What must be known of a run that is being made to end it.
struct RunTerms {
  std::string id{}, tenant{}, queue{}, run_id{};
  std::int64_t fence = 0;
  WallTime give_up_at = WallTime::max();  // First start and max_elapsed.
  std::optional<WallTime> deadline{};
  bool told = false;  // It has a webhook.
};

struct RunMoment {
  WallTime now{};
  double roll = 0;         // The chance part, in [0, 1).
  bool cancelled = false;  // Somebody has taken it back by hand.
};

/// `answer`: what a caller would have got; may be null.
[[nodiscard]] ledger::RunOutcome end_of_run(const RunTerms& terms, const CallRecord& record,
                                            std::shared_ptr<const ledger::StoredAnswer> answer,
                                            const RunMoment& moment);

/// Without a call.
[[nodiscard]] ledger::RunOutcome run_cancelled(const RunTerms& terms, WallTime now);
[[nodiscard]] ledger::RunOutcome run_dead(const RunTerms& terms, classifier::Class cls, std::string why,
                                          WallTime now);
[[nodiscard]] ledger::RunOutcome run_failed(const RunTerms& terms, classifier::Class cls, std::string why,
                                            WallTime now);
[[nodiscard]] ledger::RunOutcome run_given_back(const RunTerms& terms, std::string why, WallTime not_before);

/// What its webhook is told, by Standard Webhooks 1.0: {"type":"run.succeeded","timestamp":…,"data":{…}}.
[[nodiscard]] std::string told_of_run(const RunTerms& terms, const ledger::RunOutcome& outcome, WallTime now);

/// Somebody has to do something before anything of the kind can go well again: callgate's operator is paged.
[[nodiscard]] bool is_page_worthy(classifier::Class cls);

}  // namespace gateway
