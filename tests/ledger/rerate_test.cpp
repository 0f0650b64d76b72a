// Goal: stored attempts get the cost that they would have had by another table, and all sums follow to the nano.
// Method: a file with the store's own rows; what it says afterwards is compared with rows that were written at those
// prices from the beginning.

#include "ledger/rerate.h"

#include <gtest/gtest.h>

#include "budget/rating.h"
#include "ledger/books.h"
#include "ledger/file.h"
#include "ledger/rows.h"
#include "ledger/schema.h"
#include "ledger/times.h"
#include "tests/ledger/store_support.h"

namespace rerate_test {

using namespace store_test;

budget::PriceBook book(const std::string& input_usd_per_mtok) {
  const std::string text = R"({"callgate_prices":1,"version":"v-)" + input_usd_per_mtok +
                           R"(","models":[{"model":"gpt-4o","provider":"openai","usd_per_mtok":{"input":)" +
                           input_usd_per_mtok +
                           R"(,"cached_input":1,"cache_write":1,"cache_write_1h":1,"output":10}}]})";
  budget::PriceFile file = budget::read_price_file(text, "test");
  for (const auto& problem : file.problems) ADD_FAILURE() << budget::text_of(problem, "test");
  std::vector<budget::PriceTable> tables;
  tables.push_back(std::move(file.table));
  return budget::PriceBook{std::move(tables)};
}

class Rerate : public testing::Test {
 protected:
  /// Calls as they are written at the prices of `book`, into a file of its own.
  std::string written(const std::string& name, const budget::PriceBook& at) {
    const std::string path = folder_.path(name);
    Database database{path, Database::Open::Write};
    database.run(std::string{ledger::schema_sql()});
    database.run("PRAGMA application_id = 0x43474c31; PRAGMA user_version = 1");
    ledger::Rows rows{database};
    database.run("BEGIN");
    for (int i = 1; i <= 1'200; ++i) {
      CallRecord record = call(i, kNoon + std::chrono::seconds{i});
      for (int n = 1; n <= 1 + i % 3; ++n) {
        ledger::AttemptRow row = attempt(record, n, 0);
        row.usage.tokens->input += i;
        if (i % 7 == 0) row.model = "unheard-of";
        if (i % 11 == 0) row.usage.tokens.reset();
        if (i % 13 == 0) row.usage.stated_usd = "0.5";
        const std::string model = row.model.empty() ? record.model : row.model;
        budget::Rated rated = budget::rate(
            &at,
            fallback_,
            {.provider = "openai", .model = model, .day = std::chrono::floor<std::chrono::days>(row.ended)},
            "",
            row.usage);
        row.cost = rated.cost;
        row.cost_source = rated.source;
        row.cost_tier = rated.tier;
        row.prices = rated.prices;
        row.charged = budget::NanoUsd{5};
        if (row.cost) record.cost = budget::NanoUsd{record.cost.value_or(budget::NanoUsd{}).value + row.cost->value};
        record.attempts.push_back(row);
      }
      record.outcome = i % 5 == 0 ? ledger::Outcome::Failed : ledger::Outcome::Answered;
      record.ended = record.attempts.back().ended;
      EXPECT_TRUE(rows.end(record, {}));
    }
    database.run("COMMIT");
    return path;
  }
  ledger::RerateAsk ask(const budget::PriceBook& at) {
    ledger::RerateAsk ask;
    ask.book = &at;
    ask.fallback = fallback_;
    ask.provider_of = [](std::string_view upstream) { return std::string{upstream}; };
    ask.region_of = [](std::string_view) { return std::string{}; };
    return ask;
  }
  static std::string all_of(const std::string& path) {
    Database database{path, Database::Open::Read};
    std::string out;
    for (const char* sql : {"SELECT * FROM spend_by_period ORDER BY 1, 2, 3, 4, 5, 6",
                            "SELECT * FROM attempts ORDER BY 1, 2",
                            "SELECT id, cost_nano FROM calls ORDER BY 1"}) {
      Statement row{database, sql};
      while (row.step()) {
        for (int i = 0; i < row.columns(); ++i) out += std::string{row.text(i)} + "|";
        out += "\n";
      }
    }
    return out;
  }
  using Statement = ledger::Statement;

  const budget::Price fallback_ = budget::flat_price(budget::PicoUsd{5'000'000}, budget::PicoUsd{25'000'000});
  Folder folder_{};
};

TEST_F(Rerate, is_dry_by_default_and_says_what_would_change) {
  const budget::PriceBook old_prices = book("2");
  const budget::PriceBook new_prices = book("3");
  const std::string path = written("a.db", old_prices);
  const std::string before = all_of(path);
  const auto lines = ledger::rerate(path, ask(new_prices));
  ASSERT_TRUE(lines) << lines.error();
  ASSERT_EQ(lines->size(), 2U);
  EXPECT_EQ((*lines)[0].model, "gpt-4o");
  EXPECT_GT((*lines)[0].after_nano, (*lines)[0].before_nano);
  EXPECT_LT((*lines)[0].changed, (*lines)[0].attempts);  // What the provider stated stays.
  EXPECT_EQ((*lines)[1].model, "unheard-of");
  EXPECT_EQ((*lines)[1].changed, 0);
  EXPECT_EQ(all_of(path), before);
  EXPECT_EQ(ledger::rerate(path, ask(old_prices)).value()[0].changed, 0);
}

TEST_F(Rerate, makes_rows_and_sums_what_they_would_have_been) {
  const budget::PriceBook old_prices = book("2");
  const budget::PriceBook new_prices = book("3");
  const std::string path = written("a.db", old_prices);
  ledger::RerateAsk apply = ask(new_prices);
  apply.apply = true;
  ASSERT_TRUE(ledger::rerate(path, apply));
  EXPECT_EQ(all_of(path), all_of(written("b.db", new_prices)));
  EXPECT_EQ(ledger::rerate(path, apply).value()[0].changed, 0);
}

TEST_F(Rerate, of_a_part_changes_that_part) {
  const budget::PriceBook old_prices = book("2");
  const budget::PriceBook new_prices = book("3");
  const std::string path = written("a.db", old_prices);
  ledger::RerateAsk apply = ask(new_prices);
  apply.apply = true;
  apply.since_ms = ledger::ms_of(kNoon) + 600'000;
  ASSERT_TRUE(ledger::rerate(path, apply));
  EXPECT_EQ(number(path, "SELECT COUNT(*) FROM attempts WHERE prices = 'v-2' AND ended_ms >= 1795954200000"), 0);
  EXPECT_GT(number(path, "SELECT COUNT(*) FROM attempts WHERE prices = 'v-2'"), 100);
  EXPECT_EQ(number(path, "SELECT SUM(cost_nano) FROM attempts"),
            number(path, "SELECT SUM(cost_nano) FROM spend_by_period"));
}

TEST_F(Rerate, is_not_applied_while_somebody_works_with_the_file) {
  const budget::PriceBook prices = book("2");
  const std::string path = written("a.db", prices);
  const auto lock = ledger::FileLock::take(path);
  ASSERT_TRUE(lock);
  ledger::RerateAsk apply = ask(prices);
  EXPECT_TRUE(ledger::rerate(path, apply));  // Looking is allowed.
  apply.apply = true;
  const auto refused = ledger::rerate(path, apply);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("a running callgate works with it"), std::string::npos);
}

TEST_F(Rerate, of_no_file_makes_none) {
  const budget::PriceBook prices = book("2");
  ledger::RerateAsk apply = ask(prices);
  apply.apply = true;
  EXPECT_FALSE(ledger::rerate(folder_.path("none.db"), apply));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("none.db")));
}

}  // namespace rerate_test
