#pragma once
// Where do spans go, and who says that they come from us? What stands in the configuration and in OpenTelemetry's own
// variables, made ready for sending.

#include <chrono>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "classifier/headers.h"
#include "gateway/call_spans.h"
#include "gateway/config.h"

namespace gateway {

using TextPairs = std::vector<std::pair<std::string, std::string>>;

/// "a=b,c=d%20e", as W3C Baggage has it: blanks around names and values are none of them, values are percent-decoded.
/// Nothing: it is malformed. An empty text has no pairs.
[[nodiscard]] std::optional<TextPairs> read_pairs(std::string_view text);

/// Of a sending process, in the order in which they are sent.
///
///   attribute             from
///   --------------------  ------------------------------------------------------------------------------
///   service.name          tracing.service_name; if that is the default, tracing.resource's
///   service.version       ours
///   service.instance.id   tracing.resource's, else `instance`
///   k8s.pod.name, k8s.namespace.name, k8s.pod.uid, k8s.node.name
///                         POD_NAME, POD_NAMESPACE, POD_UID, NODE_NAME; over them tracing.resource's
///   others                tracing.resource
[[nodiscard]] TextPairs resource_of(const Config::Tracing& tracing, const Environment& environment,
                                    const std::string& instance);

/// All that an export needs to know.
struct OtlpTarget {
  std::string url{};
  classifier::Headers headers{};
  std::string ca_file{};  // Empty: the system's bundle.
  bool gzip = false;
  std::chrono::milliseconds timeout{10'000};
  TextPairs resource{};
  Places places{};
  bool operator==(const OtlpTarget&) const = default;
};
/// Nothing: tracing is off. Headers that cannot be read any more are none.
[[nodiscard]] std::optional<OtlpTarget> otlp_target(const Config& config, const Environment& environment,
                                                    const std::string& instance);

}  // namespace gateway
