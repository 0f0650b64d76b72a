// Goal: a quick look at a store that is in use takes no longer than it may, and says if it has not seen all.

#include <gtest/gtest.h>

#include <chrono>

#include "ledger/care.h"
#include "tests/ledger/store_support.h"

namespace quick_check_test {

using namespace std::chrono_literals;
using ledger::Database;

TEST(QuickCheck, is_cut_short_in_the_middle_of_the_pages_and_says_so) {
  store_test::Folder folder;
  const std::string path = folder.path("calls.db");
  store_test::Clock clock;
  auto store = store_test::opened(store_test::options_at(path, clock));
  const ledger::QuickLook whole = ledger::quick_check(path, 60s);
  EXPECT_TRUE(whole.wrong.empty()) << whole.wrong[0];
  EXPECT_TRUE(whole.whole);
  store.reset();

  // A hundred megabytes, which nobody walks through in that time.
  Database{path, Database::Open::Write}.run(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
      "INSERT INTO events(at_ms, type, tenant, data) SELECT i, 'x', 'a', hex(zeroblob(500)) FROM n");
  const ledger::QuickLook look = ledger::quick_check(path, 5ms);
  EXPECT_TRUE(look.wrong.empty()) << look.wrong[0];
  EXPECT_FALSE(look.whole);
  EXPECT_TRUE(ledger::quick_check(path, 60s).whole);
}

TEST(QuickCheck, finds_what_is_no_ledger) {
  store_test::Folder folder;
  EXPECT_EQ(ledger::quick_check(folder.path("none.db"), 1s).wrong.size(), 1U);
}

}  // namespace quick_check_test
