// Goal: the faults of the field around secrets, addresses, framing and shared answers are not ours (docs/faults.md).
// Method: each fault's own trigger; a look at all that was said, and at every place that was contacted.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace faults_security_test {

using Json = nlohmann::json;
using support::chat_saying;
using support::FakeProvider;
using support::House;
using support::http;
using support::kStream;
using support::kUnary;
using support::RawClient;
using support::request_text;
using support::Response;
using namespace std::chrono_literals;

TEST(Faults, F25_a_transient_failure_is_not_what_the_next_call_gets) {
  House house{{}, "retry: {base: 5ms, bulk: {attempts: 2}}\n"};
  std::vector<std::pair<std::string, std::string>> key = {{"Idempotency-Key", "job-1:step-2"}};
  for (const char* failure : {"503", "429", "408", R"({"stream": [{"say": "x"}, {"close": "rst"}]})"}) {
    SCOPED_TRACE(failure);
    key[0].second += "'";  // The successes are kept.
    house.provider.script(R"([{"answer": )" + std::string{failure} + "}]");
    const Response failed = house.chat(kStream, key);
    EXPECT_TRUE(failed.status >= 400 || failed.end != Response::End::Complete);
    house.provider.script("[]");
    const Response again = house.chat(kStream, key);
    EXPECT_EQ(again.status, 200);
    EXPECT_EQ(again.end, Response::End::Complete);
    EXPECT_TRUE(again.body.ends_with("data: [DONE]\n\n"));
  }
  EXPECT_EQ(house.requests(), 3 * 2 + 1 + 4);

  // What is remembered for a moment, so that SDKs which retry whatever we say cost no attempts, is soon forgotten.
  House remembers{{}, "retry: {base: 5ms, bulk: {attempts: 2}}\nmemo: {final_failure: 300ms}\n"};
  remembers.provider.script(R"([{"answer": 503}])");
  EXPECT_EQ(remembers.chat(kStream, key).status, 503);
  remembers.provider.script("[]");
  EXPECT_TRUE(support::eventually([&] { return remembers.chat(kStream, key).status == 200; }));
}

TEST(Faults, F36_no_secret_is_ever_said) {
  const std::string more =
      "  nowhere: {url: http://no-such-host.invalid, dialect: openai}\n"
      "log: {level: debug}\nretry: {base: 5ms, bulk: {attempts: 2}}\n";
  House house{", timeouts: {first_byte: 200ms}", more};
  const std::vector<std::pair<std::string, std::string>> secrets = {{"Authorization", "Bearer sk-CANARY1"},
                                                                    {"x-api-key", "sk-ant-CANARY2"},
                                                                    {"x-goog-api-key", "CANARY3"},
                                                                    {"api-key", "CANARY4"},
                                                                    {"Cookie", "session=CANARY5"},
                                                                    {"Proxy-Authorization", "Basic CANARY6"}};
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"CANARY7"}]})";
  // The provider repeats the key in its error, as some do.
  house.provider.script(R"([
      {"match": {"nth": 1}, "answer": "default"},
      {"match": {"nth": 1}, "answer": {"status": 401, "json": {"error": {"message": "Incorrect API key provided: sk-CANARY1", "code": "sk-CANARY1", "param": "sk-CANARY1"}}}},
      {"match": {"nth": 1}, "answer": {"drop": "rst"}},
      {"match": {"body_contains": "stream"}, "answer": {"stream": [{"say": "CANARY8"}, {"data": {"error": {"message": "sk-CANARY1"}}}, {"close": "rst"}]}},
      {"answer": {"hang": true}}])");
  std::string ours;  // All that callgate itself says.
  const auto ask = [&](const std::string& path, const std::string& text) {
    const Response answer = http("POST", house.url(path + "?key=CANARY9&alt=json"), text, secrets);
    for (const auto& [name, value] : answer.headers) ours += name + ": " + value + "\n";
    if (answer.header("callgate-source") == "callgate") ours += answer.body + "\n";
    return answer;
  };
  const std::string chat = "/openai/v1/chat/completions";
  EXPECT_EQ(ask(chat, body).status, 200);
  EXPECT_EQ(ask(chat, body).status, 401);
  ask(chat, body);                                                              // A reset, then a timeout.
  EXPECT_EQ(ask(chat, body).status, 504);                                       // Timeouts.
  ask(chat, R"({"model":"m","stream":true,"messages":[]})");                    // Breaks off.
  EXPECT_EQ(ask("/nowhere/v1/chat/completions", body).status, 502);             // DNS.
  EXPECT_EQ(ask("/no-such-upstream/v1/chat/completions", body).status, 404);    // Refused before it is a call.
  EXPECT_EQ(ask("/gemini/v1beta/models/g:generateContent", body).status, 504);  // Where a key in the query is usual.
  EXPECT_EQ(http("POST", house.url(chat), body, {{"Callgate-Lane", "CANARY-no-lane"}}).status, 400);
  ours += house.scrape();
  ours += support::http_get(house.callgate.health_url() + "/readyz").body;
  // A crash leaves nothing of them either.
  house.callgate.process().signal(SIGABRT);
  house.callgate.process().wait();
  for (const std::string& line : house.callgate.process().lines()) ours += line + "\n";
  ours += house.callgate.process().err();
  const auto at = ours.find("CANARY");
  EXPECT_EQ(at, std::string::npos) << ours.substr(at < 200 ? 0 : at - 200, 400);
  EXPECT_GT(std::ranges::count(ours, '\n'), 50) << "or nothing was looked at";
}

TEST(Faults, F37_no_request_names_its_own_upstream) {
  House house;
  const FakeProvider evil;
  const std::string place = "127.0.0.1:" + std::to_string(evil.port());
  const auto raw =
      [&](const std::string& target, const std::string& more = {}, const std::string& host = "127.0.0.1") {
        RawClient client{house.callgate.data_port()};
        client.send("POST " + target + " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer sk-key\r\n" + more +
                    "Content-Length: " + std::to_string(kUnary.size()) + "\r\n\r\n" + kUnary);
        return client.read_response().status;
      };
  const std::string chat = "/openai/v1/chat/completions";
  // Harmless: they go where the configuration says.
  for (const char* header :
       {"X-Forwarded-Host", "Forwarded", "X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Server", "Callgate"}) {
    EXPECT_EQ(raw(chat, std::string{header} + ": " + place + "\r\n"), 200) << header;
  }
  EXPECT_EQ(raw(chat + "?api_base=http://" + place + "&base_url=http://" + place), 200);
  const std::string naming =
      R"({"model":"m","api_base":"http://)" + place + R"(","base_url":"http://)" + place + R"(","messages":[]})";
  EXPECT_EQ(house.chat(naming).status, 200);
  // Odd forms are refused.
  EXPECT_EQ(raw("http://" + place + chat), 200) << "a name of ours, whatever the port: to the configured upstream";
  EXPECT_EQ(raw("https://" + place + chat), 400);
  EXPECT_EQ(raw("http://127.0.0.1@evil.example" + chat), 403);
  EXPECT_EQ(raw(chat, {}, "evil.example"), 403);
  EXPECT_EQ(raw(chat, {}, "evil@127.0.0.1"), 403);
  EXPECT_EQ(raw(chat, "Origin: http://" + place + "\r\n"), 403);
  EXPECT_EQ(raw(chat, "Host: " + place + "\r\n"), 400);
  EXPECT_EQ(raw("@" + place + chat), 400);
  for (const char* path : {"/openai/../v1/chat/completions",
                           "/openai/%2e%2e/v1/chat/completions",
                           "/openai/%2E./v1/chat/completions",
                           "/openai/v1/..%2fchat",
                           "/openai/v1/%2e%2e%2Fchat",
                           "/openai/v1/%5c..%5cchat",
                           "/openai\\..\\chat"}) {
    EXPECT_EQ(raw(path), 400) << path;
  }
  EXPECT_EQ(raw("/openai/v1/..;/chat"), 404) << "a name like others: the provider's own 404";
  EXPECT_EQ(raw("//" + place + "/v1/chat/completions"), 404);
  EXPECT_EQ(raw("//evil.example/../v1/chat/completions"), 400);
  EXPECT_EQ(raw("/" + place + "/v1/chat/completions"), 404);
  EXPECT_EQ(raw("/http://" + place + "/v1/chat/completions"), 404);

  EXPECT_EQ(evil.stats().at("connections_total"), 0) << "nobody else was contacted";
  const Json seen = house.provider.seen();
  std::size_t hosts = 0;
  for (const Json& request : seen) {
    for (const Json& header : request.at("headers")) {
      if (header.at(0) == "Host") {
        ++hosts;
        EXPECT_EQ("http://" + header.at(1).get<std::string>(), house.provider.url());
      }
    }
    const std::string target = request.at("target").get<std::string>();
    EXPECT_TRUE(target.starts_with("/v1/")) << target;
    EXPECT_EQ(target.find("/../"), std::string::npos) << target;
  }
  EXPECT_EQ(hosts, seen.size());

  // A provider that leads elsewhere is not followed with the key.
  house.provider.script(R"([{"answer": {"status": 307, "headers": [["Location", "http://)" + place +
                        R"(/v1/chat/completions"]], "body": ""}}])");
  EXPECT_GE(house.chat().status, 400);
  EXPECT_EQ(evil.stats().at("connections_total"), 0);
}

TEST(Faults, F38_two_readers_of_a_request_agree_where_it_ends) {
  House house;
  const std::string line = "POST /openai/v1/chat/completions HTTP/1.1\r\n";
  const std::string host = "Host: 127.0.0.1\r\n";
  const std::string smuggled = "POST /openai/v1/smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}";
  const std::vector<std::string> kTwoWays = {
      line + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      line + host + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
      line + host + "Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}",
      line + host + "Content-Length: 2, 9\r\n\r\n{}",
      line + host + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
      line + host + "Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n",
      line + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
      line + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
      line + host + "X: a\r\n Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}",
      line + host + "Content-Length: 2\n\n{}",
      line + host + "X: a\rTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
      line + host + "Content Length: 2\r\n\r\n",
      "POST /openai/v1/chat/completions HTTP/1.1\nHost: 127.0.0.1\nContent-Length: 2\n\n{}",
  };
  for (const std::string& head : kTwoWays) {
    SCOPED_TRACE(testing::PrintToString(head));
    RawClient client{house.callgate.data_port()};
    client.send(head + smuggled);
    const Response refused = client.read_response();
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(client.read_to_end(), Response::End::Fin) << "and the connection is closed";
  }
  EXPECT_EQ(house.requests(), 0);

  // What is well formed is framed anew, and hop-by-hop headers end here.
  RawClient client{house.callgate.data_port()};
  client.send(line + host +
              "Transfer-Encoding: chunked\r\nConnection: X-Mine, keep-alive\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n"
              "TE: trailers\r\nTrailer: X-Late\r\nProxy-Connection: close\r\nUpgrade: h2c\r\n\r\n" +
              "2\r\n{}\r\n0\r\nX-Late: 1\r\n\r\n" + smuggled);
  EXPECT_EQ(client.read_response().status, 200);
  client.read_response();  // The second one is a request of its own, and known as such.
  const Json seen = house.provider.seen();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].at("body"), "{}");
  EXPECT_EQ(seen[1].at("target"), "/v1/smuggled");
  for (const Json& request : seen) EXPECT_FALSE(request.contains("malformed"));
  for (const Json& header : seen[0].at("headers")) {
    std::string name = header.at(0).get<std::string>();
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const char* hop :
         {"transfer-encoding", "x-mine", "keep-alive", "te", "trailer", "proxy-connection", "upgrade", "x-late"}) {
      EXPECT_NE(name, hop);
    }
  }
}

TEST(Faults, F38_two_readers_of_an_answer_agree_where_it_ends) {
  House house{", timeouts: {idle: 400ms}", "retry: {base: 5ms, bulk: {attempts: 1}}\n"};
  const std::string json =
      R"({"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"true"},"finish_reason":"stop"}]})";
  const std::string length = std::to_string(json.size());
  const std::string poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
  const auto chunked = [&](const std::string& body) {
    char size[16];
    std::snprintf(size, sizeof size, "%zx", body.size());
    return std::string{size} + "\r\n" + body + "\r\n0\r\n\r\n";
  };
  const std::string type = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
  const std::vector<std::string> kTwoWays = {
      type + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(json),
      type + "Content-Length: " + length + "\r\nContent-Length: 4\r\n\r\n" + json,
      type + "Content-Length: " + length + "\r\nContent-Length: " + length + "\r\n\r\n" + json,
      type + "Content-Length: " + length + ", 4\r\n\r\n" + json,
      type + "Transfer-Encoding:\tchunked\r\n\r\n" + chunked(json),
      type + "Transfer-Encoding : chunked\r\n\r\n" + chunked(json),
      type + "Transfer-Encoding: xchunked\r\n\r\n" + chunked(json),
      type + "X: a\r\n folded\r\nContent-Length: " + length + "\r\n\r\n" + json,
      "HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: " + length + "\n\n" + json,
      type + "X: a\rContent-Length: 4\r\nContent-Length: " + length + "\r\n\r\n" + json,
      type + "X Y: z\r\nContent-Length: " + length + "\r\n\r\n" + json,
      type + "Content-Length: " + length +
          "\r\nConnection: X-Mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: close\r\nUpgrade: "
          "h2c\r\n\r\n" +
          json,
  };
  for (const std::string& answer : kTwoWays) {
    SCOPED_TRACE(testing::PrintToString(answer.substr(0, 200)));
    house.provider.script(R"([{"match": {"times": 1}, "answer": {"raw": )" + Json(answer + poison).dump() + "}}]");
    RawClient client = house.begin_chat();
    const Response first = client.read_response();
    EXPECT_EQ(first.end, Response::End::Complete);
    if (first.status == 200) {
      EXPECT_EQ(first.body, json) << "framed anew";
    } else {
      EXPECT_TRUE(first.status == 502 || first.status == 504) << "or refused, or awaited in vain: " << first.status;
    }
    for (const char* hop : {"x-mine", "keep-alive", "proxy-connection", "upgrade", "transfer-encoding"}) {
      EXPECT_EQ(first.header(hop), "") << hop;
    }
    // Whoever comes next gets an answer to the own question.
    client.send(request_text("POST", "/openai/v1/chat/completions", kUnary));
    const Response second = client.read_response();
    EXPECT_EQ(second.status, 200);
    EXPECT_EQ(second.body.find("poison"), std::string::npos);
    EXPECT_NE(second.body.find("hello"), std::string::npos);
  }
}

TEST(Faults, F39_equal_requests_are_executions_of_their_own) {
  House house;
  const auto ask = [&](const std::string& tenant) {
    return house.chat(
        kUnary, {{"Callgate-Tenant", tenant}, {"Idempotency-Key", "same"}, {"Authorization", "Bearer " + tenant}});
  };
  const Response a = ask("a");
  const Response b = ask("b");
  EXPECT_EQ(house.requests(), 2);
  EXPECT_NE(Json::parse(a.body).at("id"), Json::parse(b.body).at("id")) << "each has its own answer";
  EXPECT_EQ(house.scrape().find("Bearer"), std::string::npos);
}

}  // namespace faults_security_test
