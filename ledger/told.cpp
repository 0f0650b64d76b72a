#include "ledger/told.h"

#include "budget/price.h"
#include "ledger/json_text.h"
#include "ledger/times.h"

namespace ledger {

std::string told_of_run(const ToldRun& run) {
  const std::string_view state = kRunStateNames[static_cast<std::size_t>(run.state)];
  std::string data;
  JsonObject of_run(data);
  of_run.text("id", run.id);
  of_run.text("state", state);
  of_run.text("class", run.cls);
  of_run.text("queue", run.queue);
  of_run.text("run_id", run.run_id);
  of_run.number("status", run.status);
  if (run.cost_nano) {
    of_run.text("cost_usd", budget::usd_text(budget::NanoUsd{*run.cost_nano}));
  } else {
    of_run.raw("cost_usd", "null");
  }
  of_run.close();
  std::string told;
  JsonObject object(told);
  object.text("type", "run." + std::string{state});
  object.text("timestamp", time_text(run.at_ms));
  object.raw("data", data);
  object.close();
  return told;
}

}  // namespace ledger
