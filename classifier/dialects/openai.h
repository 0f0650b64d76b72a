#pragma once
// How does callgate speak to SDKs of OpenAI and of all that imitate it?

#include <string>
#include <string_view>

#include "classifier/dialect.h"

namespace classifier::dialect {

[[nodiscard]] std::string openai_error_body(const OwnError& error);
[[nodiscard]] std::string openai_error_event(const Endpoint& endpoint, const OwnError& error);
[[nodiscard]] std::string_view openai_heartbeat(const Endpoint& endpoint);

/// The same for servers that speak Anthropic's language, too.
[[nodiscard]] std::string imitated_error_event(const Endpoint& endpoint, const OwnError& error);
[[nodiscard]] std::string_view imitated_heartbeat(const Endpoint& endpoint);
/// {"error":{"code":429,…}}: servers whose code is the status; ours stands beside it.
[[nodiscard]] std::string numbered_error_body(const OwnError& error, std::string_view type);
[[nodiscard]] std::string numbered_error_event(const Endpoint& endpoint, const OwnError& error,
                                               std::string_view type);

}  // namespace classifier::dialect
