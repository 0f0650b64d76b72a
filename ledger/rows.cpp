#include "ledger/rows.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "budget/price.h"
#include "ledger/billed_names.h"
#include "ledger/binder.h"
#include "ledger/json_text.h"
#include "ledger/spend_sums.h"

namespace ledger {
namespace {

/// Listings, deletions, counting and moderation use no tokens that anybody pays.
bool may_use_tokens(const CallRecord& call) {
  if (call.operation == "count_tokens" || call.operation == "moderation") return false;
  return call.operation != "other" || call.method == "POST";
}

}  // namespace

std::string billed_json(const classifier::Usage& usage) {
  if (usage.billed == classifier::Billed{} && usage.stated_beside_usd.empty()) return {};
  std::string out;
  JsonObject object(out);
  for (const BilledName& row : kBilledNames) {
    if (usage.billed.*row.member != 0) object.number(row.name, usage.billed.*row.member);
  }
  if (!usage.stated_beside_usd.empty()) object.text("stated_beside_usd", usage.stated_beside_usd);
  object.close();
  return out;
}

std::string waits_json(const budget::WaitTimes& waits) {
  if (std::ranges::all_of(waits, [](auto wait) { return wait.count() <= 0; })) return {};
  std::string out;
  JsonObject object(out);
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].count() > 0) object.number(budget::name_of(static_cast<budget::Wait>(i)), waits[i].count());
  }
  object.close();
  return out;
}

std::string_view tokens_from(const CallRecord& call, const AttemptRow& attempt) {
  if (attempt.usage.tokens) return "reported";
  if (attempt.usage.tokens_unknown || attempt.possibly_billed) return "unknown";
  // A refusal used none; an answer, whole or broken off, did, unless it is counted in something else.
  const bool an_answer = attempt.status >= 200 && attempt.status < 300;
  const bool counted_otherwise = attempt.usage.billed != classifier::Billed{};
  return an_answer && !counted_otherwise && may_use_tokens(call) ? "unknown" : "none";
}

namespace {

using budget::NanoUsd;

enum State : std::int8_t { Open = 0, Ended = 1, Unknown = 2 };

constexpr std::string_view kOpenCall = R"sql(
INSERT INTO calls(id, state, began_ms, tenant, lane, run_id, queue, labels, route, upstream, dialect, operation, method,
                  path, model, stream, sdk_retry, idempotency_key, attempts)
VALUES (?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(id) DO UPDATE SET upstream = excluded.upstream, attempts = excluded.attempts WHERE calls.state = 0)sql";

constexpr std::string_view kOpenAttempt = R"sql(
INSERT INTO attempts(call_id, number, state, began_ms, upstream, credential, model, possibly_billed, reserved_nano)
VALUES (?, ?, 0, ?, ?, ?, ?, 0, ?)
ON CONFLICT(call_id, number) DO NOTHING)sql";

constexpr std::string_view kEndCall = R"sql(
INSERT INTO calls(id, state, began_ms, ended_ms, tenant, lane, run_id, queue, labels, route, upstream, dialect,
                  operation, method, path, model, stream, sdk_retry, idempotency_key, outcome, status, class, reason,
                  attempts, cost_nano, waits, first_content_us, duration_us, bytes_in, bytes_out, once, origin,
                  saved_nano)
VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(id) DO UPDATE SET
  state = 1, ended_ms = excluded.ended_ms, upstream = excluded.upstream, outcome = excluded.outcome,
  status = excluded.status, class = excluded.class, reason = excluded.reason, attempts = excluded.attempts,
  cost_nano = excluded.cost_nano, waits = excluded.waits, first_content_us = excluded.first_content_us,
  duration_us = excluded.duration_us, bytes_in = excluded.bytes_in, bytes_out = excluded.bytes_out,
  idempotency_key = excluded.idempotency_key, once = excluded.once, origin = excluded.origin,
  saved_nano = excluded.saved_nano
WHERE calls.state = 0)sql";

constexpr std::string_view kEndAttempt = R"sql(
INSERT INTO attempts(call_id, number, state, began_ms, ended_ms, upstream, credential, model, model_answered, status,
                     class, rule, code, detail, fingerprint, next, possibly_billed, waited_before_ms, waited_for,
                     hint_ms, took_us, provider_request_id, input, cached_input, cache_write_5m, cache_write_1h, output,
                     reasoning, tokens_from, billed, stated_usd, service_tier, speed, inference_geo, cost_nano,
                     cost_source, cost_tier, prices, charged_nano, reserved_nano)
VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
        ?, ?, ?)
ON CONFLICT(call_id, number) DO UPDATE SET
  state = 1, began_ms = excluded.began_ms, ended_ms = excluded.ended_ms, upstream = excluded.upstream,
  credential = excluded.credential, model = excluded.model, model_answered = excluded.model_answered,
  status = excluded.status, class = excluded.class, rule = excluded.rule, code = excluded.code,
  detail = excluded.detail, fingerprint = excluded.fingerprint, next = excluded.next,
  possibly_billed = excluded.possibly_billed, waited_before_ms = excluded.waited_before_ms,
  waited_for = excluded.waited_for, hint_ms = excluded.hint_ms, took_us = excluded.took_us,
  provider_request_id = excluded.provider_request_id, input = excluded.input, cached_input = excluded.cached_input,
  cache_write_5m = excluded.cache_write_5m, cache_write_1h = excluded.cache_write_1h, output = excluded.output,
  reasoning = excluded.reasoning, tokens_from = excluded.tokens_from, billed = excluded.billed,
  stated_usd = excluded.stated_usd, service_tier = excluded.service_tier, speed = excluded.speed,
  inference_geo = excluded.inference_geo, cost_nano = excluded.cost_nano, cost_source = excluded.cost_source,
  cost_tier = excluded.cost_tier, prices = excluded.prices, charged_nano = excluded.charged_nano
WHERE attempts.state = 0)sql";

constexpr std::string_view kAddSpend = R"sql(
INSERT INTO spend_by_period(slot, tenant, upstream, model, lane, queue, calls, answered, attempts, input, cached_input,
                            cache_write, output, reasoning, cost_nano, retry_nano, failed_nano, possibly_billed,
                            possibly_billed_nano, unknown, unpriced, estimated_nano, charged_nano, saved_nano)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(slot, tenant, upstream, model, lane, queue) DO UPDATE SET
  calls = calls + excluded.calls, answered = answered + excluded.answered, attempts = attempts + excluded.attempts,
  input = input + excluded.input, cached_input = cached_input + excluded.cached_input,
  cache_write = cache_write + excluded.cache_write, output = output + excluded.output,
  reasoning = reasoning + excluded.reasoning, cost_nano = cost_nano + excluded.cost_nano,
  retry_nano = retry_nano + excluded.retry_nano, failed_nano = failed_nano + excluded.failed_nano,
  possibly_billed = possibly_billed + excluded.possibly_billed,
  possibly_billed_nano = possibly_billed_nano + excluded.possibly_billed_nano, unknown = unknown + excluded.unknown,
  unpriced = unpriced + excluded.unpriced, estimated_nano = estimated_nano + excluded.estimated_nano,
  charged_nano = charged_nano + excluded.charged_nano, saved_nano = saved_nano + excluded.saved_nano)sql";

constexpr std::string_view kAddRun = R"sql(
INSERT INTO spend_by_run(tenant, run_id, charged_nano, last_ms) VALUES (?, ?, ?, ?)
ON CONFLICT(tenant, run_id) DO UPDATE SET
  charged_nano = charged_nano + excluded.charged_nano, last_ms = max(last_ms, excluded.last_ms))sql";

const std::string& model_of(const CallRecord& call, const AttemptRow& attempt) {
  return attempt.model.empty() ? call.model : attempt.model;
}

std::optional<std::int64_t> nano(const std::optional<NanoUsd>& amount) {
  if (!amount) return std::nullopt;
  return std::clamp(amount->value, -kMostNano, kMostNano);
}

std::optional<std::string_view> unless_empty(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return text;
}

std::int64_t end_of(const CallRecord& call, const AttemptRow& attempt) {
  const bool told = attempt.ended != std::chrono::system_clock::time_point{};
  return ms_of(told ? attempt.ended : call.ended);
}

std::string ended_event(const CallRecord& record, std::int64_t lost_attempts) {
  std::string out;
  out.reserve(512);
  JsonObject object(out);
  object.text("call_id", record.id);
  object.text("tenant", record.tenant);
  object.text("lane", budget::name_of(record.lane));
  if (!record.run_id.empty()) object.text("run_id", record.run_id);
  if (!record.queue.empty()) object.text("queue", record.queue);
  if (!record.idempotency_key.empty()) object.text("idempotency_key", record.idempotency_key);
  object.text("upstream", record.upstream);
  object.text("model", record.model);
  object.text("outcome", name_of(record.outcome));
  object.text("class", classifier::name_of(record.cls));
  if (!record.reason.empty()) object.text("reason", record.reason);
  object.number("status", record.status);
  object.number("attempts", static_cast<std::int64_t>(record.attempts.size()) + lost_attempts);
  if (record.cost || record.attempts.empty()) {
    object.text("cost_usd", budget::usd_text(record.cost.value_or(budget::NanoUsd{})));
  } else {
    object.raw("cost_usd", "null");
  }
  object.number("duration_ms", std::chrono::duration_cast<std::chrono::milliseconds>(record.duration).count());
  if (!record.once.empty()) object.text("once", record.once);
  if (!record.origin.empty()) object.text("origin", record.origin);
  if (record.saved) object.text("saved_usd", budget::usd_text(*record.saved));
  if (!record.labels.empty()) object.raw("labels", record.labels);
  object.close();
  return out;
}

}  // namespace

std::int64_t ms_of(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

/// What is added to one line of spend_by_period.
struct Rows::Line {
  std::int64_t slot = 0;
  std::string upstream{};
  std::string model{};
  SpendLine sums{};
  std::int64_t charged = 0;

  static Line& of(std::vector<Line>& lines, std::int64_t at_ms, std::string_view upstream, std::string_view model) {
    const std::int64_t slot = slot_of(at_ms);
    for (Line& line : lines) {
      if (line.slot == slot && line.upstream == upstream && line.model == model) return line;
    }
    Line line;
    line.slot = slot;
    line.upstream = upstream;
    line.model = model;
    return lines.emplace_back(std::move(line));
  }
};

Rows::Rows(Database& database)
    : database_(database),
      open_call_(database, kOpenCall),
      open_attempt_(database, kOpenAttempt),
      end_call_(database, kEndCall),
      end_attempt_(database, kEndAttempt),
      last_attempt_(database, "SELECT max(number) FROM attempts WHERE call_id = ?"),
      lost_attempts_(database,
                     "SELECT number, upstream, model, reserved_nano FROM attempts WHERE call_id = ? AND state = 0"),
      add_spend_(database, kAddSpend),
      add_run_(database, kAddRun),
      add_event_(database, "INSERT INTO events(at_ms, type, tenant, data) VALUES (?, ?, ?, ?)"),
      last_event_(database.number("SELECT max(seq) FROM events").value_or(0)),
      last_committed_(last_event_) {}

void Rows::open_call(const CallRecord& call, std::string_view upstream, int attempts) {
  Binder bind(open_call_);
  bind(call.id)(ms_of(call.began))(call.tenant)(static_cast<int>(call.lane))(call.run_id)(call.queue)(call.labels);
  bind(call.route)(upstream)(call.dialect)(call.operation)(call.method)(call.path)(call.model)(call.stream);
  bind(call.sdk_retry)(call.idempotency_key)(attempts);
  open_call_.run();
}

void Rows::attempt_ended(const CallRecord& call, std::span<const Reservation> reserved) {
  if (call.attempts.empty()) return;
  const AttemptRow& last = call.attempts.back();
  open_call(call, last.upstream, last.number);
  std::vector<Line> lines;
  std::int64_t charged = 0;
  end_attempts(call, false, reserved, lines, charged);
  add(call, lines);
  if (charged != 0) add_to_run(call.tenant, call.run_id, charged, end_of(call, last));
}

void Rows::open(const CallRecord& call, const OpenRow& row, std::span<const Reservation> reserved) {
  open_call(call, row.upstream, row.attempt);
  std::vector<Line> lines;
  std::int64_t charged = 0;
  end_attempts(call, true, reserved, lines, charged);
  add(call, lines);
  if (charged != 0) add_to_run(call.tenant, call.run_id, charged, ms_of(row.began));

  Binder attempt(open_attempt_);
  attempt(call.id)(row.attempt)(ms_of(row.began))(row.upstream)(row.credential);
  attempt(row.model.empty() ? call.model : row.model)(nano(row.reserved));
  open_attempt_.run();
}

/// `followed`: one that is about to begin comes after the last of them.
void Rows::end_attempts(const CallRecord& call, bool followed, std::span<const Reservation> reserved,
                        std::vector<Line>& lines, std::int64_t& charged) {
  // The last one of those that are written was not counted as one that another follows.
  std::int64_t last_written = 0;
  if (call.attempts.size() + (followed ? 1 : 0) >= 2) {
    last_attempt_.bind(1, call.id);
    if (last_attempt_.step()) last_written = last_attempt_.number(0);
    last_attempt_.reset();
  }
  for (std::size_t i = 0; i < call.attempts.size(); ++i) {
    const AttemptRow& a = call.attempts[i];
    const std::string& model = model_of(call, a);
    const std::int64_t ended_ms = end_of(call, a);
    const std::string_view from = tokens_from(call, a);
    const std::string billed = billed_json(a.usage);
    const auto known = std::ranges::find(reserved, a.number, &Reservation::attempt);
    const auto& tokens = a.usage.tokens;
    const auto count = [&](std::int64_t classifier::TokenCounts::*member) -> std::optional<std::int64_t> {
      if (!tokens) return std::nullopt;
      return (*tokens).*member;
    };
    using classifier::TokenCounts;
    Binder bind(end_attempt_);
    bind(call.id)(a.number)(ms_of(a.began))(ended_ms)(a.upstream)(a.credential)(model)(unless_empty(a.usage.model));
    bind(a.status)(classifier::name_of(a.cls))(unless_empty(a.rule))(unless_empty(a.code))(unless_empty(a.detail));
    bind(unless_empty(a.fingerprint))(unless_empty(a.next))(a.possibly_billed)(a.waited_before.count());
    bind(unless_empty(name_of(a.waited_for)));
    bind(a.hint ? std::optional<std::int64_t>{a.hint->count()} : std::nullopt)(a.took.count());
    bind(unless_empty(a.provider_request_id))(count(&TokenCounts::input))(count(&TokenCounts::cached_input));
    bind(count(&TokenCounts::cache_write_5m))(count(&TokenCounts::cache_write_1h))(count(&TokenCounts::output));
    bind(count(&TokenCounts::reasoning))(from)(unless_empty(billed))(unless_empty(a.usage.stated_usd));
    bind(unless_empty(a.usage.service_tier))(unless_empty(a.usage.speed))(unless_empty(a.usage.inference_geo));
    bind(nano(a.cost))(unless_empty(a.cost_source))(unless_empty(a.cost_tier))(unless_empty(a.prices));
    bind(nano(a.charged));
    bind(known != reserved.end() ? nano(NanoUsd{known->nano}) : std::nullopt);
    end_attempt_.run();
    const bool is_followed = followed || i + 1 < call.attempts.size();
    // Written before, and counted then.
    if (database_.changes() == 0) {
      if (is_followed && a.number == last_written) {
        ledger::add(Line::of(lines, ended_ms, a.upstream, model).sums.retry_nano, nano(a.cost).value_or(0));
      }
      continue;
    }

    AttemptSpend spend;
    spend.followed = is_followed;
    spend.call_answered = true;  // Whether it is not, is known at its end.
    spend.possibly_billed = a.possibly_billed;
    spend.used = tokens.has_value() || !billed.empty();
    spend.tokens_from = from;
    spend.cost_source = a.cost_source;
    spend.input = count(&TokenCounts::input).value_or(0);
    spend.cached_input = count(&TokenCounts::cached_input).value_or(0);
    spend.cache_write = count(&TokenCounts::cache_write_5m).value_or(0);
    ledger::add(spend.cache_write, count(&TokenCounts::cache_write_1h).value_or(0));
    spend.output = count(&TokenCounts::output).value_or(0);
    spend.reasoning = count(&TokenCounts::reasoning).value_or(0);
    spend.cost_nano = nano(a.cost);
    spend.charged_nano = nano(a.charged);
    Line& line = Line::of(lines, ended_ms, a.upstream, model);
    ledger::add(line.sums, spend);
    ledger::add(line.charged, spend.charged_nano.value_or(0));
    ledger::add(charged, spend.charged_nano.value_or(0));
  }
}

/// How many there were, and of the last one where it went.
struct Rows::Lost {
  std::int64_t count = 0;
  std::string upstream{};
  std::string model{};
};

Rows::Lost Rows::end_lost_attempts(const CallRecord& call, std::vector<Line>& lines, std::int64_t& charged) {
  const std::int64_t ended_ms = ms_of(call.ended);
  Lost lost;
  lost_attempts_.bind(1, call.id);
  while (lost_attempts_.step()) {
    ++lost.count;
    lost.upstream = lost_attempts_.text(1);
    lost.model = lost_attempts_.text(2);
    AttemptSpend spend;
    spend.possibly_billed = true;
    spend.tokens_from = "unknown";
    spend.charged_nano = lost_attempts_.number(3);
    Line& line = Line::of(lines, ended_ms, lost.upstream, lost.model);
    ledger::add(line.sums, spend);
    ledger::add(line.charged, *spend.charged_nano);
    ledger::add(charged, *spend.charged_nano);
  }
  if (lost.count == 0) return lost;
  Statement end(database_,
                "UPDATE attempts SET state = 2, ended_ms = ?, possibly_billed = 1, class = 'internal', "
                "tokens_from = 'unknown', charged_nano = reserved_nano WHERE call_id = ? AND state = 0");
  end.bind(1, ended_ms).bind(2, call.id).run();
  Statement count(database_, "UPDATE calls SET attempts = attempts + ? WHERE id = ?");
  count.bind(1, lost.count).bind(2, call.id).run();
  return lost;
}

bool Rows::end(const CallRecord& record, std::span<const Reservation> reserved) {
  const std::string waits = waits_json(record.waits);
  const std::int64_t ended_ms = ms_of(record.ended);
  Binder bind(end_call_);
  bind(record.id)(ms_of(record.began))(ended_ms)(record.tenant)(static_cast<int>(record.lane))(record.run_id);
  bind(record.queue)(record.labels)(record.route)(record.upstream)(record.dialect)(record.operation)(record.method);
  bind(record.path)(record.model)(record.stream)(record.sdk_retry)(record.idempotency_key)(name_of(record.outcome));
  bind(record.status)(classifier::name_of(record.cls))(unless_empty(record.reason));
  bind(static_cast<std::int64_t>(record.attempts.size()))(nano(record.cost))(unless_empty(waits));
  bind(record.first_content ? std::optional<std::int64_t>{record.first_content->count()} : std::nullopt);
  bind(record.duration.count())(static_cast<std::int64_t>(record.bytes_in));
  bind(static_cast<std::int64_t>(record.bytes_out))(unless_empty(record.once))(unless_empty(record.origin));
  bind(nano(record.saved));
  end_call_.run();
  if (database_.changes() == 0) return false;

  std::vector<Line> lines;
  std::int64_t charged = 0;
  end_attempts(record, false, reserved, lines, charged);
  const Lost lost = end_lost_attempts(record, lines, charged);
  const bool answered = record.outcome == Outcome::Answered;
  if (!answered) {
    for (const AttemptRow& a : record.attempts) {
      Line& line = Line::of(lines, end_of(record, a), a.upstream, model_of(record, a));
      ledger::add(line.sums.failed_nano, nano(a.cost).value_or(0));
    }
  }
  const bool tried = !record.attempts.empty();
  std::string_view upstream = tried ? record.attempts.back().upstream : record.upstream;
  std::string_view model = tried ? model_of(record, record.attempts.back()) : record.model;
  if (lost.count > 0) {
    upstream = lost.upstream;
    model = lost.model;
  }
  Line& line = Line::of(lines, ended_ms, upstream, model);
  ++line.sums.calls;
  line.sums.answered += answered ? 1 : 0;
  ledger::add(line.sums.saved_nano, nano(record.saved).value_or(0));
  add(record, lines);
  if (tried || lost.count > 0) add_to_run(record.tenant, record.run_id, charged, ended_ms);
  event(ended_ms, "call.ended", record.tenant, ended_event(record, lost.count));
  return true;
}

void Rows::add(const CallRecord& call, const std::vector<Line>& lines) {
  for (const Line& line : lines) {
    Binder bind(add_spend_);
    bind(line.slot)(call.tenant)(line.upstream)(line.model)(static_cast<int>(call.lane))(call.queue);
    const SpendLine& sums = line.sums;
    bind(sums.calls)(sums.answered)(sums.attempts)(sums.input)(sums.cached_input)(sums.cache_write)(sums.output);
    bind(sums.reasoning)(sums.cost_nano)(sums.retry_nano)(sums.failed_nano)(sums.possibly_billed);
    bind(sums.possibly_billed_nano)(sums.unknown)(sums.unpriced)(sums.estimated_nano)(line.charged)(sums.saved_nano);
    add_spend_.run();
  }
}

void Rows::add_to_run(const std::string& tenant, const std::string& run_id, std::int64_t charged,
                      std::int64_t at_ms) {
  if (run_id.empty()) return;
  Binder bind(add_run_);
  bind(tenant)(run_id)(charged)(at_ms);
  add_run_.run();
}

void Rows::event(std::int64_t at_ms, std::string_view type, const std::string& tenant, const std::string& data) {
  Binder bind(add_event_);
  bind(at_ms)(type)(tenant)(data);
  add_event_.run();
  last_event_ = database_.last_rowid();
}

std::uint64_t Rows::close_unknown(std::int64_t now_ms) {
  std::vector<CallRecord> calls;
  Statement open(database_,
                 "SELECT id, tenant, lane, run_id, queue, upstream, model, labels, idempotency_key FROM calls "
                 "WHERE state = 0 ORDER BY id");
  while (open.step()) {
    CallRecord& call = calls.emplace_back();
    call.id = open.text(0);
    call.tenant = open.text(1);
    call.lane = static_cast<budget::Lane>(open.number(2));
    call.run_id = open.text(3);
    call.queue = open.text(4);
    call.upstream = open.text(5);
    call.model = open.text(6);
    call.labels = open.text(7);
    call.idempotency_key = open.text(8);
  }

  Statement attempts(database_,
                     "SELECT number, state, ended_ms, upstream, model, cost_nano, reserved_nano FROM attempts "
                     "WHERE call_id = ? ORDER BY number");
  // When it really ended, nobody knows; it is charged where it was found.
  Statement end_attempts(database_,
                         "UPDATE attempts SET state = 2, ended_ms = ?, possibly_billed = 1, class = 'crash', "
                         "tokens_from = 'unknown', charged_nano = reserved_nano WHERE call_id = ? AND state = 0");
  Statement end_call(database_,
                     "UPDATE calls SET state = 2, ended_ms = ?, class = 'crash', attempts = ?, cost_nano = ? "
                     "WHERE id = ?");
  std::uint64_t found = 0;
  for (CallRecord& call : calls) {
    std::vector<Line> lines;
    std::int64_t charged = 0;
    std::int64_t count = 0;
    std::optional<std::int64_t> cost;
    std::optional<std::int64_t> reserved;
    attempts.bind(1, call.id);
    while (attempts.step()) {
      ++count;
      const bool was_open = attempts.number(1) == Open;
      call.upstream = attempts.text(3);
      call.model = attempts.text(4);
      Line& line = Line::of(lines, was_open ? now_ms : attempts.number(2), call.upstream, call.model);
      if (!was_open) {
        if (!attempts.is_null(5)) {
          ledger::add(cost.emplace(cost.value_or(0)), attempts.number(5));
          ledger::add(line.sums.failed_nano, attempts.number(5));
        }
        continue;
      }
      ++found;
      const std::int64_t reservation = attempts.number(6);
      AttemptSpend spend;
      spend.possibly_billed = true;
      spend.tokens_from = "unknown";
      spend.charged_nano = reservation;
      ledger::add(line.sums, spend);
      ledger::add(line.charged, reservation);
      ledger::add(charged, reservation);
      if (!attempts.is_null(6)) ledger::add(reserved.emplace(reserved.value_or(0)), reservation);
    }
    ++Line::of(lines, now_ms, call.upstream, call.model).sums.calls;
    end_attempts.bind(1, now_ms).bind(2, call.id).run();
    end_call.bind(1, now_ms).bind(2, count).bind(3, cost).bind(4, call.id).run();
    add(call, lines);
    if (count > 0) add_to_run(call.tenant, call.run_id, charged, now_ms);

    std::string data;
    JsonObject object(data);
    object.text("call_id", call.id);
    object.text("tenant", call.tenant);
    object.text("lane", budget::name_of(call.lane));
    if (!call.run_id.empty()) object.text("run_id", call.run_id);
    if (!call.queue.empty()) object.text("queue", call.queue);
    if (!call.idempotency_key.empty()) object.text("idempotency_key", call.idempotency_key);
    object.text("upstream", call.upstream);
    object.text("model", call.model);
    object.text("class", "crash");
    object.number("attempts", count);
    if (reserved) object.text("charged_usd", budget::usd_text(NanoUsd{*reserved}));
    if (!call.labels.empty()) object.raw("labels", call.labels);
    object.close();
    event(now_ms, "call.unknown", call.tenant, data);
  }
  return found;
}

std::uint64_t Rows::forget_calls(std::int64_t older_than_ms, int most) {
  // UUIDv7: its first 48 bits are the time, so a bound for times is a bound for ids.
  std::array<char, 16> hex{};
  const auto [end, error] =
      std::to_chars(hex.data(), hex.data() + hex.size(), std::max<std::int64_t>(older_than_ms, 0), 16);
  const std::string_view number(hex.data(), static_cast<std::size_t>(end - hex.data()));
  std::string bound = std::string(number.size() < 12 ? 12 - number.size() : 0, '0') + std::string{number};
  bound.insert(8, "-");

  Statement oldest(database_, "SELECT id, ended_ms FROM calls WHERE id < ? AND state <> 0 ORDER BY id LIMIT ?");
  oldest.bind(1, bound).bind(2, most);
  std::vector<std::string> ids;
  std::int64_t latest = 0;
  while (oldest.step()) {
    ids.emplace_back(oldest.text(0));
    latest = std::max(latest, oldest.number(1));
  }
  if (ids.empty()) return 0;
  Statement attempts(database_, "DELETE FROM attempts WHERE call_id = ?");
  Statement calls(database_, "DELETE FROM calls WHERE id = ?");
  std::uint64_t rows = 0;
  for (const std::string& id : ids) {
    attempts.bind(1, id).run();
    rows += static_cast<std::uint64_t>(database_.changes()) + 1;
    calls.bind(1, id).run();
    if (rows >= static_cast<std::uint64_t>(most)) break;
  }
  Statement mark(database_,
                 "INSERT INTO removed(what, until_ms) VALUES ('calls', ?) "
                 "ON CONFLICT(what) DO UPDATE SET until_ms = max(until_ms, excluded.until_ms)");
  mark.bind(1, latest).run();
  return rows;
}

std::uint64_t Rows::forget_runs(std::int64_t older_than_ms, int most) {
  Statement oldest(database_, "SELECT tenant, run_id FROM spend_by_run WHERE last_ms < ? LIMIT ?");
  oldest.bind(1, older_than_ms).bind(2, most);
  std::vector<std::pair<std::string, std::string>> runs;
  while (oldest.step()) runs.emplace_back(oldest.text(0), oldest.text(1));
  Statement run(database_, "DELETE FROM spend_by_run WHERE tenant = ? AND run_id = ?");
  Statement grants(database_, "DELETE FROM grants WHERE tenant = ? AND run_id = ? AND run_id <> ''");
  for (const auto& [tenant, run_id] : runs) {
    run.bind(1, tenant).bind(2, run_id).run();
    grants.bind(1, tenant).bind(2, run_id).run();
  }
  return runs.size();
}

std::uint64_t Rows::forget_events(std::int64_t older_than_ms, int most) {
  // They stand in the order in which they came, so those that are old come first and no index by time is needed.
  Statement first(database_, "SELECT seq, at_ms FROM events WHERE seq < ? ORDER BY seq LIMIT ?");
  first.bind(1, last_event_).bind(2, most);
  std::int64_t last_old = 0;
  while (first.step() && first.number(1) < older_than_ms) last_old = first.number(0);
  first.reset();
  if (last_old == 0) return 0;
  Statement events(database_, "DELETE FROM events WHERE seq <= ?");
  events.bind(1, last_old).run();
  return static_cast<std::uint64_t>(database_.changes());
}

}  // namespace ledger
