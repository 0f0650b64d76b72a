#pragma once
// What does a new configuration promise less than the one that holds?
//
//   retention of dead letters   shorter, by the contract or for want of one
//   replay                      without approval now; may cost more than before, or anything
//   payload_schema              none any more
//   the contract                gone
//
// Everything else may change freely: another schema, a higher rate, other approvers.

#include <string>
#include <vector>

#include "gateway/config.h"

namespace gateway {

struct Weaker {
  std::string path{};     // "queues.invoices.dead_letter.retention"
  std::string message{};  // "is shorter than before (30d, now 7d)"
  bool operator==(const Weaker&) const = default;
};
[[nodiscard]] std::vector<Weaker> weaker(const Config& old, const Config& fresh);

/// As problems of `fresh`, an error each, with the lines that say it now.
[[nodiscard]] std::vector<Problem> weaker_problems(const Config& old, const Loaded& fresh, const std::string& file);

}  // namespace gateway
