#include "gateway/export_queue.h"

#include <algorithm>
#include <utility>

namespace gateway {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{1'000};
constexpr milliseconds kLongestPause{30'000};
constexpr milliseconds kGiveUpAfter{60'000};

/// About; texts of a usual length are in it.
std::size_t bytes_of(const CallRecord& record) {
  std::size_t bytes = sizeof(CallRecord) + 512 + record.attempts.size() * (sizeof(AttemptRow) + 128);
  return bytes + record.path.size() + record.labels.size() + record.bug.size();
}

bool may_pass(int status) { return status == 0 || status == 429 || status == 502 || status == 503 || status == 504; }

}  // namespace

bool ExportQueue::offer(const CallRecord& record, TimePoint now) {
  const std::size_t spans = spans_in(record);
  const std::size_t bytes = bytes_of(record);
  if (spans_ + spans > bounds_.spans || bytes_ + bytes > bounds_.bytes) return false;
  entries_.push_back({record, bytes, now});
  spans_ += spans;
  bytes_ += bytes;
  return true;
}

TimePoint ExportQueue::due() const {
  if (entries_.empty()) return TimePoint::max();
  const TimePoint oldest = entries_.front().since;
  return spans_ >= bounds_.batch ? oldest : oldest + bounds_.delay;
}

std::vector<CallRecord> ExportQueue::take() {
  std::vector<CallRecord> batch;
  std::size_t taken = 0;
  while (!entries_.empty()) {
    Entry& entry = entries_.front();
    const std::size_t spans = spans_in(entry.record);
    if (taken > 0 && taken + spans > bounds_.batch) break;
    taken += spans;
    spans_ -= spans;
    bytes_ -= entry.bytes;
    batch.push_back(std::move(entry.record));
    entries_.pop_front();
  }
  return batch;
}

ExportStep after(const OtlpAnswer& answer, const Tried& tried, double roll) {
  if (answer.status >= 200 && answer.status < 300)
    return {answer.rejected > 0 ? Exported::Partial : Exported::Sent, std::nullopt};
  if (!may_pass(answer.status)) return {Exported::Refused, std::nullopt};
  ExportStep step{Exported::Again, std::nullopt};
  const int doublings = std::clamp(tried.tries - 1, 0, 10);
  const milliseconds most = std::min(kLongestPause, kFirstPause * (1 << doublings));
  // Half of it is fixed: a collector that restarts is not asked at once by all.
  const milliseconds jittered = most / 2 + std::chrono::floor<milliseconds>(most / 2 * roll);
  const milliseconds pause = answer.retry_after ? std::max(*answer.retry_after, kFirstPause) : jittered;
  if (pause <= kGiveUpAfter && tried.spent + pause <= kGiveUpAfter) step.again_in = pause;
  return step;
}

}  // namespace gateway
