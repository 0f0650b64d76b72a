#pragma once
// `callgate alerts`: who is called when a queue breaks its contract? Prometheus rules, from the contracts alone.

#include <chrono>
#include <span>
#include <string>

#include "cli/command.h"
#include "gateway/queue_contract.h"

namespace cli {

/// A rules file, one group a queue. What a contract says is data: it can neither end a string nor run a template.
/// `kept` is how long letters are, where a contract does not say.
[[nodiscard]] std::string alert_rules(std::span<const gateway::QueueContract> queues, std::chrono::milliseconds kept);

int alerts(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
