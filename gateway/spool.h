#pragma once
// How do several callers read one answer? What the story says is kept from its beginning, with a cursor for each.
//
//   what         rule
//   -----------  --------------------------------------------------------------------------------------------------
//   pace         the fastest reader's: the story waits while he is more than 64 KiB behind; with no reader it does
//                not wait, since what it says is kept
//   kept         from the beginning, so that whoever comes later misses nothing, up to `most` bytes and as long as
//                the house has room
//   beyond that  neither kept nor open to others: what all readers have had is dropped, and a reader who is so far
//                behind the fastest that this would hold `most` bytes is cut off

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/caller.h"
#include "gateway/services.h"
#include "ledger/records.h"

namespace gateway {

/// What all spools together hold, in bytes, and may.
struct SpoolRoom {
  std::uint64_t used = 0;
  std::uint64_t most = 0;
};

/// I/O thread only. As a Caller it is the story's; it never fails a story for which somebody may still come.
class Spool final : public Caller {
 public:
  enum class State : std::uint8_t {
    Nothing,
    Running,   // head() is there, and bytes may be.
    Answered,  // The whole answer is there.
    Finished,  // So is the end of one that was begun.
    Aborted,
  };
  /// One caller's place in it.
  struct Reader {
    Signal* bell = nullptr;  // Rung when there is something to look at.
    std::uint64_t at = 0;    // Bytes that he has had.
    bool cut = false;        // He will never see the rest.
    bool collects = false;   // He shows nothing of it before it is whole (Caller::unseen()).
    bool began = false;      // He has had its head.
    bool anew = false;       // What he has had does not count any more.
  };

  Spool(Runtime& runtime, Signal& story, std::shared_ptr<SpoolRoom> room, std::uint64_t most);
  ~Spool() override;
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // What the story says.
  task<bool> answer(AnswerHead head, std::string_view body) override;
  void begin(AnswerHead head, std::optional<std::uint64_t> length) override;
  task<bool> send(std::string_view bytes) override;
  task<bool> finish(std::string_view last) override;
  void abort() override;
  [[nodiscard]] bool begun() const override { return state_ != State::Nothing; }
  [[nodiscard]] std::uint64_t bytes_sent() const override { return end_; }
  /// Somebody collects it, and whoever else is here has had nothing yet.
  [[nodiscard]] bool unseen() const override;
  void begin_anew() override;
  /// All at once, as it was stored.
  void replay(std::shared_ptr<const ledger::StoredAnswer> answer);

  // Who listens. From the beginning, so only while it is kept.
  void enter(Reader& reader);
  void leave(Reader& reader);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const AnswerHead& head() const { return head_; }
  [[nodiscard]] std::optional<std::uint64_t> length() const { return length_; }
  /// The head may leave.
  [[nodiscard]] bool flowing() const { return flowing_; }
  [[nodiscard]] std::uint64_t left(const Reader& reader) const { return end_ - reader.at; }
  /// The next bytes, at most so many, which he has had then.
  std::string take(Reader& reader, std::size_t most);
  /// All the rest, of an answer that is whole; good as long as the spool is.
  [[nodiscard]] std::string_view rest(const Reader& reader) const;

  // What is kept.
  [[nodiscard]] bool kept() const { return kept_; }
  [[nodiscard]] std::uint64_t most() const { return most_; }
  [[nodiscard]] std::uint64_t held() const { return held_; }
  void give_up();
  /// The bytes so far, out of our hands; followed by adopt() at once.
  [[nodiscard]] std::string hand_over() { return std::move(bytes_); }
  /// The same bytes and those that are still to be said, which are not read before that.
  void adopt(std::shared_ptr<const ledger::StoredAnswer> whole);

 private:
  void append(std::string_view bytes);
  void hold(std::uint64_t bytes);
  void trim();
  void ring();
  [[nodiscard]] std::uint64_t fastest() const;
  [[nodiscard]] std::string_view from(std::uint64_t at) const;

  Runtime& runtime_;
  Signal& story_;
  std::shared_ptr<SpoolRoom> room_;
  const std::uint64_t most_;
  State state_ = State::Nothing;
  AnswerHead head_{};
  std::optional<std::uint64_t> length_{};
  bool flowing_ = false;
  bool kept_ = true;
  std::string bytes_{};  // From base_ on; or, once that is there, …
  std::shared_ptr<const ledger::StoredAnswer> whole_{};
  std::uint64_t base_ = 0;  // Bytes that were dropped.
  std::uint64_t end_ = 0;   // Bytes that were said.
  std::uint64_t held_ = 0;  // Of room_.
  std::vector<Reader*> readers_{};
};

}  // namespace gateway
