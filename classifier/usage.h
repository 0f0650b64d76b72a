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

/// Billed quantities that TokenCounts does not tell. Zero: none.
struct Billed {
  std::int64_t audio_input = 0;         // Part of TokenCounts::input.
  std::int64_t cached_audio_input = 0;  // Part of both audio_input and TokenCounts::cached_input.
  std::int64_t image_input = 0;         // Part of TokenCounts::input.
  std::int64_t cached_image_input = 0;  // Part of both image_input and TokenCounts::cached_input.
  std::int64_t image_input_apart = 0;   // Image tokens that the input leaves out (Cohere).
  std::int64_t audio_output = 0;        // Part of TokenCounts::output, not reasoning.
  std::int64_t image_output = 0;        // Part of TokenCounts::output, not reasoning.
  std::int64_t input_ms = 0;            // Audio that was heard.
  std::int64_t output_ms = 0;           // Audio or video that was made.
  std::int64_t input_images = 0;
  std::int64_t output_images = 0;  // That were made and are not counted in tokens.
  std::int64_t input_characters = 0;
  std::int64_t output_characters = 0;
  std::int64_t queries = 0;  // Search units of a reranker.
  std::int64_t pages = 0;
  std::int64_t web_searches = 0;
  bool operator==(const Billed&) const = default;
};

struct Usage {
  std::optional<TokenCounts> tokens{};
  /// Counts were reported that are none (null, negative, broken): what else is known is not all that was used.
  bool tokens_unknown = false;
  Billed billed{};
  /// What the answer itself says that it cost, decimal text in USD ("0.0079", "37756000e-10"), else empty.
  std::string stated_usd{};
  std::string stated_beside_usd{};      // What is paid on top to somebody else (a key of one's own), else empty.
  std::string model{};                  // As named in the answer, else empty.
  std::optional<std::string> finish{};  // Raw reason of index 0, nothing if none was seen.
  std::string service_tier{};           // As named in the answer, else empty.
  std::string speed{};                  // Likewise (Anthropic: "standard", "fast").
  std::string inference_geo{};          // Likewise (Anthropic: "global", "us").
};

}  // namespace classifier
