#pragma once
// The permission to try, held while trying. Breaker, pause and quarantine hand them out.

#include <cstdint>
#include <memory>
#include <utility>

#include "budget/units.h"

namespace budget {

/// What an attempt says about the upstream or credential that it tried.
enum class Result : std::uint8_t {
  Success,
  Failure,
  Neutral,  // None of our business: caller's fault or deadline, abort, refused before it went out.
};

/// Where tickets come back to. A number is a generation: a desk that has moved on ignores older ones.
class TicketDesk {
 public:
  TicketDesk() = default;
  TicketDesk(const TicketDesk&) = delete;
  TicketDesk& operator=(const TicketDesk&) = delete;
  virtual ~TicketDesk() = default;

  virtual void success(std::uint64_t number, TimePoint now) = 0;
  virtual void failure(std::uint64_t number, TimePoint now, double roll) = 0;
  virtual void neutral(std::uint64_t number) = 0;
};

/// Move-only. Whatever way a call ends, the ticket comes back: its destructor settles it as Neutral. The first
/// settling counts, later ones do nothing. It may outlive whoever gave it.
class Ticket {
 public:
  Ticket() = default;  // Nobody's: settling it does nothing.
  Ticket(std::shared_ptr<TicketDesk> desk, std::uint64_t number, bool probe)
      : desk_{std::move(desk)}, number_{number}, probe_{probe} {}
  Ticket(Ticket&& other) noexcept : desk_{std::move(other.desk_)}, number_{other.number_}, probe_{other.probe_} {}
  Ticket& operator=(Ticket&& other) noexcept {
    if (this == &other) return *this;
    give_back();
    desk_ = std::move(other.desk_);
    number_ = other.number_;
    probe_ = other.probe_;
    return *this;
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;
  ~Ticket() { give_back(); }

  /// `roll` in [0, 1) spreads what follows from a failure.
  void settle(Result result, TimePoint now, double roll) {
    const std::shared_ptr<TicketDesk> desk = std::move(desk_);
    if (!desk) return;
    switch (result) {
      case Result::Success:
        return desk->success(number_, now);
      case Result::Failure:
        return desk->failure(number_, now, roll);
      case Result::Neutral:
        return desk->neutral(number_);
    }
  }

  /// Still to be settled.
  [[nodiscard]] bool is_open() const { return desk_ != nullptr; }
  /// The one call that finds out for all others.
  [[nodiscard]] bool is_probe() const { return probe_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] bool is_from(const TicketDesk& desk) const { return desk_.get() == &desk; }

 private:
  void give_back() {
    const std::shared_ptr<TicketDesk> desk = std::move(desk_);
    if (desk) desk->neutral(number_);
  }

  std::shared_ptr<TicketDesk> desk_;
  std::uint64_t number_ = 0;
  bool probe_ = false;
};

}  // namespace budget
