#pragma once
// Where does a call wait for its turn? In memory, one line per upstream, for as many as it may serve at once.

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "gateway/config.h"
#include "gateway/services.h"

namespace gateway {

struct AdmissionLimits {
  std::map<std::string, int, std::less<>> concurrent{};  // By upstream; 0 or absent: no limit.
  Config::Queue queue{};
};

/// I/O thread only.
class LineAdmission final : public Admission {
 public:
  /// `moved` hears of every entering (+1) and leaving (-1) of the line.
  LineAdmission(Runtime& runtime, AdmissionLimits limits, std::function<void(budget::Lane, int)> moved);

  task<std::expected<Permit, Refusal>> admit(const Ask& ask, Signal& signal) override;

  /// New limits hold for what comes and what waits; what is in flight keeps its place.
  void update(AdmissionLimits limits);
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
  AdmissionLimits limits_;
  std::function<void(budget::Lane, int)> moved_;
  std::map<std::string, Line, std::less<>> lines_{};
  std::size_t waiting_ = 0;
};

}  // namespace gateway
