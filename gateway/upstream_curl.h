#pragma once
// The wire to the providers: libcurl's multi interface on our io_context. No curl type leaves the .cpp.

#include <memory>

#include "gateway/upstream.h"

namespace gateway {

struct CurlOptions {
  int shards = 16;  // libcurl scans all open connections at each new call; see dataplane facts.
  std::chrono::seconds idle_connection{90};  // A pooled connection unused for longer is not used again.
  std::chrono::seconds dns_cache{60};
  bool use_environment_proxies = true;  // HTTPS_PROXY, HTTP_PROXY, NO_PROXY in either case.
};

/// I/O thread only. Must outlive every exchange.
class CurlUpstream final : public Upstream {
 public:
  CurlUpstream(asio::io_context& io, CurlOptions options);
  ~CurlUpstream() override;
  std::unique_ptr<Exchange> start(Outbound request, Signal& signal) override;
  void retire(std::unique_ptr<Exchange> exchange) override;

  struct Figures {
    std::size_t exchanges = 0;    // In flight now.
    std::size_t connections = 0;  // Sockets open now, pooled ones included.
  };
  [[nodiscard]] Figures figures() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gateway
