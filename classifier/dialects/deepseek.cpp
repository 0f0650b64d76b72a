#include "classifier/dialects/list.h"
#include "classifier/dialects/openai.h"
#include "classifier/families/anthropic.h"
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
    {"beta/chat/completions", Operation::Chat, true, true},
    {"beta/completions", Operation::Completions, true, true},
    // Anthropic's language, at a place of its own.
    {"anthropic/v1/messages", Operation::Messages, true, true, nullptr, true},
    {"anthropic/v1/messages/count_tokens", Operation::CountTokens, true, true, &families::kAnthropic, true},
};

constexpr std::string_view kResources[] = {"models", "user", "beta", "anthropic"};
constexpr std::string_view kUnversioned[] = {"beta", "anthropic"};

constexpr Rule kRules[] = {
    // All that it says of a prompt which its censor does not like; the type is that of any bad request.
    {k400 | kNone, "", "content exists risk", ContentPolicy},
};

constexpr StatusOf kStatuses[] = {
    {QuotaExhausted, 402},
};

constexpr DialectTable kTable{.name = "deepseek",
                              .versions = kVersions,
                              .paths = kPaths,
                              .rules = kRules,
                              .statuses = kStatuses,
                              .request_id_header = "x-ds-trace-id",
                              .family = &families::kOpenAi,
                              .resources = kResources,
                              .unversioned = kUnversioned,
                              .error_body = openai_error_body,
                              .error_event = imitated_error_event,
                              .heartbeat = imitated_heartbeat};

}  // namespace

const Dialect& deepseek() {
  static const TableDialect dialect{kTable};
  return dialect;
}

}  // namespace classifier::dialect
