#include "classifier/dialects/anthropic.h"

#include "classifier/dialects/list.h"
#include "classifier/families/anthropic.h"
#include "classifier/json.h"
#include "classifier/table_dialect.h"

namespace classifier::dialect {

namespace {

using enum Class;
using namespace on;

constexpr std::string_view kVersions[] = {"v1"};

constexpr PathRow kPaths[] = {
    {"messages", Operation::Messages, true, true},
    {"messages/count_tokens", Operation::CountTokens, true, true},
};

constexpr std::string_view kResources[] = {"messages/batches", "models", "files", "organizations", "skills"};

constexpr Rule kRules[] = {
    // A tier without the long context window: the type says rate limit, and no waiting helps.
    {k429 | kNone, "rate_limit_error", "extra usage is required", QuotaExhausted},
};

constexpr StatusOf kStatuses[] = {
    {Overloaded, 529},
    {QuotaExhausted, 402},
};

struct TypeRow {
  int status;
  std::string_view type;
};
constexpr TypeRow kTypes[] = {
    {400, "invalid_request_error"},
    {401, "authentication_error"},
    {402, "billing_error"},
    {403, "permission_error"},
    {404, "not_found_error"},
    {409, "conflict_error"},
    {413, "request_too_large"},
    {422, "invalid_request_error"},
    {429, "rate_limit_error"},
    {503, "overloaded_error"},
    {504, "timeout_error"},
    {529, "overloaded_error"},
};

std::string_view type_of(int status) {
  for (const TypeRow& row : kTypes) {
    if (row.status == status) return row.type;
  }
  return "api_error";
}

std::string error_body(const OwnError& error) {
  std::string out = "{\"type\":\"error\",\"error\":{\"type\":" + quoted(type_of(error.status)) +
                    ",\"message\":" + quoted(error.message);
  if (!error.code.empty()) out += ",\"details\":{\"error_code\":" + quoted(error.code) + "}";
  out += "}";
  if (!error.call_id.empty()) out += ",\"request_id\":" + quoted(error.call_id);
  return out + "}";
}

constexpr DialectTable kTable{.name = "anthropic",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = kStatuses,
                              .request_id_header = "request-id",
                              .family = &families::kAnthropic,
                              .resources = kResources,
                              .key = {.name = "x-api-key", .scheme = ""},
                              .error_body = error_body,
                              .error_event = anthropic_error_event,
                              .heartbeat = anthropic_heartbeat};

}  // namespace

const Dialect& anthropic() {
  static const TableDialect dialect{kTable};
  return dialect;
}

std::string anthropic_error_event(const Endpoint&, const OwnError& error) {
  return "event: error\ndata: " + error_body(error) + "\n\n";
}

std::string_view anthropic_heartbeat(const Endpoint&) { return "event: ping\ndata: {\"type\": \"ping\"}\n\n"; }

}  // namespace classifier::dialect
