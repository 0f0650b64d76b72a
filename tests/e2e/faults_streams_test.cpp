// Goal: the faults of the field around streams, usage and encodings are not ours (docs/faults.md).
// Method: each fault's own trigger, times scaled down where only their ratio matters.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace faults_streams_test {

using Json = nlohmann::json;
using support::FakeProvider;
using support::House;
using support::http;
using support::kStream;
using support::kUnary;
using support::RawClient;
using support::request_text;
using support::Response;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

double ms_of(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

/// Of a chat stream with usage, as a provider sends it.
std::string chunk(const std::string& delta) {
  return R"(data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":")" +
         delta + "\"},\"finish_reason\":null}]}\n\n";
}
const std::string kUsageChunk =
    "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[],\"usage\":"
    "{\"prompt_tokens\":31,\"completion_tokens\":17,\"total_tokens\":48}}\n\n";

TEST(Faults, F11_bytes_cut_anywhere_by_the_network_stay_what_they_are) {
  House house;
  const std::string sent =
      chunk("Grüße 世界") + chunk("🦀🦀🇪🇺") + chunk("日本語のテキスト") +
      "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,"
      "\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
      kUsageChunk + "data: [DONE]\n\n";
  const std::string asked = R"({"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]})";
  for (const int piece : {1, 3, 4093}) {
    SCOPED_TRACE(piece);
    house.provider.script(
        R"([{"answer": {"headers": [["content-type", "text/event-stream"]], "framing": "chunked", "body": )" +
        Json(sent).dump() + R"(, "piece_bytes": )" + std::to_string(piece) + "}}]");
    const Response answer = house.chat(asked);
    EXPECT_EQ(answer.end, Response::End::Complete);
    EXPECT_EQ(answer.body, sent) << "byte for byte";
    const Json line = house.call_line();
    EXPECT_EQ(line.at("outcome"), "answered");
    EXPECT_EQ(line.at("usage").at("input"), 31);
    EXPECT_EQ(line.at("usage").at("output"), 17);
  }
}

/// When the events of a stream came, less the moments at which an even pace would have brought them, from the
/// earliest on: what of their way is not constant. In milliseconds, sorted.
std::vector<double> lateness(const Response& answer, std::chrono::milliseconds every) {
  std::vector<double> late;
  int number = 0;
  for (const Response::Piece& piece : answer.pieces) {
    late.push_back(ms_of(piece.at - answer.pieces.front().at) - static_cast<double>(number++) * ms_of(every));
  }
  const double earliest = *std::ranges::min_element(late);
  for (double& one : late) one -= earliest;
  std::ranges::sort(late);
  return late;
}

TEST(Faults, F12_small_events_are_not_collected) {
  House house;
  // The first one: it is here before the provider has sent anything else.
  house.provider.script(R"([{"answer": {"stream": [{"say": "first"}, {"hold": "second"}, {"say": "second"}]}}])");
  RawClient client = house.begin_chat(kStream);
  Response answer = client.read_head();
  EXPECT_TRUE(client.read_until(answer, "first"));
  EXPECT_EQ(answer.body.find("second"), std::string::npos);
  const auto released = Clock::now();
  house.provider.release("second");
  EXPECT_TRUE(client.read_until(answer, "second"));
  EXPECT_LT(Clock::now() - released, 1s);

  // All others: at the pace at which they are sent, beside the same stream without us, on the same machine.
  const std::string asked = R"({"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]})";
  house.provider.script(R"([{"answer": {"stream": {"events": 40, "size": 60, "every_ms": 100}}}])");
  const auto measure = [&] {
    Response theirs;
    std::thread beside{[&] { theirs = http("POST", house.provider.url() + "/v1/chat/completions", asked); }};
    Response ours = house.chat(asked);
    beside.join();
    EXPECT_EQ(ours.end, Response::End::Complete);
    if (ours.pieces.size() < 40 || theirs.pieces.size() < 41) {
      ADD_FAILURE() << "each event is a chunk of its own, not so in " << ours.pieces.size() << " chunks";
      return 1e9;
    }
    // Forty deltas, before them a begin (which we send with the first of them), behind them what has no pause.
    theirs.pieces.erase(theirs.pieces.begin());
    for (Response* stream : {&ours, &theirs}) stream->pieces.resize(40);
    const std::vector<double> late = lateness(ours, 100ms);
    const std::vector<double> baseline = lateness(theirs, 100ms);
    const double median = late[late.size() / 2] - baseline[baseline.size() / 2];
    const double worst = late.back() - baseline.back();
    return std::max(median / 20, worst / 100);
  };
  EXPECT_LT(support::calmest(1, measure), 1) << "20 ms at the median, 100 ms at the worst, above the baseline";
}

TEST(Faults, F13_limits_for_start_and_silence_do_not_cut_a_long_stream) {
  House house{", timeouts: {first_byte: 200ms, idle: 200ms}"};
  house.provider.script(R"([{"answer": {"stream": {"events": 80, "size": 60, "every_ms": 50}}}])");
  const auto before = Clock::now();
  const Response answer = house.chat(kStream);
  EXPECT_GE(Clock::now() - before, 3'800ms);
  EXPECT_EQ(answer.end, Response::End::Complete);
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(house.call_line().at("outcome"), "answered");
}

TEST(Faults, F13_a_total_limit_is_one_only_if_it_is_set) {
  House house{", timeouts: {total: 600ms}"};
  house.provider.script(R"([{"answer": {"stream": {"events": 80, "size": 60, "every_ms": 50}}}])");
  const auto before = Clock::now();
  const Response answer = house.chat(kStream);
  EXPECT_GE(Clock::now() - before, 500ms);
  EXPECT_LT(Clock::now() - before, 2s);
  EXPECT_NE(answer.end, Response::End::Complete);
  EXPECT_NE(answer.body.find("callgate_stream_broken"), std::string::npos) << "with an error event";
  house.provider.wait("open_requests=0");
  const Json line = house.call_line();
  EXPECT_EQ(line.at("class"), "timeout");
  EXPECT_EQ(line.at("attempts").at(0).at("detail"), "longer than timeouts.total");
}

TEST(Faults, F14_a_stall_after_the_first_token_ends_and_frees_all_it_held) {
  for (const bool comments : {false, true}) {
    SCOPED_TRACE(comments ? "a comment now and then" : "silence");
    House house{", limits: {concurrent: 1}, timeouts: {idle: 500ms}"};
    std::string steps = R"({"say": "one"}, {"say": "two"})";
    // Comments are a sign of life, but not for ever: five idle times.
    for (int i = 0; comments && i < 60; ++i) steps += R"(, {"send": ": ping\n\n", "after_ms": 100})";
    house.provider.script(R"([{"match": {"times": 1}, "answer": {"stream": [)" + steps + R"(, {"hang": true}]}}])");
    const auto before = Clock::now();
    const Response answer = house.chat(kStream);
    const auto took = Clock::now() - before;
    EXPECT_GE(took, comments ? 2'400ms : 450ms);
    EXPECT_LT(took, comments ? 4s : 2s);
    EXPECT_NE(answer.end, Response::End::Complete);
    EXPECT_NE(answer.body.find("two"), std::string::npos);
    EXPECT_NE(answer.body.find("callgate_stream_broken"), std::string::npos);
    EXPECT_NE(answer.body.find("timeouts.idle"), std::string::npos);
    house.provider.wait("open_requests=0", 1s);
    EXPECT_EQ(house.chat().status, 200) << "its slot is free";
    const Json line = house.call_line();
    EXPECT_EQ(line.at("class"), "timeout");
    EXPECT_EQ(line.at("reason"), "answer_started");
    EXPECT_EQ(line.at("attempts").at(0).at("detail"), "silence for longer than timeouts.idle");
    EXPECT_EQ(house.awaited(1, "callgate_streams_broken_total", "side=\"upstream\""), 1);
    EXPECT_TRUE(support::eventually([&] { return house.figure("callgate_upstream_exchanges") == 0; }));
  }
}

TEST(Faults, F15_each_kind_of_token_is_counted_once_in_either_wire_format) {
  House house;
  const auto usage_of = [&](const std::string& path, const std::string& answer) {
    house.provider.script(R"([{"answer": {"json": )" + answer + "}}]");
    EXPECT_EQ(http("POST", house.url(path), R"({"model":"m","max_tokens":9,"messages":[]})").status, 200);
    return house.call_line().at("usage");
  };
  const auto claude = [](const std::string& usage) {
    return R"({"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":)" +
           usage + "}";
  };
  // Input without what was cached, here; with it, there.
  const Json a = usage_of("/anthropic/v1/messages",
                          claude(R"({"input_tokens":25,"cache_read_input_tokens":9000,"output_tokens":7})"));
  const Json b = usage_of(
      "/openai/v1/chat/completions",
      R"({"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],
          "usage":{"prompt_tokens":9025,"completion_tokens":7,"total_tokens":9032,"prompt_tokens_details":{"cached_tokens":9000}}})");
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.at("input"), 9025);
  EXPECT_EQ(a.at("cached"), 9000);
  EXPECT_EQ(a.at("output"), 7);
  const Json more = usage_of(
      "/anthropic/v1/messages",
      claude(
          R"({"input_tokens":25,"cache_read_input_tokens":9000,"cache_creation_input_tokens":500,"output_tokens":7})"));
  EXPECT_EQ(more.at("input"), 9525);
  EXPECT_EQ(more.at("cache_write_5m"), 500);
  const std::string scrape = house.scrape();
  const auto kind = [&](const std::string& name) {
    return support::metric(scrape, "callgate_tokens_total", "kind=\"" + name + "\"");
  };
  EXPECT_EQ(kind("input"), 75);
  EXPECT_EQ(kind("cache_read"), 27'000);
  EXPECT_EQ(kind("cache_write"), 500);
  EXPECT_EQ(kind("output"), 21);
}

TEST(Faults, F16_usage_is_known_and_the_extra_chunk_is_for_who_asked) {
  House house;
  const auto ask = [&](const std::string& path, const std::string& body) {
    house.provider.reset();
    const Response answer = http("POST", house.url(path), body);
    EXPECT_EQ(answer.end, Response::End::Complete);
    const Json line = house.call_line();
    EXPECT_TRUE(line.at("usage").is_object()) << line;
    if (line.at("usage").is_object()) {
      EXPECT_EQ(line.at("usage").at("input"), 9);
      EXPECT_EQ(line.at("usage").at("output"), 2);
    }
    return answer;
  };
  const auto sent = [&] { return house.provider.seen().at(0).at("body").get<std::string>(); };
  const struct {
    const char* options;
    bool asked;
  } kCases[] = {
      {"", false},
      {R"("stream_options":{},)", false},
      {R"("stream_options":{"include_usage":false},)", false},
      {R"("stream_options":{"include_obfuscation":false},)", false},
      {R"("stream_options":null,)", false},
      {R"("stream_options":{"include_usage":true},)", true},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.options);
    const Response answer = ask("/openai/v1/chat/completions",
                                R"({"model":"m","stream":true,)" + std::string{c.options} + R"("messages":[]})");
    EXPECT_EQ(answer.body.find("\"choices\":[]") != std::string::npos, c.asked);
    EXPECT_NE(answer.body.find("hel"), std::string::npos);
    EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
    EXPECT_TRUE(Json::parse(sent()).at("stream_options").at("include_usage").get<bool>());
  }
  // Where the option is unknown or refused, it is not given.
  for (const auto& [path, body] :
       {std::pair{"/openai/v1/responses", R"({"model":"m","stream":true,"input":"x"})"},
        std::pair{"/openai/v1/chat/completions", R"({"model":"m","messages":[]})"},
        std::pair{"/anthropic/v1/messages", R"({"model":"m","max_tokens":5,"stream":true,"messages":[]})"},
        std::pair{"/gemini/v1beta/models/g:streamGenerateContent?alt=sse", R"({"contents":[]})"}}) {
    SCOPED_TRACE(path);
    ask(path, body);
    EXPECT_EQ(sent(), body);
  }
  EXPECT_EQ(house.awaited(0, "callgate_usage_missing_total"), 0);
}

TEST(Faults, F17_what_was_not_reported_is_unknown_and_a_reported_zero_is_zero) {
  House house{{}, "retry: {bulk: {attempts: 1}}\n"};
  const auto tokens = [&] { return house.figure("callgate_tokens_total"); };

  house.provider.script(R"([{"answer": {"stream": [{"error": 500}]}}])");
  EXPECT_EQ(house.chat(kStream).status, 500);
  Json line = house.call_line();
  EXPECT_EQ(line.at("outcome"), "failed");
  EXPECT_TRUE(line.at("usage").is_null());
  EXPECT_FALSE(line.at("attempts").at(0).at("possibly_billed").get<bool>()) << "the provider said that it failed";

  house.provider.script(R"([{"answer": {"stream": [
      {"say": "1"}, {"say": "2"}, {"say": "3"}, {"say": "4"}, {"say": "5"}, {"wait_ms": 50}, {"close": "rst"}]}}])");
  EXPECT_NE(house.chat(kStream).end, Response::End::Complete);
  line = house.call_line();
  EXPECT_EQ(line.at("outcome"), "failed");
  EXPECT_TRUE(line.at("usage").is_null()) << "no guess is told as a fact";
  EXPECT_TRUE(line.at("attempts").at(0).at("possibly_billed").get<bool>());
  EXPECT_EQ(house.awaited(1, "callgate_usage_missing_total"), 1);
  EXPECT_EQ(tokens(), 0);

  house.provider.script(R"([{"answer": {"usage": {"input": 0, "output": 0}}}])");
  EXPECT_EQ(house.chat(kStream).end, Response::End::Complete);
  line = house.call_line();
  EXPECT_EQ(line.at("outcome"), "answered");
  ASSERT_TRUE(line.at("usage").is_object());
  EXPECT_EQ(line.at("usage").at("input"), 0);
  EXPECT_EQ(line.at("usage").at("output"), 0);
  EXPECT_EQ(house.awaited(1, "callgate_usage_missing_total"), 1);
}

TEST(Faults, F19_an_offer_of_compression_garbles_neither_answer_nor_usage) {
  House house;
  // Packs whatever is not asked for as it is.
  house.provider.script(R"([{"match": {"header": {"accept-encoding": "identity"}, "body_contains": "\"stream\":true"},
                             "answer": {"stream": [{"say": "first"}, {"hold": "more"}, {"say": "last"}]}},
                            {"match": {"header": {"accept-encoding": "identity"}}, "answer": "default"},
                            {"answer": {"gzip": true}}])");
  for (const char* offer : {"gzip, br, zstd", "gzip", "br", "zstd", "*", "identity", ""}) {
    SCOPED_TRACE(offer);
    std::vector<std::pair<std::string, std::string>> headers;
    if (*offer != '\0') headers.emplace_back("Accept-Encoding", offer);
    const Response unary = house.chat(kUnary, headers);
    EXPECT_EQ(unary.header("content-encoding"), "");
    EXPECT_EQ(Json::parse(unary.body).at("choices").at(0).at("message").at("content"), "hello");
    EXPECT_EQ(house.call_line().at("usage").at("input"), 9);

    RawClient client = house.begin_chat(kStream, headers);
    Response stream = client.read_head();
    EXPECT_EQ(stream.header("content-encoding"), "");
    EXPECT_TRUE(client.read_until(stream, "first")) << "not delayed";
    house.provider.release("more", 1);
    client.read_rest(stream);
    EXPECT_EQ(stream.end, Response::End::Complete);
    EXPECT_NE(stream.body.find("last"), std::string::npos);
    EXPECT_EQ(house.call_line().at("usage").at("input"), 9);
  }
}

TEST(Faults, F19_what_a_provider_packs_unasked_stays_as_it_is) {
  House house;
  // Header and body agree, and the usage is read.
  house.provider.script(R"([{"answer": {"gzip": true}}])");
  const Response packed = house.chat(kUnary, {{"Accept-Encoding", "gzip"}});
  EXPECT_EQ(packed.header("content-encoding"), "gzip");
  EXPECT_TRUE(packed.body.starts_with("\x1f\x8b"));
  EXPECT_EQ(packed.header("content-length"), std::to_string(packed.body.size()));
  EXPECT_EQ(house.call_line().at("usage").at("output"), 2);

  // So are the events of a stream, which can be unpacked as they come.
  house.provider.script(
      R"([{"answer": {"gzip": true, "stream": [{"say": "first"}, {"hold": "more"}, {"say": "last"}]}}])");
  RawClient client = house.begin_chat(kStream, {{"Accept-Encoding", "gzip"}});
  house.provider.wait("held=1");
  Response stream = client.read_head(2s);
  EXPECT_EQ(stream.status, 200) << "not delayed to its end";
  EXPECT_EQ(stream.header("content-encoding"), "gzip");
  house.provider.release("more");
  client.read_rest(stream);
  EXPECT_EQ(stream.end, Response::End::Complete);
  EXPECT_TRUE(stream.body.starts_with("\x1f\x8b"));
}

}  // namespace faults_streams_test
