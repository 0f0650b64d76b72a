#include "ledger/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "classifier/base64.h"

namespace ledger {
namespace {

constexpr char kForm = 1;
constexpr std::size_t kIdBytes = 8;
constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kTagBytes = 16;
constexpr std::size_t kHeadBytes = 1 + kIdBytes + kNonceBytes;

using Context = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());  // NOLINT
}
unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }  // NOLINT

std::string id_of(std::string_view key) {
  std::string digest(32, '\0');
  unsigned int size = 0;
  if (EVP_Digest(key.data(), key.size(), bytes_of(digest), &size, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("SHA-256 is not to be had");
  }
  digest.resize(kIdBytes);
  return digest;
}

std::optional<std::string> from_hex(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    int value = 0;
    for (const char c : text.substr(i, 2)) {
      const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
      const bool digit = lower >= '0' && lower <= '9';
      if (!digit && (lower < 'a' || lower > 'f')) return std::nullopt;
      value = value * 16 + (digit ? lower - '0' : lower - 'a' + 10);
    }
    out += static_cast<char>(value);
  }
  return out;
}

std::optional<std::string> key_of(std::string_view line) {
  if (line.size() == 2 * kSealKeyBytes) return from_hex(line);
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=";
  if (line.find_first_not_of(kAlphabet) != std::string_view::npos) return std::nullopt;
  std::string key = classifier::from_base64(line);
  if (key.size() != kSealKeyBytes) return std::nullopt;
  return key;
}

}  // namespace

Seal::Seal(std::string key, std::vector<std::string> old_keys) {
  old_keys.insert(old_keys.begin(), std::move(key));
  for (std::string& each : old_keys) {
    assert(each.size() == kSealKeyBytes);
    std::string id = id_of(each);
    keys_.push_back({std::move(each), std::move(id)});
  }
}

Seal::~Seal() {
  for (Key& key : keys_) OPENSSL_cleanse(key.bytes.data(), key.bytes.size());
}

std::string Seal::seal(std::string_view text, std::string_view bound_to) const {
  const Key& key = keys_.front();
  std::string out(kHeadBytes + text.size() + kTagBytes, '\0');
  out[0] = kForm;
  std::ranges::copy(key.id, out.begin() + 1);
  unsigned char* nonce = bytes_of(out) + 1 + kIdBytes;
  if (RAND_bytes(nonce, kNonceBytes) != 1) throw std::runtime_error("no random bytes are to be had");

  const Context context(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  int size = 0;
  const bool done =
      EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(key.bytes), nonce) == 1 &&
      EVP_EncryptUpdate(context.get(), nullptr, &size, bytes_of(bound_to), static_cast<int>(bound_to.size())) == 1 &&
      EVP_EncryptUpdate(
          context.get(), bytes_of(out) + kHeadBytes, &size, bytes_of(text), static_cast<int>(text.size())) == 1 &&
      EVP_EncryptFinal_ex(context.get(), bytes_of(out) + kHeadBytes + text.size(), &size) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, bytes_of(out) + kHeadBytes + text.size()) ==
          1;
  if (!done) throw std::runtime_error("AES-256-GCM is not to be had");
  return out;
}

std::expected<std::string, std::string> Seal::open(std::string_view sealed, std::string_view bound_to) const {
  if (sealed.size() < kHeadBytes + kTagBytes || sealed[0] != kForm) return std::unexpected("it is nothing sealed");
  const auto key = std::ranges::find(keys_, sealed.substr(1, kIdBytes), &Key::id);
  if (key == keys_.end()) return std::unexpected("its key is not here");
  const std::string_view text = sealed.substr(kHeadBytes, sealed.size() - kHeadBytes - kTagBytes);
  std::array<unsigned char, kTagBytes> tag{};
  std::memcpy(tag.data(), sealed.data() + sealed.size() - kTagBytes, kTagBytes);

  const Context context(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  std::string out(text.size(), '\0');
  int size = 0;
  const bool done =
      EVP_DecryptInit_ex(
          context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(key->bytes), bytes_of(sealed) + 1 + kIdBytes) == 1 &&
      EVP_DecryptUpdate(context.get(), nullptr, &size, bytes_of(bound_to), static_cast<int>(bound_to.size())) == 1 &&
      EVP_DecryptUpdate(context.get(), bytes_of(out), &size, bytes_of(text), static_cast<int>(text.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
      EVP_DecryptFinal_ex(context.get(), bytes_of(out) + out.size(), &size) == 1;
  if (!done) return std::unexpected("it is not as it was sealed");
  return out;
}

std::expected<std::vector<std::string>, std::string> payload_keys_in(std::string_view text) {
  // Raw bytes may well end with one that looks like a line's end.
  if (text.size() == kSealKeyBytes) return std::vector{std::string{text}};
  std::vector<std::string> keys;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    std::optional<std::string> key = key_of(line);
    if (!key)
      return std::unexpected(
          "must hold 32 bytes: raw, or on each line one key as 64 hexadecimal digits or as base64 (make one with: "
          "openssl rand -base64 32)");
    keys.push_back(std::move(*key));
  }
  if (keys.empty()) return std::unexpected("holds no key (make one with: openssl rand -base64 32)");
  return keys;
}

}  // namespace ledger
