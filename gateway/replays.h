#pragma once
// Who makes good what has failed? Replays of dead letters, as they were planned (dead_answers.h).
//
//   what happens                                        the replay
//   --------------------------------------------------  --------------------------------------------------------
//   started                                             sends its first few letters, the canary, and looks at them
//   more than `stop_share` of the canary, or of all     stops; why stands with it
//   that were sent, die again
//   a letter dies of auth, quota_exhausted, permission  stops: all others would, too
//   the breaker is open, a budget is spent              stops; the letter waits as before
//   a queue or a limit is full                          tries it again behind the others, more and more slowly; stops
//                                                       after ten of that in a row
//   a letter is refused for a reason of its own         leaves it out (its model has no price, its key is in use)
//   its money is spent (max_cost_usd)                   stops; what is under way counts as dear as the dearest so
//   far,
//                                                       and until one has a price they go one by one
//   the store refuses                                   stops: an answer that cannot be kept would be bought again
//   paused, cancelled                                   sends no more; what is under way comes to its end
//   a letter of a webhook                               is told as the end of the run was, once; a receiver that says
//                                                       auth or the like stops nothing
//   drain, kill -9                                      goes on by itself when callgate is there again
//   all are done                                        is done
//
// Each letter goes the way of any call, in lane backfill, with today's credentials and its own key: what was answered
// meanwhile is not bought again, its answer is stored under the key, and the letter is resolved in the transaction
// that ends the call.

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "gateway/front.h"
#include "gateway/webhook_sender.h"
#include "ledger/store.h"

namespace gateway {

/// As a plan holds them, in JSON.
struct ReplayLimits {
  double per_second = 1.0;
  int concurrency = 2;
  int canary = 5;
  std::optional<std::int64_t> max_cost_nano{};
  double stop_share = 0.2;
};
[[nodiscard]] std::string text_of(const ReplayLimits& limits);
[[nodiscard]] ReplayLimits read_replay_limits(const std::string& text);

/// Why no more is to be sent, given what has come of those that were; empty: go on.
struct ReplaySums {
  std::int64_t resolved = 0, dead_again = 0, cost_nano = 0;
  bool canary_passed = false;
};
[[nodiscard]] std::string why_to_stop(const ReplayLimits& limits, const ReplaySums& sums);
/// One item has come to rest. `cost_before`: what it had cost when it was taken up, in an earlier life of the replay
/// say; the sums have that already.
void count(ReplaySums& sums, const ledger::ReplayItem& item, std::int64_t cost_before);

/// I/O thread only.
class Replays {
 public:
  struct Doors {
    std::function<void(const ledger::Replay& replay)> moved{};  // Started, stopped, done: for log and metrics.
    std::function<void(ledger::ItemState state)> item{};        // One has come to its end.
    /// Why nothing that is bought now could be kept; empty: it can.
    std::function<std::string()> store_trouble{};
    /// An upstream's breaker is open for a model.
    std::function<bool(const std::string& upstream, const std::string& model)> breaker_open{};
    /// A letter of a webhook, by Runs::retell().
    std::function<task<std::expected<WebhookResult, std::string>>(ledger::LetterLine, std::string, Signal&)> retell{};
  };
  Replays(Runtime& runtime, asio::io_context& io, ledger::Store& store, Front& front, Doors doors);
  ~Replays();
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  /// Those that were running when the process ended go on.
  void resume_all();
  /// It has been started, paused, resumed or cancelled, in the store.
  void look(const std::string& id);
  /// Nothing new is sent; what waits gives up and is sent after the next start.
  void drain();
  void stop_all();
  /// Letters under way.
  [[nodiscard]] std::size_t active() const { return active_; }

 private:
  struct Going;
  task<void> find_running();
  task<void> go(std::shared_ptr<Going> going);
  task<void> one(std::shared_ptr<Going> going, ledger::ReplayItem item);
  task<std::optional<ledger::Replay>> read_replay(std::string id);
  task<void> finish(std::shared_ptr<Going> going, ledger::ReplayState state, std::string why);
  void settle(Going& going, ledger::ReplayItem item, std::int64_t cost_before);

  Runtime& runtime_;
  asio::io_context& io_;
  ledger::Store& store_;
  Front& front_;
  Doors doors_;
  std::map<std::string, std::shared_ptr<Going>> going_{};
  std::size_t active_ = 0;
  bool draining_ = false;
};

}  // namespace gateway
