#include "gateway/admin.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <expected>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "budget/price.h"
#include "gateway/book_answers.h"
#include "gateway/config_files.h"
#include "gateway/config_print.h"
#include "gateway/config_values.h"
#include "gateway/endpoint.h"
#include "gateway/http_head.h"
#include "gateway/json_out.h"
#include "gateway/query.h"

namespace gateway {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBodyMax = 64 * 1024;    // Nothing that is asked here has a body; a polite client may send one.
constexpr std::size_t kMostForgotten = 1'000;  // Keys of one name.
constexpr std::int64_t kLongestPauseMs = 366LL * 24 * 3'600'000;
constexpr std::string_view kBearer = "bearer ";

std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

EndpointAnswer json_answer(int status, const Json& json) {
  EndpointAnswer answer;
  answer.status = status;
  answer.type = "application/json";
  answer.body = dumped(json);
  return answer;
}

/// RFC 9457.
EndpointAnswer problem(int status, std::string_view title, std::string_view detail, Json more = Json::object()) {
  Json json{{"title", title}, {"status", status}, {"detail", detail}};
  json.update(more);
  EndpointAnswer answer = json_answer(status, json);
  answer.type = "application/problem+json";
  return answer;
}

EndpointAnswer no_answer() {
  return problem(503,
                 "No answer in time",
                 "The I/O thread is busy (look at /livez), or the configuration is still being written; ask again.");
}

/// A token may be rotated at any time, and its file be away, empty or half written for a moment: the last good one
/// stays.
class TokenKeeper {
 public:
  TokenKeeper(SecretSource source, const Environment& environment) : source_(std::move(source)) {
    refresh(environment);
  }

  void refresh(const Environment& environment) {
    if (auto read = read_token(source_, environment)) last_good_ = std::move(*read);
  }
  [[nodiscard]] const SecretSource& source() const { return source_; }

  /// Takes as long for a near miss as for anything else.
  [[nodiscard]] bool is(std::string_view shown) const {
    return !last_good_.empty() && CRYPTO_memcmp(digest(shown).data(), digest(last_good_).data(), kDigest) == 0;
  }

 private:
  static constexpr std::size_t kDigest = SHA256_DIGEST_LENGTH;
  static std::array<unsigned char, kDigest> digest(std::string_view text) {
    std::array<unsigned char, kDigest> out{};
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
    return out;
  }

  SecretSource source_;
  std::string last_good_{};
};

/// What it answers to whatever listen.hosts says, so that our own client always gets through: no web page's name can
/// be one of these. A unix socket answers to any.
std::vector<std::string> own_names(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return {"localhost", v6 ? "[" + address.host + "]" : address.host};
}

Json json_of(const ReloadReport& report) {
  Json changed = Json::array();
  for (const Change& change : report.changed) {
    Json one{{"path", change.path}, {"from", nullptr}, {"to", nullptr}};
    if (!change.from.empty()) one["from"] = change.from;
    if (!change.to.empty()) one["to"] = change.to;
    changed.push_back(std::move(one));
  }
  return {{"result", name_of(report.result)},
          {"file", report.file},
          {"changed", std::move(changed)},
          {"restart_needed", report.restart_needed},
          {"problems", Json::parse(problems_json(report.problems))}};
}

std::string text_of(WallTime time) {
  std::string text;
  append_time(text, time);
  return text;
}

Json json_of(const UnknownAnswers::List& list) {
  Json answers = Json::array();
  for (const UnknownAnswer& one : list.answers) {
    answers.push_back({{"fingerprint", one.fingerprint},
                       {"upstream", one.upstream},
                       {"dialect", one.dialect},
                       {"status", one.status},
                       {"class", classifier::name_of(one.cls)},
                       {"retryable", one.retryable},
                       {"rule", one.rule},
                       {"codes", one.words},
                       {"text", one.text},
                       {"count", one.count},
                       {"first_seen", text_of(one.first_seen)},
                       {"last_seen", text_of(one.last_seen)},
                       {"last_call_id", one.last_call_id},
                       {"case_line", one.case_line}});
  }
  return {{"answers", std::move(answers)}, {"dropped", list.dropped}};
}

Json ms_until(const std::optional<budget::TimePoint>& when, budget::TimePoint now) {
  if (!when || *when == budget::TimePoint::max()) return {};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*when - now).count();
  return std::max<std::int64_t>(left, 0);
}
Json ms_since(const std::optional<budget::TimePoint>& when, budget::TimePoint now) {
  if (!when) return {};
  return std::chrono::floor<std::chrono::milliseconds>(now - *when).count();
}

/// Of a caller's own key its digest stays with us.
Json json_of(const UpstreamState& state) {
  const budget::UpstreamHealth& health = state.health;
  Json breakers = Json::array();
  for (const auto& one : health.breakers) {
    breakers.push_back({{"model", one.model},
                        {"state", budget::name_of(one.state)},
                        {"reason", one.reason ? Json(budget::name_of(*one.reason)) : Json()},
                        {"since_ms", ms_since(one.since, state.now)},
                        {"next_probe_ms", ms_until(one.next_probe, state.now)}});
  }
  Json credentials = Json::array();
  for (const auto& one : health.credentials) {
    credentials.push_back(
        {{"name", one.name},
         {"quarantined_for", one.quarantined_for ? Json(classifier::name_of(*one.quarantined_for)) : Json()},
         {"since_ms", ms_since(one.since, state.now)},
         {"next_probe_ms", ms_until(one.next_probe, state.now)}});
  }
  Json pauses = Json::array();
  for (const auto& one : health.pauses) {
    pauses.push_back({{"credential", one.configured ? one.credential : "caller"},
                      {"group", one.group},
                      {"ends_ms", ms_until(one.until, state.now)},
                      {"next_probe_ms", ms_until(one.next_probe, state.now)}});
  }
  return {{"name", health.name},
          {"in_flight", state.in_flight},
          {"retries_available", health.retries_available},
          {"breakers", std::move(breakers)},
          {"credentials", std::move(credentials)},
          {"pauses", std::move(pauses)}};
}

EndpointAnswer told(std::string json) {
  EndpointAnswer answer;
  answer.type = "application/json";
  answer.body = std::move(json);
  return answer;
}

/// What of a query is an order; the error says what is wrong with it.
std::expected<Order, std::string> order_of(Order::Act act, std::string_view query) {
  auto given = parameters_of(query);
  if (!given) return std::unexpected("must be name=value&…, each name once, percent-encoded");
  // A variable that was not set must not mean: all of them.
  for (const auto& [name, value] : *given) {
    if (value.empty()) return std::unexpected("has an empty " + name);
  }
  const auto take = [&](const char* name) {
    const auto found = given->find(name);
    if (found == given->end()) return std::string{};
    std::string value = std::move(found->second);
    given->erase(found);
    return value;
  };
  Order order;
  order.act = act;
  switch (act) {
    case Order::Act::Cancel: {
      order.cancel = {.call_id = take("call"), .run_id = take("run_id"), .tenant = take("tenant")};
      const int named = (order.cancel.call_id.empty() ? 0 : 1) + (order.cancel.run_id.empty() ? 0 : 1);
      if (named > 1 || (named == 0 && order.cancel.tenant.empty()))
        return std::unexpected("needs one of call, run_id and tenant (tenant may stand beside run_id)");
      break;
    }
    case Order::Act::Pause:
    case Order::Act::Resume: {
      const std::string what = take("what");
      order.name = take("name");
      bool known = false;
      for (const auto one : budget::kPausables) {
        if (budget::name_of(one) != what) continue;
        order.pausable = one;
        known = true;
      }
      if (!known) return std::unexpected("what must be tenant, lane, upstream or queue");
      if (order.name.empty()) return std::unexpected("needs name, of the " + what);
      const std::string time = act == Order::Act::Pause ? take("for_ms") : std::string{};
      if (!time.empty()) {
        std::int64_t ms = 0;
        const auto [end, error] = std::from_chars(time.data(), time.data() + time.size(), ms);
        if (error != std::errc{} || end != time.data() + time.size() || ms <= 0 || ms > kLongestPauseMs)
          return std::unexpected("for_ms must be milliseconds, at most a year");
        order.for_time = std::chrono::milliseconds{ms};
      }
      break;
    }
    case Order::Act::Grant: {
      order.name = take("tenant");
      const std::string period = take("period");
      order.run_id = take("run_id");
      std::string usd = take("usd");
      const bool negative = usd.starts_with('-');
      const auto amount = budget::parse_usd(std::string_view{usd}.substr(negative ? 1 : 0));
      bool known = false;
      for (const auto one : {budget::Period::Day, budget::Period::Month, budget::Period::Run}) {
        if (budget::name_of(one) != period) continue;
        order.period = one;
        known = true;
      }
      if (order.name.empty()) return std::unexpected("needs tenant");
      if (!known) return std::unexpected("period must be day, month or run");
      if ((order.period == budget::Period::Run) == order.run_id.empty())
        return std::unexpected("run_id belongs to period=run, and is needed there");
      if (!amount || amount->value == 0) return std::unexpected("usd must be an amount such as 12.50, or -12.50");
      order.amount = {negative ? -amount->value : amount->value};
      break;
    }
    case Order::Act::DrainRuns:
    case Order::Act::DrainAll: {
      const std::string what = take("what");
      if (what != "runs" && what != "all") return std::unexpected("needs what, runs or all");
      order.act = what == "runs" ? Order::Act::DrainRuns : Order::Act::DrainAll;
      break;
    }
  }
  if (!given->empty()) return std::unexpected("does not know " + given->begin()->first);
  return order;
}

struct Asked {
  std::string_view path;
  std::string_view rest;  // Of a path that has more below.
  std::string_view query;
  std::optional<PeerIds> peer{};
  [[nodiscard]] std::string who() const { return peer ? peer_named(*peer).user : "admin"; }
};

EndpointAnswer act(const AdminSources& sources, Order::Act which, const Asked& asked, std::string_view unknown) {
  auto order = order_of(which, asked.query);
  if (!order) return problem(400, "Bad request", "This order " + order.error() + ".");
  order->who = asked.who();
  const auto result = sources.act(*order);
  if (!result) return no_answer();
  if (!result->known) return problem(404, "Not found", unknown);
  return json_answer(200, {{"done", true}, {"count", result->count}});
}

EndpointAnswer from_books(const AdminSources& sources, const Asked& asked) {
  if (!sources.books) return problem(404, "Not found", "There is no ledger to ask.");
  // The question may be answered after nobody waits for it any more.
  struct Question {
    std::string path;
    std::string query;
    EndpointAnswer answer{};
  };
  const auto question = std::make_shared<Question>(std::string{asked.path}, std::string{asked.query});
  const bool read = sources.books([question](ledger::Books& books) {
    question->answer = answer_of_books(books, question->path, question->query, std::chrono::system_clock::now());
  });
  if (read) return std::move(question->answer);
  return problem(
      503,
      "No answer in time",
      "Reading the ledger takes longer than the admin API waits; ask for less (since, tenant), or ask a file "
      "with --store.");
}

std::optional<ledger::Digest> digest_of(std::string_view hex) {
  ledger::Digest digest{};
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const char* at = hex.data() + 2 * i;
    if (std::from_chars(at, at + 2, digest[i], 16).ptr != at + 2) return std::nullopt;
  }
  return digest;
}

EndpointAnswer forget_key(const AdminSources& sources, const Asked& asked) {
  if (!sources.books || !sources.forget_claim) return problem(404, "Not found", "There is no ledger to ask.");
  auto given = parameters_of(asked.query);
  const auto key = given ? std::exchange((*given)["key"], {}) : std::string{};
  const auto tenant = given ? std::exchange((*given)["tenant"], {}) : std::string{};
  if (!given || key.empty() || given->size() != 2)
    return problem(400, "Bad request", "This order needs key, and may name a tenant; it knows nothing else.");
  using Rows = ledger::Books::Answer<std::vector<ledger::KeyRow>>;
  const auto found = std::make_shared<Rows>();
  const bool read =
      sources.books([found, key, tenant](ledger::Books& books) { *found = books.keys(key, tenant, kMostForgotten); });
  if (!read) return no_answer();
  if (!*found) return problem(503, "The ledger cannot be read", found->error());
  if ((*found)->empty()) return problem(404, "Not found", "This key is not known, or is forgotten already.");
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  for (const ledger::KeyRow& row : **found) {
    // Whoever came with it now would buy what is being bought.
    if (row.state == "claimed" && row.lease_until_ms && *row.lease_until_ms > now.count()) {
      return problem(409,
                     "In flight",
                     "Call " + row.call_id + " works on this key; end it first (POST /v1/cancel?call=" + row.call_id +
                         ") or let it end.");
    }
  }
  for (const ledger::KeyRow& row : **found) {
    if (const auto scope = digest_of(row.scope)) sources.forget_claim(*scope, row.call_id);
  }
  return json_answer(200, {{"done", true}, {"count", (*found)->size()}});
}

struct Call {
  std::string_view method;
  std::string_view path;  // With a slash at its end: of all that is below, which is `rest`.
  EndpointAnswer (*answer)(const AdminSources& sources, const Asked& asked);
};
constexpr Call kCalls[] = {
    {"POST",
     "/v1/reload",
     [](const AdminSources& sources, const Asked& asked) {
       const auto parameters = parameters_of(asked.query);
       const bool accept = parameters && parameters->contains("accept_weaker");
       const bool known = parameters && parameters->size() == (accept ? 1U : 0U) &&
                          (!accept || parameters->at("accept_weaker") == "true");
       if (!known) return problem(400, "Bad request", "A reload may have ?accept_weaker=true, nothing else.");
       const std::optional<ReloadReport> report = sources.reload(accept, asked.who());
       if (!report) return no_answer();
       if (report->result != ReloadReport::Result::Refused) return json_answer(200, json_of(*report));
       return problem(422,
                      "The configuration is refused",
                      "Nothing has changed; the problems say what to mend.",
                      json_of(*report));
     }},
    {"GET",
     "/v1/config",
     [](const AdminSources& sources, const Asked& /*asked*/) {
       const auto settings = sources.settings();
       if (!settings) return no_answer();
       EndpointAnswer answer;
       answer.type = "application/json";
       answer.body = settings_json(*settings);
       return answer;
     }},
    {"GET",
     "/v1/upstreams",
     [](const AdminSources& sources, const Asked& /*asked*/) {
       const auto states = sources.upstreams();
       if (!states) return no_answer();
       Json upstreams = Json::array();
       for (const UpstreamState& state : *states) upstreams.push_back(json_of(state));
       return json_answer(200, {{"upstreams", std::move(upstreams)}});
     }},
    {"GET",
     "/v1/calls/",
     [](const AdminSources& sources, const Asked& asked) {
       // The last ones that ended are known before the ledger knows them.
       if (asked.query.empty()) {
         auto json = sources.call(asked.rest);
         if (!json) return no_answer();
         if (!json->empty()) return told(std::move(*json));
         if (!sources.books)
           return problem(404, "Not found", "No such call is among the last 500 that ended; the log has its line.");
       }
       return from_books(sources, asked);
     }},
    {"GET", "/v1/spend", from_books},
    {"GET", "/v1/calls", from_books},
    {"GET", "/v1/timeouts", from_books},
    {"GET", "/v1/usage", from_books},
    {"GET", "/v1/idempotency", from_books},
    {"GET", "/v1/events", from_books},
    {"POST", "/v1/idempotency/forget", forget_key},
    {"GET",
     "/v1/status",
     [](const AdminSources& sources, const Asked& /*asked*/) {
       const auto snapshot = sources.status();
       return snapshot ? told(status_json(*snapshot)) : no_answer();
     }},
    {"GET",
     "/v1/budgets",
     [](const AdminSources& sources, const Asked& /*asked*/) {
       const auto snapshot = sources.status();
       return snapshot ? told(budgets_json(*snapshot)) : no_answer();
     }},
    {"POST",
     "/v1/budgets/grant",
     [](const AdminSources& sources, const Asked& asked) {
       return act(sources,
                  Order::Act::Grant,
                  asked,
                  "This tenant has no such limit (tenants.*.budget), so there is nothing to add to.");
     }},
    {"POST",
     "/v1/cancel",
     [](const AdminSources& sources, const Asked& asked) {
       return act(sources, Order::Act::Cancel, asked, "No such call is under way.");
     }},
    {"POST",
     "/v1/pause",
     [](const AdminSources& sources, const Asked& asked) {
       return act(sources, Order::Act::Pause, asked, "There is no such tenant, lane, upstream or queue.");
     }},
    {"POST",
     "/v1/resume",
     [](const AdminSources& sources, const Asked& asked) {
       return act(sources, Order::Act::Resume, asked, "It is not paused.");
     }},
    {"POST",
     "/v1/drain",
     [](const AdminSources& sources, const Asked& asked) {
       return act(sources, Order::Act::DrainRuns, asked, "There is nothing to drain.");
     }},
    {"GET",
     "/v1/unknown-answers",
     [](const AdminSources& sources, const Asked& /*asked*/) {
       const auto list = sources.unknown_answers();
       return list ? json_answer(200, json_of(*list)) : no_answer();
     }},
    {"GET",
     "/v1/version",
     [](const AdminSources& /*sources*/, const Asked& /*asked*/) {
       return json_answer(200, {{"version", CALLGATE_VERSION}, {"pid", ::getpid()}});
     }},
};

}  // namespace

class AdminServer::Impl {
 public:
  Impl(const std::string& address, AdminAccess access, AdminSources sources)
      : own_address_(read_address(address).value_or(Address{})),
        own_names_(own_names(own_address_)),
        access_(std::move(access)),
        sources_(std::move(sources)),
        token_(access_.token, sources_.environment),
        endpoint_(options_for(address)) {}

  [[nodiscard]] const std::string& address() const { return endpoint_.address(); }

  void update(AdminAccess access) {
    const std::scoped_lock lock{mutex_};
    next_ = std::move(access);
  }

 private:
  EndpointOptions options_for(const std::string& address) {
    EndpointOptions options;
    options.address = address;
    options.key = "listen.admin";
    options.purpose = "the admin API";
    options.example = "127.0.0.1:4602, [::1]:4602 or unix:/run/callgate/admin.sock";
    options.on_file = true;
    options.body_max = kBodyMax;
    options.refuse = [](int status, std::string_view why) { return problem(status, reason_of(status), why); };
    options.answer = [this](const EndpointRequest& request) {
      std::optional<EndpointAnswer> refused = refusal_of(request);
      return refused ? std::move(*refused) : answer_to(request);
    };
    return options;
  }

  /// Here and not in update(): a token's file is read, which may take its time.
  void take_next_access() {
    std::optional<AdminAccess> next;
    {
      const std::scoped_lock lock{mutex_};
      next = std::exchange(next_, std::nullopt);
    }
    if (!next) return;
    // Of another source nothing of the old one is left.
    if (next->token != token_.source()) token_ = TokenKeeper{next->token, sources_.environment};
    access_ = std::move(*next);
  }

  std::optional<EndpointAnswer> refusal_of(const EndpointRequest& request) {
    take_next_access();
    // A web page must not be able to ask for anything, by its own name for us or by ours. An Origin is refused with
    // the head.
    const bool any = !own_address_.unix_path.empty();
    if (!allows({access_.hosts, any}, request.authority) && !allows({own_names_, any}, request.authority)) {
      return problem(403, "Forbidden", "This Host is not among listen.hosts.");
    }
    if (!access_.token.given()) return std::nullopt;
    token_.refresh(sources_.environment);
    const auto named = [](const classifier::Header& h) { return classifier::same_name(h.name, "authorization"); };
    if (std::ranges::count_if(request.headers, named) == 1) {
      const std::string_view shown = *classifier::find(request.headers, "authorization");
      if (classifier::same_name(shown.substr(0, kBearer.size()), kBearer) &&
          token_.is(shown.substr(kBearer.size()))) {
        return std::nullopt;
      }
    }
    EndpointAnswer answer =
        problem(401, "Unauthorized", "Authorization: Bearer with the token of listen.admin_token is needed.");
    answer.headers.push_back({"WWW-Authenticate", "Bearer"});
    return answer;
  }

  EndpointAnswer answer_to(const EndpointRequest& request) const {
    if (sources_.dead && asks_dead(request.path)) {
      return answer_of_dead(*sources_.dead,
                            request.method,
                            request.path,
                            request.query,
                            std::chrono::system_clock::now(),
                            request.peer);
    }
    if (sources_.runs && asks_runs(request.path)) {
      return answer_of_runs(*sources_.runs,
                            request.method,
                            request.path,
                            request.query,
                            std::chrono::system_clock::now(),
                            request.peer);
    }
    std::string methods;
    for (const Call& call : kCalls) {
      const bool below = call.path.ends_with('/') && request.path.starts_with(call.path);
      if (call.path != request.path && !below) continue;
      const std::string_view rest =
          std::string_view{request.path}.substr(std::min(call.path.size(), request.path.size()));
      if (call.method == request.method)
        return call.answer(sources_, {request.path, rest, request.query, request.peer});
      methods += (methods.empty() ? "" : ", ") + std::string{call.method};
    }
    if (!methods.empty()) {
      EndpointAnswer answer = problem(405, "Method not allowed", "Only " + methods + " is answered here.");
      answer.headers.push_back({"Allow", methods});
      return answer;
    }
    Json there = Json::array();
    for (const Call& call : kCalls) there.push_back(std::string{call.method} + " " + std::string{call.path});
    for (const char* page :
         {"GET /v1/dead", "GET /v1/dead/groups", "GET /v1/replays", "GET /v1/audit", "GET /v1/runs"})
      there.push_back(page);
    return problem(404, "Not found", "There is no such page.", {{"there_is", there}});
  }

  std::mutex mutex_{};
  const Address own_address_;
  const std::vector<std::string> own_names_;
  std::optional<AdminAccess> next_{};  // With the mutex; all else is the endpoint's thread's.
  AdminAccess access_;
  const AdminSources sources_;
  TokenKeeper token_;
  Endpoint endpoint_;
};

AdminServer::AdminServer(const std::string& address, AdminAccess access, AdminSources sources)
    : impl_(std::make_unique<Impl>(address, std::move(access), std::move(sources))) {}
AdminServer::~AdminServer() = default;
const std::string& AdminServer::address() const { return impl_->address(); }
void AdminServer::update(AdminAccess access) { impl_->update(std::move(access)); }

}  // namespace gateway
