// Goal: whatever is done to the file beside a store that serves, or to the place of one that could not be used, no
// row is lost in silence, and it goes on by itself or says what is to be done.

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <random>

#include "ledger/care.h"
#include "tests/ledger/small_disk.h"
#include "tests/ledger/store_support.h"

namespace store_test {
namespace place_test {

namespace fs = std::filesystem;
using Kind = ledger::Problem::Kind;

class PlaceTest : public testing::Test {
 protected:
  StoreOptions options() { return options_at(path_, clock_); }
  StoreOptions stand_in() {
    StoreOptions options = options_at(":memory:", clock_);
    options.stands_in_for = path_;
    options.stands_in_because = "no place for it";
    return options;
  }
  [[nodiscard]] std::vector<std::string> files_like(const std::string& part) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(fs::path(path_).parent_path())) {
      const std::string name = entry.path().string();
      if (name.find(part) != std::string::npos && name.ends_with("Z")) found.push_back(name);
    }
    return found;
  }
  static bool moved(const Store& store, std::uint64_t times = 1) {
    return eventually([&] { return store.figures().moves >= times && store.figures().trouble.empty(); });
  }
  Folder folder_;
  Clock clock_;
  std::string path_ = folder_.path("callgate.db");
};

struct Loss {
  const char* name;
  std::vector<std::string> endings;  // Of what is removed.
};

TEST_F(PlaceTest, a_file_that_was_removed_is_written_anew_with_all_that_was_known) {
  const Loss losses[] = {{"the file", {""}},
                         {"its log", {"-wal"}},
                         {"its index", {"-shm"}},
                         {"all that begins with its name", {"", "-wal", "-shm", "-lock"}}};
  int number_of = 0;
  auto store = opened(options());
  std::uint64_t times = 0;
  for (const Loss& loss : losses) {
    SCOPED_TRACE(loss.name);
    const int first = ++number_of;
    ASSERT_EQ(ended(*store, answered(first)), Written::Committed);
    ASSERT_EQ(claimed(*store, asking(first, clock_, first)).kind, ClaimAnswer::Kind::Ours);
    const CallRecord open = call(++number_of);
    ASSERT_EQ(begun(*store, opening(open)), Written::Committed);
    for (const std::string& ending : loss.endings) fs::remove(path_ + ending);
    ASSERT_TRUE(moved(*store, ++times)) << store->figures().trouble;
    EXPECT_EQ(store->figures().elsewhere, "");
    EXPECT_NE(store->figures().last_move.find(path_), std::string::npos) << store->figures().last_move;
    // What was under way goes on as if nothing had been.
    CallRecord end = answered(number_of);
    ASSERT_EQ(ended(*store, end), Written::Committed);
    EXPECT_EQ(claimed(*store, asking(first, clock_, first + 1'000)).kind, ClaimAnswer::Kind::Held);
    EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE state = 1"), number_of);
    Told<std::size_t> told;
    store->read([tell = told.teller()](ledger::Books& books) mutable {
      const auto rows = books.events(0, {}, 1'000);
      tell(rows ? rows->size() : 0);
    });
    EXPECT_EQ(told.wait(), static_cast<std::size_t>(number_of)) << "the reader has gone on too";
    EXPECT_FALSE(Store::open(options())) << "and it is still locked";
  }
  EXPECT_EQ(store->figures().lost_endings + store->figures().lost_open_rows + store->figures().lost_others, 0U);
  store.reset();
  EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
  EXPECT_FALSE(fs::exists(path_ + ".mending"));
}

TEST_F(PlaceTest, one_that_was_removed_a_moment_before_the_end_is_there_afterwards) {
  auto store = opened(options());
  ASSERT_EQ(ended(*store, answered(1)), Written::Committed);
  fs::remove(path_);
  ASSERT_EQ(ended(*store, answered(2)), Written::Committed);
  store.reset();
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls"), 2);
  EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
}

TEST_F(PlaceTest, another_file_in_its_place_is_left_alone_and_what_was_known_goes_on_beside_it) {
  const std::string backup = folder_.path("backup.db");
  auto store = opened(options());
  ASSERT_EQ(ended(*store, answered(1)), Written::Committed);
  ASSERT_TRUE(ledger::backup(path_, backup));
  ASSERT_EQ(ended(*store, answered(2)), Written::Committed);
  fs::rename(backup, path_);
  ASSERT_TRUE(moved(*store));
  const std::vector<std::string> kept = files_like(".kept-");
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_NE(store->figures().elsewhere.find(kept.front()), std::string::npos) << store->figures().elsewhere;
  ASSERT_EQ(ended(*store, answered(3)), Written::Committed);
  EXPECT_EQ(number(kept.front(), "SELECT count(*) FROM calls"), 3);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls"), 1) << "nobody has touched it";
  EXPECT_NE(store->figures().elsewhere, "") << "and it is told to the end";
  store.reset();
  EXPECT_EQ(ledger::check(kept.front()), std::vector<std::string>{});
  EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
  EXPECT_TRUE(Store::open(options()));
}

TEST_F(PlaceTest, a_link_that_is_removed_or_leads_elsewhere_is_noticed) {
  for (const bool elsewhere : {false, true}) {
    SCOPED_TRACE(elsewhere ? "elsewhere" : "removed");
    Folder folder;
    path_ = folder.path("callgate.db");
    const std::string real = folder.path("real.db");
    fs::create_symlink(real, path_);
    auto store = opened(options());
    ASSERT_EQ(ended(*store, answered(1)), Written::Committed);
    fs::remove(path_);
    if (elsewhere) {
      ASSERT_TRUE(ledger::backup(real, folder.path("other.db")));
      fs::create_symlink(folder.path("other.db"), path_);
    }
    ASSERT_TRUE(moved(*store));
    ASSERT_EQ(ended(*store, answered(2)), Written::Committed);
    EXPECT_EQ(store->figures().elsewhere.empty(), !elsewhere) << store->figures().elsewhere;
    const std::vector<std::string> kept = files_like(".kept-");
    ASSERT_EQ(kept.size(), elsewhere ? 1U : 0U);
    const std::string now = elsewhere ? kept.front() : path_;
    EXPECT_EQ(number(now, "SELECT count(*) FROM calls"), 2);
    EXPECT_EQ(number(real, "SELECT count(*) FROM calls"), 1);
    store.reset();
    EXPECT_EQ(ledger::check(now), std::vector<std::string>{});
  }
}

TEST_F(PlaceTest, where_its_folder_has_gone_rows_wait_keys_are_read_and_all_is_written_once_it_is_back) {
  path_ = folder_.path("volume/callgate.db");
  fs::create_directory(folder_.path("volume"));
  StoreOptions kept = options();
  kept.payloads = ledger::Payloads::Plain;
  auto store = opened(kept);
  ASSERT_EQ(claimed(*store, asking(1, clock_, 1)).kind, ClaimAnswer::Kind::Ours);
  ledger::OnceOutcome once;
  once.scope = digest(1);
  once.call_id = id_of(1);
  once.answer = std::make_shared<const ledger::StoredAnswer>();
  ASSERT_EQ(ended(*store, answered(1), once), Written::Committed);
  fs::remove_all(folder_.path("volume"));
  ASSERT_TRUE(eventually([&] { return !store->figures().trouble.empty(); }));
  EXPECT_NE(store->figures().trouble.find("removed"), std::string::npos) << store->figures().trouble;
  Told<Written> told;
  store->end_call(answered(2), {}, told.teller());
  EXPECT_EQ(claimed(*store, asking(1, clock_, 3)).kind, ClaimAnswer::Kind::Stored);
  EXPECT_EQ(claimed(*store, asking(2, clock_, 3)).kind, ClaimAnswer::Kind::NoStore);
  // Long enough for it to be tried again.
  EXPECT_FALSE(told.wait(500ms)) << "it is not said to be written where nobody finds it";
  fs::create_directory(folder_.path("volume"));
  EXPECT_EQ(told.wait(), Written::Committed);
  store.reset();
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls"), 2);
  EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
}

TEST_F(PlaceTest, a_full_disk_keeps_what_was_removed_until_there_is_room) {
  const SmallDisk disk("size=3m");
  if (!disk.mounted()) GTEST_SKIP() << "this process may not mount a tmpfs";
  path_ = disk.path("callgate.db");
  auto store = opened(options());
  for (int i = 0; i < 50; ++i) ASSERT_EQ(ended(*store, answered(i)), Written::Committed);
  disk.fill();
  fs::remove(path_);
  ASSERT_TRUE(eventually([&] { return store->figures().trouble.find("does not succeed") != std::string::npos; }))
      << store->figures().trouble;
  EXPECT_FALSE(fs::exists(path_)) << "no half of it";
  disk.clear();
  ASSERT_TRUE(moved(*store));
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls"), 50);
}

TEST_F(PlaceTest, tries_that_do_not_succeed_leave_nothing_behind) {
  const SmallDisk disk("size=3m");
  if (!disk.mounted()) GTEST_SKIP() << "this process may not mount a tmpfs";
  path_ = disk.path("callgate.db");
  const std::string backup = disk.path("backup.db");
  auto store = opened(options());
  for (int i = 0; i < 50; ++i) ASSERT_EQ(ended(*store, answered(i)), Written::Committed);
  ASSERT_TRUE(ledger::backup(path_, backup));
  const auto kept = [&] {
    return std::ranges::count_if(fs::directory_iterator(fs::path(path_).parent_path()),
                                 [](const auto& entry) { return entry.path().string().contains(".kept-"); });
  };
  disk.fill();
  fs::rename(backup, path_);
  for (int tries = 0; tries < 2; ++tries) {
    clock_.forward(1min);  // Another name each time.
    const std::uint64_t failures = store->figures().failures;
    ASSERT_TRUE(eventually([&] { return store->figures().failures > failures; }));
  }
  ASSERT_TRUE(eventually([&] { return kept() == 0; }));
  disk.clear();
  ASSERT_TRUE(moved(*store));
  EXPECT_EQ(files_like(".kept-").size(), 1U);
  EXPECT_EQ(number(files_like(".kept-").front(), "SELECT count(*) FROM calls"), 50);
}

/// Wherever in the mend the process dies: what was committed is in the file, or, where it was not yet written anew,
/// the loss is that of who removed it, never a torn or a mixed file.
TEST_F(PlaceTest, a_kill_at_any_moment_of_the_mend_leaves_a_sound_file) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 chance(seed);
  constexpr int kRounds = 6;
  constexpr int kCalls = 400;
  int whole = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (const char* ending : {"", "-wal", "-shm", "-lock", ".mending"}) fs::remove(path_ + ending);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto store = Store::open(options());
      if (!store) _exit(3);
      for (int i = 0; i < kCalls; ++i) (*store)->end_call(answered(i), {});
      if (!(*store)->flush(kPatience)) _exit(4);
      fs::remove(path_);
      (void)!write(ends[1], "x", 1);
      for (;;) pause();
    }
    close(ends[1]);
    char byte = 0;
    ASSERT_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    // From the moment when the copy begins; the last rounds wait for its end.
    const auto seen = [&] { return fs::exists(path_ + ".mending") || fs::exists(path_); };
    ASSERT_TRUE(eventually(seen));
    if (round % 3 == 0) {
      ASSERT_TRUE(eventually([&] { return fs::exists(path_); }));
    }
    for (int i = std::uniform_int_distribution<int>(0, 2'000)(chance); i > 0; --i) std::this_thread::yield();
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    const bool there = fs::exists(path_);
    auto store = opened(options());
    ASSERT_TRUE(store);
    EXPECT_EQ(store->figures().set_aside, "");
    store.reset();
    ASSERT_EQ(ledger::check(path_), std::vector<std::string>{});
    if (there) {
      ASSERT_EQ(number(path_, "SELECT count(*) FROM calls"), kCalls);
      ++whole;
    }
  }
  EXPECT_GT(whole, 0);
}

TEST_F(PlaceTest, a_place_that_can_be_used_at_last_takes_what_memory_knows) {
  path_ = folder_.path("volume/callgate.db");
  auto store = opened(stand_in());
  EXPECT_EQ(store->figures().elsewhere, "no place for it");
  ASSERT_EQ(claimed(*store, asking(1, clock_, 1)).kind, ClaimAnswer::Kind::Ours);
  const CallRecord under_way = call(1);
  ASSERT_EQ(begun(*store, opening(under_way)), Written::Committed);
  ASSERT_EQ(ended(*store, answered(2)), Written::Committed);
  fs::create_directory(folder_.path("volume"));
  ASSERT_TRUE(moved(*store));
  EXPECT_EQ(store->figures().elsewhere, "");
  EXPECT_EQ(store->figures().unknown_outcomes, 0U) << "what is under way is ours";
  ASSERT_EQ(ended(*store, answered(1)), Written::Committed);
  EXPECT_EQ(claimed(*store, asking(1, clock_, 9)).kind, ClaimAnswer::Kind::Held);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE state = 1"), 2);
  EXPECT_FALSE(Store::open(options())) << "it is locked now";
  store.reset();
  EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
  store = opened(options());
  EXPECT_EQ(claimed(*store, asking(1, clock_, 10)).kind, ClaimAnswer::Kind::Unknown);
}

TEST_F(PlaceTest, one_that_holds_an_earlier_time_is_left_for_the_next_start) {
  ASSERT_EQ(ended(*opened(options()), answered(1)), Written::Committed);
  auto store = opened(stand_in());
  ASSERT_EQ(ended(*store, answered(2)), Written::Committed);
  ASSERT_TRUE(moved(*store));
  EXPECT_NE(store->figures().elsewhere.find("restart"), std::string::npos) << store->figures().elsewhere;
  const std::vector<std::string> kept = files_like(".kept-");
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(number(kept.front(), "SELECT count(*) FROM calls"), 1);
  store.reset();
  store = opened(options());
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls"), 1);
}

TEST_F(PlaceTest, a_full_disk_at_a_start_hides_nothing_that_was_paid) {
  for (const bool killed : {false, true}) {
    SCOPED_TRACE(killed ? "after a kill" : "after an end");
    const SmallDisk disk("size=3m");
    if (!disk.mounted()) GTEST_SKIP() << "this process may not mount a tmpfs";
    path_ = disk.path("callgate.db");
    StoreOptions plain = options();
    plain.payloads = ledger::Payloads::Plain;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto store = Store::open(plain);
      if (!store) _exit(3);
      (*store)->claim(asking(1, clock_, 1), {});
      ledger::OnceOutcome once;
      once.scope = digest(1);
      once.call_id = id_of(1);
      once.answer = std::make_shared<const ledger::StoredAnswer>();
      (*store)->end_call(answered(1), {.once = once}, {});
      (*store)->claim(asking(2, clock_, 2), {});
      if (!(*store)->flush(kPatience)) _exit(4);
      if (killed) kill(getpid(), SIGKILL);
      store->reset();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    disk.fill();
    auto store = opened(plain);
    ASSERT_TRUE(store);
    Tally rows;
    for (int i = 10; i < 400; ++i) store->end_call(answered(i), {}, rows.teller());
    ASSERT_TRUE(eventually([&] { return !store->figures().trouble.empty(); }));
    EXPECT_EQ(claimed(*store, asking(1, clock_, 900)).kind, ClaimAnswer::Kind::Stored);
    EXPECT_EQ(claimed(*store, asking(1, clock_, 900, 7)).kind, ClaimAnswer::Kind::OtherBody);
    ClaimAsk unknown = asking(2, clock_, 901);
    const ClaimAnswer rerun = claimed(*store, unknown);
    EXPECT_EQ(rerun.kind, ClaimAnswer::Kind::NoStore);
    EXPECT_EQ(rerun.call_id, id_of(2)) << "it may have been paid";
    unknown.rerun = false;
    EXPECT_EQ(claimed(*store, unknown).kind, ClaimAnswer::Kind::Unknown);
    const ClaimAnswer fresh = claimed(*store, asking(3, clock_, 902));
    EXPECT_EQ(fresh.kind, ClaimAnswer::Kind::NoStore);
    EXPECT_EQ(fresh.call_id, "");
    disk.clear();
    ASSERT_TRUE(store->flush(kPatience));
    EXPECT_EQ(rows.committed, 390);
  }
}

TEST_F(PlaceTest, what_ended_while_the_disk_refused_is_known_before_it_is_written) {
  StoreOptions plain = options();
  plain.payloads = ledger::Payloads::Plain;
  auto store = opened(plain);
  ASSERT_EQ(claimed(*store, asking(1, clock_, 1)).kind, ClaimAnswer::Kind::Ours);
  ASSERT_EQ(claimed(*store, asking(2, clock_, 2)).kind, ClaimAnswer::Kind::Ours);
  const auto outcome = [](int scope, int call, bool good) {
    ledger::OnceOutcome once;
    once.scope = digest(scope);
    once.call_id = id_of(call);
    if (good) once.answer = std::make_shared<const ledger::StoredAnswer>();
    return once;
  };
  Database other(path_, Database::Open::Write);
  other.run("BEGIN EXCLUSIVE");
  store->end_call(answered(8), {});
  ASSERT_TRUE(eventually([&] { return !store->figures().trouble.empty(); }));
  EXPECT_EQ(claimed(*store, asking(1, clock_, 9)).kind, ClaimAnswer::Kind::Held);
  store->end_call(answered(1), {.once = outcome(1, 1, true)});
  store->end_call(answered(2), {.once = outcome(2, 2, false)});
  // Never claimed, since the store could not; one that is for one is given once.
  ledger::OnceOutcome blind = outcome(3, 3, true);
  blind.unclaimed = asking(3, clock_, 3);
  store->end_call(answered(3), {.once = blind});
  ledger::OnceOutcome for_one = outcome(4, 4, true);
  for_one.unclaimed = asking(4, clock_, 4);
  for_one.give_once = true;
  store->end_call(answered(4), {.once = for_one});
  EXPECT_EQ(claimed(*store, asking(1, clock_, 11)).kind, ClaimAnswer::Kind::Stored);
  EXPECT_EQ(claimed(*store, asking(2, clock_, 12)).kind, ClaimAnswer::Kind::NoStore) << "it failed";
  EXPECT_EQ(claimed(*store, asking(3, clock_, 13)).kind, ClaimAnswer::Kind::Stored);
  EXPECT_EQ(claimed(*store, asking(3, clock_, 13, 7)).kind, ClaimAnswer::Kind::OtherBody);
  EXPECT_EQ(claimed(*store, asking(3, clock_, 3)).kind, ClaimAnswer::Kind::NoStore) << "its own end is no other's";
  EXPECT_EQ(claimed(*store, asking(4, clock_, 14)).kind, ClaimAnswer::Kind::Stored);
  EXPECT_EQ(claimed(*store, asking(4, clock_, 15)).kind, ClaimAnswer::Kind::NoStore) << "given once";
  // A job that was played all the same, because nobody could be asked, is told.
  ledger::OnceOutcome again = outcome(1, 16, true);
  again.unclaimed = asking(1, clock_, 16);
  store->end_call(answered(16), {.once = again});
  other.run("COMMIT");
  ASSERT_TRUE(store->flush(kPatience));
  EXPECT_EQ(store->figures().paid_again, 1U);
  EXPECT_EQ(claimed(*store, asking(3, clock_, 17)).kind, ClaimAnswer::Kind::Stored);
  EXPECT_EQ(claimed(*store, asking(4, clock_, 18)).kind, ClaimAnswer::Kind::Ours);
}

TEST_F(PlaceTest, an_answer_that_waits_is_found_beside_one_that_has_expired) {
  StoreOptions plain = options();
  plain.payloads = ledger::Payloads::Plain;
  auto store = opened(plain);
  ledger::OnceOutcome once;
  once.scope = digest(1);
  once.answer = std::make_shared<const ledger::StoredAnswer>();
  once.call_id = id_of(1);
  ASSERT_EQ(claimed(*store, asking(1, clock_, 1)).kind, ClaimAnswer::Kind::Ours);
  ASSERT_EQ(ended(*store, answered(1), once), Written::Committed);
  Database other(path_, Database::Open::Write);
  other.run("BEGIN EXCLUSIVE");
  clock_.forward(25h);
  store->end_call(answered(8), {});
  ASSERT_TRUE(eventually([&] { return !store->figures().trouble.empty(); }));
  once.call_id = id_of(2);
  once.unclaimed = asking(1, clock_, 2);
  store->end_call(answered(2), {.once = once});
  EXPECT_EQ(claimed(*store, asking(1, clock_, 3)).kind, ClaimAnswer::Kind::Stored);
  other.run("COMMIT");
}

TEST_F(PlaceTest, two_names_of_one_file_are_one) {
  auto store = opened(options());
  ASSERT_EQ(ended(*store, answered(1)), Written::Committed);
  const std::string hard = folder_.path("hard.db");
  const std::string soft = folder_.path("soft.db");
  fs::create_hard_link(path_, hard);
  fs::create_symlink("callgate.db", soft);
  const std::string bound = folder_.path("bound.db");
  std::ofstream{bound};
  const bool is_bound = mount(path_.c_str(), bound.c_str(), nullptr, MS_BIND, nullptr) == 0;
  std::vector<std::string> names = {hard, soft};
  if (is_bound) names.push_back(bound);
  // In a process of their own: POSIX locks go with any descriptor that is closed.
  for (const std::string& name : names) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto second = Store::open(options_at(name, clock_));
      _exit(!second && second.error().kind == Kind::InUse ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << name;
  }
  if (is_bound) umount2(bound.c_str(), MNT_DETACH);
  ASSERT_EQ(ended(*store, answered(2)), Written::Committed);
  store.reset();
  fs::remove(hard);
  store = opened(options_at(soft, clock_));
  ASSERT_TRUE(store);
  EXPECT_EQ(ended(*store, answered(3)), Written::Committed);
  EXPECT_GT(store->figures().file_bytes, 0U);
  EXPECT_TRUE(fs::exists(path_ + "-wal"));
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls"), 3);
}

}  // namespace place_test
}  // namespace store_test
