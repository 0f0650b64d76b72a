#pragma once
// A listener for few, short requests (probes, scrapes, the admin API), on a thread of its own.
//
// Heads are read as strictly as those of calls (http_head.h). cpp-httplib writes the answers, but does not listen:
// its pool gives each open connection a thread, so that a hundred silent ones keep a probe waiting for more than 20 s
// (measured), and kubelet restarts us.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "classifier/headers.h"
#include "gateway/peer.h"

namespace gateway {

struct EndpointRequest {
  std::string method{};
  std::string path{};             // Without the query.
  std::string query{};            // Behind the question mark, as it stands there.
  std::string authority{};        // What Host says.
  classifier::Headers headers{};  // As in RequestHead.
  std::optional<PeerIds> peer{};  // Of a unix socket.
  bool spare_memory = false;      // Many answers wait in memory for slow readers: give no large one.
};

struct EndpointAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body{};
  classifier::Headers headers{};
  /// If given: called when the peer has taken all of it and has ended the connection properly.
  std::function<void()> taken{};
};

struct EndpointOptions {
  std::string address{};   // "127.0.0.1:4601", "[::1]:0"; "unix:/path" if `on_file`.
  std::string key{};       // "listen.health": where the mend of a wrong address is made.
  std::string purpose{};   // "health and metrics"
  std::string example{};   // "127.0.0.1:4601 or [::1]:4601"
  bool on_file = false;    // A unix socket will do, with mode 0660.
  std::size_t body_max{};  // Bodies are read and dropped up to here, larger ones refused. 0: no body is waited for.
  /// On the endpoint's thread; while it works, others wait.
  std::function<EndpointAnswer(const EndpointRequest&)> answer{};
  /// To what is no request that could be answered; `why` is for people. Not given: no body.
  std::function<EndpointAnswer(int status, std::string_view why)> refuse{};
};

class Endpoint {
 public:
  /// Throws std::runtime_error that names address and mend.
  explicit Endpoint(EndpointOptions options);
  ~Endpoint();  // Stops and joins.
  /// The address that was bound, with the real port.
  [[nodiscard]] const std::string& address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gateway
