#include "budget/retry_policy.h"

#include <gtest/gtest.h>

#include <random>

namespace budget {
namespace retry_policy_test {

using namespace std::chrono_literals;
using classifier::Class;
using classifier::Verdict;

const TimePoint kNow{100s};
const TimePoint kLater = kNow + 1min;

Verdict failed_with(Class cls, std::optional<Milliseconds> hint = {}, bool retryable = true) {
  return {.cls = cls, .retryable = retryable, .retry_after = hint};
}
FailedAttempt attempt(int number, Verdict verdict, int status = 503) {
  return {.number = number,
          .verdict = std::move(verdict),
          .status = status,
          .request_sent = true,
          .replay_safe = true,
          .first_began = kNow,
          .deadline = kLater};
}
FailedAttempt with(FailedAttempt failed, auto change) {
  change(failed);
  return failed;
}

struct Case {
  const char* name;
  FailedAttempt failed;
  double roll;
  NextStep want;
};

TEST(RetryPolicy, decides) {
  const RetryPolicy policy{.attempts = 3, .base = 250ms, .cap = 8s, .longest_wait = 45s, .max_elapsed = 50s};
  const auto overloaded = failed_with(Class::Overloaded);
  const Case cases[] = {
      {"half a roll waits half the window", attempt(1, overloaded), 0.5, RetryAt{kNow + 125ms, false}},
      {"the window doubles with each attempt", attempt(2, overloaded), 0.5, RetryAt{kNow + 250ms, false}},
      {"never before the provider's wish, and spread after it",
       attempt(1, failed_with(Class::RateLimited, 5s), 429),
       0.5,
       RetryAt{kNow + 5500ms, true}},
      {"a long wish is spread wider",
       attempt(1, failed_with(Class::RateLimited, 40s), 429),
       0.5,
       RetryAt{kNow + 42s, true}},
      {"a hint of zero is a hint",
       attempt(1, failed_with(Class::RateLimited, 0ms), 429),
       0.5,
       RetryAt{kNow + 500ms, true}},
      {"a wish beyond the longest wait is not waited out",
       attempt(1, failed_with(Class::RateLimited, 45001ms), 429),
       0.0,
       GaveUp::HintTooLong},
      {"a wait past the deadline is not begun",
       with(attempt(1, failed_with(Class::RateLimited, 30s), 429), [](auto& f) { f.deadline = kNow + 30s; }),
       0.0,
       GaveUp::DeadlineTooClose},
      {"a wait past the call's own time is not begun",
       with(attempt(1, failed_with(Class::RateLimited, 30s), 429), [](auto& f) { f.first_began = kNow - 21s; }),
       0.0,
       GaveUp::ElapsedTooLong},
      {"an empty purse stays empty",
       attempt(1, failed_with(Class::QuotaExhausted, {}, false), 429),
       0.0,
       GaveUp::NotRetryable},
      {"the last attempt is the last", attempt(3, overloaded), 0.0, GaveUp::AttemptsUsed},
      {"no second answer after a first byte",
       with(attempt(1, overloaded), [](auto& f) { f.answer_started = true; }),
       0.0,
       GaveUp::AnswerStarted},
      {"the caller's clock is not the provider's fault",
       with(attempt(1, failed_with(Class::Timeout), 0), [](auto& f) { f.callers_deadline = true; }),
       0.0,
       GaveUp::CallersDeadline},
      {"a refusal may be repeated anywhere",
       with(attempt(1, overloaded, 529), [](auto& f) { f.replay_safe = false; }),
       0.0,
       RetryAt{kNow, false}},
      {"a 500 only where repeating is safe",
       with(attempt(1, failed_with(Class::ServerError), 500), [](auto& f) { f.replay_safe = false; }),
       0.0,
       GaveUp::NotReplaySafe},
      {"a connection that never came is safe to repeat",
       with(attempt(1, failed_with(Class::Network), 0),
            [](auto& f) {
              f.replay_safe = false;
              f.request_sent = false;
            }),
       0.0,
       RetryAt{kNow, false}},
      {"malformed once more", attempt(1, failed_with(Class::MalformedResponse), 200), 0.0, RetryAt{kNow, false}},
      {"malformed not twice more",
       with(attempt(2, failed_with(Class::MalformedResponse), 200), [](auto& f) { f.same_class_before = 1; }),
       0.0,
       GaveUp::OnceOnly},
      {"unknown is worth one look",
       attempt(1, failed_with(Class::Unknown, {}, false), 418),
       0.0,
       RetryAt{kNow, false}},
      {"unless it was forbidden",
       with(attempt(1, failed_with(Class::Unknown, {}, false), 418), [](auto& f) { f.forbidden = true; }),
       0.0,
       GaveUp::NotRetryable},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(policy.after(c.failed, kNow, c.roll), c.want);
  }
}

TEST(RetryPolicy, leaves_a_timed_out_call_alone_where_the_operator_says_so) {
  const FailedAttempt failed = attempt(1, failed_with(Class::Timeout), 0);
  EXPECT_TRUE(std::holds_alternative<RetryAt>(RetryPolicy{}.after(failed, kNow, 0.5)));
  const NextStep never = RetryPolicy{.on_timeout = false}.after(failed, kNow, 0.5);
  EXPECT_EQ(never, NextStep{GaveUp::NotReplaySafe});
  // Our idle limit within a 200 is a timeout of ours as well; a provider's 504 is its own word.
  const RetryPolicy patient{.on_timeout = false};
  EXPECT_EQ(patient.after(attempt(1, failed_with(Class::Timeout), 200), kNow, 0.5), NextStep{GaveUp::NotReplaySafe});
  EXPECT_TRUE(
      std::holds_alternative<RetryAt>(patient.after(attempt(1, failed_with(Class::Timeout), 504), kNow, 0.5)));
}

// Goal: whatever the failure, a retry is never before the hint, never at or past the deadline, never one too many.
// Method: seeded random failures; a failure prints its seed.
TEST(RetryPolicy, never_breaks_a_bound) {
  for (unsigned seed = 1; seed <= 2'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng{seed};
    const auto up_to = [&](int most) { return static_cast<int>(rng() % static_cast<unsigned>(most + 1)); };
    const RetryPolicy policy{.attempts = 1 + up_to(9),
                             .base = Milliseconds{1 + up_to(2'000)},
                             .cap = Milliseconds{1 + up_to(60'000)},
                             .longest_wait = Milliseconds{up_to(90'000)},
                             .max_elapsed = Milliseconds{up_to(200'000)}};
    FailedAttempt failed =
        attempt(1 + up_to(12), failed_with(static_cast<Class>(up_to(17)), {}, up_to(3) > 0), 400 + up_to(199));
    if (up_to(1) == 1) failed.verdict.retry_after = Milliseconds{up_to(100'000)};
    failed.deadline = kNow + Milliseconds{up_to(120'000)};
    failed.first_began = kNow - Milliseconds{up_to(200'000)};
    const double roll = std::uniform_real_distribution<>{0.0, 1.0}(rng);
    const NextStep next = policy.after(failed, kNow, roll);
    if (const auto* at = std::get_if<RetryAt>(&next)) {
      EXPECT_GE(at->when, kNow + failed.verdict.retry_after.value_or(0ms));
      EXPECT_LT(at->when, failed.deadline);
      EXPECT_LT(failed.number, policy.attempts);
      if (failed.verdict.retry_after) {
        EXPECT_LE(*failed.verdict.retry_after, policy.longest_wait);
      }
      if (policy.max_elapsed > 0ms) {
        EXPECT_LE(at->when - failed.first_began, policy.max_elapsed);
      }
    }
  }
}

}  // namespace retry_policy_test
}  // namespace budget
