#include <string>

#include "classifier/dialects/anthropic.h"
#include "classifier/dialects/list.h"
#include "classifier/dialects/openai.h"
#include "classifier/families/openai.h"
#include "classifier/table_dialect.h"

namespace classifier::dialect {

namespace {

using enum Class;
using namespace on;

constexpr std::string_view kVersions[] = {"openai/v1"};

constexpr PathRow kPaths[] = {
    {"**deployments/*/chat/completions", Operation::Chat, true, true},
    {"**deployments/*/completions", Operation::Completions, true, true},
    {"**deployments/*/embeddings", Operation::Embeddings, true, true},
    {"**deployments/*/images/generations", Operation::Other, true, true},
    {"**deployments/*/images/edits", Operation::Other, true, true},
    {"**deployments/*/audio/transcriptions", Operation::Other, true, true},
    {"**deployments/*/audio/translations", Operation::Other, true, true},
    {"**deployments/*/audio/speech", Operation::Other, true, false},
    {"openai/responses", Operation::Responses, true, true},
    {"models/chat/completions", Operation::Chat, true, true},
    {"models/embeddings", Operation::Embeddings, true, true},
    {"anthropic/v1/messages", Operation::Messages, true, true},
    // Below openai/v1 it is OpenAI's own API.
    {"chat/completions", Operation::Chat, true, true, nullptr, true},
    {"completions", Operation::Completions, true, true, nullptr, true},
    {"responses", Operation::Responses, true, true, nullptr, true},
    {"embeddings", Operation::Embeddings, true, true, nullptr, true},
    {"images/generations", Operation::Other, true, true, nullptr, true},
    {"images/edits", Operation::Other, true, true, nullptr, true},
    {"audio/transcriptions", Operation::Other, true, true, nullptr, true},
    {"audio/translations", Operation::Other, true, true, nullptr, true},
    {"audio/speech", Operation::Other, true, false, nullptr, true},
};

constexpr std::string_view kResources[] = {"openai",
                                           "deployments",
                                           "models",
                                           "files",
                                           "batches",
                                           "responses",
                                           "vector_stores",
                                           "fine_tuning",
                                           "videos",
                                           "evals"};
constexpr std::string_view kUnversioned[] = {
    "openai", "deployments", "models/chat", "models/embeddings", "anthropic"};

constexpr Rule kRules[] = {
    // Beside a 401 it is a role that is missing: the token itself is good.
    {k401, "PermissionDenied", "", Permission},
};

std::string error_event(const Endpoint& endpoint, const OwnError& error) {
  const bool messages = endpoint.operation == Operation::Messages;
  return messages ? anthropic_error_event(endpoint, error) : openai_error_event(endpoint, error);
}

std::string_view heartbeat(const Endpoint& endpoint) {
  return endpoint.operation == Operation::Messages ? anthropic_heartbeat(endpoint) : openai_heartbeat(endpoint);
}

/// The deployment names the model, whatever the body says; the answer tells which one that is.
std::string_view model_in_path(std::string_view path) {
  constexpr std::string_view kFront = "/deployments/";
  const std::size_t at = path.find(kFront);
  if (at == std::string_view::npos) return {};
  const std::string_view behind = path.substr(at + kFront.size());
  return behind.substr(0, behind.find('/'));
}

void read_target(std::string_view, std::string_view query, RequestFacts& facts) {
  // Versions before this one refuse stream_options; dates compare as texts.
  const std::string_view version = value_in_query(query, "api-version");
  if (!version.empty() && version.starts_with('2') && version.substr(0, 10) < "2024-09-01") facts.usage_asked = true;
}

constexpr DialectTable kTable{.name = "azure",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = {},
                              .request_id_header = "apim-request-id",
                              .family = &families::kOpenAi,
                              .resources = kResources,
                              .unversioned = kUnversioned,
                              .key = {.name = "api-key", .scheme = ""},
                              .model_in_path = model_in_path,
                              .error_body = openai_error_body,
                              .error_event = error_event,
                              .heartbeat = heartbeat,
                              .read_target = read_target};

}  // namespace

const Dialect& azure() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
