// Goal: a job that was seen before is known by whoever asks again, and nobody gets an answer that is not theirs.

#include "ledger/claims.h"

#include "tests/ledger/store_support.h"

namespace store_test {
namespace claims_test {

using Kind = ClaimAnswer::Kind;

const std::string kKey(32, 'k');

std::shared_ptr<const ledger::StoredAnswer> answer(const std::string& body = "the answer") {
  ledger::StoredAnswer stored;
  stored.status = 201;
  stored.headers = {{"Content-Type", "application/json"}, {"X-Odd", std::string{"a\0b", 3}}};
  stored.body = body;
  stored.stream = true;
  stored.cost = budget::NanoUsd{1'000};
  return std::make_shared<const ledger::StoredAnswer>(std::move(stored));
}

ledger::OnceOutcome outcome(int scope, int number, std::shared_ptr<const ledger::StoredAnswer> stored,
                            bool give_once = false) {
  ledger::OnceOutcome once;
  once.scope = digest(scope);
  once.call_id = id_of(number);
  once.answer = std::move(stored);
  once.give_once = give_once;
  return once;
}

class ClaimsTest : public testing::TestWithParam<ledger::Payloads> {
 protected:
  StoreOptions options() {
    StoreOptions options = options_at(path_, clock_);
    options.payloads = GetParam();
    options.payload_key = kKey;
    return options;
  }
  void open() { store_ = opened(options()); }
  void SetUp() override { open(); }
  ClaimAnswer ask(int scope, int number, int body = 1) {
    return claimed(*store_, asking(scope, clock_, number, body));
  }

  Folder folder_;
  Clock clock_;
  std::string path_ = folder_.path("callgate.db");
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(, ClaimsTest,
                         testing::Values(ledger::Payloads::Memory, ledger::Payloads::Encrypted,
                                         ledger::Payloads::Plain),
                         [](const auto& param) {
                           return std::string{param.param == ledger::Payloads::Memory      ? "memory"
                                              : param.param == ledger::Payloads::Encrypted ? "encrypted"
                                                                                           : "plain"};
                         });

TEST_P(ClaimsTest, the_first_takes_it_the_second_is_held_and_an_answer_is_given_again) {
  EXPECT_EQ(ask(1, 1).kind, Kind::Ours);
  const ClaimAnswer held = ask(1, 2);
  EXPECT_EQ(held.kind, Kind::Held);
  EXPECT_EQ(held.call_id, id_of(1));
  EXPECT_EQ(held.until, clock_.now() + 60s);

  ASSERT_EQ(ended(*store_, answered(1), outcome(1, 1, answer())), Written::Committed);
  for (int i = 3; i < 6; ++i) {
    const ClaimAnswer stored = ask(1, i);
    ASSERT_EQ(stored.kind, Kind::Stored);
    EXPECT_EQ(stored.call_id, id_of(1));
    EXPECT_EQ(stored.answer->status, 201);
    EXPECT_EQ(stored.answer->headers, answer()->headers);
    EXPECT_EQ(stored.answer->body, "the answer");
    EXPECT_TRUE(stored.answer->stream);
    EXPECT_EQ(stored.answer->cost, budget::NanoUsd{1'000});
  }
  EXPECT_EQ(ask(2, 7).kind, Kind::Ours) << "another scope";
}

TEST_P(ClaimsTest, another_body_under_the_same_key_is_told) {
  ASSERT_EQ(ask(1, 1).kind, Kind::Ours);
  EXPECT_EQ(ask(1, 2, 99).kind, Kind::OtherBody);
  ASSERT_EQ(ended(*store_, answered(1), outcome(1, 1, answer())), Written::Committed);
  EXPECT_EQ(ask(1, 3, 99).kind, Kind::OtherBody);
  EXPECT_EQ(ask(1, 4).kind, Kind::Stored);
}

TEST_P(ClaimsTest, an_end_that_brings_its_claim_along_is_stored_whether_or_not_the_store_holds_it) {
  for (const bool claims_first : {true, false}) {
    SCOPED_TRACE(claims_first);
    const int scope = claims_first ? 1 : 2;
    ledger::OnceOutcome once = outcome(scope, scope, answer());
    once.unclaimed = asking(scope, clock_, scope);
    if (claims_first) store_->claim(*once.unclaimed, {});  // Not awaited: it may be of the same transaction.
    ASSERT_EQ(ended(*store_, answered(scope), once), Written::Committed);
    const ClaimAnswer stored = ask(scope, 10 + scope);
    ASSERT_EQ(stored.kind, Kind::Stored);
    EXPECT_EQ(stored.call_id, id_of(scope));
  }
  // Another's answer is left alone, and a failure leaves nothing behind.
  ledger::OnceOutcome late = outcome(1, 5, answer("another"));
  late.unclaimed = asking(1, clock_, 5);
  ASSERT_EQ(ended(*store_, answered(5), late), Written::Committed);
  EXPECT_EQ(ask(1, 20).answer->body, "the answer");
  ledger::OnceOutcome failed = outcome(3, 6, nullptr);
  failed.unclaimed = asking(3, clock_, 6);
  ASSERT_EQ(ended(*store_, answered(6), failed), Written::Committed);
  EXPECT_EQ(ask(3, 21).kind, Kind::Ours);
}

TEST_P(ClaimsTest, all_scopes_are_told_in_pages) {
  for (int i = 1; i <= 7; ++i) ASSERT_EQ(ask(i, i).kind, Kind::Ours);
  ASSERT_EQ(ended(*store_, answered(7), outcome(7, 7, answer())), Written::Committed);
  Told<std::vector<ledger::ScopeRow>> told;
  store_->read([tell = told.teller()](ledger::Books& books) {
    std::vector<ledger::ScopeRow> all;
    for (std::int64_t after = 0;;) {
      const auto page = books.scopes(after, 3);
      if (!page || page->empty()) break;
      all.insert(all.end(), page->begin(), page->end());
      after = page->back().row;
    }
    tell(std::move(all));
  });
  const auto all = told.wait();
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 7u);
  for (int i = 1; i <= 7; ++i) {
    const ledger::ScopeRow& row = (*all)[static_cast<std::size_t>(i - 1)];
    EXPECT_EQ(row.scope, digest(i));
    EXPECT_EQ(row.expires_ms.has_value(), i == 7);
  }
}

TEST_P(ClaimsTest, a_failure_gives_the_claim_up) {
  ASSERT_EQ(ask(1, 1).kind, Kind::Ours);
  ASSERT_EQ(ended(*store_, answered(1), outcome(1, 1, nullptr)), Written::Committed);
  EXPECT_EQ(ask(1, 2).kind, Kind::Ours);
}

TEST_P(ClaimsTest, an_answer_for_one_is_given_once) {
  ASSERT_EQ(ask(1, 1).kind, Kind::Ours);
  ASSERT_EQ(ended(*store_, answered(1), outcome(1, 1, answer(), true)), Written::Committed);
  EXPECT_EQ(store_->figures().answers, 1U);
  EXPECT_EQ(ask(1, 2).kind, Kind::Stored);
  EXPECT_EQ(ask(1, 3).kind, Kind::Ours);
  EXPECT_EQ(store_->figures().answers, 0U);
  EXPECT_EQ(store_->figures().answers_bytes, 0U);
}

TEST_P(ClaimsTest, what_is_forgotten_is_as_never_seen_and_anothers_claim_is_left_alone) {
  ASSERT_EQ(ask(1, 1).kind, Kind::Ours);
  store_->forget_claim(digest(1), id_of(2));
  EXPECT_EQ(ask(1, 3).kind, Kind::Held);
  store_->forget_claim(digest(1), id_of(1));
  EXPECT_EQ(ask(1, 4).kind, Kind::Ours);
  ASSERT_EQ(ended(*store_, answered(1), outcome(1, 1, answer())), Written::Committed);
  EXPECT_EQ(ask(1, 5).kind, Kind::Held) << "the claim was another's by then";
  ASSERT_EQ(ended(*store_, answered(4), outcome(1, 4, answer())), Written::Committed);
  store_->forget_claim(digest(1), id_of(4));
  EXPECT_EQ(ask(1, 6).kind, Kind::Ours);
}

TEST_P(ClaimsTest, a_claim_whose_process_died_is_unknown_and_taken_over) {
  ASSERT_EQ(ask(1, 1).kind, Kind::Ours);
  store_.reset();
  open();
  const ClaimAnswer unknown = ask(1, 2);
  EXPECT_EQ(unknown.kind, Kind::Unknown);
  EXPECT_EQ(unknown.call_id, id_of(1));
  EXPECT_EQ(ask(1, 3).kind, Kind::Held);
  ASSERT_EQ(ended(*store_, answered(2), outcome(1, 2, answer())), Written::Committed);
  EXPECT_EQ(ask(1, 4).kind, Kind::Stored);
}

TEST_P(ClaimsTest, a_job_that_is_not_to_be_run_again_is_told_unknown_each_time_until_one_runs_it_again) {
  ASSERT_EQ(ask(1, 1).kind, Kind::Ours);
  store_.reset();
  open();
  for (int number = 2; number <= 4; ++number) {
    ClaimAsk asked = asking(1, clock_, number);
    asked.rerun = false;
    const ClaimAnswer told = claimed(*store_, asked);
    EXPECT_EQ(told.kind, Kind::Unknown);
    EXPECT_EQ(told.call_id, id_of(1));
    store_.reset();
    open();
  }
  EXPECT_EQ(ask(1, 5).kind, Kind::Unknown);
  EXPECT_EQ(ask(1, 6).kind, Kind::Held) << "the fifth has taken it over";
}

TEST_P(ClaimsTest, answers_outlive_the_process_where_they_are_on_disk) {
  ASSERT_EQ(ask(1, 1).kind, Kind::Ours);
  ASSERT_EQ(ended(*store_, answered(1), outcome(1, 1, answer())), Written::Committed);
  store_.reset();
  open();
  EXPECT_EQ(ask(1, 2).kind, GetParam() == ledger::Payloads::Memory ? Kind::Unknown : Kind::Stored);
}

TEST_P(ClaimsTest, a_live_call_keeps_its_claim_beyond_the_lease) {
  ASSERT_EQ(ask(1, 1).kind, Kind::Ours);
  for (int i = 0; i < 5; ++i) {
    clock_.forward(40s);
    // What is written next makes the writer look at its leases; a reading of the file shows that it did.
    ASSERT_EQ(ended(*store_, answered(100 + i)), Written::Committed);
    ASSERT_TRUE(eventually([&] {
      return number(path_, "SELECT lease_until_ms FROM idempotency") >
             std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now().time_since_epoch()).count() + 30'000;
    }));
    EXPECT_EQ(ask(1, 200 + i).kind, Kind::Held);
  }
}

TEST_P(ClaimsTest, an_expired_answer_is_as_never_seen_and_goes) {
  for (int i = 0; i < 300; ++i) {
    store_->claim(asking(i, clock_, i), {});
    store_->end_call(answered(i), {.once = outcome(i, i, answer())});
  }
  ASSERT_TRUE(store_->flush(kPatience));
  EXPECT_EQ(store_->figures().answers, 300U);
  clock_.forward(std::chrono::hours{25});
  EXPECT_EQ(ask(1, 1'000).kind, Kind::Ours);
  EXPECT_TRUE(eventually([&] { return number(path_, "SELECT count(*) FROM idempotency") == 1; }));
  EXPECT_TRUE(eventually([&] { return store_->figures().answers_bytes == 0; }));
}

TEST_P(ClaimsTest, the_least_recently_used_answers_make_room) {
  store_->configure({}, std::chrono::hours{24}, 20'000, 1'000'000);
  std::string noise;
  for (int i = 0; i < 2'000; ++i) noise += static_cast<char>((i * 7919 + i * i * 31) >> 3);
  for (int i = 0; i < 40; ++i) {
    clock_.forward(1ms);
    ASSERT_EQ(ask(i, i).kind, Kind::Ours);
    ASSERT_EQ(ended(*store_, answered(i), outcome(i, i, answer(noise + std::to_string(i)))), Written::Committed);
    clock_.forward(1ms);
    ASSERT_EQ(ask(0, 1'000 + i).kind, Kind::Stored) << "the one that is used stays";
    ASSERT_TRUE(eventually([&] { return store_->figures().answers_bytes <= 20'000; }));
  }
  EXPECT_GT(store_->figures().answers_evicted, 10U);
  EXPECT_EQ(ask(39, 3'000).kind, Kind::Stored);
  EXPECT_EQ(ask(1, 3'001).kind, Kind::Ours);
}

TEST_P(ClaimsTest, an_answer_that_is_too_large_for_all_is_not_kept) {
  store_->configure({}, std::chrono::hours{24}, 1'000, 1'000'000);
  ASSERT_EQ(ask(1, 1).kind, Kind::Ours);
  std::string noise;
  for (int i = 0; i < 4'000; ++i) noise += static_cast<char>((i * 7919 + i * i * 31) >> 3);
  ASSERT_EQ(ended(*store_, answered(1), outcome(1, 1, answer(noise))), Written::Committed);
  EXPECT_EQ(ask(1, 2).kind, Kind::Ours);
}

TEST(Claims, what_is_encrypted_cannot_be_read_without_the_key_and_is_then_unknown) {
  Folder folder;
  Clock clock;
  StoreOptions options = options_at(folder.path("callgate.db"), clock);
  options.payloads = ledger::Payloads::Encrypted;
  options.payload_key = kKey;
  auto store = opened(options);
  for (int i = 1; i <= 4; ++i) {
    ASSERT_EQ(claimed(*store, asking(i, clock, i)).kind, Kind::Ours);
    ASSERT_EQ(ended(*store, answered(i), outcome(i, i, answer("a very secret answer"))), Written::Committed);
  }
  store.reset();

  // Rotated: the old key still reads.
  options.old_payload_keys = {kKey};
  options.payload_key = std::string(32, 'n');
  store = opened(options);
  EXPECT_EQ(claimed(*store, asking(1, clock, 10)).kind, Kind::Stored);
  store.reset();

  // Moved to another's place, cut, and without its key.
  {
    Database database(options.path, Database::Open::Write);
    database.run(
        "UPDATE idempotency SET body = (SELECT body FROM idempotency WHERE key = 'job-1') WHERE key = 'job-2'");
    database.run("UPDATE idempotency SET body = substr(body, 1, length(body) - 1) WHERE key = 'job-3'");
  }
  store = opened(options);
  EXPECT_EQ(claimed(*store, asking(2, clock, 11)).kind, Kind::Unknown);
  EXPECT_EQ(claimed(*store, asking(3, clock, 12)).kind, Kind::Unknown);
  EXPECT_EQ(claimed(*store, asking(4, clock, 13)).kind, Kind::Stored);
  EXPECT_EQ(store->figures().answers_unreadable, 2U);
  store.reset();
  options.old_payload_keys.clear();
  store = opened(options);
  EXPECT_EQ(claimed(*store, asking(4, clock, 14)).kind, Kind::Unknown);
}

}  // namespace claims_test
}  // namespace store_test
