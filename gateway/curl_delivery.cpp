#include "gateway/curl_delivery.h"

// Not netinet/tcp.h, whose tcp_info ends before the byte counts; no header of Asio may come in beside it.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>

namespace gateway {
namespace {

// From the kernel's enum, which linux/tcp.h does not export.
constexpr std::uint8_t kEstablished = 1;
constexpr std::uint8_t kClose = 7;
constexpr std::uint8_t kCloseWait = 8;

}  // namespace

bool TcpState::over() const { return state != kEstablished; }

std::optional<TcpState> tcp_state(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_retrans) + sizeof(info.tcpi_bytes_retrans)) return std::nullopt;
  TcpState now;
  now.state = info.tcpi_state;
  now.sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
  now.acknowledged = info.tcpi_bytes_acked;
  return now;
}

std::optional<TcpState> tcp_state_at_close(int socket) {
  auto now = tcp_state(socket);
  if (!now) return now;
  socklen_t size = sizeof(now->error);
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &now->error, &size) != 0) return std::nullopt;
  return now;
}

bool never_delivered(const std::optional<TcpState>& before, const std::optional<TcpState>& at_close) {
  if (!before || !at_close) return false;
  const bool nothing_taken = at_close->acknowledged == before->acknowledged;
  if (at_close->state == kCloseWait) return nothing_taken;
  if (at_close->state != kClose) return false;  // What still waits in the kernel would go out after the close.
  // A reset that follows a FIN leaves EPIPE behind (it answers our request, which met a closed socket); a reset
  // alone leaves ECONNRESET.
  return at_close->sent == before->sent || (nothing_taken && at_close->error == EPIPE);
}

}  // namespace gateway
