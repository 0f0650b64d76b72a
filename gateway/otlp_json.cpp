#include "gateway/otlp_json.h"

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>

#include "gateway/json_out.h"
#include "gateway/json_tree.h"

namespace gateway {
namespace {

constexpr std::size_t kTextMax = 256;
constexpr std::size_t kStateMax = 4096;
constexpr std::int64_t kStatusError = 2;
constexpr std::uint32_t kHasIsRemote = 0x100;  // SpanFlags: whether the parent is in another process is known; …
constexpr std::uint32_t kIsRemote = 0x200;     // … and it is.

void append_string_number(std::string& out, std::int64_t number) {
  out += '"';
  append_number(out, number);
  out += '"';
}

void append_nanos(std::string& out, WallTime when) {
  append_string_number(out, std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count());
}

void append_double(std::string& out, double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), std::isfinite(value) ? value : 0.0);
  out.append(text.data(), end.ptr);
}

struct AppendValue {
  std::string& out;
  void operator()(const std::string& text) const {
    out += R"({"stringValue":)";
    append_json(out, text, kTextMax);
    out += '}';
  }
  void operator()(std::int64_t number) const {
    out += R"({"intValue":)";
    append_string_number(out, number);
    out += '}';
  }
  void operator()(double number) const {
    out += R"({"doubleValue":)";
    append_double(out, number);
    out += '}';
  }
  void operator()(bool truth) const { out += truth ? R"({"boolValue":true})" : R"({"boolValue":false})"; }
  void operator()(const std::vector<std::string>& texts) const {
    out += R"({"arrayValue":{"values":[)";
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (i > 0) out += ',';
      (*this)(texts[i]);
    }
    out += "]}}";
  }
};

void append_attributes(std::string& out, const std::vector<SpanAttribute>& attributes) {
  out += R"("attributes":[)";
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    out += i > 0 ? R"(,{"key":")" : R"({"key":")";
    out += attributes[i].key;
    out += R"(","value":)";
    std::visit(AppendValue{out}, attributes[i].value);
    out += '}';
  }
  out += ']';
}

void append_events(std::string& out, const std::vector<SpanEvent>& events) {
  out += R"("events":[)";
  for (std::size_t i = 0; i < events.size(); ++i) {
    out += i > 0 ? R"(,{"timeUnixNano":)" : R"({"timeUnixNano":)";
    append_nanos(out, events[i].at);
    out += R"(,"name":")";
    out += events[i].name;
    out += R"(",)";
    append_attributes(out, events[i].attributes);
    out += '}';
  }
  out += ']';
}

void append_span(std::string& out, const Span& span) {
  out += R"({"traceId":")" + span.trace_id + R"(","spanId":")" + span.span_id + '"';
  if (!span.parent_id.empty()) out += R"(,"parentSpanId":")" + span.parent_id + '"';
  if (!span.state.empty()) {
    out += R"(,"traceState":)";
    append_json(out, span.state, kStateMax);
  }
  out += R"(,"flags":)";
  append_number(out, std::uint64_t{span.flags | kHasIsRemote | (span.parent_is_remote ? kIsRemote : 0U)});
  out += R"(,"name":)";
  append_json(out, span.name, kTextMax);
  out += R"(,"kind":)";
  append_number(out, static_cast<std::int64_t>(span.kind));
  out += R"(,"startTimeUnixNano":)";
  append_nanos(out, span.began);
  out += R"(,"endTimeUnixNano":)";
  append_nanos(out, span.ended);
  out += ',';
  append_attributes(out, span.attributes);
  if (!span.events.empty()) {
    out += ',';
    append_events(out, span.events);
  }
  if (span.error) {
    out += R"(,"status":{"code":)";
    append_number(out, kStatusError);
    out += '}';
  }
  out += '}';
}

}  // namespace

std::string otlp_json(std::span<const Span> spans, const TextPairs& resource) {
  std::string out = R"({"resourceSpans":[{"resource":{"attributes":[)";
  for (std::size_t i = 0; i < resource.size(); ++i) {
    out += i > 0 ? R"(,{"key":)" : R"({"key":)";
    append_json(out, resource[i].first, kTextMax);
    out += R"(,"value":)";
    AppendValue{out}(resource[i].second);
    out += '}';
  }
  out += R"(]},"scopeSpans":[{"scope":{"name":"callgate","version":")" CALLGATE_VERSION R"("},"spans":[)";
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (i > 0) out += ',';
    append_span(out, spans[i]);
  }
  out += "]}]}]}";
  return out;
}

std::int64_t rejected_spans(std::string_view answer) {
  const auto tree = JsonTree::read(answer);
  if (!tree || (*tree)[0].kind != JsonValue::Kind::Object) return 0;
  const std::uint32_t partial = tree->member(0, "partialSuccess");
  if (partial == 0 || (*tree)[partial].kind != JsonValue::Kind::Object) return 0;
  const std::uint32_t rejected = tree->member(partial, "rejectedSpans");
  if (rejected == 0) return 0;
  // A string, as all 64-bit numbers, but not every collector keeps to that.
  const std::string_view text = (*tree)[rejected].text;
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number > 0 ? number : 0;
}

}  // namespace gateway
