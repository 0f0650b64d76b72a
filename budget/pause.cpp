#include "budget/pause.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>

namespace budget {
namespace {

constexpr Milliseconds kSpreadMin{1'000};
constexpr Milliseconds kScoutDeadline{30'000};  // For the one that goes first after a second pause in a row.
constexpr Milliseconds kScoutAgain{1'000};      // After one that failed otherwise.
// Its multiples, taken modulo 1, lie evenly in [0, 1) after any number of them.
constexpr double kGoldenPart = 0.6180339887498949;
constexpr std::int64_t kFewLeft = 5;
// Providers have sent resets beyond all sense; a moment must stay one that can be counted in nanoseconds.
constexpr Milliseconds kLongestReset = std::chrono::days{366};

}  // namespace

class Pause::Core final : public TicketDesk {
 public:
  void success(std::uint64_t number, TimePoint now) override {
    if (number != generation) return;
    probe_until.reset();
    if (!paused(now)) return;
    scouting = false;
    // All who wait are called together now: they are spread as after a wait that is over at once.
    until = now;
    length = Milliseconds::zero();
    places = 0;
    called_until = now + kSpreadMin;
  }

  void failure(std::uint64_t number, TimePoint now, double /*roll*/) override {
    if (number != generation) return;
    probe_until.reset();
    probe_at = now + (scouts(now) ? kScoutAgain : kPauseProbeEvery);
  }

  void neutral(std::uint64_t number) override {
    if (number == generation) probe_until.reset();
  }

  void set(TimePoint end, TimePoint now, Milliseconds told) {
    ++generation;
    until = end;
    length = told;
    places = 0;
    called_until = TimePoint::min();
    // The second in a row without an answer between: the first one's end did not help, so one finds out for all.
    scouting = barren && end > now;
    barren = true;
    probe_at = scouting ? std::min(end, now + kPauseProbeEvery) : now + kPauseProbeEvery;
    probe_until.reset();
  }

  void hint(TimePoint end, TimePoint now, Milliseconds told) {
    if (end <= now) return;
    if (!paused(now)) return set(end, now, told);
    if (scouting && now >= until) return set(end, now, told);
    if (scouting && probe_at == until) probe_at = std::max(until, end);
    until = std::max(until, end);
    length = std::max(length, told);
  }

  [[nodiscard]] bool paused(TimePoint now) const { return now < until || scouting; }
  /// The pause itself is over, and it is only for a scout to say that it is.
  [[nodiscard]] bool scouts(TimePoint now) const { return scouting && now >= until; }

  /// The next of all places behind the end, the first of a pause at random.
  TimePoint take_place(double roll) {
    place = places == 0 ? roll : place + kGoldenPart;
    place -= std::floor(place);
    ++places;
    const std::chrono::nanoseconds spread = std::max(kSpreadMin, length / 10);
    return until + std::chrono::nanoseconds{static_cast<std::int64_t>(place * static_cast<double>(spread.count()))};
  }

  TimePoint until = TimePoint::min();
  Milliseconds length{};                      // As the provider told it; the spread follows it.
  TimePoint called_until = TimePoint::min();  // After a probe's success: those who ask before it are spread too.
  std::uint64_t places = 0;                   // Taken in this pause.
  double place = 0.0;                         // The last of them, in [0, 1).

  bool barren = false;    // No answer has come since the last pause was set.
  bool scouting = false;  // This pause ends with the success of the one that goes first.

  std::uint64_t generation = 0;  // Moves with every pause and every probe.
  TimePoint probe_at{};
  std::optional<TimePoint> probe_until;  // A probe is out, until then at the latest.

  TimePoint pace_until = TimePoint::min();
  std::chrono::nanoseconds spacing{};
  TimePoint last_went = TimePoint::min();
};

Pause::Pause() : core_{std::make_shared<Core>()} {}

void Pause::hint(TimePoint until, TimePoint now, Milliseconds length) { core_->hint(until, now, length); }

void Pause::renew(Ticket& probe, TimePoint until, TimePoint now, Milliseconds length) {
  const bool current = probe.is_from(*core_) && probe.number() == core_->generation;
  if (current) {
    core_->set(until, now, length);
  } else {
    core_->hint(until, now, length);
  }
  probe.settle(Result::Neutral, now, 0.0);
}

void Pause::announced(std::int64_t remaining, std::int64_t limit, Milliseconds reset_in, TimePoint now) {
  if (remaining < 0 || reset_in <= Milliseconds::zero()) return;
  const Milliseconds reset = std::min(reset_in, kLongestReset);
  core_->pace_until = TimePoint::min();
  if (remaining == 0) return core_->hint(now + reset, now, reset);
  if (remaining > kFewLeft && (limit <= 0 || remaining > limit / 10)) return;
  core_->pace_until = now + reset;
  // Rounded up, or the last one would slip in before the reset.
  core_->spacing = std::chrono::nanoseconds{reset} / remaining + std::chrono::nanoseconds{1};
}

void Pause::went(TimePoint now) { core_->last_went = now; }

void Pause::answered(TimePoint now) {
  core_->barren = false;
  if (core_->scouts(now)) core_->success(core_->generation, now);
}

bool Pause::paused(TimePoint now) const { return core_->paused(now); }

TimePoint Pause::spread_end() const {
  if (core_->until == TimePoint::min()) return core_->until;
  return core_->until + std::max(kSpreadMin, core_->length / 10);
}

bool Pause::scouting() const { return core_->scouting; }

TimePoint Pause::until() const { return core_->until; }

TimePoint Pause::next(TimePoint now) const {
  const TimePoint free = std::max(now, core_->until);
  if (free >= core_->pace_until) return free;
  return std::max(free, std::min(core_->last_went + core_->spacing, core_->pace_until));
}

TimePoint Pause::release(TimePoint now, double roll) {
  assert(roll >= 0.0 && roll < 1.0);
  if (!core_->paused(now) && now >= core_->called_until) return now;
  return std::max(now, core_->take_place(roll));
}

bool Pause::may_probe(TimePoint now) const {
  const std::optional<TimePoint> next = next_probe(now);
  return next && now >= *next;
}

Ticket Pause::probe(TimePoint now) {
  assert(may_probe(now));
  core_->probe_until = now + (core_->scouts(now) ? kScoutDeadline : kPauseProbeEvery);
  return Ticket{core_, ++core_->generation, true};
}

std::optional<TimePoint> Pause::next_probe(TimePoint now) const {
  const TimePoint next = core_->probe_until.value_or(core_->probe_at);
  if (!core_->paused(now) || (next >= core_->until && !core_->scouting)) return std::nullopt;
  return next;
}

}  // namespace budget
