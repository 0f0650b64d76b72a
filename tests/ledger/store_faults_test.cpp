// Goal: a disk that refuses costs nobody an answer: rows wait in order, what is given up is counted exactly, and all
// goes on by itself once the disk takes them again.

#include "ledger/care.h"
#include "tests/ledger/small_disk.h"
#include "tests/ledger/store_support.h"

namespace store_test {
namespace store_faults_test {

class FaultsTest : public testing::Test {
 protected:
  Folder folder_;
  Clock clock_;
  std::string path_ = folder_.path("callgate.db");
};

TEST_F(FaultsTest, a_lock_of_another_process_holds_rows_back_and_loses_none) {
  auto store = opened(options_at(path_, clock_));
  ASSERT_EQ(ended(*store, answered(0)), Written::Committed);
  Database other(path_, Database::Open::Write);
  other.run("BEGIN EXCLUSIVE");
  Tally tally;
  for (int i = 1; i <= 100; ++i) {
    const CallRecord record = call(i);
    store->open_attempt(opening(record));
    store->end_call(answered(i), {}, tally.teller());
  }
  ASSERT_TRUE(eventually([&] { return !store->figures().trouble.empty(); }));
  EXPECT_NE(store->figures().trouble.find("locked"), std::string::npos) << store->figures().trouble;
  EXPECT_NE(store->figures().trouble.find(path_), std::string::npos);
  EXPECT_EQ(claimed(*store, asking(1, clock_, 1'000)).kind, ClaimAnswer::Kind::NoStore);
  EXPECT_EQ(store->figures().waiting, 200U);
  EXPECT_EQ(tally.committed, 0);

  other.run("COMMIT");
  ASSERT_TRUE(store->flush(kPatience));
  EXPECT_EQ(tally.committed, 100);
  EXPECT_EQ(store->figures().trouble, "");
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE state = 1"), 101);
  EXPECT_EQ(claimed(*store, asking(1, clock_, 1'001)).kind, ClaimAnswer::Kind::Ours);
  store.reset();
  EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
}

TEST_F(FaultsTest, what_is_too_much_to_wait_is_given_up_oldest_first_and_counted_by_kind) {
  StoreOptions options = options_at(path_, clock_);
  options.most_waiting = 50;
  auto store = opened(options);
  ASSERT_EQ(ended(*store, answered(0)), Written::Committed);
  Database other(path_, Database::Open::Write);
  other.run("BEGIN EXCLUSIVE");
  Tally tally;
  for (int i = 1; i <= 100; ++i) {
    const CallRecord record = call(i);
    store->open_attempt(opening(record));
    store->end_call(answered(i), {}, tally.teller());
  }
  store->remember_pause({.what = "lane", .name = "bulk", .until_ms = {}});
  ASSERT_TRUE(eventually([&] { return store->figures().waiting == 50; }));
  other.run("COMMIT");
  ASSERT_TRUE(store->flush(kPatience));
  const ledger::StoreFigures figures = store->figures();
  EXPECT_EQ(figures.lost_open_rows + figures.lost_endings, 151U);
  EXPECT_EQ(tally.lost, static_cast<int>(figures.lost_endings));
  EXPECT_EQ(tally.committed + tally.lost, 100);
  EXPECT_NE(figures.last_loss.find("too much waited"), std::string::npos) << figures.last_loss;
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE state = 1"), 1 + tally.committed);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE id = '" + id_of(100) + "'"), 1) << "the youngest stay";
  EXPECT_EQ(number(path_, "SELECT count(*) FROM pauses"), 1);
}

TEST_F(FaultsTest, bytes_are_a_bound_too) {
  StoreOptions options = options_at(path_, clock_);
  options.most_waiting_bytes = 100'000;
  auto store = opened(options);
  Database other(path_, Database::Open::Write);
  other.run("BEGIN EXCLUSIVE");
  for (int i = 1; i <= 100; ++i) {
    CallRecord record = answered(i);
    record.path = std::string(10'000, '/');
    store->end_call(record, {});
  }
  ASSERT_TRUE(eventually([&] { return store->figures().waiting <= 10; }));
  EXPECT_GE(store->figures().lost_endings, 90U);
  EXPECT_LE(store->figures().waiting_bytes, 100'000U);
  other.run("COMMIT");
  ASSERT_TRUE(store->flush(kPatience));
}

TEST_F(FaultsTest, a_row_that_cannot_be_written_does_not_keep_the_others_back) {
  opened(options_at(path_, clock_)).reset();
  Database(path_, Database::Open::Write)
      .run(
          "CREATE TRIGGER poison BEFORE INSERT ON calls WHEN new.model = 'poison' BEGIN SELECT raise(ABORT, 'no'); "
          "END");
  auto store = opened(options_at(path_, clock_));
  Tally tally;
  for (int i = 0; i < 50; ++i) {
    CallRecord record = answered(i);
    if (i == 20) record.model = "poison";
    store->end_call(record, {}, tally.teller());
  }
  ASSERT_TRUE(store->flush(kPatience));
  EXPECT_EQ(tally.committed, 49);
  EXPECT_EQ(tally.lost, 1);
  EXPECT_EQ(store->figures().lost_endings, 1U);
  EXPECT_NE(store->figures().last_loss.find(id_of(20)), std::string::npos) << store->figures().last_loss;
  EXPECT_EQ(store->figures().trouble, "");
  store.reset();
  EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
}

TEST_F(FaultsTest, the_claim_of_an_ending_that_was_given_up_is_unknown_when_its_lease_is_over) {
  StoreOptions options = options_at(path_, clock_);
  options.most_waiting = 1;
  auto store = opened(options);
  ASSERT_EQ(claimed(*store, asking(1, clock_, 1)).kind, ClaimAnswer::Kind::Ours);
  Database other(path_, Database::Open::Write);
  other.run("BEGIN EXCLUSIVE");
  ledger::OnceOutcome once;
  once.scope = digest(1);
  once.call_id = id_of(1);
  // Only once the disk is known to refuse is it sure that nothing of what follows is in the writer's hand.
  store->end_call(answered(9), {});
  ASSERT_TRUE(eventually([&] { return !store->figures().trouble.empty(); }));
  store->end_call(answered(1), {.once = once});
  store->end_call(answered(2), {});
  store->end_call(answered(3), {});
  ASSERT_TRUE(eventually([&] { return store->figures().lost_endings >= 3; }));
  other.run("COMMIT");
  ASSERT_TRUE(store->flush(kPatience));
  EXPECT_EQ(claimed(*store, asking(1, clock_, 4)).kind, ClaimAnswer::Kind::Held);
  clock_.forward(61s);
  EXPECT_EQ(claimed(*store, asking(1, clock_, 5)).kind, ClaimAnswer::Kind::Unknown);
}

TEST_F(FaultsTest, an_end_in_trouble_takes_no_longer_than_it_may_and_tells_everybody) {
  StoreOptions options = options_at(path_, clock_);
  options.flush_for = 50ms;
  auto store = opened(options);
  Database other(path_, Database::Open::Write);
  other.run("BEGIN EXCLUSIVE");
  Tally tally;
  for (int i = 0; i < 20; ++i) store->end_call(answered(i), {}, tally.teller());
  store.reset();
  EXPECT_EQ(tally.lost, 20);
}

TEST_F(FaultsTest, F46_the_log_stays_bounded_beside_a_reader_that_never_rests) {
  constexpr std::uint64_t kBound = 64ULL << 20U;
  constexpr int kCalls = 12'000;  // More than twice the bound, by what is written for one call.
  auto store = opened(options_at(path_, clock_));
  std::atomic<bool> stop{false};
  std::atomic<int> readings{0};
  Told<bool> stopped;
  auto tell = stopped.teller();
  std::function<void(ledger::Books&)> reading = [&](ledger::Books& books) {
    ledger::SpendAsk ask;
    ask.by = {"run_id"};
    EXPECT_TRUE(books.spend(ask));
    ++readings;
    stop ? tell(true) : store->read(reading);
  };
  store->read(reading);
  std::uint64_t most = 0;
  for (int i = 0; i < kCalls; ++i) {
    CallRecord record = answered(i);
    record.run_id = "run-" + std::to_string(i * 7919 % 1'000);
    store->open_attempt(opening(record));
    // Each in a transaction of its own: nothing is saved by company.
    ASSERT_EQ(ended(*store, record), Written::Committed);
    if (i % 100 == 0) most = std::max(most, store->figures().log_bytes);
  }
  stop = true;
  EXPECT_TRUE(stopped.wait());
  EXPECT_LT(most, kBound);
  EXPECT_GT(readings, 2);
  EXPECT_EQ(store->figures().failures, 0U) << "nobody was too busy for anybody";
}

TEST_F(FaultsTest, a_full_disk_is_waited_out) {
  const SmallDisk disk("size=3m");
  if (!disk.mounted()) GTEST_SKIP() << "this process may not mount a tmpfs";
  path_ = disk.path("callgate.db");
  auto store = opened(options_at(path_, clock_));
  ASSERT_EQ(ended(*store, answered(0)), Written::Committed);
  disk.fill();
  Tally tally;
  for (int i = 1; i <= 400; ++i) store->end_call(answered(i), {}, tally.teller());
  ASSERT_TRUE(eventually([&] { return !store->figures().trouble.empty(); }));
  EXPECT_NE(store->figures().trouble.find("full"), std::string::npos) << store->figures().trouble;
  EXPECT_EQ(claimed(*store, asking(1, clock_, 1'000)).kind, ClaimAnswer::Kind::NoStore);

  disk.clear();
  ASSERT_TRUE(store->flush(kPatience));
  EXPECT_EQ(tally.committed, 400);
  EXPECT_EQ(store->figures().trouble, "");
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE state = 1"), 401);
  store.reset();
  EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
}

TEST_F(FaultsTest, trouble_ends_by_itself_where_nothing_waits_to_be_written) {
  auto store = opened(options_at(path_, clock_));
  ASSERT_EQ(ended(*store, answered(0)), Written::Committed);
  {
    Database other(path_, Database::Open::Write);
    const ledger::Transaction lock(other, ledger::Transaction::Kind::Write);
    // Its claim is answered, so nothing is left that would try again.
    ASSERT_EQ(claimed(*store, asking(1, clock_, 1)).kind, ClaimAnswer::Kind::NoStore);
    ASSERT_NE(store->figures().trouble, "");
    const std::uint64_t failures = store->figures().failures;
    ASSERT_TRUE(eventually([&] { return store->figures().failures > failures; })) << "it is tried again";
    EXPECT_NE(store->figures().trouble, "") << "and found to be as it was";
    EXPECT_EQ(store->figures().waiting, 0U);
  }
  EXPECT_TRUE(eventually([&] { return store->figures().trouble.empty(); }));
  EXPECT_EQ(claimed(*store, asking(1, clock_, 2)).kind, ClaimAnswer::Kind::Ours);
}

TEST_F(FaultsTest, a_full_disk_is_not_taken_for_well_where_nothing_waits) {
  const SmallDisk disk("size=3m");
  if (!disk.mounted()) GTEST_SKIP() << "this process may not mount a tmpfs";
  path_ = disk.path("callgate.db");
  auto store = opened(options_at(path_, clock_));
  ASSERT_EQ(ended(*store, answered(0)), Written::Committed);
  disk.fill();
  int asked = 0;
  ASSERT_TRUE(eventually([&] {
    ++asked;
    return claimed(*store, asking(asked, clock_, asked)).kind == ClaimAnswer::Kind::NoStore;
  }));
  const std::uint64_t failures = store->figures().failures;
  const std::uint64_t commits = store->figures().commits;
  ASSERT_TRUE(eventually([&] { return store->figures().failures > failures + 1; }));
  EXPECT_EQ(store->figures().commits, commits);
  disk.clear();
  EXPECT_TRUE(eventually([&] { return store->figures().trouble.empty(); }));
}

TEST_F(FaultsTest, a_disk_that_is_full_at_the_start_is_told) {
  const SmallDisk disk("size=1m");
  if (!disk.mounted()) GTEST_SKIP() << "this process may not mount a tmpfs";
  path_ = disk.path("callgate.db");
  disk.fill();
  const auto store = Store::open(options_at(path_, clock_));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ledger::Problem::Kind::Unusable);
  disk.clear();
  EXPECT_TRUE(Store::open(options_at(path_, clock_)));
}

TEST_F(FaultsTest, a_disk_that_is_read_only_at_the_start_is_told) {
  const SmallDisk disk("size=4m");
  if (!disk.mounted()) GTEST_SKIP() << "this process may not mount a tmpfs";
  path_ = disk.path("callgate.db");
  opened(options_at(path_, clock_)).reset();
  ASSERT_TRUE(disk.remount(MS_RDONLY));
  const auto store = Store::open(options_at(path_, clock_));
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().text.find("Read-only"), std::string::npos) << store.error().text;
}

}  // namespace store_faults_test
}  // namespace store_test
