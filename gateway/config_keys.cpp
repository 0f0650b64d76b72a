#include "gateway/config_keys.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <concepts>
#include <type_traits>
#include <utility>

#include "classifier/verdict.h"
#include "gateway/config_values.h"

namespace gateway {
namespace {

constexpr double kSecond = 1'000;
constexpr double kMinute = 60 * kSecond;
constexpr double kHour = 60 * kMinute;
constexpr double kDay = 24 * kHour;
constexpr double kKiB = 1024;
constexpr double kMiB = 1024 * kKiB;
constexpr double kGiB = 1024 * kMiB;

constexpr Range from(double low) { return {.low = low}; }
constexpr Range between(double low, double high) { return {low, high}; }
constexpr Range kUpToADay = between(0, kDay);
constexpr Range kUpToAWeek = between(0, 7 * kDay);
constexpr Range kCount = between(0, 1e9);
constexpr Range kUsd = between(0, 9e18);
constexpr Range kRetention = between(kHour, 3660 * kDay);

void assign(std::string& into, const Value& value) { into = value.text; }
void assign(std::vector<std::string>& into, const Value& value) { into = value.texts; }
void assign(std::chrono::milliseconds& into, const Value& value) { into = std::chrono::milliseconds{value.number}; }
void assign(SecretSource& into, const Value& value) {
  into = {static_cast<SecretSource::From>(value.number), value.text};
}
void assign(std::optional<budget::NanoUsd>& into, const Value& value) { into = budget::NanoUsd{value.number}; }
void assign(std::optional<std::chrono::milliseconds>& into, const Value& value) {
  into = std::chrono::milliseconds{value.number};
}
void assign(std::optional<double>& into, const Value& value) { into = value.real; }
void assign(std::optional<JsonPath>& into, const Value& value) {
  if (auto path = JsonPath::read(value.text)) into = std::move(*path);  // Else the check says what is wrong.
}
void assign(double& into, const Value& value) { into = value.real; }
template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
void assign(T& into, const Value& value) {
  into = static_cast<T>(value.number);
}

/// put<&Config::retry, &Config::Retry::base>: where the value goes.
template <auto... members>
void put(Config& config, const std::string& /*name*/, const Value& value) {
  assign((config.*....*members), value);
}

template <auto... members>
void put_upstream(Config& config, const std::string& name, const Value& value) {
  auto upstream = std::ranges::find(config.upstreams, name, &UpstreamConfig::name);
  if (upstream == config.upstreams.end()) upstream = config.upstreams.insert(upstream, UpstreamConfig{.name = name});
  assign(((*upstream).*....*members), value);
}

template <auto... members>
void put_tenant(Config& config, const std::string& name, const Value& value) {
  auto tenant = std::ranges::find(config.tenants, name, &TenantConfig::name);
  if (tenant == config.tenants.end()) tenant = config.tenants.insert(tenant, TenantConfig{.name = name});
  assign(((*tenant).*....*members), value);
}

/// The queue of that name, which is made where it is not there yet.
QueueContract& queue_of(Config& config, const std::string& name) {
  auto queue = std::ranges::find(config.queues, name, &QueueContract::name);
  if (queue == config.queues.end()) queue = config.queues.insert(queue, QueueContract{.name = name});
  return *queue;
}

template <auto... members>
void put_queue(Config& config, const std::string& name, const Value& value) {
  assign((queue_of(config, name).*....*members), value);
}

/// A word that is the only one there is: it says what happens anyway.
void put_only_word(Config& config, const std::string& name, const Value& /*value*/) {
  static_cast<void>(queue_of(config, name));
}

void put_never(Config& config, const std::string& name, const Value& value) {
  std::vector<classifier::Class>& never = queue_of(config, name).retry.never;
  never.clear();
  for (const std::string& word : value.texts) {
    const auto cls = std::ranges::find(classifier::kClassNames, class_meant(word));
    if (cls == classifier::kClassNames.end()) continue;  // The check says so.
    never.push_back(static_cast<classifier::Class>(cls - classifier::kClassNames.begin()));
  }
}

void put_letter_payload(Config& config, const std::string& name, const Value& value) {
  using ledger::LetterForm;
  queue_of(config, name).dead_letter.payload = value.text == "encrypted" ? LetterForm::Encrypted
                                               : value.text == "plain"   ? LetterForm::Plain
                                                                         : LetterForm::LeftOut;
}

void put_max_rate(Config& config, const std::string& name, const Value& value) {
  queue_of(config, name).replay.max_rate = read_rate(value.text).value_or(1);
}

void put_unknown(Config& config, const std::string& /*name*/, const Value& value) {
  config.refuse_unknown = value.text == "refuse";
}

void put_budget_status(Config& config, const std::string& /*name*/, const Value& value) {
  config.budget_status = value.text == "429" ? 429 : 402;
}

void put_default_upstream(Config& config, const std::string& dialect, const Value& value) {
  config.default_upstream[dialect] = value.text;
}

void put_unpriced(Config& config, const std::string& /*name*/, const Value& value) {
  config.prices.refuse_unpriced = value.text == "refuse";
}

void put_commit(Config& config, const std::string& /*name*/, const Value& value) {
  config.store.disk = value.text == "disk";
}

void put_on_failure(Config& config, const std::string& /*name*/, const Value& value) {
  config.store.refuse = value.text == "refuse";
}

void put_payloads(Config& config, const std::string& /*name*/, const Value& value) {
  using Payloads = Config::Store::Payloads;
  config.store.payloads = Payloads::Auto;
  if (value.text == "plain") config.store.payloads = Payloads::Plain;
  if (value.text == "none") config.store.payloads = Payloads::None;
}

void put_half_close(Config& config, const std::string& /*name*/, const Value& value) {
  config.limits.half_close_is_gone = value.text == "gone";
}

void put_on_caller_gone(Config& config, const std::string& /*name*/, const Value& value) {
  using Gone = Config::Idempotency::CallerGone;
  config.idempotency.on_caller_gone = value.text == "finish" ? Gone::Finish : Gone::Cancel;
}

using C = Config;
using U = UpstreamConfig;
using T = UpstreamConfig::Timeouts;
using N = TenantConfig;
using B = budget::SpendLimits;
using Q = QueueContract;

constexpr Key kKeys[] = {
    {.path = "listen", .type = Type::Map, .meaning = "Where callgate listens."},
    {.path = "listen.data",
     .type = Type::Address,
     .standard = "127.0.0.1:4600",
     .meaning = "Workers send their provider calls here. Off loopback only with `tenancy.unknown: refuse` and issued "
                "keys, one "
                "of which every call must show then.",
     .example = "unix:/run/callgate/data.sock",
     .apply = put<&C::listen, &C::Listen::data>},
    {.path = "listen.health",
     .type = Type::Address,
     .standard = "127.0.0.1:4601",
     .meaning =
         "`/livez`, `/readyz` and `/metrics`, nothing else. May be bound to any address, so that a kubelet and "
         "Prometheus reach it.",
     .example = "0.0.0.0:4601",
     .apply = put<&C::listen, &C::Listen::health>},
    {.path = "listen.admin",
     .type = Type::Address,
     .standard = "127.0.0.1:4602",
     .meaning =
         "The admin API: reload, effective configuration, version. Off loopback only with `listen.admin_token`.",
     .example = "unix:/run/callgate/admin.sock",
     .apply = put<&C::listen, &C::Listen::admin>},
    {.path = "listen.hosts",
     .type = Type::Texts,
     .standard = "[localhost, 127.0.0.1, \"[::1]\"]",
     .meaning =
         "Host names, without port, that are answered; any other `Host` gets 403, so that no web page can spend "
         "your keys.",
     .range = from(1),
     .example = "[localhost, 127.0.0.1, callgate.default.svc]",
     .apply = put<&C::listen, &C::Listen::hosts>},
    {.path = "listen.tls", .type = Type::Map, .meaning = "TLS for callers, by listener.", .later = "TLS for callers"},
    {.path = "listen.tls.*",
     .type = Type::Map,
     .meaning = "By listener: `data`, `health` or `admin`.",
     .later = "TLS for callers"},
    {.path = "listen.tls.*.cert",
     .type = Type::Secret,
     .meaning = "Certificate chain, PEM.",
     .example = "{file: /etc/callgate/tls.crt}",
     .later = "TLS for callers"},
    {.path = "listen.tls.*.key",
     .type = Type::Secret,
     .meaning = "Its private key, PEM.",
     .example = "{file: /etc/callgate/tls.key}",
     .later = "TLS for callers"},
    {.path = "listen.tls.*.client_ca",
     .type = Type::Secret,
     .meaning = "Callers must show a certificate of this authority.",
     .example = "{file: /etc/callgate/ca.crt}",
     .later = "TLS for callers"},
    {.path = "listen.admin_token",
     .type = Type::Secret,
     .meaning = "What admin clients must show (`Authorization: Bearer`), at least 16 characters; required when "
                "`listen.admin` is not loopback. A file is read for each request.",
     .example = "{file: /etc/callgate/admin-token}",
     .apply = put<&C::listen, &C::Listen::admin_token>},

    {.path = "upstreams",
     .type = Type::Map,
     .meaning =
         "Provider endpoints by name; workers address them as `http://127.0.0.1:4600/NAME/…`. An entry with the "
         "name of a built-in one changes only what it sets."},
    {.path = "upstreams.*",
     .type = Type::Map,
     .meaning = "Names: small letters, digits, `-`, `_` and `.`; not `callgate` and not what callers' paths begin "
                "with, such as "
                "`v1`, `models` or `api`."},
    {.path = "upstreams.*.dialect",
     .type = Type::Text,
     .meaning = "The API that is spoken there, one of `callgate dialects`. Required unless the upstream is built in.",
     .example = "openai",
     .apply = put_upstream<&U::dialect>},
    {.path = "upstreams.*.url",
     .type = Type::Url,
     .meaning = "Base URL, to which the caller's path (`/v1/…`) is added. Required unless the upstream is built in.",
     .example = "https://eu.api.openai.com",
     .apply = put_upstream<&U::url>},
    {.path = "upstreams.*.http",
     .type = Type::Integer,
     .standard = "1",
     .meaning = "HTTP version towards the provider: 1 or 2.",
     .range = between(1, 2),
     .apply = put_upstream<&U::http>},
    {.path = "upstreams.*.ca_file",
     .type = Type::Text,
     .meaning = "Certificate authorities to trust instead of the system's, PEM. The file must be there when the "
                "configuration is read.",
     .example = "/etc/callgate/ca.pem",
     .apply = put_upstream<&U::ca_file>},
    {.path = "upstreams.*.credentials",
     .type = Type::List,
     .standard = "[]",
     .meaning = "Keys that callgate holds. Empty: the caller's own key is passed through."},
    {.path = "upstreams.*.credentials[].name",
     .type = Type::Text,
     .meaning = "Its name in metrics and log.",
     .example = "main"},
    {.path = "upstreams.*.credentials[].key",
     .type = Type::Secret,
     .meaning = "The key; a file is read again when it changes.",
     .example = "{file: /etc/callgate-keys/openai-main}"},
    {.path = "upstreams.*.credentials[].weight",
     .type = Type::Number,
     .standard = "1",
     .meaning = "Its share of conversations, which are told apart by tenant and run id. 0: only when no other one "
                "may be used.",
     .range = between(0, 1e6)},
    {.path = "upstreams.*.limits",
     .type = Type::Map,
     .meaning = "What may be in flight or sent per minute; 0: no limit."},
    {.path = "upstreams.*.limits.requests_per_minute",
     .type = Type::Integer,
     .standard = "0",
     .meaning = "Attempts per minute, per credential and limit group.",
     .range = kCount,
     .example = "500",
     .apply = put_upstream<&U::rates, &budget::RateLimits::requests>},
    {.path = "upstreams.*.limits.tokens_per_minute",
     .type = Type::Integer,
     .standard = "0",
     .meaning = "Tokens per minute, input and output together.",
     .range = kCount,
     .example = "400000",
     .apply = put_upstream<&U::rates, &budget::RateLimits::tokens>},
    {.path = "upstreams.*.limits.input_tokens_per_minute",
     .type = Type::Integer,
     .standard = "0",
     .meaning = "Input tokens per minute.",
     .range = kCount,
     .example = "400000",
     .apply = put_upstream<&U::rates, &budget::RateLimits::input_tokens>},
    {.path = "upstreams.*.limits.output_tokens_per_minute",
     .type = Type::Integer,
     .standard = "0",
     .meaning = "Output tokens per minute.",
     .range = kCount,
     .example = "80000",
     .apply = put_upstream<&U::rates, &budget::RateLimits::output_tokens>},
    {.path = "upstreams.*.limits.concurrent",
     .type = Type::Integer,
     .standard = "256",
     .meaning = "Attempts in flight at once; further calls wait in the queue. 0: no limit.",
     .range = between(0, 1e6),
     .apply = put_upstream<&U::concurrent>},
    {.path = "upstreams.*.limits.adaptive",
     .type = Type::Flag,
     .standard = "true",
     .meaning = "Fewer attempts in flight after overload and failed connects, slowly more again.",
     .apply = put_upstream<&U::adaptive>},
    {.path = "upstreams.*.limits.groups",
     .type = Type::Map,
     .standard = "{}",
     .meaning = "Models that share one provider limit; by default each model has its own."},
    {.path = "upstreams.*.limits.groups.*",
     .type = Type::Texts,
     .meaning = "The models of that group.",
     .example = "[gpt-5, gpt-5-mini]"},
    {.path = "upstreams.*.timeouts", .type = Type::Map, .meaning = "0s: none."},
    {.path = "upstreams.*.timeouts.connect",
     .type = Type::Duration,
     .standard = "5s",
     .meaning = "DNS, TCP and TLS together.",
     .range = between(0, kHour),
     .apply = put_upstream<&U::timeouts, &T::connect>},
    {.path = "upstreams.*.timeouts.first_byte",
     .type = Type::Duration,
     .standard = "600s",
     .meaning = "From the request's last byte to the head of the answer.",
     .range = kUpToADay,
     .apply = put_upstream<&U::timeouts, &T::first_byte>},
    {.path = "upstreams.*.timeouts.idle",
     .type = Type::Duration,
     .standard = "120s",
     .meaning = "Silence within an answer.",
     .range = kUpToADay,
     .apply = put_upstream<&U::timeouts, &T::idle>},
    {.path = "upstreams.*.timeouts.total",
     .type = Type::Duration,
     .standard = "0s",
     .meaning = "One attempt from beginning to end.",
     .range = kUpToADay,
     .example = "30m",
     .apply = put_upstream<&U::timeouts, &T::total>},
    {.path = "upstreams.*.replay_safe",
     .type = Type::Texts,
     .standard = "[]",
     .meaning =
         "Further POST paths that may be repeated after their body was sent, since repeating them does no harm.",
     .range = between(0, 1000),
     .example = "[/v1/rerank]",
     .apply = put_upstream<&U::replay_safe>},
    {.path = "upstreams.*.propagate_trace",
     .type = Type::Flag,
     .standard = "false",
     .meaning = "Send the attempt's span as `traceparent`, so that the provider's own spans are part of the trace. "
                "Else a caller's headers go on as they are.",
     .apply = put_upstream<&U::propagate_trace>},
    {.path = "upstreams.*.classifier", .type = Type::Map, .meaning = "What this provider's answers mean."},
    {.path = "upstreams.*.classifier.rules",
     .type = Type::List,
     .standard = "[]",
     .meaning =
         "Verdict rows of your own, tried in their order before the dialect's. A row needs `class` and at least "
         "one of `status`, `code` and `text`; all that it gives must fit."},
    {.path = "upstreams.*.classifier.rules[].status",
     .type = Type::Integer,
     .meaning = "HTTP status of the answer, or one that an error inside it names.",
     .range = between(100, 599),
     .example = "520"},
    {.path = "upstreams.*.classifier.rules[].code",
     .type = Type::Text,
     .meaning =
         "The provider's code, type or reason, in any spelling (`rateLimited` is `rate_limited`); `*` at either "
         "end stands for more.",
     .example = "insufficient_*"},
    {.path = "upstreams.*.classifier.rules[].text",
     .type = Type::Text,
     .meaning =
         "A part of the message, from the start of a word; case does not matter, `*` stands for up to 80 bytes. "
         "What the provider quotes is not searched.",
     .example = "model*is warming up"},
    {.path = "upstreams.*.classifier.rules[].class",
     .type = Type::Word,
     .meaning = "What such an answer means.",
     .words = "rate_limited|overloaded|server_error|timeout|network|auth|permission|quota_exhausted|invalid_request|"
              "context_length|content_policy|not_found|too_large|conflict|cancelled|malformed_response|unknown",
     .example = "overloaded"},
    {.path = "upstreams.*.classifier.rules[].retryable",
     .type = Type::Flag,
     .meaning = "Whether another attempt may help; without it as the class has it.",
     .example = "true"},

    {.path = "routes",
     .type = Type::Map,
     .standard = "{}",
     .meaning =
         "Names that callers address like an upstream; their upstreams speak one dialect and are tried in order."},
    {.path = "routes.*", .type = Type::Map, .meaning = "Named like upstreams."},
    {.path = "routes.*.try", .type = Type::List, .meaning = "Upstreams, in order."},
    {.path = "routes.*.try[]",
     .type = Type::Text,
     .meaning = "An upstream's name, or a map that says more.",
     .example = "openai"},
    {.path = "routes.*.try[].upstream",
     .type = Type::Text,
     .meaning = "The upstream's name.",
     .example = "openai-eu"},
    {.path = "routes.*.try[].weight",
     .type = Type::Number,
     .meaning = "Neighbours that all have one share the calls by it, each conversation (tenant and run id) kept "
                "together; without, the order "
                "decides.",
     .range = between(0, 1e6),
     .example = "1"},
    {.path = "routes.*.try[].models", .type = Type::Map, .meaning = "What a model is called there."},
    {.path = "routes.*.try[].models.*",
     .type = Type::Text,
     .meaning = "Asked model: its name there.",
     .example = "gpt-5-eu"},

    {.path = "default_upstream",
     .type = Type::Map,
     .meaning = "By dialect: the upstream that gets paths without a name which only that dialect uses, such as "
                "`/v1/chat/completions`."},
    {.path = "default_upstream.*",
     .type = Type::Text,
     .meaning = "An upstream of that dialect.",
     .example = "openai",
     .apply = put_default_upstream},

    {.path = "tenants", .type = Type::Map, .meaning = "Who pays and is limited."},
    {.path = "tenants.*",
     .type = Type::Map,
     .meaning = "Names: small letters, digits, `-`, `_` and `.`. `default` is everybody else, and always there."},
    {.path = "tenants.*.weight",
     .type = Type::Number,
     .standard = "1",
     .meaning = "Its share of what is scarce, beside the other tenants that wait in the same lane.",
     .range = between(0.001, 1e6),
     .apply = put_tenant<&N::weight>},
    {.path = "tenants.*.lane",
     .type = Type::Word,
     .standard = "bulk",
     .meaning = "Lane of calls that name none.",
     .words = "interactive|bulk|backfill",
     .apply = put_tenant<&N::lane>},
    {.path = "tenants.*.limits", .type = Type::Map, .meaning = "0: no limit."},
    {.path = "tenants.*.limits.requests_per_minute",
     .type = Type::Integer,
     .standard = "0",
     .meaning = "Calls per minute.",
     .range = kCount,
     .example = "600",
     .apply = put_tenant<&N::limits, &budget::RateLimits::requests>},
    {.path = "tenants.*.limits.tokens_per_minute",
     .type = Type::Integer,
     .standard = "0",
     .meaning = "Tokens per minute, input and output together.",
     .range = kCount,
     .example = "400000",
     .apply = put_tenant<&N::limits, &budget::RateLimits::tokens>},
    {.path = "tenants.*.limits.concurrent",
     .type = Type::Integer,
     .standard = "0",
     .meaning = "Calls in flight at once.",
     .range = between(0, 1e6),
     .example = "20",
     .apply = put_tenant<&N::concurrent>},
    {.path = "tenants.*.keys",
     .type = Type::List,
     .standard = "[]",
     .meaning =
         "Digests of the keys that `callgate keys issue` printed. A caller that shows such a key is this tenant."},
    {.path = "tenants.*.keys[].sha256",
     .type = Type::Text,
     .meaning = "SHA-256 of an issued key, 64 hexadecimal digits in quotes. The key itself is in no configuration.",
     .example = "\"0000000000000000000000000000000000000000000000000000000000000000\""},
    {.path = "tenants.*.models", .type = Type::Map, .meaning = "Which models a tenant may use."},
    {.path = "tenants.*.models.allow",
     .type = Type::Texts,
     .standard = "[]",
     .meaning = "Which models this tenant may use: names, or patterns with `*` for any characters. Empty: all.",
     .example = "[\"gpt-5*\", \"claude-*\"]",
     .apply = put_tenant<&N::models>},
    {.path = "tenants.*.budget", .type = Type::Map, .meaning = "What a tenant may spend."},
    {.path = "tenants.*.budget.daily_usd",
     .type = Type::Money,
     .meaning = "What may be spent in a day; without it there is no such limit.",
     .range = kUsd,
     .example = "\"50.00\"",
     .apply = put_tenant<&N::budget, &B::daily>},
    {.path = "tenants.*.budget.monthly_usd",
     .type = Type::Money,
     .meaning = "What may be spent in a calendar month.",
     .range = kUsd,
     .example = "\"1000.00\"",
     .apply = put_tenant<&N::budget, &B::monthly>},
    {.path = "tenants.*.budget.per_run_usd",
     .type = Type::Money,
     .meaning = "What all calls with one `Callgate-Run-Id` may spend together.",
     .range = kUsd,
     .example = "\"2.00\"",
     .apply = put_tenant<&N::budget, &B::per_run>},
    {.path = "tenants.*.budget.warn_at",
     .type = Type::Number,
     .standard = "0.8",
     .meaning = "Share of a budget from which on it is told (log, metric, header). 1: never.",
     .range = between(0, 1),
     .apply = put_tenant<&N::budget, &B::warn_at>},
    {.path = "tenancy", .type = Type::Map, .meaning = "How callers become tenants."},
    {.path = "tenancy.unknown",
     .type = Type::Word,
     .standard = "default",
     .meaning = "A caller that names no configured tenant is the tenant `default`, or is refused. With `refuse`, "
                "tenants that have keys are believed only with one of them.",
     .words = "default|refuse",
     .apply = put_unknown},
    {.path = "budget", .type = Type::Map, .meaning = "How budgets are kept."},
    {.path = "budget.time_zone",
     .type = Type::Text,
     .standard = "UTC",
     .meaning = "Where days and months of budgets begin: a name of the time-zone database.",
     .example = "Europe/Berlin",
     .apply = put<&C::time_zone>},
    {.path = "budget.status",
     .type = Type::Word,
     .standard = "402",
     .meaning = "HTTP status of a spent budget.",
     .words = "402|429",
     .apply = put_budget_status},

    {.path = "retry", .type = Type::Map, .meaning = "When a failed attempt is repeated."},
    {.path = "retry.base",
     .type = Type::Duration,
     .standard = "500ms",
     .meaning = "First backoff; doubled each time, with full jitter.",
     .range = between(1, kHour),
     .apply = put<&C::retry, &C::Retry::base>},
    {.path = "retry.cap",
     .type = Type::Duration,
     .standard = "30s",
     .meaning = "Longest backoff.",
     .range = between(1, kDay),
     .apply = put<&C::retry, &C::Retry::cap>},
    {.path = "retry.longest_wait",
     .type = Type::Duration,
     .standard = "60s",
     .meaning = "A provider's Retry-After above this is not waited out; the answer goes back at once.",
     .range = kUpToADay,
     .apply = put<&C::retry, &C::Retry::longest_wait>},
    {.path = "retry.on_timeout",
     .type = Type::Flag,
     .standard = "true",
     .meaning = "Repeat attempts that timed out after their body was sent; the provider may charge both.",
     .apply = put<&C::retry, &C::Retry::on_timeout>},
    {.path = "retry.interactive", .type = Type::Map, .meaning = "A user waits."},
    {.path = "retry.interactive.attempts",
     .type = Type::Integer,
     .standard = "4",
     .meaning = "Attempts in all.",
     .range = between(1, 100),
     .apply = put<&C::retry, &C::Retry::interactive, &LaneRetry::attempts>},
    {.path = "retry.bulk", .type = Type::Map, .meaning = "A queue waits; the lane of calls that name none."},
    {.path = "retry.bulk.attempts",
     .type = Type::Integer,
     .standard = "8",
     .meaning = "Attempts in all.",
     .range = between(1, 100),
     .apply = put<&C::retry, &C::Retry::bulk, &LaneRetry::attempts>},
    {.path = "retry.bulk.max_elapsed",
     .type = Type::Duration,
     .standard = "2m",
     .meaning = "No attempt begins later than this after the first one. 0s: no bound.",
     .range = kUpToAWeek,
     .apply = put<&C::retry, &C::Retry::bulk, &LaneRetry::max_elapsed>},
    {.path = "retry.backfill", .type = Type::Map, .meaning = "Nobody waits."},
    {.path = "retry.backfill.attempts",
     .type = Type::Integer,
     .standard = "8",
     .meaning = "Attempts in all.",
     .range = between(1, 100),
     .apply = put<&C::retry, &C::Retry::backfill, &LaneRetry::attempts>},
    {.path = "retry.backfill.max_elapsed",
     .type = Type::Duration,
     .standard = "2m",
     .meaning = "No attempt begins later than this after the first one. 0s: no bound.",
     .range = kUpToAWeek,
     .apply = put<&C::retry, &C::Retry::backfill, &LaneRetry::max_elapsed>},
    {.path = "retry.budget", .type = Type::Map, .meaning = "Keeps retries a share of the traffic, per upstream."},
    {.path = "retry.budget.share",
     .type = Type::Number,
     .standard = "0.5",
     .meaning = "Retries per recent call.",
     .range = between(0, 10),
     .apply = put<&C::retry, &C::Retry::budget_share>},
    {.path = "retry.budget.floor",
     .type = Type::Integer,
     .standard = "10",
     .meaning = "Retries that are always allowed.",
     .range = between(0, 1e6),
     .apply = put<&C::retry, &C::Retry::budget_floor>},
    {.path = "retry.budget.floor_refill_per_second",
     .type = Type::Number,
     .standard = "0.1",
     .meaning = "How fast those come back.",
     .range = between(0, 1e6),
     .apply = put<&C::retry, &C::Retry::budget_refill>},
    {.path = "memo", .type = Type::Map, .meaning = "What is remembered of failures."},
    {.path = "memo.final_failure",
     .type = Type::Duration,
     .standard = "15s",
     .meaning = "An identical request within this time gets the remembered answer, without a new attempt.",
     .range = kUpToADay,
     .apply = put<&C::memo_final_failure>},
    {.path = "breaker", .type = Type::Map, .meaning = "When a failing upstream and model is left alone."},
    {.path = "breaker.window",
     .type = Type::Duration,
     .standard = "30s",
     .meaning = "What counts as recent.",
     .range = between(kSecond, kDay),
     .apply = put<&C::breaker, &C::Breaker::window>},
    {.path = "breaker.min_calls",
     .type = Type::Integer,
     .standard = "10",
     .meaning = "Fewer calls in the window decide nothing.",
     .range = between(1, 1e6),
     .apply = put<&C::breaker, &C::Breaker::min_calls>},
    {.path = "breaker.failure_share",
     .type = Type::Number,
     .standard = "0.5",
     .meaning = "Share of failures that opens it.",
     .range = between(0.01, 1),
     .apply = put<&C::breaker, &C::Breaker::failure_share>},
    {.path = "breaker.consecutive",
     .type = Type::Integer,
     .standard = "5",
     .meaning = "Failures in a row that open it.",
     .range = between(1, 1e6),
     .apply = put<&C::breaker, &C::Breaker::consecutive>},
    {.path = "breaker.open_for",
     .type = Type::Duration,
     .standard = "10s",
     .meaning = "Time until one call may try again.",
     .range = between(1, kDay),
     .apply = put<&C::breaker, &C::Breaker::open_for>},

    {.path = "queue", .type = Type::Map, .meaning = "Calls that wait for their turn."},
    {.path = "queue.per_tenant",
     .type = Type::Integer,
     .standard = "1000",
     .meaning = "Most calls of one tenant that wait; beyond, its youngest in the lowest lane gets 429.",
     .range = between(1, 1e6),
     .apply = put<&C::queue, &C::Queue::per_tenant>},
    {.path = "queue.total",
     .type = Type::Integer,
     .standard = "10000",
     .meaning = "Most calls that wait; beyond, the youngest of the longest line in the lowest lane gets 429.",
     .range = between(1, 1e6),
     .apply = put<&C::queue, &C::Queue::total>},
    {.path = "queue.max_wait", .type = Type::Map, .meaning = "Longest wait for a turn, by lane; then 429."},
    {.path = "queue.max_wait.interactive",
     .type = Type::Duration,
     .standard = "30s",
     .meaning = "A user waits.",
     .range = kUpToAWeek,
     .apply = put<&C::queue, &C::Queue::max_wait, &C::Queue::MaxWait::interactive>},
    {.path = "queue.max_wait.bulk",
     .type = Type::Duration,
     .standard = "5m",
     .meaning = "A queue waits.",
     .range = kUpToAWeek,
     .apply = put<&C::queue, &C::Queue::max_wait, &C::Queue::MaxWait::bulk>},
    {.path = "queue.max_wait.backfill",
     .type = Type::Duration,
     .standard = "30m",
     .meaning = "Nobody waits.",
     .range = kUpToAWeek,
     .apply = put<&C::queue, &C::Queue::max_wait, &C::Queue::MaxWait::backfill>},
    {.path = "queue.weights", .type = Type::Map, .meaning = "How lanes share turns."},
    {.path = "queue.weights.interactive",
     .type = Type::Number,
     .standard = "8",
     .meaning = "A user waits.",
     .range = between(0.001, 1e6),
     .apply = put<&C::queue, &C::Queue::weights, &C::Queue::Weights::interactive>},
    {.path = "queue.weights.bulk",
     .type = Type::Number,
     .standard = "2",
     .meaning = "A queue waits.",
     .range = between(0.001, 1e6),
     .apply = put<&C::queue, &C::Queue::weights, &C::Queue::Weights::bulk>},
    {.path = "queue.weights.backfill",
     .type = Type::Number,
     .standard = "1",
     .meaning = "Nobody waits.",
     .range = between(0.001, 1e6),
     .apply = put<&C::queue, &C::Queue::weights, &C::Queue::Weights::backfill>},
    {.path = "queue.reserve",
     .type = Type::Number,
     .standard = "0.1",
     .meaning = "Share of an upstream's slots that is kept for higher lanes while such lanes are in use.",
     .range = between(0, 0.9),
     .apply = put<&C::queue, &C::Queue::reserve>},

    {.path = "idempotency", .type = Type::Map, .meaning = "Never paying twice for one job."},
    {.path = "idempotency.ttl",
     .type = Type::Duration,
     .standard = "24h",
     .meaning = "How long the answer of a job is kept, and given again.",
     .range = between(kSecond, 366 * kDay),
     .apply = put<&C::idempotency, &C::Idempotency::ttl>},
    {.path = "idempotency.max_bytes",
     .type = Type::Size,
     .standard = "256MiB",
     .meaning = "All kept answers together, those in flight apart from those in the store; beyond it the oldest go.",
     .range = between(kMiB, 1024 * kGiB),
     .apply = put<&C::idempotency, &C::Idempotency::max_bytes>},
    {.path = "idempotency.max_entry",
     .type = Type::Size,
     .standard = "4MiB",
     .meaning = "A larger answer is neither kept nor shared with a second caller.",
     .range = between(kKiB, kGiB),
     .apply = put<&C::idempotency, &C::Idempotency::max_entry>},
    {.path = "idempotency.lease",
     .type = Type::Duration,
     .standard = "60s",
     .meaning = "A claim that nobody has ended ends by itself after this long.",
     .range = between(kSecond, kDay),
     .apply = put<&C::idempotency, &C::Idempotency::lease>},
    {.path = "idempotency.derive",
     .type = Type::Word,
     .standard = "undelivered",
     .meaning =
         "What an identical POST without an `Idempotency-Key` means. undelivered: one with the same run id gets the "
         "answer that its twin's caller did not wait for, once; run_id: with the same run id it is the same job; "
         "body: "
         "it always is; off: it is another job.",
     .words = "off|undelivered|run_id|body",
     .apply = put<&C::idempotency, &C::Idempotency::derive>},
    {.path = "idempotency.on_unknown",
     .type = Type::Word,
     .standard = "rerun",
     .meaning = "What to do when a crash hid how a job ended, which may have been paid: again, or tell (502).",
     .words = "rerun|fail",
     .apply = put<&C::idempotency, &C::Idempotency::on_unknown>},
    {.path = "idempotency.on_caller_gone",
     .type = Type::Word,
     .meaning =
         "What becomes of a call with a key or run id whose last caller left: `{linger: 15s}`, `cancel` or `finish`.",
     .words = "cancel|finish",
     .example = "finish",
     .apply = put_on_caller_gone},
    {.path = "idempotency.on_caller_gone.linger",
     .type = Type::Duration,
     .standard = "15s",
     .meaning = "It goes on for this long; a twin that comes meanwhile joins it.",
     .range = kUpToADay,
     .apply = put<&C::idempotency, &C::Idempotency::linger>},

    {.path = "stream", .type = Type::Map, .meaning = "Answers that come event by event."},
    {.path = "stream.hold_head",
     .type = Type::Duration,
     .standard = "45s",
     .meaning =
         "Longest time that the head is held back for a first content, so that an error before it can still be "
         "retried unseen.",
     .range = between(0, kHour),
     .apply = put<&C::stream, &C::Stream::hold_head>},
    {.path = "stream.hold_bytes",
     .type = Type::Size,
     .standard = "256KiB",
     .meaning = "Most bytes that are held back for that.",
     .range = between(kKiB, 64 * kMiB),
     .apply = put<&C::stream, &C::Stream::hold_bytes>},
    {.path = "stream.ask_for_usage",
     .type = Type::Flag,
     .standard = "true",
     .meaning =
         "Ask the provider for token counts where streams have none; callers that did not ask do not see them.",
     .apply = put<&C::stream, &C::Stream::ask_for_usage>},
    {.path = "stream.heartbeat",
     .type = Type::Duration,
     .standard = "15s",
     .meaning = "A harmless sign of life in longer silences. 0s: none.",
     .range = between(0, kHour),
     .apply = put<&C::stream, &C::Stream::heartbeat>},
    {.path = "answers", .type = Type::Map, .meaning = "Answers that come whole."},
    {.path = "answers.hold_unary",
     .type = Type::Size,
     .standard = "4MiB",
     .meaning = "Up to this size an answer is held whole and judged before it is sent; larger ones pass through.",
     .range = between(kKiB, kGiB),
     .apply = put<&C::hold_unary>},

    {.path = "limits", .type = Type::Map, .meaning = "What one process takes on."},
    {.path = "limits.header_bytes",
     .type = Type::Size,
     .standard = "64KiB",
     .meaning = "Largest head of a request.",
     .range = between(kKiB, kMiB),
     .apply = put<&C::limits, &C::Limits::header_bytes>},
    {.path = "limits.body_bytes",
     .type = Type::Size,
     .standard = "64MiB",
     .meaning = "Largest body of a request; larger ones get 413.",
     .range = between(kKiB, 16 * kGiB),
     .apply = put<&C::limits, &C::Limits::body_bytes>},
    {.path = "limits.buffered_bytes",
     .type = Type::Size,
     .standard = "auto",
     .meaning = "All request bodies together; beyond it new calls get 503. auto: 40 % of the memory limit.",
     .range = between(kMiB, 1024 * kGiB),
     .words = "auto",
     .example = "512MiB",
     .apply = put<&C::limits, &C::Limits::buffered_bytes>},
    {.path = "limits.connections",
     .type = Type::Integer,
     .standard = "20000",
     .meaning = "Most connections of callers.",
     .range = between(1, 1e6),
     .apply = put<&C::limits, &C::Limits::connections>},
    {.path = "limits.header_timeout",
     .type = Type::Duration,
     .standard = "30s",
     .meaning =
         "A request's head must be complete by then; silence within its body, or a body that comes too slowly, is "
         "bounded by it, too.",
     .range = between(100, kHour),
     .apply = put<&C::limits, &C::Limits::header_timeout>},
    {.path = "limits.write_stall",
     .type = Type::Duration,
     .standard = "60s",
     .meaning = "A caller that takes no byte for so long is given up.",
     .range = between(100, kDay),
     .apply = put<&C::limits, &C::Limits::write_stall>},
    {.path = "limits.keep_alive",
     .type = Type::Duration,
     .standard = "620s",
     .meaning = "Idle connections are closed after this; keep it above the callers' own.",
     .range = between(kSecond, kDay),
     .apply = put<&C::limits, &C::Limits::keep_alive>},
    {.path = "limits.half_close",
     .type = Type::Word,
     .standard = "gone",
     .meaning = "A caller that closes its sending side has gone, or may still read.",
     .words = "gone|allow",
     .apply = put_half_close},

    {.path = "prices", .type = Type::Map, .meaning = "What tokens cost."},
    {.path = "prices.files",
     .type = Type::Texts,
     .standard = "[]",
     .meaning =
         "Price tables of your own, or LiteLLM's; later ones win, all win over the shipped one. They are read again "
         "with the configuration.",
     .example = "[/etc/callgate/prices.json]",
     .apply = put<&C::prices, &C::Prices::files>},
    {.path = "prices.fallback", .type = Type::Map, .meaning = "For models without a price."},
    {.path = "prices.fallback.input_usd_per_mtok",
     .type = Type::Money,
     .standard = "\"5.00\"",
     .meaning = "Per million input tokens.",
     .range = kUsd,
     .apply = put<&C::prices, &C::Prices::fallback_input>},
    {.path = "prices.fallback.output_usd_per_mtok",
     .type = Type::Money,
     .standard = "\"25.00\"",
     .meaning = "Per million output tokens.",
     .range = kUsd,
     .apply = put<&C::prices, &C::Prices::fallback_output>},
    {.path = "prices.unpriced",
     .type = Type::Word,
     .standard = "charge",
     .meaning = "A model without a price is charged at the fallback, or refused.",
     .words = "charge|refuse",
     .apply = put_unpriced},
    {.path = "store", .type = Type::Map, .meaning = "The ledger on disk."},
    {.path = "store.path",
     .type = Type::Text,
     .standard = "callgate.db",
     .meaning = "The database file; `:memory:` keeps nothing beyond the process. One callgate a file.",
     .example = "/var/lib/callgate/callgate.db",
     .apply = put<&C::store, &C::Store::path>},
    {.path = "store.commit",
     .type = Type::Word,
     .standard = "process",
     .meaning = "What a commit survives: the end of the process, or of the machine.",
     .words = "process|disk",
     .apply = put_commit},
    {.path = "store.commit_wait",
     .type = Type::Duration,
     .standard = "250ms",
     .meaning = "Longest time that an answer's end waits for its commit.",
     .range = between(0, kMinute),
     .apply = put<&C::store, &C::Store::commit_wait>},
    {.path = "store.on_failure",
     .type = Type::Word,
     .standard = "serve",
     .meaning = "When the disk refuses: calls go on, or are refused.",
     .words = "serve|refuse",
     .apply = put_on_failure},
    {.path = "store.payloads",
     .type = Type::Word,
     .standard = "auto",
     .meaning = "Kept requests and answers: encrypted if `payload_key` is set, else left out (auto); plain; none.",
     .words = "auto|plain|none",
     .apply = put_payloads},
    {.path = "store.payload_key",
     .type = Type::Secret,
     .meaning = "The key that encrypts them.",
     .example = "{file: /etc/callgate/payload-key}",
     .apply = put<&C::store, &C::Store::payload_key>},
    {.path = "store.retention", .type = Type::Map, .meaning = "How long rows are kept."},
    {.path = "store.retention.calls",
     .type = Type::Duration,
     .standard = "90d",
     .meaning = "Calls and attempts.",
     .range = between(kHour, 3660 * kDay),
     .apply = put<&C::store, &C::Store::keep_calls>},
    {.path = "store.retention.dead_letters",
     .type = Type::Duration,
     .standard = "30d",
     .meaning =
         "Dead letters, from their arrival and whatever is done with them. A queue's contract may say otherwise.",
     .range = kRetention,
     .apply = put<&C::store, &C::Store::keep_dead_letters>},
    {.path = "store.retention.runs",
     .type = Type::Duration,
     .standard = "30d",
     .meaning = "Runs and their results, from their end.",
     .range = kRetention,
     .apply = put<&C::store, &C::Store::keep_runs>},
    {.path = "store.retention.events",
     .type = Type::Duration,
     .standard = "30d",
     .meaning = "Events.",
     .range = between(kHour, 3660 * kDay),
     .apply = put<&C::store, &C::Store::keep_events>},
    {.path = "dead_letters", .type = Type::Map, .meaning = "What finally failed."},
    {.path = "dead_letters.max_bytes",
     .type = Type::Size,
     .standard = "256MiB",
     .meaning = "The requests of all open ones together, edits included, as stored (a letter that is over has none "
                "any more); "
                "beyond it a letter is written without its request, and counted.",
     .range = between(kMiB, 1024 * kGiB),
     .apply = put<&C::dead_letters_bytes>},
    {.path = "runs", .type = Type::Map, .meaning = "Calls that are accepted now and made later."},
    {.path = "runs.enabled",
     .type = Type::Flag,
     .standard = "true",
     .meaning = "Accept runs, and work on them.",
     .apply = put<&C::runs, &C::Runs::enabled>},
    {.path = "runs.lease",
     .type = Type::Duration,
     .standard = "30s",
     .meaning = "After a crash a run is taken up again after this.",
     .range = between(kSecond, kDay),
     .apply = put<&C::runs, &C::Runs::lease>},
    {.path = "runs.max_attempts",
     .type = Type::Integer,
     .standard = "6",
     .meaning = "Attempts in all.",
     .range = between(1, 100),
     .apply = put<&C::runs, &C::Runs::max_attempts>},
    {.path = "runs.max_elapsed",
     .type = Type::Duration,
     .standard = "1h",
     .meaning = "No attempt begins later than this after the first one; then it is a dead letter.",
     .range = between(kSecond, 30 * kDay),
     .apply = put<&C::runs, &C::Runs::max_elapsed>},
    {.path = "runs.concurrent",
     .type = Type::Integer,
     .standard = "64",
     .meaning = "Runs at once, of all queues together.",
     .range = between(1, 1e6),
     .apply = put<&C::runs, &C::Runs::concurrent>},
    {.path = "runs.max_open",
     .type = Type::Integer,
     .standard = "100000",
     .meaning = "Runs that are queued or running, of all tenants; beyond it new ones are refused (503).",
     .range = between(1, 1e8),
     .apply = put<&C::runs, &C::Runs::max_open>},
    {.path = "runs.max_bytes",
     .type = Type::Size,
     .standard = "1GiB",
     .meaning = "Their requests together, as stored; beyond it new ones are refused (503).",
     .range = between(kMiB, 1024 * kGiB),
     .apply = put<&C::runs, &C::Runs::max_bytes>},
    {.path = "queues",
     .type = Type::Map,
     .standard = "{}",
     .meaning = "Contracts for runs, by queue: [queues.md](queues.md#queue-contracts)."},
    {.path = "queues.*",
     .type = Type::Map,
     .meaning =
         "Names as `Callgate-Queue` has them: at most 64 letters, digits, `-`, `_` and `.`. Without owner, slo and "
         "`dead_letter.retention` it is a warning, and an error with `callgate validate --strict`."},
    {.path = "queues.*.owner", .type = Type::Map, .meaning = "Who is asked when something is wrong."},
    {.path = "queues.*.owner.team",
     .type = Type::Text,
     .meaning = "The label `owner` in metrics: letters, digits, `-`, `_` and `.`.",
     .example = "billing-ml",
     .apply = put_queue<&Q::owner, &Q::Owner::team>},
    {.path = "queues.*.owner.contact",
     .type = Type::Text,
     .meaning = "Where they can be reached.",
     .example = "\"#billing-oncall\"",
     .apply = put_queue<&Q::owner, &Q::Owner::contact>},
    {.path = "queues.*.owner.runbook",
     .type = Type::Text,
     .meaning = "A page that says what to do then.",
     .example = "https://wiki.example.com/invoices",
     .apply = put_queue<&Q::owner, &Q::Owner::runbook>},
    {.path = "queues.*.slo", .type = Type::Map, .meaning = "What is promised; at least one of the three."},
    {.path = "queues.*.slo.oldest_wait",
     .type = Type::Duration,
     .meaning = "Longest time that a run waits for its start.",
     .range = between(kSecond, 30 * kDay),
     .example = "5m",
     .apply = put_queue<&Q::slo, &Q::Slo::oldest_wait>},
    {.path = "queues.*.slo.success_ratio",
     .type = Type::Number,
     .meaning = "Share of the runs that succeed, of those that end; `callgate_runs_slo_success_ratio` says it.",
     .range = between(0, 1),
     .example = "0.995",
     .apply = put_queue<&Q::slo, &Q::Slo::success_ratio>},
    {.path = "queues.*.slo.complete_within",
     .type = Type::Duration,
     .meaning = "From a run's acceptance to its end; `callgate_runs_slo_complete_within_seconds` says it, beside the "
                "histogram "
                "`callgate_run_duration_seconds`.",
     .range = between(kSecond, 30 * kDay),
     .example = "30m",
     .apply = put_queue<&Q::slo, &Q::Slo::complete_within>},
    {.path = "queues.*.payload_schema",
     .type = Type::Text,
     .meaning =
         "JSON Schema of the body, checked when a run is accepted and when a dead letter is edited; a path that does "
         "not begin with `/` begins at the configuration's folder. It is read again with the configuration.",
     .example = "schemas/invoice-extract.v3.json",
     .apply = put_queue<&Q::payload_schema, &Q::Payload::file>},
    {.path = "queues.*.version_from",
     .type = Type::Text,
     .meaning = "Where the body says which version of prompt or payload it is; it travels with the run.",
     .example = "$.metadata.prompt_version",
     .apply = put_queue<&Q::version_from>},
    {.path = "queues.*.idempotency_key", .type = Type::Map, .meaning = "When two runs are one and the same job."},
    {.path = "queues.*.idempotency_key.from",
     .type = Type::Text,
     .meaning = "Where the body says its key; an `Idempotency-Key` of the request wins over it.",
     .example = "$.metadata.invoice_id",
     .apply = put_queue<&Q::idempotency_key_from>},
    {.path = "queues.*.idempotency_key.ttl",
     .type = Type::Duration,
     .meaning = "For so long after its end a run is the answer to its key; then the key begins a new one. From "
                "`idempotency.ttl` to `store.retention.runs`, which holds without it.",
     .range = between(kSecond, 3660 * kDay),
     .example = "7d",
     .apply = put_queue<&Q::idempotency_key_ttl>},
    {.path = "queues.*.idempotency_key.on_conflict",
     .type = Type::Word,
     .standard = "return_existing",
     .meaning = "A second run with the same key is answered with the first one.",
     .words = "return_existing",
     .apply = put_only_word},
    {.path = "queues.*.ordering_key",
     .type = Type::Text,
     .meaning = "Where the body says what is done one after the other; without it there is no order.",
     .example = "$.metadata.customer_id",
     .apply = put_queue<&Q::ordering_key>},
    {.path = "queues.*.concurrency", .type = Type::Map, .meaning = "Runs of this queue at once."},
    {.path = "queues.*.concurrency.max",
     .type = Type::Integer,
     .standard = "0",
     .meaning = "In all; 0: no limit but `runs.concurrent`.",
     .range = between(0, 1e6),
     .example = "8",
     .apply = put_queue<&Q::concurrency, &Q::Concurrency::max>},
    {.path = "queues.*.concurrency.per_ordering_key",
     .type = Type::Integer,
     .standard = "1",
     .meaning = "With the same ordering key: in their order, never two at once. There is no other value yet.",
     .range = between(1, 1000),
     .apply = put_queue<&Q::concurrency, &Q::Concurrency::per_ordering_key>},
    {.path = "queues.*.retry", .type = Type::Map, .meaning = "What is not said is as `runs` and `retry` have it."},
    {.path = "queues.*.retry.max_attempts",
     .type = Type::Integer,
     .meaning = "Attempts in all.",
     .range = between(1, 100),
     .example = "6",
     .apply = put_queue<&Q::retry, &Q::Retry::max_attempts>},
    {.path = "queues.*.retry.max_elapsed",
     .type = Type::Duration,
     .meaning = "No attempt begins later than this after the first one.",
     .range = between(kSecond, 30 * kDay),
     .example = "2h",
     .apply = put_queue<&Q::retry, &Q::Retry::max_elapsed>},
    {.path = "queues.*.retry.backoff", .type = Type::Map, .meaning = "Between two attempts."},
    {.path = "queues.*.retry.backoff.base",
     .type = Type::Duration,
     .meaning = "The first one; doubled each time.",
     .range = between(1, kHour),
     .example = "2s",
     .apply = put_queue<&Q::retry, &Q::Retry::base>},
    {.path = "queues.*.retry.backoff.cap",
     .type = Type::Duration,
     .meaning = "The longest one.",
     .range = between(1, kDay),
     .example = "5m",
     .apply = put_queue<&Q::retry, &Q::Retry::cap>},
    {.path = "queues.*.retry.backoff.jitter",
     .type = Type::Word,
     .standard = "full",
     .meaning = "Anything between nothing and the backoff.",
     .words = "full",
     .apply = put_only_word},
    {.path = "queues.*.retry.never",
     .type = Type::Texts,
     .standard = "[]",
     .meaning = "Classes after which a run is not tried again, whatever the verdict says (`content_filter` is "
                "another word for `content_policy`).",
     .range = between(0, 17),
     .example = "[auth, invalid_request, content_policy]",
     .apply = put_never},
    {.path = "queues.*.dead_letter", .type = Type::Map, .meaning = "What finally failed."},
    {.path = "queues.*.dead_letter.retention",
     .type = Type::Duration,
     .meaning = "From arrival; without it `store.retention.dead_letters`.",
     .range = kRetention,
     .example = "30d",
     .apply = put_queue<&Q::dead_letter, &Q::DeadLetter::retention>},
    {.path = "queues.*.dead_letter.max_items",
     .type = Type::Integer,
     .standard = "0",
     .meaning = "Most open ones, each run that is not over counted as one, since it may become one. 0: no limit.",
     .range = between(0, 1e7),
     .example = "50000",
     .apply = put_queue<&Q::dead_letter, &Q::DeadLetter::max_items>},
    {.path = "queues.*.dead_letter.on_full",
     .type = Type::Word,
     .standard = "block_enqueue",
     .meaning = "With so many, new runs are refused (503) until some are resolved or discarded, or runs are over; "
                "nothing is dropped.",
     .words = "block_enqueue",
     .apply = put_only_word},
    {.path = "queues.*.dead_letter.payload",
     .type = Type::Word,
     .meaning = "How the requests of dead letters are kept; without it as `store.payloads` and `store.payload_key` "
                "say. `encrypted` needs the latter.",
     .words = "encrypted|plain|left_out",
     .example = "encrypted",
     .apply = put_letter_payload},
    {.path = "queues.*.replay", .type = Type::Map, .meaning = "Doing dead letters again."},
    {.path = "queues.*.replay.requires_approval",
     .type = Type::Flag,
     .standard = "false",
     .meaning = "Only after `callgate dead approve`.",
     .apply = put_queue<&Q::replay, &Q::Replay::requires_approval>},
    {.path = "queues.*.replay.approvers",
     .type = Type::Texts,
     .standard = "[]",
     .meaning = "Who may approve; empty: anybody.",
     .range = between(0, 100),
     .example = "[billing-leads]",
     .apply = put_queue<&Q::replay, &Q::Replay::approvers>},
    {.path = "queues.*.replay.max_rate",
     .type = Type::Text,
     .standard = "1/s",
     .meaning = "Letters per second (`/s`), minute (`/m`) or hour (`/h`) at most.",
     .example = "5/s",
     .apply = put_max_rate},
    {.path = "queues.*.replay.max_cost_usd",
     .type = Type::Money,
     .meaning =
         "Where one replay has cost so much it stops: the letter that passes it is its last. Without it no limit.",
     .range = kUsd,
     .example = "\"50.00\"",
     .apply = put_queue<&Q::replay, &Q::Replay::max_cost>},
    {.path = "queues.*.replay.canary",
     .type = Type::Integer,
     .standard = "5",
     .meaning = "Letters that go first, to see whether the others may follow. 0: none.",
     .range = between(0, 1000),
     .apply = put_queue<&Q::replay, &Q::Replay::canary>},
    {.path = "queues.*.backfill", .type = Type::Map, .meaning = "Doing old runs anew.", .later = "backfills"},
    {.path = "queues.*.backfill.requires_approval",
     .type = Type::Flag,
     .meaning = "Only after somebody else has approved it.",
     .example = "true",
     .later = "backfills"},
    {.path = "queues.*.backfill.max_items",
     .type = Type::Integer,
     .meaning = "Most runs in one backfill.",
     .range = kCount,
     .example = "100000",
     .later = "backfills"},
    {.path = "queues.*.alerts", .type = Type::Map, .meaning = "When somebody is woken by dead letters that arrive."},
    {.path = "queues.*.alerts.arrivals_floor",
     .type = Type::Integer,
     .standard = "5",
     .meaning = "Dead letters in 15 minutes up to which nobody is.",
     .range = between(0, 1e6),
     .apply = put_queue<&Q::alerts, &Q::Alerts::arrivals_floor>},
    {.path = "queues.*.alerts.step_factor",
     .type = Type::Number,
     .standard = "4",
     .meaning = "How many times the average of the day before are too many.",
     .range = between(1, 1000),
     .apply = put_queue<&Q::alerts, &Q::Alerts::step_factor>},
    {.path = "webhooks", .type = Type::Map, .meaning = "Telling others how a run ended."},
    {.path = "webhooks.allow_hosts",
     .type = Type::Texts,
     .standard = "[]",
     .meaning = "Host names, without scheme and port, that may be told; none unless named.",
     .range = between(0, 1000),
     .example = "[hooks.example.com]",
     .apply = put<&C::webhooks, &C::Webhooks::allow_hosts>},
    {.path = "webhooks.allow_private_hosts",
     .type = Type::Texts,
     .standard = "[]",
     .meaning = "Host names that may be told at a private address, too, such as a Service of the cluster; by http as "
                "well as "
                "https. Loopback, link-local and the clouds' metadata addresses are never among them.",
     .range = between(0, 1000),
     .example = "[hooks.jobs.svc.cluster.local]",
     .apply = put<&C::webhooks, &C::Webhooks::allow_private_hosts>},
    {.path = "webhooks.secret",
     .type = Type::Secret,
     .meaning =
         "Signs what is sent (Standard Webhooks): 24 to 64 bytes in base64, with `whsec_` before them or not. With "
         "several lines all of them sign, so that a receiver can take the new one up before the old one goes.",
     .example = "{file: /etc/callgate/webhook-secret}",
     .apply = put<&C::webhooks, &C::Webhooks::secret>},
    {.path = "shutdown", .type = Type::Map, .meaning = "How callgate ends."},
    {.path = "shutdown.drain",
     .type = Type::Duration,
     .standard = "25s",
     .meaning = "What is in flight may finish within this; then it ends visibly.",
     .range = between(0, kDay),
     .apply = put<&C::shutdown, &C::Shutdown::drain>},
    {.path = "shutdown.linger",
     .type = Type::Duration,
     .standard = "0s",
     .meaning =
         "After the signal, new connections are still taken for at most this, until none was open for a "
         "second: for a container that is told to stop together with its application. Part of `shutdown.drain`.",
     .range = between(0, kDay),
     .example = "20s",
     .apply = put<&C::shutdown, &C::Shutdown::linger>},
    {.path = "shutdown.final_scrape",
     .type = Type::Duration,
     .standard = "0s",
     .meaning = "When all has ended, the metrics stay up for at most this, until they were scraped once more: for "
                "short jobs. Comes on top of `shutdown.drain`.",
     .range = between(0, kHour),
     .example = "20s",
     .apply = put<&C::shutdown, &C::Shutdown::final_scrape>},
    {.path = "log", .type = Type::Map, .meaning = "One line per call, on stdout."},
    {.path = "log.level",
     .type = Type::Word,
     .standard = "info",
     .meaning = "The least that is written.",
     .words = "debug|info|warn|error",
     .apply = put<&C::log, &C::Log::level>},
    {.path = "log.format",
     .type = Type::Word,
     .standard = "json",
     .meaning = "For machines, or for people.",
     .words = "json|text",
     .apply = put<&C::log, &C::Log::format>},
    {.path = "metrics", .type = Type::Map, .meaning = "What Prometheus reads."},
    {.path = "metrics.tenant_label",
     .type = Type::Flag,
     .standard = "true",
     .meaning = "Say in metrics which tenant it was; else all are `_other`.",
     .apply = put<&C::tenant_label>},
    {.path = "tracing",
     .type = Type::Map,
     .meaning =
         "Spans for OpenTelemetry, by OTLP/HTTP as JSON. What is not set here is taken from `OTEL_…` variables "
         "(docs/tracing.md)."},
    {.path = "tracing.otlp_url",
     .type = Type::Text,
     .standard = "\"\"",
     .meaning = "Where spans are sent, without `/v1/traces`; empty: off.",
     .example = "http://127.0.0.1:4318",
     .apply = put<&C::tracing, &C::Tracing::otlp_url>},
    {.path = "tracing.otlp_traces_url",
     .type = Type::Text,
     .standard = "\"\"",
     .meaning = "The whole URL instead, for a path of its own.",
     .example = "https://traces.example.com/otlp/spans",
     .apply = put<&C::tracing, &C::Tracing::otlp_traces_url>},
    {.path = "tracing.otlp_headers",
     .type = Type::Secret,
     .meaning = "What the collector must be shown: `name=value`, parted by commas, percent-encoded.",
     .example = "{file: /etc/callgate/otlp-headers}",
     .apply = put<&C::tracing, &C::Tracing::otlp_headers>},
    {.path = "tracing.ca_file",
     .type = Type::Text,
     .standard = "\"\"",
     .meaning = "Certificate authorities to trust instead of the system's, PEM.",
     .example = "/etc/callgate/ca.pem",
     .apply = put<&C::tracing, &C::Tracing::ca_file>},
    {.path = "tracing.compression",
     .type = Type::Word,
     .standard = "none",
     .meaning = "How batches are packed.",
     .words = "none|gzip",
     .apply = put<&C::tracing, &C::Tracing::gzip>},
    {.path = "tracing.timeout",
     .type = Type::Duration,
     .standard = "10s",
     .meaning = "How long one try to send a batch may take.",
     .range = between(1, 5 * kMinute),
     .apply = put<&C::tracing, &C::Tracing::timeout>},
    {.path = "tracing.sample",
     .type = Type::Word,
     .standard = "parent",
     .meaning = "`parent`: a call with a `traceparent` is sampled as that says, others by `ratio`; `always`: all by "
                "`ratio`.",
     .words = "parent|always",
     .apply = put<&C::tracing, &C::Tracing::sample>},
    {.path = "tracing.ratio",
     .type = Type::Number,
     .standard = "1",
     .meaning = "The share of traces that is kept, told by their ids.",
     .range = between(0, 1),
     .example = "0.1",
     .apply = put<&C::tracing, &C::Tracing::ratio>},
    {.path = "tracing.service_name",
     .type = Type::Text,
     .standard = "callgate",
     .meaning = "The resource's `service.name`.",
     .apply = put<&C::tracing, &C::Tracing::service_name>},
    {.path = "tracing.resource",
     .type = Type::Text,
     .standard = "\"\"",
     .meaning = "Further attributes of the resource: `name=value`, parted by commas, percent-encoded.",
     .example = "deployment.environment.name=production,team=search",
     .apply = put<&C::tracing, &C::Tracing::resource>},
};

// URLs are such that {url}/v1/chat/completions (or the dialect's own path) is right.
constexpr BuiltIn kBuiltIns[] = {
    {"upstreams.openai.dialect", "openai"},
    {"upstreams.openai.url", "https://api.openai.com"},
    {"upstreams.anthropic.dialect", "anthropic"},
    {"upstreams.anthropic.url", "https://api.anthropic.com"},
    {"upstreams.gemini.dialect", "gemini"},
    {"upstreams.gemini.url", "https://generativelanguage.googleapis.com"},
    {"upstreams.mistral.dialect", "mistral"},
    {"upstreams.mistral.url", "https://api.mistral.ai"},
    {"upstreams.cohere.dialect", "cohere"},
    {"upstreams.cohere.url", "https://api.cohere.com"},
    {"upstreams.ollama.dialect", "ollama"},
    {"upstreams.ollama.url", "http://127.0.0.1:11434"},
    {"upstreams.groq.dialect", "groq"},
    {"upstreams.groq.url", "https://api.groq.com/openai"},
    {"upstreams.deepseek.dialect", "deepseek"},
    {"upstreams.deepseek.url", "https://api.deepseek.com"},
    {"upstreams.xai.dialect", "xai"},
    {"upstreams.xai.url", "https://api.x.ai"},
    {"upstreams.together.dialect", "together"},
    {"upstreams.together.url", "https://api.together.xyz"},
    {"upstreams.fireworks.dialect", "fireworks"},
    {"upstreams.fireworks.url", "https://api.fireworks.ai/inference"},
    {"upstreams.openrouter.dialect", "openrouter"},
    {"upstreams.openrouter.url", "https://openrouter.ai/api"},
    {"default_upstream.openai", "openai"},
    {"default_upstream.anthropic", "anthropic"},
    {"default_upstream.gemini", "gemini"},
    {"default_upstream.cohere", "cohere"},
    {"default_upstream.ollama", "ollama"},
    {"tenants.default.weight", "1"},
};

// Our own, versions, and the first segments of the paths of all dialects that have a default upstream. A test
// compares them with the dialects.
constexpr std::string_view kReservedNames[] = {
    "callgate",      "v1",          "v1alpha",       "v1beta",       "v2",
    "api",           "assistants",  "audio",         "batches",      "chat",
    "compatibility", "completions", "connectors",    "containers",   "conversations",
    "corpora",       "datasets",    "download",      "embed",        "embeddings",
    "evals",         "files",       "fine_tuning",   "images",       "messages",
    "models",        "moderations", "operations",    "organization", "organizations",
    "realtime",      "rerank",      "responses",     "skills",       "threads",
    "upload",        "uploads",     "vector_stores", "videos"};

Branch* below(Branch& branch, std::string_view part) {
  if (part == "*" || part == "[]") {
    std::unique_ptr<Branch>& child = part == "*" ? branch.any : branch.items;
    if (!child) child = std::make_unique<Branch>();
    return child.get();
  }
  for (auto& [name, child] : branch.named) {
    if (name == part) return child.get();
  }
  return branch.named.emplace_back(part, std::make_unique<Branch>()).second.get();
}

/// Pieces of the table's own text, so that the tree may keep views of them.
std::vector<std::string_view> parts_of(std::string_view pattern) {
  std::vector<std::string_view> parts;
  while (!pattern.empty()) {
    const std::size_t end = std::min(pattern.find_first_of(".["), pattern.size());
    if (end > 0) parts.push_back(pattern.substr(0, end));
    pattern.remove_prefix(end);
    if (pattern.starts_with("[]")) {
      parts.push_back(pattern.substr(0, 2));
      pattern.remove_prefix(2);
    }
    if (pattern.starts_with('.')) pattern.remove_prefix(1);
  }
  return parts;
}

Branch grow_tree() {
  Branch root;
  for (const Key& key : kKeys) {
    Branch* branch = &root;
    for (const std::string_view part : parts_of(key.path)) branch = below(*branch, part);
    assert(!branch->key);
    branch->key = &key;
  }
  return root;
}

}  // namespace

std::span<const Key> config_keys() { return kKeys; }
std::span<const BuiltIn> built_in_settings() { return kBuiltIns; }
std::span<const std::string_view> reserved_names() { return kReservedNames; }

const Branch* Branch::find(std::string_view name) const {
  for (const auto& [own, child] : named) {
    if (own == name) return child.get();
  }
  return any.get();
}

const Branch& config_tree() {
  static const Branch tree = grow_tree();
  return tree;
}

std::string text_of(const Path& path) {
  std::string text;
  for (const std::string& part : path) {
    const bool item = part.starts_with('[');
    if (!text.empty() && !item) text += '.';
    const bool quote = part.empty() || (!item && part.find_first_of(".\"") != std::string::npos);
    text += quote ? '"' + part + '"' : part;
  }
  return text;
}

Path path_of(std::string_view text) {
  Path path;
  while (!text.empty()) {
    if (text.front() == '"') {
      const std::size_t end = text.find('"', 1);
      if (end == std::string_view::npos) return {};
      path.emplace_back(text.substr(1, end - 1));
      text.remove_prefix(end + 1);
    } else {
      const std::size_t end = std::min(text.find('.'), text.size());
      path.emplace_back(text.substr(0, end));
      text.remove_prefix(end);
    }
    if (text.empty()) break;
    if (text.front() != '.' || text.size() == 1) return {};
    text.remove_prefix(1);
  }
  return path;
}

bool is_built_in(const Path& path) {
  return std::ranges::any_of(kBuiltIns, [&path](const BuiltIn& setting) {
    const std::vector<std::string_view> parts = parts_of(setting.path);
    return parts.size() >= path.size() && std::equal(path.begin(), path.end(), parts.begin());
  });
}

}  // namespace gateway
