#include "gateway/call_spans.h"

#include <algorithm>
#include <utility>

#include "budget/price.h"
#include "gateway/trace_context.h"

namespace gateway {
namespace {

using classifier::Class;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kWorthTelling{1'000};  // Shorter waits are none.

/// Attributes in their order; what is unknown is left out.
class Attributes {
 public:
  explicit Attributes(std::vector<SpanAttribute>& into) : into_(into) {}
  void text(std::string_view key, std::string_view value) {
    if (!value.empty()) add<std::string>(key, value);
  }
  void number(std::string_view key, std::int64_t value) { add<std::int64_t>(key, value); }
  void truth(std::string_view key, bool value) { add<bool>(key, value); }
  void seconds(std::string_view key, microseconds value) {
    add<double>(key, std::chrono::duration<double>(value).count());
  }
  void ms(std::string_view key, microseconds value) {
    add<double>(key, std::chrono::duration<double, std::milli>(value).count());
  }
  void texts(std::string_view key, std::vector<std::string> values) {
    add<std::vector<std::string>>(key, std::move(values));
  }
  void usd(std::string_view key, const std::optional<budget::NanoUsd>& value) {
    if (value) text(key, budget::usd_text(*value));
  }

 private:
  /// Made where it is to stand: g++ 12 takes a variant that is moved there for uninitialised.
  template <typename T, typename Value>
  void add(std::string_view key, Value&& value) {
    SpanAttribute& one = into_.emplace_back();
    one.key = key;
    one.value.emplace<T>(std::forward<Value>(value));
  }

  std::vector<SpanAttribute>& into_;
};

/// In the words of OpenTelemetry, where it has one.
std::string_view otel_operation(std::string_view operation) {
  if (operation == "responses" || operation == "messages") return "chat";
  if (operation == "completions") return "text_completion";
  return operation.empty() ? "other" : operation;
}

std::string name_of(const CallRecord& record, std::string_view model) {
  std::string name{otel_operation(record.operation)};
  if (!model.empty()) name.append(" ").append(model);
  return name;
}

void add_place(Attributes& attributes, const Places& places, const std::string& upstream) {
  const auto place = places.find(upstream);
  if (place == places.end()) return;
  attributes.text("gen_ai.provider.name", place->second.provider);
  attributes.text("server.address", place->second.address);
  if (place->second.port != 0) attributes.number("server.port", place->second.port);
}

void add_answer(Attributes& attributes, const classifier::Usage& usage) {
  attributes.text("gen_ai.response.model", usage.model);
  if (usage.finish && !usage.finish->empty()) attributes.texts("gen_ai.response.finish_reasons", {*usage.finish});
}

/// Only where it was used: who sums up all spans must not come to twice the truth.
void add_usage(Attributes& attributes, const std::optional<classifier::TokenCounts>& tokens) {
  if (!tokens) return;
  attributes.number("gen_ai.usage.input_tokens", tokens->input);
  attributes.number("gen_ai.usage.output_tokens", tokens->output);
  attributes.number("gen_ai.usage.cache_read.input_tokens", tokens->cached_input);
  attributes.number("gen_ai.usage.cache_creation.input_tokens", tokens->cache_write_5m + tokens->cache_write_1h);
  attributes.number("gen_ai.usage.reasoning.output_tokens", tokens->reasoning);
}

void add_queue_wait(Span& span, const CallRecord& record) {
  if (record.queued < kWorthTelling) return;
  SpanEvent event{.name = "callgate.queue_wait", .at = span.began};
  Attributes attributes{event.attributes};
  attributes.ms("callgate.wait_ms", record.queued);
  // The greatest part of it, as whoever looks at a trace asks for the reason.
  const auto most = std::ranges::max_element(record.waits);
  if (*most > microseconds::zero())
    attributes.text("callgate.waited_for", budget::kWaitNames[static_cast<std::size_t>(most - record.waits.begin())]);
  span.events.push_back(std::move(event));
}

Span::Kind kind_of(ledger::CallTrace::From from) {
  using From = ledger::CallTrace::From;
  if (from == From::Webhook) return Span::Kind::Client;
  return from == From::Errand ? Span::Kind::Internal : Span::Kind::Server;
}

/// All that there is to tell of a webhook.
void add_webhook(Attributes& attributes, const CallRecord& record) {
  attributes.text("http.request.method", record.method);
  if (record.status != 0) attributes.number("http.response.status_code", record.status);
  if (record.cls != Class::None) attributes.text("error.type", classifier::name_of(record.cls));
  attributes.text("callgate.run", record.run_id);
  attributes.text("callgate.tenant", record.tenant);
}

Span span_of_call(const CallRecord& record, const ledger::CallTrace& trace, const Places& places) {
  Span span;
  span.trace_id = trace.trace_id;
  span.span_id = trace.span_id;
  span.parent_id = trace.parent_id;
  span.parent_is_remote = !trace.parent_id.empty();
  span.state = trace.state;
  span.flags = trace.flags;
  span.name = name_of(record, record.model);
  span.kind = kind_of(trace.from);
  span.began = trace.arrived == WallTime{} ? record.began : trace.arrived;
  span.ended = span.began + std::max(record.duration, microseconds::zero());
  const bool failed = record.outcome != Outcome::Answered;
  span.error = failed && record.outcome != Outcome::Cancelled;

  Attributes attributes{span.attributes};
  if (span.kind == Span::Kind::Client) {
    add_webhook(attributes, record);
    return span;
  }
  attributes.text("gen_ai.operation.name", otel_operation(record.operation));
  add_place(attributes, places, record.upstream);
  attributes.text("gen_ai.request.model", record.model);
  if (record.stream) attributes.truth("gen_ai.request.stream", true);
  add_answer(attributes, record.usage);
  if (record.stream && record.first_content)
    attributes.seconds("gen_ai.response.time_to_first_chunk", *record.first_content);
  attributes.text("http.request.method", record.method);
  attributes.text("url.path", std::string_view{record.path}.substr(0, record.path.find_first_of("?#")));
  if (record.status != 0) attributes.number("http.response.status_code", record.status);
  if (failed) attributes.text("error.type", record.cls == Class::None ? "_OTHER" : classifier::name_of(record.cls));
  attributes.text("callgate.call_id", record.id);
  attributes.text("callgate.outcome", ledger::name_of(record.outcome));
  attributes.text("callgate.reason", record.reason);
  attributes.text("callgate.tenant", record.tenant);
  attributes.text("callgate.lane", budget::name_of(record.lane));
  attributes.text("callgate.run_id", record.run_id);
  attributes.text("callgate.queue", record.queue);
  attributes.text("callgate.route", record.route);
  attributes.text("callgate.upstream", record.upstream);
  attributes.text("callgate.operation", record.operation);
  attributes.text("callgate.once", record.once);
  attributes.text("callgate.origin", record.origin);
  attributes.number("callgate.attempts", static_cast<std::int64_t>(record.attempts.size()));
  if (record.backed_off >= kWorthTelling) attributes.ms("callgate.backoff_ms", record.backed_off);
  attributes.usd("callgate.cost_usd", record.cost);
  attributes.usd("callgate.saved_usd", record.saved);
  add_queue_wait(span, record);
  return span;
}

void add_waits(Span& span, const AttemptRow& attempt, WallTime not_before) {
  if (attempt.waited_before >= kWorthTelling && attempt.waited_for != ledger::WaitedFor::Nothing) {
    SpanEvent event{.name = "callgate.retry_wait",
                    .at = std::max(not_before, span.began - microseconds{attempt.waited_before})};
    Attributes attributes{event.attributes};
    attributes.ms("callgate.wait_ms", attempt.waited_before);
    attributes.text("callgate.waited_for", ledger::name_of(attempt.waited_for));
    span.events.push_back(std::move(event));
  }
  if (attempt.hint) {
    SpanEvent event{.name = "callgate.hint", .at = span.ended};
    Attributes{event.attributes}.ms("callgate.wait_ms", *attempt.hint);
    span.events.push_back(std::move(event));
  }
}

Span span_of_attempt(const CallRecord& record, const AttemptRow& attempt, const Span& call, WallTime not_before,
                     const Places& places) {
  const std::string& model = attempt.model.empty() ? record.model : attempt.model;
  Span span;
  span.trace_id = call.trace_id;
  span.span_id = attempt_span_id(*record.trace, attempt.number);
  span.parent_id = call.span_id;
  span.state = call.state;
  span.flags = call.flags;
  span.name = name_of(record, model);
  span.kind = Span::Kind::Client;
  span.began = std::max(attempt.began, not_before);
  span.ended = std::max(attempt.ended, span.began);
  span.error = attempt.cls != Class::None;

  Attributes attributes{span.attributes};
  attributes.text("gen_ai.operation.name", otel_operation(record.operation));
  add_place(attributes, places, attempt.upstream);
  attributes.text("gen_ai.request.model", model);
  if (record.stream) attributes.truth("gen_ai.request.stream", true);
  add_answer(attributes, attempt.usage);
  add_usage(attributes, attempt.usage.tokens);
  attributes.text("http.request.method", record.method);
  if (attempt.number > 1) attributes.number("http.request.resend_count", attempt.number - 1);
  if (attempt.status != 0) attributes.number("http.response.status_code", attempt.status);
  if (attempt.cls != Class::None) attributes.text("error.type", classifier::name_of(attempt.cls));
  attributes.text("callgate.call_id", record.id);
  attributes.number("callgate.attempt", attempt.number);
  attributes.text("callgate.upstream", attempt.upstream);
  attributes.text("callgate.credential", attempt.credential);
  attributes.text("callgate.provider_code", attempt.code);
  attributes.text("callgate.provider_request_id", attempt.provider_request_id);
  if (attempt.possibly_billed) attributes.truth("callgate.possibly_billed", true);
  attributes.usd("callgate.cost_usd", attempt.cost);
  attributes.text("callgate.cost_source", attempt.cost_source);
  attributes.text("callgate.next", attempt.next);
  add_waits(span, attempt, call.began);
  return span;
}

}  // namespace

std::vector<Span> spans_of(const CallRecord& record, const Places& places) {
  std::vector<Span> spans;
  if (!record.trace) return spans;
  spans.reserve(spans_in(record));
  spans.push_back(span_of_call(record, *record.trace, places));
  WallTime not_before = spans.front().began;
  for (const AttemptRow& attempt : record.attempts) {
    spans.push_back(span_of_attempt(record, attempt, spans.front(), not_before, places));
    not_before = spans.back().ended;
  }
  spans.front().ended = std::max(spans.front().ended, not_before);
  return spans;
}

}  // namespace gateway
