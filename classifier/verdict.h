#pragma once
// What does an answer mean to us? The words that every other room speaks.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace classifier {

/// The 17 classes of a provider's failure, `None` for an answer that is one, and those of our own making.
/// Names are used as they stand in metrics, log, CLI and JSON (see name_of()).
enum class Class : std::uint8_t {
  None,               // A good answer.
  RateLimited,        // Throughput limit of account, key or project that renews by itself.
  Overloaded,         // Capacity of provider, region, model or local server.
  ServerError,        // Fault on the provider's side.
  Timeout,            // Somebody's clock ran out.
  Network,            // Connect, reset, DNS, TLS.
  Auth,               // Credential missing, wrong, expired, revoked.
  Permission,         // Credential fine, not allowed.
  QuotaExhausted,     // Money or a long-period allowance used up.
  InvalidRequest,     // The request is wrong.
  ContextLength,      // Prompt plus output does not fit the model.
  ContentPolicy,      // Refused or cut for policy.
  NotFound,           // Model, deployment, object or path unknown.
  TooLarge,           // Bytes over a body limit, or one request above a whole per-minute allowance.
  Conflict,           // 409.
  Cancelled,          // Upstream says the call was cancelled (499), or the caller has gone.
  MalformedResponse,  // 2xx that is no valid answer.
  Unknown,            // None of these can be told.
  LocalLimit,         // Ours: a rate or concurrency limit, a full queue, a wait that was too long.
  LocalBudget,        // Ours: money spent.
  LocalBreaker,       // Ours: breaker open.
  LocalMemory,        // Ours: too much in memory.
  LocalDraining,      // Ours: the process is going.
  LocalRequest,       // Ours: malformed HTTP, a header of ours that cannot be read, an unknown name.
  Crash,              // Found open at three starts of the process.
  Internal,           // Our own bug.
};
inline constexpr std::array<std::string_view, 26> kClassNames = {"none",
                                                                 "rate_limited",
                                                                 "overloaded",
                                                                 "server_error",
                                                                 "timeout",
                                                                 "network",
                                                                 "auth",
                                                                 "permission",
                                                                 "quota_exhausted",
                                                                 "invalid_request",
                                                                 "context_length",
                                                                 "content_policy",
                                                                 "not_found",
                                                                 "too_large",
                                                                 "conflict",
                                                                 "cancelled",
                                                                 "malformed_response",
                                                                 "unknown",
                                                                 "local_limit",
                                                                 "local_budget",
                                                                 "local_breaker",
                                                                 "local_memory",
                                                                 "local_draining",
                                                                 "local_request",
                                                                 "crash",
                                                                 "internal"};
[[nodiscard]] constexpr std::string_view name_of(Class cls) { return kClassNames[static_cast<std::size_t>(cls)]; }

/// How a connection failed before or during an answer.
enum class Transport : std::uint8_t { Timeout, ConnectRefused, Reset, Tls, Dns };

struct Verdict {
  Class cls = Class::None;
  /// Could the very same request succeed soon without anybody doing anything?
  bool retryable = false;
  /// How long the provider asked us to stay away; nothing if it did not say or it is not retryable.
  std::optional<std::chrono::milliseconds> retry_after{};
  /// The provider's own code or type, at most 64 bytes of [A-Za-z0-9_.-]; for logs, empty if none.
  std::string code{};
  /// Which row spoke, for `classify --explain`; of an operator's rule also where it stands.
  std::string rule{};
  /// No rule knows these words: the status alone decided, or nothing did. What fingerprint.h is for.
  bool unexplained = false;
  /// The provider has answered, and its answer is a refusal (a blocked prompt in a 200): recorded under its class,
  /// but passed on as it came, since to an SDK it is no error.
  bool is_answer = false;
};

}  // namespace classifier
