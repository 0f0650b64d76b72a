#pragma once
// How many attempts may an upstream have in flight? Fewer after overload, then more again, one by one (design §5).

#include <optional>

#include "budget/units.h"

namespace budget {

/// AIMD between an eighth of the configured number (16 at most) and all of it. A cut needs a tenth of what ended
/// lately to have been overloaded, and comes once a second at most: what fails now and then at any load is not helped
/// by less. Only overload and failed connects take from it: latency follows the length of answers. A cut takes three
/// tenths of what was in flight (of half the limit, if that is more), once for all that had begun before it. It grows
/// by one each `limit` successes, and only while it is what limits: when four fifths of it are in use. A new process
/// begins at 64 and doubles (slow start) until the first failure, as far as the configured number lets it; a reload
/// does not begin anew, and a raised number holds at once where only the old one was in the way. Single-threaded.
class Concurrency {
 public:
  /// `most` 0: no limit; `adaptive` false: always `most`.
  void configure(int most, bool adaptive);
  /// 0: no limit.
  [[nodiscard]] int limit() const;
  /// Time has passed: when it will have grown by that alone; nothing: by no time.
  std::optional<TimePoint> grow(TimePoint now);
  /// How many of the configured number the slow start still keeps back.
  [[nodiscard]] int kept_back() const { return slow_start_ ? most_ - limit_ : 0; }
  /// An attempt that began at `began` proved well (first content, or a whole answer); `in_use`: at that time.
  void succeeded(int in_use, TimePoint now);
  /// It was overloaded, or could not be connected to.
  void overloaded(TimePoint began, int in_use, TimePoint now);

 private:
  int most_ = 0;
  bool adaptive_ = false;
  bool configured_ = false;
  bool slow_start_ = false;
  int limit_ = 0;                     // Where it is adaptive.
  std::optional<TimePoint> began_{};  // The slow start.
  int credit_ = 0;                    // Successes since it grew last; `limit_` of them are one more.
  double overloaded_share_ = 0;       // Of what ended lately.
  std::optional<TimePoint> cut_at_{};
};

}  // namespace budget
