// What does callgate do for a worker? A short workload on real HTTP between a plain client, callgate and a fake
// provider, without any key. Ends by itself; exit code 0 if every call came out as told.

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/harness.h"

namespace {

using Json = nlohmann::json;
using support::Callgate;
using support::FakeProvider;
using support::RawClient;
using support::Response;

constexpr const char* kUnary = R"({"model":"gpt-5-mini","messages":[{"role":"user","content":"Say hello"}]})";
constexpr const char* kStream =
    R"({"model":"gpt-5-mini","stream":true,"messages":[{"role":"user","content":"Say hello"}]})";
constexpr const char* kPath = "/openai/v1/chat/completions";

struct Step {
  const char* what;      // The worker's view.
  const char* provider;  // Script of the fake provider; "[]" lets it act as a healthy one.
  const char* body;
  const char* outcome;  // What must come out.
  int status;
  bool leaves;  // The worker hangs up after the first token.
};
constexpr Step kSteps[] = {
    {"a plain answer", "[]", kUnary, "answered", 200, false},
    {"a stream", "[]", kStream, "answered", 200, false},
    {"cached and reasoning tokens",
     R"([{"answer": {"json": {"id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-5-mini-2025-08-07",
      "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
      "usage": {"prompt_tokens": 1200, "completion_tokens": 300, "total_tokens": 1500, "prompt_tokens_details":
      {"cached_tokens": 1024}, "completion_tokens_details": {"reasoning_tokens": 256}}}}}])",
     kUnary,
     "answered",
     200,
     false},
    {"429, Retry-After: 1",
     R"([{"match": {"times": 1}, "answer": {"status": 429, "headers": [["retry-after", "1"]], "json":
      {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}}}])",
     kUnary,
     "answered",
     200,
     false},
    {"overloaded, hidden in a 200",
     R"([{"match": {"times": 1}, "answer": {"stream": [{"error": 503}]}}])",
     kStream,
     "answered",
     200,
     false},
    {"a connection that breaks",
     R"([{"match": {"times": 1}, "answer": {"drop": "rst"}}])",
     kUnary,
     "answered",
     200,
     false},
    {"a request that is wrong",
     R"([{"answer": {"status": 400, "json":
      {"error": {"message": "Unknown parameter", "type": "invalid_request_error", "code": "unknown_parameter"}}}}])",
     kUnary,
     "failed",
     400,
     false},
    {"an empty account (429)",
     R"([{"answer": {"status": 429, "json":
      {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}}}])",
     kUnary,
     "failed",
     429,
     false},
    {"a stream that breaks off",
     R"([{"answer": {"stream": [{"say": "hel"}, {"close": "rst"}]}}])",
     kStream,
     "failed",
     200,
     false},
    {"the worker hangs up",
     R"([{"answer": {"stream": [{"say": "hel"}, {"hang": true}]}}])",
     kStream,
     "cancelled",
     499,
     true},
};

void ask(const Callgate& callgate, const FakeProvider& provider, const Step& step, int number) {
  RawClient client{callgate.data_port()};
  std::vector<std::pair<std::string, std::string>> headers{{"Content-Type", "application/json"},
                                                           {"Authorization", "Bearer sk-demo"}};
  // With a run id, a call whose caller has left goes on for a moment, for its twin.
  if (!step.leaves) headers.emplace_back("Callgate-Run-Id", "job-" + std::to_string(number));
  client.send(support::request_text("POST", kPath, step.body, headers));
  Response answer = client.read_head();
  if (!step.leaves) {
    client.read_rest(answer);
    return;
  }
  client.read_until(answer, "hel");
  client.close();
  provider.wait("open_requests=0");
}

std::string attempts_of(const Json& call) {
  std::string text;
  for (const Json& attempt : call.at("attempts")) {
    if (!text.empty()) {
      std::array<char, 48> wait{};
      std::snprintf(wait.data(), wait.size(), " → %.2f s → ", attempt.value("wait_ms", 0.0) / 1000.0);
      text += wait.data();
    }
    const std::string cls = attempt.value("class", "none");
    text += cls == "none" ? "ok" : cls;
  }
  return text;
}

std::string tokens_of(const Json& call) {
  if (!call.contains("usage") || !call.at("usage").is_object()) return "unknown";
  const Json& usage = call.at("usage");
  const auto with = [&](const char* count, const char* part) {
    const int of_it = usage.value(part, 0);
    return std::to_string(usage.value(count, 0)) +
           (of_it > 0 ? " (" + std::to_string(of_it) + " " + part + ")" : std::string{});
  };
  return with("input", "cached") + " in, " + with("output", "reasoning") + " out";
}

std::string cost_of(const Json& call) {
  return call.at("cost_usd").is_string() ? "$" + call.at("cost_usd").get<std::string>() : "unknown";
}

void show_metrics(const Callgate& callgate) {
  const std::string metrics = support::http_get(callgate.health_url() + "/metrics").body;
  std::size_t at = 0;
  while (at < metrics.size()) {
    const std::size_t end = std::min(metrics.find('\n', at), metrics.size());
    const std::string_view line{metrics.data() + at, end - at};
    at = end + 1;
    const bool wanted = line.starts_with("callgate_calls_total{") || line.starts_with("callgate_retries_total{") ||
                        line.starts_with("callgate_tokens_total{") || line.starts_with("callgate_cost_usd_total{");
    if (wanted && !line.ends_with(" 0")) std::printf("  %.*s\n", static_cast<int>(line.size()), line.data());
  }
}

int run() {
  FakeProvider provider;
  Callgate callgate{"listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nupstreams: {openai: {url: " + provider.url() +
                    "}}\n"};
  std::printf("A fake provider answers at %s,\ncallgate listens at %s and knows it as /openai/.\n\n",
              provider.url().c_str(),
              callgate.data_url().c_str());
  std::printf("%-29s %-10s %6s  %-44s %-12s %s\n",
              "WHAT THE PROVIDER DOES",
              "OUTCOME",
              "STATUS",
              "ATTEMPTS AND WAITS",
              "COST",
              "TOKENS");
  int wrong = 0;
  int number = 0;
  for (const Step& step : kSteps) {
    provider.reset();
    provider.script(step.provider);
    ask(callgate, provider, step, ++number);
    const Json call = callgate.process().json_line("call");
    const bool right = call.at("outcome") == step.outcome && call.at("status") == step.status;
    if (!right) ++wrong;
    // The arrow is three bytes and one column.
    std::string attempts = attempts_of(call);
    int arrows = 0;
    for (std::size_t at = attempts.find("→"); at != std::string::npos; at = attempts.find("→", at + 1)) ++arrows;
    attempts.resize(std::max(attempts.size(), static_cast<std::size_t>(44 + 2 * arrows)), ' ');
    std::printf("%-29s %-10s %6d  %s %-12s %s%s\n",
                step.what,
                call.at("outcome").get<std::string>().c_str(),
                call.at("status").get<int>(),
                attempts.c_str(),
                cost_of(call).c_str(),
                tokens_of(call).c_str(),
                right ? "" : "   <- not as expected");
    std::fflush(stdout);
  }
  std::printf("\nFrom %s/metrics:\n", callgate.health_url().c_str());
  show_metrics(callgate);
  const int code = callgate.stop();
  std::printf(
      "\nYour own worker: start `./dev serve` and set the SDK's base URL, nothing else.\n"
      "  OpenAI     base_url=\"http://127.0.0.1:4600/openai/v1\"\n"
      "  Anthropic  base_url=\"http://127.0.0.1:4600/anthropic\"\n"
      "  Gemini     base_url=\"http://127.0.0.1:4600/gemini\"\n");
  if (wrong > 0 || code != 0) {
    std::printf("\n%d calls came out otherwise than expected; callgate's exit code was %d.\n", wrong, code);
    return 1;
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "demo: %s\n", error.what());
    return 1;
  }
}
