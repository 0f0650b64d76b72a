#include <string>

#include "classifier/dialects/list.h"
#include "classifier/dialects/openai.h"
#include "classifier/families/cohere.h"
#include "classifier/families/openai.h"
#include "classifier/json.h"
#include "classifier/table_dialect.h"

namespace classifier::dialect {

namespace {

using enum Class;
using namespace on;

// The first version is another language in its streams, so it is no mere prefix.
constexpr std::string_view kVersions[] = {"v2"};

constexpr const Family* kOwn = &families::kCohere;
constexpr const Family* kFirst = &families::kCohere1;
constexpr PathRow kPaths[] = {
    {"chat", Operation::Chat, true, true, kOwn},
    {"embed", Operation::Embeddings, true, true, kOwn},
    {"rerank", Operation::Other, true, true, kOwn},
    {"v1/chat", Operation::Chat, true, true, kFirst},
    {"v1/generate", Operation::Completions, true, true, kFirst},
    {"v1/summarize", Operation::Completions, true, true, kFirst},
    {"v1/embed", Operation::Embeddings, true, true, kFirst},
    {"v1/rerank", Operation::Other, true, true, kFirst},
    {"v1/classify", Operation::Other, true, true, kFirst},
    {"v1/tokenize", Operation::CountTokens, true, true, kFirst},
    {"v1/detokenize", Operation::Other, true, true, kFirst},
    {"compatibility/v1/chat/completions", Operation::Chat, true, true, &families::kOpenAi},
    {"compatibility/v1/embeddings", Operation::Embeddings, true, true, &families::kOpenAi},
};

constexpr std::string_view kResources[] = {"models",
                                           "datasets",
                                           "connectors",
                                           "v1/models",
                                           "v1/datasets",
                                           "v1/connectors",
                                           "v1/embed-jobs",
                                           "v1/finetuning"};
constexpr std::string_view kUnversioned[] = {"v1", "compatibility"};

constexpr Rule kRules[] = {
    // A token of its own deny list, in the prompt or in the answer.
    {k498, "", "", ContentPolicy},
    {kNone, "ERROR_TOXIC", "", ContentPolicy},
    {kNone, "ERROR_LIMIT", "", ContextLength},
    {k400 | k422, "", "max tokens must be", InvalidRequest},
    {k400 | k413 | k422 | kNone, "", "too many tokens", ContextLength},
};

constexpr StatusOf kStatuses[] = {
    {QuotaExhausted, 402},
    {ContentPolicy, 498},
};

bool speaks_openai(const Endpoint& endpoint) { return endpoint.family == &families::kOpenAi; }

std::string error_body(const OwnError& error) {
  std::string out = "{";
  if (!error.call_id.empty()) out += "\"id\":" + quoted(error.call_id) + ",";
  return out + "\"message\":" + quoted(error.message) + "}";
}

// Its SDK takes any event for content or for broken: a cut says more.
std::string error_event(const Endpoint& endpoint, const OwnError& error) {
  return speaks_openai(endpoint) ? openai_error_event(endpoint, error) : std::string{};
}

std::string_view heartbeat(const Endpoint& endpoint) {
  // Among lines of JSON a comment is a broken one.
  return endpoint.family == kFirst ? std::string_view{} : ": ka\n";
}

constexpr DialectTable kTable{.name = "cohere",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = kStatuses,
                              .request_id_header = "x-debug-trace-id",
                              .family = kOwn,
                              .resources = kResources,
                              .unversioned = kUnversioned,
                              .model_in_path = false,
                              .usage_unasked = false,
                              .error_body = error_body,
                              .error_event = error_event,
                              .heartbeat = heartbeat};

}  // namespace

const Dialect& cohere() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
