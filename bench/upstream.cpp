#include "bench/upstream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <queue>
#include <stdexcept>
#include <unordered_map>
#include <vector>

namespace bench {
namespace {

constexpr std::string_view kStampMark = "\"content\":\"@";
constexpr std::size_t kStampDigits = 19;

constexpr std::string_view kProviderHeaders =
    "date: Sat, 01 Aug 2026 12:00:00 GMT\r\nserver: bench\r\nopenai-processing-ms: 412\r\nopenai-version: "
    "2020-10-01\r\n"
    "x-request-id: req_0123456789abcdef0123456789abcdef\r\nx-ratelimit-limit-requests: 10000\r\n"
    "x-ratelimit-remaining-requests: 9999\r\nx-ratelimit-reset-requests: 6ms\r\n";

std::string unary_answer() {
  std::string body =
      R"({"id":"chatcmpl-0123456789","object":"chat.completion","created":1785585600,"model":"gpt-5-mini",)"
      R"("choices":[{"index":0,"message":{"role":"assistant","content":")";
  const std::string tail = R"("},"finish_reason":"stop"}],"usage":{"prompt_tokens":231,"completion_tokens":404,)"
                           R"("total_tokens":635,"prompt_tokens_details":{"cached_tokens":0},)"
                           R"("completion_tokens_details":{"reasoning_tokens":0}}})";
  while (body.size() + tail.size() < 2048) body += "lorem ipsum "[body.size() % 12];
  body += tail;
  return "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + std::string{kProviderHeaders} +
         "content-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string stream_head() {
  // x-accel-buffering tells nginx what `proxy_buffering off` would, for this answer alone.
  return "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
         "x-accel-buffering: no\r\n" +
         std::string{kProviderHeaders} + "transfer-encoding: chunked\r\n\r\n";
}

std::string chunk(std::string_view data) {
  std::array<char, 16> size;
  const int digits = std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
  return std::string{size.data(), static_cast<std::size_t>(digits)} + std::string{data} + "\r\n";
}

/// 200 bytes, the time of its making inside.
std::string event() {
  std::string data =
      R"(data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1785585600,"model":"gpt-5-mini",)"
      R"("choices":[{"index":0,"delta":{"content":"@)";
  std::string stamp = std::to_string(Clock::now().time_since_epoch().count());
  stamp.insert(0, kStampDigits - stamp.size(), '0');
  data += stamp;
  const std::string_view tail = "\"},\"finish_reason\":null}]}\n\n";
  if (data.size() + tail.size() < 200) data.append(200 - data.size() - tail.size(), '.');
  data += tail;
  return chunk(data);
}

std::string stream_tail() {
  return chunk(R"(data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1785585600,)"
               R"("model":"gpt-5-mini","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"
               "\n\n"
               R"(data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1785585600,)"
               R"("model":"gpt-5-mini","choices":[],"usage":{"prompt_tokens":231,"completion_tokens":404,)"
               R"("total_tokens":635}})"
               "\n\ndata: [DONE]\n\n") +
         "0\r\n\r\n";
}

std::uint64_t number_after(std::string_view text, std::string_view name) {
  std::uint64_t value = 0;
  const auto at = text.find(name);
  if (at != std::string_view::npos) {
    std::from_chars(text.data() + at + name.size(), text.data() + text.size(), value);
  }
  return value;
}

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

struct Connection {
  Fd fd{};
  std::unique_ptr<SSL, SslFree> ssl{};
  std::string head{};         // Of the request that is being read.
  std::size_t body_left = 0;  // Of that request.
  std::string out{};
  std::uint64_t every_us = 0;
  std::uint64_t events_left = 0;
  bool streaming = false;
  std::uint64_t generation = 0;  // Descriptors come again; a tick for an earlier one must not reach this one.
};

struct Tick {
  TimePoint when;
  int fd;
  std::uint64_t generation;
  bool operator>(const Tick& other) const { return when > other.when; }
};

class Provider {
 public:
  Provider(Fd plain, Fd tls, const std::string& certificate_file, const std::string& key_file)
      : plain_(std::move(plain)), tls_(std::move(tls)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    context_ = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_mode(context_,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    if (SSL_CTX_use_certificate_chain_file(context_, certificate_file.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(context_, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
      throw std::runtime_error("cannot read " + certificate_file + " and " + key_file);
    }
    for (const Fd* listener : {&plain_, &tls_}) watch(listener->get(), EPOLLIN);
  }

  [[noreturn]] void run() {
    for (;;) {
      std::array<epoll_event, 256> events;
      const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        const int fd = event.data.fd;
        if (fd == plain_.get() || fd == tls_.get()) {
          accept_all(fd);
        } else if (const auto found = connections_.find(fd); found != connections_.end()) {
          const bool closing = (event.events & ~std::uint32_t{EPOLLIN | EPOLLOUT}) != 0;
          if (!serve(*found->second, closing)) connections_.erase(found);
        }
      }
      send_due();
    }
  }

 private:
  void watch(int fd, std::uint32_t what) {
    epoll_event event{.events = what, .data = {.fd = fd}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw_errno("epoll_ctl");
  }

  [[nodiscard]] int wait_ms() const {
    if (ticks_.empty()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(ticks_.top().when - Clock::now()).count();
    return static_cast<int>(std::max<std::int64_t>(left, 0));
  }

  void accept_all(int listener) {
    for (;;) {
      Fd fd{::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
      if (!fd.open()) return;
      no_delay(fd.get());
      auto connection = std::make_unique<Connection>();
      connection->generation = ++generation_;
      if (listener == tls_.get()) {
        connection->ssl.reset(SSL_new(context_));
        SSL_set_fd(connection->ssl.get(), fd.get());
        SSL_set_accept_state(connection->ssl.get());
      }
      const int number = fd.get();
      connection->fd = std::move(fd);
      watch(number, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
      connections_[number] = std::move(connection);
    }
  }

  /// Bytes read; 0 for "later", -1 for the end.
  std::ptrdiff_t read(Connection& connection) {
    if (connection.ssl == nullptr) {
      const auto count = ::recv(connection.fd.get(), buffer_.data(), buffer_.size(), 0);
      if (count < 0 && errno == EAGAIN) return 0;
      return count <= 0 ? -1 : count;
    }
    ERR_clear_error();
    const int count = SSL_read(connection.ssl.get(), buffer_.data(), static_cast<int>(buffer_.size()));
    if (count > 0) return count;
    const int error = SSL_get_error(connection.ssl.get(), count);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
  }

  std::ptrdiff_t write(Connection& connection, std::string_view bytes) {
    if (connection.ssl == nullptr) {
      const auto count = ::send(connection.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0 && errno == EAGAIN) return 0;
      return count < 0 ? -1 : count;
    }
    ERR_clear_error();
    const int count = SSL_write(connection.ssl.get(), bytes.data(), static_cast<int>(bytes.size()));
    if (count > 0) return count;
    const int error = SSL_get_error(connection.ssl.get(), count);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
  }

  bool send(Connection& connection, std::string_view bytes) {
    if (connection.out.empty()) {
      const auto count = write(connection, bytes);
      if (count < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    connection.out += bytes;
    return true;
  }

  bool flush(Connection& connection) {
    while (!connection.out.empty()) {
      const auto count = write(connection, connection.out);
      if (count < 0) return false;
      if (count == 0) return true;
      connection.out.erase(0, static_cast<std::size_t>(count));
    }
    return true;
  }

  /// False when the connection is over.
  bool serve(Connection& connection, bool closing) {
    if (!flush(connection)) return false;
    for (;;) {
      const auto count = read(connection);
      if (count < 0) return false;
      if (count == 0) return true;
      if (!take(connection, {buffer_.data(), static_cast<std::size_t>(count)})) return false;
      // A short read was the last one, unless an end stands behind it; TLS gives one record at a time.
      const bool last = connection.ssl == nullptr && static_cast<std::size_t>(count) < buffer_.size();
      if (last && !closing) return true;
    }
  }

  bool take(Connection& connection, std::string_view bytes) {
    while (!bytes.empty()) {
      if (connection.body_left > 0) {
        const std::size_t part = std::min(connection.body_left, bytes.size());
        connection.body_left -= part;
        bytes.remove_prefix(part);
        if (connection.body_left == 0 && !answer(connection)) return false;
        continue;
      }
      const std::size_t before = connection.head.size();
      connection.head += bytes.substr(0, 16 * 1024);
      const auto end = connection.head.find("\r\n\r\n", before < 3 ? 0 : before - 3);
      if (end == std::string::npos) return connection.head.size() < 64 * 1024;
      bytes.remove_prefix(end + 4 - before);
      connection.head.resize(end + 4);
      std::ranges::transform(
          connection.head, connection.head.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
      // Every proxy here knows the length of what it has buffered; one that does not is told so loudly.
      if (connection.head.find("transfer-encoding: chunked") != std::string::npos) return false;
      connection.body_left = number_after(connection.head, "\r\ncontent-length: ");
      if (connection.body_left == 0 && !answer(connection)) return false;
    }
    return true;
  }

  bool answer(Connection& connection) {
    const std::string_view line = std::string_view{connection.head}.substr(0, connection.head.find('\r'));
    const bool stream = line.find(kStreamQuery) != std::string_view::npos;
    connection.every_us = number_after(line, "every_us=");
    connection.events_left = number_after(line, "events=");
    connection.head.clear();
    if (!stream) return send(connection, unary_);

    connection.streaming = true;
    std::string first = stream_head_ + event();
    if (connection.every_us > 0) {
      ticks_.push({Clock::now() + std::chrono::microseconds{connection.every_us},
                   connection.fd.get(),
                   connection.generation});
      return send(connection, first);
    }
    for (std::uint64_t i = 1; i < connection.events_left; ++i) first += event();
    connection.streaming = false;
    return send(connection, first + stream_tail_);
  }

  void send_due() {
    const TimePoint now = Clock::now();
    while (!ticks_.empty() && ticks_.top().when <= now) {
      Tick tick = ticks_.top();
      ticks_.pop();
      const auto found = connections_.find(tick.fd);
      if (found == connections_.end() || found->second->generation != tick.generation) continue;
      Connection& connection = *found->second;
      bool alive = true;
      if (connection.events_left == 1) {
        connection.streaming = false;
        alive = send(connection, event() + stream_tail_);
      } else {
        if (connection.events_left > 0) --connection.events_left;
        alive = send(connection, event());
        tick.when += std::chrono::microseconds{connection.every_us};
        if (alive) ticks_.push(tick);
      }
      if (!alive) connections_.erase(found);
    }
  }

  Fd plain_;
  Fd tls_;
  Fd epoll_;
  SSL_CTX* context_ = nullptr;  // For the life of the process.
  std::unordered_map<int, std::unique_ptr<Connection>> connections_{};
  std::priority_queue<Tick, std::vector<Tick>, std::greater<>> ticks_{};
  std::array<char, 64 * 1024> buffer_{};
  std::uint64_t generation_ = 0;
  const std::string unary_ = unary_answer();
  const std::string stream_head_ = stream_head();
  const std::string stream_tail_ = stream_tail();
};

}  // namespace

std::optional<std::chrono::nanoseconds> stamp_in(std::string_view bytes) {
  const auto at = bytes.find(kStampMark);
  if (at == std::string_view::npos || bytes.size() < at + kStampMark.size() + kStampDigits) return std::nullopt;
  std::int64_t stamp = 0;
  const char* digits = bytes.data() + at + kStampMark.size();
  std::from_chars(digits, digits + kStampDigits, stamp);
  return std::chrono::nanoseconds{stamp};
}

void serve_upstream(Fd plain, Fd tls, const std::string& certificate_file, const std::string& key_file) {
  Provider{std::move(plain), std::move(tls), certificate_file, key_file}.run();
}

}  // namespace bench
