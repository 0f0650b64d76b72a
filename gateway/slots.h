#pragma once
// Where does a call wait for a free slot? In memory, one line per upstream, for as many as it may serve at once.

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "gateway/config.h"
#include "gateway/services.h"

namespace gateway {

/// An attempt that wants a slot.
struct SlotAsk {
  std::string upstream{};
  budget::Lane lane = budget::Lane::Bulk;
  TimePoint deadline{};
  bool again = false;
};

struct SlotLimits {
  std::map<std::string, int, std::less<>> concurrent{};  // By upstream; 0 or absent: no limit.
  Config::Queue queue{};
};

[[nodiscard]] std::chrono::milliseconds longest_wait_of(const Config::Queue& queue, budget::Lane lane);

/// I/O thread only.
class Slots {
 public:
  /// `moved` hears of every entering (+1) and leaving (-1) of the line.
  Slots(Runtime& runtime, SlotLimits limits, std::function<void(budget::Lane, int)> moved);

  /// A slot if one is free and nobody waits for it.
  [[nodiscard]] std::optional<Permit> try_take(const std::string& upstream);
  /// Stands in line for one.
  task<std::expected<Permit, Refusal>> wait(const SlotAsk& ask, Signal& signal);
  /// Those who sleep elsewhere count against the queue's bound, too.
  [[nodiscard]] bool is_full(std::size_t asleep) const { return waiting_ + asleep >= limits_.queue.total; }
  [[nodiscard]] const SlotLimits& limits() const { return limits_; }

  /// New limits hold for what comes and what waits; what is in flight keeps its place.
  void update(SlotLimits limits);
  [[nodiscard]] int in_use(std::string_view upstream) const;
  [[nodiscard]] std::size_t waiting() const { return waiting_; }

 private:
  struct Entry {
    Signal* signal = nullptr;
    bool again = false;
    bool granted = false;
  };
  struct Line {
    int in_use = 0;
    double mean_hold_seconds = 0;  // Of late; what a place in the line costs.
    std::list<Entry*> entries{};
  };
  [[nodiscard]] bool free(const std::string& upstream, const Line& line) const;
  [[nodiscard]] Permit take(const std::string& upstream);
  void give_back(const std::string& upstream, TimePoint since);
  [[nodiscard]] std::chrono::milliseconds true_wait(const std::string& upstream, const Line& line) const;
  void grant(const std::string& upstream, Line& line);

  Runtime& runtime_;
  SlotLimits limits_;
  std::function<void(budget::Lane, int)> moved_;
  std::map<std::string, Line, std::less<>> lines_{};
  std::size_t waiting_ = 0;
};

}  // namespace gateway
