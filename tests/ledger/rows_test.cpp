// Goal: what is told of calls stands in the tables whole, and the sums are those of the rows.

#include "tests/ledger/store_support.h"

namespace store_test {
namespace {

class RowsTest : public testing::Test {
 protected:
  Folder folder_;
  Clock clock_;
  std::string path_ = folder_.path("callgate.db");
  std::unique_ptr<Store> store_ = opened(options_at(path_, clock_));
};

TEST_F(RowsTest, an_answered_call_is_a_row_an_attempt_a_sum_and_an_event) {
  CallRecord record = call(1);
  record.run_id = "nightly";
  record.labels = R"({"team":"search"})";
  EXPECT_EQ(begun(*store_, opening(record)), Written::Committed);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE state = 0"), 1);
  EXPECT_EQ(number(path_, "SELECT reserved_nano FROM attempts WHERE state = 0"), 5'000);

  CallRecord whole = answered(1, 1'234);
  whole.run_id = record.run_id;
  whole.labels = record.labels;
  EXPECT_EQ(ended(*store_, whole), Written::Committed);
  EXPECT_EQ(number(path_, "SELECT count(*) FROM calls WHERE state = 1 AND outcome = 'answered' AND attempts = 1"), 1);
  EXPECT_EQ(number(path_, "SELECT cost_nano FROM attempts WHERE state = 1 AND reserved_nano = 5000"), 1'234);
  EXPECT_EQ(text(path_, "SELECT tokens_from FROM attempts"), "reported");
  EXPECT_EQ(number(path_, "SELECT cache_write FROM spend_by_period"), 7);
  EXPECT_EQ(number(path_, "SELECT cost_nano FROM spend_by_period WHERE calls = 1 AND answered = 1 AND attempts = 1"),
            1'234);
  EXPECT_EQ(number(path_, "SELECT charged_nano FROM spend_by_run WHERE run_id = 'nightly'"), 1'234);
  EXPECT_EQ(text(path_, "SELECT data->>'cost_usd' FROM events WHERE type = 'call.ended'"), "0.000001234");
  EXPECT_EQ(text(path_, "SELECT data->>'$.labels.team' FROM events"), "search");
}

}  // namespace
}  // namespace store_test
