#pragma once
// Was a request that went out on a connection ever taken by the other side? What the kernel knows of it.
//
// curl sends a request again by itself when a reused connection ends before the first byte of an answer. For a POST
// that has left, this is a second execution unless the first one provably never reached the provider. The proof:
// a FIN acknowledges all that its sender's kernel had received when it left. If it acknowledges no byte of our
// request, the provider had ended the conversation before the request got there. A reset proves nothing: it may
// come from a process that has read the request, and it overtakes acknowledgements.

#include <cstdint>
#include <optional>

namespace gateway {

/// What a TCP socket's kernel knows at one moment.
struct TcpState {
  std::uint8_t state = 0;  // TCP_ESTABLISHED, …
  int error = 0;           // Pending SO_ERROR (reading clears it: only asked for at the end).
  std::uint64_t sent = 0;  // Bytes that left, repetitions not counted.
  std::uint64_t acknowledged = 0;

  /// The other side has ended it, or it is broken: nothing that is sent now can be answered.
  [[nodiscard]] bool over() const;
};

/// Nothing if the kernel does not tell (not TCP, or an odd kernel).
[[nodiscard]] std::optional<TcpState> tcp_state(int socket);
/// The same, at the moment of closing.
[[nodiscard]] std::optional<TcpState> tcp_state_at_close(int socket);

/// `before`: just before the request was sent. True only if no byte of it can have been read.
[[nodiscard]] bool never_delivered(const std::optional<TcpState>& before, const std::optional<TcpState>& at_close);

}  // namespace gateway
