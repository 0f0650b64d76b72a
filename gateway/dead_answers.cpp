#include "gateway/dead_answers.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "budget/price.h"
#include "classifier/json_depth.h"
#include "gateway/asked.h"
#include "gateway/book_answers.h"
#include "gateway/call_id.h"
#include "gateway/digest.h"
#include "gateway/json_edit.h"
#include "gateway/replays.h"
#include "gateway/runs.h"
#include "ledger/times.h"

namespace gateway {
namespace {

using Json = nlohmann::ordered_json;
using ledger::ReplayState;
using std::chrono::milliseconds;

constexpr std::string_view kDead = "/v1/dead";
constexpr std::string_view kReplays = "/v1/replays";
constexpr milliseconds kPatience{10'000};
constexpr std::size_t kMost = 1'000;
constexpr std::size_t kMostItems = 100'000;  // Of one plan.
constexpr std::size_t kAtOnce = 500;
constexpr std::int64_t kHoldsMs = 3'600'000;
constexpr std::size_t kReasonMax = 500;
constexpr const char* kAdmin = "admin";

EndpointAnswer json_answer(const Json& json, int status = 200) {
  EndpointAnswer answer;
  answer.status = status;
  answer.type = "application/json";
  answer.body = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return answer;
}
Json usd(std::int64_t nano) { return budget::usd_text(budget::NanoUsd{nano}); }
Json time(const std::optional<std::int64_t>& ms) { return ms ? Json(ledger::time_text(*ms)) : Json(); }
Json text(const std::string& value) { return value.empty() ? Json() : Json(value); }

EndpointAnswer unreadable(const std::string& why) {
  return plain_problem(503, "The ledger cannot be read", why + "; /readyz says how the store is.");
}
EndpointAnswer no_answer() { return plain_problem(503, "Busy", "The store did not answer in time; ask again."); }

/// A question, asked where books may be read.
template <typename T>
std::expected<T, EndpointAnswer> read(const DeadSources& sources,
                                      std::function<ledger::Books::Answer<T>(ledger::Books&)> question) {
  auto answer = std::make_shared<std::optional<ledger::Books::Answer<T>>>();
  const bool done = sources.books(
      [answer, question = std::move(question)](ledger::Books& books) { answer->emplace(question(books)); });
  if (!done || !*answer) return std::unexpected{no_answer()};
  if (!**answer) return std::unexpected{unreadable((*answer)->error())};
  return std::move(***answer);
}

/// An order, given to the writer.
template <typename T>
std::expected<T, EndpointAnswer> write(
    const std::function<void(std::function<void(std::expected<T, std::string>)>)>& order) {
  auto told = std::make_shared<std::promise<std::expected<T, std::string>>>();
  std::future<std::expected<T, std::string>> answer = told->get_future();
  order([told](std::expected<T, std::string> value) { told->set_value(std::move(value)); });
  if (answer.wait_for(kPatience) != std::future_status::ready) return std::unexpected{no_answer()};
  auto value = answer.get();
  if (!value) return std::unexpected{plain_problem(409, "Not done", value.error())};
  return std::move(*value);
}

std::string name_of(const std::optional<Peer>& who) { return who ? who->user : kAdmin; }

ledger::AuditRow audit(const Asked& asked, const char* act, std::string what, std::string reason,
                       std::int64_t count = 1) {
  ledger::AuditRow row;
  row.at_ms = asked.now_ms();
  row.who = name_of(asked.who);
  row.act = act;
  row.what = std::move(what);
  row.reason = std::move(reason);
  row.count = count;
  return row;
}

std::string reason_in(Asked& asked, bool needed) {
  std::string reason = asked.take("reason");
  if (reason.size() > kReasonMax) asked.wrong("has a reason of more than 500 bytes");
  if (needed && reason.empty()) asked.wrong("needs a reason, which is kept with the act");
  return reason;
}

ledger::LettersAsk which(Asked& asked) {
  ledger::LettersAsk ask;
  ask.tenant = asked.take("tenant");
  ask.queue = asked.take("queue");
  ask.group = asked.take("group");
  ask.cls = asked.take("class");
  ask.model = asked.take("model");
  ask.upstream = asked.take("upstream");
  ask.operation = asked.take("operation");
  ask.advice = asked.take("advice");
  ask.key = asked.take("key");
  ask.run_id = asked.take("run_id");
  ask.ids = listed_words(asked.take("id"));
  ask.since_ms = asked.time("since", 0);
  ask.until_ms = asked.time("until", INT64_MAX);
  return ask;
}

Json filter_json(const ledger::LettersAsk& ask) {
  Json json = Json::object();
  const std::pair<const char*, const std::string*> parts[] = {{"tenant", &ask.tenant},
                                                              {"queue", &ask.queue},
                                                              {"group", &ask.group},
                                                              {"class", &ask.cls},
                                                              {"model", &ask.model},
                                                              {"upstream", &ask.upstream},
                                                              {"operation", &ask.operation},
                                                              {"advice", &ask.advice},
                                                              {"key", &ask.key},
                                                              {"run_id", &ask.run_id}};
  for (const auto& [name, value] : parts) {
    if (!value->empty()) json[name] = *value;
  }
  if (!ask.ids.empty()) json["id"] = ask.ids;
  if (ask.since_ms > 0) json["since"] = time(ask.since_ms);
  if (ask.until_ms != INT64_MAX) json["until"] = time(ask.until_ms);
  return json;
}

void state_of(Asked& asked, ledger::LettersAsk& ask) {
  const std::string state = asked.take("state");
  if (state.empty()) return;
  if (state == "any") {
    ask.state.reset();
    return;
  }
  const auto found = std::ranges::find(ledger::kLetterStateNames, state);
  if (found == ledger::kLetterStateNames.end())
    asked.wrong("has a state that is none of open, resolved, discarded and any");
  else
    ask.state = static_cast<ledger::LetterState>(found - ledger::kLetterStateNames.begin());
}

Json json_of(const ledger::LetterLine& line) {
  return {{"id", line.id},
          {"state", line.state},
          {"arrived_at", time(line.arrived_ms)},
          {"last_at", time(line.last_ms)},
          {"ended_at", time(line.ended_ms)},
          {"expires_at", time(line.expires_ms)},
          {"tenant", line.tenant},
          {"queue", text(line.queue)},
          {"lane", line.lane},
          {"run_id", text(line.run_id)},
          {"key", text(line.key)},
          {"run", text(line.run)},
          {"route", line.route},
          {"upstream", line.upstream},
          {"model", line.model},
          {"operation", line.operation},
          {"class", line.cls},
          {"status", line.status == 0 ? Json() : Json(line.status)},
          {"code", text(line.code)},
          {"fingerprint", text(line.fingerprint)},
          {"group", line.group},
          {"cause", line.cause},
          {"advice", line.advice},
          {"failures", line.failures},
          {"revision", line.revision},
          {"request", line.payload},
          {"request_erased_at", line.payload == "erased" ? time(line.ended_ms) : Json()},
          {"callers_key", line.callers_key},
          {"version", text(line.version)},
          {"call_id", text(line.call_id)},
          {"cost_usd", usd(line.cost_nano)}};
}

Json json_of(const ledger::LetterGroup& group) {
  return {{"group", group.group},
          {"count", group.count},
          {"class", group.cls},
          {"code", text(group.code)},
          {"cause", group.cause},
          {"advice", group.advice},
          {"queue", text(group.queue)},
          {"model", group.model},
          {"first_at", time(group.first_ms)},
          {"last_at", time(group.last_ms)},
          {"cost_usd", usd(group.cost_nano)},
          {"sample", group.sample}};
}

Json json_of(const ledger::Replay& replay) {
  Json limits = Json::parse(replay.limits, nullptr, false);
  if (limits.is_object() && limits.contains("max_cost_nano")) {
    const Json most = limits["max_cost_nano"];
    limits.erase("max_cost_nano");
    limits["max_cost_usd"] = most.is_number_integer() ? usd(most.get<std::int64_t>()) : Json();
  }
  const Json filter = Json::parse(replay.filter, nullptr, false);
  return {{"id", replay.id},
          {"state", ledger::kReplayStateNames[static_cast<std::size_t>(replay.state)]},
          {"digest", replay.digest},
          {"created_at", time(replay.created_ms)},
          {"started_at", time(replay.started_ms)},
          {"ended_at", time(replay.ended_ms)},
          {"who", replay.who},
          {"reason", text(replay.reason)},
          {"filter", filter.is_object() ? filter : Json::object()},
          {"limits", limits.is_object() ? limits : Json::object()},
          {"approved_by", text(replay.approved_by)},
          {"canary_passed", replay.canary_passed},
          {"waiting", replay.waiting},
          {"running", replay.running},
          {"resolved", replay.resolved},
          {"dead_again", replay.dead_again},
          {"skipped", replay.skipped},
          {"cost_usd", usd(replay.cost_nano)},
          {"why", text(replay.why)}};
}

/// Of a request, for a person's eyes; a body that is no JSON as text.
Json json_of(const ledger::KeptRequest& request) {
  Json headers = Json::object();
  for (const classifier::Header& header : request.headers) headers[header.name] = header.value;
  // Deeper ones as text: who writes them out again needs a stack as deep.
  const Json body = classifier::is_shallow(request.body) ? Json::parse(request.body, nullptr, false)
                                                         : Json(Json::value_t::discarded);
  return {{"method", request.method},
          {"target", request.target},
          {"headers", std::move(headers)},
          {"body", body.is_discarded() ? Json(request.body) : body}};
}

// --- letters -------------------------------------------------------------------------------------------------------

EndpointAnswer groups(const DeadSources& sources, Asked asked) {
  ledger::LettersAsk ask = which(asked);
  state_of(asked, ask);
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto found = read<std::vector<ledger::LetterGroup>>(
      sources, [ask](ledger::Books& books) { return books.letter_groups(ask); });
  if (!found) return std::move(found.error());
  Json list = Json::array();
  for (const ledger::LetterGroup& group : *found) list.push_back(json_of(group));
  return json_answer({{"groups", std::move(list)}});
}

EndpointAnswer letters(const DeadSources& sources, Asked asked) {
  ledger::LettersAsk ask = which(asked);
  state_of(asked, ask);
  ask.after = asked.take("after");
  ask.most = asked.number("most", 100, kMost);
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto found =
      read<std::vector<ledger::LetterLine>>(sources, [ask](ledger::Books& books) { return books.letters(ask); });
  if (!found) return std::move(found.error());
  Json list = Json::array();
  for (const ledger::LetterLine& line : *found) list.push_back(json_of(line));
  return json_answer({{"letters", std::move(list)}});
}

EndpointAnswer no_letter() { return plain_problem(404, "Not found", "There is no such letter, or not any more."); }

EndpointAnswer letter(const DeadSources& sources, const std::string& id, Asked asked) {
  const std::string tenant = asked.take("tenant");
  const std::string shown = asked.take("request");
  if (!shown.empty() && shown != "true" && shown != "false") asked.wrong("may say request=true");
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto found = read<std::optional<ledger::LetterDetail>>(
      sources, [id, tenant](ledger::Books& books) { return books.letter(id, tenant); });
  if (!found) return std::move(found.error());
  if (!*found) return no_letter();
  Json json = json_of((*found)->line);
  const Json labels = Json::parse((*found)->labels, nullptr, false);
  json["labels"] = labels.is_object() ? labels : Json();
  Json steps = Json::array();
  for (const ledger::LetterStep& step : (*found)->steps) {
    Json one{
        {"at", time(step.at_ms)}, {"what", step.what}, {"call_id", text(step.call_id)}, {"class", text(step.cls)}};
    const Json detail = Json::parse(step.detail, nullptr, false);
    if (detail.is_array())
      one["attempts"] = detail;
    else
      one["detail"] = text(step.detail);
    steps.push_back(std::move(one));
  }
  json["history"] = std::move(steps);
  if (shown == "true") {
    auto request = read<std::shared_ptr<const ledger::KeptRequest>>(
        sources, [id](ledger::Books& books) { return books.letter_request(id, -1); });
    if (!request) return std::move(request.error());
    json["kept_request"] = *request ? json_of(**request) : Json();
    // Who looks at somebody's prompt is written down before he sees it.
    auto told = std::make_shared<std::promise<bool>>();
    std::future<bool> written = told->get_future();
    sources.store->remember_act(audit(asked, "dead.reveal", id, {}),
                                [told](ledger::Written how) { told->set_value(how == ledger::Written::Committed); });
    if (written.wait_for(kPatience) != std::future_status::ready || !written.get()) return no_answer();
  }
  return json_answer(json);
}

EndpointAnswer discard(const DeadSources& sources, Asked asked) {
  ledger::LettersAsk ask = which(asked);
  std::string reason = reason_in(asked, true);
  if (ask.group.empty() && ask.ids.empty() && ask.queue.empty() && ask.cls.empty() && ask.operation.empty())
    asked.wrong("must name a group, letters by id, a queue, a class or an operation");
  if (auto refused = asked.refusal()) return std::move(*refused);
  ledger::AuditRow act = audit(asked, "dead.discard", filter_json(ask).dump(), std::move(reason));
  const auto count =
      write<std::int64_t>([&](auto done) { sources.store->discard_letters(ask, std::move(act), std::move(done)); });
  if (!count) return count.error();
  return json_answer({{"count", *count}});
}

/// What a text of JSON says; of a number that is too large its text.
Json value_in(const std::string& json) {
  if (json.empty()) return {};
  Json value = Json::parse(json, nullptr, false);
  return value.is_discarded() ? Json(json) : value;
}

EndpointAnswer edit(const DeadSources& sources, const std::string& id, Asked asked) {
  const std::string tenant = asked.take("tenant");
  const std::string set = asked.take("set");
  const std::string dry = asked.take("dry");
  std::string reason = reason_in(asked, dry != "true");
  if (set.empty()) asked.wrong(R"(needs set, such as {"/model":"gpt-5-mini"})");
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto found = read<std::optional<ledger::LetterDetail>>(
      sources, [id, tenant](ledger::Books& books) { return books.letter(id, tenant); });
  if (!found) return std::move(found.error());
  if (!*found) return no_letter();
  const ledger::LetterLine& line = (*found)->line;
  if (line.state != "open") return plain_problem(409, "Not open", "The letter is " + line.state + " already.");
  if (line.operation == ledger::kWebhook)
    return plain_problem(409, "Not to be edited", "What a webhook tells is what has happened; it is sent as it is.");
  auto request = read<std::shared_ptr<const ledger::KeptRequest>>(
      sources, [id, revision = line.revision](ledger::Books& books) { return books.letter_request(id, revision); });
  if (!request) return std::move(request.error());
  if (!*request) {
    return plain_problem(
        409, "No request", "The letter's request is not there (" + line.payload + "), so there is nothing to edit.");
  }
  auto edited = edit_json((*request)->body, set);
  if (!edited) return plain_problem(400, "Cannot be edited so", edited.error());
  if (std::string fault = sources.schema_fault(line.queue, edited->body); !fault.empty())
    return plain_problem(422, "Against the queue's contract", fault);
  Json difference = Json::array();
  for (const EditedMember& one : edited->members) {
    difference.push_back({{"at", one.at},
                          {"was", value_in(one.was)},
                          {"is", value_in(one.is)},
                          {"was_text", text(one.was)},
                          {"is_text", one.is}});
  }
  if (edited->members.empty())
    return json_answer({{"revision", line.revision}, {"difference", std::move(difference)}});
  if (dry == "true") return json_answer({{"revision", line.revision + 1}, {"difference", std::move(difference)}});
  auto fresh = std::make_shared<ledger::KeptRequest>(**request);
  fresh->body = std::move(edited->body);
  // What has changed, not to what: the letter's request is the place for that.
  std::string where;
  for (const EditedMember& one : edited->members) where += (where.empty() ? "" : ", ") + one.at;
  const auto revision = write<int>([&](auto done) {
    sources.store->edit_letter(id,
                               tenant,
                               line.revision,
                               fresh,
                               sources.terms(line.queue).form,
                               where,
                               audit(asked, "dead.edit", id, reason),
                               std::move(done));
  });
  if (!revision) return revision.error();
  return json_answer({{"revision", *revision}, {"difference", std::move(difference)}});
}

// --- replays -------------------------------------------------------------------------------------------------------

struct PlannedGroup {
  ledger::LetterLine sample{};  // The newest of them.
  std::int64_t count = 0;
  std::map<std::string, std::int64_t> by_model{};
};
struct Planned {
  std::vector<ledger::ReplayItem> items{};
  std::map<std::string, std::int64_t> skipped{};
  std::map<std::string, PlannedGroup> groups{};
  std::set<std::string> queues{};
  bool cut = false;  // More than one plan may hold.
};

/// Why letters can never be sent as they are, whoever waits how long; empty: they can. Each kind is looked at once.
class Sendable {
 public:
  Sendable(const DeadSources& sources, std::int64_t now_ms) : sources_(sources), now_ms_(now_ms) {}
  std::string why_not(const ledger::LetterLine& line) {
    if (line.expires_ms <= now_ms_) return "expired";
    if (line.payload != "kept") return "no_request";
    const auto [at, fresh] = known_.try_emplace({line.tenant, line.route, line.operation});
    if (fresh) at->second = sources_.in_the_way(line);
    return at->second;
  }

 private:
  const DeadSources& sources_;
  std::int64_t now_ms_;
  std::map<std::tuple<std::string, std::string, std::string>, std::string> known_{};
};

/// An edit may name another one.
std::string model_to_be_sent(const DeadSources& sources, const ledger::LetterLine& line) {
  if (line.revision == 0) return line.model;
  const auto request = read<std::shared_ptr<const ledger::KeptRequest>>(
      sources,
      [id = line.id, revision = line.revision](ledger::Books& books) { return books.letter_request(id, revision); });
  if (!request || !*request || !classifier::is_shallow((*request)->body)) return line.model;
  const Json body = Json::parse((*request)->body, nullptr, false);
  const auto model = body.is_object() ? body.find("model") : body.end();
  return model != body.end() && model->is_string() ? model->get<std::string>() : line.model;
}

/// Keys of those letters of webhooks that are of their run's last end.
ledger::Books::Answer<std::set<std::string>> untold_keys(ledger::Books& books,
                                                         const std::vector<ledger::LetterLine>& lines) {
  std::set<std::string> keys;
  for (const ledger::LetterLine& line : lines) {
    if (line.operation != ledger::kWebhook) continue;
    const auto row = books.untold_webhook(line.run);
    if (!row) return std::unexpected{row.error()};
    if (*row) keys.insert(webhook_key(**row));
  }
  return keys;
}

std::expected<Planned, EndpointAnswer> choose(const DeadSources& sources, ledger::LettersAsk ask,
                                              std::int64_t now_ms) {
  Planned plan;
  Sendable sendable{sources, now_ms};
  ask.state = ledger::LetterState::Open;
  ask.most = kAtOnce;
  for (;;) {
    auto page =
        read<std::vector<ledger::LetterLine>>(sources, [ask](ledger::Books& books) { return books.letters(ask); });
    if (!page) return std::unexpected{std::move(page.error())};
    std::vector<std::string> ids;
    for (const ledger::LetterLine& line : *page) ids.push_back(line.id);
    auto busy =
        read<std::vector<std::string>>(sources, [&ids](ledger::Books& books) { return books.in_replay(ids); });
    if (!busy) return std::unexpected{std::move(busy.error())};
    const std::set<std::string> replaying{busy->begin(), busy->end()};
    auto untold =
        read<std::set<std::string>>(sources, [&page](ledger::Books& books) { return untold_keys(books, *page); });
    if (!untold) return std::unexpected{std::move(untold.error())};
    for (const ledger::LetterLine& line : *page) {
      if (replaying.contains(line.id)) {
        ++plan.skipped["in_another_replay"];
      } else if (const std::string why = sendable.why_not(line); !why.empty()) {
        ++plan.skipped[why];
      } else if (line.operation == ledger::kWebhook && !untold->contains(line.key)) {
        ++plan.skipped["told_anew"];
      } else if (plan.items.size() >= kMostItems) {
        plan.cut = true;
      } else {
        ledger::ReplayItem item;
        item.letter = line.id;
        item.revision = line.revision;
        plan.items.push_back(std::move(item));
        const auto [at, fresh] = plan.groups.try_emplace(line.group);
        if (fresh) at->second.sample = line;
        ++at->second.count;
        // Who is only told of something costs nothing.
        if (line.operation != ledger::kWebhook) ++at->second.by_model[model_to_be_sent(sources, line)];
        plan.queues.insert(line.queue);
      }
    }
    if (page->size() < kAtOnce || plan.cut) break;
    ask.after = page->back().id;
  }
  // As they arrived.
  std::ranges::reverse(plan.items);
  return plan;
}

/// What letters of these models may take, from what answered calls of them took in the last week.
struct Estimate {
  std::int64_t input = 0, output = 0, cost = 0;
  std::int64_t unknown = 0;  // Letters of models of which there were none.
  void add(const std::map<std::string, std::int64_t>& by_model, const std::vector<ledger::SpendLine>& answered) {
    for (const auto& [model, count] : by_model) {
      const ledger::SpendLine* like = nullptr;
      for (const ledger::SpendLine& line : answered) {
        if (line.by.front() == model && line.answered > 0) like = &line;
      }
      if (!like) {
        unknown += count;
        continue;
      }
      const double times = static_cast<double>(count) / static_cast<double>(like->answered);
      input += std::llround(static_cast<double>(like->input) * times);
      output += std::llround(static_cast<double>(like->output) * times);
      cost += std::llround(static_cast<double>(like->cost_nano - like->failed_nano) * times);
    }
  }
  [[nodiscard]] Json json() const {
    return {
        {"input_tokens", input}, {"output_tokens", output}, {"cost_usd", usd(cost)}, {"without_estimate", unknown}};
  }
};

std::vector<ledger::SpendLine> answered_by_model(const DeadSources& sources, const Asked& asked) {
  ledger::SpendAsk ask;
  ask.by = {"model"};
  ask.since_ms = asked.week_ago();
  return read<std::vector<ledger::SpendLine>>(sources, [ask](ledger::Books& books) { return books.spend(ask); })
      .value_or(std::vector<ledger::SpendLine>{});
}

/// Of all, and by group, the greatest first.
std::pair<Json, Json> estimates(const DeadSources& sources, const Planned& plan, const Asked& asked) {
  const std::vector<ledger::SpendLine> answered = answered_by_model(sources, asked);
  std::vector<const PlannedGroup*> sorted;
  for (const auto& [name, group] : plan.groups) sorted.push_back(&group);
  std::ranges::stable_sort(sorted, std::greater<>{}, &PlannedGroup::count);
  std::map<std::string, std::int64_t> by_model;
  Json list = Json::array();
  for (const PlannedGroup* group : sorted) {
    Estimate own;
    own.add(group->by_model, answered);
    for (const auto& [model, count] : group->by_model) by_model[model] += count;
    const ledger::LetterLine& line = group->sample;
    list.push_back({{"group", line.group},
                    {"count", group->count},
                    {"class", line.cls},
                    {"code", text(line.code)},
                    {"queue", text(line.queue)},
                    {"model", line.model},
                    {"cause", line.cause},
                    {"estimate", own.json()}});
  }
  Estimate all;
  all.add(by_model, answered);
  return {all.json(), std::move(list)};
}

std::string digest_of(const std::vector<ledger::ReplayItem>& items, const std::string& limits) {
  Digest digest;
  digest.add(limits);
  for (const ledger::ReplayItem& item : items) {
    digest.add(item.letter);
    digest.add(std::to_string(item.revision));
  }
  std::string hex;
  for (const std::uint8_t byte : digest.end()) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[byte >> 4U];
    hex += kDigits[byte & 15U];
  }
  return hex;
}

EndpointAnswer plan(const DeadSources& sources, Asked asked) {
  ledger::LettersAsk ask = which(asked);
  std::string reason = reason_in(asked, ask.ids.size() != 1);
  ReplayLimits limits;
  limits.per_second = asked.real("rate", limits.per_second, 0, 1'000);
  limits.concurrency = static_cast<int>(asked.number("concurrency", 2, 256));
  if (asked.given("canary") == "0")
    asked.wrong("has canary 0, but a replay always begins with one: canary 1 is the smallest, a single letter first");
  limits.canary = static_cast<int>(asked.number("canary", 5, 1'000));
  limits.stop_share = asked.real("stop_share", limits.stop_share, 0, 1);
  if (const std::string most = asked.take("max_cost_usd"); !most.empty()) {
    const auto amount = budget::parse_usd(most);
    if (!amount || amount->value <= 0)
      asked.wrong("has a max_cost_usd that is no amount such as 12.50");
    else
      limits.max_cost_nano = amount->value;
  }
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto chosen = choose(sources, ask, asked.now_ms());
  if (!chosen) return std::move(chosen.error());
  bool needs_approval = false;
  for (const std::string& queue : chosen->queues) {
    const ReplayTerms terms = sources.terms(queue);
    needs_approval = needs_approval || terms.needs_approval;
    if (terms.max_per_second > 0) limits.per_second = std::min(limits.per_second, terms.max_per_second);
    if (terms.canary > 0) limits.canary = std::max(limits.canary, terms.canary);
    if (terms.max_cost_nano)
      limits.max_cost_nano = std::min(limits.max_cost_nano.value_or(INT64_MAX), *terms.max_cost_nano);
  }
  ledger::Replay replay;
  replay.id = sources.new_id();
  replay.created_ms = asked.now_ms();
  replay.who = name_of(asked.who);
  replay.reason = reason;
  replay.tenant = ask.tenant;
  replay.filter = filter_json(ask).dump();
  replay.limits = text_of(limits);
  replay.digest = digest_of(chosen->items, replay.limits);
  replay.waiting = static_cast<std::int64_t>(chosen->items.size());
  if (!chosen->items.empty()) {
    const auto kept = write<bool>([&](auto done) {
      sources.store->plan_replay(replay,
                                 chosen->items,
                                 audit(asked, "replay.plan", replay.id, std::move(reason), replay.waiting),
                                 std::move(done));
    });
    if (!kept) return kept.error();
  }
  Json json = json_of(replay);
  json["count"] = replay.waiting;
  Json skipped = Json::array();
  for (const auto& [why, count] : chosen->skipped) skipped.push_back({{"why", why}, {"count", count}});
  json["skipped_at_plan"] = std::move(skipped);
  json["more_than_one_plan_holds"] = chosen->cut;
  auto [whole, by_group] = estimates(sources, *chosen, asked);
  json["estimate"] = std::move(whole);
  json["groups"] = std::move(by_group);
  json["needs_approval"] = needs_approval;
  return json_answer(json);
}

EndpointAnswer no_replay() { return plain_problem(404, "Not found", "There is no such replay."); }

std::expected<ledger::Replay, EndpointAnswer> one_replay(const DeadSources& sources, const std::string& id) {
  auto found =
      read<std::optional<ledger::Replay>>(sources, [id](ledger::Books& books) { return books.replay(id, {}); });
  if (!found) return std::unexpected{std::move(found.error())};
  if (!*found) return std::unexpected{no_replay()};
  return std::move(**found);
}

EndpointAnswer stale(std::string why) {
  return plain_problem(409, "The plan is stale", std::move(why) + "; make a new plan.");
}

/// What a plan's letters have become since.
std::optional<EndpointAnswer> changed(const DeadSources& sources, const ledger::Replay& replay, std::string* queue) {
  std::string after;
  for (;;) {
    auto items = read<std::vector<ledger::ReplayItem>>(sources, [&](ledger::Books& books) {
      return books.replay_items(replay.id, ledger::ItemState::Waiting, after, kAtOnce);
    });
    if (!items) return std::move(items.error());
    if (items->empty()) return std::nullopt;
    ledger::LettersAsk ask;
    ask.most = kAtOnce;
    for (const ledger::ReplayItem& item : *items) ask.ids.push_back(item.letter);
    auto open =
        read<std::vector<ledger::LetterLine>>(sources, [&](ledger::Books& books) { return books.letters(ask); });
    if (!open) return std::move(open.error());
    std::map<std::string, int> revisions;
    for (const ledger::LetterLine& line : *open) {
      revisions[line.id] = line.revision;
      if (queue->empty() && sources.terms(line.queue).needs_approval) *queue = line.queue;
    }
    for (const ledger::ReplayItem& item : *items) {
      const auto now = revisions.find(item.letter);
      if (now == revisions.end()) return stale("Letter " + item.letter + " is not open any more");
      if (now->second != item.revision) return stale("Letter " + item.letter + " has been edited");
    }
    auto busy =
        read<std::vector<std::string>>(sources, [&](ledger::Books& books) { return books.in_replay(ask.ids); });
    if (!busy) return std::move(busy.error());
    if (!busy->empty()) return stale("Letter " + busy->front() + " is in another replay by now");
    after = items->back().letter;
    if (items->size() < kAtOnce) return std::nullopt;
  }
}

std::expected<ReplayState, EndpointAnswer> move(const DeadSources& sources, const Asked& asked, const std::string& id,
                                                std::vector<ReplayState> from, ReplayState to, const char* act,
                                                std::string why, std::string reason) {
  return write<ReplayState>([&](auto done) {
    sources.store->move_replay(
        id, std::move(from), to, std::move(why), audit(asked, act, id, std::move(reason)), std::move(done));
  });
}

EndpointAnswer start(const DeadSources& sources, const std::string& id, Asked asked) {
  const std::string digest = asked.take("digest");
  std::string reason = reason_in(asked, false);
  if (digest.empty()) asked.wrong("needs the plan's digest, which says what was agreed to");
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto replay = one_replay(sources, id);
  if (!replay) return std::move(replay.error());
  if (replay->digest != digest) return stale("The digest is another plan's");
  // Twice is once.
  if (replay->state == ReplayState::Running) {
    sources.look(id);
    return json_answer(json_of(*replay));
  }
  if (replay->state == ReplayState::Planned) {
    if (asked.now_ms() - replay->created_ms > kHoldsMs) return stale("The plan is older than an hour");
    std::string queue;
    if (auto now = changed(sources, *replay, &queue)) return std::move(*now);
    if (!queue.empty() && replay->approved_by.empty()) {
      return plain_problem(409,
                           "Needs an approval",
                           "The contract of queue " + queue + " wants replays approved: callgate dead approve " + id +
                               " --by NAME --reason …");
    }
  }
  const auto state = move(sources,
                          asked,
                          id,
                          {ReplayState::Planned, ReplayState::Paused, ReplayState::Stopped},
                          ReplayState::Running,
                          "replay.start",
                          {},
                          std::move(reason));
  if (!state) return state.error();
  if (*state != ReplayState::Running)
    return plain_problem(
        409,
        "Over",
        "The replay is " + std::string{ledger::kReplayStateNames[static_cast<std::size_t>(*state)]} + ".");
  sources.look(id);
  replay = one_replay(sources, id);
  return replay ? json_answer(json_of(*replay)) : std::move(replay.error());
}

EndpointAnswer turn(const DeadSources& sources, const std::string& id, std::string_view how, Asked asked) {
  std::string reason = reason_in(asked, false);
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto replay = one_replay(sources, id);
  if (!replay) return std::move(replay.error());
  std::vector<ReplayState> from{ReplayState::Running};
  ReplayState to = ReplayState::Paused;
  const char* act = "replay.pause";
  if (how == "resume") {
    from = {ReplayState::Paused};
    to = ReplayState::Running;
    act = "replay.resume";
  } else if (how == "cancel") {
    from = {ReplayState::Planned, ReplayState::Running, ReplayState::Paused, ReplayState::Stopped};
    to = ReplayState::Cancelled;
    act = "replay.cancel";
  }
  const auto state =
      move(sources, asked, id, std::move(from), to, act, how == "cancel" ? "cancelled" : "", std::move(reason));
  if (!state) return state.error();
  sources.look(id);
  if (*state != to)
    return plain_problem(
        409,
        "Not now",
        "The replay is " + std::string{ledger::kReplayStateNames[static_cast<std::size_t>(*state)]} + ".");
  replay = one_replay(sources, id);
  return replay ? json_answer(json_of(*replay)) : std::move(replay.error());
}

EndpointAnswer approve(const DeadSources& sources, const std::string& id, Asked asked) {
  const std::string by = asked.take("by");
  std::string reason = reason_in(asked, true);
  if (by.empty() || by.size() > 64) asked.wrong("needs by, the name of who approves");
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto replay = one_replay(sources, id);
  if (!replay) return std::move(replay.error());
  if (replay->state != ReplayState::Planned) return plain_problem(409, "Not now", "Only a plan can be approved.");
  if (asked.who && replay->who == asked.who->user)
    return plain_problem(
        403, "Not an approver", "Who has planned a replay cannot approve of it: somebody else must.");
  if (asked.who && !asked.who->is(by)) {
    return plain_problem(
        403, "Not an approver", by + " is neither " + asked.who->user + ", who asks for it, nor a group of theirs.");
  }
  // Whoever its queues' contracts name.
  std::string after;
  std::set<std::string> queues;
  for (;;) {
    auto items = read<std::vector<ledger::ReplayItem>>(
        sources, [&](ledger::Books& books) { return books.replay_items(id, std::nullopt, after, kAtOnce); });
    if (!items) return std::move(items.error());
    if (items->empty()) break;
    ledger::LettersAsk ask;
    ask.state.reset();
    ask.most = kAtOnce;
    for (const ledger::ReplayItem& item : *items) ask.ids.push_back(item.letter);
    auto lines =
        read<std::vector<ledger::LetterLine>>(sources, [&](ledger::Books& books) { return books.letters(ask); });
    if (!lines) return std::move(lines.error());
    for (const ledger::LetterLine& line : *lines) queues.insert(line.queue);
    after = items->back().letter;
  }
  for (const std::string& queue : queues) {
    const ReplayTerms terms = sources.terms(queue);
    if (terms.needs_approval && !terms.approvers.empty() &&
        std::ranges::find(terms.approvers, by) == terms.approvers.end())
      return plain_problem(403, "Not an approver", "The contract of queue " + queue + " does not name them.");
  }
  const auto done = write<bool>([&](auto told) {
    sources.store->approve_replay(id, by, audit(asked, "replay.approve", id, std::move(reason)), std::move(told));
  });
  if (!done) return done.error();
  replay = one_replay(sources, id);
  return replay ? json_answer(json_of(*replay)) : std::move(replay.error());
}

EndpointAnswer replays(const DeadSources& sources, Asked asked) {
  const std::string tenant = asked.take("tenant");
  const std::size_t most = asked.number("most", 100, kMost);
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto found = read<std::vector<ledger::Replay>>(
      sources, [tenant, most](ledger::Books& books) { return books.replays(tenant, most); });
  if (!found) return std::move(found.error());
  Json list = Json::array();
  for (const ledger::Replay& replay : *found) list.push_back(json_of(replay));
  return json_answer({{"replays", std::move(list)}});
}

EndpointAnswer items(const DeadSources& sources, const std::string& id, Asked asked) {
  const std::string after = asked.take("after");
  const std::string state = asked.take("state");
  const std::size_t most = asked.number("most", 100, kMost);
  std::optional<ledger::ItemState> wanted;
  if (!state.empty()) {
    const auto found = std::ranges::find(ledger::kItemStateNames, state);
    if (found == ledger::kItemStateNames.end())
      asked.wrong("has a state that is none of waiting, running, resolved, dead_again and skipped");
    else
      wanted = static_cast<ledger::ItemState>(found - ledger::kItemStateNames.begin());
  }
  if (auto refused = asked.refusal()) return std::move(*refused);
  if (auto replay = one_replay(sources, id); !replay) return std::move(replay.error());
  auto found = read<std::vector<ledger::ReplayItem>>(
      sources, [&](ledger::Books& books) { return books.replay_items(id, wanted, after, most); });
  if (!found) return std::move(found.error());
  Json list = Json::array();
  for (const ledger::ReplayItem& item : *found) {
    list.push_back({{"letter", item.letter},
                    {"revision", item.revision},
                    {"state", ledger::kItemStateNames[static_cast<std::size_t>(item.state)]},
                    {"why", text(item.why)},
                    {"call_id", text(item.call_id)},
                    {"cost_usd", usd(item.cost_nano)}});
  }
  return json_answer({{"items", std::move(list)}});
}

EndpointAnswer acts(const DeadSources& sources, Asked asked) {
  const std::size_t before = asked.number("before", INT64_MAX, INT64_MAX);
  const std::size_t most = asked.number("most", 100, kMost);
  if (auto refused = asked.refusal()) return std::move(*refused);
  auto found = read<std::vector<ledger::AuditRow>>(
      sources, [&](ledger::Books& books) { return books.acts(static_cast<std::int64_t>(before), most); });
  if (!found) return std::move(found.error());
  Json list = Json::array();
  for (const ledger::AuditRow& row : *found) {
    list.push_back({{"seq", row.seq},
                    {"at", time(row.at_ms)},
                    {"who", row.who},
                    {"act", row.act},
                    {"what", row.what},
                    {"reason", text(row.reason)},
                    {"count", row.count}});
  }
  return json_answer({{"acts", std::move(list)}});
}

EndpointAnswer only(std::string_view method) {
  EndpointAnswer answer =
      plain_problem(405, "Method not allowed", "Only " + std::string{method} + " is answered here.");
  answer.headers.push_back({"Allow", std::string{method}});
  return answer;
}

}  // namespace

bool asks_dead(std::string_view path) {
  const auto below = [&](std::string_view root) {
    return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
  };
  return below(kDead) || below(kReplays) || path == "/v1/audit";
}

EndpointAnswer answer_of_dead(const DeadSources& sources, std::string_view method, std::string_view path,
                              std::string_view query, WallTime now, const std::optional<PeerIds>& peer) {
  Asked asked{query, now};
  const bool get = method == "GET";
  if (peer) asked.who = peer_named(*peer);
  if (path == "/v1/audit") return get ? acts(sources, std::move(asked)) : only("GET");
  const bool dead = path.starts_with(kDead) && !path.starts_with(kReplays);
  path.remove_prefix(dead ? kDead.size() : kReplays.size());
  if (!path.empty()) path.remove_prefix(1);
  const std::string id{path.substr(0, path.find('/'))};
  const std::string_view act = id.size() < path.size() ? path.substr(id.size() + 1) : std::string_view{};
  if (dead) {
    if (id.empty()) return get ? letters(sources, std::move(asked)) : only("GET");
    if (id == "groups" && act.empty()) return get ? groups(sources, std::move(asked)) : only("GET");
    if (id == "discard" && act.empty()) return get ? only("POST") : discard(sources, std::move(asked));
    if (act == "edit") return get ? only("POST") : edit(sources, id, std::move(asked));
    if (act.empty()) return get ? letter(sources, id, std::move(asked)) : only("GET");
    return plain_problem(404, "Not found", "There is no such page.");
  }
  if (id.empty()) return get ? replays(sources, std::move(asked)) : plan(sources, std::move(asked));
  if (act == "items") return get ? items(sources, id, std::move(asked)) : only("GET");
  if (act.empty()) {
    if (!get) return only("GET");
    if (auto refused = asked.refusal()) return std::move(*refused);
    auto replay = one_replay(sources, id);
    return replay ? json_answer(json_of(*replay)) : std::move(replay.error());
  }
  if (act != "start" && act != "pause" && act != "resume" && act != "cancel" && act != "approve")
    return plain_problem(404, "Not found", "There is no such page.");
  if (get) return only("POST");
  if (act == "start") return start(sources, id, std::move(asked));
  if (act == "approve") return approve(sources, id, std::move(asked));
  return turn(sources, id, act, std::move(asked));
}

}  // namespace gateway
