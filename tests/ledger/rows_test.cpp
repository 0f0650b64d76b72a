// Goal: what is told of calls stands in the tables whole, and the sums are those of the rows.

#include "ledger/rows.h"
#include "ledger/care.h"
#include "tests/ledger/store_support.h"

namespace store_test {
namespace rows_test {

class RowsTest : public testing::Test {
 protected:
  void TearDown() override {
    store_.reset();
    EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
  }
  Folder folder_;
  Clock clock_;
  std::string path_ = folder_.path("callgate.db");
  std::unique_ptr<Store> store_ = opened(options_at(path_, clock_));
};

TEST_F(RowsTest, an_answered_call_is_a_row_an_attempt_a_sum_and_an_event) {
  CallRecord record = call(1);
  record.run_id = "nightly";
  record.labels = R"({"team":"search"})";
  EXPECT_EQ(begun(*store_, opening(record)), Written::Committed);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE state = 0"), 1);
  EXPECT_EQ(number(path_, "SELECT reserved_nano FROM attempts WHERE state = 0"), 5'000);

  CallRecord whole = answered(1, 1'234);
  whole.run_id = record.run_id;
  whole.labels = record.labels;
  EXPECT_EQ(ended(*store_, whole), Written::Committed);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE state = 1 AND outcome = 'answered' AND attempts = 1"), 1);
  EXPECT_EQ(number(path_, "SELECT cost_nano FROM attempts WHERE state = 1 AND reserved_nano = 5000"), 1'234);
  EXPECT_EQ(text(path_, "SELECT tokens_from FROM attempts"), "reported");
  EXPECT_EQ(number(path_, "SELECT cache_write FROM spend_by_period"), 7);
  EXPECT_EQ(number(path_, "SELECT cost_nano FROM spend_by_period WHERE calls = 1 AND answered = 1 AND attempts = 1"),
            1'234);
  EXPECT_EQ(number(path_, "SELECT charged_nano FROM spend_by_run WHERE run_id = 'nightly'"), 1'234);
  EXPECT_EQ(text(path_, "SELECT data->>'cost_usd' FROM events WHERE type = 'call.ended'"), "0.000001234");
  EXPECT_EQ(text(path_, "SELECT data->>'$.labels.team' FROM events"), "search");
}

TEST_F(RowsTest, every_column_holds_what_its_name_says) {
  CallRecord record = answered(1, 70);
  record.lane = budget::Lane::Interactive;
  record.run_id = "run";
  record.queue = "mails";
  record.stream = true;
  record.sdk_retry = true;
  record.idempotency_key = "job:1";
  record.reason = "no_more";
  record.waits[0] = 12us;
  record.first_content = 34us;
  record.bytes_in = 56;
  record.bytes_out = 78;
  record.once = "stored";
  record.origin = id_of(9);
  record.saved = budget::NanoUsd{90};
  ledger::AttemptRow& row = record.attempts[0];
  row.model = "gpt-4o-there";
  row.rule = "the rule";
  row.code = "the_code";
  row.detail = "the detail";
  row.fingerprint = "fp";
  row.next = "no_retry";
  row.possibly_billed = true;
  row.waited_before = 11ms;
  row.waited_for = ledger::WaitedFor::Pause;
  row.hint = 22ms;
  row.took = 33us;
  row.provider_request_id = "req_1";
  row.usage.model = "gpt-4o-2024-08-06";
  row.usage.billed.web_searches = 2;
  row.usage.stated_usd = "0.1";
  row.usage.service_tier = "flex";
  row.usage.speed = "fast";
  row.usage.inference_geo = "us";
  row.cost_tier = "flex_tier";
  row.prices = "2026-11";
  row.charged = budget::NanoUsd{71};
  ASSERT_EQ(ended(*store_, record), Written::Committed);

  struct Case {
    const char* sql;
    const char* want;
  };
  const Case cases[] = {
      {"SELECT json_array(lane, run_id, queue, route, upstream, dialect, operation) FROM calls",
       R"([0,"run","mails","openai","openai","openai","chat"])"},
      {"SELECT json_array(method, path, model, stream, sdk_retry, idempotency_key) FROM calls",
       R"(["POST","/v1/chat/completions","gpt-4o",1,1,"job:1"])"},
      {"SELECT json_array(outcome, status, class, reason, attempts, cost_nano, waits) FROM calls",
       R"(["answered",200,"none","no_more",1,70,"{\"queue\":12}"])"},
      {"SELECT json_array(first_content_us, duration_us, bytes_in, bytes_out, once, saved_nano) FROM calls",
       R"([34,500000,56,78,"stored",90])"},
      {"SELECT json_array(upstream, credential, model, model_answered, status, class, rule, code, detail) FROM "
       "attempts",
       R"(["openai","main","gpt-4o-there","gpt-4o-2024-08-06",200,"none","the rule","the_code","the detail"])"},
      {"SELECT json_array(fingerprint, next, possibly_billed, waited_before_ms, waited_for, hint_ms, took_us) FROM "
       "attempts",
       R"(["fp","no_retry",1,11,"pause",22,33])"},
      {"SELECT json_array(provider_request_id, input, cached_input, cache_write_5m, cache_write_1h, output, "
       "reasoning) "
       "FROM attempts",
       R"(["req_1",100,20,3,4,10,5])"},
      {"SELECT json_array(tokens_from, billed, stated_usd, service_tier, speed, inference_geo) FROM attempts",
       R"(["reported","{\"web_searches\":2}","0.1","flex","fast","us"])"},
      {"SELECT json_array(cost_nano, cost_source, cost_tier, prices, reserved_nano, charged_nano) FROM attempts",
       R"([70,"table","flex_tier","2026-11",null,71])"},
      {"SELECT json_array(ended_ms - began_ms) FROM attempts", "[500]"},
      {"SELECT json_array(model, possibly_billed, possibly_billed_nano, charged_nano, saved_nano) FROM "
       "spend_by_period",
       R"(["gpt-4o-there",1,71,71,90])"},
  };
  for (const Case& c : cases) EXPECT_EQ(text(path_, c.sql), c.want) << c.sql;
}

TEST_F(RowsTest, a_new_attempt_ends_the_one_before_in_one_transaction_and_each_counts_once) {
  CallRecord record = call(1);
  ASSERT_EQ(begun(*store_, opening(record)), Written::Committed);
  record.attempts.push_back(attempt(record, 1, 300));
  record.attempts.back().status = 500;
  record.attempts.back().cls = classifier::Class::ServerError;
  record.attempts.back().next = "retry";
  ASSERT_EQ(begun(*store_, opening(record, 2)), Written::Committed);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM attempts WHERE state = 0"), 1);
  EXPECT_EQ(number(path_, "SELECT retry_nano FROM spend_by_period"), 300);

  record.attempts.push_back(attempt(record, 2, 40));
  record.outcome = ledger::Outcome::Failed;
  record.cls = classifier::Class::ServerError;
  record.ended = kNoon + 1s;
  ASSERT_EQ(ended(*store_, record), Written::Committed);
  // Told twice, written once.
  ASSERT_EQ(ended(*store_, record), Written::Committed);
  EXPECT_EQ(
      text(path_,
           "SELECT json_array(calls, answered, attempts, cost_nano, retry_nano, failed_nano) FROM spend_by_period"),
      "[1,0,2,340,300,340]");
  EXPECT_EQ(number(path_, "SELECT count(*) FROM events"), 1);
}

TEST_F(RowsTest, an_attempt_that_ended_is_written_before_the_next_one_begins_and_is_then_a_retry) {
  CallRecord record = call(1);
  record.run_id = "r";
  ASSERT_EQ(begun(*store_, opening(record)), Written::Committed);
  record.attempts.push_back(attempt(record, 1, 300));
  store_->attempt_ended(record);
  ASSERT_TRUE(store_->flush(kPatience));
  const auto sums = [&] {
    return text(path_,
                "SELECT json_array(calls, attempts, cost_nano, retry_nano, charged_nano) FROM spend_by_period");
  };
  EXPECT_EQ(number(path_, "SELECT state FROM attempts"), 1);
  EXPECT_EQ(number(path_, "SELECT state FROM calls"), 0);
  EXPECT_EQ(sums(), "[0,1,300,0,300]");
  EXPECT_EQ(number(path_, "SELECT charged_nano FROM spend_by_run"), 300);
  ASSERT_EQ(begun(*store_, opening(record, 2)), Written::Committed);
  ASSERT_EQ(begun(*store_, opening(record, 2)), Written::Committed);
  EXPECT_EQ(sums(), "[0,1,300,300,300]") << "once, however often it is said";
  record.attempts.push_back(attempt(record, 2, 40));
  record.ended = kNoon + 1s;
  store_->attempt_ended(record);
  ASSERT_EQ(ended(*store_, record), Written::Committed);
  store_->attempt_ended(record);
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(sums(), "[1,2,340,300,340]");
  EXPECT_EQ(number(path_, "SELECT charged_nano FROM spend_by_run"), 340);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE state = 1"), 1);
}

TEST_F(RowsTest, an_attempt_that_ended_is_the_same_rows_in_one_transaction) {
  for (int i = 0; i < 50; ++i) {
    CallRecord record = call(i);
    store_->open_attempt(opening(record, 1, 7'000));
    record.attempts.push_back(attempt(record, 1, 300));
    store_->attempt_ended(record);
    store_->open_attempt(opening(record, 2, 8'000));
    record.attempts.push_back(attempt(record, 2, 40));
    record.ended = kNoon + 1s;
    store_->end_call(record, {});
  }
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(number(path_, "SELECT sum(reserved_nano) FROM attempts WHERE state = 1"), 50 * 15'000);
  EXPECT_EQ(text(path_, "SELECT json_array(calls, attempts, cost_nano, retry_nano) FROM spend_by_period"),
            "[50,100,17000,15000]");
}

TEST_F(RowsTest, an_attempt_that_something_of_ours_lost_ends_with_its_call) {
  for (const bool in_one_transaction : {false, true}) {
    CallRecord record = call(in_one_transaction ? 2 : 1);
    record.run_id = in_one_transaction ? "two" : "one";
    store_->open_attempt(opening(record, 1));
    record.attempts.push_back(attempt(record, 1, 300));
    store_->open_attempt(opening(record, 2, 9'000));
    if (!in_one_transaction) {
      ASSERT_TRUE(store_->flush(kPatience));
    }
    record.cls = classifier::Class::Internal;
    record.ended = kNoon + 1s;
    ASSERT_EQ(ended(*store_, record), Written::Committed);
    ASSERT_EQ(ended(*store_, record), Written::Committed);
  }
  EXPECT_EQ(number(path_, "SELECT count(*) FROM attempts WHERE state = 0"), 0);
  EXPECT_EQ(text(path_,
                 "SELECT json_group_array(json_array(number, class, possibly_billed, charged_nano)) FROM attempts "
                 "WHERE state = 2"),
            R"([[2,"internal",1,9000],[2,"internal",1,9000]])");
  EXPECT_EQ(number(path_, "SELECT sum(attempts) FROM calls WHERE state = 1"), 4);
  EXPECT_EQ(text(path_,
                 "SELECT json_array(calls, attempts, cost_nano, retry_nano, possibly_billed_nano, charged_nano) "
                 "FROM spend_by_period"),
            "[2,4,600,600,18000,18600]");
  EXPECT_EQ(number(path_, "SELECT min(charged_nano) FROM spend_by_run"), 9'300);
  EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
}

TEST_F(RowsTest, absurd_amounts_are_cut_so_that_sums_stay_numbers) {
  for (int i = 0; i < 40; ++i) {
    CallRecord record = call(i);
    record.run_id = "r";
    store_->open_attempt(opening(record, 1, INT64_MAX));
    for (int n = 1; n <= 2; ++n) record.attempts.push_back(attempt(record, n, INT64_MAX));
    record.cost = record.saved = budget::NanoUsd{INT64_MAX};
    record.ended = kNoon + 1s;
    store_->end_call(record, {});
  }
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(store_->figures().failures, 0U);
  EXPECT_EQ(number(path_, "SELECT sum(charged_nano) FROM attempts"), 80 * ledger::kMostNano);
  EXPECT_EQ(number(path_, "SELECT max(reserved_nano) FROM attempts"), ledger::kMostNano);
  EXPECT_EQ(number(path_, "SELECT charged_nano FROM spend_by_run"), 80 * ledger::kMostNano);
  EXPECT_EQ(text(path_, "SELECT json_array(typeof(charged_nano), cost_nano, saved_nano) FROM spend_by_period"),
            R"(["integer",80000000000000000,40000000000000000])");
}

TEST_F(RowsTest, an_ending_whose_opening_was_lost_is_whole) {
  CallRecord record = answered(1);
  record.attempts.insert(record.attempts.begin(), attempt(record, 1, 7));
  record.attempts[1].number = 2;
  ASSERT_EQ(ended(*store_, record), Written::Committed);
  EXPECT_EQ(text(path_, "SELECT json_array(attempts, retry_nano, cost_nano) FROM spend_by_period"), "[2,7,1007]");
}

TEST_F(RowsTest, an_opening_and_an_ending_in_one_transaction_keep_the_reservation) {
  // Nobody waits for the opening, so the ending finds it still waiting, or it has been written: the rows are the
  // same.
  for (int i = 0; i < 50; ++i) {
    const CallRecord record = call(i);
    store_->open_attempt(opening(record, 1, 7'000));
    store_->end_call(answered(i), {});
  }
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(number(path_, "SELECT count(*) FROM attempts WHERE reserved_nano = 7000 AND state = 1"), 50);
  EXPECT_EQ(number(path_, "SELECT sum(calls) FROM spend_by_period"), 50);
}

TEST_F(RowsTest, a_refused_call_is_a_row_without_attempts) {
  CallRecord record = call(1);
  record.outcome = ledger::Outcome::Refused;
  record.status = 429;
  record.cls = classifier::Class::LocalLimit;
  record.reason = "queue_full";
  record.ended = kNoon;
  ASSERT_EQ(ended(*store_, record), Written::Committed);
  EXPECT_EQ(
      text(path_, "SELECT json_array(calls, answered, attempts) FROM spend_by_period WHERE upstream = 'openai'"),
      "[1,0,0]");
  EXPECT_EQ(text(path_, "SELECT data->>'reason' FROM events"), "queue_full");
}

TEST_F(RowsTest, F17_tokens_are_reported_unknown_or_none) {
  struct Case {
    const char* name;
    int status;
    bool possibly_billed;
    const char* operation;
    const char* method;
    const char* want;
  };
  const Case cases[] = {
      {"an answer that told none", 200, false, "chat", "POST", "unknown"},
      {"a refusal", 429, false, "chat", "POST", "none"},
      {"nothing came, and it may have been billed", 0, true, "chat", "POST", "unknown"},
      {"it was never sent", 0, false, "chat", "POST", "none"},
      {"a listing", 200, false, "other", "GET", "none"},
      {"counting is free", 200, false, "count_tokens", "POST", "none"},
      {"who knows what that was", 200, false, "other", "POST", "unknown"},
  };
  int i = 0;
  for (const Case& c : cases) {
    CallRecord record = answered(++i);
    record.operation = c.operation;
    record.method = c.method;
    record.attempts[0].status = c.status;
    record.attempts[0].possibly_billed = c.possibly_billed;
    record.attempts[0].usage.tokens.reset();
    record.attempts[0].cost.reset();
    record.attempts[0].charged.reset();
    record.attempts[0].cost_source = "";
    ASSERT_EQ(ended(*store_, record), Written::Committed);
    EXPECT_EQ(text(path_, "SELECT tokens_from FROM attempts WHERE call_id = '" + record.id + "'"), c.want) << c.name;
  }
}

TEST_F(RowsTest, bytes_that_are_no_text_stay_out_of_the_events_line) {
  CallRecord record = answered(1);
  record.model = "gpt\xff\"\n\x01\xed\xa0\x80";
  ASSERT_EQ(ended(*store_, record), Written::Committed);
  EXPECT_EQ(number(path_, "SELECT json_valid(data) FROM events"), 1);
  EXPECT_EQ(text(path_, "SELECT data->>'model' FROM events"),
            "gpt\xef\xbf\xbd\"\n\x01\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_F(RowsTest, pauses_are_replaced_and_forgotten_and_grants_kept) {
  store_->remember_pause({.what = "tenant", .name = "acme", .until_ms = 5});
  store_->remember_pause({.what = "tenant", .name = "acme", .until_ms = {}});
  store_->remember_pause({.what = "lane", .name = "bulk", .until_ms = 7});
  store_->forget_pause("lane", "bulk");
  Told<Written> told;
  store_->remember_grant({.at_ms = 1, .tenant = "acme", .period = "day", .run_id = "", .amount_nano = -5},
                         told.teller());
  ASSERT_EQ(told.wait(), Written::Committed);
  EXPECT_EQ(text(path_, "SELECT json_group_array(json_array(what, name, until_ms)) FROM pauses"),
            R"([["tenant","acme",null]])");
  EXPECT_EQ(number(path_, "SELECT amount_nano FROM grants WHERE tenant = 'acme' AND period = 'day'"), -5);
}

TEST_F(RowsTest, events_ring_after_their_commit) {
  Told<std::int64_t> told;
  store_->on_events(told.teller());
  ASSERT_EQ(ended(*store_, answered(1)), Written::Committed);
  EXPECT_EQ(told.wait(), 1);
  store_->on_events({});
}

TEST_F(RowsTest, readings_see_what_was_committed) {
  ASSERT_EQ(ended(*store_, answered(1)), Written::Committed);
  Told<std::int64_t> told;
  auto tell = told.teller();
  store_->read([&](ledger::Books& books) {
    const auto lines = books.spend({});
    tell(lines && !lines->empty() ? (*lines)[0].cost_nano : -1);
  });
  EXPECT_EQ(told.wait(), 1'000);
}

TEST_F(RowsTest, old_calls_events_and_runs_go_in_small_steps_and_the_sums_stay) {
  constexpr int kCalls = 700;
  for (int i = 0; i < kCalls; ++i) {
    CallRecord record = answered(i);
    record.run_id = "old";
    store_->end_call(record, {});
  }
  store_->remember_grant({ledger::ms_of(kNoon), "acme", "", "old", 500});
  store_->remember_grant({ledger::ms_of(kNoon), "acme", "", "young", 500});
  store_->remember_grant({ledger::ms_of(kNoon), "acme", "2026-11", "", 500});
  ASSERT_TRUE(store_->flush(kPatience));
  clock_.forward(std::chrono::hours{24 * 91});
  // The writer looks at it after the next thing that it writes.
  CallRecord young = answered(kCalls, 1, clock_.now());
  young.run_id = "young";
  ASSERT_EQ(ended(*store_, young), Written::Committed);
  EXPECT_TRUE(eventually([&] { return number(path_, "SELECT count(*) FROM calls") == 1; }));
  EXPECT_TRUE(eventually([&] { return number(path_, "SELECT count(*) FROM attempts") == 1; }));
  EXPECT_TRUE(eventually([&] { return number(path_, "SELECT count(*) FROM events") == 1; }));
  EXPECT_TRUE(eventually([&] { return text(path_, "SELECT group_concat(run_id) FROM spend_by_run") == "young"; }));
  EXPECT_EQ(text(path_, "SELECT group_concat(run_id, '|') FROM (SELECT run_id FROM grants ORDER BY run_id)"),
            "|young");
  EXPECT_EQ(number(path_, "SELECT sum(calls) FROM spend_by_period"), kCalls + 1);
  EXPECT_EQ(number(path_, "SELECT max(seq) FROM events"), kCalls + 1) << "numbers of events are never given again";
}

TEST(Store, in_memory_keeps_all_for_as_long_as_it_lives) {
  Clock clock;
  auto store = opened(options_at(":memory:", clock));
  ASSERT_EQ(ended(*store, answered(1)), Written::Committed);
  Told<std::size_t> told;
  auto tell = told.teller();
  store->read([&](ledger::Books& books) {
    const auto calls = books.calls({});
    tell(calls ? calls->size() : 99);
  });
  EXPECT_EQ(told.wait(), 1U);
}

}  // namespace rows_test
}  // namespace store_test
