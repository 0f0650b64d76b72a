// Goal: the faults of the field around callers that leave, slow readers, busy streams and shutdown are not ours
// (docs/faults.md). Method: each fault's own trigger, times scaled down where only their ratio matters.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace faults_leaving_test {

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

#ifdef CALLGATE_SANITIZED
constexpr bool kSanitized = true;  // Their own memory and pace say nothing about ours.
#else
constexpr bool kSanitized = false;
#endif

TEST(Faults, F27_who_goes_away_stops_the_providers_work) {
  enum class Phase { Headers, Backoff, MidStream };
  House house;
  int cancelled = 0;
  for (const bool by_reset : {true, false}) {
    for (const Phase phase : {Phase::Headers, Phase::Backoff, Phase::MidStream}) {
      SCOPED_TRACE(std::string{by_reset ? "reset" : "close"} + " in phase " +
                   std::to_string(static_cast<int>(phase)));
      house.provider.reset();
      house.provider.script(phase == Phase::Headers ? R"([{"answer": {"hang": true}}])"
                            : phase == Phase::Backoff
                                ? R"([{"answer": {"status": 429, "headers": [["retry-after", "1"]], "json": {}}}])"
                                : R"([{"answer": {"stream": [{"say": "one"}, {"hang": true}]}}])");
      RawClient client = house.begin_chat(kStream);
      if (phase == Phase::Backoff) {
        house.provider.wait("ended=1");
      } else {
        house.provider.wait("requests=1");
      }
      if (phase == Phase::MidStream) {
        Response head = client.read_head();
        ASSERT_TRUE(client.read_until(head, "one"));
      }
      const auto before = Clock::now();
      by_reset ? client.rst() : client.close();
      const Json line = house.call_line();
      EXPECT_LT(Clock::now() - before, 1s);
      house.provider.wait("open_requests=0", 1s);
      EXPECT_EQ(line.at("outcome"), "cancelled");
      EXPECT_EQ(line.at("class"), "cancelled");
      EXPECT_EQ(line.at("reason"), "caller_gone");
      EXPECT_EQ(line.at("status"), 499);
      const Json seen = house.provider.seen();
      EXPECT_EQ(seen.size(), 1u);
      if (phase != Phase::Backoff) {
        const std::string by = seen.at(0).at("ended").at("closed_by").get<std::string>();
        EXPECT_NE(by, "us") << "its socket was closed";
        EXPECT_TRUE(line.at("attempts").at(0).at("possibly_billed").get<bool>());
      }
      ++cancelled;
      EXPECT_EQ(house.awaited(cancelled, "callgate_calls_total", "outcome=\"cancelled\""), cancelled);
    }
  }
  // Nothing of the two that backed off comes later.
  support::dawdle(1'200ms);
  EXPECT_EQ(house.requests(), 1);
  EXPECT_EQ(house.awaited(0, "callgate_calls_in_flight"), 0);
}

TEST(Faults, F29_a_slow_reader_slows_the_provider_and_fills_no_memory) {
  constexpr int kReaders = 20;
  House house;
  house.provider.script(R"([{"match": {"body_contains": "\"stream\":true"},
                             "answer": {"stream": {"events": 500000, "size": 200, "every_ms": 0}}}])");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(house.chat().status, 200);  // What every process needs.
  const std::uint64_t before = house.callgate.process().rss_bytes();
  std::vector<RawClient> readers;
  for (int i = 0; i < kReaders; ++i) readers.push_back(house.begin_chat(kStream));
  std::uint64_t most = 0;
  Clock::duration slowest{0};
  const auto until = Clock::now() + 3s;
  for (int turn = 1; Clock::now() < until; ++turn) {
    for (RawClient& reader : readers) EXPECT_FALSE(reader.read_exactly(1'024).empty());
    most = std::max(most, house.callgate.process().rss_bytes());
    const auto asked = Clock::now();
    EXPECT_EQ(house.chat().status, 200) << "others are unaffected";
    slowest = std::max(slowest, Clock::now() - asked);
    support::dawdle(100ms);
  }
  if (!kSanitized) {
    EXPECT_LT(most, before + kReaders * 1'000'000ull);
  }
  EXPECT_LT(slowest, 1s);
  EXPECT_EQ(house.provider.stats().at("open_requests"), kReaders)
      << "none of 100 MB is through: they are made to wait";
  for (RawClient& reader : readers) reader.rst();
  house.provider.wait("open_requests=0", 2s);
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_buffered_bytes") == 0; }));
}

double p99(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() * 99 / 100];
}

TEST(Faults, F30_streams_in_a_hurry_starve_nobody) {
  House house;                  // Its provider makes the streams, …
  support::FakeProvider quiet;  // … another one answers the short calls.
  support::Callgate callgate{
      "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\n"
      "upstreams:\n  openai: {url: " +
      house.provider.url() + "}\n  anthropic: {url: " + quiet.url() + "}\n"};
  house.provider.script(R"([{"answer": {"stream": {"events": 100000000, "size": 60, "every_ms": 0}}}])");
  std::atomic<bool> over{false};
  std::atomic<std::size_t> taken{0};
  std::vector<std::thread> readers;
  // A sanitizer makes each stream several times as dear.
  for (int i = 0; i < (kSanitized ? 2 : 4); ++i) {
    readers.emplace_back([&] {
      RawClient client{callgate.data_port()};
      client.send(request_text("POST", "/openai/v1/chat/completions", kStream));
      while (!over) taken += client.read_exactly(16 * 1'024).size();
      client.rst();
    });
  }
  ASSERT_TRUE(eventually([&] { return taken > 1'000'000; }));
  const std::string body = R"({"model":"m","max_tokens":5,"messages":[]})";
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const auto time_of = [&](const auto& work) {
    const auto starved = callgate.process().starved();
    const auto before = Clock::now();
    EXPECT_EQ(work().status, 200);
    const auto took = Clock::now() - before;
    // What other programs took of the CPU meanwhile is not what streams took of callgate.
    return Milliseconds{took - (callgate.process().starved() - starved)}.count();
  };
  std::string told;
  const auto measure = [&] {
    std::vector<double> health;
    std::vector<double> through;
    std::vector<double> direct;  // The same call without us, under the same load.
    for (int i = 0; i < 40; ++i) {
      health.push_back(time_of([&] { return http_get(callgate.health_url() + "/livez"); }));
      direct.push_back(time_of([&] { return http("POST", quiet.url() + "/v1/messages", body); }));
      through.push_back(time_of([&] { return http("POST", callgate.data_url() + "/anthropic/v1/messages", body); }));
      support::dawdle(45ms);
    }
    told = std::to_string(p99(health)) + ", without us " + std::to_string(p99(direct)) + ", through us " +
           std::to_string(p99(through)) + " ms";
    return std::max(p99(health) / 100, (p99(through) - p99(direct)) / 50);
  };
  const double worst = support::calmest(1, measure);
  over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(taken, 3'000'000u) << "or nothing was tried";
  EXPECT_LT(worst, kSanitized ? 10 : 1) << "health 100 ms, a short call 50 ms above the baseline; last: health "
                                        << told;
}

TEST(Faults, F31_a_stop_signal_lets_what_flies_land_and_takes_nothing_new) {
  House house{", limits: {concurrent: 3}", "shutdown: {drain: 10s}\nretry: {longest_wait: 60s}\n"};
  house.provider.script(R"([
    {"match": {"body_contains": "backs off"}, "answer": {"status": 429, "headers": [["retry-after", "30"]], "json": {}}},
    {"answer": {"stream": [{"say": "one"}, {"hold": "later"}, {"say": "two"}]}}])");
  // Of another model: a pause of this one would hold the streams up, too.
  RawClient backs_off = house.begin_chat(R"({"model":"o9","messages":[{"role":"user","content":"backs off"}]})");
  house.provider.wait("ended=1");
  std::vector<RawClient> streams;
  std::vector<Response> answers;
  for (std::size_t i = 0; i < 3; ++i) {
    streams.push_back(house.begin_chat(kStream));
    answers.push_back(streams[i].read_head());
    ASSERT_TRUE(streams[i].read_until(answers[i], "one"));
  }
  std::vector<RawClient> queued;
  for (int i = 0; i < 2; ++i) queued.push_back(house.begin_chat());
  ASSERT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 2; }));

  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("draining");
  const auto before = Clock::now();
  queued.push_back(std::move(backs_off));
  for (RawClient& client : queued) {
    const Response gave_up = client.read_response();
    EXPECT_EQ(gave_up.status, 503);
    EXPECT_EQ(gave_up.header("callgate-class"), "local_draining");
    EXPECT_FALSE(gave_up.header("retry-after").empty());
    EXPECT_EQ(house.call_line().at("outcome"), "drained");
  }
  EXPECT_LT(Clock::now() - before, 1s);
  EXPECT_EQ(http_get(house.callgate.health_url() + "/readyz").status, 503);
  EXPECT_EQ(http_get(house.callgate.health_url() + "/livez").status, 200);
  EXPECT_EQ(house.awaited(1, "callgate_draining"), 1);
  EXPECT_THROW(RawClient{house.callgate.data_port()}, support::Failed) << "nothing new is taken in";

  support::dawdle(500ms);
  house.provider.release("later");
  for (std::size_t i = 0; i < 3; ++i) {
    streams[i].read_rest(answers[i]);
    EXPECT_EQ(answers[i].end, Response::End::Complete);
    EXPECT_NE(answers[i].body.find("two"), std::string::npos);
    EXPECT_TRUE(answers[i].body.ends_with("data: [DONE]\n\n"));
  }
  EXPECT_EQ(house.callgate.process().wait(3s), 0) << "gone soon after the last";
  EXPECT_EQ(house.requests(), 4);
}

TEST(Faults, F31_past_the_grace_a_stream_ends_visibly) {
  House house{{}, "shutdown: {drain: 300ms}\n"};
  house.provider.script(R"([{"answer": {"stream": [{"say": "one"}, {"hang": true}]}}])");
  RawClient client = house.begin_chat(kStream);
  Response answer = client.read_head();
  ASSERT_TRUE(client.read_until(answer, "one"));
  house.callgate.process().signal(SIGTERM);
  client.read_rest(answer);
  EXPECT_NE(answer.end, Response::End::Complete);
  EXPECT_NE(answer.body.find("callgate_stream_broken"), std::string::npos);
  EXPECT_EQ(house.callgate.process().wait(3s), 1);
  EXPECT_EQ(house.call_line().at("outcome"), "drained");
}

TEST(Faults, F31_past_the_grace_an_answer_that_ends_with_its_connection_does_not_look_whole) {
  House house{{}, "shutdown: {drain: 300ms}\n"};
  house.provider.script(R"([{"answer": {"stream": [{"say": "one"}, {"hang": true}]}}])");
  // HTTP/1.0 knows no chunks: a FIN would be a proper end.
  RawClient client{house.callgate.data_port()};
  client.send("POST /openai/v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(kStream.size()) +
              "\r\n\r\n" + kStream);
  Response answer = client.read_head();
  ASSERT_TRUE(client.read_until(answer, "one"));
  house.callgate.process().signal(SIGTERM);
  client.read_rest(answer);
  EXPECT_EQ(answer.end, Response::End::Rst);
  EXPECT_EQ(house.callgate.process().wait(3s), 1);
}

TEST(Faults, F45_an_application_that_still_calls_while_it_is_stopped_is_served) {
  House house{{}, "shutdown: {drain: 8s}\n"};
  house.provider.script(
      R"([{"match": {"body_contains": "\"stream\":true"}, "answer": {"stream": [{"say": "one"}, {"hold": "later"}]}}])");
  RawClient stream = house.begin_chat(kStream);
  Response answer = stream.read_head();
  RawClient application{house.callgate.data_port()};
  const std::string request = request_text("POST", "/openai/v1/chat/completions", kUnary);
  application.send(request.substr(0, 40));
  ASSERT_TRUE(eventually([&] { return house.figure("callgate_connections") == 2; }));
  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("draining");
  application.send(request.substr(40));
  const Response last = application.read_response();
  EXPECT_EQ(last.status, 200);
  EXPECT_EQ(last.header("connection"), "close") << "there will be no more";
  house.provider.release("later");
  stream.read_rest(answer);
  EXPECT_EQ(answer.end, Response::End::Complete);
  EXPECT_EQ(house.callgate.process().wait(3s), 0) << "and then it does not keep its pod from ending";
}

}  // namespace faults_leaving_test
