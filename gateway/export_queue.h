#pragma once
// What waits to be exported, in what batches does it leave, and when is a batch tried again? Pure: time and chance
// are handed in.
//
//   a collector …                              the batch is …
//   -----------------------------------------  ----------------------------------------------------------------
//   answers 2xx                                sent; what it rejects by partial_success is counted, not repeated
//   answers 429, 502, 503 or 504; or not at    tried again, after Retry-After or 1 s, 2 s, 4 s, … 30 s with jitter,
//   all                                        for up to 60 s
//   answers anything else                      dropped

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "budget/units.h"
#include "gateway/call_spans.h"

namespace gateway {

using budget::TimePoint;

/// Labels of callgate_otlp_dropped_total: what became of spans that no collector has.
enum class SpansLost : std::uint8_t {
  QueueFull,    // They came faster than they left.
  Rejected,     // The collector did not want them.
  Unreachable,  // It said nothing that helps for a minute.
  Shutdown,     // It could not be reached at the process's end.
  Off,          // Tracing was turned off while they waited.
};
inline constexpr std::array<std::string_view, 5> kSpansLostNames = {
    "queue_full", "rejected", "unreachable", "shutdown", "off"};
/// Labels of callgate_otlp_exports_total, one a try.
enum class Exported : std::uint8_t { Sent, Partial, Again, Refused };
inline constexpr std::array<std::string_view, 4> kExportedNames = {"sent", "partial", "again", "refused"};

struct ExportBounds {
  std::size_t batch = 512;                  // Spans that are sent together, unless one call has more.
  std::chrono::milliseconds delay{1'000};   // The oldest of a batch waits no longer, if the last one is away.
  std::size_t spans = 8'192;                // That may wait.
  std::size_t bytes = 16ULL * 1024 * 1024;  // Of memory, about.
};

class ExportQueue {
 public:
  explicit ExportQueue(ExportBounds bounds = {}) : bounds_(bounds) {}
  /// False: there is no room.
  [[nodiscard]] bool offer(const CallRecord& record, TimePoint now);
  /// When the next batch is to leave; max(): nothing waits.
  [[nodiscard]] TimePoint due() const;
  /// The oldest ones; whole calls.
  [[nodiscard]] std::vector<CallRecord> take();
  [[nodiscard]] std::size_t spans() const { return spans_; }

 private:
  struct Entry {
    CallRecord record{};
    std::size_t bytes = 0;
    TimePoint since{};
  };
  ExportBounds bounds_;
  std::deque<Entry> entries_{};
  std::size_t spans_ = 0;
  std::size_t bytes_ = 0;
};

/// What came of one try.
struct OtlpAnswer {
  int status = 0;     // 0: none came.
  std::string why{};  // For people, if none came; no URL and no header.
  std::optional<std::chrono::milliseconds> retry_after{};
  std::int64_t rejected = 0;  // Spans, of a 2xx.
};
struct Tried {
  int tries = 1;                       // So far.
  std::chrono::milliseconds spent{0};  // Since the first.
};
struct ExportStep {
  Exported result = Exported::Sent;
  std::optional<std::chrono::milliseconds> again_in{};  // Only of Again; nothing: it has been tried for too long.
};
[[nodiscard]] ExportStep after(const OtlpAnswer& answer, const Tried& tried, double roll);

}  // namespace gateway
