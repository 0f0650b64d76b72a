#include "gateway/otlp_settings.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/config_keys.h"

namespace gateway {
namespace otlp_settings_test {

using namespace std::chrono_literals;

Loaded loaded(const std::string& yaml, Environment environment, std::vector<std::string> sets = {}) {
  return parse_config(yaml, "c.yaml", {.environment = std::move(environment), .sets = std::move(sets)});
}
std::string origin(const Loaded& loaded, const std::string& path) {
  for (const Setting& setting : loaded.settings) {
    if (text_of(setting.path) == path) return setting.value + " by " + setting.origin;
  }
  return "absent";
}
std::string problems(const Loaded& loaded) {
  std::string all;
  for (const Problem& problem : loaded.problems) all += text_of(problem) + "\n";
  return all;
}

TEST(OtlpSettings, reads_pairs_as_baggage_has_them) {
  const auto pairs = read_pairs;
  EXPECT_EQ(pairs(""), TextPairs{});
  EXPECT_EQ(pairs("a=1, b = x%20y%2C ,,c="), (TextPairs{{"a", "1"}, {"b", "x y,"}, {"c", ""}}));
  EXPECT_EQ(pairs("authorization=Basic%20YTpi=="), (TextPairs{{"authorization", "Basic YTpi=="}}));
  for (const char* bad : {"a", "=1", "a=%2", "a=%", "a=%zz", "a=1,b"}) EXPECT_EQ(pairs(bad), std::nullopt) << bad;
}

TEST(OtlpSettings, are_off_unless_somebody_says_where_to) {
  EXPECT_FALSE(otlp_target(default_config(), {}, "i"));
  const Loaded base = loaded("tracing: {otlp_url: \"http://c:4318/\", timeout: 3s, compression: gzip}\n", {});
  ASSERT_TRUE(base.usable()) << problems(base);
  const auto target = otlp_target(base.config, {{"POD_NAME", "p-0"}, {"POD_NAMESPACE", "ns"}}, "i-1");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->url, "http://c:4318/v1/traces");
  EXPECT_EQ(target->timeout, 3s);
  EXPECT_TRUE(target->gzip);
  EXPECT_EQ(target->resource,
            (TextPairs{{"service.name", "callgate"},
                       {"service.version", CALLGATE_VERSION},
                       {"service.instance.id", "i-1"},
                       {"k8s.pod.name", "p-0"},
                       {"k8s.namespace.name", "ns"}}));
  EXPECT_EQ(target->places.at("openai"), (UpstreamPlace{"openai", "api.openai.com", 443}));
  EXPECT_EQ(target->places.at("gemini").provider, "gcp.gemini");
  EXPECT_EQ(target->places.at("groq").address, "api.groq.com");
  EXPECT_EQ(target->places.at("ollama"), (UpstreamPlace{"ollama", "127.0.0.1", 11434}));

  const Loaded whole = loaded("tracing: {otlp_url: \"http://c:4318\", otlp_traces_url: \"https://d/x/y\"}\n", {});
  EXPECT_EQ(otlp_target(whole.config, {}, "i")->url, "https://d/x/y");
}

TEST(OtlpSettings, take_opentelemetrys_variables_where_nothing_else_is_said) {
  const Environment otel = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel:4318"},
                            {"OTEL_EXPORTER_OTLP_HEADERS", "x-token=abc"},
                            {"OTEL_EXPORTER_OTLP_TIMEOUT", "2500"},
                            {"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"},
                            {"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"},
                            {"OTEL_TRACES_SAMPLER_ARG", "0.25"},
                            {"OTEL_SERVICE_NAME", "gate"},
                            {"OTEL_RESOURCE_ATTRIBUTES", "team=x,service.instance.id=mine"}};
  const Loaded plain = loaded("", otel);
  ASSERT_TRUE(plain.usable()) << problems(plain);
  EXPECT_EQ(origin(plain, "tracing.otlp_url"), "http://otel:4318 by OTEL_EXPORTER_OTLP_ENDPOINT");
  EXPECT_EQ(origin(plain, "tracing.otlp_headers"), "{env: OTEL_EXPORTER_OTLP_HEADERS} by OTEL_EXPORTER_OTLP_HEADERS");
  EXPECT_EQ(plain.config.tracing.timeout, 2500ms);
  EXPECT_TRUE(plain.config.tracing.gzip);
  EXPECT_EQ(plain.config.tracing.sample, Config::Tracing::Sample::Parent);
  EXPECT_EQ(plain.config.tracing.ratio, 0.25);
  const auto target = otlp_target(plain.config, otel, "i");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->headers, (classifier::Headers{{"x-token", "abc"}}));
  EXPECT_EQ(target->resource,
            (TextPairs{{"service.name", "gate"},
                       {"service.version", CALLGATE_VERSION},
                       {"service.instance.id", "mine"},
                       {"team", "x"}}));

  // Each level wins over those below it.
  Environment ours = otel;
  ours["CALLGATE_TRACING__OTLP_URL"] = "http://variable:4318";
  const std::string yaml = "tracing: {otlp_url: \"http://file:4318\", sample: always}\n";
  EXPECT_EQ(loaded(yaml, otel).config.tracing.otlp_url, "http://file:4318");
  EXPECT_EQ(loaded(yaml, ours).config.tracing.otlp_url, "http://variable:4318");
  EXPECT_EQ(loaded(yaml, ours, {"tracing.otlp_url=http://flag:4318"}).config.tracing.otlp_url, "http://flag:4318");
  EXPECT_EQ(loaded(yaml, otel).config.tracing.ratio, 1) << "a sampler is taken whole or not at all";

  // A path of its own must not win over the file's base.
  ours = {{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://otel:4318/own"}};
  EXPECT_EQ(otlp_target(loaded("", ours).config, {}, "i")->url, "http://otel:4318/own");
  EXPECT_EQ(otlp_target(loaded(yaml, ours).config, {}, "i")->url, "http://file:4318/v1/traces");
}

TEST(OtlpSettings, leave_opentelemetrys_variables_alone_where_they_say_so_or_cannot_be_used) {
  const std::pair<std::string, std::string> endpoint{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel:4318"};
  EXPECT_FALSE(loaded("", {endpoint, {"OTEL_SDK_DISABLED", "True"}}).config.tracing.on());
  EXPECT_FALSE(loaded("", {endpoint, {"OTEL_TRACES_EXPORTER", "none"}}).config.tracing.on());
  const Loaded grpc = loaded("", {endpoint, {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}});
  EXPECT_FALSE(grpc.config.tracing.on());
  EXPECT_NE(problems(grpc).find("OTEL_EXPORTER_OTLP_PROTOCOL: warning: tracing.otlp_url: is grpc"), std::string::npos)
      << problems(grpc);
  EXPECT_TRUE(loaded("", {endpoint, {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}}).config.tracing.on());

  const Loaded odd = loaded("",
                            {{"OTEL_EXPORTER_OTLP_ENDPOINT", "otel:4318"},
                             {"OTEL_EXPORTER_OTLP_TIMEOUT", "soon"},
                             {"OTEL_EXPORTER_OTLP_HEADERS", "host=x"},
                             {"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"},
                             {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere.pem"},
                             {"OTEL_RESOURCE_ATTRIBUTES", "nonsense"},
                             {"OTEL_TRACES_SAMPLER", "jaeger_remote"}});
  EXPECT_TRUE(odd.usable()) << problems(odd);
  EXPECT_EQ(odd.problems.size(), 7U) << problems(odd);
  EXPECT_EQ(odd.config.tracing, Config::Tracing{});
}

TEST(OtlpSettings, that_are_wrong_in_the_file_are_errors) {
  const std::pair<const char*, const char*> kCases[] = {
      {"otlp_url: \"collector:4318\"", "c.yaml:1:21: error: tracing.otlp_url: "},
      {"otlp_traces_url: \"ftp://x\"", "c.yaml:1:28: error: tracing.otlp_traces_url: "},
      {"otlp_url: \"http://user:pw@c\"", "c.yaml:1:21: error: tracing.otlp_url: "},
      {"resource: nonsense", "c.yaml:1:21: error: tracing.resource: "},
      {"ca_file: /nowhere.pem", "c.yaml:1:20: error: tracing.ca_file: "},
      {"ratio: 1.5", "c.yaml:1:18: error: tracing.ratio: "},
      {"otlp_headers: {env: NOT_THERE}", "error: tracing.otlp_headers: "},
      {"otlp_headers: {env: BAD}", "error: tracing.otlp_headers: "},
  };
  for (const auto& [text, problem] : kCases) {
    const Loaded read = loaded(std::string{"tracing: {"} + text + "}\n", {{"BAD", "content-length=3"}});
    EXPECT_FALSE(read.usable()) << text;
    EXPECT_NE(problems(read).find(problem), std::string::npos) << problems(read);
  }
  const Loaded seen = loaded("tracing: {otlp_url: \"http://c:4318\", otlp_headers: {env: H}}\n", {{"H", "a=SECRET"}});
  EXPECT_TRUE(seen.usable());
  EXPECT_NE(problems(seen).find("is sent without TLS"), std::string::npos) << problems(seen);
  EXPECT_EQ(problems(seen).find("SECRET"), std::string::npos);
}

}  // namespace otlp_settings_test
}  // namespace gateway
