// Questions about single calls: lists, one of them whole, the export.

#include <algorithm>
#include <iterator>

#include "ledger/books_sql.h"
#include "ledger/times.h"

namespace ledger {
namespace {

constexpr int kPage = 5'000;  // Calls that one reading looks through.

std::string lane_text(std::int64_t lane) {
  const auto known = static_cast<std::int64_t>(budget::kLaneNames.size());
  return lane >= 0 && lane < known ? std::string{budget::kLaneNames[static_cast<std::size_t>(lane)]}
                                   : std::to_string(lane);
}

RowState state_of(std::int64_t state) { return static_cast<RowState>(std::clamp<std::int64_t>(state, 0, 2)); }

/// Conditions, each with the text for its parameter.
struct Filter {
  std::string sql{};
  std::vector<std::string> values{};
  void add(std::string_view column, const std::string& value) {
    if (value.empty()) return;
    sql.append(" AND ").append(column).append(" = ?");
    values.push_back(value);
  }
};

int bind_all(Statement& statement, int at, const std::vector<std::string>& values) {
  for (const std::string& value : values) statement.bind(at++, value);
  return at;
}

constexpr std::string_view kLine =
    "SELECT id, tenant, lane, run_id, queue, upstream, model, state, outcome, class, once, began_ms, ended_ms, "
    "status, "
    "attempts, cost_nano, duration_us FROM calls WHERE id >= ? AND id < ?";

CallLine line_of(const Statement& row) {
  CallLine line;
  line.id = row.text(0);
  line.tenant = row.text(1);
  line.lane = lane_text(row.number(2));
  line.run_id = row.text(3);
  line.queue = row.text(4);
  line.upstream = row.text(5);
  line.model = row.text(6);
  line.state = name_of(state_of(row.number(7)));
  line.outcome = row.text(8);
  line.cls = row.text(9);
  line.once = row.text(10);
  line.began_ms = row.number(11);
  line.ended_ms = row.maybe_number(12);
  line.status = static_cast<int>(row.number(13));
  line.attempts = static_cast<int>(row.number(14));
  line.cost_nano = row.maybe_number(15);
  line.duration_us = row.number(16);
  return line;
}

/// The page that ends before `end`, of about `most` calls; empty `first`: all before it.
IdPage page_before(Database& database, const std::string& end, int most) {
  Statement next{database, "SELECT id FROM calls WHERE id < ? ORDER BY id DESC LIMIT 1 OFFSET ?"};
  next.bind(1, end).bind(2, most - 1);
  if (!next.step()) return {{}, end};
  return {std::string{next.text(0)}, end};
}

}  // namespace

const std::string& call_columns() {
  static const std::string columns =
      "id, state, began_ms, ended_ms, tenant, lane, run_id, queue, labels, route, upstream, dialect, operation, "
      "method, "
      "path, model, stream, sdk_retry, idempotency_key, outcome, status, class, reason, cost_nano, waits, "
      "first_content_us, duration_us, bytes_in, bytes_out, once, origin, saved_nano";
  return columns;
}

CallDetail call_of(const Statement& row, int from) {
  int at = from;
  const auto text = [&] { return std::string{row.text(at++)}; };
  const auto number = [&] { return row.number(at++); };
  const auto maybe = [&] { return row.maybe_number(at++); };
  CallDetail call;
  call.id = text();
  call.state = state_of(number());
  call.began_ms = number();
  call.ended_ms = maybe();
  call.tenant = text();
  call.lane = lane_text(number());
  call.run_id = text();
  call.queue = text();
  call.labels = text();
  call.route = text();
  call.upstream = text();
  call.dialect = text();
  call.operation = text();
  call.method = text();
  call.path = text();
  call.model = text();
  call.stream = number() != 0;
  call.sdk_retry = number() != 0;
  call.idempotency_key = text();
  call.outcome = text();
  call.status = static_cast<int>(number());
  call.cls = text();
  call.reason = text();
  call.cost_nano = maybe();
  call.waits = text();
  call.first_content_us = maybe();
  call.duration_us = maybe();
  call.bytes_in = number();
  call.bytes_out = number();
  call.once = text();
  call.origin = text();
  call.saved_nano = maybe();
  return call;
}

const std::string& attempt_columns() {
  static const std::string columns =
      "number, state, began_ms, ended_ms, upstream, credential, model, model_answered, status, class, rule, code, "
      "detail, "
      "fingerprint, next, possibly_billed, waited_before_ms, waited_for, hint_ms, took_us, provider_request_id, "
      "input, "
      "cached_input, cache_write_5m, cache_write_1h, output, reasoning, tokens_from, billed, stated_usd, "
      "service_tier, "
      "speed, inference_geo, cost_nano, cost_source, cost_tier, prices, reserved_nano, charged_nano";
  return columns;
}

AttemptDetail attempt_of(const Statement& row, int from) {
  int at = from;
  const auto text = [&] { return std::string{row.text(at++)}; };
  const auto number = [&] { return row.number(at++); };
  const auto maybe = [&] { return row.maybe_number(at++); };
  AttemptDetail attempt;
  attempt.number = static_cast<int>(number());
  attempt.state = state_of(number());
  attempt.began_ms = number();
  attempt.ended_ms = maybe();
  attempt.upstream = text();
  attempt.credential = text();
  attempt.model = text();
  attempt.model_answered = text();
  attempt.status = static_cast<int>(number());
  attempt.cls = text();
  attempt.rule = text();
  attempt.code = text();
  attempt.detail = text();
  attempt.fingerprint = text();
  attempt.next = text();
  attempt.possibly_billed = number() != 0;
  attempt.waited_before_ms = number();
  attempt.waited_for = text();
  attempt.hint_ms = maybe();
  attempt.took_us = maybe();
  attempt.provider_request_id = text();
  classifier::TokenCounts tokens;
  const bool told = !row.is_null(at);
  tokens.input = number();
  tokens.cached_input = number();
  tokens.cache_write_5m = number();
  tokens.cache_write_1h = number();
  tokens.output = number();
  tokens.reasoning = number();
  if (told) attempt.tokens = tokens;
  attempt.tokens_from = text();
  attempt.billed = text();
  attempt.stated_usd = text();
  attempt.service_tier = text();
  attempt.speed = text();
  attempt.inference_geo = text();
  attempt.cost_nano = maybe();
  attempt.cost_source = text();
  attempt.cost_tier = text();
  attempt.prices = text();
  attempt.reserved_nano = maybe();
  attempt.charged_nano = maybe();
  return attempt;
}

SqlBooks::Answer<std::vector<CallLine>> SqlBooks::calls(const CallsAsk& ask) {
  return asked<std::vector<CallLine>>([&] {
    Filter filter;
    filter.add("tenant", ask.tenant);
    filter.add("run_id", ask.run_id);
    filter.add("upstream", ask.upstream);
    filter.add("model", ask.model);
    filter.add("outcome", ask.outcome);
    filter.add("class", ask.cls);
    filter.add("queue", ask.queue);
    filter.add("idempotency_key", ask.idempotency_key);
    const bool upwards = !ask.after.empty();
    std::string first = first_id(ask.since_ms);
    std::string end = ask.until_ms == INT64_MAX ? "~" : first_id(ask.until_ms);
    if (upwards) first = std::max(first, ask.after + "!");  // Before every other id that is greater.
    if (!ask.before.empty()) end = std::min(end, ask.before);

    // Of a run there is an index, whose rows are few.
    const bool indexed = !ask.run_id.empty() && !ask.tenant.empty();
    std::string sql{kLine};
    sql += filter.sql + (indexed ? " AND run_id <> ''" : "") + " ORDER BY id" + (upwards ? "" : " DESC") + " LIMIT ?";
    Statement rows{db_, sql};
    std::vector<CallLine> lines;
    while (lines.size() < ask.most && first < end) {
      IdPage page{first, end};
      if (!indexed) page = upwards ? page_from(db_, first, end, kPage) : page_before(db_, end, kPage);
      page.first = std::max(page.first, first);
      rows.bind(1, page.first).bind(2, page.end);
      const int at = bind_all(rows, 3, filter.values);
      rows.bind(at, static_cast<std::int64_t>(std::min<std::size_t>(ask.most - lines.size(), 100'000)));
      while (rows.step()) lines.push_back(line_of(rows));
      if (upwards) {
        first = page.end;
      } else {
        end = page.first;
      }
    }
    return lines;
  });
}

SqlBooks::Answer<std::string> SqlBooks::call(std::string_view id, std::string_view tenant) {
  return asked<std::string>([&]() -> std::string {
    const Transaction snapshot{db_, Transaction::Kind::Read};
    Statement row{db_, "SELECT " + call_columns() + " FROM calls WHERE id = ?"};
    if (!row.bind(1, id).step()) return {};
    CallDetail call = call_of(row);
    if (!tenant.empty() && call.tenant != tenant) return {};
    Statement attempt{db_, "SELECT " + attempt_columns() + " FROM attempts WHERE call_id = ? ORDER BY number"};
    for (attempt.bind(1, id); attempt.step();) call.attempts.push_back(attempt_of(attempt));
    return json_of(call);
  });
}

SqlBooks::Answer<ExportPage> SqlBooks::export_calls(const ExportAsk& ask) {
  return asked<ExportPage>([&] {
    const std::string end = ask.until_ms == INT64_MAX ? "~" : first_id(ask.until_ms);
    std::string first = first_id(ask.since_ms);
    if (!ask.after.empty()) first = std::max(first, ask.after + "!");
    ExportPage out;
    const auto most = static_cast<int>(std::clamp<std::size_t>(ask.most, 1, 10'000));
    const Transaction snapshot{db_, Transaction::Kind::Read};
    const IdPage page = page_from(db_, first, end, most);
    Statement row{db_, "SELECT " + call_columns() + " FROM calls WHERE id >= ? AND id < ? ORDER BY id"};
    Statement attempt{db_,
                      "SELECT " + attempt_columns() +
                          ", call_id FROM attempts WHERE call_id >= ? AND call_id < ? ORDER BY call_id, number"};
    const int id_column = attempt.columns() - 1;
    attempt.bind(1, page.first).bind(2, page.end);
    bool there = attempt.step();
    for (row.bind(1, page.first).bind(2, page.end); row.step();) {
      CallDetail call = call_of(row);
      // An attempt whose call was removed a moment ago is nobody's.
      while (there && attempt.text(id_column) < call.id) there = attempt.step();
      for (; there && attempt.text(id_column) == call.id; there = attempt.step())
        call.attempts.push_back(attempt_of(attempt));
      out.last_id = call.id;
      if (ask.tenant.empty() || call.tenant == ask.tenant) out.lines.push_back(json_of(call));
    }
    out.more = page.end != end;
    return out;
  });
}

}  // namespace ledger
