#include "cli/admin_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "gateway/config_values.h"

namespace cli {
namespace {

using Clock = std::chrono::steady_clock;

class Socket {
 public:
  explicit Socket(int family) : fd_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

struct Destination {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

template <typename Plain>
Destination destination_of(const Plain& plain) {
  Destination to;
  std::memcpy(&to.storage, &plain, sizeof plain);
  to.size = sizeof plain;
  return to;
}

std::optional<Destination> destination(const gateway::Address& address) {
  if (!address.unix_path.empty()) {
    sockaddr_un file{};
    file.sun_family = AF_UNIX;
    if (address.unix_path.size() >= sizeof file.sun_path) return std::nullopt;
    std::memcpy(file.sun_path, address.unix_path.data(), address.unix_path.size());
    return destination_of(file);
  }
  // What listens everywhere listens here, too.
  std::string host = address.host == "localhost" || address.host == "0.0.0.0" ? "127.0.0.1" : address.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "::") host = "::1";
  const auto port = htons(static_cast<std::uint16_t>(address.port));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = port;
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) return destination_of(v4);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = port;
  if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) return destination_of(v6);
  return std::nullopt;
}

/// False: not by then.
bool await(const Socket& socket, short what, Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd one{socket.get(), what, 0};
  return left > 0 && ::poll(&one, 1, static_cast<int>(left)) > 0;
}

std::unexpected<Unreachable> failed(int error) {
  return std::unexpected(Unreachable{.why = std::strerror(error), .denied = error == EACCES || error == EPERM});
}
std::unexpected<Unreachable> late() {
  return std::unexpected(Unreachable{.why = "no answer in time", .timed_out = true});
}

}  // namespace

std::expected<AdminAnswer, Unreachable> ask_admin(const AdminRequest& request, std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  const auto address = gateway::read_address(request.address);
  const auto to = address ? destination(*address) : std::nullopt;
  if (!to) return std::unexpected(Unreachable{"this is no address; write 127.0.0.1:4602 or unix:/path"});

  const Socket socket{to->storage.ss_family};
  if (socket.get() < 0) return failed(errno);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to->storage), to->size) != 0) {
    if (errno != EINPROGRESS) return failed(errno);
    if (!await(socket, POLLOUT, until)) return late();
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return failed(error);
  }

  // The one name that every admin listener answers to.
  std::string text = request.method + " " + request.path +
                     " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n";
  if (!request.token.empty()) text += "Authorization: Bearer " + request.token + "\r\n";
  text += "\r\n";
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t sent = ::send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return failed(errno);
    } else if (!await(socket, POLLOUT, until)) {
      return late();
    }
  }
  std::string in;
  for (std::array<char, 65536> block{};;) {
    const ssize_t got = ::recv(socket.get(), block.data(), block.size(), 0);
    if (got == 0) break;
    if (got > 0) {
      in.append(block.data(), static_cast<std::size_t>(got));
      if (in.size() > request.largest) {
        return std::unexpected(
            Unreachable{"it answers more than " + gateway::say_size(static_cast<std::int64_t>(request.largest))});
      }
    } else if (errno != EAGAIN && errno != EINTR) {
      return failed(errno);
    } else if (!await(socket, POLLIN, until)) {
      return late();
    }
  }
  const std::size_t head = in.find("\r\n\r\n");
  AdminAnswer answer;
  const bool http = in.starts_with("HTTP/1.1 ") && head != std::string::npos;
  if (!http || std::from_chars(in.data() + 9, in.data() + 12, answer.status).ec != std::errc{}) {
    return std::unexpected(Unreachable{"what listens there is no callgate"});
  }
  answer.body = in.substr(head + 4);
  return answer;
}

}  // namespace cli
