#include "budget/group_rate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace budget {
namespace {

constexpr Milliseconds kBurst{1'000};
constexpr double kCut = 0.9;
constexpr double kShareMin = 0.1;
constexpr double kShareBack = 0.005;   // Of the base, each second.
constexpr double kLearnedBack = 0.01;  // Of what was learned, each second.
// Requests a minute. Where fewer are accepted, 429s say little of a rate, and what they say of waiting is enough.
constexpr double kLeastLearned = 300.0;
constexpr double kLowest = 1.1 * kLeastLearned;
constexpr double kNearlyAll = 0.85;  // Of what is asked for is refused: then it is a small quota after all.
constexpr double kLatelyLearns = 1.0 / 30;
constexpr double kSwift = 600.0;   // Requests a minute; what has fewer comes back more slowly,
constexpr double kSlowest = 0.05;  // so much at least.
constexpr std::chrono::seconds kSteady{10};
constexpr std::chrono::minutes kForget{10};
constexpr int kToJudge = 50;  // Attempts, …
constexpr double kUnlimited = 1e12;
// A first guess that is right brings rest at once.
constexpr int kTrial = 30;
constexpr double kTrialAsBefore = 0.8;
constexpr double kTrialLeast = 0.2;
constexpr int kRefusedToJudge = 10;  // … and so many of them refused; else it is chance.
constexpr int kCalm = 1'000;         // Without so many there is nothing to judge.
constexpr double kLeastOfTaken = 0.5;
constexpr double kSlower = 0.66;
constexpr double kAsBefore = 0.92;
constexpr double kHopeless = 0.75;  // Of such a share something else has to be done: pauses.
constexpr std::chrono::seconds kUncut{60};
// When nothing was refused for long, what was learned is doubted more and more.
constexpr double kDoubtAfter = 60.0;    // Seconds, at the swift pace,
constexpr double kDoubtAtLast = 240.0;  // at any.
constexpr double kDoubles = 30.0;

constexpr Milliseconds kMomentLength{500};
constexpr std::int64_t kLookBack = 20;  // Moments: ten seconds,
constexpr double kAttemptsMin = 20.0;   // or more, until so many attempts are in them.
constexpr double kNeverEmpty = 4.0;     // With so many in each, an empty moment was a pause.
constexpr std::int64_t kMinuteMoments = 120;

constexpr std::chrono::seconds kMinute{60};
// A minute's limit is whole again within it, but for what clocks and rounding add.
constexpr std::chrono::seconds kMinuteReset{61};
constexpr Milliseconds kApplyEvery{100};

std::int64_t number_of(TimePoint when) {
  return std::chrono::floor<Milliseconds>(when).time_since_epoch() / kMomentLength;
}

double seconds_between(TimePoint from, TimePoint to) {
  return to <= from ? 0.0 : std::chrono::duration<double>(to - from).count();
}

/// 0: none.
std::int64_t lower(std::int64_t one, std::int64_t other) {
  if (one <= 0 || other <= 0) return std::max({one, other, std::int64_t{0}});
  return std::min(one, other);
}

std::int64_t part_of(std::int64_t limit, double share) {
  if (limit <= 0) return 0;
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(limit) * share));
}

bool any(const RateLimits& limits) { return limits != RateLimits{}; }

}  // namespace

GroupRate::GroupRate() : buckets_{kBurst} {}

void GroupRate::configure(const RateLimits& configured, TimePoint now) {
  configured_ = configured;
  apply(now);
}

void GroupRate::announced(std::span<const classifier::AnnouncedLimit> limits, TimePoint now) {
  std::array<std::int64_t, kUnits> told{};
  bool changed = false;
  for (const classifier::AnnouncedLimit& one : limits) {
    if (!one.limit || (one.window && *one.window != kMinute)) continue;
    const auto unit = static_cast<std::size_t>(one.unit);
    // Groq's requests are those of a day, without a word of it: but for that they come back too late.
    if (!one.window && one.resets_in && *one.resets_in > kMinuteReset) {
      other_window_[unit] = *one.limit;
      changed = changed || announced_[unit] == *one.limit;
      if (announced_[unit] == *one.limit) announced_[unit] = 0;
    }
    if (!one.window && other_window_[unit] == *one.limit) continue;
    told[unit] = lower(told[unit], *one.limit);
  }
  for (std::size_t unit = 0; unit < kUnits; ++unit) {
    if (told[unit] == 0 || told[unit] == announced_[unit]) continue;
    announced_[unit] = told[unit];
    changed = true;
  }
  if (changed) apply(now);
}

TimePoint GroupRate::next(const Use& expected, TimePoint now) {
  if (!applied_at_ || now - *applied_at_ >= kApplyEvery) apply(now);
  return buckets_.next(expected, now);
}

void GroupRate::take(const Use& expected, TimePoint now) {
  count(now, expected.requests, expected.tokens());
  buckets_.take(expected, now);
}

void GroupRate::settle(const Use& expected, const Use& truth, bool refused, TimePoint began, TimePoint now) {
  if (trial_ && began > trial_->since) {
    ++trial_->ended;
    if (refused) ++trial_->refused;
    if (trial_->ended == kTrial) {
      const Trial whole = *trial_;
      trial_.reset();
      const double share = static_cast<double>(whole.refused) / kTrial;
      if (share >= kTrialAsBefore * whole.before && share >= kTrialLeast && share < kHopeless) give_up(now);
    }
  }
  lately_ += kLatelyLearns * ((refused ? 1.0 : 0.0) - lately_);
  tell_apart(refused, began, now);
  if (!refused) {
    count(began, truth.requests - expected.requests, truth.tokens() - expected.tokens());
    buckets_.settle(expected, truth, now);
    return;
  }
  count(began, -expected.requests, -expected.tokens());
  // It took no tokens, but many providers count the request.
  buckets_.settle(expected, {.requests = expected.requests}, now);
  refused_at_ = std::max(refused_at_, now);
  if (!cut_at_ || began > *cut_at_) cut(began, now);
}

RateLimits GroupRate::effective(TimePoint now) {
  RateLimits limits = base();
  const double left = share(now);
  for (std::int64_t RateLimits::*rate :
       {&RateLimits::requests, &RateLimits::tokens, &RateLimits::input_tokens, &RateLimits::output_tokens}) {
    limits.*rate = part_of(limits.*rate, left);
  }
  if (const std::optional<Pace> pace = learned(now)) {
    limits.requests = lower(limits.requests, std::llround(std::max(1.0, pace->requests)));
    if (pace->tokens >= 1.0) limits.tokens = lower(limits.tokens, std::llround(pace->tokens));
  }
  return limits;
}

double GroupRate::share(TimePoint now) {
  if (!cut_at_) return 1.0;
  return std::min(1.0, share_ + kShareBack * seconds_between(*cut_at_, now));
}

const char* GroupRate::holds(const Use& expected, TimePoint now) { return buckets_.holds(expected, now); }

RateLimits GroupRate::base() const {
  const auto of = [&](std::int64_t configured, Unit unit) {
    return lower(configured, announced_[static_cast<std::size_t>(unit)]);
  };
  return {.requests = of(configured_.requests, Unit::Requests),
          .tokens = of(configured_.tokens, Unit::Tokens),
          .input_tokens = of(configured_.input_tokens, Unit::InputTokens),
          .output_tokens = of(configured_.output_tokens, Unit::OutputTokens)};
}

void GroupRate::apply(TimePoint now) {
  if (learned_ && now - refused_at_ >= kForget) learned_.reset();
  buckets_.limit(effective(now), now);
  applied_at_ = now;
}

// ---- After a 429 ----------------------------------------------------------------------------------------------

/// Slower by a third, and refused as much as before: then the rate is not what is wrong.
void GroupRate::tell_apart(bool refused, TimePoint began, TimePoint now) {
  if (began <= sample_.since) return;
  ++sample_.ended;
  if (refused) ++sample_.refused;
  const bool calm = sample_.ended >= kCalm;
  if (sample_.ended < kToJudge || (sample_.refused < kRefusedToJudge && !calm)) return;
  const std::int64_t level = effective(now).requests;
  const Sample whole =
      std::exchange(sample_, {.since = now, .level = level > 0 ? static_cast<double>(level) : kUnlimited});
  const bool counts = whole.refused >= kRefusedToJudge;
  // It is as slow as it is ever made, and refused all the same.
  const bool lowest = learned_ && !learned_->small && level > 0 && static_cast<double>(level) <= kLowest;
  if (lowest && counts && whole.share() >= kTrialLeast && whole.share() < kHopeless) return give_up(now);
  if (!before_ || !counts || whole.level > before_->level) {
    before_ = counts ? std::optional{whole} : std::nullopt;
    return;
  }
  if (whole.level > kSlower * before_->level) return;
  const bool vain = whole.share() >= kAsBefore * before_->share() && whole.share() < kHopeless;
  before_ = whole;
  if (vain) give_up(now);
}

/// For a while nothing is cut.
void GroupRate::give_up(TimePoint now) {
  before_.reset();
  trial_.reset();
  uncut_until_ = now + kUncut;
  learned_.reset();
  share_ = 1.0;
  cut_at_ = now;
  apply(now);
}

void GroupRate::cut(TimePoint began, TimePoint now) {
  if (uncut_until_ && now < *uncut_until_) return;
  const bool based = any(base());
  const double left = based ? std::max(kShareMin, share(now) * kCut) : 1.0;
  // Nothing is known, or what is known is no tenth of the truth: then what was accepted is what can be.
  const std::optional<Pace> known = learned(now);
  const std::optional<Pace> seen = !based || left <= kShareMin || known ? accepted(began) : std::nullopt;
  if (!based && !known && !seen) return;
  if (known) {
    // Cuts in a row say that the guess is far too high. One after a while only says that it has grown too far: then
    // what the last cut left is as good as ever, though less may have been accepted since, for want of calls.
    const bool steady = now - learned_->at >= kSteady;
    const auto after = [&](double Pace::*rate) {
      const double grown = (*known).*rate;
      const double least = steady ? std::min(grown, learned_->pace.*rate) : grown / 2.0;
      return kCut * (seen ? std::clamp((*seen).*rate, least, grown) : grown);
    };
    learned_ = Learned{.pace = {after(&Pace::requests), after(&Pace::tokens)}, .at = now, .small = learned_->small};
    // Many refusals in a moment are not many times as bad: what was taken of late bounds how low it goes.
    if (const std::optional<Pace> most = seen ? seen : accepted(began)) {
      learned_->pace.requests =
          std::max(learned_->pace.requests, std::min(kLeastOfTaken * most->requests, known->requests));
      learned_->pace.tokens = std::max(learned_->pace.tokens, std::min(kLeastOfTaken * most->tokens, known->tokens));
    }
  } else if (seen && (seen->requests * kCut >= kLeastLearned || lately_ >= kNearlyAll)) {
    learned_ = Learned{.pace = {seen->requests * kCut, seen->tokens * kCut}, .at = now, .small = false};
    trial_ = Trial{.since = now, .before = lately_};
  }
  if (learned_ && lately_ >= kNearlyAll) learned_->small = true;
  if (learned_ && !learned_->small && learned_->pace.requests < kLeastLearned) {
    learned_->pace.tokens *= kLeastLearned / std::max(1.0, learned_->pace.requests);
    learned_->pace.requests = kLeastLearned;
  }
  share_ = left;
  cut_at_ = now;
  apply(now);
  // The provider has nothing left, so neither have we.
  buckets_.empty(now);
}

std::optional<GroupRate::Pace> GroupRate::learned(TimePoint now) const {
  if (!learned_) return std::nullopt;
  // Each try to have more costs a refusal, so it comes after some hundred attempts, however long these take.
  const double slowly = std::clamp(learned_->pace.requests / kSwift, kSlowest, 1.0);
  const double time = seconds_between(learned_->at, now);
  double grown = 1.0 + kLearnedBack * slowly * time;
  const double quiet = std::max(time * slowly - kDoubtAfter, time - kDoubtAtLast);
  if (quiet > 0) grown *= std::exp2(std::min(quiet / kDoubles, 20.0));
  return Pace{.requests = learned_->pace.requests * grown, .tokens = learned_->pace.tokens * grown};
}

GroupRate::Moment* GroupRate::moment(TimePoint when) {
  const std::int64_t number = number_of(when);
  if (number < 0) return nullptr;
  Moment& place = moments_[static_cast<std::size_t>(number) % kMoments];
  if (number < place.number) return nullptr;  // Too long ago.
  if (number > place.number) place = {.number = number};
  return &place;
}

void GroupRate::count(TimePoint when, double requests, double tokens) {
  Moment* const place = moment(when);
  if (place == nullptr) return;
  if (first_moment_ < 0) first_moment_ = place->number;
  place->requests += static_cast<float>(requests);
  place->tokens += static_cast<float>(tokens);
}

/// The moment in which it began is left out: of its attempts some may still be refused.
std::optional<GroupRate::Pace> GroupRate::accepted(TimePoint before) const {
  const std::int64_t end = number_of(before);
  const std::int64_t oldest = std::max({first_moment_, end - kMinuteMoments, std::int64_t{0}});
  Pace sum;
  Pace lately;
  std::int64_t length = 0;
  std::int64_t full = 0;
  for (std::int64_t number = end - 1; number >= oldest; --number) {
    const Moment& place = moments_[static_cast<std::size_t>(number) % kMoments];
    const bool empty = place.number != number || place.requests < 0.5F;
    if (length < kLookBack || lately.requests < kAttemptsMin) {
      ++length;
      if (!empty) ++full;
      if (!empty) lately.requests += static_cast<double>(place.requests);
      if (!empty) lately.tokens += static_cast<double>(place.tokens);
    }
    if (empty) continue;
    sum.requests += static_cast<double>(place.requests);
    sum.tokens += static_cast<double>(place.tokens);
  }
  if (lately.requests < kAttemptsMin || full == 0) return std::nullopt;
  const bool dense = lately.requests >= kNeverEmpty * static_cast<double>(length);
  const double per_minute = static_cast<double>(kMinuteMoments) / static_cast<double>(dense ? full : length);
  Pace pace{.requests = lately.requests * per_minute, .tokens = std::max(0.0, lately.tokens) * per_minute};
  // Where the provider counts by the minute, a whole one tells, with the time for which it had had enough.
  if (first_moment_ <= end - kMinuteMoments) {
    pace = {.requests = std::min(pace.requests, sum.requests), .tokens = std::min(pace.tokens, sum.tokens)};
  }
  return pace;
}

}  // namespace budget
