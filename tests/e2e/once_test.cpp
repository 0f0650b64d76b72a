// The same job over real sockets: sent by many at once, after an SDK's timeout, by readers of any pace. The provider
// is asked once.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/house.h"

namespace once_test {

using Json = nlohmann::json;
using support::chat_saying;
using support::eventually;
using support::House;
using support::http;
using support::kStream;
using support::kUnary;
using support::RawClient;
using support::Response;
using namespace std::chrono_literals;
using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs key(const std::string& name) { return {{"Idempotency-Key", name}}; }
Pairs run_id(const std::string& name) { return {{"Callgate-Run-Id", name}}; }

const char* const kHeldUnary = R"([{"answer": {"hold": "door"}}])";
const char* const kHeldStream = R"([{"answer": {"stream": [{"say": "hel"}, {"hold": "door"}, {"say": "lo"}]}}])";

double calls_in_flight(const House& house) { return house.figure("callgate_calls_in_flight"); }

/// The record of that call in the log.
Json line_of(House& house, const std::string& call_id) {
  Json line;
  EXPECT_TRUE(eventually([&] {
    for (const std::string& text : house.callgate.process().lines()) {
      if (text.find("\"event\":\"call\"") == text.npos || text.find("\"call_id\":\"" + call_id) == text.npos)
        continue;
      line = Json::parse(text);
      return true;
    }
    return false;
  }));
  return line;
}

TEST(OnceE2e, twenty_equal_keyed_requests_at_once_are_one_request_and_twenty_answers) {
  for (const bool streamed : {false, true}) {
    SCOPED_TRACE(streamed ? "stream" : "unary");
    House house;
    house.provider.script(streamed ? kHeldStream : kHeldUnary);
    std::vector<std::future<Response>> answers;
    for (int i = 0; i < 20; ++i) {
      answers.push_back(std::async(std::launch::async,
                                   [&] { return house.chat(streamed ? kStream : kUnary, key("job-1:step-2")); }));
    }
    ASSERT_TRUE(eventually([&] { return calls_in_flight(house) == 20; }));
    house.provider.release("door");
    std::set<std::string> bodies;
    std::set<std::string> ids;
    int joined = 0;
    for (auto& coming : answers) {
      const Response answer = coming.get();
      EXPECT_EQ(answer.status, 200) << answer.body;
      EXPECT_EQ(answer.end, Response::End::Complete);
      bodies.insert(answer.body);
      ids.insert(answer.header("Callgate-Call-Id"));
      joined += answer.header("Callgate-Idempotency") == "joined";
    }
    EXPECT_EQ(bodies.size(), 1u);
    EXPECT_EQ(ids.size(), 20u);
    EXPECT_EQ(joined, 19);
    EXPECT_EQ(house.requests(), 1);

    const Response replayed = house.chat(streamed ? kStream : kUnary, key("job-1:step-2"));
    EXPECT_EQ(replayed.body, *bodies.begin());
    EXPECT_EQ(replayed.header("Callgate-Idempotency"), "replayed");
    EXPECT_EQ(replayed.header("Content-Type").starts_with(streamed ? "text/event-stream" : "application/json"), true);
    EXPECT_EQ(house.requests(), 1);
    // Counted behind the last byte.
    const auto counted = [&](const char* result) {
      return house.figure("callgate_idempotency_total", "result=\"" + std::string{result} + "\"");
    };
    EXPECT_TRUE(eventually([&] { return counted("joined") == 19 && counted("replayed") == 1; }));
    EXPECT_EQ(counted("stored"), 1);
    const Json line = line_of(house, replayed.header("Callgate-Call-Id"));
    EXPECT_EQ(line.at("once"), "replayed");
    EXPECT_TRUE(ids.contains(line.at("origin").get<std::string>()));
    EXPECT_EQ(line.at("attempts").size(), 0u);
  }
}

TEST(OnceE2e, readers_of_any_pace_and_those_who_leave_disturb_nobody) {
  House house;
  house.provider.script(R"([{"answer": {"stream": {"events": 1500, "size": 1000, "every_ms": 0}, "hold": "door"}}])");
  const Pairs job = key("large");
  RawClient stalled = house.begin_chat(kStream, job);
  house.provider.wait("requests=1");
  std::vector<RawClient> leavers;
  for (int i = 0; i < 3; ++i) leavers.push_back(house.begin_chat(kStream, job));
  std::vector<std::future<Response>> answers;
  for (int i = 0; i < 4; ++i)
    answers.push_back(std::async(std::launch::async, [&] { return house.chat(kStream, job); }));
  ASSERT_TRUE(eventually([&] { return calls_in_flight(house) == 8; }));
  house.provider.release("door");
  for (std::size_t i = 0; i < leavers.size(); ++i) {
    Response head = leavers[i].read_head();
    EXPECT_TRUE(leavers[i].read_until(head, "data: "));
    if (i % 2 == 0) {
      leavers[i].rst();
    } else {
      leavers[i].close();
    }
  }
  std::set<std::string> bodies;
  for (auto& coming : answers) {
    const Response answer = coming.get();
    EXPECT_EQ(answer.end, Response::End::Complete);
    EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
    bodies.insert(answer.body);
  }
  EXPECT_EQ(bodies.size(), 1u);
  // Who had stalled goes on where he was.
  const Response late = stalled.read_response();
  EXPECT_EQ(late.end, Response::End::Complete);
  EXPECT_TRUE(bodies.contains(late.body));
  EXPECT_EQ(house.requests(), 1);
}

TEST(OnceE2e, an_sdk_s_timeout_and_its_twin_are_one_request) {
  for (const bool streamed : {false, true}) {
    for (const bool by_run : {false, true}) {
      SCOPED_TRACE(std::string{streamed ? "stream" : "unary"} + (by_run ? " by run id" : " by key"));
      House house;
      house.provider.script(streamed ? kHeldStream : kHeldUnary);
      const Pairs job = by_run ? run_id("job-7") : key("job-7");
      RawClient sdk = house.begin_chat(streamed ? kStream : kUnary, job);
      house.provider.wait("requests=1");
      sdk.close();
      ASSERT_TRUE(eventually([&] { return house.figure("callgate_shared_calls") == 1; }));
      auto twin = std::async(std::launch::async, [&] { return house.chat(streamed ? kStream : kUnary, job); });
      ASSERT_TRUE(eventually([&] { return calls_in_flight(house) == 2; }));
      house.provider.release("door");
      const Response answer = twin.get();
      EXPECT_EQ(answer.status, 200) << answer.body;
      EXPECT_EQ(answer.end, Response::End::Complete);
      EXPECT_EQ(answer.header("Callgate-Idempotency"), "joined");
      EXPECT_EQ(house.requests(), 1);
      if (by_run) {
        EXPECT_EQ(house.chat(streamed ? kStream : kUnary, job).header("Callgate-Idempotency"), "");
        EXPECT_EQ(house.requests(), 2) << "what was delivered is not given again";
      }
    }
  }
}

TEST(OnceE2e, what_nobody_got_is_given_to_one_twin_after_it_has_ended) {
  House house;
  house.provider.script(kHeldUnary);
  RawClient sdk = house.begin_chat(kUnary, run_id("job-8"));
  house.provider.wait("requests=1");
  sdk.rst();
  ASSERT_TRUE(eventually([&] { return house.figure("callgate_lingering_calls") == 1; }));
  house.provider.release("door");
  ASSERT_TRUE(eventually([&] { return house.figure("callgate_shared_calls") == 0; }));
  const Response twin = house.chat(kUnary, run_id("job-8"));
  EXPECT_EQ(twin.header("Callgate-Idempotency"), "replayed");
  EXPECT_EQ(house.requests(), 1);
  EXPECT_EQ(house.chat(kUnary, run_id("job-8")).header("Callgate-Idempotency"), "");
  EXPECT_EQ(house.requests(), 2);
}

TEST(OnceE2e, sampling_one_prompt_in_a_run_gives_as_many_answers_and_with_a_key_one) {
  House house;
  const auto sample = [&](const Pairs& headers) {
    std::vector<std::future<Response>> coming;
    for (int i = 0; i < 10; ++i) {
      coming.push_back(std::async(std::launch::async, [&] { return house.chat(kUnary, headers); }));
    }
    std::set<std::string> answers;
    for (auto& one : coming) answers.insert(Json::parse(one.get().body).at("id").get<std::string>());
    for (int i = 0; i < 10; ++i)
      answers.insert(Json::parse(house.chat(kUnary, headers).body).at("id").get<std::string>());
    return answers.size();
  };
  EXPECT_EQ(sample(run_id("run")), 20u);
  EXPECT_EQ(house.requests(), 20);
  EXPECT_EQ(sample(key("k")), 1u);
  EXPECT_EQ(house.requests(), 21);
}

TEST(OnceE2e, F26_the_key_alone_decides_nothing) {
  House house;
  const Response first = house.chat(kUnary, key("k"));
  EXPECT_EQ(first.status, 200);
  // The same place, another request: refused, and the provider is not asked.
  const Response other = house.chat(chat_saying("something else"), key("k"));
  EXPECT_EQ(other.status, 422);
  EXPECT_EQ(Json::parse(other.body).at("error").at("code"), "callgate_key_reused") << other.body;
  EXPECT_EQ(other.header("x-should-retry"), "false");
  EXPECT_EQ(house.chat(R"({"model":"gpt-5-mini","messages":[{"role":"user","content":"hi"}]})", key("k")).status,
            422);
  EXPECT_EQ(house.requests(), 1);
  // Another place, method or customer: another call.
  const auto ask = [&](const char* method, const std::string& path, Pairs headers) {
    headers.emplace_back("Idempotency-Key", "k");
    return http(method, house.url(path), kUnary, headers).header("Callgate-Idempotency");
  };
  EXPECT_EQ(ask("POST", "/openai/v1/chat/completions?x=1", {}), "stored");
  EXPECT_EQ(ask("POST", "/openai/v1/chat/completions", {{"Authorization", "Bearer sk-of-another-customer"}}),
            "stored");
  EXPECT_EQ(ask("POST", "/openai/v1/chat/completions", {{"x-api-key", "sk-of-a-third"}}), "stored");
  EXPECT_EQ(ask("POST", "/openai/v1/responses", {}), "stored");
  EXPECT_EQ(house.requests(), 5);
  EXPECT_EQ(ask("POST", "/openai/v1/chat/completions", {}), "replayed");
  EXPECT_EQ(house.requests(), 5);
}

TEST(OnceE2e, an_answer_above_max_entry_is_given_and_not_kept) {
  House house{{}, "idempotency: {max_entry: 1KiB}\nretry: {base: 10ms}\n"};
  house.provider.script(R"([{"answer": {"stream": {"events": 50, "size": 200, "every_ms": 0}}}])");
  for (int i = 1; i <= 2; ++i) {
    const Response answer = house.chat(kStream, key("k"));
    EXPECT_EQ(answer.end, Response::End::Complete);
    EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
    EXPECT_EQ(house.requests(), i);
  }
  EXPECT_EQ(house.figure("callgate_idempotency_total", "result=\"too_large\""), 2);
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_shared_bytes") == 0; }));
}

TEST(OnceE2e, a_stream_that_breaks_off_breaks_off_for_all) {
  House house;
  house.provider.script(R"([{"answer": {"stream": [{"say": "hel"}, {"hold": "door"}, {"close": "rst"}]}}])");
  std::vector<RawClient> clients;
  clients.push_back(house.begin_chat(kStream, key("k")));
  house.provider.wait("requests=1");
  for (int i = 0; i < 3; ++i) clients.push_back(house.begin_chat(kStream, key("k")));
  std::vector<Response> answers;
  for (RawClient& client : clients) {
    answers.push_back(client.read_head());
    EXPECT_TRUE(client.read_until(answers.back(), "hel"));
  }
  house.provider.release("door");
  for (std::size_t i = 0; i < clients.size(); ++i) {
    clients[i].read_rest(answers[i]);
    EXPECT_NE(answers[i].end, Response::End::Complete);
    EXPECT_NE(answers[i].body.find("callgate_stream_broken"), std::string::npos);
  }
  house.provider.script("[]");
  EXPECT_EQ(house.chat(kStream, key("k")).end, Response::End::Complete);
  EXPECT_EQ(house.requests(), 2) << "what failed is not kept";
}

TEST(OnceE2e, one_joined_caller_can_be_cancelled_and_the_first_one_s_call_ends_for_all) {
  House house;
  house.provider.script(kHeldUnary);
  auto first = std::async(std::launch::async, [&] { return house.chat(kUnary, key("k")); });
  house.provider.wait("requests=1");
  auto second = std::async(std::launch::async, [&] { return house.chat(kUnary, key("k")); });
  ASSERT_TRUE(eventually([&] { return calls_in_flight(house) == 2; }));
  auto third = std::async(std::launch::async, [&] { return house.chat(kUnary, key("k")); });
  ASSERT_TRUE(eventually([&] { return calls_in_flight(house) == 3; }));
  const Json status = Json::parse(support::http_get(house.callgate.admin_url() + "/v1/status").body);
  ASSERT_EQ(status.at("calls").size(), 3u) << status.dump();
  const auto cancel = [&](std::size_t which) {
    const std::string id = status.at("calls").at(which).at("call_id");
    EXPECT_EQ(http("DELETE", house.url("/callgate/v1/calls/" + id)).status, 202);
  };
  cancel(1);
  EXPECT_EQ(second.get().status, 503);
  EXPECT_TRUE(eventually([&] { return calls_in_flight(house) == 2; }));
  cancel(0);
  EXPECT_EQ(first.get().status, 503);
  EXPECT_EQ(third.get().status, 503);
  house.provider.wait("open_requests=0");
  EXPECT_EQ(house.requests(), 1);
}

TEST(OnceE2e, a_drain_waits_for_a_lonely_call_and_keeps_its_answer) {
  House house;
  house.provider.script(kHeldUnary);
  RawClient sdk = house.begin_chat(kUnary, key("k"));
  house.provider.wait("requests=1");
  sdk.close();
  ASSERT_TRUE(eventually([&] { return house.figure("callgate_lingering_calls") == 1; }));
  house.callgate.process().signal(SIGTERM);
  (void)house.callgate.process().json_line("draining");
  house.provider.release("door");
  EXPECT_EQ(house.callgate.process().wait(), 0);
  bool answered = false;
  for (const std::string& text : house.callgate.process().lines()) {
    if (text.find("\"event\":\"call\"") != text.npos) answered = Json::parse(text).at("outcome") == "answered";
  }
  EXPECT_TRUE(answered);
}

TEST(OnceE2e, a_lonely_call_does_not_outlive_the_drain_s_deadline) {
  House house{{}, "shutdown: {drain: 300ms}\nidempotency: {on_caller_gone: finish}\nretry: {base: 10ms}\n"};
  house.provider.script(kHeldUnary);
  RawClient sdk = house.begin_chat(kUnary, key("k"));
  house.provider.wait("requests=1");
  sdk.close();
  ASSERT_TRUE(eventually([&] { return house.figure("callgate_lingering_calls") == 1; }));
  house.callgate.process().signal(SIGTERM);
  EXPECT_EQ(house.callgate.process().wait(), 1) << "something was broken off";
  bool drained = false;
  for (const std::string& text : house.callgate.process().lines()) {
    if (text.find("\"event\":\"call\"") != text.npos) drained = Json::parse(text).at("outcome") == "drained";
  }
  EXPECT_TRUE(drained) << "nor is it forgotten";
}

TEST(OnceE2e, queue_labels_and_key_stand_in_the_log_and_bad_ones_are_refused) {
  House house;
  const Response good = house.chat(
      kUnary, {{"Callgate-Queue", "imports"}, {"Callgate-Labels", "team=search"}, {"Idempotency-Key", "job 1"}});
  EXPECT_EQ(good.status, 200);
  EXPECT_EQ(line_of(house, good.header("Callgate-Call-Id")).at("queue"), "imports");
  for (const auto& [name, value] : Pairs{{"Callgate-Queue", "two words"},
                                         {"Callgate-Labels", "a=1,a=2"},
                                         {"Callgate-Labels", "nothing"},
                                         {"Idempotency-Key", ""},
                                         {"Idempotency-Key", std::string(256, 'k')}}) {
    SCOPED_TRACE(name + ": " + value);
    const Response bad = house.chat(kUnary, {{name, value}});
    EXPECT_EQ(bad.status, 400);
    EXPECT_NE(bad.body.find(name), std::string::npos) << bad.body;
  }
  EXPECT_EQ(house.requests(), 1);
}

}  // namespace once_test
