#include "tests/support/fake_provider_transport.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <stdexcept>
#include <type_traits>

namespace fake_provider {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;
using Plain = tcp::socket;
using Tls = asio::ssl::stream<tcp::socket>;

// How long a connection that we have ended waits for the peer's end, or for its last bytes to leave, before
// it is closed.
constexpr milliseconds kLinger{1000};

Transport::Lost lost_by(const Error& error) {
  if (!error) return Transport::Lost::No;
  if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) return Transport::Lost::Fin;
  // OpenSSL says so when the FIN comes in the middle of a record.
  if (error.category() == asio::error::get_ssl_category()) return Transport::Lost::Fin;
  return Transport::Lost::Rst;
}

template <typename Stream>
class StreamTransport final : public Transport, public std::enable_shared_from_this<StreamTransport<Stream>> {
 public:
  StreamTransport(Stream stream, std::function<void()> closed)
      : stream_(std::move(stream)), timer_(stream_.get_executor()), closed_(std::move(closed)) {}
  ~StreamTransport() override { close(); }

  Stream& stream() { return stream_; }
  bool is_open() { return socket().is_open(); }

  void read_some(char* into, std::size_t room, Done done) override {
    stream_.async_read_some(asio::buffer(into, room), reporter(std::move(done)));
  }
  void write_some(std::string_view bytes, Done done) override {
    stream_.async_write_some(asio::buffer(bytes.data(), bytes.size()), reporter(std::move(done)));
  }

  void end(How how) override {
    if (!is_open()) return;
    if (how == How::Rst) {
      reset_when_sent(std::chrono::steady_clock::now() + kLinger);
      return;
    }
    close_in(kLinger);
    if constexpr (std::is_same_v<Stream, Tls>) {
      if (how == How::Notify) {
        stream_.async_shutdown([self = this->shared_from_this()](const Error&) { self->close(); });
        return;
      }
    }
    Error ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  void close() override {
    if (!is_open()) return;
    timer_.cancel();
    Error ignored;
    socket().close(ignored);
    drop = nullptr;
    if (const auto closed = std::exchange(closed_, nullptr)) closed();
  }

  Lost lost() override {
    if (!is_open()) return Lost::No;
    pollfd state{socket().native_handle(), POLLRDHUP, 0};
    if (::poll(&state, 1, 0) <= 0) return Lost::No;
    if ((state.revents & (POLLERR | POLLHUP)) != 0) return Lost::Rst;
    return (state.revents & POLLRDHUP) != 0 ? Lost::Fin : Lost::No;
  }

 private:
  tcp::socket& socket() {
    if constexpr (std::is_same_v<Stream, Tls>) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  auto reporter(Done done) {
    return [self = this->shared_from_this(), done = std::move(done)](const Error& error, std::size_t bytes) {
      if (self->is_open()) done(bytes, lost_by(error));
    };
  }

  void close_in(milliseconds wait) {
    timer_.expires_after(wait);
    timer_.async_wait([self = this->shared_from_this()](const Error& error) {
      if (!error) self->close();
    });
  }

  // A reset throws away what the kernel still holds back; what was counted as answered must have left.
  void reset_when_sent(std::chrono::steady_clock::time_point at_latest) {
    int unsent = 0;
    if (ioctl(socket().native_handle(), SIOCOUTQNSD, &unsent) != 0) unsent = 0;
    if (unsent == 0 || std::chrono::steady_clock::now() >= at_latest) {
      Error ignored;
      socket().set_option(tcp::socket::linger(true, 0), ignored);
      close();
      return;
    }
    timer_.expires_after(milliseconds{1});
    timer_.async_wait([self = this->shared_from_this(), at_latest](const Error& error) {
      if (!error && self->is_open()) self->reset_when_sent(at_latest);
    });
  }

  Stream stream_;
  asio::steady_timer timer_;
  std::function<void()> closed_;
};

class AsioAlarm final : public Alarm {
 public:
  explicit AsioAlarm(asio::io_context& io) : timer_(io) {}
  void at(std::chrono::steady_clock::time_point when, std::function<void()> then) override {
    timer_.expires_at(when);
    // A timer that has fired cannot be cancelled any more, though its handler is still to come.
    timer_.async_wait([then = std::move(then), set = ++*set_, latest = set_](const Error& error) {
      if (!error && *latest == set) then();
    });
  }
  void cancel() override {
    ++*set_;
    timer_.cancel();
  }
  ~AsioAlarm() override { ++*set_; }

 private:
  asio::steady_timer timer_;
  std::shared_ptr<std::uint64_t> set_ = std::make_shared<std::uint64_t>(0);
};

int choose_alpn(SSL*, const unsigned char** chosen, unsigned char* chosen_size, const unsigned char* offered,
                unsigned int offered_size, void* with_http2) {
  static constexpr unsigned char kBoth[] = "\x02h2\x08http/1.1";
  const unsigned int skip = with_http2 != nullptr ? 0 : 3;
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, chosen_size, kBoth + skip, sizeof kBoth - 1 - skip, offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

tcp::endpoint endpoint_of(const std::string& address) {
  const auto colon = address.rfind(':');
  Error error;
  auto host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto ip = asio::ip::make_address(host, error);
  unsigned long port = 65536;
  if (colon != std::string::npos && colon + 1 < address.size()) {
    char* end = nullptr;
    port = std::strtoul(address.c_str() + colon + 1, &end, 10);
    if (*end != '\0') port = 65536;
  }
  if (error || port > 65535) throw std::runtime_error("'" + address + "' is no address like 127.0.0.1:0");
  return {ip, static_cast<std::uint16_t>(port)};
}

class AsioListener final : public Listener {
 public:
  AsioListener(asio::io_context& io, ListenerOptions options, std::function<void(Taken)> take,
               std::function<void()> changed)
      : state_(std::make_shared<State>(io, std::move(options), std::move(take), std::move(changed))) {
    state_->endpoint = endpoint_of(state_->options.address);
    if (!state_->options.cert_file.empty()) {
      state_->ssl.use_certificate_chain_file(state_->options.cert_file);
      state_->ssl.use_private_key_file(state_->options.key_file, asio::ssl::context::pem);
      SSL_CTX_set_alpn_select_cb(state_->ssl.native_handle(), choose_alpn, state_->options.http2 ? this : nullptr);
    }
    state_->open();
    state_->endpoint = state_->acceptor.local_endpoint();
  }
  ~AsioListener() override {
    state_->stopped = true;
    Error ignored;
    state_->acceptor.close(ignored);
    for (const auto& [number, transport] : std::exchange(state_->connections, {})) {
      if (const auto alive = transport.lock()) alive->close();
    }
  }

  std::string address() const override {
    const auto& endpoint = state_->endpoint;
    const auto host = endpoint.address().to_string();
    return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(endpoint.port());
  }
  void on_connect(OnConnect what) override {
    state_->on_connect = what;
    Error ignored;
    if (what == OnConnect::Refuse) {
      state_->acceptor.close(ignored);
    } else if (!state_->acceptor.is_open()) {
      state_->open();
    }
  }
  void drop(How how, bool only_idle) override {
    for (const auto& [number, transport] : std::map{state_->connections}) {
      const auto alive = transport.lock();
      if (!alive) continue;
      if (const auto drop_it = alive->drop) {
        drop_it(how, only_idle);
      } else if (!only_idle) {
        alive->end(how);
      }
    }
  }
  std::uint64_t open_connections() const override { return state_->connections.size(); }
  std::uint64_t connections_total() const override { return state_->accepted; }

 private:
  // Outlives the listener while a handler of it is still queued.
  struct State : std::enable_shared_from_this<State> {
    State(asio::io_context& io, ListenerOptions options_in, std::function<void(Taken)> take_in,
          std::function<void()> changed_in)
        : acceptor(io),
          pause(io),
          options(std::move(options_in)),
          take(std::move(take_in)),
          changed(std::move(changed_in)) {}

    void open() {
      acceptor.open(endpoint.protocol());
      acceptor.set_option(tcp::acceptor::reuse_address(true));
      acceptor.bind(endpoint);
      acceptor.listen(4096);
      accept();
    }
    void accept() {
      acceptor.async_accept([self = shared_from_this()](const Error& error, tcp::socket socket) {
        if (self->stopped || error == asio::error::operation_aborted) return;
        if (!error) {
          self->accepted_one(std::move(socket));
          self->accept();
          return;
        }
        // Out of descriptors, most likely: others may be closed soon.
        self->pause.expires_after(milliseconds{10});
        self->pause.async_wait([self](const Error&) {
          if (!self->stopped && self->acceptor.is_open()) self->accept();
        });
      });
    }
    void accepted_one(tcp::socket socket) {
      Error ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      // Who misbehaves at connecting shakes no hands either.
      if (options.cert_file.empty() || on_connect != OnConnect::Serve) {
        const auto transport = enroll<Plain>(std::move(socket));
        if (misbehaved(transport)) return;
        take({transport, false});
        return;
      }
      const auto transport = enroll<Tls>(Tls{std::move(socket), ssl});
      transport->tls = true;
      transport->stream().async_handshake(asio::ssl::stream_base::server,
                                          [self = shared_from_this(), transport](const Error& error) {
                                            if (self->stopped || error) {
                                              transport->close();
                                              return;
                                            }
                                            const unsigned char* name = nullptr;
                                            unsigned int size = 0;
                                            SSL_get0_alpn_selected(transport->stream().native_handle(), &name, &size);
                                            self->take({transport, size == 2 && name[0] == 'h' && name[1] == '2'});
                                          });
    }
    template <typename Stream>
    std::shared_ptr<StreamTransport<Stream>> enroll(Stream stream) {
      const auto number = ++accepted;
      auto transport =
          std::make_shared<StreamTransport<Stream>>(std::move(stream), [weak = this->weak_from_this(), number] {
            const auto self = weak.lock();
            if (!self || self->connections.erase(number) == 0) return;
            self->held.erase(number);
            self->changed();
          });
      transport->number = number;
      connections.emplace(number, transport);
      changed();
      return transport;
    }
    bool misbehaved(const std::shared_ptr<Transport>& transport) {
      if (on_connect == OnConnect::Fin) transport->end(How::Fin);
      if (on_connect == OnConnect::Rst) transport->end(How::Rst);
      if (on_connect == OnConnect::Serve) return false;
      held.emplace(transport->number, transport);
      watch(transport);
      return true;
    }
    // Nobody else reads from a connection that is not served, and its peer's end should be seen.
    void watch(const std::shared_ptr<Transport>& transport) {
      const auto into = std::make_shared<std::array<char, 4096>>();
      const auto state = shared_from_this();
      transport->read_some(into->data(), into->size(), [state, into, number = transport->number](auto, auto lost) {
        const auto found = state->held.find(number);
        if (found == state->held.end()) return;
        const auto alive = found->second;
        if (lost == Transport::Lost::No) {
          state->watch(alive);
        } else {
          alive->close();
        }
      });
    }

    tcp::acceptor acceptor;
    asio::steady_timer pause;
    ListenerOptions options;
    std::function<void(Taken)> take;
    std::function<void()> changed;
    asio::ssl::context ssl{asio::ssl::context::tls_server};
    tcp::endpoint endpoint{};
    OnConnect on_connect = OnConnect::Serve;
    bool stopped = false;
    std::uint64_t accepted = 0;
    std::map<std::uint64_t, std::weak_ptr<Transport>> connections{};
    std::map<std::uint64_t, std::shared_ptr<Transport>> held{};
  };
  std::shared_ptr<State> state_;
};

}  // namespace

class EventLoop::Impl {
 public:
  asio::io_context io{1};
  asio::posix::stream_descriptor input{io};
  std::array<char, 256> ignored_input{};

  void watch_input() {
    input.async_read_some(asio::buffer(ignored_input), [this](const Error& error, std::size_t) {
      if (error) {
        io.stop();
      } else {
        watch_input();
      }
    });
  }
};

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::post(std::function<void()> then) { asio::post(impl_->io, std::move(then)); }
std::unique_ptr<Alarm> EventLoop::alarm() { return std::make_unique<AsioAlarm>(impl_->io); }

std::unique_ptr<Listener> EventLoop::listen(ListenerOptions options, std::function<void(Listener::Taken)> take,
                                            std::function<void()> changed) {
  return std::make_unique<AsioListener>(impl_->io, std::move(options), std::move(take), std::move(changed));
}

void EventLoop::run(bool watch_stdin) {
  struct stat input {};
  // A terminal or /dev/null is nobody's leash.
  const bool leashed = fstat(STDIN_FILENO, &input) == 0 && (S_ISFIFO(input.st_mode) || S_ISSOCK(input.st_mode));
  if (watch_stdin && leashed) {
    impl_->input.assign(dup(STDIN_FILENO));
    impl_->watch_input();
  }
  asio::signal_set signals{impl_->io, SIGTERM, SIGINT};
  signals.async_wait([this](const Error& error, int) {
    if (!error) impl_->io.stop();
  });
  impl_->io.run();
}

}  // namespace fake_provider
