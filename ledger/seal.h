#pragma once
// How is a payload kept secret on disk? AES-256-GCM under a key of the operator's.
//
//   byte    0   1 .. 8                9 .. 20          21 ..            last 16
//           1   which key             nonce, random    the sealed text  tag
//
// Which key: the first eight bytes of the key's SHA-256, so that after a rotation the old one is found.

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace ledger {

inline constexpr std::size_t kSealKeyBytes = 32;

class Seal {
 public:
  /// `key` writes and reads, `old_keys` only read. Each has 32 bytes.
  explicit Seal(std::string key, std::vector<std::string> old_keys = {});
  ~Seal();
  Seal(const Seal&) = delete;
  Seal& operator=(const Seal&) = delete;

  /// `bound_to` is not stored: what was sealed with other words cannot be opened with these.
  [[nodiscard]] std::string seal(std::string_view text, std::string_view bound_to) const;
  /// The error says why: its key is not here, or the bytes are not as they were sealed.
  [[nodiscard]] std::expected<std::string, std::string> open(std::string_view sealed,
                                                             std::string_view bound_to) const;

 private:
  struct Key {
    std::string bytes{};
    std::string id{};
  };
  std::vector<Key> keys_{};  // The first one writes.
};

/// What a file of keys says: 32 raw bytes, or keys as 64 hexadecimal digits or base64 of 32 bytes, one a line; the
/// first writes, the others only read. The error says what it must be, and never what it holds.
[[nodiscard]] std::expected<std::vector<std::string>, std::string> payload_keys_in(std::string_view text);

}  // namespace ledger
