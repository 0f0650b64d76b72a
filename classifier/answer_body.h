#pragma once
// What did the sender of a body mean, whatever encoding it came in?

#include <string>
#include <string_view>

#include "classifier/headers.h"

namespace classifier {

/// The Content-Encoding, trimmed; empty if there is none.
[[nodiscard]] std::string_view encoding_of(const Headers& head);

/// `text` points into the bytes that were given, or into `inflated`.
struct AnswerBody {
  /// `headers` may be null; `truncated`: the bytes are only the beginning.
  AnswerBody(const Headers* headers, std::string_view bytes, bool truncated = false);
  AnswerBody(const AnswerBody&) = delete;
  AnswerBody& operator=(const AnswerBody&) = delete;

  std::string inflated{};
  std::string_view text{};
  bool whole = true;
  bool readable = true;  // Else it is in an encoding that we do not undo.
};

}  // namespace classifier
