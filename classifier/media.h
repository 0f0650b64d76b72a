#pragma once
// How much of a request's body is inline media: images, audio, files in base64? (Their bytes say nothing of tokens.)

#include <cstdint>
#include <string_view>

namespace classifier {

struct Media {
  std::uint64_t bytes = 0;  // As they stand in the body.
  int pieces = 0;
  bool operator==(const Media&) const = default;
};

/// Runs of at least 1024 characters of base64, wherever they stand: every dialect has its own place for them, and
/// some have several. Prose has spaces and code has brackets long before. Bodies of less than 8 KiB are not looked
/// at: what they could hold matters little. One look at every thousandth byte, and one at every 64th of the media.
[[nodiscard]] Media media_in(std::string_view body);

}  // namespace classifier
