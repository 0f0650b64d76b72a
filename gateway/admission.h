#pragma once
// Where does a call wait for its turn? The dispatcher's coroutines, clock and keys.

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gateway/config.h"
#include "gateway/services.h"

namespace gateway {

/// What the dispatcher must know of a configuration.
[[nodiscard]] budget::DispatchPolicy dispatch_policy(const Config& config);

/// Money of the time before this process, as the ledger has it: spent, or granted.
struct MoneyBefore {
  std::string tenant{};
  std::string run_id{};  // Empty: of the tenant's day and month.
  WallTime when{};       // Unless it is a run's.
  budget::NanoUsd spent{};
  std::optional<budget::NanoUsd> granted{};  // For `period`.
  budget::Period period{};
};

/// I/O thread only. Owns the dispatcher and the keys of our credentials.
class DispatchAdmission final : public Admission {
 public:
  struct Listeners {
    std::function<void(budget::Lane, int)> moved{};  // Of every entering (+1) and leaving (-1) of the queue.
    std::function<void(const budget::HealthEvent&)> happened{};
    std::function<void(const budget::SpendEvent&)> spent{};
    /// What was expected of an attempt and what it took, in tokens; of answers that told.
    std::function<void(const budget::Expected&, const budget::Expected&)> estimated{};
  };
  DispatchAdmission(Runtime& runtime, Listeners listeners);

  /// New limits and keys hold for what comes and what waits; what is known and what is in flight stays.
  void configure(budget::DispatchPolicy policy);
  /// By secret_name(). A key that is another than before frees its credential. Keys that are not named stay.
  void take_keys(const Secrets& secrets);

  task<std::expected<Admitted, Refusal>> admit(Ask& ask, budget::Waiter& waiter, WaitTimes& waits,
                                               Signal& signal) override;
  [[nodiscard]] budget::Expected expected(const budget::Candidate& way, const budget::Sizes& sizes) override {
    return dispatcher_.estimator().expect(way.upstream, way.model, sizes);
  }
  [[nodiscard]] std::optional<double> warned_share(std::string_view tenant, std::string_view run_id) override;
  void proved(Admitted& admitted) override;
  void ended(Admitted& admitted, const budget::Ended& end) override;
  void announced(const Admitted& admitted, std::span<const classifier::AnnouncedLimit> limits) override;

  /// Nobody of it begins until then (max(): until resumed).
  void pause(budget::Pausable what, std::string_view name, TimePoint until);
  bool resume(budget::Pausable what, std::string_view name);
  bool grant_money(std::string_view tenant, budget::Period period, std::string_view run_id, budget::NanoUsd amount);

  /// Whether money of that tenant, or of that run, is counted already.
  [[nodiscard]] bool counts_money_of(std::string_view tenant, std::string_view run_id = {}) {
    return dispatcher_.budgets().knows(tenant, run_id);
  }
  void restore(const std::vector<MoneyBefore>& before);

  [[nodiscard]] std::vector<budget::UpstreamHealth> health() { return dispatcher_.health(runtime_.now()); }
  [[nodiscard]] std::vector<budget::TenantState> tenants() { return dispatcher_.tenants(runtime_.now()); }
  [[nodiscard]] std::vector<budget::UpstreamLoad> upstreams() { return dispatcher_.upstreams(runtime_.now()); }
  [[nodiscard]] std::array<budget::LaneState, 3> lanes() { return dispatcher_.lanes(runtime_.now()); }
  [[nodiscard]] std::array<std::size_t, budget::kLimits> held() const { return dispatcher_.held(); }
  [[nodiscard]] std::vector<budget::BudgetState> budgets();
  [[nodiscard]] int in_use(std::string_view upstream) const { return dispatcher_.in_flight(upstream); }
  [[nodiscard]] std::size_t waiting() const { return asleep_.size(); }

 private:
  class Place;
  /// Somebody must be awake when time opens something: the one that has waited for longest.
  void keep_watch();

  Runtime& runtime_;
  Listeners listeners_;
  budget::Dispatcher dispatcher_;
  std::map<std::string, std::shared_ptr<const std::string>, std::less<>> keys_{};
  std::list<Signal*> asleep_{};
  TimePoint watched_until_ = TimePoint::max();
};

}  // namespace gateway
