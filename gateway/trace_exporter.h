#pragma once
// Sends the spans of calls that have ended to a collector, by a thread of its own, so that no call ever waits for
// one: what a call costs is a copy of its record.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gateway/export_queue.h"
#include "gateway/otlp_settings.h"

namespace gateway {

/// How a batch reaches a collector; otlp_curl.h is what stands behind it in the product.
class OtlpWire {
 public:
  virtual ~OtlpWire() = default;
  /// Over at `until` at the latest, or soon after `stop` has become true.
  virtual OtlpAnswer post(const OtlpTarget& target, const std::string& body, TimePoint until,
                          const std::function<bool()>& stop) = 0;
};

class TraceExporter {
 public:
  explicit TraceExporter(std::unique_ptr<OtlpWire> wire, ExportBounds bounds = {});
  /// What waits is lost.
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  /// Where to, from the next try on; nothing: tracing is off. The first target begins the thread.
  void aim(std::optional<OtlpTarget> target);
  /// A call has ended. Any thread; never waits.
  void ended(const CallRecord& record);
  /// No more calls come: what waits is sent at once, each batch by one try, until `until`.
  void finish(TimePoint until);
  /// After finish(): nothing waits any more.
  [[nodiscard]] bool finished() const;

  struct Figures {
    std::array<std::uint64_t, kExportedNames.size()> exports{};
    std::array<std::uint64_t, kSpansLostNames.size()> dropped{};  // Spans.
    std::uint64_t spans = 0;                                      // That a collector has taken.
    std::size_t waiting = 0;                                      // Spans.
    std::string trouble{};  // Why the last try came to nothing; empty: it has not. For people.
  };
  [[nodiscard]] Figures figures() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace gateway
