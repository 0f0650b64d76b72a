#pragma once
// What was used? Tokens as the provider reported them, in one normal form for all dialects.

#include <cstdint>
#include <optional>
#include <string>

namespace classifier {

/// Nothing reported is nothing here, not zero: all six are set together or not at all.
struct TokenCounts {
  std::int64_t input = 0;           // All billed input, cache reads and writes included.
  std::int64_t cached_input = 0;    // Part of input.
  std::int64_t cache_write_5m = 0;  // Part of input.
  std::int64_t cache_write_1h = 0;  // Part of input.
  std::int64_t output = 0;          // All billed output, reasoning included.
  std::int64_t reasoning = 0;       // Part of output.
  bool operator==(const TokenCounts&) const = default;
};

struct Usage {
  std::optional<TokenCounts> tokens{};
  std::string model{};                  // As named in the answer, else empty.
  std::optional<std::string> finish{};  // Raw reason of index 0, nothing if none was seen.
  std::string service_tier{};           // As named in the answer, else empty.
};

}  // namespace classifier
