#pragma once
// What do we know of upstreams, credentials and limit groups, and may an attempt go there now? (design §4)

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "budget/breaker.h"
#include "budget/lru.h"
#include "budget/pause.h"
#include "budget/quarantine.h"
#include "budget/retry_budget.h"
#include "classifier/verdict.h"

namespace budget {

/// One way to make an attempt.
struct Candidate {
  std::string upstream{};
  std::string credential{};  // Its name; of a caller's own key a digest.
  bool configured = false;   // The credential is ours, not the caller's.
  std::string group{};       // Limit group; by default the model.
  std::string model{};       // As it is called there.
  bool operator==(const Candidate&) const = default;
};

/// Of its credential and limit group, to look things up by.
[[nodiscard]] std::string group_key(const Candidate& candidate);
/// Without its model.
[[nodiscard]] Candidate candidate_of_group(std::string_view group_key);

/// What keeps an attempt back.
enum class Held : std::uint8_t { No, Pause, Pace, Breaker, Quarantine, RetryBudget };
[[nodiscard]] std::string_view name_of(Held held);  // "no", "pause", …

struct Standing {
  Held held = Held::No;
  TimePoint when{};                  // It may go then at the earliest; it may have to ask again. max(): unknown.
  std::optional<TimePoint> opens{};  // The end of what holds it, the same for all who wait.
  std::optional<classifier::Class> quarantined_for{};
};

/// What one call remembers of its own waiting, so that it keeps its place among those who wait.
class Waiter {
 public:
  [[nodiscard]] std::optional<TimePoint> place(const void* of) const;
  void keep(const void* of, TimePoint when);
  void forget(const void* of);

 private:
  struct Place {
    const void* of;
    TimePoint when;
  };
  std::vector<Place> places_;
};

/// Held while an attempt runs. Its destructor gives back what was not settled, as if nothing had been learned.
struct Pass {
  Candidate candidate{};
  Ticket breaker{};
  Ticket pause{};
  Ticket quarantine{};
  bool proved = false;  // Content has come: the upstream works, whatever happens to this stream.
  [[nodiscard]] bool is_probe() const { return breaker.is_probe() || pause.is_open() || quarantine.is_probe(); }
};

/// How an attempt ended.
struct AttemptEnd {
  classifier::Class cls = classifier::Class::None;
  bool good = false;                   // An answer came, be it a refusal for policy.
  bool of_the_caller = false;          // The caller's deadline ended it, or it went away.
  std::optional<Milliseconds> hint{};  // The provider refused and said how long.
};

/// What of it one would tell an operator.
struct HealthEvent {
  enum class Kind : std::uint8_t { BreakerOpened, BreakerClosed, Quarantined, Freed, Paused } kind;
  std::string upstream{};
  std::string model{};       // Breakers; of a pause the limit group.
  std::string credential{};  // Quarantine and pause.
  std::string_view why{};    // A literal: "failure_share", "auth", …
  std::optional<TimePoint> until{};
};

struct HealthPolicy {
  RetryBudgetPolicy retry_budget{};
  BreakerPolicy breaker{};
  std::map<std::string, std::vector<std::string>, std::less<>> credentials{};  // Ours, by upstream; all upstreams.
  bool operator==(const HealthPolicy&) const = default;
};

/// For people and metrics.
struct UpstreamHealth {
  struct OneBreaker {
    std::string model{};
    Breaker::State state{};
    std::optional<Breaker::Reason> reason{};
    std::optional<TimePoint> since{};
    std::optional<TimePoint> next_probe{};
  };
  struct OneCredential {
    std::string name{};
    std::optional<classifier::Class> quarantined_for{};
    std::optional<TimePoint> since{};
    std::optional<TimePoint> next_probe{};
  };
  struct OnePause {
    std::string credential{};
    bool configured = false;
    std::string group{};
    TimePoint until{};
    std::optional<TimePoint> next_probe{};
  };
  std::string name{};
  double retries_available = 0;
  std::vector<OneBreaker> breakers{};        // That are not closed.
  std::vector<OneCredential> credentials{};  // All of ours.
  std::vector<OnePause> pauses{};            // That last.
};

/// Single-threaded. Bounded: models and callers' keys are forgotten, those not used for longest first.
class Health {
 public:
  Health();

  /// Counts, pauses and states stay; what belongs to an upstream or credential that has gone goes.
  void configure(HealthPolicy policy);

  /// May an attempt go there now? `again`: its call has tried this upstream before, so it needs the upstream's retry
  /// budget.
  [[nodiscard]] Standing look(const Candidate& candidate, bool again, Waiter& waiter, TimePoint now, double roll);
  /// Only where look() just said yes.
  [[nodiscard]] Pass begin(const Candidate& candidate, bool again, TimePoint now);
  /// Content came: the breaker's question is answered.
  std::vector<HealthEvent> proved(Pass& pass, TimePoint now);
  std::vector<HealthEvent> end(Pass& pass, const AttemptEnd& ended, TimePoint now, double roll);
  /// What the provider says it has left for us (none: nothing happens).
  std::vector<HealthEvent> announced(const Candidate& candidate, std::int64_t remaining, std::int64_t limit,
                                     Milliseconds resets_in, TimePoint now);
  /// The credential's file holds another key.
  std::vector<HealthEvent> changed(std::string_view upstream, std::string_view credential);

  [[nodiscard]] std::vector<UpstreamHealth> view(TimePoint now);

 private:
  Breaker& breaker(const Candidate& candidate);
  Pause& pause(const Candidate& candidate);
  Quarantine* quarantine(const Candidate& candidate);
  RetryBudget& retry_budget(std::string_view upstream);

  HealthPolicy policy_;
  std::map<std::string, RetryBudget, std::less<>> retry_budgets_{};
  std::map<std::pair<std::string, std::string>, Quarantine, std::less<>> quarantines_{};  // Upstream, credential.
  Lru<Breaker> breakers_;                                                                 // "upstream\0model"
  Lru<Pause> pauses_;  // "upstream\0credential\0group\0" and "c" for ours
};

/// Does the breaker of an upstream count this against it?
[[nodiscard]] bool is_upstreams_fault(classifier::Class cls);
/// Does it say something about the credential alone?
[[nodiscard]] bool is_credentials_fault(classifier::Class cls);

}  // namespace budget
