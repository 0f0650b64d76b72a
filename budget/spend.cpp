#include "budget/spend.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <list>
#include <utility>

namespace budget {
namespace {

// Sums of reservations may be more than one of them can be. Only this form of the extension is let pass by
// -Wpedantic.
__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using)

// So much are clocks set back to be right; more, and it was wrong before.
constexpr std::chrono::hours kSetBack{1};
constexpr std::size_t kMostRuns = 10'000;  // Of one tenant.
constexpr std::size_t kRunsTold = 100;
constexpr std::size_t kMostEvents = 1'000;
constexpr std::array<std::string_view, 3> kPeriodNames = {"day", "month", "run"};

/// Sums end at the largest number.
NanoUsd plus(NanoUsd a, NanoUsd b) {
  NanoUsd sum;
  if (!__builtin_add_overflow(a.value, b.value, &sum.value)) return sum;
  return {a.value < 0 ? INT64_MIN : INT64_MAX};
}

NanoUsd none_if_negative(NanoUsd amount) { return {std::max<std::int64_t>(0, amount.value)}; }

}  // namespace

std::string_view name_of(Period period) { return kPeriodNames[static_cast<std::size_t>(period)]; }

/// One account of one period.
struct Account {
  Period period{};
  Zone::Span span{};  // Day and month.
  NanoUsd spent{};
  NanoUsd granted{};
  bool warned = false;
  bool exhausted = false;
  NanoUsd told_at{};  // The limit of which it was told.
};

struct Reserved::Purse {
  std::string tenant{};
  std::string run_id{};  // Empty: the tenant's own.
  Wide held = 0;
  std::vector<Account> accounts{};           // A tenant's: day and month; a run's: one.
  std::list<std::string>::iterator place{};  // Of a run, in order of use.
  std::weak_ptr<Budgets::Core> core{};
};

struct Budgets::Core : std::enable_shared_from_this<Core> {
  SpendPolicy policy{.tenants = {}, .zone = std::make_shared<const Zone>()};
  std::map<std::string, std::shared_ptr<Purse>, std::less<>> tenants{};
  std::map<std::string, std::shared_ptr<Purse>, std::less<>> runs{};  // "tenant\0run"
  /// Of each tenant, so that nobody makes another's be forgotten; most recently used first.
  std::map<std::string, std::list<std::string>, std::less<>> run_order{};
  std::vector<SpendEvent> events{};

  [[nodiscard]] const SpendLimits* limits_of(std::string_view tenant) const {
    const auto found = policy.tenants.find(tenant);
    return found == policy.tenants.end() ? nullptr : &found->second;
  }

  /// With its grants; nothing: not limited.
  [[nodiscard]] std::optional<NanoUsd> limit_of(const Purse& purse, const Account& account) const {
    const SpendLimits* limits = limits_of(purse.tenant);
    if (!limits) return std::nullopt;
    std::optional<NanoUsd> limit = limits->daily;
    if (account.period == Period::Month) limit = limits->monthly;
    if (account.period == Period::Run) limit = limits->per_run;
    if (!limit) return std::nullopt;
    return none_if_negative(plus(*limit, account.granted));
  }

  void roll(Account& account, WallTime now) const {
    if (account.period == Period::Run || account.span.holds(now)) return;
    // A clock that was set back a little does not give the money of that day again.
    if (now < account.span.begin && account.span.begin - now <= kSetBack) return;
    const Zone::Span span = account.period == Period::Day ? policy.zone->day(now) : policy.zone->month(now);
    account = {.period = account.period, .span = span};
  }

  /// Null for a tenant that has no limits and never had.
  std::shared_ptr<Purse> purse_of(std::string_view tenant, WallTime now) {
    auto found = tenants.find(tenant);
    if (found == tenants.end()) {
      if (!limits_of(tenant)) return nullptr;
      auto fresh = std::make_shared<Purse>();
      fresh->tenant = tenant;
      fresh->core = weak_from_this();
      fresh->accounts = {{.period = Period::Day}, {.period = Period::Month}};
      found = tenants.emplace(tenant, std::move(fresh)).first;
    }
    for (Account& account : found->second->accounts) roll(account, now);
    return found->second;
  }

  static std::string key_of(std::string_view tenant, std::string_view run_id) {
    std::string key;
    key.reserve(tenant.size() + 1 + run_id.size());
    return key.append(tenant).append(1, '\0').append(run_id);
  }

  [[nodiscard]] bool is_limited_run(std::string_view tenant, std::string_view run_id) const {
    const SpendLimits* limits = limits_of(tenant);
    return !run_id.empty() && limits && limits->per_run;
  }

  /// Null where none is limited or none is known: to ask after a run is no reason to forget another.
  std::shared_ptr<Purse> find_run(std::string_view tenant, std::string_view run_id) {
    if (!is_limited_run(tenant, run_id)) return nullptr;
    const auto found = runs.find(key_of(tenant, run_id));
    if (found == runs.end()) return nullptr;
    std::list<std::string>& order = run_order.find(tenant)->second;
    order.splice(order.begin(), order, found->second->place);
    return found->second;
  }

  std::shared_ptr<Purse> run_of(std::string_view tenant, std::string_view run_id) {
    if (!is_limited_run(tenant, run_id)) return nullptr;
    if (auto known = find_run(tenant, run_id)) return known;
    std::list<std::string>& order = run_order[std::string{tenant}];
    while (order.size() >= kMostRuns && forget_a_run(order)) {
    }
    std::string key = key_of(tenant, run_id);
    auto fresh = fresh_run(tenant, run_id);
    order.push_front(key);
    fresh->place = order.begin();
    return runs.emplace(std::move(key), std::move(fresh)).first->second;
  }

  std::shared_ptr<Purse> fresh_run(std::string_view tenant, std::string_view run_id) {
    auto fresh = std::make_shared<Purse>();
    fresh->tenant = tenant;
    fresh->run_id = run_id;
    fresh->core = weak_from_this();
    fresh->accounts = {{.period = Period::Run}};
    return fresh;
  }

  /// False: money is in reserve for all of them.
  bool forget_a_run(std::list<std::string>& order) {
    for (auto key = order.end(); key != order.begin();) {
      --key;
      const auto run = runs.find(*key);
      if (run->second->held > 0) continue;
      runs.erase(run);
      order.erase(key);
      return true;
    }
    return false;
  }

  void tell(SpendEvent::Kind kind, const Purse& purse, const Account& account, NanoUsd limit) {
    if (events.size() >= kMostEvents) return;
    events.push_back({.kind = kind,
                      .tenant = purse.tenant,
                      .period = account.period,
                      .run_id = purse.run_id,
                      .limit = limit,
                      .spent = account.spent});
  }

  /// Who knows of another limit than the present one knows nothing.
  static void forget_told(Account& account, NanoUsd limit) {
    if (std::exchange(account.told_at, limit) != limit) account.warned = account.exhausted = false;
  }

  void watch(const Purse& purse, Account& account) {
    const std::optional<NanoUsd> limit = limit_of(purse, account);
    if (!limit) return;
    forget_told(account, *limit);
    const double warn_at = limits_of(purse.tenant)->warn_at * static_cast<double>(limit->value);
    if (warn_at < static_cast<double>(limit->value) && static_cast<double>(account.spent.value) >= warn_at &&
        !std::exchange(account.warned, true))
      tell(SpendEvent::Kind::Warned, purse, account, *limit);
    if (account.spent >= *limit && !std::exchange(account.exhausted, true))
      tell(SpendEvent::Kind::Exhausted, purse, account, *limit);
  }

  static void free(Purse& purse, NanoUsd reserved) { purse.held -= reserved.value; }

  void pay(Purse& purse, NanoUsd cost, WallTime now) {
    for (Account& account : purse.accounts) {
      roll(account, now);
      account.spent = plus(account.spent, cost);
      watch(purse, account);
    }
  }

  void ask(Purse& purse, NanoUsd worst, SpendAnswer& answer) {
    for (Account& account : purse.accounts) {
      const std::optional<NanoUsd> limit = limit_of(purse, account);
      if (!limit) continue;
      const Wide own = static_cast<Wide>(account.spent.value) + worst.value;
      SpendAnswer::Kind kind = SpendAnswer::Kind::Yes;
      if (own + purse.held > limit->value) kind = SpendAnswer::Kind::Wait;
      if (own > limit->value) kind = SpendAnswer::Kind::Spent;
      // Accounts come in the order in which they begin anew, so whoever comes back by the last will pass the others.
      if (kind == SpendAnswer::Kind::Yes || kind < answer.kind) continue;
      answer = {.kind = kind,
                .period = account.period,
                .resets = {},
                .limit = *limit,
                .spent = account.spent,
                .worst = worst};
      if (account.period != Period::Run) answer.resets = account.span.end;
      // The limit itself is seldom met: calls are refused before. But one that is too large anyway tells nothing.
      if (kind == SpendAnswer::Kind::Spent && worst <= *limit) {
        forget_told(account, *limit);
        if (!std::exchange(account.exhausted, true)) tell(SpendEvent::Kind::Exhausted, purse, account, *limit);
      }
    }
  }
};

Reserved& Reserved::operator=(Reserved&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  purse_ = std::move(other.purse_);
  run_ = std::move(other.run_);
  amount_ = other.amount_;
  return *this;
}

void Reserved::give_back() {
  for (const std::shared_ptr<Purse>& purse : {std::exchange(purse_, nullptr), std::exchange(run_, nullptr)}) {
    if (purse) Budgets::Core::free(*purse, amount_);
  }
}

void Reserved::settle(NanoUsd cost, WallTime now) {
  for (const std::shared_ptr<Purse>& purse : {std::exchange(purse_, nullptr), std::exchange(run_, nullptr)}) {
    if (!purse) continue;
    Budgets::Core::free(*purse, amount_);
    if (const auto core = purse->core.lock()) core->pay(*purse, none_if_negative(cost), now);
  }
}

Budgets::Budgets() : core_{std::make_shared<Core>()} {}
Budgets::~Budgets() = default;

void Budgets::configure(SpendPolicy policy) {
  if (!policy.zone) policy.zone = std::make_shared<const Zone>();
  const bool other_zone = policy.zone->name() != core_->policy.zone->name();
  core_->policy = std::move(policy);
  if (!other_zone) return;
  // What was spent on a date stays that date's, so that its middle is asked for.
  for (auto& [name, purse] : core_->tenants) {
    for (Account& account : purse->accounts) {
      const Zone::Span old = account.span;
      if (old.end == WallTime{}) continue;
      const WallTime inside = old.begin + (old.end - old.begin) / 2;
      account.span =
          account.period == Period::Day ? core_->policy.zone->day(inside) : core_->policy.zone->month(inside);
      account.span.begin = std::min(account.span.begin, old.begin);  // It has begun.
    }
  }
}

SpendAnswer Budgets::look(std::string_view tenant, std::string_view run_id, NanoUsd worst, WallTime now) {
  SpendAnswer answer;
  if (!core_->limits_of(tenant)) return answer;
  worst = none_if_negative(worst);
  core_->ask(*core_->purse_of(tenant, now), worst, answer);
  if (const auto run = core_->find_run(tenant, run_id)) {
    core_->ask(*run, worst, answer);
  } else if (core_->is_limited_run(tenant, run_id)) {
    core_->ask(*core_->fresh_run(tenant, run_id), worst, answer);
  }
  return answer;
}

Reserved Budgets::reserve(std::string_view tenant, std::string_view run_id, NanoUsd worst, WallTime now) {
  Reserved reserved;
  reserved.amount_ = none_if_negative(worst);
  reserved.purse_ = core_->purse_of(tenant, now);
  reserved.run_ = core_->run_of(tenant, run_id);
  for (const auto& purse : {reserved.purse_, reserved.run_}) {
    if (purse) purse->held += reserved.amount_.value;
  }
  return reserved;
}

std::optional<double> Budgets::warned_share(std::string_view tenant, std::string_view run_id, WallTime now) {
  const SpendLimits* limits = core_->limits_of(tenant);
  if (!limits) return std::nullopt;
  std::optional<double> greatest;
  for (const auto& purse : {core_->purse_of(tenant, now), core_->find_run(tenant, run_id)}) {
    if (!purse) continue;
    for (const Account& account : purse->accounts) {
      const std::optional<NanoUsd> limit = core_->limit_of(*purse, account);
      if (!limit || limit->value == 0) continue;
      const double share = static_cast<double>(account.spent.value) / static_cast<double>(limit->value);
      if (share >= limits->warn_at && limits->warn_at < 1) greatest = std::max(greatest.value_or(0), share);
    }
  }
  return greatest;
}

bool Budgets::grant(std::string_view tenant, Period period, std::string_view run_id, NanoUsd amount, WallTime now) {
  const SpendLimits* limits = core_->limits_of(tenant);
  if (!limits) return false;
  const std::shared_ptr<Purse> purse =
      period == Period::Run ? core_->run_of(tenant, run_id) : core_->purse_of(tenant, now);
  if (!purse) return false;
  const auto account = std::ranges::find(purse->accounts, period, &Account::period);
  if (account == purse->accounts.end() || !core_->limit_of(*purse, *account)) return false;
  account->granted = plus(account->granted, amount);
  core_->watch(*purse, *account);
  return true;
}

void Budgets::restore_spent(std::string_view tenant, WallTime when, NanoUsd amount, WallTime now) {
  const std::shared_ptr<Purse> purse = core_->purse_of(tenant, now);
  if (!purse) return;
  for (Account& account : purse->accounts) {
    if (!account.span.holds(when)) continue;
    account.spent = plus(account.spent, none_if_negative(amount));
    core_->watch(*purse, account);
  }
}

bool Budgets::knows(std::string_view tenant, std::string_view run_id) const {
  return run_id.empty() ? core_->tenants.contains(tenant) : core_->runs.contains(Core::key_of(tenant, run_id));
}

void Budgets::restore_run(std::string_view tenant, std::string_view run_id, NanoUsd amount) {
  if (const auto purse = core_->run_of(tenant, run_id)) core_->pay(*purse, none_if_negative(amount), {});
}

void Budgets::restore_grant(std::string_view tenant, Period period, std::string_view run_id, WallTime when,
                            NanoUsd amount, WallTime now) {
  if (period != Period::Run) {
    const std::shared_ptr<Purse> purse = core_->purse_of(tenant, now);
    if (!purse) return;
    const auto account = std::ranges::find(purse->accounts, period, &Account::period);
    if (account == purse->accounts.end() || !account->span.holds(when)) return;
  }
  grant(tenant, period, run_id, amount, now);
}

std::vector<SpendEvent> Budgets::events() { return std::exchange(core_->events, {}); }

std::size_t Budgets::runs() const { return core_->runs.size(); }

std::vector<BudgetState> Budgets::view(WallTime now) {
  std::vector<BudgetState> all;
  const auto add = [&](const Purse& purse) {
    for (const Account& account : purse.accounts) {
      const std::optional<NanoUsd> limit = core_->limit_of(purse, account);
      if (!limit) continue;
      BudgetState state{.tenant = purse.tenant,
                        .period = account.period,
                        .run_id = purse.run_id,
                        .limit = *limit,
                        .granted = account.granted,
                        .spent = account.spent,
                        .held = {static_cast<std::int64_t>(std::min<Wide>(purse.held, INT64_MAX))},
                        .resets = {}};
      if (account.period != Period::Run) state.resets = account.span.end;
      all.push_back(std::move(state));
    }
  };
  for (const auto& [tenant, limits] : core_->policy.tenants) add(*core_->purse_of(tenant, now));
  for (const auto& [tenant, order] : core_->run_order) {
    std::size_t told = 0;
    for (auto key = order.begin(); key != order.end() && told < kRunsTold; ++key, ++told) add(*core_->runs.at(*key));
  }
  return all;
}

}  // namespace budget
