#pragma once
// Who makes the runs that were accepted, and tells of their ends? (design §9)
//
//   coroutine  does what
//   ---------  -----------------------------------------------------------------------------------------------------
//   work       reads what waits, takes what may begin (run_shelf.h) and starts a coroutine for each
//   make       one run: takes it, plays its call like any other (Front::run_errand), ends it if its call has not
//   renew      prolongs the leases of all that are held, every third of runs.lease
//   look       depths and ages for the gauges; finds what was missed
//   tell       webhooks
//
// A run whose process dies is found at the next start and made again; whoever was stopped for longer than a lease and
// wakes up late is refused by the fence. A run that was found open at three starts, each time with an attempt begun,
// is not begun a fourth time.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gateway/front.h"
#include "gateway/log.h"
#include "gateway/metrics.h"
#include "gateway/queue_state.h"
#include "gateway/run_end.h"
#include "gateway/run_shelf.h"
#include "gateway/standard_webhooks.h"
#include "gateway/webhook_sender.h"
#include "ledger/store.h"

namespace gateway {

struct CollectingRoom;  // For answers that are being collected.

/// Of the letter that is left by an end which could not be told.
[[nodiscard]] std::string webhook_key(const ledger::WebhookRow& row);

/// I/O thread only. The store must be gone before the io_context is.
class Runs {
 public:
  struct Doors {
    std::function<task<std::expected<CallRecord, RefusedRequest>>(Errand, Caller&, Signal&)> play{};
    /// One attempt to tell of a run's end is over. May be empty.
    std::function<void(const ledger::WebhookRow&, const WebhookResult&, WallTime began)> told{};
  };
  Runs(Runtime& runtime, asio::io_context& io, ledger::Store& store, Upstream& upstream, Metrics& metrics, Log& log,
       Doors doors);
  ~Runs();
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  /// For runs that begin from now on. `answers_bytes`: of all answers that are being collected.
  void configure(std::shared_ptr<const Config> config, WebhookSecrets secrets, std::uint64_t answers_bytes);
  void start();
  /// Nothing is begun any more; what is under way is ended by its calls.
  void drain();
  /// Runs that are under way end as soon as they can, and are queued again.
  void stop_all();
  /// Runs under way, and ends that are being told.
  [[nodiscard]] std::size_t active() const { return making_.size() + telling_.size(); }

  /// There is something new to take in that queue.
  void touched(const std::string& queue);
  /// Whoever holds it, or takes it from now on, ends it as cancelled. True: it is held here.
  bool cancel(const std::string& id);
  /// That is not to be any more: it has ended, or is retried.
  void forget_cancel(const std::string& id) { taken_back_.erase(id); }
  /// Until something has ended, the signal rings, or `until` at the latest. `known` is news() as it was.
  task<void> wait_for_news(std::uint64_t known, TimePoint until, Signal& signal);
  [[nodiscard]] std::uint64_t news() const { return news_; }
  /// Somebody else has ended or changed one.
  void tell_news();

  void pause(const std::string& queue, TimePoint until);
  bool resume(const std::string& queue);
  [[nodiscard]] bool knows_queue(std::string_view queue) const;
  /// Those in which something is, as of a moment ago, or that are paused.
  [[nodiscard]] std::vector<QueueState> queues() const;

  /// A call has left a dead letter.
  void died(const CallRecord& record);

  /// By hand, once: the end of a run that could not be told, as its letter has it. What came of it is written, and
  /// resolves the letter if it was told. The error says why there is nothing to be told (any more).
  task<std::expected<WebhookResult, std::string>> retell(ledger::LetterLine letter, std::string body, Signal& signal);

  [[nodiscard]] const std::shared_ptr<const Config>& config() const { return config_; }
  [[nodiscard]] const WebhookSecrets& secrets() const { return secrets_; }

 private:
  struct Making;
  struct Pending;
  task<void> work();
  task<void> renew();
  task<void> look();
  task<void> tell();
  task<void> tell_one(ledger::WebhookRow row, WallTime first);
  task<void> tell_it(ledger::WebhookRow row, WallTime first, Signal& signal);
  task<WebhookResult> send(ledger::WebhookRow row, Signal& signal);
  task<void> told(ledger::WebhookRow row, ledger::Store::Telling how, WebhookResult result);
  task<void> make(std::shared_ptr<Making> one);
  task<void> make_it(Making& one);
  task<void> play(Making& one, ledger::TakenRun taken, const QueueContract& contract);
  task<void> end(const RunTerms& terms, ledger::RunOutcome outcome, const ledger::NewRun& run, classifier::Class cls);
  task<bool> read_windows(std::vector<std::string> queues);
  task<void> read_pending();
  [[nodiscard]] ledger::LetterOutcome letter_of(const ledger::NewRun& run, const ledger::RunOutcome& outcome,
                                                classifier::Class cls) const;
  void tell_pauses();
  void count_end(const ledger::RunOutcome& outcome, const ledger::NewRun& run);
  void say(Config::Log::Level level, std::string_view event, std::string_view message, Log::Fields fields);
  [[nodiscard]] TimePoint at(WallTime when) const;

  Runtime& runtime_;
  asio::io_context& io_;
  ledger::Store& store_;
  Upstream& upstream_;
  Metrics& metrics_;
  Log& log_;
  Doors doors_;
  std::shared_ptr<const Config> config_{};
  WebhookSecrets secrets_{};
  std::shared_ptr<const WebhookOptions> webhooks_{};
  std::shared_ptr<CollectingRoom> room_;
  RunShelf shelf_{};
  std::map<std::string, std::shared_ptr<Making>, std::less<>> making_{};
  std::map<std::string, TimePoint, std::less<>>
      taken_back_{};  // Told to be cancelled, and not over yet as far as known.
  std::set<Signal*> waiting_{};
  std::uint64_t news_ = 0;
  std::vector<ledger::RunsPending> pending_{};
  TimePoint rests_until_{};  // The store could not be asked.
  TimePoint reads_after_{};  // Windows; reading leaves the reader time for others.
  TimePoint next_at_ = TimePoint::max();
  Signal work_bell_;
  Signal renew_bell_;
  Signal look_bell_;
  Signal tell_bell_;
  std::map<std::string, std::unique_ptr<Signal>, std::less<>> telling_{};  // By run.
  bool started_ = false;
  bool draining_ = false;
};

}  // namespace gateway
