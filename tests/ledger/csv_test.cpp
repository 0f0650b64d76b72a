#include "ledger/csv.h"

#include <gtest/gtest.h>

namespace csv_test {

std::string row(const std::vector<std::string>& cells) {
  std::string out;
  ledger::append_csv(out, cells);
  return out;
}

TEST(Csv, quotes_what_must_be_and_lets_no_formula_through) {
  EXPECT_EQ(row({"a", "b c", ""}), "a,b c,\r\n");
  EXPECT_EQ(row({"a,b", "say \"x\"", "two\nlines"}), "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\"\r\n");
  EXPECT_EQ(row({"=1+1", "+cmd", "@SUM(A1)", "-2+3", "\t=x", "  =x"}), "'=1+1,'+cmd,'@SUM(A1),'-2+3,'\t=x,'  =x\r\n");
  EXPECT_EQ(row({"-0.5", "-12", "0.000000001"}), "-0.5,-12,0.000000001\r\n");
}

TEST(Csv, is_read_as_it_is_written) {
  const std::vector<std::string> cells{"a,b", "say \"x\"", "two\r\nlines", ""};
  const auto table = ledger::read_csv("\xEF\xBB\xBF" + row({"h1", "h2", "h3", "h4"}) + row(cells) + "\r\n");
  ASSERT_TRUE(table) << table.error();
  EXPECT_EQ(table->heading.size(), 4U);
  ASSERT_EQ(table->rows.size(), 1U);
  EXPECT_EQ(table->rows[0], cells);
}

TEST(Csv, may_be_separated_by_tabs_and_lack_cells) {
  const auto table = ledger::read_csv("a\tb\tc\n1\t2,5\n3\t\t4");
  ASSERT_TRUE(table) << table.error();
  EXPECT_EQ(table->rows[0], (std::vector<std::string>{"1", "2,5", ""}));
  EXPECT_EQ(table->rows[1], (std::vector<std::string>{"3", "", "4"}));
}

TEST(Csv, says_what_is_wrong_with_it) {
  for (const auto& [text, why] : {std::pair{"", "empty"},
                                  {"a,b\n1,2,3\n", "row 2 has 3 cells"},
                                  {"a\n\"x", "never closed"},
                                  {"a\n\"x\"y\n", "behind a closing quote"}}) {
    const auto table = ledger::read_csv(text);
    ASSERT_FALSE(table) << text;
    EXPECT_NE(table.error().find(why), std::string::npos) << table.error();
  }
}

}  // namespace csv_test
