#pragma once
// Where does one event of a stream end and the next begin? Bytes in at any split, exact byte ranges out.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace classifier {

enum class Framing : std::uint8_t {
  Events,  // Server-sent events, with a blank line behind each.
  Lines,   // One JSON text a line.
  Frames,  // AWS's binary messages (frames.h).
};

/// Cuts a stream into blocks. What it gives back, one after the other, is what was fed in (of frames: as long as they
/// are whole). The cuts are the same at any split of the bytes; so a lone CR at the end of what has come waits for
/// the next byte, which may be its LF.
class EventSplitter {
 public:
  enum class Kind : std::uint8_t {
    Event,   // Lines of an event and the blank line that ends it; or a line that is one.
    Idle,    // A comment or a blank line between events.
    Piece,   // Part of an event that is larger than kEventMax: passed on unread.
    Broken,  // Of frames: a length or checksum is wrong, so nothing from here on can be read. Has no bytes, comes
             // once.
  };
  struct Block {
    Kind kind = Kind::Event;
    std::string_view bytes{};  // Valid until the next feed(); kBodyPadding readable bytes follow.
    bool ends = true;          // Of a Piece: it is the last one of its event.
  };
  static constexpr std::size_t kEventMax = std::size_t{8} << 20U;

  explicit EventSplitter(Framing framing = Framing::Events) : framing_(framing) {}

  void feed(std::string_view bytes);
  /// The next block that is whole; nothing until more bytes come.
  [[nodiscard]] std::optional<Block> next();
  /// No more bytes will come: what is left, nothing if nothing is. Of an unfinished frame nothing is left.
  [[nodiscard]] std::optional<Block> rest();

  /// No event is half-way (and no comment line).
  [[nodiscard]] bool between_events() const { return read_ == buffer_.size() && !in_large_; }
  [[nodiscard]] std::size_t held() const { return buffer_.size() - read_; }

 private:
  [[nodiscard]] Block take(Kind kind, std::size_t end);
  [[nodiscard]] std::size_t line_end(std::string_view text) const;
  [[nodiscard]] std::optional<Block> next_frame();
  [[nodiscard]] std::optional<Block> next_piece_of_frame();
  [[nodiscard]] Block broken();

  Framing framing_;
  std::string buffer_{};
  std::size_t read_ = 0;     // Everything before has been given out.
  std::size_t line_ = 0;     // Where the current line begins.
  std::size_t scanned_ = 0;  // No line end stands between line_ and here.
  bool in_event_ = false;    // A line that is no comment has come since read_.
  bool in_large_ = false;    // Pieces of the current event have been given out.
  bool mid_line_ = false;    // Such a piece ended inside the current line, so it is not blank.
  bool at_start_ = true;     // A byte order mark may come.

  // Of frames only.
  std::size_t frame_left_ = 0;        // Of a large one: bytes that have not been given out.
  std::uint32_t frame_checksum_ = 0;  // Of those that have.
  bool broken_ = false;
};

/// One event, read. The views point into the block, or into `scratch` if there were several data lines.
struct EventText {
  std::string_view name{};
  std::string_view data{};
  bool has_data = false;
};
[[nodiscard]] EventText read_event(std::string_view block, std::string& scratch);

}  // namespace classifier
