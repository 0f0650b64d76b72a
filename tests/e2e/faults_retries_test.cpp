// Goal: the faults of the field around retries, error classes and Retry-After are not ours (docs/faults.md).
// Method: each fault's own trigger, and a look at what the provider saw, the client got, the log says and the
// metrics count.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace faults_retries_test {

using Json = nlohmann::json;
using support::chat_saying;
using support::House;
using support::http;
using support::kStream;
using support::kUnary;
using support::RawClient;
using support::Response;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

double at_ms(const Json& seen, std::size_t index) { return seen.at(index).at("at_ms").get<double>(); }
double ended_ms(const Json& seen, std::size_t index) { return seen.at(index).at("ended").at("at_ms").get<double>(); }

std::string http_date(std::chrono::seconds from_now) {
  const std::time_t when = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() + from_now);
  std::tm parts{};
  gmtime_r(&when, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return text;
}

TEST(Faults, F01_a_broken_stream_is_not_begun_again) {
  House house;
  house.provider.script(R"([{"match": {"times": 1}, "answer": {"stream": [
      {"say": "delta-1"}, {"say": "delta-2"}, {"say": "delta-3"}, {"wait_ms": 50}, {"close": "rst"}]}}])");
  const Response answer = house.chat(kStream);
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.end, Response::End::Complete) << "its end is visible";
  for (const char* delta : {"delta-1", "delta-2", "delta-3"}) EXPECT_EQ(count(answer.body, delta), 1u) << delta;
  EXPECT_EQ(count(answer.body, "callgate_stream_broken"), 1u);
  EXPECT_EQ(count(answer.body, "[DONE]"), 0u);
  EXPECT_EQ(house.requests(), 1);

  const Json line = house.call_line();
  EXPECT_EQ(line.at("outcome"), "failed");
  EXPECT_EQ(line.at("class"), "network");
  EXPECT_EQ(line.at("reason"), "answer_started");
  EXPECT_EQ(line.at("attempts").size(), 1u);
  EXPECT_EQ(house.awaited(1, "callgate_streams_broken_total", "side=\"upstream\""), 1);
  EXPECT_EQ(house.awaited(0, "callgate_retries_total"), 0);
}

TEST(Faults, F02_an_account_without_credit_is_not_asked_again) {
  House house{{}, "retry: {base: 400ms, bulk: {attempts: 2}}\n"};
  const struct {
    int status;
    const char* error;
    bool exhausted;
  } kCases[] = {
      {429,
       R"({"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"})",
       true},
      {402, R"({"message":"Payment required","type":"billing_error"})", true},
      {400,
       R"({"message":"Your credit balance is too low to access the API.","type":"invalid_request_error"})",
       true},
      {429, R"({"message":"Your credit balance is too low to access the API.","type":"rate_limit_error"})", true},
      {429, R"({"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"})", false},
      {429, R"({"message":"Quota exceeded for requests per minute; try again","type":"rate_limit_error"})", false},
  };
  int exhausted = 0;
  for (const auto& c : kCases) {
    SCOPED_TRACE(std::to_string(c.status) + c.error);
    house.provider.reset();
    house.provider.script(R"([{"answer": {"status": )" + std::to_string(c.status) + R"(, "json": {"error": )" +
                          c.error + "}}}]");
    const auto before = Clock::now();
    const Response answer = house.chat();
    const auto took = Clock::now() - before;
    const Json line = house.call_line();
    EXPECT_EQ(answer.status, c.status);
    EXPECT_EQ(house.requests(), c.exhausted ? 1 : 2);
    EXPECT_EQ(answer.header("callgate-class"), c.exhausted ? "quota_exhausted" : "rate_limited");
    EXPECT_EQ(line.at("class"), answer.header("callgate-class"));
    EXPECT_EQ(line.at("reason"), c.exhausted ? "not_retryable" : "attempts_used");
    EXPECT_EQ(answer.header("callgate-retryable"), c.exhausted ? "false" : "true");
    if (c.exhausted) {
      EXPECT_LT(took, 400ms) << "under one backoff step";
      ++exhausted;
    }
  }
  EXPECT_EQ(house.awaited(exhausted, "callgate_attempts_total", "class=\"quota_exhausted\""), exhausted);
  EXPECT_EQ(house.awaited(0, "callgate_retries_total", "class=\"quota_exhausted\""), 0);
}

TEST(Faults, F03_a_prompt_that_is_too_long_hurts_nobody_else) {
  House house{{}, "breaker: {min_calls: 1, consecutive: 1}\n"};
  const std::string error =
      R"({"error":{"message":"This model's maximum context length is 8 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}})";
  house.provider.script(
      R"([{"match": {"body_contains": "oversized"}, "answer": {"status": 400, "headers": [["content-type", "application/json"]], "body": )" +
      Json(error).dump() + "}}]");
  const Response refused = house.chat(chat_saying("oversized"), {{"Callgate-Tenant", "a"}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.body, error) << "unchanged";
  EXPECT_EQ(refused.header("callgate-class"), "context_length");
  EXPECT_EQ(refused.header("callgate-attempts"), "1");
  EXPECT_EQ(house.requests(), 1);
  const Json line = house.call_line();
  EXPECT_EQ(line.at("class"), "context_length");
  EXPECT_EQ(line.at("level"), "info") << "a fault of the caller is no news for an operator";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(house.chat(kUnary, {{"Callgate-Tenant", "b"}}).status, 200);
  EXPECT_EQ(house.requests(), 11);
  EXPECT_EQ(house.awaited(0, "callgate_retries_total"), 0);
  EXPECT_EQ(house.awaited(0, "callgate_breaker_transitions_total"), 0);
}

TEST(Faults, F04_no_attempt_begins_that_cannot_fit_the_deadline) {
  House house{", timeouts: {first_byte: 2s}", "retry: {base: 50ms, bulk: {attempts: 5}}\n"};
  house.provider.script(R"([{"answer": {"hang": true}}])");
  const auto before = Clock::now();
  const Response answer = house.chat(kUnary, {{"Callgate-Deadline", "3s"}});
  const auto took = Clock::now() - before;
  EXPECT_EQ(answer.status, 504);
  EXPECT_EQ(answer.header("callgate-class"), "timeout");
  EXPECT_GE(took, 2'900ms);
  EXPECT_LT(took, 4s);
  EXPECT_EQ(house.requests(), 2);
  house.provider.wait("open_requests=0");
  const Json line = house.call_line();
  EXPECT_EQ(line.at("reason"), "callers_deadline");
  EXPECT_EQ(answer.header("callgate-retryable"), "true") << "the job may do better; only this call's time was up";
  EXPECT_EQ(line.at("attempts").at(0).at("detail"), "no answer within timeouts.first_byte");
  EXPECT_EQ(line.at("attempts").at(1).at("detail"), "the caller's deadline passed");
}

TEST(Faults, F04_failures_at_once_are_spaced_and_bounded) {
  House house{{}, "retry: {base: 100ms, bulk: {attempts: 5}}\n"};
  house.provider.script(R"([{"answer": 503}])");
  const auto before = Clock::now();
  EXPECT_EQ(house.chat(kUnary, {{"Callgate-Deadline", "3s"}}).status, 503);
  EXPECT_LT(Clock::now() - before, 3s);
  const Json seen = house.provider.seen();
  ASSERT_EQ(seen.size(), 5u) << "never more than five";
  const Json line = house.call_line();
  EXPECT_EQ(line.at("reason"), "attempts_used");
  for (std::size_t i = 1; i < 5; ++i) {
    const Json& attempt = line.at("attempts").at(i);
    const auto waited = attempt.at("wait_ms").get<double>();
    EXPECT_LE(waited, 100.0 * static_cast<double>(1 << (i - 1)) + 50) << "full jitter below a doubling step";
    // Arrival to arrival: the provider notes an answer's end after its last byte is out, maybe after the wait began.
    EXPECT_GE(at_ms(seen, i) - at_ms(seen, i - 1), waited - 1) << "what was waited is what is told";
    EXPECT_EQ(attempt.at("waited_for"), "computed");
  }

  // A wait that would pass the deadline is not begun.
  House hurried{{}, "retry: {base: 100ms, bulk: {attempts: 5}}\n"};
  hurried.provider.script(R"([{"answer": {"status": 503, "headers": [["retry-after", "2"]]}}])");
  const auto again = Clock::now();
  EXPECT_EQ(hurried.chat(kUnary, {{"Callgate-Deadline", "1s"}}).status, 503);
  EXPECT_LT(Clock::now() - again, 900ms) << "the answer goes back now";
  EXPECT_EQ(hurried.requests(), 1);
  EXPECT_EQ(hurried.call_line().at("reason"), "deadline_too_close");
}

TEST(Faults, F05_what_may_have_been_charged_is_flagged_and_closed_before_it_is_repeated) {
  House house{", timeouts: {first_byte: 300ms}", "retry: {base: 10ms, bulk: {attempts: 4}}\n"};
  house.provider.script(R"([{"match": {"times": 2}, "answer": {"delay_ms": 10000}}])");
  const Response answer = house.chat(kUnary, {{"Callgate-Deadline", "5s"}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("callgate-attempts"), "3");
  const Json seen = house.provider.seen();
  ASSERT_EQ(seen.size(), 3u);
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_LE(ended_ms(seen, i), at_ms(seen, i + 1)) << "the abandoned request is closed first";
    EXPECT_NE(seen.at(i).at("ended").at("closed_by"), "us");
  }
  const Json attempts = house.call_line().at("attempts");
  ASSERT_EQ(attempts.size(), 3u);
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_TRUE(attempts.at(i).at("possibly_billed").get<bool>());
    EXPECT_EQ(attempts.at(i).at("class"), "timeout");
    EXPECT_TRUE(attempts.at(i).at("status").is_null());
  }
  EXPECT_FALSE(attempts.at(2).at("possibly_billed").get<bool>());
  EXPECT_EQ(house.awaited(2, "callgate_possibly_billed_attempts_total"), 2);
  EXPECT_EQ(house.awaited(9, "callgate_tokens_total", "kind=\"input\""), 9) << "what was reported, once";
}

TEST(Faults, F05_a_timeout_is_not_repeated_where_that_is_switched_off) {
  House house{", timeouts: {first_byte: 300ms}", "retry: {base: 10ms, on_timeout: false}\n"};
  house.provider.script(R"([{"answer": {"delay_ms": 10000}}])");
  EXPECT_EQ(house.chat().status, 504);
  EXPECT_EQ(house.requests(), 1);
  const Json line = house.call_line();
  EXPECT_EQ(line.at("reason"), "not_replay_safe");
  EXPECT_TRUE(line.at("attempts").at(0).at("possibly_billed").get<bool>());
}

TEST(Faults, F05_side_effects_are_not_repeated_once_the_body_was_sent) {
  House house{", timeouts: {first_byte: 300ms}"};
  house.provider.script(R"([{"answer": {"delay_ms": 10000}}])");
  for (const char* path : {"/openai/v1/batches", "/openai/v1/files", "/openai/v1/some/endpoint/nobody/knows"}) {
    SCOPED_TRACE(path);
    house.provider.reset();
    house.provider.script(R"([{"answer": {"delay_ms": 10000}}])");
    EXPECT_EQ(http("POST", house.url(path), R"({"input_file_id":"f"})").status, 504);
    EXPECT_EQ(house.requests(), 1);
    const Json line = house.call_line();
    EXPECT_EQ(line.at("reason"), "not_replay_safe");
    EXPECT_TRUE(line.at("attempts").at(0).at("possibly_billed").get<bool>());
  }
}

TEST(Faults, F06_who_was_throttled_together_does_not_come_back_together) {
  constexpr std::size_t kCalls = 50;
  House house;
  house.provider.script(
      R"([{"match": {"times": 50}, "answer": {"hold": "all are here", "status": 429, "headers": [["retry-after", "1"]], "json": {"error": {"message": "slow down"}}}}])");
  std::vector<RawClient> clients;
  for (std::size_t i = 0; i < kCalls; ++i)
    clients.push_back(house.begin_chat(chat_saying("call<" + std::to_string(i) + ">")));
  // Refused all at once: the first refusal would hold back who comes later.
  house.provider.wait("held=50");
  house.provider.release("all are here");
  for (RawClient& client : clients) EXPECT_EQ(client.read_response().status, 200);

  const Json seen = house.provider.seen();
  ASSERT_EQ(seen.size(), 2 * kCalls);
  std::vector<double> returns;
  for (std::size_t i = 0; i < kCalls; ++i) {
    const std::string words = "call<" + std::to_string(i) + ">";
    std::vector<std::size_t> mine;
    for (std::size_t at = 0; at < seen.size(); ++at) {
      if (seen[at].at("body").get<std::string>().find(words) != std::string::npos) mine.push_back(at);
    }
    ASSERT_EQ(mine.size(), 2u) << words;
    EXPECT_GE(at_ms(seen, mine[1]) - at_ms(seen, mine[0]), 1'000.0) << "not before the hint is over";
    returns.push_back(at_ms(seen, mine[1]));
  }
  std::ranges::sort(returns);
  EXPECT_GE(returns.back() - returns.front(), 200.0);
  for (std::size_t i = 0; i < returns.size(); ++i) {
    const auto in_slice =
        std::ranges::upper_bound(returns, returns[i] + 20.0) - returns.begin() - static_cast<std::ptrdiff_t>(i);
    EXPECT_LE(in_slice, static_cast<std::ptrdiff_t>(kCalls / 3)) << "within 20 ms from " << returns[i];
  }
  EXPECT_EQ(house.awaited(kCalls, "callgate_backoff_wait_seconds_count", "source=\"retry_after\""), kCalls);
  EXPECT_EQ(house.awaited(kCalls, "callgate_retries_total", "class=\"rate_limited\""), kCalls);
}

TEST(Faults, F07_a_final_refusal_keeps_status_body_and_id) {
  House house{{}, "retry: {base: 10ms, bulk: {attempts: 2}}\n"};
  const auto refuse = [&](int status, const std::string& type, const std::string& body) {
    house.provider.script(R"([{"answer": {"status": )" + std::to_string(status) +
                          R"(, "headers": [["x-request-id", "req_7"], ["content-type", ")" + type +
                          R"("]], "body": )" + Json(body).dump() + "}}]");
    const Response answer = house.chat();
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.body, body);
    EXPECT_EQ(answer.header("x-request-id"), "req_7");
    EXPECT_EQ(answer.header("content-type"), type);
    EXPECT_EQ(answer.header("x-should-retry"), "false");
    EXPECT_EQ(answer.header("callgate-source"), "provider");
    EXPECT_FALSE(answer.reason.empty());
    const Json line = house.call_line();
    EXPECT_EQ(line.at("status"), status);
    EXPECT_EQ(line.at("attempts").back().at("provider_request_id"), "req_7");
  };
  for (const int status : {400, 401, 404, 409, 413, 422, 429, 500, 503, 529}) {
    SCOPED_TRACE(status);
    refuse(status,
           "application/json",
           "{\"error\":{\"message\":\"told " + std::to_string(status) + "\",\"type\":\"x\"}}");
  }
  refuse(502, "text/html", "<html>Bad gateway</html>");

  house.provider.script(R"([{"answer": {"drop": "rst"}}])");
  const Response ours = house.chat();
  EXPECT_EQ(ours.status, 502);
  EXPECT_EQ(ours.header("callgate-source"), "callgate") << "told apart from the provider's own";
  EXPECT_TRUE(Json::parse(ours.body).at("error").is_object());
}

TEST(Faults, F08_a_hint_beyond_what_we_wait_goes_back_at_once_and_unchanged) {
  House house{{}, "retry: {base: 10ms, longest_wait: 60s}\n"};
  house.provider.script(
      R"([{"answer": {"status": 429, "headers": [["retry-after", "171"]], "json": {"error": {"message": "slow down"}}}}])");
  const auto before = Clock::now();
  const Response answer = house.chat();
  EXPECT_LT(Clock::now() - before, 1s);
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.header("retry-after"), "171");
  EXPECT_EQ(answer.header("callgate-retry-after-ms"), "171000");
  EXPECT_EQ(house.requests(), 1);
  EXPECT_EQ(house.call_line().at("reason"), "hint_too_long");
  EXPECT_EQ(house.awaited(1, "callgate_retries_denied_total", "reason=\"hint_too_long\""), 1);
}

TEST(Faults, F09_a_hint_is_understood_in_every_form) {
  House house;
  const struct {
    const char* name;
    std::string headers;
    double at_least;  // Milliseconds to the second attempt. A hint is spread over one second behind it.
    double at_most;
  } kCases[] = {
      {"date ahead", R"([["retry-after", ")" + http_date(3s) + R"("]])", 1'500, 4'000},
      {"date past", R"([["retry-after", ")" + http_date(-30s) + R"("]])", 0, 1'000},
      {"fraction", R"([["retry-after", "1.5"]])", 1'500, 2'500},
      {"zero", R"([["retry-after", "0"]])", 0, 1'000},
      {"negative", R"([["retry-after", "-5"]])", 0, 10},
      {"words", R"([["retry-after", "soon"]])", 0, 10},
      {"overflow", R"([["retry-after", "99999999999999999999"]])", 0, 10},
      {"milliseconds", R"([["retry-after-ms", "1500"], ["retry-after", "1"]])", 1'500, 2'500},
  };
  std::string script;
  for (const auto& c : kCases) {
    script += script.empty() ? "[" : ", ";
    script += R"({"match": {"times": 1, "body_contains": ")" + std::string{c.name} +
              R"("}, "answer": {"status": 429, "headers": )" + c.headers +
              R"(, "json": {"error": {"message": "slow down"}}}})";
  }
  house.provider.script(script + "]");
  std::vector<RawClient> clients;
  for (const auto& c : kCases)
    // A model each: what one is told, all of its model are.
    clients.push_back(house.begin_chat(R"({"model":")" + std::string{c.name} + R"(","messages":[]})",
                                       {{"Callgate-Run-Id", std::string{c.name}.substr(0, 4)}}));
  for (RawClient& client : clients) EXPECT_EQ(client.read_response().status, 200);
  const Json seen = house.provider.seen();
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    std::vector<std::size_t> mine;
    for (std::size_t at = 0; at < seen.size(); ++at) {
      if (seen[at].at("body").get<std::string>().find(c.name) != std::string::npos) mine.push_back(at);
    }
    ASSERT_EQ(mine.size(), 2u);
    const double waited = at_ms(seen, mine[1]) - at_ms(seen, mine[0]);
    EXPECT_GE(waited, c.at_least);
    EXPECT_LE(waited, c.at_most + 400) << "a loaded machine adds to it";
  }
  for (std::size_t i = 0; i < std::size(kCases); ++i) {
    const Json line = house.call_line();
    const bool junk = line.at("run_id") == "nega" || line.at("run_id") == "word" || line.at("run_id") == "over";
    if (junk) {
      EXPECT_NE(line.at("attempts").at(1).at("waited_for"), "retry_after") << line;
    }
  }
}

TEST(Faults, F10_every_refusal_that_time_will_cure_says_when) {
  const auto says_when = [](const Response& answer, const std::string& code) {
    SCOPED_TRACE(code);
    const std::string after = answer.header("retry-after");
    EXPECT_TRUE(!after.empty() && std::ranges::all_of(after, [](char c) { return c >= '0' && c <= '9'; })) << after;
    EXPECT_GE(std::stoi("0" + after), 1);
    EXPECT_LE(std::stoi("0" + after), 5) << "close to the true wait";
    EXPECT_EQ(answer.header("callgate-source"), "callgate");
    EXPECT_EQ(answer.header("callgate-retryable"), "true");
    EXPECT_NE(answer.body.find(code), std::string::npos) << answer.body;
  };
  House house{", limits: {concurrent: 1}",
              "retry: {bulk: {attempts: 1}}\nqueue: {total: 1, max_wait: {bulk: 400ms}}\n"};

  house.provider.script(
      R"([{"answer": {"status": 429, "headers": [["retry-after", "7"]], "json": {"error": {"message": "slow down"}}}}])");
  const Response theirs = house.chat();
  EXPECT_EQ(theirs.header("retry-after"), "7") << "the provider's own passes";
  EXPECT_EQ(theirs.header("callgate-source"), "provider");

  house.provider.script(R"([{"answer": {"hold": "door"}}])");
  const std::string other = R"({"model":"o9","messages":[]})";  // The first one is told to wait for 7 s.
  RawClient running = house.begin_chat(other);
  house.provider.wait("held=1");
  RawClient waiting = house.begin_chat(other);
  ASSERT_TRUE(support::eventually([&] { return house.figure("callgate_queue_depth") == 1; }));
  const Response full = house.chat(other);
  EXPECT_EQ(full.status, 429);
  says_when(full, "callgate_queue_full");
  const Response waited = waiting.read_response();
  EXPECT_EQ(waited.status, 429);
  says_when(waited, "callgate_queue_wait");
  EXPECT_EQ(house.awaited(2, "callgate_refusals_total"), 2);

  // Too much in memory: one body fits, two do not.
  House small{{}, "limits: {body_bytes: 1MiB, buffered_bytes: 1MiB}\n"};
  small.provider.script(R"([{"match": {"body_contains": "holder"}, "answer": {"hold": "door"}}])");
  RawClient holder = small.begin_chat(chat_saying("holder" + std::string(700'000, 'x')));
  small.provider.wait("held=1");
  const Response crowded = small.chat(chat_saying(std::string(700'000, 'x')));
  EXPECT_EQ(crowded.status, 503);
  EXPECT_EQ(crowded.header("callgate-class"), "local_memory");
  says_when(crowded, "callgate_memory");
  small.provider.release("door");
  EXPECT_EQ(holder.read_response().status, 200);

  RawClient late = house.begin_chat(other);
  ASSERT_TRUE(support::eventually([&] { return house.figure("callgate_queue_depth") == 1; }));
  house.callgate.process().signal(15);
  const Response drained = late.read_response();
  EXPECT_EQ(drained.status, 503);
  says_when(drained, "callgate_draining");
  house.provider.release("door");
  EXPECT_EQ(running.read_response().status, 200);
}

}  // namespace faults_retries_test
