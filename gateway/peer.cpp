#include "gateway/peer.h"

#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

namespace gateway {
namespace {

constexpr std::size_t kBuffer = 64UL * 1024;
constexpr int kMostGroups = 256;

std::string group_named(gid_t id, std::vector<char>& buffer) {
  group entry{};
  group* found = nullptr;
  if (::getgrgid_r(id, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) return found->gr_name;
  return std::to_string(id);
}

}  // namespace

std::optional<PeerIds> peer_ids(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return std::nullopt;  // NOLINT
  if (address.ss_family != AF_UNIX) return std::nullopt;
  ucred ids{};
  length = sizeof ids;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &ids, &length) != 0) return std::nullopt;
  return PeerIds{ids.uid, ids.gid};
}

bool Peer::is(std::string_view name) const { return user == name || std::ranges::find(groups, name) != groups.end(); }

Peer peer_named(PeerIds ids) {
  std::vector<char> buffer(kBuffer);
  Peer peer;
  passwd entry{};
  passwd* found = nullptr;
  const bool known = ::getpwuid_r(ids.user, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr;
  peer.user = known ? std::string{found->pw_name} : std::to_string(ids.user);
  std::array<gid_t, kMostGroups> groups{};
  int count = 0;
  if (known) {
    count = kMostGroups;
    if (::getgrouplist(peer.user.c_str(), entry.pw_gid, groups.data(), &count) < 0) count = kMostGroups;
  }
  // The one that the process has need not be among them.
  std::vector<gid_t> all{ids.group};
  for (int i = 0; i < count; ++i) {
    const gid_t id = groups.at(static_cast<std::size_t>(i));
    if (std::ranges::find(all, id) == all.end()) all.push_back(id);
  }
  for (const gid_t id : all) peer.groups.push_back(group_named(id, buffer));
  return peer;
}

}  // namespace gateway
