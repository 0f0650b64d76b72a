#pragma once
// May this call still spend? Budgets by day, month and run id, of settled money and of money in reserve (design §5).

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "budget/units.h"
#include "budget/zone.h"

namespace budget {

enum class Period : std::uint8_t { Day, Month, Run };
[[nodiscard]] std::string_view name_of(Period period);  // "day", "month", "run"

struct SpendLimits {
  std::optional<NanoUsd> daily{};
  std::optional<NanoUsd> monthly{};
  std::optional<NanoUsd> per_run{};
  double warn_at = 0.8;  // Share of a limit from which on it is told; 1: never.
  bool operator==(const SpendLimits&) const = default;
};

[[nodiscard]] inline bool is_limited(const SpendLimits& limits) {
  return limits.daily || limits.monthly || limits.per_run;
}

struct SpendPolicy {
  std::map<std::string, SpendLimits, std::less<>> tenants{};  // Those without limits may be missing.
  std::shared_ptr<const Zone> zone{};
};

/// What a call is told.
struct SpendAnswer {
  enum class Kind : std::uint8_t {
    Yes,
    Wait,   // Only money in reserve for others is in the way.
    Spent,  // Settled money and its own worst case pass a limit.
  } kind = Kind::Yes;
  Period period = Period::Day;  // Wait, Spent: whose limit; of several that are spent, the one that lasts longest.
  std::optional<WallTime> resets{};  // When that begins anew; nothing for a run.
  NanoUsd limit{};
  NanoUsd spent{};  // Settled; may be nothing, see worst.
  NanoUsd worst{};  // The call's own; above the limit it will not pass in the next period either.
};

class Budgets;

/// Money put aside for one attempt. Move-only; dropped, it comes back whole, as if nothing had been spent. It may
/// outlive the budgets.
class Reserved {
 public:
  Reserved() = default;
  Reserved(Reserved&& other) noexcept = default;
  Reserved& operator=(Reserved&& other) noexcept;
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  ~Reserved() { give_back(); }
  [[nodiscard]] bool held() const { return purse_ != nullptr; }
  [[nodiscard]] NanoUsd amount() const { return amount_; }
  /// The attempt has cost so much: 0 where it failed for nothing, its reservation where it may have been billed. The
  /// first settling counts.
  void settle(NanoUsd cost, WallTime now);

 private:
  friend class Budgets;
  struct Purse;  // A tenant's, or a run's. It outlives its limits and its being forgotten.
  void give_back();
  std::shared_ptr<Purse> purse_{};
  std::shared_ptr<Purse> run_{};
  NanoUsd amount_{};
};

/// A soft limit was passed; or a hard one was reached, or so much is spent that a call which might have passed in a
/// fresh period was refused. Told once per period and limit.
struct SpendEvent {
  enum class Kind : std::uint8_t { Warned, Exhausted } kind;
  std::string tenant{};
  Period period{};
  std::string run_id{};
  NanoUsd limit{};
  NanoUsd spent{};
};

/// For people and metrics.
struct BudgetState {
  std::string tenant{};
  Period period{};
  std::string run_id{};  // Period::Run only.
  NanoUsd limit{};       // Grants included.
  NanoUsd granted{};
  NanoUsd spent{};
  NanoUsd held{};
  std::optional<WallTime> resets{};
};

/// Single-threaded. Money is spent in the period in which it is settled. Balances stay over configure(), of tenants
/// whose limits have gone, too; in another zone the running day and month go on as those of the same date. Of tenants
/// that never had limits nothing is kept. Runs are bounded: the least recently used one of its tenant without money
/// in reserve is forgotten.
class Budgets {
 public:
  Budgets();
  ~Budgets();
  void configure(SpendPolicy policy);

  [[nodiscard]] SpendAnswer look(std::string_view tenant, std::string_view run_id, NanoUsd worst, WallTime now);
  /// Only where look() just said yes. Nothing is held of a tenant without limits.
  [[nodiscard]] Reserved reserve(std::string_view tenant, std::string_view run_id, NanoUsd worst, WallTime now);
  /// The greatest share of a limit that is spent, from warn_at on; else nothing. For the caller's warning header.
  [[nodiscard]] std::optional<double> warned_share(std::string_view tenant, std::string_view run_id, WallTime now);
  /// More for the running period (of a run: for good). Negative takes back. False: no such limit.
  bool grant(std::string_view tenant, Period period, std::string_view run_id, NanoUsd amount, WallTime now);
  /// What was spent or granted before this process began, as the ledger has it. Counts where the running day, month
  /// or run is limited and holds that moment.
  /// There is an account of it already.
  [[nodiscard]] bool knows(std::string_view tenant, std::string_view run_id = {}) const;
  void restore_spent(std::string_view tenant, WallTime when, NanoUsd amount, WallTime now);
  void restore_run(std::string_view tenant, std::string_view run_id, NanoUsd amount);
  void restore_grant(std::string_view tenant, Period period, std::string_view run_id, WallTime when, NanoUsd amount,
                     WallTime now);
  /// What happened since the last call, oldest first.
  [[nodiscard]] std::vector<SpendEvent> events();
  /// Of each tenant's runs the hundred most recent ones.
  [[nodiscard]] std::vector<BudgetState> view(WallTime now);
  /// How many runs are kept.
  [[nodiscard]] std::size_t runs() const;

 private:
  friend class Reserved;
  friend struct Reserved::Purse;
  using Purse = Reserved::Purse;
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace budget
