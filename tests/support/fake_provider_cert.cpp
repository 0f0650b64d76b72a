#include "tests/support/fake_provider_cert.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <memory>
#include <stdexcept>

namespace fake_provider {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Cert = std::unique_ptr<X509, Freed<X509_free>>;
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;

constexpr long kDay = 86'400;

struct CertWish {
  std::string common_name{};
  std::string alternative_names{};
  long from = 0, until = 0;  // Seconds from now.
};

Cert new_cert(const CertWish& wish, EVP_PKEY* subject_key, X509* issuer, EVP_PKEY* issuer_key) {
  Cert cert{X509_new()};
  X509_set_version(cert.get(), X509_VERSION_3);
  std::uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert.get()), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), wish.from);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), wish.until);
  X509_set_pubkey(cert.get(), subject_key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()),
                             "CN",
                             MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(wish.common_name.c_str()),
                             -1,
                             -1,
                             0);
  X509* const by = issuer != nullptr ? issuer : cert.get();
  X509_set_issuer_name(cert.get(), X509_get_subject_name(by));

  X509V3_CTX context{};
  X509V3_set_ctx(&context, by, cert.get(), nullptr, nullptr, 0);
  const auto extend = [&](int kind, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    if (extension == nullptr) throw std::runtime_error("cannot make a certificate for " + value);
    X509_add_ext(cert.get(), extension, -1);
    X509_EXTENSION_free(extension);
  };
  extend(NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!wish.alternative_names.empty()) extend(NID_subject_alt_name, wish.alternative_names);
  if (X509_sign(cert.get(), issuer_key, EVP_sha256()) == 0) throw std::runtime_error("cannot sign a certificate");
  return cert;
}

Bio file(const std::string& path) {
  Bio out{BIO_new_file(path.c_str(), "w")};
  if (!out) throw std::runtime_error("cannot write " + path);
  return out;
}

}  // namespace

MadeCert make_cert(const std::string& directory, const std::string& host, bool expired) {
  std::filesystem::create_directories(directory);
  const Key ca_key{EVP_EC_gen("P-256")};
  const Key key{EVP_EC_gen("P-256")};
  const Cert ca = new_cert({"fake provider CA", "", -30 * kDay, 30 * kDay}, ca_key.get(), nullptr, ca_key.get());
  const bool is_ip = host.find_first_not_of("0123456789.") == std::string::npos;
  const std::string names = host.empty() ? "DNS:localhost,IP:127.0.0.1,IP:::1" : (is_ip ? "IP:" : "DNS:") + host;
  const CertWish wish{host.empty() ? "localhost" : host, names, -29 * kDay, expired ? -kDay : 29 * kDay};
  const Cert cert = new_cert(wish, key.get(), ca.get(), ca_key.get());

  const MadeCert made{directory + "/ca.pem", directory + "/cert.pem", directory + "/key.pem"};
  PEM_write_bio_X509(file(made.ca_file).get(), ca.get());
  PEM_write_bio_X509(file(made.cert_file).get(), cert.get());
  PEM_write_bio_PrivateKey(file(made.key_file).get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return made;
}

}  // namespace fake_provider
