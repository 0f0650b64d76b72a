#pragma once
// Which calls are under way, and who ends them before their time?

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "budget/lane.h"
#include "gateway/services.h"

namespace gateway {

/// One call under way. The story keeps `upstream` and `attempt` true.
struct LiveCall {
  std::string id{};
  std::string tenant{};
  std::string run_id{};
  std::string route{};
  std::string model{};
  budget::Lane lane = budget::Lane::Bulk;
  TimePoint since{};
  std::string upstream{};  // Of the attempt in flight; empty: it waits.
  int attempt = 0;         // Begun so far.
  Signal* signal = nullptr;
};

/// What a cancellation is aimed at: exactly one of them is set.
struct CancelWhat {
  std::string call_id{};
  std::string run_id{};
  std::string tenant{};  // With one of the others: only if it is this tenant's.
};

/// I/O thread only.
class LiveCalls {
 public:
  /// In the list for as long as it lives.
  class Entry {
   public:
    Entry(LiveCalls& all, LiveCall call) : all_(all), place_(all.calls_.insert(all.calls_.end(), std::move(call))) {}
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() { all_.calls_.erase(place_); }
    LiveCall& operator*() { return *place_; }

   private:
    LiveCalls& all_;
    std::list<LiveCall>::iterator place_;
  };

  /// How many were under way and are told to end.
  std::size_t cancel(const CancelWhat& what);
  /// The oldest first.
  [[nodiscard]] std::vector<LiveCall> list(std::size_t most) const;
  [[nodiscard]] std::size_t size() const { return calls_.size(); }

 private:
  std::list<LiveCall> calls_{};
};

}  // namespace gateway
