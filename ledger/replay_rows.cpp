#include "ledger/replay_rows.h"

#include <algorithm>
#include <array>
#include <optional>

#include "ledger/binder.h"

namespace ledger {
namespace {

std::string name_of(ReplayState state) { return std::string{kReplayStateNames[static_cast<std::size_t>(state)]}; }

ReplayState state_of(std::int64_t number) {
  return static_cast<ReplayState>(std::clamp<std::int64_t>(number, 0, kReplayStateNames.size() - 1));
}

bool is_over(ReplayState state) {
  return state == ReplayState::Stopped || state == ReplayState::Done || state == ReplayState::Cancelled;
}

std::optional<ReplayState> find(Database& database, const std::string& id) {
  Statement row(database, "SELECT state FROM replays WHERE id = ?");
  if (!row.bind(1, id).step()) return std::nullopt;
  return state_of(row.number(0));
}

}  // namespace

ReplayRows::ReplayRows(Database& database)
    : database_(database),
      insert_item_(database,
                   "INSERT OR IGNORE INTO replay_items(replay, letter, revision, state, why, call_id, cost_nano) "
                   "VALUES (?, ?, ?, ?, ?, ?, ?)"),
      item_(database, "SELECT state, cost_nano FROM replay_items WHERE replay = ? AND letter = ?"),
      update_item_(database,
                   "UPDATE replay_items SET revision = ?3, state = ?4, why = ?5, call_id = ?6, cost_nano = ?7 "
                   "WHERE replay = ?1 AND letter = ?2"),
      add_(database,
           "UPDATE replays SET waiting = waiting + ?2, running = running + ?3, resolved = resolved + ?4, "
           "dead_again = dead_again + ?5, skipped = skipped + ?6, cost_nano = cost_nano + ?7 WHERE id = ?1"),
      act_(database, "INSERT INTO audit(at_ms, who, act, what, reason, count) VALUES (?, ?, ?, ?, ?, ?)") {}

bool ReplayRows::plan(const Replay& replay, const std::vector<ReplayItem>& items) {
  if (find(database_, replay.id)) return false;
  Statement insert(
      database_,
      "INSERT INTO replays(id, state, created_ms, started_ms, ended_ms, who, reason, tenant, filter, "
      "limits, digest, why, approved_by, canary_passed, waiting, running, resolved, dead_again, skipped, "
      "cost_nano) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0)");
  Binder bind(insert);
  bind(replay.id)(static_cast<int>(replay.state))(replay.created_ms)(replay.started_ms)(replay.ended_ms)(replay.who);
  bind(replay.reason)(replay.tenant)(replay.filter)(replay.limits)(replay.digest)(replay.why)(replay.approved_by);
  bind(replay.canary_passed);
  insert.run();
  std::array<std::int64_t, kItemStateNames.size()> counts{};
  std::int64_t cost = 0;
  for (const ReplayItem& item : items) {
    insert_item_.bind(1, replay.id).bind(2, item.letter).bind(3, item.revision);
    insert_item_.bind(4, static_cast<int>(item.state)).bind(5, item.why).bind(6, item.call_id);
    insert_item_.bind(7, item.cost_nano).run();
    if (database_.changes() == 0) continue;
    ++counts[static_cast<std::size_t>(item.state)];
    cost += item.cost_nano;
  }
  add_.bind(1, replay.id);
  for (int i = 0; i < static_cast<int>(counts.size()); ++i) add_.bind(2 + i, counts[static_cast<std::size_t>(i)]);
  add_.bind(7, cost).run();
  return true;
}

std::expected<ReplayState, std::string> ReplayRows::move(const std::string& id, const std::vector<ReplayState>& from,
                                                         ReplayState to, const std::string& why, std::int64_t now_ms,
                                                         bool& changed) {
  const std::optional<ReplayState> state = find(database_, id);
  if (!state) return std::unexpected("there is no replay " + id);
  if (std::ranges::find(from, *state) == from.end()) return *state;
  changed = true;
  Statement update(database_,
                   "UPDATE replays SET state = ?2, why = ?3, ended_ms = ?4, "
                   "started_ms = CASE WHEN ?5 THEN coalesce(started_ms, ?6) ELSE started_ms END WHERE id = ?1");
  update.bind(1, id).bind(2, static_cast<int>(to)).bind(3, why);
  update.bind(4, is_over(to) ? std::optional{now_ms} : std::nullopt).bind(5, to == ReplayState::Running);
  update.bind(6, now_ms).run();
  return to;
}

void ReplayRows::item(const std::string& replay, const ReplayItem& item) {
  if (!item_.bind(1, replay).bind(2, item.letter).step()) return;
  const std::int64_t before = std::clamp<std::int64_t>(item_.number(0), 0, kItemStateNames.size() - 1);
  const std::int64_t cost = item_.number(1);
  item_.reset();
  update_item_.bind(1, replay).bind(2, item.letter).bind(3, item.revision).bind(4, static_cast<int>(item.state));
  update_item_.bind(5, item.why).bind(6, item.call_id).bind(7, item.cost_nano).run();
  std::array<std::int64_t, kItemStateNames.size()> change{};
  --change[static_cast<std::size_t>(before)];
  ++change[static_cast<std::size_t>(item.state)];
  add_.bind(1, replay);
  for (int i = 0; i < static_cast<int>(change.size()); ++i) add_.bind(2 + i, change[static_cast<std::size_t>(i)]);
  add_.bind(7, item.cost_nano - cost).run();
}

void ReplayRows::canary_passed(const std::string& replay) {
  Statement update(database_, "UPDATE replays SET canary_passed = 1 WHERE id = ?");
  update.bind(1, replay).run();
}

std::expected<bool, std::string> ReplayRows::approve(const std::string& id, const std::string& by) {
  const std::optional<ReplayState> state = find(database_, id);
  if (!state) return std::unexpected("there is no replay " + id);
  if (*state != ReplayState::Planned) {
    return std::unexpected("replay " + id + " is " + name_of(*state) + ": only a planned one can be approved");
  }
  Statement update(database_, "UPDATE replays SET approved_by = ?2 WHERE id = ?1 AND approved_by = ''");
  update.bind(1, id).bind(2, by).run();
  return database_.changes() > 0;
}

void ReplayRows::act(AuditRow row, std::int64_t now_ms) {
  if (row.act.empty()) return;
  act_.bind(1, row.at_ms == 0 ? now_ms : row.at_ms).bind(2, row.who).bind(3, row.act).bind(4, row.what);
  act_.bind(5, row.reason).bind(6, row.count).run();
}

bool ReplayRows::expire(std::int64_t older_than_ms, int most) {
  // They stand in the order in which they came. The youngest act stays, so that no number is given twice.
  Statement acts(database_,
                 "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at_ms < ? AND seq <= "
                 "(SELECT min(seq) FROM audit) + ? AND seq < (SELECT max(seq) FROM audit) ORDER BY seq LIMIT ?)");
  acts.bind(1, older_than_ms).bind(2, most).bind(3, most).run();
  bool any = database_.changes() > 0;

  Statement oldest(database_,
                   "SELECT id FROM replays WHERE created_ms < ? AND state NOT IN (1, 2) ORDER BY created_ms LIMIT 1");
  oldest.bind(1, older_than_ms);
  if (!oldest.step()) return any;
  const std::string id{oldest.text(0)};
  oldest.reset();
  Statement items(database_,
                  "DELETE FROM replay_items WHERE replay = ?1 AND letter IN "
                  "(SELECT letter FROM replay_items WHERE replay = ?1 ORDER BY letter LIMIT ?2)");
  items.bind(1, id).bind(2, most).run();
  if (database_.changes() > 0) {
    // Its sums go with them.
    Statement sums(database_,
                   "UPDATE replays SET (waiting, running, resolved, dead_again, skipped, cost_nano) = "
                   "(SELECT coalesce(sum(state = 0), 0), coalesce(sum(state = 1), 0), coalesce(sum(state = 2), 0), "
                   "coalesce(sum(state = 3), 0), coalesce(sum(state = 4), 0), coalesce(sum(cost_nano), 0) "
                   "FROM replay_items WHERE replay = ?1) WHERE id = ?1");
    sums.bind(1, id).run();
    return true;
  }
  Statement replay(database_, "DELETE FROM replays WHERE id = ?");
  replay.bind(1, id).run();
  return true;
}

}  // namespace ledger
