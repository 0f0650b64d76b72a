// Goal: what the books say is what the rows are. Method: the store's own rows, written into a database in memory, and
// sums made by hand or by the other way of reading.

#include "ledger/books.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "ledger/call_detail.h"
#include "ledger/rows.h"
#include "ledger/schema.h"
#include "ledger/times.h"
#include "tests/ledger/store_support.h"

namespace books_test {

using namespace store_test;
using ledger::AttemptRow;
using ledger::Books;
using ledger::CallLine;
using ledger::CallsAsk;
using ledger::Outcome;
using ledger::SpendAsk;
using ledger::SpendLine;
using nlohmann::json;

class BooksTest : public testing::Test {
 protected:
  BooksTest() {
    database_.run(std::string{ledger::schema_sql()});
    database_.run(
        "PRAGMA application_id = 0x43474c31; PRAGMA user_version = 1; PRAGMA journal_mode = WAL; PRAGMA synchronous "
        "= OFF");
  }
  void end(const CallRecord& record) { ASSERT_TRUE(rows().end(record, {})); }
  ledger::Rows& rows() {
    if (!rows_) rows_.emplace(database_);
    return *rows_;
  }
  std::vector<SpendLine> spend(std::vector<std::string> by, std::function<void(SpendAsk&)> more = {}) {
    SpendAsk ask;
    ask.by = std::move(by);
    if (more) more(ask);
    auto lines = books_->spend(ask);
    EXPECT_TRUE(lines) << (lines ? "" : lines.error());
    return lines.value_or(std::vector<SpendLine>{});
  }
  std::vector<std::string> ids(const CallsAsk& ask) {
    std::vector<std::string> out;
    const auto lines = books_->calls(ask);
    EXPECT_TRUE(lines);
    if (!lines) return out;
    for (const CallLine& line : *lines) out.push_back(line.id);
    return out;
  }

  Folder folder_{};
  Database database_{folder_.path("books.db"), Database::Open::Write};
  std::optional<ledger::Rows> rows_{};
  std::unique_ptr<Books> books_ = ledger::make_books(database_);
};

/// Three attempts, the last of which answered or not.
CallRecord retried(int number, Outcome outcome, WallTime began = kNoon) {
  CallRecord record = call(number, began);
  for (int i = 1; i <= 3; ++i) {
    record.attempts.push_back(attempt(record, i, 100 * i));
    record.attempts.back().ended = began + std::chrono::minutes{10 * i};
  }
  record.attempts[1].upstream = "groq";
  record.attempts[1].model = "llama";
  record.attempts[1].cost_source = "fallback";
  record.attempts[0].cost.reset();
  record.attempts[0].usage.tokens.reset();
  record.attempts[0].possibly_billed = true;
  record.attempts[0].charged = budget::NanoUsd{7'000};
  record.outcome = outcome;
  record.ended = began + 31min;
  record.run_id = "job-1";
  record.labels = R"({"prompt":"v2","team":"=cmd"})";
  return record;
}

TEST_F(BooksTest, spend_tells_retries_failures_and_what_nobody_knows_apart) {
  end(answered(1, 1'000));
  end(retried(2, Outcome::Failed));
  CallRecord replayed = call(3);
  replayed.outcome = Outcome::Answered;
  replayed.once = "replayed";
  replayed.saved = budget::NanoUsd{900};
  replayed.ended = kNoon;
  end(replayed);
  for (const char* way : {"tenant", "label:none"}) {
    SCOPED_TRACE(way);
    const auto lines = spend({way});
    ASSERT_EQ(lines.size(), 1U);
    const SpendLine& line = lines[0];
    EXPECT_EQ(line.calls, 3);
    EXPECT_EQ(line.answered, 2);
    EXPECT_EQ(line.attempts, 4);
    EXPECT_EQ(line.cost_nano, 1'000 + 200 + 300);
    EXPECT_EQ(line.retry_nano, 200);
    EXPECT_EQ(line.failed_nano, 500);
    EXPECT_EQ(line.possibly_billed, 1);
    EXPECT_EQ(line.possibly_billed_nano, 7'000);
    EXPECT_EQ(line.unknown, 1);
    EXPECT_EQ(line.estimated_nano, 200);
    EXPECT_EQ(line.saved_nano, 900);
    EXPECT_EQ(line.input, 300);
    EXPECT_EQ(line.cache_write, 21);
  }
}

TEST_F(BooksTest, spend_by_labels_runs_and_classes_comes_from_rows) {
  end(retried(1, Outcome::Answered));
  end(answered(2, 5'000));
  const auto by_label = spend({"label:prompt", "run_id"});
  ASSERT_EQ(by_label.size(), 2U);
  EXPECT_EQ(by_label[0].by, (std::vector<std::string>{"", ""}));  // The dearest first.
  EXPECT_EQ(by_label[1].by, (std::vector<std::string>{"v2", "job-1"}));
  EXPECT_EQ(by_label[1].cost_nano, 500);
  EXPECT_EQ(spend({"class"}).size(), 1U);
}

TEST_F(BooksTest, spend_from_sums_is_spend_from_rows_whatever_happened) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  const auto roll = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  database_.run("BEGIN");
  for (int i = 0; i < 400; ++i) {
    const WallTime began = kNoon + std::chrono::minutes{roll(3 * 24 * 60)};
    CallRecord record = call(i, began);
    record.tenant = "t" + std::to_string(roll(3));
    record.lane = static_cast<budget::Lane>(roll(3));
    record.queue = roll(2) == 0 ? "" : "q";
    record.model = "m" + std::to_string(roll(3));
    record.labels = roll(2) == 0 ? "" : R"({"a":"b"})";
    record.outcome = static_cast<Outcome>(roll(5));
    WallTime at = began;
    const int attempts = roll(4);
    const bool crashes = attempts > 0 && roll(8) == 0;
    const bool loses = !crashes && attempts > 0 && roll(8) == 0;
    const bool crashes_waiting = roll(8) == 0;
    for (int n = 1; n <= attempts; ++n) {
      ledger::OpenRow open = opening(record, n, roll(9'000));
      open.model = roll(2) == 0 ? "other" : "";
      rows().open(record, open, {});
      if ((crashes || loses) && n == attempts) break;
      AttemptRow row = attempt(record, n, roll(10'000));
      row.model = open.model;
      row.ended = at += std::chrono::minutes{roll(40)};
      if (roll(3) == 0) row.cost.reset();
      if (roll(3) == 0) row.usage.tokens.reset();
      if (roll(4) == 0) row.cost_source = roll(2) == 0 ? "fallback" : "table_plain";
      row.possibly_billed = roll(4) == 0;
      row.status = roll(2) == 0 ? 200 : 500;
      if (roll(5) == 0) row.usage.billed.web_searches = 2;
      record.attempts.push_back(row);
      if (roll(3) == 0) rows().attempt_ended(record, {});
    }
    record.ended = at + std::chrono::minutes{roll(20)};
    if (roll(6) == 0) record.saved = budget::NanoUsd{roll(500)};
    if (crashes_waiting) rows().attempt_ended(record, {});
    if (!crashes && !crashes_waiting) end(record);
  }
  (void)rows().close_unknown(ledger::ms_of(kNoon) + 30 * ledger::kDayMs);
  database_.run("COMMIT");
  const std::vector<std::string> kGroups[] = {
      {}, {"tenant"}, {"model"}, {"upstream", "lane"}, {"day"}, {"hour", "queue"}, {"model", "day", "tenant"}};
  for (const auto& by : kGroups) {
    for (const std::int64_t since :
         {std::int64_t{0}, ledger::ms_of(kNoon) + 1, ledger::ms_of(kNoon) + 20 * ledger::kDayMs}) {
      const auto narrow = [&](SpendAsk& ask) {
        ask.since_ms = since;
        ask.until_ms = ledger::ms_of(kNoon) + (since == 0 ? 2 : 60) * ledger::kDayMs;
        ask.utc_offset_minutes = 90;
        ask.tenant = by.size() == 2 ? "t1" : "";
      };
      const auto sums = spend(by, narrow);
      auto with_rows = by;
      with_rows.emplace_back("label:none");  // The same groups, read from rows.
      const auto rows_lines = spend(with_rows, narrow);
      ASSERT_EQ(sums.size(), rows_lines.size());
      for (const SpendLine& one : sums) {
        auto key = one.by;
        key.emplace_back();
        const auto twin = std::ranges::find(rows_lines, key, &SpendLine::by);
        ASSERT_NE(twin, rows_lines.end());
        const auto figures = [](const SpendLine& l) {
          return std::vector<std::int64_t>{l.calls,
                                           l.attempts,
                                           l.answered,
                                           l.input,
                                           l.cached_input,
                                           l.cache_write,
                                           l.output,
                                           l.reasoning,
                                           l.cost_nano,
                                           l.retry_nano,
                                           l.failed_nano,
                                           l.possibly_billed,
                                           l.possibly_billed_nano,
                                           l.unknown,
                                           l.unpriced,
                                           l.estimated_nano,
                                           l.saved_nano};
        };
        EXPECT_EQ(figures(one), figures(*twin));
      }
    }
  }
}

TEST_F(BooksTest, spend_has_days_of_other_places_and_quarters) {
  end(answered(1, 10, kNoon));                           // 12:00Z
  end(answered(2, 20, kNoon + std::chrono::hours{11}));  // 23:00Z
  EXPECT_EQ(spend({"day"}).size(), 1U);
  const auto east = spend({"day"}, [](SpendAsk& ask) { ask.utc_offset_minutes = 120; });
  ASSERT_EQ(east.size(), 2U);
  EXPECT_EQ(east[0].by[0], "2026-11-29");
  EXPECT_EQ(east[1].by[0], "2026-11-30");
  EXPECT_EQ(spend({"hour"})[0].by[0], "2026-11-29T12");
  // Begin and end are whole quarters: what ended at 12:00:00.5 is in what is asked for from 12:10 on.
  const auto late = spend({}, [](SpendAsk& ask) { ask.since_ms = ledger::ms_of(kNoon) + 10 * ledger::kMinuteMs; });
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].cost_nano, 30);
}

TEST_F(BooksTest, spend_of_more_groups_than_asked_for_keeps_the_dearest_and_the_sum) {
  for (int i = 1; i <= 9; ++i) {
    CallRecord record = answered(i, i);
    record.model = "m" + std::to_string(i);
    end(record);
  }
  const auto lines = spend({"model"}, [](SpendAsk& ask) { ask.most = 2; });
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].by[0], "m9");
  EXPECT_TRUE(lines[2].others);
  EXPECT_EQ(ledger::total_of(lines).cost_nano, 45);
  EXPECT_EQ(ledger::total_of(lines).calls, 9);
}

TEST_F(BooksTest, spend_refuses_a_group_that_there_is_not) {
  SpendAsk ask;
  ask.by = {"label:"};
  EXPECT_FALSE(books_->spend(ask));
  EXPECT_EQ(ledger::unknown_group(ask), "label:");
}

TEST_F(BooksTest, spend_of_huge_counts_ends_at_the_largest_number) {
  for (int i = 1; i <= 2; ++i) {
    CallRecord record = answered(i);
    record.attempts[0].usage.tokens->input = INT64_MAX / 3 * 2;
    record.attempts[0].ended = record.ended = kNoon + std::chrono::hours{i};
    end(record);
  }
  for (const char* way : {"tenant", "class"}) EXPECT_EQ(spend({way})[0].input, INT64_MAX);
}

TEST_F(BooksTest, calls_are_listed_youngest_first_by_any_of_their_traits) {
  database_.run("BEGIN");
  for (int i = 1; i <= 12'000; ++i) {
    CallRecord record = call(i, kNoon + std::chrono::seconds{i});
    record.outcome = i % 1'000 == 0 ? Outcome::Failed : Outcome::Answered;
    record.tenant = i % 2 == 0 ? "even" : "odd";
    record.ended = record.began;
    end(record);
  }
  database_.run("COMMIT");
  const auto id = [](int i) { return id_of(i, kNoon + std::chrono::seconds{i}); };
  CallsAsk ask;
  ask.most = 2;
  EXPECT_EQ(ids(ask), (std::vector<std::string>{id(12'000), id(11'999)}));
  ask.outcome = "failed";
  ask.most = 100;
  EXPECT_EQ(ids(ask).size(), 12U);
  ask.tenant = "odd";
  EXPECT_EQ(ids(ask).size(), 0U);
  ask.tenant = "even";
  ask.before = id(2'000);
  EXPECT_EQ(ids(ask), (std::vector<std::string>{id(1'000)}));
  ask.before.clear();
  ask.after = id(2'000);
  EXPECT_EQ(ids(ask).front(), id(3'000));  // The oldest first.
  EXPECT_EQ(ids(ask).size(), 10U);
  CallsAsk span;
  span.since_ms = ledger::ms_of(kNoon) + 5'000;
  span.until_ms = ledger::ms_of(kNoon) + 8'000;
  EXPECT_EQ(ids(span).size(), 3U);
}

TEST_F(BooksTest, a_stored_call_is_told_in_the_words_of_one_that_has_just_ended) {
  CallRecord record = retried(1, Outcome::Answered);
  record.waits[0] = std::chrono::microseconds{12'345};
  record.first_content = std::chrono::microseconds{99'000};
  record.idempotency_key = "k \"1\"\n";
  record.once = "stored";
  record.attempts[1].detail = "bad \xff bytes \x1b[2J";
  record.attempts[1].hint = 250ms;
  record.attempts[2].usage.billed.web_searches = 3;
  record.attempts[2].usage.model = "gpt-4o-2024-08-06";
  end(record);
  const json stored = json::parse(books_->call(record.id, "").value());
  json fresh = json::parse(ledger::json_of(ledger::detail_of(record)));
  EXPECT_EQ(stored, fresh);
  EXPECT_EQ(stored["attempts"][2]["billed"], (json{{"web_searches", 3}}));
  EXPECT_EQ(stored["attempts"][0]["tokens"], nullptr);
  EXPECT_EQ(stored["attempts"][0]["tokens_from"], "unknown");
  EXPECT_EQ(books_->call(record.id, "acme").value().empty(), false);
  EXPECT_EQ(books_->call(record.id, "other").value(), "");
  EXPECT_EQ(books_->call("nobody", "").value(), "");
}

TEST_F(BooksTest, export_gives_every_call_once_in_pages) {
  for (int i = 1; i <= 25; ++i) end(retried(i, Outcome::Answered));
  ledger::ExportAsk ask;
  ask.most = 10;
  std::vector<std::string> seen;
  for (bool more = true; more;) {
    const ledger::ExportPage page = books_->export_calls(ask).value();
    for (const std::string& line : page.lines) {
      EXPECT_EQ(line.find('\n'), std::string::npos);
      const json one = json::parse(line);
      EXPECT_EQ(one["attempts"].size(), 3U);
      seen.push_back(one["call_id"]);
    }
    ask.after = page.last_id;
    more = page.more;
  }
  ASSERT_EQ(seen.size(), 25U);
  for (int i = 0; i < 25; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], id_of(i + 1));
}

TEST_F(BooksTest, durations_are_exact_for_few_calls_and_never_too_short_for_many) {
  const auto put = [&](int number, std::int64_t ms, const std::string& model) {
    CallRecord record = answered(number);
    record.model = model;
    record.queue = "q";
    record.duration = std::chrono::milliseconds{ms};
    end(record);
  };
  database_.run("BEGIN");
  for (int i = 1; i <= 100; ++i) put(i, i, "few");
  for (int i = 1; i <= 5'000; ++i) put(1'000 + i, 10LL * i, "many");
  database_.run("COMMIT");
  CallRecord failed = answered(9'000);
  failed.model = "few";
  failed.outcome = Outcome::Failed;
  failed.duration = std::chrono::hours{1};
  end(failed);
  CallRecord replayed = answered(9'001);
  replayed.model = "few";
  replayed.once = "replayed";
  end(replayed);
  const auto lines = books_->durations(0).value();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].calls, 100);
  EXPECT_EQ(lines[0].p50_ms, 50);
  EXPECT_EQ(lines[0].p95_ms, 95);
  EXPECT_EQ(lines[0].p99_ms, 99);
  EXPECT_EQ(lines[0].p999_ms, 100);
  EXPECT_EQ(lines[1].calls, 5'000);
  EXPECT_EQ(lines[1].most_ms, 50'000);
  const std::pair<std::int64_t, std::int64_t> kTruth[] = {
      {lines[1].p50_ms, 25'000}, {lines[1].p95_ms, 47'500}, {lines[1].p99_ms, 49'500}, {lines[1].p999_ms, 49'950}};
  for (const auto& [told, truth] : kTruth) {
    EXPECT_GE(told, truth);
    EXPECT_LT(static_cast<double>(told), static_cast<double>(truth) * 1.02);
  }
  EXPECT_EQ(books_->durations(ledger::ms_of(kNoon) + 1).value().size(), 0U);
}

TEST_F(BooksTest, usage_counts_as_providers_do) {
  CallRecord record = retried(1, Outcome::Answered);
  record.attempts[2].usage.model = "gpt-4o-2024-08-06";
  record.attempts[1].status = 500;
  end(record);
  ledger::UsageAsk ask;
  ask.upstreams = {"openai"};
  const auto lines = books_->usage(ask).value();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].model, "gpt-4o");
  EXPECT_EQ(lines[0].unknown, 1);
  EXPECT_EQ(lines[1].model, "gpt-4o-2024-08-06");
  EXPECT_EQ(lines[1].day, "2026-11-29");
  EXPECT_EQ(lines[1].requests, 1);
  EXPECT_EQ(lines[1].input, 100);
  EXPECT_EQ(lines[1].cost_nano, 300);
}

TEST_F(BooksTest, charges_grants_pauses_and_events_come_back_as_they_were) {
  end(answered(1, 77));
  CallRecord of_run = answered(2, 5);
  of_run.run_id = "r";
  end(of_run);
  const auto charged = books_->charged_since(0).value();
  ASSERT_EQ(charged.size(), 1U);
  EXPECT_EQ(charged[0].charged_nano, 82);
  EXPECT_EQ(charged[0].slot_ms, ledger::ms_of(kNoon));
  ASSERT_EQ(books_->charged_runs(10).value().size(), 1U);
  database_.run(
      "INSERT INTO grants(at_ms, tenant, period, run_id, amount_nano) VALUES (5, 'a', 'day', '', 1), (1, 'a', 'run', "
      "'r', -2)");
  EXPECT_EQ(books_->grants_since(3).value().size(), 2U);
  EXPECT_EQ(books_->grants_since(6).value().size(), 1U);
  database_.run("INSERT INTO pauses VALUES ('tenant', 'a', 10), ('lane', 'bulk', NULL)");
  EXPECT_EQ(books_->pauses(9).value().size(), 2U);
  EXPECT_EQ(books_->pauses(10).value().size(), 1U);
  const auto span = books_->event_span().value();
  EXPECT_EQ(span.second - span.first, 1);
  EXPECT_EQ(books_->events(span.first, "", 10).value().size(), 1U);
  EXPECT_EQ(books_->events(0, "nobody", 10).value().size(), 0U);
}

TEST_F(BooksTest, can_be_read_beside_a_writer) {
  end(answered(1, 5));
  const std::string path = folder_.path("books.db");
  auto beside = ledger::open_books(path);
  ASSERT_TRUE(beside) << beside.error();
  EXPECT_EQ((*beside)->calls({}).value().size(), 1U);
  end(answered(2, 5));
  EXPECT_EQ((*beside)->calls({}).value().size(), 2U);
}

TEST_F(BooksTest, say_why_a_file_cannot_be_read) {
  const auto why = [](const std::string& path) {
    const auto books = ledger::open_books(path);
    return books ? std::string{"opened"} : books.error();
  };
  EXPECT_NE(why(folder_.path("none.db")).find("there is no such file"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("none.db")));
  EXPECT_NE(why(folder_.path()).find("directory"), std::string::npos);
  database_.run("PRAGMA user_version = 9");
  EXPECT_NE(why(folder_.path("books.db")).find("newer callgate"), std::string::npos);
  { Database{folder_.path("empty.db"), Database::Open::Write}.run("CREATE TABLE t (a)"); }
  EXPECT_NE(why(folder_.path("empty.db")).find("no ledger of callgate's"), std::string::npos);
  FILE* file = std::fopen(folder_.path("text.db").c_str(), "w");
  std::fputs(std::string(5'000, 'x').c_str(), file);
  std::fclose(file);
  EXPECT_NE(why(folder_.path("text.db")).find("no ledger, or a damaged one"), std::string::npos);
}

TEST(Times, are_read_as_they_are_written) {
  EXPECT_EQ(ledger::time_text(1'795'953'600'123), "2026-11-29T12:00:00.123Z");
  EXPECT_EQ(ledger::read_time("2026-11-29T12:00:00.123Z"), 1'795'953'600'123);
  EXPECT_EQ(ledger::read_time("2026-11-29T14:00+02:00"), 1'795'953'600'000);
  EXPECT_EQ(ledger::read_time("2026-11-29"), 1'795'953'600'000 - 12 * ledger::kHourMs);
  for (const char* wrong : {"",
                            "2026-11-31",
                            "2026-11-29T",
                            "2026-11-29T25:00Z",
                            "2026-11-29T12:00",
                            "2026-11-29 x",
                            "2026-11-29T12:00:00.Z",
                            "26-11-29"}) {
    EXPECT_FALSE(ledger::read_time(wrong)) << wrong;
  }
  EXPECT_EQ(ledger::read_utc_offset("-05:30"), -330);
  EXPECT_FALSE(ledger::read_utc_offset("+01:07"));
  EXPECT_EQ(ledger::first_id(1'795'953'600'000).substr(0, 13), id_of(1).substr(0, 13));
}

}  // namespace books_test
