#include "budget/lane.h"

#include <gtest/gtest.h>

TEST(Lane, is_found_by_the_name_that_it_says) {
  for (const auto name : budget::kLaneNames) {
    const auto lane = budget::lane_named(name);
    ASSERT_TRUE(lane.has_value());
    EXPECT_EQ(budget::name_of(*lane), name);
  }
  EXPECT_FALSE(budget::lane_named("fast").has_value());
}
