#include "budget/lone_failures.h"

#include <gtest/gtest.h>

#include <string>

namespace budget {
namespace lone_failures_test {

struct World {
  LoneFailures lone{};
  void answered(std::string_view tenant, int times = 1) {
    for (int i = 0; i < times; ++i) lone.answered(tenant, "u", "m");
  }
  bool failed(std::string_view tenant) { return lone.failed(tenant, "u", "m"); }
};

TEST(LoneFailures, are_those_after_three_in_a_row_while_others_are_answered) {
  World world;
  for (int i = 1; i <= 50; ++i) {
    EXPECT_EQ(world.failed("bad"), i > LoneFailures::kRow) << i;
    world.answered("good");
  }
}

TEST(LoneFailures, end_with_an_answer_of_its_own) {
  World world;
  for (int i = 0; i < 10; ++i) {
    static_cast<void>(world.failed("bad"));
    world.answered("good", 5);
  }
  ASSERT_TRUE(world.failed("bad"));
  world.answered("bad");
  world.answered("good", 20);
  for (int i = 1; i <= 3; ++i) EXPECT_FALSE(world.failed("bad")) << i;
  EXPECT_FALSE(world.failed("bad")) << "what others had before the row says nothing about it";
  world.answered("good");
  EXPECT_TRUE(world.failed("bad"));
}

TEST(LoneFailures, are_none_where_it_is_alone_or_others_fail_as_much) {
  World alone;
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(alone.failed("a"));
  World down;
  down.answered("a", 100);
  down.answered("b", 100);
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(down.failed("a"));
    EXPECT_FALSE(down.failed("b"));
  }
  // Fewer answers than failures: every second one counts.
  World half;
  int own = 0;
  for (int i = 0; i < 100; ++i) {
    own += half.failed("a") ? 1 : 0;
    if (i % 2 == 0) half.answered("b");
  }
  EXPECT_NEAR(own, 50, 3);
}

TEST(LoneFailures, count_again_soon_after_the_last_answer_to_anybody) {
  World world;
  for (int i = 0; i < 10; ++i) {
    static_cast<void>(world.failed("bad"));
    world.answered("good", 1'000);
  }
  std::int64_t own = 0;
  while (world.failed("bad") && own < 1'000) ++own;
  EXPECT_EQ(own, LoneFailures::kMost);
}

TEST(LoneFailures, are_of_one_tenant_upstream_and_model) {
  World world;
  for (int i = 0; i < 10; ++i) {
    static_cast<void>(world.failed("bad"));
    world.answered("good");
  }
  EXPECT_TRUE(world.failed("bad"));
  EXPECT_FALSE(world.failed("other"));
  EXPECT_FALSE(world.lone.failed("bad", "u", "n"));
  EXPECT_FALSE(world.lone.failed("bad", "v", "m"));
}

TEST(LoneFailures, forgets_whom_it_has_not_seen_for_longest) {
  World world;
  for (int i = 0; i < 10; ++i) {
    static_cast<void>(world.failed("bad"));
    world.answered("good");
  }
  for (int i = 0; i < 5'000; ++i) {
    static_cast<void>(world.lone.failed("bad", "u", std::to_string(i)));
    world.lone.answered("good", "u", std::to_string(i));
  }
  for (int i = 1; i <= 3; ++i) {
    EXPECT_FALSE(world.failed("bad")) << "it begins anew";
    world.answered("good");
  }
  EXPECT_TRUE(world.failed("bad"));
}

}  // namespace lone_failures_test
}  // namespace budget
