#include "budget/lone_failures.h"

#include <algorithm>
#include <string>

namespace budget {
namespace {

constexpr std::size_t kMostModels = 1'000;  // As many as there are breakers.
constexpr std::size_t kMostRows = 4'096;

std::string model_key(std::string_view upstream, std::string_view model) {
  return std::string{upstream}.append(1, '\0').append(model);
}

}  // namespace

LoneFailures::LoneFailures() : answers_{kMostModels}, rows_{kMostRows} {}

void LoneFailures::answered(std::string_view tenant, std::string_view upstream, std::string_view model) {
  std::string key = model_key(upstream, model);
  ++answers_.get(key, [] { return std::int64_t{0}; });
  if (Row* row = rows_.find(key.append(1, '\0').append(tenant))) *row = {};
}

bool LoneFailures::failed(std::string_view tenant, std::string_view upstream, std::string_view model) {
  std::string key = model_key(upstream, model);
  const std::int64_t answers = answers_.get(key, [] { return std::int64_t{0}; });
  Row& row = rows_.get(key.append(1, '\0').append(tenant), [] { return Row{}; });
  // Its own answers end a row, so all that came since it began were others'. A count that was forgotten begins at
  // zero.
  const std::int64_t fresh = row.failures == 0 ? 0 : std::max<std::int64_t>(0, answers - row.seen);
  row.seen = answers;
  row.unmatched = std::min(row.unmatched + fresh, kMost);
  row.failures = std::min(row.failures + 1, kRow + 1);
  // The first ones have used up theirs, too: as often as all of the row.
  const bool own = row.failures > kRow && row.unmatched > 0;
  if (row.unmatched > 0) --row.unmatched;
  return own;
}

}  // namespace budget
