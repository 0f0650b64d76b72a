// Goal: what may be in the store is never taken for new, and what is new seldom for known. Method: digests by chance,
// and an exact set beside the filter.

#include "gateway/known_scopes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <map>
#include <random>

namespace gateway {
namespace known_scopes_test {

using namespace std::chrono_literals;
using Time = KnownScopes::Time;

const Time kBegin{1'800'000'000s};
constexpr std::size_t kFirstBytes = KnownScopes::Sizes{}.first;
constexpr std::size_t kFirstRoom = kFirstBytes * 8 / KnownScopes::kBitsEach;

class Chance {
 public:
  explicit Chance(unsigned seed) : bits_(seed) {}
  ledger::Digest scope() {
    ledger::Digest digest{};
    for (std::size_t at = 0; at < digest.size(); at += 8) {
      const std::uint64_t word = bits_();
      std::memcpy(digest.data() + at, &word, 8);
    }
    return digest;
  }
  std::uint64_t up_to(std::uint64_t most) { return bits_() % most; }

 private:
  std::mt19937_64 bits_;
};

TEST(KnownScopes, nothing_is_new_before_all_is_known) {
  KnownScopes known;
  Chance chance{1};
  const ledger::Digest one = chance.scope();
  const ledger::Digest other = chance.scope();
  EXPECT_FALSE(known.certainly_new(one));
  known.add(one, kBegin + 1h, kBegin);
  known.complete();
  EXPECT_FALSE(known.certainly_new(one));
  EXPECT_TRUE(known.certainly_new(other));
}

TEST(KnownScopes, what_may_be_in_the_store_is_never_new) {
  for (unsigned seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(seed);
    Chance chance{seed};
    KnownScopes known;
    known.complete();
    std::map<ledger::Digest, Time> exact;
    Time now = kBegin;
    for (int i = 0; i < 100'000; ++i) {
      now += std::chrono::milliseconds{chance.up_to(2'000)};
      const ledger::Digest scope = chance.scope();
      const Time until = now + std::chrono::minutes{1 + chance.up_to(24 * 60)};
      known.add(scope, until, now);
      exact[scope] = until;
    }
    std::size_t alive = 0;
    for (const auto& [scope, until] : exact) {
      if (until < now) continue;
      ++alive;
      ASSERT_FALSE(known.certainly_new(scope));
    }
    EXPECT_GT(alive, 10'000u);
  }
}

TEST(KnownScopes, a_full_generation_takes_few_new_ones_for_known) {
  Chance chance{2};
  KnownScopes known;
  known.complete();
  for (std::size_t i = 0; i < kFirstRoom; ++i) known.add(chance.scope(), kBegin + 1h, kBegin);
  EXPECT_EQ(known.generations(), 1u);
  constexpr int kAsked = 100'000;
  int taken = 0;
  for (int i = 0; i < kAsked; ++i) taken += known.certainly_new(chance.scope()) ? 0 : 1;
  EXPECT_LT(taken, kAsked / 50);
  EXPECT_GT(taken, 0) << "a filter of this size cannot be exact";
}

TEST(KnownScopes, what_is_full_is_followed_by_twice_the_size_and_what_is_old_goes) {
  Chance chance{3};
  KnownScopes known;
  known.complete();
  // About one in a hundred is taken for known and not counted.
  const std::size_t more = kFirstRoom + kFirstRoom / 20;
  ledger::Digest first = chance.scope();
  known.add(first, kBegin + 1h, kBegin);
  for (std::size_t i = 0; i < more; ++i) known.add(chance.scope(), kBegin + 1h, kBegin);
  EXPECT_EQ(known.generations(), 2u);
  EXPECT_EQ(known.bytes(), 3 * kFirstBytes);
  EXPECT_FALSE(known.certainly_new(first));

  // The second one stays for the sake of one.
  const ledger::Digest last = chance.scope();
  known.add(last, kBegin + 5h, kBegin);
  known.add(chance.scope(), kBegin + 3h, kBegin + 2h);
  EXPECT_EQ(known.generations(), 1u);
  EXPECT_EQ(known.bytes(), 2 * kFirstBytes);
  EXPECT_FALSE(known.certainly_new(last));
  EXPECT_TRUE(known.certainly_new(first));

  known.add(chance.scope(), kBegin + 7h, kBegin + 6h);
  EXPECT_EQ(known.bytes(), kFirstBytes) << "as at the start";
  EXPECT_TRUE(known.certainly_new(last));
}

TEST(KnownScopes, one_that_comes_again_takes_no_room_and_stays_as_long_as_it_says) {
  Chance chance{4};
  KnownScopes known;
  known.complete();
  const ledger::Digest hot = chance.scope();
  for (std::size_t i = 0; i < kFirstRoom + 1; ++i) known.add(hot, kBegin + 1h + std::chrono::seconds{i}, kBegin);
  EXPECT_EQ(known.bytes(), kFirstBytes);
  known.add(chance.scope(), kBegin + 2h, kBegin + 90min);
  EXPECT_FALSE(known.certainly_new(hot));
}

TEST(KnownScopes, memory_is_bounded_and_what_finds_no_room_of_its_own_is_known_all_the_same) {
  Chance chance{5};
  constexpr KnownScopes::Sizes kSizes{.first = 1'024, .largest = 8'192, .all = 65'536};
  KnownScopes known{kSizes};
  known.complete();
  // Rather more than all generations have room for.
  constexpr std::size_t kAll = kSizes.all * 8 / KnownScopes::kBitsEach;
  for (std::size_t i = 0; i < kAll; ++i) known.add(chance.scope(), kBegin + 1h, kBegin);
  EXPECT_LE(known.bytes(), kSizes.all);
  EXPECT_GT(known.bytes(), kSizes.all / 2);
  const ledger::Digest last = chance.scope();
  known.add(last, kBegin + 1h, kBegin);
  EXPECT_FALSE(known.certainly_new(last));
  known.add(chance.scope(), kBegin + 3h, kBegin + 2h);
  EXPECT_EQ(known.bytes(), kSizes.first);
}

}  // namespace known_scopes_test
}  // namespace gateway
