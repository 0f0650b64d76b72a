#include "gateway/slots.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/sim_runtime.h"

namespace gateway {
namespace {

using namespace std::chrono_literals;

struct Waiting {
  explicit Waiting(SimRuntime& runtime) : signal(runtime.io()) {}
  Signal signal;
  std::optional<std::expected<Permit, Refusal>> result{};
  TimePoint when{};
};

struct Line {
  explicit Line(int slots, Config::Queue queue = {})
      : admission(runtime, SlotLimits{{{"up", slots}}, queue}, [this](budget::Lane, int by) { depth += by; }) {}

  Waiting& ask(bool again = false, TimePoint deadline = TimePoint::max()) {
    auto& waiting = *all.emplace_back(std::make_unique<Waiting>(runtime));
    boost::asio::co_spawn(
        runtime.io(),
        [](Line& line, Waiting& one, bool once_more, TimePoint by) -> task<void> {
          SlotAsk ask{"up", budget::Lane::Interactive, by, once_more};
          one.result = co_await line.admission.wait(ask, one.signal);
          one.when = line.runtime.now();
          if (*one.result) line.order.push_back(&one);
        }(*this, waiting, again, deadline),
        boost::asio::detached);
    turn();
    return waiting;
  }
  void turn() {
    runtime.io().restart();
    runtime.io().poll();
  }
  void give_back(Waiting& waiting) {
    waiting.result->value().release();
    turn();
  }

  SimRuntime runtime{1};
  int depth = 0;
  Slots admission;
  std::vector<std::unique_ptr<Waiting>> all{};
  std::vector<Waiting*> order{};
};

TEST(Slots, lets_in_as_many_as_may_and_the_next_in_order) {
  Line line{2};
  Waiting& a = line.ask();
  Waiting& b = line.ask();
  Waiting& c = line.ask();
  Waiting& d = line.ask();
  EXPECT_EQ(line.admission.in_use("up"), 2);
  EXPECT_EQ(line.depth, 2);
  line.give_back(b);
  line.give_back(a);
  EXPECT_EQ(line.order, (std::vector<Waiting*>{&a, &b, &c, &d}));
  EXPECT_EQ(line.depth, 0);
}

TEST(Slots, a_retry_stands_before_those_who_have_not_begun) {
  Line line{1};
  Waiting& a = line.ask();
  Waiting& fresh = line.ask();
  Waiting& again = line.ask(true);
  Waiting& later = line.ask(true);
  line.give_back(a);
  line.give_back(again);
  line.give_back(later);
  EXPECT_EQ(line.order, (std::vector<Waiting*>{&a, &again, &later, &fresh}));
}

TEST(Slots, who_leaves_the_line_is_gone_from_it_at_once) {
  Line line{1};
  Waiting& a = line.ask();
  Waiting& ghost = line.ask();
  Waiting& b = line.ask();
  ghost.signal.stop(StopReason::CallerGone);
  line.turn();
  EXPECT_EQ(line.depth, 1);
  line.give_back(a);
  EXPECT_EQ(line.order, (std::vector<Waiting*>{&a, &b}));
}

TEST(Slots, a_slot_granted_to_one_who_just_left_goes_to_the_next) {
  Line line{1};
  Waiting& a = line.ask();
  Waiting& ghost = line.ask();
  Waiting& b = line.ask();
  a.result->value().release();  // Grants the ghost, who has not woken yet.
  ghost.signal.stop(StopReason::CallerGone);
  line.turn();
  EXPECT_EQ(line.order, (std::vector<Waiting*>{&a, &b}));
  EXPECT_EQ(line.admission.in_use("up"), 1);
}

TEST(Slots, refuses_when_full_when_waiting_is_over_and_when_the_deadline_comes) {
  Config::Queue queue;
  queue.total = 2;
  queue.max_wait.interactive = 5s;
  Line line{1, queue};
  Waiting& a = line.ask();
  Waiting& patient = line.ask();
  Waiting& hurried = line.ask(false, line.runtime.now() + 2s);
  Waiting& late = line.ask();
  ASSERT_TRUE(late.result.has_value());
  EXPECT_EQ(late.result->error().why, Refusal::Why::QueueFull);
  const TimePoint start = line.runtime.now();
  line.runtime.run();
  EXPECT_EQ(patient.result->error().why, Refusal::Why::WaitedTooLong);
  EXPECT_EQ(patient.when - start, 5s);
  EXPECT_EQ(hurried.result->error().why, Refusal::Why::Deadline);
  EXPECT_EQ(hurried.when - start, 2s);
  line.give_back(a);
  EXPECT_EQ(line.admission.in_use("up"), 0);
  EXPECT_EQ(line.admission.waiting(), 0u);
}

TEST(Slots, says_how_long_a_newcomer_would_wait) {
  Config::Queue queue;
  queue.total = 3;
  Line line{1, queue};
  Waiting& a = line.ask();
  line.runtime.at(line.runtime.now() + 8s, [] {});
  line.runtime.run();
  line.give_back(a);
  line.ask();
  for (int i = 0; i < 3; ++i) line.ask();
  const Waiting& refused = line.ask();
  ASSERT_TRUE(refused.result.has_value());
  EXPECT_EQ(refused.result->error().retry_after, 4 * 8s);
}

TEST(Slots, begins_nothing_after_its_deadline) {
  Line line{1};
  const Waiting& late = line.ask(false, line.runtime.now());
  ASSERT_TRUE(late.result.has_value());
  EXPECT_EQ(late.result->error().why, Refusal::Why::Deadline);
  EXPECT_EQ(line.admission.in_use("up"), 0);
}

TEST(Slots, a_drain_empties_the_line) {
  Line line{1};
  line.ask();
  Waiting& waiting = line.ask();
  waiting.signal.drain();
  line.turn();
  EXPECT_EQ(waiting.result->error().why, Refusal::Why::Draining);
  EXPECT_EQ(line.depth, 0);
}

TEST(Slots, a_new_limit_holds_at_once_for_those_who_wait) {
  Line line{1};
  line.ask();
  line.ask();
  line.ask();
  line.admission.update({{{"up", 3}}, {}});
  line.turn();
  EXPECT_EQ(line.order.size(), 3u);
}

TEST(Slots, a_limit_that_falls_ends_nothing_and_holds_for_who_comes) {
  Line line{2};
  Waiting& a = line.ask();
  Waiting& b = line.ask();
  line.admission.update({{{"up", 1}}, {}});
  line.turn();
  EXPECT_EQ(line.admission.in_use("up"), 2);
  Waiting& c = line.ask();
  line.give_back(a);
  EXPECT_FALSE(c.result.has_value());
  line.give_back(b);
  EXPECT_TRUE(c.result->has_value());
}

TEST(Slots, an_upstream_that_has_gone_keeps_its_limit_while_it_is_in_use) {
  Line line{1};
  Waiting& a = line.ask();
  Waiting& b = line.ask();
  Waiting& c = line.ask();
  line.admission.update({});
  line.turn();
  EXPECT_EQ(line.order, (std::vector<Waiting*>{&a}));
  line.give_back(a);
  EXPECT_EQ(line.order, (std::vector<Waiting*>{&a, &b}));
  line.admission.update({});
  line.give_back(b);
  line.give_back(c);
  line.admission.update({});  // At rest, it is forgotten.
  line.ask();
  line.ask();
  EXPECT_EQ(line.admission.in_use("up"), 2);
}

TEST(Slots, a_new_longest_wait_holds_for_those_who_wait) {
  Line line{1};
  line.ask();
  Waiting& waiting = line.ask();
  Config::Queue queue;
  queue.max_wait.interactive = 0ms;
  line.admission.update({{{"up", 1}}, queue});
  line.turn();
  EXPECT_EQ(waiting.result->error().why, Refusal::Why::WaitedTooLong);
  EXPECT_EQ(line.depth, 0);
}

}  // namespace
}  // namespace gateway
