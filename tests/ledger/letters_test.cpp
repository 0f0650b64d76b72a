// Goal: what finally fails is written with the end of its call, one letter a job, and leaves the list only by an
// answer, by hand, or by its time.

#include "ledger/letters.h"

#include <sqlite3.h>

#include "ledger/file.h"
#include "ledger/letter_rows.h"
#include "ledger/owed.h"
#include "tests/ledger/owed_support.h"

namespace store_test {
namespace letters_test {

class LettersTest : public OwedTest {};

TEST_F(LettersTest, a_failure_with_a_letter_and_none_open_makes_one_whose_id_is_the_calls) {
  ASSERT_EQ(fail(1, letter(1)), Written::Committed);
  const ledger::LetterDetail found = letter_of(id_of(1));
  const ledger::LetterLine& line = found.line;
  EXPECT_EQ(line.tenant, "acme");
  EXPECT_EQ(line.queue, "mails");
  EXPECT_EQ(line.lane, "bulk");
  EXPECT_EQ(line.run_id, "job-7");
  EXPECT_EQ(line.key, "job-1");
  EXPECT_EQ(line.scope, digest(1));
  EXPECT_EQ(line.route, "openai");
  EXPECT_EQ(line.upstream, "openai");
  EXPECT_EQ(line.model, "gpt-4o");
  EXPECT_EQ(line.operation, "chat");
  EXPECT_EQ(line.cls, "rate_limited");
  EXPECT_EQ(line.code, "too_many");
  EXPECT_EQ(line.group, "00000000000000aa");
  EXPECT_EQ(line.cause, "slow down");
  EXPECT_EQ(line.advice, "replay");
  EXPECT_EQ(line.state, "open");
  EXPECT_EQ(line.payload, "kept");
  EXPECT_EQ(line.call_id, id_of(1));
  EXPECT_EQ(line.status, 429);
  EXPECT_EQ(line.failures, 1);
  EXPECT_EQ(line.revision, 0);
  EXPECT_EQ(line.cost_nano, 300);
  EXPECT_EQ(line.arrived_ms, now());
  EXPECT_EQ(line.expires_ms, now() + 30LL * 24 * 3'600'000);
  EXPECT_EQ(found.labels, R"({"team":"search"})");
  ASSERT_EQ(found.steps.size(), 1U);
  EXPECT_EQ(found.steps[0].what, "failed");
  EXPECT_EQ(found.steps[0].call_id, id_of(1));
  EXPECT_EQ(found.steps[0].detail.front(), '[');
  EXPECT_NE(found.steps[0].detail.find(R"("code":"too_many")"), std::string::npos) << found.steps[0].detail;
  const auto kept = asked<std::shared_ptr<const ledger::KeptRequest>>(
      [](Books& books) { return books.letter_request(id_of(1), -1); });
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->method, "POST");
  EXPECT_EQ(kept->target, request()->target);
  EXPECT_EQ(kept->headers, request()->headers);
  EXPECT_EQ(kept->body, request()->body);
  EXPECT_EQ(store_->figures().letters_bytes, static_cast<std::uint64_t>(line.bytes));
}

TEST_F(LettersTest, a_failure_with_one_open_is_that_one_once_more) {
  ASSERT_EQ(fail(1, letter(1)), Written::Committed);
  clock_.forward(1min);
  LetterOutcome again = letter(1, request("another body"));
  again.letter->cause = "the key is wrong";
  again.letter->group = "00000000000000bb";
  again.letter->advice = ledger::Advice::FixFirst;
  CallRecord record = failure(2, classifier::Class::Auth, 50);
  ASSERT_EQ(end(record, {.letter = again}), Written::Committed);
  // Told twice, it has still failed twice.
  ASSERT_EQ(end(record, {.letter = again}), Written::Committed);
  const ledger::LetterDetail found = letter_of(id_of(1));
  EXPECT_EQ(letters().size(), 1U);
  EXPECT_EQ(found.line.failures, 2);
  EXPECT_EQ(found.line.cls, "auth");
  EXPECT_EQ(found.line.cause, "the key is wrong");
  EXPECT_EQ(found.line.group, "00000000000000bb");
  EXPECT_EQ(found.line.advice, "fix-first");
  EXPECT_EQ(found.line.cost_nano, 350);
  EXPECT_EQ(found.line.call_id, id_of(2));
  EXPECT_EQ(found.line.arrived_ms, now() - 60'000);
  EXPECT_EQ(found.line.last_ms, now());
  EXPECT_EQ(found.steps.size(), 2U);
  const auto kept = asked<std::shared_ptr<const ledger::KeptRequest>>(
      [](Books& books) { return books.letter_request(id_of(1), 0); });
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->body, request()->body) << "it stays as it came";
}

TEST_F(LettersTest, an_answer_resolves_it_and_the_next_failure_is_a_letter_of_its_own) {
  ASSERT_EQ(fail(1, letter(1)), Written::Committed);
  ASSERT_EQ(fail(2, letter(2)), Written::Committed);
  ASSERT_EQ(end(answered(3), {.letter = made_good(1)}), Written::Committed);
  ASSERT_EQ(end(answered(4), {.letter = made_good(77)}), Written::Committed);
  ledger::LetterDetail found = letter_of(id_of(1));
  EXPECT_EQ(found.line.state, "resolved");
  EXPECT_EQ(found.line.ended_ms, now());
  ASSERT_EQ(found.steps.size(), 2U);
  EXPECT_EQ(found.steps[1].what, "resolved");
  EXPECT_EQ(found.steps[1].call_id, id_of(3));
  EXPECT_EQ(letter_of(id_of(2)).line.state, "open") << "another job's";
  EXPECT_EQ(store_->figures().letters_bytes, static_cast<std::uint64_t>(letter_of(id_of(2)).line.bytes));
  ASSERT_EQ(fail(5, letter(1)), Written::Committed);
  EXPECT_EQ(letter_of(id_of(5)).line.failures, 1);
  EXPECT_EQ(letter_of(id_of(1)).line.state, "resolved");
}

TEST_F(LettersTest, an_end_of_another_kind_leaves_it_as_it_is) {
  ASSERT_EQ(fail(1, letter(1)), Written::Committed);
  CallRecord record = failure(2);
  record.outcome = ledger::Outcome::Cancelled;
  ASSERT_EQ(end(record, {}), Written::Committed);
  EXPECT_EQ(letter_of(id_of(1)).line.failures, 1);
  EXPECT_EQ(letter_of(id_of(1)).line.state, "open");
}

TEST_F(LettersTest, letters_outlive_the_process_and_are_read_with_old_keys_in_their_own_place_only) {
  for (int i = 1; i <= 3; ++i) ASSERT_EQ(fail(i, letter(i, request("a very secret prompt"))), Written::Committed);
  store_.reset();
  EXPECT_EQ(number(path_, "SELECT count(*) FROM letter_requests WHERE instr(body, 'secret') > 0"), 0);
  Database(path_, Database::Open::Write)
      .run("UPDATE letter_requests SET body = (SELECT body FROM letter_requests WHERE letter = '" + id_of(1) +
           "') WHERE letter = '" + id_of(2) + "'");
  const auto read = [&](const ledger::SealKeys& keys, int number) {
    const auto books = ledger::open_books(path_, keys);
    EXPECT_TRUE(books);
    return (*books)->letter_request(id_of(number), -1).value_or(nullptr);
  };
  const std::string fresh(32, 'n');
  EXPECT_TRUE(read({kSealKey, {}}, 1));
  ASSERT_TRUE(read({fresh, {kSealKey}}, 3));
  EXPECT_EQ(read({fresh, {kSealKey}}, 3)->body, "a very secret prompt");
  EXPECT_FALSE(read({fresh, {kSealKey}}, 2)) << "moved to another's place";
  EXPECT_FALSE(read({fresh, {}}, 1));
  EXPECT_FALSE(read({}, 1));
  open();
  EXPECT_EQ(letter_of(id_of(2)).line.payload, "unreadable");
  EXPECT_EQ(letter_of(id_of(1)).line.payload, "kept");
}

TEST_F(LettersTest, with_payloads_in_memory_a_letter_has_no_request_and_in_the_clear_it_has) {
  for (const auto payloads : {ledger::Payloads::Memory, ledger::Payloads::Plain}) {
    const std::string path = folder_.path("other-" + std::to_string(static_cast<int>(payloads)));
    StoreOptions other = options_at(path, clock_);
    other.payloads = payloads;
    auto store = opened(other);
    store->end_call(failure(1), {.letter = letter(1)});
    Told<RunAnswer> told;
    store->accept_run(new_run(5, 5), told.teller());
    const bool memory = payloads == ledger::Payloads::Memory;
    EXPECT_EQ(told.wait()->kind, memory ? RunAnswer::Kind::NoStore : RunAnswer::Kind::Accepted);
    ASSERT_TRUE(store->flush(kPatience));
    EXPECT_EQ(number(path, "SELECT payload FROM dead_letters"), memory ? 1 : 0);
    EXPECT_EQ(number(path, "SELECT count(*) FROM letter_requests"), memory ? 0 : 1);
    EXPECT_EQ(store->figures().letters_without, 0U) << "that is not for want of room";
    EXPECT_EQ(ledger::check(path), std::vector<std::string>{});
  }
  StoreOptions fleeting = options_at(":memory:", clock_);
  fleeting.payloads = ledger::Payloads::Plain;
  auto store = opened(fleeting);
  Told<RunAnswer> told;
  store->accept_run(new_run(5, 5), told.teller());
  EXPECT_EQ(told.wait()->kind, RunAnswer::Kind::NoStore) << "it would not outlive the process";
}

TEST_F(LettersTest, a_queue_may_keep_requests_in_another_form_than_the_store) {
  using ledger::LetterForm;
  const struct {
    ledger::Payloads store;
    LetterForm form;
    int payload;
    bool readable;  // By whoever has the file.
  } kCases[] = {
      {ledger::Payloads::Encrypted, LetterForm::AsStore, 0, false},
      {ledger::Payloads::Encrypted, LetterForm::Encrypted, 0, false},
      {ledger::Payloads::Encrypted, LetterForm::Plain, 0, true},
      {ledger::Payloads::Encrypted, LetterForm::LeftOut, 1, false},
      {ledger::Payloads::Plain, LetterForm::LeftOut, 1, false},
      {ledger::Payloads::Plain, LetterForm::Encrypted, 1, false},
      {ledger::Payloads::Memory, LetterForm::Plain, 0, true},
  };
  int number_of = 0;
  for (const auto& one : kCases) {
    SCOPED_TRACE(number_of);
    const std::string path = folder_.path("form-" + std::to_string(number_of++));
    StoreOptions other = options_at(path, clock_);
    other.payloads = one.store;
    if (one.store == ledger::Payloads::Encrypted) other.payload_key = kSealKey;
    auto store = opened(other);
    LetterOutcome outcome = letter(1, request("marker-of-the-prompt"));
    outcome.letter->form = one.form;
    store->end_call(failure(1), {.letter = outcome});
    ASSERT_TRUE(store->flush(kPatience));
    EXPECT_EQ(number(path, "SELECT payload FROM dead_letters"), one.payload);
    EXPECT_EQ(number(path, "SELECT count(*) FROM letter_requests"), one.payload == 0 ? 1 : 0);
    // What is sealed begins with that byte.
    EXPECT_EQ(number(path, "SELECT count(*) FROM letter_requests WHERE substr(body, 1, 1) <> x'01'"),
              one.readable ? 1 : 0);
    Told<std::shared_ptr<const ledger::KeptRequest>> read;
    store->read(
        [tell = read.teller()](Books& books) mutable { tell(books.letter_request(id_of(1), -1).value_or(nullptr)); });
    const auto kept = read.wait().value_or(nullptr);
    EXPECT_EQ(kept ? kept->body : "", one.payload == 0 ? "marker-of-the-prompt" : "");
  }
}

TEST_F(LettersTest, of_one_that_is_over_it_is_said_that_its_request_was_erased) {
  ASSERT_EQ(fail(1, letter(1)), Written::Committed);
  ASSERT_EQ(fail(2, letter(2, nullptr)), Written::Committed);
  ASSERT_EQ(end(answered(3), {.letter = made_good(1)}), Written::Committed);
  ASSERT_EQ(end(answered(4), {.letter = made_good(2)}), Written::Committed);
  EXPECT_EQ(letter_of(id_of(1)).line.payload, "erased");
  EXPECT_EQ(letter_of(id_of(2)).line.payload, "left_out") << "there was none to be erased";
}

TEST_F(LettersTest, beyond_their_bytes_letters_are_kept_without_their_request_and_counted) {
  std::string noise;
  for (int i = 0; i < 2'000; ++i) noise += static_cast<char>((i * 7919 + i * i * 31) >> 3);
  store_->configure({}, 24h, 1'000'000, 5'000);
  for (int i = 1; i <= 4; ++i) ASSERT_EQ(fail(i, letter(i, request(noise))), Written::Committed);
  EXPECT_EQ(store_->figures().letters_without, 2U);
  EXPECT_LE(store_->figures().letters_bytes, 5'000U);
  EXPECT_EQ(letter_of(id_of(2)).line.payload, "kept");
  EXPECT_EQ(letter_of(id_of(3)).line.payload, "full");
  EXPECT_EQ(letter_of(id_of(3)).line.bytes, 0);
  // What is made good makes room.
  ASSERT_EQ(end(answered(10), {.letter = made_good(1)}), Written::Committed);
  ASSERT_EQ(fail(11, letter(11, request(noise))), Written::Committed);
  EXPECT_EQ(letter_of(id_of(11)).line.payload, "kept");
  const std::uint64_t bytes = store_->figures().letters_bytes;
  reopen();
  ASSERT_EQ(end(answered(12), {}), Written::Committed);
  EXPECT_EQ(store_->figures().letters_bytes, bytes);
}

TEST_F(LettersTest, discarding_takes_the_open_ones_of_a_filter_with_one_row_of_who_and_why) {
  for (int i = 1; i <= 5; ++i) {
    LetterOutcome one = letter(i);
    if (i > 3) one.letter->group = "00000000000000bb";
    ASSERT_EQ(fail(i, one), Written::Committed);
  }
  ASSERT_EQ(end(answered(9), {.letter = made_good(1)}), Written::Committed);
  const auto discard = [&](const std::string& tenant) {
    return answered_by<std::int64_t>([&](auto done) {
      ledger::LettersAsk ask;
      ask.group = "00000000000000aa";
      ask.tenant = tenant;
      ask.most = 1;
      store_->discard_letters(ask, act("dead.discard", ask.group), done);
    });
  };
  EXPECT_EQ(discard("other"), 0);
  EXPECT_EQ(discard("acme"), 2);
  EXPECT_EQ(discard("acme"), 0);
  EXPECT_EQ(letter_of(id_of(1)).line.state, "resolved");
  EXPECT_EQ(letter_of(id_of(2)).line.state, "discarded");
  EXPECT_EQ(letter_of(id_of(2)).steps.back().detail, "because");
  EXPECT_EQ(letter_of(id_of(4)).line.state, "open");
  const auto acts = asked<std::vector<ledger::AuditRow>>([](Books& books) { return books.acts(0, 10); });
  ASSERT_EQ(acts.size(), 1U) << "what changed nothing is no act";
  EXPECT_EQ(acts[0].who, "admin");
  EXPECT_EQ(acts[0].what, "00000000000000aa");
  EXPECT_EQ(acts[0].count, 2);
  EXPECT_EQ(acts[0].at_ms, now());
}

TEST_F(LettersTest, an_edit_is_a_new_revision_of_the_newest_and_the_first_stays) {
  ASSERT_EQ(fail(1, letter(1)), Written::Committed);
  const auto edit = [&](const std::string& tenant, int from, const std::string& body) {
    return answered_by<int>([&](auto done) {
      store_->edit_letter(id_of(1),
                          tenant,
                          from,
                          request(body),
                          ledger::LetterForm::AsStore,
                          "/model: a -> b",
                          act("dead.edit", id_of(1)),
                          done);
    });
  };
  EXPECT_EQ(edit("acme", 0, "first"), 1);
  EXPECT_EQ(edit("acme", 1, "second"), 2);
  EXPECT_NE(edit("acme", 1, "late").error().find("revision 2"), std::string::npos);
  EXPECT_NE(edit("other", 2, "theirs").error().find("there is no letter"), std::string::npos);
  const auto body = [&](int revision) {
    const auto kept = asked<std::shared_ptr<const ledger::KeptRequest>>(
        [&](Books& books) { return books.letter_request(id_of(1), revision); });
    return kept ? kept->body : std::string{"(none)"};
  };
  EXPECT_EQ(body(0), request()->body);
  EXPECT_EQ(body(1), "first");
  EXPECT_EQ(body(-1), "second");
  EXPECT_EQ(body(3), "(none)");
  EXPECT_EQ(letter_of(id_of(1)).line.revision, 2);
  EXPECT_EQ(letter_of(id_of(1)).steps.back().what, "edited");
  EXPECT_EQ(store_->figures().letters_bytes, static_cast<std::uint64_t>(letter_of(id_of(1)).line.bytes));
  EXPECT_EQ(asked<std::vector<ledger::AuditRow>>([](Books& books) { return books.acts(0, 10); }).size(), 2U);
  ASSERT_EQ(end(answered(2), {.letter = made_good(1)}), Written::Committed);
  EXPECT_NE(edit("acme", 2, "more").error().find("resolved"), std::string::npos);
  EXPECT_EQ(store_->figures().letters_bytes, 0U);
}

TEST_F(LettersTest, they_go_by_their_time_from_arrival_and_open_ones_are_told) {
  LetterOutcome soon = letter(1);
  soon.letter->retention = 1h;
  ASSERT_EQ(fail(1, soon), Written::Committed);
  ASSERT_EQ(fail(2, letter(2)), Written::Committed);
  ASSERT_EQ(fail(3, letter(3)), Written::Committed);
  ASSERT_EQ(end(answered(4), {.letter = made_good(3)}), Written::Committed);
  const auto left = [&] { return number(path_, "SELECT count(*) FROM dead_letters"); };
  clock_.forward(2h);
  ASSERT_EQ(end(answered(5), {}), Written::Committed);
  EXPECT_TRUE(eventually([&] { return left() == 2; }));
  clock_.forward(24h * 31);
  ASSERT_EQ(end(answered(6), {}), Written::Committed);
  EXPECT_TRUE(eventually([&] { return left() == 0; }));
  EXPECT_TRUE(eventually([&] { return store_->figures().letters_expired == 2; }));
  EXPECT_EQ(store_->figures().letters_bytes, 0U);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM letter_steps"), 0);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM letter_requests"), 0);
  EXPECT_EQ(text(path_, "SELECT what FROM audit WHERE who = 'retention' ORDER BY seq DESC LIMIT 1"), id_of(2));
}

TEST_F(LettersTest, a_shorter_retention_holds_for_those_that_are_there) {
  for (int i = 1; i <= 250; ++i) store_->end_call(failure(i), {.letter = letter(i)});
  ASSERT_TRUE(store_->flush(kPatience));
  clock_.forward(2h);
  ledger::Retention retention;
  retention.dead_letters = 1h;
  store_->configure(retention, 24h, 1'000'000, 1'000'000);
  EXPECT_TRUE(eventually([&] { return number(path_, "SELECT count(*) FROM dead_letters") == 0; }));
}

TEST_F(LettersTest, a_tenant_sees_its_own_alone) {
  ASSERT_EQ(fail(1, letter(1)), Written::Committed);
  const auto none = [&](const std::string& tenant) {
    ledger::LettersAsk ask;
    ask.tenant = tenant;
    const bool listed = !letters(ask).empty();
    const bool grouped =
        !asked<std::vector<ledger::LetterGroup>>([&](Books& books) { return books.letter_groups(ask); }).empty();
    const bool found = asked<std::optional<ledger::LetterDetail>>([&](Books& books) {
                         return books.letter(id_of(1), tenant);
                       }).has_value();
    EXPECT_EQ(listed, grouped);
    EXPECT_EQ(listed, found);
    return !listed;
  };
  EXPECT_FALSE(none("acme"));
  EXPECT_TRUE(none("other"));
}

TEST_F(LettersTest, each_condition_of_a_filter_holds_and_pages_follow_ids) {
  for (int i = 1; i <= 9; ++i) {
    LetterOutcome one = letter(i);
    CallRecord record = failure(i, i % 2 ? classifier::Class::Auth : classifier::Class::RateLimited);
    record.began = kNoon;
    record.queue = i == 3 ? "reports" : "mails";
    record.model = i == 4 ? "gpt-5" : "gpt-4o";
    record.upstream = i == 5 ? "azure" : "openai";
    record.run_id = i == 6 ? "job-8" : "job-7";
    if (i == 7) one.letter->advice = ledger::Advice::Discard;
    ASSERT_EQ(end(record, {.letter = one}), Written::Committed);
    clock_.forward(1s);
  }
  const auto ids = [&](auto set) {
    ledger::LettersAsk ask;
    set(ask);
    std::string out;
    for (const ledger::LetterLine& line : letters(ask)) out += line.id.back();
    return out;
  };
  using Ask = ledger::LettersAsk;
  EXPECT_EQ(ids([](Ask&) {}), "987654321");
  EXPECT_EQ(ids([](Ask& ask) { ask.cls = "auth"; }), "97531");
  EXPECT_EQ(ids([](Ask& ask) { ask.queue = "reports"; }), "3");
  EXPECT_EQ(ids([](Ask& ask) { ask.model = "gpt-5"; }), "4");
  EXPECT_EQ(ids([](Ask& ask) { ask.upstream = "azure"; }), "5");
  EXPECT_EQ(ids([](Ask& ask) { ask.run_id = "job-8"; }), "6");
  EXPECT_EQ(ids([](Ask& ask) { ask.advice = "discard"; }), "7");
  EXPECT_EQ(ids([](Ask& ask) { ask.key = "job-8"; }), "8");
  EXPECT_EQ(ids([](Ask& ask) { ask.ids = {id_of(2), id_of(9), "x\"]"}; }), "92");
  EXPECT_EQ(ids([&](Ask& ask) { ask.since_ms = now() - 2'000; }), "98");
  EXPECT_EQ(ids([&](Ask& ask) { ask.until_ms = now() - 8'000; }), "1");
  EXPECT_EQ(ids([](Ask& ask) { ask.state = ledger::LetterState::Resolved; }), "");
  EXPECT_EQ(ids([](Ask& ask) { ask.state.reset(); }), "987654321");
  EXPECT_EQ(ids([](Ask& ask) { ask.most = 2; }), "98");
  EXPECT_EQ(ids([](Ask& ask) {
              ask.most = 2;
              ask.after = id_of(8);
            }),
            "76");
  const auto pending =
      asked<std::vector<ledger::LettersPending>>([](Books& books) { return books.letters_pending(); });
  std::string told;
  for (const auto& row : pending) told += row.cls + "/" + row.queue + "=" + std::to_string(row.count) + " ";
  EXPECT_EQ(told, "auth/mails=4 auth/reports=1 rate_limited/mails=4 ");
}

TEST_F(LettersTest, groups_of_forty_thousand_are_quick) {
  store_.reset();
  {
    auto file = ledger::open_file(options());
    ASSERT_TRUE(file);
    Database& database = *file->database;
    ledger::Rows rows(database);
    ledger::Owed owed(database, options(), rows);
    ledger::Transaction transaction(database, ledger::Transaction::Kind::Write);
    for (int i = 0; i < 40'000; ++i) {
      LetterOutcome one = letter(i, nullptr);
      one.letter->group = "000000000000000" + std::to_string(i % 6);
      one.letter->cause = "cause " + std::to_string(i % 6) + std::string(150, '.');
      ledger::LetterOf of;
      of.id = id_of(i);
      of.tenant = "tenant-" + std::to_string(i % 20);
      of.queue = "mails";
      of.model = "gpt-4o";
      of.upstream = "openai";
      of.cls = "auth";
      of.call_id = of.id;
      of.cost_nano = 10;
      owed.letters.failed(one, of, {}, 1'000 + i);
    }
    transaction.commit();
  }
  open();
  const auto measured = [&](const char* what, const ledger::LettersAsk& ask) {
    const auto began = std::chrono::steady_clock::now();
    const auto groups =
        asked<std::vector<ledger::LetterGroup>>([&](Books& books) { return books.letter_groups(ask); });
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
    std::printf("letter_groups over 40000, %s: %.1f ms\n", what, took.count());
    return groups;
  };
  const auto groups = measured("all", {});
  ASSERT_EQ(groups.size(), 6U);
  EXPECT_EQ(groups[0].count, 6'667);
  EXPECT_EQ(groups[0].cost_nano, 66'670);
  EXPECT_EQ(groups[0].sample, id_of(39'996));
  EXPECT_EQ(groups[0].cause.substr(0, 7), "cause 0");
  EXPECT_EQ(groups[0].first_ms, 1'000);
  EXPECT_EQ(groups[0].last_ms, 40'996);
  ledger::LettersAsk ask;
  ask.tenant = "tenant-3";
  EXPECT_EQ(measured("of a tenant", ask).size(), 3U);
  ask.model = "gpt-4o";
  EXPECT_EQ(measured("of a tenant and a model", ask).size(), 3U);
  // From an index alone.
  const ledger::LetterConditions conditions = ledger::conditions_of({});
  Database database(path_, Database::Open::Read);
  ledger::Statement plan(database,
                         "EXPLAIN QUERY PLAN SELECT cause_group, count(*), min(arrived_ms), max(last_ms), "
                         "sum(cost_nano), max(id) FROM dead_letters WHERE 1 AND state = 0" +
                             conditions.sql + " GROUP BY cause_group");
  ASSERT_TRUE(plan.step());
  EXPECT_NE(plan.text(3).find("COVERING INDEX dead_letters_groups"), std::string::npos) << plan.text(3);
}

TEST_F(LettersTest, figures_are_as_before_where_a_transaction_is_rolled_back) {
  ASSERT_EQ(fail(1, letter(1)), Written::Committed);
  const std::uint64_t bytes = store_->figures().letters_bytes;
  Database(path_, Database::Open::Write)
      .run(
          "CREATE TRIGGER poison BEFORE INSERT ON letter_steps WHEN new.class = 'auth' BEGIN SELECT raise(ABORT, "
          "'no'); END");
  reopen();
  ASSERT_EQ(end(failure(2, classifier::Class::Auth), {.letter = letter(2)}), Written::Lost);
  ASSERT_EQ(end(answered(3), {}), Written::Committed);
  EXPECT_EQ(store_->figures().letters_bytes, bytes);
  EXPECT_EQ(store_->figures().lost_endings, 1U);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE id = '" + id_of(2) + "'"), 0) << "all of it, or nothing";
}

TEST_F(LettersTest, F40_a_letter_waits_until_the_disk_takes_it_and_outlasts_ordinary_rows) {
  store_.reset();
  StoreOptions small = options();
  small.most_waiting = 20;
  store_ = opened(small);
  ASSERT_EQ(end(answered(1), {}), Written::Committed);
  Database other(path_, Database::Open::Write);
  other.run("BEGIN EXCLUSIVE");
  store_->end_call(answered(2), {});
  ASSERT_TRUE(eventually([&] { return !store_->figures().trouble.empty(); }));
  std::atomic<int> committed{0};
  std::atomic<int> lost{0};
  for (int i = 10; i < 20; ++i) {
    store_->end_call(failure(i), {.letter = letter(i)}, [&](Written written) {
      ++(written == Written::Committed ? committed : lost);
    });
  }
  for (int i = 100; i < 200; ++i) store_->end_call(answered(i), {});
  EXPECT_TRUE(eventually([&] { return store_->figures().lost_endings >= 81; }));
  // Those who can be told are told at once.
  EXPECT_EQ(accept(new_run(500, 500)).kind, RunAnswer::Kind::NoStore);
  EXPECT_FALSE(take(id_of(500)).taken);
  const auto discarded =
      answered_by<std::int64_t>([&](auto done) { store_->discard_letters({}, act("dead.discard"), done); });
  ASSERT_FALSE(discarded);
  EXPECT_NE(discarded.error().find("cannot be written now"), std::string::npos);
  EXPECT_EQ(committed, 0);
  EXPECT_EQ(lost, 0);
  other.run("COMMIT");
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(committed, 10);
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(letters().size(), 10U);
}

TEST_F(LettersTest, replays_keep_sums_of_their_items_and_move_only_from_where_they_are_said_to_be) {
  for (int i = 1; i <= 4; ++i) ASSERT_EQ(fail(i, letter(i)), Written::Committed);
  ledger::Replay replay;
  replay.id = id_of(900);
  replay.created_ms = now();
  replay.who = "admin";
  replay.tenant = "acme";
  replay.digest = "abc";
  replay.filter = R"({"class":"auth"})";
  std::vector<ledger::ReplayItem> items;
  for (int i = 4; i >= 1; --i) {
    ledger::ReplayItem item;
    item.letter = id_of(i);
    if (i == 4) item.state = ledger::ItemState::Skipped;
    if (i == 4) item.why = "no request";
    items.push_back(item);
  }
  const auto plan = [&] {
    return answered_by<bool>(
        [&](auto done) { store_->plan_replay(replay, items, act("replay.plan", replay.id), done); });
  };
  EXPECT_EQ(plan(), true);
  EXPECT_EQ(plan(), false) << "it was planned before";
  const auto in_replay = [&] {
    return asked<std::vector<std::string>>([](Books& books) {
      return books.in_replay({id_of(1), id_of(2), id_of(4), id_of(5)});
    });
  };
  EXPECT_EQ(in_replay(), std::vector<std::string>{});
  EXPECT_EQ(answered_by<bool>(
                [&](auto done) { store_->approve_replay(replay.id, "boss", act("dead.approve", replay.id), done); }),
            true);
  const auto move = [&](std::vector<ledger::ReplayState> from, ledger::ReplayState to, const std::string& why = "") {
    return answered_by<ledger::ReplayState>(
        [&](auto done) { store_->move_replay(replay.id, from, to, why, act("replay.start", replay.id), done); });
  };
  using State = ledger::ReplayState;
  EXPECT_EQ(move({State::Planned}, State::Running), State::Running);
  EXPECT_EQ(move({State::Planned}, State::Running), State::Running) << "a second start changes nothing";
  EXPECT_EQ(in_replay(), (std::vector<std::string>{id_of(1), id_of(2)}));
  EXPECT_FALSE(
      answered_by<bool>([&](auto done) { store_->approve_replay(replay.id, "x", act("dead.approve"), done); }));
  ledger::ReplayItem done = items[3];
  done.state = ledger::ItemState::Running;
  store_->replay_item(replay.id, done);
  done.state = ledger::ItemState::Resolved;
  done.call_id = id_of(50);
  done.cost_nano = 70;
  store_->replay_item(replay.id, done);
  store_->replay_item(replay.id, done);
  done.letter = id_of(99);
  store_->replay_item(replay.id, done);
  store_->canary_passed(replay.id);
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(move({State::Running}, State::Stopped, "auth"), State::Stopped);
  reopen();
  const auto found =
      asked<std::optional<ledger::Replay>>([&](Books& books) { return books.replay(replay.id, "acme"); });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state, State::Stopped);
  EXPECT_EQ(found->why, "auth");
  EXPECT_EQ(found->approved_by, "boss");
  EXPECT_EQ(found->filter, replay.filter);
  EXPECT_TRUE(found->canary_passed);
  EXPECT_EQ(found->started_ms, now());
  EXPECT_EQ(found->ended_ms, now());
  EXPECT_EQ(found->waiting, 2);
  EXPECT_EQ(found->running, 0);
  EXPECT_EQ(found->resolved, 1);
  EXPECT_EQ(found->skipped, 1);
  EXPECT_EQ(found->cost_nano, 70);
  EXPECT_FALSE(asked<std::optional<ledger::Replay>>([&](Books& books) { return books.replay(replay.id, "other"); }));
  EXPECT_EQ(asked<std::vector<ledger::Replay>>([&](Books& books) { return books.replays("other", 9); }).size(), 0U);
  EXPECT_EQ(asked<std::vector<ledger::Replay>>([&](Books& books) { return books.replays("", 9); }).size(), 1U);
  const auto waiting = asked<std::vector<ledger::ReplayItem>>(
      [&](Books& books) { return books.replay_items(replay.id, ledger::ItemState::Waiting, id_of(2), 10); });
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].letter, id_of(3));
  EXPECT_EQ(asked<std::vector<ledger::AuditRow>>([](Books& books) { return books.acts(0, 10); }).size(), 4U);
  EXPECT_FALSE(answered_by<ledger::ReplayState>(
      [&](auto told) { store_->move_replay("none", {}, State::Running, "", act("replay.start"), told); }));
  clock_.forward(24h * 31);
  ASSERT_EQ(end(answered(800), {}), Written::Committed);
  EXPECT_TRUE(eventually([&] {
    return number(path_, "SELECT (SELECT count(*) FROM replays) + (SELECT count(*) FROM replay_items)") == 0;
  }));
}

TEST_F(LettersTest, check_finds_what_is_amiss) {
  ASSERT_EQ(fail(1, letter(1)), Written::Committed);
  ASSERT_EQ(accept(new_run(5, 5)).kind, RunAnswer::Kind::Accepted);
  store_.reset();
  const std::string copy = folder_.path("copy.db");
  const std::pair<const char*, const char*> cases[] = {
      {"DELETE FROM letter_steps", "without the step"},
      {"DELETE FROM letter_requests", "requests are not all there"},
      {"DELETE FROM dead_letters", "without their letter"},
      {"UPDATE dead_letters SET state = 1", "or others without"},
      {"INSERT INTO replay_items VALUES ('r', 'l', 0, 1, '', '', 0)", "without their replay"},
      {"UPDATE runs SET state = 1", "without a lease"},
      {"UPDATE runs SET state = 4", "without their end"},
      {"DELETE FROM run_bodies", "without their request"},
      {"UPDATE runs SET has_answer = 1", "answer is not there"},
      {"DELETE FROM runs", "without their run"},
  };
  for (const auto& [sql, word] : cases) {
    std::filesystem::remove(copy);
    ASSERT_TRUE(ledger::backup(path_, copy));
    Database(copy, Database::Open::Write).run(sql);
    std::string all;
    for (const std::string& line : ledger::check(copy)) all += line + "\n";
    EXPECT_NE(all.find(word), std::string::npos) << sql << ": " << all;
  }
}

}  // namespace letters_test
}  // namespace store_test
