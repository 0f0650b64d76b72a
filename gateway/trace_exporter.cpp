#include "gateway/trace_exporter.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/otlp_json.h"

namespace gateway {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

}  // namespace

class TraceExporter::Worker {
 public:
  Worker(std::unique_ptr<OtlpWire> wire, ExportBounds bounds) : wire_(std::move(wire)), queue_(bounds) {}

  void aim(std::optional<OtlpTarget> target) {
    const std::scoped_lock lock{mutex_};
    if (target_ ? target && *target == *target_ : !target) return;
    target_ = target ? std::make_shared<const OtlpTarget>(std::move(*target)) : nullptr;
    // A batch that waits for its next try is tried where it goes now.
    aimed_ += 1;
    if (target_ && !thread_.joinable() && !stopping_) thread_ = std::thread{[this] { run(); }};
    wake_.notify_all();
  }

  void ended(const CallRecord& record) {
    bool wake = false;
    {
      const std::scoped_lock lock{mutex_};
      if (!target_ || stopping_) return;
      const TimePoint due = queue_.due();
      if (!queue_.offer(record, Clock::now())) {
        lose(SpansLost::QueueFull, spans_in(record));
        return;
      }
      wake = queue_.due() < due;  // The first of a batch, or the one that fills it.
    }
    if (wake) wake_.notify_all();
  }

  void finish(TimePoint until) {
    const std::scoped_lock lock{mutex_};
    stopping_ = true;
    until_ = until;
    if (!thread_.joinable()) finished_ = true;
    wake_.notify_all();
  }

  void end() {
    finish(TimePoint::min());
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] bool finished() const {
    const std::scoped_lock lock{mutex_};
    return finished_;
  }
  [[nodiscard]] Figures figures() const {
    const std::scoped_lock lock{mutex_};
    Figures figures = figures_;
    figures.waiting = queue_.spans() + under_way_;
    return figures;
  }

 private:
  void run() {
    // Signals are for the I/O thread.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    pthread_setname_np(pthread_self(), "callgate-otlp");
    std::unique_lock lock{mutex_};
    for (;;) {
      while (!stopping_ && queue_.due() > Clock::now()) {
        const TimePoint due = queue_.due();
        due == TimePoint::max() ? wake_.wait(lock) : static_cast<void>(wake_.wait_until(lock, due));
      }
      const std::vector<CallRecord> batch = queue_.take();
      if (batch.empty()) break;  // Only where it is stopping.
      under_way_ = 0;
      for (const CallRecord& record : batch) under_way_ += spans_in(record);
      send(batch, lock);
      under_way_ = 0;
    }
    finished_ = true;
  }

  /// Until it is sent or lost. The lock is held but for the tries themselves.
  void send(const std::vector<CallRecord>& batch, std::unique_lock<std::mutex>& lock) {
    const TimePoint first = Clock::now();
    for (int tries = 1;; ++tries) {
      const std::shared_ptr<const OtlpTarget> target = target_;
      const TimePoint now = Clock::now();
      if (!target) return lose(SpansLost::Off, under_way_);
      if (stopping_ && now >= until_) return lose(SpansLost::Shutdown, under_way_);
      const std::uint64_t aimed = aimed_;
      const TimePoint until = std::min(now + target->timeout, stopping_ ? until_ : TimePoint::max());
      lock.unlock();
      const OtlpAnswer answer = tried(batch, *target, until);
      lock.lock();
      const ExportStep step =
          after(answer, {tries, std::chrono::floor<milliseconds>(Clock::now() - first)}, chance_(dice_));
      figures_.exports[static_cast<std::size_t>(step.result)] += 1;
      figures_.trouble = trouble_of(answer, step);
      if (step.result == Exported::Sent || step.result == Exported::Partial) {
        const auto rejected =
            std::min(static_cast<std::size_t>(std::max<std::int64_t>(answer.rejected, 0)), under_way_);
        figures_.spans += under_way_ - rejected;
        if (rejected > 0) lose(SpansLost::Rejected, rejected);
        return;
      }
      if (step.result == Exported::Refused) return lose(SpansLost::Rejected, under_way_);
      if (stopping_) return lose(SpansLost::Shutdown, under_way_);
      if (!step.again_in) return lose(SpansLost::Unreachable, under_way_);
      const TimePoint when = Clock::now() + *step.again_in;
      wake_.wait_until(lock, when, [&] { return stopping_ || aimed_ != aimed; });
    }
  }

  OtlpAnswer tried(const std::vector<CallRecord>& batch, const OtlpTarget& target, TimePoint until) {
    OtlpAnswer answer;
    try {
      std::vector<Span> spans;
      for (const CallRecord& record : batch)
        std::ranges::move(spans_of(record, target.places), std::back_inserter(spans));
      answer = wire_->post(target, otlp_json(spans, target.resource), until, [this] { return must_stop(); });
    } catch (const std::exception&) {
      answer.why = "callgate failed inside";
    }
    return answer;
  }
  [[nodiscard]] bool must_stop() const {
    const std::scoped_lock lock{mutex_};
    return stopping_ && Clock::now() >= until_;
  }

  static std::string trouble_of(const OtlpAnswer& answer, const ExportStep& step) {
    if (step.result == Exported::Sent) return {};
    if (step.result == Exported::Partial) return "the collector rejects some spans";
    if (answer.status != 0) return "the collector answered " + std::to_string(answer.status);
    return answer.why;
  }
  void lose(SpansLost why, std::size_t spans) { figures_.dropped[static_cast<std::size_t>(why)] += spans; }

  const std::unique_ptr<OtlpWire> wire_;
  mutable std::mutex mutex_{};
  std::condition_variable wake_{};
  ExportQueue queue_;
  std::shared_ptr<const OtlpTarget> target_{};
  std::uint64_t aimed_ = 0;
  Figures figures_{};
  std::size_t under_way_ = 0;
  bool stopping_ = false;
  bool finished_ = false;
  TimePoint until_ = TimePoint::max();
  std::minstd_rand dice_{std::random_device{}()};  // The thread's own.
  std::uniform_real_distribution<double> chance_{0, 1};
  std::thread thread_{};
};

TraceExporter::TraceExporter(std::unique_ptr<OtlpWire> wire, ExportBounds bounds)
    : worker_(std::make_unique<Worker>(std::move(wire), bounds)) {}
TraceExporter::~TraceExporter() { worker_->end(); }
void TraceExporter::aim(std::optional<OtlpTarget> target) { worker_->aim(std::move(target)); }
void TraceExporter::ended(const CallRecord& record) { worker_->ended(record); }
void TraceExporter::finish(TimePoint until) { worker_->finish(until); }
bool TraceExporter::finished() const { return worker_->finished(); }
TraceExporter::Figures TraceExporter::figures() const { return worker_->figures(); }

}  // namespace gateway
