#include "gateway/call.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <exception>
#include <utility>

#include "gateway/answer_headers.h"
#include "gateway/attempt.h"
#include "gateway/fault_point.h"
#include "gateway/live_calls.h"
#include "gateway/memo_key.h"
#include "gateway/pricing.h"

namespace gateway {
namespace {

using classifier::Class;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int kCallerGoneStatus = 499;  // nginx's; only ever in log, row and metric.
constexpr milliseconds kDrainRetryAfter{1'000};
constexpr milliseconds kSdkMaySleep{30'000};
constexpr milliseconds kShortHint{1'000};
constexpr milliseconds kWorthMentioning{100};
constexpr milliseconds kWaited{1};  // Whom the queue lets through or turns away at once is quicker.

microseconds span(TimePoint from, TimePoint to) { return std::chrono::duration_cast<microseconds>(to - from); }

/// How the story ends: what is remembered, and what is still to be said.
struct Ending {
  bool worth_remembering = false;  // The provider failed, and another go now would not help.
  Outcome outcome = Outcome::Failed;
  Class cls = Class::Internal;
  int status = 500;
  std::string_view reason{};
  LastWord last{};
  TimePoint first_began{};  // The first attempt, if it is worth remembering.
};

std::string_view user_agent_of(const Call& call) {
  return classifier::find(call.request.headers, "user-agent").value_or(std::string_view{});
}

/// An error of our own making, as a whole answer.
Ending own_ending(const Call& call, const CallRecord& record, Outcome outcome, classifier::OwnError error,
                  std::string_view reason, const ComeBack& come_back) {
  error.call_id = call.id;
  OwnAnswer answer = own_answer(*call.to->dialect, error);
  Ending ending{false, outcome, error.cls, error.status, reason, {}};
  add_our_headers(answer.head.headers, record, record.attempts.size(), error.cls, "callgate");
  add_cost_header(answer.head.headers, record);
  set_come_back(answer.head.headers, come_back, user_agent_of(call));
  ending.last.how = LastWord::How::Answer;
  ending.last.head = std::move(answer.head);
  ending.last.bytes = std::move(answer.body);
  return ending;
}

/// Who has waited with us already is not sent round again by its SDK.
bool has_waited(const CallRecord& record) {
  return !record.attempts.empty() || record.queued > kWorthMentioning || record.backed_off > microseconds::zero();
}

Ending drained(const Call& call, const CallRecord& record) {
  return own_ending(call,
                    record,
                    Outcome::Drained,
                    {.status = 503,
                     .cls = Class::LocalDraining,
                     .message = "callgate is shutting down; try again",
                     .code = "callgate_draining"},
                    "draining",
                    {.retryable = true, .wait = kDrainRetryAfter, .sdk_may_retry = !has_waited(record)});
}

/// The signal said why; whatever the answer's state, it ends accordingly.
Ending stopped(const Call& call, const CallRecord& record, StopReason why, bool answer_started, LastWord broken) {
  if (why == StopReason::CallerGone)
    return {false, Outcome::Cancelled, Class::Cancelled, kCallerGoneStatus, "caller_gone", {}};
  if (answer_started) {
    broken.how = LastWord::How::Abort;
    const bool shutdown = why == StopReason::Shutdown;
    return {false,
            shutdown ? Outcome::Drained : Outcome::Cancelled,
            shutdown ? Class::LocalDraining : Class::Cancelled,
            200,
            shutdown ? "shutdown" : "cancelled",
            std::move(broken)};
  }
  if (why == StopReason::Shutdown) return drained(call, record);
  return own_ending(call,
                    record,
                    Outcome::Cancelled,
                    {.status = 503,
                     .cls = Class::Cancelled,
                     .message = "the call was cancelled by an operator",
                     .code = "callgate_cancelled"},
                    "cancelled",
                    {});
}

Ending refused_in_time(const Call& call, const CallRecord& record, const Refusal& refusal, TimePoint now);
Ending budget_spent(const Call& call, const CallRecord& record, const Refusal& refusal);

std::string spoken(milliseconds wait) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(wait).count()) + " s";
}

Ending refused(const Call& call, const CallRecord& record, const Refusal& refusal, TimePoint now) {
  const std::string& upstream = refusal.upstream.empty() ? record.upstream : refusal.upstream;
  const bool sdk_may_retry = !has_waited(record) && refusal.retry_after <= kSdkMaySleep;
  const ComeBack later{.retryable = true, .wait = refusal.retry_after, .sdk_may_retry = sdk_may_retry};
  switch (refusal.why) {
    case Refusal::Why::Draining:
      return drained(call, record);
    case Refusal::Why::Paused:
    case Refusal::Why::PausedTooLong:
      return own_ending(call,
                        record,
                        Outcome::Refused,
                        {.status = 429,
                         .cls = Class::LocalLimit,
                         .message = "upstream " + upstream + " has told us to wait for " +
                                    spoken(refusal.retry_after) + " more with this key and model",
                         .code = "callgate_paused"},
                        "paused",
                        later);
    case Refusal::Why::BreakerOpen:
    case Refusal::Why::RetryBudget:
      return own_ending(call,
                        record,
                        Outcome::Refused,
                        {.status = 503,
                         .cls = Class::LocalBreaker,
                         .message = "upstream " + upstream + " keeps failing for this model; it is tried again in " +
                                    spoken(refusal.retry_after),
                         .code = "callgate_breaker_open"},
                        "breaker_open",
                        later);
    case Refusal::Why::BudgetSpent:
      return budget_spent(call, record, refusal);
    case Refusal::Why::Quarantined:
    case Refusal::Why::NobodyLeft:
      return own_ending(
          call,
          record,
          Outcome::Refused,
          {.status = call.to->dialect->status_of(refusal.cls),
           .cls = refusal.cls,
           .message = "callgate has no usable key for upstream " + upstream + ": " +
                      (refusal.cls == Class::QuotaExhausted ? "their money is spent" : "the provider refuses them") +
                      "; see callgate upstreams",
           .code = "callgate_no_credential"},
          "no_credential",
          {});
    default:
      return refused_in_time(call, record, refusal, now);
  }
}

/// "2026-12-01T00:00:00Z"
std::string utc_text(WallTime when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%FT%TZ", &parts)};
}

Ending budget_spent(const Call& call, const CallRecord& record, const Refusal& refusal) {
  const budget::SpendAnswer& spend = refusal.spend;
  const bool of_run = spend.period == budget::Period::Run;
  std::string message = of_run ? "run " + call.run_id + " of tenant " + call.tenant + " may spend no more: "
                               : "tenant " + call.tenant + " may spend no more this " +
                                     std::string{budget::name_of(spend.period)} + ": ";
  message += budget::usd_text(spend.spent) + " of " + budget::usd_text(spend.limit) +
             " USD are spent, and this call may cost " + budget::usd_text(spend.worst) +
             " USD (an answer as long as max_tokens allows)";
  if (spend.resets) message += "; it begins anew at " + utc_text(*spend.resets);
  message += "; see callgate budget show";
  ComeBack never{.retryable = false};
  if (spend.resets) never.wait = refusal.retry_after;
  Ending ending = own_ending(call,
                             record,
                             Outcome::Refused,
                             {.status = call.policy->budget_status,
                              .cls = Class::LocalBudget,
                              .message = std::move(message),
                              .code = "callgate_budget_spent"},
                             "budget_spent",
                             never);
  return ending;
}

/// What it waited for, as far as a caller can do something about it.
std::string held_words(const Call& call, const CallRecord& record, const Refusal& refusal) {
  const std::string& upstream = refusal.upstream.empty() ? record.upstream : refusal.upstream;
  using budget::Limit;
  switch (refusal.limit) {
    case Limit::TenantConcurrent:
      return "tenant " + call.tenant + " had all the calls in flight that it may have (limits.concurrent)";
    case Limit::TenantRate:
      return "tenant " + call.tenant + " was at its limit (limits." + refusal.rate + ")";
    case Limit::UpstreamRate:
      return "upstream " + upstream + " was at the rate that this key and model have there (" + refusal.rate + ")";
    case Limit::Budget:
      return "money that other calls have put aside was in the way of a budget of tenant " + call.tenant;
    case Limit::Operator:
      return "an operator has paused it (callgate resume)";
    case Limit::Pause:
    case Limit::Pace:
      return "upstream " + upstream + " has told us to wait";
    case Limit::Breaker:
      return "upstream " + upstream + " kept failing";
    default:
      return "no slot of upstream " + upstream + " came free";
  }
}

Ending refused_in_time(const Call& call, const CallRecord& record, const Refusal& refusal, TimePoint now) {
  using budget::Limit;
  const bool full = refusal.why == Refusal::Why::QueueFull;
  // Only its own deadline is one; where its SDK's patience ended, it has waited too long.
  if (refusal.why == Refusal::Why::Deadline && now >= call.ends_by()) {
    const bool at_once = call.ends_by() <= call.request.arrived;
    const bool waited = record.queued >= kWaited;
    std::string message = "the call's deadline passed while it waited: " + held_words(call, record, refusal);
    if (!waited) message = "the call's deadline (Callgate-Deadline) passed while its request was still on the way";
    if (at_once) message = "the call's deadline (Callgate-Deadline) had passed before it came";
    return own_ending(
        call,
        record,
        Outcome::Refused,
        {.status = 504, .cls = Class::Timeout, .message = std::move(message), .code = "callgate_deadline"},
        waited ? "deadline_in_queue" : "deadline_passed",
        {.retryable = !at_once});
  }
  const bool sdk_gives_up = refusal.why == Refusal::Why::Deadline;
  if (sdk_gives_up && record.queued < kWaited && record.attempts.empty()) {
    return own_ending(call,
                      record,
                      Outcome::Refused,
                      {.status = 504,
                       .cls = Class::Timeout,
                       .message = "the caller's SDK would have given up before its request was here whole",
                       .code = "callgate_sdk_timeout"},
                      "sdk_timeout_in_upload",
                      {.retryable = true});
  }
  const bool sdk_may_retry = full && !has_waited(record) && refusal.retry_after <= kSdkMaySleep;
  const std::string which =
      refusal.limit == Limit::QueueTenant ? "queue.per_tenant, of tenant " + call.tenant : std::string{"queue.total"};
  const bool by_limit = refusal.limit == Limit::TenantConcurrent || refusal.limit == Limit::TenantRate ||
                        refusal.limit == Limit::UpstreamRate || refusal.limit == Limit::Budget ||
                        refusal.limit == Limit::Operator;
  std::string code = full ? "callgate_queue_full" : "callgate_queue_wait";
  if (!full && by_limit) code = "callgate_" + std::string{budget::name_of(refusal.limit)};
  return own_ending(
      call,
      record,
      Outcome::Refused,
      {.status = 429,
       .cls = Class::LocalLimit,
       .message = full ? "callgate's queue is full (" + which + ")"
                       : held_words(call, record, refusal) + ", and nothing changed that " +
                             (sdk_gives_up ? "before the caller's SDK would have given up" : "within queue.max_wait"),
       .code = std::move(code)},
      full           ? "queue_full"
      : sdk_gives_up ? "sdk_timeout_in_queue"
                     : "queue_wait",
      {.retryable = true, .wait = refusal.retry_after, .sdk_may_retry = sdk_may_retry});
}

/// No attempt will follow: the provider's own words, or ours where it had none.
Ending final_failure(const Call& call, const CallRecord& record, Attempt& attempt, TimePoint first_began,
                     std::string_view reason) {
  const classifier::Verdict& verdict = attempt.verdict;
  // A clock of the caller's ends the call, and says nothing against the job.
  const ComeBack come_back{.retryable = verdict.retryable || attempt.callers_deadline,
                           .wait = verdict.retry_after,
                           .sdk_may_retry = false};
  // Only where our attempts were spent: what the caller's hurry or the endpoint forbade may do well another time.
  const bool spent = reason != budget::name_of(budget::GaveUp::NotReplaySafe) &&
                     reason != budget::name_of(budget::GaveUp::DeadlineTooClose);
  const bool remember = verdict.retryable && !attempt.callers_deadline && spent;
  if (attempt.answer_started) {
    return {false, Outcome::Failed, verdict.cls, attempt.row.status, reason, std::move(attempt.last)};
  }
  if (attempt.providers_answer) {
    Ending ending{remember,
                  Outcome::Failed,
                  verdict.cls,
                  attempt.last.head.status,
                  reason,
                  std::move(attempt.last),
                  first_began};
    add_our_headers(ending.last.head.headers, record, record.attempts.size(), verdict.cls, "provider");
    add_cost_header(ending.last.head.headers, record);
    set_come_back(ending.last.head.headers, come_back, user_agent_of(call));
    return ending;
  }
  const bool timeout = verdict.cls == Class::Timeout;
  std::string message =
      "Upstream " + record.upstream +
      " failed: " + (attempt.row.detail.empty() ? std::string{classifier::name_of(verdict.cls)} : attempt.row.detail);
  Ending ending = own_ending(call,
                             record,
                             Outcome::Failed,
                             {.status = timeout ? 504 : 502,
                              .cls = verdict.cls,
                              .message = std::move(message),
                              .code = timeout ? "callgate_timeout" : "callgate_upstream_failed"},
                             reason,
                             come_back);
  ending.worth_remembering = remember;
  ending.first_began = first_began;
  return ending;
}

/// The same answer as a moment ago, with what is left of its wait.
Ending remembered(const Call& call, const CallRecord& record, const budget::RememberedFailure& failure,
                  TimePoint now) {
  Ending ending{false, Outcome::Failed, failure.cls, failure.status, ledger::kRemembered, {}};
  ending.last.how = LastWord::How::Answer;
  ending.last.head.status = failure.status;
  ending.last.head.headers = failure.headers;
  ending.last.bytes = failure.body;
  add_our_headers(ending.last.head.headers, record, 0, failure.cls, "memo");
  ComeBack come_back{.retryable = true};
  if (failure.come_back && *failure.come_back > now)
    come_back.wait = std::chrono::ceil<milliseconds>(*failure.come_back - now);
  set_come_back(ending.last.head.headers, come_back, user_agent_of(call));
  return ending;
}

void remember(const Call& call, const CallRecord& record, const Ending& ending, Services services) {
  const TimePoint now = services.runtime.now();
  budget::RememberedFailure failure;
  failure.status = ending.last.head.status;
  failure.headers = without_ours(ending.last.head.headers);
  failure.body = ending.last.bytes;
  failure.cls = ending.cls;
  failure.upstream = record.upstream;
  failure.model = call.facts.model;
  failure.first_began = ending.first_began;
  if (!record.attempts.empty() && record.attempts.back().hint) failure.come_back = now + *record.attempts.back().hint;
  services.memo.remember(memo_key(call), std::move(failure), now);
}

Ending answered(const CallRecord& record, Attempt& attempt) {
  Ending ending{false, Outcome::Answered, attempt.verdict.cls, attempt.row.status, {}, std::move(attempt.last)};
  if (ending.last.how == LastWord::How::Answer) {
    add_our_headers(ending.last.head.headers, record, record.attempts.size(), ending.cls, "provider");
    add_token_headers(ending.last.head.headers, attempt.row.usage);
    add_cost_header(ending.last.head.headers, record);
  }
  return ending;
}

/// How much is spent now, for the answer's head.
void note_budget(const Call& call, Services services, CallRecord& record) {
  if (call.policy->budgeted.contains(call.tenant))
    record.budget_share = services.admission.warned_share(call.tenant, call.run_id);
}

int earlier_of_class(const CallRecord& record, Class cls) {
  // The last row is the failure itself.
  return static_cast<int>(
             std::ranges::count_if(record.attempts, [&](const AttemptRow& row) { return row.cls == cls; })) -
         1;
}

/// Without another attempt to come: why not, in the words of metrics and log.
std::string_view reason_of(const Refusal& refusal, budget::GaveUp closed_by, bool by_elapsed) {
  switch (refusal.why) {
    case Refusal::Why::QueueFull:
    case Refusal::Why::WaitedTooLong:
      return "queue_wait";
    case Refusal::Why::BreakerOpen:
      return "breaker_open";
    case Refusal::Why::BudgetSpent:
      return "budget_spent";
    case Refusal::Why::RetryBudget:
      return "retry_budget";
    case Refusal::Why::PausedTooLong:
      return budget::name_of(budget::GaveUp::HintTooLong);
    case Refusal::Why::Quarantined:
    case Refusal::Why::NobodyLeft:
      return budget::name_of(closed_by);
    default:
      return budget::name_of(by_elapsed ? budget::GaveUp::ElapsedTooLong : budget::GaveUp::DeadlineTooClose);
  }
}

/// These say that nothing was done, and when they name a wait, it is meant for everybody.
bool refuses(int status) { return status == 429 || status == 503 || status == 529; }

/// Keeps this call away from where it failed, until then: from that key alone, or from all of the upstream if that is
/// what failed.
void hold_back(const Call& call, std::size_t failed, Class cls, TimePoint until, std::vector<TimePoint>& not_before) {
  const budget::Candidate& there = call.candidates[failed];
  for (std::size_t i = 0; i < call.candidates.size(); ++i) {
    const bool everywhere = cls == Class::Unknown || cls == Class::Conflict;  // It may be the request.
    const bool same = i == failed || everywhere ||
                      (!budget::is_credentials_fault(cls) && cls != Class::RateLimited &&
                       call.candidates[i].upstream == there.upstream);
    if (same) not_before[i] = std::max(not_before[i], until);
  }
}

/// There is no use in trying it again there; is there elsewhere?
bool others_may(const Call& call, const Attempt& attempt, budget::GaveUp why, int number, int attempts) {
  if (number >= attempts || call.candidates.size() < 2) return false;
  using budget::GaveUp;
  if (why == GaveUp::HintTooLong || why == GaveUp::DeadlineTooClose || why == GaveUp::ElapsedTooLong) return true;
  // Another key may be good where this one is not; what a key of the caller's own says is for the caller.
  return why == GaveUp::NotRetryable && attempt.row.credential != kCallersKey &&
         budget::is_credentials_fault(attempt.verdict.cls);
}

Ending unpriced(const Call& call, const CallRecord& record) {
  return own_ending(call,
                    record,
                    Outcome::Refused,
                    {.status = 402,
                     .cls = Class::LocalBudget,
                     .message = "model " + call.facts.model +
                                " has no price, and prices.unpriced refuses such models; see callgate prices show",
                     .code = "callgate_unpriced_model"},
                    "unpriced_model",
                    {});
}

struct Slept {
  microseconds time{0};                                     // Not in a queue, …
  ledger::WaitedFor most_for = ledger::WaitedFor::Nothing;  // … most of it for this.
};

Slept count_waits(const WaitTimes& waits, bool again, CallRecord& record) {
  using budget::Wait;
  struct Kind {
    Wait wait;
    ledger::WaitedFor name;
  };
  constexpr std::array<Kind, 4> kSlept = {{{Wait::Backoff, ledger::WaitedFor::Computed},
                                           {Wait::Pause, ledger::WaitedFor::Pause},
                                           {Wait::Breaker, ledger::WaitedFor::Breaker},
                                           {Wait::RetryBudget, ledger::WaitedFor::RetryBudget}}};
  Slept slept;
  microseconds most{0};
  for (const auto& [wait, name] : kSlept) {
    const microseconds time = waits[static_cast<std::size_t>(wait)];
    slept.time += time;
    if (time <= most) continue;
    most = time;
    slept.most_for = name;
  }
  for (std::size_t i = 0; i < waits.size(); ++i) {
    record.waits[i] += waits[i];
    record.queued += waits[i];
  }
  if (again) {
    record.queued -= slept.time;
    record.backed_off += slept.time;
  }
  return slept;
}

/// In the words of callgate_refusals_total.
budget::Limit limit_of(const Refusal& refusal) {
  using budget::Limit;
  if (refusal.limit != Limit::None && refusal.limit != Limit::Order) return refusal.limit;
  return refusal.why == Refusal::Why::WaitedTooLong ? Limit::UpstreamConcurrent : Limit::None;
}

budget::Ended ended_of(const Attempt& attempt, bool pauses) {
  const AttemptRow& row = attempt.row;
  budget::Ended ended;
  ended.end = {.cls = attempt.verdict.cls,
               .good = attempt.good(),
               .of_the_caller = attempt.callers_deadline || attempt.stopped.has_value(),
               .hint = pauses ? attempt.verdict.retry_after : std::nullopt};
  if (row.usage.tokens) ended.tokens = {row.usage.tokens->input, row.usage.tokens->output};
  ended.cost = row.cost;
  // A stream that broke off, or was left, has been paid for as far as it came.
  ended.possibly_billed = !attempt.good() && (row.possibly_billed || attempt.answer_started);
  ended.connect_failed = attempt.verdict.cls == Class::Network && !attempt.request_sent;
  return ended;
}

task<Ending> play(const Call& call, Services services, Caller& caller, Signal& signal, CallRecord& record) {
  const std::vector<char> priced = may_be_priced(call, services.runtime.wall_now());
  if (std::ranges::find(priced, 1) == priced.end()) co_return unpriced(call, record);
  const TimePoint begun = services.runtime.now();
  // Whoever comes with a policy of its own has been spaced out by that.
  if (!call.fresh && !call.retry && !services.memo.empty(begun)) {
    const budget::RememberedFailure* failure = services.memo.find(memo_key(call), begun);
    if (failure) co_return remembered(call, record, *failure, begun);
  }

  const budget::RetryPolicy& retry =
      call.retry ? *call.retry : call.policy->retry[static_cast<std::size_t>(call.lane)];
  const auto patience = [&call] { return std::min(call.ends_by(), call.answers_by()); };
  std::vector<TimePoint> not_before(call.candidates.size(), TimePoint::min());
  for (std::size_t i = 0; i < priced.size(); ++i) {
    if (priced[i] == 0) not_before[i] = TimePoint::max();
  }
  std::vector<char> tried(call.candidates.size(), 0);
  budget::Waiter waiter;
  Ask ask;
  ask.candidates = call.candidates;
  ask.not_before = not_before;
  ask.tried = tried;
  const std::vector<budget::NanoUsd> worst = worst_costs(call, services.admission, services.runtime.wall_now());
  ask.worst = worst;
  ask.sizes = call.sizes;
  ask.tenant = call.tenant;
  ask.run_id = call.run_id;
  ask.lane = call.lane;
  ask.deadline = patience();
  ask.longest_wait = retry.longest_wait;
  TimePoint first_began{};
  std::optional<Attempt> failed;  // The one before.
  budget::GaveUp closed_by = budget::GaveUp::NotRetryable;
  const auto bounded = [&] {
    const bool by_elapsed = failed && retry.max_elapsed > milliseconds::zero();
    return by_elapsed ? std::min(patience(), first_began + retry.max_elapsed) : patience();
  };
  for (int number = 1;; ++number) {
    WaitTimes waits{};
    std::expected<Admitted, Refusal> admission = co_await services.admission.admit(ask, waiter, waits, signal);
    while (!admission && admission.error().why == Refusal::Why::Deadline && ask.deadline < bounded()) {
      // Somebody has come meanwhile who can wait for longer.
      ask.deadline = bounded();
      admission = co_await services.admission.admit(ask, waiter, waits, signal);
    }
    const Slept slept = count_waits(waits, failed.has_value(), record);
    if (signal.stopped()) {
      LastWord nothing;
      co_return stopped(call, record, *signal.stopped(), false, std::move(nothing));
    }
    if (!admission && failed) {
      if (admission.error().why == Refusal::Why::Draining) co_return drained(call, record);
      // The provider's own last word says more than ours.
      const bool by_elapsed = ask.deadline < patience();
      co_return final_failure(
          call, record, *failed, first_began, reason_of(admission.error(), closed_by, by_elapsed));
    }
    if (!admission) {
      const budget::Limit limit = limit_of(admission.error());
      if (limit != budget::Limit::None) record.limit = budget::name_of(limit);
      note_budget(call, services, record);
      co_return refused(call, record, admission.error(), services.runtime.now());
    }
    Admitted admitted = std::move(*admission);
    // For heads that go out before it ends.
    note_budget(call, services, record);
    const budget::Candidate& way = call.candidates[admitted.candidate];
    if (number == 1) first_began = services.runtime.now();
    if (failed) record.attempts.back().next = way.upstream == record.upstream ? "retry" : "failover";
    record.upstream = way.upstream;
    for (std::size_t i = 0; i < tried.size(); ++i) {
      if (call.candidates[i].upstream == way.upstream) tried[i] = 1;
    }

    if (call.live) {
      call.live->upstream = way.upstream;
      call.live->attempt = number;
    }
    OpenRow row;
    row.call = &record;
    row.attempt = number;
    row.upstream = way.upstream;
    row.credential = way.configured ? way.credential : std::string{kCallersKey};
    row.model = call.ways[admitted.candidate].model;
    row.reserved = worst[admitted.candidate];
    row.began = services.runtime.wall_now();
    row.durable = call.keep != nullptr;
    co_await services.ledger.open(row);
    fault_point(Step::Opened);

    // From here the attempt's own row is open and must end, whatever happens.
    const bool hinted = failed && failed->verdict.retry_after.has_value();
    Attempt attempt = co_await try_once(call, number, admitted, services, caller, signal, record);
    if (call.live) call.live->upstream.clear();
    attempt.row.waited_before = std::chrono::duration_cast<milliseconds>(slept.time);
    attempt.row.waited_for = slept.most_for;
    if (hinted && slept.most_for != ledger::WaitedFor::Nothing)
      attempt.row.waited_for = ledger::WaitedFor::RetryAfter;
    const bool pauses =
        attempt.verdict.retry_after && (attempt.verdict.cls == Class::RateLimited || refuses(attempt.row.status));
    price_attempt(call, *call.ways[admitted.candidate].to, services.runtime.wall_now(), attempt.row);
    const budget::Ended ended = ended_of(attempt, pauses);
    attempt.row.charged = budget::charge_of(ended, worst[admitted.candidate]);
    attempt.row.began = row.began;
    attempt.row.ended = services.runtime.wall_now();
    services.admission.ended(admitted, ended);
    note_budget(call, services, record);
    // Of what reached the caller: an error's body is no content, nor is what a repeated attempt had said.
    if (attempt.first_content && (attempt.good() || attempt.answer_started)) {
      record.first_content = span(call.request.arrived, *attempt.first_content);
    }
    if (attempt.row.cost)
      record.cost = budget::NanoUsd{record.cost.value_or(budget::NanoUsd()).value + attempt.row.cost->value};
    record.usage = attempt.row.usage;
    record.attempts.push_back(attempt.row);

    if (attempt.stopped)
      co_return stopped(call, record, *attempt.stopped, attempt.answer_started, std::move(attempt.last));
    if (attempt.good()) {
      services.memo.success(way.upstream, call.facts.model, services.runtime.now());
      co_return answered(record, attempt);
    }

    // Of a run's answer nobody has had a byte before it is whole, so that a stream that broke off can be repeated.
    const bool unseen = attempt.answer_started && caller.unseen();
    const budget::FailedAttempt facts{.number = number,
                                      .same_class_before = earlier_of_class(record, attempt.verdict.cls),
                                      .verdict = attempt.verdict,
                                      .status = attempt.row.status,
                                      .forbidden = attempt.forbidden,
                                      .request_sent = attempt.request_sent,
                                      .replay_safe = call.endpoint.replay_safe,
                                      .answer_started = attempt.answer_started && !unseen,
                                      .callers_deadline = attempt.callers_deadline,
                                      .first_began = first_began,
                                      .deadline = patience()};
    const budget::NextStep next = retry.after(facts, services.runtime.now(), services.runtime.roll());
    if (const auto* at = std::get_if<budget::RetryAt>(&next)) {
      // Where the whole limit group pauses, all who wait are spread there.
      // But a hint of next to nothing spaces nobody.
      const bool short_hint = attempt.verdict.retry_after.value_or(kShortHint) < kShortHint;
      if (!pauses || short_hint) hold_back(call, admitted.candidate, attempt.verdict.cls, at->when, not_before);
    } else {
      closed_by = std::get<budget::GaveUp>(next);
      if (!others_may(call, attempt, closed_by, number, retry.attempts)) {
        co_return final_failure(call, record, attempt, first_began, budget::name_of(closed_by));
      }
      hold_back(call, admitted.candidate, attempt.verdict.cls, TimePoint::max(), not_before);
    }
    services.ledger.attempt_ended(record);
    if (unseen) {
      caller.begin_anew();
      attempt.answer_started = attempt.providers_answer = false;
      attempt.last = LastWord{};
      record.first_content.reset();
    }
    failed = std::move(attempt);
    ask.again = true;
    ask.deadline = bounded();
  }
}

/// Our own bug must not cost the caller an answer, nor us the row.
Ending internal_error(const Call& call, const CallRecord& record, bool begun) {
  if (begun) {
    Ending ending;
    ending.reason = "bug";
    ending.last.how = LastWord::How::Abort;
    return ending;
  }
  return own_ending(call,
                    record,
                    Outcome::Failed,
                    {.status = 500,
                     .cls = Class::Internal,
                     .message = "callgate failed inside; its log has the call's id",
                     .code = "callgate_internal"},
                    "bug",
                    {});
}

task<void> say(LastWord last, Caller& caller) {
  switch (last.how) {
    case LastWord::How::Nothing:
      if (caller.begun()) caller.abort();
      break;
    case LastWord::How::Answer: {
      co_await caller.answer(std::move(last.head), last.bytes);
      break;
    }
    case LastWord::How::Finish:
      co_await caller.finish(last.bytes);
      break;
    case LastWord::How::Abort:
      if (!last.bytes.empty()) co_await caller.send(last.bytes);
      caller.abort();
      break;
  }
}

}  // namespace

CallRecord begin_record(const Call& call) {
  CallRecord record;
  record.id = call.id;
  record.tenant = call.tenant;
  record.lane = call.lane;
  record.run_id = call.run_id;
  record.route = call.route->name;
  record.upstream = call.candidates.front().upstream;
  record.dialect = call.to->dialect->name();
  record.operation = classifier::name_of(call.endpoint.operation);
  record.method = call.request.method;
  record.path = call.path;
  record.model = call.facts.model;
  record.stream = call.facts.stream;
  record.sdk_retry = call.sdk_retry;
  record.queue = call.queue;
  record.labels = call.labels;
  record.idempotency_key = call.idempotency_key;
  record.once = call.once;
  record.trace = call.trace;
  record.bytes_in = call.bytes_in;
  return record;
}

task<CallRecord> run_call(Call call, Services services, Caller& caller, Signal& signal) {
  CallRecord record = begin_record(call);
  record.began = services.runtime.wall_now();
  Ending ending;
  try {
    ending = co_await play(call, services, caller, signal, record);
  } catch (const std::exception& bug) {
    record.bug = bug.what();
    if (record.bug.empty()) record.bug = "exception";
  }
  if (!record.bug.empty()) ending = internal_error(call, record, caller.begun());

  // The provider bills us whoever hung up, so every way out leads to this line, and the caller's last byte behind it.
  record.outcome = ending.outcome;
  record.cls = ending.cls;
  record.status = ending.status;
  record.reason = ending.reason;
  record.duration = span(call.request.arrived, services.runtime.now());
  record.ended = services.runtime.wall_now();
  record.bytes_out = caller.bytes_sent() + ending.last.bytes.size();
  ledger::CallEnd end;
  try {
    if (ending.worth_remembering) remember(call, record, ending, services);
    if (call.keep) end = call.keep->outcome(record, ending.last);
  } catch (const std::exception& bug) {
    record.bug = bug.what();
  }
  try {
    fault_point(Step::Answered);
    record.commit_late = !co_await services.ledger.end(record, std::move(end));
    fault_point(Step::Ended);
  } catch (const std::exception& bug) {
    record.bug = bug.what();
    record.commit_late = true;
  }
  try {
    co_await say(std::move(ending.last), caller);
  } catch (const std::exception& bug) {
    record.bug = bug.what();
  }
  record.bytes_out = caller.bytes_sent();
  record.duration = span(call.request.arrived, services.runtime.now());
  co_return record;
}

}  // namespace gateway
