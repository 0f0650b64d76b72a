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
    {"embeddings", Operation::Embeddings, true, true},
    {"rerank", Operation::Other, true, true},
    {"images/generations", Operation::Other, true, true},
    {"audio/transcriptions", Operation::Other, true, true},
    {"audio/translations", Operation::Other, true, true},
    // Audio.
    {"audio/speech", Operation::Other, true, false},
};

constexpr std::string_view kResources[] = {
    "models", "files", "fine-tunes", "endpoints", "batches", "videos", "evaluation", "hardware", "tci"};

constexpr Rule kRules[] = {
    // A deployment that is switched off does not come by waiting.
    {k400 | k404, "*endpoint_not_running", "", NotFound},
    // Input and output together do not fit; its other 403s are about who may.
    {k403, "", "tokens*must be <=", ContextLength},
    {k403, "", "context length", ContextLength},
};

constexpr StatusOf kStatuses[] = {
    {QuotaExhausted, 402},
};

constexpr DialectTable kTable{.name = "together",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = kStatuses,
                              .request_id_header = "x-request-id",
                              .family = &families::kOpenAi,
                              .resources = kResources,
                              .error_body = openai_error_body,
                              .error_event = imitated_error_event,
                              .heartbeat = imitated_heartbeat};

}  // namespace

const Dialect& together() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
