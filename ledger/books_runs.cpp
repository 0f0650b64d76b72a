// Questions about runs and their webhooks.

#include <algorithm>
#include <utility>

#include "ledger/books_sql.h"
#include "ledger/times.h"

namespace ledger {
namespace {

constexpr std::string_view kLine =
    "SELECT id, tenant, queue, lane, run_id, key, ordering_key, version, class, why, route, model, call_id, webhook, "
    "labels, state, (SELECT w.state FROM webhooks w WHERE w.run = runs.id), created_ms, not_before_ms, started_ms, "
    "ended_ms, deadline_ms, lease_until_ms, starts, crashes, status, cost_nano, has_answer FROM runs";

RunLine line_of(const Statement& row, const Box& box) {
  RunLine line;
  int at = 0;
  for (std::string* text : {&line.id,
                            &line.tenant,
                            &line.queue,
                            &line.lane,
                            &line.run_id,
                            &line.key,
                            &line.ordering_key,
                            &line.version,
                            &line.cls,
                            &line.why,
                            &line.route,
                            &line.model,
                            &line.call_id,
                            &line.webhook,
                            &line.labels}) {
    *text = row.blob(at++);
  }
  if (!line.webhook.empty()) line.webhook = box.open(line.webhook, url_place(line.id)).value_or(std::string{});
  line.state = kRunStateNames[static_cast<std::size_t>(
      std::clamp<std::int64_t>(row.number(at++), 0, kRunStateNames.size() - 1))];
  constexpr std::string_view kWebhookStates[] = {"waiting", "told", "dead"};
  if (!row.is_null(at)) line.webhook_state = kWebhookStates[std::clamp<std::int64_t>(row.number(at), 0, 2)];
  ++at;
  line.created_ms = row.number(at++);
  line.not_before_ms = row.number(at++);
  line.started_ms = row.maybe_number(at++);
  line.ended_ms = row.maybe_number(at++);
  line.deadline_ms = row.maybe_number(at++);
  line.lease_until_ms = row.maybe_number(at++);
  line.starts = static_cast<int>(row.number(at++));
  line.crashes = static_cast<int>(row.number(at++));
  line.status = static_cast<int>(row.number(at++));
  line.cost_nano = row.maybe_number(at++);
  line.has_answer = row.number(at++) != 0;
  return line;
}

constexpr std::string_view kWebhookRow =
    "SELECT run, tenant, url, body, next_ms, attempts, fence, "
    "coalesce((SELECT queue FROM runs WHERE runs.id = run), '') FROM webhooks";

WebhookRow webhook_of(const Statement& row, const Box& box) {
  WebhookRow one;
  one.run = row.text(0);
  one.tenant = row.text(1);
  auto url = box.open(row.blob(2), url_place(one.run));
  auto body =
      row.blob(3).empty() ? std::expected<std::string, std::string>{} : box.open(row.blob(3), webhook_place(one.run));
  if (url && body && !url->empty()) {
    one.url = std::move(*url);
    one.body = std::move(*body);
  } else {
    one.unreadable = !url ? url.error() : !body ? body.error() : "it was not kept";
  }
  one.next_ms = row.number(4);
  one.attempts = static_cast<int>(row.number(5));
  one.fence = row.number(6);
  one.queue = row.text(7);
  return one;
}

}  // namespace

SqlBooks::Answer<std::vector<RunLine>> SqlBooks::runs(const RunsAsk& ask) {
  return asked<std::vector<RunLine>>([&]() -> std::vector<RunLine> {
    std::string sql = std::string{kLine} + " WHERE id < ?";
    std::vector<std::string_view> texts;
    const auto is = [&](std::string_view column, const std::string& value) {
      if (value.empty()) return;
      sql.append(" AND ").append(column).append(" = ?");
      texts.push_back(value);
    };
    is("tenant", ask.tenant);
    is("queue", ask.queue);
    is("run_id", ask.run_id);
    is("key", ask.key);
    if (!ask.run_id.empty()) sql += " AND run_id <> ''";
    if (!ask.key.empty()) sql += " AND key <> ''";
    if (!ask.state.empty()) {
      const auto state = std::ranges::find(kRunStateNames, ask.state);
      if (state == kRunStateNames.end()) return {};
      // A literal, so that the indexes of queued and running ones are found.
      sql += " AND state = " + std::to_string(state - kRunStateNames.begin());
    }
    // Ids are in the order of acceptance, or a little ahead of it: so nothing older is looked at.
    if (ask.since_ms > 0) sql += " AND created_ms >= ? AND id >= ?";
    Statement row{db_, sql + " ORDER BY id DESC LIMIT ?"};
    row.bind(1, ask.after.empty() ? std::string_view{"~"} : std::string_view{ask.after});
    int at = 2;
    for (const std::string_view text : texts) row.bind(at++, text);
    const std::string first = first_id(ask.since_ms);
    if (ask.since_ms > 0) {
      row.bind(at++, ask.since_ms);
      row.bind(at++, std::string_view{first});
    }
    row.bind(at, limit_of(ask.most));
    std::vector<RunLine> lines;
    while (row.step()) lines.push_back(line_of(row, box_));
    return lines;
  });
}

SqlBooks::Answer<std::optional<RunLine>> SqlBooks::run(std::string_view id, std::string_view tenant) {
  using Found = std::optional<RunLine>;
  return asked<Found>([&]() -> Found {
    Statement row{db_, std::string{kLine} + " WHERE id = ?1 AND (?2 = '' OR tenant = ?2)"};
    if (!row.bind(1, id).bind(2, tenant).step()) return std::nullopt;
    return line_of(row, box_);
  });
}

SqlBooks::Answer<std::shared_ptr<const StoredAnswer>> SqlBooks::run_answer(std::string_view id) {
  using Found = std::shared_ptr<const StoredAnswer>;
  return asked<Found>([&]() -> Found {
    Statement row{db_,
                  "SELECT b.body, r.call_id, r.status, r.stream, r.cost_nano FROM runs r "
                  "JOIN run_bodies b ON b.run = r.id AND b.what = 1 WHERE r.id = ?"};
    if (!row.bind(1, id).step()) return nullptr;
    auto answer = box_.open_answer(row.blob(0), answer_place(id, row.text(1)));
    if (!answer) return nullptr;
    answer->call_id = row.text(1);
    answer->status = static_cast<int>(row.number(2));
    answer->stream = row.number(3) != 0;
    if (!row.is_null(4)) answer->cost = budget::NanoUsd{row.number(4)};
    return std::make_shared<const StoredAnswer>(std::move(*answer));
  });
}

SqlBooks::Answer<std::vector<WaitingRun>> SqlBooks::waiting_runs(std::string_view queue, std::int64_t before_ms,
                                                                 std::string_view after, std::size_t most) {
  return asked<std::vector<WaitingRun>>([&] {
    Statement row{
        db_,
        "SELECT id, tenant, queue, lane, ordering_key, created_ms, not_before_ms, deadline_ms, starts, "
        "crashes FROM runs r INDEXED BY runs_queued "
        "WHERE state = 0 AND queue = ? AND id > ? AND not_before_ms <= ? AND (ordering_key = '' OR NOT EXISTS "
        "(SELECT 1 FROM runs o INDEXED BY runs_ordered WHERE o.queue = r.queue AND o.tenant = r.tenant AND "
        "o.ordering_key = r.ordering_key AND o.ordering_key <> '' AND o.state < 2 AND o.id <> r.id AND "
        "(o.id < r.id OR o.state = 1))) ORDER BY id LIMIT ?"};
    std::vector<WaitingRun> waiting;
    for (row.bind(1, queue).bind(2, after).bind(3, before_ms).bind(4, limit_of(most)); row.step();) {
      WaitingRun run;
      int at = 0;
      for (std::string* text : {&run.id, &run.tenant, &run.queue, &run.lane, &run.ordering_key})
        *text = row.text(at++);
      run.created_ms = row.number(at++);
      run.not_before_ms = row.number(at++);
      run.deadline_ms = row.maybe_number(at++);
      run.starts = static_cast<int>(row.number(at++));
      run.crashes = static_cast<int>(row.number(at++));
      waiting.push_back(std::move(run));
    }
    return waiting;
  });
}

SqlBooks::Answer<std::optional<std::int64_t>> SqlBooks::next_run_at(std::int64_t now_ms) {
  return asked<std::optional<std::int64_t>>([&] {
    Statement row{db_, "SELECT min(not_before_ms) FROM runs WHERE state = 0 AND not_before_ms > ?"};
    (void)row.bind(1, now_ms).step();
    return row.maybe_number(0);
  });
}

SqlBooks::Answer<std::vector<RunsPending>> SqlBooks::runs_pending(std::int64_t now_ms) {
  return asked<std::vector<RunsPending>>([&] {
    const Transaction snapshot{db_, Transaction::Kind::Read};
    std::vector<RunsPending> pending;
    const auto of = [&](std::string_view queue) -> RunsPending& {
      const auto found = std::ranges::find(pending, queue, &RunsPending::queue);
      if (found != pending.end()) return *found;
      RunsPending fresh;
      fresh.queue = queue;
      return pending.emplace_back(std::move(fresh));
    };
    Statement queued{db_,
                     "SELECT queue, sum(not_before_ms <= ?1), sum(not_before_ms > ?1), "
                     "min(CASE WHEN not_before_ms <= ?1 THEN max(created_ms, not_before_ms) END) "
                     "FROM runs INDEXED BY runs_queued WHERE state = 0 GROUP BY queue"};
    for (queued.bind(1, now_ms); queued.step();) {
      RunsPending& queue = of(queued.text(0));
      queue.waiting = queued.number(1);
      queue.scheduled = queued.number(2);
      queue.oldest_ms = queued.number(3);
    }
    Statement running{db_, "SELECT queue, count(*) FROM runs INDEXED BY runs_running WHERE state = 1 GROUP BY queue"};
    while (running.step()) of(running.text(0)).running = running.number(1);
    return pending;
  });
}

SqlBooks::Answer<std::vector<WebhookRow>> SqlBooks::webhooks_due(std::int64_t now_ms, std::size_t most) {
  return asked<std::vector<WebhookRow>>([&] {
    Statement row{db_, std::string{kWebhookRow} + " WHERE state = 0 AND next_ms <= ? ORDER BY next_ms LIMIT ?"};
    std::vector<WebhookRow> due;
    for (row.bind(1, now_ms).bind(2, limit_of(most)); row.step();) due.push_back(webhook_of(row, box_));
    return due;
  });
}

SqlBooks::Answer<std::optional<WebhookRow>> SqlBooks::untold_webhook(std::string_view run) {
  return asked<std::optional<WebhookRow>>([&]() -> std::optional<WebhookRow> {
    Statement row{db_, std::string{kWebhookRow} + " WHERE state = 2 AND run = ?"};
    if (!row.bind(1, run).step()) return std::nullopt;
    return webhook_of(row, box_);
  });
}

}  // namespace ledger
