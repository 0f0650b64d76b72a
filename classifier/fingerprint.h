#pragma once
// Which unknown answer is this? The same fingerprint for all that differ only in ids, numbers, names and quotations.

#include <cstdint>
#include <string>
#include <string_view>

#include "classifier/dialect.h"

namespace classifier {

/// `text` with all that differs from call to call, or could be somebody's, in place of which "#" stands: quotations,
/// URLs, addresses of mail, hex, UUIDs, ids, keys and numbers. Lower case, one blank between words, at most 512
/// bytes.
[[nodiscard]] std::string masked(std::string_view text);

struct Fingerprint {
  std::string id{};     // 12 hex digits of (dialect, status, codes, masked text). The same on every machine.
  std::string words{};  // Codes and types as they were said, masked; parted by a blank.
  std::string text{};   // The provider's message, masked.
};
/// Of an answer that nobody could explain (Verdict::unexplained).
[[nodiscard]] Fingerprint fingerprint_of(std::string_view dialect, int status, const Headers* headers,
                                         std::string_view body);

/// A line in the form of the corpora (cases.h), without `expect`, to be completed by somebody who knows: codes and
/// text are masked, nothing else of the answer is in it.
[[nodiscard]] std::string case_line(const Fingerprint& fingerprint, std::string_view dialect, int status);

}  // namespace classifier
