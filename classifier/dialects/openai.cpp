#include "classifier/dialects/openai.h"

#include "classifier/dialects/list.h"
#include "classifier/families/openai.h"
#include "classifier/json.h"
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
    {"moderations", Operation::Moderation, true, true},
    {"images/generations", Operation::Other, true, true},
    {"images/edits", Operation::Other, true, true},
    {"images/variations", Operation::Other, true, true},
    {"audio/transcriptions", Operation::Other, true, true},
    {"audio/translations", Operation::Other, true, true},
    {"audio/speech", Operation::Other, true, false},  // Audio, unless asked for as events.
    {"responses/input_tokens", Operation::CountTokens, true, true},
};

constexpr std::string_view kResources[] = {
    "models",
    "files",
    "uploads",
    "batches",
    "images",
    "audio",
    "responses",
    "conversations",
    "threads",
    "vector_stores",
    "assistants",
    "fine_tuning",
    "containers",
    "evals",
    "videos",
    "realtime",
    "organization",
    "chat/completions",
};

constexpr Rule kRules[] = {
    // Old accounts get this sentence with no code at all. Google says the same of a minute's quota, so it is no
    // rule for all.
    {k429 | kNone, "", "exceeded your current quota", QuotaExhausted},
    // Beside a 403 it is the project that may not, not the model that is missing.
    {k403, "model_not_found", "", Permission},
    // A response that failed over a picture which the caller gave.
    {kNone, "image_content_policy_violation", "", ContentPolicy},
    {kNone, "image_file_not_found", "", NotFound},
    {kNone, "image_*", "", InvalidRequest},
    {kNone, "empty_image_file", "", InvalidRequest},
    {kNone, "failed_to_download_image", "", InvalidRequest},
};

constexpr TypeOf kTypes[] = {
    {RateLimited, "rate_limit_error"},
    {LocalLimit, "rate_limit_error"},
    {Overloaded, "service_unavailable_error"},
    {LocalBreaker, "service_unavailable_error"},
    {LocalMemory, "service_unavailable_error"},
    {LocalDraining, "service_unavailable_error"},
    {QuotaExhausted, "insufficient_quota"},
    {LocalBudget, "insufficient_quota"},
    {Auth, "authentication_error"},
    {Permission, "permission_error"},
    {InvalidRequest, "invalid_request_error"},
    {LocalRequest, "invalid_request_error"},
    {ContextLength, "invalid_request_error"},
    {ContentPolicy, "invalid_request_error"},
    {NotFound, "invalid_request_error"},
    {TooLarge, "invalid_request_error"},
    {Conflict, "invalid_request_error"},
    {Timeout, "timeout_error"},
};

std::string error_object(const OwnError& error) {
  return "{\"message\":" + quoted(error.message) + ",\"type\":" + quoted(type_of(kTypes, error.cls, "server_error")) +
         ",\"param\":null,\"code\":" + (error.code.empty() ? "null" : quoted(error.code)) + "}";
}

constexpr DialectTable kTable{.name = "openai",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = {},
                              .request_id_header = "x-request-id",
                              .family = &families::kOpenAi,
                              .resources = kResources,
                              .error_body = openai_error_body,
                              .error_event = openai_error_event,
                              .heartbeat = openai_heartbeat};

}  // namespace

const Dialect& openai() {
  static const TableDialect dialect{kTable};
  return dialect;
}

std::string openai_error_body(const OwnError& error) { return "{\"error\":" + error_object(error) + "}"; }

std::string openai_error_event(const Endpoint& endpoint, const OwnError& error) {
  if (endpoint.operation != Operation::Responses) return "data: " + openai_error_body(error) + "\n\n";
  // Both forms in one object: without the inner one some SDKs hand the event over as if it were content.
  return "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":" + quoted(error.code) +
         ",\"message\":" + quoted(error.message) + ",\"param\":null,\"error\":" + error_object(error) + "}\n\n";
}

std::string_view openai_heartbeat(const Endpoint&) {
  // Without a blank line behind it: that would be an empty event, on which older Go SDKs die.
  return ": ka\n";
}

std::string imitated_error_event(const Endpoint& endpoint, const OwnError& error) {
  return endpoint.operation == Operation::Messages ? anthropic().error_event(endpoint, error)
                                                   : openai_error_event(endpoint, error);
}

std::string_view imitated_heartbeat(const Endpoint& endpoint) {
  return endpoint.operation == Operation::Messages ? anthropic().heartbeat(endpoint) : openai_heartbeat(endpoint);
}

std::string numbered_error_body(const OwnError& error, std::string_view type) {
  return "{\"error\":{\"code\":" + std::to_string(error.status) + ",\"message\":" + quoted(error.message) +
         ",\"type\":" + quoted(type) + ",\"param\":null" +
         (error.code.empty() ? "" : ",\"reason\":" + quoted(error.code)) + "}}";
}

std::string numbered_error_event(const Endpoint& endpoint, const OwnError& error, std::string_view type) {
  const bool own = endpoint.operation == Operation::Chat || endpoint.operation == Operation::Completions;
  return own ? "data: " + numbered_error_body(error, type) + "\n\n" : imitated_error_event(endpoint, error);
}

}  // namespace classifier::dialect
