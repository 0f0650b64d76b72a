// Goal: every recorded failure and every recorded answer of the dialects that this version speaks is read as the
// corpora say. Method: each case goes through the dialect as the gateway would put it there; streams are fed to a
// StreamReader too. Prints a confusion matrix per dialect. Providers whose own dialect is not in this version are
// read by the nearest one, and only the share that came out right is printed: they cannot fail here.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "classifier/dialect.h"

namespace {

using classifier::Class;
using classifier::Dialect;
using classifier::Endpoint;
using classifier::Headers;
using classifier::ProviderAnswer;
using classifier::RequestFacts;
using classifier::Usage;
using classifier::Verdict;
using Json = nlohmann::json;

std::vector<Json> lines_of(const std::string& name) {
  std::ifstream file{std::string{PROJECT_ROOT} + "/tests/fixtures/" + name};
  std::vector<Json> cases;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) cases.push_back(Json::parse(line));
  }
  return cases;
}

std::string from_base64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) continue;
    bits = (bits << 6U) | static_cast<unsigned>(value);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out += static_cast<char>((bits >> held) & 0xFFU);
    }
  }
  return out;
}

struct Path {
  std::string_view provider;  // Empty: any.
  std::string_view endpoint;
  std::string_view path;
};
// MODEL is the one that the request names.
constexpr Path kPaths[] = {
    {"vertex", "rawPredict", "/v1/projects/p/locations/l/publishers/anthropic/models/MODEL:rawPredict"},
    {"vertex", "streamRawPredict", "/v1/projects/p/locations/l/publishers/anthropic/models/MODEL:streamRawPredict"},
    {"vertex", "generateContent", "/v1/projects/p/locations/l/publishers/google/models/MODEL:generateContent"},
    {"vertex",
     "streamGenerateContent",
     "/v1/projects/p/locations/l/publishers/google/models/MODEL:streamGenerateContent"},
    {"bedrock", "Converse", "/model/MODEL/converse"},
    {"bedrock", "ConverseStream", "/model/MODEL/converse-stream"},
    {"bedrock", "InvokeModel", "/model/MODEL/invoke"},
    {"bedrock", "InvokeModelWithResponseStream", "/model/MODEL/invoke-with-response-stream"},
    {"bedrock", "StartAsyncInvoke", "/async-invoke"},
    {"azure", "chat.completions", "/openai/deployments/MODEL/chat/completions"},
    {"azure", "embeddings", "/openai/deployments/MODEL/embeddings"},
    {"azure", "responses", "/openai/v1/responses"},
    {"", "chat.completions", "/v1/chat/completions"},
    {"", "openai/chat.completions", "/v1beta/openai/chat/completions"},
    {"", "completions", "/v1/completions"},
    {"", "responses", "/v1/responses"},
    {"", "embeddings", "/v1/embeddings"},
    {"", "images", "/v1/images/generations"},
    {"", "audio.transcriptions", "/v1/audio/transcriptions"},
    {"", "audio.speech", "/v1/audio/speech"},
    {"", "messages", "/v1/messages"},
    {"", "messages.count_tokens", "/v1/messages/count_tokens"},
    {"", "generateContent", "/v1beta/models/gemini-x:generateContent"},
    {"", "streamGenerateContent", "/v1beta/models/gemini-x:streamGenerateContent"},
    {"", "embedContent", "/v1beta/models/gemini-embedding-001:embedContent"},
    {"cohere", "chat", "/v2/chat"},
    {"cohere", "embed", "/v2/embed"},
    {"cohere", "rerank", "/v2/rerank"},
    {"ollama", "api/chat", "/api/chat"},
    {"ollama", "api/generate", "/api/generate"},
    {"ollama", "api/embed", "/api/embed"},
};

std::string path_of(const Json& c) {
  const std::string endpoint = c.at("endpoint");
  for (const Path& row : kPaths) {
    const bool whose = row.provider.empty() || row.provider == c.at("provider").get<std::string>();
    if (!whose || row.endpoint != endpoint) continue;
    std::string path{row.path};
    const Json request = c.value("request", Json::object());
    if (const std::size_t at = path.find("MODEL"); at != std::string::npos)
      path.replace(at, 5, request.value("modelId", "m"));
    return path;
  }
  return "/v1/" + endpoint;
}

/// The dialects that are spoken, and of how many cases the corpora have more.
struct Spoken {
  std::string_view provider;
  int failures;
  int usages;
};
constexpr Spoken kSpoken[] = {{"openai", 20, 7},
                              {"anthropic", 20, 7},
                              {"gemini", 20, 7},
                              {"mistral", 6, 2},
                              {"cohere", 7, 2},
                              {"ollama", 5, 1},
                              {"bedrock", 24, 10},
                              {"azure", 9, 0},
                              {"vertex", 4, 1}};

bool spoken(std::string_view provider) {
  return std::ranges::find(kSpoken, provider, &Spoken::provider) != std::end(kSpoken);
}

const Dialect& nearest(const Json& c) {
  const std::string provider = c.at("provider");
  if (spoken(provider)) return *classifier::find_dialect(provider);
  return *classifier::find_dialect("openai");
}

Headers headers_of(const Json& object) {
  Headers headers;
  if (object.is_object()) {
    for (const auto& [name, value] : object.items()) headers.push_back({name, value.get<std::string>()});
  }
  return headers;
}

std::optional<classifier::Transport> transport_of(const Json& value) {
  const std::map<std::string, classifier::Transport> names = {
      {"timeout", classifier::Transport::Timeout},
      {"connect_refused", classifier::Transport::ConnectRefused},
      {"reset", classifier::Transport::Reset},
      {"tls", classifier::Transport::Tls},
      {"dns", classifier::Transport::Dns}};
  if (value.is_null()) return std::nullopt;
  return names.at(value.get<std::string>());
}

/// The counts that are printed for a provider, and its confusion matrix.
struct Tally {
  int cases = 0;
  int right = 0;
  std::map<std::pair<std::string, std::string>, int> confusion;
};

void print(const std::map<std::string, Tally>& tallies) {
  for (const auto& [provider, tally] : tallies) {
    std::cout << provider << (spoken(provider) ? "" : " (nearest dialect)") << ": " << tally.right << " of "
              << tally.cases << " right\n";
    for (const auto& [pair, count] : tally.confusion) {
      std::cout << "    " << pair.first << " read as " << pair.second << ": " << count
                << (pair.first == pair.second ? "" : "   <--") << '\n';
    }
  }
}

std::string told(const Verdict& verdict) {
  std::string out{name_of(verdict.cls)};
  out += verdict.retryable ? " retryable" : " final";
  out += verdict.retry_after ? " " + std::to_string(verdict.retry_after->count()) + " ms" : " no wait";
  return out;
}

std::string expected(const Json& expect) {
  std::string out = expect.at("class").get<std::string>();
  out += expect.at("retryable").get<bool>() ? " retryable" : " final";
  out += expect.at("retry_after_ms").is_null() ? " no wait" : " " + expect.at("retry_after_ms").dump() + " ms";
  return out;
}

constexpr unsigned kSplits = 20;

/// Whole for seed 0, byte by byte for 1, else at places that the seed gives.
void feed_split(classifier::StreamReader& reader, std::string_view bytes, unsigned seed) {
  std::mt19937 chance{seed};
  std::uniform_int_distribution<std::size_t> length{1, seed == 1 ? 1U : 64U};
  while (!bytes.empty()) {
    const std::size_t taken = seed == 0 ? bytes.size() : std::min(length(chance), bytes.size());
    reader.feed(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
  }
}

TEST(Corpus, every_recorded_failure_of_a_spoken_dialect_is_judged_right) {
  std::map<std::string, Tally> tallies;
  for (const Json& c : lines_of("errors.jsonl")) {
    const std::string provider = c.at("provider");
    const Dialect& dialect = nearest(c);
    const std::string path = path_of(c);
    const Endpoint endpoint = dialect.endpoint("POST", path);
    const Headers headers = headers_of(c.at("headers"));
    const std::string body =
        c.contains("body_b64") ? from_base64(c["body_b64"].get<std::string>()) : c.at("body").get<std::string>();
    const ProviderAnswer answer{.status = c.at("status").is_null() ? 0 : c["status"].get<int>(),
                                .headers = &headers,
                                .body = body,
                                .transport = transport_of(c.at("transport"))};
    const Verdict verdict = dialect.judge(endpoint, answer);
    const std::string want = expected(c.at("expect"));
    Tally& tally = tallies[provider];
    tally.cases += 1;
    tally.right += told(verdict) == want ? 1 : 0;
    tally.confusion[{c["expect"]["class"].get<std::string>(), std::string{name_of(verdict.cls)}}] += 1;
    if (spoken(provider)) {
      EXPECT_EQ(told(verdict), want) << c.at("id") << " by rule '" << verdict.rule << "'\n" << body;
    } else if (told(verdict) != want) {
      std::cout << "not yet: " << c.at("id") << " is " << want << ", read as " << told(verdict) << " by '"
                << verdict.rule << "'\n";
    }
    if (!c.at("stream").get<bool>() || !spoken(provider)) continue;
    ASSERT_TRUE(dialect.is_stream(endpoint, {.stream = true}, headers)) << c.at("id");
    for (unsigned seed = 0; seed < kSplits; ++seed) {
      const auto reader = dialect.stream_reader(endpoint, {.stream = true}, headers, false);
      feed_split(*reader, body, seed);
      EXPECT_EQ(told(reader->finish(answer.transport)), want) << c.at("id") << " seed " << seed;
      EXPECT_EQ(reader->forward() + reader->tail(), body) << c.at("id") << " seed " << seed;
    }
  }
  print(tallies);
  for (const Spoken& s : kSpoken) EXPECT_GT(tallies[std::string{s.provider}].cases, s.failures) << s.provider;
}

std::string told(const Usage& usage, const RequestFacts& facts) {
  std::string out = usage.model.empty() ? facts.model : usage.model;
  if (usage.tokens) {
    const classifier::TokenCounts& t = *usage.tokens;
    for (const std::int64_t part :
         {t.input, t.cached_input, t.cache_write_5m, t.cache_write_1h, t.output, t.reasoning}) {
      out += " " + std::to_string(part);
    }
  } else {
    out += " unknown";
  }
  return out + " " + usage.finish.value_or("unfinished");
}

std::string expected_usage(const Json& expect) {
  std::string out = expect.at("model");
  if (expect.at("input_tokens").is_null()) {
    out += " unknown";
  } else {
    for (const char* key : {"input_tokens",
                            "cached_input_tokens",
                            "cache_write_5m_tokens",
                            "cache_write_1h_tokens",
                            "output_tokens",
                            "reasoning_tokens"}) {
      out += " " + expect.at(key).dump();
    }
  }
  return out + " " + (expect.at("finish").is_null() ? "unfinished" : expect["finish"].get<std::string>());
}

TEST(Corpus, every_recorded_usage_of_a_spoken_dialect_is_read_right) {
  std::map<std::string, Tally> tallies;
  for (const Json& c : lines_of("usage.jsonl")) {
    const std::string provider = c.at("provider");
    const Dialect& dialect = nearest(c);
    std::string path = path_of(c);
    const Endpoint endpoint = dialect.endpoint("POST", path);
    std::string request = c.at("request").dump();
    request.reserve(request.size() + classifier::kBodyPadding);
    const RequestFacts facts = dialect.read_request(endpoint, path, "", request);
    Headers headers = c.contains("response_headers") ? headers_of(c["response_headers"]) : Headers{};
    const bool stream = c.at("stream");
    const std::string_view streams = provider == "ollama" ? "application/x-ndjson" : "text/event-stream";
    headers.push_back({"Content-Type", stream ? std::string{streams} : "application/json"});
    const std::string body = c.at("response_body").is_null() ? from_base64(c.at("response_b64").get<std::string>())
                                                             : c["response_body"].get<std::string>();
    const ProviderAnswer answer{.status = 200, .headers = &headers, .body = body};
    const std::string got = told(dialect.read_usage(endpoint, facts, answer), facts);
    const std::string want = expected_usage(c.at("expect"));
    Tally& tally = tallies[provider];
    tally.cases += 1;
    tally.right += got == want ? 1 : 0;
    if (spoken(provider)) {
      EXPECT_EQ(got, want) << c.at("id") << '\n' << body;
      for (unsigned seed = 0; stream && seed < kSplits; ++seed) {
        const auto reader = dialect.stream_reader(endpoint, facts, headers, false);
        feed_split(*reader, body, seed);
        (void)reader->finish(std::nullopt);
        EXPECT_EQ(told(reader->usage(), facts), want) << c.at("id") << " seed " << seed;
      }
    } else if (got != want) {
      std::cout << "not yet: " << c.at("id") << " is " << want << ", read as " << got << '\n';
    }
  }
  print(tallies);
  for (const Spoken& s : kSpoken) EXPECT_GT(tallies[std::string{s.provider}].cases, s.usages) << s.provider;
}

}  // namespace
