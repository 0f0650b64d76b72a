#include "gateway/run_answers.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "budget/price.h"
#include "gateway/asked.h"
#include "gateway/book_answers.h"
#include "ledger/times.h"

namespace gateway {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kRuns = "/v1/runs";
constexpr std::string_view kWorkers = "/callgate/v1/runs/";  // Where they ask, on the data listener.
constexpr std::size_t kMost = 1'000;
constexpr std::size_t kReasonMax = 500;
constexpr const char* kAdmin = "admin";

EndpointAnswer json_answer(const Json& json, int status = 200) {
  EndpointAnswer answer;
  answer.status = status;
  answer.type = "application/json";
  answer.body = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return answer;
}
Json usd(const std::optional<std::int64_t>& nano) {
  return nano ? Json(budget::usd_text(budget::NanoUsd{*nano})) : Json();
}
Json time(const std::optional<std::int64_t>& ms) { return ms ? Json(ledger::time_text(*ms)) : Json(); }
Json text(const std::string& value) { return value.empty() ? Json() : Json(value); }

EndpointAnswer no_answer() { return plain_problem(503, "Busy", "The store did not answer in time; ask again."); }
EndpointAnswer no_run() { return plain_problem(404, "Not found", "There is no such run, or not any more."); }

/// A question, asked where books may be read.
template <typename T>
std::expected<T, EndpointAnswer> read(const RunSources& sources,
                                      std::function<ledger::Books::Answer<T>(ledger::Books&)> question) {
  auto answer = std::make_shared<std::optional<ledger::Books::Answer<T>>>();
  const bool done = sources.books(
      [answer, question = std::move(question)](ledger::Books& books) { answer->emplace(question(books)); });
  if (!done || !*answer) return std::unexpected{no_answer()};
  if (!**answer) {
    return std::unexpected{
        plain_problem(503, "The ledger cannot be read", (*answer)->error() + "; /readyz says how the store is.")};
  }
  return std::move(***answer);
}

/// Of its webhook's URL nothing: it may hold a secret of the receiver's.
Json json_of(const ledger::RunLine& line) {
  const Json labels = Json::parse(line.labels, nullptr, false);
  return {{"id", line.id},
          {"state", line.state},
          {"class", text(line.cls)},
          {"why", text(line.why)},
          {"tenant", line.tenant},
          {"queue", text(line.queue)},
          {"lane", line.lane},
          {"run_id", text(line.run_id)},
          {"key", text(line.key)},
          {"ordering_key", text(line.ordering_key)},
          {"version", text(line.version)},
          {"route", line.route},
          {"model", line.model},
          {"call_id", text(line.call_id)},
          {"labels", labels.is_object() ? labels : Json()},
          {"created_at", time(line.created_ms)},
          {"not_before", line.not_before_ms > line.created_ms ? time(line.not_before_ms) : Json()},
          {"deadline", time(line.deadline_ms)},
          {"started_at", time(line.started_ms)},
          {"ended_at", time(line.ended_ms)},
          {"lease_until", time(line.lease_until_ms)},
          {"starts", line.starts},
          {"crashes", line.crashes},
          {"status", line.status == 0 ? Json() : Json(line.status)},
          {"cost_usd", usd(line.cost_nano)},
          {"has_answer", line.has_answer},
          {"webhook", text(line.webhook_state)}};
}

EndpointAnswer list(const RunSources& sources, Asked asked) {
  ledger::RunsAsk ask;
  ask.tenant = asked.take("tenant");
  ask.queue = asked.take("queue");
  ask.state = asked.take("state");
  ask.run_id = asked.take("run_id");
  ask.key = asked.take("key");
  ask.since_ms = asked.time("since", 0);
  ask.after = asked.take("after");
  ask.most = asked.number("most", 100, kMost);
  if (!ask.state.empty() && std::ranges::find(ledger::kRunStateNames, ask.state) == ledger::kRunStateNames.end())
    asked.wrong("has a state that is none of queued, running, succeeded, failed, dead and cancelled");
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto found = read<std::vector<ledger::RunLine>>(sources, [ask](ledger::Books& books) { return books.runs(ask); });
  if (!found) return std::move(found.error());
  Json runs = Json::array();
  for (const ledger::RunLine& line : *found) runs.push_back(json_of(line));
  const Json next = found->size() < ask.most ? Json() : Json(found->back().id);
  return json_answer({{"runs", std::move(runs)}, {"next", next}});
}

EndpointAnswer show(const RunSources& sources, const std::string& id, Asked asked) {
  const std::string tenant = asked.take("tenant");
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto found = read<std::optional<ledger::RunLine>>(
      sources, [id, tenant](ledger::Books& books) { return books.run(id, tenant); });
  if (!found) return std::move(found.error());
  if (!*found) return no_run();
  const ledger::RunLine& line = **found;
  Json json = json_of(line);
  json["attempts"] = Json::array();
  if (!line.call_id.empty()) {
    // Of its last call, as long as that is kept.
    const std::string call_id = line.call_id;
    auto call = read<std::string>(sources, [call_id](ledger::Books& books) { return books.call(call_id, {}); });
    const Json detail = call ? Json::parse(*call, nullptr, false) : Json();
    if (detail.is_object() && detail.contains("attempts")) json["attempts"] = detail["attempts"];
  }
  json["result"] = Json();
  if (line.has_answer) json["result"] = {{"status", line.status}, {"at", std::string{kWorkers} + id + "/result"}};
  json["dead_letter"] = Json();
  ledger::LettersAsk ask;
  ask.of_run = id;
  ask.most = 1;
  auto letters =
      read<std::vector<ledger::LetterLine>>(sources, [ask](ledger::Books& books) { return books.letters(ask); });
  if (!letters) return std::move(letters.error());
  if (!letters->empty()) {
    const ledger::LetterLine& letter = letters->front();
    json["dead_letter"] = {{"id", letter.id},
                           {"class", letter.cls},
                           {"cause", letter.cause},
                           {"advice", letter.advice},
                           {"group", letter.group},
                           {"arrived_at", time(letter.arrived_ms)}};
  }
  return json_answer(json);
}

EndpointAnswer act(const RunSources& sources, RunAct what, const std::string& id, Asked asked,
                   const std::optional<PeerIds>& peer) {
  const std::string tenant = asked.take("tenant");
  const std::string reason = asked.take("reason");
  if (reason.size() > kReasonMax) asked.wrong("has a reason of more than 500 bytes");
  if (auto refused = asked.refusal()) return std::move(*refused);
  if (!sources.act) return plain_problem(404, "Not found", "There are no runs here.");
  const std::optional<RunActed> acted =
      sources.act(what, id, RunActor{tenant, peer ? peer_named(*peer).user : kAdmin, reason});
  if (!acted || acted->status == 0) return no_answer();
  if (acted->status < 300) return json_answer({{"id", id}, {"state", acted->state}}, acted->status);
  if (acted->status == 404) return no_run();
  return plain_problem(acted->status, acted->title, acted->detail);
}

EndpointAnswer only(std::string_view methods) {
  EndpointAnswer answer =
      plain_problem(405, "Method not allowed", "Only " + std::string{methods} + " is answered here.");
  answer.headers.push_back({"Allow", std::string{methods}});
  return answer;
}

}  // namespace

bool asks_runs(std::string_view path) {
  return path.starts_with(kRuns) && (path.size() == kRuns.size() || path[kRuns.size()] == '/');
}

EndpointAnswer answer_of_runs(const RunSources& sources, std::string_view method, std::string_view path,
                              std::string_view query, WallTime now, const std::optional<PeerIds>& peer) {
  Asked asked{query, now};
  path.remove_prefix(kRuns.size());
  if (!path.empty()) path.remove_prefix(1);
  const std::string id{path.substr(0, path.find('/'))};
  const std::string_view below = id.size() < path.size() ? path.substr(id.size() + 1) : std::string_view{};
  if (id.empty() && path.empty()) return method == "GET" ? list(sources, std::move(asked)) : only("GET");
  if (below == "retry")
    return method == "POST" ? act(sources, RunAct::QueueAgain, id, std::move(asked), peer) : only("POST");
  if (id.empty() || !below.empty() || path.ends_with('/'))
    return plain_problem(404, "Not found", "There is no such page.");
  if (method == "GET") return show(sources, id, std::move(asked));
  return method == "DELETE" ? act(sources, RunAct::TakeBack, id, std::move(asked), peer) : only("GET, DELETE");
}

}  // namespace gateway
