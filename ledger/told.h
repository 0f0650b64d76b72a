#pragma once
// What is a receiver told of a run's end?

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ledger/runs.h"

namespace ledger {

struct ToldRun {
  std::string_view id{}, queue{}, run_id{};
  RunState state = RunState::Succeeded;
  std::string_view cls{};
  int status = 0;
  std::optional<std::int64_t> cost_nano{};
  std::int64_t at_ms = 0;
};

/// By Standard Webhooks 1.0: {"type":"run.succeeded","timestamp":"2026-11-30T14:35:26.629Z","data":{…}}.
[[nodiscard]] std::string told_of_run(const ToldRun& run);

}  // namespace ledger
