#include "gateway/run_shelf.h"

#include <gtest/gtest.h>

namespace gateway {
namespace {

using namespace std::chrono_literals;

const TimePoint kNow{std::chrono::seconds{1'000}};

ledger::WaitingRun run(const std::string& id, const std::string& queue, const std::string& order = {}) {
  ledger::WaitingRun one;
  one.id = id;
  one.tenant = "t";
  one.queue = queue;
  one.ordering_key = order;
  return one;
}

std::string taken(RunShelf& shelf, TimePoint now = kNow) {
  std::string ids;
  while (auto next = shelf.next(now)) ids += (ids.empty() ? "" : " ") + next->id;
  return ids;
}

TEST(RunShelf, queues_take_turns_and_the_oldest_goes_first) {
  RunShelf shelf;
  shelf.put("a", {run("a1", "a"), run("a2", "a"), run("a3", "a")}, kNow);
  shelf.put("b", {run("b1", "b")}, kNow);
  shelf.put("c", {run("c1", "c"), run("c2", "c")}, kNow);
  EXPECT_EQ(taken(shelf), "a1 b1 c1 a2 c2 a3");
}

TEST(RunShelf, no_more_at_once_than_all_and_each_queue_may_have) {
  RunShelf shelf;
  shelf.configure(3, [](std::string_view queue) { return queue == "a" ? 1 : 0; });
  shelf.put("a", {run("a1", "a"), run("a2", "a")}, kNow);
  shelf.put("b", {run("b1", "b"), run("b2", "b"), run("b3", "b")}, kNow);
  EXPECT_EQ(taken(shelf), "a1 b1 b2");
  shelf.done("b1");
  EXPECT_EQ(taken(shelf), "b3");
  shelf.done("a1");
  EXPECT_EQ(taken(shelf), "a2");
}

TEST(RunShelf, of_an_ordering_key_one_is_held_and_it_is_its_queue_s_and_tenant_s_own) {
  RunShelf shelf;
  shelf.put("a", {run("a1", "a", "k"), run("a2", "a", "k"), run("a3", "a", "l")}, kNow);
  shelf.put("b", {run("b1", "b", "k")}, kNow);
  EXPECT_EQ(taken(shelf), "a1 b1 a3");
  shelf.done("a1");
  EXPECT_EQ(taken(shelf), "a2");
}

TEST(RunShelf, a_paused_queue_starts_nothing_until_its_time_or_its_resume) {
  RunShelf shelf;
  shelf.put("a", {run("a1", "a"), run("a2", "a")}, kNow);
  shelf.pause("a", kNow + 10s);
  EXPECT_EQ(taken(shelf), "");
  EXPECT_EQ(shelf.resumes_at(kNow), kNow + 10s);
  EXPECT_TRUE(shelf.to_read(kNow + 1s).empty());
  EXPECT_TRUE(shelf.resume("a"));
  EXPECT_FALSE(shelf.resume("a"));
  EXPECT_EQ(taken(shelf), "a1 a2");
  shelf.pause("a", TimePoint::max());
  EXPECT_EQ(shelf.resumes_at(kNow), std::nullopt);
}

TEST(RunShelf, a_window_does_not_bring_back_what_is_held_or_was_done_while_it_was_read) {
  RunShelf shelf;
  shelf.touch("a");
  ASSERT_EQ(shelf.to_read(kNow), std::vector<std::string>{"a"});
  shelf.put("a", {run("a1", "a"), run("a2", "a")}, kNow);
  EXPECT_EQ(taken(shelf), "a1 a2");
  shelf.reading({"a"});
  shelf.done("a1");
  shelf.put("a", {run("a1", "a"), run("a2", "a"), run("a3", "a")}, kNow + 1s);
  EXPECT_EQ(taken(shelf), "a3");
  // … and it is read once more, since something was done.
  EXPECT_EQ(shelf.to_read(kNow + 2s), std::vector<std::string>{"a"});
  shelf.reading({"a"});
  shelf.put("a", {}, kNow + 2s);
  EXPECT_TRUE(shelf.to_read(kNow + 3s).empty());
}

}  // namespace
}  // namespace gateway
