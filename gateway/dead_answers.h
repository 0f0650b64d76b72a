#pragma once
// What an operator asks and orders of dead letters and replays, on the admin listener. Everything as JSON; parameters
// in the query.
//
//   Which letters: tenant= queue= group= class= model= upstream= advice= key= run_id= id=A,B since= until= (of their
//   arrival; as in book_answers.h). All that is given must hold.
//
//   GET  /v1/dead/groups       [which] [&state=open|resolved|discarded|any]   {"groups":[…]}, the greatest first
//   GET  /v1/dead              [which] [&state=] [&after=ID] [&most=100]      {"letters":[…]}, the newest first
//   GET  /v1/dead/ID           [?tenant=] [&request=true]   all of one, its history; with its request that is audited
//   POST /v1/dead/ID/edit      ?set=JSON&reason= [&tenant=] [&dry=true]   members of the body by JSON pointer, as
//                              {"/model":"gpt-5"}; {"revision":1,"difference":[…]}
//   POST /v1/dead/discard      which &reason=      {"count":3}; reason and one of group, id, queue, class needed
//   POST /v1/replays           which &reason= [&tenant=] [&rate=1] [&concurrency=2] [&canary=5] [&max_cost_usd=]
//                              [&stop_share=0.2]   makes a plan; nothing is sent. 200 and the plan
//   GET  /v1/replays           [?tenant=] [&most=]
//   GET  /v1/replays/ID        the plan, or how far it has come: {"id","state","digest","waiting","running",
//                              "resolved","dead_again","skipped","cost_usd","why",…}
//   GET  /v1/replays/ID/items  [?state=] [&after=LETTER] [&most=100]
//   POST /v1/replays/ID/start  ?digest=      409 if what was agreed to has changed, or it needs an approval
//   POST /v1/replays/ID/pause | resume | cancel
//   POST /v1/replays/ID/approve ?by=NAME&reason=   where a queue's contract asks for it
//   GET  /v1/audit             [?before=SEQ] [&most=100]   {"acts":[…]}, the youngest first
//
// A plan: {"id","digest","state":"planned","count":120,"skipped_at_plan":[{"why":"no_request","count":3}],
// "estimate":{"input_tokens","output_tokens","cost_usd","without_estimate"},"limits":{…},"needs_approval":false}. It
// holds an hour.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/endpoint.h"
#include "gateway/services.h"
#include "ledger/store.h"

namespace gateway {

/// What the contract of a queue says of its replays.
struct ReplayTerms {
  bool needs_approval = false;
  std::vector<std::string> approvers{};  // Empty: anybody.
  double max_per_second = 0;             // 0: none is said.
  int canary = 0;
  std::optional<std::int64_t> max_cost_nano{};
};

/// What the admin thread needs for it. Each may take a few seconds.
struct DeadSources {
  ledger::Store* store = nullptr;
  /// As AdminSources::books.
  std::function<bool(std::function<void(ledger::Books&)> question)> books{};
  /// The I/O thread is told that this replay has been started, or is to be looked at again.
  std::function<void(const std::string& replay)> look{};
  std::function<ReplayTerms(const std::string& queue)> terms{};
  std::function<std::string(const std::string& queue, std::string_view body)> schema_fault{};  // Empty: none.
  std::function<std::string()> new_id{};                                                       // UUIDv7.
};

/// Is it one of those above?
[[nodiscard]] bool asks_dead(std::string_view path);
[[nodiscard]] EndpointAnswer answer_of_dead(const DeadSources& sources, std::string_view method,
                                            std::string_view path, std::string_view query, WallTime now);

}  // namespace gateway
