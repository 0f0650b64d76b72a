#include "gateway/otlp_settings.h"

#include <algorithm>
#include <charconv>

#include "budget/price_book.h"
#include "gateway/config_files.h"
#include "gateway/config_values.h"

namespace gateway {
namespace {

constexpr std::string_view kDefaultName = "callgate";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned code = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const auto read = std::from_chars(text.data() + i + 1, text.data() + i + 3, code, 16);
    if (read.ec != std::errc{} || read.ptr != text.data() + i + 3) return std::nullopt;
    out += static_cast<char>(code);
    i += 2;
  }
  return out;
}

/// The words of OpenTelemetry for gen_ai.provider.name; those it has none for keep ours.
std::string_view well_known(std::string_view provider) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"gemini", "gcp.gemini"},
                                                                      {"vertex", "gcp.vertex_ai"},
                                                                      {"mistral", "mistral_ai"},
                                                                      {"xai", "x_ai"},
                                                                      {"azure", "azure.ai.openai"},
                                                                      {"bedrock", "aws.bedrock"}};
  const auto* found = std::ranges::find(kNames, provider, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kNames) ? provider : found->second;
}

UpstreamPlace place_of(const UpstreamConfig& upstream) {
  UpstreamPlace place;
  const auto url = read_url(upstream.url);
  if (url) {
    place.address = url->host;
    place.port = url->https ? 443 : 80;
    std::string_view rest = std::string_view{upstream.url}.substr(upstream.url.find("://") + 3);
    rest = rest.substr(0, rest.find('/'));
    const std::size_t colon = rest.rfind(':');
    if (colon != rest.npos && rest.find(']', colon) == rest.npos)
      std::from_chars(rest.data() + colon + 1, rest.data() + rest.size(), place.port);
  }
  const std::string_view known = budget::provider_of(place.address, upstream.name);
  place.provider = well_known(known.empty() ? std::string_view{upstream.name} : known);
  return place;
}

}  // namespace

std::optional<TextPairs> read_pairs(std::string_view text) {
  TextPairs pairs;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view pair = trimmed(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    if (equals == pair.npos) return std::nullopt;
    auto name = percent_decoded(trimmed(pair.substr(0, equals)));
    auto value = percent_decoded(trimmed(pair.substr(equals + 1)));
    if (!name || name->empty() || !value) return std::nullopt;
    pairs.emplace_back(std::move(*name), std::move(*value));
  }
  return pairs;
}

TextPairs resource_of(const Config::Tracing& tracing, const Environment& environment, const std::string& instance) {
  const TextPairs more = read_pairs(tracing.resource).value_or(TextPairs{});
  const auto of_more = [&](std::string_view name) -> const std::string* {
    const std::string* found = nullptr;
    for (const auto& [key, value] : more) {
      if (key == name) found = &value;
    }
    return found;
  };
  TextPairs resource;
  const auto put = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    const std::string* other = of_more(name);
    resource.emplace_back(name, other ? *other : value);
  };
  const std::string* named = of_more("service.name");
  resource.emplace_back("service.name",
                        tracing.service_name == kDefaultName && named ? *named : tracing.service_name);
  resource.emplace_back("service.version", CALLGATE_VERSION);
  put("service.instance.id", instance);
  const auto variable = [&](std::string_view name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string{} : found->second;
  };
  put("k8s.pod.name", variable("POD_NAME"));
  put("k8s.namespace.name", variable("POD_NAMESPACE"));
  put("k8s.pod.uid", variable("POD_UID"));
  put("k8s.node.name", variable("NODE_NAME"));
  for (const auto& [name, value] : more) {
    const bool there = std::ranges::any_of(resource, [&](const auto& one) { return one.first == name; });
    if (!there) resource.emplace_back(name, *of_more(name));
  }
  return resource;
}

std::optional<OtlpTarget> otlp_target(const Config& config, const Environment& environment,
                                      const std::string& instance) {
  const Config::Tracing& tracing = config.tracing;
  if (!tracing.on()) return std::nullopt;
  OtlpTarget target;
  std::string base = tracing.otlp_url;
  while (base.ends_with('/')) base.pop_back();
  target.url = tracing.otlp_traces_url.empty() ? base + "/v1/traces" : tracing.otlp_traces_url;
  if (tracing.otlp_headers.given())
    target.headers = read_otlp_headers(tracing.otlp_headers, environment).value_or(classifier::Headers{});
  target.ca_file = tracing.ca_file;
  target.gzip = tracing.gzip;
  target.timeout = tracing.timeout;
  target.resource = resource_of(tracing, environment, instance);
  for (const UpstreamConfig& upstream : config.upstreams) target.places[upstream.name] = place_of(upstream);
  return target;
}

}  // namespace gateway
