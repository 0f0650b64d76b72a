#include "gateway/run_end.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "budget/price.h"
#include "gateway/json_out.h"

namespace gateway {
namespace {

using classifier::Class;
using ledger::RunOutcome;
using ledger::RunState;
using std::chrono::milliseconds;

constexpr milliseconds kShortestRest{1'000};
constexpr milliseconds kLongestRest{300'000};
constexpr std::size_t kWordMax = 256;

std::int64_t ms_of(WallTime when) { return std::chrono::floor<milliseconds>(when).time_since_epoch().count(); }

RunOutcome begin(const RunTerms& terms, RunState state, std::string_view cls) {
  RunOutcome outcome;
  outcome.id = terms.id;
  outcome.fence = terms.fence;
  outcome.state = state;
  outcome.cls = cls;
  return outcome;
}

bool is_requests_fault(Class cls) {
  switch (cls) {
    case Class::InvalidRequest:
    case Class::ContextLength:
    case Class::ContentPolicy:
    case Class::NotFound:
    case Class::TooLarge:
    case Class::Conflict:
    case Class::LocalRequest:
      return true;
    default:
      return false;
  }
}

/// How long a refusal asks to stay away.
milliseconds asked_wait(const ledger::StoredAnswer* answer) {
  if (answer == nullptr) return kShortestRest;
  const auto said = classifier::find(answer->headers, "callgate-retry-after-ms");
  std::int64_t ms = 0;
  if (!said || std::from_chars(said->data(), said->data() + said->size(), ms).ec != std::errc{}) return kShortestRest;
  return std::clamp(milliseconds{ms}, kShortestRest, kLongestRest);
}

/// May it be taken again, though nothing of it was tried for the last time?
bool is_for_now(const CallRecord& record) {
  if (record.outcome == Outcome::Drained || record.outcome == Outcome::Crashed) return true;
  if (record.outcome == Outcome::Cancelled) return record.reason == "caller_gone";
  if (record.outcome != Outcome::Refused) return false;
  return record.cls != Class::Timeout && record.cls != Class::LocalRequest && record.cls != Class::Crash &&
         record.reason != "unpriced_model";
}

std::string words_of(const CallRecord& record) {
  std::string why{record.reason};
  const std::string detail = record.attempts.empty() ? std::string{} : record.attempts.back().detail;
  if (!detail.empty()) why += (why.empty() ? "" : ": ") + detail;
  return why;
}

RunOutcome told(const RunTerms& terms, RunOutcome outcome, WallTime now) {
  if (terms.told) outcome.webhook_body = told_of_run(terms, outcome, now);
  return outcome;
}

}  // namespace

bool is_page_worthy(Class cls) {
  return cls == Class::Auth || cls == Class::Permission || cls == Class::QuotaExhausted || cls == Class::Crash ||
         cls == Class::Internal;
}

RunOutcome end_of_run(const RunTerms& terms, const CallRecord& record,
                      std::shared_ptr<const ledger::StoredAnswer> answer, const RunMoment& moment) {
  RunOutcome outcome = begin(terms, RunState::Dead, classifier::name_of(record.cls));
  outcome.call_id = record.id;
  if (record.cost) outcome.cost_nano = record.cost->value;
  if (moment.cancelled) {
    outcome.state = RunState::Cancelled;
    outcome.cls = classifier::name_of(Class::Cancelled);
    return told(terms, std::move(outcome), moment.now);
  }
  if (is_for_now(record)) {
    WallTime next = moment.now;
    if (record.outcome == Outcome::Refused) {
      const milliseconds wait = asked_wait(answer.get());
      const milliseconds spread = std::max(kShortestRest, wait / 10);
      next += wait + milliseconds{static_cast<std::int64_t>(moment.roll * static_cast<double>(spread.count()))};
    }
    const bool refused = record.outcome == Outcome::Refused;
    if (!refused || (next < terms.give_up_at && next < terms.deadline.value_or(WallTime::max()))) {
      outcome.state = RunState::Queued;
      outcome.not_before_ms = ms_of(next);
      outcome.why = words_of(record);
      return outcome;
    }
  }
  outcome.status = record.status;
  outcome.answer = std::move(answer);
  if (record.outcome == Outcome::Answered) {
    outcome.state = RunState::Succeeded;
    outcome.cls = classifier::name_of(Class::None);
  } else if (record.outcome == Outcome::Cancelled) {
    outcome.state = RunState::Cancelled;
    outcome.answer.reset();
    outcome.status = 0;
  } else {
    const bool failed =
        (record.outcome == Outcome::Failed || record.outcome == Outcome::Refused) && is_requests_fault(record.cls);
    outcome.state = failed ? RunState::Failed : RunState::Dead;
    outcome.why = words_of(record);
  }
  return told(terms, std::move(outcome), moment.now);
}

RunOutcome run_cancelled(const RunTerms& terms, WallTime now) {
  return told(terms, begin(terms, RunState::Cancelled, classifier::name_of(Class::Cancelled)), now);
}

RunOutcome run_dead(const RunTerms& terms, Class cls, std::string why, WallTime now) {
  RunOutcome outcome = begin(terms, RunState::Dead, classifier::name_of(cls));
  outcome.why = std::move(why);
  return told(terms, std::move(outcome), now);
}

RunOutcome run_failed(const RunTerms& terms, Class cls, std::string why, WallTime now) {
  RunOutcome outcome = begin(terms, RunState::Failed, classifier::name_of(cls));
  outcome.why = std::move(why);
  return told(terms, std::move(outcome), now);
}

RunOutcome run_given_back(const RunTerms& terms, std::string why, WallTime not_before) {
  RunOutcome outcome = begin(terms, RunState::Queued, {});
  outcome.why = std::move(why);
  outcome.not_before_ms = ms_of(not_before);
  return outcome;
}

std::string told_of_run(const RunTerms& terms, const RunOutcome& outcome, WallTime now) {
  const std::string_view state = ledger::kRunStateNames[static_cast<std::size_t>(outcome.state)];
  std::string out = R"({"type":"run.)";
  out.append(state) += R"(","timestamp":")";
  append_time(out, now);
  out += R"(","data":{"id":)";
  append_json(out, terms.id, kWordMax);
  out += R"(,"state":)";
  append_json(out, state, kWordMax);
  out += R"(,"class":)";
  append_json(out, outcome.cls, kWordMax);
  out += R"(,"queue":)";
  append_json(out, terms.queue, kWordMax);
  out += R"(,"run_id":)";
  append_json(out, terms.run_id, kWordMax);
  out += R"(,"status":)";
  append_number(out, std::int64_t{outcome.status});
  out += R"(,"cost_usd":)";
  // Of its last call; the run's own line has the sum of all.
  if (outcome.cost_nano)
    append_json(out, budget::usd_text(budget::NanoUsd{*outcome.cost_nano}), kWordMax);
  else
    out += "null";
  out += "}}";
  return out;
}

}  // namespace gateway
