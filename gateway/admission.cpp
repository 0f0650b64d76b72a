#include "gateway/admission.h"

#include <algorithm>
#include <utility>

namespace gateway {
namespace {

budget::HealthPolicy health_policy(const Config& config) {
  budget::HealthPolicy policy;
  policy.retry_budget = {.share = config.retry.budget_share,
                         .floor = static_cast<double>(config.retry.budget_floor),
                         .floor_refill_per_second = config.retry.budget_refill};
  policy.breaker = {.window = config.breaker.window,
                    .min_calls = config.breaker.min_calls,
                    .failure_share = config.breaker.failure_share,
                    .consecutive = config.breaker.consecutive,
                    .open_for = config.breaker.open_for};
  for (const UpstreamConfig& upstream : config.upstreams) {
    std::vector<std::string>& names = policy.credentials[upstream.name];
    for (const CredentialConfig& credential : upstream.credentials) names.push_back(credential.name);
  }
  return policy;
}

}  // namespace

budget::DispatchPolicy dispatch_policy(const Config& config) {
  budget::DispatchPolicy policy;
  const Config::Queue& queue = config.queue;
  policy.per_tenant = queue.per_tenant;
  policy.total = queue.total;
  policy.weights = {queue.weights.interactive, queue.weights.bulk, queue.weights.backfill};
  policy.max_wait = {queue.max_wait.interactive, queue.max_wait.bulk, queue.max_wait.backfill};
  policy.reserve = queue.reserve;
  for (const TenantConfig& tenant : config.tenants) {
    policy.tenants[tenant.name] = {.weight = tenant.weight, .rates = tenant.limits, .concurrent = tenant.concurrent};
    if (is_limited(tenant.budget)) policy.spend.tenants[tenant.name] = tenant.budget;
  }
  policy.spend.zone = std::make_shared<const budget::Zone>(config.time_zone);
  for (const UpstreamConfig& upstream : config.upstreams) {
    policy.upstreams[upstream.name] = {
        .concurrent = upstream.concurrent, .adaptive = upstream.adaptive, .rates = upstream.rates};
  }
  policy.health = health_policy(config);
  return policy;
}

/// A job's stay in the dispatcher's lines, however it ends.
class DispatchAdmission::Place {
 public:
  Place(DispatchAdmission& house, budget::Job& job, Signal& signal)
      : house_(house), job_(job), at_(house.asleep_.insert(house.asleep_.end(), &signal)) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    const bool watched = at_ == house_.asleep_.begin();
    house_.asleep_.erase(at_);
    house_.dispatcher_.leave(job_, house_.runtime_.now(), house_.runtime_.wall_now());
    if (watched) house_.watched_until_ = TimePoint::max();
    house_.keep_watch();
  }
  [[nodiscard]] bool keeps_watch() const { return at_ == house_.asleep_.begin(); }

 private:
  DispatchAdmission& house_;
  budget::Job& job_;
  std::list<Signal*>::iterator at_;
};

DispatchAdmission::DispatchAdmission(Runtime& runtime, Listeners listeners)
    : runtime_(runtime),
      listeners_(std::move(listeners)),
      dispatcher_({.roll = [&runtime] { return runtime.roll(); },
                   .settled = [](budget::Job& job) { static_cast<Signal*>(job.owner)->ring(); },
                   .happened = listeners_.happened,
                   .spent = listeners_.spent,
                   .moved = listeners_.moved}) {}

void DispatchAdmission::configure(budget::DispatchPolicy policy) {
  dispatcher_.configure(std::move(policy), runtime_.now(), runtime_.wall_now());
  // Whoever still waits may have to wait longer now, or less long.
  for (Signal* signal : asleep_) signal->ring();
}

void DispatchAdmission::take_keys(const Secrets& secrets) {
  for (const auto& [name, key] : secrets) {
    std::shared_ptr<const std::string>& held = keys_[name];
    if (held && *held == key) continue;
    const bool first = !held;
    held = std::make_shared<const std::string>(key);
    if (first) continue;
    const std::size_t slash = name.find('/');
    const std::string_view both{name};
    dispatcher_.key_changed(both.substr(0, slash), both.substr(slash + 1), runtime_.now(), runtime_.wall_now());
  }
  keep_watch();
}

void DispatchAdmission::keep_watch() {
  if (asleep_.empty() || dispatcher_.next() >= watched_until_) return;
  watched_until_ = TimePoint::max();
  asleep_.front()->ring();
}

task<std::expected<Admitted, Refusal>> DispatchAdmission::admit(Ask& ask, budget::Waiter& waiter, WaitTimes& waits,
                                                                Signal& signal) {
  if (signal.stopped()) co_return std::unexpected(Refusal{Refusal::Why::Stopped});
  std::vector<budget::Expected> guesses;
  guesses.reserve(ask.candidates.size());
  for (const budget::Candidate& way : ask.candidates) guesses.push_back(expected(way, ask.sizes));

  budget::Job job;
  job.candidates = ask.candidates;
  job.not_before = ask.not_before;
  job.tried = ask.tried;
  job.expected = guesses;
  job.worst = ask.worst;
  job.tenant = ask.tenant;
  job.run_id = ask.run_id;
  job.lane = ask.lane;
  job.again = ask.again;
  job.number = ask.number;
  job.since = runtime_.now();
  job.deadline = ask.deadline;
  job.longest_wait = ask.longest_wait;
  job.waiter = &waiter;
  job.owner = &signal;
  dispatcher_.enter(job, !signal.draining(), runtime_.now(), runtime_.wall_now());
  ask.number = job.number;
  if (!job.granted && !job.refused) {
    const Place place{*this, job, signal};
    keep_watch();
    for (;;) {
      const TimePoint now = runtime_.now();
      if (job.granted || job.refused || signal.stopped()) break;
      if (signal.draining()) {
        job.refused = Refusal{Refusal::Why::Draining};
        break;
      }
      const TimePoint patience = dispatcher_.patience_of(job);
      if (now >= patience) {
        job.refused = dispatcher_.overdue(job, now);
        break;
      }
      if (place.keeps_watch()) {
        if (now >= dispatcher_.next()) {
          dispatcher_.run(now, runtime_.wall_now());
          continue;
        }
        watched_until_ = std::min(patience, dispatcher_.next());
        co_await runtime_.wait(signal, watched_until_);
      } else {
        co_await runtime_.wait(signal, patience);
      }
    }
  } else {
    keep_watch();
  }
  for (std::size_t i = 0; i < waits.size(); ++i) waits[i] += job.waits[i];
  if (signal.stopped()) {
    // What it would have held goes to the next one, whom somebody must wake.
    job.granted.reset();
    keep_watch();
    co_return std::unexpected(Refusal{Refusal::Why::Stopped});
  }
  if (!job.granted) co_return std::unexpected(std::move(*job.refused));

  Admitted admitted;
  admitted.candidate = job.granted->first;
  admitted.grant = std::move(job.granted->second);
  admitted.sizes = ask.sizes;
  const budget::Candidate& way = ask.candidates[admitted.candidate];
  if (way.configured) {
    const auto key = keys_.find(secret_name(way.upstream, way.credential));
    if (key != keys_.end()) admitted.key = key->second;
  }
  co_return admitted;
}

void DispatchAdmission::proved(Admitted& admitted) {
  dispatcher_.proved(admitted.grant, runtime_.now(), runtime_.wall_now());
  keep_watch();
}

void DispatchAdmission::ended(Admitted& admitted, const budget::Ended& end) {
  const budget::Candidate& way = admitted.grant.way();
  if (end.end.good && end.tokens) {
    const budget::Expected truth{.input = end.tokens->first, .output = end.tokens->second};
    dispatcher_.estimator().learn(way.upstream, way.model, admitted.sizes, truth.input, truth.output);
    if (listeners_.estimated) listeners_.estimated(admitted.grant.expected(), truth);
  }
  dispatcher_.ended(admitted.grant, end, runtime_.now(), runtime_.wall_now());
  keep_watch();
}

void DispatchAdmission::announced(const Admitted& admitted, std::span<const classifier::AnnouncedLimit> limits) {
  dispatcher_.announced(admitted.grant.way(), limits, runtime_.now());
}

void DispatchAdmission::pause(budget::Pausable what, std::string_view name, TimePoint until) {
  dispatcher_.pause(what, name, until, runtime_.now(), runtime_.wall_now());
  keep_watch();
}

bool DispatchAdmission::resume(budget::Pausable what, std::string_view name) {
  const bool was = dispatcher_.resume(what, name, runtime_.now(), runtime_.wall_now());
  keep_watch();
  return was;
}

bool DispatchAdmission::grant_money(std::string_view tenant, budget::Period period, std::string_view run_id,
                                    budget::NanoUsd amount) {
  const bool known = dispatcher_.grant_money(tenant, period, run_id, amount, runtime_.now(), runtime_.wall_now());
  keep_watch();
  return known;
}

std::vector<budget::BudgetState> DispatchAdmission::budgets() {
  return dispatcher_.budgets().view(runtime_.wall_now());
}

std::optional<double> DispatchAdmission::warned_share(std::string_view tenant, std::string_view run_id) {
  return dispatcher_.budgets().warned_share(tenant, run_id, runtime_.wall_now());
}

void DispatchAdmission::restore(const std::vector<MoneyBefore>& before) {
  budget::Budgets& budgets = dispatcher_.budgets();
  const WallTime now = runtime_.wall_now();
  for (const MoneyBefore& one : before) {
    if (one.granted) {
      budgets.restore_grant(one.tenant, one.period, one.run_id, one.when, *one.granted, now);
    } else if (!one.run_id.empty()) {
      budgets.restore_run(one.tenant, one.run_id, one.spent);
    } else {
      budgets.restore_spent(one.tenant, one.when, one.spent, now);
    }
  }
}

}  // namespace gateway
