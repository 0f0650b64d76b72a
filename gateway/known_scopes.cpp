#include "gateway/known_scopes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

namespace gateway {
namespace {

constexpr std::size_t kWordBits = 64;

std::array<std::uint64_t, 4> probes_of(const ledger::Digest& scope) {
  std::array<std::uint64_t, 4> probes{};
  static_assert(sizeof(probes) == sizeof(ledger::Digest));
  std::memcpy(probes.data(), scope.data(), sizeof(probes));
  return probes;
}

}  // namespace

KnownScopes::KnownScopes(const Sizes& sizes) : sizes_(sizes) {
  // A mask makes a place of a word.
  assert(std::has_single_bit(sizes_.first) && std::has_single_bit(sizes_.largest));
  assert(sizes_.first <= sizes_.largest && sizes_.largest <= sizes_.all);
}

bool KnownScopes::Generation::has(const ledger::Digest& scope) const {
  return std::ranges::all_of(probes_of(scope), [&](std::uint64_t probe) {
    const std::uint64_t bit = probe & (words.size() * kWordBits - 1);
    return (words[bit / kWordBits] >> (bit % kWordBits) & 1U) != 0;
  });
}

void KnownScopes::Generation::add(const ledger::Digest& scope) {
  for (const std::uint64_t probe : probes_of(scope)) {
    const std::uint64_t bit = probe & (words.size() * kWordBits - 1);
    words[bit / kWordBits] |= std::uint64_t{1} << (bit % kWordBits);
  }
  ++scopes;
}

void KnownScopes::add(const ledger::Digest& scope, Time until, Time now) {
  drop_old(now);
  // One that an older generation has is added all the same: kept alive by those who come again, it would never go.
  if (generations_.empty() || !generations_.back().has(scope)) to_fill().add(scope);
  generations_.back().until = std::max(generations_.back().until, until);
}

bool KnownScopes::certainly_new(const ledger::Digest& scope) const {
  return complete_ && std::ranges::none_of(generations_, [&](const Generation& one) { return one.has(scope); });
}

void KnownScopes::drop_old(Time now) {
  std::erase_if(generations_, [&](const Generation& one) {
    if (one.until >= now) return false;
    bytes_ -= one.bytes();
    return true;
  });
}

KnownScopes::Generation& KnownScopes::to_fill() {
  if (!generations_.empty() && generations_.back().scopes < generations_.back().room()) return generations_.back();
  const std::size_t wanted =
      generations_.empty() ? sizes_.first : std::min(generations_.back().bytes() * 2, sizes_.largest);
  if (bytes_ + wanted > sizes_.all) return generations_.back();
  bytes_ += wanted;
  return generations_.emplace_back(wanted);
}

}  // namespace gateway
