// Questions about dead letters, replays and acts.

#include <algorithm>
#include <utility>

#include "ledger/books_sql.h"
#include "ledger/letter_rows.h"

namespace ledger {
namespace {

constexpr std::string_view kLine =
    "SELECT id, tenant, queue, lane, run_id, key, run, route, upstream, model, operation, class, code, fingerprint, "
    "cause_group, cause, advice, version, call_id, state, payload, arrived_ms, last_ms, expires_ms, ended_ms, "
    "status, "
    "failures, revision, cost_nano, bytes, callers_key, labels, scope FROM dead_letters";
constexpr int kLabels = 31;

template <std::size_t N>
std::string name_at(const std::array<std::string_view, N>& names, std::int64_t at) {
  return std::string{names[static_cast<std::size_t>(std::clamp<std::int64_t>(at, 0, N - 1))]};
}

LetterLine line_of(const Statement& row) {
  LetterLine line;
  int at = 0;
  for (std::string* text : {&line.id,
                            &line.tenant,
                            &line.queue,
                            &line.lane,
                            &line.run_id,
                            &line.key,
                            &line.run,
                            &line.route,
                            &line.upstream,
                            &line.model,
                            &line.operation,
                            &line.cls,
                            &line.code,
                            &line.fingerprint,
                            &line.group,
                            &line.cause,
                            &line.advice,
                            &line.version,
                            &line.call_id}) {
    *text = row.text(at++);
  }
  line.state = name_at(kLetterStateNames, row.number(at++));
  line.payload = name_at(kPayloadNames, row.number(at++));
  line.arrived_ms = row.number(at++);
  line.last_ms = row.number(at++);
  line.expires_ms = row.number(at++);
  line.ended_ms = row.maybe_number(at++);
  line.status = static_cast<int>(row.number(at++));
  line.failures = static_cast<int>(row.number(at++));
  line.revision = static_cast<int>(row.number(at++));
  line.cost_nano = row.number(at++);
  line.bytes = row.number(at++);
  line.callers_key = row.number(at) != 0;
  const std::string_view scope = row.blob(kLabels + 1);
  std::copy_n(scope.begin(), std::min(scope.size(), line.scope.size()), line.scope.begin());
  return line;
}

std::string state_condition(const std::optional<LetterState>& state) {
  // A literal, so that the indexes of open ones are found.
  return state ? " AND state = " + std::to_string(static_cast<int>(*state)) : std::string{};
}

constexpr std::string_view kReplay =
    "SELECT id, state, created_ms, started_ms, ended_ms, who, reason, tenant, filter, limits, digest, why, "
    "approved_by, canary_passed, waiting, running, resolved, dead_again, skipped, cost_nano FROM replays";

Replay replay_of(const Statement& row) {
  Replay out;
  int at = 0;
  out.id = row.text(at++);
  out.state = static_cast<ReplayState>(std::clamp<std::int64_t>(row.number(at++), 0, kReplayStateNames.size() - 1));
  out.created_ms = row.number(at++);
  out.started_ms = row.maybe_number(at++);
  out.ended_ms = row.maybe_number(at++);
  for (std::string* text :
       {&out.who, &out.reason, &out.tenant, &out.filter, &out.limits, &out.digest, &out.why, &out.approved_by}) {
    *text = row.text(at++);
  }
  out.canary_passed = row.number(at++) != 0;
  for (std::int64_t* sum :
       {&out.waiting, &out.running, &out.resolved, &out.dead_again, &out.skipped, &out.cost_nano}) {
    *sum = row.number(at++);
  }
  return out;
}

}  // namespace

SqlBooks::Answer<std::vector<LetterLine>> SqlBooks::letters(const LettersAsk& ask) {
  return asked<std::vector<LetterLine>>([&] {
    const LetterConditions conditions = conditions_of(ask);
    Statement row{db_,
                  std::string{kLine} + " WHERE id < ?1" + state_condition(ask.state) + conditions.sql +
                      " ORDER BY id DESC LIMIT ?"};
    row.bind(1, ask.after.empty() ? std::string_view{"~"} : std::string_view{ask.after});
    const int at = conditions.bind(row, 2);
    row.bind(at, limit_of(ask.most));
    std::vector<LetterLine> lines;
    while (row.step()) lines.push_back(line_of(row));
    return lines;
  });
}

SqlBooks::Answer<std::optional<LetterDetail>> SqlBooks::letter(std::string_view id, std::string_view tenant) {
  using Found = std::optional<LetterDetail>;
  return asked<Found>([&]() -> Found {
    const Transaction snapshot{db_, Transaction::Kind::Read};
    Statement row{db_, std::string{kLine} + " WHERE id = ?"};
    if (!row.bind(1, id).step()) return std::nullopt;
    LetterDetail detail;
    detail.line = line_of(row);
    detail.labels = row.text(kLabels);
    row.reset();
    if (!tenant.empty() && detail.line.tenant != tenant) return std::nullopt;
    Statement step{db_,
                   "SELECT at_ms, what, call_id, class, detail FROM letter_steps WHERE letter = ? ORDER BY number"};
    for (step.bind(1, id); step.step();) {
      detail.steps.push_back({step.number(0),
                              std::string{step.text(1)},
                              std::string{step.text(2)},
                              std::string{step.text(3)},
                              std::string{step.text(4)}});
    }
    if (detail.line.payload != kPayloadNames[static_cast<std::size_t>(Payload::Kept)]) return detail;
    Statement body{db_, "SELECT body FROM letter_requests WHERE letter = ? AND revision = ?"};
    const bool there = body.bind(1, id).bind(2, detail.line.revision).step();
    if (!there || !box_.open_request(body.blob(0), letter_place(id, detail.line.revision))) {
      detail.line.payload = kPayloadNames[static_cast<std::size_t>(Payload::Unreadable)];
    }
    return detail;
  });
}

SqlBooks::Answer<std::shared_ptr<const KeptRequest>> SqlBooks::letter_request(std::string_view id, int revision) {
  using Found = std::shared_ptr<const KeptRequest>;
  return asked<Found>([&]() -> Found {
    Statement row{db_,
                  "SELECT body, revision FROM letter_requests WHERE letter = ?1 AND (?2 < 0 OR revision = ?2) "
                  "ORDER BY revision DESC LIMIT 1"};
    if (!row.bind(1, id).bind(2, revision).step()) return nullptr;
    auto request = box_.open_request(row.blob(0), letter_place(id, static_cast<int>(row.number(1))));
    if (!request) return nullptr;
    return std::make_shared<const KeptRequest>(std::move(*request));
  });
}

SqlBooks::Answer<std::vector<LetterGroup>> SqlBooks::letter_groups(const LettersAsk& ask) {
  return asked<std::vector<LetterGroup>>([&] {
    const Transaction snapshot{db_, Transaction::Kind::Read};
    const LetterConditions conditions = conditions_of(ask);
    // Counted from an index alone where it can be; what people read of a group is its newest letter's.
    Statement row{db_,
                  "SELECT cause_group, count(*), min(arrived_ms), max(last_ms), sum(cost_nano), max(id) "
                  "FROM dead_letters WHERE 1" +
                      state_condition(ask.state) + conditions.sql +
                      " GROUP BY cause_group ORDER BY count(*) DESC, cause_group LIMIT ?"};
    const int at = conditions.bind(row, 1);
    row.bind(at, limit_of(ask.most));
    std::vector<LetterGroup> groups;
    while (row.step()) {
      LetterGroup group;
      group.group = row.text(0);
      group.count = row.number(1);
      group.first_ms = row.number(2);
      group.last_ms = row.number(3);
      group.cost_nano = row.number(4);
      group.sample = row.text(5);
      groups.push_back(std::move(group));
    }
    Statement sample{db_, "SELECT class, code, cause, advice, queue, model FROM dead_letters WHERE id = ?"};
    for (LetterGroup& group : groups) {
      if (!sample.bind(1, group.sample).step()) continue;
      int column = 0;
      for (std::string* text : {&group.cls, &group.code, &group.cause, &group.advice, &group.queue, &group.model}) {
        *text = sample.text(column++);
      }
      sample.reset();
    }
    return groups;
  });
}

SqlBooks::Answer<std::vector<LettersPending>> SqlBooks::letters_pending() {
  return asked<std::vector<LettersPending>>([&] {
    std::vector<LettersPending> pending;
    Statement row{db_,
                  "SELECT class, queue, count(*), min(arrived_ms) FROM dead_letters INDEXED BY dead_letters_groups "
                  "WHERE state = 0 GROUP BY class, queue"};
    while (row.step()) {
      pending.push_back({std::string{row.text(0)}, std::string{row.text(1)}, row.number(2), row.number(3)});
    }
    return pending;
  });
}

SqlBooks::Answer<std::vector<Replay>> SqlBooks::replays(std::string_view tenant, std::size_t most) {
  return asked<std::vector<Replay>>([&] {
    Statement row{db_, std::string{kReplay} + " WHERE ?1 = '' OR tenant = ?1 ORDER BY id DESC LIMIT ?2"};
    std::vector<Replay> found;
    for (row.bind(1, tenant).bind(2, limit_of(most)); row.step();) found.push_back(replay_of(row));
    return found;
  });
}

SqlBooks::Answer<std::optional<Replay>> SqlBooks::replay(std::string_view id, std::string_view tenant) {
  using Found = std::optional<Replay>;
  return asked<Found>([&]() -> Found {
    Statement row{db_, std::string{kReplay} + " WHERE id = ?1 AND (?2 = '' OR tenant = ?2)"};
    if (!row.bind(1, id).bind(2, tenant).step()) return std::nullopt;
    return replay_of(row);
  });
}

SqlBooks::Answer<std::vector<ReplayItem>> SqlBooks::replay_items(std::string_view replay,
                                                                 std::optional<ItemState> state,
                                                                 std::string_view after, std::size_t most) {
  return asked<std::vector<ReplayItem>>([&] {
    Statement row{db_,
                  "SELECT letter, revision, state, why, call_id, cost_nano FROM replay_items "
                  "WHERE replay = ?1 AND letter > ?2 AND (?3 < 0 OR state = ?3) ORDER BY letter LIMIT ?4"};
    row.bind(1, replay).bind(2, after).bind(3, state ? static_cast<int>(*state) : -1).bind(4, limit_of(most));
    std::vector<ReplayItem> items;
    while (row.step()) {
      ReplayItem item;
      item.letter = row.text(0);
      item.revision = static_cast<int>(row.number(1));
      item.state = static_cast<ItemState>(std::clamp<std::int64_t>(row.number(2), 0, kItemStateNames.size() - 1));
      item.why = row.text(3);
      item.call_id = row.text(4);
      item.cost_nano = row.number(5);
      items.push_back(std::move(item));
    }
    return items;
  });
}

SqlBooks::Answer<std::vector<std::string>> SqlBooks::in_replay(const std::vector<std::string>& letters) {
  return asked<std::vector<std::string>>([&] {
    const Transaction snapshot{db_, Transaction::Kind::Read};
    Statement row{db_,
                  "SELECT 1 FROM replay_items i JOIN replays r ON r.id = i.replay "
                  "WHERE i.letter = ? AND i.state < 2 AND r.state IN (1, 2) LIMIT 1"};
    std::vector<std::string> found;
    for (const std::string& letter : letters) {
      if (row.bind(1, letter).step()) found.push_back(letter);
      row.reset();
    }
    return found;
  });
}

SqlBooks::Answer<std::vector<AuditRow>> SqlBooks::acts(std::int64_t before_seq, std::size_t most) {
  return asked<std::vector<AuditRow>>([&] {
    Statement row{
        db_, "SELECT seq, at_ms, who, act, what, reason, count FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT ?"};
    std::vector<AuditRow> rows;
    for (row.bind(1, before_seq <= 0 ? INT64_MAX : before_seq).bind(2, limit_of(most)); row.step();) {
      rows.push_back({row.number(0),
                      row.number(1),
                      std::string{row.text(2)},
                      std::string{row.text(3)},
                      std::string{row.text(4)},
                      std::string{row.text(5)},
                      row.number(6)});
    }
    return rows;
  });
}

}  // namespace ledger
