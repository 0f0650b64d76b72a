#pragma once
// How do dead letters become rows? The tables dead_letters, letter_steps, letter_requests (ledger/letters.h has the
// rules).

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/box.h"
#include "ledger/letters.h"
#include "ledger/queue_load.h"
#include "ledger/sql.h"
#include "ledger/store.h"

namespace ledger {

/// What a letter tells of the call that failed, beside Letter.
struct LetterOf {
  std::string id{};  // For a new one.
  std::string tenant{}, queue{}, lane{}, run_id{}, labels{}, route{}, upstream{}, model{}, operation{};
  std::string cls{};
  std::string call_id{};  // Empty: it failed without one.
  int status = 0;
  std::int64_t cost_nano = 0;
  std::string attempts = "[]";
};

/// Conditions on dead_letters, each with what it is compared to. `state` and paging are the asker's.
struct LetterConditions {
  std::string sql{};  // " AND tenant = ? AND …"
  std::vector<std::string> texts{};
  std::int64_t since_ms = 0, until_ms = 0;  // Bound behind the texts.

  /// From which parameter on the next ones are free.
  int bind(Statement& statement, int at) const;
};
[[nodiscard]] LetterConditions conditions_of(const LettersAsk& ask);

/// Works within the transaction that is open and throws SqlError; figures follow in committed() or are as before in
/// rolled_back().
class LetterRows {
 public:
  LetterRows(Database& database, const StoreOptions& options, QueueLoad& load);

  [[nodiscard]] bool any_open(const Digest& scope);
  /// `request`: as stored, made for LetterOf::id; empty: none.
  void failed(const LetterOutcome& outcome, const LetterOf& of, const std::string& request, std::int64_t now_ms);
  void answered(const Digest& scope, const std::string& call_id, std::int64_t now_ms);
  /// By ask's conditions, whatever its state, page and number.
  std::int64_t discard(const LettersAsk& ask, const std::string& reason, std::int64_t now_ms);
  /// Why it may not be edited; nothing: it may, and its newest revision is `from`.
  [[nodiscard]] std::optional<std::string> in_the_way(const std::string& id, const std::string& tenant, int from);
  /// `request`: as stored, made for revision from + 1.
  std::expected<int, std::string> edit(const std::string& id, const std::string& tenant, int from,
                                       const std::string& request, const std::string& difference,
                                       std::int64_t now_ms);
  /// A small step. Of those that were open when they expired, the ids come in `open`.
  bool expire(std::int64_t now_ms, std::int64_t retention_ms, int most, std::vector<std::string>& open);

  void configure(std::uint64_t most_bytes, std::int64_t retention_ms);
  void committed() { before_ = figures_; }
  void rolled_back();

  struct Figures {
    std::int64_t open = 0, bytes = 0;
    std::uint64_t without = 0, expired = 0;
  };
  [[nodiscard]] const Figures& figures() const { return figures_; }

 private:
  void step(const std::string& letter, std::string_view what, const std::string& call_id, std::string_view cls,
            std::string_view detail, std::int64_t now_ms);

  Database& database_;
  std::int64_t most_bytes_;
  std::int64_t retention_ms_;
  QueueLoad& load_;
  Statement open_, insert_, again_, end_, remove_requests_, step_, request_;
  Figures figures_{};
  Figures before_{};
};

}  // namespace ledger
