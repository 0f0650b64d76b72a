#pragma once
// How does one answer reach its caller: framed so that he knows its end, and never looks whole when it is not?
//
// Framing only; what a connection can do stands behind Wire (gateway/server.cpp).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/caller.h"
#include "gateway/http_head.h"

namespace gateway {

/// Up to three pieces that leave in one write: our framing around somebody else's bytes.
struct Gather {
  std::string_view front{};
  std::string_view body{};
  std::string_view back{};
  [[nodiscard]] std::size_t size() const { return front.size() + body.size() + back.size(); }
  void taken(std::size_t bytes);
};

class Wire {
 public:
  virtual ~Wire() = default;
  /// Gives the kernel what it takes now, without waiting, and removes that from `pieces`. False: broken.
  virtual bool write_now(Gather& pieces) = 0;
  /// Writes all the rest, waiting as long as the receiver reads at all. False: gone, stalled, or told to stop.
  virtual task<bool> write_rest(std::string front, std::string_view body, std::string_view back) = 0;
  /// So much was written without a wait that others must have their turn.
  [[nodiscard]] virtual bool turn_is_over() const = 0;
  virtual task<void> yield() = 0;
  /// Nobody can be reached any more.
  [[nodiscard]] virtual bool gone() const = 0;
  /// The receiver has closed, though nobody may have been told yet.
  [[nodiscard]] virtual bool has_closed() const = 0;
  /// Ends our direction; what was written still arrives.
  virtual void end_sending() = 0;
  /// Breaks the connection so that the receiver sees it broken.
  virtual void reset() = 0;
  /// Whether further requests are wanted on this connection.
  [[nodiscard]] virtual bool wants_more() const = 0;
  /// Room to put a head together; good until the next suspension.
  virtual std::string& scratch() = 0;
};

class Answer final : public Caller {
 public:
  struct Asked {
    bool http11 = true;
    bool keep_alive = false;
    bool head_method = false;
  };
  Answer(Wire& wire, Asked asked) : wire_(wire), asked_(asked) {}

  task<bool> answer(AnswerHead head, std::string_view body) override;
  void begin(AnswerHead head, std::optional<std::uint64_t> length) override;
  task<bool> send(std::string_view bytes) override;
  task<bool> finish(std::string_view last) override;
  void abort() override;
  [[nodiscard]] bool begun() const override { return state_ != State::Nothing; }
  [[nodiscard]] bool present() override { return !wire_.gone() && !wire_.has_closed(); }
  [[nodiscard]] std::uint64_t bytes_sent() const override { return bytes_sent_; }

  [[nodiscard]] bool ended() const { return state_ == State::Whole || state_ == State::Aborted; }
  /// The next request may be read from this connection.
  [[nodiscard]] bool kept() const { return state_ == State::Whole && kept_; }

 private:
  enum class State : std::uint8_t {
    Nothing,  // begin() or answer() has not been called.
    Begun,    // The head waits for the first bytes.
    Running,
    Broken,  // A write failed half-way; nothing may follow.
    Whole,
    Aborted,
  };
  void open(std::string& text);
  task<bool> send_part(std::string_view bytes, bool last);

  Wire& wire_;
  Asked asked_;
  State state_ = State::Nothing;
  AnswerHead head_{};
  Framing framing_ = Framing::NoBody;
  std::optional<std::uint64_t> length_{};
  std::uint64_t left_ = 0;  // Of length_.
  bool kept_ = false;
  std::uint64_t bytes_sent_ = 0;  // Body alone.
};

}  // namespace gateway
