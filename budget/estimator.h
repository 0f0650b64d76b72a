#pragma once
// How many tokens will a call take? Learned from those that were settled (design §5).

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "budget/lru.h"

namespace budget {

/// What is known of a request before it goes.
struct Sizes {
  std::uint64_t text_bytes = 0;               // Of the body, without inline media.
  std::uint64_t media_bytes = 0;              // Inline images, audio and files (base64).
  int media = 0;                              // How many of them.
  std::optional<std::int64_t> most_output{};  // max_tokens and its like, times n.
};

struct Expected {
  std::int64_t input = 0;
  std::int64_t output = 0;
};

/// Bytes per token, tokens per piece of media and the output's p90, by upstream and model; bounded (LRU), since names
/// of models come from callers. Unknown ones begin at what is usual. One sample beyond all sense moves little.
/// Single-threaded.
class Estimator {
 public:
  Estimator();
  [[nodiscard]] Expected expect(std::string_view upstream, std::string_view model, const Sizes& sizes);
  void learn(std::string_view upstream, std::string_view model, const Sizes& sizes, std::int64_t input,
             std::int64_t output);

 private:
  static constexpr std::size_t kOutputPlaces = 96;

  /// Moves by factors, since that is how such numbers differ: the first samples far, later ones a little.
  struct Factor {
    double value;
    int samples;
    void learn(double sample, double least, double most);
  };
  /// A histogram of which older ones fade; four places to each doubling, the first for none at all.
  struct Outputs {
    Outputs();
    void learn(double tokens);
    static std::size_t place_of(double tokens);
    std::array<float, kOutputPlaces> counts{};
    double p90;
    int samples = 0;
  };
  struct Model {
    Model();
    Factor bytes_per_token;
    Factor tokens_per_piece;
    Outputs outputs;
  };

  /// Leaves the name of both in `key_`.
  Model* find(std::string_view upstream, std::string_view model);

  Lru<Model> models_;
  std::string key_;
};

}  // namespace budget
