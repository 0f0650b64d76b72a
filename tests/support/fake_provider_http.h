#pragma once
// What do connections, scripts and answers of the fake provider say to each other?

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fake_provider {

using Headers = std::vector<std::pair<std::string, std::string>>;  // In order, spelled as on the wire.
using std::chrono::milliseconds;

struct Request {
  std::uint64_t connection = 0;
  bool tls = false;
  std::string version{};  // "1.0", "1.1", "2"
  std::string method{};
  std::string target{};
  Headers headers{};
  std::string body{};
  std::string malformed{};  // Why it is no HTTP; empty if it is.

  /// Empty if there is no such header; names are compared without case.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  [[nodiscard]] std::string_view path() const { return std::string_view{target}.substr(0, target.find('?')); }
};

/// How a connection is ended by us. Notify is a FIN that TLS has announced (close_notify), as polite servers
/// do; Fin comes bare, as from a process that died. On HTTP/2, Rst resets the stream and the others end the
/// connection.
enum class How : std::uint8_t { Fin, Rst, Notify };
enum class EndedBy : std::uint8_t { Nobody, PeerFin, PeerRst, Us };

enum class Framing : std::uint8_t { Length, Chunked, Close, None };
struct Head {
  int status = 200;
  std::string reason{};
  Headers headers{};
  Framing framing = Framing::Length;
  std::uint64_t length = 0;  // Only for Framing::Length.
};

/// Faults on the level of bytes; counted over head, body and framing (on HTTP/2 over the body alone).
struct Mischief {
  std::size_t piece_bytes = 0;  // 0: as they come.
  milliseconds piece_gap{0};
  std::optional<std::uint64_t> cut_at{};
  How cut_by = How::Fin;
  std::optional<std::uint64_t> hang_at{};

  struct Next {
    std::size_t send = 0;
    enum class Then : std::uint8_t { GoOn, Cut, Hang } then = Then::GoOn;
  };
  /// `sent` bytes are out and `pending` wait: how many of them may go now, and is something to be done
  /// instead?
  [[nodiscard]] Next next(std::uint64_t sent, std::size_t pending) const;
};

/// What becomes of the connection once the answer is complete.
struct After {
  std::optional<How> close{};
  std::optional<milliseconds> close_idle{};
  How close_idle_by = How::Notify;
  std::optional<How> next_request{};  // Close at the first byte of the next request: the race of every keep-alive.
};

/// One request's way out: an HTTP/1.1 connection or an HTTP/2 stream. Nothing here calls the exchange back
/// before it returns.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual void misbehave(const Mischief& mischief) = 0;
  virtual void interim(int status, const Headers& headers) = 0;
  virtual void head(const Head& head) = 0;
  virtual void data(std::string_view bytes) = 0;  // Framed as the head said.
  virtual void raw(std::string_view bytes) = 0;   // Not framed.
  virtual void end() = 0;
  /// Exchange::on_flushed() follows when the kernel has all that was given so far.
  virtual void flush() = 0;
  virtual void finish(const After& after) = 0;  // The answer is over and has been flushed.
  virtual void abort(How how) = 0;
  virtual void stop_reading() = 0;  // The rest of the request stays in the socket.
};

/// One request and its answer, seen from the wire. on_ended() comes once; only on_complete() may still follow
/// it, when the answer did not wait for the body.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual Request& request() = 0;
  virtual bool on_head() = 0;      // All but the body is there. True: the answer does not wait for it.
  virtual void on_complete() = 0;  // The body too, or the request is malformed and nothing more will come.
  virtual void on_flushed() = 0;
  virtual void on_ended(EndedBy by, std::uint64_t answered_bytes) = 0;
};

using OpenExchange = std::function<std::shared_ptr<Exchange>(Wire& wire, Request request)>;

/// Reads a head that ends with an empty line; what is wrong goes to `malformed`.
[[nodiscard]] Request parse_head(std::string_view text);
struct BodyLength {
  bool chunked = false;
  std::uint64_t length = 0;
  std::string malformed{};
};
[[nodiscard]] BodyLength body_length(const Request& request);

/// Takes chunked framing apart, at any boundary.
class ChunkReader {
 public:
  enum class State : std::uint8_t { More, Done, Broken };
  /// Consumes from the front of `in`, appends to `body`; at Done the rest of `in` belongs to the next
  /// request.
  State feed(std::string_view& in, std::string& body);

 private:
  enum class At : std::uint8_t { Size, Data, DataEnd, Trailer } at_ = At::Size;
  std::string line_{};
  std::uint64_t left_ = 0;
};

[[nodiscard]] bool same_name(std::string_view a, std::string_view b);
[[nodiscard]] std::string_view reason_of(int status);
[[nodiscard]] std::string head_text(const Head& head);
[[nodiscard]] std::string interim_text(int status, const Headers& headers);
[[nodiscard]] std::string_view name_of(EndedBy by);
[[nodiscard]] std::optional<How> how_named(std::string_view name);

}  // namespace fake_provider
