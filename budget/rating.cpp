#include "budget/rating.h"

#include <array>

namespace budget {
namespace {

/// Nothing where the answer does not state it, or states what is no amount.
std::optional<NanoUsd> stated_cost(const classifier::Usage& usage) {
  const auto stated = parse_usd(usage.stated_usd);
  if (!stated || usage.stated_beside_usd.empty()) return stated;
  const auto beside = parse_usd(usage.stated_beside_usd);
  NanoUsd sum;
  if (!beside || __builtin_add_overflow(stated->value, beside->value, &sum.value)) return std::nullopt;
  return sum;
}

/// Something was used of which not even the quantity is known: then the rest is not the cost. Searches come with
/// tokens.
bool is_partial(const classifier::Usage& usage) {
  return usage.tokens_unknown || (!usage.tokens && usage.billed.web_searches > 0);
}

}  // namespace

Rated rate(const PriceBook* book, const Price& fallback, const Sought& sought, std::string_view region,
           const classifier::Usage& usage) {
  Rated rated;
  if (const auto stated = stated_cost(usage)) {
    rated.cost = stated;
    rated.source = "provider";
    return rated;
  }
  if (book == nullptr || is_partial(usage)) return rated;
  const std::array<std::string_view, 2> modifiers{usage.speed, usage.inference_geo};
  const Terms terms{.service_tier = usage.service_tier, .modifiers = modifiers, .region = region};
  const Found found = book->find(sought);
  const Cost cost = cost_of(found, terms, usage.tokens, usage.billed);
  if (cost.unpriced == Unpriced::NoUsage) return rated;
  rated.cost = cost.total;
  if (rated.cost) {
    rated.source = cost.plain_for_tier ? "table_plain" : "table";
    rated.tier = tier_named(usage.service_tier) ? name_of(cost.tier) : "other";
    if (found.table != nullptr)
      rated.prices = found.table->version.empty() ? found.table->digest : found.table->version;
    return rated;
  }
  // Never zero for want of a price.
  rated.cost = cost_of(&fallback, {}, usage.tokens, usage.billed).total;
  rated.source = rated.cost ? "fallback" : "unpriced";
  return rated;
}

}  // namespace budget
