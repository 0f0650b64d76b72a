#include <array>
#include <string>
#include <utility>

#include "classifier/dialects/list.h"
#include "classifier/dialects/openai.h"
#include "classifier/families/bedrock.h"
#include "classifier/families/openai.h"
#include "classifier/frames.h"
#include "classifier/json.h"
#include "classifier/table_dialect.h"

namespace classifier::dialect {

namespace {

using enum Class;
using namespace on;

constexpr const Family* kOwn = &families::kConverse;
constexpr const Family* kModels = &families::kInvoke;
// A model's name may be an ARN, with its slash as it is or encoded.
constexpr PathRow kPaths[] = {
    {"model/**/converse", Operation::Chat, true, true, kOwn},
    {"model/**/converse-stream", Operation::Chat, true, true, kOwn},
    {"model/**/invoke", Operation::Completions, true, true, kModels},
    {"model/**/invoke-with-response-stream", Operation::Completions, true, true, kModels},
    {"model/**/count-tokens", Operation::CountTokens, true, true, kOwn},
    {"guardrail/**/apply", Operation::Moderation, true, true, kOwn},
    {"openai/v1/chat/completions", Operation::Chat, true, true, &families::kOpenAi, true},
};

constexpr std::string_view kResources[] = {"model", "async-invoke", "guardrail", "openai"};

constexpr Rule kRules[] = {
    {k400 | k429 | kNone, "throttling", "per day", QuotaExhausted},
    {k400 | k403 | kNone, "MissingAuthenticationToken", "", Auth},
    {k400 | k403 | kNone, "IncompleteSignature", "", Auth},
    {k400 | k403 | kNone, "SignatureDoesNotMatch", "", Auth},
    {k400 | k403 | kNone, "InvalidClientTokenId", "", Auth},
    {k403 | kNone, "", "api key is valid", Auth},
    {k400 | kNone, "", "too many input tokens", ContextLength},
};

constexpr StatusOf kStatuses[] = {
    {Auth, 403},
    {Timeout, 408},
    {QuotaExhausted, 400},
    {Conflict, 400},
};

bool speaks_openai(const Endpoint& endpoint) { return endpoint.family == &families::kOpenAi; }

std::string error_body(const OwnError& error) { return "{\"message\":" + quoted(error.message) + "}"; }

Headers error_headers(const OwnError& error) {
  return {{"x-amzn-errortype", std::string{families::bedrock_error_type(error.status)}}};
}

/// Streams have fewer kinds of errors than answers.
std::string_view exception_type(int status) {
  const std::string_view type = families::bedrock_error_type(status);
  if (type == "ThrottlingException" || status == 402) return "throttlingException";
  if (type == "ServiceUnavailableException") return "serviceUnavailableException";
  if (status == 502 || status == 504 || status == 408 || status == 424) return "modelStreamErrorException";
  return status < 500 ? "validationException" : "internalServerException";
}

std::string error_event(const Endpoint& endpoint, const OwnError& error) {
  if (speaks_openai(endpoint)) return openai_error_event(endpoint, error);
  using Field = std::pair<std::string_view, std::string_view>;
  const std::array headers = {Field{":exception-type", exception_type(error.status)},
                              Field{":content-type", "application/json"},
                              Field{":message-type", "exception"}};
  return made_frame(headers, error_body(error));
}

std::string_view heartbeat(const Endpoint& endpoint) {
  // Frames know nothing that means nothing.
  return speaks_openai(endpoint) ? openai_heartbeat(endpoint) : std::string_view{};
}

/// "/model/arn%3Aaws%3Abedrock%3A…%2Fname/converse-stream".
std::string_view model_in_path(std::string_view path) {
  constexpr std::string_view kFront = "/model/";
  const std::size_t slash = path.rfind('/');
  if (!path.starts_with(kFront) || slash < kFront.size()) return {};
  return path.substr(kFront.size(), slash - kFront.size());
}

void read_target(std::string_view path, std::string_view, RequestFacts& facts) {
  if (model_in_path(path).empty()) return;
  const std::string_view operation = path.substr(path.rfind('/') + 1);
  facts.stream = operation == "converse-stream" || operation == "invoke-with-response-stream";
}

constexpr DialectTable kTable{.name = "bedrock",
                              .versions = {},
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = kStatuses,
                              .request_id_header = "x-amzn-requestid",
                              .family = kOwn,
                              .resources = kResources,
                              .model_in_path = model_in_path,
                              .error_body = error_body,
                              .error_event = error_event,
                              .heartbeat = heartbeat,
                              .error_headers = error_headers,
                              .read_target = read_target,
                              .read_head = families::read_bedrock_head};

}  // namespace

const Dialect& bedrock() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
