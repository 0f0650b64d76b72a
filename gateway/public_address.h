#pragma once
// Is that an address of the Internet at large, and not one that is only meant for us?

#include <cstdint>
#include <span>

namespace gateway {

/// 4 bytes of IPv4 or 16 of IPv6, in network order; any other length is none. Not public is all that IANA's
/// registries of special-purpose addresses call so: private, shared (CGNAT), loopback, link-local, multicast,
/// unspecified, documentation, reserved, and cloud metadata. IPv4 in IPv6 (mapped, NAT64, 6to4) is judged as what it
/// is within.
[[nodiscard]] bool is_public(std::span<const std::uint8_t> address);

/// Is it of a private network, as a cluster's Services are: 10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7 (and
/// those of IPv4 in IPv6)? Never what clouds have there for metadata; loopback and link-local are none of them.
[[nodiscard]] bool is_inside(std::span<const std::uint8_t> address);

}  // namespace gateway
