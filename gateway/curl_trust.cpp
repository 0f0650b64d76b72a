#include "gateway/curl_trust.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/stat.h>

#include <cstdlib>
#include <utility>

namespace gateway {
namespace {

constexpr const char* kDebianBundle = "/etc/ssl/certs/ca-certificates.crt";

std::string system_bundle() {
  const char* named = std::getenv("SSL_CERT_FILE");
  return named != nullptr && *named != '\0' ? named : kDebianBundle;
}

}  // namespace

TrustStore::TrustStore(std::string file) : file_(file.empty() ? system_bundle() : std::move(file)) {}

TrustStore::~TrustStore() { X509_STORE_free(store_); }

void TrustStore::refresh() {
  struct stat info {};
  if (stat(file_.c_str(), &info) != 0) return;
  const Stamp stamp{static_cast<long long>(info.st_dev),
                    static_cast<long long>(info.st_ino),
                    info.st_size,
                    info.st_mtim.tv_sec,
                    info.st_mtim.tv_nsec};
  if (stamp == stamp_) return;
  stamp_ = stamp;  // A broken file is not parsed again for each connection either.
  X509_STORE* fresh = X509_STORE_new();
  if (fresh != nullptr && X509_STORE_load_file(fresh, file_.c_str()) == 1) std::swap(store_, fresh);
  X509_STORE_free(fresh);
  ERR_clear_error();
}

bool TrustStore::lend(ssl_ctx_st* connection) {
  refresh();
  if (store_ == nullptr) return false;
  SSL_CTX_set1_cert_store(connection, store_);
  return true;
}

}  // namespace gateway
