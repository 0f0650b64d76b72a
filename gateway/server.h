#pragma once
// The data listener: HTTP/1.1 from workers, strictly parsed, and the answer on its way back.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/caller.h"
#include "gateway/config.h"
#include "gateway/listener.h"

namespace gateway {

struct ServerOptions {
  std::string address{};             // "127.0.0.1:4600", "[::1]:0", "unix:/path"
  Reach reach = Reach::Host;         // Anybody: only where a call must show an issued key.
  std::vector<std::string> hosts{};  // Host names (without port) that are answered.
  Config::Limits limits{};
  std::uint64_t buffered_bytes =
      0;  // All request bodies together; beyond it new ones are refused (503). 0: no limit.
};

/// A request that the server itself refuses, to be said in the right dialect's form.
struct RefusedRequest {
  int status = 400;
  std::string code{};     // "callgate_bad_request", "callgate_body_too_large", "callgate_forbidden_host", …
  std::string message{};  // What and where, for people.
  std::string target{};   // As far as it was read; empty if it was not.
  std::string tenant{};   // Whose it was, if that is known.
};

/// What the server asks of those who know routes and dialects. All on the I/O thread.
struct ServerEvents {
  /// Serves one request; the connection waits for it. The signal is stopped when the caller goes.
  std::function<task<void>(Inbound request, Caller& caller, Signal& signal)> serve;
  /// Head and body of a refusal. Also the place to count it.
  std::function<std::pair<AnswerHead, std::string>(const RefusedRequest&)> refuse;
};

class Server {
 public:
  Server(asio::io_context& io, ServerOptions options, ServerEvents events);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Binds and listens; throws std::runtime_error that names the address and the mend.
  void listen();
  /// The address that was bound, with the real port.
  [[nodiscard]] std::string address() const;

  /// Stops accepting; idle connections are closed, others after their answer (which says Connection: close). Signals
  /// of calls in progress are told to drain.
  void drain();
  /// Stops every call (StopReason::Shutdown).
  void stop_all();
  /// New limits and hosts for requests that arrive from now on (reload).
  void update(std::vector<std::string> hosts, Config::Limits limits, std::uint64_t buffered_bytes);

  struct Figures {
    std::size_t connections = 0;
    std::size_t requests = 0;  // Being read or served.
    std::uint64_t buffered_bytes = 0;
  };
  [[nodiscard]] Figures figures() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gateway
