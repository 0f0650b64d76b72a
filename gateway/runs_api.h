#pragma once
// How does a worker hand over work, and ask what became of it? Under the reserved name, on the data listener.
//
//   POST   /callgate/v1/runs               a run (run_order.h); 202 and where it is. The same key: the same run
//   POST   any provider's path             with Prefer: respond-async likewise; with wait=N the answer itself, if it
//   is
//                                          there within N seconds
//   GET    /callgate/v1/runs               ?queue=&state=&run_id=&key=&limit=&after=, the newest first
//   GET    /callgate/v1/runs/{id}          ?wait=30s: not before it is over, or so long
//   GET    /callgate/v1/runs/{id}/result   the provider's own answer
//   DELETE /callgate/v1/runs/{id}          takes it back
//   POST   /callgate/v1/runs/{id}/retry    one that failed or died is queued again
//
// Errors are application/problem+json. A worker sees its own tenant's runs alone; others' are as unknown as none.

#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/front.h"
#include "gateway/run_act.h"
#include "gateway/run_order.h"
#include "gateway/runs.h"
#include "ledger/store.h"

namespace gateway {

/// I/O thread only.
class RunsApi final : public OwnApi {
 public:
  /// `store_trouble`: why what is told to the store would not be found by the next process; empty: it would.
  RunsApi(Runtime& runtime, asio::io_context& io, ledger::Store& store, Runs& runs, Front& front, Metrics& metrics,
          std::function<std::string()> store_trouble);

  [[nodiscard]] bool is_asked(const Inbound& request) const override;
  task<void> serve(Inbound request, std::shared_ptr<const TenantConfig> tenant, Caller& caller,
                   Signal& signal) override;
  task<void> later(Understood what, std::chrono::milliseconds wait, Caller& caller, Signal& signal) override;

  /// A run is over within a second, whatever it was at; 202: not after five, and whoever takes it next ends it.
  task<RunActed> take_back(std::string id, RunActor actor, Signal& signal);
  /// One that failed or died is queued again.
  task<RunActed> queue_again(std::string id, RunActor actor);

 private:
  struct No;
  struct Extra;
  using Found = std::expected<std::optional<ledger::RunLine>, std::string>;
  task<std::expected<ledger::RunAnswer, No>> accept(Understood what, Extra extra);
  task<std::expected<void, No>> by_contract(Call& call, std::optional<JobKey>& key, ledger::NewRun& run,
                                            const Extra& extra);
  task<void> order(Inbound request, std::shared_ptr<const TenantConfig> tenant, Caller& caller);
  task<void> list(const Inbound& request, std::string tenant, Caller& caller);
  task<void> show(std::string id, std::string tenant, std::chrono::milliseconds wait, Caller& caller, Signal& signal);
  task<void> result(std::string id, std::string tenant, Caller& caller);
  task<void> cancel(std::string id, std::string tenant, Caller& caller, Signal& signal);
  task<void> retry(std::string id, std::string tenant, Caller& caller);
  task<void> tell(const std::string& id, const RunActed& acted, Caller& caller);
  task<Found> find(std::string id, std::string tenant);
  /// As it stands when it is over, at `until` or when the signal says so.
  task<Found> await_end(std::string id, std::string tenant, TimePoint until, Signal& signal);
  /// Or when it is queued, too.
  task<Found> await_no_more_running(std::string id, std::string tenant, TimePoint until, Signal& signal);
  task<Found> await_state(bool (*is_it)(std::string_view state), std::string id, std::string tenant, TimePoint until,
                          Signal& signal);
  task<std::shared_ptr<const ledger::StoredAnswer>> answer_of(std::string id);
  [[nodiscard]] std::string new_id();

  Runtime& runtime_;
  asio::io_context& io_;
  ledger::Store& store_;
  Runs& runs_;
  Front& front_;
  Metrics& metrics_;
  std::function<std::string()> store_trouble_;
  std::int64_t last_ms_ = 0;  // Ids grow, so that they are in the order of acceptance.
  std::uint64_t in_ms_ = 0;
};

}  // namespace gateway
