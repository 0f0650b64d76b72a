#include "tests/support/raw_peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <filesystem>
#include <utility>

#include "classifier/headers.h"

namespace raw {
namespace {

constexpr auto kPatience = 10s;

int listen_on_any_port(std::uint16_t& port, int backlog) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert(socket >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  [[maybe_unused]] int failed = bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  assert(failed == 0);
  failed = listen(socket, backlog);
  assert(failed == 0);
  failed = getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  assert(failed == 0);
  port = ntohs(address.sin_port);
  return socket;
}

std::size_t content_length(std::string_view head) {
  constexpr std::string_view kEnd = "\r\n";
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find(kEnd));
    head.remove_prefix(std::min(head.size(), line.size() + kEnd.size()));
    const auto colon = line.find(": ");
    if (colon == std::string_view::npos || !classifier::same_name(line.substr(0, colon), "content-length")) continue;
    std::size_t length = 0;
    std::from_chars(line.data() + colon + 2, line.data() + line.size(), length);
    return length;
  }
  return 0;
}

}  // namespace

Connection::Connection(int socket, int number) : socket_(socket), number_(number) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const timeval patience{kPatience / 1s, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

void Connection::shake_hands(const TlsServer& tls) {
  SSL* const ssl = SSL_new(tls.context());
  ssl_ = ssl;
  SSL_set_fd(ssl, socket_);
  if (SSL_accept(ssl) != 1) reset();
}

Connection::~Connection() { close(); }

bool Connection::readable(std::chrono::milliseconds limit) {
  if (ssl_ != nullptr && SSL_pending(static_cast<SSL*>(ssl_)) > 0) return true;
  pollfd waiting{socket_, POLLIN, 0};
  return socket_ >= 0 && poll(&waiting, 1, static_cast<int>(limit.count())) > 0;
}

Connection::Read Connection::read_or_end(std::chrono::milliseconds limit) {
  if (!kept_.empty()) return {std::exchange(kept_, {}), false};
  if (socket_ < 0) return {{}, true};
  if (!readable(limit)) return {};
  std::string bytes(64 * 1024, '\0');
  const ssize_t count = ssl_ != nullptr
                            ? SSL_read(static_cast<SSL*>(ssl_), bytes.data(), static_cast<int>(bytes.size()))
                            : recv(socket_, bytes.data(), bytes.size(), 0);
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return {std::move(bytes), count <= 0};
}

std::string Connection::read_some(std::chrono::milliseconds limit) { return read_or_end(limit).bytes; }

std::string Connection::read_until(std::string_view mark) {
  std::string all;
  for (;;) {
    const std::string more = read_some();
    if (more.empty()) return {};
    all += more;
    if (const auto at = all.find(mark); at != std::string::npos) {
      kept_ = all.substr(at + mark.size());
      all.resize(at + mark.size());
      return all;
    }
  }
}

std::string Connection::read_exactly(std::size_t size) {
  std::string all;
  while (all.size() < size) {
    const std::string more = read_some();
    if (more.empty()) return {};
    all += more;
  }
  kept_ = all.substr(size);
  all.resize(size);
  return all;
}

std::string Connection::request() {
  std::string all = read_until("\r\n\r\n");
  const std::size_t length = content_length(all);
  if (all.empty() || length == 0) return all;
  const std::string body = read_exactly(length);
  return body.empty() ? body : all + body;
}

bool Connection::send(std::string_view bytes) {
  while (!bytes.empty() && socket_ >= 0) {
    const std::string_view part = bytes.substr(0, 256 * 1024);
    const ssize_t count = ssl_ != nullptr
                              ? SSL_write(static_cast<SSL*>(ssl_), part.data(), static_cast<int>(part.size()))
                              : ::send(socket_, part.data(), part.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return socket_ >= 0;
}

bool Connection::gone(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    const auto [bytes, over] = read_or_end(std::max(left, 0ms));
    if (over || bytes.empty()) return over;
  }
}

void Connection::say_no_more() {
  if (socket_ < 0) return;
  if (ssl_ != nullptr) SSL_shutdown(static_cast<SSL*>(ssl_));
  shutdown(socket_, SHUT_WR);
}

void Connection::close() {
  if (socket_ < 0) return;
  if (ssl_ != nullptr) {
    SSL_shutdown(static_cast<SSL*>(ssl_));
    SSL_free(static_cast<SSL*>(ssl_));
    ssl_ = nullptr;
  }
  const std::lock_guard guard{lock_};
  ::close(std::exchange(socket_, -1));
}

void Connection::reset() {
  const linger at_once{1, 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  const std::lock_guard guard{lock_};
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  SSL_free(static_cast<SSL*>(std::exchange(ssl_, nullptr)));
}

void Connection::wake() {
  const std::lock_guard guard{lock_};
  if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);
}

Peer::Peer(Script script, const TlsServer* tls)
    : script_(std::move(script)),
      tls_(tls),
      listener_(listen_on_any_port(port_, 1024)),
      acceptor_([this] { accept_all(); }) {}

Peer::~Peer() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  {
    const std::lock_guard guard{lock_};
    ending_ = true;
    for (const auto& connection : connections_) connection->wake();
  }
  for (std::thread& thread : threads_) thread.join();
}

std::string Peer::url() const {
  return (tls_ != nullptr ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_);
}

void Peer::accept_all() {
  for (;;) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    const int number = accepted_++;
    threads_.emplace_back([this, socket, number] {
      // Broken pipes are a peer's daily bread, but not those of what is being tested.
      sigset_t broken_pipe;
      sigemptyset(&broken_pipe);
      sigaddset(&broken_pipe, SIGPIPE);
      pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);

      const auto connection = std::make_shared<Connection>(socket, number);
      {
        const std::lock_guard guard{lock_};
        connections_.push_back(connection);
        if (ending_) connection->wake();
      }
      if (tls_ != nullptr) connection->shake_hands(*tls_);
      script_(*connection);
      const std::lock_guard guard{lock_};
      connection->close();
      connections_.remove(connection);
    });
  }
}

PeerProcess::PeerProcess(Peer::Script script, const TlsServer* tls) {
  int ends[2] = {};
  [[maybe_unused]] int failed = pipe(ends);
  assert(failed == 0);
  process_ = fork();
  assert(process_ >= 0);
  if (process_ == 0) {
    const Peer peer{std::move(script), tls};
    const std::string url = peer.url() + "\n";
    if (write(ends[1], url.data(), url.size()) > 0) pause();
    _exit(0);
  }
  ::close(ends[1]);
  for (char byte = 0; read(ends[0], &byte, 1) == 1 && byte != '\n';) url_ += byte;
  ::close(ends[0]);
}

PeerProcess::~PeerProcess() {
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

FullListener::FullListener() : listener_(listen_on_any_port(port_, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port_);
  // One is taken in, and those after it are not answered.
  for (int i = 0; i < 3; ++i) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    waiting_.push_back(socket);
  }
}

FullListener::~FullListener() {
  for (const int socket : waiting_) ::close(socket);
  ::close(listener_);
}

std::string FullListener::url() const { return "http://127.0.0.1:" + std::to_string(port_); }

std::uint16_t closed_port() {
  std::uint16_t port = 0;
  ::close(listen_on_any_port(port, 1));
  return port;
}

std::size_t open_descriptors() {
  const auto all = std::filesystem::directory_iterator{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace raw
