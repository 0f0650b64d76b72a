#pragma once
// Which certificate authorities do we believe? Parsed once for all connections.
//
// The system's bundle costs 50 ms of CPU and more than a megabyte to parse. libcurl can keep it, but once for each of
// our many multi handles; so it is kept here and lent to each connection.

#include <string>

struct ssl_ctx_st;     // OpenSSL's SSL_CTX
struct x509_store_st;  // OpenSSL's X509_STORE

namespace gateway {

class TrustStore {
 public:
  /// An empty name means the system's bundle ($SSL_CERT_FILE, else Debian's place). Nothing is read yet.
  explicit TrustStore(std::string file);
  ~TrustStore();
  TrustStore(const TrustStore&) = delete;
  TrustStore& operator=(const TrustStore&) = delete;

  /// Makes a new connection believe these authorities. Reads the file at first, and again after it was replaced (a
  /// bundle is rotated under a running process); one that is gone or broken then leaves the last good one in place.
  /// False: there has been no good one yet.
  [[nodiscard]] bool lend(ssl_ctx_st* connection);

 private:
  void refresh();

  struct Stamp {
    long long device = 0, inode = 0, size = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  std::string file_;
  Stamp stamp_{};
  x509_store_st* store_ = nullptr;
};

}  // namespace gateway
