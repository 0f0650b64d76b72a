#include "gateway/standard_webhooks.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <stdexcept>

#include "classifier/base64.h"

namespace gateway {
namespace {

constexpr std::string_view kPrefix = "whsec_";
constexpr std::string_view kVersion = "v1,";
constexpr std::size_t kSecretMin = 24;
constexpr std::size_t kSecretMax = 64;
constexpr std::size_t kSecretsMax = 8;  // More in one header is no rotation any more.
constexpr std::string_view kMend = " (make one with: printf 'whsec_%s\\n' \"$(openssl rand -base64 32)\")";

std::string base64_of(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // EVP_EncodeBlock() writes a NUL behind it.
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

/// Canonical base64 alone: what another reader might take for other bytes would sign something else there.
std::optional<std::string> exactly_base64(std::string_view text) {
  std::string bytes = classifier::from_base64(text);
  if (base64_of(bytes) != text) return std::nullopt;
  return bytes;
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  return line.substr(0, line.find_last_not_of(kBlanks) + 1);
}

}  // namespace

std::expected<WebhookSecrets, std::string> webhook_secrets_of(std::string_view text) {
  WebhookSecrets secrets;
  const auto wrong = [](std::string what) { return std::unexpected(std::move(what) + std::string{kMend}); };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = trimmed(text.substr(at, end - at));
    at = end + 1;
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with(kPrefix)) line.remove_prefix(kPrefix.size());
    const auto secret = exactly_base64(line);
    if (!secret) return wrong("must hold base64 on each line, with whsec_ before it or not");
    if (secret->size() < kSecretMin || secret->size() > kSecretMax) {
      return wrong("must hold secrets of 24 to 64 bytes (one has " + std::to_string(secret->size()) + ")");
    }
    if (secrets.size() == kSecretsMax) return wrong("must hold at most 8 secrets");
    secrets.push_back(*secret);
  }
  if (secrets.empty()) return wrong("must hold a secret");
  return secrets;
}

std::string webhook_signature(const WebhookSecrets& secrets, std::string_view id, std::int64_t timestamp_seconds,
                              std::string_view body) {
  assert(!secrets.empty());
  std::string content;
  content.reserve(id.size() + body.size() + 24);
  content.append(id).append(".").append(std::to_string(timestamp_seconds)).append(".").append(body);
  std::string all;
  for (const std::string& secret : secrets) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
    unsigned size = 0;
    if (HMAC(EVP_sha256(),
             secret.data(),
             static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(content.data()),
             content.size(),
             code.data(),
             &size) == nullptr)
      throw std::runtime_error("HMAC-SHA-256 is not to be had");
    all.append(all.empty() ? "" : " ").append(kVersion);
    all += base64_of({reinterpret_cast<const char*>(code.data()), size});
  }
  return all;
}

classifier::Headers webhook_headers(const WebhookSecrets& secrets, std::string_view id,
                                    std::int64_t timestamp_seconds, std::string_view body) {
  assert(!id.empty() && std::ranges::all_of(id, [](char c) { return c > ' ' && c < '\x7f' && c != '.'; }));
  return {{"webhook-id", std::string{id}},
          {"webhook-timestamp", std::to_string(timestamp_seconds)},
          {"webhook-signature", webhook_signature(secrets, id, timestamp_seconds, body)}};
}

}  // namespace gateway
