#include "gateway/front.h"

#include <algorithm>

#include "classifier/media.h"
#include "gateway/answer_headers.h"
#include "gateway/call_id.h"
#include "gateway/config_keys.h"
#include "gateway/our_headers.h"
#include "gateway/patience.h"
#include "gateway/verdict_rules.h"
#include "gateway/ways.h"

namespace gateway {
namespace {

constexpr std::size_t kPathMax = 256;  // Of a path in the log.
constexpr std::string_view kOwnCalls = "/callgate/v1/calls/";

/// Our own API for workers, under the reserved name.
bool is_own_api(std::string_view target) { return target.starts_with(kOwnCalls); }

budget::RetryPolicy retry_of(const Config::Retry& retry, const LaneRetry& lane) {
  return {.attempts = lane.attempts,
          .base = retry.base,
          .cap = retry.cap,
          .longest_wait = retry.longest_wait,
          .max_elapsed = lane.max_elapsed,
          .on_timeout = retry.on_timeout};
}

/// "api.groq.com" of "https://api.groq.com:443/openai".
std::string_view host_of(std::string_view url) {
  url.remove_prefix(std::min(url.find("://") + 3, url.size()));
  return url.substr(0, url.find_first_of("/:"));
}

/// Nano-dollars per million tokens, as one writes prices, are a thousand times the pico-dollars of one.
budget::PicoUsd per_token(std::int64_t nano_per_mtok) { return budget::PicoUsd{nano_per_mtok / 1'000}; }

std::string query_of(std::string_view target) {
  const std::size_t mark = target.find('?');
  return mark == target.npos ? std::string{} : std::string{target.substr(mark + 1)};
}

bool is_sdk_retry(const classifier::Headers& headers) {
  const auto count = classifier::find(headers, "x-stainless-retry-count");
  return count && *count != "0" && !count->empty();
}

}  // namespace

std::string no_credential(std::string_view upstream) {
  return "nobody waits whose key could be sent, and upstream " + std::string{upstream} +
         " has none of its own; configure upstreams." + std::string{upstream} + ".credentials";
}

std::shared_ptr<const Directory> directory_of(const Config& config) {
  auto directory = std::make_shared<Directory>();
  directory->default_upstream = config.default_upstream;
  for (const UpstreamConfig& upstream : config.upstreams) {
    auto wire = std::make_shared<WireOptions>();
    wire->base_url = upstream.url;
    wire->http = upstream.http;
    wire->ca_file = upstream.ca_file;
    wire->connect_timeout = upstream.timeouts.connect;
    auto target = std::make_shared<Target>();
    target->config = upstream;
    target->dialect = classifier::find_dialect(upstream.dialect);
    target->url_is_complete = upstream.url.find('/', upstream.url.find("://") + 3) != std::string::npos &&
                              !is_built_in({"upstreams", upstream.name});
    target->provider = budget::provider_of(host_of(upstream.url), upstream.name);
    target->region = budget::region_of(host_of(upstream.url));
    target->wire = std::move(wire);
    target->rules = classifier_rules(upstream);
    for (const auto& [group, models] : upstream.groups) {
      for (const std::string& model : models) target->group_of[model] = group;
    }
    auto route = std::make_shared<Route>();
    route->name = upstream.name;
    route->steps.push_back({.to = std::move(target)});
    directory->routes[upstream.name] = std::move(route);
  }
  for (const RouteConfig& config_route : config.routes) {
    auto route = std::make_shared<Route>();
    route->name = config_route.name;
    for (const RouteStep& step : config_route.steps)
      route->steps.push_back({directory->routes.at(step.upstream)->steps.front().to, step.weight, step.models});
    directory->routes[route->name] = std::move(route);
  }
  return directory;
}

std::shared_ptr<const CallPolicy> policy_of(const Config& config) {
  auto policy = std::make_shared<CallPolicy>();
  policy->retry = {retry_of(config.retry, config.retry.interactive),
                   retry_of(config.retry, config.retry.bulk),
                   retry_of(config.retry, config.retry.backfill)};
  policy->stream = config.stream;
  policy->hold_unary = config.hold_unary;
  policy->prices = config.prices.book;
  policy->fallback =
      budget::flat_price(per_token(config.prices.fallback_input), per_token(config.prices.fallback_output));
  policy->refuse_unpriced = config.prices.refuse_unpriced;
  policy->budget_status = config.budget_status;
  for (const TenantConfig& tenant : config.tenants) {
    if (is_limited(tenant.budget)) policy->budgeted.insert(tenant.name);
  }
  return policy;
}

Front::Front(Services services, Metrics& metrics, Log& log, RecentCalls& recent)
    : services_(services),
      metrics_(metrics),
      log_(log),
      recent_(recent),
      once_(services, live_,
            {.ended = [this](CallRecord record) { ended(std::move(record)); },
             .counted = [this](std::string_view result) { metrics_.idempotency(result); },
             .died =
                 [this](const CallRecord& record) {
                   if (died_) died_(record);
                 }}) {}

void Front::configure(const Config& config) {
  directory_ = directory_of(config);
  policy_ = policy_of(config);
  tenants_ = std::make_shared<const Tenants>(config);
  letter_terms_.clear();
  for (const QueueContract& queue : config.queues) {
    auto terms = std::make_shared<LetterTerms>();
    terms->retention = queue.dead_letter.retention;
    terms->form = queue.dead_letter.payload;
    letter_terms_[queue.name] = std::move(terms);
  }
  derive_ = config.idempotency.derive;
  once_.configure(config.idempotency, config.store.refuse);
  sampling_.reset();
  if (config.tracing.on())
    sampling_ = Sampling{config.tracing.sample == Config::Tracing::Sample::Parent, config.tracing.ratio};
}

void Front::told(const ledger::WebhookRow& row, const WebhookResult& result, WallTime began) {
  const auto trace = trace_of(Inbound{});
  if (!trace || !trace->sampled() || !traced_) return;
  trace->from = ledger::CallTrace::From::Webhook;
  trace->arrived = began;
  CallRecord record;
  record.operation = "webhook";
  record.method = "POST";
  record.tenant = row.tenant;
  record.run_id = row.run;
  record.outcome = result.telling == WebhookResult::Telling::Told ? Outcome::Answered : Outcome::Failed;
  record.status = result.status;
  record.cls = result.cls;
  record.duration = std::chrono::duration_cast<std::chrono::microseconds>(services_.runtime.wall_now() - began);
  record.trace = trace;
  traced_(record);
}

std::shared_ptr<ledger::CallTrace> Front::trace_of(const Inbound& request) {
  if (!sampling_) return nullptr;
  Runtime& runtime = services_.runtime;
  auto trace = begin_trace(
      request.headers,
      *sampling_,
      {.trace_high = runtime.random_bits(), .trace_low = runtime.random_bits(), .span = runtime.random_bits()});
  trace->arrived =
      runtime.wall_now() - std::chrono::duration_cast<std::chrono::microseconds>(runtime.now() - request.arrived);
  return trace;
}

std::shared_ptr<const LetterTerms> Front::letter_terms(const std::string& queue) const {
  const auto found = letter_terms_.find(queue);
  return found == letter_terms_.end() ? nullptr : found->second;
}

std::pair<AnswerHead, std::string> Front::refuse(const RefusedRequest& refused) {
  metrics_.request_refused(refused.code);
  const WallTime now = services_.runtime.wall_now();
  const std::string id = new_call_id(now, services_.runtime.random_bits(), services_.runtime.random_bits());
  // Not the message: it may repeat a header's value.
  const bool bug = refused.status == 500;
  log_.line(bug ? Config::Log::Level::Error : Config::Log::Level::Warn,
            bug ? "bug" : "request_refused",
            bug ? refused.message : "a request was refused before it became a call",
            {{"call_id", id},
             {"code", refused.code},
             {"status", refused.status},
             {"path", refused.target.substr(0, std::min(refused.target.find('?'), kPathMax))},
             {"tenant", refused.tenant}},
            now);
  classifier::OwnError error;
  error.call_id = id;
  error.status = refused.status;
  error.cls = classifier::Class::LocalRequest;
  if (refused.status == 413) error.cls = classifier::Class::TooLarge;
  if (refused.status == 503) error.cls = classifier::Class::LocalMemory;
  if (refused.status == 500) error.cls = classifier::Class::Internal;
  error.message = refused.message;
  error.code = refused.code;
  OwnAnswer answer = own_answer(dialect_for(*directory_, refused.target), error);
  classifier::Headers& headers = answer.head.headers;
  headers.push_back({"Callgate-Call-Id", id});
  headers.push_back({"Callgate-Source", "callgate"});
  headers.push_back({"Callgate-Class", std::string{classifier::name_of(error.cls)}});
  const bool passing = refused.status == 503;
  ComeBack come_back{.retryable = passing, .sdk_may_retry = passing};
  if (passing) come_back.wait = std::chrono::milliseconds{1'000};
  set_come_back(headers, come_back, {});
  return {std::move(answer.head), std::move(answer.body)};
}

std::pair<AnswerHead, std::string> Front::own_api(const Inbound& request, const TenantConfig& tenant) {
  const std::string_view path = std::string_view{request.target}.substr(0, request.target.find('?'));
  const CancelWhat what{.call_id = std::string{path.substr(kOwnCalls.size())}, .run_id = {}, .tenant = tenant.name};
  AnswerHead head;
  std::string body;
  // Another tenant's call is none that one could know of.
  if (request.method != "DELETE") {
    head.status = 405;
    head.headers.push_back({"Allow", "DELETE"});
    body = R"({"title":"Method not allowed","status":405,"detail":"A call is cancelled here, by DELETE."})";
  } else if (what.call_id.empty() || live_.cancel(what) == 0) {
    head.status = 404;
    body = R"({"title":"Not found","status":404,)"
           R"("detail":"No such call of this tenant is under way: it has ended, or its id is another."})";
  } else {
    acted({.act = "cancel", .what = "call", .name = what.call_id, .count = 1, .value = {}});
    head.status = 202;
    body = R"({"cancelled":1})";
  }
  const bool good = head.status < 300;
  head.headers.push_back({"Content-Type", good ? "application/json" : "application/problem+json"});
  body += '\n';
  return {std::move(head), std::move(body)};
}

std::size_t Front::cancel(const CancelWhat& what) {
  const std::size_t count = live_.cancel(what);
  const bool by_call = !what.call_id.empty();
  const bool by_run = !by_call && !what.run_id.empty();
  acted({.act = "cancel",
         .what = by_call ? "call" : (by_run ? "run_id" : "tenant"),
         .name = by_call ? what.call_id : (by_run ? what.run_id : what.tenant),
         .count = count,
         .value = {}});
  return count;
}

void Front::acted(const OperatorAct& act) {
  metrics_.operator_act(act.act, act.what);
  log_.line(Config::Log::Level::Info,
            "operator",
            "somebody has taken a hand in it",
            {{"act", act.act},
             {"what", act.what},
             {"name", act.name},
             {"count", static_cast<std::int64_t>(act.count)},
             {"value", act.value}},
            services_.runtime.wall_now());
}

/// What of ours stood in a request, who asks, and where it is to go.
struct Front::Asked {
  OurHeaders ours{};
  std::shared_ptr<const TenantConfig> tenant{};
  Addressed addressed{};
};

task<void> Front::serve(Inbound request, Caller& caller, Signal& signal) {
  RefusedRequest refused;
  refused.target = request.target;

  const auto refuse_with = [&refused](int status, std::string code, std::string message) {
    if (!refused.message.empty()) return;  // The first reason is told.
    refused.status = status;
    refused.code = std::move(code);
    refused.message = std::move(message);
  };
  auto ours = take_our_headers(request.headers, services_.runtime.wall_now());
  // Before the issued keys are taken away, since the place of a key says which API is meant.
  auto addressed = address(*directory_, request.target, request.headers);
  std::string query = addressed ? addressed->query : query_of(request.target);
  const std::vector<std::string> keys = take_issued_keys(request.headers, query);
  const auto tenant = tenants_->who(keys, ours ? std::string_view{ours->tenant} : std::string_view{});
  // Who may not be here is not told which upstreams there are, so this comes before a wrong address.
  if (!tenant && ours) refuse_with(tenant.error().status, tenant.error().code, tenant.error().message);
  if (tenant) refused.tenant = (*tenant)->name;
  if (tenant && ours && events_ && EventFeed::is_asked(request.target)) {
    co_await events_->serve(request, (*tenant)->name, caller, signal);
    co_return;
  }
  if (tenant && ours && is_own_api(request.target)) {
    auto [head, body] = own_api(request, **tenant);
    co_await caller.answer(std::move(head), body);
    co_return;
  }
  if (tenant && ours && runs_ && runs_->is_asked(request)) {
    co_await runs_->serve(std::move(request), *tenant, caller, signal);
    co_return;
  }
  if (tenant && !addressed) refuse_with(addressed.error().status, addressed.error().code, addressed.error().message);
  if (tenant && !refuse_all_because_.empty())
    refuse_with(
        503, "callgate_store", "callgate cannot remember calls just now (store.on_failure): " + refuse_all_because_);
  if (!ours) refuse_with(ours.error().status, "callgate_bad_header", ours.error().message);
  if (!keys.empty() && addressed) {
    const auto step = std::ranges::find_if(addressed->route->steps,
                                           [](const RouteTarget& one) { return one.to->config.credentials.empty(); });
    if (step != addressed->route->steps.end()) {
      refuse_with(400,
                  "callgate_key_not_here",
                  "an issued key (cg_…) is never sent to a provider, and upstream " + step->to->config.name +
                      " has no credentials to send in its place; configure upstreams." + step->to->config.name +
                      ".credentials, or send the provider's own key and Callgate-Tenant");
    }
    if (query != addressed->query) {
      addressed->target = addressed->path + (query.empty() ? "" : "?" + query);
      addressed->query = std::move(query);
    }
  }
  std::expected<Understood, RefusedRequest> what;
  std::optional<std::chrono::milliseconds> later;
  if (refused.message.empty()) {
    later = ours->respond_async;
    what = call_of(std::move(request), {std::move(*ours), *tenant, std::move(*addressed)});
    if (!what) refused = std::move(what.error());
  }
  if (refused.message.empty() && later && !runs_)
    refuse_with(501, "callgate_no_runs", "this callgate makes no runs; send the call without Prefer: respond-async");
  if (!refused.message.empty()) {
    auto [head, body] = refuse(refused);
    co_await caller.answer(std::move(head), body);
  } else if (later) {
    co_await runs_->later(std::move(*what), *later, caller, signal);
  } else {
    co_await play(std::move(*what), caller, signal);
  }
}

std::expected<Understood, RefusedRequest> Front::call_of(Inbound request, Asked asked) {
  RefusedRequest refused;
  refused.target = request.target;
  refused.tenant = asked.tenant->name;
  Understood what;
  Call& call = what.call;
  call.policy = policy_;
  call.tenant = asked.tenant->name;
  call.lane = asked.ours.lane.value_or(asked.tenant->lane);
  call.to = asked.addressed.route->steps.front().to;
  call.endpoint = call.to->dialect->endpoint(request.method, asked.addressed.path);
  if (request.body) {
    call.facts =
        call.to->dialect->read_request(call.endpoint, asked.addressed.path, asked.addressed.query, *request.body);
  }
  if (const auto allowed = may_use(*asked.tenant, request.method, call.facts.model); !allowed) {
    refused.status = allowed.error().status;
    refused.code = allowed.error().code;
    refused.message = allowed.error().message;
    return std::unexpected{std::move(refused)};
  }

  call.id =
      new_call_id(services_.runtime.wall_now(), services_.runtime.random_bits(), services_.runtime.random_bits());
  call.run_id = std::move(asked.ours.run_id);
  call.queue = std::move(asked.ours.queue);
  call.letter = letter_terms(call.queue);
  call.labels = std::move(asked.ours.labels);
  call.idempotency_key = std::move(asked.ours.idempotency_key);
  call.fresh = asked.ours.fresh;
  call.route = std::move(asked.addressed.route);
  call.asked = std::move(asked.addressed.asked);
  call.path = std::move(asked.addressed.path);
  call.target = std::move(asked.addressed.target);
  call.sdk_retry = is_sdk_retry(request.headers);
  if (request.method == "POST" &&
      std::ranges::find(call.to->config.replay_safe, call.path) != call.to->config.replay_safe.end()) {
    call.endpoint.replay_safe = true;
  }
  call.bytes_in = request.body ? request.body->size() : 0;
  if (request.body) {
    const classifier::Media media = classifier::media_in(*request.body);
    call.sizes.text_bytes = call.bytes_in - media.bytes;
    call.sizes.media_bytes = media.bytes;
    call.sizes.media = media.pieces;
  }
  call.sizes.most_output = call.facts.max_output_tokens;
  const std::shared_ptr<const std::string> as_sent = request.body;
  if (request.body && call.facts.stream && !call.facts.usage_asked && policy_->stream.ask_for_usage) {
    if (const auto edit = call.to->dialect->ask_for_usage(call.endpoint, *request.body)) {
      request.body = std::make_shared<const std::string>(classifier::edited(*request.body, std::span{&*edit, 1}));
      call.as_sent = classifier::Edit{edit->offset, edit->text.size(), as_sent->substr(edit->offset, edit->length)};
      call.hide_usage = true;
    }
  }
  if (asked.ours.deadline) call.deadline = request.arrived + *asked.ours.deadline;
  call.first_content_by = request.arrived + patience_of(request.headers);
  call.trace = trace_of(request);
  call.request = std::move(request);
  choose_ways(call, asked.addressed.query);
  what.key = job_key(call, as_sent ? std::string_view{*as_sent} : std::string_view{}, derive_);
  return what;
}

task<void> Front::play(Understood what, Caller& caller, Signal& signal) {
  metrics_.call_began(what.call.route->name, what.call.lane);
  if (what.key) {
    co_await once_.serve(std::move(what.call), std::move(*what.key), caller, signal);
    co_return;
  }
  Call& call = what.call;
  LiveCalls::Entry live{live_,
                        {.id = call.id,
                         .tenant = call.tenant,
                         .run_id = call.run_id,
                         .route = call.route->name,
                         .model = call.facts.model,
                         .lane = call.lane,
                         .since = call.request.arrived,
                         .signal = &signal}};
  call.live = &*live;
  CallRecord record = co_await run_call(std::move(call), services_, caller, signal);
  ended(std::move(record));
}

std::expected<Understood, RefusedRequest> Front::understand(Inbound request,
                                                            std::shared_ptr<const TenantConfig> tenant) {
  RefusedRequest refused;
  refused.target = request.target;
  refused.tenant = tenant->name;
  auto ours = take_our_headers(request.headers, services_.runtime.wall_now());
  auto addressed = address(*directory_, request.target, request.headers);
  if (!ours) {
    refused.status = ours.error().status;
    refused.code = "callgate_bad_header";
    refused.message = ours.error().message;
    return std::unexpected{std::move(refused)};
  }
  if (!addressed) {
    refused.status = addressed.error().status;
    refused.code = addressed.error().code;
    refused.message = addressed.error().message;
    return std::unexpected{std::move(refused)};
  }
  return call_of(std::move(request), {std::move(*ours), std::move(tenant), std::move(*addressed)});
}

task<std::expected<CallRecord, RefusedRequest>> Front::run_errand(Errand errand, Caller& caller, Signal& signal) {
  const auto tenant = tenants_->named(errand.tenant);
  if (!tenant) {
    co_return std::unexpected{RefusedRequest{.status = 403,
                                             .code = "callgate_unknown_tenant",
                                             .message = "there is no tenant " + errand.tenant + " any more",
                                             .target = errand.request->target,
                                             .tenant = errand.tenant}};
  }
  Inbound request;
  request.method = errand.request->method;
  request.target = errand.request->target;
  request.headers = errand.request->headers;
  if (!errand.request->body.empty()) {
    auto body = std::make_shared<std::string>();
    body->reserve(errand.request->body.size() + classifier::kBodyPadding);
    *body = errand.request->body;
    request.body = std::move(body);
  }
  request.arrived = services_.runtime.now();
  auto what = understand(std::move(request), tenant);
  if (!what) co_return std::unexpected{std::move(what.error())};
  Call& call = what->call;
  const auto own = std::ranges::find_if(call.candidates, [](const auto& way) { return !way.configured; });
  if (own != call.candidates.end()) {
    co_return std::unexpected{RefusedRequest{.status = 422,
                                             .code = "callgate_no_credential",
                                             .message = no_credential(own->upstream),
                                             .target = errand.request->target,
                                             .tenant = errand.tenant}};
  }
  call.run_id = std::move(errand.run_id);
  call.queue = std::move(errand.queue);
  call.labels = std::move(errand.labels);
  call.lane = errand.lane;
  call.deadline = errand.deadline;
  call.first_content_by = TimePoint::max();
  call.retry = std::move(errand.retry);
  auto terms = std::make_shared<LetterTerms>();
  if (const auto known = letter_terms(call.queue)) *terms = *known;
  terms->version = std::move(errand.version);
  call.letter = std::move(terms);
  call.run = std::move(errand.run);
  if (call.trace) {
    auto trace = std::make_shared<ledger::CallTrace>(*call.trace);
    trace->from = ledger::CallTrace::From::Errand;
    call.trace = std::move(trace);
  }
  JobKey key;
  key.kind = JobKey::Kind::Key;
  key.scope = errand.scope;
  key.shown = std::move(errand.key);
  key.fingerprint =
      fingerprint_of(call.request.headers, errand.original ? errand.original->body : errand.request->body);
  what->key = std::move(key);
  call.idempotency_key = what->key->shown;

  const std::string id = call.id;
  CallRecord begun = begin_record(call);
  std::optional<CallRecord> record;
  {
    // Whatever happens in there, nothing may be written here later.
    struct Awaiting {
      std::map<std::string, std::optional<CallRecord>*, std::less<>>& all;
      const std::string& id;
      ~Awaiting() { all.erase(id); }
    } const awaiting{awaited_, id};
    awaited_[id] = &record;
    co_await play(std::move(*what), caller, signal);
  }
  // He left before his call was over; its own record follows.
  if (!record) {
    begun.outcome = Outcome::Cancelled;
    begun.cls = classifier::Class::Cancelled;
    record = std::move(begun);
  }
  co_return std::move(*record);
}

void Front::ended(CallRecord record) {
  if (const auto errand = awaited_.find(record.id); errand != awaited_.end()) *errand->second = record;
  metrics_.call_ended(record);
  if (record.outcome == Outcome::Failed && record.bug.empty() && !record.reason.empty() && !record.attempts.empty())
    metrics_.retry_denied(record.upstream, record.reason);
  log_.call(record, services_.runtime.wall_now());
  if (traced_ && record.trace && record.trace->sampled()) traced_(record);
  if (!record.bug.empty()) {
    log_.line(Config::Log::Level::Error, "bug", record.bug, {{"call_id", record.id}}, services_.runtime.wall_now());
  }
  recent_.add(std::move(record), services_.runtime.wall_now());
}

}  // namespace gateway
