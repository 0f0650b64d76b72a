// Goal: a replay stops when there is no use in it, and not before. Method: a table of sums.

#include "gateway/replays.h"

#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>

#include "classifier/json_depth.h"
#include "gateway/json_edit.h"
#include "gateway/letters.h"

namespace gateway {
namespace replays_test {

struct Stop {
  const char* name;
  ReplaySums sums;
  const char* want;  // A piece of why; empty: it goes on.
};
void PrintTo(const Stop& stop, std::ostream* out) { *out << stop.name; }

class WhyToStop : public testing::TestWithParam<Stop> {};
TEST_P(WhyToStop, follows_the_table) {
  ReplayLimits limits;
  limits.canary = 5;
  limits.stop_share = 0.2;
  limits.max_cost_nano = 1'000;
  const std::string why = why_to_stop(limits, GetParam().sums);
  const std::string want = GetParam().want;
  if (want.empty())
    EXPECT_EQ(why, "");
  else
    EXPECT_NE(why.find(want), std::string::npos) << why;
}
INSTANTIATE_TEST_SUITE_P(all, WhyToStop,
                         testing::Values(Stop{"nothing was sent", {0, 0, 0, false}, ""},
                                         Stop{"the canary is not whole", {1, 3, 0, false}, ""},
                                         Stop{"a fifth of the canary is allowed", {4, 1, 0, false}, ""},
                                         Stop{"more is not", {3, 2, 0, false}, "canary"},
                                         Stop{"behind it few say nothing", {7, 2, 0, true}, ""},
                                         Stop{"many do", {7, 3, 0, true}, "3 of 10"},
                                         Stop{"a fifth of many is allowed", {80, 20, 0, true}, ""},
                                         Stop{"money is left", {1, 0, 999, true}, ""},
                                         Stop{"money is spent", {1, 0, 1'000, true}, "money"},
                                         Stop{"money is spent by the canary", {1, 0, 2'000, false}, "money"}),
                         [](const auto& at) { return "row_" + std::to_string(at.index); });

TEST(ReplaySums, count_what_an_item_cost_once) {
  // A replay that goes on after a death has read the 700 of its first life with its sums.
  ReplaySums sums{0, 0, 700, true};
  ledger::ReplayItem item;
  item.cost_nano = 700 + 50;
  item.state = ledger::ItemState::Waiting;  // Given up again.
  count(sums, item, 700);
  EXPECT_EQ(sums.cost_nano, 750);
  item.cost_nano = 750 + 30;
  item.state = ledger::ItemState::Resolved;
  count(sums, item, 750);
  EXPECT_EQ(sums.cost_nano, 780);
  EXPECT_EQ(sums.resolved, 1);
  EXPECT_EQ(sums.dead_again, 0);
}

TEST(ReplayLimits, come_back_as_they_were_written) {
  ReplayLimits limits;
  limits.per_second = 2.5;
  limits.concurrency = 7;
  limits.canary = 9;
  limits.max_cost_nano = 123'456'789'012;
  limits.stop_share = 0.05;
  const ReplayLimits back = read_replay_limits(text_of(limits));
  EXPECT_EQ(back.per_second, 2.5);
  EXPECT_EQ(back.concurrency, 7);
  EXPECT_EQ(back.canary, 9);
  EXPECT_EQ(back.max_cost_nano, limits.max_cost_nano);
  EXPECT_EQ(back.stop_share, 0.05);
  EXPECT_EQ(read_replay_limits("no json").concurrency, ReplayLimits{}.concurrency);
}

TEST(EditJson, changes_what_is_named_and_nothing_else) {
  const auto edited = edit_json(R"({"model":"a","n":1,"messages":[{"role":"user","content":"x"}]})",
                                R"({"/model":"b","/messages/0/content":"y","/temperature":0.5})");
  ASSERT_TRUE(edited) << edited.error();
  EXPECT_EQ(edited->body, R"({"model":"b","n":1,"messages":[{"role":"user","content":"y"}],"temperature":0.5})");
  ASSERT_EQ(edited->members.size(), 3u);
  EXPECT_EQ(edited->members[0].was, R"("a")");
  EXPECT_EQ(edited->members[0].is, R"("b")");
  EXPECT_EQ(edited->members[2].was, "");
}

TEST(EditJson, says_which_pointer_leads_nowhere) {
  const std::string body = R"({"model":"a","list":[1]})";
  for (const auto& [set, piece] : {std::pair{R"({"/none/deep":1})", "/none/deep"},
                                   std::pair{R"({"/model/x":1})", "/model/x"},
                                   std::pair{R"({"":1})", "whole body"},
                                   std::pair{R"({"model":1})", "model"},
                                   std::pair{R"({"/list/7":1})", "/list/7"},
                                   std::pair{R"([1])", "JSON object"},
                                   std::pair{R"({})", "JSON object"},
                                   std::pair{"nonsense", "JSON object"}}) {
    const auto edited = edit_json(body, set);
    ASSERT_FALSE(edited) << set << edited->body;
    EXPECT_NE(edited.error().find(piece), std::string::npos) << edited.error();
  }
  EXPECT_FALSE(edit_json("\xff\xfe no json", R"({"/a":1})"));
}

TEST(JsonDepth, counts_brackets_outside_of_strings) {
  EXPECT_TRUE(classifier::is_shallow(R"({"a":[1,{"b":"[[[[{{{{"}]})", 3));
  EXPECT_FALSE(classifier::is_shallow(R"({"a":[1,{"b":1}]})", 2));
  EXPECT_TRUE(classifier::is_shallow(R"(["\\","\"[[["])", 1));
  EXPECT_FALSE(classifier::is_shallow(std::string(500'000, '[')));
  EXPECT_TRUE(classifier::is_shallow(std::string(500'000, ']')));
}

TEST(EditJson, does_not_follow_what_is_too_deep) {
  EXPECT_FALSE(edit_json(std::string(500'000, '[') + std::string(500'000, ']'), R"({"/0":1})"));
}

TEST(Letters, are_left_by_failures_that_somebody_can_mend) {
  CallRecord record;
  record.outcome = Outcome::Failed;
  for (std::size_t i = 1; i < classifier::kClassNames.size(); ++i) {
    record.cls = static_cast<classifier::Class>(i);
    const std::string name{classifier::kClassNames[i]};
    const bool callers_fault = name == "invalid_request" || name == "context_length" || name == "content_policy" ||
                               name == "not_found" || name == "too_large" || name == "cancelled";
    EXPECT_EQ(leaves_letter(record), !callers_fault) << name;
  }
  record.cls = classifier::Class::ServerError;
  record.reason = ledger::kRemembered;
  EXPECT_FALSE(leaves_letter(record)) << "the failure that is remembered has left one";
  record.reason = {};
  for (const Outcome outcome : {Outcome::Answered, Outcome::Refused, Outcome::Cancelled, Outcome::Drained}) {
    record.outcome = outcome;
    EXPECT_FALSE(leaves_letter(record)) << ledger::name_of(outcome);
  }
}

}  // namespace replays_test
}  // namespace gateway
