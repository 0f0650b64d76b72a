#include "budget/retry_policy.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace budget {
namespace {

using classifier::Class;

constexpr Milliseconds kHintSpreadMin{1'000};
constexpr std::array<std::string_view, 9> kGaveUpNames = {"not_retryable",
                                                          "answer_started",
                                                          "not_replay_safe",
                                                          "attempts_used",
                                                          "once_only",
                                                          "hint_too_long",
                                                          "deadline_too_close",
                                                          "elapsed_too_long",
                                                          "callers_deadline"};

// These statuses refuse the work, so repeating cannot do it twice, on whatever endpoint.
constexpr bool is_refusal(int status) { return status == 429 || status == 503 || status == 529; }
constexpr bool once_only(Class cls) { return cls == Class::MalformedResponse || cls == Class::Unknown; }

}  // namespace

std::string_view name_of(GaveUp why) { return kGaveUpNames[static_cast<std::size_t>(why)]; }

NextStep RetryPolicy::after(const FailedAttempt& failed, TimePoint now, double roll) const {
  assert(failed.number >= 1);
  assert(roll >= 0.0 && roll < 1.0);
  const classifier::Verdict& verdict = failed.verdict;

  if (failed.answer_started) return GaveUp::AnswerStarted;
  if (failed.callers_deadline) return GaveUp::CallersDeadline;
  // What nobody could tell is worth one more look, unless the provider itself forbade it.
  const bool worth_a_look = verdict.cls == Class::Unknown && !failed.forbidden;
  if (!verdict.retryable && !worth_a_look) return GaveUp::NotRetryable;
  if ((never & bit_of(verdict.cls)) != 0) return GaveUp::NotRetryable;
  if (once_only(verdict.cls) && failed.same_class_before >= 1) return GaveUp::OnceOnly;
  if (failed.request_sent && !is_refusal(failed.status)) {
    if (!failed.replay_safe) return GaveUp::NotReplaySafe;
    // Our own clock: a provider's 504 or 408 is its word, not a timeout of ours.
    if (verdict.cls == Class::Timeout && failed.status < 300 && !on_timeout) return GaveUp::NotReplaySafe;
  }
  if (failed.number >= attempts) return GaveUp::AttemptsUsed;
  if (verdict.retry_after && *verdict.retry_after > longest_wait) return GaveUp::HintTooLong;

  // Alone, full jitter: callers that failed together must not come back together. After a hint, never before it,
  // and spread behind it: all who wait were told the same moment.
  const auto hint = verdict.retry_after;
  const std::int64_t doublings = std::int64_t{1} << std::min(failed.number - 1, 20);
  const Milliseconds spread = hint ? std::max(kHintSpreadMin, *hint / 10) : std::min(cap, base * doublings);
  // Nanoseconds, so that a hundred who wait do not share the same few milliseconds.
  const std::chrono::nanoseconds jitter{
      static_cast<std::int64_t>(roll * static_cast<double>(std::chrono::nanoseconds{spread}.count()))};

  const TimePoint when = now + hint.value_or(Milliseconds::zero()) + jitter;
  if (when >= failed.deadline) return GaveUp::DeadlineTooClose;
  if (max_elapsed > Milliseconds::zero() && when - failed.first_began > max_elapsed) return GaveUp::ElapsedTooLong;
  return RetryAt{when, hint.has_value()};
}

}  // namespace budget
