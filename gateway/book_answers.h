#pragma once
// What does the admin API say of the ledger? Each question as its path and query, each answer as JSON; the CLI asks a
// file the same way.
//
//   GET /v1/spend         ?by=tenant,model,upstream,lane,queue,day,hour,run_id,class,label:NAME [&tenant=]
//   [&utc_offset=+02:00] GET /v1/calls         [?tenant= &run_id= &upstream= &model= &outcome= &class= &queue=
//   &idempotency_key=]
//                         [&before=ID | &after=ID] [&most=100]
//   GET /v1/calls/ID      [?tenant=]
//   GET /v1/timeouts      a timeout for each model and queue, from how long its calls took
//   GET /v1/usage         [?upstream=A,B] day by day (UTC) and model, as a provider counts
//   GET /v1/idempotency   ?key= [&tenant=]
//   GET /v1/events        [?after=SEQ] [&tenant=] [&most=500]; without after: where the feed begins and ends
//
// All but the last two and the one of a single call take since= and until=: "2026-11-29", "2026-11-29T16:40Z", or how
// long ago ("7d", "90m").

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/endpoint.h"
#include "gateway/services.h"
#include "ledger/books.h"

namespace gateway {

/// Is it one of those above?
[[nodiscard]] bool asks_books(std::string_view path);
/// Takes its time: to be called where the books may be read.
[[nodiscard]] EndpointAnswer answer_of_books(ledger::Books& books, std::string_view path, std::string_view query,
                                             WallTime now);

/// RFC 9457, without members of one's own.
[[nodiscard]] EndpointAnswer plain_problem(int status, std::string_view title, std::string_view detail);

/// "7d", "90m" before `now`, or a moment; milliseconds since the epoch.
[[nodiscard]] std::optional<std::int64_t> read_since(std::string_view text, WallTime now);

/// What to set for calls that took so long: callgate's caller gives up after `sdk_ms`, the queue hands the message to
/// somebody else after `visibility_ms`. Nothing: too few calls to say.
struct Timeouts {
  std::int64_t sdk_ms = 0;
  std::int64_t visibility_ms = 0;
  bool few = false;  // p99.9 is not more than the longest that was seen: more headroom was given.
};
inline constexpr std::int64_t kFewestCalls = 100;
inline constexpr std::int64_t kManyCalls = 1'000;
[[nodiscard]] std::optional<Timeouts> timeouts_of(const ledger::TimeoutLine& line);

}  // namespace gateway
