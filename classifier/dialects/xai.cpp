#include "classifier/dialects/list.h"
#include "classifier/dialects/openai.h"
#include "classifier/families/openai.h"
#include "classifier/table_dialect.h"

namespace classifier::dialect {

namespace {

using enum Class;
using namespace on;

// Of its two forms of an error callgate speaks the one with a type and a code that are words: SDKs read that one.
constexpr std::string_view kVersions[] = {"v1"};

constexpr PathRow kPaths[] = {
    {"chat/completions", Operation::Chat, true, true},
    {"completions", Operation::Completions, true, true},
    {"responses", Operation::Responses, true, true},
    {"embeddings", Operation::Embeddings, true, true},
    {"images/generations", Operation::Other, true, true},
    {"images/edits", Operation::Other, true, true},
    {"tokenize-text", Operation::CountTokens, true, true},
    {"documents/search", Operation::Other, true, true},
    {"messages", Operation::Messages, true, true, nullptr, true},
};

constexpr std::string_view kResources[] = {"models",
                                           "language-models",
                                           "embedding-models",
                                           "image-generation-models",
                                           "api-key",
                                           "files",
                                           "batches",
                                           "videos",
                                           "chat/deferred-completion",
                                           "responses",
                                           "realtime",
                                           "collections"};

constexpr Rule kRules[] = {
    // It says who may not by the code, and by the text that it is for want of money.
    {k403, "", "credits or licenses", QuotaExhausted},
    {k400, "", "incorrect api key", Auth},
};

constexpr DialectTable kTable{.name = "xai",
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

const Dialect& xai() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
