// The real executable between a real client and the scriptable provider: wiring, as few as will do.
// The story's own logic is tested in virtual time (tests/gateway/call_story_test.cpp).

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/harness.h"

namespace {

using Json = nlohmann::json;
using support::Callgate;
using support::FakeProvider;
using support::http;
using support::RawClient;
using support::request_text;
using support::Response;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const std::string kUnary = R"({"model":"gpt-5","messages":[{"role":"user","content":"hi"}]})";
const std::string kStream = R"({"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]})";

std::string config_for(const FakeProvider& provider, const std::string& more = {}) {
  return "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\n"
         "upstreams:\n"
         "  openai: {url: " +
         provider.url() +
         ", timeouts: {first_byte: 2s, idle: 2s}}\n"
         "  anthropic: {url: " +
         provider.url() +
         "}\n"
         "  gemini: {url: " +
         provider.url() +
         "}\n"
         "retry:\n"
         "  base: 10ms\n" +
         more;
}

struct House {
  explicit House(const std::string& more = {}) : callgate(config_for(provider, more)) {}
  [[nodiscard]] std::string chat() const { return callgate.data_url() + "/openai/v1/chat/completions"; }
  Json call_line() { return callgate.process().json_line("call"); }
  FakeProvider provider{};
  Callgate callgate;
};

TEST(EndToEnd, a_unary_answer_passes_byte_for_byte_with_our_headers_beside_it) {
  House house;
  const Response direct = http("POST", house.provider.url() + "/v1/chat/completions", kUnary);
  const Response answer =
      http("POST",
           house.chat(),
           kUnary,
           {{"Authorization", "Bearer sk-canary"}, {"Callgate-Run-Id", "job-42"}, {"X-Empty", ""}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.end, Response::End::Complete);
  EXPECT_EQ(Json::parse(answer.body).at("choices"), Json::parse(direct.body).at("choices"));
  EXPECT_EQ(answer.header("callgate-attempts"), "1");
  EXPECT_EQ(answer.header("callgate-source"), "provider");
  EXPECT_FALSE(answer.header("callgate-input-tokens").empty());
  EXPECT_FALSE(answer.header("x-request-id").empty()) << "the provider's own id passes";

  const Json seen = house.provider.seen();
  const Json& request = seen.at(1);
  const std::string headers = request.at("headers").dump();
  EXPECT_NE(headers.find("Bearer sk-canary"), std::string::npos);
  EXPECT_EQ(headers.find("allgate"), std::string::npos) << "nothing of ours reaches the provider: " << headers;
  EXPECT_NE(headers.find("X-Empty"), std::string::npos);
  EXPECT_EQ(request.at("body"), kUnary);

  const Json line = house.call_line();
  EXPECT_EQ(line.at("call_id"), answer.header("callgate-call-id"));
  EXPECT_EQ(line.at("run_id"), "job-42");
  EXPECT_EQ(line.at("outcome"), "answered");
  EXPECT_EQ(line.dump().find("sk-canary"), std::string::npos);
}

TEST(EndToEnd, a_stream_passes_and_its_usage_is_known_though_nobody_asked) {
  House house;
  const Response answer = http("POST", house.chat(), kStream);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.end, Response::End::Complete);
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(answer.body.find("\"choices\":[]"), std::string::npos) << "the extra chunk was ours alone";
  const Json line = house.call_line();
  EXPECT_TRUE(line.at("usage").is_object()) << line;
  EXPECT_NE(house.provider.seen().at(0).at("body").get<std::string>().find("include_usage"), std::string::npos);
}

TEST(EndToEnd, a_resumable_upload_stays_with_us) {
  House house;
  house.provider.script(
      R"([{"match":{"path":"/upload/v1beta/files","times":1},"answer":{"status":200,"headers":[["x-goog-upload-url",")" +
      house.provider.url() + R"(/upload/v1beta/files?upload_id=7"]],"body":"{}"}},
    {"match":{"path":"/upload/v1beta/files?upload_id=7"},"answer":{"status":200,"json":{"file":{"name":"files/1"}}}}])");
  const Response begun = http("POST", house.callgate.data_url() + "/upload/v1beta/files", "{}");
  const std::string url = begun.header("x-goog-upload-url");
  EXPECT_EQ(url, house.callgate.data_url() + "/gemini/upload/v1beta/files?upload_id=7");
  ASSERT_TRUE(url.starts_with(house.callgate.data_url()));
  EXPECT_EQ(http("POST", url, "bytes").status, 200);
  EXPECT_EQ(house.provider.seen().at(1).at("target"), "/upload/v1beta/files?upload_id=7");
}

TEST(EndToEnd, what_is_refused_before_it_is_a_call_has_its_line_and_its_id) {
  House house;
  const Response answer = http(
      "POST", house.callgate.data_url() + "/nobody/v1/x?key=canary", kUnary, {{"Callgate-Run-Id", "canary canary"}});
  EXPECT_EQ(answer.status, 404);
  const Json line = house.callgate.process().json_line("request_refused");
  EXPECT_EQ(line.at("call_id"), answer.header("callgate-call-id"));
  EXPECT_EQ(line.at("code"), "callgate_unknown_upstream");
  EXPECT_EQ(line.at("path"), "/nobody/v1/x");
  EXPECT_EQ(line.dump().find("canary"), std::string::npos);
}

TEST(EndToEnd, F16_the_usage_chunk_reaches_who_asked_for_it) {
  House house;
  const std::string asked =
      R"({"model":"gpt-5","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]})";
  EXPECT_NE(http("POST", house.chat(), asked).body.find("\"choices\":[]"), std::string::npos);
  const std::string refused =
      R"({"model":"gpt-5","stream":true,"stream_options":{"include_usage":false},"messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(http("POST", house.chat(), refused).body.find("\"choices\":[]"), std::string::npos);
}

TEST(EndToEnd, every_dialect_streams_to_its_end) {
  House house;
  const Response claude = http("POST",
                               house.callgate.data_url() + "/anthropic/v1/messages",
                               R"({"model":"claude","max_tokens":9,"stream":true,"messages":[]})");
  EXPECT_EQ(claude.end, Response::End::Complete);
  EXPECT_NE(claude.body.find("event: message_stop"), std::string::npos);
  const Response gemini =
      http("POST",
           house.callgate.data_url() + "/gemini/v1beta/models/gemini-3:streamGenerateContent?alt=sse",
           R"({"contents":[]})");
  EXPECT_EQ(gemini.end, Response::End::Complete);
  EXPECT_NE(gemini.body.find("finishReason"), std::string::npos);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(house.call_line().at("usage").is_object());
}

TEST(EndToEnd, F07_a_final_refusal_keeps_status_body_and_id) {
  House house{"  bulk: {attempts: 2}\n"};
  for (const int status : {400, 401, 404, 409, 413, 422, 429, 500, 503, 529}) {
    SCOPED_TRACE(status);
    const std::string body = "{\"error\":{\"message\":\"told " + std::to_string(status) + "\",\"type\":\"x\"}}";
    house.provider.script(
        R"([{"answer": {"status": )" + std::to_string(status) +
        R"(, "headers": [["x-request-id", "req_7"], ["content-type", "application/json"]], "body": )" +
        Json(body).dump() + "}}]");
    const Response answer = http("POST", house.chat(), kUnary);
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.body, body);
    EXPECT_EQ(answer.header("x-request-id"), "req_7");
    EXPECT_EQ(answer.header("x-should-retry"), "false");
    EXPECT_EQ(answer.header("callgate-source"), "provider");
    EXPECT_FALSE(answer.reason.empty());
  }
}

TEST(EndToEnd, an_error_hidden_in_a_200_is_repeated_unseen) {
  House house;
  house.provider.script(R"([{"match": {"times": 2}, "answer": {"stream": [{"error": 529}]}}])");
  const Response answer = http("POST", house.chat(), kStream);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("callgate-attempts"), "3");
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
}

TEST(EndToEnd, F01_a_stream_that_broke_after_content_is_not_begun_again) {
  House house;
  house.provider.script(
      R"([{"match": {"times": 1}, "answer": {"stream": [{"say": "one"}, {"say": "two"}, {"say": "three"}, {"close": "rst"}]}}])");
  const Response answer = http("POST", house.chat(), kStream);
  EXPECT_NE(answer.end, Response::End::Complete);
  EXPECT_EQ(answer.body.find("one"), answer.body.rfind("one"));
  EXPECT_NE(answer.body.find("three"), std::string::npos);
  EXPECT_NE(answer.body.find("callgate_stream_broken"), std::string::npos);
  EXPECT_EQ(house.provider.stats().at("requests"), 1);
}

TEST(EndToEnd, F12_small_events_are_not_collected) {
  House house;
  house.provider.script(R"([{"answer": {"stream": [{"say": "first"}, {"hold": "second"}, {"say": "second"}]}}])");
  RawClient client{house.callgate.data_port()};
  client.send(request_text("POST", "/openai/v1/chat/completions", kStream));
  Response answer = client.read_head();
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(client.read_until(answer, "first")) << "the first event is here before the second was sent";
  EXPECT_EQ(answer.body.find("second"), std::string::npos);
  house.provider.release("second");
  EXPECT_TRUE(client.read_until(answer, "second"));
}

TEST(EndToEnd, F11_bytes_cut_anywhere_by_the_network_stay_what_they_are) {
  House house;
  const std::string text = R"(["Grüße 世界 ", "🦀🦀 ", "日本語のテキスト"])";
  house.provider.script(R"([{"answer": {"say": )" + text + "}}]");
  const std::string whole = http("POST", house.chat(), kStream).body;
  for (const int piece : {1, 3, 4093}) {
    house.provider.script(R"([{"answer": {"say": )" + text + R"(, "piece_bytes": )" + std::to_string(piece) + "}}]");
    const Response answer = http("POST", house.chat(), kStream);
    EXPECT_EQ(answer.end, Response::End::Complete);
    EXPECT_NE(answer.body.find("🦀🦀"), std::string::npos);
    EXPECT_EQ(answer.body.size(), whole.size());
  }
}

TEST(EndToEnd, F13_a_time_limit_for_the_start_does_not_cut_a_long_stream) {
  House house;
  house.provider.script(R"([{"answer": {"stream": {"events": 12, "size": 60, "every_ms": 500}}}])");
  const auto before = Clock::now();
  const Response answer = http("POST", house.chat(), kStream, {}, 20s);
  EXPECT_GE(Clock::now() - before, 5s) << "longer than first_byte and idle, which are 2 s here";
  EXPECT_EQ(answer.end, Response::End::Complete);
}

TEST(EndToEnd, F14_a_stall_after_the_first_token_ends_visibly) {
  House house;
  house.provider.script(R"([{"answer": {"stream": [{"say": "one"}, {"say": "two"}, {"hang": true}]}}])");
  const auto before = Clock::now();
  const Response answer = http("POST", house.chat(), kStream);
  EXPECT_LT(Clock::now() - before, 5s);
  EXPECT_NE(answer.end, Response::End::Complete);
  EXPECT_NE(answer.body.find("timeouts.idle"), std::string::npos);
  house.provider.wait("open_requests=0");
}

TEST(EndToEnd, F04_the_deadline_bounds_all_attempts_together) {
  House house;
  house.provider.script(R"([{"answer": {"hang": true}}])");
  const auto before = Clock::now();
  const Response answer = http("POST", house.chat(), kUnary, {{"Callgate-Deadline", "3s"}});
  const auto took = Clock::now() - before;
  EXPECT_EQ(answer.status, 504);
  EXPECT_GE(took, 2900ms);
  EXPECT_LT(took, 4s);
  EXPECT_EQ(answer.header("callgate-class"), "timeout");
  EXPECT_LE(house.provider.stats().at("requests").get<int>(), 2);
}

TEST(EndToEnd, F08_F09_hints_are_honoured_in_every_form) {
  House house;
  struct Case {
    const char* headers;
    std::chrono::milliseconds at_least;
  };
  for (const Case& c : {Case{R"([["retry-after", "1"]])", 1000ms},
                        Case{R"([["retry-after-ms", "300"], ["retry-after", "9"]])", 300ms},
                        Case{R"([["retry-after", "0.4"]])", 400ms},
                        Case{R"([["retry-after", "soon"]])", 0ms},
                        Case{R"([["retry-after", "-5"]])", 0ms},
                        Case{R"([["retry-after", "99999999999999999999"]])", 0ms}}) {
    SCOPED_TRACE(c.headers);
    house.provider.reset();
    house.provider.script(R"([{"match": {"times": 1}, "answer": {"status": 429, "headers": )" +
                          std::string{c.headers} + R"(, "json": {"error": {"message": "slow"}}}}])");
    EXPECT_EQ(http("POST", house.chat(), kUnary).status, 200);
    const Json seen = house.provider.seen();
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_GE(seen[1].at("at_ms").get<double>() - seen[0].at("at_ms").get<double>(),
              static_cast<double>(c.at_least.count()) - 1);
  }
  house.provider.reset();
  house.provider.script(
      R"([{"answer": {"status": 429, "headers": [["retry-after", "171"]], "json": {"error": {"message": "slow"}}}}])");
  const auto before = Clock::now();
  const Response answer = http("POST", house.chat(), kUnary);
  EXPECT_LT(Clock::now() - before, 1s);
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.header("retry-after"), "171");
  EXPECT_EQ(house.provider.stats().at("requests"), 1);
}

TEST(EndToEnd, F05_an_endpoint_with_side_effects_is_not_repeated_once_its_body_was_sent) {
  House house;
  house.provider.script(R"([{"answer": {"hang": true}}])");
  const Response answer = http("POST", house.callgate.data_url() + "/openai/v1/batches", R"({"input_file_id":"f"})");
  EXPECT_EQ(answer.status, 504);
  EXPECT_EQ(house.provider.stats().at("requests"), 1);
  EXPECT_TRUE(house.call_line().at("attempts").at(0).at("possibly_billed").get<bool>());
}

TEST(EndToEnd, a_large_upload_arrives_whole_and_again_after_a_503) {
  House house;
  const std::string image(25'000'000, 'a');
  const std::string body = R"({"model":"gpt-5","messages":[{"role":"user","content":")" + image + "\"}]}";
  house.provider.script(R"([{"match": {"times": 1}, "answer": 503}])");
  EXPECT_EQ(http("POST", house.chat(), body, {}, 30s).status, 200);
  const Json seen = house.provider.seen();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].at("sha256"), seen[1].at("sha256"));
  EXPECT_EQ(seen[1].at("body_bytes"), body.size());
}

TEST(EndToEnd, a_chunked_multipart_upload_arrives_with_a_length) {
  House house;
  RawClient client{house.callgate.data_port()};
  client.send(
      "POST /openai/v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; "
      "boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n");
  std::string sent;
  for (int i = 0; i < 50; ++i) {
    const std::string piece = "--b piece " + std::to_string(i) + "\r\n";
    char size[16];
    std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
    client.send(size + piece + "\r\n");
    sent += piece;
  }
  client.send("0\r\n\r\n");
  EXPECT_EQ(client.read_response().end, Response::End::Complete);
  const Json seen = house.provider.seen().at(0);
  EXPECT_EQ(seen.at("body"), sent);
  EXPECT_EQ(seen.at("headers").dump().find("chunked"), std::string::npos);
}

TEST(EndToEnd, an_upload_over_the_limit_is_refused_in_the_dialect) {
  House house{"limits: {body_bytes: 1MiB}\n"};
  const Response answer =
      http("POST", house.callgate.data_url() + "/anthropic/v1/messages", std::string(2'000'000, 'x'));
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(Json::parse(answer.body).at("type"), "error") << answer.body;
  EXPECT_EQ(house.provider.stats().at("requests"), 0);
}

TEST(EndToEnd, F37_no_request_names_its_own_upstream) {
  House house;
  const auto raw = [&](const std::string& target, const std::string& host, const std::string& more = {}) {
    RawClient client{house.callgate.data_port()};
    client.send("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + more + "\r\n");
    return client.read_response().status;
  };
  EXPECT_EQ(raw("/openai/v1/models", "localhost", "X-Forwarded-Host: evil.example\r\n"), 200);
  EXPECT_EQ(raw("/openai/v1/models", "evil.example"), 403);
  EXPECT_EQ(raw("http://evil.example/openai/v1/models", "localhost"), 403);
  EXPECT_EQ(raw("/openai/../v1/models", "localhost"), 400);
  EXPECT_EQ(raw("/openai/%2e%2e/v1/models", "localhost"), 400);
  EXPECT_EQ(raw("/openai/v1/models", "localhost", "Origin: https://evil.example\r\n"), 403);
  EXPECT_EQ(raw("/evil.example/v1/models", "localhost"), 404);
  for (const Json& request : house.provider.seen()) {
    EXPECT_NE(request.at("headers").dump().find("127.0.0.1"), std::string::npos) << "Host is the configured one";
  }
}

TEST(EndToEnd, F27_who_goes_away_stops_the_providers_work) {
  House house{"  bulk: {attempts: 4}\n"};
  const std::string request = request_text("POST", "/openai/v1/chat/completions", kStream);
  for (const bool by_reset : {true, false}) {
    for (const char* answer : {R"({"hang": true})", R"({"stream": [{"say": "one"}, {"hang": true}]})"}) {
      SCOPED_TRACE(answer);
      house.provider.reset();
      house.provider.script(R"([{"answer": )" + std::string{answer} + "}]");
      RawClient client{house.callgate.data_port()};
      client.send(request);
      house.provider.wait("requests=1&open_requests=1");
      if (std::string{answer}.find("one") != std::string::npos) {
        Response head = client.read_head();
        ASSERT_TRUE(client.read_until(head, "one"));
      }
      const auto before = Clock::now();
      by_reset ? client.rst() : client.close();
      house.provider.wait("open_requests=0");
      EXPECT_LT(Clock::now() - before, 1s);
      const Json line = house.call_line();
      EXPECT_EQ(line.at("outcome"), "cancelled");
      EXPECT_EQ(line.at("status"), 499);
    }
  }
  // While it backs off: no further attempt.
  house.provider.reset();
  house.provider.script(R"([{"answer": {"status": 429, "headers": [["retry-after", "1"]], "json": {}}}])");
  RawClient client{house.callgate.data_port()};
  client.send(request);
  house.provider.wait("requests=1&open_requests=0");
  client.close();
  EXPECT_EQ(house.call_line().at("outcome"), "cancelled");
  EXPECT_EQ(house.provider.stats().at("requests"), 1);
}

TEST(EndToEnd, F31_a_stop_signal_lets_what_flies_land_and_takes_nothing_new) {
  House house{"shutdown: {drain: 8s}\n"};
  const std::string request = request_text("POST", "/openai/v1/chat/completions", kStream);
  house.provider.script(R"([
    {"match": {"body_contains": "waits"}, "answer": {"status": 429, "headers": [["retry-after", "30"]], "json": {}}},
    {"answer": {"stream": [{"say": "one"}, {"hold": "later"}, {"say": "two"}]}}])");
  std::vector<RawClient> streams;
  std::vector<Response> answers;
  for (int i = 0; i < 3; ++i) {
    streams.emplace_back(house.callgate.data_port());
    streams.back().send(request);
    answers.push_back(streams.back().read_head());
    ASSERT_TRUE(streams.back().read_until(answers.back(), "one"));
  }
  RawClient waiting{house.callgate.data_port()};
  waiting.send(request_text("POST", "/openai/v1/chat/completions", R"({"model":"waits","messages":[]})"));
  house.provider.wait("requests=4&open_requests=3");

  house.callgate.process().signal(SIGTERM);
  house.callgate.process().json_line("draining");
  const auto before = Clock::now();
  const Response gave_up = waiting.read_response();
  EXPECT_EQ(gave_up.status, 503);
  EXPECT_EQ(gave_up.header("callgate-class"), "local_draining");
  EXPECT_FALSE(gave_up.header("retry-after").empty());
  EXPECT_LT(Clock::now() - before, 1s);
  EXPECT_EQ(support::http_get(house.callgate.health_url() + "/readyz").status, 503);
  EXPECT_EQ(support::http_get(house.callgate.health_url() + "/livez").status, 200);
  EXPECT_THROW(RawClient{house.callgate.data_port()}, support::Failed) << "the listener is closed";

  house.provider.release("later");
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<std::size_t>(i);
    streams[at].read_rest(answers[at]);
    EXPECT_EQ(answers[at].end, Response::End::Complete);
    EXPECT_TRUE(answers[at].body.ends_with("data: [DONE]\n\n"));
  }
  EXPECT_EQ(house.callgate.process().wait(3s), 0) << "gone soon after the last";
}

TEST(EndToEnd, F31_past_the_drains_deadline_a_stream_ends_visibly) {
  House house{"shutdown: {drain: 300ms}\n"};
  house.provider.script(R"([{"answer": {"stream": [{"say": "one"}, {"hang": true}]}}])");
  RawClient client{house.callgate.data_port()};
  client.send(request_text("POST", "/openai/v1/chat/completions", kStream));
  Response answer = client.read_head();
  ASSERT_TRUE(client.read_until(answer, "one"));
  house.callgate.process().signal(SIGTERM);
  client.read_rest(answer);
  EXPECT_NE(answer.end, Response::End::Complete);
  EXPECT_NE(answer.body.find("callgate_stream_broken"), std::string::npos);
  EXPECT_EQ(house.callgate.process().wait(3s), 1);
  EXPECT_EQ(house.call_line().at("outcome"), "drained");
}

TEST(EndToEnd, F36_no_secret_is_ever_said) {
  House house{"log: {level: debug}\n"};
  const std::vector<std::pair<std::string, std::string>> secrets = {{"Authorization", "Bearer sk-CANARY1"},
                                                                    {"x-api-key", "CANARY2"},
                                                                    {"x-goog-api-key", "CANARY3"},
                                                                    {"Cookie", "CANARY4"}};
  house.provider.script(
      R"([{"match": {"times": 1}, "answer": "default"}, {"match": {"times": 1}, "answer": 401}, {"match": {"times": 1}, "answer": {"drop": "rst"}}])");
  std::string said;
  for (int i = 0; i < 4; ++i) {
    const Response answer =
        http("POST", house.chat() + "?key=CANARY5", R"({"model":"m","messages":[{"content":"CANARY6"}]})", secrets);
    said += answer.body;
    for (const auto& [name, value] : answer.headers) said += name + value;
  }
  said += support::http_get(house.callgate.health_url() + "/metrics").body;
  EXPECT_EQ(house.callgate.stop(), 0);
  for (const std::string& line : house.callgate.process().lines()) said += line;
  said += house.callgate.process().err();
  EXPECT_EQ(said.find("CANARY"), std::string::npos) << said.substr(said.find("CANARY") - 100, 200);
}

TEST(EndToEnd, F35_callers_texts_do_not_grow_the_scrape) {
  House house;
  const auto series = [&] {
    const std::string text = support::http_get(house.callgate.health_url() + "/metrics").body;
    return std::count(text.begin(), text.end(), '\n');
  };
  for (int i = 0; i < 30; ++i) http("POST", house.chat(), kUnary);
  const auto before = series();
  RawClient client{house.callgate.data_port()};
  for (int i = 0; i < 1'500; ++i) {
    const std::string odd = "m" + std::to_string(i) + std::string(i % 7 == 0 ? 4'000 : 3, 'x') + "\\\"\\n";
    client.send(
        request_text("POST",
                     "/openai/v1/path" + std::to_string(i),
                     "{\"model\":\"" + odd + "\"}",
                     {{"User-Agent", "agent " + std::to_string(i)}, {"Callgate-Tenant", "t" + std::to_string(i)}}));
    ASSERT_NE(client.read_response().status, 0);
    client.send(request_text("POST", "/openai/v1/chat/completions", "{\"model\":\"" + odd + "\",\"messages\":[]}"));
    ASSERT_NE(client.read_response().status, 0);
  }
  EXPECT_LT(series() - before, 2'000) << "at most fifty learned models, some lines each";
}

TEST(EndToEnd, a_provider_that_is_not_there_is_told_apart) {
  FakeProvider provider;
  Callgate callgate{
      "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nupstreams: {openai: {url: http://127.0.0.1:1}}\nretry: "
      "{base: 5ms}\n"};
  const Response answer = http("POST", callgate.data_url() + "/openai/v1/chat/completions", kUnary);
  EXPECT_EQ(answer.status, 502);
  EXPECT_EQ(answer.header("callgate-class"), "network");
  EXPECT_EQ(answer.header("callgate-source"), "callgate");
  EXPECT_EQ(answer.header("callgate-attempts"), "8");
  EXPECT_TRUE(Json::parse(answer.body).at("error").is_object());
}

TEST(EndToEnd, a_late_end_of_the_transfer_costs_neither_time_nor_the_connection) {
  House house;
  house.provider.script(
      R"([{"match": {"times": 1}, "answer": {"stream": [{"say": "x"}, {"data": "[DONE]"}, {"wait_ms": 300}]}}])");
  const auto before = Clock::now();
  const Response answer = http("POST", house.chat(), kStream);
  EXPECT_EQ(answer.end, Response::End::Complete);
  EXPECT_LT(Clock::now() - before, 250ms);
  house.provider.wait("open_requests=0");
  EXPECT_EQ(http("POST", house.chat(), kUnary).status, 200);
  const Json seen = house.provider.seen();
  EXPECT_EQ(seen[0].at("connection"), seen[1].at("connection"));
}

TEST(EndToEnd, health_tells_living_ready_and_draining_apart) {
  House house;
  EXPECT_EQ(support::http_get(house.callgate.health_url() + "/livez").status, 200);
  EXPECT_EQ(support::http_get(house.callgate.health_url() + "/readyz").status, 200);
  EXPECT_EQ(support::http_get(house.callgate.health_url() + "/metrics").status, 200);
  EXPECT_EQ(support::http_get(house.callgate.health_url() + "/openai/v1/models").status, 404);
}

}  // namespace
