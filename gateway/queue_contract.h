#pragma once
// What is agreed for the runs of one queue? (`queues:`; docs/queues.md says what each name means)

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "budget/units.h"
#include "classifier/verdict.h"
#include "gateway/json_path.h"
#include "gateway/json_schema.h"
#include "ledger/letters.h"

namespace gateway {

struct QueueContract {
  std::string name{};

  struct Owner {
    std::string team{};
    std::string contact{};
    std::string runbook{};
    bool operator==(const Owner&) const = default;
  } owner{};

  struct Slo {
    std::optional<std::chrono::milliseconds> oldest_wait{};      // No run waits longer for its start.
    std::optional<double> success_ratio{};                       // Of the runs that end, from 0 to 1.
    std::optional<std::chrono::milliseconds> complete_within{};  // From acceptance to end.
    [[nodiscard]] bool given() const { return oldest_wait || success_ratio || complete_within; }
    bool operator==(const Slo&) const = default;
  } slo{};

  struct Payload {
    std::string file{};                          // As the configuration names it.
    std::shared_ptr<const JsonSchema> schema{};  // Null: any body.
    bool operator==(const Payload& other) const {
      const auto text = [](const Payload& one) { return one.schema ? one.schema->source() : std::string{}; };
      return file == other.file && text(*this) == text(other);
    }
  } payload_schema{};

  std::optional<JsonPath> version_from{};          // Of the payload; it travels with the run.
  std::optional<JsonPath> idempotency_key_from{};  // Where the request names no key itself.
  /// After its end, the same key is the same run for so long; 0: as long as it is kept.
  std::chrono::milliseconds idempotency_key_ttl{0};
  std::optional<JsonPath> ordering_key{};  // Runs with the same one are done in their order.

  struct Concurrency {
    int max = 0;               // Runs at once; 0: no limit but runs.concurrent.
    int per_ordering_key = 1;  // There is no other.
    bool operator==(const Concurrency&) const = default;
  } concurrency{};

  struct Retry {  // What is not said is that of `runs` and `retry`.
    int max_attempts = 6;
    std::chrono::milliseconds max_elapsed{3'600'000};
    std::chrono::milliseconds base{500};  // Of the backoff, with full jitter.
    std::chrono::milliseconds cap{30'000};
    std::vector<classifier::Class> never{};  // Classes that end a run at once, whatever the verdict says.
    bool operator==(const Retry&) const = default;
  } retry{};

  struct DeadLetter {
    std::chrono::milliseconds retention{0};  // 0: store.retention.dead_letters.
    /// Open ones and runs that are not over, beyond which no run is accepted; 0: no limit.
    std::int64_t max_items = 0;
    ledger::LetterForm payload = ledger::LetterForm::AsStore;  // Of the requests.
    bool operator==(const DeadLetter&) const = default;
  } dead_letter{};

  struct Alerts {                     // When somebody is woken by dead letters that arrive (callgate alerts).
    std::int64_t arrivals_floor = 5;  // In 15 minutes; so many wake nobody.
    double step_factor = 4;           // Beyond it, so many times the average of the day before do.
    bool operator==(const Alerts&) const = default;
  } alerts{};

  struct Replay {
    bool requires_approval = false;
    std::vector<std::string> approvers{};  // Empty: anybody.
    double max_rate = 1;                   // Per second.
    std::optional<budget::NanoUsd> max_cost{};
    int canary = 5;  // Letters that go first; 0: none.
    bool operator==(const Replay&) const = default;
  } replay{};

  bool operator==(const QueueContract&) const = default;
};

}  // namespace gateway
