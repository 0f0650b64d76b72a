#include "gateway/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace gateway {
namespace {

constexpr int kBacklog = 4096;  // Workers start by the hundred at once; the kernel cuts it to its own limit.
constexpr std::string_view kUnix = "unix:";
constexpr const char* kForm = "give it as 127.0.0.1:4600, [::1]:4600 or unix:/path (listen.data)";
constexpr const char* kOnlyHere =
    "whoever reaches the port could spend the keys; use 127.0.0.1 or unix:/path, or demand issued keys "
    "(tenancy.unknown: refuse)";

[[noreturn]] void cannot_listen(const std::string& address, const std::string& why) {
  throw std::runtime_error("cannot listen on " + address + ": " + why);
}

std::string said(int error) { return std::generic_category().message(error); }

/// Any of the kinds of socket address, as the system calls take them.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

template <typename Address>
Endpoint endpoint_of(const Address& address) {
  Endpoint endpoint{};
  std::memcpy(&endpoint.storage, &address, sizeof address);
  endpoint.size = sizeof address;
  return endpoint;
}

std::optional<std::uint16_t> port_in(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return port;
}

Endpoint endpoint_at(const std::string& address, Reach reach) {
  const std::size_t colon = address.rfind(':');
  if (colon == address.npos) cannot_listen(address, kForm);
  const std::string host = address.substr(0, colon) == "localhost" ? "127.0.0.1" : address.substr(0, colon);
  const auto port = port_in(std::string_view{address}.substr(colon + 1));
  if (!port) cannot_listen(address, kForm);

  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(*port);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    if (ntohl(v4.sin_addr.s_addr) >> 24 != 127 && reach == Reach::Host) cannot_listen(address, kOnlyHere);
    return endpoint_of(v4);
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(*port);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (!bracketed || inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6.sin6_addr) != 1) {
    cannot_listen(address, kForm);
  }
  if (!IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) && reach == Reach::Host) cannot_listen(address, kOnlyHere);
  return endpoint_of(v6);
}

std::string bound_address(int descriptor) {
  Endpoint endpoint{};
  endpoint.size = sizeof endpoint.storage;
  getsockname(descriptor, endpoint.get(), &endpoint.size);
  char host[INET6_ADDRSTRLEN] = "";
  if (endpoint.storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&endpoint.storage);
    inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
    return std::string{host} + ":" + std::to_string(ntohs(v4->sin_port));
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&endpoint.storage);
  inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
  return "[" + std::string{host} + "]:" + std::to_string(ntohs(v6->sin6_port));
}

/// A socket file on which nobody listens is left from a crash and may go; anything else is somebody's.
void remove_stale(const std::string& address, const std::string& file, const Endpoint& endpoint) {
  struct stat found {};
  if (lstat(file.c_str(), &found) != 0) return;
  if (!S_ISSOCK(found.st_mode)) cannot_listen(address, "the path exists and is no socket");
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const bool refused = connect(probe, endpoint.get(), endpoint.size) != 0 && errno == ECONNREFUSED;
  close(probe);
  if (!refused) cannot_listen(address, "another process seems to listen there");
  unlink(file.c_str());
}

}  // namespace

Listener::Listener(const std::string& address, Reach reach) {
  if (address.starts_with(kUnix)) {
    open_file(address, address.substr(kUnix.size()));
  } else {
    open_port(address, reach);
  }
}

void Listener::open_port(const std::string& address, Reach reach) {
  const Endpoint endpoint = endpoint_at(address, reach);
  family_ = endpoint.storage.ss_family;
  descriptor_ = socket(family_, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(descriptor_, endpoint.get(), endpoint.size) != 0 || ::listen(descriptor_, kBacklog) != 0) {
    const int error = errno;
    close(descriptor_);  // The destructor of what was not built does not run.
    cannot_listen(address, said(error) + (error == EADDRINUSE ? "; is another callgate running?" : ""));
  }
  address_ = bound_address(descriptor_);
}

void Listener::open_file(const std::string& address, const std::string& file) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (file.empty() || file.size() >= sizeof name.sun_path)
    cannot_listen(address, "a socket's path has 1 to 107 bytes");
  std::memcpy(name.sun_path, file.data(), file.size());
  const Endpoint endpoint = endpoint_of(name);
  remove_stale(address, file, endpoint);

  family_ = AF_UNIX;
  descriptor_ = socket(family_, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const bool bound = bind(descriptor_, endpoint.get(), endpoint.size) == 0;
  // Between bind and listen nobody can connect, so there is no moment with wider rights.
  if (!bound || chmod(file.c_str(), 0660) != 0 || ::listen(descriptor_, kBacklog) != 0) {
    const int error = errno;
    close(descriptor_);
    if (bound) unlink(file.c_str());
    cannot_listen(address, said(error));
  }
  file_ = file;
  file_itself_ = open(file.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  address_ = address;
}

/// Somebody else's may stand there by now.
void Listener::remove_file() const {
  struct stat ours {};
  struct stat found {};
  if (fstat(file_itself_, &ours) != 0 || lstat(file_.c_str(), &found) != 0) return;
  if (ours.st_dev == found.st_dev && ours.st_ino == found.st_ino) unlink(file_.c_str());
}

Listener::Listener(Listener&& other) noexcept { *this = std::move(other); }

Listener& Listener::operator=(Listener&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(family_, other.family_);
  std::swap(file_, other.file_);
  std::swap(file_itself_, other.file_itself_);
  std::swap(address_, other.address_);
  return *this;
}

Listener::~Listener() {
  if (descriptor_ >= 0) close(descriptor_);
  if (file_.empty()) return;
  remove_file();
  if (file_itself_ >= 0) close(file_itself_);
}

int Listener::release_descriptor() { return std::exchange(descriptor_, -1); }

}  // namespace gateway
