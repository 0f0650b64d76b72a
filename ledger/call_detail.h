#pragma once
// All of one call, as the admin API, the CLI and the export tell it: one form, whether it was read from the store or
// has ended a moment ago (docs/spend.md has the fields).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/records.h"

namespace ledger {

enum class RowState : std::uint8_t { Open, Ended, Unknown };  // As in the tables.
[[nodiscard]] std::string_view name_of(RowState state);       // "open", "ended", "unknown"

/// Empty texts are told as null.
struct AttemptDetail {
  int number = 0;
  RowState state = RowState::Ended;
  std::int64_t began_ms = 0;
  std::optional<std::int64_t> ended_ms{};
  std::string upstream{}, credential{}, model{}, model_answered{}, cls{}, code{}, rule{}, detail{}, fingerprint{};
  std::string waited_for{}, tokens_from{}, service_tier{}, speed{}, inference_geo{}, cost_source{}, cost_tier{},
      prices{};
  std::string provider_request_id{}, next{}, stated_usd{};
  int status = 0;  // 0: no answer came.
  bool possibly_billed = false;
  std::int64_t waited_before_ms = 0;
  std::optional<std::int64_t> hint_ms{}, took_us{};
  std::optional<classifier::TokenCounts> tokens{};
  std::string billed{};  // A JSON object, or empty.
  std::optional<std::int64_t> cost_nano{}, reserved_nano{}, charged_nano{};
};

struct CallDetail {
  std::string id{};
  RowState state = RowState::Ended;
  std::int64_t began_ms = 0;
  std::optional<std::int64_t> ended_ms{};
  std::string tenant{}, lane{}, run_id{}, queue{}, route{}, upstream{}, dialect{}, operation{}, method{}, path{},
      model{};
  std::string labels{};  // A JSON object, or empty.
  bool stream = false, sdk_retry = false;
  std::string idempotency_key{}, once{}, origin{}, outcome{}, cls{}, reason{}, limit{};
  std::optional<std::int64_t> saved_nano{}, cost_nano{};
  int status = 0;
  std::string waits{};  // A JSON object of microseconds by kind, or empty.
  std::optional<std::int64_t> first_content_us{}, duration_us{};
  std::int64_t bytes_in = 0, bytes_out = 0;
  std::vector<AttemptDetail> attempts{};
};

[[nodiscard]] CallDetail detail_of(const CallRecord& record);

/// One line without its end, of ASCII or UTF-8 alone, whatever bytes came in.
[[nodiscard]] std::string json_of(const CallDetail& call);
/// Its attempts alone, a JSON array.
[[nodiscard]] std::string attempts_json(const CallDetail& call);

}  // namespace ledger
