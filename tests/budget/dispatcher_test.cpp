#include "budget/dispatcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <list>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace budget {
namespace dispatcher_test {

using namespace std::chrono_literals;
using Why = Refusal::Why;
using classifier::Class;

const TimePoint kNow{1'000s};
const WallTime kNoon{1'773'144'000s};

/// One attempt and all that its job looks at.
struct Task {
  std::string name{};
  std::string tenant = "a";
  std::string run{};
  std::vector<Candidate> ways{{.upstream = "u", .credential = "k", .configured = true, .group = "m", .model = "m"}};
  std::vector<TimePoint> not_before{TimePoint::min()};
  std::vector<char> tried{0};
  std::vector<Expected> expected{{60, 40}};
  std::vector<NanoUsd> worst{};
  Lane lane = Lane::Bulk;
  Waiter waiter{};
  Job job{};
  bool over = false;

  Task& by(const char* whose) { return tenant = whose, *this; }
  Task& in(Lane which) { return lane = which, *this; }
  Task& costs(std::int64_t tokens) { return expected.assign(ways.size(), {tokens, 0}), *this; }
  Task& pays(std::int64_t most) { return worst.assign(ways.size(), {most}), *this; }
  Task& to(std::initializer_list<const char*> upstreams) {
    ways.clear();
    for (const char* at : upstreams) ways.push_back({at, "k", true, "m", "m"});
    not_before.assign(ways.size(), TimePoint::min());
    tried.assign(ways.size(), 0);
    expected.assign(ways.size(), expected.front());
    return *this;
  }
  [[nodiscard]] bool begun() const { return job.granted.has_value(); }
  [[nodiscard]] bool waits() const { return job.waiting; }
  Grant& grant() { return job.granted->second; }
};

struct World {
  std::list<Task> tasks{};
  TimePoint now = kNow;
  WallTime wall = kNoon;
  std::string begun{};    // Names, in order.
  std::string refused{};  // Names, in order.
  std::array<int, 3> gauge{};
  DispatchPolicy policy{};
  double roll = 0.5;
  std::unique_ptr<Dispatcher> desk{};

  explicit World(int concurrent = 1) {
    policy.upstreams["u"] = {.concurrent = concurrent, .adaptive = false, .rates = {}};
    policy.upstreams["v"] = {.concurrent = concurrent, .adaptive = false, .rates = {}};
    desk = std::make_unique<Dispatcher>(
        Dispatcher::Doors{.roll = [this] { return roll; },
                          .settled =
                              [this](Job& job) {
                                Task& task = *static_cast<Task*>(job.owner);
                                (job.granted ? begun : refused) += task.name;
                              },
                          .happened = {},
                          .spent = {},
                          .moved = [this](Lane lane, int by) { gauge[static_cast<std::size_t>(lane)] += by; }});
    configure();
  }
  void configure() { desk->configure(policy, now, wall); }
  Task& task(std::string name = "") {
    tasks.emplace_back();
    tasks.back().name = std::move(name);
    return tasks.back();
  }
  Task& enter(Task& task, bool may_wait = true) {
    Job& job = task.job;
    job.candidates = task.ways;
    job.not_before = task.not_before;
    job.tried = task.tried;
    job.expected = task.expected;
    job.worst = task.worst;
    job.tenant = task.tenant;
    job.run_id = task.run;
    job.lane = task.lane;
    if (job.since == TimePoint{}) job.since = now;
    if (job.deadline == TimePoint{}) job.deadline = now + 24h;
    job.waiter = &task.waiter;
    job.owner = &task;
    job.granted.reset();
    job.refused.reset();
    job.waits = {};
    desk->enter(job, may_wait, now, wall);
    return task;
  }
  Task& again(Task& task) {
    task.job.again = true;
    task.job.since = now;
    return enter(task);
  }
  void end(Task& task, Ended ended = {.end = {.good = true}}) {
    desk->ended(task.grant(), ended, now, wall);
    task.job.granted.reset();
    task.over = true;
  }
  void pass(std::chrono::nanoseconds time) {
    now += time;
    wall += std::chrono::duration_cast<WallTime::duration>(time);
    desk->run(now, wall);
  }
  /// To the next moment that the dispatcher asks for.
  void to_next() {
    ASSERT_NE(desk->next(), TimePoint::max());
    pass(std::max<std::chrono::nanoseconds>(desk->next() - now, 0ns));
  }
  /// Whoever runs ends, one after another, until nobody begins any more.
  void drain() {
    for (bool any = true; any;) {
      any = false;
      for (Task& task : tasks) {
        if (!task.begun()) continue;
        pass(1ms);
        end(task);
        any = true;
      }
    }
  }
};

TEST(Dispatcher, in_a_tenant_first_come_first_served_and_repetitions_before_all) {
  World world;
  Task& first = world.enter(world.task("a"));
  for (const char* name : {"b", "c", "d"}) world.enter(world.task(name));
  world.end(first);
  EXPECT_EQ(world.begun, "ab");
  world.again(first);
  EXPECT_TRUE(first.waits());
  world.drain();
  EXPECT_EQ(world.begun, "abacd");
  EXPECT_EQ(world.desk->waiting(), 0U);
}

TEST(Dispatcher, the_oldest_of_a_lane_is_who_waits_longest_though_repetitions_stand_first) {
  World world;
  const auto oldest = [&] { return world.desk->lanes(world.now)[static_cast<std::size_t>(Lane::Bulk)].oldest; };
  EXPECT_FALSE(oldest());
  Task& first = world.enter(world.task("a"));
  EXPECT_FALSE(oldest()) << "it has begun";
  world.now += 1s;
  Task& second = world.enter(world.task("b"));
  world.now += 1s;
  world.enter(world.task("c"));
  EXPECT_EQ(oldest(), kNow + 1s);
  world.end(first);
  EXPECT_TRUE(second.begun());
  EXPECT_EQ(oldest(), kNow + 2s);
  world.now += 1s;
  world.again(first);
  EXPECT_EQ(oldest(), kNow + 2s) << "a repetition stands first, and has waited less";
  world.drain();
  EXPECT_FALSE(oldest());
}

TEST(Dispatcher, whom_its_own_limit_holds_blocks_nobody) {
  World world{2};
  world.policy.tenants["a"] = {.weight = 1, .rates = {}, .concurrent = 1};
  world.policy.tenants["r"] = {.weight = 1, .rates = {.requests = 1}, .concurrent = 0};
  world.policy.tenants["b"] = {};
  world.configure();
  Task& first = world.enter(world.task("1"));
  Task& second = world.enter(world.task("2"));
  EXPECT_EQ(second.job.held_by, Limit::TenantConcurrent);
  Task& other = world.enter(world.task("3").by("b"));
  EXPECT_TRUE(other.begun());
  world.end(other);
  Task& rated = world.enter(world.task("4").by("r"));
  world.end(rated);
  Task& held = world.enter(world.task("5").by("r"));
  EXPECT_EQ(held.job.held_by, Limit::TenantRate);
  EXPECT_STREQ(held.job.rate, "requests_per_minute");
  EXPECT_TRUE(world.enter(world.task("6").by("b")).begun());
  EXPECT_EQ(world.desk->next(), kNow + 60s);
  world.end(first);
  EXPECT_TRUE(second.begun());
}

TEST(Dispatcher, a_held_model_blocks_no_other_of_its_tenant) {
  World world{10};
  Task& refused = world.enter(world.task("1"));
  world.end(refused, {.end = {.cls = Class::RateLimited, .hint = 20s}});
  Task& paused = world.enter(world.task("2"));
  EXPECT_EQ(paused.job.held_by, Limit::Pause);
  Task& other = world.task("3");
  other.ways[0].group = other.ways[0].model = "n";
  EXPECT_TRUE(world.enter(other).begun());
  world.pass(19'999ms);
  EXPECT_TRUE(paused.waits());
  for (int i = 0; i < 20 && paused.waits(); ++i) world.to_next();
  EXPECT_TRUE(paused.begun());
  EXPECT_GE(world.now, kNow + 20s);
}

/// Ends one call of that tenant at once.
void ends_for(World& world, const char* tenant, bool good) {
  Task& task = world.enter(world.task().by(tenant));
  ASSERT_TRUE(task.begun());
  world.pass(10ms);
  world.end(task, good ? Ended{.end = {.good = true}} : Ended{.end = {.cls = Class::Overloaded}});
}
bool is_open(World& world) { return !world.desk->health(world.now).at(0).breakers.empty(); }
int limit_of(World& world) { return world.desk->upstreams(world.now).at(0).limit; }

struct Neighbours : World {
  Neighbours() : World{100} {
    policy.upstreams["u"].adaptive = true;
    policy.health.credentials["u"] = {"k"};
    configure();
    ends_for(*this, "a", true);
    pass(10s);  // Slow start.
    ends_for(*this, "a", true);
  }
};

TEST(Dispatcher, a_tenant_all_of_whose_calls_fail_takes_neither_breaker_nor_slots_from_others) {
  // Half of all that ends has failed: enough to open, by their share.
  Neighbours world;
  for (int i = 0; i < 300; ++i) {
    ends_for(world, "a", true);
    ends_for(world, "bad", false);
  }
  EXPECT_FALSE(is_open(world));
  EXPECT_EQ(limit_of(world), 100);
}

TEST(Dispatcher, an_upstream_that_fails_everybody_is_left_alone_whoever_failed_before) {
  for (const bool failed_before : {false, true}) {
    SCOPED_TRACE(failed_before);
    Neighbours world;
    for (int i = 0; i < 100; ++i) {
      ends_for(world, "a", true);
      ends_for(world, "b", true);
      if (failed_before) ends_for(world, "bad", false);
    }
    ASSERT_FALSE(is_open(world));
    const TimePoint down = world.now;
    for (int i = 0; i < 100 && !is_open(world); ++i) {
      world.pass(200ms);
      for (const char* tenant : {"a", "b", "bad"}) {
        if (!is_open(world)) ends_for(world, tenant, false);
      }
    }
    EXPECT_TRUE(is_open(world));
    EXPECT_LE(world.now, down + 3s);
    // A probe counts, whosever it is.
    world.pass(13s);
    ends_for(world, "bad", false);
    EXPECT_TRUE(is_open(world));
    EXPECT_TRUE(world.enter(world.task().by("a")).waits());
  }
  // Alone there with what it asks, it has nobody to compare with.
  Neighbours alone;
  for (int i = 0; i < 10 && !is_open(alone); ++i) ends_for(alone, "bad", false);
  EXPECT_TRUE(is_open(alone));
}

TEST(Dispatcher, a_tenant_that_recovers_counts_as_everybody_does) {
  Neighbours world;
  for (int i = 0; i < 50; ++i) {
    ends_for(world, "a", true);
    ends_for(world, "bad", false);
  }
  ends_for(world, "bad", true);
  world.pass(60s);  // Nothing is left in the window.
  for (int i = 0; i < 200 && !is_open(world); ++i) {
    for (const bool good : {false, false, true}) {
      if (!is_open(world)) ends_for(world, "bad", good);
    }
  }
  EXPECT_TRUE(is_open(world)) << "two in three of its calls fail now and then, as they may anybody";
}

TEST(Dispatcher, who_waits_for_a_rate_is_not_overtaken_at_it_by_a_smaller_one) {
  World world{10};
  world.policy.upstreams["u"].rates = {.tokens = 6'000};  // A second's worth at once: 100.
  world.configure();
  world.end(world.enter(world.task("1").by("b").costs(100)), {.end = {.good = true}, .tokens = std::pair{100, 0}});
  Task& large = world.enter(world.task("2").costs(80));
  Task& small = world.enter(world.task("3").by("b").costs(1));
  world.pass(500ms);
  EXPECT_TRUE(large.waits());
  EXPECT_TRUE(small.waits());
  EXPECT_EQ(small.job.held_by, Limit::UpstreamRate);
  world.pass(310ms);
  EXPECT_EQ(world.begun, "123");
}

/// Tokens by line of each of three lanes or tenants, all of which always wait.
struct Shares {
  std::vector<double> settled;
  std::vector<int> begun;
};
Shares shares(World& world, int rounds, const std::vector<std::pair<std::string, Lane>>& lines, unsigned seed) {
  std::mt19937 random{seed};
  Shares shares{std::vector<double>(lines.size()), std::vector<int>(lines.size())};
  std::list<std::pair<Task*, std::size_t>> live;
  const auto add = [&](std::size_t i) {
    Task& task = world.task();
    task.tenant = lines[i].first;
    world.enter(task.in(lines[i].second).costs(std::uniform_int_distribution{10, 2'000}(random)));
    live.emplace_back(&task, i);
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (int n = 0; n < 6; ++n) add(i);
  }
  for (int round = 0; round < rounds; ++round) {
    const auto running = std::ranges::find_if(live, [](const auto& one) { return one.first->begun(); });
    if (running == live.end()) {
      ADD_FAILURE() << "nobody runs";
      break;
    }
    const auto [task, i] = *running;
    live.erase(running);
    const std::int64_t truth =
        std::max<std::int64_t>(1, task->expected[0].input * std::uniform_int_distribution{1, 9}(random) / 3);
    world.now += 10ms;
    add(i);
    world.end(*task, {.end = {.good = true}, .tokens = std::pair{truth, std::int64_t{0}}});
    shares.settled[i] += static_cast<double>(truth);
    ++shares.begun[i];
  }
  return shares;
}

TEST(Dispatcher, backlogged_lanes_share_by_weight) {
  World world{4};
  world.policy.reserve = 0;
  world.configure();
  const Shares seen = shares(world, 30'000, {{"a", Lane::Interactive}, {"b", Lane::Bulk}, {"c", Lane::Backfill}}, 1);
  const double all = std::accumulate(seen.settled.begin(), seen.settled.end(), 0.0);
  EXPECT_NEAR(seen.settled[0] / all, 8.0 / 11, 0.02);
  EXPECT_NEAR(seen.settled[1] / all, 2.0 / 11, 0.02);
  EXPECT_NEAR(seen.settled[2] / all, 1.0 / 11, 0.02);
}

TEST(Dispatcher, the_lowest_lane_has_its_twentieth_whatever_the_weights) {
  World world{4};
  world.policy.reserve = 0;
  world.policy.weights = {1'000, 1, 1};
  world.configure();
  const Shares seen = shares(world, 30'000, {{"a", Lane::Interactive}, {"b", Lane::Bulk}, {"c", Lane::Backfill}}, 2);
  const double all = std::accumulate(seen.settled.begin(), seen.settled.end(), 0.0);
  EXPECT_GE(seen.settled[2] / all, 0.049);
}

TEST(Dispatcher, backlogged_tenants_share_by_weight) {
  World world{4};
  std::vector<std::pair<std::string, Lane>> lines;
  std::vector<double> weights;
  for (int i = 0; i < 10; ++i) {
    lines.emplace_back("t" + std::to_string(i), Lane::Bulk);
    weights.push_back(1 + i % 4);
    world.policy.tenants[lines.back().first].weight = weights.back();
  }
  world.configure();
  const Shares seen = shares(world, 40'000, lines, 3);
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double x = seen.settled[i] / weights[i];
    sum += x;
    squares += x * x;
  }
  EXPECT_GE(sum * sum / (10 * squares), 0.999);
}

TEST(Dispatcher, who_was_held_by_its_own_limit_or_an_operator_has_no_claim_to_the_past) {
  for (const bool lane : {false, true}) {
    World world;
    world.policy.reserve = 0;
    world.configure();
    const Lane other = lane ? Lane::Backfill : Lane::Bulk;
    world.desk->pause(
        lane ? Pausable::Lane : Pausable::Tenant, lane ? "backfill" : "p", TimePoint::max(), world.now, world.wall);
    for (int i = 0; i < 100; ++i) world.enter(world.task("p").by("p").in(other));
    for (int i = 0; i < 500; ++i) world.enter(world.task("a"));
    for (int i = 0; i < 300; ++i) {
      world.now += 10ms;
      for (Task& task : world.tasks) {
        if (task.begun()) {
          world.end(task);
          break;
        }
      }
    }
    world.desk->resume(lane ? Pausable::Lane : Pausable::Tenant, lane ? "backfill" : "p", world.now, world.wall);
    world.begun.clear();
    for (int i = 0; i < 60; ++i) {
      for (Task& task : world.tasks) {
        if (task.begun()) {
          world.end(task);
          break;
        }
      }
    }
    EXPECT_GE(std::ranges::count(world.begun, 'a'), 25) << (lane ? "lane" : "tenant") << world.begun;
    EXPECT_GE(std::ranges::count(world.begun, 'p'), lane ? 15 : 25) << world.begun;
  }
}

TEST(Dispatcher, keeps_one_slot_in_ten_while_higher_lanes_are_in_use) {
  struct Case {
    int concurrent;
    double reserve;
    bool used;
    int room;
  };
  for (const Case& c : {Case{20, 0.1, true, 18},
                        Case{20, 0.1, false, 20},
                        Case{5, 0.1, true, 4},
                        Case{2, 0.1, true, 1},
                        Case{1, 0.1, true, 1},
                        Case{4, 1.0, true, 1},
                        Case{20, 0.0, true, 20}}) {
    World world{c.concurrent};
    world.policy.reserve = c.reserve;
    world.configure();
    if (c.used) world.end(world.enter(world.task().in(Lane::Interactive)));
    int room = 0;
    for (int i = 0; i < 30; ++i) room += world.enter(world.task()).begun() ? 1 : 0;
    EXPECT_EQ(room, c.room) << c.concurrent;
    if (!c.used || c.room == c.concurrent) continue;
    EXPECT_TRUE(world.enter(world.task().in(Lane::Interactive)).begun());
    // Ten minutes later nobody needs it.
    for (Task& task : world.tasks) {
      if (task.lane == Lane::Interactive && task.begun()) world.end(task);
    }
    ASSERT_NE(world.desk->next(), TimePoint::max());
    world.pass(world.desk->next() - world.now);
    EXPECT_EQ(world.desk->in_flight("u"), c.concurrent);
    EXPECT_EQ(world.now, kNow + 10min);
  }
}

TEST(Dispatcher, bounds_refuse_the_youngest_of_the_longest_in_the_lowest_lane) {
  World world;
  world.policy.total = 4;
  world.policy.per_tenant = 3;
  world.configure();
  world.enter(world.task("0"));
  for (const char* name : {"1", "2", "3"}) world.enter(world.task(name));
  world.enter(world.task("4"));
  EXPECT_EQ(world.refused, "4");
  EXPECT_EQ(world.tasks.back().job.refused->limit, Limit::QueueTenant);
  EXPECT_EQ(world.tasks.back().job.refused->why, Why::QueueFull);
  world.enter(world.task("5").by("b").in(Lane::Backfill));
  world.enter(world.task("6").by("c").in(Lane::Interactive));
  EXPECT_EQ(world.refused, "45");
  world.enter(world.task("7").by("c").in(Lane::Interactive));
  EXPECT_EQ(world.refused, "453");
  world.enter(world.task("8").by("d").in(Lane::Backfill));
  EXPECT_EQ(world.refused, "4538");
  EXPECT_EQ(world.tasks.back().job.refused->limit, Limit::QueueTotal);
  EXPECT_EQ(world.desk->waiting(), 4U);
}

TEST(Dispatcher, bounds_never_refuse_repetitions) {
  World world{3};
  world.policy.total = world.policy.per_tenant = 1;
  world.configure();
  for (const char* name : {"1", "2", "3", "4"}) world.enter(world.task(name));
  std::vector<Task*> running;
  for (Task& task : world.tasks) {
    if (task.begun()) running.push_back(&task);
  }
  world.policy.upstreams["u"].concurrent = 1;
  world.configure();
  for (Task* task : running) world.end(*task);
  for (Task* task : running) world.again(*task);
  world.enter(world.task("5"));
  EXPECT_EQ(world.refused, "");
  world.enter(world.task("6"));
  EXPECT_EQ(world.refused, "6");
  world.drain();
  EXPECT_EQ(world.begun, "12341235");
}

TEST(Dispatcher, ghosts_are_gone_at_once) {
  World world;
  world.enter(world.task("1"));
  Task& ghost = world.enter(world.task("2"));
  Task& next = world.enter(world.task("3"));
  world.desk->leave(ghost.job, world.now, world.wall);
  EXPECT_FALSE(ghost.waits());
  EXPECT_EQ(world.desk->waiting(), 1U);
  EXPECT_EQ(world.gauge, (std::array<int, 3>{0, 1, 0}));
  world.end(world.tasks.front());
  EXPECT_TRUE(next.begun());
  world.desk->leave(ghost.job, world.now, world.wall);
  EXPECT_EQ(world.begun, "13");
}

TEST(Dispatcher, draining_refuses_what_would_have_to_wait) {
  World world;
  Task& first = world.enter(world.task("1"), false);
  EXPECT_TRUE(first.begun());
  EXPECT_EQ(world.enter(world.task("2"), false).job.refused->why, Why::Draining);
  world.enter(world.task("3"));
  EXPECT_EQ(world.enter(world.task("4"), false).job.refused->why, Why::Draining);
  EXPECT_EQ(world.enter(world.task("5").by("b"), false).job.refused->why, Why::Draining);
  world.drain();
  EXPECT_EQ(world.begun, "13");
}

TEST(Dispatcher, deadlines) {
  World world;
  Task& late = world.task("1");
  late.job.deadline = world.now;
  EXPECT_EQ(world.enter(late).job.refused->why, Why::Deadline);
  world.enter(world.task("2"));
  Task& waits = world.task("3");
  waits.job.deadline = world.now + 5s;
  world.enter(waits);
  EXPECT_EQ(world.desk->patience_of(waits.job), kNow + 5s);
  EXPECT_EQ(world.desk->overdue(waits.job, kNow + 5s).why, Why::Deadline);
  Task& patient = world.enter(world.task("4"));
  EXPECT_EQ(world.desk->patience_of(patient.job), kNow + 300s);
  const Refusal refusal = world.desk->overdue(patient.job, kNow + 300s);
  EXPECT_EQ(refusal.why, Why::WaitedTooLong);
  EXPECT_GE(refusal.retry_after, 1s);
}

TEST(Dispatcher, a_pause_that_ends_after_its_patience_refuses_at_once) {
  World world;
  world.end(world.enter(world.task("1")), {.end = {.cls = Class::RateLimited, .hint = 50s}});
  Task& task = world.task("2");
  task.job.deadline = world.now + 20s;
  world.enter(task);
  ASSERT_TRUE(task.job.refused);
  EXPECT_EQ(task.job.refused->why, Why::Paused);
  EXPECT_EQ(task.job.refused->retry_after, 50s);
  Task& brief = world.task("3");
  brief.job.longest_wait = 10s;
  EXPECT_EQ(world.enter(brief).job.refused->why, Why::PausedTooLong);
}

TEST(Dispatcher, an_operator_pauses_and_resumes) {
  struct Case {
    Pausable what;
    const char* name;
  };
  for (const Case& c : {Case{Pausable::Tenant, "a"}, Case{Pausable::Lane, "bulk"}, Case{Pausable::Upstream, "u"}}) {
    SCOPED_TRACE(name_of(c.what));
    World world{10};
    Task& running = world.enter(world.task("1"));
    world.desk->pause(c.what, c.name, world.now + 1h, world.now, world.wall);
    Task& task = world.enter(world.task("2"));
    EXPECT_EQ(task.job.held_by, Limit::Operator);
    EXPECT_TRUE(world.enter(world.task("3").by("b").in(Lane::Interactive).to({"v"})).begun());
    world.end(running);
    EXPECT_TRUE(task.waits());
    EXPECT_EQ(world.desk->next(), kNow + 1h);
    world.pass(1h);
    EXPECT_TRUE(task.begun());
    world.desk->pause(c.what, c.name, TimePoint::max(), world.now, world.wall);
    Task& more = world.enter(world.task("4"));
    world.pass(100h);
    EXPECT_TRUE(more.waits());
    EXPECT_TRUE(world.desk->resume(c.what, c.name, world.now, world.wall));
    EXPECT_TRUE(more.begun());
    EXPECT_FALSE(world.desk->resume(c.what, c.name, world.now, world.wall));
  }
}

TEST(Dispatcher, a_reload_keeps_places_and_its_limits_hold_at_once) {
  World world{2};
  for (const char* name : {"1", "2", "3", "4", "5"}) world.enter(world.task(name));
  world.policy.upstreams["u"].concurrent = 3;
  world.configure();
  EXPECT_EQ(world.begun, "123");
  world.policy.upstreams["u"].concurrent = 1;
  world.configure();
  world.end(world.tasks.front());
  EXPECT_EQ(world.begun, "123");
  EXPECT_EQ(world.desk->in_flight("u"), 2);
  world.policy.tenants["a"].rates.requests = 1;
  world.policy.upstreams["u"].concurrent = 10;
  world.configure();
  EXPECT_EQ(world.begun, "1234");
  EXPECT_EQ(world.tasks.back().job.held_by, Limit::TenantRate);
  world.policy.tenants.clear();
  world.configure();
  EXPECT_EQ(world.begun, "12345");
}

TEST(Dispatcher, a_dropped_grant_gives_everything_back_to_who_waits) {
  World world{10};
  world.policy.spend.tenants["a"] = {.daily = NanoUsd{100}};
  world.policy.tenants["a"].rates = {.tokens = 1'000};
  world.configure();
  Task& first = world.enter(world.task("1").pays(100).costs(100));
  Task& second = world.enter(world.task("2").pays(100).costs(100));
  EXPECT_TRUE(second.waits());
  first.job.granted.reset();
  // At once: nothing else may ever happen.
  EXPECT_TRUE(second.begun());
  Grant kept = std::move(second.grant());
  EXPECT_FALSE(second.grant().held());
  EXPECT_EQ(world.desk->in_flight("u"), 1);
  second.job.granted.reset();
  EXPECT_EQ(world.desk->in_flight("u"), 1);
  kept = Grant{};
  EXPECT_EQ(world.desk->in_flight("u"), 0);
}

TEST(Dispatcher, a_dropped_probe_lets_the_next_one_go) {
  World world{10};
  Task& refused = world.enter(world.task("1"));
  world.end(refused, {.end = {.cls = Class::Auth}});
  EXPECT_EQ(world.enter(world.task("2")).job.refused->why, Why::Quarantined);
  world.pass(30s);
  Task& probe = world.enter(world.task("3"));
  ASSERT_TRUE(probe.begun());
  probe.job.granted.reset();
  EXPECT_TRUE(world.enter(world.task("4")).begun());
}

TEST(Dispatcher, a_grant_may_outlive_it) {
  World world;
  Task& task = world.enter(world.task("1").pays(5));
  world.desk.reset();
  EXPECT_FALSE(task.grant().held());
  task.job.granted.reset();
}

TEST(Dispatcher, the_true_wait_grows_with_the_queue) {
  World world;
  world.policy.per_tenant = 10;
  world.configure();
  Milliseconds before{};
  for (int i = 0; i < 20; ++i) {
    Task& task = world.enter(world.task());
    world.now += 3s;
    if (task.begun()) world.end(task);
  }
  world.enter(world.task());
  for (int i = 0; i < 10; ++i) {
    Task& task = world.enter(world.task());
    const Milliseconds wait = world.desk->overdue(task.job, world.now).retry_after;
    EXPECT_GT(wait, before);
    before = wait;
  }
  EXPECT_NEAR(static_cast<double>(before.count()), 33'000, 4'000);
  EXPECT_EQ(world.enter(world.task()).job.refused->why, Why::QueueFull);
}

TEST(Dispatcher, of_forty_at_once_the_budget_lets_three_run) {
  World world{100};
  world.policy.spend.tenants["a"] = {.daily = NanoUsd{10'000'000}};
  world.configure();
  for (int i = 0; i < 40; ++i) world.enter(world.task("x").pays(3'000'000));
  EXPECT_EQ(world.begun, "xxx");
  // The first one in line; the others wait for it.
  EXPECT_EQ(world.desk->held()[static_cast<std::size_t>(Limit::Budget)], 1U);
  EXPECT_EQ(world.desk->held()[static_cast<std::size_t>(Limit::Order)], 36U);
  for (Task& task : world.tasks) {
    if (task.begun()) world.end(task, {.end = {.good = true}, .cost = NanoUsd{3'000'000}});
  }
  EXPECT_EQ(world.begun, "xxx");
  EXPECT_EQ(world.refused.size(), 37U);
  EXPECT_EQ(world.tasks.back().job.refused->why, Why::BudgetSpent);
  EXPECT_EQ(world.tasks.back().job.refused->retry_after, 12h);
  EXPECT_EQ(world.desk->budgets().view(world.wall)[0].spent.value, 9'000'000);
}

TEST(Dispatcher, what_was_thought_free_is_paid_for) {
  World world;
  world.policy.spend.tenants["a"] = {.daily = NanoUsd{100}};
  world.configure();
  world.end(world.enter(world.task("1").pays(0)), {.end = {.good = true}, .cost = NanoUsd{70}});
  EXPECT_EQ(world.desk->budgets().view(world.wall)[0].spent.value, 70);
}

TEST(Dispatcher, one_with_its_own_backoff_blocks_nobody_behind_it) {
  World world;
  Task& full = world.enter(world.task("1").by("b").to({"v"}));
  Task& repeated = world.task("2").to({"u", "v"});
  repeated.not_before[0] = world.now + 30s;
  world.again(repeated);
  EXPECT_TRUE(repeated.waits());
  EXPECT_TRUE(world.enter(world.task("3").to({"u", "v"})).begun());
  world.enter(world.task("4").to({"u", "v"}));
  world.end(full);
  EXPECT_EQ(world.begun, "132");
}

TEST(Dispatcher, waits_apart_are_the_whole_wait) {
  World world;
  world.policy.tenants["a"].rates.requests = 1;
  world.configure();
  world.enter(world.task("0").by("b"));
  Task& ahead = world.enter(world.task("1"));
  Task& task = world.enter(world.task("2"));
  world.pass(2s);
  world.end(world.tasks.front());
  world.pass(1s);
  world.desk->pause(Pausable::Tenant, "a", world.now + 10s, world.now, world.wall);
  world.end(ahead);
  for (int i = 0; i < 20 && task.waits(); ++i) world.to_next();
  ASSERT_TRUE(task.begun());
  const auto& waits = task.job.waits;
  const auto sum = std::accumulate(waits.begin(), waits.end(), std::chrono::microseconds{});
  EXPECT_EQ(sum, world.now - kNow);
  EXPECT_EQ(waits[static_cast<std::size_t>(Wait::Operator)], 10s);
}

// ---- Properties -----------------------------------------------------------------------------------------------

// Goal: after each step no waiting job could begin; limits hold; order is kept; all come to an end.
// Method: seeds; limits of a shadow that counts what is in flight. One amount of money per tenant, so that who is
// first in line stands for all.
TEST(Dispatcher, leaves_nobody_waiting_who_could_begin) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    const auto pick = [&](int n) { return std::uniform_int_distribution{0, n - 1}(random); };
    World world{3};
    world.policy.reserve = 0;
    world.policy.tenants["a"].concurrent = 2;
    world.policy.spend.tenants["b"] = {.daily = NanoUsd{1'000'000}};
    world.configure();
    std::map<std::string, int> of_tenant, at;
    std::vector<std::pair<std::string, Task*>> live;
    int entered = 0;
    int ended = 0;
    const auto check = [&] {
      of_tenant.clear();
      at.clear();
      for (const auto& [name, task] : live) {
        if (!task->begun()) continue;
        ++of_tenant[task->tenant];
        ++at[task->grant().way().upstream];
      }
      ASSERT_LE(of_tenant["a"], 2);
      ASSERT_LE(at["u"], 3);
      ASSERT_LE(at["v"], 3);
      ASSERT_EQ(world.desk->in_flight("u"), at["u"]);
      ASSERT_EQ(world.desk->in_flight("v"), at["v"]);
      for (const BudgetState& state : world.desk->budgets().view(world.wall)) {
        ASSERT_LE(state.spent.value + state.held.value, state.limit.value);
      }
      for (const auto& [name, task] : live) {
        if (!task->waits()) continue;
        if (task->tenant == "a" && of_tenant["a"] >= 2) continue;
        if (!task->worst.empty() &&
            world.desk->budgets().look("b", "", task->worst[0], world.wall).kind != SpendAnswer::Kind::Yes)
          continue;
        for (std::size_t i = 0; i < task->ways.size(); ++i) {
          ASSERT_FALSE(task->not_before[i] <= world.now && at[task->ways[i].upstream] < 3)
              << task->tenant << " could begin at " << task->ways[i].upstream;
        }
      }
    };
    for (int step = 0; step < 400; ++step) {
      const int what = pick(10);
      if (what < 5) {
        Task& task = world.task();
        const char* const tenants[] = {"a", "b", "c"};
        task.by(tenants[pick(3)]).in(static_cast<Lane>(pick(3))).costs(1 + pick(1'000));
        if (pick(3) == 0) task.to({"v"});
        if (pick(3) == 0) task.to({"v", "u"});
        if (task.tenant == "b") task.pays(300'000);
        live.emplace_back("", &task);
        ++entered;
        if (pick(4) == 0) {
          for (TimePoint& when : task.not_before) when = world.now + Milliseconds{pick(3'000)};
          world.again(task);
        } else {
          world.enter(task);
        }
      } else if (what < 9 && !live.empty()) {
        Task& task = *live[static_cast<std::size_t>(pick(static_cast<int>(live.size())))].second;
        if (task.begun() && pick(3) == 0) {
          task.job.granted.reset();
          task.over = true;
        } else if (task.begun()) {
          world.end(task, {.end = {.good = true}, .cost = NanoUsd{task.worst.empty() ? 0 : pick(2) * 1'000}});
        } else if (pick(4) == 0) {
          world.desk->leave(task.job, world.now, world.wall);
          task.over = true;
        }
      } else {
        world.pass(Milliseconds{pick(1'000)});
      }
      std::erase_if(live, [&](const auto& one) { return one.second->over || one.second->job.refused; });
      check();
      if (testing::Test::HasFatalFailure()) return;
    }
    // Everybody's turn comes.
    for (int i = 0; i < 10'000 && !live.empty(); ++i) {
      for (const auto& [name, task] : live) {
        if (task->begun()) world.end(*task), ++ended;
      }
      std::erase_if(live, [&](const auto& one) { return one.second->over || one.second->job.refused; });
      world.pass(100ms);
    }
    EXPECT_TRUE(live.empty());
    EXPECT_EQ(world.desk->waiting(), 0U);
  }
}

// Goal: a million calls with random endings leave nothing behind: gauges, reservations and buckets are at rest, and
// money is what a shadow says. 100 000 by default; CALLGATE_SIMULATED_CALLS for more.
TEST(Dispatcher, simulated_calls_leave_nothing_behind) {
  const char* const wanted = std::getenv("CALLGATE_SIMULATED_CALLS");
  const int calls = wanted ? std::atoi(wanted) : 100'000;
  constexpr unsigned kSeed = 20'260'310;
  std::mt19937 random{kSeed};
  const auto pick = [&](int n) { return std::uniform_int_distribution{0, n - 1}(random); };
  World world{20};
  world.policy.per_tenant = 50;
  world.policy.total = 200;
  world.policy.upstreams["v"].rates = {.requests = 60'000, .tokens = 60'000'000};
  world.policy.tenants["t1"] = {.weight = 3, .rates = {.tokens = 3'000'000}, .concurrent = 0};
  world.policy.tenants["t2"] = {.weight = 1, .rates = {}, .concurrent = 4};
  for (const char* name : {"t3", "t4"})
    world.policy.spend.tenants[name] = {.daily = NanoUsd{1'000'000'000'000'000'000}, .per_run = NanoUsd{20'000'000}};
  world.configure();
  std::map<std::string, std::int64_t> spent;
  std::vector<Task*> live;
  int entered = 0;
  int done = 0;
  const auto sweep = [&] {
    std::erase_if(live, [&](Task* task) {
      if (!task->over && !task->job.refused) return false;
      ++done;
      return true;
    });
    world.tasks.remove_if([](const Task& task) { return task.over || task.job.refused; });
  };
  const auto finish = [&](Task& task) {
    const std::int64_t worst = task.worst.empty() ? 0 : task.worst[0].value;
    std::int64_t& sum = spent[task.tenant];
    const Expected& expected = task.expected[0];
    switch (pick(12)) {
      case 0:  // The call crashed.
        task.job.granted.reset();
        task.over = true;
        return;
      case 1:
        return world.end(task, {.end = {.cls = Class::RateLimited, .hint = Milliseconds{pick(200)}}});
      case 2:
        return world.end(task, {.end = {.cls = Class::Overloaded}});
      case 3:
        sum += worst;
        return world.end(task, {.end = {.cls = Class::Timeout}, .possibly_billed = true});
      case 4:
        return world.end(task, {.end = {.cls = Class::Cancelled, .of_the_caller = true}});
      case 5:
        return world.end(task, {.end = {.cls = Class::InvalidRequest}});
      case 6: {  // Once more.
        world.end(task, {.end = {.cls = Class::ServerError}});
        task.over = false;
        std::ranges::fill(task.tried, 1);
        std::ranges::fill(task.not_before, world.now + Milliseconds{pick(300)});
        world.again(task);
        return;
      }
      case 7: {
        const Task* const before = &task;
        world.desk->proved(task.grant(), world.now, world.wall);
        ASSERT_EQ(before, &task);
        [[fallthrough]];
      }
      default: {
        const std::int64_t cost = worst * pick(10) / 3;
        if (!task.worst.empty()) sum += cost;
        world.end(task,
                  {.end = {.good = true},
                   .tokens = std::pair{expected.input * pick(10) / 3, expected.output * pick(10) / 3},
                   .cost = NanoUsd{cost}});
      }
    }
  };
  while (entered < calls) {
    if (live.size() < 400 && pick(2) == 0) {
      Task& task = world.task();
      task.tenant = "t" + std::to_string(pick(6));
      task.run = std::to_string(pick(3'000));
      task.in(static_cast<Lane>(pick(3)));
      task.expected[0] = {pick(2'000), pick(500)};
      if (pick(3) == 0) task.to({"v"});
      if (pick(3) == 0) task.to({"u", "v"});
      if (task.tenant == "t3" || task.tenant == "t4") task.pays(pick(3'000'000));
      task.job.deadline = world.now + Milliseconds{1 + pick(20'000)};
      ++entered;
      world.enter(task);
      live.push_back(&task);
    } else if (!live.empty()) {
      Task& task = *live[static_cast<std::size_t>(pick(static_cast<int>(live.size())))];
      if (task.begun()) {
        finish(task);
      } else if (task.waits() && (pick(20) == 0 || world.desk->patience_of(task.job) <= world.now)) {
        world.desk->leave(task.job, world.now, world.wall);
        task.over = true;
      }
    }
    if (pick(4) == 0) world.pass(std::chrono::microseconds{pick(20'000)});
    if (pick(16) == 0) sweep();
  }
  for (int round = 0; round < 100'000 && !live.empty(); ++round) {
    for (Task* task : live) {
      if (task->begun()) {
        finish(*task);
      } else if (task->waits() && world.desk->patience_of(task->job) <= world.now) {
        world.desk->leave(task->job, world.now, world.wall);
        task->over = true;
      }
    }
    sweep();
    world.pass(50ms);
  }
  ASSERT_TRUE(live.empty());
  EXPECT_EQ(done, entered);
  EXPECT_EQ(world.desk->waiting(), 0U);
  EXPECT_EQ(world.gauge, (std::array<int, 3>{}));
  EXPECT_EQ(world.desk->held(), (std::array<std::size_t, kLimits>{}));
  for (const LaneState& lane : world.desk->lanes(world.now)) EXPECT_EQ(lane.waiting, 0U);
  for (const TenantState& tenant : world.desk->tenants(world.now)) EXPECT_EQ(tenant.in_flight, 0) << tenant.name;
  for (const UpstreamLoad& load : world.desk->upstreams(world.now)) EXPECT_EQ(load.in_flight, 0) << load.name;
  std::map<std::string, std::int64_t> told;
  for (const BudgetState& state : world.desk->budgets().view(world.wall)) {
    EXPECT_EQ(state.held.value, 0) << state.tenant << state.run_id;
    if (state.period == Period::Day) told[state.tenant] = state.spent.value;
  }
  for (const char* name : {"t3", "t4"}) EXPECT_EQ(told[name], spent[name]) << name;
  // Buckets are full again, and nobody is remembered who is not there.
  world.pass(48h);
  world.pass(1h);
  EXPECT_EQ(world.desk->next(), TimePoint::max());
  EXPECT_TRUE(world.enter(world.task().by("t1").costs(3'000'000)).begun());
  EXPECT_TRUE(world.enter(world.task().by("t2").to({"v"}).costs(1'000'000)).begun());
}

}  // namespace dispatcher_test
}  // namespace budget
