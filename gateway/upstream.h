#pragma once
// How does one attempt reach a provider? The door; upstream_curl.h is what stands behind it in the product.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "budget/units.h"
#include "classifier/headers.h"
#include "classifier/verdict.h"
#include "gateway/signal.h"

namespace gateway {

using budget::TimePoint;

/// To which addresses a connection may be made, whatever a name resolves to at that moment.
enum class AddressPolicy : std::uint8_t {
  Any,
  Public,  // public_address.h. No proxy is used: it would do the resolving, and nobody could look.
  Inside,  // Public ones, and those of a private network (is_inside()). No proxy, likewise.
};
/// Exchange::failure() where all of a host's addresses were refused.
inline constexpr std::string_view kAddressRefused = "the host has no address that it may be reached at";

/// How to connect to an upstream; one object per configured upstream, alive as long as any exchange with it.
struct WireOptions {
  std::string base_url{};                            // "https://api.openai.com" or with a path, no slash at the end.
  int http = 1;                                      // 1 or 2.
  std::string ca_file{};                             // Empty: the system's bundle.
  std::chrono::milliseconds connect_timeout{5'000};  // DNS, TCP and TLS together.
  AddressPolicy addresses = AddressPolicy::Any;
};

/// One attempt's request. Header names and values are sent as they stand (Host, Content-Length and Expect are the
/// wire's business and must not be among them).
struct Outbound {
  std::string method{};
  std::string target{};  // Path and query, sent as they are: "/v1/models?limit=2".
  classifier::Headers headers{};
  std::shared_ptr<const std::string> body{};  // Null: no body.
  std::shared_ptr<const WireOptions> wire{};
};

/// One attempt on the wire. I/O thread only. Destroying it before the end closes its connection at once (on
/// HTTP/2: resets the stream); nothing is awaited for that.
class Exchange {
 public:
  enum class Got : std::uint8_t {
    Head,      // status() and headers() are there.
    Data,      // Bytes were read.
    End,       // The answer is complete, by its own framing.
    Failed,    // transport() and failure() say how; also when a length-delimited or chunked body was cut.
    TimedOut,  // `until` has passed; the exchange is still alive.
    Stopped,   // The signal was stopped; the exchange is still alive.
  };
  virtual ~Exchange() = default;

  /// Waits for the final head (1xx are not shown).
  virtual task<Got> head(TimePoint until) = 0;
  /// Waits for body bytes and swaps them into `into`, which must be empty (its capacity is used again). At most
  /// about 64 KiB are kept inside; beyond that the provider is made to wait.
  virtual task<Got> read(std::string& into, TimePoint until) = 0;

  [[nodiscard]] virtual int status() const = 0;
  [[nodiscard]] virtual const classifier::Headers& headers() const = 0;
  /// All of the request has left (or nothing had to): the provider may be working, and charging.
  [[nodiscard]] virtual bool request_sent() const = 0;
  [[nodiscard]] virtual classifier::Transport transport() const = 0;
  /// One line for people, without URL, header or key: "connection refused", "certificate has expired", …
  [[nodiscard]] virtual std::string_view failure() const = 0;
};

class Upstream {
 public:
  virtual ~Upstream() = default;
  /// Never fails at once: what goes wrong is told by head(). `signal` is rung when there is something to look at
  /// and must outlive the exchange.
  virtual std::unique_ptr<Exchange> start(Outbound request, Signal& signal) = 0;
  /// The story has all that it needs (a stream's end marker), but the transfer has not ended: it gets a second to do
  /// so, unread, in order that its connection can be used again. The exchange's signal is not touched any more.
  virtual void retire(std::unique_ptr<Exchange> exchange) = 0;
};

}  // namespace gateway
