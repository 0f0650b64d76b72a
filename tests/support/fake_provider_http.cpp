#include "tests/support/fake_provider_http.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace fake_provider {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::optional<std::uint64_t> number(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value, base);
  if (problem != std::errc{} || stop != end || text.empty()) return std::nullopt;
  return value;
}

void append_headers(std::string& text, const Headers& headers) {
  for (const auto& [name, value] : headers) text.append(name).append(": ").append(value).append("\r\n");
}

struct Reason {
  int status;
  std::string_view text;
};
constexpr Reason kReasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {102, "Processing"},
    {103, "Early Hints"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {524, "A Timeout Occurred"},
    {529, "Site is overloaded"},
};

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view Request::header(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& header) { return same_name(header.first, name); });
  return found == headers.end() ? std::string_view{} : std::string_view{found->second};
}

Mischief::Next Mischief::next(std::uint64_t sent, std::size_t pending) const {
  if (cut_at && sent >= *cut_at) return {0, Next::Then::Cut};
  if (hang_at && sent >= *hang_at) return {0, Next::Then::Hang};
  std::uint64_t may = pending;
  if (piece_bytes > 0) may = std::min<std::uint64_t>(may, piece_bytes);
  if (cut_at) may = std::min(may, *cut_at - sent);
  if (hang_at) may = std::min(may, *hang_at - sent);
  return {static_cast<std::size_t>(may), Next::Then::GoOn};
}

Request parse_head(std::string_view text) {
  Request request;
  const auto next_line = [&text] {
    const auto end = text.find("\r\n");
    const auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    return line;
  };
  const auto line = next_line();
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || first == 0 ||
      !line.substr(last + 1).starts_with("HTTP/1.")) {
    request.malformed = "request line";
    return request;
  }
  request.method = line.substr(0, first);
  request.target = line.substr(first + 1, last - first - 1);
  request.version = line.substr(last + 6);
  while (!text.empty()) {
    const auto header = next_line();
    if (header.empty()) break;
    const auto colon = header.find(':');
    if (colon == std::string_view::npos || colon == 0 || header.find_first_of(" \t") < colon) {
      request.malformed = "header line";
      return request;
    }
    request.headers.emplace_back(header.substr(0, colon), trimmed(header.substr(colon + 1)));
  }
  return request;
}

BodyLength body_length(const Request& request) {
  BodyLength found;
  int lengths = 0;
  for (const auto& [name, value] : request.headers) {
    if (same_name(name, "transfer-encoding")) {
      found.chunked = same_name(value, "chunked");
      if (!found.chunked) found.malformed = "transfer-encoding";
    } else if (same_name(name, "content-length")) {
      const auto length = number(value, 10);
      if (!length || (lengths > 0 && *length != found.length)) found.malformed = "content-length";
      found.length = length.value_or(0);
      ++lengths;
    }
  }
  if (found.chunked && lengths > 0) found.malformed = "content-length beside chunked";
  return found;
}

ChunkReader::State ChunkReader::feed(std::string_view& in, std::string& body) {
  constexpr std::size_t kLongestLine = 4096;
  while (!in.empty()) {
    if (at_ == At::Data) {
      const auto taken = in.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(left_, in.size())));
      body += taken;
      in.remove_prefix(taken.size());
      left_ -= taken.size();
      if (left_ == 0) at_ = At::DataEnd;
      continue;
    }
    const auto end = in.find('\n');
    line_ += in.substr(0, end);
    in.remove_prefix(end == std::string_view::npos ? in.size() : end + 1);
    if (line_.size() > kLongestLine) return State::Broken;
    if (end == std::string_view::npos) return State::More;
    if (!line_.ends_with('\r')) return State::Broken;
    line_.pop_back();
    const std::string line = std::exchange(line_, {});
    if (at_ == At::DataEnd) {
      if (!line.empty()) return State::Broken;
      at_ = At::Size;
    } else if (at_ == At::Size) {
      const auto size = number(std::string_view{line}.substr(0, line.find(';')), 16);
      if (!size) return State::Broken;
      left_ = *size;
      at_ = left_ == 0 ? At::Trailer : At::Data;
    } else if (line.empty()) {
      at_ = At::Size;
      return State::Done;
    }
  }
  return State::More;
}

std::string_view reason_of(int status) {
  const auto* found =
      std::find_if(std::begin(kReasons), std::end(kReasons), [&](const Reason& row) { return row.status == status; });
  return found == std::end(kReasons) ? "Status" : found->text;
}

std::string head_text(const Head& head) {
  std::string text;
  text.reserve(512);
  text.append("HTTP/1.1 ").append(std::to_string(head.status)).append(" ");
  text.append(head.reason.empty() ? reason_of(head.status) : head.reason).append("\r\n");
  append_headers(text, head.headers);
  const bool framed_by_hand = std::any_of(head.headers.begin(), head.headers.end(), [](const auto& header) {
    return same_name(header.first, "content-length") || same_name(header.first, "transfer-encoding");
  });
  if (!framed_by_hand && head.framing == Framing::Length) {
    text.append("Content-Length: ").append(std::to_string(head.length)).append("\r\n");
  } else if (!framed_by_hand && head.framing == Framing::Chunked) {
    text.append("Transfer-Encoding: chunked\r\n");
  }
  return text.append("\r\n");
}

std::string interim_text(int status, const Headers& headers) {
  std::string text = "HTTP/1.1 " + std::to_string(status) + " " + std::string{reason_of(status)} + "\r\n";
  append_headers(text, headers);
  return text.append("\r\n");
}

std::string_view name_of(EndedBy by) {
  switch (by) {
    case EndedBy::PeerFin:
      return "peer_fin";
    case EndedBy::PeerRst:
      return "peer_rst";
    case EndedBy::Us:
      return "us";
    case EndedBy::Nobody:
      break;
  }
  return {};
}

std::optional<How> how_named(std::string_view name) {
  if (name == "fin") return How::Fin;
  if (name == "rst") return How::Rst;
  if (name == "notify") return How::Notify;
  return std::nullopt;
}

}  // namespace fake_provider
