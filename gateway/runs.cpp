#include "gateway/runs.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <exception>
#include <utility>

#include "gateway/awaited.h"
#include "gateway/cause.h"
#include "gateway/digest.h"
#include "gateway/kept_request.h"

namespace gateway {

using classifier::Class;
using ledger::RunOutcome;
using ledger::RunState;
using std::chrono::milliseconds;
using Level = Config::Log::Level;

/// Of all answers together that runs under way have got so far.
struct CollectingRoom {
  std::uint64_t used = 0;
  std::uint64_t most = 64ULL * 1024 * 1024;
};

namespace {

constexpr int kMostCrashes = 3;
constexpr milliseconds kLook{5'000};
constexpr milliseconds kReadPatience{5'000};
constexpr milliseconds kTakePatience{5'000};
constexpr milliseconds kRest{1'000};          // Until a store that could not be asked is asked again.
constexpr milliseconds kCancelPatience{300};  // Others may read along; the run does not wait for them.
constexpr std::uint64_t kAnswerEntries = 4;   // An answer may have so many times idempotency.max_entry.
constexpr std::chrono::minutes kTakenBackFor{60};
constexpr std::size_t kMostTakenBack = 10'000;
constexpr std::size_t kTellAtOnce = 4;
constexpr milliseconds kTellPatience{20'000};
constexpr std::size_t kDueAtOnce = 64;
constexpr int kReadsShare = 3;  // Windows take no more than a quarter of the reader's time.

WallTime moment(std::int64_t ms) { return WallTime{milliseconds{ms}}; }
std::int64_t ms_of(WallTime when) { return std::chrono::floor<milliseconds>(when).time_since_epoch().count(); }

/// Keeps the answer of a run, as far as one may be kept.
class Collector final : public Caller {
 public:
  Collector(std::shared_ptr<CollectingRoom> room, std::uint64_t most) : room_(std::move(room)), most_(most) {}
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  ~Collector() override { room_->used -= held_; }
  task<bool> answer(AnswerHead head, std::string_view body) override {
    head_ = std::move(head);
    whole_ = add(body);
    co_return whole_;
  }
  void begin(AnswerHead head, std::optional<std::uint64_t> length) override {
    head_ = std::move(head);
    stream_ = !length;
    begun_ = true;
  }
  task<bool> send(std::string_view bytes) override { co_return add(bytes); }
  task<bool> finish(std::string_view last) override {
    whole_ = add(last);
    co_return whole_;
  }
  void abort() override {}
  [[nodiscard]] bool begun() const override { return begun_; }
  [[nodiscard]] std::uint64_t bytes_sent() const override { return held_; }
  /// Nobody sees an answer before it is whole.
  [[nodiscard]] bool unseen() const override { return true; }
  void begin_anew() override {
    body_ = {};
    room_->used -= std::exchange(held_, 0);
    begun_ = stream_ = false;
  }

  /// Why it is not kept; empty: it is.
  [[nodiscard]] const std::string& too_large() const { return too_large_; }
  /// Null: it did not come to its end.
  [[nodiscard]] std::shared_ptr<const ledger::StoredAnswer> stored(const CallRecord& record) {
    if (!whole_) return nullptr;
    auto answer = std::make_shared<ledger::StoredAnswer>();
    answer->status = head_.status;
    answer->headers = head_.headers;
    answer->stream = stream_;
    answer->call_id = record.id;
    answer->cost = record.cost;
    answer->body = std::move(body_);
    return answer;
  }

 private:
  bool add(std::string_view bytes) {
    if (!too_large_.empty()) return false;
    if (held_ + bytes.size() > most_) {
      too_large_ = "its answer is larger than " + std::to_string(most_) +
                   " bytes (four times idempotency.max_entry), and is not kept";
    } else if (room_->used + bytes.size() > room_->most) {
      too_large_ = "the answers of all runs under way were larger than " + std::to_string(room_->most) +
                   " bytes (a quarter of limits.buffered_bytes), and its own is not kept";
    } else {
      body_ += bytes;
      held_ += bytes.size();
      room_->used += bytes.size();
      return true;
    }
    body_ = {};
    room_->used -= std::exchange(held_, 0);
    return false;
  }
  std::shared_ptr<CollectingRoom> room_;
  std::uint64_t most_;
  std::uint64_t held_ = 0;  // Counted in the room.
  AnswerHead head_{};
  std::string body_{};
  bool stream_ = false;
  bool begun_ = false;
  bool whole_ = false;
  std::string too_large_{};
};

/// A run that is retried ends once more: its receiver must not take that for a repetition.
std::string message_of(const ledger::WebhookRow& row) { return row.run + "-" + std::to_string(row.fence); }

/// What stands behind it may be a secret of the receiver's.
std::string origin_of(const std::string& url) {
  const std::size_t scheme = url.find("://");
  if (scheme == url.npos) return {};
  return url.substr(0, url.find_first_of("/?#", scheme + 3));
}

budget::RetryPolicy retry_of(const QueueContract& contract, const Config& config, milliseconds left) {
  budget::RetryPolicy policy;
  policy.attempts = contract.retry.max_attempts;
  policy.base = contract.retry.base;
  policy.cap = contract.retry.cap;
  policy.longest_wait = contract.retry.max_elapsed;
  policy.max_elapsed = std::max(left, milliseconds{1});
  policy.on_timeout = config.retry.on_timeout;
  for (const Class cls : contract.retry.never) policy.never |= budget::bit_of(cls);
  return policy;
}

}  // namespace

std::string webhook_key(const ledger::WebhookRow& row) { return "webhook:" + message_of(row); }

struct Runs::Making {
  Making(asio::io_context& io, ledger::WaitingRun waiting) : run(std::move(waiting)), signal(io) {}
  ledger::WaitingRun run;
  Signal signal;
  RunTerms terms{};                   // Its fence is 0 until it is taken.
  bool cancelled = false;             // By hand.
  bool lost = false;                  // Another has it.
  bool over = false;                  // It has ended for good, as far as is known here.
  std::optional<RunOutcome> ended{};  // What its call's end has told the ledger.
};

struct Runs::Pending {
  std::vector<ledger::RunsPending> runs{};
  std::vector<ledger::LettersPending> letters{};
  bool read = false;
};

Runs::Runs(Runtime& runtime, asio::io_context& io, ledger::Store& store, Upstream& upstream, Metrics& metrics,
           Log& log, Doors doors)
    : runtime_(runtime),
      io_(io),
      store_(store),
      upstream_(upstream),
      metrics_(metrics),
      log_(log),
      doors_(std::move(doors)),
      room_(std::make_shared<CollectingRoom>()),
      work_bell_(io),
      renew_bell_(io),
      look_bell_(io),
      tell_bell_(io) {}

Runs::~Runs() = default;

void Runs::configure(std::shared_ptr<const Config> config, WebhookSecrets secrets, std::uint64_t answers_bytes) {
  config_ = std::move(config);
  room_->most = answers_bytes;
  secrets_ = std::move(secrets);
  auto options = std::make_shared<WebhookOptions>();
  options->allow_hosts = config_->webhooks.allow_hosts;
  options->allow_private_hosts = config_->webhooks.allow_private_hosts;
  webhooks_ = std::move(options);
  shelf_.configure(config_->runs.enabled ? config_->runs.concurrent : 0, [config = config_](std::string_view queue) {
    return contract_of(*config, queue).concurrency.max;
  });
  shelf_.touch_all();
  work_bell_.ring();
}

void Runs::start() {
  if (std::exchange(started_, true)) return;
  asio::co_spawn(io_, look(), asio::detached);
  asio::co_spawn(io_, work(), asio::detached);
  asio::co_spawn(io_, renew(), asio::detached);
  asio::co_spawn(io_, tell(), asio::detached);
}

void Runs::drain() {
  draining_ = true;
  for (const auto& [id, one] : making_) one->signal.drain();
  // The next process tells it again; by its id a receiver knows it.
  for (const auto& [id, signal] : telling_) signal->stop(StopReason::Shutdown);
  work_bell_.ring();
  look_bell_.ring();
  tell_bell_.ring();
}

void Runs::stop_all() {
  draining_ = true;
  for (const auto& [id, one] : making_) one->signal.stop(StopReason::Shutdown);
  for (const auto& [id, signal] : telling_) signal->stop(StopReason::Shutdown);
}

void Runs::touched(const std::string& queue) {
  shelf_.touch(queue);
  work_bell_.ring();
}

bool Runs::cancel(const std::string& id) {
  // Its end may be on its way already, as queued again, or its taking: whoever takes it next must know.
  const TimePoint now = runtime_.now();
  if (taken_back_.size() >= kMostTakenBack)
    std::erase_if(taken_back_, [&](const auto& one) { return now - one.second > kTakenBackFor; });
  if (taken_back_.size() < kMostTakenBack) taken_back_[id] = now;
  const auto found = making_.find(id);
  if (found == making_.end()) return false;
  found->second->cancelled = true;
  found->second->signal.stop(StopReason::Cancelled);
  return true;
}

void Runs::tell_news() {
  ++news_;
  for (Signal* one : waiting_) one->ring();
}

task<void> Runs::wait_for_news(std::uint64_t known, TimePoint until, Signal& signal) {
  // By name: a guard in the frame keeps the set right whichever way the frame ends.
  struct Place {
    std::set<Signal*>& all;
    Signal* one;
    ~Place() { all.erase(one); }
  } place{waiting_, &signal};
  waiting_.insert(&signal);
  while (news_ == known && !signal.stopped() && !signal.draining() && runtime_.now() < until)
    co_await runtime_.wait(signal, until);
}

void Runs::pause(const std::string& queue, TimePoint until) {
  shelf_.pause(queue, until);
  tell_pauses();
  work_bell_.ring();
}

void Runs::tell_pauses() {
  std::vector<std::string> names;
  for (const auto& [name, until] : shelf_.pauses(runtime_.now())) names.push_back(name);
  metrics_.paused(names);
}

std::vector<QueueState> Runs::queues() const {
  std::map<std::string, QueueState> all;
  for (const ledger::RunsPending& one : pending_)
    all[one.queue] = {one.queue, one.waiting, one.scheduled, one.running, {}};
  for (const auto& [name, until] : shelf_.pauses(runtime_.now())) {
    all[name].name = name;
    all[name].paused_until = until;
  }
  std::vector<QueueState> listed;
  for (auto& [name, queue] : all) listed.push_back(std::move(queue));
  return listed;
}

bool Runs::resume(const std::string& queue) {
  const bool was = shelf_.resume(queue);
  tell_pauses();
  work_bell_.ring();
  return was;
}

bool Runs::knows_queue(std::string_view queue) const {
  return shelf_.knows(queue) || std::ranges::binary_search(config_->queues, queue, {}, &QueueContract::name);
}

void Runs::died(const CallRecord& record) { metrics_.letter_written(record.queue, record.cls); }

void Runs::say(Level level, std::string_view event, std::string_view message, Log::Fields fields) {
  log_.line(level, event, message, fields, runtime_.wall_now());
}

TimePoint Runs::at(WallTime when) const {
  // By spans, since what is far away does not fit.
  const auto away = std::chrono::floor<milliseconds>(when - runtime_.wall_now());
  return runtime_.now() + std::clamp<milliseconds>(away, milliseconds{0}, std::chrono::hours{24 * 365});
}

// ---- What waits ----

task<void> Runs::work() {
  while (!draining_) {
    const TimePoint now = runtime_.now();
    if (now >= next_at_) {
      next_at_ = TimePoint::max();
      shelf_.touch_all();
    }
    const bool may = now >= rests_until_;
    while (may) {
      std::optional<ledger::WaitingRun> next = shelf_.next(now);
      if (!next) break;
      auto one = std::make_shared<Making>(io_, std::move(*next));
      making_[one->run.id] = one;
      asio::co_spawn(io_, make(std::move(one)), asio::detached);
    }
    std::vector<std::string> queues;
    if (may && now >= reads_after_) queues = shelf_.to_read(now);
    if (!queues.empty()) {
      if (!co_await read_windows(std::move(queues))) rests_until_ = runtime_.now() + kRest;
      continue;
    }
    TimePoint until = next_at_;
    if (now < rests_until_) until = std::min(until, rests_until_);
    if (const auto reads = shelf_.reads_at(now))
      until = std::min(until, std::max({*reads, rests_until_, reads_after_}));
    if (const auto resumes = shelf_.resumes_at(now)) until = std::min(until, *resumes);
    co_await runtime_.wait(work_bell_, until);
  }
}

task<bool> Runs::read_windows(std::vector<std::string> queues) {
  struct Windows {
    std::map<std::string, std::vector<ledger::WaitingRun>> by_queue{};
    std::optional<std::int64_t> next_ms{};
    bool read = true;
  };
  auto awaited = std::make_shared<Awaited<Windows>>(io_);
  auto tell = Awaited<Windows>::teller(awaited);
  const std::int64_t now_ms = ms_of(runtime_.wall_now());
  const TimePoint asked = runtime_.now();
  shelf_.reading(queues);
  store_.read([queues = std::move(queues), now_ms, tell = std::move(tell)](ledger::Books& books) mutable {
    Windows windows;
    for (const std::string& queue : queues) {
      auto waiting = books.waiting_runs(queue, now_ms, {}, RunShelf::kWindow);
      if (waiting)
        windows.by_queue[queue] = std::move(*waiting);
      else
        windows.read = false;
    }
    if (const auto next = books.next_run_at(now_ms)) windows.next_ms = *next;
    tell(std::move(windows));
  });
  std::optional<Windows> windows = co_await Awaited<Windows>::told(awaited, runtime_, asked + kReadPatience);
  reads_after_ = runtime_.now() + kReadsShare * (runtime_.now() - asked);
  if (!windows || !windows->read) shelf_.touch_all();
  if (!windows) co_return false;
  for (auto& [queue, waiting] : windows->by_queue) shelf_.put(queue, std::move(waiting), asked);
  next_at_ = windows->next_ms ? at(moment(*windows->next_ms)) + milliseconds{1} : TimePoint::max();
  co_return windows->read;
}

task<void> Runs::look() {
  while (!draining_) {
    co_await read_pending();
    tell_pauses();
    // What was missed, such as what a sweep has queued again.
    shelf_.touch_all();
    work_bell_.ring();
    co_await runtime_.wait(look_bell_, runtime_.now() + kLook);
  }
}

task<void> Runs::read_pending() {
  auto awaited = std::make_shared<Awaited<Pending>>(io_);
  auto tell = Awaited<Pending>::teller(awaited);
  const std::int64_t now_ms = ms_of(runtime_.wall_now());
  store_.read([now_ms, tell = std::move(tell)](ledger::Books& books) mutable {
    Pending pending;
    auto runs = books.runs_pending(now_ms);
    auto letters = books.letters_pending();
    pending.read = runs && letters;
    if (pending.read) {
      pending.runs = std::move(*runs);
      pending.letters = std::move(*letters);
    }
    tell(std::move(pending));
  });
  const std::optional<Pending> pending =
      co_await Awaited<Pending>::told(awaited, runtime_, runtime_.now() + kReadPatience);
  if (!pending || !pending->read) co_return;
  std::vector<std::string> queues;
  for (const ledger::RunsPending& one : pending->runs) {
    if (!shelf_.knows(one.queue)) shelf_.touch(one.queue);
    queues.push_back(one.queue);
  }
  shelf_.keep_only(queues);
  metrics_.pending(pending->runs, pending->letters, runtime_.wall_now());
  pending_ = pending->runs;
}

// ---- Leases ----

task<void> Runs::renew() {
  using Lost = std::vector<std::string>;
  while (true) {
    const milliseconds lease = config_->runs.lease;
    co_await runtime_.wait(renew_bell_, runtime_.now() + lease / 3);
    std::vector<std::pair<std::string, std::int64_t>> held;
    for (const auto& [id, one] : making_) {
      if (one->terms.fence != 0 && !one->lost) held.emplace_back(id, one->terms.fence);
    }
    if (held.empty()) continue;
    auto awaited = std::make_shared<Awaited<Lost>>(io_);
    store_.renew_runs(std::move(held), lease, Awaited<Lost>::teller(awaited));
    const std::optional<Lost> lost = co_await Awaited<Lost>::told(awaited, runtime_, runtime_.now() + lease / 3);
    if (!lost) continue;
    for (const std::string& id : *lost) {
      const auto found = making_.find(id);
      // One whose end is on its way is not held any more either.
      if (found == making_.end() || found->second->ended) continue;
      found->second->lost = true;
      found->second->signal.stop(StopReason::CallerGone);
      say(Level::Warn, "run_lost", "a run's lease was over, and another has it or it has ended", {{"run", id}});
    }
  }
}

// ---- One run ----

task<void> Runs::make(std::shared_ptr<Making> one) {
  try {
    co_await make_it(*one);
  } catch (const std::exception& bug) {
    say(Level::Error, "bug", bug.what(), {{"run", one->run.id}});
    rests_until_ = runtime_.now() + kRest;
  }
  if (one->over) forget_cancel(one->run.id);
  making_.erase(one->run.id);
  shelf_.done(one->run.id);
  tell_news();
  work_bell_.ring();
  if (one->terms.told) tell_bell_.ring();
}

task<void> Runs::make_it(Making& one) {
  const std::shared_ptr<const Config> config = config_;
  const QueueContract& contract = contract_of(*config, one.run.queue);
  auto awaited = std::make_shared<Awaited<ledger::TakenRun>>(io_);
  // Should it be taken after all, it is given back.
  awaited->if_late([this](const ledger::TakenRun& late) {
    if (!late.taken) return;
    RunTerms terms;
    terms.id = late.run.id;
    terms.fence = late.fence;
    const WallTime now = runtime_.wall_now();
    RunOutcome outcome = taken_back_.erase(terms.id) > 0 ? run_cancelled(terms, now)
                                                         : run_given_back(terms, "the store was slow", now);
    store_.end_run(std::move(outcome), std::nullopt, [](bool) {});
  });
  store_.take_run(one.run.id, config->runs.lease, Awaited<ledger::TakenRun>::teller(awaited));
  std::optional<ledger::TakenRun> taken =
      co_await Awaited<ledger::TakenRun>::told(awaited, runtime_, runtime_.now() + kTakePatience);
  if (!taken || !taken->taken) {
    // It was cancelled meanwhile, or the store is in trouble.
    if (!taken || !store_.figures().trouble.empty()) rests_until_ = runtime_.now() + kRest;
    co_return;
  }
  const WallTime now = runtime_.wall_now();
  const ledger::NewRun& run = taken->run;
  RunTerms& terms = one.terms;
  terms.id = run.id;
  terms.tenant = run.tenant;
  terms.queue = run.queue;
  terms.run_id = run.run_id;
  terms.fence = taken->fence;
  terms.told = !run.webhook.empty();
  const WallTime first = taken->started_ms > 0 ? std::min(moment(taken->started_ms), now) : now;
  terms.give_up_at = first + contract.retry.max_elapsed;
  if (run.deadline_ms) terms.deadline = moment(*run.deadline_ms);

  // Named, since g++ 12 destroys an aggregate temporary beside a co_await twice.
  std::optional<RunOutcome> without;
  Class cls = Class::None;
  if (one.cancelled || taken_back_.contains(run.id)) {
    cls = Class::Cancelled;
    without = run_cancelled(terms, now);
  } else if (one.signal.stopped() || draining_) {
    without = run_given_back(terms, "callgate was shutting down", now);
  } else if (taken->crashes >= kMostCrashes) {
    say(Level::Error,
        "run_crashed",
        "a run was under way each of three times that this process ended without a word; it is not begun again",
        {{"run", run.id}, {"tenant", run.tenant}, {"queue", run.queue}, {"starts", taken->starts - 1}});
    cls = Class::Crash;
    without = run_dead(terms, cls, "it was under way at the end of three processes that crashed", now);
  } else if (terms.deadline && *terms.deadline <= now) {
    cls = Class::Timeout;
    without = run_dead(terms, cls, "its deadline passed before it was begun", now);
  } else if (!run.request) {
    cls = Class::Internal;
    without = run_dead(terms, cls, taken->why, now);
  }
  if (without) {
    one.over = ledger::is_over(without->state);
    co_await end(terms, std::move(*without), run, cls);
  } else {
    const std::int64_t since = std::max(run.created_ms, run.not_before_ms);
    if (taken->starts == 1)
      metrics_.run_began(run.queue, std::max(milliseconds{ms_of(now) - since}, milliseconds{0}));
    co_await play(one, std::move(*taken), contract);
  }
}

task<void> Runs::play(Making& one, ledger::TakenRun taken, const QueueContract& contract) {
  const ledger::NewRun& run = taken.run;
  const RunTerms terms = one.terms;
  const WallTime began = runtime_.wall_now();
  Errand errand;
  errand.tenant = run.tenant;
  errand.run_id = run.run_id.empty() ? run.id : run.run_id;
  errand.queue = run.queue;
  errand.labels = run.labels;
  const auto lane = budget::lane_named(run.lane);
  errand.lane = lane.value_or(budget::Lane::Bulk);
  errand.request = run.request;
  errand.scope = run.scope;
  errand.key = run.key.empty() ? "run:" + run.id : run.key;
  if (terms.deadline) errand.deadline = at(*terms.deadline);
  errand.retry = retry_of(contract, *config_, std::chrono::floor<milliseconds>(terms.give_up_at - began));
  errand.version = run.version;

  auto collector = std::make_shared<Collector>(room_, kAnswerEntries * config_->idempotency.max_entry);
  auto hold = std::make_shared<RunHold>();
  hold->id = run.id;
  hold->fence = terms.fence;
  hold->bell = &one.signal;
  // Its call may outlive it, where others read along.
  const std::weak_ptr<Making> maybe = making_.at(run.id);
  hold->end = [this, terms, maybe, collector](
                  const CallRecord& record, std::shared_ptr<const ledger::StoredAnswer> answer) {
    const std::shared_ptr<Making> mine = maybe.lock();
    const WallTime now = runtime_.wall_now();
    const RunMoment then{.now = now, .roll = runtime_.roll(), .cancelled = mine && mine->cancelled};
    RunOutcome outcome = !collector->too_large().empty() && !then.cancelled
                             ? run_dead(terms, Class::TooLarge, collector->too_large(), now)
                             : end_of_run(terms, record, std::move(answer), then);
    if (mine) mine->ended = outcome;
    return outcome;
  };
  errand.run = hold;

  // However this ends, the call that lives on has nobody to ring for.
  struct Bell {
    RunHold& hold;
    ~Bell() { hold.bell = nullptr; }
  } bell{*hold};
  const auto done = co_await doors_.play(std::move(errand), *collector, one.signal);
  const TimePoint patience = runtime_.now() + kCancelPatience;
  while (hold->playing && !one.ended) {
    const bool leaving = one.cancelled || one.lost;
    if (leaving && runtime_.now() >= patience) break;
    co_await runtime_.wait(one.signal, leaving ? patience : TimePoint::max());
  }
  const WallTime now = runtime_.wall_now();
  if (one.ended) {
    one.over = ledger::is_over(one.ended->state);
    count_end(*one.ended, run);
    co_return;
  }
  if (one.lost) co_return;
  const RunMoment then{.now = now, .roll = runtime_.roll(), .cancelled = one.cancelled};
  RunOutcome outcome;
  Class cls = Class::Cancelled;
  if (hold->playing) {
    outcome = run_cancelled(terms, now);
  } else if (!done) {
    // What was right when it was accepted is not any more: its upstream, its tenant or its credential is gone.
    cls = Class::LocalRequest;
    outcome = run_dead(terms, cls, done.error().message, now);
  } else if (!collector->too_large().empty() && !one.cancelled) {
    cls = Class::TooLarge;
    outcome = run_dead(terms, cls, collector->too_large(), now);
  } else {
    outcome = end_of_run(terms, *done, collector->stored(*done), then);
    // Where it was too late before there was a call, the call does not know of it.
    cls = outcome.state == RunState::Dead && done->cls == Class::Cancelled ? Class::Timeout : done->cls;
  }
  one.over = ledger::is_over(outcome.state);
  co_await end(terms, std::move(outcome), run, cls);
}

task<void> Runs::end(const RunTerms& terms, RunOutcome outcome, const ledger::NewRun& run, Class cls) {
  std::optional<ledger::LetterOutcome> letter;
  if (outcome.state == RunState::Dead || outcome.state == RunState::Failed) {
    letter = letter_of(run, outcome, cls);
    CallRecord record;
    record.queue = run.queue;
    record.cls = cls;
    died(record);
  } else if (outcome.state == RunState::Succeeded) {
    letter = ledger::LetterOutcome{run.scope, run.key, std::nullopt};
  }
  const RunOutcome counted = outcome;
  auto awaited = std::make_shared<Awaited<bool>>(io_);
  store_.end_run(std::move(outcome), std::move(letter), Awaited<bool>::teller(awaited));
  const std::optional<bool> ended = co_await Awaited<bool>::told(awaited, runtime_, runtime_.now() + kTakePatience);
  if (ended == true) {
    count_end(counted, run);
  } else {
    // Its lease is not renewed any more: it is queued again when that is over.
    say(Level::Warn, "run_end_refused", "the end of a run could not be written", {{"run", terms.id}});
    rests_until_ = runtime_.now() + kRest;
  }
}

void Runs::count_end(const RunOutcome& outcome, const ledger::NewRun& run) {
  metrics_.run_ended(run.queue, outcome.state, outcome.cls);
  if (!ledger::is_over(outcome.state)) return;
  metrics_.run_took(run.queue, milliseconds{std::max<std::int64_t>(ms_of(runtime_.wall_now()) - run.created_ms, 0)});
}

ledger::LetterOutcome Runs::letter_of(const ledger::NewRun& run, const RunOutcome& outcome, Class cls) const {
  const Cause cause = cause_of({.queue = run.queue,
                                .cls = cls,
                                .message = outcome.why,
                                .model = run.model,
                                .body = run.request ? std::string_view{run.request->body} : std::string_view{}});
  const QueueContract& contract = contract_of(*config_, run.queue);
  ledger::Letter letter;
  letter.group = cause.group;
  letter.cause = cause.text;
  letter.advice = cause.advice;
  letter.request = run.request;
  letter.run = run.id;
  letter.version = run.version;
  letter.retention = contract.dead_letter.retention;
  letter.form = contract.dead_letter.payload;
  return {run.scope, run.key.empty() ? "run:" + run.id : run.key, std::move(letter)};
}

// ---- Webhooks ----

task<void> Runs::tell() {
  struct Due {
    ledger::WebhookRow row{};
    std::int64_t first_ms = 0;
  };
  while (!draining_) {
    co_await runtime_.wait(tell_bell_, runtime_.now() + kLook / 5);
    if (draining_ || secrets_.empty() || telling_.size() >= kTellAtOnce) continue;
    auto awaited = std::make_shared<Awaited<std::vector<Due>>>(io_);
    auto tell = Awaited<std::vector<Due>>::teller(awaited);
    const std::int64_t now_ms = ms_of(runtime_.wall_now());
    store_.read([now_ms, tell = std::move(tell)](ledger::Books& books) mutable {
      std::vector<Due> due;
      if (auto rows = books.webhooks_due(now_ms, kDueAtOnce)) {
        for (ledger::WebhookRow& row : *rows) {
          std::int64_t first_ms = row.next_ms;
          if (const auto run = books.run(row.run, {}); run && *run && (*run)->ended_ms) first_ms = *(*run)->ended_ms;
          due.push_back({std::move(row), first_ms});
        }
      }
      tell(std::move(due));
    });
    std::optional<std::vector<Due>> due =
        co_await Awaited<std::vector<Due>>::told(awaited, runtime_, runtime_.now() + kReadPatience);
    if (!due || draining_) continue;
    for (Due& one : *due) {
      if (telling_.size() >= kTellAtOnce) break;
      if (telling_.contains(one.row.run)) continue;
      telling_[one.row.run] = std::make_unique<Signal>(io_);
      asio::co_spawn(io_, tell_one(std::move(one.row), moment(one.first_ms)), asio::detached);
    }
  }
}

task<void> Runs::tell_one(ledger::WebhookRow row, WallTime first) {
  const std::string run = row.run;
  // Whatever is thrown: a drain waits until nothing is told any more.
  struct Place {
    Runs& runs;
    const std::string& run;
    ~Place() {
      runs.telling_.erase(run);
      runs.tell_bell_.ring();
    }
  } place{*this, run};
  try {
    co_await tell_it(std::move(row), first, *telling_.at(run));
  } catch (const std::exception& bug) {
    say(Level::Error, "bug", bug.what(), {{"run", run}});
  }
}

task<WebhookResult> Runs::send(ledger::WebhookRow row, Signal& signal) {
  const std::string run = row.run;
  WebhookResult result;
  if (!row.unreadable.empty() || row.body.empty()) {
    result.telling = WebhookResult::Telling::GiveUp;
    result.cls = Class::Internal;
    result.why =
        "what is to be told cannot be read: " + (row.unreadable.empty() ? "it was not kept" : row.unreadable);
    co_return result;
  }
  Webhook webhook;
  webhook.url = row.url;
  webhook.body = row.body;
  webhook.options = webhooks_;
  const WallTime wall = runtime_.wall_now();
  try {
    webhook.headers = webhook_headers(secrets_, message_of(row), ms_of(wall) / 1'000, row.body);
    result = co_await send_webhook(upstream_, std::move(webhook), wall, runtime_.now() + kTellPatience, signal);
    if (doors_.told) doors_.told(row, result, wall);
  } catch (const std::exception& bug) {
    say(Level::Error, "bug", bug.what(), {{"run", run}});
    result.cls = Class::Internal;
    result.why = "callgate failed inside";
  }
  co_return result;
}

task<void> Runs::tell_it(ledger::WebhookRow row, WallTime first, Signal& signal) {
  using Telling = WebhookResult::Telling;
  WebhookResult result = co_await send(row, signal);
  if (result.telling == Telling::Stopped) co_return;
  ledger::Store::Telling how = ledger::Store::Telling::Told;
  std::optional<WallTime> next;
  if (result.telling == Telling::Again) {
    next = next_try({.attempts = row.attempts + 1, .first = first, .retry_after = result.retry_after},
                    runtime_.wall_now(),
                    runtime_.roll());
  }
  if (next) {
    how = ledger::Store::Telling::Again;
    row.next_ms = ms_of(*next);
  } else if (result.telling != Telling::Told) {
    how = ledger::Store::Telling::Dead;
  }
  co_await told(std::move(row), how, std::move(result));
}

task<void> Runs::told(ledger::WebhookRow row, ledger::Store::Telling how, WebhookResult result) {
  row.attempts += 1;
  row.cls = classifier::name_of(result.cls);
  row.status = result.status;
  Digest digest;
  digest.add("webhook");
  digest.add(message_of(row));
  std::optional<ledger::LetterOutcome> letter;
  if (how != ledger::Store::Telling::Again) letter = ledger::LetterOutcome{digest.end(), webhook_key(row), {}};
  if (how == ledger::Store::Telling::Dead) {
    const Cause cause = cause_of(
        {.queue = row.queue, .cls = result.cls, .code = ledger::kWebhook, .message = result.why, .body = row.body});
    ledger::Letter dead;
    dead.group = cause.group;
    dead.cause = cause.text;
    dead.advice = cause.advice;
    if (!row.body.empty()) {
      auto request = std::make_shared<ledger::KeptRequest>();
      request->method = "POST";
      request->target = origin_of(row.url);
      request->headers = {{"Content-Type", "application/json"}};
      request->body = row.body;
      dead.request = std::move(request);
    }
    dead.run = row.run;
    const QueueContract& contract = contract_of(*config_, row.queue);
    dead.retention = contract.dead_letter.retention;
    dead.form = contract.dead_letter.payload;
    letter->letter = std::move(dead);
    say(Level::Warn,
        "webhook_dead",
        "the end of a run could not be told; it has a dead letter",
        {{"run", row.run}, {"class", row.cls}, {"why", result.why}});
    CallRecord record;
    record.queue = row.queue;
    record.cls = result.cls;
    died(record);
  }
  metrics_.webhook(how);
  auto awaited = std::make_shared<Awaited<ledger::Written>>(io_);
  store_.webhook_ended(std::move(row), how, std::move(letter), Awaited<ledger::Written>::teller(awaited));
  (void)co_await Awaited<ledger::Written>::told(awaited, runtime_, runtime_.now() + kTakePatience);
}

task<std::expected<WebhookResult, std::string>> Runs::retell(ledger::LetterLine letter, std::string body,
                                                             Signal& signal) {
  using Found = ledger::Books::Answer<std::optional<ledger::WebhookRow>>;
  if (secrets_.empty()) co_return std::unexpected{std::string{"not_configured"}};
  auto awaited = std::make_shared<Awaited<Found>>(io_);
  auto tell = Awaited<Found>::teller(awaited);
  store_.read(
      [run = letter.run, tell = std::move(tell)](ledger::Books& books) mutable { tell(books.untold_webhook(run)); });
  const std::optional<Found> found = co_await Awaited<Found>::told(awaited, runtime_, runtime_.now() + kReadPatience);
  if (!found || !*found) co_return std::unexpected{std::string{"the store cannot be read"}};
  // After a retry of its run there is another end, and this one is news to nobody.
  if (!**found || webhook_key(***found) != letter.key) co_return std::unexpected{std::string{"told_anew"}};
  ledger::WebhookRow row = ***found;
  row.body = std::move(body);
  WebhookResult result = co_await send(row, signal);
  if (result.telling == WebhookResult::Telling::Stopped) co_return result;
  const bool done = result.telling == WebhookResult::Telling::Told;
  WebhookResult copy = result;
  co_await told(std::move(row), done ? ledger::Store::Telling::Told : ledger::Store::Telling::Dead, std::move(copy));
  co_return result;
}

}  // namespace gateway
