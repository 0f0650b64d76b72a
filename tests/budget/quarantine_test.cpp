#include "budget/quarantine.h"

#include <gtest/gtest.h>

#include <vector>

namespace budget {
namespace quarantine_test {

using namespace std::chrono_literals;
using classifier::Class;

const TimePoint kNow{100s};

void refuse(Quarantine& quarantine, TimePoint now, Class why = Class::Auth) {
  Ticket ticket = quarantine.begin(now);
  quarantine.refused(ticket, why, now);
}

TEST(Quarantine, lets_everybody_go_while_free) {
  Quarantine quarantine;
  std::vector<Ticket> tickets;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(quarantine.may_begin(kNow));
    tickets.push_back(quarantine.begin(kNow));
    EXPECT_FALSE(tickets.back().is_probe());
  }
  for (Ticket& ticket : tickets) ticket.settle(Result::Failure, kNow, 0.0);
  EXPECT_FALSE(quarantine.quarantined());
  EXPECT_EQ(quarantine.reason(), std::nullopt);
  EXPECT_EQ(quarantine.since(), std::nullopt);
  EXPECT_EQ(quarantine.next_probe(), std::nullopt);
}

TEST(Quarantine, is_probed_after_thirty_seconds_then_ever_later) {
  Quarantine quarantine;
  TimePoint now = kNow;
  refuse(quarantine, now);
  EXPECT_EQ(quarantine.since(), kNow);
  for (const Milliseconds wait : {30s, 60s, 120s, 240s, 480s, 600s, 600s}) {
    SCOPED_TRACE(wait.count());
    EXPECT_EQ(quarantine.next_probe(), now + wait);
    EXPECT_FALSE(quarantine.may_begin(now + wait - 1ns));
    now += wait;
    ASSERT_TRUE(quarantine.may_begin(now));
    refuse(quarantine, now);
  }
  EXPECT_EQ(quarantine.since(), kNow);
}

TEST(Quarantine, remembers_why) {
  Quarantine quarantine;
  refuse(quarantine, kNow, Class::QuotaExhausted);
  EXPECT_EQ(quarantine.reason(), Class::QuotaExhausted);
  refuse(quarantine, kNow + 30s, Class::Auth);
  EXPECT_EQ(quarantine.reason(), Class::Auth);
}

struct Ending {
  const char* name;
  void (*end)(Quarantine&, Ticket&, TimePoint);
  bool quarantined;
  Milliseconds next_probe;  // From then.
};

TEST(Quarantine, every_ending_of_a_probe_gives_it_back) {
  const TimePoint at = kNow + 30s;
  const Ending cases[] = {
      {"success", [](Quarantine&, Ticket& t, TimePoint now) { t.settle(Result::Success, now, 0.0); }, false, 0s},
      {"failure", [](Quarantine&, Ticket& t, TimePoint now) { t.settle(Result::Failure, now, 0.0); }, true, 60s},
      {"refused", [](Quarantine& q, Ticket& t, TimePoint now) { q.refused(t, Class::Auth, now); }, true, 60s},
      {"neutral", [](Quarantine&, Ticket& t, TimePoint now) { t.settle(Result::Neutral, now, 0.0); }, true, 0s},
      {"dropped", [](Quarantine&, Ticket& t, TimePoint) { t = {}; }, true, 0s},
      {"still out", [](Quarantine&, Ticket&, TimePoint) {}, true, 30s},
      {"its file changed", [](Quarantine& q, Ticket&, TimePoint) { q.changed(); }, false, 0s},
  };
  for (const Ending& c : cases) {
    SCOPED_TRACE(c.name);
    Quarantine quarantine;
    refuse(quarantine, kNow);
    Ticket probe = quarantine.begin(at);
    EXPECT_TRUE(probe.is_probe());
    EXPECT_FALSE(quarantine.may_begin(at));
    c.end(quarantine, probe, at);
    EXPECT_EQ(quarantine.quarantined(), c.quarantined);
    EXPECT_TRUE(quarantine.may_begin(at + c.next_probe));
    if (c.next_probe > 0s) {
      EXPECT_FALSE(quarantine.may_begin(at + c.next_probe - 1ns));
    }
  }
}

TEST(Quarantine, a_second_one_begins_with_a_short_wait_again) {
  Quarantine quarantine;
  refuse(quarantine, kNow);
  refuse(quarantine, kNow + 30s);
  quarantine.begin(kNow + 90s).settle(Result::Success, kNow + 90s, 0.0);
  refuse(quarantine, kNow + 100s);
  EXPECT_EQ(quarantine.next_probe(), kNow + 130s);
}

TEST(Quarantine, those_under_way_when_it_began_change_nothing) {
  Quarantine quarantine;
  Ticket refused = quarantine.begin(kNow);
  Ticket succeeded = quarantine.begin(kNow);
  Ticket dropped = quarantine.begin(kNow);
  refuse(quarantine, kNow);
  Ticket probe = quarantine.begin(kNow + 30s);
  quarantine.refused(refused, Class::QuotaExhausted, kNow + 31s);
  succeeded.settle(Result::Success, kNow + 31s, 0.0);
  dropped = {};
  EXPECT_TRUE(quarantine.quarantined());
  EXPECT_EQ(quarantine.reason(), Class::Auth);
  EXPECT_FALSE(quarantine.may_begin(kNow + 31s));
  EXPECT_EQ(quarantine.next_probe(), kNow + 60s);
}

TEST(Quarantine, the_old_key_says_nothing_of_the_new_one) {
  Quarantine quarantine;
  Ticket with_old_key = quarantine.begin(kNow);
  quarantine.changed();
  quarantine.refused(with_old_key, Class::Auth, kNow + 1s);
  EXPECT_FALSE(with_old_key.is_open());
  EXPECT_FALSE(quarantine.quarantined());
}

TEST(Quarantine, a_slow_answer_frees_it_and_a_slow_refusal_says_nothing_more) {
  Quarantine quarantine;
  refuse(quarantine, kNow);
  Ticket old = quarantine.begin(kNow + 30s);
  Ticket fresh = quarantine.begin(kNow + 60s);
  quarantine.refused(old, Class::Auth, kNow + 61s);
  EXPECT_TRUE(quarantine.quarantined());
  EXPECT_FALSE(quarantine.may_begin(kNow + 61s)) << "the second one is still out";
  Ticket third = quarantine.begin(kNow + 90s);
  fresh.settle(Result::Success, kNow + 91s, 0.0);
  EXPECT_FALSE(quarantine.quarantined());
}

TEST(Quarantine, a_refusal_is_told_once_and_to_its_own_quarantine) {
  Quarantine quarantine;
  Quarantine other;
  Ticket ticket = quarantine.begin(kNow);
  other.refused(ticket, Class::Auth, kNow);
  EXPECT_FALSE(ticket.is_open());
  quarantine.refused(ticket, Class::Auth, kNow);
  EXPECT_FALSE(other.quarantined());
  EXPECT_FALSE(quarantine.quarantined());
}

TEST(Quarantine, a_ticket_may_outlive_it) {
  Ticket ticket;
  {
    Quarantine quarantine;
    ticket = quarantine.begin(kNow);
  }
  ticket.settle(Result::Success, kNow, 0.0);
}

}  // namespace quarantine_test
}  // namespace budget
