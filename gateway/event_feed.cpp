#include "gateway/event_feed.h"

#include <algorithm>
#include <charconv>
#include <expected>
#include <optional>
#include <utility>
#include <vector>

#include "classifier/headers.h"
#include "gateway/awaited.h"
#include "gateway/config_values.h"
#include "gateway/json_out.h"

namespace gateway {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kPath = "/callgate/v1/events";
constexpr milliseconds kLongestWait{60'000};
constexpr milliseconds kHeartbeat{15'000};
constexpr milliseconds kReadPatience{5'000};
constexpr std::size_t kMost = 1'000;
constexpr std::size_t kStandard = 100;
constexpr std::size_t kPage = 200;  // Of a stream.
constexpr std::size_t kNameMax = 64;

std::string quoted(std::string_view text, std::size_t most) {
  std::string out;
  append_json(out, text, most);
  return out;
}

std::string json_of(const ledger::EventRow& row) {
  std::string out = R"({"id":)";
  append_number(out, row.seq);
  out += R"(,"at":")";
  append_time(out, WallTime{milliseconds{row.at_ms}});
  out += R"(","type":)" + quoted(row.type, kNameMax) + R"(,"data":)" + row.data + "}";
  return out;
}

std::string problem_body(int status, std::string_view title, std::string_view detail, std::string_view more = {}) {
  std::string out = R"({"title":)" + quoted(title, 200) + R"(,"status":)";
  append_number(out, std::int64_t{status});
  out += R"(,"detail":)" + quoted(detail, 400);
  out.append(more) += "}\n";
  return out;
}

AnswerHead head_of(int status, std::string_view type) {
  AnswerHead head;
  head.status = status;
  head.headers.push_back({"Content-Type", std::string{type}});
  head.headers.push_back({"Cache-Control", "no-store"});
  return head;
}

task<void> refuse(Caller& caller, int status, std::string_view title, std::string_view detail,
                  std::string more = {}) {
  AnswerHead head = head_of(status, "application/problem+json");
  if (status == 405) head.headers.push_back({"Allow", "GET"});
  if (status == 503) head.headers.push_back({"Retry-After", "1"});
  const std::string body = problem_body(status, title, detail, more);
  co_await caller.answer(std::move(head), body);
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

struct EventFeed::Ask {
  std::optional<std::int64_t> after{};
  milliseconds wait{0};
  std::size_t limit = kStandard;
  bool stream = false;

  /// Or what is wrong with it.
  static std::expected<Ask, std::string> of(const Inbound& request);
};

std::expected<EventFeed::Ask, std::string> EventFeed::Ask::of(const Inbound& request) {
  Ask ask;
  if (const auto accept = classifier::find(request.headers, "accept"))
    ask.stream = accept->find("text/event-stream") != accept->npos;
  std::string_view query = request.target;
  query.remove_prefix(std::min(query.find('?'), query.size()));
  if (!query.empty()) query.remove_prefix(1);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view name = pair.substr(0, equals);
    const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
    if (name == "after") {
      ask.after = number_in(value);
      if (!ask.after) return std::unexpected{"after must be an event's id, or 0 for the first one that is kept"};
    } else if (name == "wait") {
      const auto ms = read_duration(value);
      if (!ms || *ms < 0 || milliseconds{*ms} > kLongestWait)
        return std::unexpected{"wait must be a duration of at most 60s, such as 30s"};
      ask.wait = milliseconds{*ms};
    } else if (name == "limit") {
      const auto most = number_in(value);
      if (!most || *most < 1 || *most > static_cast<std::int64_t>(kMost))
        return std::unexpected{"limit must be 1 to 1000"};
      ask.limit = static_cast<std::size_t>(*most);
    } else if (!pair.empty()) {
      return std::unexpected{"there is no parameter " + quoted(name, kNameMax) + "; they are after, wait and limit"};
    }
  }
  if (const auto last = classifier::find(request.headers, "last-event-id"); last && ask.stream) {
    ask.after = number_in(*last);
    if (!ask.after) return std::unexpected{"Last-Event-ID must be an event's id"};
  }
  return ask;
}

struct EventFeed::Page {
  std::vector<ledger::EventRow> rows{};
  std::int64_t first = 0;  // That is kept; 0: none.
  std::int64_t last = 0;
  std::string trouble{};  // Why it could not be read; empty: it was.
  /// From where to read on, so that nothing is left out or read again.
  [[nodiscard]] std::int64_t next(std::int64_t after, std::size_t most) const {
    if (rows.size() >= most) return rows.back().seq;
    return std::max({after, last, rows.empty() ? 0 : rows.back().seq});
  }
  [[nodiscard]] bool has_gap(std::int64_t after) const { return after > last || (after > 0 && first - 1 > after); }
};

EventFeed::EventFeed(Runtime& runtime, asio::io_context& io, ledger::Store& store)
    : runtime_(runtime), io_(io), store_(store) {
  // (The store's thread must not touch us: we may be gone, while what is posted then never runs.)
  store_.on_events([this, &loop = io_](std::int64_t) {
    asio::post(loop, [this] {
      ++news_;
      for (Signal* one : waiting_) one->ring();
    });
  });
}

bool EventFeed::is_asked(std::string_view target) { return target.substr(0, target.find('?')) == kPath; }

task<EventFeed::Page> EventFeed::read(std::int64_t after, std::string tenant, std::size_t most) {
  auto awaited = std::make_shared<Awaited<Page>>(io_);
  auto tell = Awaited<Page>::teller(awaited);
  store_.read([after, tenant = std::move(tenant), most, tell = std::move(tell)](ledger::Books& books) mutable {
    Page page;
    // The span first: what comes between the two is read, but not skipped.
    const auto span = books.event_span();
    auto rows = books.events(after, tenant, most);
    if (!span || !rows) {
      page.trouble = span ? rows.error() : span.error();
    } else {
      page.first = span->first;
      page.last = span->second;
      page.rows = std::move(*rows);
    }
    tell(std::move(page));
  });
  std::optional<Page> page = co_await Awaited<Page>::told(awaited, runtime_, runtime_.now() + kReadPatience);
  if (page) co_return std::move(*page);
  Page none;
  none.trouble = "the store did not answer in time";
  co_return none;
}

task<void> EventFeed::wait_for_news(std::uint64_t known, TimePoint until, Signal& signal) {
  // By name: a guard in the frame keeps the set right whichever way the frame ends.
  struct Place {
    std::set<Signal*>& all;
    Signal* one;
    ~Place() { all.erase(one); }
  } place{waiting_, &signal};
  waiting_.insert(&signal);
  while (news_ == known && !signal.stopped() && !signal.draining() && runtime_.now() < until)
    co_await runtime_.wait(signal, until);
}

task<void> EventFeed::serve(const Inbound& request, std::string_view tenant, Caller& caller, Signal& signal) {
  if (request.method != "GET") {
    co_await refuse(caller, 405, "Method not allowed", "Events are read here, by GET.");
    co_return;
  }
  const auto ask = Ask::of(request);
  if (!ask) {
    const std::string why = ask.error();
    co_await refuse(caller, 400, "Bad request", why);
    co_return;
  }
  struct Counted {
    std::size_t& count;
    ~Counted() { --count; }
  } counted{subscribers_};
  ++subscribers_;
  std::string whose{tenant};
  if (ask->stream)
    co_await stream(*ask, std::move(whose), caller, signal);
  else
    co_await answer_once(*ask, std::move(whose), caller, signal);
}

task<void> EventFeed::answer_once(const Ask& ask, std::string tenant, Caller& caller, Signal& signal) {
  const TimePoint until = runtime_.now() + ask.wait;
  std::optional<std::int64_t> after = ask.after;
  for (;;) {
    const std::uint64_t known = news_;
    const Page page = co_await read(after.value_or(INT64_MAX), tenant, ask.limit);
    if (signal.stopped()) co_return caller.abort();
    if (!page.trouble.empty()) {
      co_await refuse(caller, 503, "The store cannot be read", page.trouble);
      co_return;
    }
    if (!after) after = page.last;
    if (page.has_gap(*after)) {
      std::string first = R"(,"first":)";
      append_number(first, page.first);
      co_await refuse(caller,
                      410,
                      "Gone",
                      "That event is not kept any more, or was another file's: ask on from the first that is kept "
                      "(after=0) or from now on (without after).",
                      first);
      co_return;
    }
    if (!page.rows.empty() || runtime_.now() >= until || signal.draining()) {
      std::string body = R"({"events":[)";
      for (std::size_t i = 0; i < page.rows.size(); ++i) body += (i == 0 ? "" : ",") + json_of(page.rows[i]);
      body += R"(],"next":)";
      append_number(body, page.next(*after, ask.limit));
      body += "}\n";
      AnswerHead head = head_of(200, "application/json");
      co_await caller.answer(std::move(head), body);
      co_return;
    }
    after = page.next(*after, ask.limit);
    co_await wait_for_news(known, until, signal);
  }
}

task<void> EventFeed::stream(Ask ask, std::string tenant, Caller& caller, Signal& signal) {
  std::optional<std::int64_t> after = ask.after;
  bool begun = false;
  while (!signal.draining()) {
    const std::uint64_t known = news_;
    const Page page = co_await read(after.value_or(INT64_MAX), tenant, kPage);
    if (signal.stopped()) co_return caller.abort();
    const bool gap = after && page.has_gap(*after);
    if (!begun && (!page.trouble.empty() || gap)) {
      std::string first = R"(,"first":)";
      append_number(first, page.first);
      if (gap)
        co_await refuse(caller,
                        410,
                        "Gone",
                        "That event is not kept any more, or was another file's: ask on from the first that is kept "
                        "(after=0) or from now on (without after).",
                        first);
      else
        co_await refuse(caller, 503, "The store cannot be read", page.trouble);
      co_return;
    }
    // Nobody is to believe that he has heard all.
    if (!page.trouble.empty() || gap) co_return caller.abort();
    if (!after) after = page.last;
    std::string text;
    if (!begun) {
      caller.begin(head_of(200, "text/event-stream"), std::nullopt);
      text = ": events\n\n";
      begun = true;
    }
    for (const ledger::EventRow& row : page.rows) {
      text += "id: ";
      append_number(text, row.seq);
      text += "\nevent: " + row.type + "\ndata: " + json_of(row) + "\n\n";
    }
    after = page.next(*after, kPage);
    if (!text.empty() && !co_await caller.send(text)) co_return caller.abort();
    if (page.rows.size() >= kPage) continue;
    co_await wait_for_news(known, runtime_.now() + kHeartbeat, signal);
    if (signal.stopped()) co_return caller.abort();
    if (news_ == known && !signal.draining()) {
      const std::string beat = ": alive\n\n";
      if (!co_await caller.send(beat)) co_return caller.abort();
    }
  }
  if (begun) {
    const std::string_view nothing;
    co_await caller.finish(nothing);
  } else {
    co_await refuse(caller, 503, "Draining", "callgate is shutting down; ask on elsewhere or in a moment.");
  }
}

}  // namespace gateway
