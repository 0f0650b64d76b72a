#pragma once
// How are the questions of books.h put to SQLite? In pages, so that no snapshot is old (the log could not be taken
// back while one is).

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ledger/books.h"
#include "ledger/box.h"
#include "ledger/call_detail.h"
#include "ledger/sql.h"

namespace ledger {

class SqlBooks final : public Books {
 public:
  SqlBooks(Database& database, const SealKeys& keys) : db_(database), box_(keys) {}
  SqlBooks(std::unique_ptr<Database> database, const SealKeys& keys)
      : own_(std::move(database)), db_(*own_), box_(keys) {}

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
  Answer<std::vector<LetterLine>> letters(const LettersAsk& ask) override;
  Answer<std::optional<LetterDetail>> letter(std::string_view id, std::string_view tenant) override;
  Answer<std::shared_ptr<const KeptRequest>> letter_request(std::string_view id, int revision) override;
  Answer<std::vector<LetterGroup>> letter_groups(const LettersAsk& ask) override;
  Answer<std::vector<LettersPending>> letters_pending() override;
  Answer<std::vector<Replay>> replays(std::string_view tenant, std::size_t most) override;
  Answer<std::optional<Replay>> replay(std::string_view id, std::string_view tenant) override;
  Answer<std::vector<ReplayItem>> replay_items(std::string_view replay, std::optional<ItemState> state,
                                               std::string_view after, std::size_t most) override;
  Answer<std::vector<std::string>> in_replay(const std::vector<std::string>& letters) override;
  Answer<std::vector<AuditRow>> acts(std::int64_t before_seq, std::size_t most) override;

  Answer<std::vector<RunLine>> runs(const RunsAsk& ask) override;
  Answer<std::optional<RunLine>> run(std::string_view id, std::string_view tenant) override;
  Answer<std::shared_ptr<const StoredAnswer>> run_answer(std::string_view id) override;
  Answer<std::vector<WaitingRun>> waiting_runs(std::string_view queue, std::int64_t before_ms, std::string_view after,
                                               std::size_t most) override;
  Answer<std::optional<std::int64_t>> next_run_at(std::int64_t now_ms) override;
  Answer<std::vector<RunsPending>> runs_pending(std::int64_t now_ms) override;
  Answer<std::vector<WebhookRow>> webhooks_due(std::int64_t now_ms, std::size_t most) override;
  Answer<std::optional<WebhookRow>> untold_webhook(std::string_view run) override;

  Answer<std::vector<KeyRow>> keys(std::string_view key, std::string_view tenant, std::size_t most) override;
  Answer<std::vector<ScopeRow>> scopes(std::int64_t after, std::size_t most) override;

 private:
  std::unique_ptr<Database> own_{};
  Database& db_;
  Box box_;
};

/// As SQLite counts.
[[nodiscard]] std::int64_t limit_of(std::size_t most);

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
