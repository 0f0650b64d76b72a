#pragma once
// What reached us from a worker, and how an answer goes back: the door; server.h stands behind it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "budget/units.h"
#include "classifier/headers.h"
#include "gateway/signal.h"

namespace gateway {

/// A whole request as it came. Hop-by-hop fields are already gone (RFC 9110 §7.6.1 and what Connection names).
struct Inbound {
  std::string method{};
  std::string target{};                       // Origin form: "/openai/v1/chat/completions?x=1".
  std::string authority{};                    // What the caller calls us: "127.0.0.1:4600"; from Host.
  classifier::Headers headers{};              // Without Host, Content-Length, Transfer-Encoding, Expect.
  std::shared_ptr<const std::string> body{};  // Null: none. Has simdjson's 64 bytes of capacity behind its end.
  budget::TimePoint arrived{};                // First byte of the head.
};

/// The head of an answer. Framing fields (Content-Length, Transfer-Encoding, Connection) are the server's business.
struct AnswerHead {
  int status = 200;
  classifier::Headers headers{};
};

/// All return false once nobody can be reached any more (gone, or stalled for longer than the limit); the signal
/// then says CallerGone too. Exactly one of answer(), finish() and abort() ends the answer.
class Caller {
 public:
  virtual ~Caller() = default;
  /// The whole answer in one write.
  virtual task<bool> answer(AnswerHead head, std::string_view body) = 0;
  /// Opens a longer answer; the head leaves with the first send() or finish(). `length`: the exact number of bytes
  /// that will follow, else the transfer is chunked (or ended by closing, for HTTP/1.0).
  virtual void begin(AnswerHead head, std::optional<std::uint64_t> length) = 0;
  /// Waits while the caller reads slower than we send.
  virtual task<bool> send(std::string_view bytes) = 0;
  /// The last bytes (may be none) and the proper end, in one write.
  virtual task<bool> finish(std::string_view last) = 0;
  /// Ends visibly: what was begun never looks complete. Chunked without its last chunk; a known length by reset.
  virtual void abort() = 0;
  [[nodiscard]] virtual bool begun() const = 0;
  /// Nobody has seen a byte of what was begun: begin_anew() forgets it, as if it had not been.
  [[nodiscard]] virtual bool unseen() const { return false; }
  virtual void begin_anew() {}
  /// False: he has closed or broken the connection, as far as the kernel can tell at this moment, though the signal
  /// may not say so yet.
  [[nodiscard]] virtual bool present() { return true; }
  /// Body bytes handed to the kernel so far, framing not counted.
  [[nodiscard]] virtual std::uint64_t bytes_sent() const = 0;
};

}  // namespace gateway
