#include "gateway/admission.h"

#include <algorithm>
#include <utility>

namespace gateway {
namespace {

using budget::Held;
using ledger::WaitedFor;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long a wait is that nobody can foretell: new calls bring a retry budget back at any time.
constexpr milliseconds kLookAgain{1'000};
constexpr milliseconds kLeastWait{1};

milliseconds wait_until(TimePoint when, TimePoint now) {
  return std::max(kLeastWait, std::chrono::ceil<milliseconds>(when - now));
}

WaitedFor waited_for(Held held) {
  switch (held) {
    case Held::Breaker:
      return WaitedFor::Breaker;
    case Held::RetryBudget:
      return WaitedFor::RetryBudget;
    default:
      return WaitedFor::Pause;
  }
}

Refusal::Why why_of(Held held) {
  switch (held) {
    case Held::Breaker:
      return Refusal::Why::BreakerOpen;
    case Held::RetryBudget:
      return Refusal::Why::RetryBudget;
    case Held::Pause:
    case Held::Pace:
      return Refusal::Why::Paused;
    default:
      return Refusal::Why::Deadline;
  }
}

/// In a list for as long as it lives.
class Listed {
 public:
  Listed(std::list<Signal*>& all, Signal& signal, std::function<void(int)> moved)
      : all_(all), place_(all.insert(all.end(), &signal)), moved_(std::move(moved)) {
    moved_(1);
  }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;
  ~Listed() {
    all_.erase(place_);
    moved_(-1);
  }

 private:
  std::list<Signal*>& all_;
  std::list<Signal*>::iterator place_;
  std::function<void(int)> moved_;
};

}  // namespace

CandidateAdmission::CandidateAdmission(Runtime& runtime, Listeners listeners)
    : runtime_(runtime), listeners_(std::move(listeners)), slots_(runtime, {}, listeners_.moved) {}

void CandidateAdmission::configure(SlotLimits limits, budget::HealthPolicy health) {
  slots_.update(std::move(limits));
  health_.configure(std::move(health));
  wake();
}

void CandidateAdmission::take_keys(const Secrets& secrets) {
  for (const auto& [name, key] : secrets) {
    std::shared_ptr<const std::string>& held = keys_[name];
    if (held && *held == key) continue;
    const bool first = !held;
    held = std::make_shared<const std::string>(key);
    const std::size_t slash = name.find('/');
    if (!first)
      tell(health_.changed(std::string_view{name}.substr(0, slash), std::string_view{name}.substr(slash + 1)));
  }
  wake();
}

CandidateAdmission::Choice CandidateAdmission::choose(const Ask& ask, budget::Waiter& waiter) {
  const TimePoint now = runtime_.now();
  Choice choice;
  choice.nearest.when = TimePoint::max();
  for (std::size_t i = 0; i < ask.candidates.size(); ++i) {
    const TimePoint own = ask.not_before[i];
    if (own == TimePoint::max()) {
      ++choice.closed;
      continue;
    }
    budget::Standing standing = health_.look(ask.candidates[i], ask.tried[i] != 0, waiter, now, runtime_.roll());
    if (standing.held == Held::Quarantine) {
      ++choice.quarantined;
      choice.quarantined_for = standing.quarantined_for;
      continue;
    }
    if (standing.held == Held::No && own <= now) {
      choice.ready.push_back(i);
      continue;
    }
    const bool backoff = own > now && (standing.held == Held::No || own > standing.when);
    if (backoff) standing = {Held::No, own, own, {}};
    if (standing.when <= choice.nearest.when) {
      choice.nearest = standing;
      choice.nearest_at = i;
      choice.for_what = backoff ? WaitedFor::Computed : waited_for(standing.held);
    }
  }
  return choice;
}

Admitted CandidateAdmission::take(const Ask& ask, std::size_t candidate, Permit slot) {
  const budget::Candidate& way = ask.candidates[candidate];
  Admitted admitted;
  admitted.candidate = candidate;
  admitted.slot = std::move(slot);
  admitted.pass = health_.begin(way, ask.tried[candidate] != 0, runtime_.now());
  if (way.configured) {
    const auto key = keys_.find(secret_name(way.upstream, way.credential));
    if (key != keys_.end()) admitted.key = key->second;
  }
  return admitted;
}

/// Why there is no use in waiting; nothing: there is.
std::optional<Refusal> CandidateAdmission::hopeless(const Ask& ask, const Choice& choice, TimePoint patience) const {
  const TimePoint now = runtime_.now();
  Refusal refusal;
  if (choice.closed == ask.candidates.size()) {
    refusal.why = Refusal::Why::NobodyLeft;
    return refusal;
  }
  if (choice.closed + choice.quarantined == ask.candidates.size()) {
    refusal.why = Refusal::Why::Quarantined;
    refusal.cls = choice.quarantined_for.value_or(classifier::Class::Auth);
    refusal.upstream = ask.candidates.front().upstream;
    return refusal;
  }
  const budget::Standing& nearest = choice.nearest;
  refusal.held = nearest.held;
  refusal.upstream = ask.candidates[choice.nearest_at].upstream;
  refusal.retry_after = wait_until(nearest.opens.value_or(now + kLookAgain), now);
  const bool quick = ask.lane == budget::Lane::Interactive;
  const bool shut = nearest.held == Held::Breaker || nearest.held == Held::RetryBudget;
  // An open breaker whose own place in the return is not far is as good as closed.
  const bool returning = nearest.held == Held::Breaker && nearest.when <= now + kLookAgain;
  if (shut && quick && !returning) {
    refusal.why = why_of(nearest.held);
    return refusal;
  }
  const bool pause = nearest.held == Held::Pause || nearest.held == Held::Pace;
  const bool too_long =
      pause && nearest.opens && *nearest.opens - now > ask.longest_wait && nearest.when > now + ask.longest_wait;
  // More traffic brings a retry budget back sooner than is known now.
  const bool known = nearest.held != Held::RetryBudget;
  if (too_long || (known && nearest.when >= std::min(ask.deadline, patience))) {
    refusal.why = too_long ? Refusal::Why::PausedTooLong : why_of(nearest.held);
    return refusal;
  }
  return std::nullopt;
}

task<std::expected<Admitted, Refusal>> CandidateAdmission::admit(const Ask& ask, budget::Waiter& waiter, Waits& waits,
                                                                 Signal& signal) {
  const TimePoint since = runtime_.now();
  std::optional<Listed> listed;
  microseconds longest{0};
  for (;;) {
    if (signal.stopped()) co_return std::unexpected(Refusal{Refusal::Why::Stopped});
    TimePoint now = runtime_.now();
    if (now >= ask.deadline) co_return std::unexpected(Refusal{Refusal::Why::Deadline});
    Choice choice = choose(ask, waiter);

    if (!choice.ready.empty()) {
      for (const std::size_t way : choice.ready) {
        std::optional<Permit> slot = slots_.try_take(ask.candidates[way].upstream);
        if (slot) co_return take(ask, way, std::move(*slot));
      }
      const std::size_t first = choice.ready.front();
      listed.reset();
      SlotAsk line;
      line.upstream = ask.candidates[first].upstream;
      line.lane = ask.lane;
      line.deadline = ask.deadline;
      line.again = ask.again;
      std::expected<Permit, Refusal> slot = co_await slots_.wait(line, signal);
      waits.queued += std::chrono::duration_cast<microseconds>(runtime_.now() - now);
      if (!slot) co_return std::unexpected(slot.error());
      // What was open may have shut meanwhile.
      const Choice again = choose(ask, waiter);
      for (const std::size_t way : again.ready) {
        if (ask.candidates[way].upstream == line.upstream) co_return take(ask, way, std::move(*slot));
      }
      slot->release();
      continue;
    }

    if (signal.draining()) co_return std::unexpected(Refusal{Refusal::Why::Draining});
    // A retry's patience is in its deadline already.
    const TimePoint patience =
        ask.again ? TimePoint::max() : since + longest_wait_of(slots_.limits().queue, ask.lane);
    const std::optional<Refusal> refusal = hopeless(ask, choice, patience);
    if (refusal) co_return std::unexpected(*refusal);
    if (!listed) {
      if (!ask.again && slots_.is_full(asleep_.size())) {
        Refusal full;
        full.retry_after = wait_until(choice.nearest.when, now);
        co_return std::unexpected(full);
      }
      const budget::Lane lane = ask.lane;
      const bool queued = !ask.again;
      listed.emplace(asleep_, signal, [this, lane, queued](int by) {
        if (queued && listeners_.moved) listeners_.moved(lane, by);
      });
    }
    const bool unsure = choice.nearest.held == Held::RetryBudget || choice.nearest.held == Held::Breaker;
    TimePoint until = std::min({choice.nearest.when, ask.deadline, patience});
    if (unsure) until = std::min(until, now + kLookAgain);
    co_await runtime_.wait(signal, until);
    const auto slept = std::chrono::duration_cast<microseconds>(runtime_.now() - now);
    waits.slept += slept;
    if (slept >= longest) {
      longest = slept;
      waits.slept_for = choice.for_what;
    }
  }
}

void CandidateAdmission::proved(Admitted& admitted) {
  const bool probe = admitted.pass.is_probe();
  const std::vector<budget::HealthEvent> events = health_.proved(admitted.pass, runtime_.now());
  tell(events);
  if (probe || !events.empty()) wake();
}

void CandidateAdmission::ended(Admitted& admitted, const budget::AttemptEnd& end) {
  const bool probe = admitted.pass.is_probe();
  const std::vector<budget::HealthEvent> events = health_.end(admitted.pass, end, runtime_.now(), runtime_.roll());
  tell(events);
  if (probe || !events.empty()) wake();
  admitted.slot.release();
}

void CandidateAdmission::announced(const Admitted& admitted, std::span<const classifier::AnnouncedLimit> limits) {
  using Unit = classifier::AnnouncedLimit::Unit;
  const TimePoint now = runtime_.now();
  // What is used up stops us whatever it counts; how few are left can only be paced where requests are counted.
  const classifier::AnnouncedLimit* tightest = nullptr;
  for (const classifier::AnnouncedLimit& limit : limits) {
    if (!limit.remaining || !limit.resets_in) continue;
    if (*limit.remaining == 0) {
      tell(health_.announced(admitted.pass.candidate, 0, limit.limit.value_or(0), *limit.resets_in, now));
      continue;
    }
    if (limit.unit != Unit::Requests) continue;
    // The one that makes us go slowest.
    if (!tightest || *limit.resets_in / *limit.remaining > *tightest->resets_in / *tightest->remaining)
      tightest = &limit;
  }
  if (!tightest) return;
  tell(health_.announced(
      admitted.pass.candidate, *tightest->remaining, tightest->limit.value_or(0), *tightest->resets_in, now));
}

std::vector<budget::UpstreamHealth> CandidateAdmission::health() { return health_.view(runtime_.now()); }

void CandidateAdmission::tell(const std::vector<budget::HealthEvent>& events) {
  if (!listeners_.happened) return;
  for (const budget::HealthEvent& event : events) listeners_.happened(event);
}

void CandidateAdmission::wake() {
  for (Signal* signal : asleep_) signal->ring();
}

}  // namespace gateway
