#include "gateway/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gateway/answer.h"
#include "gateway/http_head.h"
#include "gateway/listener.h"

namespace gateway {
namespace {

using namespace std::chrono_literals;
using boost::system::error_code;
using budget::TimePoint;
using Clock = std::chrono::steady_clock;

using Executor = asio::io_context::executor_type;
using Stream = asio::generic::stream_protocol;  // One type for TCP and unix sockets.
using Socket = asio::basic_stream_socket<Stream, Executor>;
using Acceptor = asio::basic_socket_acceptor<Stream, Executor>;
using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, Executor>;
constexpr asio::use_awaitable_t<Executor> kAwaitable{};

constexpr TimePoint kNever = TimePoint::max();
constexpr std::size_t kScratchBytes = 64 * 1024;
constexpr std::size_t kReadAhead = 16 * 1024;  // Of a next request, while one is served.
constexpr std::size_t kBodyRead = 256 * 1024;  // The most that one read takes, so that others get their turn.
constexpr std::size_t kSpare = 64;             // simdjson reads behind a body's end.
constexpr std::uint64_t kSlowestBodyPerSecond = 1024;
constexpr std::size_t kTurnBytes = 64 * 1024;
constexpr int kTurnWrites = 16;
constexpr std::size_t kCrowd = 256;  // Connections beyond the limit that are told so.
constexpr auto kCrowdPatience = 2s;
constexpr auto kDrainPatience = 2s;     // For the first request of a connection that was just made.
constexpr auto kAcceptPause = 50ms;     // When descriptors have run out.
constexpr auto kBeforeReset = 100ms;    // For the caller to read what was sent.
constexpr int kUnsentMax = 256 * 1024;  // What the kernel keeps for a caller that reads slowly.

/// How much is read and thrown away so that the caller sees our answer and not a reset.
struct Patience {
  std::uint64_t bytes;
  std::chrono::milliseconds time;
};
constexpr Patience kGoodbye{256 * 1024, 2'000ms};
constexpr Patience kUnwantedBody{128 * 1024 * 1024, 10'000ms};  // httpx reads no answer before its body is out.

class Connection;

/// What all connections share. They may outlive the server, asleep in an io_context that no longer runs.
struct Hub {
  Hub(asio::io_context& io_in, ServerOptions options_in, ServerEvents events_in)
      : io(io_in), options(std::move(options_in)), events(std::move(events_in)), acceptor(io_in), pause(io_in) {}

  asio::io_context& io;
  ServerOptions options;
  ServerEvents events;

  Acceptor acceptor;
  Timer pause;
  Listener listener{};
  std::string address{};
  bool on_file = false;

  std::unordered_set<Connection*> connections{};
  std::size_t requests = 0;
  std::uint64_t buffered = 0;
  std::optional<TimePoint> drained_at{};
  bool stopping = false;

  // Filled and emptied between two suspensions, so one for all: a connection that waits holds no buffer.
  std::unique_ptr<char[]> scratch = std::make_unique_for_overwrite<char[]>(kScratchBytes);
  std::string text{};
};
using Shared = std::shared_ptr<Hub>;

/// A share of the memory for bodies, given back whatever happens.
class Held {
 public:
  explicit Held(Hub& server) : server_(server) {}
  ~Held() { server_.buffered -= bytes_; }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  [[nodiscard]] bool grow_to(std::uint64_t bytes) {
    const std::uint64_t limit = server_.options.buffered_bytes;
    const std::uint64_t more = bytes - std::min(bytes, bytes_);
    if (limit != 0 && (server_.buffered > limit || more > limit - server_.buffered)) return false;
    server_.buffered += more;
    bytes_ += more;
    return true;
  }

 private:
  Hub& server_;
  std::uint64_t bytes_ = 0;
};

class Counted {
 public:
  explicit Counted(std::size_t& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::size_t& count_;
};

/// One caller's connection: a coroutine that reads requests and has them served one after the other.
///
/// It sleeps in one place (rouse(), or write_rest()); readiness of the socket, the one timer, a drain and a close all
/// ring the same bell, and the loops look at the conditions themselves. While a request is served, that bell is its
/// Signal, and the socket is watched without holding a buffer.
class Connection final : public Wire, public std::enable_shared_from_this<Connection> {
 public:
  Connection(Shared server, Socket socket, bool crowded)
      : server_(std::move(server)),
        socket_(std::move(socket)),
        timer_(server_->io),
        bell_(server_->io),
        crowded_(crowded) {
    server_->connections.insert(this);
  }
  ~Connection() override { server_->connections.erase(this); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  static task<void> run(std::shared_ptr<Connection> self);

  void drain();
  void stop();
  void abandon();

  bool write_now(Gather& pieces) override;
  task<bool> write_rest(std::string front, std::string_view body, std::string_view back) override;
  [[nodiscard]] bool turn_is_over() const override {
    return turn_writes_ >= kTurnWrites || turn_bytes_ >= kTurnBytes;
  }
  task<void> yield() override;
  [[nodiscard]] bool gone() const override { return gone_; }
  [[nodiscard]] bool has_closed() const override;
  void end_sending() override;
  void reset() override;
  [[nodiscard]] bool wants_more() const override { return !server_->drained_at && (!eof_ || !in_.empty()); }
  std::string& scratch() override { return server_->text; }

 private:
  [[nodiscard]] const Config::Limits& limits() const { return server_->options.limits; }
  [[nodiscard]] HostRule host_rule() const { return {server_->options.hosts, server_->on_file}; }

  enum class Next : std::uint8_t { Request, End, UnwantedBody };
  task<bool> one_request();
  task<bool> first_bytes();
  task<Next> exchange();
  // What is wanted, or a refusal; when the caller has gone, neither matters.
  task<std::expected<RequestHead, RefusedRequest>> head(TimePoint arrived);
  task<std::optional<RefusedRequest>> body(const RequestHead& head, Held& held,
                                           std::shared_ptr<const std::string>& into);
  task<std::optional<RefusedRequest>> counted_body(std::uint64_t length, std::string& body);
  task<std::optional<RefusedRequest>> chunked_body(Held& held, std::string& body);
  task<void> serve(Inbound request, Answer& answer);
  task<void> refuse(RefusedRequest refusal, Answer::Asked asked);
  task<void> linger(Patience patience);
  task<void> reset_after_reading();

  task<void> rouse(TimePoint until);
  void ring() { (serving_ ? *signal_ : bell_).ring(); }
  void watch();
  void watch_for_reset();
  void watch_writable();
  void look_at_caller();
  void lost();
  void give_up();
  void close();
  std::size_t read_some(char* into, std::size_t most);
  void read_ahead(std::size_t most);
  void expect_by(TimePoint when);
  void start_timer();

  Shared server_;
  Socket socket_;
  Timer timer_;
  Signal bell_;
  std::optional<Signal> signal_{};  // Of the request that is served.
  std::string in_{};                // Read, and not yet used.
  TimePoint deadline_ = kNever;
  TimePoint timer_at_ = kNever;  // Never later than deadline_, often earlier: moving it costs more than a look.
  std::size_t turn_bytes_ = 0;
  int turn_writes_ = 0;
  bool crowded_;
  bool answered_ = false;
  bool serving_ = false;
  bool readable_ = false;
  bool watching_ = false;
  bool watching_reset_ = false;
  bool watching_writable_ = false;
  bool eof_ = false;   // The caller sends no more.
  bool gone_ = false;  // Nothing reaches him any more, or he has hung up.
  bool reset_due_ = false;
};

// ---- What a connection does ----

task<void> Connection::run(std::shared_ptr<Connection> self) {
  try {
    // (Not in the loop's condition: inside a try, g++ 12 makes a trap of that.)
    for (bool more = true; more; self->answered_ = true) more = co_await self->one_request();
  } catch (...) {
    // Out of memory, or refuse() threw: nothing that could be said to this caller.
    self->give_up();
  }
  self->close();
}

task<bool> Connection::one_request() {
  if (!co_await first_bytes()) co_return false;
  const Next next = co_await exchange();
  if (next == Next::Request && !gone_) co_return true;
  if (reset_due_) co_return false;
  const Patience patience = next == Next::UnwantedBody ? kUnwantedBody : kGoodbye;
  co_await linger(patience);
  co_return false;
}

task<Connection::Next> Connection::exchange() {
  const Counted counted{server_->requests};
  Inbound request{};
  request.arrived = Clock::now();

  auto asked = co_await head(request.arrived);
  if (gone_) co_return Next::End;
  if (!asked) {
    const Answer::Asked unknown{};
    co_await refuse(std::move(asked.error()), unknown);
    co_return Next::UnwantedBody;
  }
  const Answer::Asked way{asked->http11, asked->keep_alive, asked->method == "HEAD"};

  Held held{*server_};
  auto refused = co_await body(*asked, held, request.body);
  if (gone_) co_return Next::End;
  if (refused) {
    refused->target = asked->target;
    co_await refuse(std::move(*refused), way);
    co_return Next::UnwantedBody;
  }

  request.method = std::move(asked->method);
  request.target = std::move(asked->target);
  request.authority = std::move(asked->authority);
  request.headers = std::move(asked->headers);
  Answer answer{*this, way};
  co_await serve(std::move(request), answer);
  if (reset_due_) co_await reset_after_reading();  // Still counted: a drain must not end before it.
  co_return answer.kept() ? Next::Request : Next::End;
}

/// Waits for a next request to begin; false if none will.
task<bool> Connection::first_bytes() {
  TimePoint until = Clock::now() + (crowded_ ? std::chrono::milliseconds{kCrowdPatience} : limits().keep_alive);
  while (in_.empty()) {
    if (eof_ || gone_) co_return false;
    if (server_->drained_at) {
      // A caller that has just connected is about to ask; closing now would be an error to him, not an idle end.
      until = answered_ ? TimePoint::min() : std::min(until, *server_->drained_at + kDrainPatience);
    }
    if (Clock::now() >= until) {
      co_await linger(kGoodbye);
      co_return false;
    }
    co_await rouse(until);
    read_ahead(kReadAhead);
  }
  co_return true;
}

task<std::expected<RequestHead, RefusedRequest>> Connection::head(TimePoint arrived) {
  const auto refused = [this](int status, std::string code, std::string message) {
    return std::unexpected{RefusedRequest{status, std::move(code), std::move(message), target_in(in_)}};
  };
  const std::size_t limit = limits().header_bytes;
  const TimePoint until = arrived + limits().header_timeout;
  HeadScan scan;
  for (;;) {
    const HeadScan::Seen seen = scan.look(in_);
    const std::size_t size = seen == HeadScan::Seen::Incomplete ? in_.size() : scan.size();
    if (seen == HeadScan::Seen::Malformed) {
      co_return refused(
          400, "callgate_bad_request", "The request head is malformed: " + std::string{scan.fault()} + ".");
    }
    if (size > limit) {
      co_return refused(431,
                        "callgate_head_too_large",
                        "The request head is larger than " + std::to_string(limit) + " bytes (limits.header_bytes).");
    }
    if (seen == HeadScan::Seen::Complete) break;
    if (eof_) lost();
    if (gone_) co_return RequestHead{};
    if (Clock::now() >= until) {
      co_return refused(
          408, "callgate_request_timeout", "The request head did not come in time (limits.header_timeout).");
    }
    co_await rouse(until);
    read_ahead(in_.size() + kReadAhead);
  }
  const std::string_view text{in_.data(), scan.size()};
  auto result = read_head(text, host_rule());
  in_.erase(0, scan.size());
  co_return result;
}

RefusedRequest too_large(std::uint64_t limit) {
  return {413,
          "callgate_body_too_large",
          "The request body is larger than " + std::to_string(limit) + " bytes (limits.body_bytes).",
          ""};
}
RefusedRequest no_memory() {
  return {503, "callgate_memory", "Too many request bodies are in memory just now (limits.buffered_bytes).", ""};
}
RefusedRequest too_slow() {
  return {
      408, "callgate_request_timeout", "The request body came too slowly, or stopped (limits.header_timeout).", ""};
}

task<std::optional<RefusedRequest>> Connection::body(const RequestHead& head, Held& held,
                                                     std::shared_ptr<const std::string>& into) {
  if (crowded_) {
    co_return RefusedRequest{503, "callgate_connections", "Too many connections are open (limits.connections).", ""};
  }
  if (head.length > limits().body_bytes) co_return too_large(limits().body_bytes);
  if (head.length == 0 && !head.chunked) co_return std::nullopt;

  const std::uint64_t room = head.chunked ? kReadAhead : head.length + kSpare;
  if (!held.grow_to(room)) co_return no_memory();
  const auto text = std::make_shared<std::string>();
  text->reserve(room);
  if (head.expects_continue && in_.empty()) {
    // The only 1xx that we ever send: undici takes any other for a broken answer, boto3 for the whole.
    std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!co_await write_rest(std::move(interim), {}, {})) co_return std::nullopt;
  }
  std::optional<RefusedRequest> refused{};
  if (head.chunked) {
    refused = co_await chunked_body(held, *text);
  } else {
    refused = co_await counted_body(head.length, *text);
  }
  into = text;
  co_return refused;
}

/// How long we wait for more of a body: not when nothing comes for a while, nor when so little comes that the whole
/// would take for ever.
class BodyClock {
 public:
  explicit BodyClock(std::chrono::milliseconds patience) : patience_(patience) {}
  [[nodiscard]] TimePoint until(std::uint64_t received) {
    if (received > received_) last_byte_ = Clock::now();
    received_ = received;
    return std::min(last_byte_, began_ + std::chrono::seconds{received / kSlowestBodyPerSecond}) + patience_;
  }

 private:
  std::chrono::milliseconds patience_;
  TimePoint began_ = Clock::now();
  TimePoint last_byte_ = began_;
  std::uint64_t received_ = 0;
};

task<std::optional<RefusedRequest>> Connection::counted_body(std::uint64_t length, std::string& text) {
  BodyClock clock{limits().header_timeout};
  const std::size_t here = std::min<std::size_t>(in_.size(), length);
  text.append(in_, 0, here);
  in_.erase(0, here);
  while (text.size() < length) {
    const TimePoint until = clock.until(text.size());
    if (Clock::now() >= until) co_return too_slow();
    co_await rouse(until);
    const std::size_t before = text.size();
    text.resize_and_overwrite(std::min<std::size_t>(length, before + kBodyRead), [&](char* data, std::size_t size) {
      return before + read_some(data + before, size - before);
    });
    if (eof_ && text.size() < length) lost();
    if (gone_) co_return std::nullopt;
  }
  co_return std::nullopt;
}

task<std::optional<RefusedRequest>> Connection::chunked_body(Held& held, std::string& text) {
  BodyClock clock{limits().header_timeout};
  ChunkReader reader{limits().body_bytes};
  for (;;) {
    // At most what came is body, so it cannot grow beyond what was asked for here.
    if (const std::size_t need = text.size() + in_.size() + kSpare; need > text.capacity()) {
      const std::size_t room = std::max(need, text.capacity() * 2);
      if (!held.grow_to(room)) co_return no_memory();
      text.reserve(room);
    }
    const ChunkReader::Got got = reader.feed(in_, text);
    if (got == ChunkReader::Got::End) co_return std::nullopt;
    if (got == ChunkReader::Got::TooLarge) co_return too_large(limits().body_bytes);
    if (got == ChunkReader::Got::Malformed) {
      co_return RefusedRequest{400, "callgate_bad_request", "The chunks of the request body are malformed.", ""};
    }
    if (eof_) lost();
    if (gone_) co_return std::nullopt;
    const TimePoint until = clock.until(text.size());
    if (Clock::now() >= until) co_return too_slow();
    co_await rouse(until);
    read_ahead(in_.size() + kScratchBytes);
  }
}

task<void> Connection::serve(Inbound request, Answer& answer) {
  if (in_.empty()) in_ = std::string{};  // A stream may stay for minutes.
  deadline_ = kNever;
  signal_.emplace(server_->io);
  if (server_->drained_at) signal_->drain();
  if (server_->stopping) signal_->stop(StopReason::Shutdown);
  serving_ = true;
  if (std::exchange(readable_, false))
    look_at_caller();
  else
    watch();

  bool failed = false;
  try {
    task<void> story = server_->events.serve(std::move(request), answer, *signal_);
    co_await std::move(story);
  } catch (...) {
    failed = true;
  }
  const bool unanswered = !answer.ended() && !answer.begun() && !gone_;
  if (failed || unanswered) {
    RefusedRequest refusal{
        500, "callgate_internal", failed ? "The call failed by a bug." : "The call ended unanswered.", ""};
    auto [head, body] = server_->events.refuse(refusal);  // The log hears of it, whether it can still be said or not.
    if (unanswered) {
      task<bool> last = answer.answer(std::move(head), body);
      (void)co_await std::move(last);
    }
  }
  answer.abort();
  serving_ = false;
  signal_.reset();
}

task<void> Connection::refuse(RefusedRequest refusal, Answer::Asked asked) {
  asked.keep_alive = false;
  auto [head, body] = server_->events.refuse(refusal);
  Answer answer{*this, asked};
  task<bool> whole = answer.answer(std::move(head), body);
  (void)co_await std::move(whole);
}

/// Closes so that what we wrote is read: a close with unread bytes would send a reset after it, and a caller's
/// kernel may then throw our answer away.
task<void> Connection::linger(Patience patience) {
  end_sending();
  const TimePoint until = Clock::now() + patience.time;
  std::uint64_t left = patience.bytes - std::min<std::uint64_t>(in_.size(), patience.bytes);
  in_ = std::string{};
  while (left > 0 && !eof_ && !gone_ && Clock::now() < until) {
    co_await rouse(until);
    left -= std::min<std::uint64_t>(left, read_some(server_->scratch.get(), kScratchBytes));
  }
  close();
}

/// Node takes a reset that it meets beside unread bytes for an ordinary end, and its elder clients then wait for
/// ever.
task<void> Connection::reset_after_reading() {
  Timer pause{server_->io, kBeforeReset};
  co_await pause.async_wait(kAwaitable);
  give_up();
  close();
}

// ---- How it waits, reads and writes ----

/// Sleeps until something may have changed, at the latest at `until`.
task<void> Connection::rouse(TimePoint until) {
  turn_bytes_ = 0;
  turn_writes_ = 0;
  if (readable_) co_return;
  watch();
  expect_by(until);
  co_await bell_.wait();
}

void Connection::watch() {
  if (watching_ || !socket_.is_open()) return;
  watching_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](error_code) {
    self->watching_ = false;
    if (self->serving_) return self->look_at_caller();
    self->readable_ = true;
    self->bell_.ring();
  });
}

/// While nothing more may be read, only a reset can be noticed.
void Connection::watch_for_reset() {
  if (watching_reset_ || !socket_.is_open()) return;
  watching_reset_ = true;
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](error_code) {
    self->watching_reset_ = false;
    int error = 0;
    socklen_t size = sizeof error;
    const bool open = self->socket_.is_open();
    if (open && getsockopt(self->socket_.native_handle(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0) {
      self->lost();
    }
  });
}

void Connection::watch_writable() {
  if (watching_writable_ || !socket_.is_open()) return;
  watching_writable_ = true;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](error_code) {
    self->watching_writable_ = false;
    self->ring();
  });
}

/// The socket has something to say while a request is served: the caller's end, or a next request.
void Connection::look_at_caller() {
  if (gone_) return;
  read_ahead(kReadAhead);
  if (gone_) return;
  if (eof_ && limits().half_close_is_gone) return lost();
  if (eof_ || in_.size() >= kReadAhead) return watch_for_reset();
  watch();
}

/// A look that takes nothing: the loop may not have come round to the caller's end yet.
bool Connection::has_closed() const {
  if (gone_ || !socket_.is_open()) return true;
  if (eof_) return limits().half_close_is_gone;
  char byte = 0;
  const ssize_t seen = recv(const_cast<Socket&>(socket_).native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (seen == 0) return limits().half_close_is_gone;
  return seen < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
}

std::size_t Connection::read_some(char* into, std::size_t most) {
  readable_ = false;
  if (eof_ || gone_) return 0;
  error_code error;
  const std::size_t got = socket_.read_some(asio::buffer(into, most), error);
  if (error == asio::error::eof) {
    eof_ = true;
  } else if (error && error != asio::error::would_block) {
    lost();
  }
  return got;
}

/// Reads into in_, which may then hold `most` bytes.
void Connection::read_ahead(std::size_t most) {
  const std::size_t room = std::min(most - std::min(most, in_.size()), kScratchBytes);
  if (room > 0) in_.append(server_->scratch.get(), read_some(server_->scratch.get(), room));
}

bool Connection::write_now(Gather& pieces) {
  if (gone_) return false;
  if (pieces.size() == 0) return true;
  const std::array<asio::const_buffer, 3> buffers = {
      asio::buffer(pieces.front), asio::buffer(pieces.body), asio::buffer(pieces.back)};
  error_code error;
  const std::size_t written = socket_.write_some(buffers, error);
  if (error && error != asio::error::would_block) {
    lost();
    return false;
  }
  pieces.taken(written);
  turn_bytes_ += written;
  ++turn_writes_;
  return true;
}

task<bool> Connection::write_rest(std::string front, std::string_view body, std::string_view back) {
  Gather left{};
  left.front = front;
  left.body = body;
  left.back = back;
  TimePoint until = Clock::now() + limits().write_stall;
  for (;;) {
    const std::size_t before = left.size();
    if (!write_now(left)) co_return false;
    const TimePoint now = Clock::now();
    if (left.size() < before) until = now + limits().write_stall;
    if (left.size() == 0) break;
    if (now >= until) {
      give_up();
      co_return false;
    }
    // Whoever is told to stop has no time for a caller that does not read.
    if (serving_ && signal_->stopped()) co_return false;
    watch_writable();
    expect_by(until);
    turn_bytes_ = 0;
    turn_writes_ = 0;
    Signal& bell = serving_ ? *signal_ : bell_;
    co_await bell.wait();
  }
  deadline_ = kNever;
  co_return true;
}

task<void> Connection::yield() {
  turn_bytes_ = 0;
  turn_writes_ = 0;
  co_await asio::post(server_->io, kAwaitable);
}

void Connection::expect_by(TimePoint when) {
  if (gone_) return;  // A timer would keep what is closed.
  deadline_ = when;
  if (deadline_ < timer_at_) start_timer();
}

void Connection::start_timer() {
  timer_at_ = deadline_;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (error) return;
    self->timer_at_ = kNever;
    if (self->deadline_ == kNever) return;
    if (Clock::now() < self->deadline_) return self->start_timer();
    self->deadline_ = kNever;
    self->ring();
  });
}

// ---- How it ends ----

void Connection::end_sending() {
  error_code ignored;
  if (socket_.is_open()) socket_.shutdown(Socket::shutdown_send, ignored);
}

void Connection::close() {
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
}

/// Nothing more is said; the reset itself comes when the request is over.
void Connection::reset() {
  if (std::exchange(gone_, true)) return;
  reset_due_ = true;
  if (serving_)
    signal_->stop(StopReason::CallerGone);
  else
    bell_.ring();
}

/// Resets at once.
void Connection::give_up() {
  error_code ignored;
  if (socket_.is_open()) socket_.set_option(Socket::linger(true, 0), ignored);
  lost();
}

/// The caller has gone, or we let go of him.
void Connection::lost() {
  if (std::exchange(gone_, true)) return;
  close();
  if (serving_)
    signal_->stop(StopReason::CallerGone);
  else
    bell_.ring();
}

void Connection::drain() {
  if (serving_)
    signal_->drain();
  else
    bell_.ring();
}

void Connection::stop() {
  if (serving_) signal_->stop(StopReason::Shutdown);
}

void Connection::abandon() {
  stop();
  lost();
  // What sleeps goes to the io_context, which destroys it if it never runs again: else the connection and the
  // coroutine that sleeps on its bell would own each other for ever.
  ring();
}

// ---- The listener ----

void admit(const Shared& hub, Socket socket) {
  const std::size_t limit = hub->options.limits.connections;
  const bool crowded = hub->connections.size() >= limit;
  if (hub->connections.size() >= limit + kCrowd) return;

  error_code ignored;
  socket.non_blocking(true, ignored);
  if (!hub->on_file) {
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentMax, sizeof kUnsentMax);
  }
  auto connection = std::make_shared<Connection>(hub, std::move(socket), crowded);
  asio::co_spawn(hub->io, Connection::run(std::move(connection)), asio::detached);
}

task<void> accept_callers(Shared hub) {
  while (hub->acceptor.is_open()) {
    error_code error;
    Socket socket = co_await hub->acceptor.async_accept(asio::redirect_error(kAwaitable, error));
    if (!error) {
      admit(hub, std::move(socket));
    } else if (hub->acceptor.is_open()) {
      // Out of descriptors or memory: those who wait in the backlog are taken when somebody has left.
      hub->pause.expires_after(kAcceptPause);
      co_await hub->pause.async_wait(asio::redirect_error(kAwaitable, error));
    }
  }
}

void stop_listening(const Shared& hub) {
  hub->listener = Listener{};  // Its file goes first: a successor must not find one on which nobody listens.
  // Those in the backlog believe to be connected.
  error_code error;
  while (!error && hub->acceptor.is_open()) {
    Socket socket = hub->acceptor.accept(hub->io.get_executor(), error);
    if (!error) admit(hub, std::move(socket));
  }
  hub->acceptor.close(error);
  hub->pause.cancel();
}

}  // namespace

class Server::Impl {
 public:
  Shared hub;
};

Server::Server(asio::io_context& io, ServerOptions options, ServerEvents events)
    : impl_(std::make_unique<Impl>(std::make_shared<Hub>(io, std::move(options), std::move(events)))) {}

Server::~Server() {
  stop_listening(impl_->hub);
  const std::vector<Connection*> open(impl_->hub->connections.begin(), impl_->hub->connections.end());
  for (Connection* connection : open) connection->abandon();
}

void Server::listen() {
  const Shared& hub = impl_->hub;
  hub->listener = Listener{hub->options.address, hub->options.reach};
  hub->on_file = hub->listener.on_file();
  hub->address = hub->listener.address();
  hub->acceptor.assign(Stream{hub->listener.family(), 0}, hub->listener.release_descriptor());
  hub->acceptor.non_blocking(true);
  asio::co_spawn(hub->io, accept_callers(hub), asio::detached);
}

std::string Server::address() const { return impl_->hub->address; }

void Server::drain() {
  const Shared& hub = impl_->hub;
  if (hub->drained_at) return;
  hub->drained_at = Clock::now();
  stop_listening(hub);
  for (Connection* connection : hub->connections) connection->drain();
}

void Server::stop_all() {
  impl_->hub->stopping = true;
  for (Connection* connection : impl_->hub->connections) connection->stop();
}

void Server::update(std::vector<std::string> hosts, Config::Limits limits, std::uint64_t buffered_bytes) {
  ServerOptions& options = impl_->hub->options;
  options.hosts = std::move(hosts);
  options.limits = limits;
  options.buffered_bytes = buffered_bytes;
}

Server::Figures Server::figures() const {
  const Hub& hub = *impl_->hub;
  return {hub.connections.size(), hub.requests, hub.buffered};
}

}  // namespace gateway
