#pragma once
// What does a provider say was used? Its own exports, read into one form (docs/spend.md describes each of them).
//
//   form                      tokens  requests  cost   from
//   ------------------------  ------  --------  -----  -----------------------------------------------------------
//   openai-usage-json         yes     yes       -      GET /v1/organization/usage/completions (and embeddings, …)
//   openai-costs-json         -       -         yes    GET /v1/organization/costs
//   openai-usage-csv          yes     yes       -      dashboard, Usage, Export
//   openai-costs-csv          -       -         yes    dashboard, Costs, Export
//   anthropic-usage-json      yes     -         -      GET /v1/organizations/usage_report/messages
//   anthropic-costs-json      -       -         yes    GET /v1/organizations/cost_report
//   anthropic-usage-csv       yes     -         -      Console, Usage, Export
//   anthropic-costs-csv       -       -         yes    Console, Cost, Export

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ledger {

/// One day (UTC) of one model; only figures that the form has.
struct ExportLine {
  std::string day{};
  std::string model{};  // Empty: the export does not say which.
  std::optional<std::int64_t> requests{}, input{}, cached_input{}, cache_write{}, output{};
  std::optional<std::int64_t> cost_nano{};
  std::int64_t rounding_nano = 0;  // By so much the cost may be off, since the form gives fewer digits.
};

struct UsageExport {
  std::string form{};
  std::string provider{};           // "openai", "anthropic"
  std::vector<ExportLine> lines{};  // By day, then by model; one for each pair.
  std::vector<std::string> days{};  // That it covers, those without a line too; sorted.
  bool whole = true;                // False: there are more pages of it.
  bool display_names = false;       // "Claude Haiku 4.5" for claude-haiku-4-5-20251001.
};

/// One file. The error says what was seen in it, and what is read.
[[nodiscard]] std::expected<UsageExport, std::string> read_usage_export(std::string_view text);

/// Several pages of one form as one.
[[nodiscard]] std::expected<UsageExport, std::string> joined(std::vector<UsageExport> pages);

}  // namespace ledger
