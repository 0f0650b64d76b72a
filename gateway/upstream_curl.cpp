#include "gateway/upstream_curl.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gateway/curl_delivery.h"
#include "gateway/curl_head.h"
#include "gateway/curl_request.h"
#include "gateway/curl_trust.h"
#include "gateway/public_address.h"

// Who owns what: Engine has Realms (one per CA file), a Realm has Shards (one curl multi handle each), a Shard has
// the Transfers that curl works on. A Transfer is one easy handle with its request and answer; it outlives its
// Exchange only as a spare. Sockets are curl's, and we watch them.
//
// Every call into a multi handle goes through Shard::enter(), and what it leads to is done by Shard::turn() after it
// has returned: curl must not be called from its own callbacks. No story runs inside: Signal::ring() posts.

namespace gateway {
namespace {

using Clock = std::chrono::steady_clock;
using classifier::Transport;
using Executor = asio::io_context::executor_type;
using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, Executor>;
using Descriptor = asio::posix::basic_stream_descriptor<Executor>;

constexpr std::size_t kHeldMax = 64 * 1024;       // Bytes of an answer that wait to be read; then the provider waits.
constexpr long kReadBuffer = 16 * 1024;           // curl has one for each transfer, for as long as it runs.
constexpr std::size_t kIdleCapacity = 16 * 1024;  // More is given back before a stream falls silent.
constexpr std::size_t kComfortable = 32;          // Transfers that a shard takes before the next one is used.
constexpr long kPooledMax = 1024;                 // Connections of one shard, those in use included.
constexpr std::size_t kSparesMax = 32;
constexpr int kStaleMax = 3;  // Pooled connections found dead before a fresh one is demanded.
constexpr auto kRefusalMax = std::chrono::milliseconds{500};  // See answered_early().
constexpr auto kRest = std::chrono::milliseconds{50};         // See Socket::on_writable().
constexpr int kWritesTrusted = 16;  // Times that a socket may be writable before we ask if it helped.
constexpr int kLapsMax = 8;         // Of curl's "again, at once", before others have their turn.
constexpr std::chrono::hours kForEver{24};
constexpr std::chrono::seconds kSeeOut{1};  // For a transfer whose answer is known to be complete.

template <typename Value>
void set(CURL* easy, CURLoption option, Value value) {
  [[maybe_unused]] const CURLcode code = curl_easy_setopt(easy, option, value);
  assert(code == CURLE_OK);
}

/// Wakes its owner at a time, or before. Re-arming a timer costs a microsecond, so one that is armed for an earlier
/// time stays as it is: whoever is woken looks at the clock, and asks again.
class Alarm : public std::enable_shared_from_this<Alarm> {
 public:
  Alarm(asio::io_context& io, std::function<void()> wake) : timer_(io), wake_(std::move(wake)) {}

  void no_later_than(TimePoint when) {
    if (when == TimePoint::max() || (armed_ && *armed_ <= when)) return;
    armed_ = when;
    timer_.expires_at(when);
    timer_.async_wait([self = shared_from_this(), round = ++round_](const boost::system::error_code& error) {
      if (error || round != self->round_) return;
      self->armed_.reset();
      if (self->wake_) self->wake_();
    });
  }
  /// The owner goes.
  void stop() {
    wake_ = nullptr;
    timer_.cancel();
  }

 private:
  Timer timer_;
  std::function<void()> wake_;
  std::optional<TimePoint> armed_{};
  std::uint64_t round_ = 0;
};

class Shard;

/// One of curl's sockets, watched on our io_context. It stays registered while its connection is pooled, so that
/// using it again costs nothing; a wait that is still pending then is simply taken up again.
///
/// It is closed by us only when curl says so. Until a request has gone out on it, curl 7.88.1 may close it by itself
/// and tell us only afterwards, or not at all if the number is at once in use again; then it must just be let go.
class Socket : public std::enable_shared_from_this<Socket> {
 public:
  Socket(asio::io_context& io, Shard& shard) : shard_(&shard), descriptor_(io) {}
  ~Socket() { let_go(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] bool adopt(int socket) {
    boost::system::error_code error;
    descriptor_.assign(socket, error);
    return !error;
  }
  /// What curl wants to hear of: any of CURL_POLL_IN and CURL_POLL_OUT.
  void want(int what) {
    wanted_ = what;
    watch();
  }
  void watch() {
    wait_for(CURL_POLL_IN, Descriptor::wait_read, CURL_CSELECT_IN);
    if (!resting) wait_for(CURL_POLL_OUT, Descriptor::wait_write, CURL_CSELECT_OUT);
  }
  void close() {
    shard_ = nullptr;
    boost::system::error_code ignored;
    descriptor_.close(ignored);
  }
  void let_go() {
    shard_ = nullptr;
    if (descriptor_.is_open()) descriptor_.release();
  }
  [[nodiscard]] bool is_open() const { return shard_ != nullptr; }
  [[nodiscard]] Shard* shard() const { return shard_; }
  [[nodiscard]] int number() { return descriptor_.native_handle(); }
  [[nodiscard]] int wanted() const { return wanted_; }

  bool is_connection = true;  // Not one of curl's resolver.
  int local_port = 0;         // With the peer, this is how curl names a connection to us.
  std::string peer{};
  bool resting = false;     // Not asked whether it is writable, for a while.
  std::uint64_t moved = 0;  // Bytes of bodies that had left when we last looked.
  int users = 0;            // Transfers whose request went out on it and that have not ended.
  bool used = false;        // A request has gone out on it.
  std::optional<TcpState> at_close{};

 private:
  void wait_for(int poll, Descriptor::wait_type type, int event);
  void on_writable();

  Shard* shard_;  // Null once closed.
  Descriptor descriptor_;
  int wanted_ = CURL_POLL_NONE;
  int pending_ = CURL_POLL_NONE;
  int writes_ = 0;
};

/// One set of authorities that are believed (and of addresses that may be reached). Connections and TLS sessions are
/// never shared beyond it: a session that is resumed is not verified again.
struct Realm {
  explicit Realm(std::string ca_file) : trust(std::move(ca_file)), share(curl_share_init()) {
    assert(share != nullptr);
    curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
  }
  ~Realm();
  Realm(const Realm&) = delete;
  Realm& operator=(const Realm&) = delete;

  [[nodiscard]] Shard& pick();

  TrustStore trust;
  CURLSH* share;
  std::vector<std::unique_ptr<Shard>> shards{};
};

class Engine;

/// One request and its answer, with the easy handle that carries them.
struct Transfer {
  explicit Transfer(Engine& engine_in);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Tells curl what to do. False: it cannot be sent, and has failed already.
  [[nodiscard]] bool prepare(Outbound outbound, Signal& to_ring, Realm& in);
  void clear();

  [[nodiscard]] bool http2() const { return dressed_for->http == 2; }
  /// Needs a connection of its own: curl 7.88.1 fails when it uses one again on which it spoke HTTP/2 without TLS.
  [[nodiscard]] bool alone() const { return http2() && !to.tls; }

  /// All of the request has left, as far as curl knows.
  [[nodiscard]] bool all_sent() const;
  /// False if curl, whose reused connection ended without an answer, is about to send again what may have been read.
  [[nodiscard]] bool may_be_sent();
  /// The answer is here in full although the request has not left in full: nothing is gained by waiting for that.
  [[nodiscard]] bool answered_early(TimePoint now) const;
  void ring() const {
    if (signal != nullptr) signal->ring();
  }
  void finish(CURLcode code);
  void fail(Transport how, std::string why);
  void leave_socket();

  Engine& engine;
  CURL* easy;
  std::shared_ptr<Alarm> alarm;
  std::shared_ptr<const WireOptions> dressed_for{};  // What the handle is set up for.
  Realm* realm = nullptr;
  Destination to{};
  HeaderLines lines{};
  std::vector<curl_slist> list{};
  char error[CURL_ERROR_SIZE] = {};

  Outbound request{};
  Signal* signal = nullptr;  // Null: the exchange has gone.
  Shard* shard = nullptr;    // Null: curl is done with it (or never had it).
  std::size_t place = 0;     // Among the shard's.

  AnswerHeadReader head{};
  std::string data{};  // Of the body, waiting to be read.
  std::uint64_t received = 0;
  TimePoint heard{};  // When something of the answer came last.
  bool paused = false;
  std::optional<Exchange::Got> outcome{};  // End or Failed.
  Transport transport = Transport::Reset;
  std::string failure{};

  bool on_wire = false;  // curl has begun to send it.
  bool sent = false;     // As it was when its connection or the transfer ended.
  int stale = 0;         // Connections that had been closed under us before anything was sent.
  bool start_over = false;
  bool denied = false;               // Sending it again was.
  bool barred = false;               // An address of its host was not one to connect to.
  std::shared_ptr<Socket> socket{};  // On which it went out.
  std::optional<TcpState> before{};  // That socket, just before.
};

class Shard {
 public:
  explicit Shard(Engine& engine);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  [[nodiscard]] std::size_t in_flight() const { return transfers_.size(); }
  void start(Transfer& transfer);
  /// Takes it from curl, whose connection closes (or whose stream is reset).
  void cancel(std::unique_ptr<Transfer> transfer);
  void resume(Transfer& transfer);
  void ready(int socket, int events);

  // From curl's callbacks.
  int open_socket(curl_sockaddr& address);
  void forget(const Socket& socket);
  std::shared_ptr<Socket> socket_of(int local_port, const std::string& peer);
  [[nodiscard]] std::uint64_t moved_on(const Socket& socket) const;
  void rest(std::shared_ptr<Socket> socket);

 private:
  template <typename Call>
  void enter(const Call& call) {
    assert(!inside_);
    inside_ = true;
    call();
    inside_ = false;
  }
  void turn();
  void reap();
  void remove(Transfer& transfer);
  void put_out(Transfer& transfer);
  void nudge(const Socket& socket);
  void wake();
  void socket_action(curl_socket_t socket, int events);

  static int on_socket(CURL*, curl_socket_t socket, int what, void* self, void*);
  static int on_timer(CURLM*, long milliseconds, void* self);

  Engine& engine_;
  CURLM* multi_ = nullptr;  // Made when needed, dropped with its pool after a time without work.
  bool inside_ = false;
  bool run_now_ = false;
  std::optional<TimePoint> due_{};  // When curl wants to run.
  TimePoint asleep_at_{};           // Without work until then, the multi handle goes.
  std::shared_ptr<Alarm> alarm_;
  std::vector<Transfer*> transfers_{};
  std::vector<std::unique_ptr<Transfer>> doomed_{};                // Given up from inside a callback.
  std::vector<std::shared_ptr<Socket>> fresh_{};                   // Opened, not yet used.
  std::unordered_multimap<int, std::shared_ptr<Socket>> named_{};  // By local port.
  std::vector<std::shared_ptr<Socket>> resting_{};
  TimePoint rested_at_{};
};

class Engine {
 public:
  Engine(asio::io_context& io, CurlOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] std::unique_ptr<Transfer> open(Outbound request, Signal& signal);
  void close(std::unique_ptr<Transfer> transfer);
  void keep(std::unique_ptr<Transfer> transfer);  // As a spare.
  [[nodiscard]] CurlUpstream::Figures figures() const;

  asio::io_context& io;
  const CurlOptions options;
  std::function<std::string(const char*)> environment{};
  std::unordered_map<int, std::shared_ptr<Socket>> sockets{};

 private:
  [[nodiscard]] Realm& realm_of(const WireOptions& wire);

  // By ca_file, HTTP version and addresses.
  std::map<std::tuple<std::string, int, AddressPolicy>, std::unique_ptr<Realm>> realms_{};
  std::vector<std::unique_ptr<Transfer>> spares_{};
  std::size_t exchanges_ = 0;
};

// ---- Sockets

void Socket::wait_for(int poll, Descriptor::wait_type type, int event) {
  if (!is_open() || (wanted_ & poll) == 0 || (pending_ & poll) != 0) return;
  pending_ |= poll;
  descriptor_.async_wait(type, [self = shared_from_this(), poll, event](const boost::system::error_code& error) {
    self->pending_ &= ~poll;
    if (error || !self->is_open() || (self->wanted_ & poll) == 0) return;
    if (event == CURL_CSELECT_OUT) {
      self->on_writable();
    } else {
      self->resting = false;
    }
    self->shard_->ready(self->number(), event);
    self->watch();
  });
}

/// curl 7.88.1 asks for writability while an HTTP/2 upload waits for the provider's window: it would be told so for
/// ever, at 100 % CPU. What opens the window comes in, so it is asked again after that, or after a rest.
void Socket::on_writable() {
  if (++writes_ % kWritesTrusted != 0) return;
  const std::uint64_t before = std::exchange(moved, shard_->moved_on(*this));
  if (moved != before) return;
  resting = true;
  shard_->rest(shared_from_this());
}

Realm::~Realm() {
  shards.clear();
  curl_share_cleanup(share);
}

/// The first that has room: calls find each other's pooled connections while there are few of them, and spread when
/// there are many (curl looks at every open connection of a shard for each new call).
Shard& Realm::pick() {
  for (const auto& shard : shards) {
    if (shard->in_flight() < kComfortable) return *shard;
  }
  return **std::ranges::min_element(shards, {}, [](const auto& shard) { return shard->in_flight(); });
}

// ---- What curl calls

std::size_t on_header(char* text, std::size_t, std::size_t size, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.heard = Clock::now();
  const bool was_complete = transfer.head.complete();
  if (!transfer.head.line({text, size})) return 0;
  if (transfer.head.complete() && !was_complete) transfer.ring();
  return size;
}

std::size_t on_body(char* bytes, std::size_t, std::size_t size, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.heard = Clock::now();
  if (transfer.data.size() + size > kHeldMax) {
    transfer.paused = true;
    return CURL_WRITEFUNC_PAUSE;
  }
  if (transfer.data.empty()) transfer.ring();
  transfer.data.append(bytes, size);
  transfer.received += size;
  return size;
}

/// Just before a request is sent: the last moment at which sending it is our decision.
int on_request(void* self, char* peer_ip, char*, int peer_port, int local_port) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (!transfer.may_be_sent()) return CURL_PREREQFUNC_ABORT;
  const std::string peer = std::string{peer_ip} + " " + std::to_string(peer_port);
  std::shared_ptr<Socket> socket = transfer.shard->socket_of(local_port, peer);
  if (socket) transfer.before = tcp_state(socket->number());
  // curl does not see the FIN behind a TLS close_notify, and sends into a connection that is over.
  if (socket && socket->used && transfer.before && transfer.before->over()) {
    transfer.start_over = true;
    return CURL_PREREQFUNC_ABORT;
  }
  if (socket) {
    socket->used = true;
    ++socket->users;
  }
  transfer.socket = std::move(socket);
  transfer.on_wire = true;
  return CURL_PREREQFUNC_OK;
}

CURLcode on_tls(CURL*, void* connection, void* realm) {
  return static_cast<Realm*>(realm)->trust.lend(static_cast<ssl_ctx_st*>(connection)) ? CURLE_OK
                                                                                      : CURLE_SSL_CACERT_BADFILE;
}

std::span<const std::uint8_t> bytes_of(const curl_sockaddr& address) {
  if (address.family == AF_INET) {
    const auto& known = reinterpret_cast<const sockaddr_in&>(address.addr);
    return {reinterpret_cast<const std::uint8_t*>(&known.sin_addr), sizeof known.sin_addr};
  }
  if (address.family != AF_INET6) return {};
  const auto& known = reinterpret_cast<const sockaddr_in6&>(address.addr);
  return {reinterpret_cast<const std::uint8_t*>(&known.sin6_addr), sizeof known.sin6_addr};
}

bool may_be_reached(AddressPolicy policy, const curl_sockaddr& address) {
  if (policy == AddressPolicy::Any) return true;
  return is_public(bytes_of(address)) || (policy == AddressPolicy::Inside && is_inside(bytes_of(address)));
}

/// After the name was resolved and before anything is sent: what a name meant a moment ago does not count.
curl_socket_t on_open(void* self, curlsocktype, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (!may_be_reached(transfer.dressed_for->addresses, *address)) {
    transfer.barred = true;
    return CURL_SOCKET_BAD;  // The host's next address, if there is one.
  }
  return transfer.may_be_sent() ? transfer.shard->open_socket(*address) : CURL_SOCKET_BAD;
}

int on_close(void* self, curl_socket_t number) {
  auto& sockets = static_cast<Engine*>(self)->sockets;
  const auto found = sockets.find(number);
  if (found == sockets.end()) return ::close(number);
  Socket& socket = *found->second;
  if (socket.used) socket.at_close = tcp_state_at_close(number);
  socket.shard()->forget(socket);
  socket.close();
  sockets.erase(found);
  return 0;
}

// ---- One transfer

Transfer::Transfer(Engine& engine_in)
    : engine(engine_in), easy(curl_easy_init()), alarm(std::make_shared<Alarm>(engine_in.io, [this] { ring(); })) {
  assert(easy != nullptr);
  set(easy, CURLOPT_PRIVATE, this);
  set(easy, CURLOPT_ERRORBUFFER, error);
  set(easy, CURLOPT_NOSIGNAL, 1L);
  set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy, CURLOPT_PATH_AS_IS, 1L);
  set(easy, CURLOPT_FOLLOWLOCATION, 0L);
  set(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
  set(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(easy, CURLOPT_BUFFERSIZE, kReadBuffer);
  set(easy,
      CURLOPT_QUICK_EXIT,
      1L);  // Else giving up a call waits for the resolver, and the whole I/O thread with it.
  set(easy, CURLOPT_DNS_CACHE_TIMEOUT, static_cast<long>(engine.options.dns_cache.count()));
  set(easy, CURLOPT_MAXAGE_CONN, static_cast<long>(engine.options.idle_connection.count()));
  // An answer may take ten silent minutes, which is longer than many a NAT remembers a connection.
  set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  set(easy, CURLOPT_TCP_KEEPIDLE, 60L);
  set(easy, CURLOPT_TCP_KEEPINTVL, 30L);

  set(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  set(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  set(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  // The authorities come from TrustStore; curl would parse a file for each connection, and remember what it parsed
  // longer than TrustStore does.
  for (const CURLoption files : {CURLOPT_CAINFO, CURLOPT_CAPATH, CURLOPT_PROXY_CAINFO, CURLOPT_PROXY_CAPATH}) {
    set(easy, files, nullptr);
  }
  set(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
  set(easy, CURLOPT_SSL_CTX_FUNCTION, &on_tls);

  set(easy, CURLOPT_HEADERFUNCTION, &on_header);
  set(easy, CURLOPT_HEADERDATA, this);
  set(easy, CURLOPT_WRITEFUNCTION, &on_body);
  set(easy, CURLOPT_WRITEDATA, this);
  set(easy, CURLOPT_PREREQFUNCTION, &on_request);
  set(easy, CURLOPT_PREREQDATA, this);
  set(easy, CURLOPT_OPENSOCKETFUNCTION, &on_open);
  set(easy, CURLOPT_OPENSOCKETDATA, this);
  set(easy, CURLOPT_CLOSESOCKETFUNCTION, &on_close);
  set(easy, CURLOPT_CLOSESOCKETDATA, &engine);  // A connection outlives the transfer that opened it.
}

Transfer::~Transfer() {
  alarm->stop();
  curl_easy_cleanup(easy);
}

bool Transfer::prepare(Outbound outbound, Signal& to_ring, Realm& in) {
  request = std::move(outbound);
  signal = &to_ring;
  head.begin(request.method == "HEAD");
  if (const auto why = unsendable(request); !why.empty()) {
    fail(Transport::Reset, std::string{why});
    return false;
  }
  const WireOptions& wire = *request.wire;
  if (dressed_for != request.wire || realm != &in) {
    dressed_for = request.wire;
    realm = &in;
    to = destination(wire.base_url, engine.environment);
    if (wire.addresses != AddressPolicy::Any) to.proxy.clear();
    set(easy, CURLOPT_SHARE, in.share);
    set(easy, CURLOPT_SSL_CTX_DATA, &in);
    set(easy, CURLOPT_PROXY, to.proxy.c_str());
    set(easy, CURLOPT_NOPROXY, to.no_proxy.c_str());
    const bool two = wire.http == 2;
    set(easy,
        CURLOPT_HTTP_VERSION,
        static_cast<long>(!two     ? CURL_HTTP_VERSION_1_1
                          : to.tls ? CURL_HTTP_VERSION_2TLS
                                   : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE));
    set(easy, CURLOPT_PIPEWAIT, two && to.tls ? 1L : 0L);
    const auto connect = wire.connect_timeout.count() > 0 ? wire.connect_timeout : kForEver;
    set(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect.count()));
  }
  // The target is given apart from the URL, so that nothing in it is read or rewritten. A plain proxy needs the whole
  // URL as target, and only curl knows whether the proxy will be used.
  if (to.tls || to.proxy.empty()) {
    set(easy, CURLOPT_URL, to.origin.c_str());
    set(easy, CURLOPT_REQUEST_TARGET, (to.path + request.target).c_str());
  } else {
    set(easy, CURLOPT_URL, (wire.base_url + request.target).c_str());
    set(easy, CURLOPT_REQUEST_TARGET, nullptr);
  }
  set(easy, CURLOPT_FRESH_CONNECT, alone() ? 1L : 0L);
  set(easy, CURLOPT_FORBID_REUSE, alone() ? 1L : 0L);

  const bool with_body = sends_body(request);
  set(easy, CURLOPT_HTTPGET, 1L);
  set(easy, CURLOPT_CUSTOMREQUEST, nullptr);
  if (with_body) {
    static const std::string none;
    const std::string& body = request.body ? *request.body : none;
    set(easy, CURLOPT_POST, 1L);
    set(easy, CURLOPT_POSTFIELDS, body.data());  // Not copied: `request` holds it.
    set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    // curl keeps this buffer until the answer's end, so it is small unless the body makes it look small.
    set(easy,
        CURLOPT_UPLOAD_BUFFERSIZE,
        static_cast<long>(std::clamp<std::size_t>(body.size() / 4, 16 * 1024, 256 * 1024)));
  }
  if (request.method == "HEAD") {
    set(easy, CURLOPT_NOBODY, 1L);
  } else if (request.method != (with_body ? "POST" : "GET")) {
    set(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }

  write_header_lines(request, with_body, lines);
  list.resize(lines.offsets.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i] = {lines.text.data() + lines.offsets[i], i + 1 < list.size() ? &list[i + 1] : nullptr};
  }
  set(easy, CURLOPT_HTTPHEADER, list.data());
  return true;
}

void Transfer::clear() {
  assert(shard == nullptr);
  leave_socket();
  set(easy, CURLOPT_POSTFIELDS, nullptr);
  request = Outbound{};
  signal = nullptr;
  head.begin(false);
  data.clear();
  if (data.capacity() > kIdleCapacity) data.shrink_to_fit();
  received = 0;
  paused = false;
  outcome.reset();
  failure.clear();
  on_wire = false;
  sent = false;
  stale = 0;
  start_over = false;
  denied = false;
  barred = false;
  before.reset();
}

void Transfer::leave_socket() {
  if (socket) --socket->users;
  socket.reset();
}

bool Transfer::all_sent() const {
  if (!on_wire) return false;
  curl_off_t body = 0;
  curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &body);
  long head_bytes = 0;
  curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &head_bytes);
  return head_bytes > 0 && (!request.body || static_cast<std::uint64_t>(body) >= request.body->size());
}

bool Transfer::may_be_sent() {
  if (!on_wire) return true;
  denied = !socket || !never_delivered(before, socket->at_close);
  if (denied) return false;
  leave_socket();
  on_wire = false;
  sent = false;
  return true;
}

/// With a length that is certain. HTTP/2 often has none, and curl does not show us the end of the provider's half:
/// then a refusal is taken to be over when nothing more comes of it. (A success is not: it may still be on its way.)
bool Transfer::answered_early(TimePoint now) const {
  if (!head.complete() || all_sent()) return false;
  const auto length = head.body_length();
  if (length) return received >= *length;
  return http2() && head.status() >= 300 && now - heard >= kRefusalMax;
}

void Transfer::fail(Transport how, std::string why) {
  outcome = Exchange::Got::Failed;
  transport = how;
  failure = std::move(why);
  ring();
}

// ---- What went wrong

struct Fault {
  CURLcode code;
  Transport transport;
  std::string_view text;
};
constexpr Fault kFaults[] = {
    {CURLE_COULDNT_RESOLVE_HOST, Transport::Dns, "the host name cannot be resolved"},
    {CURLE_COULDNT_RESOLVE_PROXY, Transport::Dns, "the proxy's name cannot be resolved"},
    {CURLE_COULDNT_CONNECT, Transport::ConnectRefused, "cannot connect"},
    {CURLE_PROXY, Transport::ConnectRefused, "the proxy refused"},
    {CURLE_OPERATION_TIMEDOUT, Transport::Timeout, "connecting took too long"},
    {CURLE_PEER_FAILED_VERIFICATION, Transport::Tls, "the certificate is not valid for this host"},
    {CURLE_SSL_CONNECT_ERROR, Transport::Tls, "the TLS handshake failed"},
    {CURLE_SSL_CACERT_BADFILE, Transport::Tls, "the file of certificate authorities cannot be read"},
    {CURLE_GOT_NOTHING, Transport::Reset, "closed without an answer"},
    {CURLE_PARTIAL_FILE, Transport::Reset, "the answer was cut short"},
    {CURLE_SEND_ERROR, Transport::Reset, "broken while the request was being sent"},
    {CURLE_RECV_ERROR, Transport::Reset, "connection reset"},
    {CURLE_HTTP2, Transport::Reset, "HTTP/2 error"},
    {CURLE_HTTP2_STREAM, Transport::Reset, "the HTTP/2 stream was reset"},
    {CURLE_UNSUPPORTED_PROTOCOL, Transport::Reset, "the answer is not HTTP"},
    {CURLE_WEIRD_SERVER_REPLY, Transport::Reset, "the answer's head is malformed"},
    {CURLE_URL_MALFORMAT, Transport::Dns, "the upstream's URL cannot be used"},
};

/// The words behind `mark` in curl's message, which may name URLs elsewhere; empty if it is not there.
std::string_view behind(std::string_view message, std::string_view mark) {
  const auto at = message.find(mark);
  return at == std::string_view::npos ? std::string_view{} : message.substr(at + mark.size());
}

void Transfer::finish(CURLcode code) {
  paused = false;  // curl may end one that is: there is nothing left to resume.
  sent = (sent || all_sent()) && !(socket && never_delivered(before, socket->at_close));
  if (head.complete() && (code == CURLE_OK || answered_early(Clock::now()))) {
    outcome = Exchange::Got::End;
    ring();
    return;
  }
  if (!head.refusal().empty()) return fail(Transport::Reset, std::string{head.refusal()});
  if (denied) code = CURLE_GOT_NOTHING;
  if (code == CURLE_OK) code = CURLE_PARTIAL_FILE;  // To curl, half a head can be an answer.

  Fault fault{code, Transport::Reset, "the exchange failed"};
  for (const Fault& known : kFaults) {
    if (known.code == code) fault = known;
  }
  std::string text{fault.text};
  const std::string_view message{error};
  long proxy_said = 0;
  curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &proxy_said);
  long os_error = 0;
  curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_error);
  if (const auto why = behind(message, "SSL certificate problem: "); !why.empty()) {
    text = why;
  } else if (message.find("chunked-encoding") != std::string_view::npos) {
    text = "the answer's chunks are malformed";
  } else if (message.find("Too large response headers") != std::string_view::npos) {
    text = "the answer's head is too large";
  } else if (code == CURLE_RECV_ERROR && !on_wire && proxy_said >= 300) {
    fault.transport = Transport::ConnectRefused;
    text = "the proxy refused the connection (" + std::to_string(proxy_said) + ")";
  } else if (code == CURLE_COULDNT_CONNECT && barred) {
    text = kAddressRefused;
  } else if (code == CURLE_COULDNT_CONNECT && os_error != 0) {
    text = std::strerror(static_cast<int>(os_error));
    text.front() = classifier::lower(text.front());
  } else if (code == CURLE_SSL_CONNECT_ERROR && (message.find("reset by peer") != std::string_view::npos ||
                                                 message.find("SSL_ERROR_SYSCALL") != std::string_view::npos)) {
    fault.transport = Transport::Reset;
    text = "connection lost during the TLS handshake";
  }
  fail(fault.transport, std::move(text));
}

// ---- A shard

Shard::Shard(Engine& engine) : engine_(engine), alarm_(std::make_shared<Alarm>(engine.io, [this] { wake(); })) {}

Shard::~Shard() {
  assert(transfers_.empty() && !inside_);
  alarm_->stop();
  curl_multi_cleanup(multi_);  // Closes what is pooled.
}

void Shard::start(Transfer& transfer) {
  if (multi_ == nullptr) {
    multi_ = curl_multi_init();
    assert(multi_ != nullptr);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &Shard::on_socket);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &Shard::on_timer);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kPooledMax);
  }
  transfer.shard = this;
  transfer.place = transfers_.size();
  transfers_.push_back(&transfer);
  enter([&] {
    [[maybe_unused]] const CURLMcode code = curl_multi_add_handle(multi_, transfer.easy);
    assert(code == CURLM_OK);
  });
  turn();
}

void Shard::remove(Transfer& transfer) {
  enter([&] { curl_multi_remove_handle(multi_, transfer.easy); });
  transfers_.back()->place = transfer.place;
  transfers_[transfer.place] = transfers_.back();
  transfers_.pop_back();
  transfer.shard = nullptr;
}

void Shard::cancel(std::unique_ptr<Transfer> transfer) {
  doomed_.push_back(std::move(transfer));
  if (!inside_) turn();
}

/// HTTP/1.1: its connection closes. HTTP/2: curl only notes the reset of the stream, to be sent with the next thing
/// that goes out. So the connection is closed too if nobody else uses it, else somebody else's window is touched.
void Shard::put_out(Transfer& transfer) {
  const std::shared_ptr<Socket> socket = transfer.socket;
  const bool others = transfer.http2() && socket && socket->users > 1;
  if (transfer.http2() && !others) set(transfer.easy, CURLOPT_FORBID_REUSE, 1L);
  remove(transfer);
  transfer.leave_socket();
  if (others) nudge(*socket);
}

void Shard::nudge(const Socket& socket) {
  const auto other =
      std::ranges::find_if(transfers_, [&](const Transfer* transfer) { return transfer->socket.get() == &socket; });
  if (other == transfers_.end()) return;
  Transfer& transfer = **other;
  enter([&] {
    curl_easy_pause(transfer.easy, CURLPAUSE_RECV);
    transfer.paused = false;
    curl_easy_pause(transfer.easy, CURLPAUSE_CONT);
  });
}

void Shard::resume(Transfer& transfer) {
  transfer.paused = false;
  CURLcode code = CURLE_OK;
  enter([&] { code = curl_easy_pause(transfer.easy, CURLPAUSE_CONT); });
  if (code != CURLE_OK) {
    transfer.finish(code);
    remove(transfer);
  }
  turn();
}

void Shard::socket_action(curl_socket_t socket, int events) {
  int running = 0;
  enter([&] { curl_multi_socket_action(multi_, socket, events, &running); });
}

void Shard::ready(int socket, int events) {
  socket_action(socket, events);
  turn();
}

void Shard::turn() {
  for (int lap = 0;; ++lap) {
    reap();
    while (!doomed_.empty()) {
      std::unique_ptr<Transfer> transfer = std::move(doomed_.back());
      doomed_.pop_back();
      if (transfer->shard == this) put_out(*transfer);
      engine_.keep(std::move(transfer));
    }
    if (!run_now_ || lap == kLapsMax) break;
    run_now_ = false;
    socket_action(CURL_SOCKET_TIMEOUT, 0);
  }
  if (std::exchange(run_now_, false)) due_ = Clock::now();
  if (due_) alarm_->no_later_than(*due_);
  if (transfers_.empty() && multi_ != nullptr) {
    asleep_at_ = Clock::now() + engine_.options.idle_connection;
    alarm_->no_later_than(asleep_at_);
  }
}

void Shard::reap() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    if (std::exchange(transfer->start_over, false)) {
      remove(*transfer);
      if (++transfer->stale == kStaleMax) set(transfer->easy, CURLOPT_FRESH_CONNECT, 1L);
      transfer->shard = this;
      transfer->place = transfers_.size();
      transfers_.push_back(transfer);
      enter([&] { curl_multi_add_handle(multi_, transfer->easy); });
      continue;
    }
    transfer->finish(code);
    remove(*transfer);
    transfer->leave_socket();
  }
}

void Shard::wake() {
  const TimePoint now = Clock::now();
  if (!resting_.empty() && rested_at_ <= now) {
    for (const auto& socket : std::exchange(resting_, {})) {
      socket->resting = false;
      socket->watch();
    }
  } else if (!resting_.empty()) {
    alarm_->no_later_than(rested_at_);
  }
  if (due_ && *due_ <= now) {
    due_.reset();
    socket_action(CURL_SOCKET_TIMEOUT, 0);
    turn();
  } else if (due_) {
    alarm_->no_later_than(*due_);
  }
  if (!transfers_.empty() || multi_ == nullptr) return;
  if (asleep_at_ <= now) {
    enter([&] { curl_multi_cleanup(std::exchange(multi_, nullptr)); });
    due_.reset();
  } else {
    alarm_->no_later_than(asleep_at_);
  }
}

int Shard::open_socket(curl_sockaddr& address) {
  const int number = ::socket(address.family, address.socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address.protocol);
  if (number < 0) return CURL_SOCKET_BAD;
  int wanted = CURL_POLL_NONE;
  if (const auto stale = engine_.sockets.find(number); stale != engine_.sockets.end()) {
    wanted = stale->second->wanted();  // curl takes the new one for the old one, and will not say it again.
    stale->second->shard()->forget(*stale->second);
    stale->second->let_go();
    engine_.sockets.erase(stale);
  }
  auto socket = std::make_shared<Socket>(engine_.io, *this);
  if (!socket->adopt(number)) {
    ::close(number);
    return CURL_SOCKET_BAD;
  }
  socket->want(wanted);
  fresh_.push_back(socket);
  engine_.sockets.emplace(number, std::move(socket));
  return number;
}

std::uint64_t Shard::moved_on(const Socket& socket) const {
  std::uint64_t all = 0;
  for (const Transfer* transfer : transfers_) {
    if (transfer->socket.get() != &socket) continue;
    curl_off_t body = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_UPLOAD_T, &body);
    all += static_cast<std::uint64_t>(body);
  }
  return all;
}

void Shard::rest(std::shared_ptr<Socket> socket) {
  if (resting_.empty()) rested_at_ = Clock::now() + kRest;
  resting_.push_back(std::move(socket));
  alarm_->no_later_than(rested_at_);
}

void Shard::forget(const Socket& socket) {
  for (Transfer* transfer : transfers_) {
    if (transfer->socket.get() == &socket) transfer->sent = transfer->all_sent();
  }
  std::erase_if(fresh_, [&](const auto& known) { return known.get() == &socket; });
  const auto [first, last] = named_.equal_range(socket.local_port);
  const auto found = std::find_if(first, last, [&](const auto& entry) { return entry.second.get() == &socket; });
  if (found != last) named_.erase(found);
}

std::shared_ptr<Socket> Shard::socket_of(int local_port, const std::string& peer) {
  const auto [first, last] = named_.equal_range(local_port);
  for (auto known = first; known != last; ++known) {
    if (known->second->peer == peer) return known->second;
  }
  for (auto unnamed = fresh_.begin(); unnamed != fresh_.end(); ++unnamed) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    if (getsockname((*unnamed)->number(), reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    const in_port_t port = address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                                         : reinterpret_cast<sockaddr_in&>(address).sin_port;
    if (ntohs(port) != local_port) continue;
    std::shared_ptr<Socket> socket = std::move(*unnamed);
    fresh_.erase(unnamed);
    socket->local_port = local_port;
    socket->peer = peer;
    named_.emplace(local_port, socket);
    return socket;
  }
  return nullptr;
}

int Shard::on_socket(CURL*, curl_socket_t number, int what, void* self, void*) {
  auto& shard = *static_cast<Shard*>(self);
  auto& sockets = shard.engine_.sockets;
  auto found = sockets.find(number);
  if (found == sockets.end()) {
    if (what == CURL_POLL_REMOVE) return 0;
    auto resolver = std::make_shared<Socket>(shard.engine_.io, shard);
    if (!resolver->adopt(number)) return -1;
    resolver->is_connection = false;
    found = sockets.emplace(number, std::move(resolver)).first;
  }
  Socket& socket = *found->second;
  if (what != CURL_POLL_REMOVE) {
    socket.want(what);
  } else if (socket.used) {
    socket.want(CURL_POLL_NONE);  // Pooled, or about to be closed.
  } else {
    shard.forget(socket);
    socket.let_go();
    sockets.erase(found);
  }
  return 0;
}

int Shard::on_timer(CURLM*, long milliseconds, void* self) {
  auto& shard = *static_cast<Shard*>(self);
  shard.run_now_ = milliseconds == 0;
  shard.due_.reset();
  if (milliseconds > 0) shard.due_ = Clock::now() + std::chrono::milliseconds{milliseconds};
  return 0;
}

// ---- All of them

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

Engine::Engine(asio::io_context& io_in, CurlOptions options_in) : io(io_in), options(options_in) {
  [[maybe_unused]] static const CURLcode once = curl_global_init(CURL_GLOBAL_ALL);
  assert(once == CURLE_OK && options.shards > 0);
  environment = [](const char*) { return std::string{}; };
  if (options.use_environment_proxies) environment = &from_environment;
}

Engine::~Engine() {
  assert(exchanges_ == 0);
  spares_.clear();
  realms_.clear();
  for (const auto& [number, socket] : sockets) socket->let_go();
}

/// A connection is used again only by those who would have made it the same way.
Realm& Engine::realm_of(const WireOptions& wire) {
  auto& realm = realms_[{wire.ca_file, wire.http, wire.addresses}];
  if (!realm) {
    realm = std::make_unique<Realm>(wire.ca_file);
    for (int i = 0; i < options.shards; ++i) realm->shards.push_back(std::make_unique<Shard>(*this));
  }
  return *realm;
}

std::unique_ptr<Transfer> Engine::open(Outbound request, Signal& signal) {
  ++exchanges_;
  std::unique_ptr<Transfer> transfer;
  if (spares_.empty()) {
    transfer = std::make_unique<Transfer>(*this);
  } else {
    transfer = std::move(spares_.back());
    spares_.pop_back();
  }
  Realm& realm = realm_of(request.wire ? *request.wire : WireOptions{});
  if (transfer->prepare(std::move(request), signal, realm)) realm.pick().start(*transfer);
  return transfer;
}

void Engine::close(std::unique_ptr<Transfer> transfer) {
  --exchanges_;
  transfer->signal = nullptr;
  if (Shard* const shard = transfer->shard) {
    shard->cancel(std::move(transfer));
  } else {
    keep(std::move(transfer));
  }
}

void Engine::keep(std::unique_ptr<Transfer> transfer) {
  if (spares_.size() == kSparesMax) return;
  transfer->clear();
  spares_.push_back(std::move(transfer));
}

CurlUpstream::Figures Engine::figures() const {
  return {exchanges_, static_cast<std::size_t>(std::ranges::count_if(sockets, [](const auto& entry) {
            return entry.second->is_connection;
          }))};
}

// ---- The door

class CurlExchange final : public Exchange {
 public:
  CurlExchange(Engine& engine, std::unique_ptr<Transfer> transfer)
      : engine_(engine), transfer_(std::move(transfer)) {}
  ~CurlExchange() override { engine_.close(std::move(transfer_)); }

  task<Got> head(TimePoint until) override {
    Transfer& transfer = *transfer_;
    for (;;) {
      if (transfer.signal->stopped()) co_return Got::Stopped;
      if (transfer.head.complete()) co_return Got::Head;
      if (transfer.outcome) co_return *transfer.outcome;
      if (Clock::now() >= until) co_return Got::TimedOut;
      transfer.alarm->no_later_than(until);
      co_await transfer.signal->wait();
    }
  }

  task<Got> read(std::string& into, TimePoint until) override {
    assert(into.empty());
    Transfer& transfer = *transfer_;
    for (;;) {
      if (transfer.signal->stopped()) co_return Got::Stopped;
      if (!transfer.data.empty()) {
        transfer.data.swap(into);
        if (transfer.paused) transfer.shard->resume(transfer);
        co_return Got::Data;
      }
      if (transfer.outcome) co_return *transfer.outcome;
      const TimePoint now = Clock::now();
      if (transfer.answered_early(now)) co_return Got::End;
      if (now >= until) co_return Got::TimedOut;
      // It may be a long silence, in thousands of streams at once.
      for (std::string* buffer : {&into, &transfer.data}) {
        if (buffer->capacity() > kIdleCapacity) buffer->shrink_to_fit();
      }
      transfer.alarm->no_later_than(until);
      const TimePoint early = transfer.heard + kRefusalMax;
      if (transfer.http2() && !transfer.all_sent() && early > now) transfer.alarm->no_later_than(early);
      co_await transfer.signal->wait();
    }
  }

  [[nodiscard]] bool over() const { return transfer_->outcome.has_value(); }
  void ring_instead(Signal& other) { transfer_->signal = &other; }

  [[nodiscard]] int status() const override { return transfer_->head.status(); }
  [[nodiscard]] const classifier::Headers& headers() const override { return transfer_->head.headers(); }
  [[nodiscard]] bool request_sent() const override {
    return transfer_->shard != nullptr ? transfer_->all_sent() : transfer_->sent;
  }
  [[nodiscard]] Transport transport() const override { return transfer_->transport; }
  [[nodiscard]] std::string_view failure() const override { return transfer_->failure; }

 private:
  Engine& engine_;
  std::unique_ptr<Transfer> transfer_;
};

/// Reads what is left of an answer that nobody waits for any more, so that its connection can be used again.
task<void> see_out(std::unique_ptr<Exchange> exchange, asio::io_context& io) {
  Signal own{io};
  static_cast<CurlExchange&>(*exchange).ring_instead(own);
  const TimePoint until = Clock::now() + kSeeOut;
  std::string rest;
  while (co_await exchange->read(rest, until) == Exchange::Got::Data) rest.clear();
}

}  // namespace

class CurlUpstream::Impl {
 public:
  Impl(asio::io_context& io, CurlOptions options) : engine(io, options) {}
  Engine engine;
};

CurlUpstream::CurlUpstream(asio::io_context& io, CurlOptions options) : impl_(std::make_unique<Impl>(io, options)) {}
CurlUpstream::~CurlUpstream() = default;

std::unique_ptr<Exchange> CurlUpstream::start(Outbound request, Signal& signal) {
  return std::make_unique<CurlExchange>(impl_->engine, impl_->engine.open(std::move(request), signal));
}

CurlUpstream::Figures CurlUpstream::figures() const { return impl_->engine.figures(); }

void CurlUpstream::retire(std::unique_ptr<Exchange> exchange) {
  if (static_cast<CurlExchange&>(*exchange).over()) return;
  asio::io_context& io = impl_->engine.io;
  asio::co_spawn(io, see_out(std::move(exchange), io), asio::detached);
}

}  // namespace gateway
