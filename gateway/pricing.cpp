#include "gateway/pricing.h"

#include <chrono>

namespace gateway {
namespace {

budget::Found find(const Call& call, std::string_view model, WallTime now) {
  if (!call.policy->prices) return {};
  return call.policy->prices->find(
      {.provider = call.to->provider, .model = model, .day = std::chrono::floor<std::chrono::days>(now)});
}

}  // namespace

void price_attempt(const Call& call, WallTime now, AttemptRow& row) {
  if (!row.usage.tokens || !call.policy->prices) return;
  const std::string_view model = row.usage.model.empty() ? call.facts.model : row.usage.model;
  const budget::Terms terms{.service_tier = row.usage.service_tier};
  row.cost = budget::cost_of(find(call, model, now), terms, row.usage.tokens).total;
  row.cost_source = "table";
  if (row.cost) return;
  // Never zero for want of a price.
  row.cost = budget::cost_of(&call.policy->fallback, {}, row.usage.tokens).total;
  row.cost_source = row.cost ? "fallback" : "";
}

bool may_be_priced(const Call& call, WallTime now) {
  if (!call.policy->refuse_unpriced || !call.endpoint.understood || call.facts.model.empty()) return true;
  return find(call, call.facts.model, now).price != nullptr;
}

}  // namespace gateway
