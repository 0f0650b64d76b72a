#include "classifier/event_reader.h"

#include <string>
#include <string_view>
#include <utility>

#include "classifier/error_reader.h"
#include "classifier/frames.h"
#include "classifier/json.h"
#include "classifier/retry_after.h"
#include "classifier/sse.h"

namespace classifier {

namespace {

/// An exception is made what it would have been as an answer of its own: its type stands in the body.
EventText frame_text(const Frame& frame, std::string& scratch) {
  const bool exception = frame.message_type == "exception";
  if (!exception && frame.message_type != "error")
    return {.name = frame.event_type, .data = frame.payload, .has_data = true};
  scratch = "{\"__type\":" + quoted(exception ? frame.exception_type : frame.error_code);
  std::string_view members = exception ? trimmed(frame.payload) : std::string_view{};
  if (members.starts_with('{')) {
    members = trimmed(members.substr(1));
    if (!members.starts_with('}')) scratch += ',';
    scratch += members;
  } else {
    scratch += ",\"message\":" + quoted(exception ? members : frame.error_message) + "}";
  }
  scratch.reserve(scratch.size() + kBodyPadding);
  return {.name = "error", .data = scratch, .has_data = true};
}

class EventReader final : public StreamReader {
 public:
  explicit EventReader(const EventReaderOptions& options)
      : family_(*options.family),
        rules_(options.rules),
        head_(options.head != nullptr ? hint_headers(*options.head) : Headers{}),
        dialect_(*options.dialect),
        error_document_(options.error_document),
        hide_usage_(options.hide_usage),
        choices_(options.choices),
        framing_(options.framing),
        splitter_(options.framing) {}

  void feed(std::string_view bytes) override {
    splitter_.feed(bytes);
    while (const auto block = splitter_.next()) take(*block);
  }

  Verdict finish(std::optional<Transport> transport) override {
    // A cut inside an event leaves none: clients drop what no blank line ended, so it must not count as said either.
    // A clean end may lack that line. An unfinished frame counts for nothing in either case.
    if (const auto block = transport && framing_ != Framing::Frames ? std::nullopt : splitter_.rest()) {
      cut_inside_event_ = block->kind != EventSplitter::Kind::Idle;
      take(*block);
    }
    if (!vague_error_.empty() && !error_) take_error(vague_error_);
    if (error_) return *error_;
    if (terminal_) complete_ = true;
    if (broken_ && !terminal_) {
      return {.cls = Class::MalformedResponse, .retryable = true, .rule = "frame with a wrong checksum or length"};
    }
    const bool ended = terminal_ || reading_.choices.all_ended(choices_);
    if (ended && reading_.refusal) return refused(*reading_.refusal);
    if (ended) return {};
    if (transport) return verdict_of(*transport);
    return {.cls = Class::MalformedResponse,
            .retryable = true,
            .rule = !readable_ ? "stream of no events" : "stream without its end"};
  }

  [[nodiscard]] bool between_events() const override { return splitter_.between_events() && !cut_inside_event_; }
  [[nodiscard]] std::size_t held_bytes() const override { return splitter_.held() + forward_.size() + tail_.size(); }

 private:
  void take(const EventSplitter::Block& block) {
    bool hidden = false;
    if (block.kind == EventSplitter::Kind::Event) {
      hidden = read(block.bytes);
    } else if (block.kind == EventSplitter::Kind::Piece && block.ends) {
      // So large an event is an image or audio, whatever its words are.
      ++events_;
      content_ = true;
      readable_ = true;
    } else if (block.kind == EventSplitter::Kind::Broken) {
      broken_ = true;
    }
    if (!hidden) (terminal_ ? tail_ : forward_) += block.bytes;
  }

  /// Whether the event is one that the caller must not see.
  bool read(std::string_view bytes) {
    const EventText event = text_of(bytes);
    if (!event.has_data) return false;
    ++events_;
    reading_.begin_event();
    const bool whole = balanced(event.data) && family_.read_event(event.name, PaddedJson{event.data}, reading_);
    readable_ = readable_ || whole;
    // SDKs raise on the name alone, whatever its data are.
    if (event.name == "error" && reading_.error.empty()) reading_.error = event.data.empty() ? "{}" : event.data;
    if (reading_.content && whole) content_ = true;
    // A complete stream is over: what comes after it is passed on, and no longer means anything.
    if (!reading_.error.empty() && !complete_ && !error_) hear_error();
    // An end marker behind nothing ends no answer; as long as nothing has gone out, another try may get one.
    if (reading_.terminal && readable_) terminal_ = true;
    if (reading_.complete && readable_ && !error_ && !failing_) complete_ = true;
    // The end marker: no cause will come.
    if (failing_ && reading_.complete && reading_.error.empty()) take_error(vague_error_);
    settle_into(usage_, reading_, reading_.usage_changed ? family_.settle : nullptr);
    return hide_usage_ && reading_.usage_only && !error_;
  }

  EventText text_of(std::string_view bytes) {
    switch (framing_) {
      case Framing::Lines:
        return {.data = trimmed(without_bom(bytes)), .has_data = true};
      case Framing::Frames:
        return frame_text(*read_frame(bytes), scratch_);
      case Framing::Events:
        break;
    }
    return read_event(bytes, scratch_);
  }

  /// One that says only that something went wrong waits for one that says what, or for the end.
  void hear_error() {
    if (!reading_.cause_owed) return take_error(reading_.error);
    if (vague_error_.empty()) vague_error_ = reading_.error;
    failing_ = true;
    terminal_ = true;
  }

  void take_error(const std::string& said_so) {
    failing_ = false;
    error_ = judge_error(rules_, 200, &head_, said_so, std::nullopt);
    error_said_ = said_so;
    SaidError said = said_error(said_so);
    const int inner = read_error(200, nullptr, said_so).status;
    error_status_ = inner >= 400 ? inner : dialect_.status_of(error_->cls);
    said.status = error_status_;
    error_body_ = error_document_(said_so, said);
    // Callers' SDKs raise here and read no further, so this is the end that the ledger must hear of first. Complete
    // it is not: finish() has a verdict to give.
    terminal_ = true;
  }

  const Family& family_;
  RuleSet rules_;
  Headers head_;
  const Dialect& dialect_;
  std::string (*error_document_)(std::string_view event, const SaidError& said);
  bool hide_usage_;
  std::int64_t choices_;
  Framing framing_;
  bool broken_ = false;    // Bytes came that are no frame.
  bool readable_ = false;  // An event came that is one.
  EventSplitter splitter_;
  std::string scratch_{};
  std::string vague_error_{};
  Reading reading_{};
  bool cut_inside_event_ = false;
};

}  // namespace

Verdict refused(Class cls) { return {.cls = cls, .retryable = false, .rule = "refused", .is_answer = true}; }

std::unique_ptr<StreamReader> make_event_reader(const EventReaderOptions& options) {
  return std::make_unique<EventReader>(options);
}

Verdict judge_error(const RuleSet& rules, int status, const Headers* headers, std::string_view body,
                    std::optional<std::chrono::system_clock::time_point> now) {
  const ErrorFacts facts = read_error(status, headers, body);
  bool by_operator = false;
  Verdict verdict = verdict_of(rules, facts, by_operator);
  if (headers != nullptr && !by_operator && !never_retryable(verdict.cls)) {
    if (const auto should = find(*headers, "x-should-retry")) {
      if (same_name(trimmed(*should), "true")) verdict.retryable = true;
      if (same_name(trimmed(*should), "false")) verdict.retryable = false;
    }
  }
  if (verdict.retryable) {
    verdict.retry_after =
        retry_after({.headers = headers, .retry_delay = facts.retry_delay, .text = facts.text, .now = now});
  }
  return verdict;
}

void settle_into(Usage& usage, const Reading& reading, Settle settle) {
  if (settle != nullptr && reading.usage_seen)
    usage.tokens = (reading.settle != nullptr ? reading.settle : settle)(reading.reported);
  usage.tokens_unknown = !usage.tokens && unreadable(reading.reported);
  usage.billed = reading.billed;
  if (usage.model != reading.model) usage.model = reading.model;
  if (usage.finish != reading.finish) usage.finish = reading.finish;
  const auto keep = [](std::string& into, const std::string& text) {
    if (into != text) into = text;
  };
  keep(usage.service_tier, reading.service_tier);
  keep(usage.speed, reading.speed);
  keep(usage.inference_geo, reading.inference_geo);
  keep(usage.stated_usd, reading.stated_usd);
  keep(usage.stated_beside_usd, reading.stated_beside_usd);
}

}  // namespace classifier
