#pragma once
// What is a message of application/vnd.amazon.eventstream, the framing of AWS's streams? Lengths, headers, a payload,
// and two checksums.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace classifier {

/// So many bytes tell how long a frame is.
inline constexpr std::size_t kFramePrelude = 12;
/// The last bytes of a frame: the checksum of all that stands before them.
inline constexpr std::size_t kFrameTrailer = 4;

/// Length of the whole frame that begins with these kFramePrelude bytes; nothing if they cannot begin one.
[[nodiscard]] std::optional<std::size_t> frame_length(std::string_view prelude);

/// Views into the frame. Headers that are no text, or that nobody asks for, are passed over.
struct Frame {
  std::string_view message_type{};    // "event", "exception", "error".
  std::string_view event_type{};      // Of an event: "contentBlockDelta", "chunk".
  std::string_view exception_type{};  // Of an exception: "throttlingException".
  std::string_view error_code{};      // Of an error, which has no payload.
  std::string_view error_message{};
  std::string_view payload{};
};
/// Nothing if checksums or lengths are wrong.
[[nodiscard]] std::optional<Frame> read_frame(std::string_view bytes);

/// A frame with these headers (texts, names of at most 255 bytes, values of at most 32767).
[[nodiscard]] std::string made_frame(std::span<const std::pair<std::string_view, std::string_view>> headers,
                                     std::string_view payload);

/// The checksum in pieces: begin with zero.
[[nodiscard]] std::uint32_t frame_checksum(std::uint32_t so_far, std::string_view bytes);
[[nodiscard]] std::uint32_t big_endian_32(std::string_view four_bytes);

}  // namespace classifier
