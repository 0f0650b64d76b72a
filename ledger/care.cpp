#include "ledger/care.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "ledger/file.h"
#include "ledger/schema.h"
#include "ledger/sql.h"

namespace ledger {
namespace {

constexpr int kMostLines = 20;  // Of one kind.

/// Keys whose sums differ. Quarters from which calls have been removed have more in their sums than in their rows.
constexpr std::string_view kSums = R"sql(
WITH kept(since) AS (
  SELECT coalesce((SELECT until_ms - until_ms % 900000 FROM removed WHERE what = 'calls'), -1)
), rows AS (
  SELECT a.ended_ms - a.ended_ms % 900000 AS slot, c.tenant, a.upstream, a.model, c.lane, c.queue,
         0 AS calls, 0 AS answered, 1 AS attempts, coalesce(a.input, 0) AS input,
         coalesce(a.cached_input, 0) AS cached_input,
         coalesce(a.cache_write_5m, 0) + coalesce(a.cache_write_1h, 0) AS cache_write,
         coalesce(a.output, 0) AS output, coalesce(a.reasoning, 0) AS reasoning, coalesce(a.cost_nano, 0) AS cost_nano,
         CASE WHEN EXISTS (SELECT 1 FROM attempts b WHERE b.call_id = a.call_id AND b.number > a.number)
              THEN coalesce(a.cost_nano, 0) ELSE 0 END AS retry_nano,
         CASE WHEN c.state <> 0 AND c.outcome IS NOT 'answered' THEN coalesce(a.cost_nano, 0) ELSE 0 END AS failed_nano,
         a.possibly_billed AS possibly_billed,
         CASE WHEN a.possibly_billed THEN coalesce(a.charged_nano, 0) ELSE 0 END AS possibly_billed_nano,
         a.tokens_from = 'unknown' AS unknown,
         (a.tokens_from = 'reported' OR a.billed IS NOT NULL) AND a.cost_nano IS NULL AS unpriced,
         CASE WHEN a.cost_source IN ('fallback', 'table_plain') THEN coalesce(a.cost_nano, 0) ELSE 0 END
           AS estimated_nano,
         coalesce(a.charged_nano, 0) AS charged_nano, 0 AS saved_nano
  FROM attempts a JOIN calls c ON c.id = a.call_id WHERE a.state <> 0
  UNION ALL
  SELECT c.ended_ms - c.ended_ms % 900000, c.tenant,
         coalesce((SELECT a.upstream FROM attempts a WHERE a.call_id = c.id ORDER BY a.number DESC LIMIT 1), c.upstream),
         coalesce((SELECT a.model FROM attempts a WHERE a.call_id = c.id ORDER BY a.number DESC LIMIT 1), c.model),
         c.lane, c.queue, 1, c.outcome IS 'answered', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
         coalesce(c.saved_nano, 0)
  FROM calls c WHERE c.state <> 0
  UNION ALL
  SELECT slot, tenant, upstream, model, lane, queue, -calls, -answered, -attempts, -input, -cached_input, -cache_write,
         -output, -reasoning, -cost_nano, -retry_nano, -failed_nano, -possibly_billed, -possibly_billed_nano, -unknown,
         -unpriced, -estimated_nano, -charged_nano, -saved_nano
  FROM spend_by_period
)
SELECT strftime('%Y-%m-%dT%H:%MZ', slot / 1000, 'unixepoch'), tenant, upstream, model,
       sum(calls) AS calls, sum(answered) AS answered, sum(attempts) AS attempts, sum(input) AS input,
       sum(cached_input) AS cached_input, sum(cache_write) AS cache_write, sum(output) AS output,
       sum(reasoning) AS reasoning, sum(cost_nano) AS cost_nano, sum(retry_nano) AS retry_nano,
       sum(failed_nano) AS failed_nano, sum(possibly_billed) AS possibly_billed,
       sum(possibly_billed_nano) AS possibly_billed_nano, sum(unknown) AS unknown, sum(unpriced) AS unpriced,
       sum(estimated_nano) AS estimated_nano, sum(charged_nano) AS charged_nano, sum(saved_nano) AS saved_nano
FROM rows, kept WHERE slot > since
GROUP BY slot, tenant, upstream, model, lane, queue
HAVING sum(calls) <> 0 OR sum(answered) <> 0 OR sum(attempts) <> 0 OR sum(input) <> 0 OR sum(cached_input) <> 0
    OR sum(cache_write) <> 0 OR sum(output) <> 0 OR sum(reasoning) <> 0 OR sum(cost_nano) <> 0 OR sum(retry_nano) <> 0
    OR sum(failed_nano) <> 0 OR sum(possibly_billed) <> 0 OR sum(possibly_billed_nano) <> 0 OR sum(unknown) <> 0
    OR sum(unpriced) <> 0 OR sum(estimated_nano) <> 0 OR sum(charged_nano) <> 0 OR sum(saved_nano) <> 0
ORDER BY slot LIMIT 20)sql";

void check_sums(Database& database, std::vector<std::string>& wrong) {
  constexpr int kFirstFigure = 4;
  Statement sums(database, kSums);
  while (sums.step()) {
    std::string line = "spend_by_period, " + std::string{sums.text(0)} + ", tenant " + std::string{sums.text(1)} +
                       ", upstream " + std::string{sums.text(2)} + ", model " + std::string{sums.text(3)} +
                       ": differs from its rows:";
    for (int column = kFirstFigure; column < sums.columns(); ++column) {
      if (sums.number(column) == 0) continue;
      line.append(" ").append(sums.name(column)).append(" by ").append(std::to_string(-sums.number(column)));
    }
    wrong.push_back(std::move(line));
  }
}

struct Orphans {
  const char* sql;
  std::string_view what;
};
constexpr Orphans kOrphans[] = {
    {"SELECT count(*) FROM attempts a WHERE NOT EXISTS (SELECT 1 FROM calls c WHERE c.id = a.call_id)",
     "attempts: rows without their call"},
    {"SELECT count(*) FROM calls c WHERE c.state = 1 AND "
     "c.attempts <> (SELECT count(*) FROM attempts a WHERE a.call_id = c.id AND a.state <> 0)",
     "calls: ended ones whose attempts are not all there, or are open"},
    {"SELECT count(*) FROM calls c WHERE c.state = 0 AND "
     "(SELECT count(*) FROM attempts a WHERE a.call_id = c.id AND a.state = 0) > 1",
     "calls: open ones with more than one open attempt"},
    {"SELECT count(*) FROM calls WHERE state <> 0 AND ended_ms IS NULL", "calls: ended ones without their time"},
    {"SELECT count(*) FROM idempotency WHERE state = 1 AND (status IS NULL OR expires_ms IS NULL)",
     "idempotency: stored answers without status or end"},
    {"SELECT count(*) FROM idempotency WHERE state = 0 AND lease_until_ms IS NULL",
     "idempotency: claims without a lease"},
    {"SELECT count(*) FROM dead_letters d WHERE NOT EXISTS "
     "(SELECT 1 FROM letter_steps s WHERE s.letter = d.id AND s.what = 'failed')",
     "dead_letters: rows without the step of their failure"},
    {"SELECT count(*) FROM dead_letters d WHERE d.payload = 0 AND (d.revision + 1) <> "
     "(SELECT count(*) FROM letter_requests r WHERE r.letter = d.id)",
     "dead_letters: rows whose requests are not all there"},
    {"SELECT count(*) FROM dead_letters WHERE (state = 0) <> (ended_ms IS NULL)",
     "dead_letters: open ones with an end, or others without"},
    {"SELECT (SELECT count(*) FROM letter_steps s WHERE NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.id = "
     "s.letter)) "
     "+ (SELECT count(*) FROM letter_requests r WHERE NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.id = "
     "r.letter))",
     "letter_steps, letter_requests: rows without their letter"},
    {"SELECT count(*) FROM replay_items i WHERE NOT EXISTS (SELECT 1 FROM replays r WHERE r.id = i.replay)",
     "replay_items: rows without their replay"},
    {"SELECT count(*) FROM replays r WHERE (r.waiting, r.running, r.resolved, r.dead_again, r.skipped, r.cost_nano) "
     "IS NOT (SELECT coalesce(sum(i.state = 0), 0), coalesce(sum(i.state = 1), 0), coalesce(sum(i.state = 2), 0), "
     "coalesce(sum(i.state = 3), 0), coalesce(sum(i.state = 4), 0), coalesce(sum(i.cost_nano), 0) "
     "FROM replay_items i WHERE i.replay = r.id)",
     "replays: sums that differ from their items"},
    {"SELECT count(*) FROM runs WHERE (state = 1) <> (lease_until_ms IS NOT NULL)",
     "runs: running ones without a lease, or others with one"},
    {"SELECT count(*) FROM runs WHERE (state > 1) <> (ended_ms IS NOT NULL)",
     "runs: ones that are over without their end, or others with one"},
    {"SELECT count(*) FROM runs r WHERE NOT EXISTS (SELECT 1 FROM run_bodies b WHERE b.run = r.id AND b.what = 0)",
     "runs: rows without their request"},
    {"SELECT count(*) FROM runs r WHERE r.has_answer <> "
     "(SELECT count(*) FROM run_bodies b WHERE b.run = r.id AND b.what = 1)",
     "runs: rows whose answer is not there, or should not be"},
    {"SELECT (SELECT count(*) FROM run_bodies b WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = b.run)) + "
     "(SELECT count(*) FROM webhooks w WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = w.run))",
     "run_bodies, webhooks: rows without their run"},
};

}  // namespace

namespace {

/// All of it, or for so long.
QuickLook look_inside(const std::string& path, std::optional<std::chrono::milliseconds> patience) {
  QuickLook look;
  std::vector<std::string>& wrong = look.wrong;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {{path + ": there is no such file"}};
  try {
    Database database(path, Database::Open::Read);
    const std::int64_t version = database.number("PRAGMA user_version").value_or(0);
    if (database.number("PRAGMA application_id").value_or(0) != kApplicationId) {
      return {{path + ": this is no ledger of callgate"}};
    }
    if (version != kSchemaVersion) {
      return {{path + ": its schema is version " + std::to_string(version) + ", this callgate knows " +
               std::to_string(kSchemaVersion)}};
    }
    if (patience) {
      Inspection seen = inspect(database, kMostLines, *patience);
      return {std::move(seen.wrong), seen.whole};
    }
    Statement inside(database, "PRAGMA integrity_check(" + std::to_string(kMostLines) + ")");
    while (inside.step()) {
      if (inside.text(0) != "ok") wrong.emplace_back(inside.text(0));
    }
    if (!wrong.empty()) return look;
    // One snapshot for all sums, or a call that ends meanwhile would be half there.
    Transaction transaction(database, Transaction::Kind::Read);
    check_sums(database, wrong);
    for (const Orphans& row : kOrphans) {
      const std::int64_t count = database.number(row.sql).value_or(0);
      if (count > 0) wrong.push_back(std::string{row.what} + ": " + std::to_string(count));
    }
  } catch (const SqlError& sql) {
    wrong.push_back(trouble_text(path, sql));
  }
  return look;
}

}  // namespace

std::vector<std::string> check(const std::string& path) { return look_inside(path, std::nullopt).wrong; }
QuickLook quick_check(const std::string& path, std::chrono::milliseconds patience) {
  return look_inside(path, patience);
}

std::expected<void, std::string> backup(const std::string& path, const std::string& to) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::unexpected(path + ": there is no such file");
  // Made here, so that it is nobody else's and nobody else may read it.
  const int fd = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return std::unexpected(to + ": cannot be made (" + std::strerror(errno) + ")");
  ::close(fd);
  std::string why;
  try {
    Database from(path, Database::Open::Read, std::chrono::milliseconds{5'000});
    if (from.number("PRAGMA application_id").value_or(0) != kApplicationId) {
      throw SqlError(SQLITE_NOTADB, "this is no ledger of callgate");
    }
    copy_rows(from, to, [] { return true; });
    Database target(to, Database::Open::Again);
    const std::optional<std::string> sound = target.text("PRAGMA quick_check(1)");
    if (sound != "ok") throw SqlError(SQLITE_CORRUPT, sound.value_or("nothing was copied"));
    return {};
  } catch (const SqlError& sql) {
    why = path + ": cannot be copied to " + to + " (" + sql.what() + ")";
  }
  for (const char* ending : {"", "-journal", "-wal", "-shm"}) std::filesystem::remove(to + ending, error);
  return std::unexpected(why);
}

}  // namespace ledger
