// Goal: callers that leave at any moment leave nothing behind: no slot, no upstream connection, no descriptor, no
// gauge. Method: many short-lived callers in parallel, each gone after a random while; then everything must be at
// rest.

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/harness.h"

namespace abort_test {

using namespace std::chrono_literals;
using support::RawClient;
using support::request_text;
using support::Response;

#ifdef CALLGATE_SANITIZED
constexpr int kAborts = 4'000;
constexpr int kPatient = 300;  // ms
#else
constexpr int kAborts = 20'000;
constexpr int kPatient = 100;
#endif
constexpr int kThreads = 8;

double gauge(const std::string& metrics, const std::string& name) {
  double sum = 0;
  for (std::size_t at = metrics.find("\n" + name); at != std::string::npos; at = metrics.find("\n" + name, at + 1)) {
    const std::size_t blank = metrics.find(' ', metrics[at + 1 + name.size()] == '{' ? metrics.find('}', at) : at);
    sum += std::stod(metrics.substr(blank));
  }
  return sum;
}

TEST(Abort, leaves_nothing_behind) {
  support::FakeProvider provider;
  support::Callgate callgate{
      "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\n"
      "upstreams: {openai: {url: " +
      provider.url() +
      ", limits: {concurrent: 6}}}\n"
      "retry: {base: 5ms}\n"};
  provider.script(R"([{"answers": [
      "default", {"hang": true}, {"stream": {"events": 40, "size": 200, "every_ms": 1}}, 503, {"drop": "rst"}, {"delay_ms": 5, "status": 200},
      {"stream": [{"say": "x"}, {"hang": true}]}, {"stream": [{"say": "x"}, {"close": "rst"}]}, {"status": 400, "json": {}}],
      "weights": [3, 2, 4, 1, 1, 2, 2, 1, 1], "seed": 7}])");
  const std::string bodies[] = {R"({"model":"m","messages":[]})", R"({"model":"m","stream":true,"messages":[]})"};
  const std::size_t descriptors = callgate.process().open_files();

  std::atomic<int> answered{0};
  const auto work = [&](unsigned seed) {
    std::mt19937 rng{seed};
    for (int i = 0; i < kAborts / kThreads; ++i) {
      RawClient client{callgate.data_port()};
      const std::string request = request_text("POST", "/openai/v1/chat/completions", bodies[rng() % 2]);
      // Some leave in the middle of their own request.
      const std::size_t sent = rng() % 8 == 0 ? rng() % request.size() : request.size();
      if (!client.try_send(request.substr(0, sent))) continue;
      const auto patience = std::chrono::milliseconds{rng() % 8 == 0 ? kPatient : rng() % 12};
      const Response answer = client.read_response(patience);
      if (answer.end == Response::End::Complete) ++answered;
      switch (rng() % 3) {
        case 0:
          client.rst();
          break;
        case 1:
          client.fin();
          break;
        default:
          client.close();
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t <= kThreads; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(answered.load(), kAborts / 50) << "some must have had their answer, or nothing was tried";

  provider.wait("open_requests=0", 20s);
  // The gauges are read until they are at rest, or the patience ends.
  std::string metrics;
  // What is pooled may stay open; nothing else may.
  const auto files_at_rest = [&] {
    const auto pooled = static_cast<std::size_t>(gauge(metrics, "callgate_upstream_connections"));
    return callgate.process().open_files() <= descriptors + 8 + pooled;
  };
  const auto until = std::chrono::steady_clock::now() + 10s;
  for (;;) {
    metrics = support::http_get(callgate.health_url() + "/metrics").body;
    const bool at_rest =
        gauge(metrics, "callgate_calls_in_flight") == 0 && gauge(metrics, "callgate_queue_depth") == 0 &&
        gauge(metrics, "callgate_upstream_exchanges") == 0 && gauge(metrics, "callgate_connections") == 0 &&
        gauge(metrics, "callgate_buffered_bytes") == 0 && files_at_rest();
    if (at_rest || std::chrono::steady_clock::now() > until) break;
  }
  EXPECT_EQ(gauge(metrics, "callgate_calls_in_flight"), 0);
  EXPECT_EQ(gauge(metrics, "callgate_queue_depth"), 0);
  EXPECT_EQ(gauge(metrics, "callgate_upstream_exchanges"), 0);
  EXPECT_EQ(gauge(metrics, "callgate_connections"), 0);
  EXPECT_EQ(gauge(metrics, "callgate_buffered_bytes"), 0);

  EXPECT_TRUE(files_at_rest()) << callgate.process().open_files() << " files, " << descriptors
                               << " at the start, and " << gauge(metrics, "callgate_upstream_connections")
                               << " pooled connections";

  // And all six slots work.
  provider.script("[]");
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(support::http("POST", callgate.data_url() + "/openai/v1/chat/completions", bodies[0]).status, 200);
  }
  EXPECT_EQ(callgate.stop(), 0);
}

}  // namespace abort_test
