#include "ledger/letter_rows.h"

#include <algorithm>
#include <utility>

#include "ledger/binder.h"
#include "ledger/rows.h"

namespace ledger {
namespace {

std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};  // NOLINT
}

constexpr std::string_view kInsert = R"sql(
INSERT INTO dead_letters(id, scope, state, arrived_ms, last_ms, expires_ms, retention_ms, tenant, queue, lane, run_id,
                         labels, key, run, route, upstream, model, operation, class, code, fingerprint, cause_group,
                         cause, advice, version, call_id, status, failures, cost_nano, revision, payload, bytes,
                         callers_key)
VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, 0, ?, ?, ?))sql";

constexpr std::string_view kAgain = R"sql(
UPDATE dead_letters SET last_ms = ?2, upstream = ?3, class = ?4, code = ?5, fingerprint = ?6, cause_group = ?7,
  cause = ?8, advice = ?9, call_id = ?10, status = ?11, failures = failures + 1, cost_nano = cost_nano + ?12
WHERE id = ?1)sql";

constexpr std::int64_t kMostCost = kMostNano;

std::string_view name_of(Advice advice) { return kAdviceNames[static_cast<std::size_t>(advice)]; }

}  // namespace

int LetterConditions::bind(Statement& statement, int at) const {
  for (const std::string& text : texts) statement.bind(at++, text);
  statement.bind(at, since_ms).bind(at + 1, until_ms);
  return at + 2;
}

LetterConditions conditions_of(const LettersAsk& ask) {
  LetterConditions out;
  const auto is = [&](std::string_view column, const std::string& value) {
    if (value.empty()) return;
    out.sql.append(" AND ").append(column).append(" = ?");
    out.texts.push_back(value);
  };
  is("tenant", ask.tenant);
  is("queue", ask.queue);
  is("cause_group", ask.group);
  is("class", ask.cls);
  is("model", ask.model);
  is("upstream", ask.upstream);
  is("operation", ask.operation);
  is("advice", ask.advice);
  is("key", ask.key);
  is("run_id", ask.run_id);
  // The indexes of these leave out rows without one.
  if (!ask.key.empty()) out.sql += " AND key <> ''";
  if (!ask.run_id.empty()) out.sql += " AND run_id <> ''";
  if (!ask.of_run.empty()) {
    out.sql += " AND scope = (SELECT scope FROM runs WHERE id = ?)";
    out.texts.push_back(ask.of_run);
  }
  if (!ask.ids.empty()) {
    // One parameter, however many there are: ids are ours and hold no quotes, others match nothing.
    std::string list = "[";
    for (const std::string& id : ask.ids) {
      if (id.find_first_not_of("0123456789abcdefABCDEF-") != std::string::npos) continue;
      list.append(list.size() > 1 ? ",\"" : "\"").append(id).append("\"");
    }
    out.sql += " AND id IN (SELECT value FROM json_each(?))";
    out.texts.push_back(list + "]");
  }
  out.sql += " AND arrived_ms >= ? AND arrived_ms < ?";
  out.since_ms = ask.since_ms;
  out.until_ms = ask.until_ms;
  return out;
}

LetterRows::LetterRows(Database& database, const StoreOptions& options, QueueLoad& load)
    : database_(database),
      most_bytes_(static_cast<std::int64_t>(std::min<std::uint64_t>(options.letters_bytes, INT64_MAX))),
      retention_ms_(options.retention.dead_letters.count()),
      load_(load),
      open_(database, "SELECT id, call_id, bytes, queue FROM dead_letters WHERE scope = ? AND state = 0"),
      insert_(database, kInsert),
      again_(database, kAgain),
      // What nobody will send any more is not kept either.
      end_(database,
           "UPDATE dead_letters SET state = ?2, ended_ms = ?3, bytes = 0, payload = iif(payload = 0, 4, payload) "
           "WHERE id = ?1"),
      remove_requests_(database, "DELETE FROM letter_requests WHERE letter = ?1"),
      step_(database,
            "INSERT INTO letter_steps(letter, number, at_ms, what, call_id, class, detail) "
            "SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6 FROM letter_steps WHERE letter = ?1"),
      request_(database, "INSERT INTO letter_requests(letter, revision, body) VALUES (?, ?, ?)") {
  Statement sums(database, "SELECT count(*), sum(bytes) FROM dead_letters WHERE state = 0");
  if (sums.step()) {
    figures_.open = sums.number(0);
    figures_.bytes = sums.number(1);
  }
  before_ = figures_;
}

void LetterRows::step(const std::string& letter, std::string_view what, const std::string& call_id,
                      std::string_view cls, std::string_view detail, std::int64_t now_ms) {
  step_.bind(1, letter).bind(2, now_ms).bind(3, what).bind(4, call_id).bind(5, cls).bind(6, detail).run();
}

bool LetterRows::any_open(const Digest& scope) {
  if (figures_.open == 0) return false;
  const bool found = open_.bind_blob(1, bytes_of(scope)).step();
  open_.reset();
  return found;
}

void LetterRows::failed(const LetterOutcome& outcome, const LetterOf& of, const std::string& request,
                        std::int64_t now_ms) {
  const Letter& letter = *outcome.letter;
  const std::int64_t cost = std::clamp(of.cost_nano, -kMostCost, kMostCost);
  if (open_.bind_blob(1, bytes_of(outcome.scope)).step()) {
    const std::string id{open_.text(0)};
    // Said before.
    const bool same = !of.call_id.empty() && open_.text(1) == of.call_id;
    open_.reset();
    if (same) return;
    again_.bind(1, id).bind(2, now_ms).bind(3, of.upstream).bind(4, of.cls).bind(5, letter.code);
    again_.bind(6, letter.fingerprint).bind(7, letter.group).bind(8, letter.cause).bind(9, name_of(letter.advice));
    again_.bind(10, of.call_id).bind(11, of.status).bind(12, cost).run();
    step(id, "failed", of.call_id, of.cls, of.attempts, now_ms);
    return;
  }
  Payload payload = Payload::Kept;
  const auto bytes = static_cast<std::int64_t>(request.size());
  if (request.empty()) {
    payload = Payload::LeftOut;
  } else if (figures_.bytes + bytes > most_bytes_) {
    payload = Payload::Full;
    ++figures_.without;
  }
  const bool kept = payload == Payload::Kept;
  const std::int64_t retention = letter.retention.count() > 0 ? letter.retention.count() : retention_ms_;
  Binder bind(insert_);
  bind(of.id).blob(bytes_of(outcome.scope))(now_ms)(now_ms)(now_ms + retention);
  bind(std::int64_t{letter.retention.count()})(of.tenant)(of.queue)(of.lane)(of.run_id)(of.labels)(outcome.key);
  bind(letter.run)(of.route)(of.upstream)(of.model)(of.operation)(of.cls)(letter.code)(letter.fingerprint);
  bind(letter.group)(letter.cause)(name_of(letter.advice))(letter.version)(of.call_id)(of.status)(cost);
  bind(static_cast<int>(payload))(kept ? bytes : 0)(letter.callers_key);
  insert_.run();
  load_.letters(of.queue, 1);
  ++figures_.open;
  if (kept) {
    figures_.bytes += bytes;
    request_.bind(1, of.id).bind(2, 0).bind_blob(3, std::string_view{request}).run();
  }
  step(of.id, "failed", of.call_id, of.cls, of.attempts, now_ms);
}

void LetterRows::answered(const Digest& scope, const std::string& call_id, std::int64_t now_ms) {
  if (figures_.open == 0) return;
  if (!open_.bind_blob(1, bytes_of(scope)).step()) return;
  const std::string id{open_.text(0)};
  figures_.bytes -= open_.number(2);
  load_.letters(open_.text(3), -1);
  --figures_.open;
  open_.reset();
  end_.bind(1, id).bind(2, static_cast<int>(LetterState::Resolved)).bind(3, now_ms).run();
  remove_requests_.bind(1, id).run();
  step(id, "resolved", call_id, "", "", now_ms);
}

std::int64_t LetterRows::discard(const LettersAsk& ask, const std::string& reason, std::int64_t now_ms) {
  const LetterConditions conditions = conditions_of(ask);
  Statement rows(database_, "SELECT id, bytes, queue FROM dead_letters WHERE state = 0" + conditions.sql);
  conditions.bind(rows, 1);
  std::vector<std::string> ids;
  while (rows.step()) {
    ids.emplace_back(rows.text(0));
    figures_.bytes -= rows.number(1);
    load_.letters(rows.text(2), -1);
    --figures_.open;
  }
  for (const std::string& id : ids) {
    end_.bind(1, id).bind(2, static_cast<int>(LetterState::Discarded)).bind(3, now_ms).run();
    remove_requests_.bind(1, id).run();
    step(id, "discarded", "", "", reason, now_ms);
  }
  return static_cast<std::int64_t>(ids.size());
}

std::optional<std::string> LetterRows::in_the_way(const std::string& id, const std::string& tenant, int from) {
  Statement row(database_, "SELECT tenant, state, revision, payload FROM dead_letters WHERE id = ?");
  if (!row.bind(1, id).step() || (!tenant.empty() && row.text(0) != tenant)) return "there is no letter " + id;
  if (row.number(1) != static_cast<int>(LetterState::Open)) {
    return "letter " + id + " is " + std::string{kLetterStateNames[static_cast<std::size_t>(row.number(1))]} +
           ": only an open one can be edited";
  }
  if (row.number(3) != static_cast<int>(Payload::Kept)) {
    return "letter " + id + " has no request to edit (it was not kept): discard it, and send the job anew";
  }
  if (row.number(2) != from) {
    return "letter " + id + " has revision " + std::to_string(row.number(2)) +
           " by now: look at that one, and edit it";
  }
  return std::nullopt;
}

std::expected<int, std::string> LetterRows::edit(const std::string& id, const std::string& tenant, int from,
                                                 const std::string& request, const std::string& difference,
                                                 std::int64_t now_ms) {
  if (std::optional<std::string> why = in_the_way(id, tenant, from)) return std::unexpected(std::move(*why));
  if (request.empty()) return std::unexpected("no requests are kept (any more), so there is none to edit");
  const auto bytes = static_cast<std::int64_t>(request.size());
  if (figures_.bytes + bytes > most_bytes_) {
    return std::unexpected(
        "there is no room for another request (dead_letters.max_bytes): discard letters that are "
        "of no use, or raise it");
  }
  request_.bind(1, id).bind(2, from + 1).bind_blob(3, std::string_view{request}).run();
  Statement row(database_, "UPDATE dead_letters SET revision = revision + 1, bytes = bytes + ? WHERE id = ?");
  row.bind(1, bytes).bind(2, id).run();
  figures_.bytes += bytes;
  step(id, "edited", "", "", difference, now_ms);
  return from + 1;
}

bool LetterRows::expire(std::int64_t now_ms, std::int64_t retention_ms, int most, std::vector<std::string>& open) {
  std::vector<std::string> ids;
  const auto collect = [&](Statement& rows) {
    while (static_cast<int>(ids.size()) < most && rows.step()) {
      std::string id{rows.text(0)};
      if (std::ranges::find(ids, id) != ids.end()) continue;
      if (rows.number(1) == 0) {
        open.push_back(id);
        figures_.bytes -= rows.number(2);
        load_.letters(rows.text(3), -1);
        --figures_.open;
        ++figures_.expired;
      }
      ids.push_back(std::move(id));
    }
    rows.reset();
  };
  Statement by_own(
      database_,
      "SELECT id, state, bytes, queue FROM dead_letters WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?");
  by_own.bind(1, now_ms).bind(2, most);
  collect(by_own);
  // Retention may have become shorter since they came.
  Statement by_arrival(database_,
                       "SELECT id, state, bytes, queue FROM dead_letters WHERE retention_ms = 0 AND arrived_ms <= ? "
                       "ORDER BY arrived_ms LIMIT ?");
  by_arrival.bind(1, now_ms - retention_ms).bind(2, most);
  collect(by_arrival);
  if (ids.empty()) return false;
  Statement requests(database_, "DELETE FROM letter_requests WHERE letter = ?");
  Statement steps(database_, "DELETE FROM letter_steps WHERE letter = ?");
  Statement letters(database_, "DELETE FROM dead_letters WHERE id = ?");
  for (const std::string& id : ids) {
    for (Statement* each : {&requests, &steps, &letters}) each->bind(1, id).run();
  }
  return true;
}

void LetterRows::configure(std::uint64_t most_bytes, std::int64_t retention_ms) {
  most_bytes_ = static_cast<std::int64_t>(std::min<std::uint64_t>(most_bytes, INT64_MAX));
  retention_ms_ = retention_ms;
}

void LetterRows::rolled_back() {
  open_.reset();
  figures_ = before_;
}

}  // namespace ledger
