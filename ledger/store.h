#pragma once
// One file that remembers: calls, attempts, keys, spend, events (design §8).
//
//   who               does what
//   ----------------  --------------------------------------------------------------------------------------------
//   any thread        hands over what is to be written, or a reading
//   writer's thread   takes all that waits as one transaction (group commit), then tells each who asked; checkpoints,
//                     retention in small steps
//   reader's thread   readings one after the other, each on short snapshots of its own
//   keeper's thread   writes the log back into the file, beside commits and readings
//
//   when              what happens
//   ----------------  --------------------------------------------------------------------------------------------
//   committed         done(Written::Committed), on the writer's thread
//   disk refuses      what waits stays, in order, and is tried again (100 ms, doubling to 5 s); claims are answered
//                     at once by what can be read: an answer that is there is given, else NoStore; figures().trouble
//                     says why, until a transaction succeeds (where nothing waits, an empty one is tried)
//   the file is       looked for each second. Gone, or its log: what is known is written into a new file there, and
//   removed           rows wait until it is. Another file stands there: what is known goes on in PATH.kept-TIME, and
//                     figures().elsewhere says so to the end
//   disk stalls       a transaction takes more than 3 s: figures().trouble says so until it is over; all that comes
//                     waits behind it
//   too much waits    the oldest is given up, counted by kind: done(Written::Lost). What carries a letter or a run's
//                     end has bounds of its own, as many and four times the bytes, and outlasts all else
//   start             the file is checked; attempts that were open become "outcome unknown, possibly billed" and
//                     their reserved money is charged; claims that were held become Unknown; runs that were
//                     running are queued again
//   a lease of a run  is over for another whole lease: the run is queued again. Not while the disk refused, or the
//                     process stood still, or the clock has leapt: then owners are given one more lease
//   end               all that waits is written, for at most `flush_for`
//
// SQLite today; no word of the interface says so, but Problem's texts.

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ledger/books.h"
#include "ledger/letters.h"
#include "ledger/records.h"
#include "ledger/runs.h"

namespace ledger {

enum class Commit : std::uint8_t {
  Process,  // Survives the end of this process, however it ends; a power cut may take the last moments.
  Disk,     // Synced before it is told.
};

/// What is stored of answers (and later of letters and runs).
enum class Payloads : std::uint8_t {
  Memory,     // Not on disk: bodies live in this process' memory and are gone with it.
  Encrypted,  // AES-256-GCM by the key file.
  Plain,
};

struct Retention {
  std::chrono::milliseconds calls{90LL * 24 * 3'600'000};
  std::chrono::milliseconds events{30LL * 24 * 3'600'000};
  std::chrono::milliseconds dead_letters{30LL * 24 * 3'600'000};  // From arrival, whatever their state.
  std::chrono::milliseconds runs{30LL * 24 * 3'600'000};          // From their end.
  bool operator==(const Retention&) const = default;
};

struct StoreOptions {
  std::string path = "callgate.db";  // ":memory:": nothing outlives the process.
  Commit commit = Commit::Process;
  Retention retention{};
  Payloads payloads = Payloads::Memory;
  std::string payload_key{};                    // 32 bytes; with Encrypted only. See ledger/seal.h for files of keys.
  std::vector<std::string> old_payload_keys{};  // Still read, never written with.
  std::chrono::milliseconds answers_for{24LL * 3'600'000};  // idempotency.ttl
  std::uint64_t answers_bytes = 256ULL * 1024 * 1024;       // idempotency.max_bytes, as stored
  std::uint64_t letters_bytes = 256ULL * 1024 * 1024;       // dead_letters.max_bytes, of requests as stored
  std::size_t most_waiting = 50'000;                        // Of writes.
  std::uint64_t most_waiting_bytes = 64ULL * 1024 * 1024;
  std::chrono::milliseconds flush_for{3'000};  // At the end.
  /// For leases and retention; rows are told their own times.
  std::function<std::chrono::system_clock::time_point()> now{};
  /// With ":memory:" alone: the file that could not be used, and why. It is tried again; once it can be, all that is
  /// known is in it, or, where it holds the rows of an earlier time, in a file beside it.
  std::string stands_in_for{};
  std::string stands_in_because{};
  bool set_aside_if_broken = true;  // A file that fails its check is renamed and a new one begun, else: no start.
};

/// What ends with a call, in its transaction.
struct CallEnd {
  std::optional<OnceOutcome> once{};
  std::optional<LetterOutcome> letter{};
  std::optional<RunOutcome> run{};
};

/// Why there is no store.
struct Problem {
  enum class Kind : std::uint8_t { Unusable, Newer, Broken, InUse } kind = Kind::Unusable;
  std::string text{};  // What and where, and the mend.
};

enum class Written : std::uint8_t { Committed, Lost };

/// For metrics and readiness. Counts since the start.
struct StoreFigures {
  std::uint64_t commits = 0;
  std::uint64_t rows = 0;            // Calls and attempts that were written.
  std::uint64_t lost_open_rows = 0;  // Given up, by kind; also ended attempts of calls that went on.
  std::uint64_t lost_endings = 0;
  std::uint64_t lost_others = 0;
  std::uint64_t failures = 0;          // Transactions that failed.
  std::uint64_t unknown_outcomes = 0;  // Attempts found open at the start.
  std::uint64_t waiting = 0;
  std::uint64_t waiting_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t log_bytes = 0;  // The write-ahead log's.
  std::uint64_t answers = 0;    // Stored, and their bytes as stored.
  std::uint64_t answers_bytes = 0;
  std::uint64_t answers_evicted = 0;
  std::uint64_t answers_unreadable = 0;  // Stored ones that could not be given: damaged, or their key is gone.
  std::uint64_t letters_bytes = 0;       // Of open letters' requests, as stored.
  std::uint64_t letters_without = 0;     // Written without their request, for want of room.
  std::uint64_t letters_expired = 0;     // Open ones that retention has removed.
  std::uint64_t late_results = 0;        // Of runs, refused by their fence.
  std::uint64_t runs_open = 0;           // Queued and running, …
  std::uint64_t runs_bytes = 0;          // … and their requests, as stored.
  std::string set_aside{};               // Where a broken file went at the start.
  std::uint64_t paid_again = 0;          // Answers to jobs that another call had brought already, unknown to us then.
  std::uint64_t moves = 0;               // How often the file had to be left, or taken up, while it was served.
  std::string last_move{};               // For people.
  std::string trouble{};                 // Why nothing can be written now; empty: all is well.
  /// Why the next start will not find in the file of `path` what is written now; empty: it will.
  std::string elsewhere{};
  std::string last_loss{};  // What was given up last, and why.
};

struct Op;

/// Any thread, all methods. Callbacks run on the store's threads and must not block.
class Store {
 public:
  using Done = std::function<void(Written)>;

  [[nodiscard]] static std::expected<std::unique_ptr<Store>, Problem> open(StoreOptions options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Copies what it needs of the row at once.
  void open_attempt(const OpenRow& row, Done done = {});
  /// The call goes on; its attempts so far have ended. A later open_attempt() or end_call() says the same again.
  void attempt_ended(const CallRecord& call);
  void end_call(const CallRecord& record, CallEnd end, Done done = {});
  void claim(ClaimAsk ask, std::function<void(ClaimAnswer)> answered);
  /// An answer that is not wanted any more (it was delivered), or a claim to be given up.
  void forget_claim(const Digest& scope, std::string call_id);
  void remember_pause(const PauseRow& pause);  // Replaces one of the same name.
  void forget_pause(std::string_view what, std::string_view name);
  void remember_grant(const GrantRow& grant, Done done = {});

  // Runs. Each is synced to disk before it is told.
  /// A run of the same scope, whatever its state, is the same run.
  void accept_run(NewRun run, std::function<void(RunAnswer)> answered, RunBounds bounds = {});
  void take_run(std::string id, std::chrono::milliseconds lease, std::function<void(TakenRun)> taken);
  /// Those held here, with their fences. Who is told `lost` has been taken by another, or ended.
  void renew_runs(std::vector<std::pair<std::string, std::int64_t>> held, std::chrono::milliseconds lease,
                  std::function<void(std::vector<std::string> lost)> renewed);
  /// Without a call of its own: given back, too late, crashed too often, an answer that was there already. False: the
  /// fence was another's, or the store cannot say.
  void end_run(RunOutcome outcome, std::optional<LetterOutcome> letter, std::function<void(bool)> done);
  /// Of one that is queued. The answer is how it stands then; nothing: no such run of that tenant. While the disk
  /// refuses it waits. `webhook_body` as in RunOutcome; an audit without an act is not written.
  void cancel_run(std::string id, std::string tenant, AuditRow audit,
                  std::function<void(std::optional<RunState>)> done, std::string webhook_body = {});
  /// One that failed or died is queued again; its letter stays open until it succeeds.
  void retry_run(std::string id, std::string tenant, AuditRow audit,
                 std::function<void(std::optional<RunState>)> done, RunBounds bounds = {});
  /// An attempt to tell of a run's end is over: told, to be tried again at row.next_ms, or given up with a letter.
  /// What was given up may be told later all the same.
  enum class Telling : std::uint8_t { Told, Again, Dead };
  void webhook_ended(WebhookRow row, Telling how, std::optional<LetterOutcome> letter, Done done = {});

  // Letters and replays. The text of an error says what is in the way, and the mend.
  template <typename T>
  using Answered = std::function<void(std::expected<T, std::string>)>;
  /// How many were open and are not any more. Of `ask` its state, page and number are not looked at.
  void discard_letters(LettersAsk ask, AuditRow audit, Answered<std::int64_t> done);
  /// A new revision of its request, made from revision `from`, which must be the newest. The answer is its number.
  void edit_letter(std::string id, std::string tenant, int from, std::shared_ptr<const KeptRequest> request,
                   LetterForm form, std::string difference, AuditRow audit, Answered<int> done);
  void plan_replay(Replay replay, std::vector<ReplayItem> items, AuditRow audit, Answered<bool> done);
  /// Only from one of `from`; the answer is how it stands then.
  void move_replay(std::string id, std::vector<ReplayState> from, ReplayState to, std::string why, AuditRow audit,
                   Answered<ReplayState> done);
  void replay_item(std::string replay, ReplayItem item, Done done = {});
  void canary_passed(std::string replay, Done done = {});
  void approve_replay(std::string id, std::string by, AuditRow audit, Answered<bool> done);
  void remember_act(AuditRow audit, Done done = {});

  /// `reading` is called on the reader's thread; books are its own until it returns. Nothing is thrown to it.
  void read(std::function<void(Books&)> reading);
  /// Rings after each commit that added events, on the writer's thread. One listener.
  void on_events(std::function<void(std::int64_t last_seq)> listener);

  void configure(const Retention& retention, std::chrono::milliseconds answers_for, std::uint64_t answers_bytes,
                 std::uint64_t letters_bytes);
  [[nodiscard]] StoreFigures figures() const;
  /// What the end may take for what still waits (StoreOptions::flush_for).
  void flush_within(std::chrono::milliseconds most);
  /// Waits until all that was handed over before has been written or given up; false: not within `patience`.
  bool flush(std::chrono::milliseconds patience);

 private:
  void hand_over(Op op);
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ledger
