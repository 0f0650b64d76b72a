#include "classifier/frames.h"

#include <zlib.h>

#include <array>
#include <cassert>

namespace classifier {

namespace {

// As AWS's own clients have them.
constexpr std::size_t kHeadersMax = std::size_t{128} << 10U;
constexpr std::size_t kPayloadMax = std::size_t{24} << 20U;
constexpr std::size_t kFrameMin = kFramePrelude + kFrameTrailer;

constexpr unsigned kText = 7;
/// How long a header's value is, by its type: true, false, byte, short, int, long, bytes, text, timestamp, uuid.
/// Bytes and text tell it in two bytes of their own.
constexpr std::array<std::size_t, 10> kValueLengths = {0, 0, 1, 2, 4, 8, 0, 0, 8, 16};

unsigned byte_at(std::string_view bytes, std::size_t at) { return static_cast<unsigned char>(bytes[at]); }

void append_big_endian(std::string& out, std::size_t number, unsigned bytes) {
  for (unsigned i = bytes; i-- > 0;) out += static_cast<char>((number >> (8U * i)) & 0xFFU);
}

struct HeaderField {
  std::string_view name{};
  std::string_view value{};  // Empty for what is no text.
};

/// Takes one header off the front; nothing if it is not whole.
std::optional<HeaderField> take_header(std::string_view& rest) {
  const std::size_t name_length = byte_at(rest, 0);
  if (name_length == 0 || rest.size() < name_length + 2) return std::nullopt;
  HeaderField field{.name = rest.substr(1, name_length)};
  const unsigned type = byte_at(rest, 1 + name_length);
  rest.remove_prefix(name_length + 2);
  if (type >= kValueLengths.size()) return std::nullopt;
  std::size_t length = kValueLengths[type];
  if (type == kText || type + 1 == kText) {
    if (rest.size() < 2) return std::nullopt;
    length = byte_at(rest, 0) << 8U | byte_at(rest, 1);
    rest.remove_prefix(2);
  }
  if (rest.size() < length) return std::nullopt;
  if (type == kText) field.value = rest.substr(0, length);
  rest.remove_prefix(length);
  return field;
}

}  // namespace

std::uint32_t big_endian_32(std::string_view four_bytes) {
  assert(four_bytes.size() >= 4);
  return byte_at(four_bytes, 0) << 24U | byte_at(four_bytes, 1) << 16U | byte_at(four_bytes, 2) << 8U |
         byte_at(four_bytes, 3);
}

std::uint32_t frame_checksum(std::uint32_t so_far, std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(so_far, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

std::optional<std::size_t> frame_length(std::string_view prelude) {
  assert(prelude.size() >= kFramePrelude);
  const std::size_t total = big_endian_32(prelude);
  const std::size_t headers = big_endian_32(prelude.substr(4));
  if (frame_checksum(0, prelude.substr(0, 8)) != big_endian_32(prelude.substr(8))) return std::nullopt;
  if (headers > kHeadersMax || total < kFrameMin + headers || total - kFrameMin - headers > kPayloadMax)
    return std::nullopt;
  return total;
}

std::optional<Frame> read_frame(std::string_view bytes) {
  if (bytes.size() < kFrameMin || frame_length(bytes) != bytes.size()) return std::nullopt;
  const std::string_view summed = bytes.substr(0, bytes.size() - kFrameTrailer);
  if (frame_checksum(0, summed) != big_endian_32(bytes.substr(summed.size()))) return std::nullopt;

  Frame frame;
  const std::size_t headers = big_endian_32(bytes.substr(4));
  frame.payload = summed.substr(kFramePrelude + headers);
  std::string_view rest = summed.substr(kFramePrelude, headers);
  while (!rest.empty()) {
    const auto header = take_header(rest);
    if (!header) return std::nullopt;
    if (header->name == ":message-type") frame.message_type = header->value;
    if (header->name == ":event-type") frame.event_type = header->value;
    if (header->name == ":exception-type") frame.exception_type = header->value;
    if (header->name == ":error-code") frame.error_code = header->value;
    if (header->name == ":error-message") frame.error_message = header->value;
  }
  return frame;
}

std::string made_frame(std::span<const std::pair<std::string_view, std::string_view>> headers,
                       std::string_view payload) {
  std::string fields;
  for (const auto& [name, value] : headers) {
    assert(!name.empty() && name.size() <= 255 && value.size() <= 32'767);
    fields += static_cast<char>(name.size());
    fields += name;
    fields += static_cast<char>(kText);
    append_big_endian(fields, value.size(), 2);
    fields += value;
  }
  std::string frame;
  append_big_endian(frame, kFrameMin + fields.size() + payload.size(), 4);
  append_big_endian(frame, fields.size(), 4);
  append_big_endian(frame, frame_checksum(0, frame), 4);
  frame += fields;
  frame += payload;
  append_big_endian(frame, frame_checksum(0, frame), 4);
  return frame;
}

}  // namespace classifier
