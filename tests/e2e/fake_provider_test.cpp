// Goal: what other tests rely on when they order a fault or read a record is what happens on the wire.
// Method: the real program, a client that sees each byte, and conditions instead of sleep.

#include <gtest/gtest.h>
#include <signal.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/harness.h"

namespace fake_provider_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using support::FakeProvider;
using support::http;
using support::http_get;
using support::Process;
using support::RawClient;
using support::request_text;
using support::Response;
using support::TempDir;
using End = Response::End;
using Json = nlohmann::json;

const std::string kChat = "/v1/chat/completions";
const std::string kStreamed = R"({"model":"gpt-5-mini","stream":true})";
const std::string kStreamedWithUsage =
    R"({"model":"gpt-5-mini","stream" : true,"stream_options":{"include_usage":true}})";

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

/// The client may have its answer before the provider knows that it has been sent.
Json ended(const FakeProvider& provider, std::size_t which = 0) {
  provider.wait("ended=" + std::to_string(which + 1));
  return provider.seen().at(which).at("ended");
}

// What it says on its own

enum class Kind { Unary, Stream, Lines };
struct Dialect {
  std::string path, body;
  Kind kind;
  std::vector<std::string> says;
};

TEST(FakeProvider, answers_each_dialect_as_its_provider_would) {
  const FakeProvider provider;
  const std::string kPromptAboutStreams = R"({"messages":["\"stream\": true"]})";
  const std::string kGemini = "/v1beta/models/gem-1:";
  const Dialect kDialects[] = {
      {kChat, R"({"model":"m-1"})", Kind::Unary, {R"("model":"m-1")", R"("content":"hello")"}},
      {kChat, kPromptAboutStreams, Kind::Unary, {R"("total_tokens":11)"}},
      {kChat, kStreamed, Kind::Stream, {R"("content":"hel")", R"("content":"lo")", "data: [DONE]\n\n"}},
      {"/openai" + kChat, kStreamed, Kind::Stream, {"[DONE]"}},
      {"/v1/responses", "{}", Kind::Unary, {R"("status":"completed")", R"("text":"hello")"}},
      {"/v1/responses", kStreamed, Kind::Stream, {"event: response.created\n", R"("sequence_number":4)"}},
      {"/v1/responses", kStreamed, Kind::Stream, {"event: response.completed\n", R"("sequence_number":9)"}},
      {"/v1/embeddings", "{}", Kind::Unary, {R"("embedding":[)"}},
      {"/v1/messages", "{}", Kind::Unary, {R"("type":"message")", R"("output_tokens":2)"}},
      {"/v1/messages", kStreamed, Kind::Stream, {"event: message_start\n", "event: message_stop\n"}},
      {"/v1/messages/count_tokens", "{}", Kind::Unary, {R"({"input_tokens":9})"}},
      {kGemini + "generateContent", "{}", Kind::Unary, {R"("modelVersion":"gem-1")", R"("text":"hello")"}},
      {kGemini + "streamGenerateContent?alt=sse", "{}", Kind::Stream, {R"("text":"hel")", "\r\n\r\n"}},
      {kGemini + "streamGenerateContent", "{}", Kind::Unary, {"[{", "}]"}},
      {"/v2/chat", "{}", Kind::Unary, {R"("finish_reason":"COMPLETE")"}},
      {"/v2/chat", kStreamed, Kind::Stream, {"event: content-delta\n", "[DONE]"}},
      {"/v2/embed", "{}", Kind::Unary, {R"("float":[[0.5)", R"("billed_units":{"input_tokens":9})"}},
      {"/v1/embed", "{}", Kind::Unary, {R"("embeddings":[[0.5)"}},
      {"/v2/rerank", "{}", Kind::Unary, {R"("search_units":1)"}},
      {"/v1/chat", "{}", Kind::Unary, {R"("text":"hello")"}},
      {"/v1/chat", kStreamed, Kind::Lines, {R"("event_type":"stream-start")", R"("text":"hel")", R"("stream-end")"}},
      {kChat, R"({"model":"mistral-small","stream":true})", Kind::Stream, {R"("stop"}],"usage":{)"}},
      {"/v1/fim/completions", kStreamed, Kind::Stream, {"[DONE]"}},
      {"/v1/embeddings", R"({"encoding_format":"base64"})", Kind::Unary, {R"("embedding":"AAAAPwAAgL4AAAA+")"}},
      {"/v1/moderations", "{}", Kind::Unary, {R"("flagged":false)"}},
      {kGemini + "embedContent", "{}", Kind::Unary, {R"("embedding":{)"}},
      {kGemini + "batchEmbedContents", "{}", Kind::Unary, {R"("embeddings":[{)"}},
      {"/api/chat", R"({"stream":false})", Kind::Unary, {R"("content":"hello")", R"("eval_count":2)"}},
      {"/api/chat", "{}", Kind::Lines, {R"("content":"hel"})", "\"done\":false}\n", R"("done":true)"}},
      {"/api/generate", R"({"stream":false})", Kind::Unary, {R"("response":"hello")"}},
      {"/api/generate", "{}", Kind::Lines, {R"("response":"lo")", R"("prompt_eval_count":9)"}},
      {"/api/embed", "{}", Kind::Unary, {R"("embeddings":[[)"}},
      {"/api/embeddings", "{}", Kind::Unary, {R"("embedding":[)"}},
  };
  for (const auto& dialect : kDialects) {
    SCOPED_TRACE(dialect.path + " " + dialect.body);
    const bool unary = dialect.kind == Kind::Unary;
    const auto answer = http("POST", provider.url() + dialect.path, dialect.body);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.end, End::Complete);
    const std::string type = answer.header("content-type");
    EXPECT_EQ(type.starts_with("text/event-stream"), dialect.kind == Kind::Stream) << type;
    EXPECT_EQ(type == "application/json", unary) << type;
    for (const auto& part : dialect.says) EXPECT_NE(answer.body.find(part), std::string::npos) << answer.body;
    EXPECT_EQ(answer.body.find('$'), std::string::npos) << "a word was not filled in: " << answer.body;
    EXPECT_EQ(Json::accept(answer.body), unary) << answer.body;
  }
  EXPECT_EQ(http_get(provider.url() + "/v1/models").status, 200);
  EXPECT_EQ(http("POST", provider.url() + "/v1/nothing", "{}").status, 404);
}

TEST(FakeProvider, tells_usage_in_a_chat_stream_only_when_asked) {
  const FakeProvider provider;
  EXPECT_EQ(count(http("POST", provider.url() + kChat, kStreamed).body, "usage"), 0U);
  const auto asked = http("POST", provider.url() + kChat, kStreamedWithUsage).body;
  EXPECT_EQ(count(asked, R"("usage":null)"), 4U);
  EXPECT_EQ(count(asked, R"("choices":[],"usage":{"prompt_tokens":9)"), 1U);
}

TEST(FakeProvider, sends_every_event_of_a_stream_as_a_chunk_of_its_own) {
  const FakeProvider provider;
  const auto answer = http("POST", provider.url() + kChat, kStreamed);
  EXPECT_EQ(answer.header("transfer-encoding"), "chunked");
  EXPECT_EQ(answer.pieces.size(), 4U);
}

// Which answer

TEST(FakeProvider, chooses_the_first_rule_that_fits) {
  const FakeProvider provider;
  provider.script(R"([
    {"match": {"method": "GET"}, "answer": 501},
    {"match": {"path": "/exact"}, "answer": 502},
    {"match": {"path": "/pre*"}, "answer": 503},
    {"match": {"path": "/query?a=1"}, "answer": 504},
    {"match": {"header": {"X-Key": "b"}}, "answer": 401},
    {"match": {"body_contains": "needle"}, "answer": 402},
    {"match": {"path": "/n", "nth": 2}, "answer": 403},
    {"match": {"path": "/n", "times": 2}, "answer": 409},
    {"match": {"path": "/n"}, "answer": {"status": 418, "reason": "I am a teapot", "body": ""}}
  ])");
  const auto status = [&](const std::string& method,
                          const std::string& target,
                          const std::string& body = "",
                          const std::vector<std::pair<std::string, std::string>>& headers = {}) {
    return http(method, provider.url() + target, body, headers).status;
  };
  EXPECT_EQ(status("GET", "/exact"), 501);
  EXPECT_EQ(status("POST", "/exact"), 502);
  EXPECT_EQ(status("POST", "/exact?with=query"), 502);
  EXPECT_EQ(status("POST", "/exactly"), 404);
  EXPECT_EQ(status("POST", "/prefix"), 503);
  EXPECT_EQ(status("POST", "/query?a=1"), 504);
  EXPECT_EQ(status("POST", "/query?a=2"), 404);
  EXPECT_EQ(status("POST", "/k", "", {{"x-key", "b"}}), 401);
  EXPECT_EQ(status("POST", "/k", "", {{"x-key", "a"}}), 404);
  EXPECT_EQ(status("POST", "/k", "hay needle hay"), 402);
  EXPECT_EQ(status("POST", "/n"), 409);
  EXPECT_EQ(status("POST", "/n"), 403);
  EXPECT_EQ(status("POST", "/n"), 409);
  const auto last = http("POST", provider.url() + "/n");
  EXPECT_EQ(last.status, 418);
  EXPECT_EQ(last.reason, "I am a teapot");
}

TEST(FakeProvider, gives_answers_in_sequence_and_stays_with_the_last) {
  const FakeProvider provider;
  provider.script(R"([{"answers": [503, 429, "default"]}])");
  const auto status = [&] { return http("POST", provider.url() + "/v1/messages", "{}").status; };
  EXPECT_EQ(status(), 503);
  EXPECT_EQ(status(), 429);
  EXPECT_EQ(status(), 200);
  EXPECT_EQ(status(), 200);
}

TEST(FakeProvider, draws_answers_by_weight_and_repeats_the_draw_for_a_seed) {
  const FakeProvider provider;
  const auto draw = [&](int seed) {
    provider.script(R"([{"answers": [503, "default"], "weights": [1, 3], "seed": )" + std::to_string(seed) + "}]");
    std::string drawn;
    for (int i = 0; i < 60; ++i) {
      drawn += http("POST", provider.url() + "/v1/messages", "{}").status == 503 ? 'x' : '.';
    }
    return drawn;
  };
  const auto first = draw(7);
  EXPECT_EQ(draw(7), first);
  EXPECT_NE(draw(8), first);
  EXPECT_GT(count(first, "x"), 4U);
  EXPECT_LT(count(first, "x"), 30U);
}

TEST(FakeProvider, refuses_a_script_with_a_typo_and_names_the_place) {
  const FakeProvider provider;
  provider.script(R"([{"answer": 503}])");
  const std::pair<std::string, std::string> kCases[] = {
      {R"([{"answer": {"statsu": 503}}])", "rule 0.answer.statsu: unknown"},
      {R"([{"answer": 200}, {"match": {"pth": "/"}, "answer": 200}])", "rule 1.match.pth: unknown"},
      {R"([{"answers": []}])", "rule 0.answers: must be a list of at least one"},
      {R"([{}])", "rule 0: needs either an answer or answers"},
      {R"([{"answer": {"cut_by": "axe"}}])", "rule 0.answer.cut_by: must be fin, rst or notify"},
      {R"([{"answer": {"delay_ms": -1}}])", "rule 0.answer.delay_ms: must be a whole number, 0 or more"},
      {R"([{"answer": {"body": "a", "json": {}}}])", "rule 0.answer: has more than one body"},
      {R"([{"answer": {"stream": [{"sayy": "a"}]}}])", "rule 0.answer.stream[0].sayy: unknown"},
      {R"([{"answers": [200, 503], "weights": [1]}])", "rule 0.weights: must be a list of numbers, one for each"},
      {R"({"on_connect": "bite"})", "script.on_connect: must be serve"},
      {"[", "no JSON"},
  };
  for (const auto& [script, problem] : kCases) {
    SCOPED_TRACE(script);
    try {
      provider.script(script);
      ADD_FAILURE() << "was accepted";
    } catch (const support::Failed& refusal) {
      EXPECT_NE(std::string{refusal.what()}.find(problem), std::string::npos) << refusal.what();
    }
  }
  EXPECT_EQ(http("POST", provider.url() + kChat).status, 503) << "the old script should have stayed";
}

TEST(FakeProvider, fills_in_what_a_script_leaves_out) {
  const FakeProvider provider;
  provider.script(R"([{"answer": {"say": ["Grüße, ", "\"世界\""], "usage": {"input": 25, "output": 3},
                                  "headers": [["X-Odd-SPELLING", "1"], ["X-Odd-SPELLING", "2"]]}}])");
  const auto unary = http("POST", provider.url() + "/v1/messages", "{}");
  EXPECT_EQ(Json::parse(unary.body).at("content").at(0).at("text"), "Grüße, \"世界\"");
  EXPECT_EQ(Json::parse(unary.body).at("usage").at("input_tokens"), 25);
  EXPECT_EQ(std::count_if(unary.headers.begin(),
                          unary.headers.end(),
                          [](const auto& header) { return header.first == "X-Odd-SPELLING"; }),
            2);
  const auto stream = http("POST", provider.url() + kChat, kStreamedWithUsage);
  EXPECT_NE(stream.body.find("Grüße, "), std::string::npos);
  EXPECT_NE(stream.body.find(R"("prompt_tokens":25,"completion_tokens":3,"total_tokens":28)"), std::string::npos);

  provider.script(R"([{"answer": 529}])");
  EXPECT_EQ(Json::parse(http("POST", provider.url() + "/v1/messages", "{}").body).at("error").at("type"),
            "overloaded_error");
  EXPECT_EQ(Json::parse(http("POST", provider.url() + "/v1beta/models/g:generateContent", "{}").body)
                .at("error")
                .at("status"),
            "UNAVAILABLE");
}

TEST(FakeProvider, breaks_a_stream_with_the_error_of_the_dialect_and_says_nothing_more) {
  const FakeProvider provider;
  provider.script(R"([{"answer": {"stream": [{"say": "hel"}, {"error": 529}]}}])");
  const auto openai = http("POST", provider.url() + kChat, kStreamed).body;
  EXPECT_NE(openai.find(R"("content":"hel")"), std::string::npos);
  EXPECT_TRUE(openai.ends_with("\"code\":\"server_is_overloaded\"}}\n\n")) << openai;
  const auto anthropic = http("POST", provider.url() + "/v1/messages", kStreamed).body;
  EXPECT_NE(anthropic.find("event: message_start\n"), std::string::npos);
  EXPECT_NE(anthropic.find("event: error\n"), std::string::npos);
  EXPECT_EQ(anthropic.find("message_stop"), std::string::npos);
}

TEST(FakeProvider, sends_scripted_events_as_they_stand) {
  const FakeProvider provider;
  provider.script(
      R"([{"answer": {"stream": ["plain", {"data": {"b": 1, "a": [2]}, "event": "name", "id": "7"},
                                             {"send": ": comment\n"}, {"send_b64": "/wA="}]}}])");
  const std::string bytes{"data: plain\n\nevent: name\nid: 7\ndata: {\"a\":[2],\"b\":1}\n\n: comment\n\xff\0", 66};
  EXPECT_EQ(http("POST", provider.url() + "/any").body, bytes);
}

TEST(FakeProvider, makes_streams_of_any_length_at_an_even_pace) {
  const FakeProvider provider;
  provider.script(R"([{"answer": {"stream": {"events": 20, "size": 300, "every_ms": 5}}}])");
  const auto before = Clock::now();
  const auto answer = http("POST", provider.url() + kChat, kStreamed);
  EXPECT_GE(Clock::now() - before, 95ms);
  EXPECT_EQ(std::count_if(answer.pieces.begin(), answer.pieces.end(), [](auto piece) { return piece.bytes == 300; }),
            20);
  EXPECT_EQ(answer.pieces.size(), 22U) << "begin and finish belong to the stream";
  EXPECT_TRUE(answer.body.ends_with("[DONE]\n\n"));

  provider.script(R"([{"answer": {"stream": {"events": 20000, "size": 200}}}])");
  EXPECT_EQ(count(http("POST", provider.url() + "/v1/messages", kStreamed).body, "\"text_delta\""), 20000U);
}

std::string unpacked(std::string_view packed) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string text(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  inflate(&stream, Z_SYNC_FLUSH);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST(FakeProvider, packs_bodies_and_each_event_of_a_stream) {
  const FakeProvider provider;
  provider.script(R"([{"match": {"path": "/v1/messages"}, "answer": {"gzip": true}},
                      {"answer": {"gzip": true, "stream": ["one", {"hold": "gate"}, "two"]}}])");
  const auto unary = http("POST", provider.url() + "/v1/messages", "{}");
  EXPECT_EQ(unary.header("content-encoding"), "gzip");
  EXPECT_EQ(unary.header("content-length"), std::to_string(unary.body.size()));
  EXPECT_TRUE(Json::accept(unpacked(unary.body)));

  RawClient client{provider.port()};
  client.send(request_text("POST", "/any"));
  auto stream = client.read_head();
  EXPECT_EQ(stream.header("content-encoding"), "gzip");
  provider.wait("held=1");
  EXPECT_FALSE(client.read_until(stream, "not there", 50ms));
  EXPECT_EQ(unpacked(stream.body), "data: one\n\n");
  provider.release("gate");
  client.read_rest(stream);
  EXPECT_EQ(stream.end, End::Complete);
  EXPECT_EQ(unpacked(stream.body), "data: one\n\ndata: two\n\n");
}

// Faults to the byte

TEST(FakeProvider, cuts_an_answer_at_any_byte_and_says_so) {
  const FakeProvider provider;
  RawClient whole_client{provider.port()};
  whole_client.send(request_text("POST", "/v1/messages", "{}", {{"Connection", "close"}}));
  whole_client.read_response();
  const std::size_t whole = ended(provider).at("answered_bytes");
  for (const std::string by : {"fin", "rst"}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{40}, whole - 1, whole}) {
      SCOPED_TRACE(by + " at " + std::to_string(at));
      provider.reset();
      provider.script(R"([{"answer": {"cut_at": )" + std::to_string(at) + R"(, "cut_by": ")" + by + "\"}}]");
      RawClient client{provider.port()};
      client.send(request_text("POST", "/v1/messages", "{}"));
      if (at > 0) {
        EXPECT_EQ(client.read_exactly(at).substr(0, 8),
                  std::string{"HTTP/1.1 200"}.substr(0, std::min<std::size_t>(at, 8)));
      }
      EXPECT_EQ(client.read_to_end(), by == "fin" ? End::Fin : End::Rst);
      const auto end = ended(provider);
      EXPECT_EQ(end.at("answered_bytes"), at);
      EXPECT_EQ(end.at("closed_by"), "us");
    }
  }
}

TEST(FakeProvider, falls_silent_at_a_byte_and_keeps_the_socket_open) {
  const FakeProvider provider;
  provider.script(R"([{"answers": [{"hang_at": 30}, {"hang": true}]}])");
  for (const std::size_t bytes : {std::size_t{30}, std::size_t{0}}) {
    RawClient client{provider.port()};
    client.send(request_text("POST", "/v1/messages", "{}"));
    client.read_exactly(bytes);
    EXPECT_EQ(client.read_to_end(50ms), End::TimedOut);
    EXPECT_EQ(provider.stats().at("open_requests"), 1);
    client.close();
    provider.wait("open_requests=0&open_connections=0");
  }
  EXPECT_EQ(ended(provider, 0).at("answered_bytes"), 30);
  EXPECT_EQ(ended(provider, 1).at("answered_bytes"), 0);
}

TEST(FakeProvider, closes_before_answering) {
  const FakeProvider provider;
  provider.script(R"([{"answers": [{"drop": "fin"}, {"drop": "rst"}]}])");
  for (const auto end : {End::Fin, End::Rst}) {
    RawClient client{provider.port()};
    client.send(request_text("POST", "/v1/messages", "{}"));
    EXPECT_EQ(client.read_response().end, end);
  }
  provider.wait("open_connections=0");
}

TEST(FakeProvider, writes_in_pieces) {
  const FakeProvider provider;
  provider.script(R"([{"answers": [{"piece_bytes": 1}, {"piece_bytes": 100, "piece_gap_ms": 10}]}])");
  EXPECT_TRUE(http("POST", provider.url() + "/v1/messages", kStreamed).body.ends_with("\"message_stop\"}\n\n"));
  const auto before = Clock::now();
  const auto unary = http("POST", provider.url() + "/v1/messages", "{}");
  EXPECT_TRUE(Json::accept(unary.body));
  EXPECT_GE(Clock::now() - before, 30ms);
}

TEST(FakeProvider, frames_as_it_is_told_even_wrongly) {
  const FakeProvider provider;
  provider.script(R"([{"answers": [
    {"body": "hello", "framing": "chunked"},
    {"body": "hello", "framing": "close"},
    {"body": "hello", "content_length": 9, "close": "fin"},
    {"body": "hello", "content_length": 9, "close": "rst"},
    {"body": "hello", "headers": [["Content-Length", "3"], ["Content-Length", "4"]], "close": "fin"},
    {"raw": "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\nok"},
    {"status": 204}
  ]}])");
  const auto ask = [&] { return http("POST", provider.url() + "/any"); };
  const auto chunked = ask();
  EXPECT_EQ(chunked.header("transfer-encoding"), "chunked");
  EXPECT_EQ(chunked.body, "hello");
  const auto closed = ask();
  EXPECT_EQ(closed.header("content-length") + closed.header("transfer-encoding"), "");
  EXPECT_EQ(closed.body, "hello");
  EXPECT_EQ(closed.end, End::Complete);
  EXPECT_EQ(ask().end, End::Fin);
  EXPECT_EQ(ask().end, End::Rst);
  EXPECT_EQ(count(Json(ask().headers).dump(), "Content-Length"), 2U);
  EXPECT_EQ(ask().body, "ok");
  const auto nothing = ask();
  EXPECT_EQ(nothing.status, 204);
  EXPECT_EQ(nothing.header("content-length"), "");
}

TEST(FakeProvider, plays_an_answer_step_by_step) {
  const FakeProvider provider;
  provider.script(R"([{"answer": [
    {"interim": 103, "headers": [["Link", "</a>"]]},
    {"head": {"status": 201, "headers": [["X-A", "1"]]}},
    {"send": "one"}, {"say": "hel"}, {"hold": "gate"}, {"raw": "3\r\ntwo\r\n"}, {"end": true}
  ]}])");
  RawClient client{provider.port()};
  client.send(request_text("POST", "/any"));
  auto answer = client.read_head();
  EXPECT_EQ(answer.interim, std::vector{103});
  EXPECT_EQ(answer.status, 201);
  EXPECT_TRUE(client.read_until(answer, "hel"));
  EXPECT_EQ(answer.end, End::Open);
  provider.wait("held=1");
  provider.release("gate");
  client.read_rest(answer);
  EXPECT_EQ(answer.end, End::Complete);
  EXPECT_EQ(answer.body, "onedata: \"hel\"\n\ntwo");
}

TEST(FakeProvider, answers_before_the_body_has_been_sent) {
  const FakeProvider provider;
  provider.script(R"([{"answer": {"status": 413, "read": "head"}}])");
  RawClient client{provider.port()};
  const std::string head = "POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
  client.send(head);
  EXPECT_EQ(client.read_response().status, 413);
  EXPECT_EQ(provider.seen().at(0).at("body_complete"), false);
  client.send("0123456789" + head);  // What is left of it, and another one on the same connection.
  EXPECT_EQ(client.read_response().status, 413);
  EXPECT_EQ(provider.seen().at(0).at("body"), "0123456789");
}

TEST(FakeProvider, leaves_an_upload_in_the_socket_and_still_sees_the_client_go) {
  const FakeProvider provider;
  provider.script(R"([{"answer": {"read": "nothing", "hang": true}}])");
  RawClient client{provider.port()};
  client.send("POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
  provider.wait("requests=1");
  EXPECT_FALSE(client.try_send(std::string(100'000'000, 'x'), 200ms));
  client.rst();
  provider.wait("open_connections=0");
  EXPECT_EQ(ended(provider).at("closed_by"), "peer_rst");
  EXPECT_LT(provider.seen().at(0).at("body_bytes"), 100'000);
}

TEST(FakeProvider, says_100_continue_to_who_waits_for_it) {
  const FakeProvider provider;
  RawClient client{provider.port()};
  client.send("POST /v1/messages HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_exactly(25), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("{}");
  EXPECT_EQ(client.read_response().status, 200);

  provider.script(R"([{"answer": {"status": 413, "read": "head", "close": "fin"}}])");
  RawClient refused{provider.port()};
  refused.send("POST /v1/messages HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  const auto answer = refused.read_response();
  EXPECT_EQ(answer.status, 413);
  EXPECT_TRUE(answer.interim.empty());
}

// Keep-alive

TEST(FakeProvider, keeps_connections_alive_and_counts_them) {
  const FakeProvider provider;
  RawClient client{provider.port()};
  client.send(request_text("POST", "/v1/messages", "{}") + request_text("GET", "/v1/models"));  // Pipelined.
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_EQ(client.read_response().status, 200);
  client.send(request_text("GET", "/v1/models", "", {{"Connection", "close"}}));
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_EQ(client.read_to_end(), End::Fin);
  client.close();
  const auto stats = provider.wait("open_connections=0&ended=3");
  EXPECT_EQ(stats.at("connections_total"), 1);
  EXPECT_EQ(provider.seen().at(2).at("connection"), 1);
  EXPECT_TRUE(ended(provider, 0).at("closed_by").is_null());
  EXPECT_EQ(ended(provider, 2).at("closed_by"), "us");
}

TEST(FakeProvider, closes_an_idle_connection_at_the_worst_moment) {
  const FakeProvider provider;
  for (const std::string how : {"fin", "rst"}) {
    provider.reset();
    provider.script(R"([{"answer": {"close_when_next_request_arrives": ")" + how + "\"}}]");
    RawClient client{provider.port()};
    client.send(request_text("POST", "/v1/messages", "{}"));
    EXPECT_EQ(client.read_response().status, 200);
    client.send(request_text("POST", "/v1/messages", "{}"));
    const auto answer = client.read_response();
    EXPECT_EQ(answer.status, 0);
    EXPECT_EQ(answer.end, how == "fin" ? End::Fin : End::Rst);
    provider.wait("ended=2");
    EXPECT_EQ(ended(provider, 1).at("answered_bytes"), 0);
    EXPECT_EQ(ended(provider, 1).at("closed_by"), "us");
  }
}

TEST(FakeProvider, closes_an_idle_connection_after_a_while) {
  const FakeProvider provider;
  for (const char* how : {"", R"(, "close_idle_by": "fin")", R"(, "close_idle_by": "rst")"}) {
    provider.script(R"([{"answer": {"close_idle_ms": 40)" + std::string{how} + "}}]");
    RawClient client{provider.port()};
    const auto before = Clock::now();
    client.send(request_text("POST", "/v1/messages", "{}"));
    EXPECT_EQ(client.read_response().status, 200);
    EXPECT_EQ(client.read_to_end(), std::string_view{how}.ends_with("\"rst\"") ? End::Rst : End::Fin);
    EXPECT_GE(Clock::now() - before, 40ms);
  }
}

TEST(FakeProvider, drops_connections_from_outside) {
  const FakeProvider provider;
  provider.script(R"([{"match": {"path": "/v1/messages"}, "answer": {"hang": true}}])");
  RawClient busy{provider.port()};
  busy.send(request_text("POST", "/v1/messages", "{}"));
  RawClient idle{provider.port()};
  idle.send(request_text("GET", "/v1/models"));
  idle.read_response();
  provider.wait("requests=2&open_requests=1");
  provider.drop("fin", true);
  EXPECT_EQ(idle.read_to_end(), End::Fin);
  EXPECT_EQ(provider.stats().at("open_requests"), 1);
  provider.drop("rst");
  EXPECT_EQ(busy.read_to_end(), End::Rst);
  provider.wait("open_requests=0");
}

TEST(FakeProvider, misbehaves_at_connecting) {
  const FakeProvider provider;
  provider.script(R"({"on_connect": "fin"})");
  EXPECT_EQ(RawClient{provider.port()}.read_to_end(), End::Fin);
  provider.script(R"({"on_connect": "rst"})");
  EXPECT_EQ(RawClient{provider.port()}.read_to_end(), End::Rst);
  provider.script(R"({"on_connect": "hang"})");
  {
    RawClient client{provider.port()};
    client.send(request_text("GET", "/v1/models"));
    EXPECT_EQ(client.read_response(50ms).end, End::TimedOut);
  }
  provider.wait("open_connections=0");
  provider.script(R"({"on_connect": "refuse"})");
  EXPECT_THROW(RawClient{provider.port()}, support::Failed);
  provider.reset();
  EXPECT_EQ(http_get(provider.url() + "/v1/models").status, 200);
  EXPECT_EQ(provider.seen().size(), 1U);
}

// Records

TEST(FakeProvider, notices_at_once_who_leaves_in_mid_stream_and_how) {
  const FakeProvider provider;
  for (const bool by_reset : {false, true}) {
    provider.reset();
    provider.script(R"([{"answer": {"stream": ["one", {"hang": true}]}}])");
    RawClient client{provider.port()};
    client.send(request_text("POST", "/any"));
    auto answer = client.read_head();
    EXPECT_TRUE(client.read_until(answer, "one"));
    const double left_at = provider.stats().at("now_ms");
    if (by_reset) {
      client.rst();
    } else {
      client.close();
    }
    provider.wait("ended=1&open_connections=0");
    const auto end = ended(provider);
    EXPECT_EQ(end.at("closed_by"), by_reset ? "peer_rst" : "peer_fin");
    EXPECT_LT(end.at("at_ms").get<double>() - left_at, 1000.0);
    EXPECT_GT(end.at("answered_bytes"), 0);
  }
}

TEST(FakeProvider, records_requests_as_they_were) {
  const FakeProvider provider;
  RawClient client{provider.port()};
  const std::string bytes = "\xff\xfe";
  client.send(
      "POST /v1/messages?x=%20 HTTP/1.1\r\nHost: A\r\nx-B:  2 \r\nX-b: 1\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3;ext=1\r\nabc\r\n2\r\n" +
      bytes + "\r\n0\r\nTrailer: t\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 200);
  const auto record = provider.seen().at(0);
  EXPECT_EQ(record.at("id"), 1);
  EXPECT_EQ(record.at("method"), "POST");
  EXPECT_EQ(record.at("target"), "/v1/messages?x=%20");
  EXPECT_EQ(record.at("http"), "1.1");
  EXPECT_EQ(record.at("tls"), false);
  EXPECT_EQ(record.at("headers"),
            Json::parse(R"([["Host", "A"], ["x-B", "2"], ["X-b", "1"], ["Transfer-Encoding", "chunked"]])"));
  EXPECT_EQ(record.at("body_b64"), "YWJj//4=");
  EXPECT_EQ(record.at("body_bytes"), 5);
  EXPECT_EQ(record.at("sha256"), "a6cc1b84d99be7ae401e9d1aabb2c702859a9469689682e53e4004b5ae1f2f52");
  EXPECT_TRUE(record.at("rule").is_null());
  EXPECT_EQ(record.at("status"), 200);

  client.send(request_text("POST", "/v1/messages", std::string(100'000, 'x')));
  EXPECT_EQ(client.read_response().status, 200);
  const auto later = provider.seen(1);
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later.at(0).at("body").get<std::string>().size(), 65'536U);
  EXPECT_EQ(later.at(0).at("body_bytes"), 100'000);
}

TEST(FakeProvider, records_what_was_no_http) {
  const FakeProvider provider;
  const std::string kBad[] = {
      "nonsense\r\n\r\n",
      "GET / HTTP/1.1\r\nbad header\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
  };
  for (const auto& text : kBad) {
    SCOPED_TRACE(text);
    provider.reset();
    RawClient client{provider.port()};
    client.send(text);
    EXPECT_EQ(client.read_response().status, 400);
    EXPECT_EQ(client.read_to_end(), End::Fin);
    EXPECT_FALSE(provider.seen().at(0).at("malformed").get<std::string>().empty());
  }
}

TEST(FakeProvider, waits_for_conditions_and_tells_when_they_are_not_met) {
  const FakeProvider provider;
  EXPECT_THROW(provider.wait("requests=1", 20ms), support::Failed);
  EXPECT_THROW(provider.wait("reqests=1"), support::Failed);
  provider.script(R"([{"answer": {"hold": "gate"}}])");
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(provider.port()).send(request_text("POST", "/v1/messages", "{}"));
    provider.wait("held=" + std::to_string(i + 1));
  }
  EXPECT_EQ(provider.stats().at("open_requests"), 3);
  provider.release("gate", 1);
  EXPECT_EQ(clients[0].read_response().status, 200);
  EXPECT_EQ(provider.stats().at("held"), 2);
  clients[1].close();  // Who has left takes no permit.
  provider.wait("open_connections=2");
  provider.release("gate", 1);
  EXPECT_EQ(clients[2].read_response().status, 200);
  provider.release("gate");
  EXPECT_EQ(http("POST", provider.url() + "/v1/messages", "{}").status, 200) << "an open gate stays open";
}

TEST(FakeProvider, forgets_on_reset) {
  const FakeProvider provider;
  provider.script(R"([{"answer": 503}])");
  EXPECT_EQ(http("POST", provider.url() + "/v1/messages", "{}").status, 503);
  provider.reset();
  EXPECT_EQ(provider.stats().at("requests"), 0);
  EXPECT_TRUE(provider.seen().empty());
  EXPECT_EQ(http("POST", provider.url() + "/v1/messages", "{}").status, 200);
  EXPECT_EQ(provider.seen().at(0).at("id"), 1);
}

TEST(FakeProvider, counts_without_recording_if_asked) {
  const FakeProvider provider{{"--quiet-records"}};
  EXPECT_EQ(http_get(provider.url() + "/v1/models").status, 200);
  EXPECT_EQ(provider.stats().at("requests"), 1);
  EXPECT_TRUE(provider.seen().empty());
}

// TLS and HTTP/2

TEST(FakeProvider, makes_its_own_certificate) {
  const TempDir directory;
  const FakeProvider provider{{"--self-signed", directory.path()}};
  EXPECT_TRUE(provider.url().starts_with("https://"));
  for (const std::string host : {"localhost", "127.0.0.1"}) {
    const RawClient::Tls tls{.ca_file = directory.path() + "/ca.pem", .host = host};
    RawClient client{provider.port(), tls};
    client.send(request_text("POST", "/v1/messages", "{}", {{"Connection", "close"}}));
    EXPECT_EQ(client.read_response().status, 200);
    EXPECT_EQ(client.read_to_end(), End::Fin);
  }
  EXPECT_EQ(provider.seen().at(0).at("tls"), true);
  const RawClient::Tls stranger{.ca_file = directory.path() + "/ca.pem", .host = "example.org"};
  EXPECT_THROW((RawClient{provider.port(), stranger}), support::Failed);
}

TEST(FakeProvider, shows_a_bad_certificate_on_request) {
  const TempDir directory;
  const std::string ca = directory.path() + "/ca.pem";
  {
    const FakeProvider provider{{"--self-signed", directory.path(), "--cert-expired"}};
    EXPECT_THROW((RawClient{provider.port(), RawClient::Tls{.ca_file = ca}}), support::Failed);
  }
  const FakeProvider provider{{"--self-signed", directory.path(), "--cert-host", "example.org"}};
  EXPECT_THROW((RawClient{provider.port(), RawClient::Tls{.ca_file = ca}}), support::Failed);
  RawClient client{provider.port(), RawClient::Tls{.ca_file = ca, .host = "example.org"}};
  client.send(request_text("GET", "/v1/models"));
  EXPECT_EQ(client.read_response().status, 200);
}

TEST(FakeProvider, misbehaves_over_tls_too) {
  const TempDir directory;
  const FakeProvider provider{{"--self-signed", directory.path()}};
  const RawClient::Tls tls{.ca_file = directory.path() + "/ca.pem"};
  for (const std::string how : {"fin", "rst", "notify"}) {
    provider.script(R"([{"answer": {"cut_at": 50, "piece_bytes": 7, "cut_by": ")" + how + "\"}}]");
    RawClient client{provider.port(), tls};
    client.send(request_text("POST", "/v1/messages", "{}"));
    client.read_exactly(50);
    EXPECT_EQ(client.read_to_end(), how == "rst" ? End::Rst : End::Fin);
  }
  provider.reset();
  provider.script(R"([{"answer": {"stream": ["one", {"hang": true}]}}])");
  RawClient client{provider.port(), tls};
  client.send(request_text("POST", "/any"));
  auto answer = client.read_head();
  EXPECT_TRUE(client.read_until(answer, "one"));
  client.close();
  provider.wait("ended=1&open_connections=0");
  EXPECT_EQ(ended(provider).at("closed_by"), "peer_fin");
}

/// As much HTTP/2 as it takes to see frames: nothing is decoded but the static status 200.
class Http2Client {
 public:
  explicit Http2Client(RawClient client) : client_(std::move(client)) {
    client_.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, ""));
  }

  void request(std::uint32_t stream, const std::string& target, const std::string& body) {
    std::string fields;
    for (const auto& [name, value] : {std::pair<std::string, std::string>{":method", "POST"},
                                      {":scheme", "http"},
                                      {":authority", "a"},
                                      {":path", target}}) {
      fields += '\0';
      fields += static_cast<char>(name.size()) + name;
      fields += static_cast<char>(value.size()) + value;
    }
    client_.send(frame(kHeaders, kEndHeaders, stream, fields) + frame(kData, kEndStream, stream, body));
  }
  void cancel(std::uint32_t stream) { client_.send(frame(kRst, 0, stream, std::string{"\0\0\0\x08", 4})); }

  struct Answer {
    bool ok = false;  // Status 200.
    std::string body{};
    std::size_t data_frames = 0;
    bool complete = false;
    bool reset = false;
  };
  /// Until the stream has ended, or `text` has come.
  Answer read(std::uint32_t stream, const std::string& text = {}) {
    Answer answer;
    while (!answer.complete && !answer.reset && (text.empty() || answer.body.find(text) == std::string::npos)) {
      const auto head = client_.read_exactly(9);
      const auto byte = [&](std::size_t i) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(head[i]));
      };
      const auto payload = client_.read_exactly(byte(0) << 16 | byte(1) << 8 | byte(2));
      if ((byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8)) != stream) continue;
      if (byte(3) == kHeaders) answer.ok = payload.starts_with('\x88');
      if (byte(3) == kData) {
        answer.body += payload;
        ++answer.data_frames;
      }
      answer.reset = byte(3) == kRst;
      answer.complete = (byte(3) == kData || byte(3) == kHeaders) && (byte(4) & kEndStream) != 0;
    }
    return answer;
  }
  RawClient& client() { return client_; }

 private:
  static constexpr std::uint32_t kData = 0, kHeaders = 1, kRst = 3, kSettings = 4;
  static constexpr std::uint32_t kEndStream = 1, kEndHeaders = 4;
  static std::string frame(std::uint32_t type, std::uint32_t flags, std::uint32_t stream,
                           const std::string& payload) {
    std::string text;
    const auto size = static_cast<std::uint32_t>(payload.size());
    for (const auto byte :
         {size >> 16, size >> 8, size, type, flags, stream >> 24, stream >> 16, stream >> 8, stream}) {
      text += static_cast<char>(byte & 0xff);
    }
    return text + payload;
  }
  RawClient client_;
};

TEST(FakeProvider, speaks_http2_over_tls_and_by_prior_knowledge) {
  const TempDir directory;
  const FakeProvider over_tls{{"--self-signed", directory.path(), "--http2"}};
  const FakeProvider plain{{"--http2"}};
  const RawClient::Tls tls{.ca_file = directory.path() + "/ca.pem", .host = "localhost", .alpn = "h2"};
  for (const auto* provider : {&over_tls, &plain}) {
    SCOPED_TRACE(provider->url());
    Http2Client client{provider == &plain ? RawClient{plain.port()} : RawClient{over_tls.port(), tls}};
    client.request(1, "/v1/messages", kStreamed);
    const auto stream = client.read(1);
    EXPECT_TRUE(stream.ok);
    EXPECT_TRUE(stream.complete);
    EXPECT_TRUE(stream.body.ends_with("\"message_stop\"}\n\n")) << stream.body;
    EXPECT_GE(stream.data_frames, 4U);
    client.request(3, "/v1/messages", "{}");
    EXPECT_TRUE(Json::accept(client.read(3).body));
    provider->wait("ended=2&open_requests=0");
    const auto record = provider->seen().at(0);
    EXPECT_EQ(record.at("http"), "2");
    EXPECT_EQ(record.at("tls"), provider != &plain);
    EXPECT_EQ(record.at("body"), kStreamed);
    EXPECT_TRUE(record.at("ended").at("closed_by").is_null());
    EXPECT_EQ(provider->stats().at("connections_total"), 1);
  }
  // HTTP/1.1 goes on beside it.
  EXPECT_EQ(http_get(plain.url() + "/v1/models").status, 200);
}

TEST(FakeProvider, plays_scripts_on_http2_streams) {
  const FakeProvider provider{{"--http2"}};
  provider.script(R"([{"answers": [{"hold": "gate"}, {"stream": ["one", {"hang": true}]},
                                   {"body": "0123456789", "cut_at": 4, "cut_by": "rst"},
                                   {"body": "0123456789", "piece_bytes": 3},
                                   {"fill": 3000000}, {"drop": "fin"}]}])");
  Http2Client client{RawClient{provider.port()}};
  client.request(1, "/v1/messages", "{}");
  client.request(3, "/any", "");
  EXPECT_FALSE(client.read(3, "one").complete);
  provider.wait("held=1");
  provider.release("gate");
  EXPECT_TRUE(client.read(1).complete) << "a stream that hangs holds up no other";
  client.cancel(3);
  provider.wait("ended=2");
  EXPECT_EQ(ended(provider, 1).at("closed_by"), "peer_rst");

  client.request(5, "/any", "");
  const auto cut = client.read(5);
  EXPECT_TRUE(cut.reset);
  EXPECT_EQ(cut.body, "0123");
  client.request(7, "/any", "");
  const auto pieces = client.read(7);
  EXPECT_EQ(pieces.body, "0123456789");
  EXPECT_GE(pieces.data_frames, 4U);

  client.request(9, "/any", "");
  provider.wait("requests=5&ended=4&open_requests=1");  // It gets only as far as our window allows.
  client.cancel(9);
  client.request(11, "/any", "");
  EXPECT_EQ(client.client().read_to_end(), End::Fin);
  client.client().close();
  provider.wait("open_connections=0&open_requests=0");
}

// The process

TEST(FakeProvider, ends_when_its_standard_input_is_closed_or_by_sigterm) {
  FakeProvider leashed;
  leashed.process().close_stdin();
  EXPECT_EQ(leashed.process().wait(), 0);

  FakeProvider unleashed{{"--no-stdin-watch"}};
  unleashed.process().close_stdin();
  EXPECT_EQ(http_get(unleashed.url() + "/v1/models").status, 200);
  EXPECT_TRUE(unleashed.process().running());
  unleashed.process().signal(SIGTERM);
  EXPECT_EQ(unleashed.process().wait(), 0);
}

TEST(FakeProvider, ends_in_the_midst_of_its_work) {
  FakeProvider provider{{"--http2"}};
  provider.script(R"([{"answer": {"stream": ["one", {"hold": "gate"}]}}])");
  RawClient one{provider.port()};
  one.send(request_text("POST", "/any"));
  Http2Client two{RawClient{provider.port()}};
  two.request(1, "/any", "");
  provider.wait("held=2");
  provider.process().signal(SIGTERM);
  EXPECT_EQ(provider.process().wait(), 0) << provider.process().err();
}

TEST(FakeProvider, says_what_is_wrong_with_its_options) {
  for (const auto& words : {std::vector<std::string>{"--lisen", "1"},
                            {"--listen", "nowhere"},
                            {"--listen"},
                            {"--tls-cert", "a"},
                            {"--tls-cert", "a", "--tls-key", "b"}}) {
    std::vector<std::string> command{FAKE_PROVIDER_EXE};
    command.insert(command.end(), words.begin(), words.end());
    Process process{command};
    EXPECT_EQ(process.wait(), 1);
    EXPECT_NE(process.err().find("fake_provider: "), std::string::npos);
  }
}

}  // namespace fake_provider_test
