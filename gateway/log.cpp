#include "gateway/log.h"

#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "budget/price.h"
#include "gateway/json_out.h"
#include "ledger/billed_names.h"

namespace gateway {
namespace {

using namespace std::string_view_literals;
using Level = Config::Log::Level;
using classifier::Class;

constexpr std::array kLevels = {"debug"sv, "info"sv, "warn"sv, "error"sv};
constexpr std::array kLevelsText = {"DEBUG"sv, "INFO "sv, "WARN "sv, "ERROR"sv};
constexpr std::array kCallMessages = {
    "call answered"sv, "call failed"sv, "call refused"sv, "call cancelled"sv, "call drained"sv, "call crashed"sv};
static_assert(kCallMessages.size() == kOutcomeNames.size());

// As budget::kWaitNames.
constexpr std::array kWaitFields = {"wait_queue_ms"sv,
                                    "wait_concurrency_ms"sv,
                                    "wait_rate_ms"sv,
                                    "wait_pause_ms"sv,
                                    "wait_breaker_ms"sv,
                                    "wait_retry_budget_ms"sv,
                                    "wait_backoff_ms"sv,
                                    "wait_budget_ms"sv,
                                    "wait_operator_ms"sv};
static_assert(kWaitFields.size() == budget::kWaits);
constexpr std::chrono::milliseconds kWorthTelling{1};  // Shorter waits are none.
constexpr std::size_t kWaitingMax = 2 * 1024 * 1024;
constexpr std::size_t kKeptCapacity = 256 * 1024;
// At most so often is the thread woken. A wake-up costs more than the line itself.
constexpr std::chrono::milliseconds kNap{5};
constexpr std::chrono::seconds kFlushMax{1};

// The longest value of each field, in bytes.
constexpr std::size_t kIdMax = 64;
constexpr std::size_t kNameMax = 128;
constexpr std::size_t kRunIdMax = 256;
constexpr std::size_t kPathMax = 256;
constexpr std::size_t kDetailMax = 200;
constexpr std::size_t kMessageMax = 2048;

/// As sd-daemon(3) has them; the journal takes them off again.
constexpr std::array kJournalPriorities = {"<7>"sv, "<6>"sv, "<4>"sv, "<3>"sv};

/// Whether what is written there goes to systemd's journal, by the unit's own word (JOURNAL_STREAM=DEVICE:INODE).
bool read_by_journal(int fd) {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat about {};
  if (stream == nullptr || ::fstat(fd, &about) != 0) return false;
  return stream == std::to_string(about.st_dev) + ':' + std::to_string(about.st_ino);
}

std::string_view name_of(Level level) { return kLevels[static_cast<std::size_t>(level)]; }

/// A fault of the caller or of nobody is no news for an operator.
Level level_of(const CallRecord& record) {
  if (record.outcome == Outcome::Crashed) return Level::Error;
  if (record.outcome == Outcome::Cancelled) return Level::Info;
  switch (record.cls) {
    case Class::None:
    case Class::InvalidRequest:
    case Class::ContextLength:
    case Class::ContentPolicy:
    case Class::NotFound:
    case Class::TooLarge:
    case Class::Conflict:
    case Class::Cancelled:
    case Class::LocalRequest:
      return Level::Info;
    case Class::Crash:
    case Class::Internal:
      return Level::Error;
    default:
      return Level::Warn;
  }
}

/// Our record has no query in its path. Should one get in, it may be a key (Gemini's ?key=).
std::string_view without_query(std::string_view path) { return path.substr(0, path.find_first_of("?#")); }

/// The two ways in which a line's fields are written: JSON, where what is unknown is null, and words for people,
/// where it is left out. Field names are literals of ours.
class JsonFields {
 public:
  explicit JsonFields(std::string& out) : out_(out) {}
  void text(std::string_view name, std::string_view value, std::size_t max_bytes) {
    key(name);
    append_json(out_, value, max_bytes);
  }
  template <typename Integer>
  void number(std::string_view name, Integer value) {
    key(name);
    append_number(out_, value);
  }
  void ms(std::string_view name, std::chrono::microseconds value) {
    key(name);
    append_ms(out_, value);
  }
  void truth(std::string_view name, bool value) {
    key(name);
    out_ += value ? "true"sv : "false"sv;
  }
  void unknown(std::string_view name) {
    key(name);
    out_ += "null"sv;
  }
  void open(std::string_view name) { key(name), out_ += '{'; }
  void close() { out_ += '}'; }
  void open_list(std::string_view name) { key(name), out_ += '['; }
  void open_item() { comma(), out_ += '{'; }
  void close_list() { out_ += ']'; }

 private:
  void comma() {
    if (out_.back() != '{' && out_.back() != '[') out_ += ',';
  }
  // In one append: there are fifty keys in a line, and the line is on the way of every call.
  void key(std::string_view name) {
    assert(name.size() <= kNameMax);
    std::array<char, kNameMax + 4> text;
    char* end = text.data();
    if (out_.back() != '{' && out_.back() != '[') *end++ = ',';
    *end++ = '"';
    end = std::copy(name.begin(), name.end(), end);
    *end++ = '"';
    *end++ = ':';
    out_.append(text.data(), end);
  }
  std::string& out_;
};

class TextFields {
 public:
  explicit TextFields(std::string& out) : out_(out) {}
  void text(std::string_view name, std::string_view value, std::size_t max_bytes) {
    key(name);
    append_word(out_, value, max_bytes);
  }
  template <typename Integer>
  void number(std::string_view name, Integer value) {
    key(name);
    append_number(out_, value);
  }
  void ms(std::string_view name, std::chrono::microseconds value) {
    key(name);
    append_ms(out_, value);
  }
  void truth(std::string_view name, bool value) {
    if (!value) return;
    key(name);
    out_ += "yes"sv;
  }
  void unknown(std::string_view) {}
  void open(std::string_view name) { key(name), out_ += '['; }
  void close() { out_ += ']'; }
  void open_list(std::string_view name) { open(name); }
  void open_item() {
    blank();
    out_ += '[';
  }
  void close_list() { close(); }

 private:
  void blank() {
    if (out_.back() != '[') out_ += ' ';
  }
  void key(std::string_view name) {
    blank();
    out_ += name;
    out_ += '=';
  }
  std::string& out_;
};

template <typename Fields>
void text_if_any(Fields& fields, std::string_view name, std::string_view value, std::size_t max_bytes) {
  value.empty() ? fields.unknown(name) : fields.text(name, value, max_bytes);
}
template <typename Fields>
void status_if_any(Fields& fields, int status) {
  status == 0 ? fields.unknown("status") : fields.number("status", std::int64_t{status});
}

template <typename Fields>
void write_attempt(Fields& fields, const AttemptRow& attempt) {
  fields.open_item();
  fields.number("number", std::int64_t{attempt.number});
  fields.text("upstream", attempt.upstream, kNameMax);
  text_if_any(fields, "credential", attempt.credential, kNameMax);
  text_if_any(fields, "model", attempt.model, kNameMax);
  status_if_any(fields, attempt.status);
  fields.text("class", classifier::name_of(attempt.cls), kIdMax);
  text_if_any(fields, "code", attempt.code, kIdMax);
  text_if_any(fields, "detail", attempt.detail, kDetailMax);
  text_if_any(fields, "fingerprint", attempt.fingerprint, kIdMax);
  fields.ms("wait_ms", attempt.waited_before);
  text_if_any(fields, "waited_for", ledger::name_of(attempt.waited_for), kIdMax);
  fields.ms("ms", attempt.took);
  fields.truth("possibly_billed", attempt.possibly_billed);
  text_if_any(fields, "provider_request_id", attempt.provider_request_id, kNameMax);
  text_if_any(fields, "cost_usd", attempt.cost ? budget::usd_text(*attempt.cost) : std::string{}, kIdMax);
  text_if_any(fields, "cost_source", attempt.cost_source, kIdMax);
  text_if_any(fields, "cost_tier", attempt.cost_tier, kIdMax);
  fields.close();
}

template <typename Fields>
void write_usage(Fields& fields, const std::optional<classifier::TokenCounts>& tokens) {
  if (!tokens) return fields.unknown("usage");
  fields.open("usage");
  fields.number("input", tokens->input);
  fields.number("cached", tokens->cached_input);
  fields.number("cache_write_5m", tokens->cache_write_5m);
  fields.number("cache_write_1h", tokens->cache_write_1h);
  fields.number("output", tokens->output);
  fields.number("reasoning", tokens->reasoning);
  fields.close();
}

/// What was used beside tokens, or is a part of them with a price of its own: what is there of it.
template <typename Fields>
void write_billed(Fields& fields, const classifier::Billed& billed) {
  if (billed == classifier::Billed{}) return fields.unknown("billed");
  fields.open("billed");
  for (const auto& [name, member] : ledger::kBilledNames) {
    if (billed.*member != 0) fields.number(name, billed.*member);
  }
  fields.close();
}

/// The allow-list. A string that is not named here cannot be logged.
template <typename Fields>
void write_call(Fields fields, const CallRecord& record) {
  fields.text("call_id", record.id, kIdMax);
  fields.text("tenant", record.tenant, kNameMax);
  fields.text("lane", budget::name_of(record.lane), kIdMax);
  text_if_any(fields, "run_id", record.run_id, kRunIdMax);
  text_if_any(fields, "queue", record.queue, kNameMax);
  text_if_any(fields, "trace_id", record.trace ? record.trace->trace_id : std::string_view{}, kIdMax);
  text_if_any(fields, "span_id", record.trace ? record.trace->span_id : std::string_view{}, kIdMax);
  text_if_any(fields, "route", record.route, kNameMax);
  text_if_any(fields, "upstream", record.upstream, kNameMax);
  text_if_any(fields, "operation", record.operation, kIdMax);
  fields.text("method", record.method, kIdMax);
  fields.text("path", without_query(record.path), kPathMax);
  text_if_any(fields, "gen_ai.request.model", record.model, kNameMax);
  text_if_any(fields, "gen_ai.response.model", record.usage.model, kNameMax);
  fields.truth("stream", record.stream);
  status_if_any(fields, record.status);
  fields.text("outcome", ledger::name_of(record.outcome), kIdMax);
  fields.text("class", classifier::name_of(record.cls), kIdMax);
  text_if_any(fields, "reason", record.reason, kIdMax);
  text_if_any(fields, "once", record.once, kIdMax);
  text_if_any(fields, "origin", record.origin, kIdMax);
  fields.open_list("attempts");
  for (const AttemptRow& attempt : record.attempts) write_attempt(fields, attempt);
  fields.close_list();
  fields.ms("queue_ms", record.queued);
  fields.ms("backoff_ms", record.backed_off);
  for (std::size_t i = 0; i < record.waits.size(); ++i) {
    if (record.waits[i] >= kWorthTelling) fields.ms(kWaitFields[i], record.waits[i]);
  }
  record.first_content ? fields.ms("first_content_ms", *record.first_content) : fields.unknown("first_content_ms");
  fields.ms("duration_ms", record.duration);
  fields.number("bytes_in", record.bytes_in);
  fields.number("bytes_out", record.bytes_out);
  write_usage(fields, record.usage.tokens);
  write_billed(fields, record.usage.billed);
  text_if_any(fields, "finish", record.usage.finish.value_or(""), kIdMax);
  // What was never sent has cost nothing; null is what nobody knows.
  const auto cost = record.attempts.empty() ? record.cost.value_or(budget::NanoUsd{}) : record.cost;
  text_if_any(fields, "cost_usd", cost ? budget::usd_text(*cost) : std::string{}, kIdMax);
  text_if_any(fields, "saved_usd", record.saved ? budget::usd_text(*record.saved) : std::string{}, kIdMax);
}

}  // namespace

/// The log's own thread, and what waits for it.
class Log::Writer {
 public:
  explicit Writer(int fd) : fd_(fd) {}

  /// `line` ends with its one newline. Never waits for the descriptor.
  bool hand_over(std::string_view line) {
    bool was_asleep = false;
    {
      const std::scoped_lock lock{mutex_};
      if (waiting_.size() + line.size() > kWaitingMax) {
        dropped_ += 1;
        return false;
      }
      waiting_ += line;
      was_asleep = std::exchange(asleep_, false);
    }
    if (was_asleep) wake_.notify_one();
    return true;
  }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] bool is_journal() const { return is_journal_; }

  void run() {
    // A closed pipe must come back as EPIPE, and signals are for the threads that wait for them.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);

    std::string batch;
    std::unique_lock lock{mutex_};
    for (;;) {
      asleep_ = waiting_.empty();
      wake_.wait(lock, [this] { return !waiting_.empty() || stopping_; });
      asleep_ = false;
      if (waiting_.empty()) break;
      std::swap(batch, waiting_);
      lock.unlock();
      write_lines(batch);
      batch.clear();
      if (batch.capacity() > kKeptCapacity) batch.shrink_to_fit();
      lock.lock();
      wake_.wait_for(lock, kNap, [this] { return stopping_; });
    }
    finished_ = true;
    done_.notify_all();
  }

  /// True once the thread has nothing left to do; false if it hangs in a write(2).
  bool finish() {
    std::unique_lock lock{mutex_};
    stopping_ = true;
    wake_.notify_one();
    const auto finished = [this] { return finished_; };
    if (done_.wait_for(lock, kFlushMax, finished)) return true;
    abandoned_ = true;
    return done_.wait_for(lock, 2 * kPoll, finished);
  }

 private:
  static constexpr std::chrono::milliseconds kPoll{100};

  void write_lines(std::string_view lines) {
    while (!lines.empty()) {
      const std::size_t length = lines.find('\n') + 1;
      write_line(lines.substr(0, length));
      lines.remove_prefix(length);
    }
  }
  void write_line(std::string_view line) {
    // A line that was cut by a full disk must not have the next one glued to it.
    if (torn_) torn_ = write_bytes("\n") == 0;
    const std::size_t written = torn_ ? 0 : write_bytes(line);
    if (written == line.size()) return;
    dropped_ += 1;
    torn_ = torn_ || written > 0;
  }
  /// Gives how many: all, or less if the rest can never be written.
  std::size_t write_bytes(std::string_view bytes) {
    std::size_t written = 0;
    while (written < bytes.size() && !abandoned_) {
      const ssize_t now = ::write(fd_, bytes.data() + written, bytes.size() - written);
      if (now > 0) {
        written += static_cast<std::size_t>(now);
      } else if (now < 0 && errno == EAGAIN) {
        pollfd room{fd_, POLLOUT, 0};
        ::poll(&room, 1, static_cast<int>(kPoll.count()));
      } else if (now == 0 || errno != EINTR) {
        break;
      }
    }
    return written;
  }

  const int fd_;
  const bool is_journal_ = read_by_journal(fd_);
  std::mutex mutex_{};
  std::condition_variable wake_{};
  std::condition_variable done_{};
  std::string waiting_{};
  bool asleep_ = false;
  bool stopping_ = false;
  bool finished_ = false;
  bool torn_ = false;
  std::atomic<bool> abandoned_ = false;
  std::atomic<std::uint64_t> dropped_ = 0;
};

Log::Log(Config::Log options, int fd, std::function<void(std::string_view)> on_line)
    : options_(options), on_line_(std::move(on_line)), writer_(std::make_shared<Writer>(fd)) {
  head_json_ = R"(,"service.name":"callgate","service.version":")" CALLGATE_VERSION R"(","pid":)";
  append_number(head_json_, std::int64_t{::getpid()});
  thread_ = std::thread{[writer = writer_] { writer->run(); }};
}

Log::~Log() {
  own_up_to_gaps(last_now_);
  if (writer_->finish()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

std::uint64_t Log::dropped() const { return writer_->dropped(); }

template <typename Write>
void Log::write_fields(const Write& write) {
  is_json() ? write(JsonFields{line_}) : write(TextFields{line_});
}

void Log::line(Level level, std::string_view event, std::string_view message, Fields fields, WallTime now) {
  if (!wanted(level)) return;
  begin(level, event, message, now);
  write_fields([&](auto sink) {
    for (const auto& [name, value] : fields) {
      value.number() ? sink.number(name, *value.number()) : sink.text(name, value.text(), kMessageMax);
    }
  });
  if (end(level, now)) own_up_to_gaps(now);
}

void Log::call(const CallRecord& record, WallTime now) {
  const Level level = level_of(record);
  if (!wanted(level)) return;
  begin(level, "call", kCallMessages[static_cast<std::size_t>(record.outcome)], now);
  write_fields([&](auto sink) { write_call(sink, record); });
  if (end(level, now)) own_up_to_gaps(now);
}

void Log::begin(Level level, std::string_view event, std::string_view message, WallTime now) {
  line_.clear();
  if (writer_->is_journal()) line_ += kJournalPriorities[static_cast<std::size_t>(level)];
  if (is_json()) {
    line_ += R"({"ts":")";
    append_time(line_, now);
    line_ += R"(","level":")";
    line_ += name_of(level);
    line_ += R"(","msg":)";
    append_json(line_, message, kMessageMax);
    line_ += R"(,"event":")";
    line_ += event;
    line_ += '"';
    line_ += head_json_;
  } else {
    append_time(line_, now);
    line_ += ' ';
    line_ += kLevelsText[static_cast<std::size_t>(level)];
    line_ += ' ';
    append_escaped(line_, message, kMessageMax);
  }
}

bool Log::end(Level level, WallTime now) {
  if (is_json()) line_ += '}';
  line_ += '\n';
  if (on_line_) on_line_(name_of(level));
  last_now_ = now;
  return writer_->hand_over(line_);
}

void Log::own_up_to_gaps(WallTime now) {
  const std::uint64_t dropped_now = dropped();
  if (dropped_now == dropped_told_) return;
  begin(Level::Warn, "log_lines_dropped", "log lines were lost: nobody took them in time", now);
  write_fields([&](auto sink) { sink.number("lines", dropped_now - dropped_told_); });
  if (end(Level::Warn, now)) dropped_told_ = dropped_now;
}

}  // namespace gateway
