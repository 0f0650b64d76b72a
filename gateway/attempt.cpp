#include "gateway/attempt.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "classifier/announced.h"
#include "classifier/fingerprint.h"
#include "classifier/json.h"
#include "gateway/addressing.h"
#include "gateway/answer_headers.h"
#include "gateway/fault_point.h"
#include "gateway/memo_key.h"
#include "gateway/query.h"
#include "gateway/trace_context.h"
#include "gateway/unknown_answers.h"

namespace gateway {
namespace {

using classifier::Class;
using classifier::Dialect;
using classifier::Headers;
using classifier::ProviderAnswer;
using classifier::same_name;
using classifier::Transport;
using classifier::Verdict;
using std::chrono::milliseconds;

// After an end marker that may still be followed by usage, the transfer's own end is awaited no longer than this.
constexpr milliseconds kAfterTerminal{1'000};
// Comments alone keep a stream alive this many idle times, not for ever.
constexpr int kIdleTimesWithoutEvent = 5;
constexpr std::size_t kDetailMax = 200;
constexpr std::size_t kPieceOfKey = 8;
constexpr std::size_t kEchoMin = 6;  // Shorter codes are in too many headers by chance.

/// Whose clock runs out first?
enum class Clock : std::uint8_t { None, Deadline, Patience, FirstByte, Idle, Total, Hold, Heartbeat, AfterTerminal };
struct Bound {
  TimePoint when = TimePoint::max();
  Clock clock = Clock::None;
  void also(TimePoint other, Clock whose) {
    if (other < when) {
      when = other;
      clock = whose;
    }
  }
};

TimePoint later(TimePoint from, milliseconds span) {
  return span > milliseconds::zero() ? from + span : TimePoint::max();
}

std::string_view words_of(Clock clock) {
  switch (clock) {
    case Clock::Deadline:
      return "the caller's deadline passed";
    case Clock::Patience:
      return "the caller's SDK would not have waited any longer (its timeout, less a margin)";
    case Clock::FirstByte:
      return "no answer within timeouts.first_byte";
    case Clock::Idle:
      return "silence for longer than timeouts.idle";
    case Clock::Total:
      return "longer than timeouts.total";
    default:
      return "";
  }
}

std::string_view request_id_of(const Dialect& dialect, const Headers& headers) {
  for (const std::string_view name : {dialect.request_id_header(),
                                      std::string_view{"x-request-id"},
                                      std::string_view{"request-id"},
                                      std::string_view{"x-amzn-requestid"}}) {
    if (const auto id = classifier::find(headers, name)) return *id;
  }
  return {};
}

bool is_json(const Headers& headers) {
  const auto type = classifier::find(headers, "content-type");
  return type && (type->find("json") != std::string_view::npos) && type->find("ndjson") == std::string_view::npos;
}

bool is_event_stream(const Headers& headers) {
  const auto type = classifier::find(headers, "content-type");
  return type && (type->starts_with("text/event-stream") || type->starts_with("application/vnd.amazon.eventstream"));
}

std::optional<std::uint64_t> content_length(const Headers& headers) {
  const auto text = classifier::find(headers, "content-length");
  if (!text || text->empty() || text->size() > 18) return std::nullopt;
  std::uint64_t length = 0;
  for (const char c : *text) {
    if (c < '0' || c > '9') return std::nullopt;
    length = length * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return length;
}

/// Whatever the case of their letters.
bool shares_piece(std::string_view text, std::string_view secret) {
  const auto same = [](char a, char b) { return classifier::lower(a) == classifier::lower(b); };
  for (std::size_t at = 0; at + kPieceOfKey <= text.size(); ++at) {
    const std::string_view piece = text.substr(at, kPieceOfKey);
    if (std::search(secret.begin(), secret.end(), piece.begin(), piece.end(), same) != secret.end()) return true;
  }
  return false;
}

/// A key that is not short by chance, whole; or a piece of it.
bool repeats_key(std::string_view text, std::string_view key) {
  const auto same = [](char a, char b) { return classifier::lower(a) == classifier::lower(b); };
  if (key.size() >= kEchoMin && std::search(text.begin(), text.end(), key.begin(), key.end(), same) != text.end())
    return true;
  return shares_piece(text, key);
}

/// Keys that came with the call, in headers or query.
std::vector<std::string> callers_keys(const Headers& headers, std::string_view target) {
  Headers keys;
  std::ranges::copy_if(
      headers, std::back_inserter(keys), [](const classifier::Header& header) { return is_key_header(header.name); });
  std::string query;
  for (std::size_t at = std::min(target.find('?'), target.size()); at < target.size();) {
    const std::size_t end = std::min(target.find_first_of("&;", at + 1), target.size());
    const std::string_view pair = target.substr(at + 1, end - at - 1);
    at = end;
    if (!is_key_parameter(pair)) continue;
    (query += query.empty() ? '?' : '&') += pair;
    // The provider reads it decoded.
    if (const auto decoded = parameters_of(pair)) {
      for (const auto& [name, value] : *decoded) keys.push_back({"x-api-key", value});
    }
  }
  return callers_secrets(keys, query);
}

/// What stands in the text, and as JSON may write it, becomes stars.
void mask(std::string& text, const std::string& secret) {
  std::string escaped;
  for (const char c : secret) escaped += c == '/' ? "\\/" : std::string{c};
  for (const std::string& form : {secret, escaped}) {
    if (form.empty()) continue;
    for (std::size_t at = text.find(form); at != std::string::npos; at = text.find(form, at + form.size()))
      text.replace(at, form.size(), form.size(), '*');
    if (escaped == secret) break;
  }
}

/// A key, whatever was put before or behind it when it was written in base64 (a user's name, say).
void mask_key(std::string& text, const std::string& key) {
  for (const std::string& form : also_in_base64({key})) mask(text, form);
}

/// All that the paths below share about one attempt; lives in try_once()'s frame.
struct Try {
  const Call& call;
  const Target& to;
  Admitted& admitted;
  Services services;
  Caller& caller;
  Signal& signal;
  CallRecord& record;
  Attempt attempt{};
  TimePoint began{};
  std::unique_ptr<Exchange> exchange{};
  bool told_proved = false;
  bool answered = false;  // The provider has said all that it will, though nothing of it goes on.

  [[nodiscard]] const Dialect& dialect() const { return *to.dialect; }
  [[nodiscard]] const UpstreamConfig::Timeouts& timeouts() const { return to.config.timeouts; }
  [[nodiscard]] TimePoint now() const { return services.runtime.now(); }

  /// Before the caller has a byte, its SDK's patience counts; the call's deadline and the total always do.
  [[nodiscard]] Bound common_bound() const {
    Bound bound;
    bound.also(later(began, timeouts().total), Clock::Total);
    if (call.patience) return bound;  // Whoever cannot wait any longer leaves alone.
    bound.also(call.deadline, Clock::Deadline);
    if (!attempt.answer_started) bound.also(call.first_content_by, Clock::Patience);
    return bound;
  }
  [[nodiscard]] Bound read_bound() const {
    Bound bound = common_bound();
    bound.also(later(now(), timeouts().idle), Clock::Idle);
    return bound;
  }

  void say_detail(std::string_view detail) { attempt.row.detail = detail.substr(0, kDetailMax); }

  void judged(Verdict verdict) { attempt.verdict = std::move(verdict); }
  /// Remembers the answer that was judged if no rule knew it; `body` is what the verdict was read from.
  void note_unknown(std::string_view body, const Headers* headers) {
    const Verdict& verdict = attempt.verdict;
    if (!verdict.unexplained || attempt.good()) return;
    const int status = exchange->status();
    const bool malformed = verdict.cls == Class::MalformedResponse;
    auto hidden = callers_secrets(call.request.headers, call.target);
    if (admitted.key) hidden.push_back(*admitted.key);
    hidden = also_in_base64(std::move(hidden));
    const classifier::Fingerprint fingerprint =
        malformed ? classifier::fingerprint_of_malformed(dialect().name(), status, verdict.rule)
                  : classifier::fingerprint_of(dialect().name(), status, headers, body, hidden);
    attempt.row.fingerprint = fingerprint.id;
    services.unknown.note({.upstream = attempt.row.upstream,
                           .dialect = dialect().name(),
                           .status = status,
                           .call_id = call.id,
                           .fingerprint = fingerprint,
                           .verdict = verdict},
                          services.runtime.wall_now());
  }
  void failed_by_transport(Transport transport, std::string_view detail) {
    ProviderAnswer answer;
    answer.status = exchange->status();
    answer.headers = &exchange->headers();
    answer.transport = transport;
    answer.rules = to.rules;
    judged(dialect().judge(call.endpoint, answer));
    say_detail(detail);
  }
  void timed_out(Clock clock) {
    attempt.callers_deadline = clock == Clock::Deadline || clock == Clock::Patience;
    judged({.cls = Class::Timeout, .retryable = !attempt.callers_deadline, .rule = "our clock"});
    say_detail(words_of(clock));
  }
  void stopped() {
    attempt.stopped = signal.stopped();
    if (attempt.stopped == StopReason::Shutdown) say_detail("callgate is shutting down");
    if (attempt.stopped == StopReason::Cancelled) say_detail("the call was cancelled by an operator");
    judged({.cls = Class::Cancelled, .rule = "stopped"});
  }
  /// A provider that repeats a key, or a piece of one, as a "code" or an id would bring it into our log.
  void drop_echo() {
    classifier::Usage& usage = attempt.row.usage;
    const bool says_nothing = usage.model.empty() && !usage.finish && usage.service_tier.empty();
    if (attempt.verdict.code.empty() && attempt.row.provider_request_id.empty() && says_nothing) return;
    std::vector<std::string> keys = callers_keys(call.request.headers, call.target);
    if (admitted.key) keys.push_back(*admitted.key);
    // An error may say what it was asked with as it came; an answer has no use for that.
    if (!attempt.good()) keys = also_in_base64(std::move(keys));
    const auto echoes = [&](std::string_view text) {
      if (std::ranges::any_of(keys, [text](const std::string& key) { return repeats_key(text, key); })) return true;
      return std::ranges::any_of(call.request.headers, [text](const classifier::Header& header) {
        return text.size() >= kEchoMin && header.value.find(text) != std::string::npos;
      });
    };
    if (echoes(attempt.verdict.code)) attempt.verdict.code.clear();
    if (echoes(attempt.row.provider_request_id)) attempt.row.provider_request_id.clear();
    // A model's name may stand in headers rightly, such as labels: of these only keys matter.
    const auto shows_key = [&](std::string_view text) {
      return std::ranges::any_of(keys, [text](const std::string& key) { return repeats_key(text, key); });
    };
    if (shows_key(usage.model)) usage.model.clear();
    if (usage.finish && shows_key(*usage.finish)) usage.finish->clear();
    if (shows_key(usage.service_tier)) usage.service_tier.clear();
  }
  /// Nor may it show our key to the caller, or to a letter.
  void hide_key() {
    if (!admitted.key || attempt.good()) return;
    mask_key(attempt.last.bytes, *admitted.key);
  }
  /// In our words, since the provider had none that we could read.
  void say_malformed() {
    if (attempt.verdict.cls != Class::MalformedResponse || !attempt.row.detail.empty()) return;
    say_detail("the provider's answer was malformed: " + attempt.verdict.rule);
  }
  /// What is neither data nor an end.
  void broke_off(Exchange::Got got, Clock clock) {
    if (got == Exchange::Got::Stopped) stopped();
    if (got == Exchange::Got::TimedOut) timed_out(clock);
    if (got == Exchange::Got::Failed) failed_by_transport(exchange->transport(), exchange->failure());
  }
  /// The caller can no longer be reached.
  void caller_left() {
    signal.stop(StopReason::CallerGone);
    stopped();
  }

  [[nodiscard]] AnswerHead providers_head() const {
    AnswerHead head{exchange->status(), passable(exchange->headers())};
    if (!call.request.authority.empty())
      lead_home(head.headers, to.config.url, "http://" + call.request.authority + "/" + to.config.name);
    if (admitted.key) {
      const bool bad = exchange->status() >= 400;
      for (classifier::Header& header : head.headers)
        bad ? mask_key(header.value, *admitted.key) : mask(header.value, *admitted.key);
    }
    return head;
  }
  void content_began() {
    if (!attempt.first_content) attempt.first_content = now();
  }
  /// A stream has said something: the provider works.
  void proved() {
    if (!std::exchange(told_proved, true)) services.admission.proved(admitted);
  }
};

/// Some APIs take a key in the query, too.
std::string without_key(std::string_view query) {
  std::string kept;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find_first_of("&;"), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (!is_key_parameter(pair)) kept.append(kept.empty() ? "" : "&").append(pair);
  }
  return kept;
}

Outbound outbound_for(const Call& call, int number, const Way& way, const Admitted& admitted) {
  const Target& to = *way.to;
  Outbound out;
  out.method = call.request.method;
  out.target = call.target;
  out.body = call.request.body;
  const std::size_t mark = std::min(call.target.find('?'), call.target.size());
  std::string query = call.target.substr(mark);
  std::string path = way.to == call.to ? call.path : providers_path(to, call.asked);
  if (!way.model.empty()) {
    const std::string_view body = call.request.body ? std::string_view{*call.request.body} : std::string_view{};
    if (auto renamed = to.dialect->with_model(path, body, way.model)) {
      path = std::move(renamed->path);
      if (!renamed->body.empty())
        out.body = std::make_shared<const std::string>(classifier::edited(body, renamed->body));
    }
  }
  if (admitted.key && !query.empty()) {
    query = without_key(std::string_view{query}.substr(1));
    if (!query.empty()) query.insert(0, "?");
  }
  out.target = path + query;

  // Else whatever the caller sent goes on as it is.
  const bool traced = call.trace && to.config.propagate_trace;
  out.headers.reserve(call.request.headers.size() + 4);
  for (const classifier::Header& header : call.request.headers) {
    if (call.endpoint.understood && same_name(header.name, "accept-encoding")) continue;
    if (admitted.key && is_key_header(header.name)) continue;
    if (traced && is_trace_header(header.name)) continue;
    out.headers.push_back(header);
  }
  if (traced) add_trace_headers(out.headers, *call.trace, number);
  if (admitted.key) {
    const classifier::KeyHeader where = to.dialect->key_header();
    out.headers.push_back({std::string{where.name}, std::string{where.scheme} + *admitted.key});
  }
  // What we must read is asked for without encoding: every client takes that, and events stay events.
  if (call.endpoint.understood) out.headers.push_back({"Accept-Encoding", "identity"});
  out.wire = to.wire;
  return out;
}

/// A visible end for an answer that was begun: the dialect's error event, unless the provider has sent its own.
LastWord broken(const Try& t, bool with_event) {
  LastWord last;
  last.how = LastWord::How::Abort;
  if (!with_event) return last;
  classifier::OwnError error;
  error.status = t.attempt.verdict.cls == Class::Timeout ? 504 : 502;
  error.cls = t.attempt.verdict.cls;
  error.code = "callgate_stream_broken";
  error.message = "The answer broke off before its end: " +
                  (t.attempt.row.detail.empty() ? std::string{"the provider ended the stream without its end marker"}
                                                : t.attempt.row.detail);
  error.call_id = t.call.id;
  last.bytes = t.dialect().error_event(t.call.endpoint, error);
  return last;
}

/// Do this dialect's SDKs raise on an error event? Where we have none to send, they do not on the provider's either.
bool errors_are_seen(const Try& t) { return !t.dialect().error_event(t.call.endpoint, {}).empty(); }

/// Held whole, judged, not yet sent. Longer than what may be held: it goes on as relay() does.
task<void> relay(Try& t, std::string first);

task<void> hold_whole(Try& t) {
  std::string body;
  std::string piece;
  for (;;) {
    const Bound bound = t.read_bound();
    const Exchange::Got got = co_await t.exchange->read(piece, bound.when);
    if (got == Exchange::Got::Data) {
      body.empty() ? body.swap(piece) : static_cast<void>(body.append(piece));
      piece.clear();
      if (body.size() > t.call.policy->hold_unary) {
        co_await relay(t, std::move(body));
        co_return;
      }
      continue;
    }
    if (got != Exchange::Got::End) {
      t.broke_off(got, bound.clock);
      co_return;
    }
    break;
  }
  t.content_began();
  ProviderAnswer answer;
  answer.status = t.exchange->status();
  answer.headers = &t.exchange->headers();
  answer.body = body;
  answer.now = t.services.runtime.wall_now();
  answer.rules = t.to.rules;
  // What is only fetched again (a stored answer, a batch) was counted when it was made.
  answer.usage_wanted = t.call.request.method == "POST";
  classifier::Judged judged = t.dialect().read(t.call.endpoint, answer);
  t.judged(std::move(judged.verdict));
  t.note_unknown(body, answer.headers);
  if (answer.usage_wanted) t.attempt.row.usage = std::move(judged.usage);
  t.attempt.providers_answer = true;
  t.attempt.last.how = LastWord::How::Answer;
  t.attempt.last.head = t.providers_head();
  t.attempt.last.bytes = std::move(body);
  // An error inside a 200 becomes a real one, so that SDKs see it for what it is.
  if (!t.attempt.good() && t.attempt.last.head.status < 300) {
    t.attempt.last.head.status = t.dialect().status_of(t.attempt.verdict.cls);
  }
}

/// Passed through as it comes; only the end waits for the ledger. `first` has been read already.
task<void> relay(Try& t, std::string first) {
  bool ended = false;
  if (first.empty()) {
    // Until a first byte is here, nothing is promised to the caller, and a failure can still be repeated.
    const Bound bound = t.read_bound();
    const Exchange::Got got = co_await t.exchange->read(first, bound.when);
    if (got != Exchange::Got::Data && got != Exchange::Got::End) {
      t.broke_off(got, bound.clock);
      co_return;
    }
    ended = got == Exchange::Got::End;
  }
  const auto length = content_length(t.exchange->headers());
  ProviderAnswer answer;
  answer.status = t.exchange->status();
  answer.headers = &t.exchange->headers();
  answer.body = first;
  answer.truncated = true;
  answer.now = t.services.runtime.wall_now();
  answer.rules = t.to.rules;
  t.judged(t.dialect().judge(t.call.endpoint, answer));
  t.note_unknown(first, answer.headers);

  AnswerHead head = t.providers_head();
  add_our_headers(
      head.headers, t.record, static_cast<std::size_t>(t.attempt.row.number), t.attempt.verdict.cls, "provider");
  if (!t.attempt.good()) {
    const Verdict& verdict = t.attempt.verdict;
    const ComeBack come_back{.retryable = verdict.retryable, .wait = verdict.retry_after};
    set_come_back(
        head.headers, come_back, classifier::find(t.call.request.headers, "user-agent").value_or(std::string_view{}));
  }
  t.caller.begin(std::move(head), length);
  t.attempt.answer_started = true;
  t.content_began();

  // Too large to be judged, but not to be seen to be whole.
  const bool watched = t.call.endpoint.understood && is_json(t.exchange->headers()) &&
                       !classifier::find(t.exchange->headers(), "content-encoding");
  classifier::JsonBalance balance;
  if (watched) balance.feed(first);

  std::uint64_t passed = 0;
  std::string last = std::move(first);
  std::string piece;
  while (!ended) {
    // With a known length the piece that completes it is the body's end, which waits for the ledger.
    const bool complete = length && passed + last.size() >= *length;
    if (!last.empty() && !complete) {
      passed += last.size();
      if (!co_await t.caller.send(last)) {
        t.caller_left();
        co_return;
      }
      last.clear();
    }
    const Bound bound = t.read_bound();
    const Exchange::Got got = co_await t.exchange->read(piece, bound.when);
    if (got == Exchange::Got::Data) {
      if (watched) balance.feed(piece);
      last.empty() ? last.swap(piece) : static_cast<void>(last.append(piece));
      piece.clear();
      continue;
    }
    if (got != Exchange::Got::End) {
      t.broke_off(got, bound.clock);
      t.attempt.last = broken(t, false);
      co_return;
    }
    ended = true;
  }
  if (watched && t.attempt.good() && !balance.whole()) {
    t.judged({.cls = Class::MalformedResponse, .retryable = true, .rule = "no whole JSON"});
    t.attempt.last = broken(t, false);
    co_return;
  }
  t.attempt.providers_answer = true;
  t.attempt.last.how = LastWord::How::Finish;
  t.attempt.last.bytes = std::move(last);
}

/// Opens the caller's answer with what was held of the stream's head.
void commit(Try& t) {
  AnswerHead head = t.providers_head();
  add_our_headers(
      head.headers, t.record, static_cast<std::size_t>(t.attempt.row.number), t.attempt.verdict.cls, "provider");
  t.caller.begin(std::move(head), std::nullopt);
  t.attempt.answer_started = true;
}

void take_error(Try& t, classifier::StreamReader& reader) {
  t.judged(*reader.error());
  t.note_unknown(reader.error_said(), nullptr);
  t.say_detail("error inside the stream");
  if (t.attempt.answer_started) return;
  t.attempt.providers_answer = true;
  t.attempt.last.how = LastWord::How::Answer;
  t.attempt.last.head = t.providers_head();
  t.attempt.last.head.status = reader.error_status();
  set(t.attempt.last.head.headers, "Content-Type", "application/json");
  t.attempt.last.bytes = reader.error_body();
}

/// Event by event. Nothing goes out before content, so that an error in the stream's head can be repeated unseen.
task<void> relay_stream(Try& t) {
  const auto reader =
      t.dialect().stream_reader(t.call.endpoint, t.call.facts, t.exchange->headers(), t.call.hide_usage, t.to.rules);
  const Config::Stream& policy = t.call.policy->stream;
  const std::string_view heartbeat =
      policy.heartbeat > milliseconds::zero() ? t.dialect().heartbeat(t.call.endpoint) : std::string_view{};
  const TimePoint hold_until = t.now() + policy.hold_head;
  const milliseconds idle = t.timeouts().idle;
  TimePoint last_event = t.now();
  TimePoint heard = t.now();  // A heartbeat of ours is no sign of life of the provider.
  TimePoint last_sent = t.now();
  TimePoint terminal_at{};
  std::uint64_t events = 0;
  std::string piece;

  for (;;) {
    const bool started = t.attempt.answer_started;
    Bound bound = t.common_bound();
    bound.also(later(heard, idle), Clock::Idle);
    bound.also(later(last_event, idle * kIdleTimesWithoutEvent), Clock::Idle);
    if (!started) {
      bound.also(hold_until, Clock::Hold);
      // The provider's head is here: at the end of the SDK's patience it is passed on, which is not a failure.
      if (bound.clock == Clock::Patience) bound.clock = Clock::Hold;
      if (t.call.patience) bound.also(t.call.answers_by(), Clock::Hold);
    } else if (!heartbeat.empty() && reader->between_events()) {
      bound.also(last_sent + policy.heartbeat, Clock::Heartbeat);
    }
    if (reader->terminal()) bound.also(terminal_at + kAfterTerminal, Clock::AfterTerminal);

    const Exchange::Got got = co_await t.exchange->read(piece, bound.when);

    if (got == Exchange::Got::Data) {
      reader->feed(piece);
      piece.clear();
      heard = t.now();
      if (reader->events() != events) {
        events = reader->events();
        last_event = t.now();
      }
      if (reader->terminal() && terminal_at == TimePoint{}) terminal_at = t.now();
      if (reader->content()) {
        t.content_began();
        if (!reader->error()) t.proved();
      }
      if (!started) {
        if (reader->error()) {
          take_error(t, *reader);
          break;
        }
        const bool ended = reader->terminal() && !reader->failing();
        if (reader->content() || ended || reader->held_bytes() > policy.hold_bytes) commit(t);
      }
    } else if (got == Exchange::Got::TimedOut && bound.clock == Clock::Hold) {
      commit(t);
      // The head must be on its way even if no event has come yet.
      const std::string_view no_event;
      if (!co_await t.caller.send(no_event)) {
        t.caller_left();
        break;
      }
    } else if (got == Exchange::Got::TimedOut && bound.clock == Clock::Heartbeat) {
      if (!co_await t.caller.send(heartbeat)) {
        t.caller_left();
        break;
      }
      last_sent = t.now();
      continue;
    } else if (got == Exchange::Got::End || (got == Exchange::Got::TimedOut && bound.clock == Clock::AfterTerminal)) {
      t.judged(reader->finish(std::nullopt));
      if (reader->error()) take_error(t, *reader);
      if (!started && t.attempt.good()) commit(t);
      if (!t.attempt.answer_started) break;
      t.attempt.last.bytes = std::exchange(reader->forward(), {}) + std::exchange(reader->tail(), {});
      // An error event of the provider's own is visible enough; without one a missing end marker must not look whole.
      t.attempt.last.how = LastWord::How::Finish;
      t.attempt.providers_answer = true;
      if (!t.attempt.good() && !reader->error()) t.attempt.last = broken(t, true);
      // But where SDKs take no event for an error, only a break says that it is one.
      if (!t.attempt.good() && reader->error() && !errors_are_seen(t)) t.attempt.last = broken(t, false);
      break;
    } else {
      // Cut, silent for too long, or nobody wants it any more. A marker that had come makes it whole all the same.
      t.judged(reader->finish(got == Exchange::Got::Failed ? t.exchange->transport() : Transport::Timeout));
      if (t.attempt.good() && got != Exchange::Got::Stopped) {
        if (!reader->terminal()) t.say_detail("the transfer broke off behind the answer's last words");
        if (!started) commit(t);
        t.attempt.last.bytes = std::exchange(reader->forward(), {}) + std::exchange(reader->tail(), {});
        t.attempt.last.how = LastWord::How::Finish;
        t.attempt.providers_answer = true;
        break;
      }
      if (reader->error() && got != Exchange::Got::Stopped) {
        // The provider had said why before it broke off: its words and its class stand.
        take_error(t, *reader);
        if (!t.attempt.answer_started) break;
        t.attempt.last.how = LastWord::How::Abort;
        t.attempt.last.bytes = std::exchange(reader->forward(), {});
        if (errors_are_seen(t)) t.attempt.last.bytes += std::exchange(reader->tail(), {});
        break;
      }
      t.broke_off(got, bound.clock);
      // Behind half an event another one would be glued to it; then the break alone must do.
      if (t.attempt.answer_started) t.attempt.last = broken(t, !reader->error() && reader->between_events());
      break;
    }

    if (t.attempt.answer_started && !reader->forward().empty()) {
      const bool reached = co_await t.caller.send(reader->forward());
      reader->forward().clear();
      if (!reached) {
        t.caller_left();
        break;
      }
      last_sent = t.now();
    }
    if (reader->complete()) {
      assert(t.attempt.answer_started);
      t.judged(reader->finish(std::nullopt));
      t.attempt.last.bytes = std::exchange(reader->tail(), {});
      t.attempt.last.how = LastWord::How::Finish;
      t.attempt.providers_answer = true;
      t.services.upstream.retire(std::move(t.exchange));
      break;
    }
  }
  t.attempt.row.usage = reader->usage();
}

/// Redirects lead a client away from us, and its credentials with it; none is followed or passed on.
void refuse_redirect(Try& t) {
  t.judged({.cls = Class::InvalidRequest, .rule = "redirect"});
  t.answered = true;
  t.say_detail(
      "the provider answered with a redirect, which callgate neither follows nor passes on; check upstreams.*.url");
}

}  // namespace

task<Attempt> try_once(const Call& call, int number, Admitted& admitted, Services services, Caller& caller,
                       Signal& signal, CallRecord& record) {
  const Way& way = call.ways[admitted.candidate];
  const budget::Candidate& candidate = call.candidates[admitted.candidate];
  Try t{call, *way.to, admitted, services, caller, signal, record};
  t.began = t.now();
  t.attempt.row.number = number;
  t.attempt.row.upstream = way.to->config.name;
  t.attempt.row.credential = candidate.configured ? candidate.credential : std::string{kCallersKey};
  t.attempt.row.model = way.model;
  Outbound out = outbound_for(call, number, way, admitted);
  t.exchange = services.upstream.start(std::move(out), signal);
  fault_point(Step::Started);

  Bound bound = t.common_bound();
  bound.also(later(t.began, t.timeouts().first_byte), Clock::FirstByte);
  const Exchange::Got got = co_await t.exchange->head(bound.when);
  if (got != Exchange::Got::Head) {
    t.broke_off(got, bound.clock);
  } else {
    fault_point(Step::Head);
    const int status = t.exchange->status();
    const Headers& headers = t.exchange->headers();
    t.attempt.row.status = status;
    t.attempt.row.provider_request_id = request_id_of(t.dialect(), headers).substr(0, 128);
    // What a refusal says of waiting is in its verdict.
    const std::vector<classifier::AnnouncedLimit> limits =
        status < 400 ? classifier::read_announced(headers, services.runtime.wall_now())
                     : std::vector<classifier::AnnouncedLimit>();
    if (!limits.empty()) services.admission.announced(admitted, limits);
    const bool good = status >= 200 && status < 300;
    if (good && t.dialect().is_stream(call.endpoint, call.facts, headers)) {
      co_await relay_stream(t);
    } else if (status >= 300 && status < 400 && status != 304) {
      refuse_redirect(t);
    } else if (good && (call.request.method == "HEAD" ||
                        (!is_json(headers) && (!call.endpoint.understood || is_event_stream(headers))))) {
      // Among them a stream in an encoding that nobody asked for: not read, but not held up either.
      std::string nothing;
      co_await relay(t, std::move(nothing));
    } else {
      co_await hold_whole(t);
    }
  }

  t.attempt.request_sent = !t.exchange || t.exchange->request_sent();
  if (t.exchange) {
    const auto should = classifier::find(t.exchange->headers(), "x-should-retry");
    t.attempt.forbidden = should && same_name(*should, "false");
  }
  t.say_malformed();
  t.drop_echo();
  t.hide_key();
  t.attempt.row.cls = t.attempt.verdict.cls;
  t.attempt.row.code = t.attempt.verdict.code;
  t.attempt.row.rule = t.attempt.verdict.rule;
  t.attempt.row.hint = t.attempt.verdict.retry_after;
  // Its body had gone out, and no answer says what became of it.
  t.attempt.row.possibly_billed = t.attempt.request_sent && !t.attempt.providers_answer && !t.answered;
  t.attempt.row.took = std::chrono::duration_cast<std::chrono::microseconds>(t.now() - t.began);
  co_return std::move(t.attempt);
}

}  // namespace gateway
