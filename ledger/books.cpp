#include "ledger/books.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ledger/books_sql.h"
#include "ledger/file.h"
#include "ledger/schema.h"
#include "ledger/times.h"

namespace ledger {
namespace {

constexpr std::int64_t kLongestCallMs = 8 * kDayMs;  // The longest deadline is a week, and an attempt may outlast it.

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

/// Opened and tried: SQLite looks into a file no sooner than it is asked.
std::unique_ptr<Database> opened(const std::string& path, Database::Open how) {
  auto database = std::make_unique<Database>(path, how);
  (void)database->number("SELECT count(*) FROM sqlite_schema");
  return database;
}

}  // namespace

std::int64_t limit_of(std::size_t most) { return static_cast<std::int64_t>(std::min<std::size_t>(most, 1'000'000)); }

IdPage page_from(Database& database, const std::string& first, const std::string& end, int most) {
  Statement next{database, "SELECT id FROM calls WHERE id >= ? ORDER BY id LIMIT 1 OFFSET ?"};
  next.bind(1, first).bind(2, most);
  if (!next.step()) return {first, end};
  std::string last{next.text(0)};
  return {first, end.empty() || last < end ? std::move(last) : end};
}

std::string earliest_id(std::int64_t since_ms) {
  return first_id(since_ms > kLongestCallMs ? since_ms - kLongestCallMs : 0);
}

std::unique_ptr<Books> make_books(Database& database, const SealKeys& keys) {
  return std::make_unique<SqlBooks>(database, keys);
}

std::expected<std::unique_ptr<Books>, std::string> open_books(const std::string& path, const SealKeys& keys) {
  const auto wrong = [&](const std::string& what) { return std::unexpected(path + ": " + what); };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return wrong("there is no such file");
  if (std::filesystem::is_directory(status)) return wrong("this is a directory; name the file in it");
  try {
    std::unique_ptr<Database> database;
    try {
      database = opened(path, Database::Open::Read);
    } catch (const SqlError& refused) {
      // A place where nothing may be written beside it, and nobody does: without a log it is whole as it is.
      const bool log = std::filesystem::file_size(path + "-wal", error) > 0 && !error;
      if (!refused.of_the_place() || log) throw;
      database = opened(path, Database::Open::Frozen);
    }
    const std::int64_t version = database->number("PRAGMA user_version").value_or(0);
    if (version > kSchemaVersion) {
      return wrong("written by a newer callgate (its form is " + std::to_string(version) + ", this one reads up to " +
                   std::to_string(kSchemaVersion) + "); use that one");
    }
    const bool ours = database->number("PRAGMA application_id").value_or(0) == kApplicationId;
    if (version < 1 || !ours) return wrong("this is no ledger of callgate's");
    return std::make_unique<SqlBooks>(std::move(database), keys);
  } catch (const SqlError& refused) {
    if (refused.of_the_file())
      return wrong(std::string{"this is no ledger, or a damaged one ("} + refused.what() +
                   "); \"callgate ledger check\" says more");
    return wrong(std::string{"cannot be read: "} + refused.what());
  }
}

SqlBooks::Answer<std::vector<ChargedRow>> SqlBooks::charged_since(std::int64_t since_ms) {
  return asked<std::vector<ChargedRow>>([&] {
    std::vector<ChargedRow> rows;
    Statement row{
        db_, "SELECT slot, tenant, SUM(charged_nano) FROM spend_by_period WHERE slot >= ? GROUP BY slot, tenant"};
    for (row.bind(1, floor_to(since_ms, kQuarterMs)); row.step();)
      rows.push_back({row.number(0), std::string{row.text(1)}, row.number(2)});
    return rows;
  });
}

SqlBooks::Answer<std::vector<ChargedRun>> SqlBooks::charged_runs(std::size_t most) {
  return asked<std::vector<ChargedRun>>([&] {
    std::vector<ChargedRun> rows;
    Statement row{db_,
                  "SELECT tenant, run_id, charged_nano, last_ms FROM spend_by_run ORDER BY last_ms DESC LIMIT ?"};
    for (row.bind(1, limit_of(most)); row.step();)
      rows.push_back({std::string{row.text(0)}, std::string{row.text(1)}, row.number(2), row.number(3)});
    return rows;
  });
}

SqlBooks::Answer<std::vector<GrantRow>> SqlBooks::grants_since(std::int64_t since_ms) {
  return asked<std::vector<GrantRow>>([&] {
    std::vector<GrantRow> rows;
    Statement row{db_,
                  "SELECT at_ms, tenant, period, run_id, amount_nano FROM grants WHERE at_ms >= ? OR period = 'run' "
                  "ORDER BY seq"};
    for (row.bind(1, since_ms); row.step();) {
      rows.push_back({row.number(0),
                      std::string{row.text(1)},
                      std::string{row.text(2)},
                      std::string{row.text(3)},
                      row.number(4)});
    }
    return rows;
  });
}

SqlBooks::Answer<std::vector<PauseRow>> SqlBooks::pauses(std::int64_t now_ms) {
  return asked<std::vector<PauseRow>>([&] {
    std::vector<PauseRow> rows;
    Statement row{db_, "SELECT what, name, until_ms FROM pauses WHERE until_ms IS NULL OR until_ms > ?"};
    for (row.bind(1, now_ms); row.step();)
      rows.push_back({std::string{row.text(0)}, std::string{row.text(1)}, row.maybe_number(2)});
    return rows;
  });
}

SqlBooks::Answer<std::int64_t> SqlBooks::removed_until() {
  return asked<std::int64_t>(
      [&] { return db_.number("SELECT until_ms FROM removed WHERE what = 'calls'").value_or(0); });
}

SqlBooks::Answer<std::vector<EventRow>> SqlBooks::events(std::int64_t after_seq, std::string_view tenant,
                                                         std::size_t most) {
  return asked<std::vector<EventRow>>([&] {
    std::vector<EventRow> rows;
    Statement row{db_,
                  std::string{"SELECT seq, at_ms, type, tenant, data FROM events WHERE seq > ?1 "} +
                      (tenant.empty() ? "" : "AND tenant = ?3 ") + "ORDER BY seq LIMIT ?2"};
    row.bind(1, after_seq).bind(2, limit_of(most));
    if (!tenant.empty()) row.bind(3, tenant);
    while (row.step()) {
      rows.push_back({row.number(0),
                      row.number(1),
                      std::string{row.text(2)},
                      std::string{row.text(3)},
                      std::string{row.text(4)}});
    }
    return rows;
  });
}

SqlBooks::Answer<std::pair<std::int64_t, std::int64_t>> SqlBooks::event_span() {
  return asked<std::pair<std::int64_t, std::int64_t>>([&] {
    Statement row{db_, "SELECT (SELECT MIN(seq) FROM events), (SELECT MAX(seq) FROM events)"};
    (void)row.step();
    return std::pair{row.number(0), row.number(1)};
  });
}

SqlBooks::Answer<std::vector<KeyRow>> SqlBooks::keys(std::string_view key, std::string_view tenant,
                                                     std::size_t most) {
  return asked<std::vector<KeyRow>>([&] {
    std::vector<KeyRow> rows;
    Statement row{db_,
                  std::string{"SELECT key, tenant, state, call_id, scope, claimed_ms, lease_until_ms, expires_ms, "
                              "bytes, cost_nano FROM idempotency WHERE key = ?1 "} +
                      (tenant.empty() ? "" : "AND tenant = ?3 ") + "ORDER BY claimed_ms DESC LIMIT ?2"};
    row.bind(1, key).bind(2, limit_of(most));
    if (!tenant.empty()) row.bind(3, tenant);
    constexpr std::string_view kStates[] = {"claimed", "stored", "unknown"};
    while (row.step()) {
      KeyRow one;
      one.key = row.text(0);
      one.tenant = row.text(1);
      one.state = kStates[std::clamp<std::int64_t>(row.number(2), 0, 2)];
      one.call_id = row.text(3);
      one.scope = hex(row.blob(4));
      one.claimed_ms = row.number(5);
      one.lease_until_ms = row.maybe_number(6);
      one.expires_ms = row.maybe_number(7);
      one.bytes = row.number(8);
      one.cost_nano = row.maybe_number(9);
      rows.push_back(std::move(one));
    }
    return rows;
  });
}

/// By rowid: the table is read in the order in which it lies on disk, and bodies are not touched.
SqlBooks::Answer<std::vector<ScopeRow>> SqlBooks::scopes(std::int64_t after, std::size_t most) {
  return asked<std::vector<ScopeRow>>([&] {
    std::vector<ScopeRow> rows;
    Statement row{db_, "SELECT rowid, scope, expires_ms FROM idempotency WHERE rowid > ? ORDER BY rowid LIMIT ?"};
    for (row.bind(1, after).bind(2, limit_of(most)); row.step();) {
      ScopeRow& one = rows.emplace_back();
      one.row = row.number(0);
      const std::string_view scope = row.blob(1);
      std::copy_n(scope.begin(), std::min(scope.size(), one.scope.size()), one.scope.begin());
      one.expires_ms = row.maybe_number(2);
    }
    return rows;
  });
}

}  // namespace ledger
