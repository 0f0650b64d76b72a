#pragma once
// The doors of the story: all that a call needs of the world. Tests put fakes behind each.

#include <array>
#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "budget/lane.h"
#include "budget/units.h"
#include "classifier/usage.h"
#include "classifier/verdict.h"
#include "gateway/caller.h"
#include "gateway/signal.h"
#include "gateway/upstream.h"

namespace gateway {

using WallTime = std::chrono::system_clock::time_point;

/// Time and chance.
class Runtime {
 public:
  virtual ~Runtime() = default;
  [[nodiscard]] virtual TimePoint now() const = 0;
  [[nodiscard]] virtual WallTime wall_now() const = 0;
  /// In [0, 1).
  [[nodiscard]] virtual double roll() = 0;
  [[nodiscard]] virtual std::uint64_t random_bits() = 0;
  /// Sleeps until the signal's next ring or until `until` (TimePoint::max(): only a ring ends it). It may return
  /// early, so whoever waits looks at the conditions again.
  virtual task<void> wait(Signal& signal, TimePoint until) = 0;
};

/// What a call holds while an attempt runs. Move-only; its end gives everything back, so no way out can forget.
class Permit {
 public:
  Permit() = default;
  explicit Permit(std::function<void()> give_back) : give_back_(std::move(give_back)) {}
  Permit(Permit&& other) noexcept : give_back_(std::exchange(other.give_back_, nullptr)) {}
  Permit& operator=(Permit&& other) noexcept {
    if (this != &other) {
      release();
      give_back_ = std::exchange(other.give_back_, nullptr);
    }
    return *this;
  }
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;
  ~Permit() { release(); }
  void release() {
    if (const auto give_back = std::exchange(give_back_, nullptr)) give_back();
  }
  [[nodiscard]] bool held() const { return static_cast<bool>(give_back_); }

 private:
  std::function<void()> give_back_{};
};

/// What admission must know of a call that wants to make an attempt.
struct Ask {
  std::string upstream{};
  budget::Lane lane = budget::Lane::Bulk;
  TimePoint deadline{};  // After that, waiting is for nothing.
  bool again = false;    // A retry: its place is before those who have not begun.
};

/// Why an attempt may not be made. `stopped` and `draining` are seen by the story itself.
struct Refusal {
  enum class Why : std::uint8_t { QueueFull, WaitedTooLong, Deadline, Stopped, Draining };
  Why why = Why::QueueFull;
  std::chrono::milliseconds retry_after{1'000};  // The true wait, as far as it is known.
};

class Admission {
 public:
  virtual ~Admission() = default;
  virtual task<std::expected<Permit, Refusal>> admit(const Ask& ask, Signal& signal) = 0;
};

/// How a call ended, as design §10 names the endings.
enum class Outcome : std::uint8_t { Answered, Failed, Refused, Cancelled, Drained, Crashed };
inline constexpr std::array<std::string_view, 6> kOutcomeNames = {
    "answered", "failed", "refused", "cancelled", "drained", "crashed"};
[[nodiscard]] constexpr std::string_view name_of(Outcome outcome) {
  return kOutcomeNames[static_cast<std::size_t>(outcome)];
}

/// One try at a provider, as it ended.
struct AttemptRow {
  int number = 0;  // 1 for the first.
  std::string upstream{};
  int status = 0;  // 0: no answer came.
  classifier::Class cls = classifier::Class::None;
  std::string code{};                          // The provider's own.
  std::string detail{};                        // For people; no URL, header or key.
  bool possibly_billed = false;                // Its body had gone out and nobody knows what became of it.
  std::chrono::milliseconds waited_before{0};  // Backoff or hint slept out before it.
  bool waited_for_hint = false;
  std::chrono::microseconds took{0};
  std::string provider_request_id{};
  classifier::Usage usage{};
};

/// All that is remembered of a call: log line, metrics and ledger row are made from this.
struct CallRecord {
  std::string id{};  // UUIDv7.
  std::string tenant{};
  budget::Lane lane = budget::Lane::Bulk;
  std::string run_id{};
  std::string upstream{};
  std::string_view dialect{};
  std::string_view operation{};
  std::string method{};
  std::string path{};   // Without query.
  std::string model{};  // As asked.
  bool stream = false;
  bool sdk_retry = false;  // The caller's SDK marked it as a repetition of its own.

  Outcome outcome = Outcome::Failed;
  int status = 0;  // What the caller got (499: has gone).
  classifier::Class cls = classifier::Class::None;
  std::string_view reason{};  // Our own word for a refusal or for giving up (a literal), else empty.
  std::vector<AttemptRow> attempts{};
  classifier::Usage usage{};  // Of the attempt that answered (or broke off).
  std::chrono::microseconds queued{0};
  std::chrono::microseconds backed_off{0};
  std::optional<std::chrono::microseconds> first_content{};
  std::chrono::microseconds duration{0};
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::string bug{};         // What an exception in the story said; empty unless class is internal.
  bool commit_late = false;  // The answer's end did not wait for its row any longer.
};

/// What is known before the provider is called, and durable by then where a key is given.
struct OpenRow {
  std::string call_id{};
  int attempt = 0;
  std::string upstream{};
};

/// Results of asking whether this very job was seen before (design §3, §7).
enum class Claim : std::uint8_t { Ours };

class Ledger {
 public:
  virtual ~Ledger() = default;
  virtual task<Claim> claim(const CallRecord& record, Signal& signal) = 0;
  /// Returns once the row is handed over (keyed calls: once it is durable).
  virtual task<void> open(const OpenRow& row, Signal& signal) = 0;
  /// Returns once the ending is committed, or `commit_wait` has passed (false then).
  virtual task<bool> end(const CallRecord& record) = 0;
};

struct Services {
  Runtime& runtime;
  Admission& admission;
  Ledger& ledger;
  Upstream& upstream;
};

}  // namespace gateway
