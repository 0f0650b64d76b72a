// How does a callgate end that is to be read once more, or that is told to stop together with its application?

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tests/support/harness.h"
#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace shutdown_test {

using namespace std::chrono_literals;
using nlohmann::json;
using support::Failed;
using support::House;
using support::http;
using support::http_get;
using support::kUnary;
using support::Process;
using support::RawClient;
using support::request_text;
using support::Response;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kPriced =
    R"([{"answer": {"json": {"id": "r", "object": "chat.completion", "model": "gpt-5",
  "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
  "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}}}}])";

std::string scrape_request() { return "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"; }

TEST(FinalScrape, the_process_goes_as_soon_as_its_last_figures_were_read) {
  House house{{}, "shutdown: {final_scrape: 60s}\n"};
  house.provider.script(kPriced);
  ASSERT_EQ(house.chat().status, 200);
  const double cost = std::stod(house.call_line().at("cost_usd").get<std::string>());
  ASSERT_GT(cost, 0);
  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("final_scrape_awaited");
  EXPECT_EQ(http_get(house.callgate.health_url() + "/livez").status, 200);
  EXPECT_EQ(http_get(house.callgate.health_url() + "/readyz").status, 503);
  EXPECT_EQ(http("HEAD", house.callgate.health_url() + "/metrics").status, 200);
  support::dawdle(100ms);
  ASSERT_TRUE(house.callgate.process().running()) << "only a scrape counts";

  const std::string last = house.scrape();
  EXPECT_EQ(support::metric(last, "callgate_calls_total", R"(outcome="answered")"), 1);
  EXPECT_EQ(support::metric(last, "callgate_calls_in_flight"), 0);
  EXPECT_EQ(support::metric(last, "callgate_draining"), 1);
  EXPECT_NEAR(support::metric(last, "callgate_cost_usd_total"), cost, 1e-12);
  house.callgate.process().json_line("final_scrape_taken");
  EXPECT_EQ(house.callgate.process().wait(3s), 0);
}

TEST(FinalScrape, whoever_is_never_read_goes_when_the_time_is_over_and_says_so) {
  House house{{}, "shutdown: {final_scrape: 400ms}\n"};
  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("final_scrape_awaited");
  const json missed = house.callgate.process().json_line("final_scrape_missed");
  EXPECT_GE(missed.at("waited_ms"), 400);
  EXPECT_EQ(house.callgate.process().wait(3s), 0);
}

TEST(FinalScrape, a_scrape_before_the_end_of_the_last_call_does_not_count) {
  House house{{}, "shutdown: {drain: 30s, final_scrape: 60s}\n"};
  house.provider.script(R"([{"answer": {"stream": [{"say": "one"}, {"hold": "later"}, {"say": "two"}]}}])");
  RawClient client = house.begin_chat(support::kStream);
  Response answer = client.read_head();
  ASSERT_TRUE(client.read_until(answer, "one"));
  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("draining");
  EXPECT_EQ(house.figure("callgate_calls_total", R"(outcome="answered")"), 0) << "read in full, and too early";
  house.provider.release("later");
  client.read_rest(answer);
  EXPECT_EQ(answer.end, Response::End::Complete);
  house.callgate.process().json_line("final_scrape_awaited");
  support::dawdle(300ms);
  ASSERT_TRUE(house.callgate.process().running());
  EXPECT_EQ(house.figure("callgate_calls_total", R"(outcome="answered")"), 1);
  EXPECT_EQ(house.callgate.process().wait(3s), 0);
}

TEST(FinalScrape, one_that_breaks_off_does_not_count) {
  House house{{}, "shutdown: {final_scrape: 60s}\n"};
  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("final_scrape_awaited");
  {
    RawClient client{house.callgate.health_port()};
    client.send(scrape_request());
    client.read_exactly(20);
    client.rst();
  }
  {
    // All of it lies in this one's buffers, and it goes without having read it.
    RawClient client{house.callgate.health_port()};
    client.send(scrape_request());
    support::dawdle(200ms);
    client.close();
  }
  support::dawdle(300ms);
  EXPECT_TRUE(house.callgate.process().running());
  EXPECT_NE(house.scrape(), "");
  EXPECT_EQ(house.callgate.process().wait(3s), 0);
}

TEST(FinalScrape, a_second_signal_ends_the_wait) {
  House house{{}, "shutdown: {final_scrape: 60s}\n"};
  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("final_scrape_awaited");
  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("final_scrape_missed");
  EXPECT_EQ(house.callgate.process().wait(3s), 0);
}

TEST(FinalScrape, a_second_signal_in_the_drain_leaves_it_out) {
  House house{{}, "shutdown: {drain: 60s, final_scrape: 60s}\n"};
  house.provider.script(R"([{"answer": {"stream": [{"say": "one"}, {"hang": true}]}}])");
  RawClient client = house.begin_chat(support::kStream);
  Response answer = client.read_head();
  ASSERT_TRUE(client.read_until(answer, "one"));
  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("draining");
  house.callgate.process().signal(SIGTERM);
  EXPECT_EQ(house.callgate.process().wait(5s), 1) << "a call was broken off";
}

// Whoever sends a signal need not know that an operator has drained already: it is the first one.
TEST(FinalScrape, the_first_signal_after_an_order_to_drain_hurries_nothing) {
  House house{{}, "shutdown: {drain: 60s}\n"};
  house.provider.script(R"([{"answer": {"stream": [{"say": "one"}, {"hang": true}]}}])");
  RawClient client = house.begin_chat(support::kStream);
  Response answer = client.read_head();
  ASSERT_TRUE(client.read_until(answer, "one"));
  const std::string drain = house.callgate.admin_url() + "/v1/drain?what=all";
  EXPECT_EQ(http("POST", drain).status, 200);
  EXPECT_EQ(house.callgate.process().json_line("draining").at("signal"), "drain");
  EXPECT_EQ(http("POST", drain).status, 200);
  house.callgate.process().signal(SIGTERM);
  support::dawdle(300ms);
  ASSERT_TRUE(house.callgate.process().running());
  EXPECT_EQ(support::metric(house.scrape(), "callgate_calls_in_flight"), 1) << "not cut";
  house.callgate.process().signal(SIGTERM);
  EXPECT_EQ(house.callgate.process().wait(5s), 1) << "the second one means now";
}

// A job of a few seconds, and a Prometheus that reads every second: whatever it happens to see of the job's life, the
// last figures are among it.
TEST(FinalScrape, what_a_short_job_has_spent_is_in_prometheus) {
  if (!std::filesystem::exists("/usr/bin/prometheus")) GTEST_SKIP() << "prometheus is not installed";
  const support::TempDir place;
  const auto targets = [&](const std::string& list) {
    // Renamed to its place: half a file must not be seen.
    const std::string fresh = place.file("targets.new", list);
    std::filesystem::rename(fresh, place.path() + "/targets.json");
  };
  targets("[]");
  const std::string config = place.file("prometheus.yml",
                                        "global: {scrape_interval: 2s, scrape_timeout: 2s}\n"
                                        "scrape_configs:\n  - job_name: jobs\n    file_sd_configs: [{files: [" +
                                            place.path() + "/targets.json], refresh_interval: 1s}]\n");
  // It tells its port on its standard error.
  Process prometheus{{"/usr/bin/prometheus",
                      "--config.file=" + config,
                      "--storage.tsdb.path=" + place.path() + "/data",
                      "--web.listen-address=127.0.0.1:0",
                      "--log.format=json"}};
  std::string url;
  ASSERT_TRUE(support::eventually(
      [&] {
        const std::string said = prometheus.err();
        const std::string before = R"("address":"127.0.0.1:)";
        for (std::size_t at = said.find(before); at != said.npos; at = said.find(before, at + 1)) {
          const std::size_t from = at + before.size();
          const std::string port = said.substr(from, said.find('"', from) - from);
          if (port != "0") url = "http://127.0.0.1:" + port;
        }
        return !url.empty();
      },
      30s))
      << prometheus.err();
  ASSERT_TRUE(support::eventually([&] { return http_get(url + "/-/ready").status == 200; }, 30s));

  double spent = 0;
  int calls = 0;
  {
    House job{{}, "shutdown: {drain: 5s, final_scrape: 20s}\n"};
    job.provider.script(kPriced);
    targets(R"([{"targets": ["127.0.0.1:)" + std::to_string(job.callgate.health_port()) + R"("]}])");
    const auto begun = Clock::now();
    while (Clock::now() - begun < 3s) {
      ASSERT_EQ(job.chat().status, 200);
      spent += std::stod(job.call_line().at("cost_usd").get<std::string>());
      ++calls;
      support::dawdle(20ms);
    }
    job.callgate.process().signal(SIGTERM);
    job.callgate.process().json_line("final_scrape_taken", 25s);
    EXPECT_EQ(job.callgate.process().wait(3s), 0);
  }
  ASSERT_GT(calls, 10);
  ASSERT_GT(spent, 0);
  // What was received may take a moment until it can be asked for. The target is gone: the last sample within a
  // minute, not the newest one.
  const auto ask = [&](const std::string& query) -> double {
    const json answer = json::parse(http_get(url + "/api/v1/query?query=" + query).body);
    const json& result = answer.at("data").at("result");
    return result.empty() ? -1 : std::stod(result[0].at("value")[1].get<std::string>());
  };
  EXPECT_EQ(support::awaited(calls, [&] { return ask("sum(last_over_time(callgate_calls_total%5B1m%5D))"); }), calls);
  EXPECT_NEAR(ask("sum(last_over_time(callgate_cost_usd_total%5B1m%5D))"), spent, 1e-9);
}

TEST(Linger, an_application_that_stops_at_the_same_time_is_served_until_it_has_gone) {
  House house{{}, "shutdown: {drain: 60s, linger: 60s}\n"};
  house.provider.script(kPriced);
  RawClient application{house.callgate.data_port()};
  ASSERT_TRUE(support::eventually([&] { return house.figure("callgate_connections") == 1; }));
  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("lingering");
  EXPECT_EQ(http_get(house.callgate.health_url() + "/readyz").status, 503);
  support::dawdle(1200ms);
  EXPECT_EQ(house.chat().status, 200) << "a new connection, although more than a second has passed: one was open";
  application.send(request_text("POST", "/openai/v1/chat/completions", kUnary));
  const Response answer = application.read_response();
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.header("connection"), "close") << "it may go on";
  application.close();
  const auto gone = Clock::now();
  house.callgate.process().json_line("draining");
  EXPECT_GE(Clock::now() - gone, 900ms);
  EXPECT_EQ(house.callgate.process().wait(3s), 0);
}

TEST(Linger, who_stays_connected_is_left_when_its_time_is_over) {
  House house{{}, "shutdown: {drain: 60s, linger: 300ms}\n"};
  RawClient application{house.callgate.data_port()};
  ASSERT_TRUE(support::eventually([&] { return house.figure("callgate_connections") == 1; }));
  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("lingering");
  house.callgate.process().json_line("draining", 3s);
  EXPECT_EQ(house.callgate.process().wait(5s), 0);
}

TEST(Linger, the_drain_has_one_deadline_with_it) {
  House house{{}, "shutdown: {drain: 2s, linger: 2s}\n"};
  house.provider.script(R"([{"answer": {"stream": [{"say": "one"}, {"hang": true}]}}])");
  RawClient client = house.begin_chat(support::kStream);
  Response answer = client.read_head();
  ASSERT_TRUE(client.read_until(answer, "one"));
  const auto begun = Clock::now();
  house.callgate.process().signal(SIGTERM);
  client.read_rest(answer);
  EXPECT_NE(answer.end, Response::End::Complete);
  EXPECT_LT(Clock::now() - begun, 3500ms) << "not one time after the other";
  EXPECT_EQ(house.callgate.process().wait(3s), 1);
}

TEST(Linger, a_second_signal_ends_it) {
  House house{{}, "shutdown: {drain: 60s, linger: 60s}\n"};
  RawClient application{house.callgate.data_port()};
  ASSERT_TRUE(support::eventually([&] { return house.figure("callgate_connections") == 1; }));
  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("lingering");
  house.callgate.process().signal(SIGTERM);
  EXPECT_EQ(house.callgate.process().wait(3s), 0);
}

}  // namespace shutdown_test
