#include "gateway/pricing.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "budget/rating.h"
#include "budget/worst_case.h"
#include "classifier/asked_terms.h"

namespace gateway {
namespace {

budget::Found find(const Call& call, const Target& to, std::string_view model, WallTime now) {
  if (!call.policy->prices) return {};
  return call.policy->prices->find(
      {.provider = to.provider, .model = model, .day = std::chrono::floor<std::chrono::days>(now)});
}

}  // namespace

void price_attempt(const Call& call, const Target& to, WallTime now, AttemptRow& row) {
  const std::string_view asked = row.model.empty() ? call.facts.model : row.model;
  const budget::Sought sought{.provider = to.provider,
                              .model = row.usage.model.empty() ? asked : row.usage.model,
                              .day = std::chrono::floor<std::chrono::days>(now)};
  budget::Rated rated = budget::rate(call.policy->prices.get(),
                                     call.policy->fallback,
                                     sought,
                                     to.region.empty() ? call.facts.region : to.region,
                                     row.usage);
  row.cost = rated.cost;
  row.cost_source = rated.source;
  row.cost_tier = rated.tier;
  row.prices = std::move(rated.prices);
}

std::vector<budget::NanoUsd> worst_costs(const Call& call, Admission& admission, WallTime now) {
  std::vector<budget::NanoUsd> worst;
  worst.reserve(call.ways.size());
  const std::string_view body = call.request.body ? std::string_view{*call.request.body} : std::string_view{};
  const classifier::AskedTerms asked = classifier::read_asked_terms(*call.to->dialect, call.request.headers, body);
  for (std::size_t i = 0; i < call.ways.size(); ++i) {
    const budget::Found found = find(call, *call.ways[i].to, call.candidates[i].model, now);
    const budget::Expected most = budget::most_tokens(call.sizes, admission.expected(call.candidates[i], call.sizes));
    const std::string& host = call.ways[i].to->region;
    const std::string& region = host.empty() ? call.facts.region : host;
    worst.push_back(budget::worst_case(found.price,
                                       call.policy->fallback,
                                       most,
                                       asked,
                                       found.region.empty() ? region : found.region,
                                       call.sizes.media > 0));
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
