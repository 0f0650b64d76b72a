#pragma once
// A provider said when to come back: nobody goes before, and not all at once after (design §4, F-06, F-08).

#include <cstdint>
#include <memory>
#include <optional>

#include "budget/ticket.h"
#include "budget/units.h"

namespace budget {

/// A pause that lasts longer than this is probed by one call each time it has passed.
inline constexpr Milliseconds kPauseProbeEvery{600'000};

/// One (credential, limit group). Single-threaded. It never ends early, except by the success of a probe.
///
/// A second pause in a row, with no answer between, ends in another way: one call goes first (a probe, see below),
/// and the others follow when it is answered. Else each end of a pause would cost as many refusals as there are who
/// wait.
///
/// Two things keep an attempt back: the pause, and the pace at which the last few requests before the provider's
/// reset are spread. next() names the end of both. A waiter asks release() once for its own moment, sleeps, and asks
/// next() again: if the pause has been prolonged meanwhile, it asks release() anew.
class Pause {
 public:
  Pause();

  /// The provider refused and named a wait: `length` as it said, `until` as we count it. The latest end wins.
  void hint(TimePoint until, TimePoint now, Milliseconds length);
  /// The probe was refused with a new wait: the newest word, so it sets the pause anew even if that is shorter.
  /// Settles the ticket. With a ticket that is no longer the current probe: the same as hint().
  void renew(Ticket& probe, TimePoint until, TimePoint now, Milliseconds length);

  /// What an answer's head said about the requests left in the provider's window. `limit` 0: not told.
  /// None left: a pause until the reset. A tenth of the limit or less, or 5 or less: these few spread over the time
  /// until the reset. More: nothing, and no pause is shortened.
  void announced(std::int64_t remaining, std::int64_t limit, Milliseconds reset_in, TimePoint now);
  /// An attempt begins: the pace counts from here.
  void went(TimePoint now);
  /// An attempt had an answer: the limit group is served.
  void answered(TimePoint now);

  [[nodiscard]] bool paused(TimePoint now) const;
  /// It ends with the success of the one that goes first; nobody has a place of its own until then.
  [[nodiscard]] bool scouting() const;
  /// The end of the pause, which may be past; TimePoint::min() if there never was one.
  [[nodiscard]] TimePoint until() const;
  /// The last place that release() can give in this pause.
  [[nodiscard]] TimePoint spread_end() const;
  /// When the next attempt may begin as far as pause and pace go; `now` if nothing holds it.
  [[nodiscard]] TimePoint next(TimePoint now) const;
  /// When this one of all who wait may go: the end of the pause plus its own place in the spread behind it, which is
  /// max(1 s, a tenth of the wait). Places are evenly spread however many ask. Each call takes a place. `now` if
  /// there is no pause. `roll` in [0, 1) is used for the first place of a pause.
  [[nodiscard]] TimePoint release(TimePoint now, double roll);

  /// May one call go now although it is paused?
  [[nodiscard]] bool may_probe(TimePoint now) const;
  /// Only where may_probe() says yes. Success ends the pause; failure waits another kPauseProbeEvery (see renew());
  /// a neutral end, or none within kPauseProbeEvery, lets the next one probe.
  [[nodiscard]] Ticket probe(TimePoint now);
  /// When a probe may go at the earliest; nothing if the pause is over before or there is none.
  [[nodiscard]] std::optional<TimePoint> next_probe(TimePoint now) const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace budget
