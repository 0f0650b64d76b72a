#pragma once
// What stands in a compressed body?

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace classifier {

struct Inflated {
  std::string text{};
  bool whole = true;  // Else the input was cut, or there was more than `bytes_max`.
};
/// Undoes gzip (also of several members) and deflate (with and without zlib's header). Nothing if the bytes are
/// neither.
[[nodiscard]] std::optional<Inflated> inflate(std::string_view bytes, std::size_t bytes_max);

}  // namespace classifier
