#pragma once
// An attempt failed: shall we try again, and when? (design §4)

#include <chrono>
#include <cstdint>
#include <string_view>
#include <variant>

#include "budget/units.h"
#include "classifier/verdict.h"

namespace budget {

/// What is known of an attempt that failed.
struct FailedAttempt {
  int number = 1;             // 1 for the first try.
  int same_class_before = 0;  // Earlier attempts of this call that failed with the same class.
  classifier::Verdict verdict{};
  int status = 0;                 // 0: no answer came.
  bool forbidden = false;         // The provider said x-should-retry: false.
  bool request_sent = false;      // All of it had left: the provider may have done the work.
  bool replay_safe = false;       // The endpoint may be repeated even so.
  bool answer_started = false;    // Bytes have reached the caller: a second answer would be glued to the first.
  bool callers_deadline = false;  // The caller's clock ran out, not the upstream's.
  TimePoint first_began{};        // When the call's first attempt began.
  TimePoint deadline{};           // Nothing may begin at or after it.
};

struct RetryAt {
  TimePoint when{};
  bool hinted = false;  // The provider named the wait.
  bool operator==(const RetryAt&) const = default;
};
enum class GaveUp : std::uint8_t {
  NotRetryable,
  AnswerStarted,
  NotReplaySafe,
  AttemptsUsed,
  OnceOnly,  // malformed_response and unknown are tried once more, not longer.
  HintTooLong,
  DeadlineTooClose,
  ElapsedTooLong,
  CallersDeadline,
};
[[nodiscard]] std::string_view name_of(GaveUp why);  // "not_retryable", … as in metrics and logs.
using NextStep = std::variant<RetryAt, GaveUp>;

[[nodiscard]] constexpr std::uint32_t bit_of(classifier::Class cls) { return 1U << static_cast<unsigned>(cls); }

struct RetryPolicy {
  int attempts = 8;  // All of them, the first included.
  Milliseconds base{500};
  Milliseconds cap{30'000};
  Milliseconds longest_wait{60'000};  // Hints above it are not waited out.
  Milliseconds max_elapsed{120'000};  // From the first attempt's begin to the next one's; 0: no bound.
  bool on_timeout = true;             // Repeat after a timeout although the body was sent.
  std::uint32_t never = 0;            // Classes that end it at once, whatever the verdict says: see bit_of().

  /// `roll` is the chance part, in [0, 1). Same arguments, same answer.
  [[nodiscard]] NextStep after(const FailedAttempt& failed, TimePoint now, double roll) const;
};

}  // namespace budget
