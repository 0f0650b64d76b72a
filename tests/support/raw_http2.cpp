#include "tests/support/raw_http2.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

namespace raw {
namespace {

nghttp2_nv as_nv(const std::string& name, const std::string& value) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())),
          name.size(),
          value.size(),
          NGHTTP2_NV_FLAG_NONE};
}

std::string text(const std::uint8_t* bytes, std::size_t size) { return {reinterpret_cast<const char*>(bytes), size}; }

}  // namespace

struct Http2::Callbacks {
  static Http2& of(void* self) { return *static_cast<Http2*>(self); }

  static ssize_t on_send(nghttp2_session*, const std::uint8_t* bytes, std::size_t size, int, void* self) {
    const bool sent = of(self).connection_.send({reinterpret_cast<const char*>(bytes), size});
    return sent ? static_cast<ssize_t>(size) : static_cast<ssize_t>(NGHTTP2_ERR_CALLBACK_FAILURE);
  }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
                       const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* self) {
    of(self).fields_[frame->hd.stream_id].push_back({text(name, name_size), text(value, value_size)});
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* bytes, std::size_t size,
                     void* self) {
    of(self).events_.push_back({Kind::Body, stream, text(bytes, size)});
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    auto& events = of(self).events_;
    const auto& head = frame->hd;
    if (head.type == NGHTTP2_HEADERS) events.push_back({Kind::Head, head.stream_id, {}});
    if (head.type == NGHTTP2_RST_STREAM) events.push_back({Kind::Reset, head.stream_id, {}});
    const bool may_end = head.type == NGHTTP2_HEADERS || head.type == NGHTTP2_DATA;
    if (may_end && (head.flags & NGHTTP2_FLAG_END_STREAM) != 0) events.push_back({Kind::End, head.stream_id, {}});
    return 0;
  }
  static ssize_t on_read(nghttp2_session*, std::int32_t stream, std::uint8_t* buffer, std::size_t size,
                         std::uint32_t* flags, nghttp2_data_source*, void* self) {
    Outgoing& outgoing = of(self).outgoing_[stream];
    const std::size_t count = std::min(size, outgoing.bytes.size());
    std::memcpy(buffer, outgoing.bytes.data(), count);
    outgoing.bytes.erase(0, count);
    if (outgoing.end && outgoing.bytes.empty()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
    } else if (count == 0) {
      return NGHTTP2_ERR_DEFERRED;
    }
    return static_cast<ssize_t>(count);
  }
};

Http2::Http2(Connection& connection, bool grant) : connection_(connection) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_send_callback(callbacks, &Callbacks::on_send);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, &Callbacks::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &Callbacks::on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &Callbacks::on_frame);
  nghttp2_option* options = nullptr;
  nghttp2_option_new(&options);
  nghttp2_option_set_no_auto_window_update(options, grant ? 0 : 1);
  nghttp2_session_server_new2(&session_, callbacks, this, options);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
  flush();
}

Http2::~Http2() { nghttp2_session_del(session_); }

void Http2::flush() { nghttp2_session_send(session_); }

Http2::Event Http2::next(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (events_.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left <= 0ms && limit > 0ms) return {};
    const auto [bytes, over] = connection_.read_or_end(std::max(left, 0ms));
    if (over) return {Kind::Gone, 0, {}};
    if (bytes.empty()) return {};
    const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    if (nghttp2_session_mem_recv(session_, data, bytes.size()) < 0) return {Kind::Gone, 0, {}};
    flush();
  }
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

bool Http2::wait_for(Kind kind, int stream, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    const Event event = next(std::max(left, 0ms));
    if (event.kind == kind && (stream == 0 || event.stream == stream)) return true;
    if (event.kind == Kind::Nothing || event.kind == Kind::Gone) return false;
  }
}

int Http2::request() {
  for (;;) {
    const Event event = next();
    if (event.kind == Kind::End) return event.stream;
    if (event.kind == Kind::Nothing || event.kind == Kind::Gone) return 0;
  }
}

void Http2::head(int stream, const std::string& status, const classifier::Headers& fields, bool end) {
  const std::string status_name = ":status";
  std::vector<nghttp2_nv> all{as_nv(status_name, status)};
  for (const auto& [name, value] : fields) all.push_back(as_nv(name, value));
  nghttp2_data_provider provider{};
  provider.read_callback = &Callbacks::on_read;
  if (status.starts_with('1')) {
    nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream, nullptr, all.data(), all.size(), nullptr);
  } else {
    nghttp2_submit_response(session_, stream, all.data(), all.size(), end ? nullptr : &provider);
  }
  flush();
}

void Http2::body(int stream, const std::string& bytes, bool end) {
  outgoing_[stream].bytes += bytes;
  outgoing_[stream].end = end;
  nghttp2_session_resume_data(session_, stream);
  flush();
}

void Http2::grant(int stream, int bytes) {
  nghttp2_submit_window_update(session_, NGHTTP2_FLAG_NONE, stream, bytes);
  nghttp2_submit_window_update(session_, NGHTTP2_FLAG_NONE, 0, bytes);
  flush();
}

void Http2::reset(int stream, std::uint32_t code) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, code);
  flush();
}

void Http2::go_away() {
  nghttp2_submit_goaway(
      session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR, nullptr, 0);
  flush();
}

}  // namespace raw
