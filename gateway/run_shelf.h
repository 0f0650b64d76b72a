#pragma once
// Which of the runs that wait is next? Queues take turns; within one the oldest goes first; of one ordering key only
// one at a time. Where several tenants have runs, none takes all places: it may hold thrice as many as are free, so
// that whoever comes finds one, though all that the others hold wait for their limits.
//
// Pure: what waits is handed in as windows of the store's rows, the oldest first, which hold of each ordering key at
// most the one whose turn it is (ledger/books.h).

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "budget/units.h"
#include "ledger/runs.h"

namespace gateway {

using budget::TimePoint;

class RunShelf {
 public:
  static constexpr std::size_t kWindow = 256;  // Of a queue, read at once.

  /// `all`: at once, of all queues; `per_queue`: 0 is no limit.
  void configure(int all, std::function<int(std::string_view queue)> per_queue);

  void pause(const std::string& queue, TimePoint until) { paused_[queue] = until; }
  bool resume(const std::string& queue);
  [[nodiscard]] bool paused(std::string_view queue, TimePoint now) const;
  /// Until when each is that is paused; TimePoint::max(): until it is resumed.
  [[nodiscard]] std::map<std::string, TimePoint, std::less<>> pauses(TimePoint now) const;
  /// The first end of a pause.
  [[nodiscard]] std::optional<TimePoint> resumes_at(TimePoint now) const;

  /// There may be something to take in that queue.
  void touch(const std::string& queue) { queues_[queue].touched = true; }
  void touch_all();
  /// Queues of which a window is worth reading now.
  [[nodiscard]] std::vector<std::string> to_read(TimePoint now) const;
  /// When one will be, of those that something may be in; nothing: not before something happens.
  [[nodiscard]] std::optional<TimePoint> reads_at(TimePoint now) const;
  /// Forgets queues in which nothing is, but these: their names come from callers.
  void keep_only(const std::vector<std::string>& names);
  /// They are read from now on; what happens meanwhile is not in what is read. One reading at a time.
  void reading(const std::vector<std::string>& queues);
  /// What was read, in place of what was known before.
  void put(const std::string& queue, std::vector<ledger::WaitingRun> window, TimePoint now);

  /// Held from now on, until done().
  std::optional<ledger::WaitingRun> next(TimePoint now);
  void done(const std::string& id);

  [[nodiscard]] bool knows(std::string_view queue) const { return queues_.find(queue) != queues_.end(); }

 private:
  struct Queue {
    std::deque<ledger::WaitingRun> window{};
    bool touched = true;
    TimePoint read_at{};
    int held = 0;
  };
  struct Place {
    std::string queue{};
    std::string order{};
    std::string tenant{};
  };
  [[nodiscard]] bool may_hold_more(const std::string& tenant, TimePoint now) const;
  [[nodiscard]] bool has_room() const { return static_cast<int>(held_.size()) < all_; }
  [[nodiscard]] bool has_room(const std::string& name, const Queue& queue) const;
  [[nodiscard]] static TimePoint readable_at(const Queue& queue);

  int all_ = 64;
  std::function<int(std::string_view)> per_queue_{};
  std::map<std::string, Queue, std::less<>> queues_{};
  std::map<std::string, TimePoint, std::less<>> paused_{};
  std::map<std::string, Place, std::less<>> held_{};
  std::set<std::string, std::less<>> orders_{};           // Ordering keys of those held.
  std::map<std::string, int, std::less<>> held_by_{};     // By tenant.
  std::map<std::string, TimePoint, std::less<>> seen_{};  // Tenants that had something to do, and when last.
  std::set<std::string, std::less<>> left_{};             // Those that were done while a window is read.
  std::string turn_{};                                    // The queue that was served last.
};

}  // namespace gateway
