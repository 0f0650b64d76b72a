#include "tests/support/fake_provider_http2.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <vector>

namespace fake_provider {
namespace {

constexpr std::size_t kBodyMax = 256 * 1024 * 1024;
constexpr std::int32_t kStreamWindow = 1 << 20;
constexpr std::int32_t kConnectionWindow = 16 << 20;

class Http2;

class Stream final : public Wire, public std::enable_shared_from_this<Stream> {
 public:
  Stream(Http2& session, std::int32_t id) : session_(session), id_(id) {}

  void misbehave(const Mischief& mischief) override { mischief_ = mischief; }
  void interim(int status, const Headers& headers) override;
  void head(const Head& head) override;
  void data(std::string_view bytes) override { out_ += bytes; }
  void raw(std::string_view bytes) override { out_ += bytes; }
  void end() override { ended_ = true; }
  void flush() override;
  void finish(const After& after) override;
  void abort(How how) override;
  void stop_reading() override { reads_ = false; }

  /// For nghttp2: as much of the body as may go now.
  ssize_t read_body(std::uint8_t* into, std::size_t room, std::uint32_t* flags);
  void over(EndedBy by);
  void flushed();

  Request request{};
  std::shared_ptr<Exchange> exchange{};
  bool reads_ = true;
  bool body_done = false;

 private:
  void rest();

  Http2& session_;  // Owns us.
  std::int32_t id_;
  Mischief mischief_{};
  std::string out_{};
  std::size_t taken_ = 0;
  std::uint64_t sent_ = 0;
  std::unique_ptr<Alarm> alarm_{};
  bool head_sent_ = false;
  bool ended_ = false;
  bool resting_ = false;
  bool waiting_ = false;  // nghttp2 asked for more than there was.
  bool flush_wanted_ = false;
};

class Http2 final : public std::enable_shared_from_this<Http2> {
 public:
  Http2(Loop& loop_in, std::shared_ptr<Transport> transport_in, OpenExchange open)
      : loop(loop_in), transport(std::move(transport_in)), open_(std::move(open)) {}
  ~Http2() { nghttp2_session_del(session); }

  void start(const std::string& already_read);
  void pump();
  void end(How how);

  Loop& loop;
  std::shared_ptr<Transport> transport;
  nghttp2_session* session = nullptr;
  std::map<std::int32_t, std::shared_ptr<Stream>> streams{};
  std::vector<std::weak_ptr<Stream>> flushing{};  // Who wants to hear that all of it is out.
  bool over = false;
  bool end_at_next_request = false;

 private:
  void feed(std::string_view bytes);
  void read_more();
  void lose(EndedBy by);

  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* self);
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
                       const std::uint8_t* value, std::size_t value_size, std::uint8_t flags, void* self);
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* self);
  static int on_data(nghttp2_session*, std::uint8_t flags, std::int32_t id, const std::uint8_t* bytes,
                     std::size_t size, void* self);
  static int on_stream_close(nghttp2_session*, std::int32_t id, std::uint32_t code, void* self);

  OpenExchange open_;
  std::array<char, 16 * 1024> buffer_;
  std::string sending_{};
  std::size_t sent_ = 0;
  bool writing_ = false;
};

// The stream.

struct Fields {
  explicit Fields(int status_in, const Headers& headers) : status(std::to_string(status_in)) {
    add(":status", status);
    names.reserve(headers.size());
    for (const auto& [name, value] : headers) {
      auto& lower = names.emplace_back(name);
      std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
      });
      const bool of_the_hop = lower == "connection" || lower == "transfer-encoding" || lower == "keep-alive";
      if (!of_the_hop) add(lower, value);
    }
  }
  void add(std::string_view name, std::string_view value) {
    const auto bytes = [](std::string_view text) {
      return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(text.data()));
    };
    all.push_back({bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  std::string status;
  std::vector<std::string> names{};
  std::vector<nghttp2_nv> all{};
};

void Stream::interim(int status, const Headers& headers) {
  const Fields fields{status, headers};
  nghttp2_submit_headers(
      session_.session, NGHTTP2_FLAG_NONE, id_, nullptr, fields.all.data(), fields.all.size(), nullptr);
}

void Stream::head(const Head& head) {
  Headers headers = head.headers;
  if (head.framing == Framing::Length) headers.emplace_back("content-length", std::to_string(head.length));
  const Fields fields{head.status, headers};
  nghttp2_data_provider body{};
  body.source.ptr = this;
  body.read_callback = [](nghttp2_session*,
                          std::int32_t,
                          std::uint8_t* into,
                          std::size_t room,
                          std::uint32_t* flags,
                          nghttp2_data_source* source,
                          void*) { return static_cast<Stream*>(source->ptr)->read_body(into, room, flags); };
  nghttp2_submit_response(session_.session, id_, fields.all.data(), fields.all.size(), &body);
  head_sent_ = true;
}

ssize_t Stream::read_body(std::uint8_t* into, std::size_t room, std::uint32_t* flags) {
  const std::size_t pending = out_.size() - taken_;
  const auto next = mischief_.next(sent_, pending);
  if (resting_ || next.then != Mischief::Next::Then::GoOn || (pending == 0 && !ended_)) {
    waiting_ = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  const std::size_t size = std::min(room, next.send);
  std::copy_n(out_.data() + taken_, size, into);
  taken_ += size;
  sent_ += size;
  if (taken_ == out_.size()) {
    out_.clear();
    taken_ = 0;
    if (ended_) *flags |= NGHTTP2_DATA_FLAG_EOF;
  }
  if (mischief_.piece_bytes > 0 && mischief_.piece_gap.count() > 0) rest();
  return static_cast<ssize_t>(size);
}

void Stream::rest() {
  resting_ = true;
  if (!alarm_) alarm_ = session_.loop.alarm();
  alarm_->after(mischief_.piece_gap, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || !self->exchange) return;
    self->resting_ = false;
    if (std::exchange(self->waiting_, false)) nghttp2_session_resume_data(self->session_.session, self->id_);
    self->session_.pump();
  });
}

void Stream::flush() {
  flush_wanted_ = true;
  // Never from inside of nghttp2's or the exchange's own call.
  session_.loop.post([weak = weak_from_this(), session = session_.shared_from_this()] {
    const auto self = weak.lock();
    if (!self || !self->exchange) return;
    if (self->head_sent_ && std::exchange(self->waiting_, false)) {
      nghttp2_session_resume_data(session->session, self->id_);
    }
    session->flushing.push_back(self);
    session->pump();
  });
}

void Stream::flushed() {
  const auto then = mischief_.next(sent_, 0).then;
  if (!exchange || then == Mischief::Next::Then::Hang) return;
  if (then == Mischief::Next::Then::Cut) {
    abort(mischief_.cut_by);
    return;
  }
  if (!out_.empty()) {
    session_.flushing.push_back(shared_from_this());
    return;
  }
  const auto keep = exchange;
  if (std::exchange(flush_wanted_, false)) keep->on_flushed();
}

void Stream::finish(const After& after) {
  const auto keep = shared_from_this();
  over(after.close ? EndedBy::Us : EndedBy::Nobody);
  if (after.close) session_.end(*after.close);
  if (after.next_request) session_.end_at_next_request = true;
}

void Stream::abort(How how) {
  const auto keep = shared_from_this();
  over(EndedBy::Us);
  if (how == How::Rst) {
    nghttp2_submit_rst_stream(session_.session, NGHTTP2_FLAG_NONE, id_, NGHTTP2_INTERNAL_ERROR);
    session_.loop.post([session = session_.shared_from_this()] { session->pump(); });
  } else {
    session_.end(how);
  }
}

void Stream::over(EndedBy by) {
  if (alarm_) alarm_->cancel();
  if (const auto ended = std::exchange(exchange, nullptr)) ended->on_ended(by, sent_);
}

// The session.

std::string_view text_of(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

int Http2::on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  auto* self = static_cast<Http2*>(user);
  if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  const auto id = frame->hd.stream_id;
  const auto stream = std::make_shared<Stream>(*self, id);
  stream->request.connection = self->transport->number;
  stream->request.tls = self->transport->tls;
  stream->request.version = "2";
  self->streams.emplace(id, stream);
  return 0;
}

int Http2::on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name_bytes,
                     std::size_t name_size, const std::uint8_t* value_bytes, std::size_t value_size, std::uint8_t,
                     void* user) {
  auto* self = static_cast<Http2*>(user);
  const auto found = self->streams.find(frame->hd.stream_id);
  if (found == self->streams.end()) return 0;
  auto& request = found->second->request;
  const auto name = text_of(name_bytes, name_size);
  const auto value = text_of(value_bytes, value_size);
  if (name == ":method") {
    request.method = value;
  } else if (name == ":path") {
    request.target = value;
  } else {
    request.headers.emplace_back(name, value);
  }
  return 0;
}

int Http2::on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
  auto* self = static_cast<Http2*>(user);
  const auto found = self->streams.find(frame->hd.stream_id);
  if (found == self->streams.end()) return 0;
  const auto stream = found->second;
  if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
    stream->exchange = self->open_(*stream, std::move(stream->request));
    if (self->end_at_next_request) {
      stream->over(EndedBy::Us);
      self->end(How::Fin);
      return 0;
    }
    const auto exchange = stream->exchange;
    exchange->on_head();
  }
  const bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
                    (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA);
  if (last && stream->exchange && !stream->body_done) {
    stream->body_done = true;
    const auto exchange = stream->exchange;
    // Answers are submitted outside of nghttp2's callbacks.
    self->loop.post([stream, exchange, session = self->shared_from_this()] {
      if (stream->exchange) exchange->on_complete();
    });
  }
  return 0;
}

int Http2::on_data(nghttp2_session* session, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                   std::size_t size, void* user) {
  auto* self = static_cast<Http2*>(user);
  const auto found = self->streams.find(id);
  const bool reads = found == self->streams.end() || found->second->reads_;
  nghttp2_session_consume_connection(session, size);
  if (reads) nghttp2_session_consume_stream(session, id, size);
  if (found == self->streams.end() || !found->second->exchange) return 0;
  auto& body = found->second->exchange->request().body;
  if (body.size() + size > kBodyMax) return NGHTTP2_ERR_CALLBACK_FAILURE;
  body += text_of(bytes, size);
  return 0;
}

int Http2::on_stream_close(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user) {
  auto* self = static_cast<Http2*>(user);
  const auto found = self->streams.find(id);
  if (found == self->streams.end()) return 0;
  const auto stream = found->second;
  self->streams.erase(found);
  // If both sides are done, it is an answer's regular end, of which the exchange hears by its last flush.
  self->loop.post([stream, code, session = self->shared_from_this()] {
    if (code == NGHTTP2_NO_ERROR) stream->flushed();
    stream->over(EndedBy::PeerRst);
  });
  return 0;
}

void Http2::start(const std::string& already_read) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
  nghttp2_option* options = nullptr;
  nghttp2_option_new(&options);
  nghttp2_option_set_no_auto_window_update(options, 1);
  nghttp2_session_server_new2(&session, callbacks, this, options);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(callbacks);

  const std::array<nghttp2_settings_entry, 2> settings{
      {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1000}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow}}};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  transport->drop = [weak = weak_from_this()](How how, bool only_idle) {
    const auto self = weak.lock();
    if (self && !(only_idle && !self->streams.empty())) self->end(how);
  };
  feed(already_read);
  pump();
  if (!over) read_more();
}

void Http2::feed(std::string_view bytes) {
  const auto taken =
      nghttp2_session_mem_recv(session, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (taken < 0) end(How::Fin);
}

void Http2::read_more() {
  transport->read_some(buffer_.data(), buffer_.size(), [self = shared_from_this()](auto bytes, auto lost) {
    if (lost != Transport::Lost::No) {
      self->lose(lost == Transport::Lost::Fin ? EndedBy::PeerFin : EndedBy::PeerRst);
      self->transport->close();
      return;
    }
    if (!self->over) {
      self->feed({self->buffer_.data(), bytes});
      self->pump();
    }
    self->read_more();
  });
}

void Http2::pump() {
  if (writing_ || over) return;
  if (sent_ == sending_.size()) {
    sending_.clear();
    sent_ = 0;
    constexpr std::size_t kBatch = 64 * 1024;
    const std::uint8_t* bytes = nullptr;
    while (sending_.size() < kBatch) {
      const auto size = nghttp2_session_mem_send(session, &bytes);
      if (size <= 0) break;
      sending_ += text_of(bytes, static_cast<std::size_t>(size));
    }
  }
  if (sending_.empty()) {
    for (const auto& weak : std::exchange(flushing, {})) {
      if (const auto stream = weak.lock()) stream->flushed();
    }
    if (!over && nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0) {
      end(How::Notify);
    }
    return;
  }
  writing_ = true;
  transport->write_some(std::string_view{sending_}.substr(sent_), [self = shared_from_this()](auto bytes, auto lost) {
    self->writing_ = false;
    if (lost != Transport::Lost::No) return;  // The read sees it too.
    self->sent_ += bytes;
    self->pump();
  });
}

void Http2::lose(EndedBy by) {
  over = true;
  for (const auto& [id, stream] : std::exchange(streams, {})) stream->over(by);
}

void Http2::end(How how) {
  if (over) return;
  lose(EndedBy::Us);
  transport->end(how);
}

}  // namespace

void serve_http2(Loop& loop, std::shared_ptr<Transport> transport, OpenExchange open, std::string already_read) {
  std::make_shared<Http2>(loop, std::move(transport), std::move(open))->start(already_read);
}

}  // namespace fake_provider
