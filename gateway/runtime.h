#pragma once
// The real clock and real chance.

#include <random>

#include "gateway/services.h"

namespace gateway {

class RealRuntime final : public Runtime {
 public:
  RealRuntime();
  [[nodiscard]] TimePoint now() const override;
  [[nodiscard]] WallTime wall_now() const override;
  [[nodiscard]] double roll() override;
  [[nodiscard]] std::uint64_t random_bits() override;
  task<void> wait(Signal& signal, TimePoint until) override;

 private:
  std::mt19937_64 chance_;
};

}  // namespace gateway
