#include "gateway/spool.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace gateway {
namespace {

constexpr std::uint64_t kAhead = 64 * 1024;    // Of the fastest reader.
constexpr std::uint64_t kTrimmed = 64 * 1024;  // Less is not worth the moving.

}  // namespace

Spool::Spool(Runtime& runtime, Signal& story, std::shared_ptr<SpoolRoom> room, std::uint64_t most)
    : runtime_(runtime), story_(story), room_(std::move(room)), most_(most) {}

Spool::~Spool() { room_->used -= held_; }

task<bool> Spool::answer(AnswerHead head, std::string_view body) {
  assert(state_ == State::Nothing);
  head_ = std::move(head);
  if (!whole_) append(body);
  end_ = base_ + (whole_ ? whole_->body : bytes_).size();
  state_ = State::Answered;
  ring();
  co_return true;
}

void Spool::begin(AnswerHead head, std::optional<std::uint64_t> length) {
  assert(state_ == State::Nothing);
  head_ = std::move(head);
  length_ = length;
  state_ = State::Running;
}

task<bool> Spool::send(std::string_view bytes) {
  assert(state_ == State::Running);
  append(bytes);
  flowing_ = true;
  ring();
  while (!story_.stopped() && !readers_.empty() && end_ - fastest() > kAhead)
    co_await runtime_.wait(story_, TimePoint::max());
  co_return kept_ || !readers_.empty();
}

task<bool> Spool::finish(std::string_view last) {
  assert(state_ == State::Running);
  if (!whole_) append(last);
  end_ = base_ + (whole_ ? whole_->body : bytes_).size();
  flowing_ = true;
  state_ = State::Finished;
  ring();
  co_return true;
}

void Spool::abort() {
  if (state_ == State::Answered || state_ == State::Finished) return;
  state_ = State::Aborted;
  ring();
}

bool Spool::unseen() const {
  bool collected = false;
  for (const Reader* reader : readers_) {
    if (reader->began && !reader->collects) return false;
    collected = collected || (reader->collects && !reader->cut);
  }
  return collected && state_ != State::Answered && state_ != State::Finished;
}

void Spool::begin_anew() {
  assert(unseen());
  state_ = State::Nothing;
  head_ = {};
  length_.reset();
  flowing_ = false;
  kept_ = true;
  bytes_ = {};
  hold(0);
  base_ = end_ = 0;
  for (Reader* reader : readers_) {
    reader->anew = reader->began;
    reader->at = 0;
  }
  ring();
}

void Spool::replay(std::shared_ptr<const ledger::StoredAnswer> answer) {
  assert(state_ == State::Nothing);
  head_.status = answer->status;
  head_.headers = answer->headers;
  const bool stream = answer->stream;
  adopt(std::move(answer));
  end_ = whole_->body.size();
  flowing_ = stream;
  state_ = stream ? State::Finished : State::Answered;
  ring();
}

void Spool::enter(Reader& reader) {
  assert(base_ == 0);
  readers_.push_back(&reader);
}

void Spool::leave(Reader& reader) {
  std::erase(readers_, &reader);
  if (!kept_) trim();
  story_.ring();
}

std::string Spool::take(Reader& reader, std::size_t most) {
  std::string piece{from(reader.at).substr(0, most)};
  reader.at += piece.size();
  if (!kept_) trim();
  story_.ring();
  return piece;
}

std::string_view Spool::rest(const Reader& reader) const {
  assert(state_ == State::Answered || state_ == State::Finished);
  return from(reader.at);
}

void Spool::give_up() {
  kept_ = false;
  trim();
}

void Spool::adopt(std::shared_ptr<const ledger::StoredAnswer> whole) {
  whole_ = std::move(whole);
  bytes_ = std::string{};
  hold(whole_->body.size());
}

void Spool::append(std::string_view bytes) {
  if (kept_ && (end_ + bytes.size() > most_ || room_->used + bytes.size() > room_->most)) kept_ = false;
  bytes_.append(bytes);
  end_ += bytes.size();
  hold(bytes_.size());
  if (!kept_) trim();
}

void Spool::hold(std::uint64_t bytes) {
  room_->used = room_->used - held_ + bytes;
  held_ = bytes;
}

void Spool::trim() {
  // What is whole is read in place.
  if (whole_ || state_ == State::Answered || state_ == State::Finished) return;
  std::uint64_t slowest = end_;
  for (Reader* reader : readers_) {
    if (end_ - reader->at > most_ + kAhead && reader->at < fastest()) {
      if (!std::exchange(reader->cut, true)) reader->bell->ring();
    }
    if (!reader->cut) slowest = std::min(slowest, reader->at);
  }
  const std::uint64_t had = slowest - base_;
  if (had < std::min<std::uint64_t>(kTrimmed, bytes_.size())) return;
  bytes_.erase(0, had);
  base_ = slowest;
  hold(bytes_.size());
}

void Spool::ring() {
  for (Reader* reader : readers_) reader->bell->ring();
}

std::uint64_t Spool::fastest() const {
  std::uint64_t most = base_;
  for (const Reader* reader : readers_) {
    if (!reader->cut) most = std::max(most, reader->at);
  }
  return most;
}

std::string_view Spool::from(std::uint64_t at) const {
  assert(at >= base_);
  const std::string_view all = whole_ ? std::string_view{whole_->body} : std::string_view{bytes_};
  // What was adopted may be ahead of what was said.
  return all.substr(at - base_, end_ - at);
}

}  // namespace gateway
