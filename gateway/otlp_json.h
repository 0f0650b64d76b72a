#pragma once
// How do spans become the body of an OTLP/HTTP request, and what does its answer say? OTLP 1.x, JSON: ids in
// hexadecimal, 64-bit numbers as strings, enums as numbers.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gateway/call_spans.h"
#include "gateway/otlp_settings.h"

namespace gateway {

/// ExportTraceServiceRequest. No text is longer than 256 bytes.
[[nodiscard]] std::string otlp_json(std::span<const Span> spans, const TextPairs& resource);

/// ExportTraceServiceResponse.partialSuccess.rejectedSpans; 0 if it says nothing of it.
[[nodiscard]] std::int64_t rejected_spans(std::string_view answer);

}  // namespace gateway
