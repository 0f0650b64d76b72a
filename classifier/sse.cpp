#include "classifier/sse.h"

#include <algorithm>
#include <cstring>

#include "classifier/dialect.h"
#include "classifier/frames.h"
#include "classifier/json.h"

namespace classifier {

namespace {

constexpr std::size_t kKeepCapacity = std::size_t{64} << 10U;

/// First CR or LF at or after `from`, or npos. Two passes of memchr: the second one ends where the first one hit.
std::size_t find_line_end(std::string_view text, std::size_t from) {
  if (from >= text.size()) return std::string_view::npos;
  const char* const start = text.data() + from;
  std::size_t length = text.size() - from;
  const void* const lf = std::memchr(start, '\n', length);
  if (lf != nullptr) length = static_cast<std::size_t>(static_cast<const char*>(lf) - start);
  const void* const cr = std::memchr(start, '\r', length);
  const void* const hit = cr != nullptr ? cr : lf;
  if (hit == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
}

}  // namespace

void EventSplitter::feed(std::string_view bytes) {
  buffer_.erase(0, read_);
  line_ -= read_;
  scanned_ -= read_;
  read_ = 0;
  // A large event must not be paid for in memory until the stream ends.
  if (buffer_.empty() && buffer_.capacity() > kKeepCapacity && bytes.size() < kKeepCapacity / 2)
    buffer_ = std::string{};
  const std::size_t needed = buffer_.size() + bytes.size() + kBodyPadding;
  if (buffer_.capacity() < needed) buffer_.reserve(std::max(needed, 2 * buffer_.size()));
  buffer_ += bytes;
}

EventSplitter::Block EventSplitter::take(Kind kind, std::size_t end) {
  const Block block{.kind = kind, .bytes = std::string_view{buffer_}.substr(read_, end - read_), .ends = true};
  read_ = end;
  return block;
}

std::size_t EventSplitter::line_end(std::string_view text) const {
  // Between the tokens of JSON a CR is a blank like any other.
  return framing_ == Framing::Lines ? text.find('\n', scanned_) : find_line_end(text, scanned_);
}

EventSplitter::Block EventSplitter::broken() {
  broken_ = true;
  read_ = buffer_.size();
  return {.kind = Kind::Broken};
}

std::optional<EventSplitter::Block> EventSplitter::next_frame() {
  if (broken_) {
    read_ = buffer_.size();
    return std::nullopt;
  }
  if (in_large_) return next_piece_of_frame();
  const std::string_view left = std::string_view{buffer_}.substr(read_);
  if (left.size() < kFramePrelude) return std::nullopt;
  const auto length = frame_length(left);
  if (!length) return broken();
  if (*length > kEventMax) {
    in_large_ = true;
    frame_left_ = *length;
    frame_checksum_ = 0;
    return next_piece_of_frame();
  }
  if (left.size() < *length) return std::nullopt;
  if (!read_frame(left.substr(0, *length))) return broken();
  return take(Kind::Event, read_ + *length);
}

/// Its checksum stays behind until all of it is there, so that no piece that ends a frame goes out unchecked.
std::optional<EventSplitter::Block> EventSplitter::next_piece_of_frame() {
  const std::string_view left = std::string_view{buffer_}.substr(read_);
  if (frame_left_ == kFrameTrailer) {
    if (left.size() < kFrameTrailer) return std::nullopt;
    if (big_endian_32(left) != frame_checksum_) return broken();
    in_large_ = false;
    return take(Kind::Piece, read_ + kFrameTrailer);
  }
  const std::size_t length = std::min(left.size(), frame_left_ - kFrameTrailer);
  if (length == 0) return std::nullopt;
  frame_checksum_ = frame_checksum(frame_checksum_, left.substr(0, length));
  frame_left_ -= length;
  Block piece = take(Kind::Piece, read_ + length);
  piece.ends = false;
  return piece;
}

std::optional<EventSplitter::Block> EventSplitter::next() {
  if (framing_ == Framing::Frames) return next_frame();
  const std::string_view text{buffer_};
  for (;;) {
    const std::size_t end = line_end(text);
    const bool waits = end != std::string_view::npos && text[end] == '\r' && end + 1 == text.size();
    if (end == std::string_view::npos || waits) {
      scanned_ = waits ? end : text.size();
      if (scanned_ - read_ <= kEventMax && !in_large_) return std::nullopt;
      if (scanned_ == read_) return std::nullopt;
      in_large_ = true;
      mid_line_ = mid_line_ || scanned_ > line_;
      Block piece = take(Kind::Piece, scanned_);
      piece.ends = false;
      line_ = scanned_;
      return piece;
    }
    std::string_view line = text.substr(line_, end - line_);
    if (at_start_) line = without_bom(line);
    at_start_ = false;
    const bool lines = framing_ == Framing::Lines;
    const bool blank = (lines ? trimmed(line) : line).empty() && !mid_line_;
    const bool comment = line.starts_with(':') && !mid_line_ && !lines;
    const std::size_t behind = end + (text[end] == '\r' && text[end + 1] == '\n' ? 2 : 1);
    line_ = behind;
    scanned_ = behind;
    mid_line_ = false;
    if (lines) {
      const bool large = in_large_ || behind - read_ > kEventMax;
      in_large_ = false;
      return take(large ? Kind::Piece : blank ? Kind::Idle : Kind::Event, behind);
    }
    if (!in_event_ && !in_large_) {
      if (blank || comment) return take(Kind::Idle, behind);
      in_event_ = true;
    } else if (blank) {
      const bool large = in_large_ || behind - read_ > kEventMax;
      in_event_ = false;
      in_large_ = false;
      return take(large ? Kind::Piece : Kind::Event, behind);
    }
  }
}

std::optional<EventSplitter::Block> EventSplitter::rest() {
  if (framing_ == Framing::Frames) {
    read_ = buffer_.size();
    return std::nullopt;
  }
  if (read_ == buffer_.size()) return std::nullopt;
  const std::string_view left = std::string_view{buffer_}.substr(read_);
  const bool comment = framing_ == Framing::Events && (at_start_ ? without_bom(left) : left).starts_with(':');
  const bool idle = !in_event_ && (comment || trimmed(left).empty());
  const Kind kind = in_large_ ? Kind::Piece : idle ? Kind::Idle : Kind::Event;
  return take(kind, buffer_.size());
}

EventText read_event(std::string_view block, std::string& scratch) {
  EventText event;
  bool joined = false;
  block = without_bom(block);  // It can only stand at the very start of the stream.
  while (!block.empty()) {
    const std::size_t end = std::min(find_line_end(block, 0), block.size());
    const std::string_view line = block.substr(0, end);
    const bool crlf = end + 1 < block.size() && block[end] == '\r' && block[end + 1] == '\n';
    block.remove_prefix(std::min(end + (crlf ? 2 : 1), block.size()));

    const std::size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name = line.substr(0, colon);
    std::string_view value = line.substr(std::min(colon + 1, line.size()));
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (name == "event") {
      event.name = value;
    } else if (name == "data") {
      if (!event.has_data) {
        event.data = value;
      } else {
        if (!joined) scratch.assign(event.data);
        joined = true;
        scratch += '\n';
        scratch += value;
      }
      event.has_data = true;
    }
  }
  if (joined) {
    scratch.reserve(scratch.size() + kBodyPadding);
    event.data = scratch;
  }
  return event;
}

}  // namespace classifier
