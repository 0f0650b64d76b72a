#pragma once
// Whose turn is it, and where to? One dispatcher over all that waits and all that limits (design §5).
//
// A job holds nothing while it waits. On every arrival, release, refill and end of a pause the next one begins for
// which everything says yes at once: its tenant's rates and concurrency, some candidate of its route with health,
// rate and concurrency, and its budgets. Taken in one step, or not at all.
//
// Order: lanes by weight, in a lane tenants by weight, both by virtual time (what was used, in tokens, by weight: who
// has had least comes next; Goyal, Vin & Cheng 1996); in a tenant first come, first served, repetitions before all.
// Use that turns out other than expected is settled in virtual time, too. Whom its own limit holds blocks nobody
// else; who waits for a rate is not overtaken at it by a smaller one.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "budget/bucket.h"
#include "budget/concurrency.h"
#include "budget/estimator.h"
#include "budget/group_rate.h"
#include "budget/health.h"
#include "budget/lane.h"
#include "budget/lone_failures.h"
#include "budget/spend.h"
#include "budget/waits.h"

namespace budget {

/// What holds a job, or refused it.
enum class Limit : std::uint8_t {
  None,
  Order,  // Others come first.
  QueueTotal,
  QueueTenant,
  TenantConcurrent,
  TenantRate,
  UpstreamConcurrent,
  UpstreamRate,
  Pause,
  Pace,
  Breaker,
  RetryBudget,
  Credential,  // All in quarantine.
  Budget,
  Backoff,
  Operator,  // Somebody has paused it.
};
inline constexpr std::size_t kLimits = 16;
[[nodiscard]] std::string_view name_of(Limit limit);  // "queue_total", "tenant_rate", …

[[nodiscard]] Wait wait_of(Limit limit);

/// Why an attempt may not be made.
struct Refusal {
  enum class Why : std::uint8_t {
    QueueFull,
    WaitedTooLong,
    Deadline,
    Stopped,
    Draining,
    Paused,         // The provider's pause lasts longer than the call may, …
    PausedTooLong,  // … or longer than is waited out.
    BreakerOpen,
    RetryBudget,
    Quarantined,  // All credentials.
    NobodyLeft,   // All candidates were tried, and will not do.
    BudgetSpent,
  };
  Why why = Why::QueueFull;
  Milliseconds retry_after{1'000};                  // The true wait, as far as it is known.
  Limit limit = Limit::None;                        // What held it when it was refused.
  const char* rate = "";                            // Tenant's or upstream's rate: which ("tokens_per_minute").
  std::string upstream{};                           // Where.
  classifier::Class cls = classifier::Class::None;  // Quarantined: for what.
  SpendAnswer spend{};                              // BudgetSpent.
};

struct TenantPolicy {
  double weight = 1;
  RateLimits rates{};
  int concurrent = 0;  // 0: no limit.
  bool operator==(const TenantPolicy&) const = default;
};

struct UpstreamPolicy {
  int concurrent = 0;  // 0: no limit.
  bool adaptive = true;
  RateLimits rates{};  // Of each credential and limit group.
  bool operator==(const UpstreamPolicy&) const = default;
};

struct DispatchPolicy {
  std::size_t per_tenant = 1'000;  // Most that wait.
  std::size_t total = 10'000;
  std::array<double, 3> weights{8, 2, 1};  // By lane.
  std::array<Milliseconds, 3> max_wait{Milliseconds{30'000}, Milliseconds{300'000}, Milliseconds{1'800'000}};
  double reserve = 0.1;  // Share of an upstream's slots that is kept for higher lanes while such are in use.
  std::map<std::string, TenantPolicy, std::less<>> tenants{};  // Others are as "default".
  std::map<std::string, UpstreamPolicy, std::less<>> upstreams{};
  HealthPolicy health{};
  SpendPolicy spend{};
};

class Dispatcher;

/// The leave to make one attempt, and all that is held for it. Move-only; dropped, everything is back as if nothing
/// had been learned. It may outlive the dispatcher.
class Grant {
 public:
  Grant() = default;
  Grant(Grant&& other) noexcept;
  Grant& operator=(Grant&& other) noexcept;
  Grant(const Grant&) = delete;
  Grant& operator=(const Grant&) = delete;
  ~Grant();
  [[nodiscard]] bool held() const { return !desk_.expired(); }
  [[nodiscard]] const Candidate& way() const { return pass_.candidate; }
  [[nodiscard]] const Expected& expected() const { return expected_; }

 private:
  friend class Dispatcher;
  std::weak_ptr<Dispatcher*> desk_{};
  Pass pass_{};
  Reserved money_{};
  Expected expected_{};
  std::string tenant_{};
  Lane lane_ = Lane::Bulk;
  bool again_ = false;
  TimePoint began_{};
};

/// How an attempt ended, as far as limits go.
struct Ended {
  AttemptEnd end{};
  /// Of what the provider counted; nothing: not told.
  std::optional<std::pair<std::int64_t, std::int64_t>> tokens{};  // Input, output.
  std::optional<NanoUsd> cost{};
  bool possibly_billed = false;  // Nobody knows: what was put aside counts as used.
  bool connect_failed = false;
};
/// What budgets are charged for it: what it cost, else what was reserved for it if it may have been billed. Of an
/// answer that broke off, what was told is not all: the more of both.
[[nodiscard]] NanoUsd charge_of(const Ended& ended, NanoUsd reserved);

/// One attempt that wants to begin. Whoever owns it keeps it until it was granted or refused, or calls leave().
struct Job {
  // What it wants; the spans are its owner's.
  std::span<const Candidate> candidates{};  // In order of preference.
  std::span<const TimePoint> not_before{};  // Its own backoff there; max(): not at all any more.
  std::span<const char> tried{};            // It has tried that upstream before.
  std::span<const Expected> expected{};     // Of each candidate.
  std::span<const NanoUsd> worst{};         // Of each candidate; empty: no budget counts.
  std::string_view tenant{};
  std::string_view run_id{};
  Lane lane = Lane::Bulk;
  bool again = false;                 // A repetition.
  TimePoint since{};                  // It waits from then on.
  TimePoint deadline{};               // After that, waiting is for nothing.
  Milliseconds longest_wait{60'000};  // Longer pauses are not waited out.
  Waiter* waiter = nullptr;           // One call's, over all its attempts.
  void* owner = nullptr;

  // What became of it.
  std::optional<std::pair<std::size_t, Grant>> granted{};  // Which candidate.
  std::optional<Refusal> refused{};
  WaitTimes waits{};  // Complete once it is granted, refused or has left.

  // The dispatcher's own.
  Limit held_by = Limit::None;
  const char* rate = "";
  std::string_view where{};
  TimePoint held_since{};
  std::uint64_t number = 0;  // By arrival; a repetition keeps its call's.
  bool waiting = false;
  bool asleep = false;
  bool apart = false;  // Something holds it that does not hold others who want the same.
  TimePoint wakes{};
  std::string ways{};
};

/// For people and metrics.
struct TenantState {
  std::string name{};
  std::array<std::size_t, 3> waiting{};  // By lane.
  int in_flight = 0;
  TenantPolicy policy{};
  std::optional<TimePoint> paused_until{};  // By an operator; max(): until resumed.
};
struct UpstreamLoad {
  std::string name{};
  int in_flight = 0;
  int limit = 0;  // At present; 0: none.
  std::optional<TimePoint> paused_until{};
  struct Group {
    std::string credential{};
    bool configured = false;
    std::string group{};
    RateLimits effective{};
    double share = 1;
  };
  std::vector<Group> groups{};  // With a rate.
};
struct LaneState {
  Lane lane{};
  std::size_t waiting = 0;
  std::optional<TimePoint> oldest{};  // Since when the one that has waited longest does.
  std::optional<TimePoint> paused_until{};
};

/// A queue's runs are not the dispatcher's business: whoever begins them looks at that.
enum class Pausable : std::uint8_t { Tenant, Lane, Upstream, Queue };
inline constexpr std::array<Pausable, 4> kPausables = {
    Pausable::Tenant, Pausable::Lane, Pausable::Upstream, Pausable::Queue};
[[nodiscard]] std::string_view name_of(Pausable what);  // "tenant", "lane", "upstream", "queue"

/// Single-threaded.
class Dispatcher {
 public:
  struct Doors {
    std::function<double()> roll{};       // In [0, 1).
    std::function<void(Job&)> settled{};  // It was granted or refused; called at the end of a step.
    std::function<void(const HealthEvent&)> happened{};
    std::function<void(const SpendEvent&)> spent{};
    std::function<void(Lane, int)> moved{};  // Entered (+1) or left (-1) the queue.
  };
  explicit Dispatcher(Doors doors);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Balances, states and places stay; new limits hold at once, for those who wait, too.
  void configure(DispatchPolicy policy, TimePoint now, WallTime wall);
  [[nodiscard]] const DispatchPolicy& policy() const { return policy_; }

  /// It may be granted or refused at once; else it waits. `may_wait` false: it is refused (Draining) instead.
  void enter(Job& job, bool may_wait, TimePoint now, WallTime wall);
  /// It does not wait any more: a ghost is gone at once.
  void leave(Job& job, TimePoint now, WallTime wall);
  /// It has waited as long as it may: why that was for nothing.
  [[nodiscard]] Refusal overdue(const Job& job, TimePoint now);
  /// Until when it may wait, by its lane's max_wait and its own deadline.
  [[nodiscard]] TimePoint patience_of(const Job& job) const;

  /// Time has passed: whoever may, begins.
  void run(TimePoint now, WallTime wall);
  /// When run() is to be called at the latest; max(): nothing depends on time.
  [[nodiscard]] TimePoint next() const { return next_; }

  /// Content has come: the upstream works.
  void proved(Grant& grant, TimePoint now, WallTime wall);
  /// Failures that only this tenant has there (LoneFailures) count neither for the breaker nor for the concurrency.
  void ended(Grant& grant, const Ended& ended, TimePoint now, WallTime wall);
  void announced(const Candidate& way, std::span<const classifier::AnnouncedLimit> limits, TimePoint now);
  /// The credential's file holds another key.
  void key_changed(std::string_view upstream, std::string_view credential, TimePoint now, WallTime wall);

  /// Nobody of it begins until then (max(): until resumed). What is in flight goes on.
  void pause(Pausable what, std::string_view name, TimePoint until, TimePoint now, WallTime wall);
  /// False: it was not paused.
  bool resume(Pausable what, std::string_view name, TimePoint now, WallTime wall);
  bool grant_money(std::string_view tenant, Period period, std::string_view run_id, NanoUsd amount, TimePoint now,
                   WallTime wall);

  [[nodiscard]] Estimator& estimator() { return estimator_; }
  [[nodiscard]] Budgets& budgets() { return budgets_; }
  [[nodiscard]] std::vector<UpstreamHealth> health(TimePoint now) { return health_.view(now); }
  [[nodiscard]] std::vector<TenantState> tenants(TimePoint now);
  [[nodiscard]] std::vector<UpstreamLoad> upstreams(TimePoint now);
  [[nodiscard]] std::array<LaneState, 3> lanes(TimePoint now);
  /// How many wait, by what holds them.
  [[nodiscard]] std::array<std::size_t, kLimits> held() const;
  [[nodiscard]] std::size_t waiting() const { return waiting_; }
  [[nodiscard]] int in_flight(std::string_view upstream) const;

 private:
  friend class Grant;
  using Place = std::pair<int, std::uint64_t>;  // Repetitions are 0, others 1; then by arrival.
  struct Upstream;
  struct Sub {  // Those of a line that want the same ways: one is as blocked as another.
    std::map<Place, Job*> jobs{};
    std::vector<Upstream*> ups{};  // Where they may go at all.
    std::uint64_t blocked = 0;     // In that scan.
  };
  struct Tenant;
  struct Line {  // A tenant's in a lane.
    Tenant* tenant = nullptr;
    Lane lane{};
    double had = 0;  // Virtual time.
    std::map<std::string, Sub, std::less<>> subs{};
    std::set<std::pair<Place, Sub*>> heads{};  // By whose first one came first.
    std::map<Place, Job*> all{};               // Those that sleep, too.
    double between = 0;                        // Seconds between two beginnings, of late.
    std::optional<TimePoint> last_began{};
    bool active = false;
  };
  struct Tenant {
    explicit Tenant(std::string tenant_name);
    std::string name;
    TenantPolicy policy{};
    Buckets buckets;
    int in_flight = 0;
    std::array<Line, 3> lines{};
    std::uint64_t blocked = 0;
    std::size_t waiting = 0;  // No repetitions.
  };
  struct Upstream {
    std::string name{};
    UpstreamPolicy policy{};
    Concurrency concurrency{};
    int in_flight = 0;
    std::array<int, 3> by_lane{};         // How many of them.
    double held_seconds = 0;              // How long an attempt takes, of late.
    std::array<std::uint64_t, 3> full{};  // For a lane, in that scan.
  };
  struct LaneQueue {
    double had = 0;
    double floor = 0;                             // Where the one served last began.
    std::set<std::pair<double, Line*>> active{};  // With somebody who does not sleep.
    std::optional<TimePoint> used{};
  };
  enum class Offer : std::uint8_t { Taken, Blocked, BlockedAlone, TenantBlocked, Asleep, Refused };

  Tenant& tenant(std::string_view name);
  Upstream& upstream(std::string_view name);
  GroupRate& rate(const Candidate& way);
  void configure(Tenant& one);
  void configure(Upstream& one);
  [[nodiscard]] RateLimits rates_of(std::string_view upstream) const;
  [[nodiscard]] double lane_weight(Lane lane) const;
  [[nodiscard]] bool has_room(Upstream& at, Lane lane);
  /// Until when slots are kept for the lanes above it.
  [[nodiscard]] TimePoint kept_until(Lane lane) const;
  [[nodiscard]] std::optional<TimePoint> paused(Pausable what, std::string_view name) const;

  static Place place_of(const Job& job);
  Line& line_of(const Job& job);
  void set_active(Line& line);
  void charge(Line& line, double tokens);
  void put(Line& line, const std::string& ways, Job& job);
  void pull(Line& line, std::map<std::string, Sub, std::less<>>::iterator from, Job& job);
  void lift_those_before(const Line& served, double start);
  void join(Job& job);
  void stand(Job& job);
  void unstand(Job& job);
  void set_apart(Job& job);
  void sleep(Job& job, TimePoint until);
  void rouse(Job& job);
  void wake();
  void drop_out(Job& job);
  void hold(Job& job, Limit by, const char* rate, std::string_view where);
  void settle(Job& job);
  void refuse(Job& job, Refusal refusal);

  Offer offer(Job& job);
  Offer offer_ways(Job& job);
  void take(Job& job, std::size_t candidate);
  void tell_spent();
  void scan();
  bool scan_once();
  [[nodiscard]] bool is_full(const Sub& sub, Lane lane) const;
  bool serve(Line& line);
  void make_room(Job& newcomer);
  [[nodiscard]] Milliseconds true_wait(const Job& job);
  void finish(Grant& grant, const Use& truth, bool used, bool refused);
  void give_back(Grant& grant);
  void tell(const std::vector<HealthEvent>& events);
  void tick(TimePoint now, WallTime wall);
  void look_again_at(TimePoint when) { next_ = std::min(next_, when); }

  Doors doors_;
  DispatchPolicy policy_{};
  Health health_{};
  LoneFailures lone_{};
  Budgets budgets_{};
  Estimator estimator_{};
  std::map<std::string, std::unique_ptr<Tenant>, std::less<>> tenants_{};
  std::map<std::string, Upstream, std::less<>> upstreams_{};
  Lru<GroupRate> rates_;
  std::array<LaneQueue, 3> lanes_{};
  double floor_ = 0;
  std::multimap<TimePoint, Job*> asleep_{};
  std::map<std::pair<Pausable, std::string>, TimePoint> paused_{};
  std::vector<const GroupRate*> claimed_{};  // In this scan somebody waits for it.
  std::size_t waiting_ = 0;                  // No repetitions.
  std::uint64_t arrivals_ = 0;
  std::uint64_t scan_ = 0;
  TimePoint next_ = TimePoint::max();
  TimePoint now_{};  // As last told.
  WallTime wall_{};
  std::shared_ptr<Dispatcher*> self_;
};

}  // namespace budget
