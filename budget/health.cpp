#include "budget/health.h"

#include <algorithm>
#include <array>
#include <utility>

namespace budget {
namespace {

using classifier::Class;

constexpr std::size_t kMostBreakers = 1'000;
constexpr std::size_t kMostPauses = 4'096;
// Whoever waited for a breaker goes within this after its closing, not in one burst on what has just come back.
constexpr double kReturnSpreadNs = 1e9;
constexpr Milliseconds kLookAgain{1'000};
constexpr char kPart = '\0';
constexpr std::array<std::string_view, 6> kHeldNames = {
    "no", "pause", "pace", "breaker", "quarantine", "retry_budget"};

std::string breaker_key(std::string_view upstream, std::string_view model) {
  return std::string{upstream}.append(1, kPart).append(model);
}

/// The parts of such a key.
std::vector<std::string> parts_of(std::string_view key) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = key.find(kPart);
    parts.emplace_back(key.substr(0, end));
    if (end == std::string_view::npos) return parts;
    key.remove_prefix(end + 1);
  }
}

TimePoint spread_from(TimePoint now, double roll) {
  return now + std::chrono::nanoseconds{static_cast<std::int64_t>(roll * kReturnSpreadNs)};
}

HealthEvent closing_of(const Candidate& candidate) {
  return {HealthEvent::Kind::BreakerClosed, candidate.upstream, candidate.model, {}, "probe", {}};
}

}  // namespace

std::string group_key(const Candidate& candidate) {
  std::string key = candidate.upstream;
  key.append(1, kPart).append(candidate.credential);
  key.append(1, kPart).append(candidate.group);
  return key.append(1, kPart).append(candidate.configured ? "c" : "");
}

Candidate candidate_of_group(std::string_view group_key) {
  std::vector<std::string> parts = parts_of(group_key);
  parts.resize(4);
  return {.upstream = parts[0], .credential = parts[1], .configured = parts[3] == "c", .group = parts[2]};
}

std::string_view name_of(Held held) { return kHeldNames[static_cast<std::size_t>(held)]; }

bool is_upstreams_fault(Class cls) {
  return cls == Class::Overloaded || cls == Class::ServerError || cls == Class::Timeout || cls == Class::Network ||
         cls == Class::MalformedResponse;
}

bool is_credentials_fault(Class cls) { return cls == Class::Auth || cls == Class::QuotaExhausted; }

std::optional<TimePoint> Waiter::place(const void* of) const {
  const auto found = std::ranges::find(places_, of, &Place::of);
  return found == places_.end() ? std::nullopt : std::optional{found->when};
}

void Waiter::keep(const void* of, TimePoint when) {
  forget(of);
  places_.push_back({of, when});
}

void Waiter::forget(const void* of) {
  std::erase_if(places_, [&](const Place& place) { return place.of == of; });
}

Health::Health() : breakers_{kMostBreakers}, pauses_{kMostPauses} {}

void Health::configure(HealthPolicy policy) {
  policy_ = std::move(policy);
  std::erase_if(retry_budgets_, [&](const auto& one) { return !policy_.credentials.contains(one.first); });
  for (auto& [upstream, one] : retry_budgets_) one.update(policy_.retry_budget);
  std::erase_if(quarantines_, [&](const auto& one) {
    const auto& [upstream, credential] = one.first;
    const auto names = policy_.credentials.find(upstream);
    return names == policy_.credentials.end() || std::ranges::find(names->second, credential) == names->second.end();
  });
  breakers_.for_each([&](const std::string& /*key*/, Breaker& one) { one.update(policy_.breaker); });
}

Breaker& Health::breaker(const Candidate& candidate) {
  return breakers_.get(breaker_key(candidate.upstream, candidate.model), [&] { return Breaker{policy_.breaker}; });
}

Pause& Health::pause(const Candidate& candidate) {
  return pauses_.get(group_key(candidate), [] { return Pause{}; });
}

Quarantine* Health::quarantine(const Candidate& candidate) {
  if (!candidate.configured) return nullptr;
  return &quarantines_[{candidate.upstream, candidate.credential}];
}

RetryBudget& Health::retry_budget(std::string_view upstream) {
  const auto found = retry_budgets_.find(upstream);
  if (found != retry_budgets_.end()) return found->second;
  return retry_budgets_.emplace(upstream, RetryBudget{policy_.retry_budget}).first->second;
}

Standing Health::look(const Candidate& candidate, bool again, Waiter& waiter, TimePoint now, double roll) {
  // The hardest obstacle first: it is what a refusal will name.
  if (const Quarantine* held = quarantine(candidate); held && !held->may_begin(now)) {
    return {Held::Quarantine, held->next_probe().value_or(TimePoint::max()), held->next_probe(), held->reason()};
  }

  const Breaker& shared = breaker(candidate);
  if (!shared.may_begin(now)) {
    waiter.keep(&shared, TimePoint::max());
    return {Held::Breaker, shared.next_probe().value_or(TimePoint::max()), shared.next_probe(), {}};
  }
  if (const auto held = waiter.place(&shared); held && shared.state(now) == Breaker::State::Closed) {
    if (*held == TimePoint::max()) waiter.keep(&shared, spread_from(now, roll));
    const TimePoint mine = *waiter.place(&shared);
    if (now < mine) return {Held::Breaker, mine, mine, {}};
    waiter.forget(&shared);
  }

  Pause& wait = pause(candidate);
  if (!wait.may_probe(now)) {
    const auto probe = wait.next_probe(now);
    if (wait.scouting()) return {Held::Pause, probe.value_or(now + kLookAgain), std::max(now, wait.until()), {}};
    // A place in a pause that was ended early is none any more.
    if (const auto old = waiter.place(&wait); old && *old > wait.spread_end()) waiter.forget(&wait);
    const auto mine = waiter.place(&wait);
    if (mine && now < *mine) return {Held::Pause, probe ? std::min(*mine, *probe) : *mine, wait.until(), {}};
    if (wait.paused(now) || !mine) {
      const TimePoint when = wait.release(now, roll);
      if (when > now) {
        waiter.keep(&wait, when);
        return {Held::Pause, probe ? std::min(when, *probe) : when, wait.until(), {}};
      }
    }
    waiter.forget(&wait);
    if (const TimePoint next = wait.next(now); next > now) return {Held::Pace, next, next, {}};
  }

  if (again) {
    const TimePoint next = retry_budget(candidate.upstream).next(now);
    if (next > now) return {Held::RetryBudget, next, next, {}};
  }
  return {Held::No, now, {}, {}};
}

Pass Health::begin(const Candidate& candidate, bool again, TimePoint now) {
  Pass pass;
  pass.candidate = candidate;
  pass.breaker = breaker(candidate).begin(now);
  Pause& wait = pause(candidate);
  if (wait.may_probe(now)) pass.pause = wait.probe(now);
  wait.went(now);
  if (Quarantine* held = quarantine(candidate)) pass.quarantine = held->begin(now);
  RetryBudget& retries = retry_budget(candidate.upstream);
  if (again) {
    static_cast<void>(retries.take(now));
  } else {
    retries.call_began(now);
  }
  return pass;
}

std::vector<HealthEvent> Health::proved(Pass& pass, TimePoint now) {
  if (std::exchange(pass.proved, true)) return {};
  std::vector<HealthEvent> events;
  Breaker& shared = breaker(pass.candidate);
  const auto closings = shared.transitions().closed;
  pass.breaker.settle(Result::Success, now, 0.0);
  if (shared.transitions().closed != closings) events.push_back(closing_of(pass.candidate));
  pass.pause.settle(Result::Success, now, 0.0);
  pause(pass.candidate).answered(now);
  if (Quarantine* held = quarantine(pass.candidate)) {
    const bool was = held->quarantined();
    pass.quarantine.settle(Result::Success, now, 0.0);
    if (was && !held->quarantined())
      events.push_back(
          {HealthEvent::Kind::Freed, pass.candidate.upstream, {}, pass.candidate.credential, "probe", {}});
  }
  return events;
}

std::vector<HealthEvent> Health::end(Pass& pass, const AttemptEnd& ended, TimePoint now, double roll) {
  const Candidate& candidate = pass.candidate;
  std::vector<HealthEvent> events;
  const bool counts = !ended.good && !ended.of_the_caller && is_upstreams_fault(ended.cls);
  Result result = counts ? Result::Failure : Result::Neutral;
  if (ended.good) result = Result::Success;

  Breaker& shared = breaker(candidate);
  const bool probing = pass.breaker.is_probe() && !pass.proved;
  const Breaker::State before = probing ? Breaker::State::HalfOpen : shared.state(now);
  const auto closings = shared.transitions().closed;
  if (pass.proved && counts && shared.state(now) == Breaker::State::Closed) {
    // Dead in the middle: not the probe's matter any more, but a failure like others.
    pass.breaker = shared.begin(now);
  }
  pass.breaker.settle(result, now, roll);
  const Breaker::State after = shared.state(now);
  if (after == Breaker::State::Open && before != Breaker::State::Open) {
    events.push_back({HealthEvent::Kind::BreakerOpened,
                      candidate.upstream,
                      candidate.model,
                      {},
                      name_of(shared.reason().value_or(Breaker::Reason::FailureShare)),
                      shared.next_probe()});
  }
  if (shared.transitions().closed != closings) events.push_back(closing_of(candidate));

  Pause& wait = pause(candidate);
  if (ended.good) {
    wait.answered(now);
    retry_budget(candidate.upstream).answered(now);
  }
  const bool paused_before = wait.paused(now);
  if (ended.hint && !ended.good) {
    pass.pause.is_open() ? wait.renew(pass.pause, now + *ended.hint, now, *ended.hint)
                         : wait.hint(now + *ended.hint, now, *ended.hint);
    if (!paused_before && wait.paused(now)) {
      events.push_back({HealthEvent::Kind::Paused,
                        candidate.upstream,
                        candidate.group,
                        candidate.configured ? candidate.credential : std::string{},
                        classifier::name_of(ended.cls),
                        wait.until()});
    }
  } else {
    // Refused once more, though without a word of how long: not at once again.
    const bool refused = ended.cls == Class::RateLimited && !ended.good;
    pass.pause.settle(refused ? Result::Failure : result, now, roll);
  }

  if (Quarantine* held = quarantine(candidate)) {
    const bool was = held->quarantined();
    if (is_credentials_fault(ended.cls) && !ended.good) {
      held->refused(pass.quarantine, ended.cls, now);
    } else {
      // A failure of the upstream says nothing about the key.
      pass.quarantine.settle(ended.good ? Result::Success : Result::Neutral, now, roll);
    }
    if (held->quarantined() != was) {
      events.push_back({was ? HealthEvent::Kind::Freed : HealthEvent::Kind::Quarantined,
                        candidate.upstream,
                        {},
                        candidate.credential,
                        was ? std::string_view{"probe"} : classifier::name_of(ended.cls),
                        held->next_probe()});
    }
  }
  return events;
}

std::vector<HealthEvent> Health::announced(const Candidate& candidate, std::int64_t remaining, std::int64_t limit,
                                           Milliseconds resets_in, TimePoint now) {
  Pause& wait = pause(candidate);
  const bool before = wait.paused(now);
  wait.announced(remaining, limit, resets_in, now);
  if (before || !wait.paused(now)) return {};
  return {{HealthEvent::Kind::Paused,
           candidate.upstream,
           candidate.group,
           candidate.configured ? candidate.credential : std::string{},
           "announced",
           wait.until()}};
}

std::vector<HealthEvent> Health::changed(std::string_view upstream, std::string_view credential) {
  const auto found = quarantines_.find(std::pair{std::string{upstream}, std::string{credential}});
  if (found == quarantines_.end()) return {};
  const bool was = found->second.quarantined();
  found->second.changed();
  if (!was) return {};
  return {{HealthEvent::Kind::Freed, std::string{upstream}, {}, std::string{credential}, "changed", {}}};
}

std::vector<UpstreamHealth> Health::view(TimePoint now) {
  std::vector<UpstreamHealth> all;
  for (const auto& [upstream, names] : policy_.credentials) {
    UpstreamHealth one{.name = upstream};
    one.retries_available = retry_budget(upstream).available(now);
    for (const std::string& name : names) {
      UpstreamHealth::OneCredential credential{.name = name};
      if (const auto held = quarantines_.find(std::pair{upstream, name}); held != quarantines_.end()) {
        credential.quarantined_for = held->second.reason();
        credential.since = held->second.since();
        credential.next_probe = held->second.next_probe();
      }
      one.credentials.push_back(std::move(credential));
    }
    all.push_back(std::move(one));
  }
  const auto upstream_named = [&](const std::string& name) {
    return std::ranges::find(all, name, &UpstreamHealth::name);
  };
  breakers_.for_each([&](const std::string& key, Breaker& breaker) {
    if (breaker.state(now) == Breaker::State::Closed) return;
    const std::vector<std::string> parts = parts_of(key);
    const auto upstream = upstream_named(parts[0]);
    if (upstream == all.end()) return;
    upstream->breakers.push_back(
        {parts[1], breaker.state(now), breaker.reason(), breaker.since(now), breaker.next_probe()});
  });
  pauses_.for_each([&](const std::string& key, Pause& pause) {
    if (!pause.paused(now)) return;
    const std::vector<std::string> parts = parts_of(key);
    const auto upstream = upstream_named(parts[0]);
    if (upstream == all.end()) return;
    upstream->pauses.push_back({parts[1], parts[3] == "c", parts[2], pause.until(), pause.next_probe(now)});
  });
  return all;
}

}  // namespace budget
