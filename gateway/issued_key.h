#pragma once
// Keys that callgate issues to workers: how one looks, how a new one is made, and what is kept of it.
//
// A worker puts it where its SDK puts the provider's key. The configuration holds digests only (tenants.*.keys).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gateway {

using KeyDigest = std::array<std::uint8_t, 32>;  // SHA-256

/// 256 bits of chance in letters and digits, "cg_…". Throws std::runtime_error if there is no chance to be had.
[[nodiscard]] std::string new_issued_key();

/// The key in a value of a header or of the query: by itself, or behind a scheme ("Bearer cg_…"). Empty if what
/// stands there does not begin like one of ours. However wrong the rest is, it is never for a provider.
[[nodiscard]] std::string_view issued_key_in(std::string_view value);

[[nodiscard]] KeyDigest digest_of_key(std::string_view key);
/// 64 small hexadecimal digits, as the configuration has it, and back (large ones, too).
[[nodiscard]] std::string text_of(const KeyDigest& digest);
[[nodiscard]] std::optional<KeyDigest> key_digest_of(std::string_view text);
/// In a time that does not depend on where they differ.
[[nodiscard]] bool same_digest(const KeyDigest& one, const KeyDigest& other);

}  // namespace gateway
