#pragma once
// What is remembered of a call: the rows, as the story fills them and as log, metrics and store read them.

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "budget/lane.h"
#include "budget/units.h"
#include "budget/waits.h"
#include "classifier/headers.h"
#include "classifier/usage.h"
#include "classifier/verdict.h"

namespace ledger {

/// How a call ended, in exactly one of these ways.
enum class Outcome : std::uint8_t { Answered, Failed, Refused, Cancelled, Drained, Crashed };
inline constexpr std::array<std::string_view, 6> kOutcomeNames = {
    "answered", "failed", "refused", "cancelled", "drained", "crashed"};
[[nodiscard]] constexpr std::string_view name_of(Outcome outcome) {
  return kOutcomeNames[static_cast<std::size_t>(outcome)];
}

/// What an attempt waited for, besides a slot.
enum class WaitedFor : std::uint8_t { Nothing, Computed, RetryAfter, Pause, Breaker, RetryBudget };
inline constexpr std::array<std::string_view, 6> kWaitedForNames = {
    "", "computed", "retry_after", "pause", "breaker", "retry_budget"};
[[nodiscard]] constexpr std::string_view name_of(WaitedFor what) {
  return kWaitedForNames[static_cast<std::size_t>(what)];
}

/// One try at a provider, as it ended.
struct AttemptRow {
  int number = 0;  // 1 for the first.
  std::string upstream{};
  std::string credential{};  // Ours by its name; "caller" for a caller's own key.
  std::string model{};       // As it is called there, if that is another name than was asked for.
  int status = 0;            // 0: no answer came.
  classifier::Class cls = classifier::Class::None;
  std::string code{};                               // The provider's own.
  std::string detail{};                             // For people; no URL, header or key.
  std::string fingerprint{};                        // Of an answer that no rule knew, else empty.
  bool possibly_billed = false;                     // Its body had gone out and nobody knows what became of it.
  std::chrono::milliseconds waited_before{0};       // Slept out before it, …
  WaitedFor waited_for = WaitedFor::Nothing;        // … most of it for this.
  std::optional<std::chrono::milliseconds> hint{};  // What the provider said of coming back.
  std::string rule{};                               // By which it was judged.
  std::string_view next{};  // What followed: "retry", "failover" or why nothing did; a literal.
  std::chrono::microseconds took{0};
  std::string provider_request_id{};
  classifier::Usage usage{};
  std::optional<budget::NanoUsd> cost{};  // Of what the provider reported; nothing: unknown, which is not zero.
  /// A literal: "provider" (stated in the answer), "table", "table_plain" (for want of a price for the tier or
  /// modifier that the answer names), "fallback" (the model has no price), "unpriced" (something used has none; no
  /// cost); empty: nothing was reported.
  std::string_view cost_source{};
  std::string_view
      cost_tier{};       // "standard", "flex", …: by which it was priced, "other" for a word not known; or empty.
  std::string prices{};  // Of the table it was priced by: its version (docs/prices.md).
  std::optional<budget::NanoUsd> charged{};       // What budgets are charged, those that come later, too.
  std::chrono::system_clock::time_point began{};  // When it was sent, …
  std::chrono::system_clock::time_point ended{};  // … and when it was over.
};

/// CallRecord::reason of a call that got the failure that an identical one had ended in a moment before.
inline constexpr std::string_view kRemembered = "remembered";

/// Where a call stands in a trace (gateway/trace_context.h); written into no store.
struct CallTrace {
  std::string trace_id{};   // 32 small hexadecimal digits.
  std::string span_id{};    // 16 of them: of the call's own span.
  std::string parent_id{};  // Likewise, of the caller's span; empty: the call begins the trace.
  std::string state{};      // tracestate, or empty.
  std::uint8_t flags = 0;   // As in a traceparent.
  /// Errand: nobody waits for it, a run or a replay. Webhook: no call at all, but the telling of a run's end.
  enum class From : std::uint8_t { Caller, Errand, Webhook } from = From::Caller;
  std::chrono::system_clock::time_point arrived{};  // Its first byte.
  [[nodiscard]] bool sampled() const { return (flags & 1) != 0; }
};

/// All that is remembered of a call: log line, metrics and ledger row are made from this.
struct CallRecord {
  std::string id{};  // UUIDv7.
  std::string tenant{};
  budget::Lane lane = budget::Lane::Bulk;
  std::string run_id{};
  std::string route{};     // What the caller addressed: an upstream or a route.
  std::string upstream{};  // Of the last attempt; before the first one, where it would go.
  std::string_view dialect{};
  std::string_view operation{};
  std::string method{};
  std::string path{};   // Without query.
  std::string model{};  // As asked.
  bool stream = false;
  bool sdk_retry = false;  // The caller's SDK marked it as a repetition of its own.
  std::string queue{};     // Callgate-Queue.
  std::string labels{};    // Callgate-Labels as a JSON object, {"team":"search"}; empty: none.
  std::string idempotency_key{};
  std::chrono::system_clock::time_point began{};
  std::chrono::system_clock::time_point ended{};
  /// What idempotency did: "stored", "replayed", "joined", "recovered"; a literal, or empty.
  std::string_view once{};
  std::string origin{};                    // Of a replayed or joined call: whose answer it got.
  std::optional<budget::NanoUsd> saved{};  // … and what that had cost, which was not paid again.

  Outcome outcome = Outcome::Failed;
  int status = 0;  // What the caller got (499: has gone).
  classifier::Class cls = classifier::Class::None;
  std::string_view reason{};  // Our own word for a refusal or for giving up (a literal), else empty.
  std::vector<AttemptRow> attempts{};
  classifier::Usage usage{};              // Of the attempt that answered (or broke off).
  std::optional<budget::NanoUsd> cost{};  // Of all attempts of which it is known.
  budget::WaitTimes waits{};              // By kind, of all attempts together.
  std::optional<double> budget_share{};   // Spent of the fullest budget, from its warn_at on.
  std::string_view limit{};               // What refused it, for callgate_refusals_total; a literal, or empty.
  std::chrono::microseconds queued{0};
  std::chrono::microseconds backed_off{0};
  std::optional<std::chrono::microseconds> first_content{};
  std::chrono::microseconds duration{0};
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::string bug{};                         // What an exception in the story said; empty unless class is internal.
  std::shared_ptr<const CallTrace> trace{};  // Null: tracing is off.
  bool commit_late = false;                  // The answer's end did not wait for its row any longer.
};

/// An attempt that is about to leave: what is known of it, so that a crash leaves a trace of it.
struct OpenRow {
  const CallRecord* call = nullptr;  // As far as it has come; its earlier attempts have ended. Read at once.
  int attempt = 0;                   // 1 for the first.
  std::string upstream{};
  std::string credential{};
  std::string model{};                        // As it is called there.
  std::optional<budget::NanoUsd> reserved{};  // What it may cost at most; nothing: unknown.
  std::chrono::system_clock::time_point began{};
  bool durable = false;  // Wait for the commit.
};

using Digest = std::array<std::uint8_t, 32>;  // SHA-256.

/// Asking whether this very job was seen before (design §7).
struct ClaimAsk {
  Digest scope{};        // Whose and what: tenant, caller's credential, route, method, path, query, key.
  Digest fingerprint{};  // Of the body and of the headers that change an answer.
  std::string key{};     // For people: the Idempotency-Key, or "run_id:…" and "body" where it is derived.
  std::string tenant{};
  std::string call_id{};
  std::chrono::system_clock::time_point now{};
  std::chrono::milliseconds lease{60'000};
  bool rerun = true;  // Where the answer is Unknown the claim is taken over; else it is left as it is.
};

/// A request as it can be made again. Without secrets: headers by allow-list, and no part of the query that holds a
/// key.
struct KeptRequest {
  std::string method{};
  std::string target{};  // As the worker wrote it: "/openai/v1/chat/completions?x=1".
  classifier::Headers headers{};
  std::string body{};
};

/// A complete success, as it can be given again.
struct StoredAnswer {
  int status = 200;
  classifier::Headers headers{};  // The provider's, and those of ours that stay true (cost, tokens, upstream).
  std::string body{};             // All bytes; of a stream the events as they came.
  bool stream = false;
  std::string call_id{};                  // Of the call that was paid.
  std::optional<budget::NanoUsd> cost{};  // What it has cost.
};

struct ClaimAnswer {
  enum class Kind : std::uint8_t {
    Ours,       // Never seen, or given up: the claim is taken.
    Stored,     // `answer`.
    OtherBody,  // The key was used with another body or other headers.
    /// It was begun and nobody knows how it ended (`call_id`), or its answer was not kept. By ClaimAsk::rerun the
    /// claim is taken over.
    Unknown,
    Held,     // Somebody else works on it, until `until` at most.
    NoStore,  // The store cannot claim it now, nor knows of an answer. With an id: that call may have been paid.
  } kind = Kind::Ours;
  std::shared_ptr<const StoredAnswer> answer{};
  std::string call_id{};  // Whose claim or answer it is; of Unknown: the earlier call.
  std::chrono::system_clock::time_point until{};
};

/// What becomes of a claim with the end of its call, in the same transaction.
struct OnceOutcome {
  Digest scope{};
  std::string call_id{};                         // Whose claim it is: a claim that was taken over is left alone.
  std::shared_ptr<const StoredAnswer> answer{};  // Null: the claim is given up, the next one begins anew.
  bool give_once = false;                        // The answer is for the next identical request alone.
  /// The store could not be asked before the call, or its answer was not awaited: where it holds no such claim it is
  /// asked with the call's end, unless the job was done elsewhere meanwhile.
  std::optional<ClaimAsk> unclaimed{};
};

}  // namespace ledger
