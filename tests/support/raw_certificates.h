#pragma once
// Certificate authorities and TLS servers that live as long as a test.

#include <filesystem>
#include <string>

struct ssl_ctx_st;
struct x509_st;
struct evp_pkey_st;

namespace raw {

/// A certificate authority of our own, with its certificate in a file.
class Authority {
 public:
  Authority();
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  friend class TlsServer;
  evp_pkey_st* key_;
  x509_st* certificate_;
  std::string file_;
};

/// What a server shows: a certificate for `name` ("IP:127.0.0.1", "DNS:example.test").
class TlsServer {
 public:
  struct Options {
    std::string name = "IP:127.0.0.1";
    bool expired = false;
    bool http2 = false;  // Chosen by ALPN.
  };
  TlsServer(const Authority& authority, const Options& options);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;
  [[nodiscard]] ssl_ctx_st* context() const { return context_; }

 private:
  ssl_ctx_st* context_;
};

}  // namespace raw
