#pragma once
// How many attempts may an upstream have in flight? Fewer after overload, then more again, one by one (design §5).

#include <cstdint>

#include "budget/units.h"

namespace budget {

/// AIMD between 1 and the configured number. Only overload and failed connects take from it: latency follows the
/// length of answers. A cut counts once for all that was in flight then. It grows only while it is what limits.
/// A new process begins low and doubles (slow start) until the first failure or the configured number; a reload does
/// not begin anew. Single-threaded.
class Concurrency {
 public:
  /// `most` 0: no limit; `adaptive` false: always `most`.
  void configure(int most, bool adaptive);
  /// 0: no limit.
  [[nodiscard]] int limit() const;
  /// An attempt that began at `began` proved well (first content, or a whole answer); `in_use`: at that time.
  void succeeded(int in_use, TimePoint now);
  /// It was overloaded, or could not be connected to.
  void overloaded(TimePoint began, int in_use, TimePoint now);

 private:
  int most_ = 0;
};

}  // namespace budget
