#pragma once
// The admin listener: what an operator asks of a running callgate. Short calls only.
//
//   POST /v1/reload             read the configuration again; ?accept_weaker=true: queue contracts may promise less
//   GET  /v1/config             what holds, and who decided it
//   GET  /v1/upstreams          how each of them is: breakers, pauses, keys, retries left
//   GET    /v1/status             tenants, lanes, upstreams, who waits and who holds what
//   GET    /v1/budgets            money by tenant and period
//   POST   /v1/budgets/grant      ?tenant=&period=day|month|run[&run_id=]&usd=
//   POST   /v1/cancel             ?call=ID | ?run_id=R | ?tenant=T
//   POST   /v1/pause              ?what=tenant|lane|upstream|queue&name=N[&for_ms=MS]
//   POST   /v1/resume             ?what=…&name=N
//   POST   /v1/drain              ?what=runs|all
//   GET  /v1/calls/ID           what became of a call, attempt by attempt
//   GET  /v1/spend, /v1/calls, /v1/timeouts, /v1/usage, /v1/idempotency      from the ledger (book_answers.h)
//   POST /v1/idempotency/forget   ?key=[&tenant=]
//   /v1/dead, /v1/replays, /v1/audit    dead letters, and what is done about them (dead_answers.h)
//   /v1/runs                    runs, whose they may be (run_answers.h)
//   GET  /v1/unknown-answers    what providers said and no rule knew
//   GET  /v1/version

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "budget/health.h"
#include "gateway/config.h"
#include "gateway/dead_answers.h"
#include "gateway/live_calls.h"
#include "gateway/reload.h"
#include "gateway/run_answers.h"
#include "gateway/status.h"
#include "gateway/unknown_answers.h"
#include "ledger/books.h"
#include "ledger/records.h"

namespace gateway {

/// Who may ask.
struct AdminAccess {
  std::vector<std::string> hosts{};  // That a `Host` may name, without port, besides localhost and our own address.
  SecretSource token{};              // Nowhere: no token is asked for.
};

/// An upstream's health as of `now`, by which its moments are told as spans.
struct UpstreamState {
  budget::UpstreamHealth health{};
  int in_flight = 0;
  budget::TimePoint now{};
};

/// What an operator wants done.
struct Order {
  enum class Act : std::uint8_t { Cancel, Pause, Resume, Grant, DrainRuns, DrainAll } act{};
  CancelWhat cancel{};
  budget::Pausable pausable{};
  std::string name{};  // Of what is paused; of a grant the tenant.
  std::optional<std::chrono::milliseconds> for_time{};
  budget::Period period{};
  std::string run_id{};
  budget::NanoUsd amount{};
  std::string who{};  // Over a unix socket the user whose process has connected, else "admin".
};
struct OrderResult {
  bool known = true;      // There is such a thing.
  std::size_t count = 0;  // Calls told to end; of a resume 1 if it was paused; of a drain what is still under way.
};

/// The functions are called on the admin thread and take a few seconds at most; nothing: the I/O thread did not
/// answer.
struct AdminSources {
  std::function<std::optional<ReloadReport>(bool accept_weaker, const std::string& who)>
      reload;  // who: as Order::who.
  std::function<std::optional<std::vector<Setting>>()> settings;
  std::function<std::optional<std::vector<UpstreamState>>()> upstreams;
  /// As JSON; empty: no such call.
  std::function<std::optional<std::string>(std::string_view call_id)> call;
  std::function<std::optional<UnknownAnswers::List>()> unknown_answers;
  std::function<std::optional<StatusSnapshot>()> status;
  std::function<std::optional<OrderResult>(const Order& order)> act;
  /// Runs the question where books may be read; false: not to its end within a few seconds (it may still run later,
  /// so it must own all that it touches). Not given: there is no ledger.
  std::function<bool(std::function<void(ledger::Books&)> question)> books{};
  /// The stored answer of a key, or a claim that nobody works on, is given up.
  std::function<void(const ledger::Digest& scope, const std::string& call_id)> forget_claim{};
  std::optional<DeadSources> dead{};  // Not given: there are no dead letters.
  std::optional<RunSources> runs{};   // Not given: there are no runs.
  Environment environment{};  // Where a token of the environment is found; the process has one for all its life.
};

class AdminServer {
 public:
  /// "127.0.0.1:4602", "unix:/path". Throws std::runtime_error that names address and mend.
  AdminServer(const std::string& address, AdminAccess access, AdminSources sources);
  ~AdminServer();
  [[nodiscard]] const std::string& address() const;
  /// For requests that come from now on. Any thread.
  void update(AdminAccess access);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gateway
