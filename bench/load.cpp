#include "bench/load.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <stdexcept>
#include <string_view>

#include "bench/socket.h"
#include "bench/upstream.h"

namespace bench {
namespace {

using std::chrono::nanoseconds;

/// More than that at once overflows a proxy's accept queue, and a lost SYN costs a second.
constexpr int kOpeningMax = 64;
constexpr std::uint64_t kErrorsMax = 10'000;

/// Reads one answer: head, then a body by length or in chunks.
class AnswerReader {
 public:
  void begin() { *this = AnswerReader{}; }

  /// Takes bytes; what belongs to the body is handed to `body`.
  template <typename Body>
  void feed(std::string_view bytes, Body&& body) {
    while (!bytes.empty() && state_ != State::Done) {
      switch (state_) {
        case State::Head:
          take_head(bytes);
          break;
        case State::Body: {
          const std::string_view part = take(bytes, left_);
          left_ -= part.size();
          body(part);
          if (left_ == 0) state_ = chunked_ ? State::ChunkEnd : State::Done;
          break;
        }
        case State::ChunkSize:
          if (!take_line(bytes)) break;
          left_ = 0;
          std::from_chars(line_.data(), line_.data() + line_.size(), left_, 16);
          line_.clear();
          state_ = left_ == 0 ? State::Trailer : State::Body;
          break;
        case State::ChunkEnd:
          if (!take_line(bytes)) break;
          line_.clear();
          state_ = State::ChunkSize;
          break;
        case State::Trailer:
          if (!take_line(bytes)) break;
          state_ = line_.empty() ? State::Done : State::Trailer;
          line_.clear();
          break;
        case State::Done:
          break;
      }
    }
  }
  [[nodiscard]] bool done() const { return state_ == State::Done; }
  [[nodiscard]] int status() const { return status_; }

 private:
  enum class State : std::uint8_t { Head, Body, ChunkSize, ChunkEnd, Trailer, Done };

  static std::string_view take(std::string_view& bytes, std::size_t most) {
    const std::string_view part = bytes.substr(0, most);
    bytes.remove_prefix(part.size());
    return part;
  }

  /// Collects into line_ up to a line's end, which is left out.
  bool take_line(std::string_view& bytes) {
    const auto end = bytes.find('\n');
    line_ += take(bytes, end == std::string_view::npos ? bytes.size() : end + 1);
    if (end == std::string_view::npos) return false;
    while (!line_.empty() && (line_.back() == '\n' || line_.back() == '\r')) line_.pop_back();
    return true;
  }

  void take_head(std::string_view& bytes) {
    if (!take_line(bytes)) return;
    if (line_.starts_with("HTTP/1.1 ")) {
      std::from_chars(line_.data() + 9, line_.data() + line_.size(), status_);
    } else if (line_.empty()) {
      state_ = chunked_ ? State::ChunkSize : left_ > 0 ? State::Body : State::Done;
    } else {
      std::ranges::transform(line_, line_.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
      constexpr std::string_view kLength = "content-length: ";
      if (line_.starts_with(kLength)) {
        std::from_chars(line_.data() + kLength.size(), line_.data() + line_.size(), left_);
      }
      if (line_ == "transfer-encoding: chunked") chunked_ = true;
    }
    line_.clear();
  }

  State state_ = State::Head;
  int status_ = 0;
  bool chunked_ = false;
  std::size_t left_ = 0;
  std::string line_{};
};

struct Connection {
  Fd fd{};
  bool busy = false;       // A call is on its way.
  bool had_event = false;  // In this call.
  char last = 0;           // Of the body so far: an event ends with two line feeds.
  std::size_t sent = 0;
  TimePoint due{};
  AnswerReader answer{};
};

}  // namespace

class Load::Impl {
 public:
  explicit Impl(LoadPlan plan)
      : plan_(std::move(plan)),
        connections_(static_cast<std::size_t>(plan_.connections)),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    request_ = "POST " + plan_.target + " HTTP/1.1\r\nhost: 127.0.0.1:" + std::to_string(plan_.port) +
               "\r\naccept: application/json\r\naccept-encoding: identity\r\ncontent-type: application/json"
               "\r\nuser-agent: OpenAI/Python 1.109.1\r\nx-stainless-lang: python\r\nx-stainless-os: Linux"
               "\r\nx-stainless-arch: x64\r\nx-stainless-runtime: CPython\r\nx-stainless-retry-count: 0"
               "\r\nauthorization: Bearer sk-bench-0123456789abcdef0123456789abcdef\r\ncontent-length: " +
               std::to_string(plan_.body.size()) + "\r\n\r\n" + plan_.body;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = kTimer}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event) != 0) throw_errno("epoll_ctl");
  }

  ~Impl() {
    // A proxy may take a lone FIN for half a close, and would keep an idle stream for ever.
    const linger reset{.l_onoff = 1, .l_linger = 0};
    for (const Connection& connection : connections_) {
      if (connection.fd.open()) ::setsockopt(connection.fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  LoadFigures run_for(std::chrono::milliseconds duration) {
    figures_ = {};
    const TimePoint start = Clock::now();
    end_ = start + duration;
    next_due_ = start;
    overdue_.clear();
    if (plan_.calls_per_second > 0) {
      arm(next_due_);
    } else {
      for (Connection& connection : connections_) {
        if (!connection.busy) call(connection, start);
      }
    }
    while (Clock::now() < end_) poll_once();
    return std::move(figures_);
  }

  void run_until_streaming(std::chrono::milliseconds limit) {
    figures_ = {};
    end_ = Clock::now() + limit;
    std::size_t begun = 0;
    const auto streaming = [&] {
      return static_cast<std::size_t>(std::ranges::count_if(connections_, &Connection::had_event));
    };
    for (std::size_t ready = 0; ready < connections_.size(); ready = streaming()) {
      if (Clock::now() >= end_) {
        throw std::runtime_error("only " + std::to_string(ready) + " of " + std::to_string(connections_.size()) +
                                 " streams began (errors: " + std::to_string(figures_.errors) + ")");
      }
      while (begun < connections_.size() && begun < ready + kOpeningMax) call(connections_[begun++], Clock::now());
      poll_once();
    }
  }

 private:
  static constexpr std::uint64_t kTimer = ~std::uint64_t{0};

  void arm(TimePoint when) {
    const auto since = std::max(when, Clock::now() + nanoseconds{1}).time_since_epoch();
    const auto whole = std::chrono::floor<std::chrono::seconds>(since);
    itimerspec spec{};
    spec.it_value.tv_sec = whole.count();
    spec.it_value.tv_nsec = (since - whole).count();
    if (::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr) != 0) throw_errno("timerfd_settime");
  }

  void open(Connection& connection) {
    connection.fd = Fd{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    if (!connection.fd.open()) throw_errno("socket");
    no_delay(connection.fd.get());
    const sockaddr_in address = loopback(plan_.port);
    if (::connect(connection.fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
        errno != EINPROGRESS) {
      throw_errno("connect");
    }
    const auto index = static_cast<std::uint64_t>(&connection - connections_.data());
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u64 = index}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.fd.get(), &event) != 0) throw_errno("epoll_ctl");
  }

  void call(Connection& connection, TimePoint due) {
    if (!connection.fd.open()) open(connection);
    connection.busy = true;
    connection.had_event = false;
    connection.sent = 0;
    connection.due = due;
    connection.answer.begin();
    send_rest(connection);
  }

  void send_rest(Connection& connection) {
    while (connection.busy && connection.sent < request_.size()) {
      const auto count = ::send(
          connection.fd.get(), request_.data() + connection.sent, request_.size() - connection.sent, MSG_NOSIGNAL);
      if (count >= 0) {
        connection.sent += static_cast<std::size_t>(count);
      } else if (errno == EAGAIN || errno == ENOTCONN) {
        return;
      } else {
        broken(connection);
      }
    }
  }

  void broken(Connection& connection) {
    const bool in_call = connection.busy;
    connection = Connection{};
    // A proxy may close an idle connection whenever it likes.
    if (!in_call) return;
    failed();
    if (plan_.calls_per_second == 0) retry_.push_back(&connection);
  }

  void failed() {
    if (++figures_.errors > kErrorsMax) {
      throw std::runtime_error("too many calls fail at port " + std::to_string(plan_.port));
    }
  }

  void receive(Connection& connection, bool closing) {
    for (;;) {
      const auto count = ::recv(connection.fd.get(), buffer_.data(), buffer_.size(), 0);
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        broken(connection);
        return;
      }
      const std::string_view bytes{buffer_.data(), static_cast<std::size_t>(count)};
      connection.answer.feed(bytes, [&](std::string_view body) { look(connection, body); });
      if (connection.busy && connection.answer.done()) {
        finished(connection);
        if (!closing) return;
      }
      // A short read was the last one, unless an end stands behind it.
      if (bytes.size() < buffer_.size() && !closing) return;
    }
  }

  void look(Connection& connection, std::string_view body) {
    if (body.empty()) return;
    std::uint64_t events = connection.last == '\n' && body.front() == '\n' ? 1 : 0;
    for (auto at = body.find("\n\n"); at != std::string_view::npos; at = body.find("\n\n", at + 2)) ++events;
    connection.last = body.back();
    if (events == 0) return;

    const TimePoint now = Clock::now();
    if (!connection.had_event) figures_.first_event.push_back(now - connection.due);
    connection.had_event = true;
    figures_.events += events;
    if (const auto stamp = stamp_in(body)) figures_.event_delay.push_back(now.time_since_epoch() - *stamp);
  }

  void finished(Connection& connection) {
    connection.busy = false;
    const TimePoint now = Clock::now();
    if (connection.answer.status() == 200) {
      ++figures_.calls;
      figures_.took.push_back(now - connection.due);
    } else {
      failed();
    }
    if (now >= end_) return;
    if (plan_.calls_per_second == 0) {
      call(connection, now);
    } else if (!overdue_.empty()) {
      const TimePoint due = overdue_.front();
      overdue_.pop_front();
      call(connection, due);
    }
  }

  void on_timer() {
    std::uint64_t ticks = 0;
    if (::read(timer_.get(), &ticks, sizeof ticks) < 0) return;
    const auto step =
        std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>{1 / plan_.calls_per_second});
    const TimePoint now = Clock::now();
    for (; next_due_ <= now && next_due_ < end_; next_due_ += step) {
      // Round robin, so that all connections stay warm.
      Connection* idle = nullptr;
      for (std::size_t tried = 0; tried < connections_.size() && idle == nullptr; ++tried) {
        turn_ = (turn_ + 1) % connections_.size();
        if (!connections_[turn_].busy) idle = &connections_[turn_];
      }
      if (idle != nullptr) {
        call(*idle, next_due_);
      } else {
        overdue_.push_back(next_due_);
      }
    }
    if (next_due_ < end_) arm(next_due_);
  }

  void poll_once() {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
    std::array<epoll_event, 256> events;
    const int count = ::epoll_wait(epoll_.get(),
                                   events.data(),
                                   static_cast<int>(events.size()),
                                   static_cast<int>(std::clamp<std::int64_t>(left, 0, 100)));
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kTimer) {
        on_timer();
        continue;
      }
      Connection& connection = connections_[event.data.u64];
      if (connection.fd.open() && (event.events & EPOLLOUT) != 0) send_rest(connection);
      const std::uint32_t rest = event.events & ~std::uint32_t{EPOLLOUT};
      if (connection.fd.open() && rest != 0) receive(connection, rest != EPOLLIN);
    }
    for (Connection* connection : std::exchange(retry_, {})) {
      if (!connection->busy && Clock::now() < end_) call(*connection, Clock::now());
    }
  }

  LoadPlan plan_;
  std::string request_{};
  std::vector<Connection> connections_;
  Fd epoll_;
  Fd timer_;
  std::array<char, 64 * 1024> buffer_{};
  LoadFigures figures_{};
  TimePoint end_{};
  TimePoint next_due_{};
  std::deque<TimePoint> overdue_{};
  std::vector<Connection*> retry_{};
  std::size_t turn_ = 0;
};

Load::Load(LoadPlan plan) : impl_(std::make_unique<Impl>(std::move(plan))) {}
Load::~Load() = default;
LoadFigures Load::run_for(std::chrono::milliseconds duration) { return impl_->run_for(duration); }
void Load::run_until_streaming(std::chrono::milliseconds limit) { impl_->run_until_streaming(limit); }

std::chrono::nanoseconds quantile(std::vector<std::chrono::nanoseconds>& values, double q) {
  if (values.empty()) return {};
  const auto index = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + index);
  return values[static_cast<std::size_t>(index)];
}

}  // namespace bench
