#include "gateway/answer.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <utility>

#include "gateway/fault_point.h"

namespace gateway {
namespace {

void append_hex(std::string& into, std::size_t number) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
  into.append(digits.data(), end);
}

}  // namespace

void Gather::taken(std::size_t bytes) {
  for (std::string_view* piece : {&front, &body, &back}) {
    const std::size_t here = std::min(bytes, piece->size());
    piece->remove_prefix(here);
    bytes -= here;
  }
}

task<bool> Answer::answer(AnswerHead head, std::string_view body) {
  assert(state_ == State::Nothing);
  // An empty body says nothing about the length that GET would have had.
  const bool length_known = !asked_.head_method || !body.empty();
  begin(std::move(head), length_known ? std::optional<std::uint64_t>{body.size()} : std::nullopt);
  return send_part(body, true);
}

void Answer::begin(AnswerHead head, std::optional<std::uint64_t> length) {
  assert(state_ == State::Nothing);
  assert(head.status >= 200 && head.status <= 999);  // A 1xx that nobody asked for breaks undici.
  state_ = State::Begun;
  head_ = std::move(head);
  framing_ = framing_of(asked_.http11, asked_.head_method, head_.status, length);
  length_ = length;
  left_ = length.value_or(0);
}

task<bool> Answer::send(std::string_view bytes) { return send_part(bytes, false); }
task<bool> Answer::finish(std::string_view last) { return send_part(last, true); }

/// Puts the head together when it leaves, since only then it is known whether the connection is wanted any longer.
void Answer::open(std::string& text) {
  kept_ = asked_.keep_alive && framing_ != Framing::UntilClose && wire_.wants_more();
  const Persistence persistence = !kept_          ? Persistence::Closing
                                  : asked_.http11 ? Persistence::Kept
                                                  : Persistence::KeptIfSaid;
  write_head(text, head_, framing_, length_, persistence);
  head_ = AnswerHead{};  // A long stream need not hold it.
  state_ = State::Running;
}

task<bool> Answer::send_part(std::string_view bytes, bool last) {
  if (state_ != State::Begun && state_ != State::Running) co_return false;
  if (wire_.gone()) {
    state_ = State::Broken;
    co_return false;
  }
  if (length_ && framing_ == Framing::Length) {
    // A receiver that counts must not take our mistake for a whole answer, nor the surplus for the next one.
    if (bytes.size() > left_ || (last && bytes.size() < left_)) {
      abort();
      co_return false;
    }
    left_ -= bytes.size();
  }

  std::string& text = wire_.scratch();
  text.clear();
  if (state_ == State::Begun) open(text);
  Gather pieces{};
  if (framing_ != Framing::NoBody) pieces.body = bytes;
  if (framing_ == Framing::Chunked) {
    if (!bytes.empty()) {
      append_hex(text, bytes.size());
      text.append("\r\n");
      pieces.back = last ? "\r\n0\r\n\r\n" : "\r\n";
    } else if (last) {
      pieces.back = "0\r\n\r\n";
    }
  }
  pieces.front = text;

  bool fine = wire_.write_now(pieces);
  if (fine && pieces.size() > 0) {
    // The scratch is everybody's; what is left of our framing goes along.
    std::string front{pieces.front};
    fine = co_await wire_.write_rest(std::move(front), pieces.body, pieces.back);
  } else if (fine && wire_.turn_is_over()) {
    co_await wire_.yield();
  }
  if (!fine) {
    if (!ended()) state_ = State::Broken;
    co_return false;
  }
  if (framing_ != Framing::NoBody) bytes_sent_ += bytes.size();
  if (last) state_ = State::Whole;
  fault_point(last ? Step::Said : Step::Part);
  co_return true;
}

void Answer::abort() {
  if (ended()) return;
  const bool by_reset = state_ != State::Nothing && state_ != State::Begun && framing_ != Framing::Chunked;
  state_ = State::Aborted;
  head_ = AnswerHead{};
  // A length that is not reached by FIN hangs some clients for ever; a missing last chunk all of them see.
  if (by_reset)
    wire_.reset();
  else
    wire_.end_sending();
}

}  // namespace gateway
