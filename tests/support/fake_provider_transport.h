#pragma once
// How do bytes leave and arrive: TCP, or TLS over it? One read and one write may be under way at a time.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tests/support/fake_provider_http.h"

namespace fake_provider {

class Transport {
 public:
  enum class Lost : std::uint8_t { No, Fin, Rst };
  using Done = std::function<void(std::size_t bytes, Lost lost)>;
  virtual ~Transport() = default;
  /// Both call back later, never from inside; not at all once closed.
  virtual void read_some(char* into, std::size_t room, Done done) = 0;
  virtual void write_some(std::string_view bytes, Done done) = 0;
  /// Fin and Notify: our direction ends, theirs goes on. Rst: all is over, after what was written has left
  /// the host.
  virtual void end(How how) = 0;
  virtual void close() = 0;
  /// Has the peer gone? For who does not read.
  [[nodiscard]] virtual Lost lost() = 0;

  std::uint64_t number = 0;  // Connections are counted from 1.
  bool tls = false;
  std::function<void(How how, bool only_idle)> drop{};  // Set by who uses it: ends the connection from outside.
};

/// What stops waiting for a moment in time when it goes. Calls back on the I/O thread, never from inside
/// after().
class Alarm {
 public:
  virtual ~Alarm() = default;
  virtual void at(std::chrono::steady_clock::time_point when, std::function<void()> then) = 0;
  void after(milliseconds wait, std::function<void()> then) {
    at(std::chrono::steady_clock::now() + wait, std::move(then));
  }
  virtual void cancel() = 0;
};

/// What the single thread offers to everybody on it.
class Loop {
 public:
  virtual ~Loop() = default;
  virtual void post(std::function<void()> then) = 0;
  virtual std::unique_ptr<Alarm> alarm() = 0;
};

struct ListenerOptions {
  std::string address{};    // "127.0.0.1:0"
  std::string cert_file{};  // Empty: no TLS.
  std::string key_file{};
  bool http2 = false;
};

enum class OnConnect : std::uint8_t { Serve, Fin, Rst, Hang, Refuse };

/// Accepts connections and hands them over, handshake done.
class Listener {
 public:
  struct Taken {
    std::shared_ptr<Transport> transport{};
    bool http2 = false;  // Agreed upon in the handshake.
  };
  virtual ~Listener() = default;
  [[nodiscard]] virtual std::string address() const = 0;
  virtual void on_connect(OnConnect what) = 0;
  virtual void drop(How how, bool only_idle) = 0;
  [[nodiscard]] virtual std::uint64_t open_connections() const = 0;
  [[nodiscard]] virtual std::uint64_t connections_total() const = 0;
};

class EventLoop final : public Loop {
 public:
  EventLoop();
  ~EventLoop() override;
  void post(std::function<void()> then) override;
  std::unique_ptr<Alarm> alarm() override;
  /// `changed` is called when a connection comes or goes.
  std::unique_ptr<Listener> listen(ListenerOptions options, std::function<void(Listener::Taken)> take,
                                   std::function<void()> changed);
  /// Until SIGTERM or SIGINT, or, if asked for, until standard input (a pipe or socket) is closed.
  void run(bool watch_stdin);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fake_provider
