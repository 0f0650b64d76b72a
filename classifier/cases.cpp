#include "classifier/cases.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "classifier/base64.h"

namespace classifier {

namespace {

using Json = nlohmann::json;

struct Route {
  std::string_view provider;  // Empty: any.
  std::string_view endpoint;
  std::string_view path;
};
// "{model}" stands for the one that the request names.
constexpr Route kRoutes[] = {
    {"cohere", "chat", "/v2/chat"},
    {"cohere", "embed", "/v2/embed"},
    {"cohere", "rerank", "/v2/rerank"},
    {"deepseek", "messages", "/anthropic/v1/messages"},
    {"ollama", "any", "/api/chat"},
    {"ollama", "api/chat", "/api/chat"},
    {"ollama", "api/generate", "/api/generate"},
    {"gemini", "any", "/v1beta/models/gemini-x:generateContent"},
    {"", "openai/chat.completions", "/v1beta/openai/chat/completions"},
    {"", "images", "/v1/images/generations"},
    {"azure", "chat.completions", "/openai/deployments/{model}/chat/completions"},
    {"azure", "embeddings", "/openai/deployments/{model}/embeddings"},
    {"azure", "responses", "/openai/v1/responses"},
    {"", "rawPredict", "/v1/projects/p/locations/l/publishers/anthropic/models/{model}:rawPredict"},
    {"", "streamRawPredict", "/v1/projects/p/locations/l/publishers/anthropic/models/{model}:streamRawPredict"},
    {"vertex", "generateContent", "/v1/projects/p/locations/l/publishers/google/models/{model}:generateContent"},
    {"vertex",
     "streamGenerateContent",
     "/v1/projects/p/locations/l/publishers/google/models/{model}:streamGenerateContent"},
    {"", "generateContent", "/v1beta/models/gemini-x:generateContent"},
    {"", "streamGenerateContent", "/v1beta/models/gemini-x:streamGenerateContent"},
    {"", "embedContent", "/v1beta/models/gemini-embedding-001:embedContent"},
    {"", "batchEmbedContents", "/v1beta/models/gemini-embedding-001:batchEmbedContents"},
    {"", "countTokens", "/v1beta/models/gemini-x:countTokens"},
    {"", "InvokeModel", "/model/{model}/invoke"},
    {"", "InvokeModelWithResponseStream", "/model/{model}/invoke-with-response-stream"},
    {"", "Converse", "/model/{model}/converse"},
    {"", "ConverseStream", "/model/{model}/converse-stream"},
    {"", "StartAsyncInvoke", "/async-invoke"},
};

/// Corpora write endpoints as they are spoken of: "chat.completions", "messages.count_tokens".
std::string path_of(std::string_view provider, std::string_view endpoint, std::string_view model) {
  constexpr std::string_view kModel = "{model}";
  for (const Route& row : kRoutes) {
    if (row.endpoint != endpoint || (!row.provider.empty() && row.provider != provider)) continue;
    std::string path{row.path};
    if (const std::size_t at = path.find(kModel); at != std::string::npos) path.replace(at, kModel.size(), model);
    return path;
  }
  std::string path = "/v1/" + std::string{endpoint};
  std::ranges::replace(path, '.', '/');
  return path;
}

const Dialect* nearest(std::string_view provider) {
  const Dialect* const own = find_dialect(provider);
  return own != nullptr ? own : find_dialect("openai");
}

/// What is wrong with a line; only ever thrown inside this file.
struct Unusable {
  std::string why;
};

std::string text_in(const Json& object, const char* key, const char* otherwise = nullptr) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    if (otherwise != nullptr) return otherwise;
    throw Unusable{std::string{"has no \""} + key + "\""};
  }
  if (!found->is_string()) throw Unusable{std::string{"\""} + key + "\" must be a string"};
  return found->get<std::string>();
}

bool truth_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return false;
  if (!found->is_boolean()) throw Unusable{std::string{"\""} + key + "\" must be true or false"};
  return found->get<bool>();
}

std::optional<std::int64_t> number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_number_integer()) throw Unusable{std::string{"\""} + key + "\" must be a whole number or null"};
  return found->get<std::int64_t>();
}

Headers headers_in(const Json& object, const char* key) {
  Headers headers;
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return headers;
  if (!found->is_object()) throw Unusable{std::string{"\""} + key + "\" must be an object"};
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) throw Unusable{"header \"" + name + "\" must be a string"};
    headers.push_back({name, value.get<std::string>()});
  }
  return headers;
}

std::string bytes_in(const Json& object, const char* text, const char* base64) {
  const auto found = object.find(base64);
  if (found != object.end() && found->is_string()) return from_base64(found->get<std::string>());
  return text_in(object, text, "");
}

Json object_in(std::string_view line) {
  Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) throw Unusable{"is not JSON"};
  if (!json.is_object()) throw Unusable{"must be an object"};
  return json;
}

void read_common(const Json& json, Case& into) {
  into.id = text_in(json, "id");
  into.provider = text_in(json, "provider");
  const std::string endpoint = text_in(json, "endpoint");
  into.stream = truth_in(json, "stream");
  into.dialect = nearest(into.provider);
  std::string model = "m";
  if (const auto request = json.find("request"); request != json.end() && !request->is_null()) {
    if (request->is_object()) model = text_in(*request, request->contains("modelId") ? "modelId" : "model", "m");
    into.request = request->dump(-1, ' ', false, Json::error_handler_t::replace);
    into.request.reserve(into.request.size() + kBodyPadding);
  }
  into.path = path_of(into.provider, endpoint, model);
}

const Json* expectation(const Json& json) {
  const auto expect = json.find("expect");
  if (expect == json.end() || expect->is_null()) return nullptr;
  if (!expect->is_object()) throw Unusable{"\"expect\" must be an object"};
  return &*expect;
}

/// The members of TokenCounts, as corpora call them.
constexpr std::array<std::pair<const char*, std::int64_t TokenCounts::*>, 6> kCounts = {{
    {"input_tokens", &TokenCounts::input},
    {"cached_input_tokens", &TokenCounts::cached_input},
    {"cache_write_5m_tokens", &TokenCounts::cache_write_5m},
    {"cache_write_1h_tokens", &TokenCounts::cache_write_1h},
    {"output_tokens", &TokenCounts::output},
    {"reasoning_tokens", &TokenCounts::reasoning},
}};

RequestFacts facts_of(const Case& recorded, const Endpoint& endpoint) {
  RequestFacts facts = recorded.dialect->read_request(endpoint, recorded.path, "", recorded.request);
  facts.stream = recorded.stream;
  return facts;
}

ProviderAnswer answer_of(const Case& recorded) {
  ProviderAnswer answer;
  answer.status = recorded.status;
  answer.headers = &recorded.headers;
  answer.body = recorded.body;
  answer.transport = recorded.transport;
  answer.rules = recorded.rules;
  return answer;
}

VerdictCase verdict_case_in(std::string_view line) {
  const Json json = object_in(line);
  VerdictCase read;
  read_common(json, read);
  read.status = static_cast<int>(std::clamp<std::int64_t>(number_in(json, "status").value_or(0), 0, 999));
  read.headers = headers_in(json, "headers");
  read.body = bytes_in(json, "body", "body_b64");
  if (const std::string name = text_in(json, "transport", ""); !name.empty()) {
    read.transport = transport_named(name);
    if (!read.transport) throw Unusable{"\"transport\" must be timeout, connect_refused, reset, tls or dns"};
  }
  if (read.status == 0 && !read.transport) throw Unusable{"has neither \"status\" nor \"transport\""};
  if (const Json* expect = expectation(json)) {
    read.expect = ExpectedVerdict{
        text_in(*expect, "class"), truth_in(*expect, "retryable"), number_in(*expect, "retry_after_ms")};
  }
  return read;
}

UsageCase usage_case_in(std::string_view line) {
  const Json json = object_in(line);
  UsageCase read;
  read_common(json, read);
  read.headers = headers_in(json, "response_headers");
  read.body = bytes_in(json, "response_body", "response_b64");
  if (!find(read.headers, "content-type")) {
    const bool lines = read.provider == "ollama" && read.path.starts_with("/api/");
    const bool frames = read.provider == "bedrock";
    read.headers.push_back({"Content-Type",
                            !read.stream ? "application/json"
                            : lines      ? "application/x-ndjson"
                            : frames     ? "application/vnd.amazon.eventstream"
                                         : "text/event-stream"});
  }
  if (const Json* expect = expectation(json)) {
    ExpectedUsage wanted;
    wanted.model = text_in(*expect, "model", "");
    if (number_in(*expect, "input_tokens")) {
      wanted.tokens.emplace();
      for (const auto& [key, member] : kCounts) (*wanted.tokens).*member = number_in(*expect, key).value_or(0);
    }
    if (const std::string finish = text_in(*expect, "finish", ""); !finish.empty()) wanted.finish = finish;
    read.expect = std::move(wanted);
  }
  return read;
}

}  // namespace

std::expected<VerdictCase, std::string> read_verdict_case(std::string_view line) {
  try {
    return verdict_case_in(line);
  } catch (const Unusable& unusable) {
    return std::unexpected(unusable.why);
  }
}

std::expected<UsageCase, std::string> read_usage_case(std::string_view line) {
  try {
    return usage_case_in(line);
  } catch (const Unusable& unusable) {
    return std::unexpected(unusable.why);
  }
}

Verdict judge(const Case& recorded) {
  const Endpoint endpoint = recorded.dialect->endpoint("POST", recorded.path);
  const ProviderAnswer answer = answer_of(recorded);
  const bool good = recorded.status >= 200 && recorded.status < 300;
  const RequestFacts facts = facts_of(recorded, endpoint);
  if (!good || !recorded.dialect->is_stream(endpoint, facts, recorded.headers)) {
    return recorded.dialect->judge(endpoint, answer);
  }
  const auto reader = recorded.dialect->stream_reader(endpoint, facts, recorded.headers, false, recorded.rules);
  reader->feed(recorded.body);
  return reader->finish(recorded.transport);
}

ExpectedVerdict told(const Verdict& verdict) {
  ExpectedVerdict told;
  told.cls = name_of(verdict.cls);
  told.retryable = verdict.retryable;
  if (verdict.retry_after) told.retry_after_ms = verdict.retry_after->count();
  return told;
}

Usage whole_usage_of(const Case& recorded) {
  const Endpoint endpoint = recorded.dialect->endpoint("POST", recorded.path);
  const RequestFacts facts = facts_of(recorded, endpoint);
  Usage usage;
  if (recorded.dialect->is_stream(endpoint, facts, recorded.headers)) {
    const auto reader = recorded.dialect->stream_reader(endpoint, facts, recorded.headers, false);
    reader->feed(recorded.body);
    (void)reader->finish(recorded.transport);
    usage = reader->usage();
  } else {
    usage = recorded.dialect->read(endpoint, answer_of(recorded)).usage;
  }
  if (usage.model.empty()) usage.model = facts.model;
  return usage;
}

ExpectedUsage usage_of(const Case& recorded) {
  Usage usage = whole_usage_of(recorded);
  return {std::move(usage.model), usage.tokens, std::move(usage.finish)};
}

std::optional<Transport> transport_named(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Transport>, 5> kNames = {{
      {"timeout", Transport::Timeout},
      {"connect_refused", Transport::ConnectRefused},
      {"reset", Transport::Reset},
      {"tls", Transport::Tls},
      {"dns", Transport::Dns},
  }};
  for (const auto& [known, transport] : kNames) {
    if (known == name) return transport;
  }
  return std::nullopt;
}

namespace {

struct Usual {
  std::string_view dialect;
  std::string_view path;
  std::string_view endpoint;
};
constexpr Usual kUsual[] = {
    {"anthropic", "/v1/messages", "messages"},
    {"gemini", "/v1beta/models/m:generateContent", "generateContent"},
    {"vertex", "/v1/projects/p/locations/l/publishers/google/models/m:generateContent", "generateContent"},
    {"cohere", "/v2/chat", "chat"},
    {"ollama", "/api/chat", "api/chat"},
    {"bedrock", "/model/m/converse", "Converse"},
    {"azure", "/openai/deployments/m/chat/completions", "chat.completions"},
};
constexpr Usual kOthers{"", "/v1/chat/completions", "chat.completions"};

const Usual& usual(std::string_view dialect) {
  const auto* const row = std::ranges::find(kUsual, dialect, &Usual::dialect);
  return row == std::end(kUsual) ? kOthers : *row;
}

}  // namespace

std::string_view usual_path(std::string_view dialect) { return usual(dialect).path; }
std::string_view usual_endpoint(std::string_view dialect) { return usual(dialect).endpoint; }

}  // namespace classifier
