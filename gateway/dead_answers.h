#pragma once
// What an operator asks and orders of dead letters and replays, on the admin listener. Everything as JSON; parameters
// in the query.
//
//   Which letters: tenant= queue= group= class= model= upstream= operation= advice= key= run_id= id=A,B since=
//   until= (of their arrival; as in book_answers.h). All that is given must hold.
//
//   GET  /v1/dead/groups       [which] [&state=open|resolved|discarded|any]   {"groups":[…]}, the greatest first
//   GET  /v1/dead              [which] [&state=] [&after=ID] [&most=100]      {"letters":[…]}, the newest first
//   GET  /v1/dead/ID           [?tenant=] [&request=true]   all of one, its history; with its request that is audited
//   POST /v1/dead/ID/edit      ?set=JSON&reason= [&tenant=] [&dry=true]   members of the body by JSON pointer, as
//                              {"/model":"gpt-5"}; {"revision":1,"difference":[{"at","was","is",
//                              "was_text","is_text"}]}: the texts are the member's very bytes
//   POST /v1/dead/discard      which &reason=      {"count":3}; reason and one of group, id, queue, class,
//                              operation needed
//   POST /v1/replays           which &reason= [&tenant=] [&rate=1] [&concurrency=2] [&canary=5] [&max_cost_usd=]
//                              [&stop_share=0.2]   makes a plan; nothing is sent. 200 and the plan
//   GET  /v1/replays           [?tenant=] [&most=]
//   GET  /v1/replays/ID        the plan, or how far it has come: {"id","state","digest","waiting","running",
//                              "resolved","dead_again","skipped","cost_usd","why",…}
//   GET  /v1/replays/ID/items  [?state=] [&after=LETTER] [&most=100]
//   POST /v1/replays/ID/start  ?digest=      409 if what was agreed to has changed, or it needs an approval
//   POST /v1/replays/ID/pause | resume | cancel
//   POST /v1/replays/ID/approve ?by=NAME&reason=   where a queue's contract asks for it; 403: not by them
//   GET  /v1/audit             [?before=SEQ] [&most=100]   {"acts":[…]}, the youngest first
//
// Who does something is known over a unix socket alone: the user whose process has connected. Then that name stands
// in the audit; `by` must be it, or a group of that user; and whoever planned a replay cannot approve of it. Over TCP
// the audit has "admin", and `by` is a name that is believed.
//
// A plan: {"id","digest","state":"planned","count":120,"skipped_at_plan":[{"why":"no_request","count":3}],
// "estimate":{"input_tokens","output_tokens","cost_usd","without_estimate"},"groups":[{"group","count","class","estimate",
// …}],"limits":{…},"needs_approval":false}. It holds an hour. Letters are left out of it for:
//
//   in_another_replay   of one that is under way
//   expired             its time is over
//   no_request          left out when it came, for want of a key file or of room
//   unknown_tenant      there is no such tenant any more
//   not_configured      there is no such upstream or route any more
//   no_credential       it went with the caller's own key, which is not kept, and its upstream has none of its own
//   told_anew           of a webhook: its run has ended anew since, or is gone

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

/// What the contract of a queue says of its letters and replays.
struct ReplayTerms {
  ledger::LetterForm form = ledger::LetterForm::AsStore;
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
  /// Why a letter of that tenant and route can never be sent with what is configured now, as above; empty: it can.
  std::function<std::string(const ledger::LetterLine& letter)> in_the_way{};
  std::function<std::string()> new_id{};  // UUIDv7.
};

/// Is it one of those above?
[[nodiscard]] bool asks_dead(std::string_view path);
[[nodiscard]] EndpointAnswer answer_of_dead(const DeadSources& sources, std::string_view method,
                                            std::string_view path, std::string_view query, WallTime now,
                                            const std::optional<PeerIds>& peer = {});

}  // namespace gateway
