#include "budget/dispatcher.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace budget {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kMostRates = 4'096;
// How long a wait is that nobody can foretell: new calls bring a retry budget back at any time.
constexpr Milliseconds kLookAgain{1'000};
constexpr Milliseconds kLeastWait{1};
constexpr Milliseconds kLookAtWall{60'000};
constexpr Milliseconds kShortestWait{1'000};
constexpr Milliseconds kLongestWait{600'000};
constexpr Milliseconds kTenantBurst{60'000};  // A minute's worth, as people take "per minute".
constexpr std::chrono::minutes kLaneInUse{10};
constexpr double kLeastShare = 1.0 / 20;  // Of the lowest lane.
constexpr double kLearn = 0.1;
constexpr double kMostCharged = 2e6;  // Tokens beyond what was expected.
constexpr std::string_view kDefault = "default";
constexpr std::array<std::string_view, kLimits> kLimitNames = {"none",
                                                               "order",
                                                               "queue_total",
                                                               "queue_per_tenant",
                                                               "tenant_concurrent",
                                                               "tenant_rate",
                                                               "upstream_concurrent",
                                                               "upstream_rate",
                                                               "pause",
                                                               "pace",
                                                               "breaker",
                                                               "retry_budget",
                                                               "credential",
                                                               "budget",
                                                               "backoff",
                                                               "operator"};

Limit limit_of(Held held) {
  switch (held) {
    case Held::Pause:
      return Limit::Pause;
    case Held::Pace:
      return Limit::Pace;
    case Held::Breaker:
      return Limit::Breaker;
    case Held::Quarantine:
      return Limit::Credential;
    case Held::RetryBudget:
      return Limit::RetryBudget;
    case Held::No:
      break;
  }
  return Limit::Backoff;
}

Refusal::Why why_of(Limit limit) {
  switch (limit) {
    case Limit::Breaker:
      return Refusal::Why::BreakerOpen;
    case Limit::RetryBudget:
      return Refusal::Why::RetryBudget;
    case Limit::Pause:
    case Limit::Pace:
      return Refusal::Why::Paused;
    default:
      return Refusal::Why::Deadline;
  }
}

Milliseconds wait_until(TimePoint when, TimePoint now) {
  if (when == TimePoint::max()) return kLongestWait;
  return std::max(kLeastWait, std::chrono::ceil<Milliseconds>(when - now));
}

Use use_of(const Expected& expected, bool counts_as_call) {
  return {.requests = counts_as_call ? 1.0 : 0.0,
          .input = static_cast<double>(expected.input),
          .output = static_cast<double>(expected.output)};
}

/// Jobs with the same one are held by the same.
std::string ways_of(const Job& job) {
  std::string key;
  for (std::size_t i = 0; i < job.candidates.size(); ++i) {
    if (job.not_before[i] == TimePoint::max()) continue;
    const Candidate& way = job.candidates[i];
    key.append(way.upstream).append(1, '\0').append(way.credential).append(1, '\0').append(way.group);
    key.append(1, '\0').append(way.model).append(1, '\n');
  }
  return key;
}

void learn(double& mean, double value) { mean += (mean == 0 ? 1.0 : kLearn) * (value - mean); }

double seconds(TimePoint from, TimePoint to) { return std::chrono::duration<double>(to - from).count(); }

Milliseconds clamped(double in_seconds) {
  if (!(in_seconds < 600)) return kLongestWait;
  return std::clamp(
      std::chrono::ceil<Milliseconds>(std::chrono::duration<double>{in_seconds}), kShortestWait, kLongestWait);
}

}  // namespace

std::string_view name_of(Limit limit) { return kLimitNames[static_cast<std::size_t>(limit)]; }

std::string_view name_of(Pausable what) {
  constexpr std::array<std::string_view, kPausables.size()> kNames = {"tenant", "lane", "upstream", "queue"};
  return kNames[static_cast<std::size_t>(what)];
}

Wait wait_of(Limit limit) {
  switch (limit) {
    case Limit::TenantConcurrent:
    case Limit::UpstreamConcurrent:
      return Wait::Concurrency;
    case Limit::TenantRate:
    case Limit::UpstreamRate:
      return Wait::Rate;
    case Limit::Pause:
    case Limit::Pace:
    case Limit::Credential:
      return Wait::Pause;
    case Limit::Breaker:
      return Wait::Breaker;
    case Limit::RetryBudget:
      return Wait::RetryBudget;
    case Limit::Backoff:
      return Wait::Backoff;
    case Limit::Budget:
      return Wait::Budget;
    case Limit::Operator:
      return Wait::Operator;
    case Limit::None:
    case Limit::Order:
    case Limit::QueueTotal:
    case Limit::QueueTenant:
      break;
  }
  return Wait::Queue;
}

Grant::Grant(Grant&& other) noexcept
    : desk_{std::move(other.desk_)},
      pass_{std::move(other.pass_)},
      money_{std::move(other.money_)},
      expected_{other.expected_},
      tenant_{std::move(other.tenant_)},
      lane_{other.lane_},
      again_{other.again_},
      began_{other.began_} {
  other.desk_.reset();
}

Grant& Grant::operator=(Grant&& other) noexcept {
  if (this == &other) return *this;
  const Grant old{std::move(*this)};
  desk_ = std::move(other.desk_);
  other.desk_.reset();
  pass_ = std::move(other.pass_);
  money_ = std::move(other.money_);
  expected_ = other.expected_;
  tenant_ = std::move(other.tenant_);
  lane_ = other.lane_;
  again_ = other.again_;
  began_ = other.began_;
  return *this;
}

Grant::~Grant() {
  if (const auto desk = desk_.lock()) (*desk)->give_back(*this);
}

Dispatcher::Tenant::Tenant(std::string tenant_name) : name{std::move(tenant_name)}, buckets{kTenantBurst} {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines[i].tenant = this;
    lines[i].lane = static_cast<Lane>(i);
  }
}

Dispatcher::Dispatcher(Doors doors)
    : doors_{std::move(doors)}, rates_{kMostRates}, self_{std::make_shared<Dispatcher*>(this)} {}

Dispatcher::~Dispatcher() = default;

void Dispatcher::configure(DispatchPolicy policy, TimePoint now, WallTime wall) {
  tick(now, wall);
  policy_ = std::move(policy);
  health_.configure(policy_.health);
  budgets_.configure(policy_.spend);
  for (const auto& [name, one] : policy_.tenants) tenant(name);
  for (auto& [name, one] : tenants_) configure(*one);
  for (const auto& [name, one] : policy_.upstreams) upstream(name);
  for (auto& [name, one] : upstreams_) configure(one);
  rates_.for_each([&](const std::string& key, GroupRate& one) {
    const std::string_view upstream = std::string_view{key}.substr(0, key.find('\0'));
    if (policy_.upstreams.contains(upstream)) one.configure(rates_of(upstream), now);
  });
  wake();
  scan();
}

/// The calls of one that is not configured any more end as those of everybody else.
void Dispatcher::configure(Tenant& one) {
  auto policy = policy_.tenants.find(one.name);
  if (policy == policy_.tenants.end()) policy = policy_.tenants.find(kDefault);
  one.policy = policy == policy_.tenants.end() ? TenantPolicy{} : policy->second;
  one.buckets.limit(one.policy.rates, now_);
}

/// One that is not configured any more ends its calls under the limits that they came under.
void Dispatcher::configure(Upstream& one) {
  const auto policy = policy_.upstreams.find(one.name);
  if (policy == policy_.upstreams.end()) return;
  one.policy = policy->second;
  one.concurrency.configure(one.policy.concurrent, one.policy.adaptive);
}

RateLimits Dispatcher::rates_of(std::string_view upstream) const {
  const auto policy = policy_.upstreams.find(upstream);
  return policy == policy_.upstreams.end() ? RateLimits{} : policy->second.rates;
}

Dispatcher::Tenant& Dispatcher::tenant(std::string_view name) {
  const auto found = tenants_.find(name);
  if (found != tenants_.end()) return *found->second;
  auto fresh = std::make_unique<Tenant>(std::string{name});
  configure(*fresh);
  return *tenants_.emplace(name, std::move(fresh)).first->second;
}

Dispatcher::Upstream& Dispatcher::upstream(std::string_view name) {
  const auto found = upstreams_.find(name);
  if (found != upstreams_.end()) return found->second;
  Upstream& fresh = upstreams_[std::string{name}];
  fresh.name = name;
  configure(fresh);
  return fresh;
}

GroupRate& Dispatcher::rate(const Candidate& way) {
  return rates_.get(group_key(way), [&] {
    GroupRate fresh;
    fresh.configure(rates_of(way.upstream), now_);
    return fresh;
  });
}

/// The lowest lane has its least share whatever the weights are.
double Dispatcher::lane_weight(Lane lane) const {
  const double own = policy_.weights[static_cast<std::size_t>(lane)];
  if (lane != Lane::Backfill) return own;
  return std::max(own, (policy_.weights[0] + policy_.weights[1]) * kLeastShare / (1 - kLeastShare));
}

bool Dispatcher::has_room(Upstream& at, Lane lane) {
  if (const auto grows = at.concurrency.grow(now_)) look_again_at(*grows);
  const int limit = at.concurrency.limit();
  if (limit <= 0) return true;
  if (at.in_flight >= limit) return false;
  if (kept_until(lane) <= now_ || policy_.reserve <= 0 || limit < 2) return true;
  // What is kept for higher lanes is free of this one and of those below it; it takes its turns in the others.
  const int kept = std::min(limit - 1, std::max(1, static_cast<int>(policy_.reserve * limit)));
  int low = 0;
  for (std::size_t i = static_cast<std::size_t>(lane); i < at.by_lane.size(); ++i) low += at.by_lane[i];
  return low < limit - kept;
}

TimePoint Dispatcher::kept_until(Lane lane) const {
  TimePoint until = TimePoint::min();
  for (std::size_t i = 0; i < static_cast<std::size_t>(lane); ++i) {
    if (lanes_[i].used) until = std::max(until, *lanes_[i].used + kLaneInUse);
  }
  return until;
}

std::optional<TimePoint> Dispatcher::paused(Pausable what, std::string_view name) const {
  if (paused_.empty()) return std::nullopt;
  const auto found = paused_.find(std::pair{what, std::string{name}});
  if (found == paused_.end() || found->second <= now_) return std::nullopt;
  return found->second;
}

TimePoint Dispatcher::patience_of(const Job& job) const {
  // A repetition's patience is in its deadline already.
  if (job.again) return job.deadline;
  return std::min(job.deadline, job.since + policy_.max_wait[static_cast<std::size_t>(job.lane)]);
}

// ---- Standing in line

Dispatcher::Line& Dispatcher::line_of(const Job& job) {
  return tenant(job.tenant).lines[static_cast<std::size_t>(job.lane)];
}

void Dispatcher::set_active(Line& line) {
  LaneQueue& lane = lanes_[static_cast<std::size_t>(line.lane)];
  if (line.active == !line.subs.empty()) return;
  line.active = !line.active;
  if (!line.active) {
    lane.active.erase({line.had, &line});
    return;
  }
  // Who was away has no claim to what it could have had.
  if (lane.active.empty()) lane.had = std::max(lane.had, floor_);
  line.had = std::max(line.had, lane.floor);
  lane.active.insert({line.had, &line});
}

void Dispatcher::charge(Line& line, double tokens) {
  LaneQueue& lane = lanes_[static_cast<std::size_t>(line.lane)];
  const bool active = line.active;
  if (active) lane.active.erase({line.had, &line});
  line.had += tokens / line.tenant->policy.weight;
  lane.had += tokens / lane_weight(line.lane);
  if (active) lane.active.insert({line.had, &line});
}

/// Who could not use a turn has no claim to it: neither one that was held by a limit of its own or by an operator,
/// nor one that waits for what others do not want.
void Dispatcher::lift_those_before(const Line& served, double start) {
  std::set<std::pair<double, Line*>>& active = lanes_[static_cast<std::size_t>(served.lane)].active;
  while (!active.empty() && active.begin()->first < start && active.begin()->second != &served) {
    Line& line = *active.begin()->second;
    active.erase(active.begin());
    line.had = start;
    active.insert({line.had, &line});
  }
}

void Dispatcher::put(Line& line, const std::string& ways, Job& job) {
  Sub& sub = line.subs[ways];
  if (sub.jobs.empty()) {
    sub.ups.clear();
    for (std::size_t i = 0; i < job.candidates.size(); ++i) {
      if (job.not_before[i] != TimePoint::max()) sub.ups.push_back(&upstream(job.candidates[i].upstream));
    }
  } else {
    line.heads.erase({sub.jobs.begin()->first, &sub});
  }
  sub.jobs.emplace(place_of(job), &job);
  line.heads.insert({sub.jobs.begin()->first, &sub});
}

void Dispatcher::pull(Line& line, std::map<std::string, Sub, std::less<>>::iterator from, Job& job) {
  Sub& sub = from->second;
  line.heads.erase({sub.jobs.begin()->first, &sub});
  sub.jobs.erase(place_of(job));
  if (sub.jobs.empty()) {
    line.subs.erase(from);
  } else {
    line.heads.insert({sub.jobs.begin()->first, &sub});
  }
}

void Dispatcher::stand(Job& job) {
  Line& line = line_of(job);
  put(line, job.ways, job);
  job.asleep = false;
  set_active(line);
}

void Dispatcher::unstand(Job& job) {
  Line& line = line_of(job);
  const auto sub = line.subs.find(job.ways);
  assert(sub != line.subs.end());
  pull(line, sub, job);
  set_active(line);
}

/// Others who want the same may go where this one may not.
void Dispatcher::set_apart(Job& job) {
  Line& line = line_of(job);
  if (!job.apart) {
    job.apart = true;
    pull(line, line.subs.find(job.ways), job);
    job.ways.append(1, '\0').append(std::to_string(job.number));
    put(line, job.ways, job);
  }
  line.subs[job.ways].blocked = scan_;
}

void Dispatcher::sleep(Job& job, TimePoint until) {
  job.asleep = true;
  job.wakes = until;
  asleep_.emplace(until, &job);
  look_again_at(until);
}

void Dispatcher::rouse(Job& job) {
  const auto [begin, end] = asleep_.equal_range(job.wakes);
  asleep_.erase(std::find_if(begin, end, [&](const auto& one) { return one.second == &job; }));
  job.asleep = false;
}

void Dispatcher::wake() {
  for (auto& [when, job] : std::exchange(asleep_, {})) stand(*job);
}

Dispatcher::Place Dispatcher::place_of(const Job& job) { return {job.again ? 0 : 1, job.number}; }

void Dispatcher::hold(Job& job, Limit by, const char* rate, std::string_view where) {
  const auto held = std::chrono::duration_cast<microseconds>(now_ - job.held_since);
  job.waits[static_cast<std::size_t>(wait_of(job.held_by))] += held;
  job.held_since = now_;
  job.held_by = by;
  job.rate = rate;
  job.where = where;
}

/// It is known from now on as one that waits.
void Dispatcher::join(Job& job) {
  Tenant& whose = tenant(job.tenant);
  whose.lines[static_cast<std::size_t>(job.lane)].all.emplace(place_of(job), &job);
  job.waiting = true;
  if (job.again) return;
  ++whose.waiting;
  ++waiting_;
  if (doors_.moved) doors_.moved(job.lane, 1);
}

void Dispatcher::drop_out(Job& job) {
  if (!job.waiting) return;
  job.asleep ? rouse(job) : unstand(job);
  Tenant& whose = tenant(job.tenant);
  whose.lines[static_cast<std::size_t>(job.lane)].all.erase(place_of(job));
  job.waiting = false;
  if (job.again) return;
  --whose.waiting;
  --waiting_;
  if (doors_.moved) doors_.moved(job.lane, -1);
}

/// It is over, this way or that.
void Dispatcher::settle(Job& job) {
  drop_out(job);
  hold(job, job.held_by, job.rate, job.where);
  if (doors_.settled) doors_.settled(job);
}

void Dispatcher::refuse(Job& job, Refusal refusal) {
  job.refused = std::move(refusal);
  settle(job);
}

// ---- May it begin?

Dispatcher::Offer Dispatcher::offer(Job& job) {
  Tenant& whose = tenant(job.tenant);
  if (const auto until = paused(Pausable::Tenant, job.tenant)) {
    hold(job, Limit::Operator, "", {});
    look_again_at(*until);
    return Offer::TenantBlocked;
  }
  if (const auto until = paused(Pausable::Lane, name_of(job.lane))) {
    hold(job, Limit::Operator, "", {});
    look_again_at(*until);
    return Offer::Blocked;
  }
  if (whose.policy.concurrent > 0 && whose.in_flight >= whose.policy.concurrent) {
    hold(job, Limit::TenantConcurrent, "", {});
    return Offer::TenantBlocked;
  }
  if (whose.buckets.limited()) {
    const Use use = use_of(job.expected.front(), !job.again);
    if (const TimePoint next = whose.buckets.next(use, now_); next > now_) {
      hold(job, Limit::TenantRate, whose.buckets.holds(use, now_), {});
      look_again_at(next);
      return Offer::TenantBlocked;
    }
  }
  return offer_ways(job);
}

Dispatcher::Offer Dispatcher::offer_ways(Job& job) {
  struct Shut {  // What opens first of all that is shut for this job alone.
    Limit limit = Limit::None;
    TimePoint when = TimePoint::max();
    std::optional<TimePoint> opens{};
    std::size_t at = 0;
  } shut;
  struct Full {  // What is taken by others.
    Limit limit = Limit::None;
    const char* rate = "";
    std::size_t at = 0;
    TimePoint until = TimePoint::max();
    void also(Limit by, const char* which, std::size_t way, TimePoint when) {
      if (limit == Limit::None || when < until) {
        limit = by;
        rate = which;
        at = way;
      }
      until = std::min(until, when);
    }
  } full;
  std::vector<const GroupRate*> claims;  // Of one that goes elsewhere nothing is left.
  bool alone = false;                    // Others who want the same may go where this one may not.
  std::size_t closed = 0;                // For this call, for good.
  std::size_t quarantined = 0;
  std::size_t spent = 0;
  std::optional<classifier::Class> quarantined_for;
  SpendAnswer no_money;

  for (std::size_t i = 0; i < job.candidates.size(); ++i) {
    const Candidate& way = job.candidates[i];
    const TimePoint own = job.not_before[i];
    if (own == TimePoint::max()) {
      ++closed;
      continue;
    }
    Upstream& there = upstream(way.upstream);
    const auto lane = static_cast<std::size_t>(job.lane);
    if (const auto until = paused(Pausable::Upstream, way.upstream)) {
      full.also(Limit::Operator, "", i, *until);
      continue;
    }
    const Standing standing = health_.look(way, job.tried[i] != 0, *job.waiter, now_, doors_.roll());
    if (standing.held == Held::Quarantine) {
      ++quarantined;
      quarantined_for = standing.quarantined_for;
      continue;
    }
    if (standing.held != Held::No || own > now_) {
      const bool backoff = own > now_ && (standing.held == Held::No || own > standing.when);
      const TimePoint when = backoff ? own : standing.when;
      alone = alone || own > now_ || standing.held == Held::RetryBudget;
      if (when <= shut.when) {
        shut = {backoff ? Limit::Backoff : limit_of(standing.held), when, backoff ? own : standing.opens, i};
      }
      continue;
    }
    if (!job.worst.empty()) {
      const SpendAnswer money = budgets_.look(job.tenant, job.run_id, job.worst[i], wall_);
      if (money.kind == SpendAnswer::Kind::Spent) {
        ++spent;
        no_money = money;
        continue;
      }
      if (money.kind == SpendAnswer::Kind::Wait) {
        // What begins anew is empty; the clock on the wall may be set meanwhile, so not too far ahead.
        const auto anew = money.resets ? std::min<std::chrono::nanoseconds>(*money.resets - wall_, kLookAtWall)
                                       : std::chrono::nanoseconds{kLookAtWall};
        full.also(Limit::Budget, "", i, now_ + std::max<std::chrono::nanoseconds>(anew, kLeastWait));
        alone = alone || money.period == Period::Run;
        continue;
      }
    }
    if (there.full[lane] == scan_ || !has_room(there, job.lane)) {
      there.full[lane] = scan_;
      if (there.in_flight < there.concurrency.limit()) look_again_at(kept_until(job.lane));
      full.also(Limit::UpstreamConcurrent, "", i, TimePoint::max());
      continue;
    }
    GroupRate& paced = rate(way);
    const Use use = use_of(job.expected[i], true);
    if (std::ranges::find(claimed_, &paced) != claimed_.end()) {
      full.also(Limit::UpstreamRate, paced.holds(use, now_), i, TimePoint::max());
      continue;
    }
    if (const TimePoint next = paced.next(use, now_); next > now_) {
      // The next one at it is not overtaken by a smaller one.
      claims.push_back(&paced);
      full.also(Limit::UpstreamRate, paced.holds(use, now_), i, next);
      continue;
    }
    take(job, i);
    return Offer::Taken;
  }

  Refusal refusal;
  const std::size_t all = job.candidates.size();
  if (closed == all) {
    refusal.why = Refusal::Why::NobodyLeft;
    job.refused = std::move(refusal);
    return Offer::Refused;
  }
  if (full.limit != Limit::None) {
    hold(job, full.limit, full.rate, job.candidates[full.at].upstream);
    look_again_at(std::min(full.until, shut.when));
    claimed_.insert(claimed_.end(), claims.begin(), claims.end());
    return alone ? Offer::BlockedAlone : Offer::Blocked;
  }
  if (spent > 0 && closed + quarantined + spent == all) {
    refusal.why = Refusal::Why::BudgetSpent;
    refusal.limit = Limit::Budget;
    refusal.spend = no_money;
    refusal.retry_after = no_money.resets
                              ? std::max(kShortestWait, std::chrono::ceil<Milliseconds>(*no_money.resets - wall_))
                              : kLongestWait;
    job.refused = std::move(refusal);
    return Offer::Refused;
  }
  if (closed + quarantined == all) {
    refusal.why = Refusal::Why::Quarantined;
    refusal.limit = Limit::Credential;
    refusal.cls = quarantined_for.value_or(classifier::Class::Auth);
    refusal.upstream = job.candidates.front().upstream;
    job.refused = std::move(refusal);
    return Offer::Refused;
  }

  // Nothing but time, or news, opens what is shut. Is there use in waiting for it?
  refusal.limit = shut.limit;
  refusal.upstream = job.candidates[shut.at].upstream;
  refusal.retry_after = wait_until(shut.opens.value_or(now_ + kLookAgain), now_);
  const bool unsure = shut.limit == Limit::RetryBudget || shut.limit == Limit::Breaker;
  // An open breaker whose own place in the return is not far is as good as closed.
  const bool returning = shut.limit == Limit::Breaker && shut.when <= now_ + kLookAgain;
  const bool quick = job.lane == Lane::Interactive && unsure && !returning;
  const bool pause = shut.limit == Limit::Pause || shut.limit == Limit::Pace;
  const bool too_long =
      pause && shut.opens && *shut.opens - now_ > job.longest_wait && shut.when > now_ + job.longest_wait;
  // More traffic brings a retry budget back sooner than is known now.
  const bool known = shut.limit != Limit::RetryBudget;
  if (quick || too_long || (known && shut.when >= patience_of(job))) {
    refusal.why = too_long ? Refusal::Why::PausedTooLong : why_of(shut.limit);
    job.refused = std::move(refusal);
    return Offer::Refused;
  }
  hold(job, shut.limit, "", job.candidates[shut.at].upstream);
  job.wakes = unsure ? std::min(shut.when, now_ + kLookAgain) : shut.when;
  return Offer::Asleep;
}

void Dispatcher::take(Job& job, std::size_t candidate) {
  const Candidate& way = job.candidates[candidate];
  const Expected& expected = job.expected[candidate];
  Tenant& whose = tenant(job.tenant);
  Grant grant;
  grant.desk_ = self_;
  grant.pass_ = health_.begin(way, job.tried[candidate] != 0, now_);
  if (!job.worst.empty()) grant.money_ = budgets_.reserve(job.tenant, job.run_id, job.worst[candidate], wall_);
  grant.expected_ = expected;
  grant.tenant_ = job.tenant;
  grant.lane_ = job.lane;
  grant.again_ = job.again;
  grant.began_ = now_;
  whose.buckets.take(use_of(expected, !job.again), now_);
  rate(way).take(use_of(expected, true), now_);
  ++whose.in_flight;
  Upstream& there = upstream(way.upstream);
  ++there.in_flight;
  ++there.by_lane[static_cast<std::size_t>(job.lane)];

  Line& line = whose.lines[static_cast<std::size_t>(job.lane)];
  // How fast it goes is only seen while somebody waits.
  if (line.last_began && !line.all.empty()) learn(line.between, seconds(*line.last_began, now_));
  line.last_began.reset();
  if (!line.all.empty()) line.last_began = now_;
  LaneQueue& lane = lanes_[static_cast<std::size_t>(job.lane)];
  lane.floor = std::max(lane.floor, line.had);
  floor_ = std::max(floor_, lane.had);
  charge(line, std::max(1.0, static_cast<double>(expected.input + expected.output)));
  job.granted.emplace(candidate, std::move(grant));
}

// ---- The dispatcher itself

void Dispatcher::tell_spent() {
  for (const SpendEvent& event : budgets_.events()) {
    if (doors_.spent) doors_.spent(event);
  }
}

void Dispatcher::scan() {
  ++scan_;
  claimed_.clear();
  next_ = asleep_.empty() ? TimePoint::max() : asleep_.begin()->first;
  while (scan_once()) {
  }
  tell_spent();
}

/// The next one whose turn it is. False: nobody else can begin now.
bool Dispatcher::scan_once() {
  std::array<std::size_t, 3> order{0, 1, 2};
  // The higher lane of those that had the same.
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair{lanes_[i].had, i}; });
  for (std::size_t at = 0; at < order.size(); ++at) {
    LaneQueue& lane = lanes_[order[at]];
    const double lanes_start = lane.had;
    for (auto next = lane.active.begin(); next != lane.active.end();) {
      const double start = next->first;
      Line& line = *next->second;
      ++next;  // This one's place may be gone in a moment.
      if (!serve(line)) continue;
      lift_those_before(line, start);
      for (std::size_t before = 0; before < at; ++before) {
        LaneQueue& passed = lanes_[order[before]];
        if (!passed.active.empty()) passed.had = std::max(passed.had, lanes_start);
      }
      return true;
    }
  }
  return false;
}

/// All of their ways are known to be full, whatever else may be.
bool Dispatcher::is_full(const Sub& sub, Lane lane) const {
  return std::ranges::all_of(
      sub.ups, [&](const Upstream* there) { return there->full[static_cast<std::size_t>(lane)] == scan_; });
}

/// One of the line begins, if one can.
bool Dispatcher::serve(Line& line) {
  for (auto next = line.heads.begin(); next != line.heads.end() && line.tenant->blocked != scan_;) {
    Sub& sub = *next->second;
    ++next;
    if (sub.blocked == scan_) continue;
    Job& job = *sub.jobs.begin()->second;
    if (is_full(sub, line.lane)) {
      sub.blocked = scan_;
      if (job.held_by == Limit::Order) hold(job, Limit::UpstreamConcurrent, "", sub.ups.front()->name);
      continue;
    }
    const bool last = sub.jobs.size() == 1;
    const Offer offered = offer(job);
    switch (offered) {
      case Offer::Taken:
        settle(job);
        return true;
      case Offer::TenantBlocked:
        line.tenant->blocked = scan_;
        break;
      case Offer::Blocked:
        sub.blocked = scan_;
        break;
      case Offer::BlockedAlone:
        set_apart(job);
        break;
      case Offer::Refused:
        settle(job);
        break;
      case Offer::Asleep:
        unstand(job);
        sleep(job, job.wakes);
        break;
    }
    // The next of the same ways, if there is one, stands further behind; it has its look in this round.
    const bool gone = offered == Offer::BlockedAlone || offered == Offer::Refused || offered == Offer::Asleep;
    if (gone && !last) next = line.heads.upper_bound({place_of(job), nullptr});
  }
  return false;
}

void Dispatcher::enter(Job& job, bool may_wait, TimePoint now, WallTime wall) {
  tick(now, wall);
  if (job.number == 0) job.number = ++arrivals_;
  job.held_since = now;
  job.held_by = Limit::Order;
  job.apart = false;
  lanes_[static_cast<std::size_t>(job.lane)].used = now;
  // What is begun after its deadline would be paid for nothing.
  if (now >= job.deadline) return refuse(job, {.why = Refusal::Why::Deadline});
  const bool alone = std::ranges::all_of(lanes_, [](const LaneQueue& lane) { return lane.active.empty(); });
  if (alone) {
    ++scan_;
    claimed_.clear();
  }
  // All who stand are held as the last scan found them, so that only this one need be looked at: what is taken or
  // claimed still is, and behind others who want the same it changes nothing.
  Line& line = line_of(job);
  if (!alone) job.ways = ways_of(job);
  Offer offered = Offer::Blocked;
  const bool behind = !alone && (line.tenant->blocked == scan_ || line.subs.contains(job.ways));
  if (!behind) {
    offered = offer(job);
    tell_spent();
    if (offered == Offer::Taken || offered == Offer::Refused) return settle(job);
  }
  if (!may_wait) return refuse(job, {.why = Refusal::Why::Draining});
  if (alone) job.ways = ways_of(job);
  join(job);
  offered == Offer::Asleep ? sleep(job, job.wakes) : stand(job);
  if (offered == Offer::BlockedAlone) set_apart(job);
  if (!behind && offered == Offer::Blocked) line.subs.find(job.ways)->second.blocked = scan_;
  if (offered == Offer::TenantBlocked) line.tenant->blocked = scan_;
  if (!job.again) make_room(job);
}

/// One came in. If there are too many now, the youngest of the longest queue in the lowest lane goes.
void Dispatcher::make_room(Job& newcomer) {
  Tenant& whose = tenant(newcomer.tenant);
  // What only waits for the process to get going is not turned away.
  const auto more = static_cast<std::size_t>(upstream(newcomer.candidates.front().upstream).concurrency.kept_back());
  Line* longest = nullptr;
  Limit limit = Limit::None;
  const auto length = [](const Line& line) { return line.all.size(); };
  const auto consider = [&](Line& line) {
    if (line.all.empty() || line.all.rbegin()->second->again) return;  // Only repetitions.
    const bool own = line.tenant == &whose;
    if (!longest || length(line) > length(*longest) || (own && length(line) == length(*longest))) longest = &line;
  };
  if (whose.waiting > policy_.per_tenant + more) {
    limit = Limit::QueueTenant;
    for (std::size_t lane = 3; lane-- > 0 && !longest;) consider(whose.lines[lane]);
  } else if (waiting_ > policy_.total + more) {
    limit = Limit::QueueTotal;
    for (std::size_t lane = 3; lane-- > 0 && !longest;) {
      for (auto& [name, one] : tenants_) consider(one->lines[lane]);
    }
  }
  if (!longest) return;
  Job& victim = *longest->all.rbegin()->second;
  Refusal refusal{.why = Refusal::Why::QueueFull, .limit = limit};
  refusal.retry_after = true_wait(victim);
  refusal.upstream = victim.candidates.front().upstream;
  refuse(victim, std::move(refusal));
}

/// How long one that stood at the end of its line would wait: those before it, by how fast that went of late.
Milliseconds Dispatcher::true_wait(const Job& job) {
  const Line& line = line_of(job);
  const double ahead = static_cast<double>(line.all.size() + 1);
  double wait = ahead * line.between;
  if (line.between == 0) {
    const Upstream& there = upstream(job.candidates.front().upstream);
    wait = ahead * there.held_seconds / std::max(1, there.concurrency.limit());
  }
  Milliseconds least = kShortestWait;
  if (job.held_by == Limit::TenantRate) {
    const Use use = use_of(job.expected.front(), !job.again);
    least = wait_until(tenant(job.tenant).buckets.next(use, now_), now_);
  }
  return std::clamp(std::max(clamped(wait), least), kShortestWait, kLongestWait);
}

Refusal Dispatcher::overdue(const Job& job, TimePoint now) {
  tick(now, wall_);
  Refusal refusal;
  refusal.why = job.deadline <= patience_of(job) ? Refusal::Why::Deadline : Refusal::Why::WaitedTooLong;
  // Behind others it waited for what they wait for.
  const Line& line = line_of(job);
  const Job& held = job.held_by == Limit::Order && !line.all.empty() ? *line.all.begin()->second : job;
  refusal.limit = held.held_by;
  refusal.rate = held.rate;
  refusal.upstream = held.where.empty() ? job.candidates.front().upstream : std::string{held.where};
  refusal.retry_after = true_wait(job);
  return refusal;
}

void Dispatcher::leave(Job& job, TimePoint now, WallTime wall) {
  if (!job.waiting) return;
  tick(now, wall);
  drop_out(job);
  hold(job, job.held_by, job.rate, job.where);
  // What it had claimed may serve the one behind it.
  const bool claimed = job.held_by == Limit::UpstreamRate || job.held_by == Limit::TenantRate;
  if (claimed || job.held_by == Limit::Budget) scan();
}

void Dispatcher::run(TimePoint now, WallTime wall) {
  tick(now, wall);
  while (!asleep_.empty() && asleep_.begin()->first <= now) {
    Job& job = *asleep_.begin()->second;
    asleep_.erase(asleep_.begin());
    stand(job);
  }
  std::erase_if(paused_, [&](const auto& one) { return one.second <= now; });
  scan();
}

void Dispatcher::tick(TimePoint now, WallTime wall) {
  now_ = std::max(now_, now);
  wall_ = wall;
}

// ---- What is in flight

void Dispatcher::proved(Grant& grant, TimePoint now, WallTime wall) {
  assert(grant.held());
  tick(now, wall);
  const bool probe = grant.pass_.is_probe();
  Upstream& there = upstream(grant.way().upstream);
  const int limit = there.concurrency.limit();
  if (!grant.pass_.proved) there.concurrency.succeeded(there.in_flight, now);
  const std::vector<HealthEvent> events = health_.proved(grant.pass_, now);
  tell(events);
  if (probe || !events.empty()) wake();
  if (probe || !events.empty() || there.concurrency.limit() != limit) scan();
}

NanoUsd charge_of(const Ended& ended, NanoUsd reserved) {
  const NanoUsd unknown = ended.end.good || ended.possibly_billed ? reserved : NanoUsd{};
  const NanoUsd told = ended.cost.value_or(unknown);
  return ended.possibly_billed ? std::max(told, unknown) : told;
}

void Dispatcher::ended(Grant& grant, const Ended& ended, TimePoint now, WallTime wall) {
  assert(grant.held());
  tick(now, wall);
  const Candidate& way = grant.way();
  const bool probe = grant.pass_.is_probe();
  const bool had_proved = grant.pass_.proved;
  AttemptEnd end = ended.end;
  if (end.good) lone_.answered(grant.tenant_, way.upstream, way.model);
  if (!end.good && !end.of_the_caller && is_upstreams_fault(end.cls)) {
    // A probe's failure keeps the breaker open whosever it is, or the next call would be a probe at once.
    const bool asks_for_all = grant.pass_.breaker.is_probe() && !had_proved;
    end.of_the_caller = lone_.failed(grant.tenant_, way.upstream, way.model) && !asks_for_all;
  }
  const std::vector<HealthEvent> events = health_.end(grant.pass_, end, now, doors_.roll());
  tell(events);

  Upstream& there = upstream(way.upstream);
  const bool overloaded =
      !end.good && !end.of_the_caller && (end.cls == classifier::Class::Overloaded || ended.connect_failed);
  if (overloaded) there.concurrency.overloaded(grant.began_, there.in_flight, now);
  if (ended.end.good && !had_proved) there.concurrency.succeeded(there.in_flight, now);
  learn(there.held_seconds, seconds(grant.began_, now));

  // What nobody counted was what was expected, unless nothing was done.
  const bool used = ended.end.good || ended.possibly_billed;
  Use truth = used ? use_of(grant.expected_, true) : Use{.requests = ended.connect_failed ? 0.0 : 1.0};
  if (ended.tokens) {
    const auto [input, output] = *ended.tokens;
    truth.input = std::max(static_cast<double>(input), ended.possibly_billed ? truth.input : 0.0);
    truth.output = std::max(static_cast<double>(output), ended.possibly_billed ? truth.output : 0.0);
  }
  // Where no budget counts, nothing was put aside, and settling it does nothing.
  grant.money_.settle(charge_of(ended, grant.money_.amount()), wall);
  finish(grant, truth, used, ended.end.cls == classifier::Class::RateLimited && !ended.end.good);
  if (probe || !events.empty()) wake();
  scan();
}

void Dispatcher::finish(Grant& grant, const Use& truth, bool used, bool refused) {
  grant.desk_.reset();
  const Candidate& way = grant.way();
  Tenant& whose = tenant(grant.tenant_);
  const Use of_tenant = use_of(grant.expected_, !grant.again_);
  whose.buckets.settle(
      of_tenant, {.requests = of_tenant.requests, .input = truth.input, .output = truth.output}, now_);
  rate(way).settle(use_of(grant.expected_, true), truth, refused, grant.began_, now_);
  const double expected = std::max(1.0, static_cast<double>(grant.expected_.input + grant.expected_.output));
  // One whose calls all fail has had its turns all the same, or it would always be the next.
  // A count beyond all sense does not shut it out for ever.
  const double counted = std::clamp(truth.tokens(), 1.0, expected + kMostCharged);
  if (used) charge(whose.lines[static_cast<std::size_t>(grant.lane_)], counted - expected);
  --whose.in_flight;
  Upstream& there = upstream(way.upstream);
  --there.in_flight;
  --there.by_lane[static_cast<std::size_t>(grant.lane_)];
  assert(whose.in_flight >= 0 && there.in_flight >= 0);
}

/// It was dropped: nothing was done, as far as anybody knows.
void Dispatcher::give_back(Grant& grant) {
  const bool probe = grant.pass_.is_probe();
  // All of it is back before the next one looks.
  grant.pass_.breaker = {};
  grant.pass_.pause = {};
  grant.pass_.quarantine = {};
  grant.money_ = {};
  finish(grant, {.requests = 0}, false, false);
  if (probe) wake();
  scan();
}

void Dispatcher::announced(const Candidate& way, std::span<const classifier::AnnouncedLimit> limits, TimePoint now) {
  using Unit = classifier::AnnouncedLimit::Unit;
  tick(now, wall_);
  rate(way).announced(limits, now);
  // What is used up stops us whatever it counts; how few are left can only be paced where requests are counted.
  const classifier::AnnouncedLimit* tightest = nullptr;
  for (const classifier::AnnouncedLimit& limit : limits) {
    if (!limit.remaining || !limit.resets_in) continue;
    if (*limit.remaining == 0) {
      tell(health_.announced(way, 0, limit.limit.value_or(0), *limit.resets_in, now));
      continue;
    }
    if (limit.unit != Unit::Requests) continue;
    // The one that makes us go slowest.
    if (!tightest || *limit.resets_in / *limit.remaining > *tightest->resets_in / *tightest->remaining)
      tightest = &limit;
  }
  if (!tightest) return;
  tell(health_.announced(way, *tightest->remaining, tightest->limit.value_or(0), *tightest->resets_in, now));
}

void Dispatcher::key_changed(std::string_view upstream, std::string_view credential, TimePoint now, WallTime wall) {
  tick(now, wall);
  tell(health_.changed(upstream, credential));
  wake();
  scan();
}

void Dispatcher::tell(const std::vector<HealthEvent>& events) {
  if (!doors_.happened) return;
  for (const HealthEvent& event : events) doors_.happened(event);
}

// ---- By hand

void Dispatcher::pause(Pausable what, std::string_view name, TimePoint until, TimePoint now, WallTime wall) {
  tick(now, wall);
  paused_[{what, std::string{name}}] = until;
  scan();
}

bool Dispatcher::resume(Pausable what, std::string_view name, TimePoint now, WallTime wall) {
  tick(now, wall);
  const auto found = paused_.find(std::pair{what, std::string{name}});
  if (found == paused_.end()) return false;
  const bool was = found->second > now;
  paused_.erase(found);
  scan();
  return was;
}

bool Dispatcher::grant_money(std::string_view tenant, Period period, std::string_view run_id, NanoUsd amount,
                             TimePoint now, WallTime wall) {
  tick(now, wall);
  if (!budgets_.grant(tenant, period, run_id, amount, wall)) return false;
  wake();
  scan();
  return true;
}

// ---- For people

std::vector<TenantState> Dispatcher::tenants(TimePoint now) {
  tick(now, wall_);
  std::vector<TenantState> all;
  for (const auto& [name, one] : tenants_) {
    TenantState state;
    state.name = name;
    for (std::size_t i = 0; i < 3; ++i) state.waiting[i] = one->lines[i].all.size();
    state.in_flight = one->in_flight;
    state.policy = one->policy;
    state.paused_until = paused(Pausable::Tenant, name);
    all.push_back(std::move(state));
  }
  return all;
}

std::vector<UpstreamLoad> Dispatcher::upstreams(TimePoint now) {
  tick(now, wall_);
  std::vector<UpstreamLoad> all;
  for (const auto& [name, one] : upstreams_) {
    UpstreamLoad load;
    load.name = name;
    load.in_flight = one.in_flight;
    load.limit = one.concurrency.limit();
    load.paused_until = paused(Pausable::Upstream, name);
    all.push_back(std::move(load));
  }
  rates_.for_each([&](const std::string& key, GroupRate& paced) {
    const RateLimits effective = paced.effective(now);
    if (effective == RateLimits{}) return;
    const Candidate way = candidate_of_group(key);
    const auto upstream = std::ranges::find(all, way.upstream, &UpstreamLoad::name);
    if (upstream == all.end()) return;
    upstream->groups.push_back({way.credential, way.configured, way.group, effective, paced.share(now)});
  });
  return all;
}

std::array<LaneState, 3> Dispatcher::lanes(TimePoint now) {
  tick(now, wall_);
  std::array<LaneState, 3> all;
  for (std::size_t i = 0; i < 3; ++i) {
    all[i].lane = static_cast<Lane>(i);
    for (const auto& [name, one] : tenants_) {
      const std::map<Place, Job*>& jobs = one->lines[i].all;
      all[i].waiting += jobs.size();
      // Repetitions stand by when their calls came, which is not since when they wait; behind them all are in order.
      for (const auto& [place, job] : jobs) {
        all[i].oldest = std::min(all[i].oldest.value_or(job->since), job->since);
        if (!job->again) break;
      }
    }
    all[i].paused_until = paused(Pausable::Lane, name_of(all[i].lane));
  }
  return all;
}

std::array<std::size_t, kLimits> Dispatcher::held() const {
  std::array<std::size_t, kLimits> counts{};
  for (const auto& [name, one] : tenants_) {
    for (const Line& line : one->lines) {
      for (const auto& [place, job] : line.all) ++counts[static_cast<std::size_t>(job->held_by)];
    }
  }
  return counts;
}

int Dispatcher::in_flight(std::string_view upstream) const {
  const auto found = upstreams_.find(upstream);
  return found == upstreams_.end() ? 0 : found->second.in_flight;
}

}  // namespace budget
