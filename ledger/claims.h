#pragma once
// Was this job seen before? The table `idempotency`: claims, leases, stored answers.
//
//   what stands there              another asks                   its own call ends
//   -----------------------------  -----------------------------  ------------------------------------------------
//   nothing                        Ours, claimed until lease end   –
//   claimed, lease running         Held                            stored with its answer, or gone
//   claimed, lease over            Unknown, taken over             left alone: it is another's now
//   outcome unknown (of a start)   Unknown, taken over             –
//   stored, can be read            Stored; gone if it was for one  –
//   stored, cannot be read         Unknown, taken over             –
//   – each Unknown of these where `rerun` is false: told, and left as it is
//   any, other fingerprint         OtherBody                       –
//   any, expired                   as nothing                      –

#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ledger/records.h"
#include "ledger/seal.h"
#include "ledger/sql.h"
#include "ledger/store.h"

namespace ledger {

/// Works within the transaction that is open and throws SqlError; what it keeps beside the file follows in
/// committed() or is dropped in rolled_back().
class Claims {
 public:
  Claims(Database& database, const StoreOptions& options);

  [[nodiscard]] ClaimAnswer ask(const ClaimAsk& ask);
  /// What can be said without writing, where the disk refuses; outside any transaction. `waiting`: what of this scope
  /// has ended and is still to be written, if anything. Who would be told Ours is told NoStore; with the earlier
  /// call's id, where that may have been paid and `rerun` lets it be made again.
  struct Seen {
    ClaimAnswer answer{};
    bool give_once = false;  // It is to be forgotten now.
  };
  [[nodiscard]] Seen look(const ClaimAsk& ask, const OnceOutcome* waiting, bool recovered);
  /// As it will be stored; empty: it is not to be stored.
  [[nodiscard]] std::string as_stored(const OnceOutcome& once) const;
  void end(const OnceOutcome& once, const std::string& as_stored, std::int64_t now_ms);
  void forget(const Digest& scope, const std::string& call_id);
  /// Its ending was given up, so nobody renews its lease any more.
  void abandon(const Digest& scope, const std::string& call_id);
  /// At the start: whoever held these is gone.
  void close_unknown(std::int64_t now_ms);
  /// Those that are at half their lease get a new one.
  void renew(std::int64_t now_ms);
  [[nodiscard]] bool to_renew(std::int64_t now_ms) const;
  /// More bytes are stored than may be.
  [[nodiscard]] bool over() const { return figures_.bytes > answers_bytes_; }
  [[nodiscard]] bool holds_any() const { return !held_.empty(); }
  /// A small step of expiry and of eviction, if there is anything for it; false: nothing more to do.
  bool tidy(std::int64_t now_ms, int most);

  void configure(std::chrono::milliseconds answers_for, std::uint64_t answers_bytes);
  void committed();
  void rolled_back();

  struct Figures {
    std::uint64_t answers = 0, bytes = 0, evicted = 0, unreadable = 0;
    std::uint64_t paid_again = 0;  // Ended with an answer that another call of the same job had brought already.
  };
  [[nodiscard]] const Figures& figures() const { return figures_; }

 private:
  struct Held {
    std::string call_id{};
    std::int64_t renewed_ms = 0;
    std::int64_t lease_ms = 0;
  };
  /// What a commit changes beside the file.
  struct Change {
    Digest scope{};
    std::optional<Held> held{};         // Held from now on; nothing: not any more.
    std::optional<std::string> body{};  // In memory from now on; nothing: not any more.
  };
  std::expected<StoredAnswer, std::string> read(const Digest& scope, const std::string& call_id);
  const std::string* in_memory(const Digest& scope) const;
  bool holds(const Digest& scope, const std::string& call_id) const;
  ClaimAnswer take(const ClaimAsk& ask, ClaimAnswer::Kind kind, std::string earlier);
  StoredAnswer with_row(StoredAnswer answer, std::string call_id) const;
  void count_out();  // The row that select_ stands on.

  Database& database_;
  Payloads payloads_;
  std::optional<Seal> seal_{};
  std::int64_t answers_for_ms_;
  std::uint64_t answers_bytes_;
  Statement select_, body_, insert_, take_over_, use_, store_, give_up_, remove_, renew_;
  std::map<Digest, Held> held_{};
  std::map<Digest, std::string> bodies_{};  // Payloads::Memory.
  std::vector<Change> changes_{};
  Figures figures_{};
  Figures before_{};  // As it was at the last commit.
};

}  // namespace ledger
