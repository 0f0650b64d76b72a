#pragma once
// Recorded answers, as people write them down: one JSON object a line. The tests' corpora and `callgate classify` and
// `callgate usage` read them through this one door, so they cannot disagree.
//
// A line has `id`, `provider`, `endpoint`, `stream` and either a failure (`status` or null, `headers`, `body` or
// `body_b64`, `transport` or null) or a good answer (`request`, `response_body` or `response_b64`,
// `response_headers`); and `expect`, if somebody knows better than we do.

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/dialect.h"
#include "classifier/rules.h"

namespace classifier {

struct Case {
  std::string id{};
  std::string provider{};
  const Dialect* dialect = nullptr;  // The provider's own, or the nearest that this version has.
  std::string path{};                // Where the provider has that endpoint.
  std::string request{};             // Padded (kBodyPadding); empty if it is not told.
  int status = 200;                  // 0: no answer came.
  Headers headers{};
  std::string body{};
  bool stream = false;
  std::optional<Transport> transport{};
  std::vector<ExtraRule> rules{};  // Of the upstream that it came from.
};

struct ExpectedVerdict {
  std::string cls{};
  bool retryable = false;
  std::optional<std::int64_t> retry_after_ms{};
  bool operator==(const ExpectedVerdict&) const = default;
};

struct ExpectedUsage {
  std::string model{};
  std::optional<TokenCounts> tokens{};
  std::optional<std::string> finish{};
  bool operator==(const ExpectedUsage&) const = default;
};

struct VerdictCase : Case {
  std::optional<ExpectedVerdict> expect{};
};
struct UsageCase : Case {
  std::optional<ExpectedUsage> expect{};
};

/// The error says what is wrong with the line, for people.
[[nodiscard]] std::expected<VerdictCase, std::string> read_verdict_case(std::string_view line);
[[nodiscard]] std::expected<UsageCase, std::string> read_usage_case(std::string_view line);

/// What the gateway would make of it.
[[nodiscard]] Verdict judge(const Case& recorded);
[[nodiscard]] ExpectedVerdict told(const Verdict& verdict);
[[nodiscard]] Usage whole_usage_of(const Case& recorded);
[[nodiscard]] ExpectedUsage usage_of(const Case& recorded);

/// "timeout", "connect_refused", "reset", "tls", "dns".
[[nodiscard]] std::optional<Transport> transport_named(std::string_view name);
/// The path of what this dialect is mostly asked for: "/v1/chat/completions".
[[nodiscard]] std::string_view usual_path(std::string_view dialect);
/// What a line calls that: "chat.completions".
[[nodiscard]] std::string_view usual_endpoint(std::string_view dialect);

}  // namespace classifier
