#pragma once
// Is it the same? SHA-256 over parts that are told apart by their lengths, so that no text can pose as two.

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

namespace gateway {

class Digest {
 public:
  /// Throws std::runtime_error if there is no SHA-256 to be had.
  Digest();
  void add(std::string_view part);
  /// Once, at the end.
  [[nodiscard]] std::array<std::uint8_t, 32> end();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
};

}  // namespace gateway
