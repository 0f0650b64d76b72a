#include "gateway/endpoint.h"

#include <httplib.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
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

#include "gateway/http_head.h"
#include "gateway/listener.h"

namespace gateway {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kConnectionsMax = 128;  // One more, and the one that has been silent for longest goes.
constexpr std::size_t kHeadMax = 64 * 1024;   // An edit of a dead letter stands in the query.
constexpr std::size_t kReadMax = 4096;
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

/// Writes answers.
class Pages : private httplib::Server {
 public:
  Pages() {
    // Before all else that a Server does: no route or file is looked for.
    set_pre_routing_handler([this](const httplib::Request&, httplib::Response& response) {
      response.status = answer_.status;
      response.set_content(std::move(answer_.body), answer_.type);
      for (const auto& [name, value] : answer_.headers) response.set_header(name, value);
      return HandlerResponse::Handled;
    });
  }

  /// As it goes over the wire; it always ends the connection. `asked`: nothing if that could not be told.
  std::string written(EndpointAnswer answer, const RequestHead* asked) {
    answer_ = std::move(answer);
    // What it needs to know of the request, and no more: a page asked for as a thousand overlapping ranges would be a
    // thousand pages.
    std::string head = asked && asked->method == "HEAD" ? "HEAD / HTTP/1.1\r\n" : "GET / HTTP/1.1\r\n";
    const auto encodings = asked ? classifier::find(asked->headers, "accept-encoding") : std::nullopt;
    if (encodings) head += "Accept-Encoding: " + std::string{*encodings} + "\r\n";
    head += "\r\n";
    httplib::detail::BufferStream both_ways;  // The answer is appended to what was to be read.
    both_ways.write(head.data(), head.size());
    bool closed = false;
    process_request(both_ways, true, closed, nullptr);
    return both_ways.get_buffer().substr(head.size());
  }

 private:
  EndpointAnswer answer_{};
};

struct Connection {
  // Parting: all is sent, and whether the peer takes it is waited for.
  enum class Doing : std::uint8_t { Reading, Answering, Parting, Over };
  Fd fd{};
  Clock::time_point until{};
  Doing doing = Doing::Reading;
  std::string in{};
  std::optional<RequestHead> head{};  // Read and good; its body is waited for …
  std::size_t whole = 0;              // … until so many bytes are in.
  std::string answer{};
  std::size_t sent = 0;
  std::function<void()> taken{};
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
  explicit Impl(EndpointOptions options) : options_(std::move(options)), stopper_(::eventfd(0, EFD_CLOEXEC)) {
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

      // Who is late is told by the time before the answers of this round, which may take theirs: what came meanwhile
      // is heard in the next one.
      const auto now = Clock::now();
      auto one = polled.begin() + 2;
      for (Connection& connection : connections_) {
        if ((one++)->revents != 0) go_on(connection);
        if (now >= connection.until) connection.doing = Connection::Doing::Over;
      }
      if (polled[1].revents != 0) accept_all();
      forget_finished();
    }
  }
  void forget_finished() {
    std::erase_if(connections_, [](const Connection& c) { return c.doing == Connection::Doing::Over; });
  }
  [[nodiscard]] int milliseconds_to_wait(Clock::time_point now) const {
    auto until = now + 1h;
    if (now < accept_again_) until = accept_again_;
    for (const Connection& connection : connections_) until = std::min(until, connection.until);
    return static_cast<int>(std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(until - now)).count());
  }

  void accept_all() {
    for (std::size_t i = 0; i < kConnectionsMax; ++i) {
      Fd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
      if (fd.get() < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
        // No descriptor is free: the listener stays readable, and looking again at once would burn the core.
        accept_again_ = Clock::now() + kAcceptPause;
        return;
      }
      if (connections_.size() >= kConnectionsMax) make_room();
      connections_.push_back({.fd = std::move(fd), .until = Clock::now() + kHeadTime});
      go_on(connections_.back());
    }
  }
  /// Nobody who has asked is sent away for it, as long as there is one who has not.
  void make_room() {
    for (Connection& connection : connections_) go_on(connection);  // What they asked may be there by now.
    forget_finished();
    if (connections_.size() < kConnectionsMax) return;
    connections_.erase(std::ranges::min_element(connections_, {}, [](const Connection& c) {
      return std::pair{c.doing, c.until};
    }));
  }

  void go_on(Connection& connection) {
    using Doing = Connection::Doing;
    if (connection.doing == Doing::Reading) read(connection);
    if (connection.doing == Doing::Answering) send(connection);
    if (connection.doing == Doing::Parting) part(connection);
  }
  void read(Connection& connection) {
    std::array<char, kReadMax> bytes;
    const ssize_t got = ::recv(connection.fd.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      connection.doing = Connection::Doing::Over;
      return;
    }
    connection.in.append(bytes.data(), static_cast<std::size_t>(got));
    if (!connection.head) read_head_of(connection);
    if (connection.doing != Connection::Doing::Reading || !connection.head) return;
    if (connection.in.size() < connection.whole) return;
    EndpointRequest request;
    request.method = connection.head->method;
    const std::string& target = connection.head->target;
    const std::size_t mark = std::min(target.find('?'), target.size());
    request.path = target.substr(0, mark);
    if (mark < target.size()) request.query = target.substr(mark + 1);
    request.authority = connection.head->authority;
    request.headers = connection.head->headers;
    request.peer = peer_ids(connection.fd.get());
    request.spare_memory = bytes_to_send() > kAnswersMax;
    EndpointAnswer answer;
    try {
      answer = options_.answer(request);
    } catch (const std::exception&) {
      answer.status = 503;
      answer.body = "the page could not be made\n";
    }
    reply(connection, std::move(answer));
  }
  void read_head_of(Connection& connection) {
    HeadScan scan;
    const HeadScan::Seen seen = scan.look(std::string_view{connection.in}.substr(0, kHeadMax));
    if (seen == HeadScan::Seen::Malformed) {
      return refuse(connection, 400, "The request head is malformed: " + std::string{scan.fault()} + ".");
    }
    if (seen == HeadScan::Seen::Incomplete) {
      if (connection.in.size() >= kHeadMax) refuse(connection, 431, "The request's head has more than 64 KiB.");
      return;
    }
    auto head = read_head(std::string_view{connection.in}.substr(0, scan.size()), {.allowed = {}, .any = true});
    if (!head) return refuse(connection, head.error().status, head.error().message);
    connection.whole = scan.size();
    if (options_.body_max > 0) {
      if (head->chunked) return refuse(connection, 411, "A body needs a Content-Length here.");
      if (head->length > options_.body_max) return refuse(connection, 413, "The body is too large.");
      connection.whole += head->length;
    }
    connection.head = std::move(*head);
  }
  void refuse(Connection& connection, int status, std::string_view why) {
    EndpointAnswer answer;
    if (options_.refuse) answer = options_.refuse(status, why);
    answer.status = status;
    reply(connection, std::move(answer));
  }
  void reply(Connection& connection, EndpointAnswer answer) {
    connection.taken = std::move(answer.taken);
    connection.answer = pages_.written(std::move(answer), connection.head ? &*connection.head : nullptr);
    connection.doing = Connection::Doing::Answering;
    connection.until = Clock::now() + kAnswerTime;  // Not sooner: the answer may have taken seconds.
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
    connection.answer.clear();
    connection.doing = connection.taken ? Connection::Doing::Parting : Connection::Doing::Over;
    if (connection.taken) ::shutdown(connection.fd.get(), SHUT_WR);
  }
  /// What was sent may still lie in this machine's buffers: a peer that has gone took nothing of it.
  static void part(Connection& connection) {
    std::array<char, kReadMax> bytes;
    const ssize_t got = ::recv(connection.fd.get(), bytes.data(), bytes.size(), 0);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
    connection.doing = Connection::Doing::Over;
    // A peer that closes with something unread sends a reset; our own FIN may count as one byte.
    int untaken = 0;
    if (got == 0 && ::ioctl(connection.fd.get(), SIOCOUTQ, &untaken) == 0 && untaken <= 1) connection.taken();
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
