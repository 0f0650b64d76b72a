#include "gateway/public_address.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace gateway {
namespace {

struct Block {
  std::array<std::uint8_t, 16> front{};
  unsigned bits = 0;
};

bool is_in(std::span<const std::uint8_t> address, const Block& block) {
  for (unsigned bit = 0; bit < block.bits; bit += 8) {
    const unsigned left = std::min(8U, block.bits - bit);
    const auto mask = static_cast<std::uint8_t>(0xFFU << (8U - left));
    if ((address[bit / 8] & mask) != (block.front[bit / 8] & mask)) return false;
  }
  return true;
}

constexpr Block kNotPublic4[] = {
    {{0}, 8},                  // "This network".
    {{10}, 8},                 // Private.
    {{100, 64}, 10},           // Shared: CGNAT; Alibaba's metadata.
    {{127}, 8},                // Loopback.
    {{168, 63, 129, 16}, 32},  // Azure's host, from inside a virtual machine.
    {{169, 254}, 16},          // Link-local; most clouds' metadata.
    {{172, 16}, 12},           // Private.
    {{192, 0, 0}, 24},         // IETF; Oracle's metadata.
    {{192, 0, 2}, 24},         // Documentation.
    {{192, 88, 99}, 24},       // 6to4 relays, given up.
    {{192, 168}, 16},          // Private.
    {{198, 18}, 15},           // Benchmarks.
    {{198, 51, 100}, 24},      // Documentation.
    {{203, 0, 113}, 24},       // Documentation.
    {{224}, 3},                // Multicast, reserved, broadcast.
};

// IPv6 is public only where it has been given out: 2000::/3, without these.
constexpr Block kGlobal6 = {{0x20}, 3};
constexpr Block kNotPublic6[] = {
    {{0x20, 0x01, 0x00}, 23},        // IETF; Teredo.
    {{0x20, 0x01, 0x0d, 0xb8}, 32},  // Documentation.
    {{0x3f, 0xff, 0x00}, 20},        // Documentation.
};

struct Embedding {
  Block block{};
  std::size_t at = 0;  // Of the IPv4 address.
};
constexpr Embedding kEmbeddings[] = {
    {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96}, 12},  // Mapped.
    {{{0x00, 0x64, 0xff, 0x9b}, 96}, 12},                    // NAT64.
    {{{0x20, 0x02}, 16}, 2},                                 // 6to4.
};

constexpr Block kInside4[] = {{{10}, 8}, {{172, 16}, 12}, {{192, 168}, 16}, {{100, 64}, 10}};
constexpr Block kInside6 = {{0xfc}, 7};
constexpr Block kMetadata4 = {{100, 100, 100, 200}, 32};  // Alibaba's; others' are not inside.
constexpr Block kMetadata6 = {{0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54}, 128};  // AWS's.

}  // namespace

bool is_inside(std::span<const std::uint8_t> address) {
  const auto in = [&](const Block& block) { return is_in(address, block); };
  if (address.size() == 4) return std::ranges::any_of(kInside4, in) && !in(kMetadata4);
  if (address.size() != 16) return false;
  for (const Embedding& embedding : kEmbeddings) {
    if (in(embedding.block)) return is_inside(address.subspan(embedding.at, 4));
  }
  return in(kInside6) && !in(kMetadata6);
}

bool is_public(std::span<const std::uint8_t> address) {
  const auto in = [&](const Block& block) { return is_in(address, block); };
  if (address.size() == 4) return std::ranges::none_of(kNotPublic4, in);
  if (address.size() != 16) return false;
  for (const Embedding& embedding : kEmbeddings) {
    if (in(embedding.block)) return is_public(address.subspan(embedding.at, 4));
  }
  return in(kGlobal6) && std::ranges::none_of(kNotPublic6, in);
}

}  // namespace gateway
