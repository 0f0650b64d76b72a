#include "gateway/curl_head.h"

#include <charconv>
#include <utility>

#include "gateway/token.h"

namespace gateway {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

template <typename Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

void AnswerHeadReader::begin(bool head_request) {
  *this = AnswerHeadReader{};
  head_request_ = head_request;
}

bool AnswerHeadReader::line(std::string_view text) {
  if (complete_) return true;
  bytes_ += text.size();
  if (bytes_ > kBytesMax) return refuse("the answer's head is too large");
  if (status_ == 0) return status_line(text);
  const bool folded = text.starts_with(' ') || text.starts_with('\t');
  if (trimmed(text).empty() && !folded) return end_of_head();
  if (!folded) return field(text);
  // Obsolete line folding: the value goes on (RFC 9112 §5.2).
  if (passed_over_) return true;
  if (headers_.empty()) return refuse("the answer's head is malformed");
  headers_.back().value.append(" ").append(trimmed(text));
  return true;
}

bool AnswerHeadReader::status_line(std::string_view text) {
  const auto space = text.find(' ');
  if (!text.starts_with("HTTP/") || space == std::string_view::npos) return refuse("the answer is not HTTP");
  const auto code = number<int>(text.substr(space + 1, 3));
  if (!code || *code < 100 || *code > 999) return refuse("the answer has no valid status");
  status_ = *code;
  return true;
}

bool AnswerHeadReader::end_of_head() {
  // Nobody asked for another protocol, so nothing could read what follows.
  if (status_ == 101) return refuse("the answer switches to another protocol");
  if (status_ >= 200) {
    complete_ = true;
    return true;
  }
  const std::size_t bytes = bytes_;
  begin(head_request_);
  bytes_ = bytes;
  return true;
}

bool AnswerHeadReader::field(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) return refuse("the answer's head is malformed");
  const std::string_view name = trimmed(text.substr(0, colon));
  const std::string_view value = trimmed(text.substr(colon + 1));
  // Some readers would take a name with a blank for another field, so nobody gets it.
  passed_over_ = !is_token(name);
  if (passed_over_) return true;
  headers_.push_back({std::string{name}, std::string{value}});
  if (classifier::same_name(name, "transfer-encoding")) encoded_ = true;
  if (classifier::same_name(name, "content-length")) {
    const auto length = number<std::uint64_t>(value);
    if (!length || (length_ && *length_ != *length)) return refuse("the answer's length is contradictory");
    length_ = length;
  }
  return true;
}

std::optional<std::uint64_t> AnswerHeadReader::body_length() const {
  if (head_request_ || status_ == 204 || status_ == 304) return 0;
  return encoded_ ? std::nullopt : length_;
}

bool AnswerHeadReader::refuse(std::string_view why) {
  refusal_ = why;
  return false;
}

}  // namespace gateway
