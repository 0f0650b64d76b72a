#pragma once
// How long will this caller's SDK wait for a first byte before it gives up and sends a twin?
// What it declares, bounded by what clients of its kind do whatever they declare (facts of clients, measured).

#include <chrono>

#include "classifier/headers.h"

namespace gateway {

/// Already less a margin, so that an answer sent then still arrives. Never zero.
[[nodiscard]] std::chrono::milliseconds patience_of(const classifier::Headers& headers);

}  // namespace gateway
