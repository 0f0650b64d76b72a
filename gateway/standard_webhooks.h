#pragma once
// How does a receiver know that a webhook is from us? Standard Webhooks 1.0: an HMAC over id, time and body.
//
//   webhook-id: <message id>, the same in every repetition
//   webhook-timestamp: <seconds since 1970>, of this attempt
//   webhook-signature: v1,<base64 of HMAC-SHA256(secret, "id.timestamp.body")>, one for each secret, parted by blanks

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/headers.h"

namespace gateway {

/// Secrets as bytes; the newest first. While one is exchanged for another there are two, and receivers may know
/// either.
using WebhookSecrets = std::vector<std::string>;

/// What a file says: "whsec_<base64 of 24 to 64 bytes>", one a line, or without the prefix; empty lines and those
/// that begin with # are passed over. The error says what it must hold, "must hold …", and nothing of what it holds.
[[nodiscard]] std::expected<WebhookSecrets, std::string> webhook_secrets_of(std::string_view text);

/// "v1,…", or several. `secrets` must not be empty.
[[nodiscard]] std::string webhook_signature(const WebhookSecrets& secrets, std::string_view id,
                                            std::int64_t timestamp_seconds, std::string_view body);

/// The three headers. `id` must have no blank or control character in it, and no dot.
[[nodiscard]] classifier::Headers webhook_headers(const WebhookSecrets& secrets, std::string_view id,
                                                  std::int64_t timestamp_seconds, std::string_view body);

}  // namespace gateway
