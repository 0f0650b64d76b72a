#include "gateway/http_head.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/status.hpp>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

namespace gateway {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using beast::error_code;
using classifier::Header;
using classifier::same_name;

constexpr std::size_t kFieldsMax = 256;
constexpr std::size_t kChunkLineMax = 16 * 1024;  // A chunk's size line, or all trailers.

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Calls `each` for the members of a comma-separated list.
template <typename Each>
void for_each_token(std::string_view list, Each each) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (const std::string_view token = trimmed(list.substr(0, comma)); !token.empty()) each(token);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

bool starts_with_name(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && same_name(text.substr(0, prefix.size()), prefix);
}

/// "localhost:4600" -> "localhost", "[::1]:4600" -> "[::1]"; nothing if it is no plain host and port.
std::optional<std::string_view> host_of(std::string_view authority) {
  const std::size_t end = authority.starts_with('[') ? authority.find(']') + 1 : authority.find(':');
  const std::string_view host = authority.substr(0, end);
  const std::string_view port = authority.substr(host.size());
  if (host.empty() || host.find('@') != host.npos) return std::nullopt;
  if (!port.empty() && (port.front() != ':' || port.find_first_not_of("0123456789", 1) != port.npos))
    return std::nullopt;
  return host;
}

struct Target {
  std::optional<std::string_view> authority{};  // Of an absolute form.
  std::string origin{};
};

/// Origin form as it is; absolute form (a proxy's, which HTTP_PROXY makes clients use) cut in two.
std::optional<Target> split_target(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (target.starts_with('/')) return Target{std::nullopt, std::string{target}};
  if (!starts_with_name(target, kScheme)) return std::nullopt;
  target.remove_prefix(kScheme.size());
  const std::size_t end = std::min(target.find_first_of("/?"), target.size());
  Target split{target.substr(0, end), std::string{target.substr(end)}};
  if (!split.origin.starts_with('/')) split.origin.insert(0, 1, '/');
  return split;
}

/// All digits and no overflow; std::from_chars alone would take a minus.
std::optional<std::uint64_t> length_in(std::string_view text) {
  std::uint64_t length = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  return error == std::errc{} ? std::optional{length} : std::nullopt;
}

/// What decides about framing and hosts, as it came. Views into the head.
struct ControlFields {
  int hosts = 0;
  std::string_view host{};
  int lengths = 0;
  std::string_view length{};
  int encodings = 0;
  std::string_view encoding{};
  bool tab_beside_encoding = false;
  bool origin = false;
  bool websocket = false;
  std::vector<std::string_view> connection{};
  std::vector<std::string_view> expect{};
};

/// Beast's parser without its message container: fields go where they belong as they come.
class HeadParser final : public http::basic_parser<true> {
 public:
  explicit HeadParser(std::string_view head_text) : text_(head_text) {
    header_limit(std::numeric_limits<std::uint32_t>::max());  // The server's own limit has been kept.
    body_limit(boost::none);
    head.headers.reserve(16);
  }
  RequestHead head{};
  ControlFields control{};
  bool too_many = false;

 private:
  void on_request_impl(http::verb, beast::string_view method, beast::string_view target, int version,
                       error_code&) override {
    head.method = view(method);
    head.target = view(target);
    head.http11 = version == 11;
  }

  void on_field_impl(http::field field, beast::string_view name, beast::string_view value_in, error_code&) override {
    const std::string_view value = view(value_in);
    switch (field) {
      case http::field::host:
        ++control.hosts;
        control.host = value;
        return;
      case http::field::content_length:
        ++control.lengths;
        control.length = value;
        return;
      case http::field::transfer_encoding:
        ++control.encodings;
        control.encoding = value;
        control.tab_beside_encoding |= tab_beside(name, value);
        return;
      case http::field::connection:
        for_each_token(value, [this](std::string_view token) { control.connection.push_back(token); });
        return;
      case http::field::expect:
        control.expect.push_back(value);
        return;
      case http::field::upgrade:
        for_each_token(value,
                       [this](std::string_view token) { control.websocket |= starts_with_name(token, "websocket"); });
        return;
      case http::field::origin:
        control.origin = true;
        return;
      case http::field::keep_alive:
      case http::field::proxy_connection:
      case http::field::proxy_authenticate:
      case http::field::proxy_authorization:
      case http::field::te:
      case http::field::trailer:
      case http::field::http2_settings:
        return;
      default:
        break;
    }
    too_many |= head.headers.size() == kFieldsMax;
    if (!too_many) head.headers.push_back(Header{std::string{view(name)}, std::string{value}});
  }

  /// Beast trims tabs away; some readers do not know "\tchunked" and would see another end of the body.
  [[nodiscard]] bool tab_beside(beast::string_view name, std::string_view value) const {
    const char* const line_end =
        text_.data() + text_.find('\r', static_cast<std::size_t>(value.data() - text_.data()));
    return std::find(name.data() + name.size(), line_end, '\t') != line_end;
  }

  void on_response_impl(int, beast::string_view, int, error_code&) override {}
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(beast::string_view body, error_code&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, error_code&) override { return body.size(); }
  void on_finish_impl(error_code&) override {}

  std::string_view text_;
};

bool names_other_version(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const std::string_view version = line.substr(std::min(line.rfind(' '), line.size()));
  return std::ranges::count(line, ' ') == 2 && version.starts_with(" HTTP/") &&
         version.find_first_not_of("0123456789.", 6) == version.npos;
}

RefusedRequest refusal_of(error_code error, std::string_view head) {
  if (head.starts_with("PRI * HTTP/2.0\r\n")) {
    return {
        505,
        "callgate_http2",
        "This client speaks HTTP/2 with prior knowledge; callgate takes HTTP/1.1. With the AWS SDK for JavaScript, "
        "give the client requestHandler: new NodeHttpHandler().",
        ""};
  }
  if (error == http::error::bad_version && names_other_version(head)) {
    return {505, "callgate_http_version", "callgate takes HTTP/1.1 and HTTP/1.0 only.", ""};
  }
  return {400, "callgate_bad_request", "The request head is malformed: " + error.message() + ".", ""};
}

/// The questions about framing, which F-38 is about. Beast has refused part of it already; all of it stands here.
std::optional<std::string_view> framing_fault(const ControlFields& control, bool http11) {
  if (control.lengths > 1) return "Content-Length is given twice";
  if (control.encodings > 1) return "Transfer-Encoding is given twice";
  if (control.lengths == 1 && control.encodings == 1)
    return "Content-Length and Transfer-Encoding contradict each other";
  if (control.lengths == 1 && !length_in(control.length)) return "Content-Length is not a number";
  if (control.encodings == 1 && !http11) return "HTTP/1.0 has no Transfer-Encoding";
  if (control.encodings == 1 && (!same_name(control.encoding, "chunked") || control.tab_beside_encoding)) {
    return "Transfer-Encoding can only be chunked";
  }
  if (control.hosts > 1) return "Host is given twice";
  if (control.hosts == 0 && http11) return "Host is missing";
  return std::nullopt;
}

bool names(const std::vector<std::string_view>& tokens, std::string_view token) {
  return std::ranges::any_of(tokens, [&](std::string_view each) { return same_name(each, token); });
}

constexpr std::array<std::string_view, 12> kNotPassedBack = {"connection",
                                                             "keep-alive",
                                                             "proxy-connection",
                                                             "proxy-authenticate",
                                                             "proxy-authorization",
                                                             "te",
                                                             "trailer",
                                                             "transfer-encoding",
                                                             "upgrade",
                                                             "alt-svc",
                                                             "http2-settings",
                                                             "content-length"};

bool passed_back(const Header& header) {
  // Not find_first_of(), which calls memchr() for each byte: this runs for every answer.
  const auto breaks_out = [](const std::string& text) {
    return std::ranges::any_of(text, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
  };
  return std::ranges::none_of(kNotPassedBack, [&](std::string_view name) { return same_name(name, header.name); }) &&
         !header.name.empty() && !breaks_out(header.name) && !breaks_out(header.value);
}

}  // namespace

bool allows(const HostRule& rule, std::string_view authority) {
  const auto host = host_of(authority);
  if (!host) return false;
  return rule.any ||
         std::ranges::any_of(rule.allowed, [&](const std::string& name) { return same_name(name, *host); });
}

HeadScan::Seen HeadScan::look(std::string_view bytes) {
  const auto malformed = [this](std::string_view fault) {
    fault_ = fault;
    return Seen::Malformed;
  };
  const auto is_control = [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return (code < 0x20 && c != '\t') || code == 0x7f;
  };
  while (seen_ < bytes.size()) {
    if (seen_ == line_ && (bytes[seen_] == ' ' || bytes[seen_] == '\t'))
      return malformed("a line begins with white space");
    const auto special = std::ranges::find_if(bytes.substr(seen_), is_control);
    seen_ = static_cast<std::size_t>(special - bytes.begin());
    if (seen_ == bytes.size()) break;
    if (bytes[seen_] == '\n') return malformed("a line must end with CR and LF");
    if (bytes[seen_] != '\r') return malformed("it holds a control character");
    if (seen_ + 1 == bytes.size()) break;  // We stay here until the LF comes.
    if (bytes[seen_ + 1] != '\n') return malformed("a line must end with CR and LF");
    const bool empty = seen_ == line_;
    seen_ += 2;
    if (empty && line_ == 0) return malformed("it begins with an empty line");
    if (empty) return Seen::Complete;
    line_ = seen_;
  }
  return Seen::Incomplete;
}

std::expected<RequestHead, RefusedRequest> read_head(std::string_view head_text, const HostRule& hosts) {
  HeadParser parser{head_text};
  error_code error;
  parser.put(boost::asio::const_buffer{head_text.data(), head_text.size()}, error);
  const auto refused = [&](int status, std::string_view code, std::string_view message) {
    return std::unexpected{RefusedRequest{status, std::string{code}, std::string{message}, target_in(head_text)}};
  };
  if (error) {
    RefusedRequest refusal = refusal_of(error, head_text);
    refusal.target = target_in(head_text);
    return std::unexpected{std::move(refusal)};
  }
  RequestHead& head = parser.head;
  const ControlFields& control = parser.control;

  if (parser.too_many) return refused(431, "callgate_head_too_large", "The request has too many header fields.");
  if (const auto fault = framing_fault(control, head.http11)) {
    return refused(400, "callgate_bad_request", "The request head is malformed: " + std::string{*fault} + ".");
  }
  if (control.hosts == 1 && !allows(hosts, control.host)) {
    return refused(403,
                   "callgate_forbidden_host",
                   "The Host header names none of the hosts that callgate answers for (listen.hosts).");
  }
  if (control.origin) {
    return refused(
        403, "callgate_forbidden_origin", "Requests with an Origin header come from web pages; they are refused.");
  }
  if (head.method == "CONNECT" || head.method == "TRACE") {
    return refused(405, "callgate_method_not_allowed", "callgate does not take CONNECT or TRACE.");
  }
  if (control.websocket) {
    return refused(
        501, "callgate_no_websocket", "callgate passes plain HTTP calls and event streams, no WebSockets.");
  }

  const auto plain = [](char c) { return static_cast<unsigned char>(c) < 0x80 && c != '#'; };
  auto target = split_target(head.target);
  if (!target || !std::ranges::all_of(head.target, plain)) {
    return refused(400, "callgate_bad_request", "The request target must be a path that begins with a slash.");
  }
  if (target->authority && !allows(hosts, *target->authority)) {
    return refused(
        403, "callgate_forbidden_host", "callgate is no proxy for other hosts (is HTTP_PROXY set to it?).");
  }
  head.authority = target->authority.value_or(control.host);
  head.target = std::move(target->origin);

  for (const std::string_view expectation : control.expect) {
    if (!same_name(expectation, "100-continue")) {
      return refused(417, "callgate_expectation_failed", "The only expectation that can be met is 100-continue.");
    }
  }
  // HTTP/1.0 does not know 100, so the expectation is passed over (RFC 9110 §10.1.1).
  head.expects_continue = head.http11 && !control.expect.empty();
  head.chunked = control.encodings == 1;
  head.length = length_in(control.length).value_or(0);
  head.keep_alive = !names(control.connection, "close") && (head.http11 || names(control.connection, "keep-alive"));
  if (!control.connection.empty()) {
    std::erase_if(head.headers, [&](const Header& header) { return names(control.connection, header.name); });
  }
  return std::move(head);
}

std::string target_in(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find_first_of("\r\n"));
  const std::size_t begin = line.find(' ');
  if (begin == line.npos) return {};
  const std::size_t end = line.find(' ', begin + 1);
  if (end == line.npos) return {};
  const auto printable = [](char c) { return c > 0x20 && c < 0x7f; };
  const auto target = split_target(line.substr(begin + 1, end - begin - 1));
  return target && std::ranges::all_of(target->origin, printable) ? target->origin : std::string{};
}

class ChunkReader::Impl final : public http::basic_parser<true> {
 public:
  explicit Impl(std::uint64_t limit) : limit_(limit) {
    body_limit(boost::none);
    constexpr std::string_view kHead = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    error_code error;
    put(boost::asio::const_buffer{kHead.data(), kHead.size()}, error);
    eager(true);
  }

  Got feed(std::string& bytes, std::string& body) {
    // What ends a body has five bytes at least. Beast asserts when they come one by one.
    if (bytes.size() < 5) return Got::More;
    body_ = &body;
    error_code error;
    const std::size_t used = put(boost::asio::const_buffer{bytes.data(), bytes.size()}, error);
    bytes.erase(0, used);
    if (error == http::error::body_limit) return Got::TooLarge;
    if (error && error != http::error::need_more) return Got::Malformed;
    if (is_done()) return Got::End;
    return bytes.size() >= kChunkLineMax ? Got::Malformed : Got::More;
  }

 private:
  void on_chunk_header_impl(std::uint64_t size, beast::string_view, error_code& error) override {
    if (size > limit_)
      error = http::error::body_limit;
    else
      limit_ -= size;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view part, error_code&) override {
    body_->append(part.data(), part.size());
    return part.size();
  }
  void on_request_impl(http::verb, beast::string_view, beast::string_view, int, error_code&) override {}
  void on_response_impl(int, beast::string_view, int, error_code&) override {}
  void on_field_impl(http::field, beast::string_view, beast::string_view, error_code&) override {}
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(beast::string_view part, error_code&) override { return part.size(); }
  void on_finish_impl(error_code&) override {}

  std::uint64_t limit_;
  std::string* body_ = nullptr;
};

ChunkReader::ChunkReader(std::uint64_t body_limit) : impl_(std::make_unique<Impl>(body_limit)) {}
ChunkReader::~ChunkReader() = default;
ChunkReader::Got ChunkReader::feed(std::string& bytes, std::string& body) { return impl_->feed(bytes, body); }

Framing framing_of(bool http11, bool head_method, int status, std::optional<std::uint64_t> length) {
  if (head_method || status == 204 || status == 304) return Framing::NoBody;
  if (length) return Framing::Length;
  return http11 ? Framing::Chunked : Framing::UntilClose;
}

std::string_view reason_of(int status) {
  switch (status) {
    case 418:
      return "I'm a teapot";
    case 425:
      return "Too Early";
    case 498:
      return "Invalid Token";
    case 520:
      return "Unknown Error";
    case 529:
      return "Overloaded";
    default:
      break;
  }
  const http::status known = http::int_to_status(static_cast<unsigned>(status));
  return known == http::status::unknown ? "Unknown Status" : view(http::obsolete_reason(known));
}

void write_head(std::string& into, const AnswerHead& head, Framing framing, std::optional<std::uint64_t> length,
                Persistence persistence) {
  std::size_t size = 128;
  for (const Header& header : head.headers) size += header.name.size() + header.value.size() + 4;
  into.reserve(into.size() + size);
  into.append("HTTP/1.1 ")
      .append(std::to_string(head.status))
      .append(" ")
      .append(reason_of(head.status))
      .append("\r\n");
  std::vector<std::string_view> connection;
  for (const Header& header : head.headers) {
    if (same_name(header.name, "connection")) {
      for_each_token(header.value, [&](std::string_view token) { connection.push_back(token); });
    }
  }
  for (const Header& header : head.headers) {
    if (!passed_back(header) || names(connection, header.name)) continue;
    into.append(header.name).append(": ").append(header.value).append("\r\n");
  }
  const bool length_fits = framing == Framing::Length || (framing == Framing::NoBody && head.status != 204);
  if (length && length_fits) into.append("Content-Length: ").append(std::to_string(*length)).append("\r\n");
  if (framing == Framing::Chunked) into.append("Transfer-Encoding: chunked\r\n");
  if (persistence == Persistence::Closing) into.append("Connection: close\r\n");
  if (persistence == Persistence::KeptIfSaid) into.append("Connection: keep-alive\r\n");
  into.append("\r\n");
}

}  // namespace gateway
