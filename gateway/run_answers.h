#pragma once
// What an operator asks and orders of runs, on the admin listener: anybody's, where a worker sees its tenant's alone
// (runs_api.h). Everything as JSON; parameters in the query.
//
//   GET    /v1/runs           [?tenant= &queue= &state= &run_id= &key= &since=] [&after=ID] [&most=100]
//                             {"runs":[…],"next":ID}, the newest first; since= as in book_answers.h, of acceptance
//   GET    /v1/runs/ID        [?tenant=]   all of one: its last call's attempts, where its result is, its open letter
//   DELETE /v1/runs/ID        [?tenant=] [&reason=]   takes it back; {"id","state"}. 202: it is not over yet. 409: it
//                             had ended
//   POST   /v1/runs/ID/retry  [?tenant=] [&reason=]   one that failed or died is queued again; else 409
//
// What was asked for and what was answered is not in it: a worker reads its result at the path that is named.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/endpoint.h"
#include "gateway/peer.h"
#include "gateway/run_act.h"
#include "gateway/services.h"
#include "ledger/books.h"

namespace gateway {

enum class RunAct : std::uint8_t { TakeBack, QueueAgain };

/// What the admin thread needs for it. Each may take a few seconds.
struct RunSources {
  /// As AdminSources::books.
  std::function<bool(std::function<void(ledger::Books&)> question)> books{};
  /// Nothing: the I/O thread did not answer. Not given: nothing can be done to them (a file).
  std::function<std::optional<RunActed>(RunAct act, const std::string& id, const RunActor& actor)> act{};
};

/// Is it one of those above?
[[nodiscard]] bool asks_runs(std::string_view path);
[[nodiscard]] EndpointAnswer answer_of_runs(const RunSources& sources, std::string_view method, std::string_view path,
                                            std::string_view query, WallTime now,
                                            const std::optional<PeerIds>& peer = {});

}  // namespace gateway
