#include <string>
#include <string_view>

#include "classifier/dialects/list.h"
#include "classifier/dialects/openai.h"
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
    {"messages", Operation::Messages, true, true, nullptr, true},
};

constexpr std::string_view kResources[] = {"models",
                                           "key",
                                           "keys",
                                           "credits",
                                           "generation",
                                           "providers",
                                           "endpoints",
                                           "auth",
                                           "activity",
                                           "embeddings/models",
                                           "guardrails",
                                           "parameters"};

constexpr Rule kRules[] = {
    // What is out at this moment may not cost more; that passes as calls end. One that is too dear alone never will.
    {k402, "weight_exceeds_budget", "", QuotaExhausted},
    {k402, "openrouter_in_flight_budget", "", RateLimited},
    {kAny, "refusal", "", ContentPolicy},
};

constexpr StatusOf kStatuses[] = {
    {QuotaExhausted, 402},
};

constexpr TypeOf kTypes[] = {
    {RateLimited, "rate_limit_exceeded"},
    {LocalLimit, "rate_limit_exceeded"},
    {QuotaExhausted, "payment_required"},
    {LocalBudget, "payment_required"},
    {Overloaded, "provider_overloaded"},
    {LocalBreaker, "provider_unavailable"},
    {LocalMemory, "provider_overloaded"},
    {LocalDraining, "provider_unavailable"},
    {Auth, "authentication"},
    {Permission, "permission_denied"},
    {NotFound, "not_found"},
    {ContextLength, "context_length_exceeded"},
    {ContentPolicy, "content_policy_violation"},
    {TooLarge, "payload_too_large"},
    {InvalidRequest, "invalid_request"},
    {LocalRequest, "invalid_request"},
    {Conflict, "invalid_request"},
    {Timeout, "timeout"},
};

std::string error_body(const OwnError& error) {
  return "{\"error\":{\"code\":" + std::to_string(error.status) + ",\"message\":" + quoted(error.message) +
         ",\"metadata\":{\"error_type\":" + quoted(type_of(kTypes, error.cls, "server")) +
         (error.code.empty() ? "" : ",\"reason\":" + quoted(error.code)) + "}}}";
}

std::string error_event(const Endpoint& endpoint, const OwnError& error) {
  if (endpoint.operation != Operation::Chat && endpoint.operation != Operation::Completions)
    return imitated_error_event(endpoint, error);
  return "data: " + error_body(error) + "\n\n";
}

constexpr DialectTable kTable{.name = "openrouter",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = kStatuses,
                              .request_id_header = "x-request-id",
                              .family = &families::kOpenAi,
                              .resources = kResources,
                              .usage_unasked = true,
                              .error_body = error_body,
                              .error_event = error_event,
                              .heartbeat = imitated_heartbeat};

}  // namespace

const Dialect& openrouter() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
