// Goal: whatever was told as committed is there after kill -9, and no row is torn.
// Method: a child process writes calls and tells through a pipe what was committed; it is killed after a number of
// tellings that a seed chose, so at any point of a transaction. Then the file is looked into and opened again.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <set>

#include "ledger/care.h"
#include "tests/ledger/small_disk.h"
#include "tests/ledger/store_support.h"

namespace store_test {
namespace crash_test {

struct Tell {
  int call = 0;
  bool end = false;
};

[[noreturn]] void write_until_killed(const std::string& path, int pipe, int first, ledger::Commit commit) {
  Clock clock;
  StoreOptions options = options_at(path, clock);
  options.commit = commit;
  auto store = Store::open(options);
  if (!store) _exit(3);
  const auto tell = [pipe](int number, bool end) {
    return [pipe, number, end](Written written) {
      const Tell told{number, end};
      if (written == Written::Committed) (void)!write(pipe, &told, sizeof told);
    };
  };
  for (int i = first;; ++i) {
    CallRecord record = call(i);
    record.run_id = "run-" + std::to_string(i % 7);
    (*store)->claim(asking(i, clock, i), {});
    (*store)->open_attempt(opening(record), tell(i, false));
    record.attempts.push_back(attempt(record, 1, 10));
    if (i % 3 == 0) (*store)->open_attempt(opening(record, 2));
    if (i % 3 == 0) record.attempts.push_back(attempt(record, 2, 100));
    record.outcome = ledger::Outcome::Answered;
    record.ended = kNoon + 1s;
    ledger::OnceOutcome once;
    once.scope = digest(i);
    once.call_id = record.id;
    if (i % 2 == 0) once.answer = std::make_shared<const ledger::StoredAnswer>();
    (*store)->end_call(record, {.once = once}, tell(i, true));
    // Some wait for the writer, so that transactions are small and large.
    if (i % 5 == 0) (*store)->flush(kPatience);
  }
}

class CrashTest : public testing::TestWithParam<ledger::Commit> {};
INSTANTIATE_TEST_SUITE_P(, CrashTest, testing::Values(ledger::Commit::Process, ledger::Commit::Disk),
                         [](const auto& param) {
                           return std::string{param.param == ledger::Commit::Process ? "process" : "disk"};
                         });

TEST_P(CrashTest, what_was_told_is_there_after_a_kill) {
  const unsigned seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 chance(seed);
  Folder folder;
  Clock clock;
  const std::string path = folder.path("callgate.db");
  std::set<int> begun;
  std::set<int> done;
  const int rounds = GetParam() == ledger::Commit::Process ? 40 : 15;
  for (int round = 0; round < rounds; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      write_until_killed(path, ends[1], round * 100'000, GetParam());
    }
    close(ends[1]);
    Tell told;
    int left = std::uniform_int_distribution<int>(0, 300)(chance);
    while (read(ends[0], &told, sizeof told) == static_cast<ssize_t>(sizeof told)) {
      (told.end ? done : begun).insert(told.call);
      if (left-- == 0) kill(child, SIGKILL);
    }
    close(ends[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);

    ASSERT_EQ(ledger::check(path), std::vector<std::string>{});
    opened(options_at(path, clock)).reset();
    ASSERT_EQ(ledger::check(path), std::vector<std::string>{});
  }
  Database database(path, Database::Open::Read);
  ledger::Statement state(database, "SELECT state FROM calls WHERE id = ?");
  const auto state_of = [&](int number) {
    const std::string id = id_of(number);
    state.bind(1, id);
    const std::int64_t found = state.step() ? state.number(0) : -1;
    state.reset();
    return found;
  };
  for (const int number : done) ASSERT_EQ(state_of(number), 1) << number;
  for (const int number : begun) ASSERT_GE(state_of(number), 1) << number;
  EXPECT_GT(done.size(), static_cast<std::size_t>(rounds));
  EXPECT_EQ(database.number("SELECT count(*) FROM calls WHERE state = 0"), 0);
  EXPECT_EQ(database.number("SELECT count(*) FROM idempotency WHERE state = 0"), 0)
      << "no claim outlives its process";
  EXPECT_EQ(database.number("SELECT sum(cost_nano) FROM attempts"),
            database.number("SELECT sum(cost_nano) FROM spend_by_period"));
}

/// The disk is full at a moment of its own, and may still be when the process is killed and when the next one begins.
TEST(CrashOnAFullDisk, what_was_told_is_there_after_a_kill_and_can_be_read_while_the_disk_is_full) {
  const SmallDisk disk("size=16m");
  if (!disk.mounted()) GTEST_SKIP() << "this process may not mount a tmpfs";
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 chance(seed);
  const auto up_to = [&](int most) { return std::uniform_int_distribution<int>(0, most)(chance); };
  Clock clock;
  const std::string path = disk.path("callgate.db");
  constexpr int kRounds = 10;
  std::set<int> done;
  for (int round = 0; round < kRounds; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      write_until_killed(path, ends[1], round * 100'000, ledger::Commit::Process);
    }
    close(ends[1]);
    Tell told;
    const auto hear = [&] {
      if (read(ends[0], &told, sizeof told) != static_cast<ssize_t>(sizeof told)) return false;
      if (told.end) done.insert(told.call);
      return true;
    };
    for (int i = up_to(200); i >= 0; --i) ASSERT_TRUE(hear());
    disk.fill();
    for (int i = up_to(2'000); i > 0; --i) std::this_thread::yield();
    const bool well_again = round % 2 == 0;
    if (well_again) {
      disk.clear();
      for (int i = up_to(200); i >= 0; --i) ASSERT_TRUE(hear());
    }
    kill(child, SIGKILL);
    while (hear()) {
    }
    close(ends[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    {
      auto store = opened(options_at(path, clock));
      ASSERT_TRUE(store);
      // The answer of every other job was kept: those are never taken for new ones, whatever may be written.
      const auto kept = std::ranges::find_if(done, [](int one) { return one % 2 == 0; });
      ASSERT_NE(kept, done.end());
      const ClaimAnswer answer = claimed(*store, asking(*kept, clock, 99'999'999));
      EXPECT_NE(answer.kind, ClaimAnswer::Kind::Ours);
      EXPECT_TRUE(answer.kind != ClaimAnswer::Kind::NoStore || !answer.call_id.empty());
    }
    disk.clear();
    opened(options_at(path, clock)).reset();
    ASSERT_EQ(ledger::check(path), std::vector<std::string>{});
  }
  Database database(path, Database::Open::Read);
  for (const int one : done) {
    ASSERT_EQ(database.number("SELECT state FROM calls WHERE id = '" + id_of(one) + "'").value_or(-1), 1) << one;
  }
}

}  // namespace crash_test
}  // namespace store_test
