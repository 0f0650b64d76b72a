#pragma once
// A provider of bytes: what it says on a connection, and when, is a script of the test. In-process, port 0, a thread
// for each connection, every wait bounded.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/support/raw_certificates.h"

namespace raw {

using namespace std::chrono_literals;

/// What a peer's thread has seen, for the test's own to look at.
class Noted {
 public:
  std::string operator=(std::string text) {  // NOLINT(misc-unconventional-assign-operator): the peer goes on with it.
    const std::lock_guard guard{lock_};
    return text_ = std::move(text);
  }
  [[nodiscard]] std::string get() const {
    const std::lock_guard guard{lock_};
    return text_;
  }

 private:
  mutable std::mutex lock_{};
  std::string text_{};
};

/// One accepted connection, with blocking calls. Any call on a connection that has ended does nothing.
class Connection {
 public:
  Connection(int socket, int number);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] int number() const { return number_; }  // 0 for the first of its peer.
  [[nodiscard]] int socket() const { return socket_; }

  /// Something to read, or the end, is there.
  bool readable(std::chrono::milliseconds limit);
  /// What comes next, at most 64 KiB; empty at the end or after `limit`.
  std::string read_some(std::chrono::milliseconds limit = 10s);
  /// The same, but tells silence and end apart.
  struct Read {
    std::string bytes{};
    bool over = false;
  };
  Read read_or_end(std::chrono::milliseconds limit);
  /// Up to and including `mark`; empty if the connection ends before.
  std::string read_until(std::string_view mark);
  std::string read_exactly(std::size_t size);
  /// Head and, by its Content-Length, body. Empty: no (whole) request came.
  std::string request();
  bool send(std::string_view bytes);

  /// Waits until the other side has closed or reset; bytes that come meanwhile are dropped.
  bool gone(std::chrono::milliseconds limit);

  /// From here on it is TLS, as behind a proxy's CONNECT.
  void shake_hands(const TlsServer& tls);

  void say_no_more();  // FIN (after a TLS close_notify); reading goes on.
  void close();
  void reset();  // RST

 private:
  friend class Peer;
  void wake();  // From another thread: ends what blocks.

  int socket_;
  int number_;
  void* ssl_ = nullptr;
  std::string kept_{};  // Read too far.
  std::mutex lock_{};   // Of socket_, against wake().
};

class Peer {
 public:
  using Script = std::function<void(Connection&)>;

  /// The script runs once for each connection, which is closed after it.
  explicit Peer(Script script, const TlsServer* tls = nullptr);
  /// Ends all connections and waits for their scripts.
  ~Peer();

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url() const;  // "http://127.0.0.1:port", or https.
  [[nodiscard]] int accepted() const { return accepted_; }

 private:
  void accept_all();

  Script script_;
  const TlsServer* tls_;
  std::uint16_t port_ = 0;
  int listener_;
  std::atomic<int> accepted_ = 0;
  std::mutex lock_{};
  bool ending_ = false;
  std::list<std::shared_ptr<Connection>> connections_{};
  std::list<std::thread> threads_{};
  std::thread acceptor_{};
};

/// A Peer in a process of its own, so that what it costs is not ours. Fork early: before there are other threads.
class PeerProcess {
 public:
  explicit PeerProcess(Peer::Script script, const TlsServer* tls = nullptr);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  int process_ = 0;
  std::string url_{};
};

/// A port on which connecting neither succeeds nor fails: its queue is full and nobody takes from it.
class FullListener {
 public:
  FullListener();
  ~FullListener();
  [[nodiscard]] std::string url() const;

 private:
  std::uint16_t port_ = 0;
  int listener_;
  std::list<int> waiting_{};
};

/// A port on which nobody listens (one that has just been free).
[[nodiscard]] std::uint16_t closed_port();

/// Descriptors that this process has open.
[[nodiscard]] std::size_t open_descriptors();

}  // namespace raw
