#include "tests/support/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

namespace support {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

int checked(int result, const std::string& doing) {
  if (result < 0) throw std::system_error{errno, std::generic_category(), doing};
  return result;
}

template <typename Address>
int connected(int family, const Address& address, const std::string& name, int receive_buffer) {
  const int descriptor = checked(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  if (receive_buffer > 0) setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    ::close(descriptor);
    throw std::system_error{error, std::generic_category(), "connect to " + name};
  }
  const int yes = 1;
  if (family != AF_UNIX) setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return descriptor;
}

int connected(const std::string& address, int receive_buffer) {
  constexpr std::string_view kUnix = "unix:";
  if (address.starts_with(kUnix)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    address.copy(name.sun_path, sizeof name.sun_path - 1, kUnix.size());
    return connected(AF_UNIX, name, address, receive_buffer);
  }
  const std::size_t colon = address.rfind(':');
  const auto port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  if (address.starts_with('[')) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = port;
    inet_pton(AF_INET6, address.substr(1, colon - 2).c_str(), &v6.sin6_addr);
    return connected(AF_INET6, v6, address, receive_buffer);
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = port;
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &v4.sin_addr);
  return connected(AF_INET, v4, address, receive_buffer);
}

bool ready(int descriptor, short events, Clock::time_point until) {
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
  pollfd waiting{descriptor, events, 0};
  return ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) > 0;
}

}  // namespace

RawClient::RawClient(const std::string& address, int receive_buffer) : socket_(connected(address, receive_buffer)) {}
RawClient::~RawClient() { close(); }
RawClient::RawClient(RawClient&& other) noexcept
    : patience(other.patience),
      socket_(std::exchange(other.socket_, -1)),
      in_(std::move(other.in_)),
      end_(other.end_) {}

bool RawClient::send(std::string_view bytes) {
  const auto until = Clock::now() + patience;
  while (!bytes.empty()) {
    if (!ready(socket_, POLLOUT, until)) return false;
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) continue;
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::send_in_pieces(std::string_view bytes, std::size_t size) {
  while (!bytes.empty()) {
    if (!send(bytes.substr(0, size))) return false;
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  return true;
}

void RawClient::end_sending() { ::shutdown(socket_, SHUT_WR); }

void RawClient::reset() {
  const linger now{1, 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

void RawClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

bool RawClient::fill(Clock::time_point until) {
  if (end_ != End::Open || !ready(socket_, POLLIN, until)) return false;
  std::array<char, 64 * 1024> bytes;
  const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
  if (got <= 0) {
    end_ = got == 0 ? End::Fin : End::Reset;
    return false;
  }
  in_.append(bytes.data(), static_cast<std::size_t>(got));
  return true;
}

std::optional<std::string> RawClient::take_line(Clock::time_point until) {
  for (;;) {
    if (const std::size_t end = in_.find("\r\n"); end != in_.npos) {
      std::string line = in_.substr(0, end);
      in_.erase(0, end + 2);
      return line;
    }
    if (!fill(until)) return std::nullopt;
  }
}

bool RawClient::take(std::size_t bytes, std::string& into, Clock::time_point until) {
  while (in_.size() < bytes) {
    if (!fill(until)) break;
  }
  const std::size_t here = std::min(bytes, in_.size());
  into.append(in_, 0, here);
  in_.erase(0, here);
  return here == bytes;
}

bool RawClient::take_chunks(RawResponse& response, Clock::time_point until) {
  for (;;) {
    const auto line = take_line(until);
    std::size_t size = 0;
    if (!line || std::from_chars(line->data(), line->data() + line->size(), size, 16).ec != std::errc{}) return false;
    if (size == 0) return take_line(until) == "";
    ++response.chunks;
    if (!take(size, response.body, until) || take_line(until) != "") return false;
  }
}

std::optional<RawResponse> RawClient::response(bool to_head) {
  const auto until = Clock::now() + patience;
  RawResponse response;
  for (;;) {
    const auto line = take_line(until);
    if (!line || !line->starts_with("HTTP/1.1 ") || line->size() < 13) return std::nullopt;
    response.status = std::stoi(line->substr(9, 3));
    response.reason = line->substr(13);
    response.head = *line + "\r\n";
    for (;;) {
      const auto field = take_line(until);
      if (!field) return std::nullopt;
      response.head += *field + "\r\n";
      if (field->empty()) break;
      const std::size_t colon = field->find(": ");
      response.headers.push_back({field->substr(0, colon), field->substr(colon + 2)});
    }
    if (response.status != 100) break;
    response.continued = true;
    response.headers.clear();
  }

  if (to_head || response.status == 204 || response.status == 304) {
    response.complete = true;
  } else if (classifier::find(response.headers, "transfer-encoding") == "chunked") {
    response.complete = take_chunks(response, until);
  } else if (const auto length = classifier::find(response.headers, "content-length")) {
    response.complete = take(std::stoull(std::string{*length}), response.body, until);
  } else {
    while (fill(until)) continue;
    response.body = std::exchange(in_, {});
    response.complete = end_ == End::Fin;
  }
  return response;
}

std::string RawClient::read_some(milliseconds time, std::size_t most) {
  if (in_.empty()) fill(Clock::now() + time);
  std::string some = in_.substr(0, most);
  in_.erase(0, some.size());
  return some;
}

std::string RawClient::read_to_end() {
  const auto until = Clock::now() + patience;
  while (fill(until)) continue;
  return std::exchange(in_, {});
}

End RawClient::wait_for_end() {
  read_to_end();
  return end_;
}

}  // namespace support
