#include "gateway/run_end.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gateway {
namespace run_end_test {

using namespace std::chrono_literals;
using classifier::Class;
using ledger::RunState;

const WallTime kNow{std::chrono::seconds{1'800'000'000}};

RunTerms terms() {
  RunTerms one;
  one.id = "r1";
  one.fence = 7;
  one.queue = "q";
  one.run_id = "job";
  one.give_up_at = kNow + 1h;
  return one;
}

CallRecord record(Outcome outcome, Class cls, std::string_view reason = {}) {
  CallRecord one;
  one.id = "c1";
  one.outcome = outcome;
  one.cls = cls;
  one.reason = reason;
  one.status = 418;
  one.cost = budget::NanoUsd{5};
  return one;
}

std::shared_ptr<const ledger::StoredAnswer> answer(const std::string& wait_ms = {}) {
  auto one = std::make_shared<ledger::StoredAnswer>();
  if (!wait_ms.empty()) one->headers.push_back({"Callgate-Retry-After-Ms", wait_ms});
  return one;
}

struct Case {
  const char* name;
  Outcome outcome;
  Class cls;
  std::string_view reason;
  RunState want;
};

const Case kCases[] = {
    {"answered", Outcome::Answered, Class::None, "", RunState::Succeeded},
    {"the request is at fault", Outcome::Failed, Class::InvalidRequest, "not_retryable", RunState::Failed},
    {"too long", Outcome::Failed, Class::ContextLength, "not_retryable", RunState::Failed},
    {"no such model", Outcome::Failed, Class::NotFound, "not_retryable", RunState::Failed},
    {"a key of another body", Outcome::Refused, Class::LocalRequest, "key_reused", RunState::Failed},
    {"attempts used", Outcome::Failed, Class::Overloaded, "attempts_used", RunState::Dead},
    {"a key that is refused", Outcome::Failed, Class::Auth, "not_retryable", RunState::Dead},
    {"our bug", Outcome::Failed, Class::Internal, "bug", RunState::Dead},
    {"its deadline", Outcome::Refused, Class::Timeout, "deadline_in_queue", RunState::Dead},
    {"nobody knows whether it was paid", Outcome::Refused, Class::Crash, "outcome_unknown", RunState::Dead},
    {"no price", Outcome::Refused, Class::LocalBudget, "unpriced_model", RunState::Dead},
    {"a limit", Outcome::Refused, Class::LocalLimit, "queue_wait", RunState::Queued},
    {"a budget", Outcome::Refused, Class::LocalBudget, "budget_spent", RunState::Queued},
    {"an open breaker", Outcome::Refused, Class::LocalBreaker, "breaker_open", RunState::Queued},
    {"memory", Outcome::Refused, Class::LocalMemory, "store_unavailable", RunState::Queued},
    {"no usable key", Outcome::Refused, Class::Auth, "no_credential", RunState::Queued},
    {"a shutdown", Outcome::Drained, Class::LocalDraining, "draining", RunState::Queued},
    {"its lease is lost", Outcome::Cancelled, Class::Cancelled, "caller_gone", RunState::Queued},
    {"an operator", Outcome::Cancelled, Class::Cancelled, "cancelled", RunState::Cancelled},
};

TEST(RunEnd, is_as_its_call_has_ended) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    const auto outcome =
        end_of_run(terms(), record(one.outcome, one.cls, one.reason), answer(), {.now = kNow, .roll = 0});
    EXPECT_EQ(outcome.state, one.want);
    EXPECT_EQ(outcome.id, "r1");
    EXPECT_EQ(outcome.fence, 7);
    EXPECT_EQ(outcome.call_id, "c1");
    EXPECT_EQ(outcome.cost_nano, 5) << "whatever the end, it was paid";
    EXPECT_EQ(outcome.webhook_body, "") << "it has none";
    // By hand wins over all.
    EXPECT_EQ(
        end_of_run(
            terms(), record(one.outcome, one.cls, one.reason), answer(), {.now = kNow, .roll = 0, .cancelled = true})
            .state,
        RunState::Cancelled);
  }
}

TEST(RunEnd, a_refusal_is_waited_out_between_a_second_and_five_minutes_but_not_beyond_the_end_of_patience) {
  struct {
    const char* wait_ms;
    double roll;
    std::chrono::milliseconds want;
  } const kWaits[] = {{"", 0, 1s}, {"20", 0, 1s}, {"20000", 0, 20s}, {"20000", 0.5, 21s}, {"9000000", 0, 300s}};
  const CallRecord refused = record(Outcome::Refused, Class::LocalLimit, "queue_wait");
  for (const auto& one : kWaits) {
    const auto outcome = end_of_run(terms(), refused, answer(one.wait_ms), {.now = kNow, .roll = one.roll});
    EXPECT_EQ(outcome.state, RunState::Queued);
    EXPECT_EQ(WallTime{std::chrono::milliseconds{outcome.not_before_ms}}, kNow + one.want) << one.wait_ms;
  }
  RunTerms impatient = terms();
  impatient.give_up_at = kNow + 20s;
  EXPECT_EQ(end_of_run(impatient, refused, answer("30000"), {.now = kNow}).state, RunState::Dead);
  RunTerms due = terms();
  due.deadline = kNow + 20s;
  EXPECT_EQ(end_of_run(due, refused, answer("30000"), {.now = kNow}).state, RunState::Dead);
  // A shutdown is nobody's fault, however late it is.
  const CallRecord drained = record(Outcome::Drained, Class::LocalDraining, "draining");
  impatient.give_up_at = kNow - 20s;
  const auto parked = end_of_run(impatient, drained, nullptr, {.now = kNow});
  EXPECT_EQ(parked.state, RunState::Queued);
  EXPECT_EQ(WallTime{std::chrono::milliseconds{parked.not_before_ms}}, kNow);
}

TEST(RunEnd, one_that_was_too_late_before_it_had_a_call_is_dead) {
  RunTerms due = terms();
  due.deadline = kNow;
  const CallRecord left = record(Outcome::Cancelled, Class::Cancelled);
  const auto late = end_of_run(due, left, nullptr, {.now = kNow});
  EXPECT_EQ(late.state, RunState::Dead);
  EXPECT_EQ(late.cls, "timeout");
  EXPECT_NE(late.why, "");
  EXPECT_EQ(end_of_run(due, left, nullptr, {.now = kNow - 1ms}).state, RunState::Cancelled);
  EXPECT_EQ(end_of_run(due, left, nullptr, {.now = kNow, .cancelled = true}).state, RunState::Cancelled);
}

TEST(RunEnd, a_webhook_is_told_of_ends_and_not_of_returns) {
  RunTerms told = terms();
  told.told = true;
  const auto done = end_of_run(told, record(Outcome::Answered, Class::None), answer(), {.now = kNow});
  const nlohmann::json body = nlohmann::json::parse(done.webhook_body);
  EXPECT_EQ(body.at("type"), "run.succeeded");
  EXPECT_EQ(body.at("timestamp"), "2027-01-15T08:00:00.000Z");
  EXPECT_EQ(body.at("data").at("id"), "r1");
  EXPECT_EQ(body.at("data").at("queue"), "q");
  EXPECT_EQ(body.at("data").at("run_id"), "job");
  EXPECT_EQ(body.at("data").at("cost_usd"), "0.000000005");
  EXPECT_EQ(end_of_run(told, record(Outcome::Drained, Class::LocalDraining), nullptr, {.now = kNow}).webhook_body,
            "");
  EXPECT_EQ(nlohmann::json::parse(run_cancelled(told, kNow).webhook_body).at("type"), "run.cancelled");
}

}  // namespace run_end_test
}  // namespace gateway
