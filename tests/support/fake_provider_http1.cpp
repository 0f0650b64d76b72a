#include "tests/support/fake_provider_http1.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdio>

namespace fake_provider {
namespace {

constexpr std::size_t kHeadMax = 256 * 1024;
constexpr std::size_t kBodyMax = 256 * 1024 * 1024;
constexpr std::size_t kReadAhead = 64 * 1024;  // Of what belongs to the next request.
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

class Http1 final : public Wire, public std::enable_shared_from_this<Http1> {
 public:
  Http1(Loop& loop, std::shared_ptr<Transport> transport, OpenExchange open, TakeHttp2 take_http2)
      : loop_(loop),
        transport_(std::move(transport)),
        open_(std::move(open)),
        take_http2_(std::move(take_http2)),
        alarm_(loop.alarm()),
        watch_(loop.alarm()) {}

  void start() {
    transport_->drop = [weak = weak_from_this()](How how, bool only_idle) {
      const auto self = weak.lock();
      if (self && !self->over_ && !(only_idle && self->exchange_)) self->abort(how);
    };
    read_more();
  }

  // The answer's way out.

  void misbehave(const Mischief& mischief) override {
    mischief_ = mischief;
    sent_ = 0;  // A 100 Continue is no part of the answer.
  }
  void interim(int status, const Headers& headers) override { out_ += interim_text(status, headers); }
  void head(const Head& head) override {
    chunked_ = head.framing == Framing::Chunked;
    close_after_ = close_after_ || head.framing == Framing::Close;
    for (const auto& [name, value] : head.headers) {
      if (same_name(name, "connection") && same_name(value, "close")) close_after_ = true;
    }
    out_ += head_text(head);
  }
  void data(std::string_view bytes) override {
    if (bytes.empty()) return;
    if (!chunked_) {
      out_ += bytes;
      return;
    }
    std::array<char, 24> size{};
    const int digits = std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
    out_.append(size.data(), static_cast<std::size_t>(digits)).append(bytes).append("\r\n");
  }
  void raw(std::string_view bytes) override { out_ += bytes; }
  void end() override {
    if (chunked_) out_ += "0\r\n\r\n";
  }
  void flush() override {
    flush_wanted_ = true;
    if (!writing_ && !resting_ && sending_.size() == sent_here_ && out_.empty()) {
      // Nothing to write, but the exchange must not be called from inside of its own call.
      loop_.post([self = shared_from_this()] { self->pump(); });
    } else {
      pump();
    }
  }
  void finish(const After& after) override {
    assert(exchange_);
    auto close = after.close;
    if (!close && (close_after_ || !reading_allowed_)) close = How::Notify;
    end_exchange(close ? EndedBy::Us : EndedBy::Nobody);
    if (close) {
      end_connection(*close);
      return;
    }
    next_request_ = after.next_request;
    if (after.close_idle) {
      alarm_->after(*after.close_idle, [self = shared_from_this(), how = after.close_idle_by] {
        if (!self->exchange_ && !self->over_) self->end_connection(how);
      });
    }
    if (in_.empty()) return;
    loop_.post([self = shared_from_this()] {
      self->advance();
      self->read_more();
    });
  }
  void abort(How how) override {
    end_exchange(EndedBy::Us);
    end_connection(how);
  }
  void stop_reading() override {
    reading_allowed_ = false;
    watch_peer();
  }

 private:
  void read_more() {
    const bool full = body_done_ && in_.size() >= kReadAhead;
    if (reading_ || (!reading_allowed_ && !over_)) return;
    if (full) {
      watch_peer();
      return;
    }
    reading_ = true;
    transport_->read_some(buffer_.data(), buffer_.size(), [self = shared_from_this()](auto bytes, auto lost) {
      self->reading_ = false;
      self->on_read(bytes, lost);
    });
  }

  void on_read(std::size_t bytes, Transport::Lost lost) {
    if (lost != Transport::Lost::No) {
      end_exchange(lost == Transport::Lost::Fin ? EndedBy::PeerFin : EndedBy::PeerRst);
      over_ = true;
      alarm_->cancel();
      transport_->close();
      return;
    }
    if (!over_) {
      in_.append(buffer_.data(), bytes);
      advance();
    }
    if (!handed_over_) read_more();
  }

  void advance() {
    if (over_) return;
    if (!exchange_ && !in_.empty() && !begin_request()) return;
    if (exchange_ && !body_done_) take_body();
  }

  bool begin_request() {
    alarm_->cancel();
    if (take_http2_ && first_ && in_.starts_with(kPreface.substr(0, in_.size()))) {
      if (in_.size() < kPreface.size()) return false;
      over_ = handed_over_ = true;
      transport_->drop = nullptr;
      take_http2_(transport_, std::move(in_));
      return false;
    }
    in_.erase(0, std::min(in_.find_first_not_of("\r\n"), in_.size()));
    const auto end = in_.find("\r\n\r\n");
    const bool whole = end != std::string::npos;
    if (in_.empty() || (!whole && in_.size() <= kHeadMax && !next_request_)) return false;
    first_ = false;
    auto request = parse_head(std::string_view{in_}.substr(0, end));
    if (!whole && request.malformed.empty()) request.malformed = "head without an end";
    in_.erase(0, whole ? end + 4 : in_.size());
    request.connection = transport_->number;
    request.tls = transport_->tls;
    length_ = body_length(request);
    if (request.malformed.empty()) request.malformed = length_.malformed;
    close_after_ = request.version == "1.0" || same_name(request.header("connection"), "close");
    const bool expects_continue = same_name(request.header("expect"), "100-continue");
    const bool malformed = !request.malformed.empty();
    body_done_ = malformed;
    chunks_ = {};
    sent_ = 0;
    mischief_ = {};
    chunked_ = false;

    const auto exchange = open_(*this, std::move(request));
    exchange_ = exchange;
    if (next_request_) {
      abort(*next_request_);
      return false;
    }
    if (malformed) {
      close_after_ = true;
      exchange->on_complete();
      return true;
    }
    const bool answers_early = exchange->on_head();
    if (expects_continue && !answers_early && (length_.chunked || length_.length > 0)) {
      out_ += interim_text(100, {});
      pump();
    }
    return true;
  }

  void take_body() {
    auto& body = exchange_->request().body;
    std::string_view in{in_};
    if (length_.chunked) {
      const auto state = chunks_.feed(in, body);
      if (state == ChunkReader::State::Broken) exchange_->request().malformed = "chunked body";
      body_done_ = state != ChunkReader::State::More;
    } else {
      const auto missing = length_.length - body.size();
      const auto taken = in.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(missing, in.size())));
      if (body.empty()) body.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(length_.length, kBodyMax)));
      body += taken;
      in.remove_prefix(taken.size());
      body_done_ = body.size() == length_.length;
    }
    in_.erase(0, in_.size() - in.size());
    if (body.size() > kBodyMax) exchange_->request().malformed = "body over 256 MiB";
    if (!exchange_->request().malformed.empty()) {
      body_done_ = true;
      close_after_ = true;
    }
    if (!body_done_) return;
    const auto exchange = exchange_;
    const bool next = answer_over_;
    if (next) release_exchange();
    exchange->on_complete();
    if (next) advance();
  }

  void pump() {
    if (writing_ || resting_ || over_) return;
    if (sending_.size() == sent_here_) {
      sending_.clear();
      sent_here_ = 0;
      std::swap(sending_, out_);
    }
    const std::string_view pending = std::string_view{sending_}.substr(sent_here_);
    const auto next = mischief_.next(sent_, pending.size());
    if (exchange_ && next.then == Mischief::Next::Then::Cut) {
      abort(mischief_.cut_by);
      return;
    }
    if (next.then == Mischief::Next::Then::Hang) return;
    if (pending.empty()) {
      const auto exchange = exchange_;
      if (std::exchange(flush_wanted_, false) && exchange) exchange->on_flushed();
      return;
    }
    writing_ = true;
    transport_->write_some(pending.substr(0, next.send), [self = shared_from_this()](auto bytes, auto lost) {
      self->writing_ = false;
      if (lost != Transport::Lost::No) {
        // An outstanding read sees it too, and knows better how.
        if (!self->reading_) self->on_read(0, lost);
        return;
      }
      self->sent_ += bytes;
      self->sent_here_ += bytes;
      if (self->mischief_.piece_bytes > 0 && self->mischief_.piece_gap.count() > 0) {
        self->rest();
      } else {
        self->pump();
      }
    });
  }

  // Stands in for the read that is outstanding otherwise.
  void watch_peer() {
    if (over_ || reading_) return;
    const auto lost = transport_->lost();
    if (lost != Transport::Lost::No) {
      on_read(0, lost);
      return;
    }
    watch_->after(milliseconds{5}, [self = shared_from_this()] { self->watch_peer(); });
  }

  void rest() {
    resting_ = true;
    alarm_->after(mischief_.piece_gap, [self = shared_from_this()] {
      self->resting_ = false;
      self->pump();
    });
  }

  void end_exchange(EndedBy by) {
    if (!exchange_ || answer_over_) return;
    answer_over_ = true;
    const auto exchange = exchange_;
    if (body_done_ || by != EndedBy::Nobody) release_exchange();
    exchange->on_ended(by, sent_);
  }
  void release_exchange() {
    exchange_.reset();
    answer_over_ = false;
  }

  void end_connection(How how) {
    over_ = true;
    alarm_->cancel();
    in_.clear();
    transport_->end(how);
    read_more();  // What still comes is thrown away; the peer's own end closes the connection.
  }

  Loop& loop_;
  std::shared_ptr<Transport> transport_;
  OpenExchange open_;
  TakeHttp2 take_http2_;
  std::unique_ptr<Alarm> alarm_;
  std::unique_ptr<Alarm> watch_;
  std::shared_ptr<Exchange> exchange_{};

  std::array<char, 16 * 1024> buffer_;
  std::string in_{};
  BodyLength length_{};
  ChunkReader chunks_{};
  bool reading_ = false;
  bool reading_allowed_ = true;
  bool first_ = true;
  bool body_done_ = true;
  bool handed_over_ = false;

  std::string out_{};  // Given, not yet touched: the kernel may be busy with sending_.
  std::string sending_{};
  std::size_t sent_here_ = 0;
  std::uint64_t sent_ = 0;  // Of this answer.
  Mischief mischief_{};
  bool writing_ = false;
  bool resting_ = false;
  bool chunked_ = false;
  bool flush_wanted_ = false;
  bool answer_over_ = false;
  bool close_after_ = false;
  std::optional<How> next_request_{};
  bool over_ = false;
};

}  // namespace

void serve_http1(Loop& loop, std::shared_ptr<Transport> transport, OpenExchange open, TakeHttp2 take_http2) {
  std::make_shared<Http1>(loop, std::move(transport), std::move(open), std::move(take_http2))->start();
}

}  // namespace fake_provider
