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

namespace story_test {

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
         "  cohere: {url: " +
         provider.url() +
         "}\n"
         "retry:\n"
         "  base: 10ms\n" +
         more +
         // Of one call's story; what the last one left is another test's matter.
         "memo: {final_failure: 0s}\nbreaker: {min_calls: 1000000, consecutive: 1000000}\n";
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

TEST(EndToEnd, an_answer_that_fails_in_its_last_event_is_broken_off_where_sdks_would_take_that_for_an_end) {
  House house;
  for (
      const char* end :
      {R"({"send":"event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\"}}\n\n"})",
       R"({"send":"event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"TIMEOUT\"}}\n\n"},{"close":"rst"})"}) {
    house.provider.script(
        std::string{
            R"([{"answer":{"stream":[{"send":"event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"hel\"}}}}\n\n"},{"wait_ms":150},)"} +
        end + "]}}]");
    const Response answer = http("POST", house.callgate.data_url() + "/cohere/v2/chat", kStream);
    EXPECT_EQ(answer.status, 200);
    EXPECT_NE(answer.body.find("hel"), std::string::npos);
    EXPECT_EQ(answer.body.find("message-end"), std::string::npos) << answer.body;
    EXPECT_NE(answer.end, Response::End::Complete);
    EXPECT_EQ(house.call_line().at("outcome"), "failed");
  }
}

TEST(EndToEnd, an_answer_too_large_to_be_held_is_seen_to_be_cut) {
  House house{"answers: {hold_unary: 1KiB}\n"};
  const std::string whole =
      R"({"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"content":"\\\"{)" +
      std::string(5'000, 'x') + R"("},"finish_reason":"stop"}]})";
  for (const std::size_t size : {whole.size(), whole.size() - 1, whole.size() - 2, std::size_t{3'000}}) {
    for (const char* framing : {"chunked", "length", "close"}) {
      SCOPED_TRACE(std::to_string(size) + " " + framing);
      Json answer{{"headers", {{"Content-Type", "application/json"}}}, {"framing", framing}};
      answer["body"] = whole.substr(0, size);
      house.provider.script(Json::array({{{"answer", answer}}}).dump());
      const Response got = http("POST", house.chat(), kUnary);
      // With a length known the last piece is kept back, and here it is the only one: then there is a reset alone.
      EXPECT_TRUE(got.status == 200 || (got.status == 0 && size < whole.size())) << got.status;
      EXPECT_EQ(got.end == Response::End::Complete, size == whole.size());
      const Json line = house.call_line();
      EXPECT_EQ(line.at("class"), size == whole.size() ? "none" : "malformed_response") << line;
    }
  }
}

TEST(EndToEnd, a_stream_that_lacks_a_choice_is_not_whole) {
  House house;
  const std::string two = R"({"model":"gpt-5","stream":true,"n":2,"messages":[]})";
  const char* first =
      R"({"data":{"choices":[{"index":0,"delta":{"content":"hel"}}]}},{"data":{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}})";
  for (const char* end : {R"({"close":"rst"})", R"({"wait_ms":1})"}) {
    house.provider.script(std::string{R"([{"answer":{"stream":[)"} + first + "," + end + "]}}]");
    const Response got = http("POST", house.chat(), two);
    EXPECT_NE(got.end, Response::End::Complete) << got.body;
    EXPECT_EQ(house.call_line().at("outcome"), "failed");
  }
}

TEST(EndToEnd, what_failed_attempts_cost_is_told_too) {
  House house;
  house.provider.script(
      R"([{"answer":{"json":{"error":{"message":"overloaded","type":"overloaded_error"},"model":"gpt-5-mini","usage":{"prompt_tokens":1000,"completion_tokens":500}}}}])");
  const Response got = http("POST", house.chat(), kUnary, {{"Callgate-Lane", "interactive"}});
  const Json line = house.call_line();
  ASSERT_TRUE(line.at("cost_usd").is_string()) << line;
  EXPECT_EQ(got.header("callgate-cost-usd"), line.at("cost_usd"));
}

TEST(EndToEnd, searches_and_a_stated_cost_reach_header_and_line) {
  House house;
  house.provider.script(
      R"([{"answer":{"json":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":1000,"output_tokens":100,"service_tier":"standard","server_tool_use":{"web_search_requests":2}}}}}])");
  const Response searched = http("POST",
                                 house.callgate.data_url() + "/anthropic/v1/messages",
                                 R"({"model":"claude-sonnet-4-5","max_tokens":9,"messages":[]})");
  EXPECT_EQ(searched.header("callgate-cost-usd"), "0.0245") << "tokens, and two searches at 0.01 each";
  const Json line = house.call_line();
  EXPECT_EQ(line.at("cost_usd"), "0.0245");
  EXPECT_EQ(line.at("billed"), (Json{{"web_searches", 2}}));
  EXPECT_EQ(line.at("attempts").at(0).at("cost_source"), "table");
  EXPECT_EQ(line.at("attempts").at(0).at("cost_tier"), "standard");

  house.provider.script(
      R"([{"answer":{"json":{"id":"gen-1","object":"chat.completion","model":"no/such-model","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2300,"completion_tokens":40,"total_tokens":2340,"cost":0.0079}}}}])");
  const Response stated = http("POST", house.chat(), kUnary);
  EXPECT_EQ(stated.header("callgate-cost-usd"), "0.0079");
  const Json other = house.call_line();
  EXPECT_EQ(other.at("cost_usd"), "0.0079");
  EXPECT_EQ(other.at("attempts").at(0).at("cost_source"), "provider");
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
  EXPECT_EQ(line.at("status"), 404) << "a number, as in the lines of calls";
  EXPECT_EQ(line.dump().find("canary"), std::string::npos);
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

TEST(EndToEnd, an_error_hidden_in_a_200_is_repeated_unseen) {
  House house;
  house.provider.script(R"([{"match": {"times": 2}, "answer": {"stream": [{"error": 529}]}}])");
  const Response answer = http("POST", house.chat(), kStream);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("callgate-attempts"), "3");
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
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

}  // namespace story_test
