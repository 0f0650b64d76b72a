#pragma once
// A rate as a token bucket: so many per minute, no more than a moment's worth at once (design §5).

#include <cstdint>

#include "budget/units.h"

namespace budget {

/// Per minute; 0: no limit.
struct RateLimits {
  std::int64_t requests = 0;
  std::int64_t tokens = 0;  // Input and output together.
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  bool operator==(const RateLimits&) const = default;
};

/// What an attempt takes of rates, expected or true.
struct Use {
  double requests = 1;
  double input = 0;
  double output = 0;
  [[nodiscard]] double tokens() const { return input + output; }
};

/// One rate. What is asked for may be more than it ever holds: then it goes when the bucket is full, and the rest is
/// debt. Use beyond what was expected is debt, too, and what comes after waits for it: a day at most.
/// Single-threaded.
class Bucket {
 public:
  /// `burst`: how much time's worth it holds (at least one unit).
  explicit Bucket(Milliseconds burst) : burst_(burst) {}

  /// 0: no limit. What is in it, or owed, stays, as far as the new size holds it (F-33); what is full
  /// stays full, and a first limit finds it so.
  void limit(double per_minute, TimePoint now);
  [[nodiscard]] bool limited() const { return per_minute_ > 0; }
  [[nodiscard]] double per_minute() const { return per_minute_; }
  /// When `amount` may be taken if nobody takes anything before; now, if it may be at once, else a millisecond later
  /// or more. It may be taken then: nobody who comes at that moment is told to come again. Nothing, or less, waits
  /// for nobody.
  [[nodiscard]] TimePoint next(double amount, TimePoint now) const;
  void take(double amount, TimePoint now);
  /// Back, or more of it gone (negative); never more than it holds.
  void give(double amount, TimePoint now);
  /// What is in it is gone; a debt stays.
  void empty(TimePoint now);
  [[nodiscard]] double level(TimePoint now) const;
  [[nodiscard]] double size() const;

 private:
  void set(double level, TimePoint now);

  Milliseconds burst_;
  double per_minute_ = 0;
  double level_ = 0;
  TimePoint as_of_{};
};

/// The four rates of one tenant, or of one credential's limit group.
class Buckets {
 public:
  explicit Buckets(Milliseconds burst);
  void limit(const RateLimits& limits, TimePoint now);
  [[nodiscard]] bool limited() const;
  /// When all four let it go.
  [[nodiscard]] TimePoint next(const Use& use, TimePoint now) const;
  void take(const Use& use, TimePoint now);
  /// The truth is known: what was taken too much comes back, what was too little is owed.
  void settle(const Use& expected, const Use& truth, TimePoint now);
  void empty(TimePoint now);
  /// By the name of what holds it longest: "requests_per_minute", "tokens_per_minute", … (a literal); empty: nothing.
  [[nodiscard]] const char* holds(const Use& use, TimePoint now) const;

 private:
  Bucket requests_;
  Bucket tokens_;
  Bucket input_;
  Bucket output_;
};

}  // namespace budget
