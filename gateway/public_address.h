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

}  // namespace gateway
