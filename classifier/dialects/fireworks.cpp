#include "classifier/dialects/list.h"
#include "classifier/dialects/openai.h"
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
    {"audio/transcriptions", Operation::Other, true, true},
    {"audio/translations", Operation::Other, true, true},
    {"messages", Operation::Messages, true, true, nullptr, true},
};

constexpr std::string_view kResources[] = {"models", "accounts", "workflows", "responses"};

constexpr Rule kRules[] = {
    // One status for an account that does not pay and an adapter that does not load.
    {k412, "", "suspended", QuotaExhausted},
};

constexpr StatusOf kStatuses[] = {
    {QuotaExhausted, 402},
};

constexpr DialectTable kTable{.name = "fireworks",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = kStatuses,
                              .request_id_header = "x-request-id",
                              .family = &families::kOpenAi,
                              .resources = kResources,
                              .usage_unasked = true,
                              .error_body = openai_error_body,
                              .error_event = imitated_error_event,
                              .heartbeat = imitated_heartbeat};

}  // namespace

const Dialect& fireworks() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
