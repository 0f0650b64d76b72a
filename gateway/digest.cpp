#include "gateway/digest.h"

#include <openssl/evp.h>

#include <stdexcept>

namespace gateway {
namespace {

EVP_MD_CTX* context_of(void* context) { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

void Digest::Free::operator()(void* context) const { EVP_MD_CTX_free(context_of(context)); }

Digest::Digest() : context_(EVP_MD_CTX_new()) {
  if (!context_ || EVP_DigestInit_ex(context_of(context_.get()), EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("SHA-256 is not to be had");
}

void Digest::add(std::string_view part) {
  const std::uint64_t size = part.size();
  EVP_DigestUpdate(context_of(context_.get()), &size, sizeof size);
  EVP_DigestUpdate(context_of(context_.get()), part.data(), part.size());
}

std::array<std::uint8_t, 32> Digest::end() {
  std::array<std::uint8_t, 32> digest{};
  EVP_DigestFinal_ex(context_of(context_.get()), digest.data(), nullptr);
  return digest;
}

}  // namespace gateway
