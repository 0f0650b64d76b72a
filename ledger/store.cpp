#include "ledger/store.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "ledger/claims.h"
#include "ledger/file.h"
#include "ledger/ops.h"
#include "ledger/owed.h"
#include "ledger/rows.h"
#include "ledger/schema.h"
#include "ledger/sql.h"

namespace ledger {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Rows that nobody waits for are given so long to find company: a short call's opening and ending are then one.
constexpr milliseconds kCompany{2};
constexpr std::size_t kBatchOps = 256;
constexpr std::uint64_t kBatchBytes = 8ULL * 1024 * 1024;
constexpr std::chrono::seconds kStalled{3};  // A transaction that takes so long.
constexpr std::uint64_t kLeastRoom = 64 * 1024;
constexpr int kSqliteFull = 13;  // SQLITE_FULL.
constexpr milliseconds kBackoffMin{100};
constexpr milliseconds kBackoffMax{5'000};
/// Shorter than anybody's patience: the rows wait better in memory.
constexpr milliseconds kBusy{20};
constexpr milliseconds kMemoryBusy{1'000};  // A memory database has no log: writing waits for readings.
constexpr milliseconds kReaderBusy{2'000};
/// How often leases and retention are looked at while nothing happens: with claims that are held, and without.
constexpr milliseconds kTick{5'000};
constexpr milliseconds kIdleTick{60'000};
/// How often it is looked whether the file is still where it was, and whether one that could not be used can be.
constexpr milliseconds kPlaceTick{1'000};
constexpr milliseconds kPlaceWaitMax{60'000};
constexpr milliseconds kStandInTick{5'000};
constexpr milliseconds kRunTick{1'000};  // While runs are held; with short leases half of the shortest.
/// So long without a look, or a clock so far from where it should be: owners may not have renewed in time. Never
/// longer than the shortest lease that is held.
constexpr milliseconds kGap{5'000};
/// Letters and ends of runs that wait may have so many times the bytes of all else.
constexpr std::uint64_t kOwedShare = 4;
constexpr std::int64_t kTidyEveryMs = 60'000;
constexpr milliseconds kTidyStep{20};  // Between small steps, while there is more to remove.
constexpr int kTidyRows = 100;
// Each so many bytes of log are written back beside the commits, by the keeper. What has come meanwhile is left, so
// that the log never ends that way under load; from kLogBytes on the writer stands still for the small rest, waits
// for readers a little, and the log begins anew.
constexpr std::uint64_t kCheckpointBytes = 4ULL << 20U;
constexpr std::uint64_t kLogBytes = 16ULL << 20U;
constexpr std::uint64_t kMustBytes = 40ULL << 20U;
/// For readings to end, by how long the log has become. Who waits for a commit is late then, and the log bounded.
constexpr std::pair<std::uint64_t, milliseconds> kLogPatience[] = {
    {48ULL << 20U, milliseconds{1'000}}, {32ULL << 20U, milliseconds{250}}, {0, milliseconds{50}}};
constexpr milliseconds kMustPatience{1'000};
constexpr milliseconds kMustEvery{250};
constexpr milliseconds kPushMin{100};
constexpr milliseconds kPushMax{1'000};

std::uint64_t size_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

/// Of which claim this is the end; null: of none.
const Digest* ended_claim(const Op& op) {
  const auto* end = std::get_if<EndOp>(&op.what);
  if (end != nullptr && end->end.once) return &end->end.once->scope;
  const auto* forget = std::get_if<ForgetOp>(&op.what);
  return forget != nullptr ? &forget->scope : nullptr;
}

SealKeys keys_of(const StoreOptions& options) {
  if (options.payloads != Payloads::Encrypted) return {};
  return {options.payload_key, options.old_payload_keys};
}

/// For some rows. True where that cannot be said.
bool has_room(const std::string& path) {
  struct statvfs disk {};
  if (::statvfs(path.c_str(), &disk) != 0) return true;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize >= kLeastRoom;
}

}  // namespace

class Store::Impl {
 public:
  Impl(StoreOptions options, OpenFile file);
  ~Impl();

  void hand_over(Op op);
  void read(std::function<void(Books&)> reading);
  void on_events(std::function<void(std::int64_t)> listener);
  void configure(const Retention& retention, milliseconds answers_for, std::uint64_t answers_bytes,
                 std::uint64_t letters_bytes);
  [[nodiscard]] StoreFigures figures() const;
  bool flush(milliseconds patience);
  void flush_within(milliseconds most);

 private:
  struct Settings {
    Retention retention{};
    milliseconds answers_for{};
    std::uint64_t answers_bytes = 0;
    std::uint64_t letters_bytes = 0;
  };

  // The writer's thread.
  void write_all();
  /// Nothing: there is something else to look at, or it is time to stop.
  std::vector<Op> take();
  void commit(std::vector<Op> batch);
  void commit_alone(std::vector<Op> batch);
  /// `to_disk`: synced whatever options say.
  template <typename Work>
  void transact(Work work, bool to_disk = false);
  [[nodiscard]] bool is_synced(const Op& op);
  void sync_as(Commit commit);
  void prepare(Op& op) const;
  void execute(Op& op);
  void tell_committed(std::vector<Op>& batch);
  void put_back(std::vector<Op> batch);
  /// To who reads, and to who tells them. With mutex_ held.
  void let_impatient_go();
  void fail(const SqlError& error);
  void look();
  [[nodiscard]] milliseconds shortest_lease() const;
  void tidy();
  void checkpoint();
  void look_up_claims();
  void look_at_place();
  void mend_place(Place place);
  void take_up_file();
  void go_on_at(OpenFile file, std::string elsewhere, std::string told);
  [[nodiscard]] std::function<bool()> until_the_end();

  void read_all();  // The reader's thread.
  void keep();      // The keeper's.

  // Any thread.
  void tell_given_up();

  // With the lock.
  void trouble_is(std::string text);
  void count_in(const Op& op);
  void count_out(const Op& op);
  void shorten();
  void give_up(Op op, const std::string& why);
  [[nodiscard]] std::uint64_t settled() const;
  [[nodiscard]] bool in_memory() const { return options_.path == ":memory:"; }
  [[nodiscard]] bool in_trouble() const { return retry_at_.has_value(); }

  StoreOptions options_;
  std::vector<std::shared_ptr<FileLock>> old_locks_{};  // Until the last connection to their files is gone.
  OpenFile file_;
  std::unique_ptr<Database> reading_from_{};  // The reader's.
  Database& database_;
  Rows rows_;
  Claims claims_;
  Owed owed_;
  Commit synced_as_;
  steady_clock::time_point looked_{};
  std::int64_t looked_ms_ = 0;
  Statement remember_pause_, forget_pause_, remember_grant_;
  bool recovered_ = false;
  bool displaced_ = false;  // The file does not stand where it stood.
  steady_clock::time_point next_place_{};
  milliseconds place_wait_{kPlaceTick};
  std::int64_t told_event_ = 0;
  std::int64_t tidied_ms_ = 0;  // When all was last found tidy.
  bool more_to_remove_ = false;
  steady_clock::time_point next_step_{};
  std::uint64_t page_bytes_ = 0;
  std::int64_t next_checkpoint_ = 0;  // Pages of the log.
  steady_clock::time_point next_push_{};
  steady_clock::time_point last_push_{};
  milliseconds push_after_ = kPushMin;

  mutable std::mutex mutex_;
  std::condition_variable for_kept_, for_writer_, for_reader_, for_keeper_, for_flush_;
  bool keeping_ = false;  // The log is being written back, …
  bool kept_ = false;     // … and was, since the writer looked.
  std::deque<Op> waiting_{};
  std::size_t urgent_ = 0;  // Of those that wait.
  std::uint64_t waiting_bytes_ = 0;
  std::size_t owed_waiting_ = 0;  // Of those that wait.
  std::uint64_t owed_bytes_ = 0;
  std::uint64_t handed_ = 0;                // Since the start.
  std::optional<std::uint64_t> in_hand_{};  // The number of the first of those that are being written.
  steady_clock::time_point in_hand_since_{};
  std::size_t in_hand_count_ = 0;
  std::deque<Op> given_up_{};             // To be told.
  std::deque<Op> asked_{};                // Claims, to be answered by what can be read.
  std::map<Digest, int> once_waiting_{};  // Of those that wait: how many end or forget a claim.
  std::uint64_t files_ = 0;               // That were opened.
  std::vector<std::pair<Digest, std::string>> abandoned_{};
  std::deque<std::function<void(Books&)>> readings_{};
  std::function<void(std::int64_t)> listener_{};
  std::optional<Settings> settings_{};
  std::optional<steady_clock::time_point> retry_at_{};
  milliseconds backoff_ = kBackoffMin;
  std::optional<steady_clock::time_point> stop_at_{};
  bool reader_stops_ = false;
  StoreFigures figures_{};

  std::thread writer_;
  std::thread reader_;
  std::thread keeper_;
};

Store::Impl::Impl(StoreOptions options, OpenFile file)
    : options_(std::move(options)),
      file_(std::move(file)),
      database_(*file_.database),
      rows_(database_),
      claims_(database_, options_),
      owed_(database_, options_, rows_),
      synced_as_(options_.commit),
      remember_pause_(database_, "INSERT OR REPLACE INTO pauses(what, name, until_ms) VALUES (?, ?, ?)"),
      forget_pause_(database_, "DELETE FROM pauses WHERE what = ? AND name = ?"),
      remember_grant_(database_,
                      "INSERT INTO grants(at_ms, tenant, period, run_id, amount_nano) VALUES (?, ?, ?, ?, ?)") {
  figures_.set_aside = file_.set_aside;
  if (!options_.stands_in_for.empty()) figures_.elsewhere = options_.stands_in_because;
  next_place_ = steady_clock::now() + (in_memory() ? kStandInTick : kPlaceTick);
  told_event_ = rows_.last_event();
  page_bytes_ = static_cast<std::uint64_t>(database_.number("PRAGMA page_size").value_or(4'096));
  database_.be_patient(in_memory() ? kMemoryBusy : kBusy);
  // Before anything new is written: what is open now was not opened by us. If the disk refuses, the first transaction
  // that it takes begins with it.
  try {
    transact([] {});
  } catch (const SqlError& error) {
    if (!error.of_the_place()) throw;
    fail(error);
  }
  reading_from_ = std::make_unique<Database>(file_.path, Database::Open::Read, kReaderBusy);
  writer_ = std::thread([this] { write_all(); });
  reader_ = std::thread([this] { read_all(); });
  if (!in_memory() || !options_.stands_in_for.empty()) keeper_ = std::thread([this] { keep(); });
}

Store::Impl::~Impl() {
  {
    const std::scoped_lock lock(mutex_);
    stop_at_ = steady_clock::now() + options_.flush_for;
  }
  for_writer_.notify_one();
  writer_.join();
  {
    const std::scoped_lock lock(mutex_);
    while (!waiting_.empty()) {
      Op op = std::move(waiting_.front());
      waiting_.pop_front();
      give_up(std::move(op), "the process ended");
    }
    std::ranges::move(asked_, std::back_inserter(given_up_));
    asked_.clear();
    reader_stops_ = true;
  }
  for_reader_.notify_one();
  for_keeper_.notify_one();
  reader_.join();
  if (keeper_.joinable()) keeper_.join();
  tell_given_up();
}

// --- handing over --------------------------------------------------------------------------------------------------

void Store::Impl::hand_over(Op op) {
  op.bytes = bytes_of(op);
  op.since = steady_clock::now();
  {
    const std::scoped_lock lock(mutex_);
    op.number = handed_++;
    if (in_trouble() && is_impatient(op)) {
      (std::holds_alternative<ClaimOp>(op.what) ? asked_ : given_up_).push_back(std::move(op));
    } else {
      count_in(op);
      waiting_.push_back(std::move(op));
      shorten();
    }
  }
  for_writer_.notify_one();
}

void Store::Impl::count_in(const Op& op) {
  waiting_bytes_ += op.bytes;
  if (op.urgent) ++urgent_;
  if (const Digest* scope = ended_claim(op)) ++once_waiting_[*scope];
  if (!is_owed(op)) return;
  ++owed_waiting_;
  owed_bytes_ += op.bytes;
}

void Store::Impl::count_out(const Op& op) {
  waiting_bytes_ -= op.bytes;
  if (op.urgent) --urgent_;
  if (const Digest* scope = ended_claim(op)) {
    if (const auto found = once_waiting_.find(*scope); --found->second == 0) once_waiting_.erase(found);
  }
  if (!is_owed(op)) return;
  --owed_waiting_;
  owed_bytes_ -= op.bytes;
}

void Store::Impl::shorten() {
  const auto give_up_oldest = [&](bool owed) {
    const auto oldest = std::ranges::find_if(waiting_, [&](const Op& op) { return is_owed(op) == owed; });
    Op op = std::move(*oldest);
    count_out(op);
    waiting_.erase(oldest);
    give_up(std::move(op), "too much waited to be written");
  };
  while (waiting_.size() - owed_waiting_ > options_.most_waiting ||
         waiting_bytes_ - owed_bytes_ > options_.most_waiting_bytes) {
    give_up_oldest(false);
  }
  while (owed_waiting_ > options_.most_waiting || owed_bytes_ / kOwedShare > options_.most_waiting_bytes) {
    give_up_oldest(true);
  }
}

void Store::Impl::give_up(Op op, const std::string& why) {
  std::string what = "a claim";
  if (const auto* open = std::get_if<OpenOp>(&op.what)) {
    ++figures_.lost_open_rows;
    what = "the open row of call " + open->call.id;
  } else if (const auto* ended = std::get_if<AttemptEndedOp>(&op.what)) {
    ++figures_.lost_open_rows;
    what = "the ended attempts of call " + ended->call.id;
  } else if (const auto* end = std::get_if<EndOp>(&op.what)) {
    ++figures_.lost_endings;
    what = "the ending of call " + end->record.id;
    const std::optional<OnceOutcome>& once = end->end.once;
    if (once) abandoned_.emplace_back(once->scope, once->call_id);
  } else if (!is_impatient(op)) {
    // Claims and the like are answered, so nothing of them is lost.
    ++figures_.lost_others;
    const auto* work = std::get_if<WorkOp>(&op.what);
    what = work != nullptr ? std::string{work->what} : "a change of pauses, grants or claims";
  }
  if (!is_impatient(op)) figures_.last_loss = what + ": " + why;
  given_up_.push_back(std::move(op));
  for_reader_.notify_one();
}

void Store::Impl::tell_given_up() {
  std::unique_lock lock(mutex_);
  while (!given_up_.empty()) {
    Op given = std::move(given_up_.front());
    given_up_.pop_front();
    lock.unlock();
    if (auto* claim = std::get_if<ClaimOp>(&given.what)) {
      ClaimAnswer answer;
      answer.kind = ClaimAnswer::Kind::NoStore;
      if (claim->answered) claim->answered(std::move(answer));
    }
    if (auto* work = std::get_if<WorkOp>(&given.what)) work->tell(false);
    if (given.done) given.done(Written::Lost);
    lock.lock();
  }
  for_flush_.notify_all();
}

std::uint64_t Store::Impl::settled() const {
  if (in_hand_) return *in_hand_;
  return waiting_.empty() ? handed_ : waiting_.front().number;
}

bool Store::Impl::flush(milliseconds patience) {
  std::unique_lock lock(mutex_);
  const std::uint64_t wanted = handed_;
  if (!waiting_.empty() && !waiting_.back().urgent) {
    waiting_.back().urgent = true;
    ++urgent_;
  }
  for_writer_.notify_one();
  return for_flush_.wait_for(
      lock, patience, [&] { return settled() >= wanted && given_up_.empty() && asked_.empty(); });
}

void Store::Impl::flush_within(milliseconds most) {
  const std::scoped_lock lock(mutex_);
  options_.flush_for = most;
}

// --- writing -------------------------------------------------------------------------------------------------------

void Store::Impl::write_all() {
  bool looked_last = false;
  for (;;) {
    std::vector<Op> batch = take();
    if (!batch.empty()) commit(std::move(batch));
    tell_given_up();
    look_up_claims();
    look();
    look_at_place();
    tidy();
    checkpoint();
    const std::scoped_lock lock(mutex_);
    if (!stop_at_ || (!waiting_.empty() && steady_clock::now() < *stop_at_)) continue;
    if (looked_last) return;
    // What was written a moment ago shall not be in a file without a name.
    looked_last = true;
    next_place_ = {};
  }
}

std::vector<Op> Store::Impl::take() {
  std::unique_lock lock(mutex_);
  milliseconds until_look = claims_.holds_any() ? kTick : kIdleTick;
  if (owed_.runs.holds_any()) until_look = std::min(kRunTick, shortest_lease() / 2);
  if (more_to_remove_ || claims_.over()) until_look = kTidyStep;
  steady_clock::time_point look_at = steady_clock::now() + until_look;
  if (!in_memory() || !options_.stands_in_for.empty()) look_at = std::min(look_at, next_place_);
  if (retry_at_) look_at = std::min(look_at, *retry_at_);
  for (;;) {
    for (const auto& [scope, call_id] : abandoned_) claims_.abandon(scope, call_id);
    abandoned_.clear();
    if (settings_) {
      options_.retention = settings_->retention;
      claims_.configure(settings_->answers_for, settings_->answers_bytes);
      owed_.letters.configure(settings_->letters_bytes, settings_->retention.dead_letters.count());
      settings_.reset();
      more_to_remove_ = true;
      return {};
    }
    const steady_clock::time_point now = steady_clock::now();
    steady_clock::time_point at = steady_clock::time_point::max();
    if (!waiting_.empty()) {
      const bool company = urgent_ > 0 || waiting_.size() >= kBatchOps || stop_at_;
      at = company ? now : waiting_.front().since + kCompany;
      if (retry_at_) at = *retry_at_;
    }
    if (at <= now) break;
    if (stop_at_ && (waiting_.empty() || now >= *stop_at_)) return {};
    if (!given_up_.empty() || !asked_.empty() || now >= look_at) return {};
    for_writer_.wait_until(lock, std::min({at, look_at, stop_at_.value_or(at)}));
  }
  std::vector<Op> batch;
  std::uint64_t bytes = 0;
  in_hand_ = waiting_.front().number;
  in_hand_since_ = steady_clock::now();
  while (!waiting_.empty() && batch.size() < kBatchOps && bytes < kBatchBytes) {
    Op op = std::move(waiting_.front());
    waiting_.pop_front();
    count_out(op);
    bytes += op.bytes;
    batch.push_back(std::move(op));
  }
  in_hand_count_ = batch.size();
  return batch;
}

/// Also recovery, where the disk refused it at the start.
template <typename Work>
void Store::Impl::transact(Work work, bool to_disk) {
  std::uint64_t found = 0;
  try {
    // What is written where nobody will look for it is not written.
    if (displaced_) throw SqlError(kMoved, "the file has moved");
    sync_as(to_disk ? Commit::Disk : options_.commit);
    Transaction transaction(database_, Transaction::Kind::Write);
    if (!recovered_) {
      const std::int64_t now = ms_of(options_.now());
      owed_.runs.queue_again();
      found = rows_.close_unknown(now);
      claims_.close_unknown(now);
    }
    work();
    transaction.commit();
  } catch (...) {
    rows_.rolled_back();
    claims_.rolled_back();
    owed_.rolled_back();
    throw;
  }
  recovered_ = true;
  rows_.committed();
  claims_.committed();
  owed_.committed();
  bool was_in_trouble = false;
  std::function<void(std::int64_t)> listener;
  {
    const std::scoped_lock lock(mutex_);
    ++figures_.commits;
    figures_.unknown_outcomes += found;
    figures_.answers = claims_.figures().answers;
    figures_.answers_bytes = claims_.figures().bytes;
    figures_.answers_evicted = claims_.figures().evicted;
    figures_.answers_unreadable = claims_.figures().unreadable;
    figures_.paid_again = claims_.figures().paid_again;
    figures_.letters_bytes = static_cast<std::uint64_t>(owed_.letters.figures().bytes);
    figures_.letters_without = owed_.letters.figures().without;
    figures_.letters_expired = owed_.letters.figures().expired;
    figures_.late_results = owed_.runs.late_results();
    figures_.runs_open = static_cast<std::uint64_t>(owed_.runs.open().runs);
    figures_.runs_bytes = static_cast<std::uint64_t>(owed_.runs.open().bytes);
    figures_.trouble.clear();
    was_in_trouble = retry_at_.has_value();
    retry_at_.reset();
    backoff_ = kBackoffMin;
    if (rows_.last_event() > told_event_) listener = listener_;
  }
  if (was_in_trouble) owed_.runs.forbear(ms_of(options_.now()));
  told_event_ = rows_.last_event();
  if (listener) listener(told_event_);
}

/// Of this connection, and not within a transaction.
void Store::Impl::sync_as(Commit commit) {
  if (commit == synced_as_ || in_memory()) return;
  set_durability(database_, commit);
  synced_as_ = commit;
}

bool Store::Impl::is_synced(const Op& op) {
  if (const auto* work = std::get_if<WorkOp>(&op.what)) return work->synced;
  const auto* end = std::get_if<EndOp>(&op.what);
  return end != nullptr && owed_.to_disk(end->end);
}

/// What takes long and needs no transaction: nobody else can write while one is open.
void Store::Impl::prepare(Op& op) const {
  if (const auto* work = std::get_if<WorkOp>(&op.what); work != nullptr && work->prepare) {
    work->prepare(owed_, ms_of(options_.now()));
  }
  auto* end = std::get_if<EndOp>(&op.what);
  if (end == nullptr) return;
  const CallEnd& with = end->end;
  if (with.once && with.once->answer && end->as_stored.empty()) end->as_stored = claims_.as_stored(*with.once);
  if (!end->made.made && (with.letter || with.run)) {
    end->made = owed_.make(with.letter, with.run, end->record.id, ms_of(options_.now()));
  }
}

void Store::Impl::execute(Op& op) {
  if (op.said_later) return;
  if (auto* open = std::get_if<OpenOp>(&op.what)) {
    rows_.open(open->call, open->row, op.reserved);
  } else if (const auto* ended = std::get_if<AttemptEndedOp>(&op.what)) {
    rows_.attempt_ended(ended->call, op.reserved);
  } else if (auto* end = std::get_if<EndOp>(&op.what)) {
    rows_.end(end->record, op.reserved);
    const std::int64_t now = ms_of(options_.now());
    if (end->end.once) claims_.end(*end->end.once, end->as_stored, now);
    if (end->end.letter || end->end.run) owed_.call_ended(end->record, end->end, end->made, now);
  } else if (auto* work = std::get_if<WorkOp>(&op.what)) {
    work->work(owed_, ms_of(options_.now()));
  } else if (auto* claim = std::get_if<ClaimOp>(&op.what)) {
    claim->answer = claims_.ask(claim->ask);
  } else if (auto* forget = std::get_if<ForgetOp>(&op.what)) {
    claims_.forget(forget->scope, forget->call_id);
  } else if (auto* pause = std::get_if<PauseOp>(&op.what)) {
    Statement& statement = pause->forget ? forget_pause_ : remember_pause_;
    statement.bind(1, pause->row.what).bind(2, pause->row.name);
    if (!pause->forget) statement.bind(3, pause->row.until_ms);
    statement.run();
  } else if (auto* grant = std::get_if<GrantOp>(&op.what)) {
    const GrantRow& row = grant->row;
    remember_grant_.bind(1, row.at_ms).bind(2, row.tenant).bind(3, row.period).bind(4, row.run_id);
    remember_grant_.bind(5, row.amount_nano).run();
  }
}

void Store::Impl::tell_committed(std::vector<Op>& batch) {
  {
    const std::scoped_lock lock(mutex_);
    for (const Op& op : batch) {
      if (std::holds_alternative<OpenOp>(op.what) || std::holds_alternative<AttemptEndedOp>(op.what)) ++figures_.rows;
      if (const auto* end = std::get_if<EndOp>(&op.what)) figures_.rows += 1 + end->record.attempts.size();
    }
  }
  for (Op& op : batch) {
    if (auto* claim = std::get_if<ClaimOp>(&op.what)) {
      if (claim->answered) claim->answered(std::move(claim->answer));
    }
    if (auto* work = std::get_if<WorkOp>(&op.what)) work->tell(true);
    if (op.done) op.done(Written::Committed);
  }
}

void Store::Impl::commit(std::vector<Op> batch) {
  fold(batch);
  try {
    for (Op& op : batch) prepare(op);
    const bool to_disk = std::ranges::any_of(batch, [&](const Op& op) { return is_synced(op); });
    transact(
        [&] {
          for (Op& op : batch) execute(op);
        },
        to_disk);
    tell_committed(batch);
    {
      const std::scoped_lock lock(mutex_);
      in_hand_.reset();
    }
    for_flush_.notify_all();
  } catch (const SqlError& error) {
    fail(error);
    unfold(batch);
    if (error.of_the_place() || error.of_the_file()) {
      put_back(std::move(batch));
    } else {
      commit_alone(std::move(batch));
    }
  } catch (const std::exception&) {
    // Memory, or a library of secrets or of compression; which of them, is found out there.
    unfold(batch);
    commit_alone(std::move(batch));
  }
}

/// One of them cannot be written, and must not keep the others back.
void Store::Impl::commit_alone(std::vector<Op> batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    std::vector<Op> one;
    one.push_back(std::move(batch[i]));
    try {
      prepare(one.front());
      transact([&] { execute(one.front()); }, is_synced(one.front()));
      tell_committed(one);
    } catch (const SqlError& error) {
      fail(error);
      if (error.of_the_place() || error.of_the_file()) {
        batch[i] = std::move(one.front());
        batch.erase(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(i));
        put_back(std::move(batch));
        return;
      }
      const std::scoped_lock lock(mutex_);
      retry_at_.reset();
      figures_.trouble.clear();
      give_up(std::move(one.front()), error.what());
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex_);
      ++figures_.failures;
      give_up(std::move(one.front()), error.what());
    }
  }
  {
    const std::scoped_lock lock(mutex_);
    in_hand_.reset();
  }
  for_flush_.notify_all();
}

void Store::Impl::fail(const SqlError& error) {
  const std::scoped_lock lock(mutex_);
  trouble_is(trouble_text(file_.path, error));
}

void Store::Impl::trouble_is(std::string text) {
  ++figures_.failures;
  figures_.trouble = std::move(text);
  retry_at_ = steady_clock::now() + backoff_;
  backoff_ = std::min(backoff_ * 2, kBackoffMax);
}

/// In order, before all that came later. Claims and the like cannot wait.
void Store::Impl::put_back(std::vector<Op> batch) {
  {
    const std::scoped_lock lock(mutex_);
    for (auto op = batch.rbegin(); op != batch.rend(); ++op) {
      count_in(*op);
      waiting_.push_front(std::move(*op));
    }
    in_hand_.reset();
    let_impatient_go();
    shorten();
  }
  tell_given_up();
}

void Store::Impl::let_impatient_go() {
  std::deque<Op> rest;
  for (Op& op : waiting_) {
    if (!is_impatient(op)) {
      rest.push_back(std::move(op));
      continue;
    }
    count_out(op);
    (std::holds_alternative<ClaimOp>(op.what) ? asked_ : given_up_).push_back(std::move(op));
  }
  waiting_ = std::move(rest);
}

/// The disk refuses to be written, and may be read all the same: what was paid is not bought again.
void Store::Impl::look_up_claims() {
  for (;;) {
    Op op;
    std::optional<OnceOutcome> waiting;
    {
      const std::scoped_lock lock(mutex_);
      if (asked_.empty()) break;
      op = std::move(asked_.front());
      asked_.pop_front();
      if (!in_trouble()) {
        count_in(op);
        waiting_.push_back(std::move(op));
        continue;
      }
      const Digest& scope = std::get<ClaimOp>(op.what).ask.scope;
      if (once_waiting_.contains(scope)) {
        const auto last = std::find_if(waiting_.rbegin(), waiting_.rend(), [&](const Op& one) {
          const Digest* ended = ended_claim(one);
          return ended != nullptr && *ended == scope;
        });
        if (const auto* forget = std::get_if<ForgetOp>(&last->what)) {
          waiting.emplace().scope = scope;
          waiting->call_id = forget->call_id;
        } else {
          waiting = std::get<EndOp>(last->what).end.once;
        }
      }
    }
    auto& claim = std::get<ClaimOp>(op.what);
    Claims::Seen seen;
    seen.answer.kind = ClaimAnswer::Kind::NoStore;
    try {
      seen = claims_.look(claim.ask, waiting ? &*waiting : nullptr, recovered_);
    } catch (const std::exception&) {
      // Not even read; the call goes on without.
    }
    if (seen.give_once) {
      Op forget;
      forget.what = ForgetOp{claim.ask.scope, seen.answer.call_id};
      hand_over(std::move(forget));
    }
    if (claim.answered) claim.answered(std::move(seen.answer));
  }
  for_flush_.notify_all();
}

// --- its place -----------------------------------------------------------------------------------------------------

std::function<bool()> Store::Impl::until_the_end() {
  return [this] {
    // Those who ask for a claim do not wait for a whole copy.
    look_up_claims();
    tell_given_up();
    const std::scoped_lock lock(mutex_);
    return !stop_at_ || steady_clock::now() < *stop_at_;
  };
}

/// Rows that go into a file without a name are lost with the process: who has removed or replaced it shall hear of
/// it, and nothing shall be lost.
void Store::Impl::look_at_place() {
  const steady_clock::time_point now = steady_clock::now();
  if (now < next_place_) return;
  if (in_memory()) {
    if (!options_.stands_in_for.empty()) take_up_file();
    next_place_ = steady_clock::now() + kStandInTick;
    return;
  }
  const Place place = place_of(file_);
  displaced_ = place != Place::Same;
  if (displaced_) mend_place(place);
  // A copy that does not succeed (a full disk) is begun ever more seldom.
  place_wait_ = displaced_ ? std::min(place_wait_ * 2, kPlaceWaitMax) : kPlaceTick;
  next_place_ = steady_clock::now() + place_wait_;
}

void Store::Impl::mend_place(Place place) {
  std::string why;
  try {
    // Whoever looks meanwhile is told, and who asks for a claim does not wait for a whole copy.
    fail(SqlError(kMoved, {}));
    {
      const std::scoped_lock lock(mutex_);
      let_impatient_go();
    }
    const std::string path = place_name(file_);
    std::string to = path;
    std::string elsewhere;
    std::string told = path +
                       ": was removed while callgate works with it; what was known has been written into a new "
                       "file there, and nothing is lost";
    if (place == Place::Anothers) {
      to = free_name(path, "kept", options_.now());
      elsewhere = path +
                  ": another file was put in its place while callgate works with it: what was known and what "
                  "comes is in " +
                  to + ". Stop callgate, and decide which of the two is to stand there";
      told = elsewhere;
      // Should we die in the copy, a start would take it for that of the other file, and mix it into it. We read on.
      if (path == file_.path) forget_log(file_);
    }
    std::expected<OpenFile, Problem> file = open_copy(file_, to, options_, until_the_end());
    if (file) {
      return go_on_at(std::move(*file), std::move(elsewhere), std::move(told));
    }
    why = file.error().text;
  } catch (const SqlError& error) {
    why = error.what();
  }
  const std::scoped_lock lock(mutex_);
  figures_.trouble = trouble_text(file_.path, SqlError(kMoved, {})) + " (which does not succeed: " + why + ")";
}

/// Memory takes the place of a file that could not be used at the start: perhaps it can be now.
void Store::Impl::take_up_file() {
  StoreOptions options = options_;
  options.path = options_.stands_in_for;
  options.set_aside_if_broken = false;
  std::string why;
  try {
    std::expected<OpenFile, Problem> found = open_file(options);
    if (!found) {
      const std::scoped_lock lock(mutex_);
      figures_.elsewhere = found.error().text;
      return;
    }
    const bool earlier = holds_rows(*found->database);
    std::string to = found->path;
    std::string elsewhere;
    std::string told = to + ": can be used now; what was known in memory is in it";
    if (earlier) {
      to = free_name(to, "kept", options_.now());
      elsewhere = found->path +
                  ": can be used again, and holds the rows of an earlier time: restart callgate to go on "
                  "with it. What has come since the start, and what comes, is in " +
                  to;
      told = elsewhere;
    }
    OpenFile from;
    from.by_name = found->by_name;
    from.database = std::move(file_.database);
    found->database.reset();
    struct Back {
      OpenFile& from;
      OpenFile& to;
      ~Back() { to.database = std::move(from.database); }
    };
    std::expected<OpenFile, Problem> file = std::unexpected(Problem{});
    {
      const Back back{from, file_};
      file = open_copy(from, to, options, until_the_end());
    }
    if (!file) {
      why = file.error().text;
    } else {
      old_locks_.push_back(found->by_name);
      old_locks_.push_back(found->itself);
      go_on_at(std::move(*file), std::move(elsewhere), std::move(told));
      options_.path = options.path;
      owed_.lasting = true;
      return;
    }
  } catch (const SqlError& error) {
    why = trouble_text(options.path, error);
  }
  const std::scoped_lock lock(mutex_);
  figures_.elsewhere = why;
}

void Store::Impl::go_on_at(OpenFile file, std::string elsewhere, std::string told) {
  database_.become(std::move(*file.database));
  // Enough for every connection to have gone on; of older files nobody asks for a lock.
  constexpr std::size_t kOldLocks = 16;
  if (file_.by_name != file.by_name) old_locks_.push_back(std::move(file_.by_name));
  old_locks_.push_back(std::move(file_.itself));
  if (old_locks_.size() > kOldLocks) old_locks_.erase(old_locks_.begin(), old_locks_.end() - kOldLocks);
  database_.be_patient(kBusy);
  synced_as_ = options_.commit;
  page_bytes_ = static_cast<std::uint64_t>(database_.number("PRAGMA page_size").value_or(4'096));
  next_checkpoint_ = 0;
  displaced_ = false;
  const std::scoped_lock lock(mutex_);
  file_.by_name = std::move(file.by_name);
  file_.itself = std::move(file.itself);
  file_.path = std::move(file.path);
  file_.given = std::move(file.given);
  file_.file = file.file;
  file_.log = file.log;
  file_.index = file.index;
  ++files_;
  ++figures_.moves;
  figures_.last_move = std::move(told);
  figures_.elsewhere = std::move(elsewhere);
  // It is tried at once.
  if (retry_at_) retry_at_ = steady_clock::now();
}

// --- keeping order -------------------------------------------------------------------------------------------------

milliseconds Store::Impl::shortest_lease() const {
  return milliseconds{owed_.runs.shortest_lease_ms().value_or(kGap.count())};
}

void Store::Impl::look() {
  const steady_clock::time_point steady = steady_clock::now();
  const std::int64_t now = ms_of(options_.now());
  const auto since = std::chrono::duration_cast<milliseconds>(steady - looked_);
  const milliseconds gap = std::min(kGap, shortest_lease());
  const bool leapt = now - looked_ms_ > since.count() + gap.count();
  if (looked_ms_ != 0 && (since > gap || leapt)) owed_.runs.forbear(now);
  looked_ = steady;
  looked_ms_ = now;
}

void Store::Impl::tidy() {
  bool probe = false;  // Whether the disk is well again, where no row waits that would tell.
  {
    const std::scoped_lock lock(mutex_);
    if (stop_at_) return;
    if (in_trouble() && steady_clock::now() < *retry_at_) return;
    probe = in_trouble();
  }
  const std::int64_t now = ms_of(options_.now());
  const bool due = more_to_remove_ || claims_.over() || now - tidied_ms_ >= kTidyEveryMs || now < tidied_ms_;
  more_to_remove_ = due;  // Too early after the last step, it is looked at again soon.
  const bool step = due && steady_clock::now() >= next_step_;
  const bool renew = claims_.to_renew(now);
  const bool sweep = owed_.runs.to_sweep(now);
  if (!step && !renew && !sweep && !probe) return;
  try {
    bool more = false;
    transact([&] {
      // A commit of nothing would not touch the disk, and one page may still find room where a row does not.
      if (probe && !has_room(file_.path)) throw SqlError(kSqliteFull, "database or disk is full");
      if (probe) database_.run("PRAGMA user_version = " + std::to_string(kSchemaVersion));
      if (renew) claims_.renew(now);
      if (sweep) owed_.runs.sweep(now);
      if (!step) return;
      const std::int64_t calls = now - options_.retention.calls.count();
      more = rows_.forget_calls(calls, kTidyRows) > 0;
      more = more || rows_.forget_events(now - options_.retention.events.count(), kTidyRows) > 0;
      more = more || rows_.forget_runs(calls, kTidyRows) > 0;
      more = claims_.tidy(now, kTidyRows) || more;
      more = owed_.tidy(now, options_.retention, kTidyRows) || more;
    });
    if (!step) return;
    more_to_remove_ = more;
    if (!more) tidied_ms_ = now;
    next_step_ = steady_clock::now() + kTidyStep;
  } catch (const SqlError& error) {
    fail(error);
  }
}

void Store::Impl::checkpoint() {
  if (displaced_) return;
  const std::int64_t pages = database_.log_pages();
  const auto bytes = static_cast<std::uint64_t>(pages) * page_bytes_;
  if (bytes < kCheckpointBytes) {
    next_checkpoint_ = 0;
    push_after_ = kPushMin;
    return;
  }
  // The keeper is too slow, or readers are always in the way: better that everybody waits a little.
  const bool must = bytes >= kMustBytes;
  bool kept = false;
  {
    std::unique_lock lock(mutex_);
    if (must) for_kept_.wait_for(lock, kMustPatience, [&] { return !keeping_; });
    if (keeping_) return;
    kept = std::exchange(kept_, false) || must;
    if (!kept) {
      if (pages < next_checkpoint_) return;
      keeping_ = true;
      next_checkpoint_ = pages + static_cast<std::int64_t>(kCheckpointBytes / page_bytes_);
    }
  }
  if (!kept) {
    for_keeper_.notify_one();
    return;
  }
  const steady_clock::time_point now = steady_clock::now();
  if (bytes < kLogBytes || now < (must ? std::min(next_push_, last_push_ + kMustEvery) : next_push_)) return;
  last_push_ = now;
  try {
    database_.be_patient(
        std::ranges::find_if(kLogPatience, [&](const auto& row) { return bytes >= row.first; })->second);
    database_.run("PRAGMA wal_checkpoint(RESTART)");
    next_push_ = now + push_after_;
    push_after_ = std::min(push_after_ * 2, kPushMax);
  } catch (const SqlError&) {
    // The log holds all; the next commit tells whether there is trouble.
    next_push_ = now + kPushMax;
  }
  database_.be_patient(in_memory() ? kMemoryBusy : kBusy);
}

void Store::Impl::keep() {
  std::unique_ptr<Database> database;
  std::unique_lock lock(mutex_);
  std::uint64_t of = files_;
  for (;;) {
    for_keeper_.wait(lock, [&] { return keeping_ || reader_stops_; });
    if (reader_stops_) return;
    const std::string path = file_.path;
    const bool moved = std::exchange(of, files_) != files_;
    lock.unlock();
    try {
      if (moved) database.reset();
      if (!database) {
        database = std::make_unique<Database>(path, Database::Open::Again, kReaderBusy);
        set_durability(*database, options_.commit);
      }
      database->run("PRAGMA wal_checkpoint(PASSIVE)");
    } catch (const SqlError&) {
      // As above; it is tried again some megabytes later.
      database.reset();
    }
    lock.lock();
    keeping_ = false;
    kept_ = true;
    for_kept_.notify_one();
  }
}

// --- reading -------------------------------------------------------------------------------------------------------

void Store::Impl::read_all() {
  const std::unique_ptr<Books> books = make_books(*reading_from_, keys_of(options_));
  std::unique_lock lock(mutex_);
  std::uint64_t of = files_;
  for (;;) {
    for_reader_.wait(lock, [&] { return !readings_.empty() || !given_up_.empty() || reader_stops_; });
    if (!given_up_.empty()) {
      lock.unlock();
      tell_given_up();
      lock.lock();
      continue;
    }
    if (readings_.empty()) return;
    const std::function<void(Books&)> reading = std::move(readings_.front());
    readings_.pop_front();
    const std::string path = file_.path;
    const bool moved = of != files_;
    const std::uint64_t now_of = files_;
    lock.unlock();
    if (moved) {
      try {
        reading_from_->become(Database{path, Database::Open::Read, kReaderBusy});
        of = now_of;
      } catch (const SqlError&) {
        // What it says is older; the next reading tries again.
      }
    }
    reading(*books);
    lock.lock();
  }
}

void Store::Impl::read(std::function<void(Books&)> reading) {
  {
    const std::scoped_lock lock(mutex_);
    readings_.push_back(std::move(reading));
  }
  for_reader_.notify_one();
}

void Store::Impl::on_events(std::function<void(std::int64_t)> listener) {
  const std::scoped_lock lock(mutex_);
  listener_ = std::move(listener);
}

void Store::Impl::configure(const Retention& retention, milliseconds answers_for, std::uint64_t answers_bytes,
                            std::uint64_t letters_bytes) {
  {
    const std::scoped_lock lock(mutex_);
    settings_ = Settings{retention, answers_for, answers_bytes, letters_bytes};
  }
  for_writer_.notify_one();
}

StoreFigures Store::Impl::figures() const {
  StoreFigures figures;
  std::string path;
  {
    const std::scoped_lock lock(mutex_);
    path = file_.path;
    figures = figures_;
    figures.waiting = waiting_.size() + (in_hand_ ? in_hand_count_ : 0);
    figures.waiting_bytes = waiting_bytes_;
    // It neither takes nor refuses: nobody is to wait for it either.
    if (in_hand_ && figures.trouble.empty() && steady_clock::now() - in_hand_since_ > kStalled)
      figures.trouble = "the disk of " + file_.path + " has not answered for " + std::to_string(kStalled.count()) +
                        " s; rows wait in memory";
  }
  figures.file_bytes = size_of(path);
  figures.log_bytes = size_of(path + "-wal");
  return figures;
}

// --- the interface -------------------------------------------------------------------------------------------------

std::expected<std::unique_ptr<Store>, Problem> Store::open(StoreOptions options) {
  assert(options.now);
  const std::string path = options.path;
  std::expected<OpenFile, Problem> file = open_file(options);
  if (!file) return std::unexpected(file.error());
  try {
    return std::unique_ptr<Store>(new Store(std::make_unique<Impl>(std::move(options), std::move(*file))));
  } catch (const SqlError& error) {
    return std::unexpected(Problem{Problem::Kind::Unusable, trouble_text(path, error)});
  }
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

void Store::open_attempt(const OpenRow& row, Done done) {
  assert(row.call != nullptr);
  OpenOp open{*row.call, row};
  open.row.call = nullptr;
  Op op;
  op.urgent = row.durable || done;
  op.what = std::move(open);
  op.done = std::move(done);
  impl_->hand_over(std::move(op));
}

void Store::attempt_ended(const CallRecord& call) {
  Op op;
  op.urgent = false;
  op.what = AttemptEndedOp{call};
  impl_->hand_over(std::move(op));
}

void Store::end_call(const CallRecord& record, CallEnd end, Done done) {
  if (end.run && end.run->call_id.empty()) end.run->call_id = record.id;
  Op op;
  op.what = EndOp{record, std::move(end), {}, {}};
  op.done = std::move(done);
  impl_->hand_over(std::move(op));
}

void Store::claim(ClaimAsk ask, std::function<void(ClaimAnswer)> answered) {
  Op op;
  op.what = ClaimOp{std::move(ask), std::move(answered), {}};
  impl_->hand_over(std::move(op));
}

void Store::forget_claim(const Digest& scope, std::string call_id) {
  Op op;
  op.what = ForgetOp{scope, std::move(call_id)};
  impl_->hand_over(std::move(op));
}

void Store::remember_pause(const PauseRow& pause) {
  Op op;
  op.what = PauseOp{pause, false};
  impl_->hand_over(std::move(op));
}

void Store::forget_pause(std::string_view what, std::string_view name) {
  Op op;
  op.what = PauseOp{PauseRow{std::string{what}, std::string{name}, {}}, true};
  impl_->hand_over(std::move(op));
}

void Store::remember_grant(const GrantRow& grant, Done done) {
  Op op;
  op.what = GrantOp{grant};
  op.done = std::move(done);
  impl_->hand_over(std::move(op));
}

void Store::read(std::function<void(Books&)> reading) { impl_->read(std::move(reading)); }
void Store::on_events(std::function<void(std::int64_t)> listener) { impl_->on_events(std::move(listener)); }
void Store::hand_over(Op op) { impl_->hand_over(std::move(op)); }
void Store::configure(const Retention& retention, milliseconds answers_for, std::uint64_t answers_bytes,
                      std::uint64_t letters_bytes) {
  impl_->configure(retention, answers_for, answers_bytes, letters_bytes);
}
StoreFigures Store::figures() const { return impl_->figures(); }
bool Store::flush(milliseconds patience) { return impl_->flush(patience); }
void Store::flush_within(milliseconds most) { impl_->flush_within(most); }

}  // namespace ledger
