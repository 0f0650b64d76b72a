#pragma once
// A caller that sends exactly the bytes it is told to, and sees how a connection ends. Blocking; every wait is
// bounded.

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "classifier/headers.h"

namespace support {

/// How the other side has ended, as far as it was seen.
enum class End { Open, Fin, Reset };

struct RawResponse {
  int status = 0;
  std::string reason{};
  classifier::Headers headers{};
  std::string body{};  // Unframed.
  std::size_t chunks = 0;
  bool complete = false;   // By its own framing; a body that lasts until the end is complete by FIN.
  bool continued = false;  // A 100 came before it.
  std::string head{};      // As it came.
};

class RawClient {
 public:
  /// `address` as Server::address() says it. Throws if nobody listens.
  /// `receive_buffer`: bytes the kernel may keep for us (0: its own choice), for callers that read slowly.
  explicit RawClient(const std::string& address, int receive_buffer = 0);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  std::chrono::milliseconds patience{10'000};

  /// All of it, or false once the other side is broken (or does not read for as long as our patience lasts).
  bool send(std::string_view bytes);
  /// In pieces of `size`, each its own segment.
  bool send_in_pieces(std::string_view bytes, std::size_t size);
  void end_sending();
  /// Closes so that the other side sees a reset.
  void reset();
  void close();

  /// The next answer, whole or as far as it came; nothing if not even its head came.
  std::optional<RawResponse> response(bool to_head = false);
  /// Waits at most `time` for bytes; those that came (empty: none, or the end).
  std::string read_some(std::chrono::milliseconds time, std::size_t most = 64 * 1024);
  /// Everything until the other side ends.
  std::string read_to_end();
  /// Waits for the end, dropping what comes before it.
  End wait_for_end();
  [[nodiscard]] End end() const { return end_; }
  /// Read and not yet given out.
  [[nodiscard]] const std::string& unread() const { return in_; }

 private:
  bool fill(std::chrono::steady_clock::time_point until);
  std::optional<std::string> take_line(std::chrono::steady_clock::time_point until);
  bool take(std::size_t bytes, std::string& into, std::chrono::steady_clock::time_point until);
  bool take_chunks(RawResponse& response, std::chrono::steady_clock::time_point until);

  int socket_ = -1;
  std::string in_{};
  End end_ = End::Open;
};

}  // namespace support
