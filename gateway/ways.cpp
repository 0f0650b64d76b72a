#include "gateway/ways.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "gateway/memo_key.h"

namespace gateway {
namespace {

/// FNV-1a, then mixed (splitmix64): the same on every machine and in every version.
std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111ebU;
  return hash ^ (hash >> 31U);
}

/// The greatest comes first.
double score(std::string_view name, double weight, std::uint64_t whose) {
  constexpr double kUnit = 0x1p-53;
  const double even = (static_cast<double>(hash_of(name, whose) >> 11U) + 0.5) * kUnit;  // In (0, 1).
  return weight > 0 ? -weight / std::log(even) : -even;
}

template <typename Item, typename Name, typename Weight>
void order(std::span<Item> items, std::uint64_t whose, const Name& name, const Weight& weight) {
  std::ranges::stable_sort(
      items, std::greater<>{}, [&](const Item& item) { return score(name(item), weight(item), whose); });
}

std::string group_of(const Target& to, const std::string& model) {
  const auto group = to.group_of.find(model);
  return group == to.group_of.end() ? model : group->second;
}

void add_ways(Call& call, const RouteTarget& step, std::uint64_t whose, const std::string& callers_key) {
  Way way;
  way.to = step.to;
  if (const auto other = step.models.find(call.facts.model); other != step.models.end()) way.model = other->second;
  budget::Candidate candidate;
  candidate.upstream = step.to->config.name;
  candidate.model = way.model.empty() ? call.facts.model : way.model;
  candidate.group = group_of(*step.to, candidate.model);
  candidate.credential = callers_key;
  if (step.to->config.credentials.empty()) {
    call.candidates.push_back(std::move(candidate));
    call.ways.push_back(std::move(way));
    return;
  }
  std::vector<const CredentialConfig*> credentials;
  for (const CredentialConfig& one : step.to->config.credentials) credentials.push_back(&one);
  order(
      std::span{credentials},
      whose,
      [](const CredentialConfig* one) { return std::string_view{one->name}; },
      [](const CredentialConfig* one) { return one->weight; });
  candidate.configured = true;
  for (const CredentialConfig* one : credentials) {
    candidate.credential = one->name;
    call.candidates.push_back(candidate);
    call.ways.push_back(way);
  }
}

}  // namespace

void choose_ways(Call& call, std::string_view query) {
  const std::uint64_t whose = hash_of(call.run_id, hash_of(call.tenant, 0));
  const bool passed_through = std::ranges::any_of(
      call.route->steps, [](const RouteTarget& step) { return step.to->config.credentials.empty(); });
  const std::string callers_key = passed_through ? key_digest(call.request.headers, query) : std::string{};
  std::vector<const RouteTarget*> steps;
  for (const RouteTarget& step : call.route->steps) steps.push_back(&step);
  for (auto begin = steps.begin(); begin != steps.end();) {
    auto end = std::find_if(begin, steps.end(), [](const RouteTarget* step) { return !step->weight; });
    if (end == begin) ++end;
    order(
        std::span{begin, end},
        whose,
        [](const RouteTarget* step) { return std::string_view{step->to->config.name}; },
        [](const RouteTarget* step) { return step->weight.value_or(1); });
    for (; begin != end; ++begin) add_ways(call, **begin, whose, callers_key);
  }
}

}  // namespace gateway
