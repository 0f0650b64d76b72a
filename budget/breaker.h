#pragma once
// An upstream that fails is left alone, then asked by one call at a time (design §4).

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "budget/ticket.h"
#include "budget/units.h"

namespace budget {

struct BreakerPolicy {
  Milliseconds window{30'000};  // In whole seconds, rounded up.
  int min_calls = 10;           // Outcomes in the window before their share says anything.
  double failure_share = 0.5;
  int consecutive = 5;            // Failures in a row, over at least 1 s.
  Milliseconds open_for{10'000};  // At least; up to a fifth longer, so that instances do not probe together.
  /// A probe that is out for longer is given up; nothing: open_for, but at least 30 s.
  std::optional<Milliseconds> probe_deadline{};
  bool operator==(const BreakerPolicy&) const = default;
};

/// One upstream and model, stream and unary together. Single-threaded.
///
///   state               what happens                                   becomes
///   ------------------  ---------------------------------------------  --------------------------------------------
///   Closed              success                                        Closed; counted, ends a row of failures
///                       failure, no threshold reached                  Closed; counted
///                       failure, share of at least min_calls reached   Open (failure_share)
///                       failure, a row over at least 1 s that is news  Open (consecutive)
///                       neutral                                        Closed; not counted
///   Open                the end of any ticket                          Open, unchanged: it began before the opening;
///                                                                      an answer counts for how long the next lasts
///                       next_probe() is reached                        HalfOpen
///   HalfOpen, no probe  the end of any ticket                          HalfOpen, unchanged
///                       begin()                                        HalfOpen, probe out
///   HalfOpen, probe out success of the probe                           Closed; all counts cleared
///                       failure of the probe                           Open, for the same reason as before
///                       neutral end of the probe, or it was dropped    HalfOpen, no probe
///                       probe out for longer than probe_deadline       HalfOpen, no probe; from when a new one is
///                                                                      given, the old one counts only by a success
///                       the end of any other ticket                    HalfOpen, unchanged
///
/// The share is one of all that ended and all that is under way: failures end at once, answers take their time. So a
/// row must also be that share of itself and what is under way, until it is four times as long. A row opens only
/// where it is news: less likely than one in 100 000 by the share that failed before it, or nothing was answered for
/// open_for. An opening lasts open_for where nothing was ever answered, or where a row of failures (probes' among
/// them) is news and less than a quarter failed before it. Else, or where much is still under way, the upstream fails
/// much, but is not down: the opening lasts an eighth of the time since the last answer, between an eighth of
/// open_for and all of it, and the next opening by share needs twice as many outcomes, at most 32 times min_calls,
/// until it has stayed closed for a window: an upstream that answers some is to finish what it can, not to be idle.
///
/// In Closed, tickets are free and unlimited; one that ends after an opening (and after the closing that followed)
/// counts for nothing. Only a failure opens: a success that completes min_calls does not.
class Breaker {
 public:
  enum class State : std::uint8_t { Closed, Open, HalfOpen };
  enum class Reason : std::uint8_t { FailureShare, Consecutive };
  /// How often since the process began; a neutral end is no transition.
  struct Transitions {
    std::uint64_t opened_by_share = 0;
    std::uint64_t opened_by_row = 0;
    std::uint64_t half_opened = 0;  // Counted when the first probe begins.
    std::uint64_t reopened = 0;
    std::uint64_t closed = 0;
    bool operator==(const Transitions&) const = default;
  };

  explicit Breaker(const BreakerPolicy& policy = {});

  [[nodiscard]] bool may_begin(TimePoint now) const;
  /// Only where may_begin() says yes.
  [[nodiscard]] Ticket begin(TimePoint now);

  [[nodiscard]] State state(TimePoint now) const;
  /// Why it is not closed.
  [[nodiscard]] std::optional<Reason> reason() const;
  /// When the present state began; nothing if it was never another.
  [[nodiscard]] std::optional<TimePoint> since(TimePoint now) const;
  /// When may_begin() will say yes at the latest; a moment that is past: now. Nothing when closed.
  [[nodiscard]] std::optional<TimePoint> next_probe() const;
  [[nodiscard]] Transitions transitions() const;
  /// Everything counted stays, a state too; its end follows the new open_for.
  void update(const BreakerPolicy& policy);

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

[[nodiscard]] std::string_view name_of(Breaker::State state);    // "closed", "open", "half_open"
[[nodiscard]] std::string_view name_of(Breaker::Reason reason);  // "failure_share", "consecutive"

}  // namespace budget
