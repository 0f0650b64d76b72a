// Goal: batches leave by size and by time, what cannot leave is counted, and nobody ever waits for a collector.

#include "gateway/trace_exporter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/pace.h"

namespace trace_exporter_test {

using gateway::after;
using gateway::CallRecord;
using gateway::Exported;
using gateway::ExportQueue;
using gateway::OtlpAnswer;
using gateway::SpansLost;
using gateway::TimePoint;
using gateway::TraceExporter;
using nlohmann::json;
using namespace std::chrono_literals;

CallRecord call(std::size_t attempts, const std::string& id = "c") {
  auto trace = std::make_shared<ledger::CallTrace>();
  trace->trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  trace->span_id = "00000000000000aa";
  trace->flags = 1;
  CallRecord record;
  record.id = id;
  record.attempts.resize(attempts);
  record.trace = std::move(trace);
  return record;
}

TEST(ExportQueue, lets_a_batch_go_when_it_is_full_or_old_enough) {
  ExportQueue queue{{.batch = 10, .delay = 1s, .spans = 100, .bytes = 1'000'000}};
  const TimePoint start{100s};
  EXPECT_EQ(queue.due(), TimePoint::max());
  EXPECT_TRUE(queue.offer(call(1), start));
  EXPECT_TRUE(queue.offer(call(1), start + 300ms));
  EXPECT_EQ(queue.due(), start + 1s) << "by its oldest";
  EXPECT_TRUE(queue.offer(call(5), start + 400ms));
  EXPECT_EQ(queue.due(), start) << "it is full";
  EXPECT_EQ(queue.take().size(), 3U) << "10 spans";
  EXPECT_EQ(queue.spans(), 0U);
  EXPECT_EQ(queue.due(), TimePoint::max());

  EXPECT_TRUE(queue.offer(call(6), start + 2s));
  EXPECT_TRUE(queue.offer(call(6), start + 3s));
  EXPECT_EQ(queue.take().size(), 1U) << "calls are not divided";
  EXPECT_EQ(queue.due(), start + 4s) << "the rest has its own time";
  EXPECT_TRUE(queue.offer(call(20), start + 3s));
  EXPECT_EQ(queue.take().size(), 1U);
  EXPECT_EQ(queue.take().size(), 1U) << "a call of more spans than a batch has goes alone";
  EXPECT_TRUE(queue.take().empty());
}

TEST(ExportQueue, is_bounded_by_spans_and_by_bytes) {
  ExportQueue few{{.batch = 10, .delay = 1s, .spans = 5, .bytes = 1'000'000}};
  EXPECT_TRUE(few.offer(call(1), {}));
  EXPECT_TRUE(few.offer(call(1), {}));
  EXPECT_FALSE(few.offer(call(1), {}));
  EXPECT_TRUE(few.offer(call(0), {}));
  EXPECT_EQ(few.take().size(), 3U);
  EXPECT_TRUE(few.offer(call(1), {})) << "there is room again";

  ExportQueue small{{.batch = 10, .delay = 1s, .spans = 1'000, .bytes = 10'000}};
  std::size_t taken = 0;
  while (taken < 1'000 && small.offer(call(0), {})) taken += 1;
  EXPECT_GT(taken, 2U);
  EXPECT_LT(taken, 20U);
}

TEST(ExportQueue, tries_again_what_may_pass_for_a_minute) {
  for (const int status : {0, 429, 502, 503, 504}) {
    OtlpAnswer answer{.status = status};
    const gateway::ExportStep step = after(answer, {.tries = 1, .spent = 0ms}, 0.5);
    EXPECT_EQ(step.result, Exported::Again) << status;
    EXPECT_EQ(step.again_in, 750ms) << status;
    EXPECT_EQ(after(answer, {.tries = 3, .spent = 5s}, 0).again_in, 2s) << status;
    EXPECT_EQ(after(answer, {.tries = 30, .spent = 5s}, 0.999).again_in, 29'985ms) << status;
    EXPECT_EQ(after(answer, {.tries = 5, .spent = 59s}, 0).again_in, std::nullopt) << status;
    answer.retry_after = 7s;
    EXPECT_EQ(after(answer, {.tries = 5, .spent = 1s}, 0).again_in, 7s) << status;
    answer.retry_after = 0ms;
    EXPECT_EQ(after(answer, {.tries = 1, .spent = 0ms}, 0).again_in, 1s) << status << ": never at once";
    answer.retry_after = 3h;
    EXPECT_EQ(after(answer, {.tries = 1, .spent = 0ms}, 0).again_in, std::nullopt) << status;
  }
  for (const int status : {301, 400, 401, 403, 404, 413, 500, 501}) {
    EXPECT_EQ(after({.status = status}, {}, 0).result, Exported::Refused) << status;
    EXPECT_EQ(after({.status = status}, {}, 0).again_in, std::nullopt) << status;
  }
  EXPECT_EQ(after({.status = 200}, {}, 0).result, Exported::Sent);
  EXPECT_EQ(after({.status = 200, .rejected = 2}, {}, 0).result, Exported::Partial);
  EXPECT_EQ(after({.status = 200, .rejected = 2}, {}, 0).again_in, std::nullopt) << "never repeated";
}

/// A collector that does what the test says.
struct Collector {
  std::mutex mutex{};
  std::vector<json> bodies{};
  std::vector<OtlpAnswer> answers{};  // One after the other; then 200.
  std::atomic<bool> hangs = false;
  std::atomic<int> posts = 0;

  [[nodiscard]] std::vector<std::size_t> batches() {
    const std::scoped_lock lock{mutex};
    std::vector<std::size_t> spans;
    for (const json& body : bodies) spans.push_back(body["resourceSpans"][0]["scopeSpans"][0]["spans"].size());
    return spans;
  }
};
class Wire final : public gateway::OtlpWire {
 public:
  explicit Wire(Collector& collector) : collector_(collector) {}
  OtlpAnswer post(const gateway::OtlpTarget& /*target*/, const std::string& body, TimePoint until,
                  const std::function<bool()>& stop) override {
    collector_.posts += 1;
    while (collector_.hangs && std::chrono::steady_clock::now() < until && !stop()) std::this_thread::yield();
    if (collector_.hangs) return {.why = "the collector said nothing in time"};
    const std::scoped_lock lock{collector_.mutex};
    collector_.bodies.push_back(json::parse(body));
    if (collector_.answers.empty()) return {.status = 200};
    OtlpAnswer answer = collector_.answers.front();
    collector_.answers.erase(collector_.answers.begin());
    return answer;
  }

 private:
  Collector& collector_;
};

constexpr gateway::ExportBounds kBounds{.batch = 4, .delay = 20ms, .spans = 12, .bytes = 1'000'000};
gateway::OtlpTarget target() {
  gateway::OtlpTarget target;
  target.url = "http://collector/v1/traces";
  return target;
}
std::uint64_t lost(const TraceExporter& exporter, SpansLost why) {
  return exporter.figures().dropped[static_cast<std::size_t>(why)];
}
std::uint64_t tries(const TraceExporter& exporter, Exported how) {
  return exporter.figures().exports[static_cast<std::size_t>(how)];
}

TEST(TraceExporter, sends_what_has_ended_and_nothing_while_it_is_off) {
  Collector collector;
  TraceExporter exporter{std::make_unique<Wire>(collector), kBounds};
  exporter.ended(call(1));
  exporter.aim(target());
  exporter.ended(call(1, "one"));
  ASSERT_TRUE(support::eventually([&] { return exporter.figures().spans == 2; }));
  EXPECT_EQ(collector.batches(), std::vector<std::size_t>{2});
  exporter.aim(std::nullopt);
  exporter.ended(call(1));
  exporter.finish(std::chrono::steady_clock::now() + 10s);
  EXPECT_TRUE(support::eventually([&] { return exporter.finished(); }));
  EXPECT_EQ(exporter.figures().spans, 2U);
  EXPECT_EQ(exporter.figures().waiting, 0U);
}

TEST(TraceExporter, tries_again_and_counts_what_is_rejected) {
  Collector collector;
  collector.answers = {{.status = 503, .retry_after = 1ms}, {.status = 200, .rejected = 1}, {.status = 400}};
  TraceExporter exporter{std::make_unique<Wire>(collector), kBounds};
  exporter.aim(target());
  exporter.ended(call(1));
  ASSERT_TRUE(support::eventually([&] { return tries(exporter, Exported::Partial) == 1; }));
  EXPECT_EQ(tries(exporter, Exported::Again), 1U);
  EXPECT_EQ(lost(exporter, SpansLost::Rejected), 1U);
  EXPECT_EQ(exporter.figures().spans, 1U);
  EXPECT_NE(exporter.figures().trouble, "");
  exporter.ended(call(2));
  ASSERT_TRUE(support::eventually([&] { return tries(exporter, Exported::Refused) == 1; }));
  EXPECT_EQ(lost(exporter, SpansLost::Rejected), 4U);
  EXPECT_EQ(exporter.figures().trouble, "the collector answered 400");
  exporter.ended(call(0));
  ASSERT_TRUE(support::eventually([&] { return tries(exporter, Exported::Sent) == 1; }));
  EXPECT_EQ(exporter.figures().trouble, "");
}

TEST(TraceExporter, drops_and_counts_what_a_silent_collector_does_not_take) {
  Collector collector;
  collector.hangs = true;
  TraceExporter exporter{std::make_unique<Wire>(collector), kBounds};
  exporter.aim(target());
  for (int i = 0; i < 4; ++i) exporter.ended(call(0));
  ASSERT_TRUE(support::eventually([&] { return collector.posts == 1; }));
  for (int i = 0; i < 20; ++i) exporter.ended(call(0));
  EXPECT_EQ(lost(exporter, SpansLost::QueueFull), 8U);
  EXPECT_EQ(exporter.figures().waiting, 16U);
  // At the end there is one try, for as long as it is given.
  exporter.finish(std::chrono::steady_clock::now() + 50ms);
  ASSERT_TRUE(support::eventually([&] { return exporter.finished(); }));
  EXPECT_EQ(lost(exporter, SpansLost::Shutdown), 16U);
  EXPECT_EQ(exporter.figures().waiting, 0U);
}

TEST(TraceExporter, sends_what_waits_at_the_end_without_waiting_for_its_time) {
  Collector collector;
  TraceExporter exporter{std::make_unique<Wire>(collector),
                         {.batch = 4, .delay = 1h, .spans = 100, .bytes = 1'000'000}};
  exporter.aim(target());
  for (int i = 0; i < 3; ++i) exporter.ended(call(2));
  exporter.finish(std::chrono::steady_clock::now() + 10s);
  ASSERT_TRUE(support::eventually([&] { return exporter.finished(); }));
  EXPECT_EQ(collector.batches(), (std::vector<std::size_t>{3, 3, 3}));
  EXPECT_EQ(exporter.figures().spans, 9U);
}

TEST(TraceExporter, goes_to_a_new_target_without_waiting_for_the_old_ones_next_try) {
  Collector collector;
  collector.answers = {{.status = 503, .retry_after = 50s}};
  TraceExporter exporter{std::make_unique<Wire>(collector), kBounds};
  exporter.aim(target());
  exporter.ended(call(1));
  ASSERT_TRUE(support::eventually([&] { return tries(exporter, Exported::Again) == 1; }));
  exporter.aim(target());
  EXPECT_EQ(tries(exporter, Exported::Again), 1U) << "it is the same";
  gateway::OtlpTarget other = target();
  other.url = "http://other/v1/traces";
  exporter.aim(other);
  EXPECT_TRUE(support::eventually([&] { return exporter.figures().spans == 2; }));
}

TEST(TraceExporter, loses_what_waits_when_it_is_turned_off) {
  Collector collector;
  TraceExporter exporter{std::make_unique<Wire>(collector),
                         {.batch = 4, .delay = 1h, .spans = 100, .bytes = 1'000'000}};
  exporter.aim(target());
  exporter.ended(call(1));
  exporter.aim(std::nullopt);
  exporter.finish(std::chrono::steady_clock::now() + 10s);
  ASSERT_TRUE(support::eventually([&] { return exporter.finished(); }));
  EXPECT_EQ(lost(exporter, SpansLost::Off), 2U);
  EXPECT_EQ(collector.posts, 0);
}

}  // namespace trace_exporter_test
