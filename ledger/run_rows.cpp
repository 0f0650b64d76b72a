#include "ledger/run_rows.h"

#include <algorithm>

#include "budget/price.h"
#include "ledger/binder.h"
#include "ledger/json_text.h"
#include "ledger/told.h"

namespace ledger {
namespace {

std::optional<std::int64_t> sum(std::optional<std::int64_t> before, std::optional<std::int64_t> more) {
  if (!more) return before;
  return std::clamp(before.value_or(0) + std::clamp(*more, -kMostNano, kMostNano), -kMostNano, kMostNano);
}

enum Body : std::int8_t { Request = 0, Answer = 1 };

std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};  // NOLINT
}

RunState state_of(std::int64_t number) { return static_cast<RunState>(std::clamp<std::int64_t>(number, 0, 5)); }
int number_of(RunState state) { return static_cast<int>(state); }
std::string name_of(RunState state) { return std::string{kRunStateNames[static_cast<std::size_t>(state)]}; }

}  // namespace

struct RunRows::Row {
  NewRun run{};
  RunState state = RunState::Queued;
  std::int64_t fence = 0;
  int starts = 0, crashes = 0;
  std::optional<std::int64_t> cost_nano{}, started_ms{};
  std::string webhook{};  // As stored.
};

RunRows::RunRows(Database& database, const Box& box, Rows& rows, QueueLoad& load)
    : database_(database),
      box_(box),
      rows_(rows),
      load_(load),
      select_(database,
              "SELECT id, tenant, queue, lane, run_id, labels, route, model, key, scope, fingerprint, ordering_key, "
              "version, webhook, created_ms, not_before_ms, deadline_ms, state, fence, starts, crashes, cost_nano, "
              "started_ms "
              "FROM runs WHERE id = ?"),
      by_scope_(database, "SELECT id, state, fingerprint, ended_ms FROM runs WHERE scope = ?"),
      insert_(
          database,
          "INSERT INTO runs(id, scope, fingerprint, state, tenant, queue, lane, run_id, labels, route, model, key, "
          "ordering_key, version, webhook, created_ms, not_before_ms, deadline_ms) "
          "VALUES (?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
      body_(database, "SELECT body FROM run_bodies WHERE run = ? AND what = ?"),
      keep_body_(database, "INSERT OR REPLACE INTO run_bodies(run, what, body) VALUES (?, ?, ?)"),
      drop_body_(database, "DELETE FROM run_bodies WHERE run = ? AND what = ?"),
      take_(database,
            "UPDATE runs SET state = 1, fence = fence + 1, starts = starts + 1, lease_ms = ?2, lease_until_ms = ?3, "
            "started_ms = coalesce(started_ms, ?4) WHERE id = ?1"),
      renew_(database,
             "UPDATE runs SET lease_ms = ?3, lease_until_ms = ?4 WHERE id = ?1 AND fence = ?2 AND state = 1"),
      end_(database,
           "UPDATE runs SET state = ?2, lease_ms = NULL, lease_until_ms = NULL, ended_ms = ?3, class = ?4, why = ?5, "
           "call_id = coalesce(?6, call_id), status = ?7, cost_nano = coalesce(?8, cost_nano), has_answer = ?9, "
           "stream = ?10 WHERE id = ?1"),
      give_back_(database,
                 "UPDATE runs SET state = 0, lease_ms = NULL, lease_until_ms = NULL, not_before_ms = ?2, class = ?3, "
                 "why = ?4, call_id = coalesce(?5, call_id), cost_nano = coalesce(?6, cost_nano) WHERE id = ?1"),
      webhook_(database,
               "INSERT OR REPLACE INTO webhooks(run, state, tenant, url, next_ms, attempts, body, fence) "
               "VALUES (?, 0, ?, ?, ?, 0, ?, (SELECT fence FROM runs WHERE id = ?1))"),
      size_(database, "SELECT length(body) FROM run_bodies WHERE run = ? AND what = ?") {
  for (const char* of : {"INDEXED BY runs_queued WHERE r.state = 0", "INDEXED BY runs_running WHERE r.state = 1"}) {
    open_.runs += database.number(std::string{"SELECT count(*) FROM runs r "} + of).value_or(0);
    open_.bytes += database
                       .number(std::string{"SELECT sum((SELECT length(b.body) FROM run_bodies b WHERE b.run = r.id "
                                           "AND b.what = 0)) FROM runs r "} +
                               of)
                       .value_or(0);
  }
  open_before_ = open_;
}

std::optional<RunRows::Row> RunRows::row_of(const std::string& id) {
  if (!select_.bind(1, id).step()) return std::nullopt;
  Row row;
  NewRun& run = row.run;
  int at = 0;
  for (std::string* text :
       {&run.id, &run.tenant, &run.queue, &run.lane, &run.run_id, &run.labels, &run.route, &run.model, &run.key}) {
    *text = select_.text(at++);
  }
  for (Digest* digest : {&run.scope, &run.fingerprint}) {
    const std::string_view bytes = select_.blob(at++);
    std::copy_n(bytes.begin(), std::min(bytes.size(), digest->size()), digest->begin());
  }
  run.ordering_key = select_.text(at++);
  run.version = select_.text(at++);
  row.webhook = select_.blob(at++);
  // Of what cannot be read any more its end is not told, and leaves a letter (SqlBooks::webhooks_due).
  if (!row.webhook.empty()) run.webhook = box_.open(row.webhook, url_place(run.id)).value_or(std::string{});
  run.created_ms = select_.number(at++);
  run.not_before_ms = select_.number(at++);
  run.deadline_ms = select_.maybe_number(at++);
  row.state = state_of(select_.number(at++));
  row.fence = select_.number(at++);
  row.starts = static_cast<int>(select_.number(at++));
  row.crashes = static_cast<int>(select_.number(at++));
  row.cost_nano = select_.maybe_number(at++);
  row.started_ms = select_.maybe_number(at++);
  select_.reset();
  return row;
}

std::optional<NewRun> RunRows::find(const std::string& id) {
  std::optional<Row> row = row_of(id);
  if (!row) return std::nullopt;
  return std::move(row->run);
}

void RunRows::sweep_by(std::int64_t at_ms) { sweep_at_ms_ = std::min(sweep_at_ms_.value_or(at_ms), at_ms); }

void RunRows::lease_is(std::int64_t lease_ms) {
  longest_lease_ms_ = std::max(longest_lease_ms_, lease_ms);
  shortest_lease_ms_ = std::min(shortest_lease_ms_.value_or(lease_ms), lease_ms);
}

std::int64_t RunRows::request_bytes(const std::string& id) {
  std::int64_t bytes = 0;
  if (size_.bind(1, id).bind(2, int{Request}).step()) bytes = size_.number(0);
  size_.reset();
  return bytes;
}

/// It is open no more.
void RunRows::left(const std::string& id) {
  --open_.runs;
  open_.bytes -= request_bytes(id);
}

RunAnswer RunRows::accept(const NewRun& run, const std::string& request, const RunBounds& bounds) {
  RunAnswer answer;
  std::string outlived;  // The run that had the key for its time.
  bool same = false;
  if (by_scope_.bind_blob(1, bytes_of(run.scope)).step()) {
    answer.id = by_scope_.text(0);
    answer.state = state_of(by_scope_.number(1));
    same = by_scope_.blob(2) == bytes_of(run.fingerprint);
    const std::optional<std::int64_t> ended_ms = by_scope_.maybe_number(3);
    by_scope_.reset();
    const bool over =
        is_over(answer.state) && run.key_ttl_ms > 0 && ended_ms && *ended_ms + run.key_ttl_ms <= run.created_ms;
    if (!over) {
      answer.kind = same ? RunAnswer::Kind::Same : RunAnswer::Kind::OtherBody;
      return answer;
    }
    outlived = answer.id;
  }
  if (run.most_letters > 0) {
    const QueueLoad::Load load = load_.of(run.queue);
    if (load.letters + load.runs >= run.most_letters) {
      answer.kind = RunAnswer::Kind::Full;
      answer.letters = load.letters;
      answer.unfinished = load.runs;
      return answer;
    }
  }
  const auto bytes = static_cast<std::int64_t>(request.size());
  if (open_.runs >= bounds.open || open_.bytes > bounds.bytes - bytes) {
    answer.kind = open_.runs >= bounds.open ? RunAnswer::Kind::TooMany : RunAnswer::Kind::TooMuch;
    return answer;
  }
  if (!outlived.empty()) give_up_scope(outlived, run.scope, same);
  Binder bind(insert_);
  bind(run.id).blob(bytes_of(run.scope)).blob(bytes_of(run.fingerprint))(run.tenant)(run.queue)(run.lane)(run.run_id);
  const std::string webhook = run.webhook.empty() ? std::string{} : box_.close(run.webhook, url_place(run.id));
  bind(run.labels)(run.route)(run.model)(run.key)(run.ordering_key)(run.version).blob(webhook)(run.created_ms);
  bind(run.not_before_ms)(run.deadline_ms);
  insert_.run();
  load_.runs(run.queue, 1);
  keep_body_.bind(1, run.id).bind(2, int{Request}).bind_blob(3, std::string_view{request}).run();
  ++open_.runs;
  open_.bytes += bytes;
  answer.kind = RunAnswer::Kind::Accepted;
  answer.id = run.id;
  return answer;
}

/// Its key is free for another run. What is still to be made good of it is made good by that one if it is the same
/// job; else it stays its own.
void RunRows::give_up_scope(const std::string& id, const Digest& scope, bool same_job) {
  Statement fresh(database_, "SELECT randomblob(?)");
  fresh.bind(1, static_cast<int>(scope.size()));
  if (!fresh.step()) return;
  const std::string other{fresh.blob(0)};
  Statement run(database_, "UPDATE runs SET scope = ? WHERE id = ?");
  run.bind_blob(1, std::string_view{other}).bind(2, id).run();
  if (same_job) return;
  Statement letter(database_, "UPDATE dead_letters SET scope = ? WHERE scope = ? AND state = 0");
  letter.bind_blob(1, std::string_view{other}).bind_blob(2, bytes_of(scope)).run();
}

TakenRun RunRows::take(const std::string& id, std::int64_t lease_ms, std::int64_t now_ms) {
  TakenRun taken;
  std::optional<Row> row = row_of(id);
  if (!row || row->state != RunState::Queued) {
    taken.why = row ? "it is " + name_of(row->state) : "there is no such run";
    return taken;
  }
  take_.bind(1, id).bind(2, lease_ms).bind(3, now_ms + lease_ms).bind(4, now_ms).run();
  lease_is(lease_ms);
  sweep_by(now_ms + 2 * lease_ms);
  taken.taken = true;
  taken.fence = row->fence + 1;
  taken.starts = row->starts + 1;
  taken.crashes = row->crashes;
  taken.started_ms = row->started_ms.value_or(now_ms);
  taken.run = std::move(row->run);
  body_.bind(1, id).bind(2, int{Request});
  if (body_.step()) {
    auto request = box_.open_request(body_.blob(0), run_place(id));
    if (request) {
      taken.run.request = std::make_shared<const KeptRequest>(std::move(*request));
    } else {
      taken.why = "its request cannot be read: " + request.error();
    }
  } else {
    taken.why = "its request is not there";
  }
  body_.reset();
  return taken;
}

std::vector<std::string> RunRows::renew(const std::vector<std::pair<std::string, std::int64_t>>& held,
                                        std::int64_t lease_ms, std::int64_t now_ms) {
  std::vector<std::string> lost;
  lease_is(lease_ms);
  for (const auto& [id, fence] : held) {
    renew_.bind(1, id).bind(2, fence).bind(3, lease_ms).bind(4, now_ms + lease_ms).run();
    if (database_.changes() == 0) lost.push_back(id);
  }
  if (lost.size() < held.size()) sweep_by(now_ms + 2 * lease_ms);
  return lost;
}

void RunRows::keep_answer(const std::string& id, const std::string& bytes) {
  if (bytes.empty()) {
    drop_body_.bind(1, id).bind(2, int{Answer}).run();
  } else {
    keep_body_.bind(1, id).bind(2, int{Answer}).bind_blob(3, std::string_view{bytes}).run();
  }
}

bool RunRows::end(const RunOutcome& outcome, const std::string& answer, std::int64_t now_ms) {
  const std::optional<Row> row = row_of(outcome.id);
  if (!row || row->state != RunState::Running || row->fence != outcome.fence || outcome.state == RunState::Running) {
    ++late_;
    return false;
  }
  const std::optional<std::int64_t> cost = sum(row->cost_nano, outcome.cost_nano);
  // The answer is sealed for its call.
  std::optional<std::string_view> call_id;
  if (!outcome.call_id.empty() || !answer.empty()) call_id = outcome.call_id;
  if (outcome.state == RunState::Queued) {
    give_back_.bind(1, outcome.id).bind(2, outcome.not_before_ms).bind(3, outcome.cls).bind(4, outcome.why);
    give_back_.bind(5, call_id).bind(6, cost).run();
    return true;
  }
  end_.bind(1, outcome.id).bind(2, number_of(outcome.state)).bind(3, now_ms).bind(4, outcome.cls);
  end_.bind(5, outcome.why).bind(6, call_id).bind(7, outcome.status).bind(8, cost).bind(9, !answer.empty());
  end_.bind(10, outcome.answer && outcome.answer->stream).run();
  load_.runs(row->run.queue, -1);
  keep_answer(outcome.id, answer);
  left(outcome.id);
  ended(*row,
        outcome.state,
        outcome.cls,
        outcome.why,
        outcome.call_id,
        outcome.status,
        cost,
        outcome.webhook_body,
        now_ms);
  return true;
}

std::optional<std::string> RunRows::in_vain(const Digest& scope) {
  if (!by_scope_.bind_blob(1, bytes_of(scope)).step()) return std::nullopt;
  const RunState state = state_of(by_scope_.number(1));
  std::string id{by_scope_.text(0)};
  by_scope_.reset();
  if (state != RunState::Failed && state != RunState::Dead) return std::nullopt;
  return id;
}

/// What is told of the end before must not count for the next one.
void RunRows::next_end(const std::string& id) {
  Statement next(database_, "UPDATE runs SET fence = fence + 1 WHERE id = ?");
  next.bind(1, id).run();
}

void RunRows::answered(const Digest& scope, const std::string& call_id, const StoredAnswer* answer, int status,
                       std::optional<std::int64_t> cost_nano, const std::string& webhook_body, std::int64_t now_ms) {
  const std::optional<std::string> found = in_vain(scope);
  if (!found) return;
  const std::string& id = *found;
  const std::optional<Row> row = row_of(id);
  const std::optional<std::int64_t> cost = sum(row->cost_nano, cost_nano);
  // Rare, so that it is not made before the transaction.
  const std::string stored = answer == nullptr ? std::string{} : box_.close(*answer, answer_place(id, call_id));
  end_.bind(1, id).bind(2, number_of(RunState::Succeeded)).bind(3, now_ms).bind(4, "none").bind(5, "");
  end_.bind(6, call_id).bind(7, status).bind(8, cost).bind(9, !stored.empty());
  end_.bind(10, answer != nullptr && answer->stream).run();
  keep_answer(id, stored);
  next_end(id);
  ended(*row, RunState::Succeeded, "none", "", call_id, status, cost, webhook_body, now_ms);
}

void RunRows::ended(const Row& row, RunState state, std::string_view cls, std::string_view why,
                    std::string_view call_id, int status, std::optional<std::int64_t> cost_nano,
                    const std::string& webhook_body, std::int64_t now_ms) {
  const NewRun& run = row.run;
  std::string data;
  JsonObject object(data);
  object.text("run", run.id);
  object.text("tenant", run.tenant);
  object.text("state", name_of(state));
  object.text("class", cls);
  if (!why.empty()) object.text("why", why);
  object.text("lane", run.lane);
  if (!run.queue.empty()) object.text("queue", run.queue);
  if (!run.run_id.empty()) object.text("run_id", run.run_id);
  if (!run.key.empty()) object.text("idempotency_key", run.key);
  if (!call_id.empty()) object.text("call_id", call_id);
  object.number("status", status);
  object.number("starts", row.starts);
  if (cost_nano) {
    object.text("cost_usd", budget::usd_text(budget::NanoUsd{*cost_nano}));
  } else {
    object.raw("cost_usd", "null");
  }
  if (!run.labels.empty()) object.raw("labels", run.labels);
  object.close();
  rows_.event(now_ms, "run.ended", run.tenant, data);
  if (row.webhook.empty()) return;
  const std::string body = box_.close(
      webhook_body.empty() ? told_of_run({run.id, run.queue, run.run_id, state, cls, status, cost_nano, now_ms})
                           : webhook_body,
      webhook_place(run.id));
  webhook_.bind(1, run.id).bind(2, run.tenant).bind_blob(3, std::string_view{row.webhook}).bind(4, now_ms);
  webhook_.bind_blob(5, std::string_view{body}).run();
}

std::optional<RunState> RunRows::cancel(const std::string& id, const std::string& tenant,
                                        const std::string& webhook_body, std::int64_t now_ms, bool& changed) {
  const std::optional<Row> row = row_of(id);
  if (!row || (!tenant.empty() && row->run.tenant != tenant)) return std::nullopt;
  if (row->state != RunState::Queued) return row->state;
  changed = true;
  end_.bind(1, id).bind(2, number_of(RunState::Cancelled)).bind(3, now_ms).bind(4, "cancelled").bind(5, "");
  end_.bind(6, nullptr).bind(7, 0).bind(8, nullptr).bind(9, false).bind(10, false).run();
  left(id);
  load_.runs(row->run.queue, -1);
  ended(*row, RunState::Cancelled, "cancelled", "", "", 0, row->cost_nano, webhook_body, now_ms);
  return RunState::Cancelled;
}

std::optional<RunState> RunRows::retry(const std::string& id, const std::string& tenant, const RunBounds& bounds,
                                       std::int64_t now_ms, bool& changed) {
  const std::optional<Row> row = row_of(id);
  if (!row || (!tenant.empty() && row->run.tenant != tenant)) return std::nullopt;
  if (row->state != RunState::Failed && row->state != RunState::Dead) return row->state;
  const std::int64_t bytes = request_bytes(id);
  if (open_.runs >= bounds.open || open_.bytes > bounds.bytes - bytes) return row->state;
  changed = true;
  ++open_.runs;
  open_.bytes += bytes;
  // Whoever retries it by hand gives it three starts of the process again.
  Statement update(
      database_,
      "UPDATE runs SET state = 0, not_before_ms = ?2, started_ms = NULL, ended_ms = NULL, crashes = 0, class = '', "
      "why = '', status = 0, has_answer = 0 WHERE id = ?1");
  update.bind(1, id).bind(2, now_ms).run();
  load_.runs(row->run.queue, 1);
  keep_answer(id, {});
  next_end(id);
  Statement untold(database_, "DELETE FROM webhooks WHERE run = ?");
  untold.bind(1, id).run();
  return RunState::Queued;
}

bool RunRows::webhook_ended(const WebhookRow& row, Store::Telling how) {
  if (how == Store::Telling::Again) {
    Statement again(database_,
                    "UPDATE webhooks SET next_ms = ?3, attempts = ?4 WHERE run = ?1 AND fence = ?2 AND state = 0");
    again.bind(1, row.run).bind(2, row.fence).bind(3, row.next_ms).bind(4, row.attempts).run();
  } else {
    Statement over(database_,
                   "UPDATE webhooks SET state = ?3, attempts = ?4, body = x'' "
                   "WHERE run = ?1 AND fence = ?2 AND state <> 1");
    over.bind(1, row.run).bind(2, row.fence);
    over.bind(3, how == Store::Telling::Told ? 1 : 2).bind(4, row.attempts).run();
  }
  return database_.changes() > 0;
}

void RunRows::queue_again() {
  // A run for which nothing had been sent when the process ended is no suspect: it was waiting, as others were.
  database_.run(
      "UPDATE runs SET state = 0, lease_ms = NULL, lease_until_ms = NULL, crashes = crashes + EXISTS "
      "(SELECT 1 FROM idempotency i JOIN attempts a ON a.call_id = i.call_id WHERE i.scope = runs.scope AND i.state "
      "= "
      "0) WHERE state = 1");
}

void RunRows::sweep(std::int64_t now_ms) {
  Statement over(database_,
                 "UPDATE runs SET state = 0, lease_ms = NULL, lease_until_ms = NULL "
                 "WHERE state = 1 AND lease_until_ms + lease_ms <= ?");
  over.bind(1, now_ms).run();
  sweep_at_ms_ = database_.number("SELECT min(lease_until_ms + lease_ms) FROM runs WHERE state = 1");
  shortest_lease_ms_ = database_.number("SELECT min(lease_ms) FROM runs WHERE state = 1");
}

void RunRows::forbear(std::int64_t now_ms) {
  if (!sweep_at_ms_) return;
  sweep_at_ms_ = std::max(*sweep_at_ms_, now_ms + longest_lease_ms_);
  sweep_before_ = sweep_at_ms_;
}

bool RunRows::expire(std::int64_t older_than_ms, int most) {
  Statement oldest(database_,
                   "SELECT id FROM runs WHERE ended_ms IS NOT NULL AND ended_ms < ? ORDER BY ended_ms LIMIT ?");
  oldest.bind(1, older_than_ms).bind(2, most);
  std::vector<std::string> ids;
  while (oldest.step()) ids.emplace_back(oldest.text(0));
  Statement bodies(database_, "DELETE FROM run_bodies WHERE run = ?");
  Statement webhooks(database_, "DELETE FROM webhooks WHERE run = ?");
  Statement runs(database_, "DELETE FROM runs WHERE id = ?");
  for (const std::string& id : ids) {
    for (Statement* each : {&bodies, &webhooks, &runs}) each->bind(1, id).run();
  }
  return !ids.empty();
}

void RunRows::committed() {
  sweep_before_ = sweep_at_ms_;
  late_before_ = late_;
  open_before_ = open_;
}

void RunRows::rolled_back() {
  select_.reset();
  by_scope_.reset();
  body_.reset();
  size_.reset();
  sweep_at_ms_ = sweep_before_;
  late_ = late_before_;
  open_ = open_before_;
}

}  // namespace ledger
