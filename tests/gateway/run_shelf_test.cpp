#include "gateway/run_shelf.h"

#include <gtest/gtest.h>

#include <map>

namespace gateway {
namespace run_shelf_test {

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

TEST(RunShelf, a_tenant_alone_has_all_places_and_beside_others_leaves_some) {
  const auto of = [](const std::string& id, const std::string& queue, const std::string& tenant) {
    ledger::WaitingRun one = run(id, queue);
    one.tenant = tenant;
    return one;
  };
  const auto held = [&](RunShelf& shelf, TimePoint now) {
    std::map<std::string, int> count;
    while (auto next = shelf.next(now)) ++count[next->tenant];
    return count;
  };
  std::vector<ledger::WaitingRun> greedy;
  for (int i = 0; i < 30; ++i) greedy.push_back(of("g" + std::to_string(i), "a", "greedy"));
  RunShelf shelf;
  shelf.configure(16, {});
  shelf.put("a", greedy, kNow);
  EXPECT_EQ(held(shelf, kNow)["greedy"], 16);
  // Somebody comes: the next place that is free is theirs, and so are the following ones.
  shelf.put("b", {of("m1", "b", "modest"), of("m2", "b", "modest")}, kNow);
  shelf.done("g0");
  EXPECT_EQ(held(shelf, kNow), (std::map<std::string, int>{{"modest", 1}}));

  RunShelf both;
  both.configure(16, {});
  both.put("b", {of("m0", "b", "modest")}, kNow);
  both.put("a", greedy, kNow);
  EXPECT_EQ(held(both, kNow)["greedy"], 12);
  EXPECT_EQ(held(both, kNow + 11min)["greedy"], 3) << "long ago";
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
  EXPECT_EQ(shelf.reads_at(kNow + 3s), std::nullopt);
  shelf.touch("a");
  EXPECT_EQ(shelf.reads_at(kNow + 2s), kNow + 2s + 10ms);
  shelf.keep_only({});
  EXPECT_TRUE(shelf.knows("a"));
  shelf.reading({"a"});
  shelf.put("a", {}, kNow + 4s);
  shelf.keep_only({"a"});
  EXPECT_TRUE(shelf.knows("a"));
  shelf.done("a2");
  shelf.done("a3");
  shelf.reading({"a"});
  shelf.keep_only({});
  EXPECT_FALSE(shelf.knows("a"));
}

}  // namespace run_shelf_test
}  // namespace gateway
