#include "ledger/spend_sums.h"

namespace ledger {

void add(SpendLine& to, const AttemptSpend& attempt) {
  add(to.attempts, 1);
  add(to.input, attempt.input);
  add(to.cached_input, attempt.cached_input);
  add(to.cache_write, attempt.cache_write);
  add(to.output, attempt.output);
  add(to.reasoning, attempt.reasoning);
  const std::int64_t cost = attempt.cost_nano.value_or(0);
  add(to.cost_nano, cost);
  if (attempt.followed) add(to.retry_nano, cost);
  if (!attempt.call_answered) add(to.failed_nano, cost);
  if (attempt.possibly_billed) {
    add(to.possibly_billed, 1);
    add(to.possibly_billed_nano, attempt.charged_nano.value_or(0));
  }
  if (attempt.tokens_from == "unknown") add(to.unknown, 1);
  if (attempt.used && !attempt.cost_nano) add(to.unpriced, 1);
  // Not by a price of the model's own for what the answer names.
  if (attempt.cost_source == "fallback" || attempt.cost_source == "table_plain") add(to.estimated_nano, cost);
}

void add(SpendLine& to, const SpendLine& from) {
  constexpr std::int64_t SpendLine::*kFigures[] = {
      &SpendLine::calls,
      &SpendLine::attempts,
      &SpendLine::answered,
      &SpendLine::input,
      &SpendLine::cached_input,
      &SpendLine::cache_write,
      &SpendLine::output,
      &SpendLine::reasoning,
      &SpendLine::cost_nano,
      &SpendLine::retry_nano,
      &SpendLine::failed_nano,
      &SpendLine::possibly_billed,
      &SpendLine::unknown,
      &SpendLine::unpriced,
      &SpendLine::possibly_billed_nano,
      &SpendLine::saved_nano,
      &SpendLine::estimated_nano,
  };
  for (const auto figure : kFigures) add(to.*figure, from.*figure);
}

}  // namespace ledger
