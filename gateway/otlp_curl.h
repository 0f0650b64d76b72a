#pragma once
// The wire to a collector: libcurl, for a thread that may wait. No curl type leaves the .cpp.

#include <memory>

#include "gateway/trace_exporter.h"

namespace gateway {

[[nodiscard]] std::unique_ptr<OtlpWire> make_otlp_wire();

}  // namespace gateway
