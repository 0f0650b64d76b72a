// Goal: rates, budgets, lanes and weights hold when many calls come together, whatever becomes of them, and an
// operator sees and holds it all by hand. Method: the real binary between raw clients and a provider that holds its
// answers until it is told.

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace limits_test {

using Json = nlohmann::json;
using support::chat_saying;
using support::eventually;
using support::House;
using support::http;
using support::http_get;
using support::kUnary;
using support::RawClient;
using support::Response;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using HeaderList = std::vector<std::pair<std::string, std::string>>;

std::string chat_of_at_most(int tokens, const std::string& model = "gpt-5") {
  return R"({"model":")" + model + R"(","max_tokens":)" + std::to_string(tokens) +
         R"(,"messages":[{"role":"user","content":"hi"}]})";
}

HeaderList as_tenant(const std::string& tenant, const std::string& lane = "bulk") {
  return {{"Callgate-Tenant", tenant}, {"Callgate-Lane", lane}};
}

Json status_of(const House& house) { return Json::parse(http_get(house.callgate.admin_url() + "/v1/status").body); }

Response order(const House& house, const std::string& what) {
  return http("POST", house.callgate.admin_url() + "/v1/" + what);
}

TEST(Faults, F20_tokens_are_taken_before_and_settled_after) {
  const std::string limits = "tenants: {default: {limits: {tokens_per_minute: 1000}}}\nretry: {base: 10ms}\n";
  const auto burst = [](House& house) {
    std::vector<RawClient> clients;
    for (int i = 0; i < 20; ++i) clients.push_back(house.begin_chat(chat_of_at_most(400)));
    EXPECT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 18; }));
    house.provider.wait("requests=2");
    EXPECT_EQ(house.requests(), 2) << "what the minute's worth covers";
    return clients;
  };
  {
    House house{{}, limits};
    house.provider.script(R"([{"answer": {"hold": "door", "usage": {"input": 9, "output": 2}}}])");
    std::vector<RawClient> clients = burst(house);
    // What was not used comes back at once, so all of them go, two by two at first.
    house.provider.release("door");
    for (RawClient& client : clients) EXPECT_EQ(client.read_response().status, 200);
  }
  {
    House house{{}, limits};
    house.provider.script(R"([{"answer": {"hold": "door", "status": 400}}])");
    std::vector<RawClient> clients = burst(house);
    house.provider.release("door");  // A failure gives all of it back.
    for (RawClient& client : clients) EXPECT_EQ(client.read_response().status, 400);
  }
  House house{{}, limits};
  house.provider.script(R"([{"answer": {"hold": "door", "usage": {"input": 900, "output": 600}}}])");
  std::vector<RawClient> clients = burst(house);
  house.provider.release("door");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(clients[static_cast<std::size_t>(i)].read_response().status, 200);
  // 3000 were used of 1000: nobody begins for two minutes, and nobody is refused for it at once.
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_tenant_in_flight") == 0; }));
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 18; }));
  EXPECT_EQ(house.requests(), 2);
  EXPECT_EQ(status_of(house).at("waiting_for").at("tenant_rate"), 1);
}

TEST(Faults, F21_nobody_waits_behind_anothers_backlog) {
  House house{", limits: {concurrent: 4}", "tenants: {a: {}, b: {}, c: {}}\nretry: {base: 10ms}\n"};
  house.provider.script(R"([{"answer": {"delay_ms": 50}}])");
  std::vector<RawClient> backlog;
  for (int i = 0; i < 200; ++i) backlog.push_back(house.begin_chat(kUnary, as_tenant("a")));
  ASSERT_TRUE(eventually([&] { return house.requests() >= 8; }));
  std::vector<RawClient> others;
  std::vector<RawClient> low;
  const auto before = Clock::now();
  for (int i = 0; i < 10; ++i) others.push_back(house.begin_chat(kUnary, as_tenant("b")));
  for (int i = 0; i < 10; ++i) low.push_back(house.begin_chat(kUnary, as_tenant("c", "backfill")));
  for (RawClient& client : others) EXPECT_EQ(client.read_response().status, 200);
  EXPECT_LT(Clock::now() - before, 2s) << "a few rounds";
  for (RawClient& client : low) EXPECT_EQ(client.read_response().status, 200);
  const Json status = status_of(house);
  const auto& tenants = status.at("tenants");
  EXPECT_GT(tenants.at(0).at("waiting").at("bulk"), 0) << "the lowest lane was done before the backlog";
  for (RawClient& client : backlog) EXPECT_EQ(client.read_response().status, 200);
}

TEST(Budget, forty_calls_at_once_pass_it_by_nothing) {
  // At most 110 tokens of output at 25 USD a million, and half of the body's bytes at 5: 0.00297 USD.
  House house{{}, "tenants: {default: {budget: {daily_usd: \"0.010\"}}}\nretry: {base: 10ms}\n"};
  house.provider.script(R"([{"answer": {"hold": "door", "usage": {"input": 40, "output": 110}}}])");
  std::vector<RawClient> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(house.begin_chat(chat_of_at_most(110, "m-new")));
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 37; }));
  house.provider.wait("requests=3");
  EXPECT_EQ(house.requests(), 3) << "what the money covers";
  EXPECT_EQ(status_of(house).at("waiting_for").at("budget"), 1) << "others' reservations are in the way: they wait";
  house.provider.release("door");
  int answered = 0;
  for (RawClient& client : clients) {
    const Response answer = client.read_response();
    if (answer.status == 200) {
      ++answered;
      continue;
    }
    EXPECT_EQ(answer.status, 402);
    EXPECT_EQ(answer.header("callgate-class"), "local_budget");
    EXPECT_EQ(answer.header("callgate-retryable"), "false");
    EXPECT_EQ(answer.header("x-should-retry"), "false");
    EXPECT_NE(answer.body.find("callgate_budget_spent"), std::string::npos) << answer.body;
    EXPECT_NE(answer.body.find("begins anew at 20"), std::string::npos) << answer.body;
  }
  EXPECT_EQ(answered, 3);
  const Json budget = Json::parse(http_get(house.callgate.admin_url() + "/v1/budgets").body).at("budgets").at(0);
  EXPECT_EQ(budget.at("spent_usd"), "0.00885") << "three times 40 x 5 + 110 x 25 USD a million, exactly";
  EXPECT_EQ(budget.at("held_usd"), "0");
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_refusals_total", "limit=\"budget\"") == 37; }));
  // More money, and it goes on.
  EXPECT_EQ(order(house, "budgets/grant?tenant=default&period=day&usd=0.01").status, 200);
  EXPECT_EQ(house.chat(chat_of_at_most(110, "m-new")).status, 200);
  EXPECT_EQ(order(house, "budgets/grant?tenant=default&period=month&usd=1").status, 404) << "there is no such limit";
  EXPECT_EQ(order(house, "budgets/grant?tenant=default&period=day&usd=x").status, 400);
}

TEST(Budget, F18_a_model_without_a_price_counts_against_it_and_is_told_of_before) {
  House house{{}, "tenants: {default: {budget: {daily_usd: \"0.010\", warn_at: 0.5}}}\nretry: {base: 10ms}\n"};
  house.provider.script(R"([{"answer": {"usage": {"input": 40, "output": 110}}}])");
  EXPECT_EQ(house.chat(chat_of_at_most(110, "m-new")).header("callgate-budget-spent"), "");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(house.chat(chat_of_at_most(110, "m-new")).status, 200);
  EXPECT_EQ(house.callgate.process().json_line("budget_warned").at("spent_usd"), "0.0059");
  const Response refused = house.chat(chat_of_at_most(110, "m-new"));
  EXPECT_EQ(refused.status, 402);
  EXPECT_EQ(refused.header("callgate-budget-spent"), "88%");
  const Response small = house.chat(chat_of_at_most(1, "m-new"));
  EXPECT_EQ(small.status, 200) << "for what fits into the rest there is money";
  EXPECT_EQ(small.header("callgate-budget-spent"), "118%")
      << "this call is in it, and its answer was longer than asked for";
  EXPECT_EQ(house.chat(chat_of_at_most(0, "m-new")).header("callgate-budget-spent"), "118%") << "of a refusal, too";
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_price_missing_total") == 4; }));
}

// Goal: what a call asks for that makes it dearer is put aside before it goes. Method: a day's money that covers the
// call at the plain price and not at that of priority.
TEST(Budget, puts_aside_what_the_tier_costs_that_a_request_asks_for_or_leaves_to_the_provider) {
  House house{{}, "tenants: {default: {budget: {daily_usd: \"0.0012\"}}}\nretry: {base: 10ms}\n"};
  house.provider.script(R"([{"answer": 400}])");
  const auto chat = [&](const std::string& tier) {
    return house
        .chat(R"({"model":"gpt-4.1","max_tokens":110,)" + tier + R"("messages":[{"role":"user","content":"hi"}]})")
        .status;
  };
  EXPECT_EQ(chat(R"("service_tier":"priority",)"), 402);
  EXPECT_EQ(chat(R"("service_tier":"fast",)"), 402);
  EXPECT_EQ(chat(R"("service_tier":"auto",)"), 402);
  EXPECT_EQ(chat(""), 402) << "the project may have it set";
  EXPECT_EQ(house.requests(), 0);
  EXPECT_EQ(chat(R"("service_tier":"default",)"), 400) << "it went, and costs nothing";
  EXPECT_EQ(chat(R"("service_tier":"flex",)"), 400);
  EXPECT_EQ(house.requests(), 2);
}

TEST(Budget, a_run_has_its_own_and_a_failure_costs_nothing) {
  House house{{}, "tenants: {default: {budget: {per_run_usd: \"0.005\"}}}\nretry: {base: 10ms}\n"};
  house.provider.script(R"([{"match": {"body_contains": "gpt-fails"}, "answer": 400},
                            {"answer": {"usage": {"input": 40, "output": 110}}}])");
  const HeaderList job1 = {{"Callgate-Run-Id", "job-1"}};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(house.chat(chat_of_at_most(110, "gpt-fails"), job1).status, 400);
  EXPECT_EQ(house.chat(chat_of_at_most(110, "m-new"), job1).status, 200);
  const Response refused = house.chat(chat_of_at_most(110, "m-new"), job1);
  EXPECT_EQ(refused.status, 402);
  EXPECT_NE(refused.body.find("run job-1"), std::string::npos) << refused.body;
  EXPECT_EQ(house.chat(chat_of_at_most(110, "m-new"), {{"Callgate-Run-Id", "job-2"}}).status, 200);
  EXPECT_EQ(house.chat(chat_of_at_most(110, "m-new")).status, 200) << "no run, no budget of one";
}

TEST(Limits, F33_a_reload_refills_no_bucket_and_new_rates_hold_at_once) {
  const auto with = [](int tokens) {
    return "tenants: {default: {limits: {tokens_per_minute: " + std::to_string(tokens) + "}}}\nretry: {base: 10ms}\n";
  };
  House house{{}, with(1000)};
  house.provider.script(R"([{"answer": {"usage": {"input": 600, "output": 400}}}])");
  EXPECT_EQ(house.chat(chat_of_at_most(400)).status, 200);
  RawClient waiting = house.begin_chat(chat_of_at_most(400));
  ASSERT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 1; }));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(order(house, "reload").status, 200);
  house.callgate.write_config(house.yaml({}, with(900)));
  EXPECT_EQ(order(house, "reload").status, 200);
  EXPECT_EQ(house.requests(), 1) << "nothing was refilled";
  house.callgate.write_config(house.yaml({}, with(1'000'000)));
  EXPECT_EQ(order(house, "reload").status, 200);
  EXPECT_EQ(waiting.read_response().status, 200) << "it goes by the new rate";
}

TEST(Limits, waits_are_told_apart) {
  House house{", limits: {concurrent: 1}", "tenants: {a: {limits: {concurrent: 1}}, b: {}}\nretry: {base: 10ms}\n"};
  house.provider.script(R"([{"answers": [{"hold": "door"}, "default"]}])");
  RawClient running = house.begin_chat(kUnary, as_tenant("a"));
  house.provider.wait("held=1");
  RawClient same = house.begin_chat(kUnary, as_tenant("a"));
  RawClient other = house.begin_chat(kUnary, as_tenant("b"));
  ASSERT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 2; }));
  const Json held = status_of(house).at("waiting_for");
  EXPECT_EQ(held.at("tenant_concurrent"), 1);
  EXPECT_EQ(held.at("upstream_concurrent"), 1);
  support::dawdle(5ms);  // Shorter waits are none.
  house.provider.release("door");
  EXPECT_EQ(running.read_response().header("callgate-waits-ms"), "");
  EXPECT_NE(same.read_response().header("callgate-waits-ms").find("concurrency="), std::string::npos);
  EXPECT_NE(other.read_response().header("callgate-waits-ms").find("concurrency="), std::string::npos);
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_wait_seconds_count", "wait=\"concurrency\"") == 2; }));
}

TEST(ByHand, a_pause_holds_what_has_not_begun_and_resume_lets_it_go) {
  House house{{}, "tenants: {a: {}, b: {}}\nretry: {base: 10ms}\n"};
  for (const std::string what : {"what=tenant&name=a", "what=lane&name=backfill", "what=upstream&name=openai"}) {
    EXPECT_EQ(order(house, "pause?" + what).status, 200);
    const bool all = what.find("openai") != std::string::npos;
    RawClient waiting = house.begin_chat(kUnary, as_tenant("a", "backfill"));
    ASSERT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 1; })) << what;
    EXPECT_EQ(status_of(house).at("waiting_for").at("operator"), 1);
    if (!all) {
      EXPECT_EQ(house.chat(kUnary, as_tenant("b")).status, 200) << what;
    }
    support::dawdle(5ms);
    EXPECT_EQ(order(house, "resume?" + what).status, 200);
    const Response answer = waiting.read_response();
    EXPECT_EQ(answer.status, 200);
    EXPECT_NE(answer.header("callgate-waits-ms").find("operator="), std::string::npos);
    EXPECT_EQ(order(house, "resume?" + what).status, 404) << "it is not paused";
  }
  EXPECT_EQ(order(house, "pause?what=tenant&name=a&for_ms=50").status, 200);
  EXPECT_EQ(house.chat(kUnary, as_tenant("a")).status, 200) << "a pause ends by itself";
  EXPECT_EQ(order(house, "pause?what=tenant&name=nobody").status, 404);
  EXPECT_EQ(order(house, "pause?what=world&name=a").status, 400);
  EXPECT_EQ(order(house, "pause?what=tenant&name=a&for_ms=-1").status, 400);
  EXPECT_EQ(order(house, "pause?what=tenant&what=lane&name=a").status, 400);
  EXPECT_EQ(order(house, "pause?what=tenant&name=%zz").status, 400);
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_operator_acts_total", "act=\"pause\"") == 4; }));
  EXPECT_EQ(house.callgate.process().json_line("operator").at("act"), "pause");
}

TEST(ByHand, calls_are_cancelled_by_id_run_or_tenant_wherever_they_are) {
  House house{", limits: {concurrent: 2}", "tenants: {a: {}, b: {}}\nretry: {base: 10ms}\n"};
  house.provider.script(R"([{"answer": {"hang": true}}])");
  const auto begin = [&](const std::string& tenant, const std::string& run) {
    HeaderList headers = as_tenant(tenant);
    headers.emplace_back("Callgate-Run-Id", run);
    return house.begin_chat(kUnary, headers);
  };
  const auto expect_cancelled = [](RawClient& client) {
    const Response answer = client.read_response();
    EXPECT_EQ(answer.status, 503);
    EXPECT_NE(answer.body.find("callgate_cancelled"), std::string::npos);
    EXPECT_EQ(answer.header("x-should-retry"), "false");
  };
  RawClient one = begin("a", "job-1");
  RawClient two = begin("a", "job-2");
  house.provider.wait("requests=2");
  RawClient three = begin("a", "job-1");
  RawClient four = begin("b", "job-1");
  ASSERT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 2; }));
  const Json calls = status_of(house).at("calls");
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls.at(0).at("state"), "in_flight");
  EXPECT_EQ(calls.at(2).at("state"), "waiting");

  // Its worker takes it back by our API on the data listener; another tenant cannot.
  const std::string own = house.url("/callgate/v1/calls/" + calls.at(1).at("call_id").get<std::string>());
  EXPECT_EQ(http("DELETE", own, {}, {{"Callgate-Tenant", "b"}}).status, 404);
  EXPECT_EQ(http("GET", own, {}, {{"Callgate-Tenant", "a"}}).status, 405);
  EXPECT_EQ(http("DELETE", own, {}, {{"Callgate-Tenant", "a"}}).status, 202);
  expect_cancelled(two);
  EXPECT_EQ(http("DELETE", own, {}, {{"Callgate-Tenant", "a"}}).status, 404) << "it has ended";

  EXPECT_EQ(Json::parse(order(house, "cancel?run_id=job-1&tenant=a").body).at("count"), 2);
  expect_cancelled(one);
  expect_cancelled(three);
  EXPECT_EQ(order(house, "cancel?tenant=a").status, 404);
  EXPECT_EQ(order(house, "cancel?tenant=b").status, 200);
  expect_cancelled(four);
  EXPECT_EQ(order(house, "cancel").status, 400);
  house.provider.wait("open_requests=0", 2s);
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_upstream_in_flight") == 0; }));
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_calls_total", "outcome=\"cancelled\"") == 4; }));
}

TEST(Limits, a_full_queue_turns_away_the_youngest_of_the_longest_in_the_lowest_lane) {
  House house{", limits: {concurrent: 1}",
              "tenants: {a: {}, b: {}}\nqueue: {per_tenant: 3, total: 5}\nretry: {base: 10ms}\n"};
  house.provider.script(R"([{"match": {"nth": 1}, "answer": {"hold": "door"}}])");
  RawClient running = house.begin_chat(kUnary, as_tenant("a"));
  house.provider.wait("held=1");
  std::vector<RawClient> a;
  const auto wait_for = [&](double depth) {
    EXPECT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == depth; }));
  };
  for (int i = 0; i < 3; ++i) {
    a.push_back(house.begin_chat(kUnary, as_tenant("a")));
    wait_for(i + 1);
  }
  const Response fourth = house.chat(kUnary, as_tenant("a"));
  EXPECT_EQ(fourth.status, 429);
  EXPECT_NE(fourth.body.find("queue.per_tenant"), std::string::npos) << fourth.body;
  EXPECT_EQ(house.chat(kUnary, as_tenant("a", "backfill")).status, 429);
  std::vector<RawClient> b;
  for (int i = 0; i < 2; ++i) {
    b.push_back(house.begin_chat(kUnary, as_tenant("b", "interactive")));
    wait_for(4 + i);
  }
  // The sixth has a place, for the youngest of the longest queue gives it up.
  b.push_back(house.begin_chat(kUnary, as_tenant("b", "interactive")));
  const Response given_up = a.back().read_response();
  EXPECT_EQ(given_up.status, 429);
  EXPECT_NE(given_up.body.find("queue.total"), std::string::npos) << given_up.body;
  EXPECT_GE(std::stoi("0" + given_up.header("retry-after")), 1);
  a.pop_back();
  house.provider.release("door");
  EXPECT_EQ(running.read_response().status, 200);
  for (RawClient& client : a) EXPECT_EQ(client.read_response().status, 200);
  for (RawClient& client : b) EXPECT_EQ(client.read_response().status, 200);
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_refusals_total", "limit=\"queue_per_tenant\"") == 2; }));
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_refusals_total", "limit=\"queue_total\"") == 1; }));
}

}  // namespace limits_test
