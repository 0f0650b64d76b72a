#pragma once
// What did the provider literally report, and what does it come to? Providers count the same tokens in different
// boxes; here are the boxes, and one function per way of counting that puts them in normal form (usage.h).

#include <cstdint>
#include <optional>

#include "classifier/usage.h"

namespace classifier {

/// A count that was reported and is none (negative, broken, beyond all sense). With one of these nothing is known.
inline constexpr std::int64_t kUnreadable = -1;
/// A count that the provider itself says it does not know: null in the place of input or output.
inline constexpr std::int64_t kNull = -2;

/// Fields as reported. In a stream the last value per field wins: nothing is ever added up over events.
struct Reported {
  std::optional<std::int64_t> input{};
  std::optional<std::int64_t> tool_input{};  // Gemini: input that the prompt's count leaves out.
  std::optional<std::int64_t> cached{};
  std::optional<std::int64_t> written{};
  std::optional<std::int64_t> written_5m{};
  std::optional<std::int64_t> written_1h{};
  std::optional<std::int64_t> output{};
  std::optional<std::int64_t> reasoning{};
  std::optional<std::int64_t> total{};
};

/// Some count is kUnreadable or kNull.
[[nodiscard]] bool unreadable(const Reported& reported);

/// Nothing where no token usage was reported.
using Settle = std::optional<TokenCounts> (*)(const Reported&);

/// Details are parts of prompt and completion, unless `total` or their own size proves them to stand outside.
/// An output of null is what `total` leaves for it.
[[nodiscard]] std::optional<TokenCounts> settle_openai(const Reported& reported);
/// Input leaves cache reads and writes out.
[[nodiscard]] std::optional<TokenCounts> settle_anthropic(const Reported& reported);
/// Input and output, and nothing else.
[[nodiscard]] std::optional<TokenCounts> settle_plain(const Reported& reported);
/// Output leaves thoughts out, the prompt leaves tool use out.
[[nodiscard]] std::optional<TokenCounts> settle_gemini(const Reported& reported);

}  // namespace classifier
