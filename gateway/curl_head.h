#pragma once
// What does the head of an answer say? Lines in, as libcurl hands them out; a status and its fields come out.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "classifier/headers.h"

namespace gateway {

class AnswerHeadReader {
 public:
  static constexpr std::size_t kBytesMax = 256 * 1024;

  /// `head_request`: a HEAD was asked, so no body will follow whatever the fields say.
  void begin(bool head_request);
  /// One line with its end of line. False: it cannot be accepted, refusal() says why.
  [[nodiscard]] bool line(std::string_view text);

  /// The final head is whole: 1xx were passed over; what comes after it (trailers) is passed over too.
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const classifier::Headers& headers() const { return headers_; }
  /// How long the body is, where the head says so.
  [[nodiscard]] std::optional<std::uint64_t> body_length() const;
  [[nodiscard]] std::string_view refusal() const { return refusal_; }

 private:
  [[nodiscard]] bool refuse(std::string_view why);
  [[nodiscard]] bool status_line(std::string_view text);
  [[nodiscard]] bool end_of_head();
  [[nodiscard]] bool field(std::string_view text);

  int status_ = 0;
  classifier::Headers headers_{};
  bool passed_over_ = false;  // The last field was, and so is what is folded under it.
  bool head_request_ = false;
  bool complete_ = false;
  bool encoded_ = false;  // Transfer-Encoding frames the body, whatever Content-Length says.
  std::optional<std::uint64_t> length_{};
  std::size_t bytes_ = 0;
  std::string_view refusal_{};
};

}  // namespace gateway
