#pragma once
// How many tokens will a call take? Learned from those that were settled (design §5).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace budget {

/// What is known of a request before it goes.
struct Sizes {
  std::uint64_t text_bytes = 0;   // Of the body, without inline media.
  std::uint64_t media_bytes = 0;  // Inline images, audio and files (base64).
  int media = 0;                  // How many of them.
  std::optional<std::int64_t> most_output{};  // max_tokens and its like, times n.
};

struct Expected {
  std::int64_t input = 0;
  std::int64_t output = 0;
};

/// Bytes per token, tokens per piece of media and the output's p90, by upstream and model; bounded (LRU), since names
/// of models come from callers. Unknown ones begin at what is usual. Single-threaded.
class Estimator {
 public:
  Estimator();
  [[nodiscard]] Expected expect(std::string_view upstream, std::string_view model, const Sizes& sizes);
  void learn(std::string_view upstream, std::string_view model, const Sizes& sizes, std::int64_t input,
             std::int64_t output);

 private:
  // (state is the implementer's)
};

}  // namespace budget
