// Goal: whatever a start finds, it goes on from there without losing a row, or says in one line why it cannot.

#include <sys/stat.h>

#include <fstream>

#include "ledger/care.h"
#include "ledger/file.h"
#include "ledger/schema.h"
#include "tests/ledger/store_support.h"

namespace store_test {
namespace start_test {

using Kind = ledger::Problem::Kind;

class StartTest : public testing::Test {
 protected:
  StoreOptions options() { return options_at(path_, clock_); }
  void expect_refused(Kind kind, const std::string& word) {
    const auto store = Store::open(options());
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().kind, kind);
    EXPECT_NE(store.error().text.find(word), std::string::npos) << store.error().text;
    EXPECT_NE(store.error().text.find(path_), std::string::npos) << store.error().text;
  }
  void put(const std::string& bytes, std::streamoff at = 0) {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(at);
    file << bytes;
  }
  /// Enough for several pages of each table.
  void fill(int calls) {
    auto store = opened(options());
    for (int i = 0; i < calls; ++i) store->end_call(answered(i), {});
    ASSERT_TRUE(store->flush(kPatience));
  }
  Folder folder_;
  Clock clock_;
  std::string path_ = folder_.path("callgate.db");
};

TEST_F(StartTest, what_was_open_is_unknown_charged_at_its_reservation_and_told) {
  {
    auto store = opened(options());
    CallRecord first = call(1);
    first.run_id = "run";
    ASSERT_EQ(begun(*store, opening(first, 1, 5'000)), Written::Committed);
    first.attempts.push_back(attempt(first, 1, 300));
    ASSERT_EQ(begun(*store, opening(first, 2, 6'000)), Written::Committed);
    ASSERT_EQ(ended(*store, answered(2)), Written::Committed);
  }
  clock_.forward(std::chrono::hours{1});
  auto store = opened(options());
  EXPECT_EQ(store->figures().unknown_outcomes, 1U);
  EXPECT_EQ(
      text(path_, "SELECT json_array(state, class, attempts, cost_nano) FROM calls WHERE id = '" + id_of(1) + "'"),
      R"([2,"crash",2,300])");
  EXPECT_EQ(text(path_,
                 "SELECT json_array(state, possibly_billed, charged_nano, tokens_from) FROM attempts "
                 "WHERE number = 2"),
            R"([2,1,6000,"unknown"])");
  EXPECT_EQ(text(path_,
                 "SELECT json_array(sum(calls), sum(answered), sum(possibly_billed), sum(possibly_billed_nano), "
                 "sum(charged_nano), sum(failed_nano)) FROM spend_by_period"),
            "[2,1,1,6000,7300,300]");
  EXPECT_EQ(number(path_, "SELECT charged_nano FROM spend_by_run WHERE run_id = 'run'"), 6'300);
  EXPECT_EQ(text(path_, "SELECT data->>'charged_usd' FROM events WHERE type = 'call.unknown'"), "0.000006");
  store.reset();
  EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});

  store = opened(options());
  EXPECT_EQ(store->figures().unknown_outcomes, 0U) << "once is enough";
}

TEST_F(StartTest, an_attempt_that_had_ended_before_the_kill_is_charged_as_it_was_told) {
  {
    auto store = opened(options_at(path_, clock_));
    CallRecord record = call(1);
    record.run_id = "r";
    store->open_attempt(opening(record, 1, 9'000));
    record.attempts.push_back(attempt(record, 1, 300));
    store->attempt_ended(record);
  }
  auto store = opened(options_at(path_, clock_));
  EXPECT_EQ(store->figures().unknown_outcomes, 0U);
  EXPECT_EQ(text(path_, "SELECT json_array(state, attempts, cost_nano) FROM calls"), "[2,1,300]");
  EXPECT_EQ(text(path_, "SELECT json_array(state, possibly_billed, charged_nano) FROM attempts"), "[1,0,300]");
  EXPECT_EQ(number(path_, "SELECT charged_nano FROM spend_by_run"), 300);
  EXPECT_EQ(text(path_, "SELECT json_array(sum(calls), sum(charged_nano), sum(retry_nano)) FROM spend_by_period"),
            "[1,300,0]");
}

TEST_F(StartTest, a_second_one_is_refused_and_told_by_whom) {
  auto store = opened(options());
  expect_refused(Kind::InUse, std::to_string(getpid()));
  store.reset();
  EXPECT_TRUE(Store::open(options()));
}

TEST_F(StartTest, nobody_else_may_read_it) {
  fill(1);
  auto store = opened(options());
  for (const char* ending : {"", "-wal", "-shm", "-lock"}) {
    struct stat status {};
    ASSERT_EQ(stat((path_ + ending).c_str(), &status), 0) << ending;
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << ending;
  }
}

TEST_F(StartTest, a_newer_file_is_left_alone) {
  fill(1);
  Database(path_, Database::Open::Write).run("PRAGMA user_version = " + std::to_string(ledger::kSchemaVersion + 1));
  expect_refused(Kind::Newer, "newer callgate");
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls"), 1);
}

TEST_F(StartTest, another_programs_database_is_left_alone) {
  Database(path_, Database::Open::Write).run("CREATE TABLE theirs(a); INSERT INTO theirs VALUES (7)");
  expect_refused(Kind::Unusable, "another program");
  EXPECT_EQ(number(path_, "SELECT a FROM theirs"), 7);
  EXPECT_EQ(text(path_, "PRAGMA journal_mode"), "delete");
}

TEST_F(StartTest, a_folder_that_is_missing_is_named) {
  path_ = folder_.path("no/such/folder.db");
  expect_refused(Kind::Unusable, "folder");
}

TEST_F(StartTest, a_damaged_file_is_set_aside_and_a_new_one_begun) {
  struct Case {
    const char* name;
    std::streamoff at;
    std::size_t bytes;
  };
  const Case cases[] = {{"its head", 0, 100}, {"its schema", 100, 3'000}, {"a page of rows", 4'096 * 30, 40'960}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    fill(300);
    put(std::string(c.bytes, 'X'), c.at);
    auto store = opened(options());
    ASSERT_TRUE(store);
    const std::string aside = store->figures().set_aside;
    EXPECT_TRUE(std::filesystem::exists(aside)) << aside;
    EXPECT_TRUE(aside.starts_with(path_ + ".broken-20261129T1200")) << aside;
    EXPECT_EQ(ended(*store, answered(1)), Written::Committed);
    EXPECT_EQ(number(path_, "SELECT count(*) FROM calls"), 1);
    store.reset();
    std::filesystem::remove(path_);
  }
}

TEST_F(StartTest, a_damaged_file_stays_where_that_is_wanted) {
  fill(300);
  put(std::string(100, 'X'));
  StoreOptions wanted = options();
  wanted.set_aside_if_broken = false;
  const auto store = Store::open(wanted);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, Kind::Broken);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(StartTest, a_check_finds_sums_that_differ_and_rows_that_are_lost) {
  fill(3);
  EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
  struct Case {
    const char* sql;
    const char* word;
  };
  const Case cases[] = {
      {"UPDATE spend_by_period SET cost_nano = cost_nano + 7", "cost_nano by 7"},
      {"UPDATE spend_by_period SET cost_nano = cost_nano - 7, answered = 2", "answered by -1"},
      {"DELETE FROM calls WHERE id = (SELECT max(id) FROM calls)", "without their call"},
      {"UPDATE calls SET attempts = 2", "attempts are not all there"},
  };
  for (const Case& c : cases) {
    Database(path_, Database::Open::Write).run(c.sql);
    std::string all;
    for (const std::string& line : ledger::check(path_)) all += line + "\n";
    EXPECT_NE(all.find(c.word), std::string::npos) << all;
  }
  EXPECT_FALSE(ledger::check(folder_.path("none.db")).empty());
}

TEST_F(StartTest, a_backup_of_one_that_is_served_is_whole_and_starts) {
  fill(500);
  auto store = opened(options());
  const std::string to = folder_.path("copy.db");
  ASSERT_EQ(ended(*store, answered(1'000)), Written::Committed);
  const std::expected<void, std::string> copied = ledger::backup(path_, to);
  EXPECT_TRUE(copied) << copied.error();
  EXPECT_EQ(number(to, "SELECT count(*) FROM calls"), 501);
  EXPECT_EQ(ledger::check(to), std::vector<std::string>{});
  struct stat status {};
  ASSERT_EQ(stat(to.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  const std::expected<void, std::string> again = ledger::backup(path_, to);
  EXPECT_FALSE(again);
  EXPECT_EQ(number(to, "SELECT count(*) FROM calls"), 501) << "what was there is left alone";
  EXPECT_TRUE(Store::open(options_at(to, clock_)));
}

}  // namespace start_test
}  // namespace store_test
