#include "gateway/call_id.h"

namespace gateway {

std::string new_call_id(WallTime now, std::uint64_t random_a, std::uint64_t random_b) {
  const auto ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count());
  const std::uint64_t high = (ms << 16) | 0x7000U | (random_a & 0x0FFFU);
  const std::uint64_t low = 0x8000'0000'0000'0000U | (random_b >> 2);
  constexpr char kHex[] = "0123456789abcdef";
  std::string id;
  id.reserve(36);
  for (int i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) id += '-';
    const std::uint64_t half = i < 16 ? high : low;
    id += kHex[(half >> (60 - 4 * (i % 16))) & 0xFU];
  }
  return id;
}

}  // namespace gateway
