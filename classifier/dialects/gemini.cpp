#include "classifier/dialects/gemini.h"

#include <string>

#include "classifier/dialects/list.h"
#include "classifier/dialects/openai.h"
#include "classifier/families/gemini.h"
#include "classifier/json.h"
#include "classifier/table_dialect.h"

namespace classifier::dialect {

namespace {

using enum Class;
using namespace on;

constexpr std::string_view kVersions[] = {"v1beta", "v1alpha", "v1"};

constexpr PathRow kPaths[] = {
    {"models/*:generateContent", Operation::GenerateContent, true, true},
    {"models/*:streamGenerateContent", Operation::GenerateContent, true, true},
    {"tunedModels/*:generateContent", Operation::GenerateContent, true, true},
    {"tunedModels/*:streamGenerateContent", Operation::GenerateContent, true, true},
    {"models/*:embedContent", Operation::Embeddings, true, true},
    {"models/*:batchEmbedContents", Operation::Embeddings, true, true},
    {"models/*:countTokens", Operation::CountTokens, true, true},
    {"openai/chat/completions", Operation::Chat, true, true},
    {"openai/embeddings", Operation::Embeddings, true, true},
    {"openai/images/generations", Operation::Other, true, false},
};

constexpr std::string_view kResources[] = {"models",
                                           "tunedModels",
                                           "files",
                                           "cachedContents",
                                           "batches",
                                           "openai",
                                           "operations",
                                           "corpora",
                                           "fileSearchStores",
                                           "upload",
                                           "download"};
constexpr std::string_view kUnversioned[] = {"upload", "download"};

constexpr Rule kRules[] = {
    {k429 | k5xx | kNone, "", "limit: 0", QuotaExhausted},
};

struct StatusWord {
  int status;
  std::string_view word;
};
constexpr StatusWord kWords[] = {
    {400, "INVALID_ARGUMENT"},
    {401, "UNAUTHENTICATED"},
    {402, "RESOURCE_EXHAUSTED"},
    {403, "PERMISSION_DENIED"},
    {404, "NOT_FOUND"},
    {409, "ABORTED"},
    {413, "INVALID_ARGUMENT"},
    {422, "INVALID_ARGUMENT"},
    {429, "RESOURCE_EXHAUSTED"},
    {499, "CANCELLED"},
    {502, "UNAVAILABLE"},
    {503, "UNAVAILABLE"},
    {504, "DEADLINE_EXCEEDED"},
};

std::string_view word_of(int status) {
  for (const StatusWord& row : kWords) {
    if (row.status == status) return row.word;
  }
  return "INTERNAL";
}

std::string_view model_in_path(std::string_view path) {
  constexpr std::string_view kNamed[] = {"models", "tunedModels"};
  return name_before_verb(path, kNamed);
}

void read_target(std::string_view path, std::string_view query, RequestFacts& facts) {
  if (path.find("/openai/") != std::string_view::npos) return;
  facts.stream = path.ends_with(":streamGenerateContent") && value_in_query(query, "alt") == "sse";
}

bool speaks_openai(const Endpoint& endpoint) {
  return endpoint.operation == Operation::Chat || endpoint.operation == Operation::Completions;
}

constexpr DialectTable kTable{.name = "gemini",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = {},
                              .request_id_header = "x-request-id",
                              .family = &families::kGemini,
                              .resources = kResources,
                              .unversioned = kUnversioned,
                              .key = {.name = "x-goog-api-key", .scheme = ""},
                              .model_in_path = model_in_path,
                              .model_front = "models/",
                              .error_body = gemini_error_body,
                              .error_event = gemini_error_event,
                              .heartbeat = gemini_heartbeat,
                              .read_target = read_target};

}  // namespace

const Dialect& gemini() {
  static const TableDialect dialect{kTable};
  return dialect;
}

std::string gemini_error_body(const OwnError& error) {
  std::string out = "{\"error\":{\"code\":" + std::to_string(error.status) + ",\"message\":" + quoted(error.message) +
                    ",\"status\":" + quoted(word_of(error.status));
  if (!error.code.empty()) {
    out += ",\"details\":[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":" + quoted(error.code) +
           ",\"domain\":\"callgate\"}]";
  }
  return out + "}}";
}

std::string gemini_error_event(const Endpoint& endpoint, const OwnError& error) {
  if (speaks_openai(endpoint)) return openai_error_event(endpoint, error);
  // No event line: its SDKs take none.
  return "data: " + gemini_error_body(error) + "\r\n\r\n";
}

std::string_view gemini_heartbeat(const Endpoint& endpoint) {
  // A comment makes its SDKs drop the event that follows.
  return speaks_openai(endpoint) ? openai_heartbeat(endpoint) : "\n";
}

}  // namespace classifier::dialect
