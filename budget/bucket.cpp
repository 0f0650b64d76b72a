#include "budget/bucket.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

namespace budget {
namespace {

// Beyond that, a limit is none and an amount is a mistake; sums of a few of them are still exact to a thousandth.
constexpr double kMost = 1e12;
// A level is a sum of fractions: the last unit may be there but for the last bits.
constexpr double kAlmost = 1e-6;
// One debt may be as long as this: usage that was reported absurdly high must not hold a tenant for ever.
constexpr double kDebtMinutes = 24.0 * 60.0;
constexpr double kNanosPerMinute = 60e9;

/// What is no number is nothing.
double amount_of(double amount) { return std::isnan(amount) ? 0.0 : std::clamp(amount, -kMost, kMost); }

/// Exact for any two moments, as long as one is not before the other.
double nanos_between(TimePoint from, TimePoint to) {
  if (to <= from) return 0.0;  // A clock that was read earlier tells nothing new.
  return static_cast<double>(static_cast<std::uint64_t>(to.time_since_epoch().count()) -
                             static_cast<std::uint64_t>(from.time_since_epoch().count()));
}

}  // namespace

double Bucket::size() const {
  const double moment = static_cast<double>(std::max<std::int64_t>(0, burst_.count())) / 60'000.0;
  return std::max(1.0, per_minute_ * moment);
}

double Bucket::level(TimePoint now) const {
  if (!limited()) return 0.0;
  return std::min(size(), level_ + nanos_between(as_of_, now) * (per_minute_ / kNanosPerMinute));
}

void Bucket::limit(double per_minute, TimePoint now) {
  const double wanted = std::max(0.0, amount_of(per_minute));
  if (wanted == per_minute_) return;
  const double before = level(now);
  // What is full stays full: who was told to come when it is must not find that it has grown meanwhile.
  const bool full = !limited() || before >= size() - kAlmost;
  per_minute_ = wanted;
  set(full ? size() : before, now);
}

TimePoint Bucket::next(double amount, TimePoint now) const {
  const double wanted = amount_of(amount);
  if (!limited() || wanted <= 0.0) return now;
  const double missing = std::min(wanted, size()) - level(now);
  if (missing <= kAlmost) return now;
  // Whoever comes back then must find it there, and not a bit too little.
  const std::chrono::duration<double, std::milli> exact{missing * (60'000.0 / per_minute_)};
  const Milliseconds wait = std::max(Milliseconds{1}, std::chrono::ceil<Milliseconds>(exact));
  return now > TimePoint::max() - wait ? TimePoint::max() : now + wait;
}

void Bucket::take(double amount, TimePoint now) { give(-std::max(0.0, amount_of(amount)), now); }

void Bucket::give(double amount, TimePoint now) {
  if (!limited()) return;
  set(level(now) + amount_of(amount), now);
}

void Bucket::empty(TimePoint now) { give(std::min(0.0, -level(now)), now); }

void Bucket::set(double level, TimePoint now) {
  level_ = std::clamp(level, -per_minute_ * kDebtMinutes, size());
  as_of_ = std::max(as_of_, now);
}

// ---- Four of them ---------------------------------------------------------------------------------------------

Buckets::Buckets(Milliseconds burst) : requests_{burst}, tokens_{burst}, input_{burst}, output_{burst} {}

void Buckets::limit(const RateLimits& limits, TimePoint now) {
  requests_.limit(static_cast<double>(limits.requests), now);
  tokens_.limit(static_cast<double>(limits.tokens), now);
  input_.limit(static_cast<double>(limits.input_tokens), now);
  output_.limit(static_cast<double>(limits.output_tokens), now);
}

bool Buckets::limited() const {
  return requests_.limited() || tokens_.limited() || input_.limited() || output_.limited();
}

TimePoint Buckets::next(const Use& use, TimePoint now) const {
  return std::max({requests_.next(use.requests, now),
                   tokens_.next(use.tokens(), now),
                   input_.next(use.input, now),
                   output_.next(use.output, now)});
}

void Buckets::take(const Use& use, TimePoint now) {
  requests_.take(use.requests, now);
  tokens_.take(use.tokens(), now);
  input_.take(use.input, now);
  output_.take(use.output, now);
}

void Buckets::settle(const Use& expected, const Use& truth, TimePoint now) {
  requests_.give(expected.requests - truth.requests, now);
  tokens_.give(expected.tokens() - truth.tokens(), now);
  input_.give(expected.input - truth.input, now);
  output_.give(expected.output - truth.output, now);
}

void Buckets::empty(TimePoint now) {
  for (Bucket* const bucket : {&requests_, &tokens_, &input_, &output_}) bucket->empty(now);
}

const char* Buckets::holds(const Use& use, TimePoint now) const {
  const struct {
    const char* name;
    TimePoint next;
  } rates[] = {{"requests_per_minute", requests_.next(use.requests, now)},
               {"tokens_per_minute", tokens_.next(use.tokens(), now)},
               {"input_tokens_per_minute", input_.next(use.input, now)},
               {"output_tokens_per_minute", output_.next(use.output, now)}};
  const auto* const longest = std::ranges::max_element(rates, {}, [](const auto& rate) { return rate.next; });
  return longest->next > now ? longest->name : "";
}

}  // namespace budget
