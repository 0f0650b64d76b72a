#include "tests/support/raw_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cassert>
#include <cstdio>
#include <string_view>

namespace raw {
namespace {

void add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  assert(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* unsigned_certificate(EVP_PKEY* key, std::string name, bool expired) {
  static std::atomic<long> last = 0;
  const long serial = ++last;
  name += " " + std::to_string(serial);
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -7'200);
  X509_gmtime_adj(X509_getm_notAfter(certificate), expired ? -3'600 : 3'600);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate),
                             "CN",
                             MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()),
                             -1,
                             -1,
                             0);
  return certificate;
}

int choose_protocol(SSL*, const unsigned char** out, unsigned char* size, const unsigned char* offered,
                    unsigned int length, void* http2) {
  constexpr std::string_view kTwo = "\x02h2";
  constexpr std::string_view kOne = "\x08http/1.1";
  const std::string_view ours = http2 != nullptr ? kTwo : kOne;
  const auto found = SSL_select_next_proto(const_cast<unsigned char**>(out),
                                           size,
                                           reinterpret_cast<const unsigned char*>(ours.data()),
                                           static_cast<unsigned int>(ours.size()),
                                           offered,
                                           length);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

}  // namespace

Authority::Authority()
    : key_(EVP_EC_gen("P-256")), certificate_(unsigned_certificate(key_, "test authority", false)) {
  X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
  add_extension(certificate_, certificate_, NID_basic_constraints, "critical,CA:TRUE");
  X509_sign(certificate_, key_, EVP_sha256());

  std::array<char, 64> name{"/tmp/test-authority-XXXXXX"};
  FILE* file = fdopen(mkstemp(name.data()), "w");
  PEM_write_X509(file, certificate_);
  std::fclose(file);
  file_ = name.data();
}

Authority::~Authority() {
  std::filesystem::remove(file_);
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

TlsServer::TlsServer(const Authority& authority, const Options& options)
    : context_(SSL_CTX_new(TLS_server_method())) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = unsigned_certificate(key, "test server", options.expired);
  X509_set_issuer_name(certificate, X509_get_subject_name(authority.certificate_));
  add_extension(certificate, authority.certificate_, NID_subject_alt_name, options.name);
  X509_sign(certificate, authority.key_, EVP_sha256());
  SSL_CTX_use_certificate(context_, certificate);
  SSL_CTX_use_PrivateKey(context_, key);
  SSL_CTX_set_alpn_select_cb(context_, &choose_protocol, options.http2 ? this : nullptr);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

TlsServer::~TlsServer() { SSL_CTX_free(context_); }

}  // namespace raw
