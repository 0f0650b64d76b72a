#include "budget/breaker.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <utility>
#include <vector>

namespace budget {
namespace breaker_test {

using namespace std::chrono_literals;
using State = Breaker::State;
using Reason = Breaker::Reason;

const TimePoint kNow{100s};
const BreakerPolicy kPolicy{.window = 30s, .min_calls = 10, .failure_share = 0.5, .consecutive = 5, .open_for = 10s};

void ends(Breaker& breaker, Result result, TimePoint now, int times = 1, double roll = 0.0) {
  for (int i = 0; i < times; ++i) breaker.begin(now).settle(result, now, roll);
}

// --- The table in breaker.h, cell by cell
// ----------------------------------------------------------------------------

/// A breaker that gets into a state, with one ticket from each time before.
struct Scene {
  Breaker breaker{kPolicy};
  Ticket early = breaker.begin(kNow);  // Begun when closed.
  Ticket old_probe;                    // Given up by its deadline.
  Ticket probe;
  TimePoint now = kNow;

  void open() {
    now = kNow + 1s;
    ends(breaker, Result::Failure, now, 10);
  }
  void half_open() {
    open();
    now += 10s;
  }
  void probing() {
    half_open();
    old_probe = breaker.begin(now);
    now += 30s;
    probe = breaker.begin(now);
    now += 1s;
  }
  void settle(Ticket& ticket, Result result) { ticket.settle(result, now, 0.0); }
};

struct Cell {
  const char* name;
  void (Scene::*set)();  // Null: closed.
  std::function<void(Scene&)> event;
  State want;
  bool may_begin;
  Breaker::Transitions counted;
};

TEST(Breaker, follows_its_table) {
  const Breaker::Transitions opened{.opened_by_share = 1};
  const Breaker::Transitions probed{.opened_by_share = 1, .half_opened = 1};
  const Cell cells[] = {
      {"closed, success", nullptr, [](Scene& s) { s.settle(s.early, Result::Success); }, State::Closed, true, {}},
      {"closed, one failure", nullptr, [](Scene& s) { s.settle(s.early, Result::Failure); }, State::Closed, true, {}},
      {"closed, neutral", nullptr, [](Scene& s) { s.settle(s.early, Result::Neutral); }, State::Closed, true, {}},
      {"closed, dropped", nullptr, [](Scene& s) { s.early = {}; }, State::Closed, true, {}},
      {"closed, the share is reached",
       nullptr,
       [](Scene& s) { ends(s.breaker, Result::Failure, s.now, 10); },
       State::Open,
       false,
       {.opened_by_share = 1}},
      {"closed, a row is reached",
       nullptr,
       [](Scene& s) {
         ends(s.breaker, Result::Failure, s.now, 4);
         s.now += 1s;
         ends(s.breaker, Result::Failure, s.now);
       },
       State::Open,
       false,
       {.opened_by_row = 1}},

      {"open", &Scene::open, [](Scene&) {}, State::Open, false, opened},
      {"open, late success",
       &Scene::open,
       [](Scene& s) { s.settle(s.early, Result::Success); },
       State::Open,
       false,
       opened},
      {"open, late failure",
       &Scene::open,
       [](Scene& s) {
         s.now += 9s;
         s.settle(s.early, Result::Failure);
         s.now += 1s - 1ns;
       },
       State::Open,
       false,
       opened},
      {"open, a late failure does not extend it",
       &Scene::open,
       [](Scene& s) {
         s.now += 9s;
         s.settle(s.early, Result::Failure);
         s.now += 1s;
       },
       State::HalfOpen,
       true,
       opened},
      {"open, late neutral",
       &Scene::open,
       [](Scene& s) { s.settle(s.early, Result::Neutral); },
       State::Open,
       false,
       opened},
      {"open, its time has come", &Scene::open, [](Scene& s) { s.now += 10s; }, State::HalfOpen, true, opened},

      {"half open, late success",
       &Scene::half_open,
       [](Scene& s) { s.settle(s.early, Result::Success); },
       State::HalfOpen,
       true,
       opened},
      {"half open, late failure",
       &Scene::half_open,
       [](Scene& s) { s.settle(s.early, Result::Failure); },
       State::HalfOpen,
       true,
       opened},
      {"half open, late neutral",
       &Scene::half_open,
       [](Scene& s) { s.settle(s.early, Result::Neutral); },
       State::HalfOpen,
       true,
       opened},
      {"half open, begin",
       &Scene::half_open,
       [](Scene& s) { s.probe = s.breaker.begin(s.now); },
       State::HalfOpen,
       false,
       probed},

      {"probing, success",
       &Scene::probing,
       [](Scene& s) { s.settle(s.probe, Result::Success); },
       State::Closed,
       true,
       {.opened_by_share = 1, .half_opened = 1, .closed = 1}},
      {"probing, failure",
       &Scene::probing,
       [](Scene& s) { s.settle(s.probe, Result::Failure); },
       State::Open,
       false,
       {.opened_by_share = 1, .half_opened = 1, .reopened = 1}},
      {"probing, neutral",
       &Scene::probing,
       [](Scene& s) { s.settle(s.probe, Result::Neutral); },
       State::HalfOpen,
       true,
       probed},
      {"probing, dropped", &Scene::probing, [](Scene& s) { s.probe = {}; }, State::HalfOpen, true, probed},
      {"probing, not yet too long",
       &Scene::probing,
       [](Scene& s) { s.now += 29s - 1ns; },
       State::HalfOpen,
       false,
       probed},
      {"probing, too long", &Scene::probing, [](Scene& s) { s.now += 29s; }, State::HalfOpen, true, probed},
      {"probing, too long, but it succeeds before a new one is given",
       &Scene::probing,
       [](Scene& s) {
         s.now += 5min;
         s.settle(s.probe, Result::Success);
       },
       State::Closed,
       true,
       {.opened_by_share = 1, .half_opened = 1, .closed = 1}},
      {"probing, success of the probe that was given up: slow, but an answer",
       &Scene::probing,
       [](Scene& s) { s.settle(s.old_probe, Result::Success); },
       State::Closed,
       true,
       {.opened_by_share = 1, .half_opened = 1, .closed = 1}},
      {"probing, failure of the probe that was given up",
       &Scene::probing,
       [](Scene& s) { s.settle(s.old_probe, Result::Failure); },
       State::HalfOpen,
       false,
       probed},
      {"probing, neutral end of the probe that was given up",
       &Scene::probing,
       [](Scene& s) { s.old_probe = {}; },
       State::HalfOpen,
       false,
       probed},
      {"probing, late success of another",
       &Scene::probing,
       [](Scene& s) { s.settle(s.early, Result::Success); },
       State::HalfOpen,
       false,
       probed},
      {"probing, late failure of another",
       &Scene::probing,
       [](Scene& s) { s.settle(s.early, Result::Failure); },
       State::HalfOpen,
       false,
       probed},
      {"probing, late neutral of another",
       &Scene::probing,
       [](Scene& s) { s.settle(s.early, Result::Neutral); },
       State::HalfOpen,
       false,
       probed},
  };
  for (const Cell& c : cells) {
    SCOPED_TRACE(c.name);
    Scene scene;
    if (c.set != nullptr) (scene.*c.set)();
    c.event(scene);
    EXPECT_EQ(name_of(scene.breaker.state(scene.now)), name_of(c.want));
    EXPECT_EQ(scene.breaker.may_begin(scene.now), c.may_begin);
    EXPECT_EQ(scene.breaker.transitions(), c.counted);
  }
}

// --- When does it open?
// ----------------------------------------------------------------------------------------------

struct Outcome {
  Milliseconds at;
  Result result;
  int times = 1;
};
struct Opening {
  const char* name;
  std::vector<Outcome> outcomes;
  std::optional<Reason> want;
};

TEST(Breaker, opens_by_share_or_by_a_row) {
  constexpr auto good = Result::Success;
  constexpr auto bad = Result::Failure;
  constexpr auto none = Result::Neutral;
  const Opening cases[] = {
      {"half of ten", {{0s, good, 5}, {0s, bad, 5}}, Reason::FailureShare},
      {"a little less than half", {{0s, good, 6}, {0s, bad, 5}}, std::nullopt},
      {"nine are too few", {{0s, bad, 9}}, std::nullopt},
      {"a success that completes the ten does not open", {{0s, bad, 9}, {0s, good}}, std::nullopt},
      {"the failure after it does", {{0s, bad, 9}, {0s, good}, {0s, bad}}, Reason::FailureShare},
      {"neutral ends are no calls", {{0s, bad, 9}, {0s, none, 50}}, std::nullopt},
      {"nor good ones", {{0s, good, 4}, {0s, bad, 5}, {0s, none, 50}, {0s, bad}}, Reason::FailureShare},
      {"what is older than the window is forgotten", {{0s, bad, 9}, {30s, good, 6}, {30s, bad, 5}}, {}},
      {"what is not yet older counts", {{0s, good, 6}, {29s, bad, 6}}, Reason::FailureShare},
      {"five in a row over a second", {{0s, bad, 4}, {1s, bad}}, Reason::Consecutive},
      {"five at one moment are one incident", {{0s, bad, 5}}, std::nullopt},
      {"nor over less than a second", {{0s, bad, 4}, {999ms, bad, 5}}, std::nullopt},
      {"the sixth, after a second, does", {{0s, bad, 5}, {1s, bad}}, Reason::Consecutive},
      {"four are no row", {{0s, bad, 3}, {5s, bad}}, std::nullopt},
      {"a success between breaks it", {{0s, bad, 4}, {1s, good}, {2s, bad, 4}}, std::nullopt},
      {"the second counts from the first after it", {{0s, bad}, {5s, good}, {6s, bad, 5}}, std::nullopt},
      {"a neutral end between does not", {{0s, bad, 4}, {1s, none}, {2s, bad}}, Reason::Consecutive},
      {"neither limit on time", {{0s, bad, 3}, {40s, bad}, {80s, bad}}, Reason::Consecutive},
  };
  for (const Opening& c : cases) {
    SCOPED_TRACE(c.name);
    Breaker breaker{kPolicy};
    for (std::size_t i = 0; i < c.outcomes.size(); ++i) {
      for (int n = 0; n < c.outcomes[i].times; ++n) {
        ASSERT_EQ(breaker.state(kNow), State::Closed);
        ends(breaker, c.outcomes[i].result, kNow + c.outcomes[i].at);
      }
    }
    EXPECT_EQ(breaker.reason(), c.want);
  }
}

// F-24: one client's bad requests and aborts shut nobody out.
TEST(Breaker, is_not_opened_by_callers) {
  Breaker breaker{kPolicy};
  for (int i = 0; i < 100; ++i) {
    Ticket ticket = breaker.begin(kNow + i * 1s);
    if (i < 50) ticket.settle(Result::Neutral, kNow + i * 1s, 0.0);
  }
  EXPECT_EQ(breaker.state(kNow + 100s), State::Closed);
  EXPECT_EQ(breaker.transitions(), Breaker::Transitions{});
}

TEST(Breaker, stays_open_at_least_its_time_and_at_most_a_fifth_longer) {
  const std::pair<double, Milliseconds> cases[] = {{0.0, 10'000ms}, {0.5, 11'000ms}, {0.9999, 11'999ms}};
  for (const auto& [roll, wait] : cases) {
    SCOPED_TRACE(roll);
    Breaker breaker{kPolicy};
    ends(breaker, Result::Failure, kNow, 10, roll);
    EXPECT_EQ(std::chrono::floor<Milliseconds>(*breaker.next_probe() - kNow), wait);
    EXPECT_FALSE(breaker.may_begin(*breaker.next_probe() - 1ns));
    EXPECT_TRUE(breaker.may_begin(*breaker.next_probe()));
  }
}

TEST(Breaker, tells_since_when_and_why) {
  Breaker breaker{kPolicy};
  EXPECT_EQ(breaker.since(kNow), std::nullopt);
  EXPECT_EQ(breaker.reason(), std::nullopt);
  EXPECT_EQ(breaker.next_probe(), std::nullopt);

  ends(breaker, Result::Failure, kNow, 4);
  ends(breaker, Result::Failure, kNow + 2s);
  EXPECT_EQ(breaker.since(kNow + 3s), kNow + 2s);
  EXPECT_EQ(breaker.reason(), Reason::Consecutive);

  EXPECT_EQ(breaker.since(kNow + 20s), kNow + 12s);
  Ticket probe = breaker.begin(kNow + 20s);
  EXPECT_TRUE(probe.is_probe());
  EXPECT_EQ(breaker.since(kNow + 21s), kNow + 12s);
  EXPECT_EQ(breaker.next_probe(), kNow + 50s);
  probe.settle(Result::Failure, kNow + 21s, 0.0);
  EXPECT_EQ(breaker.since(kNow + 22s), kNow + 21s);
  EXPECT_EQ(breaker.reason(), Reason::Consecutive);

  ends(breaker, Result::Success, kNow + 31s);
  EXPECT_EQ(breaker.since(kNow + 40s), kNow + 31s);
  EXPECT_EQ(breaker.reason(), std::nullopt);
  EXPECT_FALSE(breaker.begin(kNow + 40s).is_probe());
}

TEST(Breaker, a_closing_forgets_what_came_before) {
  Breaker breaker{kPolicy};
  Ticket late = breaker.begin(kNow);
  ends(breaker, Result::Failure, kNow, 10);
  ends(breaker, Result::Success, kNow + 10s);
  late.settle(Result::Failure, kNow + 11s, 0.0);
  ends(breaker, Result::Failure, kNow + 11s, 4);
  ends(breaker, Result::Failure, kNow + 11s + 999ms, 5);
  EXPECT_EQ(breaker.state(kNow + 12s), State::Closed);
}

TEST(Breaker, a_ticket_settles_once) {
  Breaker breaker{kPolicy};
  Ticket ticket = breaker.begin(kNow);
  EXPECT_TRUE(ticket.is_open());
  for (int i = 0; i < 20; ++i) ticket.settle(Result::Failure, kNow, 0.0);
  EXPECT_FALSE(ticket.is_open());
  EXPECT_EQ(breaker.state(kNow), State::Closed);

  // A moved-from ticket is nobody's; one that is overwritten goes back.
  ends(breaker, Result::Failure, kNow, 9);
  Ticket probe = breaker.begin(kNow + 10s);
  Ticket moved = std::move(probe);
  EXPECT_FALSE(breaker.may_begin(kNow + 10s));
  moved = Ticket{};
  EXPECT_TRUE(breaker.may_begin(kNow + 10s));
}

TEST(Breaker, a_ticket_may_outlive_it) {
  auto breaker = std::make_unique<Breaker>(kPolicy);
  Ticket settled = breaker->begin(kNow);
  Ticket dropped = breaker->begin(kNow);
  breaker.reset();
  settled.settle(Result::Failure, kNow, 0.0);
}

TEST(Breaker, an_update_keeps_its_state) {
  Breaker breaker{kPolicy};
  ends(breaker, Result::Failure, kNow, 4);
  BreakerPolicy policy = kPolicy;
  policy.min_calls = 5;
  policy.window = 10s;
  breaker.update(policy);
  ends(breaker, Result::Failure, kNow + 500ms);
  EXPECT_EQ(breaker.reason(), Reason::FailureShare);

  policy.open_for = 1min;
  breaker.update(policy);
  EXPECT_EQ(breaker.next_probe(), kNow + 60'500ms);
  policy.open_for = 2s;
  breaker.update(policy);
  EXPECT_EQ(breaker.next_probe(), kNow + 2'500ms);
  { Ticket dropped = breaker.begin(kNow + 3s); }
  policy.open_for = 1h;
  breaker.update(policy);
  EXPECT_EQ(breaker.state(kNow + 3s), State::HalfOpen);
  EXPECT_TRUE(breaker.may_begin(kNow + 3s));

  // A longer or shorter window keeps of its outcomes what it can hold.
  Breaker window{kPolicy};
  ends(window, Result::Failure, kNow, 5);
  ends(window, Result::Failure, kNow + 25s - 24'500ms, 4);
  window.update({.window = 100s, .min_calls = 10, .failure_share = 0.5, .consecutive = 1'000, .open_for = 10s});
  ends(window, Result::Failure, kNow + 90s);
  EXPECT_EQ(window.reason(), Reason::FailureShare);
}

TEST(Breaker, takes_its_probe_deadline_from_the_policy) {
  const std::pair<std::optional<Milliseconds>, Milliseconds> cases[] = {{std::nullopt, 45s}, {5s, 5s}};
  for (const auto& [deadline, want] : cases) {
    BreakerPolicy policy = kPolicy;
    policy.open_for = 45s;
    policy.probe_deadline = deadline;
    Breaker breaker{policy};
    ends(breaker, Result::Failure, kNow, 10);
    const Ticket probe = breaker.begin(kNow + 45s);
    EXPECT_FALSE(breaker.may_begin(kNow + 45s + want - 1ns));
    EXPECT_TRUE(breaker.may_begin(kNow + 45s + want));
  }
}

TEST(Breaker, what_is_under_way_may_yet_be_an_answer) {
  // Failures end at once, answers take their time: of twenty, six failed, and fourteen are being answered.
  Breaker breaker{{.window = 30s, .min_calls = 5, .failure_share = 0.5, .consecutive = 5, .open_for = 10s}};
  std::vector<Ticket> out;
  for (int i = 0; i < 20; ++i) out.push_back(breaker.begin(kNow));
  for (int i = 0; i < 6; ++i)
    out[static_cast<std::size_t>(i)].settle(Result::Failure, kNow + Milliseconds{300 * i}, 0.0);
  EXPECT_EQ(breaker.state(kNow + 2s), State::Closed);
  // Those that are given up count no more.
  for (int i = 6; i < 16; ++i) out[static_cast<std::size_t>(i)].settle(Result::Neutral, kNow + 2s, 0.0);
  out[16].settle(Result::Failure, kNow + 2s, 0.0);
  EXPECT_EQ(breaker.state(kNow + 2s), State::Open);
}

TEST(Breaker, one_that_still_answers_some_is_asked_again_the_later_the_longer_it_is_silent) {
  Breaker breaker{{.window = 30s, .min_calls = 10, .failure_share = 0.5, .consecutive = 5, .open_for = 8s}};
  for (int i = 0; i < 5; ++i) {
    ends(breaker, Result::Success, kNow, 1);
    ends(breaker, Result::Failure, kNow, 1);
  }
  ASSERT_EQ(breaker.state(kNow), State::Open);
  EXPECT_EQ(breaker.next_probe(), kNow + 1s) << "an eighth of open_for";
  TimePoint now = kNow;
  int probes = 0;
  for (; probes < 100 && *breaker.next_probe() - now < 8s; ++probes) {
    now = *breaker.next_probe();
    breaker.begin(now).settle(Result::Failure, now, 0.0);
    const std::chrono::nanoseconds an_eighth = (now - kNow) / 8;
    EXPECT_EQ(breaker.next_probe(), now + std::clamp<std::chrono::nanoseconds>(an_eighth, 1s, 8s)) << probes;
  }
  EXPECT_GE(now, kNow + 64s);
}

TEST(Breaker, an_answer_to_what_began_before_the_opening_tells_that_it_answers) {
  for (const bool late_answer : {false, true}) {
    Breaker breaker{{.window = 30s, .min_calls = 10, .failure_share = 0.5, .consecutive = 50, .open_for = 8s}};
    Ticket slow = breaker.begin(kNow);
    ends(breaker, Result::Failure, kNow, 10);
    ASSERT_EQ(breaker.state(kNow), State::Open);
    EXPECT_EQ(breaker.next_probe(), kNow + 8s) << "it never answered anybody";
    if (late_answer) slow.settle(Result::Success, kNow + 100ms, 0.0);
    EXPECT_EQ(breaker.state(kNow + 100ms), State::Open);
    EXPECT_EQ(breaker.next_probe(), kNow + 8s);
    breaker.begin(kNow + 8s).settle(Result::Failure, kNow + 8s, 0.0);
    EXPECT_EQ(breaker.next_probe(), kNow + 8s + (late_answer ? 1s : 8s));
  }
}

TEST(Breaker, a_row_is_news_where_failing_is_not_usual) {
  const BreakerPolicy policy{
      .window = 30s, .min_calls = 1'000, .failure_share = 0.5, .consecutive = 5, .open_for = 10s};
  // Of each ten that came before, so many failed.
  struct Case {
    int failing;
    int opens_at;  // Failures in a row, 300 ms apart.
    bool is_down;  // Where much fails at any time, only silence says that.
  };
  for (const auto& [failing, opens_at, is_down] : {Case{0, 5, true}, Case{2, 8, true}, Case{6, 21, false}}) {
    Breaker breaker{policy};
    TimePoint now = kNow;
    for (int i = 0; i < 200; ++i) ends(breaker, i % 10 < failing ? Result::Failure : Result::Success, now += 10ms);
    int row = 0;
    while (breaker.state(now) == State::Closed && row < 100) {
      ends(breaker, Result::Failure, now += 300ms);
      ++row;
    }
    EXPECT_EQ(row, opens_at) << failing << " in ten";
    EXPECT_EQ(*breaker.next_probe() >= now + 10s, is_down) << failing << " in ten";
  }
  // Whatever is usual: nothing was answered for open_for.
  Breaker breaker{policy};
  TimePoint now = kNow;
  for (int i = 0; i < 200; ++i) ends(breaker, i % 10 < 9 ? Result::Failure : Result::Success, now += 10ms);
  ends(breaker, Result::Success, now);
  for (int i = 0; i < 4; ++i) ends(breaker, Result::Failure, now += 2s);
  EXPECT_EQ(breaker.state(now), State::Closed);
  ends(breaker, Result::Failure, now += 2s);
  EXPECT_EQ(breaker.state(now), State::Open);
}

TEST(Breaker, an_upstream_that_answers_some_is_let_finish_what_it_can) {
  Breaker breaker{{.window = 30s, .min_calls = 10, .failure_share = 0.5, .consecutive = 5, .open_for = 8s}};
  TimePoint now = kNow;
  int answered = 0;
  std::vector<int> per_opening;
  while (per_opening.size() < 4) {
    // Three in five fail, never five in a row.
    for (const Result result :
         {Result::Failure, Result::Success, Result::Failure, Result::Failure, Result::Success}) {
      now += 10ms;
      if (breaker.state(now) != State::Closed) break;
      breaker.begin(now).settle(result, now, 0.0);
      answered += result == Result::Success ? 1 : 0;
    }
    if (breaker.state(now) == State::Closed) continue;
    per_opening.push_back(std::exchange(answered, 0));
    now = *breaker.next_probe();
    breaker.begin(now).settle(Result::Success, now, 0.0);
  }
  for (std::size_t i = 1; i < per_opening.size(); ++i) EXPECT_GE(per_opening[i], 2 * per_opening[i - 1] - 2);
  // One that has said nothing any more for as long as it would be left alone is shut after as few as ever.
  ends(breaker, Result::Failure, now, 1);
  ends(breaker, Result::Failure, now + 8s, 4);
  EXPECT_EQ(breaker.state(now + 8s), State::Open);
}

// Goal: whatever the order of ends, an opening lasts its time, one probe is out at a time, and no probe is ever lost.
// Method: seeded random calls of every ending; a failure prints its seed.
TEST(Breaker, never_storms_and_never_sticks) {
  int openings = 0;
  int probes = 0;
  for (unsigned seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng{seed};
    const auto up_to = [&](int most) { return static_cast<int>(rng() % static_cast<unsigned>(most + 1)); };
    const auto roll = [&] { return std::uniform_real_distribution<>{0.0, 1.0}(rng); };
    const Milliseconds open_for{1'000 + up_to(40'000)};
    const Milliseconds deadline = std::max(open_for, Milliseconds{30'000});
    const int failing = up_to(10);
    Breaker breaker{{.window = 10s, .min_calls = 1 + up_to(10), .consecutive = 1 + up_to(5), .open_for = open_for}};
    struct Out {
      Ticket ticket;
      TimePoint began;
    };
    std::vector<Out> out;
    TimePoint opened = TimePoint::min();
    TimePoint now = kNow;
    for (int step = 0; step < 400; ++step) {
      now += Milliseconds{up_to(3) == 0 ? up_to(5'000) : up_to(100)};
      const Breaker::State before = breaker.state(now);
      if (up_to(1) == 0 && breaker.may_begin(now)) {
        ASSERT_NE(before, State::Open);
        if (before != State::Closed) {
          ASSERT_GE(now, opened + open_for / 8);
          // No other probe that still counts may be out.
          for (const Out& other : out) {
            ASSERT_TRUE(!other.ticket.is_probe() || other.began < opened || now >= other.began + deadline);
          }
        }
        out.push_back({breaker.begin(now), now});
        ASSERT_EQ(out.back().ticket.is_probe(), before == State::HalfOpen);
        probes += out.back().ticket.is_probe() ? 1 : 0;
      } else if (!out.empty()) {
        const auto chosen = out.begin() + up_to(static_cast<int>(out.size()) - 1);
        const int how = up_to(10);
        if (how < failing) {
          chosen->ticket.settle(Result::Failure, now, roll());
        } else if (how < 9) {
          chosen->ticket.settle(Result::Success, now, roll());
        } else if (how < 10) {
          chosen->ticket.settle(Result::Neutral, now, roll());
        }
        out.erase(chosen);
      }
      const Breaker::State after = breaker.state(now);
      if (after == State::Open && before != State::Open) {
        opened = now;
        ++openings;
      }
    }
    out.clear();
    EXPECT_TRUE(breaker.may_begin(now + open_for + open_for / 5));
  }
  EXPECT_GT(openings, 500);
  EXPECT_GT(probes, 500);
}

}  // namespace breaker_test
}  // namespace budget
