// Goal: every phase of a call × every ending leaves exactly one outcome, one row, one end of the answer, and
// everything that was held back at rest. Method: the real story behind fake doors, in virtual time.

#include <gtest/gtest.h>

#include <functional>

#include "gateway/admission.h"
#include "gateway/call.h"
#include "gateway/unknown_answers.h"
#include "gateway/ways.h"
#include "tests/support/sim_world.h"

namespace gateway {
namespace call_story_test {

using namespace std::chrono_literals;
using classifier::Class;
using classifier::Transport;
using Ended = SimCaller::Ended;

const std::string kWhole =
    R"({"id":"c1","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant",)"
    R"("content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}})";
const std::string kRole =
    "data: "
    "{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-5\",\"choices\":[{\"index\":0,\"delta\":"
    "{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
const std::string kHello =
    "data: "
    "{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-5\",\"choices\":[{\"index\":0,\"delta\":"
    "{\"content\":\"hello\"},\"finish_reason\":null}]}\n\n";
const std::string kStop =
    "data: "
    "{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-5\",\"choices\":[{\"index\":0,\"delta\":{},"
    "\"finish_reason\":\"stop\"}]}\n\n";
const std::string kDone = "data: [DONE]\n\n";
const std::string kOverloaded =
    R"({"error":{"message":"busy","type":"service_unavailable_error","code":"server_is_overloaded"}})";
const std::string kInsideOverloaded = "data: " + kOverloaded + "\n\n";
const std::string kWrong =
    R"({"error":{"message":"no such parameter","type":"invalid_request_error","code":"unsupported_parameter"}})";

const classifier::Headers kJson = {{"Content-Type", "application/json"}, {"x-request-id", "req_1"}};
const classifier::Headers kSse = {{"Content-Type", "text/event-stream"}, {"x-request-id", "req_1"}};

SimPlan unary(int status, std::string body, std::chrono::milliseconds after = 1s) {
  return {sim_head(status, kJson, after), sim_data(std::move(body), 1s), sim_end()};
}
SimPlan stream(std::vector<std::string> events, SimStep last = sim_end(1s)) {
  SimPlan plan{sim_head(200, kSse, 1s)};
  for (std::string& event : events) plan.push_back(sim_data(std::move(event), 1s));
  plan.push_back(std::move(last));
  return plan;
}

/// One call in its own small world.
struct World {
  explicit World(unsigned seed = 1)
      : runtime(seed), upstream(runtime), ledger(runtime), caller(runtime), signal(runtime.io()) {
    runtime.fix_roll(0.5);
    target->config.name = "openai";
    target->config.dialect = "openai";
    target->config.timeouts = {.connect = 5s, .first_byte = 60s, .idle = 20s, .total = 0s};
    target->dialect = classifier::find_dialect("openai");
    for (auto& retry : policy->retry) retry = {.attempts = 3, .base = 1s, .cap = 30s, .max_elapsed = 0ms};
    policy->stream = {};
    DispatchAdmission::Listeners listeners;
    listeners.moved = [this](budget::Lane, int by) { queued += by; };
    admission = std::make_unique<DispatchAdmission>(runtime, listeners);
    configure();
    call.id = "call-1";
    auto route = std::make_shared<Route>();
    route->name = "openai";
    route->steps.push_back({.to = target, .weight = {}, .models = {}});
    call.route = route;
    call.to = target;
    call.policy = policy;
    call.request.method = "POST";
    call.request.arrived = runtime.now();
    call.path = call.target = "/v1/chat/completions";
    call.endpoint = target->dialect->endpoint("POST", call.path);
    ask(false);
  }

  void ask(bool streamed) {
    auto body = std::make_shared<std::string>(streamed ? R"({"model":"gpt-5","stream":true,"messages":[]})"
                                                       : R"({"model":"gpt-5","messages":[]})");
    body->reserve(body->size() + 64);
    call.request.body = body;
    call.facts = target->dialect->read_request(call.endpoint, call.path, "", *body);
    call.candidates.clear();
    call.ways.clear();
    choose_ways(call, "");
  }
  void configure() {
    budget::DispatchPolicy dispatch;
    dispatch.health.credentials["openai"];
    dispatch.upstreams["openai"] = {.concurrent = 1};
    dispatch.total = queue.total;
    dispatch.max_wait = {queue.max_wait.interactive, queue.max_wait.bulk, queue.max_wait.backfill};
    admission->configure(std::move(dispatch));
  }
  /// Somebody else takes the only slot.
  void block() {
    static const std::vector<TimePoint> kAnyTime(1, TimePoint::min());
    static const std::vector<char> kNever(1, 0);
    boost::asio::co_spawn(
        runtime.io(),
        [](World& world) -> task<void> {
          Ask ask;
          ask.candidates = world.call.candidates;
          ask.not_before = kAnyTime;
          ask.tried = kNever;
          ask.deadline = TimePoint::max();
          Signal nobody{world.runtime.io()};
          budget::Waiter waiter;
          WaitTimes waits{};
          auto admitted = co_await world.admission->admit(ask, waiter, waits, nobody);
          world.blockers.push_back(std::move(*admitted));
        }(*this),
        boost::asio::detached);
    runtime.io().poll();
  }
  [[nodiscard]] TimePoint at(std::chrono::milliseconds after) const { return call.request.arrived + after; }

  const CallRecord& play() {
    boost::asio::co_spawn(
        runtime.io(),
        run_call(call, Services{runtime, *admission, ledger, upstream, memo, unknown}, caller, signal),
        [this](const std::exception_ptr& escaped, CallRecord ended) {
          EXPECT_FALSE(escaped) << "the story must not throw";
          record = std::move(ended);
        });
    runtime.run();
    return record;
  }

  /// What must be true after any ending.
  void expect_rest() {
    ASSERT_EQ(ledger.ended.size(), 1u) << "exactly one row";
    EXPECT_EQ(ledger.open_rows(), 0u);
    EXPECT_GE(ledger.ended_attempts.size() + 1, ledger.ended[0].attempts.size()) << "told before each wait";
    EXPECT_EQ(admission->in_use("openai"), 0);
    EXPECT_EQ(admission->waiting(), 0u);
    EXPECT_EQ(queued, 0);
    EXPECT_EQ(upstream.live, 0) << "an exchange outlived its call";
    EXPECT_LE(upstream.most, 1) << "two attempts of one call at once";
    EXPECT_EQ(record.attempts.size(), upstream.started.size());
    EXPECT_EQ(ledger.ended[0].outcome, record.outcome);
    if (record.outcome == Outcome::Cancelled && record.status == 499) {
      EXPECT_TRUE(caller.ended == Ended::No || caller.ended == Ended::Aborted);
    } else {
      EXPECT_NE(caller.ended, Ended::No) << "the caller is left without an end";
      EXPECT_GE(caller.ended_at, ledger.ended_at) << "the caller had its end before the ledger";
    }
  }

  SimRuntime runtime;
  SimUpstream upstream;
  SimLedger ledger;
  SimCaller caller;
  UnknownAnswers unknown;
  Signal signal;
  Config::Queue queue{};
  int queued = 0;
  std::shared_ptr<Target> target = std::make_shared<Target>();
  std::shared_ptr<CallPolicy> policy = std::make_shared<CallPolicy>();
  budget::Memo memo{};
  std::unique_ptr<DispatchAdmission> admission;
  Call call{};
  CallRecord record{};
  std::vector<Admitted> blockers{};  // What somebody else holds of the only slot.
};

// ---- Phases: what the provider does, so that at 10 s the call is in that phase ----

struct Phase {
  const char* name;
  bool streamed;
  std::vector<SimPlan> plans;
  bool blocked = false;      // Somebody else holds the only slot.
  bool begun = false;        // Bytes have reached the caller by then.
  std::size_t attempts = 1;  // Begun by then.
};

SimStep quiet() { return sim_silence(); }

std::vector<Phase> phases() {
  return {
      {"queued", false, {unary(200, kWhole)}, true, false, 0},
      {"waiting for the head", false, {{quiet()}}},
      {"unary half read", false, {{sim_head(200, kJson, 1s), sim_data(kWhole.substr(0, 40), 1s), quiet()}}},
      {"stream's head held", true, {{sim_head(200, kSse, 1s), sim_data(kRole, 1s), quiet()}}},
      {"stream committed", true, {{sim_head(200, kSse, 1s), sim_data(kRole + kHello, 1s), quiet()}}, false, true},
      {"backing off",
       false,
       {{sim_head(429, {{"Content-Type", "application/json"}, {"Retry-After", "30"}}, 1s),
         sim_data("{}"),
         sim_end()}}},
      {"second attempt", false, {unary(503, kOverloaded), {quiet()}}, false, false, 2},
  };
}

// ---- Endings that come from our side, at 10 s, in every phase ----

struct Ending {
  const char* name;
  std::function<void(World&)> happens;
};

std::vector<Ending> endings() {
  return {
      {"caller gone", [](World& w) { w.signal.stop(StopReason::CallerGone); }},
      {"cancelled", [](World& w) { w.signal.stop(StopReason::Cancelled); }},
      {"shutdown", [](World& w) { w.signal.stop(StopReason::Shutdown); }},
      {"drain then shutdown", [](World& w) { w.signal.drain(); }},
      {"deadline", [](World&) {}},
  };
}

TEST(CallStory, every_phase_survives_every_ending) {
  for (const Phase& phase : phases()) {
    for (const Ending& ending : endings()) {
      SCOPED_TRACE(std::string{phase.name} + " × " + ending.name);
      World w;
      w.ask(phase.streamed);
      w.upstream.plans = phase.plans;
      if (phase.blocked) w.block();
      const std::string name = ending.name;
      if (name == "deadline") w.call.deadline = w.at(10s);
      w.runtime.at(w.at(10s), [&] { ending.happens(w); });
      if (name == "drain then shutdown") {
        w.runtime.at(w.at(15s), [&] { w.signal.stop(StopReason::Shutdown); });
      }
      w.play();
      w.blockers.clear();
      w.expect_rest();

      EXPECT_EQ(w.record.attempts.size(), phase.attempts);
      if (name == "caller gone") {
        EXPECT_EQ(w.record.outcome, Outcome::Cancelled);
        EXPECT_EQ(w.record.status, 499);
        EXPECT_EQ(w.record.cls, Class::Cancelled);
        EXPECT_LE(w.record.duration, 10s);
      } else if (name == "cancelled") {
        EXPECT_EQ(w.record.outcome, Outcome::Cancelled);
        EXPECT_EQ(w.caller.ended, phase.begun ? Ended::Aborted : Ended::Answered);
      } else if (name == "shutdown") {
        EXPECT_EQ(w.record.outcome, Outcome::Drained);
        EXPECT_EQ(w.caller.ended, phase.begun ? Ended::Aborted : Ended::Answered);
        if (!phase.begun) {
          EXPECT_EQ(w.caller.head.status, 503);
        }
      } else if (name == "drain then shutdown") {
        EXPECT_EQ(w.record.outcome, Outcome::Drained);
        const bool waits = phase.blocked || std::string{phase.name} == "backing off";
        EXPECT_EQ(w.record.duration, waits ? 10s : 15s)
            << "what waits gives up at once, what flies has until the end";
      } else {
        // The backoff was never begun, since its end lies past the deadline: the answer goes back at once.
        const bool backing_off = std::string{phase.name} == "backing off";
        EXPECT_EQ(w.record.cls, backing_off ? Class::RateLimited : Class::Timeout);
        EXPECT_LE(w.record.duration, 10s);
        if (!phase.begun) {
          EXPECT_EQ(w.caller.head.status, backing_off ? 429 : 504);
          EXPECT_EQ(classifier::find(w.caller.head.headers, "x-should-retry"), "false");
        } else {
          EXPECT_EQ(w.caller.ended, Ended::Aborted);
        }
      }
      if (phase.begun && name != "caller gone") {
        EXPECT_NE(w.caller.bytes.find("hello"), std::string::npos);
        EXPECT_NE(w.caller.bytes.find("callgate_stream_broken"), std::string::npos) << "a visible end";
        EXPECT_EQ(w.caller.bytes.find("without its end marker"), std::string::npos) << "and a true one";
        EXPECT_EQ(w.caller.bytes.find("[DONE]"), std::string::npos) << "never an invented terminator";
      }
    }
  }
}

// ---- Endings that come from the provider ----

struct Row {
  const char* name;
  bool streamed;
  std::vector<SimPlan> plans;
  Outcome outcome;
  Class cls;
  int status;  // What the caller's head said.
  Ended ended;
  std::size_t attempts;
  const char* holds;  // A part of what the caller got.
};

TEST(CallStory, every_answer_of_a_provider_has_its_ending) {
  const auto cut = [](Transport how) { return sim_fail(how, 1s); };
  const Row rows[] = {
      {"a whole answer",
       false,
       {unary(200, kWhole)},
       Outcome::Answered,
       Class::None,
       200,
       Ended::Answered,
       1,
       "hello"},
      {"a whole stream",
       true,
       {stream({kRole, kHello, kStop, kDone})},
       Outcome::Answered,
       Class::None,
       200,
       Ended::Finished,
       1,
       "[DONE]"},
      {"a stream whose transfer ends late",
       true,
       {stream({kHello, kStop, kDone}, sim_silence())},
       Outcome::Answered,
       Class::None,
       200,
       Ended::Finished,
       1,
       "[DONE]"},
      {"a finish reason but no marker",
       true,
       {stream({kHello, kStop})},
       Outcome::Answered,
       Class::None,
       200,
       Ended::Finished,
       1,
       "stop"},
      {"overloaded, then fine",
       false,
       {unary(503, kOverloaded), unary(200, kWhole)},
       Outcome::Answered,
       Class::None,
       200,
       Ended::Answered,
       2,
       "hello"},
      {"overloaded for ever",
       false,
       {unary(503, kOverloaded)},
       Outcome::Failed,
       Class::Overloaded,
       503,
       Ended::Answered,
       3,
       "busy"},
      {"a request that is wrong",
       false,
       {unary(400, kWrong)},
       Outcome::Failed,
       Class::InvalidRequest,
       400,
       Ended::Answered,
       1,
       "no such parameter"},
      {"an error in a stream's head, then fine",
       true,
       {stream({kRole, kInsideOverloaded}), stream({kHello, kStop, kDone})},
       Outcome::Answered,
       Class::None,
       200,
       Ended::Finished,
       2,
       "[DONE]"},
      {"an error in a stream's head for ever",
       true,
       {stream({kRole, kInsideOverloaded})},
       Outcome::Failed,
       Class::Overloaded,
       503,
       Ended::Answered,
       3,
       "busy"},
      {"an error after content",
       true,
       {stream({kHello, kInsideOverloaded})},
       Outcome::Failed,
       Class::Overloaded,
       200,
       Ended::Finished,
       1,
       "busy"},
      {"cut before content, then fine",
       true,
       {stream({kRole}, cut(Transport::Reset)), stream({kHello, kStop, kDone})},
       Outcome::Answered,
       Class::None,
       200,
       Ended::Finished,
       2,
       "[DONE]"},
      {"cut after content",
       true,
       {stream({kHello}, cut(Transport::Reset))},
       Outcome::Failed,
       Class::Network,
       200,
       Ended::Aborted,
       1,
       "callgate_stream_broken"},
      {"a clean end after content without a marker",
       true,
       {stream({kHello})},
       Outcome::Failed,
       Class::MalformedResponse,
       200,
       Ended::Aborted,
       1,
       "callgate_stream_broken"},
      {"silence after content",
       true,
       {stream({kHello}, sim_silence())},
       Outcome::Failed,
       Class::Timeout,
       200,
       Ended::Aborted,
       1,
       "timeouts.idle"},
      {"silence before the head",
       false,
       {{sim_silence()}},
       Outcome::Failed,
       Class::Timeout,
       504,
       Ended::Answered,
       3,
       "timeouts.first_byte"},
      {"silence within a unary answer",
       false,
       {{sim_head(200, kJson, 1s), sim_data("{"), sim_silence()}},
       Outcome::Failed,
       Class::Timeout,
       504,
       Ended::Answered,
       3,
       "timeouts.idle"},
      {"refused connections",
       false,
       {{cut(Transport::ConnectRefused)}},
       Outcome::Failed,
       Class::Network,
       502,
       Ended::Answered,
       3,
       "Upstream openai failed"},
      {"a cut unary answer, then fine",
       false,
       {{sim_head(200, kJson, 1s), sim_data("{\"id\""), cut(Transport::Reset)}, unary(200, kWhole)},
       Outcome::Answered,
       Class::None,
       200,
       Ended::Answered,
       2,
       "hello"},
      {"no JSON where JSON was promised",
       false,
       {unary(200, "<html>oops")},
       Outcome::Failed,
       Class::MalformedResponse,
       502,
       Ended::Answered,
       1,
       "oops"},
      {"a redirect",
       false,
       {{sim_head(307, {{"Location", "https://elsewhere.example/"}}, 1s), sim_end()}},
       Outcome::Failed,
       Class::InvalidRequest,
       502,
       Ended::Answered,
       1,
       "redirect"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    World w;
    w.ask(row.streamed);
    w.upstream.plans = row.plans;
    w.play();
    w.expect_rest();
    EXPECT_EQ(w.record.outcome, row.outcome);
    EXPECT_EQ(w.record.cls, row.cls) << classifier::name_of(w.record.cls);
    EXPECT_EQ(w.caller.head.status, row.status);
    EXPECT_EQ(w.caller.ended, row.ended);
    EXPECT_EQ(w.record.attempts.size(), row.attempts);
    EXPECT_NE(w.caller.bytes.find(row.holds), std::string::npos) << w.caller.bytes;
    if (std::string{row.name} == "a redirect") {
      EXPECT_FALSE(w.record.attempts[0].possibly_billed) << "the provider has answered";
    }
  }
}

TEST(CallStory, an_answer_that_no_rule_knew_is_noted_once_an_attempt) {
  const std::string odd = R"({"error":{"message":"odd 7","code":"odd_thing"}})";
  const std::string odd_event = "data: " + odd + "\n\n";
  struct Odd {
    const char* name;
    bool streamed;
    SimPlan plan;
    std::uint64_t noted;  // Of one kind, by all attempts.
    std::string_view words = "oddthing";
  };
  const Odd rows[] = {
      {"an error", false, unary(418, odd), 2},
      {"an error inside a 200", false, unary(200, odd), 3},
      {"an error longer than what is held", false, unary(418, odd + std::string(9'000, ' ')), 1},
      {"no answer at all", false, unary(200, "{}"), 2, ""},
      {"an error at a stream's head", true, stream({odd_event}), 3},
      {"an error behind content", true, stream({kHello, odd_event}), 1},
      {"an error behind content, then a break", true, stream({kHello, odd_event}, sim_fail(Transport::Reset, 1s)), 1},
      {"a known error", false, unary(503, kOverloaded), 0},
      {"a good answer", false, unary(200, kWhole), 0},
      {"a stream without its end", true, stream({kHello}), 0},
      {"a connection that breaks", false, {sim_head(418, kJson, 1s), sim_fail(Transport::Reset, 1s)}, 0},
      {"a redirect", false, unary(302, odd), 0},
  };
  for (const Odd& row : rows) {
    SCOPED_TRACE(row.name);
    World w;
    w.ask(row.streamed);
    w.policy->hold_unary = 8'000;
    w.upstream.plans = {row.plan};
    w.play();
    w.expect_rest();
    const auto& answers = w.unknown.list().answers;
    ASSERT_EQ(answers.size(), row.noted > 0 ? 1U : 0U);
    std::uint64_t marked = 0;
    for (const AttemptRow& attempt : w.record.attempts) marked += attempt.fingerprint.empty() ? 0 : 1;
    EXPECT_EQ(marked, row.noted);
    if (row.noted == 0) continue;
    EXPECT_EQ(answers[0].count, row.noted);
    EXPECT_EQ(answers[0].upstream, "openai");
    EXPECT_EQ(answers[0].last_call_id, "call-1");
    EXPECT_EQ(answers[0].words, row.words);
    EXPECT_EQ(answers[0].fingerprint, w.record.attempts.back().fingerprint);
    EXPECT_EQ(answers[0].cls, w.record.cls);
  }
}

TEST(CallStory, of_a_key_that_the_provider_repeats_nothing_is_noted) {
  World w;
  w.call.request.headers = {{"Authorization", "Bearer plainpassword"}, {"X-Api-Key", "othersecret"}};
  w.call.target += "?key=querysecret";
  w.upstream.plans = {
      unary(418,
            R"({"error":{"message":"no: plainpassword, othersecret, querysecret and bWU6cGxhaW5wYXNzd29yZA==",)"
            R"("code":"plainpassword","type":"bWU6cGxhaW5wYXNzd29yZA"}})")};
  w.play();
  const UnknownAnswer& one = w.unknown.list().answers.at(0);
  for (const std::string& text : {one.case_line, one.words, one.text, one.rule}) {
    for (const char* part : {"plainpass", "othersec", "querysec", "aW5wYXNz"})
      EXPECT_FALSE(text.contains(part)) << text;
  }
  EXPECT_EQ(one.text, "no # # # and #");
}

TEST(CallStory, a_heartbeat_of_ours_does_not_keep_a_dead_stream) {
  World w;
  w.ask(true);
  w.upstream.plans = {stream({kHello}, sim_silence())};
  w.play();
  w.expect_rest();
  EXPECT_EQ(w.record.duration, 2s + 20s) << "idle counts from the provider's last byte";
}

TEST(CallStory, an_error_event_keeps_its_class_and_words_when_the_transfer_then_breaks) {
  World w;
  w.ask(true);
  w.upstream.plans = {stream({kHello, kInsideOverloaded}, sim_fail(Transport::Reset, 100ms))};
  w.play();
  w.expect_rest();
  EXPECT_EQ(w.record.cls, Class::Overloaded);
  EXPECT_EQ(w.caller.bytes, kHello + kInsideOverloaded);
  EXPECT_EQ(w.caller.ended, Ended::Aborted);
}

TEST(CallStory, a_failure_in_a_streams_head_waits_a_second_for_its_cause) {
  const std::string failed = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"error\"}]}\n\n";
  const struct {
    const char* name;
    SimPlan behind;
    Class want;
  } kCases[] = {
      {"named", {sim_data(kInsideOverloaded, 500ms), sim_end(1s)}, Class::Overloaded},
      {"never named, and left open", {sim_silence()}, Class::ServerError},
      {"never named, and cut", {sim_fail(Transport::Reset, 100ms)}, Class::ServerError},
      {"never named", {sim_end(100ms)}, Class::ServerError},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    World w;
    w.ask(true);
    SimPlan plan = {sim_head(200, kSse, 1s), sim_data(failed, 1s)};
    plan.insert(plan.end(), c.behind.begin(), c.behind.end());
    w.upstream.plans = {std::move(plan)};
    w.play();
    w.expect_rest();
    ASSERT_FALSE(w.record.attempts.empty());
    EXPECT_LE(w.record.attempts[0].took, 3s + 10ms);
    EXPECT_EQ(w.record.attempts[0].cls, c.want);
    EXPECT_EQ(w.record.cls, c.want);
    EXPECT_EQ(w.record.attempts.size(), 3U) << "nothing had gone out";
    EXPECT_EQ(w.caller.ended, Ended::Answered);
  }
}

TEST(CallStory, a_finished_stream_without_content_arrives_whole_though_it_is_cut) {
  World w;
  w.ask(true);
  w.upstream.plans = {stream({kRole, kStop}, sim_fail(Transport::Reset, 100ms))};
  w.play();
  w.expect_rest();
  EXPECT_EQ(w.record.outcome, Outcome::Answered);
  EXPECT_EQ(w.caller.bytes, kRole + kStop);
}

TEST(CallStory, nothing_is_begun_after_the_deadline) {
  World w;
  w.upstream.plans = {unary(200, kWhole)};
  w.call.deadline = w.call.request.arrived;
  w.play();
  w.expect_rest();
  EXPECT_TRUE(w.upstream.started.empty());
  EXPECT_EQ(w.caller.head.status, 504);
}

TEST(CallStory, an_sdk_whose_patience_ends_in_the_queue_is_told_to_come_back) {
  World w;
  w.upstream.plans = {unary(200, kWhole)};
  w.call.first_content_by = w.at(5s);
  w.block();
  w.play();
  w.blockers.clear();
  w.expect_rest();
  EXPECT_EQ(w.caller.head.status, 429);
  EXPECT_EQ(w.record.cls, Class::LocalLimit);
  EXPECT_TRUE(classifier::find(w.caller.head.headers, "retry-after").has_value());
  EXPECT_EQ(classifier::find(w.caller.head.headers, "x-should-retry"), "false") << "it has waited with us";
}

TEST(CallStory, what_is_only_fetched_again_is_not_counted_again) {
  World w;
  w.call.request.method = "GET";
  w.call.request.body = nullptr;
  w.call.path = w.call.target = "/v1/responses/resp_1";
  w.call.endpoint = w.target->dialect->endpoint("GET", w.call.path);
  w.upstream.plans = {unary(
      200,
      R"({"id":"resp_1","object":"response","status":"completed","usage":{"input_tokens":5,"output_tokens":7}})")};
  w.play();
  w.expect_rest();
  EXPECT_EQ(w.record.outcome, Outcome::Answered);
  EXPECT_FALSE(w.record.usage.tokens.has_value());
  EXPECT_FALSE(classifier::find(w.caller.head.headers, "callgate-input-tokens").has_value());
}

TEST(CallStory, a_caller_who_can_no_longer_be_reached_is_gone) {
  for (const int reached : {0, 1}) {
    World w;
    w.ask(true);
    w.upstream.plans = {stream({kHello, kHello, kHello, kStop, kDone})};
    w.caller.sends_left = reached;
    w.play();
    w.expect_rest();
    EXPECT_EQ(w.record.outcome, Outcome::Cancelled);
    EXPECT_EQ(w.record.status, 499);
  }
}

TEST(CallStory, a_ledger_that_fails_at_the_end_still_lets_the_answer_go) {
  World w;
  w.upstream.plans = {unary(200, kWhole)};
  w.ledger.throws_on_end = true;
  w.play();
  EXPECT_TRUE(w.record.commit_late);
  EXPECT_FALSE(w.record.bug.empty());
  EXPECT_EQ(w.caller.head.status, 200);
}

TEST(CallStory, a_bug_behind_any_door_costs_the_caller_no_answer_and_us_no_row) {
  using Break = void (*)(World&);
  const Break breaks[] = {[](World& w) { w.upstream.throws = true; },
                          [](World& w) { w.ledger.throws_on_open = true; }};
  for (const Break broken : breaks) {
    World w;
    w.upstream.plans = {unary(200, kWhole)};
    broken(w);
    w.play();
    EXPECT_EQ(w.record.cls, Class::Internal);
    EXPECT_FALSE(w.record.bug.empty());
    EXPECT_EQ(w.caller.head.status, 500);
    EXPECT_EQ(w.admission->in_use("openai"), 0);
    EXPECT_EQ(w.ledger.open_rows(), 0u);
    EXPECT_EQ(w.ledger.ended.size(), 1u);
  }
}

TEST(CallStory, the_callers_last_byte_waits_for_the_row) {
  for (const bool streamed : {false, true}) {
    World w;
    w.ask(streamed);
    w.upstream.plans = {streamed ? stream({kHello, kStop, kDone}) : unary(200, kWhole)};
    w.ledger.end_takes = 200ms;
    w.play();
    w.expect_rest();
    EXPECT_EQ(w.caller.ended_at, w.ledger.ended_at);
    EXPECT_NE(w.caller.bytes.find(streamed ? "[DONE]" : "hello"), std::string::npos);
    if (streamed) {
      EXPECT_LT(w.caller.sends.back(), w.ledger.ended_at) << "content does not wait";
    }
  }
}

TEST(CallStory, a_slot_is_free_while_its_call_backs_off_and_before_its_row_is_written) {
  World w;
  w.upstream.plans = {unary(503, kOverloaded), unary(200, kWhole)};
  w.ledger.end_takes = 5s;
  std::vector<int> in_use;
  w.runtime.at(w.at(2s + 100ms), [&] { in_use.push_back(w.admission->in_use("openai")); });
  w.runtime.at(w.at(5s), [&] { in_use.push_back(w.admission->in_use("openai")); });
  w.play();
  w.expect_rest();
  EXPECT_EQ(in_use, (std::vector<int>{0, 0}));
}

TEST(CallStory, never_asks_before_the_hint_is_over) {
  World w;
  w.upstream.plans = {
      {sim_head(429, {{"Content-Type", "application/json"}, {"Retry-After", "7"}}, 1s), sim_data("{}"), sim_end()},
      unary(200, kWhole)};
  w.play();
  w.expect_rest();
  ASSERT_EQ(w.upstream.started.size(), 2u);
  EXPECT_EQ(w.upstream.started[1] - w.upstream.started[0], 1s + 7s + 500ms);
  EXPECT_EQ(w.record.attempts[1].waited_before, 7'500ms);
  EXPECT_EQ(w.record.attempts[1].waited_for, ledger::WaitedFor::RetryAfter);
}

TEST(CallStory, a_hint_that_is_too_long_goes_back_at_once_with_its_own_words) {
  World w;
  w.upstream.plans = {
      {sim_head(429, {{"Content-Type", "application/json"}, {"Retry-After", "171"}}, 1s), sim_data("{}"), sim_end()}};
  w.play();
  w.expect_rest();
  EXPECT_EQ(w.upstream.started.size(), 1u);
  EXPECT_EQ(w.caller.head.status, 429);
  EXPECT_EQ(classifier::find(w.caller.head.headers, "retry-after"), "171");
  EXPECT_EQ(classifier::find(w.caller.head.headers, "callgate-retry-after-ms"), "171000");
  EXPECT_EQ(classifier::find(w.caller.head.headers, "x-should-retry"), "false");
  EXPECT_EQ(w.record.reason, "hint_too_long");
}

TEST(CallStory, answers_before_the_sdk_gives_up) {
  World w;
  w.upstream.plans = {{sim_silence()}};
  w.call.first_content_by = w.at(8s);
  w.play();
  w.expect_rest();
  EXPECT_EQ(w.record.duration, 8s);
  EXPECT_EQ(w.caller.head.status, 504);
  EXPECT_EQ(w.upstream.started.size(), 1u) << "the SDK's deadline is nobody's reason to try again";
}

TEST(CallStory, passes_a_held_head_on_when_the_sdk_would_give_up) {
  World w;
  w.ask(true);
  w.upstream.plans = {stream({kRole}, sim_data(kHello + kStop + kDone, 15s))};
  w.upstream.plans[0].push_back(sim_end());
  w.call.first_content_by = w.at(8s);
  w.play();
  w.expect_rest();
  ASSERT_FALSE(w.caller.sends.empty());
  EXPECT_EQ(w.caller.sends.front(), w.at(8s));
  EXPECT_EQ(w.record.outcome, Outcome::Answered);
  EXPECT_EQ(w.caller.bytes, kRole + kHello + kStop + kDone);
}

TEST(CallStory, sends_each_event_when_it_is_whole_and_not_before_content) {
  World w;
  w.ask(true);
  const std::size_t half = kHello.size() / 2;
  w.upstream.plans = {stream({kRole, kHello.substr(0, half), kHello.substr(half), kHello, kStop, kDone})};
  w.play();
  w.expect_rest();
  EXPECT_EQ(w.caller.bytes, kRole + kHello + kHello + kStop + kDone);
  EXPECT_EQ(w.caller.sends, (std::vector<TimePoint>{w.at(4s), w.at(5s), w.at(6s)}));
}

TEST(CallStory, beats_its_heart_in_a_long_silence_of_a_committed_stream) {
  World w;
  w.ask(true);
  w.target->config.timeouts.idle = 120s;
  w.upstream.plans = {stream({kHello}, sim_data(kStop + kDone, 50s))};
  w.upstream.plans[0].push_back(sim_end());
  w.play();
  w.expect_rest();
  const std::string beat{w.target->dialect->heartbeat(w.call.endpoint)};
  EXPECT_EQ(w.caller.bytes, kHello + beat + beat + beat + kStop + kDone);
}

TEST(CallStory, comments_alone_do_not_keep_a_stream_for_ever) {
  World w;
  w.ask(true);
  SimPlan plan = stream({kHello}, sim_data(": still here\n\n", 10s));
  for (int i = 0; i < 100; ++i) plan.push_back(sim_data(": still here\n\n", 10s));
  w.upstream.plans = {plan};
  w.play();
  w.expect_rest();
  EXPECT_EQ(w.record.cls, Class::Timeout);
  EXPECT_EQ(w.caller.ended, Ended::Aborted);
  EXPECT_LE(w.record.duration, 2s + 5 * 20s);
}

TEST(CallStory, marks_what_may_have_been_billed) {
  World w;
  w.upstream.plans = {{sim_silence()}, {sim_fail(Transport::ConnectRefused)}, unary(503, kOverloaded)};
  w.play();
  w.expect_rest();
  ASSERT_EQ(w.record.attempts.size(), 3u);
  EXPECT_TRUE(w.record.attempts[0].possibly_billed) << "its body had gone out, then silence";
  EXPECT_FALSE(w.record.attempts[1].possibly_billed) << "it never got there";
  EXPECT_FALSE(w.record.attempts[2].possibly_billed) << "the provider refused it";
}

TEST(CallStory, does_not_repeat_an_upload_that_may_have_been_done) {
  World w;
  w.call.path = w.call.target = "/v1/files";
  w.call.endpoint = w.target->dialect->endpoint("POST", "/v1/files");
  w.upstream.plans = {unary(500, R"({"error":{"message":"oops","type":"server_error"}})"), unary(200, "{}")};
  w.play();
  w.expect_rest();
  EXPECT_EQ(w.upstream.started.size(), 1u);
  EXPECT_EQ(w.record.reason, "not_replay_safe");
}

TEST(CallStory, passes_other_bodies_through_with_their_length) {
  World w;
  w.call.request.method = "GET";
  w.call.path = w.call.target = "/v1/files/f1/content";
  w.call.endpoint = w.target->dialect->endpoint("GET", w.call.path);
  const classifier::Headers head = {{"Content-Type", "application/octet-stream"}, {"Content-Length", "9"}};
  w.upstream.plans = {
      {sim_head(200, head, 1s), sim_data("abc", 1s), sim_data("def", 1s), sim_data("ghi", 1s), sim_end()}};
  w.ledger.end_takes = 1s;
  w.play();
  w.expect_rest();
  EXPECT_EQ(w.caller.bytes, "abcdefghi");
  EXPECT_EQ(w.caller.length, 9u);
  EXPECT_EQ(w.caller.sends.size(), 2u) << "the piece that completes it waits for the row";
  EXPECT_EQ(w.caller.ended, Ended::Finished);
}

TEST(CallStory, never_lets_a_cut_body_look_whole) {
  World w;
  w.call.request.method = "GET";
  w.call.path = w.call.target = "/v1/files/f1/content";
  w.call.endpoint = w.target->dialect->endpoint("GET", w.call.path);
  w.upstream.plans = {{sim_head(200, {{"Content-Type", "application/octet-stream"}}, 1s),
                       sim_data("abc", 1s),
                       sim_fail(Transport::Reset, 1s)}};
  w.play();
  w.expect_rest();
  EXPECT_EQ(w.caller.bytes, "abc");
  EXPECT_EQ(w.caller.ended, Ended::Aborted);
  EXPECT_EQ(w.record.cls, Class::Network);
}

// Goal: under many schedules of failures, hints and leavings the bounds hold. Method: seeds; a failure prints its
// own.
TEST(CallStory, holds_its_bounds_under_any_schedule) {
  for (unsigned seed = 1; seed <= 3'000; ++seed) {
    SCOPED_TRACE(seed);
    World w{seed};
    std::mt19937 rng{seed};
    const auto up_to = [&](int most) { return static_cast<int>(rng() % static_cast<unsigned>(most + 1)); };
    w.ask(up_to(1) == 1);
    std::vector<std::chrono::milliseconds> hints;
    for (int i = 0; i < 4; ++i) {
      const auto after = std::chrono::milliseconds{up_to(4'000)};
      hints.push_back(0ms);
      switch (up_to(6)) {
        case 0:
          w.upstream.plans.push_back(unary(200, kWhole, after));
          break;
        case 1:
          w.upstream.plans.push_back(stream({kRole, kHello, kStop, kDone}));
          break;
        case 2:
          w.upstream.plans.push_back(unary(503, kOverloaded, after));
          break;
        case 3:
          w.upstream.plans.push_back({sim_fail(static_cast<Transport>(up_to(4)), after)});
          break;
        case 4:
          w.upstream.plans.push_back(stream({kRole, kHello}, sim_fail(Transport::Reset, after)));
          break;
        case 5:
          w.upstream.plans.push_back({sim_silence()});
          break;
        default:
          hints.back() = std::chrono::seconds{up_to(20)};
          w.upstream.plans.push_back(
              {sim_head(429,
                        {{"Content-Type", "application/json"}, {"Retry-After", std::to_string(hints.back() / 1s)}},
                        after),
               sim_data("{}"),
               sim_end()});
      }
    }
    w.runtime.fix_roll(static_cast<double>(up_to(999)) / 1000.0);
    if (up_to(2) == 0) w.call.deadline = w.at(std::chrono::milliseconds{up_to(60'000)});
    if (up_to(3) == 0) {
      w.runtime.at(w.at(std::chrono::milliseconds{up_to(30'000)}),
                   [&w, why = static_cast<StopReason>(up_to(2))] { w.signal.stop(why); });
    }
    w.play();
    w.expect_rest();
    EXPECT_LE(w.upstream.started.size(), 3u);
    if (w.call.deadline != TimePoint::max()) {
      EXPECT_LE(w.call.request.arrived + w.record.duration, w.call.deadline);
      for (const TimePoint started : w.upstream.started) EXPECT_LE(started, w.call.deadline);
    }
    for (std::size_t i = 1; i < w.upstream.started.size(); ++i) {
      EXPECT_GE(w.upstream.started[i] - w.upstream.started[i - 1], hints[i - 1]);
    }
    if (HasFailure()) break;
  }
}

}  // namespace call_story_test
}  // namespace gateway
