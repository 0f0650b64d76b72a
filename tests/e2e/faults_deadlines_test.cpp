// Goal: each clock (docs/concepts.md) ends a call with its own words in log and answer, and odd values of the headers
// that set clocks do no harm. Method: one call per clock against a provider that lets just that one run out.

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace faults_deadlines_test {

using Json = nlohmann::json;
using support::Callgate;
using support::FakeProvider;
using support::House;
using support::http;
using support::kStream;
using support::kUnary;
using support::RawClient;
using support::Response;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Headers = std::vector<std::pair<std::string, std::string>>;

TEST(Clocks, each_ends_a_call_with_its_own_words) {
  const struct {
    const char* name;
    const char* timeouts;
    const char* answer;  // Of the provider, each time.
    Headers headers;
    std::string body;
    const char* reason;
    const char* detail;
    bool possibly_billed;
  } kCases[] = {
      {"first byte",
       "first_byte: 300ms",
       R"({"hang": true})",
       {},
       kUnary,
       "attempts_used",
       "no answer within timeouts.first_byte",
       true},
      {"idle",
       "idle: 300ms",
       R"({"hang_at": 250})",
       {},
       kUnary,
       "attempts_used",
       "silence for longer than timeouts.idle",
       true},
      {"idle, in a stream's head",
       "idle: 300ms",
       R"({"stream": [{"send": ": ping\n\n"}, {"hang": true}]})",
       {},
       kStream,
       "attempts_used",
       "silence for longer than timeouts.idle",
       true},
      {"total",
       "total: 300ms",
       R"({"piece_bytes": 1, "piece_gap_ms": 20})",
       {},
       kUnary,
       "attempts_used",
       "longer than timeouts.total",
       true},
      {"deadline",
       "first_byte: 10s",
       R"({"hang": true})",
       {{"Callgate-Deadline", "300ms"}},
       kUnary,
       "callers_deadline",
       "the caller's deadline passed",
       true},
      {"deadline, in a body",
       "first_byte: 10s",
       R"({"hang_at": 250})",
       {{"Callgate-Deadline", "300ms"}},
       kUnary,
       "callers_deadline",
       "the caller's deadline passed",
       true},
      {"patience",
       "first_byte: 10s",
       R"({"hang": true})",
       {{"x-stainless-timeout", "0.4"}},
       kUnary,
       "callers_deadline",
       "the caller's SDK would not have waited any longer (its timeout, less a margin)",
       true},
      {"patience, of google-genai",
       "first_byte: 10s",
       R"({"hang": true})",
       {{"X-Server-Timeout", "0.4"}},
       kUnary,
       "callers_deadline",
       "the caller's SDK would not have waited any longer (its timeout, less a margin)",
       true},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    House house{", timeouts: {" + std::string{c.timeouts} + "}", "retry: {base: 10ms, bulk: {attempts: 2}}\n"};
    house.provider.script(R"([{"answer": )" + std::string{c.answer} + "}]");
    const auto before = Clock::now();
    const Response answer = house.chat(c.body, c.headers);
    const auto took = Clock::now() - before;
    EXPECT_GE(took, 250ms);
    EXPECT_LT(took, 2s);
    EXPECT_EQ(answer.status, 504);
    EXPECT_EQ(answer.end, Response::End::Complete);
    EXPECT_EQ(answer.header("callgate-class"), "timeout");
    EXPECT_EQ(answer.header("callgate-source"), "callgate");
    EXPECT_EQ(answer.header("x-should-retry"), "false");
    EXPECT_NE(Json::parse(answer.body).at("error").at("message").get<std::string>().find(c.detail), std::string::npos)
        << answer.body;
    const Json line = house.call_line();
    EXPECT_EQ(line.at("outcome"), "failed");
    EXPECT_EQ(line.at("class"), "timeout");
    EXPECT_EQ(line.at("status"), 504);
    EXPECT_EQ(line.at("reason"), c.reason);
    EXPECT_EQ(line.at("attempts").back().at("detail"), c.detail);
    EXPECT_EQ(line.at("attempts").back().at("possibly_billed"), c.possibly_billed);
    const bool ours = std::string{c.reason} == "attempts_used";
    EXPECT_EQ(house.requests(), ours ? 2 : 1)
        << "the caller's own clock ends the call, the upstream's only an attempt";
    house.provider.wait("open_requests=0", 2s);
  }
}

TEST(Clocks, connecting_that_takes_too_long_is_told_and_nothing_was_sent) {
  const support::TempDir directory;
  const FakeProvider provider{{"--self-signed", directory.path()}};
  provider.script(R"({"rules": [], "on_connect": "hang"})");  // Its handshake never ends.
  Callgate callgate{
      "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\n"
      "upstreams: {openai: {url: " +
      provider.url() + ", ca_file: " + directory.path() +
      "/ca.pem, timeouts: {connect: 300ms}}}\n"
      "retry: {base: 10ms, bulk: {attempts: 2}}\n"};
  const auto before = Clock::now();
  const Response answer = http("POST", callgate.data_url() + "/openai/v1/chat/completions", kUnary);
  EXPECT_GE(Clock::now() - before, 550ms) << "two attempts";
  EXPECT_LT(Clock::now() - before, 3s);
  EXPECT_EQ(answer.status, 504);
  EXPECT_EQ(answer.header("callgate-class"), "timeout");
  EXPECT_EQ(answer.header("callgate-attempts"), "2");
  const Json attempt = callgate.process().json_line("call").at("attempts").back();
  EXPECT_EQ(attempt.at("detail"), "connecting took too long");
  EXPECT_FALSE(attempt.at("possibly_billed").get<bool>());
}

TEST(Clocks, the_deadline_bounds_waiting_and_backing_off_too) {
  House house{", limits: {concurrent: 1}", "retry: {base: 10ms}\nqueue: {max_wait: {bulk: 600ms}}\n"};
  house.provider.script(R"([{"match": {"body_contains": "door"}, "answer": {"hold": "door"}}])");
  RawClient running = house.begin_chat(support::chat_saying("door"));
  house.provider.wait("held=1");

  const auto refused =
      [&](const Headers& headers, int status, const std::string& reason, std::chrono::milliseconds at_least) {
        SCOPED_TRACE(reason);
        const auto before = Clock::now();
        const Response answer = house.chat(kUnary, headers);
        EXPECT_GE(Clock::now() - before, at_least);
        EXPECT_LT(Clock::now() - before, at_least + 1s);
        EXPECT_EQ(answer.status, status);
        const Json line = house.call_line();
        EXPECT_EQ(line.at("outcome"), "refused");
        EXPECT_EQ(line.at("reason"), reason);
        EXPECT_EQ(line.at("attempts").size(), 0u);
      };
  refused({{"Callgate-Deadline", "250ms"}}, 504, "deadline_in_queue", 240ms);
  refused({{"x-stainless-timeout", "0.3"}}, 429, "sdk_timeout_in_queue", 200ms);
  refused({}, 429, "queue_wait", 590ms);
  EXPECT_EQ(house.requests(), 1) << "none of them reached the provider";
  house.provider.release("door");
  EXPECT_EQ(running.read_response().status, 200);
  EXPECT_EQ(house.call_line().at("outcome"), "answered");
  EXPECT_EQ(house.awaited(0, "callgate_queue_depth"), 0);

  // A backoff that would end behind the deadline is not begun.
  house.provider.script(R"([{"answer": {"status": 503, "headers": [["retry-after", "3"]]}}])");
  const auto before = Clock::now();
  EXPECT_EQ(house.chat(kUnary, {{"Callgate-Deadline", "1s"}}).status, 503);
  EXPECT_LT(Clock::now() - before, 900ms);
  EXPECT_EQ(house.call_line().at("reason"), "deadline_too_close");
}

TEST(Clocks, a_deadline_that_passes_during_the_upload_is_told_as_such) {
  House house;
  const std::string request =
      support::request_text("POST", "/openai/v1/chat/completions", kUnary, {{"Callgate-Deadline", "200ms"}});
  RawClient client{house.callgate.data_port()};
  client.send(request.substr(0, request.size() - 20));
  support::dawdle(300ms);
  client.send(request.substr(request.size() - 20));
  const Response answer = client.read_response();
  EXPECT_EQ(answer.status, 504);
  EXPECT_NE(answer.body.find("still on the way"), std::string::npos) << answer.body;
  EXPECT_EQ(house.call_line().at("reason"), "deadline_passed") << "nobody waited for a slot";
  EXPECT_EQ(house.requests(), 0);
}

TEST(Clocks, the_deadline_ends_a_running_stream_visibly) {
  House house;
  house.provider.script(R"([{"answer": {"stream": {"events": 200, "size": 60, "every_ms": 20}}}])");
  const auto before = Clock::now();
  const Response answer = house.chat(kStream, {{"Callgate-Deadline", "500ms"}});
  EXPECT_GE(Clock::now() - before, 450ms);
  EXPECT_LT(Clock::now() - before, 2s);
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.end, Response::End::Complete);
  EXPECT_NE(answer.body.find("the caller's deadline passed"), std::string::npos);
  house.provider.wait("open_requests=0", 1s);
  const Json line = house.call_line();
  EXPECT_EQ(line.at("class"), "timeout");
  EXPECT_EQ(line.at("attempts").at(0).at("detail"), "the caller's deadline passed");
}

TEST(Clocks, an_sdks_patience_ends_with_the_first_byte_and_cuts_no_stream) {
  House house;
  // Its head comes at once, its content long after the SDK would have given up waiting for a head.
  house.provider.script(
      R"([{"answer": {"stream": [{"send": ": wait\n\n"}, {"wait_ms": 900}, {"say": "late"}, {"wait_ms": 400}, {"say": "later"}]}}])");
  RawClient client = house.begin_chat(kStream, {{"x-stainless-timeout", "0.5"}});
  const auto before = Clock::now();
  Response answer = client.read_head();
  EXPECT_LT(Clock::now() - before, 800ms) << "the held head is passed on before the SDK gives up";
  EXPECT_EQ(answer.status, 200);
  client.read_rest(answer);
  EXPECT_EQ(answer.end, Response::End::Complete);
  EXPECT_NE(answer.body.find("later"), std::string::npos);
  EXPECT_EQ(house.call_line().at("outcome"), "answered");
}

TEST(Clocks, odd_deadlines_are_met_or_refused_and_never_misread) {
  House house;
  const struct {
    const char* value;
    int status;
    const char* reason;  // Of the call's line; empty: there is no call, or it is answered.
  } kCases[] = {
      {"0s", 504, "deadline_passed"},
      {"2020-01-01T00:00:00Z", 504, "deadline_passed"},
      {"168h", 200, ""},
      {"9999h", 200, ""},
      {"2200-01-01T00:00:00Z", 200, ""},
      {"1h30m", 200, ""},
      {"-1s", 400, ""},
      {"soon", 400, ""},
      {"90", 400, ""},
      {"", 400, ""},
      {"1e3s", 400, ""},
      {"99999999999999999999999s", 400, ""},
      {"9999-12-31T23:59:59Z", 400, ""},
  };
  int requests = 0;
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.value);
    const auto before = Clock::now();
    const Response answer = house.chat(kUnary, {{"Callgate-Deadline", c.value}});
    EXPECT_LT(Clock::now() - before, 2s);
    EXPECT_EQ(answer.status, c.status) << answer.body;
    requests += c.status == 200 ? 1 : 0;
    EXPECT_EQ(house.requests(), requests) << "what is refused reaches nobody";
    if (c.status == 400) {
      EXPECT_NE(answer.body.find("Callgate-Deadline"), std::string::npos) << "says what is wrong";
    } else {
      const Json line = house.call_line();
      EXPECT_EQ(line.at("reason"), *c.reason == '\0' ? Json(nullptr) : Json(c.reason));
    }
  }
  // So close that it may pass anywhere: answered or ended by it, but never hung.
  for (int i = 0; i < 20; ++i) {
    const Response answer = house.chat(kUnary, {{"Callgate-Deadline", "1ms"}});
    EXPECT_TRUE(answer.status == 504 || answer.status == 200) << answer.status;
  }
  EXPECT_EQ(house.awaited(0, "callgate_calls_in_flight"), 0);
}

TEST(Clocks, odd_timeouts_of_sdks_are_passed_on_and_bound_nothing) {
  House house;
  for (const char* name : {"x-stainless-timeout", "x-stainless-read-timeout", "x-server-timeout"}) {
    for (const char* value : {"NOT_GIVEN", "600000", "0", "1e99", "-3", "inf", "nan", "", "10 minutes"}) {
      SCOPED_TRACE(std::string{name} + ": " + value);
      house.provider.reset();
      house.provider.script(R"([{"answer": {"delay_ms": 20}}])");
      EXPECT_EQ(house.chat(kUnary, {{name, value}}).status, 200);
      bool passed = false;
      const Json seen = house.provider.seen();
      for (const Json& header : seen.at(0).at("headers")) {
        passed = passed || (header.at(0) == std::string{name} && header.at(1) == std::string{value});
      }
      EXPECT_TRUE(passed) << "it is the provider's to read: " << seen.at(0).at("headers");
    }
  }
}

}  // namespace faults_deadlines_test
