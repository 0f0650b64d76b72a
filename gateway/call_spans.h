#pragma once
// Which spans does a call leave? Made of its record at its end, by the GenAI conventions of OpenTelemetry.
//
//   span           kind      parent                       events
//   -------------  --------  ---------------------------  ------------------------------------------------------
//   a call         SERVER    the caller's, if there is    callgate.queue_wait: for a turn
//                            one
//   a run's or a   INTERNAL  that of the request which    likewise
//   replay's call            brought it
//   an attempt     CLIENT    its call                     callgate.retry_wait: slept before it, and for what;
//                                                         callgate.hint: when the provider said to come back
//   a webhook      CLIENT    none; it names its run
//
// Allow-list, as of the log: names, numbers and words of ours and of the provider's head; never a key, header, query,
// prompt, answer or error text.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gateway/services.h"

namespace gateway {

using SpanValue = std::variant<std::string, std::int64_t, double, bool, std::vector<std::string>>;
struct SpanAttribute {
  std::string_view key;  // A literal.
  SpanValue value{};
  bool operator==(const SpanAttribute&) const = default;
};

struct SpanEvent {
  std::string_view name;
  WallTime at{};
  std::vector<SpanAttribute> attributes{};
};

struct Span {
  enum class Kind : std::uint8_t { Internal = 1, Server = 2, Client = 3 };  // OTLP's numbers.
  std::string trace_id{};
  std::string span_id{};
  std::string parent_id{};  // Empty: none.
  std::string state{};
  std::uint8_t flags = 0;
  bool parent_is_remote = false;
  std::string name{};
  Kind kind = Kind::Internal;
  WallTime began{};
  WallTime ended{};  // Never before `began`.
  std::vector<SpanAttribute> attributes{};
  std::vector<SpanEvent> events{};
  bool error = false;
};

/// Where an upstream is.
struct UpstreamPlace {
  std::string provider{};  // gen_ai.provider.name
  std::string address{};
  int port = 0;
  bool operator==(const UpstreamPlace&) const = default;
};
using Places = std::map<std::string, UpstreamPlace, std::less<>>;

/// The call's span first; none if it has no trace. Times are made to follow each other, whatever the clock did.
[[nodiscard]] std::vector<Span> spans_of(const CallRecord& record, const Places& places);
/// How many that will be.
[[nodiscard]] inline std::size_t spans_in(const CallRecord& record) { return 1 + record.attempts.size(); }

}  // namespace gateway
