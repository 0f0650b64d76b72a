#include <string>
#include <string_view>

#include "classifier/dialects/list.h"
#include "classifier/dialects/openai.h"
#include "classifier/families/anthropic.h"
#include "classifier/families/openai.h"
#include "classifier/table_dialect.h"

namespace classifier::dialect {

namespace {

using enum Class;
using namespace on;

constexpr std::string_view kVersions[] = {"v1"};

constexpr PathRow kPaths[] = {
    {"chat/completions", Operation::Chat, true, true},
    {"completions", Operation::Completions, true, true},
    {"responses", Operation::Responses, true, true},
    {"embeddings", Operation::Embeddings, true, true},
    {"rerank", Operation::Other, true, true},
    {"reranking", Operation::Other, true, true},
    // Its own language; answers pass through.
    {"completion", Operation::Completions, true, false},
    {"infill", Operation::Completions, true, false},
    {"embedding", Operation::Embeddings, true, false},
    {"tokenize", Operation::CountTokens, true, false},
    {"detokenize", Operation::Other, true, false},
    {"apply-template", Operation::Other, true, false},
    {"messages", Operation::Messages, true, true, nullptr, true},
    {"messages/count_tokens", Operation::CountTokens, true, true, &families::kAnthropic, true},
};

constexpr std::string_view kResources[] = {"models", "slots", "props", "health", "metrics", "lora-adapters"};
constexpr std::string_view kUnversioned[] = {"rerank",
                                             "reranking",
                                             "completion",
                                             "infill",
                                             "embedding",
                                             "tokenize",
                                             "detokenize",
                                             "apply-template",
                                             "slots",
                                             "props",
                                             "health",
                                             "metrics",
                                             "lora-adapters"};

constexpr Rule kRules[] = {
    // An input beyond its batch never fits, whatever its 500 says.
    {k5xx, "", "physical batch size", TooLarge},
    {k5xx, "", "context size*exceeded", ContextLength},
    {k5xx, "", "exceed*context size", ContextLength},
    {kAny, "not_supported", "", InvalidRequest},
};

constexpr TypeOf kTypes[] = {
    {RateLimited, "rate_limit_error"},
    {LocalLimit, "rate_limit_error"},
    {Overloaded, "unavailable_error"},
    {LocalBreaker, "unavailable_error"},
    {LocalMemory, "unavailable_error"},
    {LocalDraining, "unavailable_error"},
    {QuotaExhausted, "insufficient_quota"},
    {LocalBudget, "insufficient_quota"},
    {Auth, "authentication_error"},
    {Permission, "permission_error"},
    {NotFound, "not_found_error"},
    {InvalidRequest, "invalid_request_error"},
    {LocalRequest, "invalid_request_error"},
    {ContextLength, "exceed_context_size_error"},
    {ContentPolicy, "invalid_request_error"},
    {TooLarge, "invalid_request_error"},
    {Conflict, "invalid_request_error"},
    {Timeout, "timeout_error"},
};

std::string_view type_of(const OwnError& error) { return type_of(kTypes, error.cls, "server_error"); }
std::string error_body(const OwnError& error) { return numbered_error_body(error, type_of(error)); }
std::string error_event(const Endpoint& endpoint, const OwnError& error) {
  return numbered_error_event(endpoint, error, type_of(error));
}

constexpr DialectTable kTable{.name = "llamacpp",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = {},
                              .request_id_header = "x-request-id",
                              .family = &families::kOpenAi,
                              .resources = kResources,
                              .unversioned = kUnversioned,
                              .error_body = error_body,
                              .error_event = error_event,
                              .heartbeat = imitated_heartbeat};

}  // namespace

const Dialect& llamacpp() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
