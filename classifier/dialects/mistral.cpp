#include <string>

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
    {"fim/completions", Operation::Completions, true, true},
    {"agents/completions", Operation::Chat, true, true},
    {"embeddings", Operation::Embeddings, true, true},
    {"moderations", Operation::Moderation, true, true},
    {"chat/moderations", Operation::Moderation, true, true},
    {"classifications", Operation::Moderation, true, true},
    {"chat/classifications", Operation::Moderation, true, true},
    // They live on at the provider: a second time is a second turn.
    {"conversations", Operation::Responses, false, true},
    {"conversations/*", Operation::Responses, false, true},
    {"conversations/*/restart", Operation::Responses, false, true},
    {"ocr", Operation::Other, true, true},
    {"audio/transcriptions", Operation::Other, true, true},
};

constexpr std::string_view kResources[] = {
    "models", "files", "batch", "fine_tuning", "agents", "conversations", "libraries", "audio"};

constexpr Rule kRules[] = {
    {kAny, "3505", "", Overloaded},
    {k429 | k5xx | kNone, "1300", "", RateLimited},
    {kAny, "1500", "", NotFound},
    {kAny, "3051", "", ContextLength},
    {k400 | k413 | k422 | kNone, "", "too large for model", ContextLength},
};

constexpr StatusOf kStatuses[] = {
    {QuotaExhausted, 402},
};

constexpr TypeOf kTypes[] = {
    {RateLimited, "rate_limited"},
    {LocalLimit, "rate_limited"},
    {QuotaExhausted, "payment_required"},
    {LocalBudget, "payment_required"},
    {InvalidRequest, "invalid_request_error"},
    {LocalRequest, "invalid_request_error"},
    {ContextLength, "invalid_request_error"},
    {ContentPolicy, "invalid_request_error"},
    {TooLarge, "invalid_request_error"},
    {Auth, "unauthorized"},
    {Permission, "forbidden"},
    {NotFound, "not_found"},
    {Conflict, "conflict"},
    {Overloaded, "service_unavailable"},
    {LocalBreaker, "service_unavailable"},
    {LocalMemory, "service_unavailable"},
    {LocalDraining, "service_unavailable"},
    {Timeout, "timeout"},
};

std::string flat(std::string_view message, std::string_view type, std::string_view code) {
  return "{\"object\":\"error\",\"message\":" + quoted(message) + ",\"type\":" + quoted(type) +
         ",\"param\":null,\"code\":" + (code.empty() ? "null" : quoted(code)) + "}";
}

std::string error_document(std::string_view, const SaidError& said) {
  return flat(said.message, said.type.empty() ? "internal_server_error" : said.type, said.code);
}

std::string error_body(const OwnError& error) {
  return flat(error.message, type_of(kTypes, error.cls, "internal_server_error"), error.code);
}

// Its SDK knows no error event: any event that is no chunk is a failed validation, which says less than a cut.
std::string error_event(const Endpoint&, const OwnError&) { return {}; }

std::string_view heartbeat(const Endpoint&) { return ": ka\n"; }

constexpr DialectTable kTable{.name = "mistral",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = kStatuses,
                              .request_id_header = "x-kong-request-id",
                              .family = &families::kOpenAi,
                              .resources = kResources,
                              .usage_unasked = true,
                              .error_document = error_document,
                              .error_body = error_body,
                              .error_event = error_event,
                              .heartbeat = heartbeat};

}  // namespace

const Dialect& mistral() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
