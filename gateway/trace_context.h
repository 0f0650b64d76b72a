#pragma once
// Whose trace does a call belong to, and what is passed on of it? W3C Trace Context: the headers traceparent and
// tracestate.
//
//   traceparent of the caller                        a call's span
//   -----------------------------------------------  -----------------------------------------------------------
//   one, well formed                                 continues its trace; is sampled as it says (tracing.sample)
//   none; malformed; twice; ids of zeros; version ff  begins a trace; tracestate is ignored, too
//   of a later version                               as its first four fields say, whatever follows them
//
// A tracestate that is malformed is dropped, the traceparent beside it is not.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "classifier/headers.h"
#include "ledger/records.h"

namespace gateway {

struct TraceParent {
  std::string trace_id{};  // 32 small hexadecimal digits, not all zeros.
  std::string span_id{};   // 16 of them.
  std::uint8_t flags = 0;  // 1: sampled, 2: the trace id is random; no others.
  bool operator==(const TraceParent&) const = default;
};
[[nodiscard]] std::optional<TraceParent> read_traceparent(std::string_view value);
/// In version 00.
[[nodiscard]] std::string traceparent_of(std::string_view trace_id, std::string_view span_id, std::uint8_t flags);
/// Several headers are one list. Empty: there is none, or it is malformed.
[[nodiscard]] std::string tracestate_in(const classifier::Headers& headers);

/// Whether a call's spans are kept. `by_caller`: as the caller's traceparent says, where there is one; in all other
/// cases so many of all traces, told by their ids.
struct Sampling {
  bool by_caller = true;
  double ratio = 1;
};
[[nodiscard]] bool is_sampled(std::string_view trace_id, double ratio);

/// Random bits for the ids that are needed.
struct TraceChance {
  std::uint64_t trace_high = 0, trace_low = 0, span = 0;
};
[[nodiscard]] std::shared_ptr<ledger::CallTrace> begin_trace(const classifier::Headers& headers, const Sampling& how,
                                                             const TraceChance& chance);

/// Of the span of a call's attempt, which follows from the call's. Numbers count from 1.
[[nodiscard]] std::string attempt_span_id(const ledger::CallTrace& trace, int number);

/// traceparent and tracestate, in any letters.
[[nodiscard]] bool is_trace_header(std::string_view name);
/// For what attempt `number` sends: its span is the parent.
void add_trace_headers(classifier::Headers& headers, const ledger::CallTrace& trace, int number);

}  // namespace gateway
