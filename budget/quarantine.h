#pragma once
// A credential that was refused, or whose money is gone, is left out until it proves itself (design §4).

#include <memory>
#include <optional>

#include "budget/ticket.h"
#include "budget/units.h"
#include "classifier/verdict.h"

namespace budget {

inline constexpr Milliseconds kQuarantineFirstProbe{30'000};
inline constexpr Milliseconds kQuarantineLongest{600'000};

/// One configured credential. Single-threaded.
///
///   state        what happens                           becomes
///   -----------  -------------------------------------  ---------------------------------------------------------
///   Free         refused()                              Quarantined, probe after 30 s
///                any other end of a ticket              Free
///   Quarantined  next_probe() is reached                one probe may go
///                probe: success                         Free
///                probe: refused(), or another failure   Quarantined, probe after twice as long, at most 10 min
///                probe: neutral, dropped                the next one may probe at once
///                probe out for longer than its wait     the same; once a new one is given, the old one counts only
///                                                       by a success
///                any end of an earlier ticket           Quarantined, unchanged
///   either       changed()                              Free; all tickets that are out count for nothing
class Quarantine {
 public:
  Quarantine();

  [[nodiscard]] bool may_begin(TimePoint now) const;
  /// Only where may_begin() says yes. Free: tickets are unlimited, so that what ends after changed() can be told.
  [[nodiscard]] Ticket begin(TimePoint now);
  /// The attempt ended with auth or quota_exhausted. Settles the ticket.
  void refused(Ticket& ticket, classifier::Class why, TimePoint now);
  /// The credential's file holds another one.
  void changed();

  [[nodiscard]] bool quarantined() const;
  /// Auth or QuotaExhausted as the last refusal had it; nothing if free.
  [[nodiscard]] std::optional<classifier::Class> reason() const;
  [[nodiscard]] std::optional<TimePoint> since() const;
  /// When may_begin() will say yes at the latest; a moment that is past: now. Nothing if free.
  [[nodiscard]] std::optional<TimePoint> next_probe() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace budget
