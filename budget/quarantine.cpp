#include "budget/quarantine.h"

#include <algorithm>
#include <cassert>
#include <chrono>

namespace budget {

using classifier::Class;

class Quarantine::Core final : public TicketDesk {
 public:
  void success(std::uint64_t number, TimePoint /*now*/) override {
    // An answer of any probe since then is one, however long it took.
    if (since && number > began) free();
  }

  void failure(std::uint64_t number, TimePoint now, double /*roll*/) override {
    if (number == generation && since) probe_later(now);
  }

  void neutral(std::uint64_t number) override {
    if (number == generation) probe_until.reset();
  }

  void refused(std::uint64_t number, Class why, TimePoint now) {
    if (number != generation) return;
    reason = why;
    if (since) return probe_later(now);
    began = ++generation;
    since = now;
    wait = kQuarantineFirstProbe;
    probe_at = now + wait;
  }

  void probe_later(TimePoint now) {
    wait = std::min(2 * wait, kQuarantineLongest);
    probe_at = now + wait;
    probe_until.reset();
  }

  void free() {
    ++generation;
    since.reset();
    probe_until.reset();
  }

  [[nodiscard]] TimePoint next_probe() const { return probe_until.value_or(probe_at); }

  std::uint64_t generation = 0;    // Moves at every quarantine, probe and release.
  std::uint64_t began = 0;         // It, at the present quarantine.
  std::optional<TimePoint> since;  // Nothing: free.
  Class reason = Class::Auth;
  Milliseconds wait{};
  TimePoint probe_at{};
  std::optional<TimePoint> probe_until;  // A probe is out, until then at the latest.
};

Quarantine::Quarantine() : core_{std::make_shared<Core>()} {}

bool Quarantine::may_begin(TimePoint now) const { return !core_->since || now >= core_->next_probe(); }

Ticket Quarantine::begin(TimePoint now) {
  assert(may_begin(now));
  if (!core_->since) return Ticket{core_, core_->generation, false};
  core_->probe_until = now + core_->wait;
  return Ticket{core_, ++core_->generation, true};
}

void Quarantine::refused(Ticket& ticket, Class why, TimePoint now) {
  assert(why == Class::Auth || why == Class::QuotaExhausted);
  if (ticket.is_from(*core_)) core_->refused(ticket.number(), why, now);
  ticket.settle(Result::Neutral, now, 0.0);
}

void Quarantine::changed() { core_->free(); }

bool Quarantine::quarantined() const { return core_->since.has_value(); }

std::optional<Class> Quarantine::reason() const {
  if (!core_->since) return std::nullopt;
  return core_->reason;
}

std::optional<TimePoint> Quarantine::since() const { return core_->since; }

std::optional<TimePoint> Quarantine::next_probe() const {
  if (!core_->since) return std::nullopt;
  return core_->next_probe();
}

}  // namespace budget
