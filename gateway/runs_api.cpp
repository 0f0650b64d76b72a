#include "gateway/runs_api.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "budget/price.h"
#include "classifier/json_depth.h"
#include "gateway/answer_headers.h"
#include "gateway/awaited.h"
#include "gateway/call_id.h"
#include "gateway/config_values.h"
#include "gateway/digest.h"
#include "gateway/job_key.h"
#include "gateway/json_out.h"
#include "gateway/json_tree.h"
#include "gateway/letters.h"
#include "gateway/query.h"
#include "gateway/webhook_sender.h"

namespace gateway {

using Json = nlohmann::ordered_json;
using ledger::RunLine;
using ledger::RunState;
using std::chrono::milliseconds;

namespace {

constexpr std::string_view kPath = "/callgate/v1/runs";
constexpr milliseconds kStorePatience{5'000};
constexpr milliseconds kLongestWait{60'000};
constexpr milliseconds kCancelWait{5'000};
constexpr milliseconds kLookAgain{1'000};  // At what others may have changed.
constexpr std::size_t kMostListed = 1'000;
constexpr std::size_t kListed = 100;
constexpr std::size_t kMostInline = 1024 * 1024;  // Of a result within a run's JSON.
constexpr std::size_t kIdMax = 64;
constexpr int kRetryAfter = 2;
constexpr int kFullRetryAfter = 30;

std::int64_t ms_of(WallTime when) { return std::chrono::floor<milliseconds>(when).time_since_epoch().count(); }

std::string time_text(std::int64_t ms) {
  std::string text;
  append_time(text, WallTime{milliseconds{ms}});
  return text;
}

Json time_or_null(const std::optional<std::int64_t>& ms) { return ms ? Json(time_text(*ms)) : Json(nullptr); }

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

AnswerHead head_of(int status, std::string_view type) {
  AnswerHead head;
  head.status = status;
  head.headers.push_back({"Content-Type", std::string{type}});
  head.headers.push_back({"Cache-Control", "no-store"});
  return head;
}

bool is_over(std::string_view state) { return state != "queued" && state != "running"; }

bool is_not_running(std::string_view state) { return state != "running"; }

std::string base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),          // NOLINT
                                   reinterpret_cast<const unsigned char*>(bytes.data()),  // NOLINT
                                   static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

ledger::RunBounds bounds_of(const Config& config) {
  return {.open = config.runs.max_open,
          .bytes = static_cast<std::int64_t>(std::min<std::uint64_t>(config.runs.max_bytes, INT64_MAX))};
}

Json links_of(std::string_view id) {
  const std::string self = std::string{kPath} + "/" + std::string{id};
  return {{"self", self}, {"result", self + "/result"}};
}

/// What is true of a provider's answer whenever it is given: nothing of ours that is of one call alone.
classifier::Headers given(const ledger::StoredAnswer& answer) {
  classifier::Headers headers = answer.headers;
  for (const std::string_view name : {"content-length", "transfer-encoding", "connection"}) remove(headers, name);
  return headers;
}

/// Can it stand within other JSON as it is? (A byte order mark may only stand at a text's begin.)
bool is_json(std::string_view body) {
  return classifier::is_shallow(body) && !body.starts_with("\xEF\xBB\xBF") && Json::accept(body);
}

/// One object, with the body's own bytes in it where they are JSON: numbers of any size, members in their order.
std::string result_of(const ledger::StoredAnswer& answer) {
  Json headers = Json::object();
  for (const classifier::Header& header : given(answer)) headers[header.name] = header.value;
  Json result = {{"status", answer.status}, {"headers", std::move(headers)}};
  if (answer.body.size() > kMostInline) {
    result["body_bytes"] = answer.body.size();
  } else if (is_json(answer.body)) {
    std::string text = result.dump(-1, ' ', false, Json::error_handler_t::replace);
    text.back() = ',';
    return text.append("\"body\":").append(answer.body).append("}");
  } else {
    // What is no UTF-8 cannot be a text.
    try {
      result["body_text"] = answer.body;
      (void)result.dump();
    } catch (const Json::exception&) {
      result.erase("body_text");
      result["body_base64"] = base64(answer.body);
    }
  }
  return result.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json json_of(const RunLine& line) {
  Json run = {{"id", line.id}, {"state", line.state}};
  run["class"] = line.cls.empty() ? Json(nullptr) : Json(line.cls);
  if (!line.why.empty()) run["why"] = line.why;
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const std::string*>>{{"queue", &line.queue},
                                                                         {"lane", &line.lane},
                                                                         {"run_id", &line.run_id},
                                                                         {"key", &line.key},
                                                                         {"ordering_key", &line.ordering_key},
                                                                         {"version", &line.version},
                                                                         {"route", &line.route},
                                                                         {"model", &line.model},
                                                                         {"call_id", &line.call_id}}) {
    if (!value->empty()) run[name] = *value;
  }
  if (!line.labels.empty()) {
    if (Json labels = Json::parse(line.labels, nullptr, false); !labels.is_discarded())
      run["labels"] = std::move(labels);
  }
  run["created_at"] = time_text(line.created_ms);
  if (line.not_before_ms > line.created_ms) run["not_before"] = time_text(line.not_before_ms);
  if (line.deadline_ms) run["deadline"] = time_text(*line.deadline_ms);
  run["started_at"] = time_or_null(line.started_ms);
  run["ended_at"] = time_or_null(line.ended_ms);
  run["starts"] = line.starts;
  if (line.crashes > 0) run["crashes"] = line.crashes;
  run["cost_usd"] = line.cost_nano ? Json(budget::usd_text(budget::NanoUsd{*line.cost_nano})) : Json(nullptr);
  if (!line.webhook_state.empty()) run["webhook"] = line.webhook_state;
  run["links"] = links_of(line.id);
  return run;
}

}  // namespace

/// Why not, as problem+json.
struct RunsApi::No {
  // No aggregate: g++ 12 destroys such a temporary twice beside a co_await.
  No() = default;
  No(const No&) = default;
  No(No&&) = default;
  No& operator=(const No&) = default;
  No& operator=(No&&) = default;
  ~No() = default;
  int status = 400;
  std::string code{};
  std::string title{};
  std::string detail{};
  int retry_after = 0;
  Json more = Json::object();
};

struct RunsApi::Extra {
  std::string ordering_key{};
  std::int64_t not_before_ms = 0;
  std::string webhook{};
};

namespace {

template <typename Problem>
task<void> refuse(Caller& caller, Problem no) {
  AnswerHead head = head_of(no.status, "application/problem+json");
  if (no.retry_after > 0) head.headers.push_back({"Retry-After", std::to_string(no.retry_after)});
  if (no.status == 405) head.headers.push_back({"Allow", no.code});
  Json body = {{"title", no.title}, {"status", no.status}, {"detail", no.detail}};
  if (!no.code.empty() && no.status != 405) body["code"] = no.code;
  body.update(no.more);
  const std::string text = text_of(body);
  co_await caller.answer(std::move(head), text);
}

}  // namespace

RunsApi::RunsApi(Runtime& runtime, asio::io_context& io, ledger::Store& store, Runs& runs, Front& front,
                 Metrics& metrics, std::function<std::string()> store_trouble)
    : runtime_(runtime),
      io_(io),
      store_(store),
      runs_(runs),
      front_(front),
      metrics_(metrics),
      store_trouble_(std::move(store_trouble)) {}

bool RunsApi::is_asked(const Inbound& request) const {
  const std::string_view path = std::string_view{request.target}.substr(0, request.target.find('?'));
  return path.starts_with(kPath) && (path.size() == kPath.size() || path[kPath.size()] == '/');
}

std::string RunsApi::new_id() {
  const std::int64_t now = ms_of(runtime_.wall_now());
  if (now > last_ms_) {
    last_ms_ = now;
    in_ms_ = 0;
  } else if (++in_ms_ > 0xFFF) {
    // RFC 9562 §6.2: a counter that is full takes of the time to come.
    ++last_ms_;
    in_ms_ = 0;
  }
  return new_call_id(WallTime{milliseconds{last_ms_}}, in_ms_, runtime_.random_bits());
}

// ---- A run comes ----

task<std::expected<ledger::RunAnswer, RunsApi::No>> RunsApi::accept(Understood what, Extra extra) {
  const std::shared_ptr<const Config> config = runs_.config();
  const auto no = [](int status, std::string code, std::string title, std::string detail, int retry_after = 0) {
    No refused;
    refused.status = status;
    refused.code = std::move(code);
    refused.title = std::move(title);
    refused.detail = std::move(detail);
    refused.retry_after = retry_after;
    return std::unexpected{std::move(refused)};
  };
  Call& call = what.call;
  if (!config->runs.enabled)
    co_return no(501, "callgate_no_runs", "Runs are off", "this callgate makes no runs (runs.enabled: false)");
  using Payloads = Config::Store::Payloads;
  const bool kept = config->store.payloads == Payloads::Plain ||
                    (config->store.payloads == Payloads::Auto && config->store.payload_key.given());
  if (!kept)
    co_return no(422,
                 "callgate_nothing_kept",
                 "Requests are not kept",
                 "a run's request must outlive this process; configure store.payload_key, or store.payloads: plain");
  if (config->store.path == ":memory:")
    co_return no(422,
                 "callgate_nothing_kept",
                 "Requests are not kept",
                 "a run's request must outlive this process, and store.path is :memory:");
  if (std::string trouble = store_trouble_(); !trouble.empty())
    co_return no(503, "callgate_store", "The store cannot be written", std::move(trouble), kFullRetryAfter);
  const auto own = std::ranges::find_if(call.candidates, [](const auto& way) { return !way.configured; });
  if (own != call.candidates.end())
    co_return no(422, "callgate_no_credential", "No credential", no_credential(own->upstream));
  if (!extra.webhook.empty()) {
    if (const auto target =
            webhook_target(extra.webhook, config->webhooks.allow_hosts, config->webhooks.allow_private_hosts);
        !target)
      co_return no(422, "callgate_webhook", "The webhook may not be told", "webhook: " + target.error());
    if (runs_.secrets().empty())
      co_return no(422,
                   "callgate_webhook",
                   "The webhook may not be told",
                   "webhook: nothing could be signed; configure webhooks.secret");
  }

  const TimePoint now = runtime_.now();
  const WallTime wall = runtime_.wall_now();
  ledger::NewRun run;
  run.id = new_id();
  run.tenant = call.tenant;
  run.queue = call.queue;
  run.lane = std::string{budget::name_of(call.lane)};
  run.run_id = call.run_id;
  run.labels = call.labels;
  run.route = call.route->name;
  run.model = call.facts.model;
  run.webhook = extra.webhook;
  run.created_ms = ms_of(wall);
  run.not_before_ms = std::max<std::int64_t>(extra.not_before_ms, 0);
  if (call.deadline != TimePoint::max())
    run.deadline_ms = ms_of(wall + std::chrono::floor<milliseconds>(call.deadline - now));
  if (run.deadline_ms && *run.deadline_ms <= std::max(run.created_ms, run.not_before_ms))
    co_return no(422, "callgate_deadline", "Too late", "its deadline is before the time at which it may begin");
  run.request = kept_of(call);
  std::optional<JobKey> key = std::move(what.key);
  if (auto fits = co_await by_contract(call, key, run, extra); !fits) co_return std::unexpected{fits.error()};

  if (key && key->kind != JobKey::Kind::Undelivered) {
    run.key = key->shown;
    run.scope = key->scope;
    run.fingerprint = key->fingerprint;
  } else {
    Digest digest;
    digest.add("run");
    digest.add(run.id);
    run.scope = digest.end();
    run.fingerprint = fingerprint_of(run.request->headers, run.request->body);
  }
  const std::string queue = run.queue;
  auto awaited = std::make_shared<Awaited<ledger::RunAnswer>>(io_);
  // It is kept, though its worker was told otherwise: with its key he will get the same one. Without a key he will
  // have sent another, and nobody knows of this one.
  awaited->if_late([this, queue, keyed = !run.key.empty(), tenant = run.tenant](const ledger::RunAnswer& answer) {
    if (answer.kind != ledger::RunAnswer::Kind::Accepted) return;
    if (keyed) return runs_.touched(queue);
    (void)runs_.cancel(answer.id);
    ledger::AuditRow audit;
    audit.at_ms = ms_of(runtime_.wall_now());
    audit.who = tenant;
    audit.act = "run.cancel";
    audit.what = answer.id;
    audit.reason = "it was accepted too late, when its worker had been told that it was not";
    audit.count = 1;
    store_.cancel_run(answer.id, tenant, std::move(audit), [](std::optional<RunState>) {});
  });
  const std::size_t body_bytes = run.request->body.size();
  store_.accept_run(std::move(run), Awaited<ledger::RunAnswer>::teller(awaited), bounds_of(*config));
  std::optional<ledger::RunAnswer> answer =
      co_await Awaited<ledger::RunAnswer>::told(awaited, runtime_, now + kStorePatience);
  using Kind = ledger::RunAnswer::Kind;
  if (!answer || answer->kind == Kind::NoStore)
    co_return no(503,
                 "callgate_store",
                 "The store cannot be written",
                 answer ? "the run is not kept, since the disk refuses it; send it again"
                        : "the store did not answer in time; send it again, with a key so that it is one run",
                 1);
  if (answer->kind == Kind::Full)
    co_return no(503,
                 "callgate_queue_blocked",
                 "The queue's dead letters are full",
                 "queue " + queue + " has " + std::to_string(answer->letters) + " dead letters and " +
                     std::to_string(answer->unfinished) +
                     " runs that are not over, each of which may become one, and takes nothing new until some are "
                     "replayed, discarded or over (dead_letter.max_items)",
                 kFullRetryAfter);
  if (answer->kind == Kind::OtherBody)
    co_return no(422,
                 "callgate_key_reused",
                 "The key is another run's",
                 "this key is that of run " + answer->id +
                     ", which has another body or other version headers; a key is for one request alone");
  if (answer->kind == Kind::TooMany || answer->kind == Kind::TooMuch) {
    const bool by_number = answer->kind == Kind::TooMany;
    metrics_.run_refused(queue, by_number ? "max_open" : "max_bytes");
    if (!by_number && body_bytes > config->runs.max_bytes)
      co_return no(413,
                   "callgate_runs_full",
                   "Too large",
                   "its body alone is larger than all open runs together may be (runs.max_bytes)");
    co_return no(503,
                 "callgate_runs_full",
                 "Too many runs are open",
                 by_number ? "as many runs as may be are queued or running (runs.max_open); send it again later"
                           : "the requests of the runs that are queued or running take all the room that they may "
                             "(runs.max_bytes); send it again later",
                 kFullRetryAfter);
  }
  metrics_.run_accepted(queue, answer->kind == Kind::Accepted);
  if (answer->kind == Kind::Accepted) runs_.touched(queue);
  co_return std::move(*answer);
}

task<std::expected<void, RunsApi::No>> RunsApi::by_contract(Call& call, std::optional<JobKey>& key,
                                                            ledger::NewRun& run, const Extra& extra) {
  const std::shared_ptr<const Config> config = runs_.config();
  const QueueContract& contract = contract_of(*config, run.queue);
  run.ordering_key = extra.ordering_key;
  No refused;
  refused.status = 422;
  const std::string_view body = run.request->body;
  if (contract.payload_schema.schema) {
    const std::vector<PayloadFault> faults = contract.payload_schema.schema->check(body);
    if (!faults.empty()) {
      refused.code = "callgate_payload";
      refused.title = "The body is not as its queue's contract says";
      refused.detail = text_of(faults.front());
      refused.more["places"] = Json::array();
      for (const PayloadFault& fault : faults)
        refused.more["places"].push_back({{"pointer", fault.pointer}, {"expected", fault.expected}});
      co_return std::unexpected{std::move(refused)};
    }
  }
  const auto value =
      [&](const std::optional<JsonPath>& path, std::string_view what, std::string& into) -> std::expected<void, No> {
    if (!path) return {};
    auto found = path->value_in(body);
    if (found) {
      if (*found) into = std::move(**found);
      return {};
    }
    No bad;
    bad.status = 422;
    bad.code = "callgate_payload";
    bad.title = "The body is not as its queue's contract says";
    bad.detail = std::string{what} + " (" + path->text() + ") " + found.error();
    return std::unexpected{std::move(bad)};
  };
  if (auto good = value(contract.version_from, "version_from", run.version); !good)
    co_return std::unexpected{good.error()};
  if (run.ordering_key.empty()) {
    if (auto good = value(contract.ordering_key, "ordering_key", run.ordering_key); !good)
      co_return std::unexpected{good.error()};
  }
  if (call.idempotency_key.empty()) {
    std::string found;
    if (auto good = value(contract.idempotency_key_from, "idempotency_key.from", found); !good)
      co_return std::unexpected{good.error()};
    if (!found.empty()) {
      call.idempotency_key = std::move(found);
      key = job_key(call, body, config->idempotency.derive, run.queue);
    } else if (contract.idempotency_key_from) {
      refused.code = "callgate_payload";
      refused.title = "The body is not as its queue's contract says";
      refused.detail = "idempotency_key.from (" + contract.idempotency_key_from->text() + ") names no value of it";
      co_return std::unexpected{std::move(refused)};
    }
  }
  run.most_letters = contract.dead_letter.max_items;
  run.key_ttl_ms = contract.idempotency_key_ttl.count();
  co_return std::expected<void, No>{};
}

task<void> RunsApi::order(Inbound request, std::shared_ptr<const TenantConfig> tenant, Caller& caller) {
  auto order = read_run_order(request.body ? std::string_view{*request.body} : std::string_view{});
  No refused;
  if (!order) {
    refused.code = "callgate_bad_run";
    refused.title = "Bad request";
    refused.detail = order.error();
    co_await refuse(caller, std::move(refused));
    co_return;
  }
  Inbound inner = std::move(order->request);
  inner.authority = request.authority;
  inner.arrived = runtime_.now();
  // Its size has been counted by the server, with the order it came in.
  request = Inbound{};
  auto what = front_.understand(std::move(inner), std::move(tenant));
  if (!what) {
    const RefusedRequest& bad = what.error();
    refused.status = bad.status;
    refused.code = bad.code;
    refused.title = bad.status == 403 ? "Not allowed" : "Bad request";
    refused.detail = bad.message;
    co_await refuse(caller, std::move(refused));
    co_return;
  }
  Extra extra;
  extra.ordering_key = std::move(order->ordering_key);
  extra.not_before_ms = order->not_before_ms;
  extra.webhook = std::move(order->webhook);
  auto answer = co_await accept(std::move(*what), std::move(extra));
  if (!answer) {
    co_await refuse(caller, std::move(answer.error()));
    co_return;
  }
  const bool over = ledger::is_over(answer->state);
  AnswerHead head = head_of(over ? 200 : 202, "application/json");
  head.headers.push_back({"Location", std::string{kPath} + "/" + answer->id});
  if (!over) head.headers.push_back({"Retry-After", std::to_string(kRetryAfter)});
  const Json body = {{"id", answer->id},
                     {"state", ledger::kRunStateNames[static_cast<std::size_t>(answer->state)]},
                     {"links", links_of(answer->id)}};
  const std::string text = text_of(body);
  co_await caller.answer(std::move(head), text);
}

task<void> RunsApi::later(Understood what, milliseconds wait, Caller& caller, Signal& signal) {
  const std::string tenant = what.call.tenant;
  const TimePoint until = runtime_.now() + std::min(wait, kLongestWait);
  Extra nothing;
  auto accepted = co_await accept(std::move(what), std::move(nothing));
  if (!accepted) {
    co_await refuse(caller, std::move(accepted.error()));
    co_return;
  }
  std::string state{ledger::kRunStateNames[static_cast<std::size_t>(accepted->state)]};
  if (wait > milliseconds{0}) {
    const Found found = co_await await_end(accepted->id, tenant, until, signal);
    if (signal.stopped()) co_return caller.abort();
    if (found && *found) state = (*found)->state;
    if (found && *found && is_over(state) && (*found)->has_answer) {
      if (const auto answer = co_await answer_of(accepted->id)) {
        AnswerHead head;
        head.status = answer->status;
        head.headers = given(*answer);
        head.headers.push_back({"Content-Location", std::string{kPath} + "/" + accepted->id + "/result"});
        head.headers.push_back({"Vary", "Prefer"});
        co_await caller.answer(std::move(head), answer->body);
        co_return;
      }
    }
  }
  AnswerHead head = head_of(202, "application/json");
  head.headers.push_back({"Location", std::string{kPath} + "/" + accepted->id});
  head.headers.push_back({"Preference-Applied", "respond-async"});
  head.headers.push_back({"Retry-After", std::to_string(kRetryAfter)});
  head.headers.push_back({"Vary", "Prefer"});
  const Json body = {{"id", accepted->id}, {"state", state}, {"links", links_of(accepted->id)}};
  const std::string text = text_of(body);
  co_await caller.answer(std::move(head), text);
}

// ---- What became of it ----

task<RunsApi::Found> RunsApi::find(std::string id, std::string tenant) {
  auto awaited = std::make_shared<Awaited<Found>>(io_);
  auto tell = Awaited<Found>::teller(awaited);
  store_.read([id = std::move(id), tenant = std::move(tenant), tell = std::move(tell)](ledger::Books& books) mutable {
    tell(books.run(id, tenant));
  });
  std::optional<Found> found = co_await Awaited<Found>::told(awaited, runtime_, runtime_.now() + kStorePatience);
  if (found) co_return std::move(*found);
  co_return std::unexpected{std::string{"the store did not answer in time"}};
}

task<RunsApi::Found> RunsApi::await_end(std::string id, std::string tenant, TimePoint until, Signal& signal) {
  return await_state(&is_over, std::move(id), std::move(tenant), until, signal);
}

task<RunsApi::Found> RunsApi::await_no_more_running(std::string id, std::string tenant, TimePoint until,
                                                    Signal& signal) {
  return await_state(&is_not_running, std::move(id), std::move(tenant), until, signal);
}

task<RunsApi::Found> RunsApi::await_state(bool (*is_it)(std::string_view state), std::string id, std::string tenant,
                                          TimePoint until, Signal& signal) {
  for (;;) {
    const std::uint64_t known = runs_.news();
    Found found = co_await find(id, tenant);
    const bool done = !found || !*found || is_it((*found)->state);
    if (done || signal.stopped() || signal.draining() || runtime_.now() >= until) co_return found;
    co_await runs_.wait_for_news(known, std::min(until, runtime_.now() + kLookAgain), signal);
  }
}

task<std::shared_ptr<const ledger::StoredAnswer>> RunsApi::answer_of(std::string id) {
  using Answer = std::shared_ptr<const ledger::StoredAnswer>;
  auto awaited = std::make_shared<Awaited<Answer>>(io_);
  auto tell = Awaited<Answer>::teller(awaited);
  store_.read([id = std::move(id), tell = std::move(tell)](ledger::Books& books) mutable {
    auto answer = books.run_answer(id);
    tell(answer ? std::move(*answer) : nullptr);
  });
  const std::optional<Answer> answer =
      co_await Awaited<Answer>::told(awaited, runtime_, runtime_.now() + kStorePatience);
  co_return answer.value_or(nullptr);
}

namespace {

template <typename Problem>
Problem unknown_run() {
  Problem none;
  none.status = 404;
  none.code = "callgate_no_such_run";
  none.title = "Not found";
  none.detail = "This tenant has no such run, or it is not kept any more.";
  return none;
}

template <typename Problem>
Problem unreadable(const std::string& why) {
  Problem away;
  away.status = 503;
  away.code = "callgate_store";
  away.title = "The store cannot be read";
  away.detail = why;
  away.retry_after = 1;
  return away;
}

}  // namespace

namespace {

/// Why there is none to be told of. (By name: g++ 12 is lost in a ?: beside a co_await.)
template <typename Problem, typename Found>
Problem missing(const Found& found) {
  if (found) return unknown_run<Problem>();
  return unreadable<Problem>(found.error());
}

}  // namespace

task<void> RunsApi::serve(Inbound request, std::shared_ptr<const TenantConfig> tenant, Caller& caller,
                          Signal& signal) {
  const std::string target = request.target;
  const std::string_view path = std::string_view{target}.substr(0, target.find('?'));
  const std::string_view query = path.size() < target.size() ? std::string_view{target}.substr(path.size() + 1) : "";
  std::string_view rest = path.substr(kPath.size());
  if (!rest.empty()) rest.remove_prefix(1);
  const std::string id{rest.substr(0, rest.find('/'))};
  const std::string_view below = id.size() < rest.size() ? rest.substr(id.size() + 1) : std::string_view{};
  No wrong;
  wrong.status = 405;
  wrong.title = "Method not allowed";
  if (id.empty() && rest.empty()) {
    if (request.method == "POST") {
      co_await order(std::move(request), std::move(tenant), caller);
      co_return;
    }
    if (request.method == "GET") {
      co_await list(request, tenant->name, caller);
      co_return;
    }
    wrong.code = "GET, POST";
    wrong.detail = "Runs are ordered here by POST and listed by GET.";
  } else if (id.empty() || id.size() > kIdMax || (!below.empty() && below != "result" && below != "retry") ||
             rest.ends_with('/')) {
    No no = unknown_run<No>();
    co_await refuse(caller, std::move(no));
    co_return;
  } else if (below == "result") {
    if (request.method == "GET") {
      co_await result(id, tenant->name, caller);
      co_return;
    }
    wrong.code = "GET";
    wrong.detail = "A run's result is read here, by GET.";
  } else if (below == "retry") {
    if (request.method == "POST") {
      co_await retry(id, tenant->name, caller);
      co_return;
    }
    wrong.code = "POST";
    wrong.detail = "A run is queued again here, by POST.";
  } else if (request.method == "DELETE") {
    co_await cancel(id, tenant->name, caller, signal);
    co_return;
  } else if (request.method == "GET") {
    const auto parameters = parameters_of(query);
    milliseconds wait{0};
    std::string bad;
    if (!parameters) bad = "the query is not well formed";
    for (const auto& [name, value] : parameters.value_or(std::map<std::string, std::string>{})) {
      const auto ms = read_duration(value);
      if (name != "wait") {
        bad = "there is no parameter " + say(name) + "; it is wait";
      } else if (!ms || *ms < 0 || milliseconds{*ms} > kLongestWait) {
        bad = "wait must be a duration of at most 60s, such as 30s";
      } else {
        wait = milliseconds{*ms};
      }
    }
    if (bad.empty()) {
      co_await show(id, tenant->name, wait, caller, signal);
      co_return;
    }
    wrong.status = 400;
    wrong.code = "callgate_bad_query";
    wrong.title = "Bad request";
    wrong.detail = std::move(bad);
  } else {
    wrong.code = "GET, DELETE";
    wrong.detail = "A run is read here by GET and taken back by DELETE.";
  }
  co_await refuse(caller, std::move(wrong));
}

task<void> RunsApi::list(const Inbound& request, std::string tenant, Caller& caller) {
  ledger::RunsAsk ask;
  ask.tenant = std::move(tenant);
  ask.most = kListed;
  std::string bad;
  const std::size_t mark = request.target.find('?');
  const auto parameters = parameters_of(
      mark == std::string::npos ? std::string_view{} : std::string_view{request.target}.substr(mark + 1));
  if (!parameters) bad = "the query is not well formed";
  for (const auto& [name, value] : parameters.value_or(std::map<std::string, std::string>{})) {
    if (name == "queue") {
      ask.queue = value;
    } else if (name == "run_id") {
      ask.run_id = value;
    } else if (name == "key") {
      ask.key = value;
    } else if (name == "after") {
      ask.after = value;
    } else if (name == "state") {
      ask.state = value;
      if (std::ranges::find(ledger::kRunStateNames, value) == ledger::kRunStateNames.end())
        bad = "state must be queued, running, succeeded, failed, dead or cancelled";
    } else if (name == "limit") {
      std::size_t most = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), most);
      if (error != std::errc{} || end != value.data() + value.size() || most < 1 || most > kMostListed)
        bad = "limit must be 1 to 1000";
      ask.most = most;
    } else {
      bad = "there is no parameter " + say(name) + "; they are queue, state, run_id, key, limit and after";
    }
  }
  if (!bad.empty()) {
    No wrong;
    wrong.code = "callgate_bad_query";
    wrong.title = "Bad request";
    wrong.detail = std::move(bad);
    co_await refuse(caller, std::move(wrong));
    co_return;
  }
  using Lines = std::expected<std::vector<RunLine>, std::string>;
  auto awaited = std::make_shared<Awaited<Lines>>(io_);
  auto tell = Awaited<Lines>::teller(awaited);
  const std::size_t most = ask.most;
  store_.read(
      [ask = std::move(ask), tell = std::move(tell)](ledger::Books& books) mutable { tell(books.runs(ask)); });
  const std::optional<Lines> lines =
      co_await Awaited<Lines>::told(awaited, runtime_, runtime_.now() + kStorePatience);
  if (!lines || !*lines) {
    No no = unreadable<No>("the store did not answer in time");
    if (lines) no.detail = lines->error();
    co_await refuse(caller, std::move(no));
    co_return;
  }
  Json body = {{"runs", Json::array()}};
  for (const RunLine& line : **lines) body["runs"].push_back(json_of(line));
  body["next"] = (*lines)->size() < most ? Json(nullptr) : Json((*lines)->back().id);
  AnswerHead head = head_of(200, "application/json");
  const std::string text = text_of(body);
  co_await caller.answer(std::move(head), text);
}

task<void> RunsApi::show(std::string id, std::string tenant, milliseconds wait, Caller& caller, Signal& signal) {
  const Found found = co_await await_end(id, tenant, runtime_.now() + wait, signal);
  if (signal.stopped()) co_return caller.abort();
  if (!found || !*found) {
    No no = missing<No>(found);
    co_await refuse(caller, std::move(no));
    co_return;
  }
  const RunLine& line = **found;
  Json body = json_of(line);
  if (!line.call_id.empty()) {
    // Its last call, attempt by attempt, as long as that is kept.
    using Text = std::expected<std::string, std::string>;
    auto awaited = std::make_shared<Awaited<Text>>(io_);
    auto tell = Awaited<Text>::teller(awaited);
    store_.read([call_id = line.call_id, tenant, tell = std::move(tell)](ledger::Books& books) mutable {
      tell(books.call(call_id, tenant));
    });
    const std::optional<Text> call = co_await Awaited<Text>::told(awaited, runtime_, runtime_.now() + kStorePatience);
    if (call && *call) {
      const Json detail = Json::parse(**call, nullptr, false);
      if (detail.is_object() && detail.contains("attempts")) body["attempts"] = detail["attempts"];
    }
  }
  std::string text = text_of(body);
  if (line.has_answer) {
    if (const auto answer = co_await answer_of(id)) {
      text.resize(text.rfind('}'));
      text.append(",\"result\":").append(result_of(*answer)).append("}\n");
    }
  }
  AnswerHead head = head_of(200, "application/json");
  if (!is_over(line.state)) head.headers.push_back({"Retry-After", std::to_string(kRetryAfter)});
  co_await caller.answer(std::move(head), text);
}

task<void> RunsApi::result(std::string id, std::string tenant, Caller& caller) {
  const Found found = co_await find(id, tenant);
  if (!found || !*found) {
    No no = missing<No>(found);
    co_await refuse(caller, std::move(no));
    co_return;
  }
  const RunLine& line = **found;
  if (!is_over(line.state)) {
    AnswerHead head = head_of(202, "application/json");
    head.headers.push_back({"Retry-After", std::to_string(kRetryAfter)});
    const Json body = {{"id", line.id}, {"state", line.state}, {"links", links_of(line.id)}};
    const std::string text = text_of(body);
    co_await caller.answer(std::move(head), text);
    co_return;
  }
  std::shared_ptr<const ledger::StoredAnswer> answer;
  if (line.has_answer) answer = co_await answer_of(id);
  if (!answer) {
    No gone;
    gone.status = line.has_answer ? 410 : 409;
    gone.code = line.has_answer ? "callgate_result_gone" : "callgate_no_result";
    gone.title = line.has_answer ? "Gone" : "No result";
    gone.detail = line.has_answer ? std::string{"The answer of this run cannot be read any more."}
                                  : "This run is " + line.state + " (" + line.cls + ") and no answer of it is kept.";
    gone.more["state"] = line.state;
    gone.more["class"] = line.cls;
    co_await refuse(caller, std::move(gone));
    co_return;
  }
  AnswerHead head;
  head.status = answer->status;
  head.headers = given(*answer);
  co_await caller.answer(std::move(head), answer->body);
}

// ---- Somebody has another mind ----

namespace {

ledger::AuditRow audit_of(const RunActor& actor, const char* act, const std::string& id, std::int64_t now_ms) {
  ledger::AuditRow row;
  row.at_ms = now_ms;
  row.who = actor.who;
  row.act = act;
  row.what = id;
  row.reason = actor.reason;
  row.count = 1;
  return row;
}

/// Why not, of a problem as a worker is told it.
template <typename Problem>
RunActed not_done(Problem no, std::string state = {}) {
  RunActed acted;
  acted.status = no.status;
  acted.state = std::move(state);
  acted.code = std::move(no.code);
  acted.title = std::move(no.title);
  acted.detail = std::move(no.detail);
  acted.retry_after = no.retry_after;
  return acted;
}

}  // namespace

task<RunActed> RunsApi::take_back(std::string id, RunActor actor, Signal& signal) {
  using State = std::optional<RunState>;
  ledger::AuditRow audit = audit_of(actor, "run.cancel", id, ms_of(runtime_.wall_now()));
  const TimePoint until = runtime_.now() + kCancelWait;
  RunState state = RunState::Running;
  // Where it is running it may be on its way back to its queue (a refusal, a shutdown, a taking that came too late):
  // then it is taken back there.
  bool acted = false;
  for (;;) {
    auto awaited = std::make_shared<Awaited<State>>(io_);
    store_.cancel_run(id, actor.tenant, audit, Awaited<State>::teller(awaited));
    const std::optional<State> told =
        co_await Awaited<State>::told(awaited, runtime_, runtime_.now() + kStorePatience);
    if (!told) {
      No no = unreadable<No>("the store did not answer in time");
      co_return not_done(std::move(no));
    }
    if (!*told) {
      // It may be that the store could not say.
      const Found found = co_await find(id, actor.tenant);
      No no = unreadable<No>("the disk refuses it just now");
      if (found && !*found) no = unknown_run<No>();
      co_return not_done(std::move(no));
    }
    state = **told;
    if (state != RunState::Running || runtime_.now() >= until) break;
    if (runs_.cancel(id) && !std::exchange(acted, true)) {
      store_.remember_act(audit);
      front_.acted({.act = "cancel", .what = "run", .name = id, .count = 1, .value = {}});
      audit.act.clear();  // Once is enough.
    }
    const Found found = co_await await_no_more_running(id, actor.tenant, until, signal);
    if (signal.stopped()) co_return RunActed{};
    if (!found || !*found) {
      No no = missing<No>(found);
      co_return not_done(std::move(no));
    }
    const auto at = std::ranges::find(ledger::kRunStateNames, (*found)->state);
    state = static_cast<RunState>(at - ledger::kRunStateNames.begin());
    if (state != RunState::Queued || runtime_.now() >= until) break;
  }
  const bool by_us = state == RunState::Cancelled;
  if (ledger::is_over(state)) {
    runs_.forget_cancel(id);
  } else if (!acted) {
    // Whoever takes it next does it.
    store_.remember_act(audit);
  }
  if (by_us) runs_.tell_news();
  RunActed result;
  result.state = ledger::kRunStateNames[static_cast<std::size_t>(state)];
  result.status = by_us ? 200 : 202;
  if (ledger::is_over(state) && !by_us) {
    result.status = 409;
    result.code = "callgate_run_over";
    result.title = "It is over";
    result.detail = "The run has ended already: it is " + result.state + ".";
  }
  co_return result;
}

task<RunActed> RunsApi::queue_again(std::string id, RunActor actor) {
  using State = std::optional<RunState>;
  const Found before = co_await find(id, actor.tenant);
  if (!before || !*before) {
    No no = missing<No>(before);
    co_return not_done(std::move(no));
  }
  const bool was = (*before)->state == "failed" || (*before)->state == "dead";
  // To send it again is a replay, whatever it is called.
  if (was && contract_of(*runs_.config(), (*before)->queue).replay.requires_approval) {
    RunActed held;
    held.status = 409;
    held.state = (*before)->state;
    held.code = "callgate_needs_approval";
    held.title = "Needs an approval";
    held.detail = "The contract of queue " + (*before)->queue +
                  " wants replays approved: plan one of its dead letter (callgate dead replay), have it approved "
                  "(callgate dead approve), and it is sent again.";
    co_return held;
  }
  auto awaited = std::make_shared<Awaited<State>>(io_);
  store_.retry_run(id,
                   actor.tenant,
                   audit_of(actor, "run.retry", id, ms_of(runtime_.wall_now())),
                   Awaited<State>::teller(awaited),
                   bounds_of(*runs_.config()));
  const std::optional<State> told = co_await Awaited<State>::told(awaited, runtime_, runtime_.now() + kStorePatience);
  if (!told || !*told) {
    No no = unreadable<No>("the disk refuses it just now");
    co_return not_done(std::move(no));
  }
  RunActed result;
  result.state = ledger::kRunStateNames[static_cast<std::size_t>(**told)];
  if (was && ledger::is_over(**told) && **told != RunState::Succeeded) {
    result.status = 503;
    result.code = "callgate_runs_full";
    result.title = "Too many runs are open";
    result.detail = "it stays as it is, since as many runs are open as may be (runs.max_open, runs.max_bytes)";
    result.retry_after = kFullRetryAfter;
    co_return result;
  }
  if (**told != RunState::Queued || !was) {
    result.status = 409;
    result.code = "callgate_run_not_failed";
    result.title = "Nothing to retry";
    result.detail = "Only a run that failed or died is queued again; it is " + (*before)->state + ".";
    co_return result;
  }
  runs_.forget_cancel(id);
  front_.acted({.act = "retry", .what = "run", .name = id, .count = 1, .value = {}});
  runs_.touched((*before)->queue);
  result.status = 202;
  co_return result;
}

task<void> RunsApi::cancel(std::string id, std::string tenant, Caller& caller, Signal& signal) {
  RunActor worker{tenant, tenant};
  const RunActed acted = co_await take_back(id, std::move(worker), signal);
  if (acted.status == 0) co_return caller.abort();
  co_await tell(id, acted, caller);
}

task<void> RunsApi::retry(std::string id, std::string tenant, Caller& caller) {
  RunActor worker{tenant, tenant};
  const RunActed acted = co_await queue_again(id, std::move(worker));
  co_await tell(id, acted, caller);
}

task<void> RunsApi::tell(const std::string& id, const RunActed& acted, Caller& caller) {
  if (acted.status >= 300) {
    No no;
    no.status = acted.status;
    no.code = acted.code;
    no.title = acted.title;
    no.detail = acted.detail;
    no.retry_after = acted.retry_after;
    if (!acted.state.empty()) no.more["state"] = acted.state;
    co_await refuse(caller, std::move(no));
    co_return;
  }
  AnswerHead head = head_of(acted.status, "application/json");
  if (acted.state == "queued") {
    head.headers.push_back({"Location", std::string{kPath} + "/" + id});
    head.headers.push_back({"Retry-After", std::to_string(kRetryAfter)});
  }
  const Json body = {{"id", id}, {"state", acted.state}, {"links", links_of(id)}};
  const std::string text = text_of(body);
  co_await caller.answer(std::move(head), text);
}

}  // namespace gateway
