#pragma once
// callgate between a client and the fake provider, as most end-to-end tests want it, and how its figures are read.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/harness.h"
#include "tests/support/pace.h"

namespace support {

inline const std::string kUnary = R"({"model":"gpt-5","messages":[{"role":"user","content":"hi"}]})";
inline const std::string kStream = R"({"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]})";

/// A call of the chat endpoint that the provider's scripts can tell from others by its words.
inline std::string chat_saying(const std::string& words, bool stream = false) {
  return std::string{R"({"model":"gpt-5",)"} + (stream ? R"("stream":true,)" : "") +
         R"("messages":[{"role":"user","content":")" + words + "\"}]}";
}

/// The sum of a metric's series that have `labels` among theirs, such as `class="timeout"`; 0 if there is none.
inline double metric(const std::string& scrape, std::string_view name, std::string_view labels = {}) {
  double sum = 0;
  std::size_t at = 0;
  while (at < scrape.size()) {
    const std::size_t end = std::min(scrape.find('\n', at), scrape.size());
    const std::string_view line{scrape.data() + at, end - at};
    at = end + 1;
    if (!line.starts_with(name) || line.size() <= name.size()) continue;
    if (line[name.size()] != '{' && line[name.size()] != ' ') continue;
    if (line.find(labels) == std::string_view::npos) continue;
    sum += std::stod(std::string{line.substr(line.rfind(' '))});
  }
  return sum;
}

/// The least of up to three measurements; the first one below `enough` will do. A noisy neighbour disturbs one of
/// them, a fault all.
template <typename Measure>
double calmest(double enough, const Measure& measure) {
  double least = measure();
  for (int more = 0; more < 2 && least >= enough; ++more) least = std::min(least, measure());
  return least;
}

struct House {
  /// `upstream` follows the URL of each upstream (", timeouts: {idle: 1s}"); `more` are further sections.
  explicit House(const std::string& upstream = {}, const std::string& more = "retry: {base: 10ms}\n")
      : callgate(yaml(upstream, more), options(more)) {}

  /// A test of one call's story does not want to hear of the failures of those before it, unless it says so.
  static Callgate::Options options(const std::string& more) {
    Callgate::Options options;
    const auto unless = [&](const char* word, const char* variable, const char* value) {
      if (more.find(word) == more.npos) options.env.emplace_back(variable, value);
    };
    unless("memo:", "CALLGATE_MEMO__FINAL_FAILURE", "0s");
    unless("breaker:", "CALLGATE_BREAKER__MIN_CALLS", "1000000");
    unless("breaker:", "CALLGATE_BREAKER__CONSECUTIVE", "1000000");
    unless("budget:", "CALLGATE_RETRY__BUDGET__FLOOR", "1000000");
    return options;
  }

  [[nodiscard]] std::string yaml(const std::string& upstream, const std::string& more) const {
    std::string text = "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nupstreams:\n";
    for (const char* name : {"openai", "anthropic", "gemini"}) {
      text.append("  ").append(name).append(": {url: ").append(provider.url()).append(upstream).append("}\n");
    }
    return text + more;
  }

  [[nodiscard]] std::string url(const std::string& path) const { return callgate.data_url() + path; }
  Response chat(const std::string& body = kUnary,
                const std::vector<std::pair<std::string, std::string>>& headers = {}) const {
    return http("POST", url("/openai/v1/chat/completions"), body, headers);
  }
  /// On a connection of its own; the answer is for the test to read.
  [[nodiscard]] RawClient begin_chat(const std::string& body = kUnary,
                                     const std::vector<std::pair<std::string, std::string>>& headers = {}) const {
    RawClient client{callgate.data_port()};
    client.send(request_text("POST", "/openai/v1/chat/completions", body, headers));
    return client;
  }
  /// The log's next line of a call.
  nlohmann::json call_line() { return callgate.process().json_line("call"); }
  [[nodiscard]] std::string scrape() const { return http_get(callgate.health_url() + "/metrics").body; }
  [[nodiscard]] double figure(std::string_view name, std::string_view labels = {}) const {
    return metric(scrape(), name, labels);
  }
  [[nodiscard]] double awaited(double expected, std::string_view name, std::string_view labels = {}) const {
    return support::awaited(expected, [&] { return figure(name, labels); });
  }
  [[nodiscard]] int requests() const { return provider.stats().at("requests").get<int>(); }

  FakeProvider provider{};
  Callgate callgate;
};

}  // namespace support
