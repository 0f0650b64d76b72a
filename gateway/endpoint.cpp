#include "gateway/endpoint.h"

#include <httplib.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/listener.h"

namespace gateway {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kConnectionsMax = 128;  // One more, and the one that has been silent for longest goes.
constexpr std::size_t kHeadMax = 4096;
constexpr std::size_t kAnswersMax = 8 * 1024 * 1024;  // In memory at once; beyond it no large one is given out.
constexpr auto kHeadTime = 5s;                        // From the connection's begin to its request's end.
constexpr auto kAnswerTime = 5s;                      // Until the peer has taken it all.
constexpr auto kAcceptPause = 100ms;
constexpr int kBacklog = 128;
constexpr std::string_view kUnix = "unix:";

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

/// HTTP around the answers.
class Pages : private httplib::Server {
 public:
  explicit Pages(const EndpointOptions& options) : options_(options) {
    // Before all else that a Server does: no route or file is looked for.
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      give(request, response);
      return HandlerResponse::Handled;
    });
  }

  /// `head` is a whole request head; the answer always ends the connection.
  std::string answer(const std::string& head, bool spare_memory) {
    spare_memory_ = spare_memory;
    httplib::detail::BufferStream both_ways;  // The answer is appended to what was to be read.
    both_ways.write(head.data(), head.size());
    bool closed = false;
    process_request(both_ways, true, closed, [](httplib::Request& request) {
      request.ranges.clear();  // A page asked for as a thousand overlapping ranges would be a thousand pages.
      request.headers.erase("Expect");
    });
    return both_ways.get_buffer().substr(head.size());
  }

 private:
  void give(const httplib::Request& from, httplib::Response& response) const {
    EndpointRequest request;
    request.method = from.method;
    request.path = from.path;
    request.spare_memory = spare_memory_;
    for (const auto& [name, value] : from.headers) request.headers.push_back({name, value});
    EndpointAnswer answer;
    try {
      answer = options_.answer(request);
    } catch (const std::exception&) {
      answer.status = 503;
      answer.body = "the page could not be made\n";
    }
    response.status = answer.status;
    response.set_content(std::move(answer.body), answer.type);
    for (const auto& [name, value] : answer.headers) response.set_header(name, value);
  }

  const EndpointOptions& options_;
  bool spare_memory_ = false;
};

struct Connection {
  enum class Doing : std::uint8_t { Reading, Answering, Over };
  Fd fd{};
  Clock::time_point until{};
  Doing doing = Doing::Reading;
  std::string in{};
  std::string answer{};
  std::size_t sent = 0;
};

struct Address {
  std::string host{};
  std::string port{};
};
std::optional<Address> split(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  Address address{text.substr(0, colon), text.substr(colon + 1)};
  std::uint16_t port = 0;
  const char* const end = address.port.data() + address.port.size();
  const auto read = std::from_chars(address.port.data(), end, port);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  const bool bracketed = address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']';
  if (bracketed) address.host = address.host.substr(1, address.host.size() - 2);
  if (address.host.empty() || (!bracketed && address.host.find(':') != std::string::npos)) return std::nullopt;
  return address;
}

[[noreturn]] void fail(const EndpointOptions& options, std::string_view why, std::string_view mend) {
  throw std::runtime_error("cannot listen on " + options.address + " for " + options.purpose + ": " +
                           std::string{why} + "; " + std::string{mend});
}

std::string mend_of(const EndpointOptions& options, int error) {
  switch (error) {
    case EADDRINUSE:
      return "stop what listens there (another callgate?) or set " + options.key + " to a free address";
    case EADDRNOTAVAIL:
      return "set " + options.key + " to an address of this machine";
    case EACCES:
      return "set " + options.key + " to a port of 1024 or above";
    default:
      return "set " + options.key + " to another address";
  }
}

/// A request's end, as far as its head tells: its length with the body, or the status of its refusal.
struct Framing {
  std::size_t length = 0;
  int refused = 0;
};
Framing framing_of(std::string_view head, std::size_t body_max) {
  Framing framing{.length = head.size()};
  if (body_max == 0) return framing;
  std::optional<std::size_t> body;
  for (std::size_t at = head.find("\r\n"); at + 2 < head.size();) {
    const std::size_t next = head.find("\r\n", at + 2);
    std::string_view line = head.substr(at + 2, next - at - 2);
    at = next;
    const std::string_view name = line.substr(0, line.find(':'));
    if (classifier::same_name(name, "transfer-encoding")) return {.refused = 411};
    if (!classifier::same_name(name, "content-length")) continue;
    line.remove_prefix(std::min(name.size() + 1, line.size()));
    while (line.starts_with(' ')) line.remove_prefix(1);
    while (line.ends_with(' ')) line.remove_suffix(1);
    std::uint64_t length = 0;
    const auto read = std::from_chars(line.data(), line.data() + line.size(), length);
    if (body || line.empty() || read.ptr != line.data() + line.size()) return {.refused = 400};
    if (read.ec != std::errc{} || length > body_max) return {.refused = 413};
    body = length;
  }
  framing.length += body.value_or(0);
  return framing;
}

std::string refusal(int status) {
  const std::string reason = status == 400   ? "Bad Request"
                             : status == 411 ? "Length Required"
                             : status == 413 ? "Content Too Large"
                                             : "Request Header Fields Too Large";
  return "HTTP/1.1 " + std::to_string(status) + " " + reason + "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
}

// Without SO_REUSEPORT: a second callgate must be told that the address is taken, not given half of the probes.
Fd listen_on(const EndpointOptions& options) {
  const auto address = split(options.address);
  if (!address) fail(options, "no address", "set " + options.key + " to something like " + options.example);

  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(address->host.c_str(), address->port.c_str(), &hints, &found); error != 0) {
    fail(options, ::gai_strerror(error), mend_of(options, EADDRNOTAVAIL));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned{found, &::freeaddrinfo};
  int error = EADDRNOTAVAIL;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Fd fd{::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol)};
    const int on = 1;
    if (fd.get() >= 0 && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        ::bind(fd.get(), one->ai_addr, one->ai_addrlen) == 0 && ::listen(fd.get(), kBacklog) == 0) {
      return fd;
    }
    error = errno;
  }
  fail(options, std::strerror(error), mend_of(options, error));
}

std::string address_of(const Fd& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(listener.get(), plain, &length) != 0 ||
      ::getnameinfo(
          plain, length, host.data(), host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  const std::string name{host.data()};
  return (address.ss_family == AF_INET6 ? "[" + name + "]" : name) + ":" + port.data();
}

}  // namespace

class Endpoint::Impl {
 public:
  explicit Impl(EndpointOptions options)
      : options_(std::move(options)), pages_(options_), stopper_(::eventfd(0, EFD_CLOEXEC)) {
    if (stopper_.get() < 0) throw std::runtime_error("no event descriptor for a listener: out of descriptors?");
    if (options_.on_file && options_.address.starts_with(kUnix)) {
      file_ = Listener{options_.address};
      listener_ = Fd{file_.release_descriptor()};
      address_ = file_.address();
    } else {
      listener_ = listen_on(options_);
      address_ = address_of(listener_);
    }
    thread_ = std::thread{[this] { run(); }};
  }
  ~Impl() {
    ::eventfd_write(stopper_.get(), 1);
    thread_.join();
  }
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  void run() {
    // Signals are for the threads that wait for them.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);

    std::vector<pollfd> polled;
    for (;;) {
      const auto before = Clock::now();
      polled.assign({{stopper_.get(), POLLIN, 0}});
      polled.push_back({before < accept_again_ ? -1 : listener_.get(), POLLIN, 0});
      for (const Connection& connection : connections_) {
        const bool answering = connection.doing == Connection::Doing::Answering;
        polled.push_back({connection.fd.get(), static_cast<short>(answering ? POLLOUT : POLLIN), 0});
      }
      if (::poll(polled.data(), polled.size(), milliseconds_to_wait(before)) < 0 && errno != EINTR) return;
      if (polled[0].revents != 0) return;

      const auto now = Clock::now();
      auto one = polled.begin() + 2;
      for (Connection& connection : connections_) {
        if ((one++)->revents != 0) go_on(connection, now);
        if (now >= connection.until) connection.doing = Connection::Doing::Over;
      }
      if (polled[1].revents != 0) accept_all(now);
      std::erase_if(connections_, [](const Connection& c) { return c.doing == Connection::Doing::Over; });
    }
  }
  [[nodiscard]] int milliseconds_to_wait(Clock::time_point now) const {
    auto until = now + 1h;
    if (now < accept_again_) until = accept_again_;
    for (const Connection& connection : connections_) until = std::min(until, connection.until);
    return static_cast<int>(std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(until - now)).count());
  }

  void accept_all(Clock::time_point now) {
    for (std::size_t i = 0; i < kConnectionsMax; ++i) {
      Fd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
      if (fd.get() < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
        // No descriptor is free: the listener stays readable, and looking again at once would burn the core.
        accept_again_ = now + kAcceptPause;
        return;
      }
      if (connections_.size() >= kConnectionsMax) connections_.erase(stalest());
      connections_.push_back({.fd = std::move(fd), .until = now + kHeadTime});
      go_on(connections_.back(), now);
    }
  }
  std::list<Connection>::iterator stalest() {
    return std::ranges::min_element(connections_, {}, [](const Connection& c) { return c.until; });
  }

  void go_on(Connection& connection, Clock::time_point now) {
    using Doing = Connection::Doing;
    if (connection.doing == Doing::Reading) read(connection, now);
    if (connection.doing == Doing::Answering) send(connection);
  }
  void read(Connection& connection, Clock::time_point now) {
    std::array<char, kHeadMax> bytes;
    const ssize_t got = ::recv(connection.fd.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      connection.doing = Connection::Doing::Over;
      return;
    }
    connection.in.append(bytes.data(), static_cast<std::size_t>(got));
    const std::size_t end = connection.in.find("\r\n\r\n");
    if (end == std::string::npos && connection.in.size() < kHeadMax) return;
    if (end < kHeadMax) {
      const std::string head = connection.in.substr(0, end + 4);
      const Framing framing = framing_of(head, options_.body_max);
      if (framing.refused == 0 && connection.in.size() < framing.length) return;
      connection.answer =
          framing.refused != 0 ? refusal(framing.refused) : pages_.answer(head, bytes_to_send() > kAnswersMax);
    } else {
      connection.answer = refusal(431);
    }
    connection.doing = Connection::Doing::Answering;
    connection.until = now + kAnswerTime;
  }
  static void send(Connection& connection) {
    while (connection.sent < connection.answer.size()) {
      const ssize_t gone = ::send(connection.fd.get(),
                                  connection.answer.data() + connection.sent,
                                  connection.answer.size() - connection.sent,
                                  MSG_NOSIGNAL);
      if (gone < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (gone < 0) {
        connection.doing = Connection::Doing::Over;
        return;
      }
      connection.sent += static_cast<std::size_t>(gone);
    }
    connection.doing = Connection::Doing::Over;
  }
  [[nodiscard]] std::size_t bytes_to_send() const {
    std::size_t bytes = 0;
    for (const Connection& connection : connections_) bytes += connection.answer.size();
    return bytes;
  }

  const EndpointOptions options_;
  Pages pages_;
  Listener file_{};  // Removes its socket file at the end.
  Fd listener_{};
  std::string address_{};
  const Fd stopper_;
  Clock::time_point accept_again_{};
  std::list<Connection> connections_{};
  std::thread thread_{};
};

Endpoint::Endpoint(EndpointOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Endpoint::~Endpoint() = default;
const std::string& Endpoint::address() const { return impl_->address(); }

}  // namespace gateway
