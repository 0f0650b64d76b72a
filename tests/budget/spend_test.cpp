#include "budget/spend.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace budget {
namespace {

using namespace std::chrono_literals;
using Kind = SpendAnswer::Kind;

// 2026-03-10T12:00:00Z.
const WallTime kNoon{1'773'144'000s};
constexpr NanoUsd kCent{10'000'000};

SpendPolicy policy_of(SpendLimits limits, const char* zone = "UTC") {
  return {.tenants = {{"a", limits}}, .zone = std::make_shared<const Zone>(zone)};
}

struct World {
  Budgets budgets{};
  WallTime now = kNoon;
  explicit World(SpendLimits limits) { budgets.configure(policy_of(limits)); }
  Kind ask(std::int64_t worst, const char* run = "") { return budgets.look("a", run, {worst}, now).kind; }
  Reserved hold(std::int64_t worst, const char* run = "") { return budgets.reserve("a", run, {worst}, now); }
  void spend(std::int64_t cost, const char* run = "") { hold(cost, run).settle({cost}, now); }
  BudgetState state(Period period = Period::Day) {
    for (const BudgetState& one : budgets.view(now)) {
      if (one.period == period) return one;
    }
    return {};
  }
};

TEST(Spend, of_forty_at_once_exactly_three_run) {
  World world{{.daily = kCent}};
  std::vector<Reserved> held;
  std::vector<Kind> rest;
  for (int i = 0; i < 40; ++i) {
    const Kind kind = world.ask(3'000'000);
    if (kind == Kind::Yes) {
      held.push_back(world.hold(3'000'000));
    } else {
      rest.push_back(kind);
    }
  }
  EXPECT_EQ(held.size(), 3U);
  EXPECT_EQ(rest, std::vector<Kind>(37, Kind::Wait));
  for (Reserved& one : held) one.settle({3'000'000}, world.now);
  EXPECT_EQ(world.ask(3'000'000), Kind::Spent);
  EXPECT_EQ(world.ask(1'000'000), Kind::Yes);
  EXPECT_EQ(world.state().spent.value, 9'000'000);
  EXPECT_EQ(world.state().held.value, 0);
}

TEST(Spend, says_yes_wait_or_spent) {
  struct Case {
    const char* name;
    std::int64_t limit;
    std::int64_t spent;
    std::int64_t held;
    std::int64_t worst;
    Kind kind;
  };
  const Case cases[] = {
      {"to the last nano-dollar", 100, 40, 20, 40, Kind::Yes},
      {"one more waits", 100, 40, 20, 41, Kind::Wait},
      {"as long as settled money leaves room", 100, 40, 20, 60, Kind::Wait},
      {"not beyond it", 100, 40, 20, 61, Kind::Spent},
      {"too dear for any day", 100, 0, 0, 101, Kind::Spent},
      {"nothing costs nothing", 100, 100, 0, 0, Kind::Yes},
      {"less than nothing is nothing", 100, 100, 0, -50, Kind::Yes},
      {"a limit of nothing", 0, 0, 0, 1, Kind::Spent},
      {"sums do not overflow", 100, 40, 20, INT64_MAX, Kind::Spent},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    World world{{.daily = NanoUsd{c.limit}}};
    world.spend(c.spent);
    const Reserved held = world.hold(c.held);
    EXPECT_EQ(world.ask(c.worst), c.kind);
  }
}

TEST(Spend, the_answer_names_the_limit_that_holds_longest) {
  World world{{.daily = NanoUsd{100}, .monthly = NanoUsd{100}}};
  world.spend(100);
  const SpendAnswer answer = world.budgets.look("a", "", {1}, world.now);
  EXPECT_EQ(answer.kind, Kind::Spent);
  EXPECT_EQ(answer.period, Period::Month);
  EXPECT_EQ(answer.resets, Zone{}.month(world.now).end);
  EXPECT_EQ(answer.spent.value, 100);
}

TEST(Spend, a_run_has_its_own_and_others_are_not_held) {
  World world{{.daily = NanoUsd{1'000}, .per_run = NanoUsd{100}}};
  world.spend(90, "one");
  EXPECT_EQ(world.ask(11, "one"), Kind::Spent);
  EXPECT_EQ(world.budgets.look("a", "one", {11}, world.now).resets, std::nullopt);
  EXPECT_EQ(world.ask(11, "two"), Kind::Yes);
  EXPECT_EQ(world.ask(500), Kind::Yes);  // No run at all.
  world.now += 24h;
  EXPECT_EQ(world.ask(11, "one"), Kind::Spent);
  EXPECT_EQ(world.state().spent.value, 0);
}

TEST(Spend, what_is_dropped_comes_back_and_what_is_settled_counts_once) {
  World world{{.daily = NanoUsd{100}}};
  {
    const Reserved aborted = world.hold(100);
    EXPECT_EQ(world.ask(1), Kind::Wait);
  }
  EXPECT_EQ(world.ask(100), Kind::Yes);
  Reserved one = world.hold(60);
  one.settle({30}, world.now);
  one.settle({30}, world.now);
  Reserved other{std::move(one)};
  other.settle({30}, world.now);
  EXPECT_EQ(world.state().spent.value, 30);
  Reserved moved = world.hold(10);
  moved = world.hold(20);
  EXPECT_EQ(world.state().held.value, 20);
}

TEST(Spend, days_and_months_begin_anew) {
  World world{{.daily = NanoUsd{100}, .monthly = NanoUsd{150}}};
  world.spend(100);
  EXPECT_EQ(world.ask(1), Kind::Spent);
  world.now += 12h - 1s;
  EXPECT_EQ(world.ask(1), Kind::Spent);
  world.now += 1s;
  EXPECT_EQ(world.ask(50), Kind::Yes);
  EXPECT_EQ(world.ask(51), Kind::Spent);
  world.now += 24h * 22;
  EXPECT_EQ(world.ask(100), Kind::Yes);
}

TEST(Spend, is_counted_where_it_is_settled) {
  World world{{.daily = NanoUsd{100}}};
  Reserved over_midnight = world.hold(60);
  world.now += 24h;
  EXPECT_EQ(world.state().held.value, 60);
  over_midnight.settle({50}, world.now);
  EXPECT_EQ(world.state().spent.value, 50);
  EXPECT_EQ(world.state().held.value, 0);
}

TEST(Spend, a_clock_set_back_gives_no_money_again) {
  World world{{.daily = NanoUsd{100}, .monthly = NanoUsd{200}}};
  world.spend(100);
  for (const auto back : {1h, 24h, 24h * 40}) {
    world.now = kNoon - back;
    EXPECT_EQ(world.ask(1), Kind::Spent);
  }
  world.now = kNoon + 1h;
  EXPECT_EQ(world.ask(1), Kind::Spent);
}

// The hour between the first and the second midnight has the old date and the new day's money.
TEST(Spend, a_midnight_that_comes_twice_gives_money_once) {
  World world{{.daily = NanoUsd{100}}};
  world.budgets.configure(policy_of({.daily = NanoUsd{100}}, "America/St_Johns"));
  world.now = WallTime{1'289'097'900s};  // 2010-11-07T02:45:00Z.
  world.spend(100);
  EXPECT_EQ(world.ask(1), Kind::Spent);
  world.now += 1h;
  EXPECT_EQ(world.ask(1), Kind::Spent);
}

TEST(Spend, a_reload_keeps_balances) {
  World world{{.daily = NanoUsd{100}}};
  world.spend(80);
  const Reserved held = world.hold(10);
  world.budgets.configure(policy_of({.daily = NanoUsd{200}}));
  EXPECT_EQ(world.state().spent.value, 80);
  EXPECT_EQ(world.state().held.value, 10);
  EXPECT_EQ(world.ask(110), Kind::Yes);
  world.budgets.configure(policy_of({.daily = NanoUsd{50}}));
  EXPECT_EQ(world.ask(1), Kind::Spent);
  world.budgets.configure({});
  EXPECT_EQ(world.ask(1'000'000), Kind::Yes);
  world.budgets.configure(policy_of({.daily = NanoUsd{100}}));
  EXPECT_EQ(world.state().spent.value, 80);
  for (const char* zone : {"Asia/Kolkata", "America/Sao_Paulo", "Pacific/Apia", "UTC"}) {
    world.budgets.configure(policy_of({.daily = NanoUsd{100}}, zone));
    EXPECT_EQ(world.ask(21), Kind::Spent) << zone;
  }
  world.now += 72h;
  EXPECT_EQ(world.ask(90), Kind::Yes);
}

TEST(Spend, a_reservation_may_outlive_the_budgets) {
  auto budgets = std::make_unique<Budgets>();
  budgets->configure(policy_of({.daily = NanoUsd{100}, .per_run = NanoUsd{100}}));
  Reserved settled = budgets->reserve("a", "r", {50}, kNoon);
  const Reserved dropped = budgets->reserve("a", "r", {50}, kNoon);
  budgets.reset();
  settled.settle({50}, kNoon);
  EXPECT_FALSE(settled.held());
}

TEST(Spend, grants_last_as_long_as_their_period) {
  World world{{.daily = NanoUsd{100}, .per_run = NanoUsd{10}}};
  world.spend(100);
  EXPECT_TRUE(world.budgets.grant("a", Period::Day, "", {50}, world.now));
  EXPECT_EQ(world.ask(50), Kind::Yes);
  EXPECT_EQ(world.ask(51), Kind::Spent);
  EXPECT_TRUE(world.budgets.grant("a", Period::Day, "", {-20}, world.now));
  EXPECT_EQ(world.ask(31), Kind::Spent);
  EXPECT_EQ(world.state().limit.value, 130);
  EXPECT_FALSE(world.budgets.grant("a", Period::Month, "", {50}, world.now));
  EXPECT_FALSE(world.budgets.grant("nobody", Period::Day, "", {50}, world.now));
  EXPECT_TRUE(world.budgets.grant("a", Period::Run, "r", {5}, world.now));
  EXPECT_EQ(world.ask(15, "r"), Kind::Yes);
  world.now += 24h;
  EXPECT_EQ(world.ask(15, "r"), Kind::Yes);
  EXPECT_EQ(world.ask(101), Kind::Spent);
  EXPECT_EQ(world.state().granted.value, 0);
}

TEST(Spend, tells_once_per_period_and_limit) {
  World world{{.daily = NanoUsd{100}}};
  const auto kinds = [&] {
    std::vector<SpendEvent::Kind> all;
    for (const SpendEvent& event : world.budgets.events()) all.push_back(event.kind);
    return all;
  };
  using enum SpendEvent::Kind;
  using Kinds = std::vector<SpendEvent::Kind>;
  world.spend(79);
  EXPECT_EQ(kinds(), Kinds{});
  EXPECT_EQ(world.budgets.warned_share("a", "", world.now), std::nullopt);
  world.spend(1);
  EXPECT_EQ(kinds(), Kinds{Warned});
  EXPECT_EQ(world.budgets.warned_share("a", "", world.now), 0.8);
  world.spend(5);
  EXPECT_EQ(kinds(), Kinds{});
  EXPECT_EQ(world.ask(20), Kind::Spent);
  EXPECT_EQ(world.ask(20), Kind::Spent);
  world.spend(15);
  EXPECT_EQ(kinds(), Kinds{Exhausted});
  world.budgets.grant("a", Period::Day, "", {100}, world.now);
  EXPECT_EQ(kinds(), Kinds{});
  world.spend(60);
  EXPECT_EQ(kinds(), Kinds{Warned});
  world.now += 24h;
  world.spend(100);
  EXPECT_EQ(kinds(), (Kinds{Warned, Exhausted}));
}

TEST(Spend, runs_are_bounded_and_those_with_money_in_reserve_stay) {
  World world{{.per_run = NanoUsd{100}}};
  world.spend(50, "old");
  std::vector<Reserved> held;
  for (int i = 0; i < 10'050; ++i) held.push_back(world.hold(10, std::to_string(i).c_str()));
  held[0].settle({95}, world.now);
  EXPECT_EQ(world.ask(10, "0"), Kind::Spent);
  for (std::size_t i = 1; i < held.size(); ++i) held[i].settle({95}, world.now);
  // The last that came were not those that went.
  EXPECT_EQ(world.ask(10, "10049"), Kind::Spent);
  world.spend(1, "new");
  EXPECT_LE(world.budgets.view(world.now).size(), 10'000U);
}

// ---- Properties -----------------------------------------------------------------------------------------------

// Goal: sums are right to the nano-dollar whatever happens; with truths up to the worst case there is no overspend.
// Method: two tenants, three runs, a shadow of plain sums. Some are dropped, some fail, some are wrong by three.
RC_GTEST_PROP(Spend, sums_are_those_of_a_shadow, ()) {
  const bool true_worst = *rc::gen::arbitrary<bool>();
  constexpr std::int64_t kDaily = 10'000'000;
  constexpr std::int64_t kRun = 4'000'000;
  Budgets budgets;
  const SpendLimits limits{.daily = NanoUsd{kDaily}, .monthly = NanoUsd{3 * kDaily}, .per_run = NanoUsd{kRun}};
  budgets.configure({.tenants = {{"a", limits}, {"b", limits}}, .zone = nullptr});
  struct Held {
    Reserved money;
    std::string tenant, run;
    std::int64_t worst;
  };
  std::vector<Held> held;
  std::map<std::string, std::int64_t> day, month, run_spent, day_held, run_held;
  WallTime now = kNoon;
  const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
      rc::gen::tuple(rc::gen::inRange(0, 12), rc::gen::inRange(0, 6), rc::gen::inRange(1, 3'000'001)));
  for (const auto& [what, who, amount] : steps) {
    const std::string tenant = who % 2 == 0 ? "a" : "b";
    const std::string run = std::to_string(who / 2);
    const std::string key = tenant + run;
    if (what < 6) {
      Kind want = Kind::Yes;
      const auto limit = [&](std::int64_t most, std::int64_t spent, std::int64_t in_reserve) {
        if (spent + in_reserve + amount > most) want = std::max(want, Kind::Wait);
        if (spent + amount > most) want = Kind::Spent;
      };
      limit(kDaily, day[tenant], day_held[tenant]);
      limit(3 * kDaily, month[tenant], day_held[tenant]);
      limit(kRun, run_spent[key], run_held[key]);
      const Kind kind = budgets.look(tenant, run, {amount}, now).kind;
      RC_ASSERT(kind == want);
      if (kind != Kind::Yes) continue;
      held.push_back({budgets.reserve(tenant, run, {amount}, now), tenant, run, amount});
      day_held[tenant] += amount;
      run_held[key] += amount;
    } else if (what < 11 && !held.empty()) {
      const auto which = held.begin() + amount % static_cast<std::ptrdiff_t>(held.size());
      Held one = std::move(*which);
      held.erase(which);
      day_held[one.tenant] -= one.worst;
      run_held[one.tenant + one.run] -= one.worst;
      if (what == 6) continue;  // Dropped.
      std::int64_t cost = one.worst;
      if (what == 7) cost = 0;
      if (what == 8) cost = one.worst / 3;
      if (what == 9 && !true_worst) cost = one.worst * 3;
      one.money.settle({cost}, now);
      day[one.tenant] += cost;
      month[one.tenant] += cost;
      run_spent[one.tenant + one.run] += cost;
    } else if (what == 11 && who == 0) {
      const WallTime before = now;
      now += std::chrono::hours{5};
      if (Zone{}.day(before).begin != Zone{}.day(now).begin) day.clear();
      if (Zone{}.month(before).begin != Zone{}.month(now).begin) month.clear();
    }
    for (const BudgetState& state : budgets.view(now)) {
      const bool of_run = state.period == Period::Run;
      const std::string at = state.tenant + state.run_id;
      auto& spent = of_run ? run_spent : state.period == Period::Day ? day : month;
      RC_ASSERT(state.spent.value == spent[at]);
      RC_ASSERT(state.held.value == (of_run ? run_held[at] : day_held[at]));
      if (true_worst) RC_ASSERT(state.spent <= state.limit);
    }
  }
}

}  // namespace
}  // namespace budget
