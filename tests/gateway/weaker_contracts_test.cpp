#include "gateway/weaker_contracts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gateway/reload.h"

namespace gateway {
namespace weaker_contracts_test {

const std::string kSchema = std::string{PROJECT_ROOT} + "/tests/fixtures/invoice.schema.json";

Loaded load(const std::string& queues) {
  const Loaded loaded = parse_config(queues, "callgate.yaml");
  EXPECT_TRUE(loaded.usable()) << queues;
  return loaded;
}

TEST(Weaker, is_what_promises_less_and_nothing_else) {
  const std::string kept = "queues: {a: {dead_letter: {retention: 30d}, payload_schema: " + kSchema +
                           ", replay: {requires_approval: true, approvers: [x], max_cost_usd: \"5\"}}}\n";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = kept;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const struct {
    std::string before;
    std::string now;
    std::vector<Weaker> want;
  } kCases[] = {
      {kept, kept, {}},
      {"", kept, {}},
      {kept, "", {{"queues.a", "has no contract any more, and there may be runs and dead letters of it"}}},
      {kept, with("30d", "7d"), {{"queues.a.dead_letter.retention", "is shorter than before (30d, now 7d)"}}},
      {kept, with("30d", "31d"), {}},
      {kept, with("dead_letter: {retention: 30d}, ", ""), {}},
      {kept,
       with("dead_letter: {retention: 30d}, ", "") + "store: {retention: {dead_letters: 29d}}\n",
       {{"queues.a.dead_letter.retention", "is shorter than before (30d, now 29d)"}}},
      // A queue whose contract says nothing of it is kept as long as all the others.
      {"queues: {a: {}}\n",
       "queues: {a: {}}\nstore: {retention: {dead_letters: 7d}}\n",
       {{"queues.a.dead_letter.retention", "is shorter than before (30d, now 7d)"}}},
      {kept,
       with("requires_approval: true", "requires_approval: false"),
       {{"queues.a.replay.requires_approval", "is not required any more"}}},
      {kept, with("[x]", "[x, y]"), {}},
      {kept, with("[x]", "[]"), {}},
      {kept, with("\"5\"", "\"5.01\""), {{"queues.a.replay.max_cost_usd", "is higher than before ($5, now $5.01)"}}},
      {kept, with("\"5\"", "\"4\""), {}},
      {kept,
       with(", max_cost_usd: \"5\"", ""),
       {{"queues.a.replay.max_cost_usd", "is higher than before ($5, now no limit)"}}},
      {with(", max_cost_usd: \"5\"", ""), kept, {}},
      {kept,
       with("payload_schema: " + kSchema + ", ", ""),
       {{"queues.a.payload_schema", "is there no more (was " + kSchema + ")"}}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.now);
    std::vector<Weaker> found = weaker(load(c.before).config, load(c.now).config);
    for (Weaker& one : found) {
      // However long the path of the checkout is.
      if (one.path == "queues.a.payload_schema") one.message = "is there no more (was " + kSchema + ")";
    }
    EXPECT_EQ(found, c.want);
  }
}

TEST(Weaker, is_an_error_of_a_reload_unless_it_is_accepted) {
  const Loaded running = load("queues: {a: {dead_letter: {retention: 30d}}}\n");
  for (const ReloadCause cause :
       {ReloadCause::Signal, ReloadCause::FileChange, ReloadCause::Admin, ReloadCause::Accepting}) {
    SCOPED_TRACE(static_cast<int>(cause));
    const bool accepted = cause == ReloadCause::Accepting;
    Loaded fresh = load("queues:\n  a:\n    dead_letter:\n      retention: 7d\n");
    fresh.problems.clear();
    refuse_weaker(running, fresh, cause, "callgate.yaml");
    EXPECT_EQ(fresh.usable(), accepted);
    ASSERT_EQ(fresh.problems.size(), 1U);
    EXPECT_EQ(text_of(fresh.problems[0]),
              accepted
                  ? "callgate.yaml:4:1: warning: queues.a.dead_letter.retention: is shorter than before (30d, now "
                    "7d); accepted"
                  : "callgate.yaml:4:1: error: queues.a.dead_letter.retention: is shorter than before (30d, now "
                    "7d); `callgate reload --accept-weaker` accepts it");
    EXPECT_EQ(name_of(fresh.problems[0].kind), "weaker");
    Loaded same = running;
    same.problems.clear();
    refuse_weaker(running, same, cause, "callgate.yaml");
    EXPECT_TRUE(same.problems.empty());
  }
}

}  // namespace weaker_contracts_test
}  // namespace gateway
