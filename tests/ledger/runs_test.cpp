// Goal: what was accepted ends exactly once, by whoever holds it last, whatever happens to the process meanwhile.

#include "ledger/runs.h"

#include <algorithm>
#include <map>
#include <random>

#include "tests/ledger/owed_support.h"

namespace store_test {
namespace runs_test {

using Kind = RunAnswer::Kind;

class RunsTest : public OwedTest {
 protected:
  /// In steps that no lease of a second takes for a stop of the process; the store looks after each.
  void pass(std::chrono::milliseconds time) {
    for (; time > 0ms; time -= 400ms) {
      clock_.forward(std::min<std::chrono::milliseconds>(time, 400ms));
      ASSERT_EQ(end(answered(5'000 + passed_++), {}), Written::Committed);
    }
  }
  /// What the sweep did is seen in the file. Time goes on, since a slow machine looks like a stop, too.
  bool swept(const std::string& id, RunState state) {
    return eventually([&] {
      pass(200ms);
      return number(path_, "SELECT state FROM runs WHERE id = '" + id + "'") == static_cast<int>(state);
    });
  }
  int passed_ = 0;
  std::vector<ledger::WebhookRow> due() {
    return asked<std::vector<ledger::WebhookRow>>([&](Books& books) { return books.webhooks_due(now(), 10); });
  }
  /// As a call that is played for that run leaves it, while the provider has not answered.
  void begin_attempt(int scope, int call) {
    ledger::ClaimAsk ask = asking(scope, clock_, call);
    ask.rerun = true;
    const ledger::ClaimAnswer::Kind kind = claimed(*store_, ask).kind;
    ASSERT_TRUE(kind == ledger::ClaimAnswer::Kind::Ours || kind == ledger::ClaimAnswer::Kind::Unknown);
    const CallRecord record = store_test::call(call);
    ASSERT_EQ(begun(*store_, opening(record)), Written::Committed);
  }
  std::int64_t events() { return number(path_, "SELECT count(*) FROM events WHERE type = 'run.ended'"); }
};

TEST_F(RunsTest, an_accepted_run_is_there_after_a_kill_and_the_same_job_is_the_same_run) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  reopen();
  RunAnswer again = accept(new_run(2, 1));
  EXPECT_EQ(again.kind, Kind::Same);
  EXPECT_EQ(again.id, id_of(1));
  EXPECT_EQ(again.state, RunState::Queued);
  ledger::NewRun other = new_run(3, 1);
  other.fingerprint = digest(2);
  EXPECT_EQ(accept(other).kind, Kind::OtherBody);
  ledger::NewRun empty = new_run(4, 4);
  empty.request.reset();
  EXPECT_EQ(accept(empty).kind, Kind::NoStore);
  const TakenRun taken = take(id_of(1));
  ASSERT_TRUE(taken.taken) << taken.why;
  EXPECT_EQ(taken.fence, 1);
  EXPECT_EQ(taken.starts, 1);
  EXPECT_EQ(taken.crashes, 0);
  ASSERT_TRUE(taken.run.request) << taken.why;
  EXPECT_EQ(taken.run.request->body, request()->body);
  EXPECT_EQ(taken.run.request->target, request()->target);
  EXPECT_EQ(taken.run.scope, digest(1));
  EXPECT_EQ(taken.run.webhook, "https://hooks.example/x");
  EXPECT_EQ(accept(new_run(5, 1)).state, RunState::Running);
  EXPECT_FALSE(take(id_of(1)).taken);
  EXPECT_EQ(take(id_of(1)).why, "it is running");
  EXPECT_FALSE(take(id_of(77)).taken);
}

TEST_F(RunsTest, a_result_is_written_with_the_end_of_its_call_and_told) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  ASSERT_EQ(take(id_of(1)).fence, 1);
  clock_.forward(1s);
  RunOutcome done = outcome(id_of(1), 1, RunState::Succeeded);
  done.cost_nano = 1'000;
  ASSERT_EQ(end(answered(10), {.letter = made_good(1), .run = done}), Written::Committed);
  reopen();
  const ledger::RunLine line = run_of(id_of(1));
  EXPECT_EQ(line.state, "succeeded");
  EXPECT_EQ(line.cls, "none");
  EXPECT_EQ(line.call_id, id_of(10));
  EXPECT_EQ(line.status, 201);
  EXPECT_EQ(line.cost_nano, 1'000);
  EXPECT_EQ(line.started_ms, now() - 1'000);
  EXPECT_EQ(line.ended_ms, now());
  EXPECT_TRUE(line.has_answer);
  EXPECT_EQ(line.webhook_state, "waiting");
  const auto answer =
      asked<std::shared_ptr<const ledger::StoredAnswer>>([](Books& books) { return books.run_answer(id_of(1)); });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "the answer");
  EXPECT_EQ(answer->status, 201);
  EXPECT_TRUE(answer->stream);
  EXPECT_EQ(answer->call_id, id_of(10));
  EXPECT_EQ(answer->cost, budget::NanoUsd{1'000});
  EXPECT_EQ(text(path_, "SELECT data FROM events WHERE type = 'run.ended'"),
            R"({"run":")" + id_of(1) +
                R"(","tenant":"acme","state":"succeeded","class":"none","lane":"bulk","queue":"mails",)"
                R"("run_id":"job-7","idempotency_key":"job-1","call_id":")" +
                id_of(10) + R"(","status":201,"starts":1,"cost_usd":"0.000001"})");
  std::vector<ledger::WebhookRow> rows = due();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].run, id_of(1));
  EXPECT_EQ(rows[0].url, "https://hooks.example/x");
  EXPECT_EQ(rows[0].body, R"({"type":"run.ended"})");
  rows[0].attempts = 1;
  rows[0].next_ms = now() + 5'000;
  store_->webhook_ended(rows[0], Store::Telling::Again, {});
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(due().size(), 0U);
  clock_.forward(5s);
  ASSERT_EQ(due().size(), 1U);
  EXPECT_EQ(due()[0].attempts, 1);
  LetterOutcome untold = letter(900);
  untold.letter->run = id_of(1);
  store_->webhook_ended(rows[0], Store::Telling::Dead, untold);
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(due().size(), 0U);
  EXPECT_EQ(run_of(id_of(1)).webhook_state, "dead");
  ASSERT_EQ(letters().size(), 1U);
  EXPECT_EQ(letters()[0].run, id_of(1));
  EXPECT_EQ(letters()[0].queue, "mails");
  EXPECT_EQ(letters()[0].payload, "kept");
}

TEST_F(RunsTest, an_end_that_was_given_up_may_be_told_later_and_its_letter_is_made_good) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  ASSERT_TRUE(take(id_of(1)).taken);
  ASSERT_TRUE(end_run(outcome(id_of(1), 1, RunState::Succeeded)));
  ledger::WebhookRow row = due().at(0);
  EXPECT_EQ(row.queue, "mails");
  const auto untold = [&] {
    return asked<std::optional<ledger::WebhookRow>>([&](Books& books) { return books.untold_webhook(id_of(1)); });
  };
  EXPECT_FALSE(untold()) << "it is still to be told";
  row.cls = "overloaded";
  row.status = 503;
  store_->webhook_ended(row, Store::Telling::Dead, letter(900));
  ASSERT_TRUE(store_->flush(kPatience));
  ASSERT_EQ(letters().size(), 1U);
  EXPECT_EQ(letters()[0].cls, "overloaded");
  EXPECT_EQ(letters()[0].status, 503);
  EXPECT_EQ(letters()[0].operation, "webhook");
  ledger::LettersAsk by_operation;
  by_operation.operation = "webhook";
  EXPECT_EQ(letters(by_operation).size(), 1U);
  by_operation.operation = "chat";
  EXPECT_EQ(letters(by_operation).size(), 0U);
  reopen();
  ASSERT_TRUE(untold());
  EXPECT_EQ(untold()->url, "https://hooks.example/x");
  EXPECT_EQ(untold()->fence, 1);
  EXPECT_EQ(untold()->body, "");
  EXPECT_EQ(untold()->unreadable, "");
  // In vain once more, by another cause.
  row.cls = "auth";
  row.status = 401;
  store_->webhook_ended(row, Store::Telling::Dead, letter(900));
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(letters()[0].failures, 2);
  EXPECT_EQ(letters()[0].cls, "auth");
  store_->webhook_ended(row, Store::Telling::Told, made_good(900));
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(letters().size(), 0U);
  EXPECT_EQ(run_of(id_of(1)).webhook_state, "told");
  EXPECT_FALSE(untold());
  // What is told stays so.
  store_->webhook_ended(row, Store::Telling::Dead, letter(900));
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(letters().size(), 0U);
}

TEST_F(RunsTest, no_queue_takes_more_runs_than_may_become_letters_however_many_come_at_once) {
  const auto order = [&](int number) {
    ledger::NewRun run = new_run(number, number);
    run.most_letters = 5;
    return run;
  };
  ASSERT_EQ(fail(100, letter(900)), Written::Committed);  // Of the same queue.
  std::vector<std::unique_ptr<Told<RunAnswer>>> told;
  for (int i = 1; i <= 40; ++i) {
    told.push_back(std::make_unique<Told<RunAnswer>>());
    store_->accept_run(order(i), told.back()->teller());
  }
  std::vector<std::string> accepted;
  for (const auto& one : told) {
    const RunAnswer answer = one->wait().value_or(RunAnswer{});
    if (answer.kind == Kind::Accepted) {
      accepted.push_back(id_of(static_cast<int>(accepted.size()) + 1));
    } else {
      EXPECT_EQ(answer.kind, Kind::Full);
      EXPECT_EQ(answer.letters, 1);
      EXPECT_EQ(answer.unfinished, 4);
    }
  }
  ASSERT_EQ(accepted.size(), 4U);
  EXPECT_EQ(accept(order(1)).kind, Kind::Same) << "that is no new one";
  ledger::NewRun elsewhere = order(50);
  elsewhere.queue = "others";
  EXPECT_EQ(accept(elsewhere).kind, Kind::Accepted);
  // All four die: that is what was held free for them.
  for (int i = 1; i <= 4; ++i) {
    ASSERT_TRUE(take(id_of(i)).taken);
    ASSERT_TRUE(end_run(outcome(id_of(i), 1, RunState::Dead), letter(i)));
  }
  EXPECT_EQ(accept(order(60)).kind, Kind::Full);
  EXPECT_EQ(letters().size(), 5U);
  reopen();
  EXPECT_EQ(accept(order(61)).letters, 5);
  // One that is discarded, and one that is made good, make room for two.
  ledger::LettersAsk one;
  one.ids = {letters()[0].id};
  Told<std::expected<std::int64_t, std::string>> discarded;
  store_->discard_letters(one, act("dead.discard"), discarded.teller());
  ASSERT_EQ(discarded.wait()->value_or(0), 1);
  ASSERT_EQ(end(answered(10), {.letter = made_good(900)}), Written::Committed);
  EXPECT_EQ(accept(order(62)).kind, Kind::Accepted);
  EXPECT_EQ(accept(order(63)).kind, Kind::Accepted);
  EXPECT_EQ(accept(order(64)).kind, Kind::Full);
  EXPECT_EQ(cancel(id_of(63)), RunState::Cancelled);
  EXPECT_EQ(accept(order(65)).kind, Kind::Accepted);
}

TEST_F(RunsTest, after_its_time_a_key_begins_another_run_and_the_old_one_keeps_its_letter) {
  const auto order = [&](int number) {
    ledger::NewRun run = new_run(number, 1);
    run.created_ms = now();
    run.key_ttl_ms = std::chrono::milliseconds{24h}.count();
    run.fingerprint = digest(number);
    return run;
  };
  ASSERT_EQ(accept(order(1)).kind, Kind::Accepted);
  clock_.forward(48h);
  EXPECT_EQ(accept(order(2)).kind, Kind::OtherBody) << "it is not over yet";
  ASSERT_TRUE(take(id_of(1)).taken);
  ASSERT_TRUE(end_run(outcome(id_of(1), 1, RunState::Dead), letter(1)));
  clock_.forward(24h - 1ms);
  EXPECT_EQ(accept(order(2)).kind, Kind::OtherBody);
  clock_.forward(1ms);
  ASSERT_EQ(accept(order(2)).kind, Kind::Accepted);
  EXPECT_EQ(accept(order(2)).kind, Kind::Same);
  EXPECT_EQ(run_of(id_of(1)).state, "dead");
  // The new one's end is not the old one's.
  ASSERT_TRUE(take(id_of(2)).taken);
  ASSERT_TRUE(end_run(outcome(id_of(2), 1, RunState::Succeeded), made_good(1)));
  ASSERT_EQ(letters().size(), 1U);
  // A replay of the old one's letter makes good the old one.
  LetterOutcome replayed;
  replayed.scope = letters()[0].scope;
  EXPECT_NE(replayed.scope, digest(1));
  ASSERT_EQ(end(answered(10), {.letter = replayed}), Written::Committed);
  EXPECT_EQ(letters().size(), 0U);
  EXPECT_EQ(run_of(id_of(1)).state, "succeeded");
  EXPECT_EQ(run_of(id_of(1)).call_id, id_of(10));
}

TEST_F(RunsTest, after_its_time_a_key_s_next_run_of_the_same_job_makes_good_what_the_old_one_left) {
  const auto order = [&](int number) {
    ledger::NewRun run = new_run(number, 1);
    run.created_ms = now();
    run.key_ttl_ms = std::chrono::milliseconds{24h}.count();
    run.fingerprint = digest(7);
    return run;
  };
  ASSERT_EQ(accept(order(1)).kind, Kind::Accepted);
  ASSERT_TRUE(take(id_of(1)).taken);
  ASSERT_TRUE(end_run(outcome(id_of(1), 1, RunState::Dead), letter(1)));
  clock_.forward(24h);
  ASSERT_EQ(accept(order(2)).kind, Kind::Accepted);
  // The letter is the key's, as long as it is the same job: one for both, if this one dies, too.
  ASSERT_TRUE(take(id_of(2)).taken);
  ASSERT_TRUE(end_run(outcome(id_of(2), 1, RunState::Dead), letter(1)));
  ASSERT_EQ(letters().size(), 1U);
  EXPECT_EQ(letters()[0].failures, 2);
  EXPECT_EQ(letters()[0].scope, digest(1));
  clock_.forward(24h);
  ASSERT_EQ(accept(order(3)).kind, Kind::Accepted);
  ASSERT_TRUE(take(id_of(3)).taken);
  ASSERT_TRUE(end_run(outcome(id_of(3), 1, RunState::Succeeded), made_good(1)));
  EXPECT_EQ(letters().size(), 0U);
  EXPECT_EQ(run_of(id_of(1)).state, "dead") << "it did";
  EXPECT_EQ(run_of(id_of(3)).state, "succeeded");
}

TEST_F(RunsTest, what_becomes_of_an_old_telling_is_not_that_of_the_end_after_a_retry) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  ASSERT_TRUE(take(id_of(1)).taken);
  ASSERT_TRUE(end_run(outcome(id_of(1), 1, RunState::Dead)));
  const std::vector<ledger::WebhookRow> before = due();
  ASSERT_EQ(before.size(), 1U);
  EXPECT_EQ(before[0].fence, 1);
  // Its receiver asks for another try before he has answered.
  ASSERT_EQ(retry(id_of(1)), RunState::Queued);
  const TakenRun again = take(id_of(1));
  ASSERT_TRUE(again.taken);
  ASSERT_TRUE(end_run(outcome(id_of(1), again.fence, RunState::Succeeded)));
  store_->webhook_ended(before[0], Store::Telling::Told, {});
  LetterOutcome untold = letter(900);
  store_->webhook_ended(before[0], Store::Telling::Dead, untold);
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(run_of(id_of(1)).webhook_state, "waiting");
  EXPECT_EQ(letters().size(), 0U);
  const std::vector<ledger::WebhookRow> after = due();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_NE(after[0].fence, before[0].fence);
  store_->webhook_ended(after[0], Store::Telling::Told, {});
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(run_of(id_of(1)).webhook_state, "told");
}

TEST_F(RunsTest, what_is_told_and_to_whom_cannot_be_read_without_the_key) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  ASSERT_TRUE(take(id_of(1)).taken);
  ASSERT_TRUE(end_run(outcome(id_of(1), 1, RunState::Dead)));
  EXPECT_EQ(due()[0].unreadable, "");
  EXPECT_EQ(run_of(id_of(1)).webhook, "https://hooks.example/x");
  EXPECT_EQ(number(path_, "SELECT instr(hex(webhook), hex('hooks.example')) FROM runs"), 0);
  EXPECT_EQ(number(path_, "SELECT instr(hex(url), hex('hooks.example')) FROM webhooks"), 0);
  store_.reset();
  StoreOptions other = options();
  other.payload_key = std::string(32, 'z');
  store_ = opened(std::move(other));
  const std::vector<ledger::WebhookRow> rows = due();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_NE(rows[0].unreadable, "");
  EXPECT_EQ(rows[0].body, "");
  EXPECT_EQ(rows[0].url, "");
}

TEST_F(RunsTest, every_end_is_told_also_that_of_a_cancelled_and_of_a_replayed_one) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  Told<std::optional<RunState>> told;
  store_->cancel_run(id_of(1), "acme", act("run.cancel", id_of(1)), told.teller());
  ASSERT_EQ(told.wait(), RunState::Cancelled);
  ASSERT_EQ(accept(new_run(2, 2)).kind, Kind::Accepted);
  ASSERT_TRUE(take(id_of(2)).taken);
  LetterOutcome with = letter(2);
  with.letter->run = id_of(2);
  ASSERT_EQ(end(failure(12), {.letter = with, .run = outcome(id_of(2), 1, RunState::Dead)}), Written::Committed);
  const std::int64_t dead = due().back().fence;
  ASSERT_EQ(end(answered(13), {.letter = made_good(2)}), Written::Committed);
  const std::vector<ledger::WebhookRow> rows = due();
  ASSERT_EQ(rows.size(), 2U);
  for (const ledger::WebhookRow& row : rows) {
    const bool first = row.run == id_of(1);
    EXPECT_TRUE(row.body.starts_with(first ? R"({"type":"run.cancelled","timestamp":")"
                                           : R"({"type":"run.succeeded","timestamp":")"))
        << row.body;
    EXPECT_NE(row.body.find(R"("data":{"id":")" + row.run + R"(","state":")"), std::string::npos) << row.body;
    EXPECT_NE(row.body.find(R"("queue":"mails","run_id":"job-7")"), std::string::npos) << row.body;
    if (!first) {
      EXPECT_NE(row.fence, dead) << "another end than that it died of";
    }
  }
}

TEST_F(RunsTest, F41_a_late_owners_result_is_refused_and_the_rest_of_its_call_is_written) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  ASSERT_EQ(take(id_of(1)).fence, 1);
  pass(2s);
  ASSERT_TRUE(swept(id_of(1), RunState::Queued));
  EXPECT_EQ(run_of(id_of(1)).crashes, 0);
  ASSERT_EQ(take(id_of(1)).fence, 2);
  EXPECT_EQ(renew({{id_of(1), 1}}), std::vector<std::string>{id_of(1)});
  EXPECT_EQ(renew({{id_of(1), 2}}), std::vector<std::string>{});
  ASSERT_EQ(end(answered(11), {.run = outcome(id_of(1), 1, RunState::Succeeded)}), Written::Committed);
  EXPECT_EQ(store_->figures().late_results, 1U);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE id = '" + id_of(11) + "' AND state = 1"), 1);
  EXPECT_EQ(run_of(id_of(1)).state, "running");
  EXPECT_FALSE(end_run(outcome(id_of(1), 1, RunState::Queued)));
  EXPECT_TRUE(end_run(outcome(id_of(1), 2, RunState::Succeeded)));
  EXPECT_FALSE(end_run(outcome(id_of(1), 2, RunState::Dead))) << "it is over";
  EXPECT_EQ(store_->figures().late_results, 3U);
  EXPECT_EQ(events(), 1);
}

TEST_F(RunsTest, beyond_the_bounds_nothing_is_taken_and_what_is_there_stays) {
  const auto accept_within = [&](const ledger::NewRun& run, ledger::RunBounds bounds) {
    Told<RunAnswer> told;
    store_->accept_run(run, told.teller(), bounds);
    return told.wait().value_or(RunAnswer{}).kind;
  };
  ledger::RunBounds two;
  two.open = 2;
  EXPECT_EQ(accept_within(new_run(1, 1), two), Kind::Accepted);
  EXPECT_EQ(accept_within(new_run(2, 2), two), Kind::Accepted);
  EXPECT_EQ(accept_within(new_run(3, 3), two), Kind::TooMany);
  EXPECT_EQ(accept_within(new_run(4, 1), two), Kind::Same) << "the same run is no further one";
  EXPECT_EQ(store_->figures().runs_open, 2U);
  const auto bytes = static_cast<std::int64_t>(store_->figures().runs_bytes);
  EXPECT_GT(bytes, 0);
  reopen();
  ASSERT_EQ(take(id_of(1)).fence, 1);
  EXPECT_EQ(store_->figures().runs_open, 2U) << "a running one is open, too, and a restart counts anew";
  EXPECT_EQ(static_cast<std::int64_t>(store_->figures().runs_bytes), bytes);
  ledger::RunBounds full;
  full.bytes = bytes;
  EXPECT_EQ(accept_within(new_run(3, 3), full), Kind::TooMuch);
  ASSERT_TRUE(end_run(outcome(id_of(1), 1, RunState::Dead), letter(1)));
  EXPECT_EQ(store_->figures().runs_open, 1U);
  EXPECT_EQ(accept_within(new_run(3, 3), two), Kind::Accepted);
  // A retry by hand has to fit as well.
  Told<std::optional<RunState>> told;
  store_->retry_run(id_of(1), "acme", act("run.retry"), told.teller(), two);
  EXPECT_EQ(told.wait().value_or(std::nullopt), RunState::Dead);
  EXPECT_EQ(cancel(id_of(2)), RunState::Cancelled);
  Told<std::optional<RunState>> again;
  store_->retry_run(id_of(1), "acme", act("run.retry"), again.teller(), two);
  EXPECT_EQ(again.wait().value_or(std::nullopt), RunState::Queued);
  EXPECT_EQ(store_->figures().runs_open, 2U);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM audit WHERE act = 'run.retry'"), 1);
  EXPECT_EQ(cancel(id_of(1)), RunState::Cancelled);
  EXPECT_EQ(cancel(id_of(3)), RunState::Cancelled);
  EXPECT_EQ(store_->figures().runs_open, 0U);
  EXPECT_EQ(store_->figures().runs_bytes, 0U);
}

TEST_F(RunsTest, lists_what_was_accepted_since_and_finds_a_run_s_own_letter) {
  // As ids are: of the moment of their acceptance.
  const auto at = [](int number) { return kNoon + std::chrono::seconds{number}; };
  const auto ms = [&](int number) {
    return std::chrono::floor<std::chrono::milliseconds>(at(number).time_since_epoch()).count();
  };
  for (int number = 1; number <= 3; ++number) {
    ledger::NewRun run = new_run(number, number);
    run.id = id_of(number, at(number));
    run.created_ms = ms(number);
    ASSERT_EQ(accept(run).kind, Kind::Accepted);
  }
  ledger::RunsAsk ask;
  ask.since_ms = ms(2);
  const auto found = asked<std::vector<ledger::RunLine>>([&](Books& books) { return books.runs(ask); });
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].id, id_of(3, at(3)));
  EXPECT_EQ(found[1].id, id_of(2, at(2)));
  const std::string second = id_of(2, at(2));
  ASSERT_EQ(take(second).fence, 1);
  ASSERT_TRUE(end_run(outcome(second, 1, RunState::Dead), letter(2)));
  ledger::LettersAsk of;
  of.of_run = second;
  EXPECT_EQ(letters(of).size(), 1U);
  of.of_run = id_of(3, at(3));
  EXPECT_EQ(letters(of).size(), 0U);
}

TEST_F(RunsTest, a_lease_that_is_renewed_is_not_swept) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  ASSERT_EQ(take(id_of(1)).fence, 1);
  for (int i = 0; i < 6; ++i) {
    clock_.forward(900ms);
    ASSERT_EQ(renew({{id_of(1), 1}}), std::vector<std::string>{});
    ASSERT_EQ(end(answered(10 + i), {}), Written::Committed);
  }
  EXPECT_EQ(run_of(id_of(1)).state, "running");
  EXPECT_EQ(run_of(id_of(1)).lease_until_ms, now() + 1'000);
}

TEST_F(RunsTest, a_leap_of_the_clock_gives_owners_the_time_to_renew) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  ASSERT_EQ(take(id_of(1)).fence, 1);
  clock_.forward(1h);
  ASSERT_EQ(end(answered(10), {}), Written::Committed);
  ASSERT_EQ(end(answered(11), {}), Written::Committed);
  EXPECT_EQ(renew({{id_of(1), 1}}), std::vector<std::string>{}) << "it was taken away at once";
  pass(2s);
  EXPECT_TRUE(swept(id_of(1), RunState::Queued));
}

TEST_F(RunsTest, F41_a_stop_of_some_seconds_is_seen_as_one_however_short_the_lease) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  ASSERT_EQ(take(id_of(1)).fence, 1);
  for (const auto stop : {2s, 3s, 4s}) {
    SCOPED_TRACE(stop.count());
    clock_.forward(stop);
    // The store wakes up before its owner does.
    for (int i = 0; i < 3; ++i) pass(100ms);
    EXPECT_EQ(renew({{id_of(1), 1}}), std::vector<std::string>{}) << "it was taken away from its owner";
  }
  EXPECT_EQ(run_of(id_of(1)).state, "running");
}

TEST_F(RunsTest, what_a_killed_process_held_is_queued_again_and_counted_where_an_attempt_was_begun) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  for (int crash = 0; crash < 3; ++crash) {
    const TakenRun taken = take(id_of(1));
    ASSERT_TRUE(taken.taken);
    EXPECT_EQ(taken.fence, crash + 1);
    EXPECT_EQ(taken.crashes, crash);
    begin_attempt(1, 100 + crash);
    reopen();
    EXPECT_EQ(run_of(id_of(1)).state, "queued");
  }
  // It only waited: with a claim and without one, though the last one's attempts are still there.
  for (const bool with_claim : {false, true}) {
    ASSERT_TRUE(take(id_of(1)).taken);
    if (with_claim) {
      ledger::ClaimAsk ask = asking(1, clock_, 200);
      ask.rerun = true;
      (void)claimed(*store_, ask);
    }
    reopen();
    EXPECT_EQ(run_of(id_of(1)).crashes, 3);
    EXPECT_EQ(run_of(id_of(1)).state, "queued");
  }
  const TakenRun last = take(id_of(1));
  EXPECT_EQ(last.crashes, 3);
  RunOutcome dead = outcome(id_of(1), last.fence, RunState::Dead);
  dead.cls = "crash";
  dead.status = 0;
  LetterOutcome with = letter(1);
  with.letter->run = id_of(1);
  ASSERT_TRUE(end_run(dead, with));
  EXPECT_EQ(run_of(id_of(1)).state, "dead");
  ASSERT_EQ(letters().size(), 1U);
  const ledger::LetterLine line = letters()[0];
  EXPECT_EQ(line.cls, "crash");
  EXPECT_EQ(line.run, id_of(1));
  EXPECT_EQ(line.tenant, "acme");
  EXPECT_EQ(line.model, "gpt-4o");
  EXPECT_EQ(letter_of(line.id).steps[0].detail, "[]");
  // By hand: three starts more, and the letter stays until it succeeds.
  EXPECT_EQ(retry(id_of(1), "other"), std::nullopt);
  EXPECT_EQ(retry(id_of(1), "acme"), RunState::Queued);
  EXPECT_EQ(retry(id_of(1)), RunState::Queued) << "it is queued already";
  const TakenRun again = take(id_of(1));
  EXPECT_EQ(again.crashes, 0);
  EXPECT_EQ(letters().size(), 1U);
  ASSERT_EQ(end(answered(20), {.letter = made_good(1), .run = outcome(id_of(1), again.fence, RunState::Succeeded)}),
            Written::Committed);
  EXPECT_EQ(letters().size(), 0U);
  EXPECT_EQ(asked<std::vector<ledger::AuditRow>>([](Books& books) { return books.acts(0, 10); }).size(), 1U);
  EXPECT_EQ(retry(id_of(1)), RunState::Succeeded);
}

TEST_F(RunsTest, one_given_back_waits_for_its_time_and_adds_up_what_its_calls_cost) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  ASSERT_TRUE(take(id_of(1)).taken);
  RunOutcome back = outcome(id_of(1), 1, RunState::Queued);
  back.not_before_ms = now() + 60'000;
  back.cost_nano = 300;
  ASSERT_EQ(end(failure(10), {.run = back}), Written::Committed);
  EXPECT_EQ(run_of(id_of(1)).state, "queued");
  EXPECT_EQ(events(), 0);
  const auto waiting = [&](std::int64_t at, const std::string& queue = "mails") {
    return asked<std::vector<ledger::WaitingRun>>([&](Books& books) { return books.waiting_runs(queue, at, "", 10); })
        .size();
  };
  EXPECT_EQ(waiting(now()), 0U);
  EXPECT_EQ(waiting(now() + 60'000), 1U);
  EXPECT_EQ(waiting(now() + 60'000, "reports"), 0U);
  EXPECT_EQ(asked<std::optional<std::int64_t>>([&](Books& books) { return books.next_run_at(now()); }),
            now() + 60'000);
  EXPECT_EQ(asked<std::optional<std::int64_t>>([&](Books& books) { return books.next_run_at(now() + 60'000); }),
            std::nullopt);
  ASSERT_EQ(accept(new_run(2, 2)).kind, Kind::Accepted);
  ASSERT_EQ(accept(new_run(3, 3)).kind, Kind::Accepted);
  ASSERT_TRUE(take(id_of(3)).taken);
  const auto pending =
      asked<std::vector<ledger::RunsPending>>([&](Books& books) { return books.runs_pending(now()); });
  ASSERT_EQ(pending.size(), 1U);
  EXPECT_EQ(pending[0].queue, "mails");
  EXPECT_EQ(pending[0].waiting, 1);
  EXPECT_EQ(pending[0].scheduled, 1);
  EXPECT_EQ(pending[0].running, 1);
  EXPECT_EQ(pending[0].oldest_ms, new_run(2, 2).created_ms);
  ASSERT_EQ(take(id_of(1)).fence, 2);
  RunOutcome failed = outcome(id_of(1), 2, RunState::Failed);
  failed.cost_nano = 200;
  failed.answer = an_answer("your fault");
  ASSERT_EQ(end(failure(11), {.letter = letter(1), .run = failed}), Written::Committed);
  EXPECT_EQ(run_of(id_of(1)).cost_nano, 500);
  EXPECT_EQ(run_of(id_of(1)).state, "failed");
  EXPECT_TRUE(run_of(id_of(1)).has_answer);
}

TEST_F(RunsTest, the_replay_of_its_letter_makes_a_dead_run_succeed) {
  for (int i = 1; i <= 2; ++i) {
    ASSERT_EQ(accept(new_run(i, i)).kind, Kind::Accepted);
    ASSERT_TRUE(take(id_of(i)).taken);
    LetterOutcome with = letter(i);
    with.letter->run = id_of(i);
    ASSERT_EQ(end(failure(10 + i), {.letter = with, .run = outcome(id_of(i), 1, RunState::Dead)}),
              Written::Committed);
  }
  EXPECT_EQ(run_of(id_of(1)).state, "dead");
  EXPECT_EQ(letter_of(id_of(11)).line.run, id_of(1));
  // A late owner is none whose answer counts.
  ASSERT_EQ(end(answered(20), {.letter = made_good(2), .run = outcome(id_of(2), 9, RunState::Succeeded)}),
            Written::Committed);
  EXPECT_EQ(run_of(id_of(2)).state, "dead");
  ledger::OnceOutcome once;
  once.scope = digest(1);
  once.call_id = id_of(21);
  once.answer = an_answer("at last");
  ASSERT_EQ(end(answered(21), {.once = once, .letter = made_good(1)}), Written::Committed);
  const ledger::RunLine line = run_of(id_of(1));
  EXPECT_EQ(line.state, "succeeded");
  EXPECT_EQ(line.call_id, id_of(21));
  EXPECT_EQ(line.cost_nano, 1'000);
  const auto answer =
      asked<std::shared_ptr<const ledger::StoredAnswer>>([](Books& books) { return books.run_answer(id_of(1)); });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "at last");
  EXPECT_EQ(letter_of(id_of(11)).line.state, "resolved");
  EXPECT_EQ(events(), 3);
}

TEST_F(RunsTest, F43_a_queued_run_is_cancelled_once_and_no_other_is) {
  for (int i = 1; i <= 3; ++i) ASSERT_EQ(accept(new_run(i, i)).kind, Kind::Accepted);
  ASSERT_TRUE(take(id_of(2)).taken);
  EXPECT_EQ(cancel(id_of(1), "other"), std::nullopt);
  EXPECT_EQ(cancel(id_of(9)), std::nullopt);
  EXPECT_EQ(cancel(id_of(1), "acme"), RunState::Cancelled);
  EXPECT_EQ(cancel(id_of(1), "acme"), RunState::Cancelled);
  EXPECT_EQ(cancel(id_of(2)), RunState::Running);
  EXPECT_FALSE(take(id_of(1)).taken);
  EXPECT_EQ(events(), 1);
  EXPECT_EQ(run_of(id_of(1)).webhook_state, "waiting");
  EXPECT_EQ(retry(id_of(1)), RunState::Cancelled);
  EXPECT_EQ(asked<std::vector<ledger::AuditRow>>([](Books& books) { return books.acts(0, 10); }).size(), 1U);
  EXPECT_TRUE(end_run(outcome(id_of(2), 1, RunState::Cancelled)));
  EXPECT_EQ(run_of(id_of(2)).state, "cancelled");
}

TEST_F(RunsTest, F40_an_end_waits_for_the_disk_and_its_lease_is_not_swept_meanwhile) {
  ASSERT_EQ(accept(new_run(1, 1)).kind, Kind::Accepted);
  ASSERT_TRUE(take(id_of(1)).taken);
  ASSERT_EQ(accept(new_run(2, 2)).kind, Kind::Accepted);
  ASSERT_TRUE(take(id_of(2)).taken);
  Database other(path_, Database::Open::Write);
  other.run("BEGIN EXCLUSIVE");
  store_->end_call(answered(9), {});
  ASSERT_TRUE(eventually([&] { return !store_->figures().trouble.empty(); }));
  LetterOutcome with = letter(1);
  with.letter->run = id_of(1);
  Told<Written> told;
  store_->end_call(failure(10), {.letter = with, .run = outcome(id_of(1), 1, RunState::Dead)}, told.teller());
  EXPECT_EQ(renew({{id_of(2), 1}}), std::vector<std::string>{}) << "nobody else has it";
  EXPECT_FALSE(told.wait(0ms));
  clock_.forward(3s);
  other.run("COMMIT");
  EXPECT_EQ(told.wait(), Written::Committed);
  EXPECT_EQ(run_of(id_of(1)).state, "dead");
  EXPECT_EQ(letters().size(), 1U);
  EXPECT_EQ(renew({{id_of(2), 1}}), std::vector<std::string>{}) << "its owner could not renew it before";
}

TEST_F(RunsTest, a_tenant_sees_its_own_alone_and_filters_hold) {
  for (int i = 1; i <= 5; ++i) {
    ledger::NewRun run = new_run(i, i);
    if (i == 2) run.tenant = "other";
    if (i == 3) run.queue = "reports";
    if (i == 4) run.run_id = "job-8";
    ASSERT_EQ(accept(run).kind, Kind::Accepted);
  }
  ASSERT_TRUE(take(id_of(5)).taken);
  const auto ids = [&](auto set) {
    ledger::RunsAsk ask;
    set(ask);
    std::string out;
    for (const auto& line : asked<std::vector<ledger::RunLine>>([&](Books& books) { return books.runs(ask); })) {
      out += line.id.back();
    }
    return out;
  };
  using Ask = ledger::RunsAsk;
  EXPECT_EQ(ids([](Ask&) {}), "54321");
  EXPECT_EQ(ids([](Ask& ask) { ask.tenant = "other"; }), "2");
  EXPECT_EQ(ids([](Ask& ask) { ask.queue = "reports"; }), "3");
  EXPECT_EQ(ids([](Ask& ask) { ask.run_id = "job-8"; }), "4");
  EXPECT_EQ(ids([](Ask& ask) { ask.state = "running"; }), "5");
  EXPECT_EQ(ids([](Ask& ask) { ask.state = "lost"; }), "");
  EXPECT_EQ(ids([](Ask& ask) { ask.key = "job-1"; }), "1");
  EXPECT_EQ(ids([](Ask& ask) {
              ask.after = id_of(4);
              ask.most = 2;
            }),
            "32");
  EXPECT_FALSE(asked<std::optional<ledger::RunLine>>([](Books& books) { return books.run(id_of(1), "other"); }));
  EXPECT_TRUE(asked<std::optional<ledger::RunLine>>([](Books& books) { return books.run(id_of(1), "acme"); }));
}

TEST_F(RunsTest, they_go_by_their_time_from_their_end_and_waiting_ones_stay) {
  for (int i = 1; i <= 3; ++i) ASSERT_EQ(accept(new_run(i, i)).kind, Kind::Accepted);
  EXPECT_EQ(cancel(id_of(1)), RunState::Cancelled);
  clock_.forward(24h * 31);
  EXPECT_EQ(cancel(id_of(2)), RunState::Cancelled);
  EXPECT_TRUE(eventually([&] { return number(path_, "SELECT count(*) FROM runs") == 2; }));
  EXPECT_EQ(number(path_, "SELECT count(*) FROM webhooks"), 1);
  EXPECT_EQ(accept(new_run(4, 1)).kind, Kind::Accepted) << "a job that is forgotten is a new one";
}

TEST_F(RunsTest, of_an_ordering_key_only_the_one_whose_turn_it_is_waits) {
  const auto keyed = [&](int i, const std::string& ordering_key, std::int64_t not_before_ms = 0) {
    ledger::NewRun run = new_run(i, i);
    run.ordering_key = ordering_key;
    run.not_before_ms = not_before_ms;
    EXPECT_EQ(accept(run).kind, Kind::Accepted);
  };
  const auto waiting = [&] {
    std::string ids;
    for (const ledger::WaitingRun& run : asked<std::vector<ledger::WaitingRun>>(
             [&](Books& books) { return books.waiting_runs("mails", now(), "", 10); })) {
      for (int i = 1; i <= 9; ++i) {
        if (run.id == id_of(i)) ids += std::to_string(i);
      }
    }
    return ids;
  };
  keyed(1, "a");
  keyed(2, "a");
  keyed(3, "");
  keyed(4, "b", now() + 60'000);
  keyed(5, "b");
  keyed(6, "c");
  EXPECT_EQ(waiting(), "136") << "b's first one has still to wait, and holds up the second";
  ASSERT_TRUE(take(id_of(1)).taken);
  EXPECT_EQ(waiting(), "36");
  ASSERT_EQ(end(answered(10), {.run = outcome(id_of(1), 1, RunState::Dead)}), Written::Committed);
  EXPECT_EQ(waiting(), "236") << "one that is dead holds up nobody";
  // Nor may an older one that is retried by hand go beside the one that is running.
  ASSERT_TRUE(take(id_of(2)).taken);
  EXPECT_EQ(retry(id_of(1)), RunState::Queued);
  EXPECT_EQ(waiting(), "36");
  ASSERT_EQ(end(answered(11), {.run = outcome(id_of(2), 1, RunState::Succeeded)}), Written::Committed);
  EXPECT_EQ(waiting(), "136");
  clock_.forward(60s);
  EXPECT_EQ(waiting(), "1346");
}

TEST_F(RunsTest, questions_are_quick_with_a_hundred_thousand) {
  store_.reset();
  {
    Database database(path_, Database::Open::Write);
    database.run(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99999) "
        "INSERT INTO runs(id, scope, fingerprint, state, tenant, queue, lane, run_id, labels, route, model, key, "
        "ordering_key, version, webhook, created_ms, not_before_ms) SELECT printf('%012d', i), "
        "CAST(printf('%032d', i) AS BLOB), x'00', 0, 'acme', 'queue-' || (i % 5), 'bulk', '', '', 'openai', 'm', '', "
        "'', '', '', i, CASE WHEN i % 2 THEN 9000000 ELSE 0 END FROM n");
    database.run("INSERT INTO run_bodies SELECT id, 0, x'00' FROM runs");
  }
  open();
  const auto measured = [&](const char* what, auto question) {
    const auto began = std::chrono::steady_clock::now();
    question();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
    std::printf("100000 runs, %s: %.1f ms\n", what, took.count());
  };
  measured("waiting_runs", [&] {
    const auto found = asked<std::vector<ledger::WaitingRun>>(
        [](Books& books) { return books.waiting_runs("queue-1", 1'000, "", 100); });
    ASSERT_EQ(found.size(), 100U);
    EXPECT_EQ(found[0].id, "000000000006");
    EXPECT_EQ(found[99].id, "000000000996");
  });
  measured("waiting_runs of a queue without one", [&] {
    EXPECT_EQ(asked<std::vector<ledger::WaitingRun>>([](Books& books) {
                return books.waiting_runs("queue-1", -1, "", 100);
              }).size(),
              0U);
  });
  measured("runs_pending", [&] {
    const auto found =
        asked<std::vector<ledger::RunsPending>>([](Books& books) { return books.runs_pending(1'000); });
    ASSERT_EQ(found.size(), 5U);
    EXPECT_EQ(found[0].waiting, 10'000);
    EXPECT_EQ(found[0].scheduled, 10'000);
  });
  measured("next_run_at", [&] {
    EXPECT_EQ(asked<std::optional<std::int64_t>>([](Books& books) { return books.next_run_at(1'000); }), 9'000'000);
  });
}

/// Method: random acts on a few runs, by owners who may be late, against a model that knows the rules; the file is
/// closed and opened in between.
TEST_F(RunsTest, random_acts_end_as_a_small_model_says) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 chance(seed);
  const auto roll = [&](int sides) { return static_cast<int>(chance() % static_cast<unsigned>(sides)); };
  struct Model {
    bool there = false;
    RunState state = RunState::Queued;
    std::int64_t fence = 0;
    int crashes = 0;
    bool letter = false;
    int begun = 0;  // The call whose attempt was, since it was taken.
  };
  std::map<int, Model> models;
  std::uint64_t late = 0;
  std::int64_t ends = 0;
  int call = 1'000;
  for (int step = 0; step < 400; ++step) {
    const int scope = 1 + roll(4);
    Model& model = models[scope];
    const std::string id = id_of(scope);
    switch (roll(8)) {
      case 0: {
        const RunAnswer told = accept(new_run(scope, scope));
        EXPECT_EQ(told.kind, model.there ? Kind::Same : Kind::Accepted);
        if (model.there) {
          EXPECT_EQ(told.state, model.state);
        }
        model.there = true;
        break;
      }
      case 1:
      case 2: {
        const bool may = model.there && model.state == RunState::Queued;
        const TakenRun taken = take(id, 600s);
        ASSERT_EQ(taken.taken, may) << step << ": " << taken.why;
        if (!may) break;
        ++model.fence;
        model.state = RunState::Running;
        EXPECT_EQ(taken.fence, model.fence);
        EXPECT_EQ(taken.crashes, model.crashes);
        model.begun = roll(2) == 0 ? ++call : 0;
        if (model.begun > 0) begin_attempt(scope, model.begun);
        break;
      }
      case 3:
      case 4: {
        const std::int64_t fence = std::max<std::int64_t>(1, model.fence - (roll(4) == 0 ? 1 : 0));
        constexpr RunState kEnds[] = {
            RunState::Queued, RunState::Succeeded, RunState::Failed, RunState::Dead, RunState::Cancelled};
        const RunState to = kEnds[roll(5)];
        const bool holds = model.there && model.state == RunState::Running && fence == model.fence;
        ledger::CallEnd with;
        with.run = outcome(id, fence, to);
        if (to == RunState::Dead) with.letter = letter(scope);
        if (to == RunState::Succeeded) with.letter = made_good(scope);
        ++call;
        ASSERT_EQ(end(to == RunState::Succeeded ? answered(call) : failure(call), with), Written::Committed);
        if (to == RunState::Dead) model.letter = true;
        if (to == RunState::Succeeded) model.letter = false;
        if (!holds) {
          ++late;
          break;
        }
        model.state = to;
        // As the end of its call does.
        if (model.begun > 0) store_->forget_claim(digest(scope), id_of(model.begun));
        if (ledger::is_over(to)) ++ends;
        break;
      }
      case 5: {
        const std::optional<RunState> told = cancel(id);
        ASSERT_EQ(told.has_value(), model.there);
        if (!model.there) break;
        if (model.state == RunState::Queued) {
          model.state = RunState::Cancelled;
          ++ends;
        }
        EXPECT_EQ(told, model.state);
        break;
      }
      case 6: {
        const std::optional<RunState> told = retry(id);
        ASSERT_EQ(told.has_value(), model.there);
        if (!model.there) break;
        if (model.state == RunState::Failed || model.state == RunState::Dead) {
          model.state = RunState::Queued;
          model.crashes = 0;
          ++model.fence;
        }
        EXPECT_EQ(told, model.state);
        break;
      }
      default: {
        if (roll(4) != 0) break;
        EXPECT_EQ(store_->figures().late_results, late);
        late = 0;
        reopen();
        for (auto& [number, one] : models) {
          if (one.state != RunState::Running) continue;
          one.state = RunState::Queued;
          if (one.begun > 0) ++one.crashes;
        }
      }
    }
  }
  for (const auto& [scope, model] : models) {
    if (!model.there) continue;
    EXPECT_EQ(run_of(id_of(scope)).state, ledger::kRunStateNames[static_cast<std::size_t>(model.state)]);
  }
  const auto open = std::ranges::count_if(models, [](const auto& one) { return one.second.letter; });
  EXPECT_EQ(letters().size(), static_cast<std::size_t>(open));
  EXPECT_EQ(events(), ends);
}

}  // namespace runs_test
}  // namespace store_test
