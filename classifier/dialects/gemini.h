#pragma once
// How does callgate speak to Google's SDKs?

#include <string>
#include <string_view>

#include "classifier/dialect.h"

namespace classifier::dialect {

[[nodiscard]] std::string gemini_error_body(const OwnError& error);
[[nodiscard]] std::string gemini_error_event(const Endpoint& endpoint, const OwnError& error);
[[nodiscard]] std::string_view gemini_heartbeat(const Endpoint& endpoint);

}  // namespace classifier::dialect
