#pragma once
// How does callgate speak to SDKs of OpenAI and of all that imitate it?

#include <string>
#include <string_view>

#include "classifier/dialect.h"

namespace classifier::dialect {

[[nodiscard]] std::string openai_error_body(const OwnError& error);
[[nodiscard]] std::string openai_error_event(const Endpoint& endpoint, const OwnError& error);
[[nodiscard]] std::string_view openai_heartbeat(const Endpoint& endpoint);

}  // namespace classifier::dialect
