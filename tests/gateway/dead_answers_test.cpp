// Goal: a plan says what can never be sent before anything is, and a replay is approved of by whom its queue's
// contract names, as far as that can be known. Method: a store of its own, and the questions as the admin listener
// asks them.

#include "gateway/dead_answers.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>
#include <nlohmann/json.hpp>

#include "tests/ledger/owed_support.h"

namespace gateway {
namespace dead_answers_test {

using namespace std::chrono_literals;
using store_test::id_of;
using Json = nlohmann::json;

class DeadAnswersTest : public testing::Test {
 protected:
  void SetUp() override {
    ledger::StoreOptions options = store_test::options_at(folder_.path("calls.db"), clock_);
    options.payloads = ledger::Payloads::Plain;
    store_ = store_test::opened(options);
    sources_.store = store_.get();
    sources_.books = [this](std::function<void(ledger::Books&)> question) {
      std::promise<void> done;
      store_->read([&](ledger::Books& books) {
        question(books);
        done.set_value();
      });
      return done.get_future().wait_for(20s) == std::future_status::ready;
    };
    sources_.look = [](const std::string&) {};
    sources_.terms = [this](const std::string& queue) { return queue == "mails" ? terms_ : ReplayTerms{}; };
    sources_.schema_fault = [](const std::string&, std::string_view) { return std::string{}; };
    sources_.new_id = [this] { return id_of(900'000 + ++plans_); };
    sources_.in_the_way = [this](const ledger::LetterLine& line) {
      ++looked_;
      return line.route == "gone" ? "not_configured" : line.tenant == "left" ? "unknown_tenant" : "";
    };
  }

  /// A job of its own that has failed for good.
  void fail(int number, const std::function<void(ledger::CallRecord&, ledger::LetterOutcome&)>& change = {}) {
    ledger::CallRecord record = store_test::failure(number);
    record.attempts[0].usage = {};
    ledger::LetterOutcome outcome = store_test::letter(number);
    if (change) change(record, outcome);
    store_->end_call(record, {.letter = outcome});
    ASSERT_TRUE(store_->flush(20s));
  }
  Json ask(const char* method, const std::string& path, const std::string& query, int status = 200,
           std::optional<PeerIds> peer = {}) {
    const EndpointAnswer answer = answer_of_dead(sources_, method, path, query, clock_.now() + later_, peer);
    EXPECT_EQ(answer.status, status) << path << "?" << query << "\n" << answer.body;
    return Json::parse(answer.body);
  }

  store_test::Folder folder_{};
  store_test::Clock clock_{};
  std::unique_ptr<ledger::Store> store_{};
  DeadSources sources_{};
  ReplayTerms terms_{};
  std::chrono::hours later_{0};
  int plans_ = 0;
  int looked_ = 0;
};

TEST_F(DeadAnswersTest, a_plan_counts_what_can_never_be_sent_and_names_its_groups) {
  for (int i = 1; i <= 3; ++i) fail(i);
  for (int i = 4; i <= 5; ++i) fail(i, [](ledger::CallRecord& record, auto&) { record.route = "gone"; });
  fail(6, [](ledger::CallRecord& record, auto&) { record.tenant = "left"; });
  fail(7, [](auto&, ledger::LetterOutcome& outcome) { outcome.letter->request = nullptr; });
  fail(8, [](ledger::CallRecord& record, ledger::LetterOutcome& outcome) {
    record.cls = classifier::Class::Auth;
    outcome.letter->group = "00000000000000bb";
    outcome.letter->cause = "no such key";
  });
  // An end of a run that has gone since.
  fail(9, [](ledger::CallRecord& record, ledger::LetterOutcome& outcome) {
    record.operation = ledger::kWebhook;
    outcome.letter->run = id_of(77);
  });
  // What calls of that model take.
  for (int i = 20; i < 24; ++i) store_->end_call(store_test::answered(i, 1'000), {});
  ASSERT_TRUE(store_->flush(20s));

  const Json plan = ask("POST", "/v1/replays", "reason=test");
  EXPECT_EQ(plan.at("count"), 4);
  EXPECT_EQ(plan.at("skipped_at_plan"),
            Json::parse(R"([{"why":"no_request","count":1},{"why":"not_configured","count":2},
                            {"why":"told_anew","count":1},{"why":"unknown_tenant","count":1}])"));
  const Json& groups = plan.at("groups");
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].at("group"), "00000000000000aa");
  EXPECT_EQ(groups[0].at("count"), 3);
  EXPECT_EQ(groups[0].at("class"), "rate_limited");
  EXPECT_EQ(groups[0].at("estimate").at("input_tokens"), 300);
  EXPECT_EQ(groups[0].at("estimate").at("cost_usd"), "0.000003");
  EXPECT_EQ(groups[1].at("group"), "00000000000000bb");
  EXPECT_EQ(groups[1].at("class"), "auth");
  EXPECT_EQ(groups[1].at("estimate").at("input_tokens"), 100);
  EXPECT_EQ(plan.at("estimate").at("input_tokens"), 400);
  EXPECT_LE(looked_, 4) << "each kind is looked at once, however many there are";

  // Their time is over, though nobody has removed them yet.
  later_ = 24h * 60;
  const Json late = ask("POST", "/v1/replays", "reason=test");
  EXPECT_EQ(late.at("count"), 0);
  EXPECT_EQ(late.at("skipped_at_plan")[0].at("why"), "expired");
}

TEST_F(DeadAnswersTest, an_edit_shows_the_very_bytes_and_what_changes_nothing_makes_no_revision) {
  fail(1, [](auto&, ledger::LetterOutcome& outcome) {
    outcome.letter->request = store_test::request("{\"t\": 1.10, \"big\": 1e400}");
  });
  const Json edited = ask("POST", "/v1/dead/" + id_of(1) + "/edit", "reason=r&set=%7B%22%2Ft%22%3A2.0%7D");
  EXPECT_EQ(edited.at("revision"), 1);
  EXPECT_EQ(edited.at("difference")[0].at("was_text"), "1.10");
  EXPECT_EQ(edited.at("difference")[0].at("is_text"), "2.0");
  const Json same = ask("POST", "/v1/dead/" + id_of(1) + "/edit", "reason=r&set=%7B%22%2Ft%22%3A2.0%7D");
  EXPECT_EQ(same.at("revision"), 1);
  EXPECT_TRUE(same.at("difference").empty());
  EXPECT_EQ(ask("GET", "/v1/audit", "").at("acts").size(), 1u);
}

TEST_F(DeadAnswersTest, a_plan_estimates_by_the_model_that_an_edit_has_named) {
  fail(1, [](auto&, ledger::LetterOutcome& outcome) {
    outcome.letter->request = store_test::request(R"({"model": "before", "n": 1})");
  });
  fail(2);
  ask("POST", "/v1/dead/" + id_of(1) + "/edit", "reason=r&set=%7B%22%2Fmodel%22%3A%22dear%22%7D");
  for (int i = 20; i < 24; ++i) {
    store_->end_call(store_test::answered(i, 1'000), {});
    ledger::CallRecord dear = store_test::answered(i + 10, 7'000);
    dear.model = "dear";
    for (ledger::AttemptRow& attempt : dear.attempts) attempt.model = "dear";
    store_->end_call(dear, {});
  }
  ASSERT_TRUE(store_->flush(20s));
  const Json plan = ask("POST", "/v1/replays", "reason=test");
  EXPECT_EQ(plan.at("count"), 2);
  EXPECT_EQ(plan.at("estimate").at("without_estimate"), 0) << plan;
  EXPECT_EQ(plan.at("estimate").at("cost_usd"), "0.000008") << plan;
}

TEST_F(DeadAnswersTest, a_replay_without_a_canary_is_refused_with_what_to_ask_for) {
  fail(1);
  const Json refused = ask("POST", "/v1/replays", "reason=test&canary=0", 400);
  EXPECT_NE(refused.at("detail").get<std::string>().find("canary 1 is the smallest"), std::string::npos) << refused;
  EXPECT_EQ(ask("POST", "/v1/replays", "reason=test&canary=1").at("limits").at("canary"), 1);
}

TEST_F(DeadAnswersTest, what_a_webhook_tells_cannot_be_edited) {
  fail(1, [](ledger::CallRecord& record, auto&) { record.operation = ledger::kWebhook; });
  ask("POST", "/v1/dead/" + id_of(1) + "/edit", "reason=r&set=%7B%22%2Fmodel%22%3A1%7D", 409);
}

TEST_F(DeadAnswersTest, over_a_unix_socket_who_approves_is_known_and_is_somebody_else) {
  // Both are users of every Debian.
  const PeerIds root{0, 0};
  const PeerIds daemon{1, 1};
  if (peer_named(root).user != "root" || peer_named(daemon).user != "daemon") GTEST_SKIP() << "no such users here";
  terms_.needs_approval = true;
  terms_.approvers = {"leads"};
  fail(1);
  const std::string path =
      "/v1/replays/" + ask("POST", "/v1/replays", "reason=r", 200, root).at("id").get<std::string>();
  EXPECT_EQ(ask("GET", path, "").at("who"), "root");
  ask("POST", path + "/approve", "by=leads&reason=r", 403, daemon);   // No group of theirs.
  ask("POST", path + "/approve", "by=daemon&reason=r", 403, daemon);  // Not named by the contract.
  terms_.approvers = {"leads", "daemon", "root"};
  const Json own = ask("POST", path + "/approve", "by=root&reason=r", 403, root);
  EXPECT_NE(own.at("detail").get<std::string>().find("somebody else"), std::string::npos);
  EXPECT_EQ(ask("POST", path + "/approve", "by=daemon&reason=r", 200, daemon).at("approved_by"), "daemon");
  const Json act = ask("GET", "/v1/audit", "").at("acts")[0];
  EXPECT_EQ(act.at("act"), "replay.approve");
  EXPECT_EQ(act.at("who"), "daemon");
}

TEST_F(DeadAnswersTest, over_tcp_an_approver_is_a_name_that_is_believed) {
  terms_.needs_approval = true;
  terms_.approvers = {"leads"};
  fail(1);
  const std::string path = "/v1/replays/" + ask("POST", "/v1/replays", "reason=r").at("id").get<std::string>();
  EXPECT_EQ(ask("GET", path, "").at("who"), "admin");
  ask("POST", path + "/approve", "by=kim&reason=r", 403);
  EXPECT_EQ(ask("POST", path + "/approve", "by=leads&reason=r").at("approved_by"), "leads");
  EXPECT_EQ(ask("GET", "/v1/audit", "").at("acts")[0].at("who"), "admin");
}

TEST(Peer, of_a_unix_socket_is_whose_process_has_connected) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const auto ids = peer_ids(ends[0]);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->user, ::geteuid());
  EXPECT_EQ(ids->group, ::getegid());
  for (const int end : ends) ::close(end);
  const int tcp = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_FALSE(peer_ids(tcp));
  ::close(tcp);
  const Peer nobody = peer_named({4'000'000'001U, 4'000'000'002U});
  EXPECT_EQ(nobody.user, "4000000001") << "who has no name has a number";
  EXPECT_TRUE(nobody.is("4000000001"));
  EXPECT_TRUE(nobody.is("4000000002"));
  EXPECT_FALSE(nobody.is("root"));
}

}  // namespace dead_answers_test
}  // namespace gateway
