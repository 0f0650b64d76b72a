#include "budget/worst_case.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <utility>

namespace budget {
namespace {

constexpr std::int64_t kMost = 1'000'000'000'000;

TEST(WorstCase, takes_more_tokens_than_expected) {
  struct Case {
    const char* name;
    Sizes sizes;
    Expected expected;
    std::int64_t input;
    std::int64_t output;
  };
  const Case cases[] = {
      {"two bytes to a token", {.text_bytes = 1'000, .most_output = 7}, {250, 100}, 500, 7},
      {"an odd byte is one more", {.text_bytes = 1'001, .most_output = 7}, {250, 100}, 501, 7},
      {"nothing asked for: 4096", {.text_bytes = 10}, {3, 100}, 5, 4'096},
      {"or twice what is usual", {.text_bytes = 10}, {3, 5'000}, 5, 10'000},
      {"media: twice of what is expected", {.text_bytes = 10, .media = 1, .most_output = 1}, {900, 1}, 1'800, 1},
      {"or the text", {.text_bytes = 10'000, .media = 1, .most_output = 1}, {900, 1}, 5'000, 1},
      {"no output asked for", {.text_bytes = 10, .most_output = 0}, {3, 100}, 5, 0},
      {"less than none is none", {.text_bytes = 10, .most_output = -5}, {3, 100}, 5, 0},
      {"beyond all sense",
       {.text_bytes = std::numeric_limits<std::uint64_t>::max(),
        .most_output = std::numeric_limits<std::int64_t>::max()},
       {3, 100},
       kMost / 2,
       kMost},
      {"an endless expectation",
       {.media = 1},
       {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()},
       kMost,
       kMost},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Expected most = most_tokens(c.sizes, c.expected);
    EXPECT_EQ(most.input, c.input);
    EXPECT_EQ(most.output, c.output);
  }
}

Price price_of(std::initializer_list<std::pair<Meter, std::int64_t>> rates) {
  RateTable table{Tier::Standard, kAnyPrompt, {}};
  for (const auto& [meter, pico] : rates) table.rates.set(meter, {pico});
  Price price;
  price.tables = {table};
  sort_tables(price);
  return price;
}

TEST(WorstCase, is_priced_at_the_dearest_kind) {
  const Price fallback = price_of({{Meter::Input, 100'000}, {Meter::Output, 200'000}});
  const Price plain = price_of({{Meter::Input, 1'000}, {Meter::Output, 2'000}});
  const Price writes = price_of(
      {{Meter::Input, 1'000}, {Meter::CacheWrite, 1'250}, {Meter::CacheWrite1h, 2'000}, {Meter::Output, 2'000}});
  const Price thinks = price_of({{Meter::Input, 1'000}, {Meter::Output, 2'000}, {Meter::Reasoning, 9'000}});
  const Price half = price_of({{Meter::Input, 1'000}});
  const Expected most{1'000, 1'000};
  EXPECT_EQ(worst_case(&plain, fallback, most).value, 3'000);
  EXPECT_EQ(worst_case(&writes, fallback, most).value, 4'000);
  EXPECT_EQ(worst_case(&thinks, fallback, most).value, 10'000);
  EXPECT_EQ(worst_case(nullptr, fallback, most).value, 300'000);
  EXPECT_EQ(worst_case(&half, fallback, most).value, 300'000);
  EXPECT_EQ(worst_case(&half, fallback, {1'000, 0}).value, 1'000);
}

}  // namespace
}  // namespace budget
