#pragma once
// What tests of letters, runs and replays share.

#include <expected>

#include "ledger/care.h"
#include "tests/ledger/store_support.h"

namespace store_test {

using ledger::Books;
using ledger::Letter;
using ledger::LetterOutcome;
using ledger::RunAnswer;
using ledger::RunOutcome;
using ledger::RunState;
using ledger::TakenRun;

inline const std::string kSealKey(32, 'k');

inline std::shared_ptr<const ledger::KeptRequest> request(const std::string& body = R"({"model":"gpt-4o"})") {
  ledger::KeptRequest kept;
  kept.method = "POST";
  kept.target = "/openai/v1/chat/completions?x=1";
  kept.headers = {{"Content-Type", "application/json"}, {"X-Odd", std::string{"a\0b", 3}}};
  kept.body = body;
  return std::make_shared<const ledger::KeptRequest>(std::move(kept));
}

inline std::shared_ptr<const ledger::StoredAnswer> an_answer(const std::string& body = "the answer") {
  ledger::StoredAnswer stored;
  stored.status = 201;
  stored.headers = {{"Content-Type", "application/json"}};
  stored.body = body;
  stored.stream = true;
  return std::make_shared<const ledger::StoredAnswer>(std::move(stored));
}

/// Ended with a failure of that class.
inline CallRecord failure(int number, classifier::Class cls = classifier::Class::RateLimited,
                          std::int64_t cost = 300) {
  CallRecord record = answered(number, cost);
  record.outcome = ledger::Outcome::Failed;
  record.status = 429;
  record.cls = cls;
  record.queue = "mails";
  record.run_id = "job-7";
  record.labels = R"({"team":"search"})";
  record.attempts[0].status = 429;
  record.attempts[0].cls = cls;
  record.attempts[0].code = "too_many";
  return record;
}

inline LetterOutcome letter(int scope, std::shared_ptr<const ledger::KeptRequest> kept = request()) {
  LetterOutcome outcome;
  outcome.scope = digest(scope);
  outcome.key = "job-" + std::to_string(scope);
  Letter one;
  one.group = "00000000000000aa";
  one.cause = "slow down";
  one.code = "too_many";
  one.request = std::move(kept);
  outcome.letter = std::move(one);
  return outcome;
}

inline LetterOutcome made_good(int scope) {
  LetterOutcome outcome;
  outcome.scope = digest(scope);
  return outcome;
}

inline ledger::NewRun new_run(int number, int scope) {
  ledger::NewRun run;
  run.id = id_of(number);
  run.tenant = "acme";
  run.queue = "mails";
  run.lane = "bulk";
  run.run_id = "job-7";
  run.route = "openai";
  run.model = "gpt-4o";
  run.key = "job-" + std::to_string(scope);
  run.scope = digest(scope);
  run.fingerprint = digest(1);
  run.webhook = "https://hooks.example/x";
  run.created_ms = 1'795'953'600'000 + number;
  run.request = request();
  return run;
}

inline ledger::AuditRow act(const std::string& what, const std::string& of = "it") {
  ledger::AuditRow row;
  row.who = "admin";
  row.act = what;
  row.what = of;
  row.reason = "because";
  return row;
}

class OwedTest : public testing::Test {
 protected:
  StoreOptions options() {
    StoreOptions options = options_at(path_, clock_);
    options.payloads = ledger::Payloads::Encrypted;
    options.payload_key = kSealKey;
    return options;
  }
  void SetUp() override { open(); }
  void TearDown() override {
    store_.reset();
    EXPECT_EQ(ledger::check(path_), std::vector<std::string>{});
  }
  void open() { store_ = opened(options()); }
  /// As after a kill: what was told is in the file, and no more happens.
  void reopen() {
    store_.reset();
    open();
  }
  [[nodiscard]] std::int64_t now() const {
    return std::chrono::floor<std::chrono::milliseconds>(clock_.now().time_since_epoch()).count();
  }

  template <typename T>
  T asked(std::function<Books::Answer<T>(Books&)> question) {
    Told<std::shared_ptr<Books::Answer<T>>> told;
    store_->read([&question, tell = told.teller()](Books& books) {
      tell(std::make_shared<Books::Answer<T>>(question(books)));
    });
    const auto answer = told.wait();
    if (!answer) {
      ADD_FAILURE() << "a question was not answered";
      return T{};
    }
    if (!**answer) {
      ADD_FAILURE() << (*answer)->error();
      return T{};
    }
    return std::move(***answer);
  }
  std::vector<ledger::LetterLine> letters(ledger::LettersAsk ask = {}) {
    return asked<std::vector<ledger::LetterLine>>([&](Books& books) { return books.letters(ask); });
  }
  ledger::LetterDetail letter_of(const std::string& id) {
    auto found = asked<std::optional<ledger::LetterDetail>>([&](Books& books) { return books.letter(id, ""); });
    EXPECT_TRUE(found) << "there is no letter " << id;
    return found.value_or(ledger::LetterDetail{});
  }
  ledger::RunLine run_of(const std::string& id) {
    auto found = asked<std::optional<ledger::RunLine>>([&](Books& books) { return books.run(id, ""); });
    EXPECT_TRUE(found) << "there is no run " << id;
    return found.value_or(ledger::RunLine{});
  }

  Written end(const CallRecord& record, ledger::CallEnd with) {
    Told<Written> told;
    store_->end_call(record, std::move(with), told.teller());
    return told.wait().value_or(Written::Lost);
  }
  Written fail(int number, LetterOutcome outcome) {
    ledger::CallEnd with;
    with.letter = std::move(outcome);
    return end(failure(number), std::move(with));
  }
  RunAnswer accept(ledger::NewRun run) {
    Told<RunAnswer> told;
    store_->accept_run(std::move(run), told.teller());
    return told.wait().value_or(RunAnswer{});
  }
  TakenRun take(const std::string& id, std::chrono::milliseconds lease = 1s) {
    Told<TakenRun> told;
    store_->take_run(id, lease, told.teller());
    return told.wait().value_or(TakenRun{});
  }
  std::vector<std::string> renew(std::vector<std::pair<std::string, std::int64_t>> held) {
    Told<std::vector<std::string>> told;
    store_->renew_runs(std::move(held), 1s, told.teller());
    return told.wait().value_or(std::vector<std::string>{"nothing was told"});
  }
  bool end_run(RunOutcome outcome, std::optional<LetterOutcome> with = {}) {
    Told<bool> told;
    store_->end_run(std::move(outcome), std::move(with), told.teller());
    const std::optional<bool> done = told.wait();
    EXPECT_TRUE(done) << "the end of a run was not told";
    return done.value_or(false);
  }
  std::optional<RunState> cancel(const std::string& id, const std::string& tenant = "") {
    Told<std::optional<RunState>> told;
    store_->cancel_run(id, tenant, act("run.cancel", id), told.teller(), R"({"state":"cancelled"})");
    return told.wait().value_or(std::nullopt);
  }
  std::optional<RunState> retry(const std::string& id, const std::string& tenant = "") {
    Told<std::optional<RunState>> told;
    store_->retry_run(id, tenant, act("run.retry", id), told.teller());
    return told.wait().value_or(std::nullopt);
  }
  RunOutcome outcome(const std::string& id, std::int64_t fence, RunState state) {
    RunOutcome out;
    out.id = id;
    out.fence = fence;
    out.state = state;
    out.cls = state == RunState::Succeeded ? "none" : "rate_limited";
    out.status = state == RunState::Succeeded ? 201 : 429;
    out.webhook_body = R"({"type":"run.ended"})";
    if (state == RunState::Succeeded) out.answer = an_answer();
    return out;
  }
  template <typename T, typename Ask>
  std::expected<T, std::string> answered_by(Ask ask) {
    Told<std::shared_ptr<std::expected<T, std::string>>> told;
    ask([tell = told.teller()](std::expected<T, std::string> answer) {
      tell(std::make_shared<std::expected<T, std::string>>(std::move(answer)));
    });
    const auto answer = told.wait();
    if (!answer) return std::unexpected(std::string{"nothing was told"});
    return std::move(**answer);
  }

  Folder folder_;
  Clock clock_;
  std::string path_ = folder_.path("callgate.db");
  std::unique_ptr<Store> store_;
};

}  // namespace store_test
