#pragma once
// Who wants to hear how calls end? The feed of events for workers, under the reserved name.
//
//   GET /callgate/v1/events?after=SEQ&wait=30s&limit=100
//
//   after  the last event that is known; 0: from the first one that is kept; absent: from now on
//   wait   how long an answer without events may be kept back, at most 60s; absent: not at all
//   limit  of events in one answer, 1 to 1000; absent: 100
//
// Answers {"events":[{"id":7,"at":"2026-11-29T16:40:01.123Z","type":"call.ended","data":{…}}],"next":7}: ask on with
// after=next. With `Accept: text/event-stream` the same objects come as server-sent events, from `after` or
// Last-Event-ID (WHATWG HTML §9.2), until one side ends it. Where `after` is older than the first event that is kept,
// the answer is 410 and names it. A caller hears of its own tenant alone.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "gateway/services.h"
#include "ledger/store.h"

namespace gateway {

/// I/O thread only. Each subscriber reads at its own pace; none holds more than one page.
class EventFeed {
 public:
  EventFeed(Runtime& runtime, asio::io_context& io, ledger::Store& store);

  [[nodiscard]] static bool is_asked(std::string_view target);
  task<void> serve(const Inbound& request, std::string_view tenant, Caller& caller, Signal& signal);
  [[nodiscard]] std::size_t subscribers() const { return subscribers_; }

 private:
  struct Ask;
  struct Page;
  task<Page> read(std::int64_t after, std::string tenant, std::size_t most);
  task<void> answer_once(const Ask& ask, std::string tenant, Caller& caller, Signal& signal);
  task<void> stream(Ask ask, std::string tenant, Caller& caller, Signal& signal);
  /// Until there may be news, the caller goes or a drain begins, `until` at the latest.
  task<void> wait_for_news(std::uint64_t known, TimePoint until, Signal& signal);

  Runtime& runtime_;
  asio::io_context& io_;
  ledger::Store& store_;
  std::set<Signal*> waiting_{};
  std::uint64_t news_ = 0;  // Counts the store's rings.
  std::size_t subscribers_ = 0;
};

}  // namespace gateway
