#pragma once
// The server's side of HTTP/2 on a raw connection: the protocol is nghttp2's, what is said is the test's.

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "classifier/headers.h"
#include "tests/support/raw_peer.h"

struct nghttp2_session;

namespace raw {

class Http2 {
 public:
  /// With `grant` false the client's window is not refilled by itself: 64 KiB of bodies, then it must wait.
  explicit Http2(Connection& connection, bool grant = true);
  ~Http2();
  Http2(const Http2&) = delete;
  Http2& operator=(const Http2&) = delete;

  enum class Kind { Head, Body, End, Reset, Nothing, Gone };  // Nothing: not within the limit.
  struct Event {
    Kind kind = Kind::Nothing;
    int stream = 0;
    std::string bytes{};  // Of Body.
  };
  Event next(std::chrono::milliseconds limit = 10s);
  /// Waits for such an event, dropping others; false if it does not come.
  bool wait_for(Kind kind, int stream, std::chrono::milliseconds limit = 10s);
  /// Waits for a whole request and gives its stream; 0 if none comes.
  int request();
  [[nodiscard]] const classifier::Headers& fields(int stream) { return fields_[stream]; }

  void head(int stream, const std::string& status, const classifier::Headers& fields, bool end);
  void body(int stream, const std::string& bytes, bool end);
  /// Bytes that the client's window has not yet let through.
  [[nodiscard]] std::size_t pending(int stream) { return outgoing_[stream].bytes.size(); }
  /// Opens the client's window, of that stream and of the connection.
  void grant(int stream, int bytes);
  void reset(int stream, std::uint32_t code);
  void go_away();

 private:
  struct Outgoing {
    std::string bytes{};
    bool end = false;
  };
  struct Callbacks;
  void flush();

  Connection& connection_;
  nghttp2_session* session_ = nullptr;
  std::deque<Event> events_{};
  std::map<int, classifier::Headers> fields_{};
  std::map<int, Outgoing> outgoing_{};
};

}  // namespace raw
