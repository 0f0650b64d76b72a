// Goal: retention's steps stay small however much is stored, and take what is theirs.

#include <sqlite3.h>

#include <set>

#include "ledger/claims.h"
#include "ledger/file.h"
#include "ledger/rows.h"
#include "tests/ledger/store_support.h"

namespace store_test {
namespace tidy_test {

class TidyTest : public testing::Test {
 protected:
  TidyTest() { store_options_.payloads = ledger::Payloads::Plain; }

  Folder folder_;
  Clock clock_;
  std::string path_ = folder_.path("callgate.db");
  StoreOptions store_options_ = options_at(path_, clock_);
};

int collect(unsigned, void* into, void* statement, void*) {
  static_cast<std::set<std::string>*>(into)->insert(sqlite3_sql(static_cast<sqlite3_stmt*>(statement)));
  return 0;
}

TEST_F(TidyTest, no_step_looks_through_a_whole_table) {
  auto file = ledger::open_file(store_options_);
  ASSERT_TRUE(file);
  Database& database = *file->database;
  ledger::Rows rows(database);
  ledger::Claims claims(database, store_options_);
  for (int i = 0; i < 8; ++i) {
    CallRecord record = answered(i);
    record.run_id = "run-" + std::to_string(i);
    rows.end(record, {});
    (void)claims.ask(asking(i, clock_, i));
    ledger::OnceOutcome once;
    once.scope = digest(i);
    once.call_id = id_of(i);
    once.answer = std::make_shared<const ledger::StoredAnswer>();
    claims.end(once, claims.as_stored(once), ledger::ms_of(clock_.now()));
  }
  claims.committed();

  std::set<std::string> statements;
  sqlite3_trace_v2(database.raw(), SQLITE_TRACE_PROFILE, collect, &statements);
  const std::int64_t later = ledger::ms_of(clock_.now()) + 60'000;
  EXPECT_GT(rows.forget_calls(later, 4), 0U);
  EXPECT_EQ(rows.forget_events(later, 4), 4U);
  EXPECT_EQ(rows.forget_runs(later, 4), 4U);
  claims.configure(24h, 1);
  EXPECT_TRUE(claims.tidy(later, 4)) << "too much is stored";
  EXPECT_TRUE(claims.tidy(later + 48LL * 3'600'000, 4)) << "all has expired";
  claims.renew(later);
  sqlite3_trace_v2(database.raw(), 0, nullptr, nullptr);
  EXPECT_GE(statements.size(), 9U);
  for (const std::string& sql : statements) {
    ledger::Statement plan(database, "EXPLAIN QUERY PLAN " + sql);
    while (plan.step()) {
      const std::string line{plan.text(3)};
      // In the order in which they were used, as many as must go.
      if (line == "SCAN idempotency USING INDEX idempotency_used") continue;
      EXPECT_FALSE(line.starts_with("SCAN")) << line << ": " << sql;
    }
  }
}

TEST_F(TidyTest, a_tenants_events_are_found_without_reading_all_others) {
  auto file = ledger::open_file(store_options_);
  ASSERT_TRUE(file);
  ledger::Statement plan(*file->database,
                         "EXPLAIN QUERY PLAN SELECT seq, at_ms, type, tenant, data FROM events WHERE seq > ?1 "
                         "AND tenant = ?3 ORDER BY seq LIMIT ?2");
  ASSERT_TRUE(plan.step());
  EXPECT_EQ(plan.text(3), "SEARCH events USING INDEX events_by_tenant (tenant=? AND seq>?)");
  EXPECT_FALSE(plan.step()) << "and need no sorting";
}

TEST_F(TidyTest, events_go_up_to_the_first_young_one_and_never_the_last) {
  auto file = ledger::open_file(store_options_);
  ASSERT_TRUE(file);
  ledger::Rows rows(*file->database);
  const std::int64_t noon = ledger::ms_of(kNoon);
  for (const int minute : {0, 1, 5, 2, 3}) {
    rows.end(answered(minute, 1, kNoon + std::chrono::minutes{minute}), {});
  }
  EXPECT_EQ(rows.forget_events(noon, 10), 0U);
  EXPECT_EQ(rows.forget_events(noon + 4 * 60'000, 1), 1U);
  EXPECT_EQ(rows.forget_events(noon + 4 * 60'000, 10), 1U) << "the third is young";
  EXPECT_EQ(rows.forget_events(noon + 60 * 60'000, 10), 2U) << "the last one stays";
  EXPECT_EQ(file->database->text("SELECT group_concat(seq) FROM events"), "5");
}

}  // namespace tidy_test
}  // namespace store_test
