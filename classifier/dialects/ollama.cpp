#include <string>

#include "classifier/dialects/list.h"
#include "classifier/dialects/openai.h"
#include "classifier/families/ollama.h"
#include "classifier/families/openai.h"
#include "classifier/json.h"
#include "classifier/table_dialect.h"

namespace classifier::dialect {

namespace {

using enum Class;
using namespace on;

constexpr std::string_view kVersions[] = {"v1"};

constexpr const Family* kOwn = &families::kOllama;
constexpr PathRow kPaths[] = {
    {"api/chat", Operation::Chat, true, true, kOwn},
    {"api/generate", Operation::Completions, true, true, kOwn},
    {"api/embed", Operation::Embeddings, true, true, kOwn},
    {"api/embeddings", Operation::Embeddings, true, true, kOwn},
    // It imitates others below /v1.
    {"chat/completions", Operation::Chat, true, true, &families::kOpenAi, true},
    {"completions", Operation::Completions, true, true, &families::kOpenAi, true},
    {"responses", Operation::Responses, true, true, &families::kOpenAi, true},
    {"embeddings", Operation::Embeddings, true, true, &families::kOpenAi, true},
    {"images/generations", Operation::Other, true, true, &families::kOpenAi, true},
};

constexpr std::string_view kResources[] = {"api"};
constexpr std::string_view kUnversioned[] = {"api"};

constexpr Rule kRules[] = {
    {k404 | k400 | kNone, "", "try pulling it first", NotFound},
    {k5xx, "", "exceed*context length", ContextLength},
    // In a stream that has begun there is no status to say it by.
    {kNone, "", "weekly usage limit", QuotaExhausted},
};

bool speaks_openai(const Endpoint& endpoint) { return endpoint.family == &families::kOpenAi; }

std::string error_body(const OwnError& error) { return "{\"error\":" + quoted(error.message) + "}"; }

std::string error_event(const Endpoint& endpoint, const OwnError& error) {
  return speaks_openai(endpoint) ? openai_error_event(endpoint, error) : error_body(error) + "\n";
}

std::string_view heartbeat(const Endpoint& endpoint) {
  // Its clients read every line as JSON, also an empty one.
  return speaks_openai(endpoint) ? openai_heartbeat(endpoint) : std::string_view{};
}

constexpr DialectTable kTable{.name = "ollama",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = {},
                              .request_id_header = "x-request-id",
                              .family = kOwn,
                              .resources = kResources,
                              .unversioned = kUnversioned,
                              .model_in_path = false,
                              .usage_unasked = false,
                              .error_body = error_body,
                              .error_event = error_event,
                              .heartbeat = heartbeat};

}  // namespace

const Dialect& ollama() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
