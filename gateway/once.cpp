#include "gateway/once.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cassert>
#include <exception>
#include <utility>

#include "gateway/answer_headers.h"
#include "gateway/attempt.h"
#include "gateway/letters.h"

namespace gateway {

using classifier::Class;
using ledger::ClaimAnswer;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using WhenGone = Config::Idempotency::CallerGone;
using Kind = JobKey::Kind;

namespace {

constexpr int kCallerGoneStatus = 499;
constexpr std::size_t kPiece = 64 * 1024;
// A story whose own clock runs out at the same moment says more than we could.
constexpr milliseconds kAfterYou{20};
constexpr milliseconds kStoreRetryAfter{1'000};
constexpr milliseconds kSdkMaySleep{30'000};
constexpr std::string_view kHeader = "Callgate-Idempotency";
constexpr std::string_view kGone = "caller_gone";

microseconds span(TimePoint from, TimePoint to) { return std::chrono::duration_cast<microseconds>(to - from); }

/// What is only true of the call that was paid.
void remove_its_own(classifier::Headers& headers) {
  for (const std::string_view name : {"Callgate-Call-Id",
                                      "Callgate-Attempts",
                                      "Callgate-Queue-Ms",
                                      "Callgate-Waits-Ms",
                                      "Callgate-Budget-Spent",
                                      "Callgate-Idempotency"}) {
    remove(headers, name);
  }
}

bool is_good(int status) { return status >= 200 && status < 300; }

}  // namespace

enum class Once::Left : std::uint8_t {
  Delivered,
  Gone,       // He closed, broke off or stalled.
  Broken,     // The answer ended visibly, for all.
  Late,       // His own deadline passed.
  Cancelled,  // By hand, he alone.
  Cut,        // He reads so slowly that nobody can wait for him.
};

/// One caller, for as long as his request is served.
struct Once::Visitor {
  Visitor(const Call& call, Signal& signal)
      : record(begin_record(call)),
        to(call.to),
        endpoint(call.endpoint),
        user_agent(classifier::find(call.request.headers, "user-agent").value_or(std::string_view{})),
        arrived(call.request.arrived),
        deadline(call.deadline),
        first_content_by(call.first_content_by) {
    reader.bell = &signal;
  }

  CallRecord record;
  std::shared_ptr<const Target> to;
  classifier::Endpoint endpoint;
  std::string user_agent;
  TimePoint arrived;
  TimePoint deadline;
  TimePoint first_content_by;
  Spool::Reader reader{};
  bool head_sent = false;
  bool between_lines = true;  // What he has had ends with an empty line, so that an event may follow.
  bool rowed = false;         // His record is in the ledger.
  bool told_all = false;      // The answer's end has gone out, whether it reached him or not.
};

/// One job: the call that is played for it, or the answer that was there.
struct Once::Story final : Keep {
  Story(Once& house, JobKey job, const Call& call, asio::io_context& io)
      : once(house),
        key(std::move(job)),
        id(call.id),
        body_bytes(call.bytes_in),
        signal(io),
        spool(house.services_.runtime, signal, house.room_, house.options_.max_entry) {}

  ledger::CallEnd outcome(CallRecord& record, const LastWord& last) override;
  /// Of a call that finally failed, should it leave one.
  [[nodiscard]] std::optional<ledger::Letter> letter(const CallRecord& record, const ledger::CallEnd& end,
                                                     std::string_view said) const;
  [[nodiscard]] bool like_key() const { return key.kind != Kind::Undelivered; }
  /// Somebody who comes now may have it.
  [[nodiscard]] bool open() const {
    if (!spool.kept() || (over && !good)) return false;
    return like_key() || (here.empty() && !delivered);
  }

  Once& once;
  const JobKey key;
  const std::string id;  // Of the first caller's call, which is the one that is paid.
  const std::uint64_t body_bytes;
  Signal signal;
  CallersPatience patience{};
  Spool spool;
  std::vector<Visitor*> here{};
  Visitor* owner = nullptr;                // The first, while he is here.
  std::optional<LiveCalls::Entry> live{};  // The call's, whether he is or not.
  std::optional<LetterMaker> letters{};    // Until its call is over.
  std::shared_ptr<RunHold> run{};          // Whose run it is played for, if anybody's.

  std::string_view how{};  // "recovered"
  bool beside = false;     // The claim is another story's.
  bool claimed = false;
  /// What the store could not be asked; where it is claimed, too, what was handed over ahead, so that nobody knows
  /// whether the store took it.
  std::optional<ledger::ClaimAsk> unclaimed{};
  bool ended = false;   // The claim's outcome is the ledger's business.
  bool paid = false;    // It is played; the first caller's record is the story's.
  bool replay = false;  // It was stored.
  bool stored = false;  // The store has its answer.
  bool good = false;    // A complete success.
  bool over = false;
  bool delivered = false;
  bool owner_was_late = false;
  bool lonely = false;          // Counted as such.
  std::uint64_t owner_had = 0;  // Bytes of the answer that reached the first caller.
  std::optional<TimePoint> lingers_until{};
  TimePoint expires{};                        // Of a leftover.
  std::shared_ptr<Story> dying{};             // Its claim comes first.
  std::vector<std::weak_ptr<Story>> heirs{};  // Those who wait for ours.

  // What came of it.
  Outcome result = Outcome::Failed;
  Class cls = Class::Internal;
  int status = 500;
  std::string_view reason = "bug";
  std::optional<budget::NanoUsd> cost{};
  std::string origin{};
  std::optional<CallRecord> record{};  // Of the paid call, until it is told.
  std::optional<CallRecord> orphan{};  // Of a first caller who left before it was known whether there is one.
};

ledger::CallEnd Once::Story::outcome(CallRecord& ending, const LastWord& last) {
  if (ending.outcome == Outcome::Cancelled && ending.reason == kGone && owner_was_late) {
    // He was told so at his deadline; that the call lingered behind it changes nothing for him.
    ending.outcome = Outcome::Failed;
    ending.cls = Class::Timeout;
    ending.status = 504;
    ending.reason = budget::name_of(budget::GaveUp::DeadlineTooClose);
  }
  const bool answer = last.how == LastWord::How::Answer;
  const int said = answer ? last.head.status : spool.head().status;
  good = ending.outcome == Outcome::Answered && is_good(said) && (answer || last.how == LastWord::How::Finish);
  const bool nobody = here.empty();
  bool keep = false;
  if (good) {
    const std::uint64_t size = (answer ? 0 : spool.bytes_sent()) + last.bytes.size();
    if (size > spool.most()) spool.give_up();
    keep = spool.kept();
    if (!keep) once.count("too_large");
  }
  std::shared_ptr<ledger::StoredAnswer> whole;
  if (keep) {
    whole = std::make_shared<ledger::StoredAnswer>();
    whole->status = said;
    whole->headers = answer ? last.head.headers : spool.head().headers;
    remove_its_own(whole->headers);
    whole->stream = !answer && !spool.length();
    whole->call_id = id;
    whole->cost = ending.cost;
    whole->body = answer ? std::string{} : spool.hand_over();
    whole->body += last.bytes;
    spool.adopt(whole);
    stored = claimed && (like_key() || nobody);
  }
  if (stored) {
    if (ending.once.empty()) ending.once = "stored";
    if (nobody) ending.reason = kGone;
    once.count("stored");
  } else if (claimed && like_key()) {
    once.count("released");
  }
  result = ending.outcome;
  cls = ending.cls;
  status = ending.status;
  reason = ending.reason;
  cost = ending.cost;
  origin = id;
  ledger::CallEnd all;
  if (run) {
    std::shared_ptr<ledger::StoredAnswer> told = whole;
    if (!told && answer) {
      told = std::make_shared<ledger::StoredAnswer>();
      told->status = said;
      told->headers = last.head.headers;
      remove_its_own(told->headers);
      told->call_id = id;
      told->cost = ending.cost;
      told->body = last.bytes;
    }
    // An answer that is not kept here is being read along: then its reader ends the run, once he has all of it.
    if (told || !good) {
      all.run = run->end(ending, std::move(told));
    }
  }
  if (std::optional<ledger::Letter> dead =
          letter(ending, all, answer ? std::string_view{last.bytes} : std::string_view{});
      dead || good) {
    if (dead && once.doors_.died) once.doors_.died(ending);
    all.letter = ledger::LetterOutcome{key.scope, key.shown, std::move(dead)};
  }
  // Whatever threw up to here, its worker ends it.
  if (all.run) run->ended = true;
  // What could not be claimed is kept in memory, and stored for a later process.
  const bool store_later = !claimed && unclaimed && whole && like_key();
  if (!claimed && !store_later) return all;
  ended = true;
  ledger::OnceOutcome& end = all.once.emplace();
  end.scope = key.scope;
  end.call_id = id;
  if (stored || store_later) end.answer = std::move(whole);
  end.give_once = stored && !like_key();
  end.unclaimed = unclaimed;
  return all;
}

std::optional<ledger::Letter> Once::Story::letter(const CallRecord& ending, const ledger::CallEnd& end,
                                                  std::string_view said) const {
  if (!letters) return std::nullopt;
  // Whether a run has died is for its end to say.
  const bool dead = end.run ? end.run->state == ledger::RunState::Dead || end.run->state == ledger::RunState::Failed
                            : leaves_letter(ending);
  if (!dead) return std::nullopt;
  ledger::Letter letter = letters->make(ending, said);
  if (run) letter.run = run->id;
  return letter;
}

Once::Once(Services services, LiveCalls& live, Doors doors)
    : services_(services), live_(live), doors_(std::move(doors)) {}

Once::~Once() {
  // What is still asleep goes with the io_context, after the list that it stands in.
  for (Story* story : playing_) story->live.reset();
  for (const auto& [scope, story] : index_) story->live.reset();
}

void Once::configure(const Config::Idempotency& options, bool refuse_without_store) {
  options_ = options;
  refuse_without_store_ = refuse_without_store;
  room_->most = options.max_bytes;
  bound_leftovers();
}

Once::Figures Once::figures() const { return {playing_.size(), lonely_, room_->used + lonely_bytes_}; }

void Once::drain() {
  draining_ = true;
  for (Story* story : playing_) story->signal.drain();
}

void Once::stop_all() {
  draining_ = stopping_ = true;
  for (Story* story : playing_) story->signal.stop(StopReason::Shutdown);
}

// ---- A call comes ----

Once::Met Once::meet(const JobKey& key, bool fresh) {
  Met met;
  std::vector<std::shared_ptr<Story>> stale;
  const auto [from, to] = index_.equal_range(key.scope);
  for (auto at = from; at != to; ++at) {
    const std::shared_ptr<Story>& story = at->second;
    if (story->key.fingerprint != key.fingerprint) {
      met.other_body = true;
    } else if (!story->over && story->signal.stopped()) {
      met.dying = story;
    } else if (story->over && fresh && story->open()) {
      stale.push_back(story);
    } else if (story->open()) {
      if (!met.story) met.story = story;
    } else if (!story->over) {
      met.beside = true;
    }
  }
  for (const std::shared_ptr<Story>& story : stale) {
    if (story->here.empty()) forget(story);
  }
  // A claim that is another's way of being under way is not waited for.
  if (met.dying && key.kind == Kind::Undelivered) met.beside = true;
  return met;
}

std::shared_ptr<Once::Story> Once::begin(const Call& call, JobKey key, const Met& met, Signal& signal) {
  bound_leftovers();
  auto story = std::make_shared<Story>(*this, std::move(key), call, signal.io());
  story->beside = met.beside;
  if (!met.beside && met.dying) {
    story->dying = met.dying;
    met.dying->heirs.push_back(story);
  }
  if (draining_ || signal.draining()) story->signal.drain();
  if (stopping_) story->signal.stop(StopReason::Shutdown);
  LiveCall live;
  live.id = call.id;
  live.tenant = call.tenant;
  live.run_id = call.run_id;
  live.route = call.route->name;
  live.model = call.facts.model;
  live.lane = call.lane;
  live.since = call.request.arrived;
  live.signal = &story->signal;
  story->live.emplace(live_, std::move(live));
  playing_.insert(story.get());
  index_.emplace(story->key.scope, story);
  return story;
}

task<void> Once::serve(Call call, JobKey key, Caller& caller, Signal& signal) {
  if (!bell_) bell_.emplace(signal.io());
  Visitor visitor{call, signal};
  visitor.reader.collects = caller.unseen();
  visitor.record.began = services_.runtime.wall_now();
  Met met = meet(key, call.fresh);
  if (met.other_body) {
    count("mismatch");
    classifier::OwnError error;
    error.status = 422;
    error.cls = Class::LocalRequest;
    error.code = "callgate_key_reused";
    error.message =
        "this Idempotency-Key is in use for a call with another body or other version headers; a key is "
        "for one request alone";
    visitor.record.outcome = Outcome::Refused;
    visitor.record.reason = "key_reused";
    co_await own_words(visitor, std::move(error), true, caller);
    visitor.record.bytes_out = caller.bytes_sent();
    doors_.ended(std::move(visitor.record));
    co_return;
  }

  std::optional<LiveCalls::Entry> live;
  std::shared_ptr<Story> story = std::move(met.story);
  if (story) {
    LiveCall entry;
    entry.id = call.id;
    entry.tenant = call.tenant;
    entry.run_id = call.run_id;
    entry.route = call.route->name;
    entry.model = call.facts.model;
    entry.lane = call.lane;
    entry.since = call.request.arrived;
    entry.signal = &signal;
    live.emplace(live_, std::move(entry));
    call = Call{};  // Its body is the same as the other's.
    arrive(*story, visitor);
  } else {
    story = begin(call, std::move(key), met, signal);
    story->owner = &visitor;
    arrive(*story, visitor);
    asio::co_spawn(signal.io(), play(story, std::move(call)), asio::detached);
  }
  Left left = Left::Broken;
  try {
    left = co_await follow(*story, visitor, caller, signal);
    co_await part(*story, visitor, left, caller);
  } catch (const std::exception& bug) {
    visitor.record.bug = bug.what();
    if (caller.begun()) caller.abort();
  }
  const bool told_as_the_storys = is_the_storys(*story, visitor);
  depart(story, visitor, left, caller);
  if (told_as_the_storys) co_return;
  visitor.record.bytes_out = caller.bytes_sent();
  if (!visitor.rowed) co_await end_record(visitor);
  visitor.record.duration = span(visitor.arrived, services_.runtime.now());
  if (!visitor.record.once.empty() && visitor.record.outcome != Outcome::Refused) count(visitor.record.once);
  doors_.ended(std::move(visitor.record));
}

void Once::arrive(Story& story, Visitor& visitor) {
  story.spool.enter(visitor.reader);
  story.here.push_back(&visitor);
  linger_no_more(story);
  story.patience = {TimePoint::min(), TimePoint::min()};
  for (const Visitor* one : story.here) {
    story.patience.deadline = std::max(story.patience.deadline, one->deadline);
    story.patience.first_content_by = std::max(story.patience.first_content_by, one->first_content_by);
  }
}

// ---- The story is played ----

task<void> Once::play(std::shared_ptr<Story> story, Call call) {
  try {
    while (story->dying && !story->dying->over && !story->signal.stopped())
      co_await services_.runtime.wait(story->signal, TimePoint::max());
    story->dying.reset();
    const bool go = co_await claim(*story, call);
    if (go) {
      story->paid = true;
      call.keep = story.get();
      call.patience = &story->patience;
      call.live = &**story->live;
      call.once = story->how;
      story->letters.emplace(call);
      if (call.run) {
        story->run = std::exchange(call.run, nullptr);
        story->run->playing = true;
      }
      CallRecord record = co_await run_call(std::move(call), services_, story->spool, story->signal);
      story->record = std::move(record);
    } else if (story->orphan) {
      story->orphan->commit_late = !co_await services_.ledger.end(*story->orphan, {});
      doors_.ended(std::move(*story->orphan));
      story->orphan.reset();
    }
  } catch (const std::exception&) {
    // The callers' own records tell of it; the claim ends by its lease.
  }
  over(story);
}

/// True: it is to be played; else the spool has what there is to say.
task<bool> Once::claim(Story& story, const Call& call) {
  if (story.beside || story.signal.stopped()) co_return true;
  ledger::ClaimAsk ask;
  ask.scope = story.key.scope;
  ask.fingerprint = story.key.fingerprint;
  ask.key = story.key.shown;
  ask.tenant = call.tenant;
  ask.call_id = call.id;
  ask.lease = options_.lease;
  ask.rerun = story.key.kind == Kind::Undelivered || call.fresh ||
              options_.on_unknown == Config::Idempotency::OnUnknown::Rerun;
  // Who would rather fail than pay twice is not served without knowing.
  const bool served_blind = ask.rerun && !refuse_without_store_;
  bool forgot = false;
  for (;;) {
    ask.now = services_.runtime.wall_now();
    ClaimAnswer answer;
    answer.kind = ClaimAnswer::Kind::NoStore;
    try {
      if (served_blind && services_.ledger.claim_ahead(ask)) {
        story.claimed = true;
        story.unclaimed = std::move(ask);
        co_return true;
      }
      answer = co_await services_.ledger.claim(ask);
    } catch (const std::exception&) {
      // As if there were none; the call's own row will say whether it is so.
    }
    const bool may_forget = call.fresh && !forgot;
    switch (answer.kind) {
      case ClaimAnswer::Kind::Ours:
        story.claimed = true;
        co_return true;
      case ClaimAnswer::Kind::Stored:
        if (may_forget) break;
        story.replay = story.good = true;
        story.stored = story.like_key();
        story.result = Outcome::Answered;
        story.cls = Class::None;
        story.status = answer.answer->status;
        story.reason = {};
        story.cost = answer.answer->cost;
        story.origin = answer.answer->call_id;
        story.spool.replay(std::move(answer.answer));
        co_return false;
      case ClaimAnswer::Kind::Unknown:
        if (!ask.rerun) break;
        story.claimed = true;
        story.how = "recovered";
        count("recovered");
        co_return true;
      case ClaimAnswer::Kind::OtherBody:
      case ClaimAnswer::Kind::Held:
        break;
      case ClaimAnswer::Kind::NoStore:
        if (!served_blind) break;
        // What could be read of it says that it may have been paid.
        if (!answer.call_id.empty()) {
          story.how = "recovered";
          count("recovered");
        }
        story.unclaimed = std::move(ask);
        co_return true;
    }
    if (may_forget && answer.kind == ClaimAnswer::Kind::Stored) {
      services_.ledger.forget_claim(ask.scope, answer.call_id);
      forgot = true;
      continue;
    }

    classifier::OwnError error;
    if (answer.kind == ClaimAnswer::Kind::OtherBody) {
      count("mismatch");
      error.status = 422;
      error.cls = Class::LocalRequest;
      error.code = "callgate_key_reused";
      error.message = "this Idempotency-Key was used for call " + answer.call_id +
                      ", which had another body or other version headers; a key is for one request alone";
      co_await say_no(story, call, std::move(error), "key_reused", std::nullopt);
    } else if (answer.kind == ClaimAnswer::Kind::Unknown) {
      error.status = 502;
      error.cls = Class::Crash;
      error.code = "callgate_outcome_unknown";
      error.message =
          "how call " + answer.call_id +
          " with this key ended is not known, or its answer was not kept, so it may have been paid; it is "
          "not made again (idempotency.on_unknown: fail). With Callgate-Fresh: true it is";
      co_await say_no(story, call, std::move(error), "outcome_unknown", std::nullopt);
    } else if (answer.kind == ClaimAnswer::Kind::Held) {
      const auto left = std::chrono::ceil<milliseconds>(answer.until - ask.now);
      error.status = 503;
      error.cls = Class::LocalLimit;
      error.code = "callgate_key_held";
      error.message =
          "call " + answer.call_id + " with this key is under way elsewhere, or its claim is not over yet";
      co_await say_no(story, call, std::move(error), "key_held", std::max(left, milliseconds{1}));
    } else {
      error.status = 503;
      error.cls = Class::LocalMemory;
      error.code = "callgate_store_unavailable";
      error.message = "the store cannot say whether this job was done already (store.on_failure: refuse)";
      co_await say_no(story, call, std::move(error), "store_unavailable", kStoreRetryAfter);
    }
    co_return false;
  }
}

task<void> Once::say_no(Story& story, const Call& call, classifier::OwnError error, std::string_view reason,
                        std::optional<milliseconds> wait) {
  story.result = Outcome::Refused;
  story.cls = error.cls;
  story.status = error.status;
  story.reason = reason;
  error.call_id = call.id;
  CallRecord record = begin_record(call);
  OwnAnswer answer = own_answer(*call.to->dialect, error);
  add_our_headers(answer.head.headers, record, 0, error.cls, "callgate");
  const ComeBack come_back{
      .retryable = wait.has_value(), .wait = wait, .sdk_may_retry = wait && *wait <= kSdkMaySleep};
  set_come_back(answer.head.headers,
                come_back,
                classifier::find(call.request.headers, "user-agent").value_or(std::string_view{}));
  co_await story.spool.answer(std::move(answer.head), answer.body);
}

void Once::over(const std::shared_ptr<Story>& story) {
  story->over = true;
  story->letters.reset();
  if (const auto run = std::exchange(story->run, nullptr)) {
    run->playing = false;
    if (run->bell) run->bell->ring();
  }
  playing_.erase(story.get());
  // A bug kept it from its end; nobody is to wait for it.
  if (story->claimed && !story->ended) services_.ledger.forget_claim(story->key.scope, story->id);
  linger_no_more(*story);
  // Nothing was said: whoever is here hears that.
  story->spool.abort();
  // Should the store have lost it, memory must do.
  if (story->record && story->record->commit_late && story->like_key()) story->stored = false;
  for (const std::weak_ptr<Story>& heir : story->heirs) {
    if (const auto one = heir.lock()) one->signal.ring();
  }
  if (story->owner && story->live)
    (**story->live).signal = story->owner->reader.bell;
  else
    story->live.reset();
  tell(*story);
  if (!story->good || !story->spool.kept() || story->stored) {
    forget(story);
  } else if (story->here.empty()) {
    keep_leftover(story);
  }
}

/// The first caller's record is told when both are over, the story and his reading.
void Once::tell(Story& story) {
  if (!story.record || story.owner || !story.over) return;
  story.record->bytes_out = story.owner_had;
  doors_.ended(std::move(*story.record));
  story.record.reset();
}

// ---- A caller reads along ----

task<Once::Left> Once::follow(Story& story, Visitor& visitor, Caller& caller, Signal& signal) {
  using State = Spool::State;
  Spool& spool = story.spool;
  Spool::Reader& reader = visitor.reader;
  for (;;) {
    if (signal.draining() && !story.over && !story.signal.draining()) story.signal.drain();
    if (const auto why = signal.stopped()) {
      if (*why != StopReason::Shutdown) co_return *why == StopReason::Cancelled ? Left::Cancelled : Left::Gone;
      // Its own last words say more than ours.
      if (!story.over) story.signal.stop(*why);
    }
    if (reader.cut) co_return Left::Cut;
    if (std::exchange(reader.anew, false)) {
      caller.begin_anew();
      reader.began = visitor.head_sent = false;
      visitor.between_lines = true;
    }
    const bool last =
        spool.state() == State::Answered || (spool.state() == State::Finished && spool.left(reader) <= kPiece);
    if (last) {
      const Left left = co_await last_words(story, visitor, caller, signal);
      co_return left;
    }
    if (spool.flowing() && (!visitor.head_sent || spool.left(reader) > 0)) {
      if (!visitor.head_sent) {
        AnswerHead head = dress(story, visitor);
        caller.begin(std::move(head), spool.length());
      }
      reader.began = visitor.head_sent = true;
      const std::string piece = spool.take(reader, kPiece);
      if (!piece.empty()) visitor.between_lines = piece.ends_with("\n\n") || piece.ends_with("\r\n\r\n");
      if (!co_await caller.send(piece)) {
        co_return signal.stopped() == StopReason::Cancelled ? Left::Cancelled : Left::Gone;
      }
      continue;
    }
    if (spool.state() == State::Aborted) co_return Left::Broken;
    TimePoint until = visitor.head_sent ? visitor.deadline : std::min(visitor.deadline, visitor.first_content_by);
    if (until != TimePoint::max()) until += kAfterYou;
    if (services_.runtime.now() >= until) co_return Left::Late;
    co_await services_.runtime.wait(signal, until);
  }
}

task<Once::Left> Once::last_words(Story& story, Visitor& visitor, Caller& caller, Signal& signal) {
  // His answer's end waits for his row, as everybody's does. The first caller's is the story's.
  if (!(story.paid && story.owner == &visitor)) {
    CallRecord& record = visitor.record;
    record.outcome = story.result;
    record.cls = story.cls;
    record.status = story.status;
    record.reason = story.reason;
    if (story.paid || story.replay) {
      record.once = story.replay ? "replayed" : "joined";
      record.origin = story.origin;
      if (story.result == Outcome::Answered) record.saved = story.cost;
    }
    co_await end_record(visitor);
  }
  const bool here = (!signal.stopped() || signal.stopped() == StopReason::Shutdown) && caller.present();
  bool taken = false;
  visitor.told_all = true;
  const std::string_view rest = story.spool.rest(visitor.reader);
  if (story.spool.state() == Spool::State::Answered) {
    AnswerHead head = dress(story, visitor);
    visitor.head_sent = true;
    taken = co_await caller.answer(std::move(head), rest);
  } else {
    if (!visitor.head_sent) {
      AnswerHead head = dress(story, visitor);
      caller.begin(std::move(head), story.spool.length());
      visitor.head_sent = true;
    }
    taken = co_await caller.finish(rest);
  }
  co_return taken&& here ? Left::Delivered : Left::Gone;
}

AnswerHead Once::dress(const Story& story, const Visitor& visitor) const {
  AnswerHead head = story.spool.head();
  const bool answered = story.spool.state() == Spool::State::Answered;
  if (story.paid && story.owner == &visitor) {
    if (!story.how.empty()) {
      set(head.headers, kHeader, std::string{story.how});
    } else if (story.like_key() && (answered ? story.stored : story.claimed && is_good(head.status))) {
      // Of a stream it is a promise, which an answer that breaks off or grows too large does not hold.
      set(head.headers, kHeader, "stored");
    }
    return head;
  }
  const bool ours = !story.paid && !story.replay;
  remove_its_own(head.headers);
  head.headers.push_back({"Callgate-Call-Id", visitor.record.id});
  // It is not paid again; whoever adds the headers up must come to the truth.
  if (classifier::find(head.headers, "callgate-cost-usd")) set(head.headers, "Callgate-Cost-Usd", "0");
  head.headers.push_back({"Callgate-Attempts", "0"});
  head.headers.push_back({"Callgate-Queue-Ms", "0"});
  if (!ours) head.headers.push_back({std::string{kHeader}, story.replay ? "replayed" : "joined"});
  return head;
}

/// The first caller's record is that of the call, once there is one; whether there is, the claim says.
bool Once::is_the_storys(const Story& story, const Visitor& visitor) {
  return story.owner == &visitor && (story.paid || !story.over);
}

/// His last words where the story's are not his, and his record where it is his own.
task<void> Once::part(Story& story, Visitor& visitor, Left left, Caller& caller) {
  CallRecord& record = visitor.record;
  const bool own_record = !is_the_storys(story, visitor);
  const bool begun = caller.begun();
  if (own_record && !visitor.rowed && left != Left::Delivered && story.paid && !story.replay) {
    record.once = "joined";
    record.origin = story.id;
  }
  classifier::OwnError error;
  error.call_id = record.id;
  switch (left) {
    case Left::Delivered:
      co_return;
    case Left::Gone:
      if (!visitor.rowed) {
        record.outcome = Outcome::Cancelled;
        record.cls = Class::Cancelled;
        record.status = kCallerGoneStatus;
        record.reason = kGone;
        if (own_record) co_await end_record(visitor);
      }
      if (begun && !visitor.told_all) caller.abort();
      co_return;
    case Left::Broken:
      record.outcome = story.result;
      record.cls = story.cls;
      record.status = story.status;
      record.reason = story.reason;
      error.status = 500;
      error.cls = story.cls;
      error.code = "callgate_internal";
      error.message = "the call ended without an answer";
      break;
    case Left::Late:
      if (story.owner == &visitor) story.owner_was_late = true;
      record.outcome = Outcome::Failed;
      record.cls = error.cls = Class::Timeout;
      record.status = begun ? 200 : 504;
      record.reason = budget::name_of(budget::GaveUp::DeadlineTooClose);
      error.status = 504;
      error.code = "callgate_timeout";
      error.message = visitor.deadline <= visitor.first_content_by || begun
                          ? "the caller's deadline passed"
                          : "the caller's SDK would not have waited any longer (its timeout, less a margin)";
      break;
    case Left::Cancelled:
      record.outcome = Outcome::Cancelled;
      record.cls = error.cls = Class::Cancelled;
      record.status = begun ? 200 : 503;
      record.reason = "cancelled";
      error.status = 503;
      error.code = "callgate_cancelled";
      error.message = "the call was cancelled by an operator";
      break;
    case Left::Cut:
      record.outcome = Outcome::Cancelled;
      record.cls = error.cls = Class::Cancelled;
      record.status = 200;
      record.reason = "too_slow";
      error.status = 502;
      error.code = "callgate_stream_broken";
      error.message = "this caller read so much more slowly than others of the same call that it was cut off";
      break;
  }
  if (begun) {
    if (own_record && !visitor.rowed) co_await end_record(visitor);
    if (left != Left::Broken && visitor.between_lines && caller.begun()) {
      error.message = "The answer broke off before its end: " + error.message;
      error.code = "callgate_stream_broken";
      const std::string event = visitor.to->dialect->error_event(visitor.endpoint, error);
      if (!event.empty() && !story.spool.length()) co_await caller.send(event);
    }
    caller.abort();
    co_return;
  }
  co_await own_words(visitor, std::move(error), own_record, caller);
}

/// An error of our own as the whole answer.
task<void> Once::own_words(Visitor& visitor, classifier::OwnError error, bool own_record, Caller& caller) {
  CallRecord& record = visitor.record;
  error.call_id = record.id;
  record.cls = error.cls;
  record.status = error.status;
  OwnAnswer answer = own_answer(*visitor.to->dialect, error);
  add_our_headers(answer.head.headers, record, 0, error.cls, "callgate");
  ComeBack come_back;
  come_back.retryable = error.cls == Class::Timeout;
  set_come_back(answer.head.headers, come_back, visitor.user_agent);
  if (own_record && !visitor.rowed) co_await end_record(visitor);
  co_await caller.answer(std::move(answer.head), answer.body);
}

task<void> Once::end_record(Visitor& visitor) {
  CallRecord& record = visitor.record;
  visitor.rowed = true;
  record.ended = services_.runtime.wall_now();
  record.duration = span(visitor.arrived, services_.runtime.now());
  try {
    record.commit_late = !co_await services_.ledger.end(record, {});
  } catch (const std::exception& bug) {
    record.bug = bug.what();
    record.commit_late = true;
  }
}

// ---- A caller has gone ----

void Once::depart(const std::shared_ptr<Story>& story, Visitor& visitor, Left left, Caller& caller) {
  story->spool.leave(visitor.reader);
  std::erase(story->here, &visitor);
  if (left == Left::Delivered) {
    story->delivered = true;
    // What was put by for one has reached him.
    if (!story->like_key() && story->good) {
      if (story->replay || story->stored) services_.ledger.forget_claim(story->key.scope, story->origin);
      if (story->owner != &visitor || story->replay) count("given_once");
    }
  }
  const bool first = story->owner == &visitor;
  if (first) {
    story->owner = nullptr;
    story->owner_had = caller.bytes_sent();
    if (story->record) {
      if (left == Left::Delivered) story->record->duration = span(visitor.arrived, services_.runtime.now());
    } else if (!story->over && !story->paid) {
      story->orphan = visitor.record;
    }
    if (story->over) story->live.reset();
  }
  if (story->here.empty()) {
    alone(story, left);
  } else if (!story->over) {
    story->patience = {TimePoint::min(), TimePoint::min()};
    for (const Visitor* one : story->here) {
      story->patience.deadline = std::max(story->patience.deadline, one->deadline);
      story->patience.first_content_by = std::max(story->patience.first_content_by, one->first_content_by);
    }
  }
  if (first) tell(*story);
}

void Once::alone(const std::shared_ptr<Story>& story, Left left) {
  if (story->over) {
    const bool leftover = story->good && story->spool.kept() && !story->stored;
    if (leftover && (story->like_key() || !story->delivered))
      keep_leftover(story);
    else
      forget(story);
    return;
  }
  // Nobody's clock cuts it any more, but its own lingering.
  story->patience = {};
  if (left == Left::Cancelled) return story->signal.stop(StopReason::Cancelled);
  const bool room = room_->used + lonely_bytes_ + story->body_bytes <= options_.max_bytes;
  if (options_.on_caller_gone == WhenGone::Cancel || !story->spool.kept() || !room || story->delivered)
    return story->signal.stop(StopReason::CallerGone);
  linger(story);
}

void Once::linger(const std::shared_ptr<Story>& story) {
  story->lonely = true;
  ++lonely_;
  lonely_bytes_ += story->body_bytes;
  if (options_.on_caller_gone == WhenGone::Finish) return;
  story->lingers_until = services_.runtime.now() + options_.linger;
  lingering_.emplace(*story->lingers_until, story);
  wake();
}

void Once::linger_no_more(Story& story) {
  story.lingers_until.reset();
  if (!std::exchange(story.lonely, false)) return;
  --lonely_;
  lonely_bytes_ -= story.body_bytes;
}

// ---- What nobody got ----

void Once::forget(const std::shared_ptr<Story>& story) {
  const auto [from, to] = index_.equal_range(story->key.scope);
  const auto at = std::find_if(from, to, [&](const auto& entry) { return entry.second == story; });
  const std::shared_ptr<Story> held = story;  // The argument may be what is erased.
  if (at != to) index_.erase(at);
  const auto leftover = std::ranges::find(leftovers_, held);
  if (leftover == leftovers_.end()) return;
  leftover_bytes_ -= held->spool.held();
  leftovers_.erase(leftover);
}

void Once::keep_leftover(const std::shared_ptr<Story>& story) {
  if (std::ranges::find(leftovers_, story) == leftovers_.end()) {
    story->expires = services_.runtime.now() + options_.ttl;
    leftovers_.push_back(story);
    leftover_bytes_ += story->spool.held();
  }
  bound_leftovers();
  wake();
}

/// They may have half of the room; the other half is for what is under way.
void Once::bound_leftovers() {
  for (auto at = leftovers_.begin(); at != leftovers_.end() && leftover_bytes_ > options_.max_bytes / 2;) {
    const std::shared_ptr<Story> oldest = *at++;
    if (oldest->here.empty()) forget(oldest);
  }
}

void Once::wake() {
  if (watching_) return bell_->ring();
  watching_ = true;
  asio::co_spawn(bell_->io(), watch(), asio::detached);
}

/// Ends what has lingered for long enough, and forgets what nobody came for.
task<void> Once::watch() {
  for (;;) {
    const TimePoint now = services_.runtime.now();
    TimePoint next = TimePoint::max();
    while (!lingering_.empty()) {
      const auto [until, who] = *lingering_.begin();
      const std::shared_ptr<Story> story = who.lock();
      const bool meant = story && story->lingers_until == until;
      if (meant && until > now) {
        next = until;
        break;
      }
      lingering_.erase(lingering_.begin());
      if (meant) {
        linger_no_more(*story);
        story->signal.stop(StopReason::CallerGone);
      }
    }
    for (auto at = leftovers_.begin(); at != leftovers_.end();) {
      const std::shared_ptr<Story> oldest = *at++;
      if (oldest->expires > now) {
        next = std::min(next, oldest->expires);
        break;
      }
      if (oldest->here.empty()) forget(oldest);
    }
    if (next == TimePoint::max()) break;
    co_await services_.runtime.wait(*bell_, next);
  }
  watching_ = false;
}

}  // namespace gateway
