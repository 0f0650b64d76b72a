// Goal: a call continues its caller's trace, its spans reach a collector that is there, and one that is not costs
// nothing; no span holds a key, a prompt or an answer.

#include <gtest/gtest.h>
#include <zlib.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/harness.h"
#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace tracing_test {

using Json = nlohmann::json;
using std::chrono::milliseconds;
using support::FakeProvider;
using support::House;

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kParent = "00f067aa0ba902b7";
const std::string kTraceparent = "00-" + kTrace + "-" + kParent + "-01";

std::string header_of(const Json& request, const std::string& name) {
  for (const Json& header : request.at("headers")) {
    if (header.at(0) == name) return header.at(1);
  }
  return "(none)";
}

std::string from_base64(const std::string& text) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = (bits << 6U) | static_cast<unsigned>(letters.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xffU);
  }
  return out;
}
std::string unpacked(std::string text) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
  std::string out(1'000'000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

/// OTLP/HTTP on /v1/traces, kept in memory.
struct Collector {
  explicit Collector(const std::string& answer = R"({"json": {}})") { says(answer); }
  void says(const std::string& answer) const {
    server.script(R"([{"match": {"method": "POST", "path": "/v1/traces"}, "answer": )" + answer + "}]");
  }
  [[nodiscard]] std::string config(const std::string& more = {}) const {
    return "tracing: {otlp_url: \"" + server.url() + "\"" + more + "}\n";
  }
  [[nodiscard]] std::string everything() const {
    std::string all;
    const Json seen = server.seen();
    for (const Json& request : seen) all += body_of(request);
    return all;
  }
  static std::string body_of(const Json& request) {
    return request.contains("body_b64") ? unpacked(from_base64(request.at("body_b64"))) : request.value("body", "");
  }
  [[nodiscard]] std::vector<Json> spans() const {
    std::vector<Json> spans;
    const Json seen = server.seen();
    for (const Json& request : seen) {
      const Json body = Json::parse(body_of(request));
      for (const Json& resource : body.at("resourceSpans")) {
        for (const Json& scope : resource.at("scopeSpans")) {
          for (const Json& span : scope.at("spans")) spans.push_back(span);
        }
      }
    }
    return spans;
  }
  [[nodiscard]] std::vector<Json> awaited(std::size_t count) const {
    if (!support::eventually([&] { return spans().size() >= count; }))
      throw support::Failed("not so many spans: " + everything());
    return spans();
  }
  FakeProvider server{};
};

Json attribute(const Json& span, const std::string& key) {
  for (const Json& one : span.at("attributes")) {
    if (one.at("key") == key) return one.at("value").begin().value();
  }
  return nullptr;
}
std::int64_t nanos(const Json& span, const char* key) { return std::stoll(span.at(key).get<std::string>()); }
std::int64_t nanos_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

TEST(Tracing, continues_the_callers_trace_through_each_attempt) {
  const Collector collector;
  House house{", propagate_trace: true", "retry: {base: 10ms}\n" + collector.config()};
  house.provider.script(R"([{"answers": [503, {"say": ["MARKER", "answer"]}]}])");
  const std::int64_t before = nanos_now();
  const support::Response answer = house.chat(
      support::chat_saying("MARKER-prompt"),
      {{"Authorization", "Bearer MARKER-sk-key"}, {"traceparent", kTraceparent}, {"tracestate", "congo=t61"}});
  EXPECT_EQ(answer.status, 200) << answer.body;
  const Json line = house.call_line();
  const std::vector<Json> spans = collector.awaited(3);
  ASSERT_EQ(spans.size(), 3U);
  const Json& call = spans[0];
  EXPECT_EQ(call.at("parentSpanId"), kParent);
  EXPECT_EQ(call.at("kind"), 2);
  EXPECT_EQ(call.at("spanId"), line.at("span_id"));
  EXPECT_EQ(line.at("trace_id"), kTrace);
  EXPECT_EQ(attribute(call, "callgate.call_id"), line.at("call_id"));
  EXPECT_EQ(attribute(call, "callgate.outcome"), "answered");
  EXPECT_EQ(attribute(call, "http.response.status_code"), "200");
  EXPECT_FALSE(call.contains("status"));

  std::int64_t last = nanos(call, "startTimeUnixNano");
  EXPECT_GE(last, before - 1'000'000'000);
  const Json requests = house.provider.seen();
  ASSERT_EQ(requests.size(), 2U);
  for (std::size_t i = 1; i < 3; ++i) {
    const Json& attempt = spans[i];
    EXPECT_EQ(attempt.at("traceId"), kTrace);
    EXPECT_EQ(attempt.at("traceState"), "congo=t61");
    EXPECT_EQ(attempt.at("parentSpanId"), call.at("spanId"));
    EXPECT_EQ(attempt.at("kind"), 3);
    EXPECT_EQ(attempt.at("name"), "chat gpt-5");
    EXPECT_EQ(attribute(attempt, "server.address"), "127.0.0.1");
    EXPECT_EQ(attribute(attempt, "server.port"), std::to_string(house.provider.port()));
    // What went out names this very span.
    EXPECT_EQ(header_of(requests[i - 1], "traceparent"),
              "00-" + kTrace + "-" + attempt.at("spanId").get<std::string>() + "-01");
    EXPECT_EQ(header_of(requests[i - 1], "tracestate"), "congo=t61");
    EXPECT_GE(nanos(attempt, "startTimeUnixNano"), last);
    EXPECT_GE(nanos(attempt, "endTimeUnixNano"), nanos(attempt, "startTimeUnixNano"));
    last = nanos(attempt, "endTimeUnixNano");
  }
  EXPECT_GE(nanos(call, "endTimeUnixNano"), last);
  EXPECT_LE(last, nanos_now() + 1'000'000'000);
  EXPECT_EQ(attribute(spans[1], "error.type"), "overloaded");
  EXPECT_EQ(spans[1].at("status").at("code"), 2);
  EXPECT_EQ(attribute(spans[2], "http.request.resend_count"), "1");
  EXPECT_EQ(attribute(spans[2], "gen_ai.usage.input_tokens"), "9");
  EXPECT_EQ(attribute(spans[2], "gen_ai.usage.output_tokens"), "2");
  EXPECT_EQ(collector.everything().find("MARKER"), std::string::npos) << collector.everything();
  EXPECT_EQ(house.awaited(3, "callgate_otlp_spans_total"), 3);
  EXPECT_EQ(house.figure("callgate_otlp_dropped_total"), 0);
}

TEST(Tracing, passes_a_callers_headers_unchanged_where_it_does_not_propagate) {
  const Collector collector;
  for (const std::string& tracing : {std::string{}, collector.config()}) {
    House house{"", "retry: {base: 10ms}\n" + tracing};
    // Byte for byte, whatever they say.
    const std::vector<std::pair<std::string, std::string>> kHeaders = {{"TraceParent", "00-NONSENSE"},
                                                                       {"tracestate", "a=1,,b"}};
    EXPECT_EQ(house.chat(support::kUnary, kHeaders).status, 200);
    EXPECT_EQ(house.chat(support::kUnary, {{"traceparent", kTraceparent}}).status, 200);
    EXPECT_EQ(house.chat().status, 200);
    const Json requests = house.provider.seen();
    ASSERT_EQ(requests.size(), 3U);
    EXPECT_EQ(header_of(requests[0], "TraceParent"), "00-NONSENSE");
    EXPECT_EQ(header_of(requests[0], "tracestate"), "a=1,,b");
    EXPECT_EQ(header_of(requests[1], "traceparent"), kTraceparent);
    EXPECT_EQ(header_of(requests[2], "traceparent"), "(none)");
    const Json line = house.call_line();
    EXPECT_EQ(line.at("trace_id").is_null(), tracing.empty()) << line;
    if (!tracing.empty()) (void)collector.awaited(6);
  }
  // Of these three calls the second alone has a trace that it continues.
  const std::vector<Json> spans = collector.awaited(6);
  EXPECT_FALSE(spans[0].contains("parentSpanId"));
  EXPECT_FALSE(spans[0].contains("traceState"));
  EXPECT_EQ(spans[2].at("parentSpanId"), kParent);
}

TEST(Tracing, keeps_nothing_of_a_trace_that_its_caller_does_not_sample) {
  const Collector collector;
  House house{", propagate_trace: true", "retry: {base: 10ms}\n" + collector.config()};
  EXPECT_EQ(house.chat(support::kUnary, {{"traceparent", "00-" + kTrace + "-" + kParent + "-00"}}).status, 200);
  EXPECT_EQ(house.chat(support::kUnary, {{"traceparent", kTraceparent}}).status, 200);
  const std::vector<Json> spans = collector.awaited(2);
  EXPECT_EQ(spans.size(), 2U);
  const std::string sent = header_of(house.provider.seen()[0], "traceparent");
  EXPECT_TRUE(sent.starts_with("00-" + kTrace + "-")) << sent;
  EXPECT_TRUE(sent.ends_with("-00")) << sent;
}

TEST(Tracing, costs_calls_nothing_where_the_collector_is_dead_and_says_so) {
  const Collector silent{R"({"hang": true})"};
  House house{"", "retry: {base: 10ms}\n" + silent.config(", timeout: 50ms")};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(house.chat().status, 200);
  const Json line = house.callgate.process().json_line("export_failed");
  EXPECT_EQ(line.at("level"), "warn");
  EXPECT_TRUE(support::eventually([&] { return house.figure("callgate_otlp_exports_total", "again") >= 1; }));
  EXPECT_GE(house.figure("callgate_otlp_waiting_spans"), 40);
  EXPECT_EQ(house.figure("callgate_otlp_spans_total"), 0);
  silent.says(R"({"json": {}})");
  EXPECT_EQ(house.awaited(40, "callgate_otlp_spans_total"), 40);
  house.callgate.process().json_line("export_recovered");
  silent.says("400");
  EXPECT_EQ(house.chat().status, 200);
  EXPECT_EQ(house.awaited(2, "callgate_otlp_dropped_total", "rejected"), 2);
  EXPECT_EQ(house.callgate.stop(), 0);
}

TEST(Tracing, sends_at_the_end_what_waits_and_does_not_wait_for_a_dead_collector) {
  const Collector collector;
  House house{"", "retry: {base: 10ms}\n" + collector.config()};
  EXPECT_EQ(house.chat().status, 200);
  EXPECT_EQ(house.callgate.stop(), 0);
  EXPECT_EQ(collector.spans().size(), 2U) << "it is gone, and has told before it went";

  // Nobody listens there.
  House lonely{"", "retry: {base: 10ms}\ntracing: {otlp_url: \"http://127.0.0.1:1\"}\n"};
  EXPECT_EQ(lonely.chat().status, 200);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(lonely.callgate.stop(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds{8}) << "of a drain of 25 s";
}

TEST(Tracing, is_set_up_by_the_variables_of_opentelemetry_and_changed_by_a_reload) {
  const Collector collector;
  const Collector other;
  const FakeProvider provider;
  const std::string yaml =
      "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nupstreams: {openai: {url: \"" + provider.url() + "\"}}\n";
  support::Callgate callgate{
      yaml,
      {.env = {{"OTEL_EXPORTER_OTLP_ENDPOINT", collector.server.url() + "/"},
               {"OTEL_EXPORTER_OTLP_HEADERS", "x-token=secret%20one,x-b=2"},
               {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
               {"OTEL_SERVICE_NAME", "gate"},
               {"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=not-this"},
               {"POD_NAME", "gate-0"}}}};
  const auto chat = [&] {
    return support::http("POST", callgate.data_url() + "/openai/v1/chat/completions", support::kUnary, {}).status;
  };
  EXPECT_EQ(chat(), 200);
  EXPECT_EQ(collector.awaited(2).size(), 2U);
  const Json request = collector.server.seen()[0];
  EXPECT_EQ(request.at("target"), "/v1/traces");
  EXPECT_EQ(header_of(request, "Content-Type"), "application/json");
  EXPECT_EQ(header_of(request, "Content-Encoding"), "gzip");
  EXPECT_EQ(header_of(request, "x-token"), "secret one");
  const Json attributes = Json::parse(Collector::body_of(request)).at("resourceSpans")[0].at("resource");
  EXPECT_EQ(attribute(attributes, "service.name"), "gate");
  EXPECT_EQ(attribute(attributes, "k8s.pod.name"), "gate-0");
  EXPECT_EQ(attribute(attributes, "deployment.environment.name"), "test");
  EXPECT_TRUE(attribute(attributes, "service.instance.id").is_string());

  // The file wins over them.
  callgate.write_config(yaml + other.config());
  callgate.process().signal(SIGHUP);
  callgate.process().json_line("reloaded");
  EXPECT_EQ(chat(), 200);
  EXPECT_EQ(other.awaited(2).size(), 2U);
  EXPECT_EQ(collector.spans().size(), 2U);
}

TEST(Tracing, goes_on_in_runs) {
  const Collector collector;
  const support::TempDir directory;
  House house{", credentials: [{name: main, key: {file: \"" + directory.file("key", "MARKER-sk-key") + "\"}}]",
              "retry: {base: 10ms}\nstore: {payloads: plain}\n" + collector.config()};
  const support::Response accepted =
      house.chat(support::kUnary, {{"Prefer", "respond-async"}, {"traceparent", kTraceparent}});
  ASSERT_EQ(accepted.status, 202) << accepted.body;
  const std::vector<Json> spans = collector.awaited(2);
  EXPECT_EQ(spans[0].at("traceId"), kTrace);
  EXPECT_EQ(spans[0].at("parentSpanId"), kParent);
  EXPECT_EQ(spans[0].at("kind"), 1) << "nobody waits for it";
  EXPECT_EQ(spans[1].at("kind"), 3);
  EXPECT_EQ(collector.everything().find("MARKER"), std::string::npos);
}

}  // namespace tracing_test
