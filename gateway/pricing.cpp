#include "gateway/pricing.h"

#include <array>
#include <chrono>
#include <optional>
#include <string_view>

#include "budget/worst_case.h"

namespace gateway {
namespace {

budget::Found find(const Call& call, const Target& to, std::string_view model, WallTime now) {
  if (!call.policy->prices) return {};
  return call.policy->prices->find(
      {.provider = to.provider, .model = model, .day = std::chrono::floor<std::chrono::days>(now)});
}

/// Nothing where the answer does not state it, or states what is no amount.
std::optional<budget::NanoUsd> stated_cost(const classifier::Usage& usage) {
  const auto stated = budget::parse_usd(usage.stated_usd);
  if (!stated || usage.stated_beside_usd.empty()) return stated;
  const auto beside = budget::parse_usd(usage.stated_beside_usd);
  budget::NanoUsd sum;
  if (!beside || __builtin_add_overflow(stated->value, beside->value, &sum.value)) return std::nullopt;
  return sum;
}

/// Something was used of which not even the quantity is known: then the rest is not the cost. Searches come with
/// tokens.
bool is_partial(const classifier::Usage& usage) {
  return usage.tokens_unknown || (!usage.tokens && usage.billed.web_searches > 0);
}

}  // namespace

void price_attempt(const Call& call, const Target& to, WallTime now, AttemptRow& row) {
  const classifier::Usage& usage = row.usage;
  if (const auto stated = stated_cost(usage)) {
    row.cost = stated;
    row.cost_source = "provider";
    return;
  }
  if (!call.policy->prices || is_partial(usage)) return;
  const std::string_view asked = row.model.empty() ? call.facts.model : row.model;
  const std::string_view model = usage.model.empty() ? asked : usage.model;
  const std::array<std::string_view, 2> modifiers{usage.speed, usage.inference_geo};
  const budget::Terms terms{.service_tier = usage.service_tier,
                            .modifiers = modifiers,
                            .region = to.region.empty() ? call.facts.region : to.region};
  const budget::Cost cost = budget::cost_of(find(call, to, model, now), terms, usage.tokens, usage.billed);
  if (cost.unpriced == budget::Unpriced::NoUsage) return;
  row.cost = cost.total;
  if (row.cost) {
    row.cost_source = cost.plain_for_tier ? "table_plain" : "table";
    row.cost_tier = budget::tier_named(usage.service_tier) ? budget::name_of(cost.tier) : "other";
    return;
  }
  // Never zero for want of a price.
  row.cost = budget::cost_of(&call.policy->fallback, {}, usage.tokens, usage.billed).total;
  row.cost_source = row.cost ? "fallback" : "unpriced";
}

std::vector<budget::NanoUsd> worst_costs(const Call& call, Admission& admission, WallTime now) {
  std::vector<budget::NanoUsd> worst;
  worst.reserve(call.ways.size());
  for (std::size_t i = 0; i < call.ways.size(); ++i) {
    const budget::Found found = find(call, *call.ways[i].to, call.candidates[i].model, now);
    const budget::Expected most = budget::most_tokens(call.sizes, admission.expected(call.candidates[i], call.sizes));
    const std::string& host = call.ways[i].to->region;
    const std::string& region = host.empty() ? call.facts.region : host;
    const budget::Terms terms{.region = found.region.empty() ? region : found.region};
    worst.push_back(budget::worst_case(found.price, call.policy->fallback, most, call.sizes.media > 0, terms));
  }
  return worst;
}

std::vector<char> may_be_priced(const Call& call, WallTime now) {
  std::vector<char> may(call.ways.size(), 1);
  if (!call.policy->refuse_unpriced || !call.endpoint.understood || call.facts.model.empty()) return may;
  for (std::size_t i = 0; i < may.size(); ++i)
    may[i] = find(call, *call.ways[i].to, call.candidates[i].model, now).price != nullptr ? 1 : 0;
  return may;
}

}  // namespace gateway
