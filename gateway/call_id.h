#pragma once
// By what name is a call known everywhere? A UUIDv7 (RFC 9562 §5.7): sortable by time, unique by chance.

#include <string>

#include "gateway/services.h"

namespace gateway {

[[nodiscard]] std::string new_call_id(WallTime now, std::uint64_t random_a, std::uint64_t random_b);

}  // namespace gateway
