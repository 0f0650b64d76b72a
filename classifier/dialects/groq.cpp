#include "classifier/dialects/list.h"
#include "classifier/dialects/openai.h"
#include "classifier/families/openai.h"
#include "classifier/table_dialect.h"

namespace classifier::dialect {

namespace {

using enum Class;
using namespace on;

// Its streams always have usage, under x_groq.
constexpr std::string_view kVersions[] = {"v1"};

constexpr PathRow kPaths[] = {
    {"chat/completions", Operation::Chat, true, true},
    {"responses", Operation::Responses, true, true},
    {"embeddings", Operation::Embeddings, true, true},
    {"audio/transcriptions", Operation::Other, true, true},
    {"audio/translations", Operation::Other, true, true},
    // Audio.
    {"audio/speech", Operation::Other, true, false},
};

constexpr std::string_view kResources[] = {"models", "files", "batches", "audio", "responses", "fine_tunings"};

constexpr Rule kRules[] = {
    // Flex without capacity; another thing than Cohere's 498.
    {k498, "", "", Overloaded},
    // In a stream that has begun there is no status to say it by.
    {kNone, "tool_use_failed", "", InvalidRequest},
    {kNone, "json_validate_failed", "", InvalidRequest},
};

constexpr DialectTable kTable{.name = "groq",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = {},
                              .request_id_header = "x-request-id",
                              .family = &families::kOpenAi,
                              .resources = kResources,
                              .error_body = openai_error_body,
                              .error_event = imitated_error_event,
                              .heartbeat = imitated_heartbeat};

}  // namespace

const Dialect& groq() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
