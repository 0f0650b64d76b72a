#pragma once
// Which way may this call go, and when? Pauses, breakers, quarantines and the call's own backoff first, then a slot.

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gateway/config.h"
#include "gateway/slots.h"

namespace gateway {

/// I/O thread only. Owns what is known of the upstreams' health, the slots, and the keys of our credentials.
class CandidateAdmission final : public Admission {
 public:
  struct Listeners {
    std::function<void(budget::Lane, int)> moved{};  // Of every entering (+1) and leaving (-1) of the queue.
    std::function<void(const budget::HealthEvent&)> happened{};
  };
  CandidateAdmission(Runtime& runtime, Listeners listeners);

  /// New limits and keys hold for what comes and what waits; what is known and what is in flight stays.
  void configure(SlotLimits limits, budget::HealthPolicy health);
  /// By secret_name(). A key that is another than before frees its credential. Keys that are not named stay.
  void take_keys(const Secrets& secrets);

  task<std::expected<Admitted, Refusal>> admit(const Ask& ask, budget::Waiter& waiter, Waits& waits,
                                               Signal& signal) override;
  void proved(Admitted& admitted) override;
  void ended(Admitted& admitted, const budget::AttemptEnd& end) override;
  void announced(const Admitted& admitted, std::span<const classifier::AnnouncedLimit> limits) override;

  [[nodiscard]] std::vector<budget::UpstreamHealth> health();
  [[nodiscard]] int in_use(std::string_view upstream) const { return slots_.in_use(upstream); }
  [[nodiscard]] std::size_t waiting() const { return slots_.waiting() + asleep_.size(); }

 private:
  struct Choice {
    std::vector<std::size_t> ready{};  // Candidates that nothing but a slot holds back.
    budget::Standing nearest{};        // Of the others, that which opens first …
    ledger::WaitedFor for_what{};      // … and what one waits for until then.
    std::size_t nearest_at = 0;
    std::size_t quarantined = 0;
    std::size_t closed = 0;  // For this call, for good.
    std::optional<classifier::Class> quarantined_for{};
  };
  [[nodiscard]] Choice choose(const Ask& ask, budget::Waiter& waiter);
  [[nodiscard]] Admitted take(const Ask& ask, std::size_t candidate, Permit slot);
  [[nodiscard]] std::optional<Refusal> hopeless(const Ask& ask, const Choice& choice, TimePoint patience) const;
  void tell(const std::vector<budget::HealthEvent>& events);
  /// What was shut may be open now: all who sleep look again.
  void wake();

  Runtime& runtime_;
  Listeners listeners_;
  budget::Health health_;
  Slots slots_;
  std::map<std::string, std::shared_ptr<const std::string>, std::less<>> keys_{};
  std::list<Signal*> asleep_{};
};

}  // namespace gateway
