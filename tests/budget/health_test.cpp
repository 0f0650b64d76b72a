#include "budget/health.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace budget {
namespace health_test {

using namespace std::chrono_literals;
using classifier::Class;
using Kind = HealthEvent::Kind;

const TimePoint kNow{1'000s};
const Candidate kOurs{.upstream = "a", .credential = "one", .configured = true, .group = "m", .model = "m"};
const Candidate kTheirs{.upstream = "a", .credential = "3f2a", .configured = false, .group = "m", .model = "m"};

HealthPolicy policy_of_one() {
  HealthPolicy policy;
  policy.credentials["a"] = {"one", "two"};
  policy.breaker.min_calls = 1;
  policy.breaker.open_for = 10s;
  policy.retry_budget = {.share = 0, .floor = 1, .floor_refill_per_second = 0.1};
  return policy;
}

struct Known : Health {
  Known() { configure(policy_of_one()); }
};

std::vector<HealthEvent> attempt(Health& health, const Candidate& by, const AttemptEnd& ended, TimePoint now = kNow) {
  Pass pass = health.begin(by, false, now);
  return health.end(pass, ended, now, 0.0);
}

Standing look(Health& health, const Candidate& by, TimePoint now = kNow, bool again = false) {
  Waiter waiter;
  return health.look(by, again, waiter, now, 0.0);
}

Candidate with(Candidate by, std::string Candidate::*what, const std::string& value) {
  by.*what = value;
  return by;
}

/// One ending of one attempt: what is told of it, what it holds back, and whom it does not.
struct Ending {
  const char* name;
  Candidate by;
  AttemptEnd ended;
  std::vector<Kind> told;
  Held held;
  Held other_model;
  Held other_credential;
};
const Ending kEndings[] = {
    {"an answer", kOurs, {.good = true}, {}, Held::No, Held::No, Held::No},
    {"a refusal for policy is an answer",
     kOurs,
     {.cls = Class::ContentPolicy, .good = true},
     {},
     Held::No,
     Held::No,
     Held::No},
    {"overload opens for all credentials of the model",
     kOurs,
     {.cls = Class::Overloaded},
     {Kind::BreakerOpened},
     Held::Breaker,
     Held::No,
     Held::Breaker},
    {"overload with a hint both opens and pauses",
     kOurs,
     {.cls = Class::Overloaded, .hint = 20s},
     {Kind::BreakerOpened, Kind::Paused},
     Held::Breaker,
     Held::No,
     Held::Breaker},
    {"a timeout that was the caller's hurry",
     kOurs,
     {.cls = Class::Timeout, .of_the_caller = true},
     {},
     Held::No,
     Held::No,
     Held::No},
    {"a fault of the caller", kOurs, {.cls = Class::InvalidRequest}, {}, Held::No, Held::No, Held::No},
    {"a 429 with a hint pauses its model and credential alone",
     kOurs,
     {.cls = Class::RateLimited, .hint = 20s},
     {Kind::Paused},
     Held::Pause,
     Held::No,
     Held::No},
    {"a key that is refused is left out for every model",
     kOurs,
     {.cls = Class::Auth},
     {Kind::Quarantined},
     Held::Quarantine,
     Held::Quarantine,
     Held::No},
    {"so is one without money",
     kOurs,
     {.cls = Class::QuotaExhausted},
     {Kind::Quarantined},
     Held::Quarantine,
     Held::Quarantine,
     Held::No},
    {"a caller's own key never is", kTheirs, {.cls = Class::Auth}, {}, Held::No, Held::No, Held::No},
};

TEST(Health, an_ending_holds_back_whom_it_concerns) {
  for (const Ending& c : kEndings) {
    SCOPED_TRACE(c.name);
    Known known;
    std::vector<Kind> told;
    for (const HealthEvent& event : attempt(known, c.by, c.ended)) told.push_back(event.kind);
    EXPECT_EQ(told, c.told);
    Candidate elsewhere = with(with(c.by, &Candidate::model, "n"), &Candidate::group, "n");
    EXPECT_EQ(name_of(look(known, c.by).held), name_of(c.held));
    EXPECT_EQ(name_of(look(known, elsewhere).held), name_of(c.other_model));
    EXPECT_EQ(name_of(look(known, with(c.by, &Candidate::credential, "two")).held), name_of(c.other_credential));
    EXPECT_EQ(look(known, with(c.by, &Candidate::upstream, "b")).held, Held::No);
  }
}

TEST(Health, the_hardest_obstacle_is_named) {
  Known known;
  Pass key = known.begin(kOurs, false, kNow);
  Pass pause = known.begin(kOurs, false, kNow);
  Pass retry = known.begin(kOurs, true, kNow);
  EXPECT_EQ(look(known, kOurs, kNow, true).held, Held::RetryBudget) << "its floor of one is taken";
  EXPECT_EQ(look(known, kOurs).held, Held::No) << "a first attempt needs none";
  static_cast<void>(known.end(pause, {.cls = Class::RateLimited, .hint = 20s}, kNow, 0.0));
  EXPECT_EQ(look(known, kOurs, kNow, true).held, Held::Pause);
  EXPECT_EQ(look(known, kOurs).opens, kNow + 20s);
  static_cast<void>(known.end(key, {.cls = Class::Auth}, kNow, 0.0));
  const Standing held = look(known, kOurs);
  EXPECT_EQ(held.held, Held::Quarantine);
  EXPECT_EQ(held.quarantined_for, Class::Auth);
  EXPECT_EQ(held.when, kNow + 30s);
}

TEST(Health, what_the_provider_has_left_paces_or_pauses) {
  struct Case {
    const char* name;
    std::int64_t remaining;
    Held held;
    std::size_t told;
  };
  for (const Case& c :
       {Case{"plenty", 50, Held::No, 0}, {"the last few", 5, Held::Pace, 0}, {"none", 0, Held::Pause, 1}}) {
    SCOPED_TRACE(c.name);
    Known known;
    EXPECT_EQ(known.announced(kOurs, c.remaining, 100, 10s, kNow).size(), c.told);
    // Whoever goes first after it sets the pace.
    if (c.remaining > 0) static_cast<void>(attempt(known, kOurs, {.good = true}));
    EXPECT_EQ(name_of(look(known, kOurs).held), name_of(c.held));
    EXPECT_EQ(look(known, with(kOurs, &Candidate::group, "n")).held, Held::No);
  }
}

TEST(Health, a_probe_frees_a_key_that_has_money_again_and_a_changed_file_at_once) {
  Known known;
  static_cast<void>(attempt(known, kOurs, {.cls = Class::QuotaExhausted}));
  EXPECT_EQ(look(known, kOurs, kNow + 30s - 1ms).held, Held::Quarantine);
  ASSERT_EQ(look(known, kOurs, kNow + 30s).held, Held::No);
  Pass probe = known.begin(kOurs, false, kNow + 30s);
  EXPECT_TRUE(probe.is_probe());
  EXPECT_EQ(look(known, kOurs, kNow + 30s).held, Held::Quarantine) << "one at a time";
  const auto told = known.proved(probe, kNow + 31s);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].kind, Kind::Freed);
  EXPECT_EQ(told[0].why, "probe");
  EXPECT_TRUE(known.proved(probe, kNow + 31s).empty()) << "told once";
  EXPECT_EQ(look(known, kOurs, kNow + 31s).held, Held::No);

  EXPECT_TRUE(known.changed("a", "one").empty()) << "it was free";
  static_cast<void>(attempt(known, kOurs, {.cls = Class::Auth}, kNow + 40s));
  const auto freed = known.changed("a", "one");
  ASSERT_EQ(freed.size(), 1u);
  EXPECT_EQ(freed[0].why, "changed");
  EXPECT_EQ(look(known, kOurs, kNow + 40s).held, Held::No);
  EXPECT_TRUE(known.changed("a", "nobody").empty());
}

/// Opens the breaker and takes the probe.
Pass probe_of(Health& known, TimePoint now) {
  static_cast<void>(attempt(known, kOurs, {.cls = Class::Overloaded}));
  EXPECT_EQ(look(known, kOurs, now).held, Held::No);
  Pass probe = known.begin(kOurs, false, now);
  EXPECT_TRUE(probe.is_probe());
  EXPECT_EQ(look(known, kOurs, now).held, Held::Breaker) << "one at a time";
  return probe;
}

TEST(Health, every_ending_of_a_breakers_probe_gives_its_place_back) {
  struct Case {
    const char* name;
    AttemptEnd ended;
    Milliseconds back;  // Somebody may go then at the latest.
  };
  const TimePoint probed = kNow + 12s;
  for (const Case& c : {Case{"success", {.good = true}, 0ms},
                        {"a fault of the caller", {.cls = Class::InvalidRequest}, 0ms},
                        {"the caller left", {.cls = Class::Timeout, .of_the_caller = true}, 0ms},
                        {"its key was refused", {.cls = Class::Auth}, 30s},
                        {"a hint", {.cls = Class::RateLimited, .hint = 3s}, 4s},
                        {"down still", {.cls = Class::Network}, 12s}}) {
    SCOPED_TRACE(c.name);
    Known known;
    Pass probe = probe_of(known, probed);
    static_cast<void>(known.end(probe, c.ended, probed, 0.0));
    EXPECT_EQ(name_of(look(known, kOurs, probed + c.back).held), "no");
  }
  Known known;
  { const Pass dropped = probe_of(known, probed); }
  EXPECT_EQ(look(known, kOurs, probed).held, Held::No) << "dropped without a word";
}

TEST(Health, who_waited_for_a_breaker_comes_back_spread) {
  Known known;
  static_cast<void>(attempt(known, kOurs, {.cls = Class::Overloaded}));
  Waiter waited;
  EXPECT_EQ(known.look(kOurs, false, waited, kNow, 0.0).held, Held::Breaker);
  Pass probe = known.begin(kOurs, false, kNow + 12s);
  const auto told = known.proved(probe, kNow + 12s);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].kind, Kind::BreakerClosed);
  EXPECT_EQ(known.look(kOurs, false, waited, kNow + 12s, 0.5).when, kNow + 12'500ms);
  EXPECT_EQ(known.look(kOurs, false, waited, kNow + 12s, 0.9).when, kNow + 12'500ms) << "it keeps its place";
  EXPECT_EQ(known.look(kOurs, false, waited, kNow + 12'500ms, 0.9).held, Held::No);
  EXPECT_EQ(look(known, kOurs, kNow + 12s).held, Held::No) << "newcomers wait for nothing";
}

TEST(Health, a_reload_forgets_the_quarantine_of_a_key_that_has_gone) {
  Known known;
  static_cast<void>(attempt(known, kOurs, {.cls = Class::Auth}));
  HealthPolicy policy;
  policy.credentials["a"] = {"two"};
  known.configure(policy);
  policy.credentials["a"] = {"one", "two"};
  known.configure(policy);
  EXPECT_EQ(look(known, kOurs).held, Held::No);
}

}  // namespace health_test
}  // namespace budget
