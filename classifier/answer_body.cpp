#include "classifier/answer_body.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "classifier/inflate.h"
#include "classifier/json.h"

namespace classifier {

namespace {

constexpr std::size_t kInflateMax = std::size_t{16} << 20U;

}  // namespace

std::string_view encoding_of(const Headers& head) {
  const auto value = find(head, "content-encoding");
  if (!value || same_name(trimmed(*value), "identity")) return {};
  return trimmed(*value);
}

AnswerBody::AnswerBody(const Headers* headers, std::string_view bytes, bool truncated)
    : text(bytes), whole(!truncated) {
  const std::string_view encoding = headers != nullptr ? encoding_of(*headers) : std::string_view{};
  const bool gzip_magic = text.starts_with("\x1f\x8b");
  if (encoding.empty() && !gzip_magic) return;
  const bool known =
      gzip_magic || same_name(encoding, "gzip") || same_name(encoding, "x-gzip") || same_name(encoding, "deflate");
  // The header may lie: then the bytes are read as they are.
  if (auto out = known ? inflate(text, kInflateMax) : std::nullopt) {
    // A cut one reads as what it is; one beyond the limit is as good as one of which only the beginning is there.
    whole = whole && (out->whole || out->text.size() < kInflateMax);
    inflated = std::move(out->text);
    text = inflated;
  } else if (!known) {
    readable = false;
  }
}

}  // namespace classifier
