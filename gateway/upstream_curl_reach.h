#pragma once
// Can an upstream be reached? For `callgate doctor`: a connection is made as for a call, by the same proxies and
// authorities, and ended again. No request is sent over it, and no key.

#include <chrono>
#include <cstdint>
#include <string>

namespace gateway {

struct Reach {
  enum class End : std::uint8_t {
    Reached,
    NoName,
    NoProxyName,
    NotConnected,
    ProxyRefused,
    Untrusted,
    NoTls,
    Late,
    Other
  };
  End end = End::Other;
  std::string detail{};   // What the library says; no URL with a password in it.
  std::string address{};  // Of the peer: "203.0.113.7:443".
  bool by_proxy = false;
  bool tls = false;
  bool connected = false;  // TCP, to the upstream or its proxy.
  std::chrono::milliseconds took{0};
};

/// Blocks for at most `patience`. Many may ask at once.
[[nodiscard]] Reach reach(const std::string& base_url, const std::string& ca_file,
                          std::chrono::milliseconds patience);

}  // namespace gateway
