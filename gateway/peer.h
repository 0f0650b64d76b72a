#pragma once
// Who is at the other end of a unix socket?

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gateway {

/// As the kernel has it of the process that connected (SO_PEERCRED).
struct PeerIds {
  std::uint32_t user = 0;
  std::uint32_t group = 0;
};
/// Nothing: the socket is no unix socket.
[[nodiscard]] std::optional<PeerIds> peer_ids(int socket);

/// What they are called on this machine; an id without a name is its number ("1000").
struct Peer {
  std::string user{};
  std::vector<std::string> groups{};
  /// By their own name or one of their groups'.
  [[nodiscard]] bool is(std::string_view name) const;
};
/// Asks the system's databases, which may take its time.
[[nodiscard]] Peer peer_named(PeerIds ids);

}  // namespace gateway
