// Goal: the faults of the field around limits, waiting, fairness, counters that leak, health and metrics are not ours
// (docs/faults.md). Method: each fault's own trigger, times scaled down where only their ratio matters.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace faults_limits_test {

using Json = nlohmann::json;
using support::chat_saying;
using support::eventually;
using support::House;
using support::http;
using support::http_get;
using support::kStream;
using support::kUnary;
using support::RawClient;
using support::request_text;
using support::Response;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Reads the gauges again and again until it is destroyed.
class Watch {
 public:
  explicit Watch(const House& house)
      : thread_([this, &house] {
          while (!over_) {
            const std::string scrape = house.scrape();
            for (const char* name :
                 {"callgate_calls_in_flight", "callgate_queue_depth", "callgate_upstream_exchanges"}) {
              lowest = std::min(lowest, support::metric(scrape, name));
              if (scrape.find(std::string{name} + "{") == std::string::npos &&
                  scrape.find(std::string{name} + " ") == std::string::npos) {
                missing = true;
              }
            }
            ++looks;
            support::dawdle(10ms);
          }
        }) {}
  void stop() {
    over_ = true;
    thread_.join();
  }
  double lowest = 0;
  bool missing = false;
  int looks = 0;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST(Faults, F22_every_ending_gives_its_slot_back) {
  House house{", limits: {concurrent: 4}, timeouts: {first_byte: 60ms, idle: 60ms}",
              "  nowhere: {url: http://127.0.0.1:1, dialect: openai, limits: {concurrent: 4}}\n"
              "retry: {base: 2ms, bulk: {attempts: 2}}\n"};
  house.provider.script(R"([
    {"match": {"body_contains": "fails"}, "answer": 500},
    {"match": {"body_contains": "no first byte"}, "answer": {"hang": true}},
    {"match": {"body_contains": "stalls"}, "answer": {"stream": [{"say": "x"}, {"hang": true}]}},
    {"match": {"body_contains": "resets"}, "answer": {"stream": [{"say": "x"}, {"wait_ms": 5}, {"close": "rst"}]}},
    {"match": {"body_contains": "malformed"}, "answer": {"raw": "HTTP/1.1 banana\r\n\r\n"}},
    {"match": {"body_contains": "no json"}, "answer": {"headers": [["content-type", "application/json"]], "body": "{]"}},
    {"match": {"body_contains": "waits"}, "answer": {"delay_ms": 40}},
    {"match": {"body_contains": "streams"}, "answer": {"stream": {"events": 10, "size": 100, "every_ms": 4}}}])");
  Watch watch{house};
  const auto work = [&](int worker) {
    for (int i = 0; i < 50; ++i) {
      switch ((i + worker) % 10) {
        case 0:
          EXPECT_EQ(house.chat().status, 200);
          break;
        case 1:
          EXPECT_EQ(house.chat(chat_saying("fails")).status, 500);
          break;
        case 2:
          EXPECT_EQ(http("POST", house.url("/nowhere/v1/chat/completions"), kUnary).status, 502);
          break;
        case 3:
          EXPECT_EQ(house.chat(chat_saying("no first byte")).status, 504);
          break;
        case 4:
          EXPECT_NE(house.chat(chat_saying("stalls", true)).end, Response::End::Complete);
          break;
        case 5: {  // Leaves before the first byte.
          RawClient client = house.begin_chat(chat_saying("waits"));
          support::dawdle(10ms);
          i % 2 == 0 ? client.rst() : client.close();
          break;
        }
        case 6: {  // Leaves after it.
          RawClient client = house.begin_chat(chat_saying("streams", true));
          Response answer = client.read_head();
          i % 2 == 0 ? client.rst() : client.close();
          break;
        }
        case 7:
          EXPECT_EQ(house.chat(chat_saying(i % 2 == 0 ? "malformed" : "no json")).status >= 500, true);
          break;
        case 8:  // Refused by us.
          EXPECT_EQ(house.chat(kUnary, {{"Callgate-Deadline", i % 2 == 0 ? "0s" : "never"}}).status,
                    i % 2 == 0 ? 504 : 400);
          break;
        default:
          EXPECT_NE(house.chat(chat_saying("resets", true)).end, Response::End::Complete);
      }
    }
  };
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 4; ++worker) workers.emplace_back(work, worker);
  for (std::thread& worker : workers) worker.join();
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_calls_in_flight") == 0; }));
  watch.stop();
  EXPECT_EQ(watch.lowest, 0) << "never negative";
  EXPECT_FALSE(watch.missing);
  EXPECT_GT(watch.looks, 10);
  EXPECT_EQ(house.awaited(0, "callgate_queue_depth"), 0);
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_upstream_exchanges") == 0; }));

  // Four at once, on either upstream that was in use.
  house.provider.script(R"([{"answer": {"hold": "door"}}])");
  std::vector<RawClient> four;
  for (int i = 0; i < 4; ++i) four.push_back(house.begin_chat());
  house.provider.wait("held=4", 2s);
  house.provider.release("door");
  for (RawClient& client : four) EXPECT_EQ(client.read_response().status, 200);
}

TEST(Faults, F23_waiting_for_a_slot_has_a_limit_of_its_own) {
  House house{", limits: {concurrent: 4}, timeouts: {first_byte: 30s}", "queue: {max_wait: {bulk: 1s}}\n"};
  house.provider.script(R"([{"answer": {"hang": true}}])");
  std::vector<RawClient> running;
  for (int i = 0; i < 4; ++i) running.push_back(house.begin_chat());
  house.provider.wait("requests=4");
  std::vector<RawClient> waiting;
  const auto before = Clock::now();
  for (int i = 0; i < 20; ++i) waiting.push_back(house.begin_chat());
  ASSERT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 20; }, 900ms));
  EXPECT_EQ(http_get(house.callgate.health_url() + "/livez").status, 200);
  EXPECT_EQ(http_get(house.callgate.health_url() + "/readyz").status, 200);
  for (RawClient& client : waiting) {
    const Response answer = client.read_response();
    EXPECT_EQ(answer.status, 429);
    EXPECT_EQ(answer.header("callgate-class"), "local_limit");
    EXPECT_NE(answer.body.find("callgate_queue_wait"), std::string::npos);
    EXPECT_GE(std::stoi("0" + answer.header("retry-after")), 1);
  }
  const auto took = Clock::now() - before;
  EXPECT_GE(took, 990ms);
  EXPECT_LT(took, 3s);
  EXPECT_EQ(house.requests(), 4) << "none of them reached the provider";
  EXPECT_EQ(house.awaited(0, "callgate_queue_depth"), 0);
  EXPECT_EQ(house.awaited(20, "callgate_refusals_total"), 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(house.call_line().at("reason"), "queue_wait");
}

TEST(Faults, F24_faults_and_hang_ups_of_callers_are_not_the_upstreams) {
  House house;
  house.provider.script(
      R"([{"match": {"body_contains": "bad"}, "answers": [400, 404, 422], "weights": [1, 1, 1], "seed": 3},
                            {"match": {"body_contains": "stream"}, "answer": {"stream": [{"say": "x"}, {"hang": true}]}}])");
  for (int i = 0; i < 50; ++i) {
    const int status = house.chat(chat_saying("bad"), {{"Callgate-Tenant", "a"}}).status;
    EXPECT_TRUE(status == 400 || status == 404 || status == 422) << status;
  }
  for (int i = 0; i < 50; ++i) {
    RawClient client = house.begin_chat(kStream, {{"Callgate-Tenant", "a"}});
    Response answer = client.read_head();
    EXPECT_EQ(answer.status, 200);
    client.rst();
  }
  for (int i = 0; i < 10; ++i) {
    const Response answer = house.chat(kUnary, {{"Callgate-Tenant", "b"}});
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.header("callgate-source"), "provider");
  }
  house.provider.wait("open_requests=0", 2s);
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_calls_total", "outcome=\"cancelled\"") == 50; }));
  EXPECT_EQ(house.awaited(50, "callgate_streams_broken_total", "side=\"caller\""), 50) << "counted apart";
  EXPECT_EQ(house.awaited(0, "callgate_streams_broken_total", "side=\"upstream\""), 0);
  EXPECT_EQ(house.awaited(50, "callgate_calls_total", "outcome=\"failed\""), 50);
  EXPECT_EQ(house.figure("callgate_attempts_total", "class=\"timeout\"") +
                house.figure("callgate_attempts_total", "class=\"network\"") +
                house.figure("callgate_attempts_total", "class=\"server_error\""),
            0)
      << "nothing of it is laid at the upstream's door";
}

TEST(Faults, F28_who_leaves_the_queue_is_never_sent) {
  House house{", limits: {concurrent: 1}"};
  house.provider.script(R"([{"match": {"body_contains": "running"}, "answer": {"hold": "door"}}])");
  RawClient running = house.begin_chat(chat_saying("running"));
  house.provider.wait("held=1");
  std::vector<RawClient> queued;
  for (int i = 0; i < 30; ++i) {
    queued.push_back(house.begin_chat(chat_saying("number " + std::to_string(i) + ".")));
    ASSERT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == i + 1; }));
  }
  // All but every sixth hang up.
  const auto before = Clock::now();
  for (std::size_t i = 0; i < queued.size(); ++i) {
    if (i % 6 == 5) continue;
    i % 2 == 0 ? queued[i].rst() : queued[i].close();
  }
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 5; }, 1s)) << "at once";
  EXPECT_LT(Clock::now() - before, 1s);
  house.provider.release("door");
  EXPECT_EQ(running.read_response().status, 200);
  for (std::size_t i = 5; i < queued.size(); i += 6) EXPECT_EQ(queued[i].read_response().status, 200);
  const Json seen = house.provider.seen();
  ASSERT_EQ(seen.size(), 6u) << "the running one and the five that stayed";
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_NE(seen[i].at("body").get<std::string>().find("number " + std::to_string(6 * i - 1) + "."),
              std::string::npos)
        << "in their order";
  }
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_calls_total", "outcome=\"cancelled\"") == 25; }));
}

TEST(Faults, F35_junk_from_callers_does_not_grow_the_scrape) {
  House house;
  for (int i = 0; i < 30; ++i) EXPECT_EQ(house.chat().status, 200);
  const auto series = [&] {
    const std::string text = house.scrape();
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto before = series();
  const auto work = [&](int worker) {
    RawClient client{house.callgate.data_port()};
    for (int i = worker; i < 3'000; i += 3) {
      const std::string n = std::to_string(i);
      const std::string odd = "m" + n + std::string(i % 7 == 0 ? 4'000 : 3, 'x') + (i % 3 == 0 ? R"(\"\n{},=)" : "");
      const std::string path = i % 2 == 0 ? "/openai/v1/chat/completions" : "/openai/v1/path" + n;
      client.send(request_text("POST",
                               i % 5 == 0 ? "/u" + n + path : path,
                               R"({"messages":[],"model":")" + odd + "\"}",
                               {{"User-Agent", "agent \"" + n + "\" " + std::string(i % 11 == 0 ? 4'000 : 1, 'a')},
                                {"Callgate-Tenant", "t" + n},
                                {"x-stainless-retry-count", n}}));
      ASSERT_NE(client.read_response().status, 0);
    }
  };
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 3; ++worker) workers.emplace_back(work, worker);
  for (std::thread& worker : workers) worker.join();

  EXPECT_LT(series() - before, 200);
  const auto scraped = Clock::now();
  const std::string scrape = house.scrape();
  EXPECT_LT(Clock::now() - scraped, 1s);
  EXPECT_GT(support::metric(scrape, "callgate_calls_total", "model=\"_other\""), 1'000)
      << "unknowns fold into one value";
  EXPECT_EQ(support::metric(scrape, "callgate_calls_total", "tenant=\"t"), 0);
  std::size_t at = 0;
  while (at < scrape.size()) {
    const std::size_t end = scrape.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    const std::string line = scrape.substr(at, end - at);
    at = end + 1;
    EXPECT_TRUE(line.starts_with("#") || line.starts_with("callgate_") || line.starts_with("process_")) << line;
    EXPECT_LT(line.size(), 1'000u);
  }
}

TEST(Faults, F44_liveness_does_not_queue_behind_the_work) {
  constexpr int kStreams = 500;
  House house{", limits: {concurrent: 500}", "queue: {total: 20, max_wait: {bulk: 30s}}\n"};
  house.provider.script(R"([{"answer": {"stream": {"events": 100000, "size": 60, "every_ms": 500}}}])");
  std::vector<RawClient> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(house.begin_chat(kStream));
  house.provider.wait("requests=500", 20s);
  std::vector<RawClient> queued;
  for (int i = 0; i < 20; ++i) queued.push_back(house.begin_chat());
  ASSERT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 20; }));
  EXPECT_EQ(house.chat().status, 429) << "everything is full";

  const auto slowest = [&] {
    double worst = 0;
    const auto until = Clock::now() + 1s;
    while (Clock::now() < until) {
      const auto asked = Clock::now();
      EXPECT_EQ(http_get(house.callgate.health_url() + "/livez").status, 200);
      worst = std::max(worst, std::chrono::duration<double, std::milli>(Clock::now() - asked).count());
      support::dawdle(20ms);
    }
    return worst;
  };
  EXPECT_LT(support::calmest(200, slowest), 200) << "milliseconds";
  // Full is no reason to be taken out of service in this version: what is refused says when to come back.
  EXPECT_EQ(http_get(house.callgate.health_url() + "/readyz").status, 200);
}

}  // namespace faults_limits_test
