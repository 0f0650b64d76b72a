#include "ledger/queue_load.h"

namespace ledger {
namespace {

std::int64_t count(Statement& statement, const std::string& queue) {
  const std::int64_t found = statement.bind(1, queue).step() ? statement.number(0) : 0;
  statement.reset();
  return found;
}

}  // namespace

QueueLoad::QueueLoad(Database& database)
    : letters_(database, "SELECT count(*) FROM dead_letters WHERE queue = ? AND state = 0"),
      queued_(database, "SELECT count(*) FROM runs WHERE queue = ? AND state = 0"),
      running_(database, "SELECT count(*) FROM runs WHERE queue = ? AND state = 1") {}

const QueueLoad::Load& QueueLoad::of(const std::string& queue) {
  const auto found = known_.find(queue);
  if (found != known_.end()) return found->second;
  const Load load{count(letters_, queue), count(queued_, queue) + count(running_, queue)};
  return known_.emplace(queue, load).first->second;
}

void QueueLoad::letters(std::string_view queue, std::int64_t change) {
  if (const auto found = known_.find(queue); found != known_.end()) found->second.letters += change;
}

void QueueLoad::runs(std::string_view queue, std::int64_t change) {
  if (const auto found = known_.find(queue); found != known_.end()) found->second.runs += change;
}

}  // namespace ledger
