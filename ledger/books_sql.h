#pragma once
// How are the questions of books.h put to SQLite? In pages, so that no snapshot is old (the log could not be taken
// back while one is).

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ledger/books.h"
#include "ledger/call_detail.h"
#include "ledger/sql.h"

namespace ledger {

class SqlBooks final : public Books {
 public:
  explicit SqlBooks(Database& database) : db_(database) {}
  explicit SqlBooks(std::unique_ptr<Database> database) : own_(std::move(database)), db_(*own_) {}

  Answer<std::vector<ChargedRow>> charged_since(std::int64_t since_ms) override;
  Answer<std::vector<ChargedRun>> charged_runs(std::size_t most) override;
  Answer<std::vector<GrantRow>> grants_since(std::int64_t since_ms) override;
  Answer<std::vector<PauseRow>> pauses(std::int64_t now_ms) override;
  Answer<std::vector<SpendLine>> spend(const SpendAsk& ask) override;
  Answer<std::int64_t> removed_until() override;
  Answer<std::vector<CallLine>> calls(const CallsAsk& ask) override;
  Answer<std::string> call(std::string_view id, std::string_view tenant) override;
  Answer<std::vector<TimeoutLine>> durations(std::int64_t since_ms) override;
  Answer<std::vector<UsageLine>> usage(const UsageAsk& ask) override;
  Answer<ExportPage> export_calls(const ExportAsk& ask) override;
  Answer<std::vector<EventRow>> events(std::int64_t after_seq, std::string_view tenant, std::size_t most) override;
  Answer<std::pair<std::int64_t, std::int64_t>> event_span() override;
  Answer<std::vector<KeyRow>> keys(std::string_view key, std::string_view tenant, std::size_t most) override;

 private:
  std::unique_ptr<Database> own_{};
  Database& db_;
};

/// What SQLite says becomes the error.
template <typename T, typename Ask>
Books::Answer<T> asked(Ask ask) {
  try {
    return ask();
  } catch (const SqlError& error) {
    return std::unexpected(std::string{"the ledger cannot be read: "} + error.what());
  }
}

/// A part of the calls that is read in one go, ids from `first` to before `end`; empty `end`: all from there.
struct IdPage {
  std::string first{};
  std::string end{};
};
/// The page from `first` on, of about `most` calls, that ends before `end` (empty: nowhere).
[[nodiscard]] IdPage page_from(Database& database, const std::string& first, const std::string& end, int most);

/// Ids of calls that may have ended from `since_ms` on: deadlines are a week away at most.
[[nodiscard]] std::string earliest_id(std::int64_t since_ms);

/// Rows as they stand in the tables, in the order of their ids.
[[nodiscard]] CallDetail call_of(const Statement& row, int from = 0);
[[nodiscard]] AttemptDetail attempt_of(const Statement& row, int from = 0);
[[nodiscard]] const std::string& call_columns();
[[nodiscard]] const std::string& attempt_columns();

}  // namespace ledger
