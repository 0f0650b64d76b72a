#include "gateway/fault_point.h"

#ifdef CALLGATE_FAULT_POINTS

#include <array>
#include <cassert>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace gateway {
namespace {

constexpr std::array<std::string_view, 8> kNames = {
    "claimed", "opened", "started", "head", "part", "answered", "ended", "said"};

struct Death {
  Step step;
  int passes;  // Until then.
};

std::optional<Death> ordered() {
  const char* text = std::getenv("CALLGATE_KILL_AT");
  if (!text) return std::nullopt;
  const std::string_view order{text};
  const std::size_t colon = order.find(':');
  for (std::size_t i = 0; colon != std::string_view::npos && i < kNames.size(); ++i) {
    if (order.substr(0, colon) != kNames[i]) continue;
    const std::string_view number = order.substr(colon + 1);
    Death death{static_cast<Step>(i), 0};
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), death.passes);
    if (error == std::errc{} && end == number.data() + number.size() && death.passes > 0) return death;
  }
  assert(!"CALLGATE_KILL_AT is STEP:N; gateway/fault_point.h has the steps");
  return std::nullopt;
}

}  // namespace

void fault_point(Step step) {
  static std::optional<Death> death = ordered();
  if (death && death->step == step && --death->passes == 0) (void)std::raise(SIGKILL);
}

}  // namespace gateway

#else

namespace gateway {

void fault_point(Step /*step*/) {}

}  // namespace gateway

#endif
