#pragma once
// How does callgate speak to Anthropic's SDKs, also where another provider serves its API?

#include <string>
#include <string_view>

#include "classifier/dialect.h"

namespace classifier::dialect {

[[nodiscard]] std::string anthropic_error_event(const Endpoint& endpoint, const OwnError& error);
[[nodiscard]] std::string_view anthropic_heartbeat(const Endpoint& endpoint);

}  // namespace classifier::dialect
