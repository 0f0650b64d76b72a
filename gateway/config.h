#pragma once
// What has the operator decided? Plain values with their defaults.
// config_keys.cpp is the one table of names, defaults, ranges and meanings; docs/configuration.md is printed from it.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "budget/bucket.h"
#include "budget/lane.h"
#include "budget/spend.h"
#include "gateway/queue_contract.h"

namespace budget {
class PriceBook;
}

namespace gateway {

/// Where a secret is; the secret itself is in no configuration.
struct SecretSource {
  enum class From : std::uint8_t { Nowhere, File, Environment } from = From::Nowhere;
  std::string name{};  // Path or variable.
  [[nodiscard]] bool given() const { return from != From::Nowhere; }
  bool operator==(const SecretSource&) const = default;
};

/// One of an operator's own verdict rows: what is given must all fit.
struct RuleConfig {
  int status = 0;      // 0: any.
  std::string code{};  // Empty: any. "*" at either end.
  std::string text{};  // Empty: any.
  std::string cls{};   // A name that classifier::name_of() gives.
  std::optional<bool> retryable{};
  std::string file{};  // Where it stands.
  int line = 0;
  bool operator==(const RuleConfig&) const = default;
};

/// A key that callgate holds for an upstream.
struct CredentialConfig {
  std::string name{};  // In metrics, log and messages; unique within its upstream.
  SecretSource key{};
  double weight = 1;  // Its share of new conversations; 0: only when no other one may be used.
  bool operator==(const CredentialConfig&) const = default;
};

struct UpstreamConfig {
  std::string name{};
  std::string dialect{};  // A name that classifier::find_dialect() knows.
  std::string url{};      // "https://host[:port][/path]", without a slash at the end.
  int http = 1;           // 1 | 2
  std::string ca_file{};
  std::vector<CredentialConfig> credentials{};  // None: the caller's own key is passed through.
  int concurrent = 256;                         // limits.concurrent; 0: no limit.
  budget::RateLimits rates{};                   // limits.*_per_minute, per credential and limit group.
  bool adaptive = true;                         // limits.adaptive
  std::map<std::string, std::vector<std::string>, std::less<>> groups{};  // limits.groups: name -> models.
  struct Timeouts {                                                       // 0: none.
    std::chrono::milliseconds connect{5'000};
    std::chrono::milliseconds first_byte{600'000};
    std::chrono::milliseconds idle{120'000};
    std::chrono::milliseconds total{0};
    bool operator==(const Timeouts&) const = default;
  } timeouts{};
  std::vector<std::string> replay_safe{};  // Further POST paths that may be repeated after their body was sent.
  std::vector<RuleConfig> rules{};         // classifier.rules
  bool propagate_trace = false;
  bool operator==(const UpstreamConfig&) const = default;
};

/// One upstream of a route.
struct RouteStep {
  std::string upstream{};
  std::optional<double> weight{};  // Neighbours that all have one share the calls by it; without: in order.
  std::map<std::string, std::string, std::less<>> models{};  // Asked model -> its name there.
  bool operator==(const RouteStep&) const = default;
};

/// A name that callers address like an upstream.
struct RouteConfig {
  std::string name{};
  std::vector<RouteStep> steps{};  // All of one dialect.
  bool operator==(const RouteConfig&) const = default;
};

/// Who pays and is limited.
struct TenantConfig {
  std::string name{};
  double weight = 1;                       // Above 0.
  budget::Lane lane = budget::Lane::Bulk;  // Of calls that name none.
  budget::RateLimits limits{};             // Requests and tokens only.
  int concurrent = 0;                      // limits.concurrent; 0: no limit.
  std::vector<std::string> keys{};         // keys[].sha256: 64 small hexadecimal digits.
  std::vector<std::string> models{};       // models.allow: "*" stands for any characters; none: all models.
  budget::SpendLimits budget{};
  bool operator==(const TenantConfig&) const = default;
};

struct LaneRetry {
  int attempts = 8;
  std::chrono::milliseconds max_elapsed{0};  // 0: none.
  bool operator==(const LaneRetry&) const = default;
};

struct Config {
  struct Listen {
    std::string data = "127.0.0.1:4600";  // or unix:/path
    std::string health = "127.0.0.1:4601";
    std::string admin = "127.0.0.1:4602";  // or unix:/path
    SecretSource admin_token{};
    std::vector<std::string> hosts{"localhost", "127.0.0.1", "[::1]"};
    bool operator==(const Listen&) const = default;
  } listen{};

  std::vector<UpstreamConfig> upstreams{};  // Built-in ones included, by name.
  std::vector<RouteConfig> routes{};
  std::map<std::string, std::string, std::less<>> default_upstream{};  // dialect -> upstream or route

  std::vector<TenantConfig> tenants{};  // By name; "default" is always there.
  bool refuse_unknown = false;          // tenancy.unknown: default | refuse
  std::string time_zone = "UTC";        // budget.time_zone
  int budget_status = 402;              // budget.status: 402 | 429

  struct Retry {
    std::chrono::milliseconds base{500};
    std::chrono::milliseconds cap{30'000};
    std::chrono::milliseconds longest_wait{60'000};
    bool on_timeout = true;
    LaneRetry interactive{4, std::chrono::milliseconds{0}};
    LaneRetry bulk{8, std::chrono::milliseconds{120'000}};
    LaneRetry backfill{8, std::chrono::milliseconds{120'000}};
    double budget_share = 0.5;   // Retries per recent call, per upstream; …
    int budget_floor = 10;       // … and so many that are always allowed, …
    double budget_refill = 0.1;  // … of which so many per second come back.
    bool operator==(const Retry&) const = default;
  } retry{};

  std::chrono::milliseconds memo_final_failure{15'000};  // memo.final_failure; 0: nothing is remembered.

  struct Breaker {
    std::chrono::milliseconds window{30'000};
    int min_calls = 10;
    double failure_share = 0.5;
    int consecutive = 5;
    std::chrono::milliseconds open_for{10'000};
    bool operator==(const Breaker&) const = default;
  } breaker{};

  struct Queue {
    std::size_t per_tenant = 1'000;
    std::size_t total = 10'000;
    struct MaxWait {
      std::chrono::milliseconds interactive{30'000};
      std::chrono::milliseconds bulk{300'000};
      std::chrono::milliseconds backfill{1'800'000};
      bool operator==(const MaxWait&) const = default;
    } max_wait{};
    struct Weights {
      double interactive = 8;
      double bulk = 2;
      double backfill = 1;
      bool operator==(const Weights&) const = default;
    } weights{};
    double reserve = 0.1;  // Share of slots kept for higher lanes.
    bool operator==(const Queue&) const = default;
  } queue{};

  struct Idempotency {
    std::chrono::milliseconds ttl{24LL * 3'600'000};
    std::uint64_t max_bytes = 256ULL * 1024 * 1024;
    std::uint64_t max_entry = 4ULL * 1024 * 1024;
    std::chrono::milliseconds lease{60'000};
    /// What an identical request without a key means.
    enum class Derive : std::uint8_t { Off, Undelivered, RunId, Body } derive = Derive::Undelivered;
    enum class OnUnknown : std::uint8_t { Rerun, Fail } on_unknown = OnUnknown::Rerun;
    /// What becomes of such a call when its last caller has left.
    enum class CallerGone : std::uint8_t { Linger, Cancel, Finish } on_caller_gone = CallerGone::Linger;
    std::chrono::milliseconds linger{15'000};
    bool operator==(const Idempotency&) const = default;
  } idempotency{};

  struct Stream {
    std::chrono::milliseconds hold_head{45'000};
    std::uint64_t hold_bytes = 256 * 1024;
    bool ask_for_usage = true;
    std::chrono::milliseconds heartbeat{15'000};  // 0: none.
    bool operator==(const Stream&) const = default;
  } stream{};

  std::uint64_t hold_unary = 4 * 1024 * 1024;  // answers.hold_unary

  struct Limits {
    std::uint64_t header_bytes = 64 * 1024;
    std::uint64_t body_bytes = 64 * 1024 * 1024;
    std::uint64_t buffered_bytes = 0;  // 0: auto, 40 % of the memory limit of our cgroup (or of the machine).
    std::size_t connections = 20'000;
    std::chrono::milliseconds header_timeout{30'000};
    std::chrono::milliseconds write_stall{60'000};
    std::chrono::milliseconds keep_alive{620'000};
    bool half_close_is_gone = true;  // half_close: gone | allow
    bool operator==(const Limits&) const = default;
  } limits{};

  struct Prices {
    std::vector<std::string> files{};
    std::int64_t fallback_input = 5'000'000'000;  // Nano-dollars per million tokens, as the next.
    std::int64_t fallback_output = 25'000'000'000;
    bool refuse_unpriced = false;  // unpriced: charge | refuse
    /// The shipped prices and those of `files`, the later over the earlier; never null.
    std::shared_ptr<const budget::PriceBook> book{};
    std::vector<std::string> digests{};  // Of the files' bytes: prices that have changed are another configuration.
    bool operator==(const Prices& other) const;
  } prices{};

  struct Store {
    std::string path = "callgate.db";  // ":memory:": nothing outlives the process.
    bool disk = false;                 // store.commit: process | disk
    std::chrono::milliseconds commit_wait{250};
    bool refuse = false;  // store.on_failure: serve | refuse
    enum class Payloads : std::uint8_t { Auto, Plain, None } payloads = Payloads::Auto;
    SecretSource payload_key{};
    std::chrono::milliseconds keep_calls{90LL * 24 * 3'600'000};
    std::chrono::milliseconds keep_dead_letters{30LL * 24 * 3'600'000};  // From arrival.
    std::chrono::milliseconds keep_runs{30LL * 24 * 3'600'000};          // From their end.
    std::chrono::milliseconds keep_events{30LL * 24 * 3'600'000};
    bool operator==(const Store&) const = default;
  } store{};

  std::uint64_t dead_letters_bytes = 256ULL * 1024 * 1024;  // dead_letters.max_bytes

  struct Runs {
    bool enabled = true;
    std::chrono::milliseconds lease{30'000};
    int max_attempts = 6;
    std::chrono::milliseconds max_elapsed{3'600'000};
    int concurrent = 64;
    int max_open = 100'000;
    std::uint64_t max_bytes = 1024ULL * 1024 * 1024;
    bool operator==(const Runs&) const = default;
  } runs{};

  std::vector<QueueContract> queues{};  // By name.
  QueueContract other_queues{};         // Of queues without a contract: what `runs` and `retry` say.

  struct Webhooks {
    std::vector<std::string> allow_hosts{};          // In small letters.
    std::vector<std::string> allow_private_hosts{};  // Likewise.
    SecretSource secret{};                           // read_webhook_secrets() reads it (config_files.h).
    bool operator==(const Webhooks&) const = default;
  } webhooks{};

  struct Shutdown {
    std::chrono::milliseconds drain{25'000};
    std::chrono::milliseconds linger{0};        // Part of `drain`; 0: nobody new is taken in.
    std::chrono::milliseconds final_scrape{0};  // Behind `drain`; 0: nobody is waited for.
    bool operator==(const Shutdown&) const = default;
  } shutdown{};

  struct Log {
    enum class Level : std::uint8_t { Debug, Info, Warn, Error } level = Level::Info;
    enum class Format : std::uint8_t { Json, Text } format = Format::Json;
    bool operator==(const Log&) const = default;
  } log{};

  bool tenant_label = true;  // metrics.tenant_label

  struct Tracing {
    std::string otlp_url{};         // A base, to which /v1/traces is added.
    std::string otlp_traces_url{};  // The whole URL, over the base.
    SecretSource otlp_headers{};    // read_otlp_headers() reads it (config_files.h).
    std::string ca_file{};
    bool gzip = false;  // compression: none | gzip
    std::chrono::milliseconds timeout{10'000};
    enum class Sample : std::uint8_t { Parent, Always } sample = Sample::Parent;
    double ratio = 1;
    std::string service_name = "callgate";
    std::string resource{};  // "a=b,c=d", percent-encoded.
    [[nodiscard]] bool on() const { return !otlp_url.empty() || !otlp_traces_url.empty(); }
    bool operator==(const Tracing&) const = default;
  } tracing{};

  bool operator==(const Config&) const = default;
};

/// One thing that is wrong, with the place to look at and the mend.
struct Problem {
  enum class Severity : std::uint8_t { Error, Warning };
  enum class Kind : std::uint8_t {
    Unreadable,  // The file itself: missing, too large, not text.
    Syntax,      // Not YAML, or more of YAML than a configuration needs.
    UnknownKey,
    DuplicateKey,
    Missing,    // A key that must be there; a variable that is not set.
    Type,       // Not of the key's form.
    Range,      // Of its form, but too little, too much, or none of its words.
    Secret,     // A secret that stands in the file itself.
    Reference,  // Names something that does not exist, or does not fit.
    Exposure,   // Works, but lets others read or listen.
    Contract,   // A queue's contract leaves out what somebody will ask for.
    Weaker,     // A queue's contract promises less than the one that holds.
    NotInThisVersion,
  };
  Severity severity = Severity::Error;
  Kind kind = Kind::Type;
  std::string file{};  // As it was named; for values from elsewhere the variable's name or "--set".
  int line = 0;        // From 1; 0: the whole file.
  int column = 0;
  std::string path{};     // "retry.base"; empty: the whole file.
  std::string message{};  // "must be a duration such as 250ms, 30s or 5m (is \"5 minutes\")"
};
[[nodiscard]] std::string_view name_of(Problem::Kind kind);          // "unknown_key", …
[[nodiscard]] std::string_view name_of(Problem::Severity severity);  // "error", "warning"
/// "callgate.yaml:7:9: error: retry.base: must be …", the form that editors jump to.
[[nodiscard]] std::string text_of(const Problem& problem);

/// One effective value, and who decided it.
struct Setting {
  std::vector<std::string> path{};  // {"retry", "base"}
  std::string value{};              // As one would write it in the file.
  std::string origin{};             // "default", "built in", "callgate.yaml:7", "CALLGATE_RETRY__BASE", "--set"
};

/// The keys of the configured credentials, by secret_name().
using Secrets = std::map<std::string, std::string, std::less<>>;
[[nodiscard]] std::string secret_name(std::string_view upstream, std::string_view credential);

struct Loaded {
  Config config{};
  std::vector<Problem> problems{};  // By place. Warnings leave the config usable.
  std::vector<Setting> settings{};  // All keys of this version, in the order of the documentation.
  Secrets secrets{};                // As they were read; shown to nobody.
  [[nodiscard]] bool usable() const;
};

using Environment = std::map<std::string, std::string, std::less<>>;
[[nodiscard]] Environment process_environment();

/// What wins over the file: `sets` over CALLGATE_* variables over the file over the defaults.
struct Overrides {
  Environment environment{};        // CALLGATE_RETRY__BASE=1s; also what ${env:NAME} means in the file.
  std::vector<std::string> sets{};  // "retry.base=1s"
};

/// The contract of that queue, or what holds for those without one.
[[nodiscard]] const QueueContract& contract_of(const Config& config, std::string_view queue);

/// The defaults with the built-in upstreams.
[[nodiscard]] Config default_config();
/// Reads and checks a whole file and lists all problems at once; never throws for what stands in it.
/// An empty name means no file: defaults and overrides alone.
[[nodiscard]] Loaded load_config(const std::string& file, const Overrides& overrides = {process_environment(), {}});
[[nodiscard]] Loaded parse_config(std::string_view text, const std::string& file_name,
                                  const Overrides& overrides = {});

}  // namespace gateway
