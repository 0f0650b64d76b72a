#include <string>

#include "classifier/dialects/anthropic.h"
#include "classifier/dialects/gemini.h"
#include "classifier/dialects/list.h"
#include "classifier/families/anthropic.h"
#include "classifier/families/gemini.h"
#include "classifier/families/openai.h"
#include "classifier/table_dialect.h"

namespace classifier::dialect {

namespace {

using enum Class;
using namespace on;

constexpr std::string_view kVersions[] = {"v1", "v1beta1"};

constexpr const Family* kClaude = &families::kAnthropic;
// In front of them stand project and location, or nothing with a key of Google's express mode.
constexpr PathRow kPaths[] = {
    {"**publishers/google/models/*:generateContent", Operation::GenerateContent, true, true},
    {"**publishers/google/models/*:streamGenerateContent", Operation::GenerateContent, true, true},
    {"**publishers/google/models/*:countTokens", Operation::CountTokens, true, true},
    {"**publishers/google/models/*:embedContent", Operation::Embeddings, true, true},
    {"**publishers/google/models/*:predict", Operation::Other, true, true},
    {"**publishers/anthropic/models/count-tokens:rawPredict", Operation::CountTokens, true, true, kClaude},
    {"**publishers/anthropic/models/*:rawPredict", Operation::Messages, true, true},
    {"**publishers/anthropic/models/*:streamRawPredict", Operation::Messages, true, true},
    {"**publishers/mistralai/models/*:rawPredict", Operation::Chat, true, true},
    {"**publishers/mistralai/models/*:streamRawPredict", Operation::Chat, true, true},
    {"**endpoints/*/chat/completions", Operation::Chat, true, true},
    {"**endpoints/openapi/embeddings", Operation::Embeddings, true, true},
    {"**endpoints/*:generateContent", Operation::GenerateContent, true, true},
    {"**endpoints/*:streamGenerateContent", Operation::GenerateContent, true, true},
};

constexpr std::string_view kResources[] = {"projects", "publishers"};

constexpr Rule kRules[] = {
    {k429 | k5xx | kNone, "", "limit: 0", QuotaExhausted},
};

std::string error_event(const Endpoint& endpoint, const OwnError& error) {
  const bool messages = endpoint.operation == Operation::Messages;
  return messages ? anthropic_error_event(endpoint, error) : gemini_error_event(endpoint, error);
}

std::string_view heartbeat(const Endpoint& endpoint) {
  return endpoint.operation == Operation::Messages ? anthropic_heartbeat(endpoint) : gemini_heartbeat(endpoint);
}

/// Every location but the global one costs more where a price says so.
std::string_view region_of(std::string_view path) {
  constexpr std::string_view kFront = "/locations/";
  const std::size_t at = path.find(kFront);
  if (at == std::string_view::npos) return {};
  const std::string_view location = path.substr(at + kFront.size());
  return location.starts_with("global/") ? std::string_view{} : "regional";
}

/// A model is named in the path, but for OpenAI's form and for counting; there its name stands in the body.
std::string_view model_in_path(std::string_view path) {
  constexpr std::string_view kNamed[] = {"models", "endpoints"};
  const std::string_view name = name_before_verb(path, kNamed);
  return name == "count-tokens" ? std::string_view{} : name;
}

void read_target(std::string_view path, std::string_view query, RequestFacts& facts) {
  facts.region = region_of(path);
  if (path.ends_with(":streamRawPredict")) facts.stream = true;
  if (path.ends_with(":streamGenerateContent")) facts.stream = value_in_query(query, "alt") == "sse";
}

constexpr DialectTable kTable{.name = "vertex",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = {},
                              .request_id_header = "x-request-id",
                              .family = &families::kGemini,
                              .resources = kResources,
                              .model_in_path = model_in_path,
                              .error_body = gemini_error_body,
                              .error_event = error_event,
                              .heartbeat = heartbeat,
                              .read_target = read_target};

}  // namespace

const Dialect& vertex() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
