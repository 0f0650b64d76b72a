#include "gateway/run_shelf.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace gateway {
namespace {

// What has become free behind others in a window waits no longer for it to run out.
constexpr std::chrono::milliseconds kReadAgain{100};
constexpr std::chrono::milliseconds kReadPace{10};
constexpr std::chrono::minutes kSeenFor{10};
constexpr int kShare = 3;
constexpr std::size_t kMostSeen = 1'000;

std::string order_of(const ledger::WaitingRun& run) {
  if (run.ordering_key.empty()) return {};
  return run.tenant + '\n' + run.queue + '\n' + run.ordering_key;
}

}  // namespace

void RunShelf::configure(int all, std::function<int(std::string_view)> per_queue) {
  all_ = all;
  per_queue_ = std::move(per_queue);
}

bool RunShelf::resume(const std::string& queue) {
  const bool was = paused_.erase(queue) > 0;
  if (const auto found = queues_.find(queue); found != queues_.end()) found->second.touched = true;
  return was;
}

bool RunShelf::paused(std::string_view queue, TimePoint now) const {
  const auto found = paused_.find(queue);
  return found != paused_.end() && found->second > now;
}

std::map<std::string, TimePoint, std::less<>> RunShelf::pauses(TimePoint now) const {
  std::map<std::string, TimePoint, std::less<>> all = paused_;
  std::erase_if(all, [now](const auto& one) { return one.second <= now; });
  return all;
}

std::optional<TimePoint> RunShelf::resumes_at(TimePoint now) const {
  std::optional<TimePoint> first;
  for (const auto& [queue, until] : paused_) {
    if (until > now && until != TimePoint::max() && (!first || until < *first)) first = until;
  }
  return first;
}

void RunShelf::touch_all() {
  for (auto& [name, queue] : queues_) queue.touched = true;
}

bool RunShelf::has_room(const std::string& name, const Queue& queue) const {
  const int most = per_queue_ ? per_queue_(name) : 0;
  return has_room() && (most == 0 || queue.held < most);
}

std::vector<std::string> RunShelf::to_read(TimePoint now) const {
  std::vector<std::string> names;
  for (const auto& [name, queue] : queues_) {
    if (!queue.touched || !has_room(name, queue) || paused(name, now)) continue;
    if (readable_at(queue) <= now) names.push_back(name);
  }
  return names;
}

TimePoint RunShelf::readable_at(const Queue& queue) {
  if (queue.read_at == TimePoint{}) return queue.read_at;
  return queue.read_at + (queue.window.empty() ? kReadPace : kReadAgain);
}

std::optional<TimePoint> RunShelf::reads_at(TimePoint now) const {
  std::optional<TimePoint> first;
  for (const auto& [name, queue] : queues_) {
    if (!queue.touched || !has_room(name, queue) || paused(name, now)) continue;
    const TimePoint at = readable_at(queue);
    if (!first || at < *first) first = at;
  }
  return first;
}

void RunShelf::keep_only(const std::vector<std::string>& names) {
  std::erase_if(queues_, [&](const auto& entry) {
    const Queue& queue = entry.second;
    return !queue.touched && queue.held == 0 && queue.window.empty() &&
           std::ranges::find(names, entry.first) == names.end();
  });
}

void RunShelf::reading(const std::vector<std::string>& queues) {
  left_.clear();
  for (const std::string& name : queues) queues_[name].touched = false;
}

void RunShelf::put(const std::string& name, std::vector<ledger::WaitingRun> window, TimePoint now) {
  Queue& queue = queues_[name];
  queue.touched = queue.touched || window.size() >= kWindow;
  queue.read_at = now;
  queue.window.clear();
  if (seen_.size() > kMostSeen)
    std::erase_if(seen_, [&](const auto& entry) { return now - entry.second >= kSeenFor; });
  for (ledger::WaitingRun& run : window) {
    seen_[run.tenant] = now;
    if (!held_.contains(run.id) && !left_.contains(run.id)) queue.window.push_back(std::move(run));
  }
}

bool RunShelf::may_hold_more(const std::string& tenant, TimePoint now) const {
  const bool others = std::ranges::any_of(
      seen_, [&](const auto& entry) { return entry.first != tenant && now - entry.second < kSeenFor; });
  if (!others) return true;
  const auto held = held_by_.find(tenant);
  return held == held_by_.end() || held->second < kShare * (all_ - static_cast<int>(held_.size()));
}

std::optional<ledger::WaitingRun> RunShelf::next(TimePoint now) {
  if (!has_room() || queues_.empty()) return std::nullopt;
  auto at = queues_.upper_bound(turn_);
  for (std::size_t looked = 0; looked < queues_.size(); ++looked, ++at) {
    if (at == queues_.end()) at = queues_.begin();
    Queue& queue = at->second;
    if (!has_room(at->first, queue) || paused(at->first, now)) continue;
    const auto first = std::ranges::find_if(queue.window, [&](const ledger::WaitingRun& run) {
      return may_hold_more(run.tenant, now) && (run.ordering_key.empty() || !orders_.contains(order_of(run)));
    });
    if (first == queue.window.end()) continue;
    ledger::WaitingRun run = std::move(*first);
    queue.window.erase(first);
    queue.held += 1;
    std::string order = order_of(run);
    if (!order.empty()) orders_.insert(order);
    held_by_[run.tenant] += 1;
    held_[run.id] = {at->first, std::move(order), run.tenant};
    turn_ = at->first;
    return run;
  }
  return std::nullopt;
}

void RunShelf::done(const std::string& id) {
  const auto found = held_.find(id);
  if (found == held_.end()) return;
  Queue& queue = queues_[found->second.queue];
  queue.held -= 1;
  queue.touched = true;
  orders_.erase(found->second.order);
  if (const auto tenant = held_by_.find(found->second.tenant); --tenant->second == 0) held_by_.erase(tenant);
  left_.insert(id);
  held_.erase(found);
}

}  // namespace gateway
