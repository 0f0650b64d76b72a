#pragma once
// How is an answer dressed for the caller? Headers of ours, the truth about waiting, errors in the dialect.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "classifier/dialect.h"
#include "gateway/caller.h"
#include "gateway/services.h"

namespace gateway {

/// Of a provider's head, what may go on: nothing that its Connection field names or that poses as ours. Framing and
/// the other hop-by-hop fields fall to the server, which writes its own.
[[nodiscard]] classifier::Headers passable(const classifier::Headers& headers);

/// Callgate-Call-Id, -Source (provider | callgate), -Upstream, -Attempts, -Queue-Ms, -Waits-Ms by kind ("queue=12,
/// rate=300") where it waited, -Budget-Spent from a budget's warn_at on and, for a failure, -Class. `attempts`: begun
/// so far, the answering one included.
void add_our_headers(classifier::Headers& headers, const CallRecord& record, std::size_t attempts,
                     classifier::Class cls, std::string_view source);

/// Of a unary answer that was held whole: how many tokens it took.
void add_token_headers(classifier::Headers& headers, const classifier::Usage& usage);

/// What all attempts of the call have cost, as far as that is known.
void add_cost_header(classifier::Headers& headers, const CallRecord& record);

/// What a caller who is refused for good, or for now, is told about coming back.
struct ComeBack {
  bool retryable = false;
  std::optional<std::chrono::milliseconds> wait{};
  bool sdk_may_retry = false;  // x-should-retry: true, else false.
};
/// Sets Callgate-Retryable, Callgate-Retry-After-Ms, x-should-retry and a Retry-After that no client trips over:
/// a whole second count of at least 1 in place of 0, a past date or text; a short one for the few clients that sleep
/// out any value whatever else is said (by their `user_agent`).
void set_come_back(classifier::Headers& headers, const ComeBack& come_back, std::string_view user_agent);

/// Without what add_our_headers() and set_come_back() have put there.
[[nodiscard]] classifier::Headers without_ours(const classifier::Headers& headers);

/// Our own error as a whole answer in the dialect's form.
struct OwnAnswer {
  AnswerHead head{};
  std::string body{};
};
[[nodiscard]] OwnAnswer own_answer(const classifier::Dialect& dialect, const classifier::OwnError& error);

/// Absolute URLs in the head that lead to the provider (`base_url`, as configured) lead to us again: else a resumable
/// upload would go around callgate. `home`: where the caller finds that upstream, "http://127.0.0.1:4600/gemini".
void lead_home(classifier::Headers& headers, std::string_view base_url, std::string_view home);

/// Removes every field of that name.
void remove(classifier::Headers& headers, std::string_view name);
void set(classifier::Headers& headers, std::string_view name, std::string value);

}  // namespace gateway
