#include "gateway/slots.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace gateway {
namespace {

constexpr double kLearn = 0.1;
constexpr std::chrono::milliseconds kShortestWait{1'000};
constexpr std::chrono::milliseconds kLongestWait{600'000};

}  // namespace

std::chrono::milliseconds longest_wait_of(const Config::Queue& queue, budget::Lane lane) {
  const Config::Queue::MaxWait& waits = queue.max_wait;
  switch (lane) {
    case budget::Lane::Interactive:
      return waits.interactive;
    case budget::Lane::Bulk:
      return waits.bulk;
    case budget::Lane::Backfill:
      return waits.backfill;
  }
  return waits.bulk;
}

Slots::Slots(Runtime& runtime, SlotLimits limits, std::function<void(budget::Lane, int)> moved)
    : runtime_(runtime), limits_(std::move(limits)), moved_(std::move(moved)) {}

bool Slots::free(const std::string& upstream, const Line& line) const {
  const auto limit = limits_.concurrent.find(upstream);
  return limit == limits_.concurrent.end() || limit->second <= 0 || line.in_use < limit->second;
}

Permit Slots::take(const std::string& upstream) {
  return Permit{[this, upstream, since = runtime_.now()] { give_back(upstream, since); }};
}

void Slots::give_back(const std::string& upstream, TimePoint since) {
  Line& line = lines_[upstream];
  assert(line.in_use > 0);
  const double held = std::chrono::duration<double>(runtime_.now() - since).count();
  line.mean_hold_seconds += (line.mean_hold_seconds == 0 ? 1.0 : kLearn) * (held - line.mean_hold_seconds);
  --line.in_use;
  grant(upstream, line);
}

/// How long a newcomer would wait: those before it, by what a slot was held of late.
std::chrono::milliseconds Slots::true_wait(const std::string& upstream, const Line& line) const {
  const auto limit = limits_.concurrent.find(upstream);
  const int slots = limit == limits_.concurrent.end() ? 1 : std::max(limit->second, 1);
  const double seconds = static_cast<double>(line.entries.size() + 1) * line.mean_hold_seconds / slots;
  return std::clamp(std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>{seconds}),
                    kShortestWait,
                    kLongestWait);
}

void Slots::grant(const std::string& upstream, Line& line) {
  while (!line.entries.empty() && free(upstream, line)) {
    Entry* next = line.entries.front();
    line.entries.pop_front();
    next->granted = true;
    ++line.in_use;
    next->signal->ring();
  }
}

std::optional<Permit> Slots::try_take(const std::string& upstream) {
  Line& line = lines_[upstream];
  if (!line.entries.empty() || !free(upstream, line)) return std::nullopt;
  ++line.in_use;
  return take(upstream);
}

task<std::expected<Permit, Refusal>> Slots::wait(const SlotAsk& ask, Signal& signal) {
  const std::string upstream = ask.upstream;
  // What is begun after its deadline would be paid for nothing.
  if (runtime_.now() >= ask.deadline) co_return std::unexpected(Refusal{Refusal::Why::Deadline});
  std::optional<Permit> at_once = try_take(upstream);
  if (at_once) co_return std::move(*at_once);
  if (signal.draining()) co_return std::unexpected(Refusal{Refusal::Why::Draining});
  Line& line = lines_[upstream];
  if (!ask.again && waiting_ >= limits_.queue.total) {
    co_return std::unexpected(Refusal{Refusal::Why::QueueFull, true_wait(upstream, line)});
  }

  Entry entry{&signal, ask.again, false};
  // A retry has waited before: it stands behind other retries and before those who have not begun.
  const auto place = ask.again ? std::ranges::find_if(line.entries, [](const Entry* other) { return !other->again; })
                               : line.entries.end();
  line.entries.insert(place, &entry);
  ++waiting_;
  const budget::Lane lane = ask.lane;
  if (moved_) moved_(lane, 1);
  const TimePoint since = runtime_.now();
  // Asked anew each time: a reload may have changed it.
  const auto patience = [&] { return since + longest_wait_of(limits_.queue, lane); };
  while (!entry.granted && !signal.stopped() && !signal.draining()) {
    const TimePoint until = std::min(ask.deadline, patience());
    if (runtime_.now() >= until) break;
    co_await runtime_.wait(signal, until);
  }
  const bool by_deadline = ask.deadline <= patience();
  --waiting_;
  if (moved_) moved_(lane, -1);
  if (entry.granted) {
    Permit permit = take(upstream);
    if (!signal.stopped()) co_return permit;
    permit.release();
    co_return std::unexpected(Refusal{Refusal::Why::Stopped});
  }
  line.entries.remove(&entry);
  if (signal.stopped()) co_return std::unexpected(Refusal{Refusal::Why::Stopped});
  if (signal.draining()) co_return std::unexpected(Refusal{Refusal::Why::Draining});
  const Refusal::Why why = by_deadline ? Refusal::Why::Deadline : Refusal::Why::WaitedTooLong;
  co_return std::unexpected(Refusal{why, true_wait(upstream, line)});
}

void Slots::update(SlotLimits limits) {
  // An upstream that has gone ends its calls under the limit that they came under.
  for (const auto& [upstream, limit] : limits_.concurrent) {
    const auto line = lines_.find(upstream);
    const bool busy = line != lines_.end() && (line->second.in_use > 0 || !line->second.entries.empty());
    if (busy) limits.concurrent.try_emplace(upstream, limit);
  }
  limits_ = std::move(limits);
  for (auto& [upstream, line] : lines_) {
    grant(upstream, line);
    // Whoever still waits may have to wait longer now, or less long.
    for (const Entry* entry : line.entries) entry->signal->ring();
  }
}

int Slots::in_use(std::string_view upstream) const {
  const auto line = lines_.find(upstream);
  return line == lines_.end() ? 0 : line->second.in_use;
}

}  // namespace gateway
