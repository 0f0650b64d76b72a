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
    {"audio/transcriptions", Operation::Other, true, true},
    {"audio/translations", Operation::Other, true, true},
    {"rerank", Operation::Other, true, true},
    {"score", Operation::Other, true, true},
    {"v2/rerank", Operation::Other, true, true},
    {"classify", Operation::Other, true, true},
    {"pooling", Operation::Other, true, true},
    {"tokenize", Operation::CountTokens, true, true},
    {"detokenize", Operation::Other, true, true},
    {"invocations", Operation::Other, false, false},
    {"messages", Operation::Messages, true, true, nullptr, true},
    {"messages/count_tokens", Operation::CountTokens, true, true, &families::kAnthropic, true},
};

constexpr std::string_view kResources[] = {"models",
                                           "responses",
                                           "health",
                                           "metrics",
                                           "ping",
                                           "version",
                                           "load",
                                           "load_lora_adapter",
                                           "unload_lora_adapter"};
constexpr std::string_view kUnversioned[] = {"v2",
                                             "rerank",
                                             "score",
                                             "classify",
                                             "pooling",
                                             "tokenize",
                                             "detokenize",
                                             "invocations",
                                             "health",
                                             "metrics",
                                             "ping",
                                             "version",
                                             "load"};

constexpr TypeOf kTypes[] = {
    {RateLimited, "RateLimitError"},
    {LocalLimit, "RateLimitError"},
    {Overloaded, "ServiceUnavailableError"},
    {LocalBreaker, "ServiceUnavailableError"},
    {LocalMemory, "ServiceUnavailableError"},
    {LocalDraining, "ServiceUnavailableError"},
    {QuotaExhausted, "RateLimitError"},
    {LocalBudget, "RateLimitError"},
    {Auth, "AuthenticationError"},
    {Permission, "PermissionDeniedError"},
    {NotFound, "NotFoundError"},
    {InvalidRequest, "BadRequestError"},
    {LocalRequest, "BadRequestError"},
    {ContextLength, "BadRequestError"},
    {ContentPolicy, "BadRequestError"},
    {TooLarge, "BadRequestError"},
    {Conflict, "ConflictError"},
    {Timeout, "TimeoutError"},
};

std::string_view type_of(const OwnError& error) { return type_of(kTypes, error.cls, "InternalServerError"); }
std::string error_body(const OwnError& error) { return numbered_error_body(error, type_of(error)); }
std::string error_event(const Endpoint& endpoint, const OwnError& error) {
  return numbered_error_event(endpoint, error, type_of(error));
}

constexpr DialectTable kTable{.name = "vllm",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = {},
                              .statuses = {},
                              .request_id_header = "x-request-id",
                              .family = &families::kOpenAi,
                              .resources = kResources,
                              .unversioned = kUnversioned,
                              .error_body = error_body,
                              .error_event = error_event,
                              .heartbeat = imitated_heartbeat};

}  // namespace

const Dialect& vllm() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
