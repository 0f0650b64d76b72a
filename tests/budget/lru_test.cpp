#include "budget/lru.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace budget {
namespace lru_test {

TEST(Lru, lets_go_of_the_least_recently_used) {
  Lru<int> map{2};
  map.get(std::string_view{"a"}, [] { return 1; });
  map.get(std::string_view{"b"}, [] { return 2; });
  EXPECT_EQ(map.get(std::string_view{"a"}, [] { return 9; }), 1);
  map.get(std::string_view{"c"}, [] { return 3; });
  EXPECT_EQ(map.find("b"), nullptr);
  ASSERT_NE(map.find("a"), nullptr);
  EXPECT_EQ(*map.find("c"), 3);
  map.resize(1);
  EXPECT_EQ(map.find("a"), nullptr);
  EXPECT_EQ(map.size(), 1U);
}

TEST(Lru, holds_values_that_cannot_move) {
  struct Fixed {
    explicit Fixed(int n) : number{n} {}
    Fixed(const Fixed&) = delete;
    Fixed& operator=(const Fixed&) = delete;
    int number;
  };
  Lru<std::unique_ptr<Fixed>> map{3};
  EXPECT_EQ(map.get("a", [] { return std::make_unique<Fixed>(7); })->number, 7);
}

// Goal: at every step the same keys in the same order as a plain list. Method: seeded uses; a failure prints its
// seed.
TEST(Lru, keeps_the_order_of_use) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng{seed};
    const std::size_t capacity = 1 + rng() % 8;
    Lru<int> map{capacity};
    std::vector<std::string> model;
    for (int step = 0; step < 200; ++step) {
      const std::string key = "model-" + std::to_string(rng() % 12);
      const auto known = std::find(model.begin(), model.end(), key);
      const bool adds = rng() % 2 == 0;
      if (adds) {
        map.get(key, [&] { return step; });
      } else {
        ASSERT_EQ(map.find(key) != nullptr, known != model.end());
      }
      if (known != model.end())
        model.erase(known);
      else if (!adds)
        continue;
      model.insert(model.begin(), key);
      if (model.size() > capacity) model.pop_back();
      std::vector<std::string> keys;
      map.for_each([&](const std::string& name, int&) { keys.push_back(name); });
      ASSERT_EQ(keys, model);
    }
  }
}

}  // namespace lru_test
}  // namespace budget
