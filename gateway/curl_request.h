#pragma once
// How does a request look in libcurl's words? Pure: what is asked in, what libcurl is told out.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/upstream.h"

namespace gateway {

/// Where an upstream is, and through whom it is reached.
struct Destination {
  std::string origin{};  // "https://api.example.com:8443/"
  std::string path{};    // What stands before every target; empty or "/v1".
  bool tls = false;
  std::string proxy{};     // Empty: none.
  std::string no_proxy{};  // Hosts that are reached directly all the same, as libcurl matches them.
};
/// `environment` gives a variable's value or "". Proxies are never asked for a host on this machine.
[[nodiscard]] Destination destination(std::string_view base_url,
                                      const std::function<std::string(const char*)>& environment);

/// Header lines in libcurl's form. It would add fields of its own; those are switched off here.
struct HeaderLines {
  std::string text{};                  // Lines, each with a NUL behind it.
  std::vector<std::size_t> offsets{};  // Where they begin.
};
void write_header_lines(const Outbound& request, bool sends_body, HeaderLines& lines);

/// Why this request cannot be sent without becoming another one (a line break in a value, …), else empty.
[[nodiscard]] std::string_view unsendable(const Outbound& request);
/// Does it go out with a body, which may be an empty one?
[[nodiscard]] bool sends_body(const Outbound& request);

}  // namespace gateway
