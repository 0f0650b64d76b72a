#include "gateway/call_spans.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/otlp_json.h"
#include "gateway/trace_context.h"

namespace call_spans_test {

using classifier::Class;
using gateway::CallRecord;
using gateway::Outcome;
using gateway::Span;
using gateway::SpanValue;
using nlohmann::json;
using namespace std::chrono_literals;

const gateway::WallTime kBegan = std::chrono::sys_days{std::chrono::year{2026} / 11 / 29} + 16h + 40min;
const gateway::Places kPlaces = {{"anthropic", {"anthropic", "api.anthropic.com", 443}}};

/// Where what must never be told may stand in a record.
const std::string kMarker = "MARKER-sk-secret";

CallRecord call() {
  auto trace = std::make_shared<ledger::CallTrace>();
  trace->trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  trace->span_id = "00000000000000aa";
  trace->parent_id = "00f067aa0ba902b7";
  trace->state = "congo=t61";
  trace->flags = 1;
  trace->arrived = kBegan;
  CallRecord record;
  record.id = "0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b";
  record.tenant = "search";
  record.run_id = "invoice-4711";
  record.queue = "invoices";
  record.route = record.upstream = "anthropic";
  record.operation = "messages";
  record.method = "POST";
  record.path = "/v1/messages?key=" + kMarker;
  record.model = "claude-sonnet-4-5";
  record.stream = true;
  record.labels = "{\"x\":\"" + kMarker + "\"}";
  record.idempotency_key = kMarker;
  record.bug = kMarker;
  record.outcome = Outcome::Answered;
  record.status = 200;
  record.attempts = {{.number = 1,
                      .upstream = "anthropic",
                      .credential = "main",
                      .status = 529,
                      .cls = Class::Overloaded,
                      .code = "overloaded_error",
                      .detail = kMarker,
                      .hint = 500ms,
                      .rule = kMarker,
                      .next = "retry",
                      .provider_request_id = "req_011A",
                      .began = kBegan + 20ms,
                      .ended = kBegan + 230ms},
                     {.number = 2,
                      .upstream = "anthropic",
                      .credential = "main",
                      .status = 200,
                      .waited_before = 640ms,
                      .waited_for = ledger::WaitedFor::RetryAfter,
                      .provider_request_id = "req_011B",
                      .cost = budget::NanoUsd{9'315'000},
                      .cost_source = "table",
                      .began = kBegan + 870ms,
                      .ended = kBegan + 9'120ms}};
  record.usage.tokens = classifier::TokenCounts{.input = 4908,
                                                .cached_input = 4096,
                                                .cache_write_5m = 100,
                                                .cache_write_1h = 10,
                                                .output = 377,
                                                .reasoning = 120};
  record.usage.model = "claude-sonnet-4-5-20250929";
  record.usage.finish = "end_turn";
  record.attempts[1].usage = record.usage;
  record.cost = budget::NanoUsd{9'315'000};
  record.queued = 20ms;
  record.waits[2] = 15ms;
  record.waits[0] = 5ms;
  record.backed_off = 640ms;
  record.first_content = 3'911'250us;
  record.duration = 9'130ms;
  record.trace = trace;
  return record;
}

const SpanValue* value(const std::vector<gateway::SpanAttribute>& attributes, std::string_view key) {
  const auto found = std::ranges::find(attributes, key, &gateway::SpanAttribute::key);
  return found == attributes.end() ? nullptr : &found->value;
}
template <typename T>
std::optional<T> get(const Span& span, std::string_view key) {
  const SpanValue* found = value(span.attributes, key);
  return found && std::holds_alternative<T>(*found) ? std::optional{std::get<T>(*found)} : std::nullopt;
}
std::string text(const Span& span, std::string_view key) { return get<std::string>(span, key).value_or("(none)"); }
std::int64_t number(const Span& span, std::string_view key) { return get<std::int64_t>(span, key).value_or(-1); }

TEST(CallSpans, are_one_of_the_call_and_one_of_each_attempt_below_it) {
  const std::vector<Span> spans = gateway::spans_of(call(), kPlaces);
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans.size(), gateway::spans_in(call()));
  for (const Span& span : spans) {
    EXPECT_EQ(span.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(span.name, "chat claude-sonnet-4-5");
    EXPECT_EQ(span.state, "congo=t61");
    EXPECT_GE(span.ended, span.began);
    EXPECT_EQ(text(span, "gen_ai.operation.name"), "chat");
    EXPECT_EQ(text(span, "gen_ai.provider.name"), "anthropic");
    EXPECT_EQ(text(span, "server.address"), "api.anthropic.com");
    EXPECT_EQ(number(span, "server.port"), 443);
    EXPECT_EQ(text(span, "callgate.call_id"), "0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b");
  }
  const Span& of_call = spans[0];
  EXPECT_EQ(of_call.kind, Span::Kind::Server);
  EXPECT_EQ(of_call.parent_id, "00f067aa0ba902b7");
  EXPECT_TRUE(of_call.parent_is_remote);
  EXPECT_EQ(of_call.began, kBegan);
  EXPECT_EQ(of_call.ended, kBegan + 9'130ms);
  EXPECT_FALSE(of_call.error);
  EXPECT_EQ(text(of_call, "url.path"), "/v1/messages");
  EXPECT_EQ(text(of_call, "callgate.tenant"), "search");
  EXPECT_EQ(text(of_call, "callgate.run_id"), "invoice-4711");
  EXPECT_EQ(text(of_call, "callgate.queue"), "invoices");
  EXPECT_EQ(text(of_call, "callgate.cost_usd"), "0.009315");
  EXPECT_EQ(text(of_call, "error.type"), "(none)");
  EXPECT_EQ(number(of_call, "http.response.status_code"), 200);
  EXPECT_EQ(number(of_call, "gen_ai.usage.input_tokens"), -1) << "or a sum over spans would be twice the truth";
  EXPECT_EQ(get<double>(of_call, "gen_ai.response.time_to_first_chunk"), 3.91125);
  ASSERT_EQ(of_call.events.size(), 1U);
  EXPECT_EQ(of_call.events[0].name, "callgate.queue_wait");
  EXPECT_EQ(std::get<std::string>(*value(of_call.events[0].attributes, "callgate.waited_for")), "rate");

  const Span& first = spans[1];
  EXPECT_EQ(first.kind, Span::Kind::Client);
  EXPECT_EQ(first.parent_id, of_call.span_id);
  EXPECT_FALSE(first.parent_is_remote);
  EXPECT_EQ(first.span_id, gateway::attempt_span_id(*call().trace, 1)) << "as a traceparent sent with it says";
  EXPECT_TRUE(first.error);
  EXPECT_EQ(text(first, "error.type"), "overloaded");
  EXPECT_EQ(number(first, "http.response.status_code"), 529);
  EXPECT_EQ(number(first, "http.request.resend_count"), -1);
  ASSERT_EQ(first.events.size(), 1U);
  EXPECT_EQ(first.events[0].name, "callgate.hint");

  const Span& second = spans[2];
  EXPECT_NE(second.span_id, first.span_id);
  EXPECT_FALSE(second.error);
  EXPECT_EQ(number(second, "http.request.resend_count"), 1);
  EXPECT_EQ(number(second, "gen_ai.usage.input_tokens"), 4908) << "all of it, cached and written included";
  EXPECT_EQ(number(second, "gen_ai.usage.cache_read.input_tokens"), 4096);
  EXPECT_EQ(number(second, "gen_ai.usage.cache_creation.input_tokens"), 110);
  EXPECT_EQ(number(second, "gen_ai.usage.output_tokens"), 377);
  EXPECT_EQ(number(second, "gen_ai.usage.reasoning.output_tokens"), 120);
  EXPECT_EQ(get<std::vector<std::string>>(second, "gen_ai.response.finish_reasons"),
            std::vector<std::string>{"end_turn"});
  ASSERT_EQ(second.events.size(), 1U);
  EXPECT_EQ(second.events[0].name, "callgate.retry_wait");
  EXPECT_EQ(second.events[0].at, kBegan + 230ms);
}

TEST(CallSpans, tell_nothing_that_the_log_would_not) {
  const std::string body = gateway::otlp_json(gateway::spans_of(call(), kPlaces), {{"service.name", "callgate"}});
  EXPECT_EQ(body.find("MARKER"), std::string::npos) << body;
}

TEST(CallSpans, of_failures_name_the_class_and_of_errands_have_nobody_who_asks) {
  CallRecord record = call();
  auto trace = std::make_shared<ledger::CallTrace>(*record.trace);
  trace->from = ledger::CallTrace::From::Errand;
  trace->parent_id.clear();
  record.trace = trace;
  record.outcome = Outcome::Failed;
  record.cls = Class::Timeout;
  record.attempts.resize(1);
  std::vector<Span> spans = gateway::spans_of(record, {});
  EXPECT_EQ(spans[0].kind, Span::Kind::Internal);
  EXPECT_TRUE(spans[0].error);
  EXPECT_FALSE(spans[0].parent_is_remote);
  EXPECT_EQ(text(spans[0], "error.type"), "timeout");
  EXPECT_EQ(text(spans[0], "server.address"), "(none)") << "an upstream that is gone";

  record.outcome = Outcome::Cancelled;
  record.cls = Class::Cancelled;
  EXPECT_FALSE(gateway::spans_of(record, {})[0].error) << "who takes his call back has not met with an error";
  record.trace = nullptr;
  EXPECT_TRUE(gateway::spans_of(record, {}).empty());

  trace = std::make_shared<ledger::CallTrace>(*trace);
  trace->from = ledger::CallTrace::From::Webhook;
  record = CallRecord{};
  record.operation = "webhook";
  record.run_id = "r-1";
  record.status = 503;
  record.outcome = Outcome::Failed;
  record.cls = Class::Overloaded;
  record.trace = trace;
  spans = gateway::spans_of(record, {});
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].kind, Span::Kind::Client);
  EXPECT_EQ(spans[0].name, "webhook");
  EXPECT_TRUE(spans[0].error);
  EXPECT_EQ(text(spans[0], "callgate.run"), "r-1");
  EXPECT_EQ(text(spans[0], "gen_ai.operation.name"), "(none)");
}

TEST(CallSpans, have_times_that_follow_each_other_whatever_the_clock_did) {
  CallRecord record = call();
  record.attempts[0].began = kBegan - 1h;
  record.attempts[0].ended = kBegan - 2h;
  record.attempts[1].began = kBegan + 3h;
  record.attempts[1].ended = kBegan + 1h;
  record.duration = -5s;
  const std::vector<Span> spans = gateway::spans_of(record, kPlaces);
  gateway::WallTime before = spans[0].began;
  for (std::size_t i = 1; i < spans.size(); ++i) {
    EXPECT_GE(spans[i].began, before);
    EXPECT_GE(spans[i].ended, spans[i].began);
    EXPECT_LE(spans[i].ended, spans[0].ended);
    before = spans[i].ended;
    for (const gateway::SpanEvent& event : spans[i].events) EXPECT_GE(event.at, spans[0].began);
  }
}

TEST(OtlpJson, is_what_a_collector_reads) {
  CallRecord record = call();
  record.attempts.clear();
  record.stream = false;
  record.queue = record.run_id = "";
  record.tenant = "t\n\xff\"";
  record.waits = {};
  record.queued = record.backed_off = 0us;
  const json expected = json::parse(R"({"resourceSpans": [{
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "a \"b\""}}]},
    "scopeSpans": [{
      "scope": {"name": "callgate", "version": "0.1.0"},
      "spans": [{
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00000000000000aa",
        "parentSpanId": "00f067aa0ba902b7", "traceState": "congo=t61", "flags": 769,
        "name": "chat claude-sonnet-4-5", "kind": 2,
        "startTimeUnixNano": "1795970400000000000", "endTimeUnixNano": "1795970409130000000",
        "attributes": [
          {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
          {"key": "gen_ai.provider.name", "value": {"stringValue": "anthropic"}},
          {"key": "server.address", "value": {"stringValue": "api.anthropic.com"}},
          {"key": "server.port", "value": {"intValue": "443"}},
          {"key": "gen_ai.request.model", "value": {"stringValue": "claude-sonnet-4-5"}},
          {"key": "gen_ai.response.model", "value": {"stringValue": "claude-sonnet-4-5-20250929"}},
          {"key": "gen_ai.response.finish_reasons",
           "value": {"arrayValue": {"values": [{"stringValue": "end_turn"}]}}},
          {"key": "http.request.method", "value": {"stringValue": "POST"}},
          {"key": "url.path", "value": {"stringValue": "/v1/messages"}},
          {"key": "http.response.status_code", "value": {"intValue": "200"}},
          {"key": "callgate.call_id", "value": {"stringValue": "0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"}},
          {"key": "callgate.outcome", "value": {"stringValue": "answered"}},
          {"key": "callgate.tenant", "value": {"stringValue": "t\n\ufffd\""}},
          {"key": "callgate.lane", "value": {"stringValue": "bulk"}},
          {"key": "callgate.route", "value": {"stringValue": "anthropic"}},
          {"key": "callgate.upstream", "value": {"stringValue": "anthropic"}},
          {"key": "callgate.operation", "value": {"stringValue": "messages"}},
          {"key": "callgate.attempts", "value": {"intValue": "0"}},
          {"key": "callgate.cost_usd", "value": {"stringValue": "0.009315"}}]}]}]}]})");
  const std::string body = gateway::otlp_json(gateway::spans_of(record, kPlaces), {{"service.name", "a \"b\""}});
  json said = json::parse(body);
  said["resourceSpans"][0]["scopeSpans"][0]["scope"]["version"] = "0.1.0";
  EXPECT_EQ(said, expected) << said.dump(1);
}

TEST(OtlpJson, hears_how_many_spans_a_collector_rejects) {
  const auto rejected = gateway::rejected_spans;
  EXPECT_EQ(rejected(R"({"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}})"), 3);
  EXPECT_EQ(rejected(R"({"partialSuccess":{"rejectedSpans":3}})"), 3);
  for (const char* none : {"",
                           "{}",
                           "null",
                           "[1]",
                           "{",
                           "<html>",
                           R"({"partialSuccess":null})",
                           R"({"partialSuccess":{}})",
                           R"({"partialSuccess":{"errorMessage":"only words"}})",
                           R"({"partialSuccess":{"rejectedSpans":"-3"}})",
                           R"({"partialSuccess":[3]})",
                           R"({"partialSuccess":{"rejectedSpans":{"a":1}}})"})
    EXPECT_EQ(rejected(none), 0) << none;
}

}  // namespace call_spans_test
