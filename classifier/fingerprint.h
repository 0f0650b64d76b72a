#pragma once
// Which unknown answer is this? The same fingerprint for all that differ only in ids, numbers, names and quotations.

#include <span>
#include <string>
#include <string_view>

#include "classifier/headers.h"
#include "classifier/verdict.h"

namespace classifier {

/// `text` with all that differs from call to call, or could be somebody's, in place of which "#" stands: quotations,
/// URLs, addresses of mail, hex, UUIDs, ids, keys and numbers. Lower case, one blank between words, at most 512
/// bytes.
[[nodiscard]] std::string masked(std::string_view text);

struct Fingerprint {
  std::string id{};     // 12 hex digits of (dialect, status, codes, masked text). The same on every machine.
  std::string words{};  // Codes and types as they were said, masked; parted by a blank. At most 256 bytes.
  std::string text{};   // The provider's message, masked; of a malformed answer what is wrong with it.
  std::string body{};   // One that is judged as the answer was, made of these.
};
/// Of an error that nobody could explain (Verdict::unexplained). Of `hidden` (a caller's key and the like) nothing
/// is left in it, in any case of letters; texts of less than four bytes cannot be told from chance.
[[nodiscard]] Fingerprint fingerprint_of(std::string_view dialect, int status, const Headers* headers,
                                         std::string_view body, std::span<const std::string> hidden = {});
/// Of a 2xx that is no answer, by what is wrong with it: the rest of it may be somebody's answer.
[[nodiscard]] Fingerprint fingerprint_of_malformed(std::string_view dialect, int status, std::string_view rule);

/// A line in the form of the corpora (cases.h), without `expect`, to be completed by somebody who knows. Nothing of
/// the answer is in it but what is in the fingerprint; the hint is the verdict's. Read back it has the same verdict.
/// At most 4 KiB.
[[nodiscard]] std::string case_line(const Fingerprint& fingerprint, std::string_view dialect, int status,
                                    const Verdict& verdict);

}  // namespace classifier
