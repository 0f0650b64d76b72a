#include "gateway/issued_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <stdexcept>

#include "classifier/headers.h"

namespace gateway {
namespace {

constexpr std::string_view kPrefix = "cg_";
// Without punctuation, so that a double click selects all of it.
constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::size_t kLength = 43;  // 43 × log2(62) = 256 bits.
constexpr std::string_view kHex = "0123456789abcdef";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\"'";
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

}  // namespace

std::string new_issued_key() {
  std::string key{kPrefix};
  while (key.size() < kPrefix.size() + kLength) {
    std::uint8_t byte = 0;
    if (RAND_bytes(&byte, 1) != 1) throw std::runtime_error("the system has no random numbers to give");
    // Of 256 values only 4 × 62, or some letters came more often.
    if (byte < 4 * kLetters.size()) key += kLetters[byte % kLetters.size()];
  }
  return key;
}

std::string_view issued_key_in(std::string_view value) {
  value = trimmed(value);
  if (value.starts_with(kPrefix)) return value;
  const std::size_t blank = value.find_last_of(" \t");
  const std::string_view last = blank == value.npos ? std::string_view{} : trimmed(value.substr(blank + 1));
  return last.starts_with(kPrefix) ? last : std::string_view{};
}

KeyDigest digest_of_key(std::string_view key) {
  KeyDigest digest{};
  unsigned size = 0;
  if (EVP_Digest(key.data(), key.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1 || size != digest.size())
    throw std::runtime_error("SHA-256 is not to be had");
  return digest;
}

std::string text_of(const KeyDigest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += kHex[byte >> 4U];
    text += kHex[byte & 15U];
  }
  return text;
}

std::optional<KeyDigest> key_digest_of(std::string_view text) {
  KeyDigest digest{};
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kHex.find(classifier::lower(text[i]));
    if (digit == kHex.npos) return std::nullopt;
    digest[i / 2] = static_cast<std::uint8_t>(digest[i / 2] << 4U | digit);
  }
  return digest;
}

bool same_digest(const KeyDigest& one, const KeyDigest& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace gateway
