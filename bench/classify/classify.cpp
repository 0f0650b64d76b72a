// What does reading an answer cost? Verdict and usage of a whole answer, of a large one, of one event of a stream.
// Prints the median of several rounds in ns of CPU time; says whether the budget of two microseconds for 2 kB is
// kept.

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/dialect.h"

namespace {

/// Of this thread alone: what others do on the machine is none of the answer's cost.
double cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

constexpr int kRounds = 15;
constexpr double kBudgetNs = 2'000;

/// Something that the optimiser cannot foresee depends on every result.
std::uint64_t sink = 0;

/// Median of the rounds' ns per call.
template <class Call>
double median_ns(int calls, Call call) {
  std::vector<double> rounds;
  for (int i = 0; i < calls / 4 + 1; ++i) call();
  for (int round = 0; round < kRounds; ++round) {
    const double began = cpu_ns();
    for (int i = 0; i < calls; ++i) call();
    rounds.push_back((cpu_ns() - began) / calls);
  }
  std::ranges::nth_element(rounds, rounds.begin() + kRounds / 2);
  return rounds[kRounds / 2];
}

std::string words(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "The quick brown fox says \\\"hello\\\" to the lazy dog.\\n";
  return text;
}

std::string chat_answer(std::size_t bytes) {
  return R"({"id":"chatcmpl-1","object":"chat.completion","created":1769000000,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"message":{"role":"assistant","content":")" +
         words(bytes - std::min<std::size_t>(bytes, 600)) +
         R"(","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1200,"completion_tokens":300,"total_tokens":1500,"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":64,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"service_tier":"default","system_fingerprint":"fp_1"})";
}

std::string embedding_answer(std::size_t bytes) {
  std::string body = R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1)";
  while (body.size() < bytes) body += ",-0.012345678,0.98765432";
  return body + R"(]}],"model":"text-embedding-3-small","usage":{"prompt_tokens":8,"total_tokens":8}})";
}

const std::string kChunk =
    "data: "
    R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1769000000,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null})"
    "\n\n";

double read_ns(const classifier::Dialect& dialect, std::string_view path, int status, const std::string& body,
               int calls) {
  const classifier::Headers head{{"Content-Type", "application/json"}};
  const classifier::Endpoint endpoint = dialect.endpoint("POST", path);
  return median_ns(calls, [&] {
    const classifier::Judged judged = dialect.read(endpoint, {.status = status, .headers = &head, .body = body});
    sink += static_cast<std::uint64_t>(judged.verdict.cls) +
            static_cast<std::uint64_t>(judged.usage.tokens ? judged.usage.tokens->input : 1);
  });
}

double event_ns(const classifier::Dialect& dialect) {
  constexpr int kEvents = 1'000;
  const classifier::Headers head{{"Content-Type", "text/event-stream"}};
  const classifier::Endpoint endpoint = dialect.endpoint("POST", "/v1/chat/completions");
  return median_ns(20,
                   [&] {
                     const auto reader = dialect.stream_reader(endpoint, {.stream = true}, head, false);
                     for (int i = 0; i < kEvents; ++i) {
                       reader->feed(kChunk);
                       sink += reader->forward().size();
                       reader->forward().clear();
                     }
                     sink += reader->events();
                   }) /
         kEvents;
}

void say(const char* what, std::size_t bytes, double ns) {
  std::printf("%-44s %9zu bytes %14.0f ns %9.2f GB/s\n", what, bytes, ns, static_cast<double>(bytes) / ns);
}

}  // namespace

int main() {
  const classifier::Dialect& openai = *classifier::find_dialect("openai");
  const std::string small = chat_answer(2'048);
  const std::string large = chat_answer(std::size_t{5} << 20U);
  const std::string vectors = embedding_answer(std::size_t{5} << 20U);
  const std::string error =
      R"({"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}})";
  const double budgeted = read_ns(openai, "/v1/chat/completions", 200, small, 20'000);
  say("answer: verdict and usage", small.size(), budgeted);
  say("long text: verdict and usage", large.size(), read_ns(openai, "/v1/chat/completions", 200, large, 10));
  say("embedding: verdict and usage", vectors.size(), read_ns(openai, "/v1/embeddings", 200, vectors, 10));
  say("429: verdict and hint", error.size(), read_ns(openai, "/v1/chat/completions", 429, error, 5'000));
  say("stream: one event", kChunk.size(), event_ns(openai));
  std::printf("2 kB in at most %.0f ns: %s\n", kBudgetNs, budgeted <= kBudgetNs ? "kept" : "NOT kept");
  return sink == 0 ? 1 : 0;
}
