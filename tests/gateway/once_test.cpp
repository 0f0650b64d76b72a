// Goal: a job that is delivered several times is paid once, whatever becomes of its callers, and nothing of it is
// left behind. Method: the real story and the real Once behind fake doors, in virtual time.

#include "gateway/once.h"

#include <gtest/gtest.h>

#include <boost/asio.hpp>
#include <functional>
#include <list>
#include <random>

#include "budget/price_book.h"
#include "gateway/admission.h"
#include "gateway/unknown_answers.h"
#include "gateway/ways.h"
#include "tests/support/sim_world.h"

namespace gateway {
namespace once_test {

using namespace std::chrono_literals;
using classifier::Class;
using classifier::Transport;
using Derive = Config::Idempotency::Derive;
using Gone = Config::Idempotency::CallerGone;
using Ended = SimCaller::Ended;

const std::string kWhole =
    R"({"id":"c1","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant",)"
    R"("content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}})";
const std::string kHello =
    "data: "
    "{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-5\",\"choices\":[{\"index\":0,\"delta\":"
    "{\"content\":\"hello\"},\"finish_reason\":null}]}\n\n";
const std::string kStop =
    "data: "
    "{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-5\",\"choices\":[{\"index\":0,\"delta\":{},"
    "\"finish_reason\":\"stop\"}]}\n\n";
const std::string kDone = "data: [DONE]\n\n";
const std::string kBusy =
    R"({"error":{"message":"busy","type":"service_unavailable_error","code":"server_is_overloaded"}})";

const classifier::Headers kJson = {{"Content-Type", "application/json"}, {"x-request-id", "req_1"}};
const classifier::Headers kSse = {{"Content-Type", "text/event-stream"}, {"x-request-id", "req_1"}};

SimPlan unary(int status, std::string body, std::chrono::milliseconds after = 1s) {
  return {sim_head(status, kJson, after), sim_data(std::move(body), 1s), sim_end()};
}
/// An event a second from the second second on.
SimPlan stream(const std::vector<std::string>& events, SimStep last = sim_end(1s)) {
  SimPlan plan{sim_head(200, kSse, 1s)};
  for (const std::string& event : events) plan.push_back(sim_data(event, 1s));
  plan.push_back(std::move(last));
  return plan;
}
std::string hello_of(std::size_t bytes) {
  return "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + std::string(bytes, 'x') + "\"}}]}\n\n";
}

/// What a worker sends, and when.
struct Asked {
  std::string key{};
  std::string run_id{};
  std::string body = "hi";
  bool streamed = false;
  bool fresh = false;
  std::string api_key = "sk-one";
  std::string tenant = "default";
  std::optional<std::chrono::milliseconds> deadline{};  // From its arrival.
  std::optional<std::chrono::milliseconds> patience{};
  std::string method = "POST";
};

struct Client {
  explicit Client(SimRuntime& runtime) : caller(runtime), signal(runtime.io()) {}
  SimCaller caller;
  Signal signal;
  std::string id{};
  bool done = false;
  [[nodiscard]] std::string header(std::string_view name) const {
    return std::string{classifier::find(caller.head.headers, name).value_or(std::string_view{})};
  }
};

struct World {
  explicit World(Config::Idempotency idempotency = {}) : runtime(1), upstream(runtime), ledger(runtime) {
    runtime.fix_roll(0.5);
    target->config.name = "openai";
    target->config.dialect = "openai";
    target->config.timeouts = {.connect = 5s, .first_byte = 60s, .idle = 60s, .total = 0s};
    target->dialect = classifier::find_dialect("openai");
    for (auto& retry : policy->retry) retry = {.attempts = 3, .base = 1s, .cap = 30s, .max_elapsed = 0ms};
    auto made = std::make_shared<Route>();
    made->name = "openai";
    made->steps.push_back({.to = target, .weight = {}, .models = {}});
    route = made;
    admission = std::make_unique<DispatchAdmission>(runtime, DispatchAdmission::Listeners{});
    slots(0);
    options = idempotency;
    Once::Doors doors;
    doors.ended = [this](CallRecord record) { records.push_back(std::move(record)); };
    doors.counted = [this](std::string_view result) { ++counted[std::string{result}]; };
    once = std::make_unique<Once>(
        Services{runtime, *admission, ledger, upstream, memo, unknown}, live, std::move(doors));
    once->configure(options, false);
    memo.update({.ttl = 0ms}, runtime.now());
    upstream.plans = {unary(200, kWhole)};
  }

  void slots(int most) {
    budget::DispatchPolicy dispatch;
    if (configured) dispatch.health.credentials["openai"] = {"main"};
    dispatch.health.credentials["openai"];
    dispatch.upstreams["openai"] = {.concurrent = most};
    dispatch.total = 1000;
    dispatch.per_tenant = 1000;
    dispatch.max_wait = {600s, 600s, 600s};
    admission->configure(std::move(dispatch));
  }
  [[nodiscard]] TimePoint at(std::chrono::milliseconds after) const { return begin + after; }

  Call call_for(const Asked& asked) {
    Call call;
    call.id = "call-" + std::to_string(++calls);
    call.tenant = asked.tenant;
    call.run_id = asked.run_id;
    call.idempotency_key = asked.key;
    call.fresh = asked.fresh;
    call.route = route;
    call.to = target;
    call.policy = policy;
    call.request.method = asked.method;
    call.request.arrived = runtime.now();
    call.request.headers = {{"Authorization", "Bearer " + asked.api_key}};
    call.path = call.target = "/v1/chat/completions";
    call.endpoint = target->dialect->endpoint(asked.method, call.path);
    auto body = std::make_shared<std::string>(std::string{R"({"model":"gpt-5",)"} +
                                              (asked.streamed ? R"("stream":true,)" : "") +
                                              R"("messages":[{"content":")" + asked.body + R"("}]})");
    body->reserve(body->size() + 64);
    call.request.body = body;
    call.bytes_in = body->size();
    call.facts = target->dialect->read_request(call.endpoint, call.path, "", *body);
    if (asked.deadline) call.deadline = call.request.arrived + *asked.deadline;
    if (asked.patience) call.first_content_by = call.request.arrived + *asked.patience;
    choose_ways(call, "");
    return call;
  }

  /// As the front door does it.
  Client& ask(const Asked& asked, std::chrono::milliseconds after = 0ms) {
    Client& client = clients.emplace_back(runtime);
    runtime.at(at(after), [this, &client, asked] {
      Call call = call_for(asked);
      client.id = call.id;
      auto key = job_key(call, *call.request.body, options.derive);
      const auto done = [&client](const std::exception_ptr& escaped) {
        EXPECT_FALSE(escaped);
        client.done = true;
      };
      if (!key) {
        boost::asio::co_spawn(runtime.io(),
                              run_call(std::move(call),
                                       Services{runtime, *admission, ledger, upstream, memo, unknown},
                                       client.caller,
                                       client.signal),
                              [done](const std::exception_ptr& escaped, const CallRecord&) { done(escaped); });
        return;
      }
      boost::asio::co_spawn(
          runtime.io(), once->serve(std::move(call), std::move(*key), client.caller, client.signal), done);
    });
    return client;
  }
  void leaves(Client& client, std::chrono::milliseconds after) {
    runtime.at(at(after), [&client] { client.signal.stop(StopReason::CallerGone); });
  }
  void run() { runtime.run(); }
  [[nodiscard]] const CallRecord& record_of(const Client& client) const {
    static const CallRecord kNone;
    const auto found = std::ranges::find(records, client.id, &CallRecord::id);
    return found == records.end() ? kNone : *found;
  }

  /// What must be true when all is over.
  void expect_rest() {
    for (const Client& client : clients) {
      SCOPED_TRACE(client.id);
      EXPECT_TRUE(client.done);
      EXPECT_EQ(std::ranges::count(ledger.ended, client.id, &CallRecord::id), 1) << "exactly one row";
    }
    EXPECT_EQ(ledger.open_rows(), 0u);
    EXPECT_EQ(once->active(), 0u);
    EXPECT_EQ(once->figures().lingering, 0u);
    EXPECT_EQ(live.size(), 0u);
    EXPECT_EQ(upstream.live, 0);
    EXPECT_EQ(admission->in_use("openai"), 0);
    EXPECT_EQ(admission->waiting(), 0u);
    for (const auto& [scope, job] : ledger.jobs) {
      EXPECT_TRUE(job.answer || held_on_purpose) << "a claim was left behind by " << job.call_id;
    }
  }

  SimRuntime runtime;
  SimUpstream upstream;
  SimLedger ledger;
  UnknownAnswers unknown;
  budget::Memo memo{};
  LiveCalls live{};
  std::shared_ptr<Target> target = std::make_shared<Target>();
  std::shared_ptr<CallPolicy> policy = std::make_shared<CallPolicy>();
  std::shared_ptr<const Route> route{};
  Config::Idempotency options{};
  std::unique_ptr<DispatchAdmission> admission;
  std::unique_ptr<Once> once;
  std::list<Client> clients{};
  std::vector<CallRecord> records{};
  std::map<std::string, int> counted{};
  const TimePoint begin = runtime.now();
  int calls = 0;
  bool configured = false;
  bool held_on_purpose = false;
};

std::vector<std::string> kEvents() { return {kHello, kHello, kHello, kStop, kDone}; }
std::string all_of(const std::vector<std::string>& events) {
  std::string all;
  for (const std::string& event : events) all += event;
  return all;
}

// ---- One job, several deliveries ----

TEST(Once, twenty_equal_keyed_requests_are_one_call_and_twenty_answers) {
  for (const bool streamed : {false, true}) {
    SCOPED_TRACE(streamed ? "stream" : "unary");
    World w;
    if (streamed) w.upstream.plans = {stream(kEvents())};
    // Some before the answer, some while it comes, some behind it.
    for (int i = 0; i < 20; ++i) w.ask({.key = "job-1", .streamed = streamed}, 500ms * i);
    w.run();
    w.expect_rest();
    EXPECT_EQ(w.upstream.started.size(), 1u);
    const std::string whole = streamed ? all_of(kEvents()) : kWhole;
    std::set<std::string> ids;
    for (const Client& client : w.clients) {
      SCOPED_TRACE(client.id);
      EXPECT_EQ(client.caller.bytes, whole);
      EXPECT_EQ(client.caller.head.status, 200);
      EXPECT_EQ(client.header("x-request-id"), "req_1") << "the provider's id passes unchanged";
      EXPECT_EQ(client.header("callgate-call-id"), client.id);
      EXPECT_EQ(client.caller.ended, streamed ? Ended::Finished : Ended::Answered);
      ids.insert(client.header("callgate-call-id"));
      const bool first = client.id == "call-1";
      const CallRecord& record = w.record_of(client);
      EXPECT_EQ(record.outcome, Outcome::Answered);
      EXPECT_EQ(record.attempts.size(), first ? 1u : 0u);
      EXPECT_EQ(record.origin, first ? "" : "call-1");
      EXPECT_EQ(client.header("callgate-idempotency"), record.once);
      EXPECT_EQ(client.header("callgate-attempts"), first ? "1" : "0");
    }
    EXPECT_EQ(ids.size(), 20u);
    EXPECT_EQ(w.counted["stored"], 1);
    EXPECT_EQ(w.counted["joined"] + w.counted["replayed"], 19);
    EXPECT_GT(w.counted["joined"], 0);
    EXPECT_GT(w.counted["replayed"], 0);
    EXPECT_EQ(w.once->figures().bytes, 0u) << "the store has it";
  }
}

TEST(Once, a_joined_caller_sees_each_event_when_it_comes) {
  World w;
  w.upstream.plans = {stream(kEvents())};
  w.ask({.key = "k", .streamed = true});
  Client& late = w.ask({.key = "k", .streamed = true}, 3500ms);
  w.run();
  ASSERT_GE(late.caller.sends.size(), 2u);
  EXPECT_EQ(late.caller.sends[0], w.at(3500ms)) << "what has been said, at once";
  EXPECT_EQ(late.caller.sends[1], w.at(4s));
}

TEST(Once, what_it_saved_is_what_the_paid_call_had_cost) {
  World w;
  w.policy->prices = std::make_shared<const budget::PriceBook>(std::vector<budget::PriceTable>());
  w.policy->fallback = budget::flat_price(budget::PicoUsd{1'000'000}, budget::PicoUsd{2'000'000});
  w.ask({.key = "k"});
  Client& joined = w.ask({.key = "k"}, 1s);
  Client& replayed = w.ask({.key = "k"}, 10s);
  w.run();
  const CallRecord& paid = w.record_of(w.clients.front());
  ASSERT_TRUE(paid.cost.has_value());
  EXPECT_GT(paid.cost->value, 0);
  EXPECT_FALSE(paid.saved.has_value());
  for (const Client* client : {&joined, &replayed}) {
    const CallRecord& record = w.record_of(*client);
    EXPECT_EQ(record.saved, paid.cost);
    EXPECT_FALSE(record.cost.has_value());
    EXPECT_FALSE(record.usage.tokens.has_value()) << "tokens count once";
  }
  EXPECT_EQ(replayed.header("callgate-cost-usd"), "0") << "it is not paid again";
}

TEST(Once, the_store_has_the_outcome_before_anybody_has_the_last_byte) {
  for (const bool streamed : {false, true}) {
    World w;
    if (streamed) w.upstream.plans = {stream(kEvents())};
    w.ledger.end_takes = 3s;
    Client& first = w.ask({.key = "k", .streamed = streamed});
    Client& second = w.ask({.key = "k", .streamed = streamed}, 500ms);
    w.run();
    const auto finished = streamed ? 6s : 2s;
    EXPECT_EQ(first.caller.ended_at, w.at(finished + 3s));
    EXPECT_EQ(second.caller.ended_at, w.at(finished + 6s)) << "his own row comes first, too";
    EXPECT_EQ(second.caller.bytes, streamed ? all_of(kEvents()) : kWhole);
  }
}

// ---- What is another job ----

TEST(Once, whose_job_it_is_and_where_it_goes_are_part_of_the_key) {
  struct Row {
    const char* name;
    std::function<void(Asked&, World&)> other;
    bool same;
  };
  const Row rows[] = {
      {"the same again", [](Asked&, World&) {}, true},
      {"another key", [](Asked& asked, World&) { asked.key = "k2"; }, false},
      {"another tenant", [](Asked& asked, World&) { asked.tenant = "other"; }, false},
      {"another key of the caller's own", [](Asked& asked, World&) { asked.api_key = "sk-two"; }, false},
      {"another method", [](Asked& asked, World&) { asked.method = "PUT"; }, false},
      {"a run id beside the key", [](Asked& asked, World&) { asked.run_id = "r"; }, true},
  };
  for (const auto after : {500ms, 10'000ms}) {
    for (const Row& row : rows) {
      SCOPED_TRACE(std::string{row.name} + (after < 1s ? " in flight" : " stored"));
      World w;
      Asked asked{.key = "k"};
      w.ask(asked);
      row.other(asked, w);
      Client& second = w.ask(asked, after);
      w.run();
      w.expect_rest();
      EXPECT_EQ(w.upstream.started.size(), row.same ? 1u : 2u);
      EXPECT_EQ(second.caller.head.status, 200);
    }
  }
}

TEST(Once, a_key_with_another_body_is_refused_in_flight_and_stored) {
  for (const auto after : {500ms, 10'000ms}) {
    World w;
    w.ask({.key = "k"});
    Client& other = w.ask({.key = "k", .body = "something else"}, after);
    w.run();
    w.expect_rest();
    EXPECT_EQ(w.upstream.started.size(), 1u) << "nothing is sent";
    EXPECT_EQ(other.caller.head.status, 422);
    EXPECT_NE(other.caller.bytes.find("callgate_key_reused"), std::string::npos) << other.caller.bytes;
    EXPECT_EQ(other.header("x-should-retry"), "false");
    EXPECT_EQ(w.record_of(other).outcome, Outcome::Refused);
    EXPECT_EQ(w.record_of(other).cls, Class::LocalRequest);
    EXPECT_EQ(w.counted["mismatch"], 1);
  }
}

TEST(Once, a_header_that_changes_answers_makes_another_request_of_it_and_others_do_not) {
  World w;
  Call one = w.call_for({.key = "k"});
  Call two = w.call_for({.key = "k"});
  two.request.headers.push_back({"OpenAI-Organization", "org"});
  Call three = w.call_for({.key = "k"});
  three.request.headers.push_back({"x-stainless-retry-count", "1"});
  const auto key_of = [&](const Call& call) { return *job_key(call, *call.request.body, Derive::Off); };
  EXPECT_NE(key_of(one).fingerprint, key_of(two).fingerprint);
  EXPECT_EQ(key_of(one).scope, key_of(two).scope);
  EXPECT_EQ(key_of(one).fingerprint, key_of(three).fingerprint);
}

TEST(Once, with_keys_of_ours_the_callers_do_not_part_them) {
  World w;
  Call one = w.call_for({.key = "k", .api_key = "a"});
  Call two = w.call_for({.key = "k", .api_key = "b"});
  const auto scope_of = [&](const Call& call) { return job_key(call, *call.request.body, Derive::Off)->scope; };
  EXPECT_NE(scope_of(one), scope_of(two));
  for (Call* call : {&one, &two}) {
    for (budget::Candidate& candidate : call->candidates) candidate.configured = true;
  }
  EXPECT_EQ(scope_of(one), scope_of(two));
}

TEST(Once, only_what_makes_something_is_known_again) {
  World w;
  const auto known = [&](const Asked& asked, Derive derive) {
    Call call = w.call_for(asked);
    return job_key(call, *call.request.body, derive).has_value();
  };
  for (const char* method : {"GET", "HEAD", "DELETE", "OPTIONS"}) {
    EXPECT_FALSE(known({.key = "k", .method = method}, Derive::Body)) << method;
  }
  EXPECT_TRUE(known({.key = "k", .method = "PATCH"}, Derive::Off));
  EXPECT_FALSE(known({.run_id = "r"}, Derive::Off));
  EXPECT_TRUE(known({.run_id = "r"}, Derive::Undelivered));
  EXPECT_FALSE(known({}, Derive::Undelivered));
  EXPECT_FALSE(known({}, Derive::RunId));
  EXPECT_TRUE(known({}, Derive::Body));
  EXPECT_FALSE(known({.run_id = "r", .method = "PUT"}, Derive::RunId));
}

// ---- derive ----

TEST(Once, what_an_identical_request_means_without_a_key) {
  struct Row {
    Derive derive;
    const char* run_id;
    std::size_t in_flight;  // Calls of three that come at once, …
    std::size_t later;      // … and one more behind them.
  };
  const Row rows[] = {{Derive::Off, "r", 3, 4},
                      {Derive::Undelivered, "r", 3, 4},
                      {Derive::RunId, "r", 1, 1},
                      {Derive::RunId, "", 3, 4},
                      {Derive::Body, "", 1, 1},
                      {Derive::Body, "r", 1, 1}};
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(static_cast<int>(row.derive)) + " " + row.run_id);
    Config::Idempotency options;
    options.derive = row.derive;
    World w{options};
    for (int i = 0; i < 3; ++i) w.ask({.run_id = row.run_id}, 100ms * i);
    w.run();
    EXPECT_EQ(w.upstream.started.size(), row.in_flight);
    w.ask({.run_id = row.run_id}, 20s);
    w.ask({.run_id = row.run_id, .body = "another"}, 20s);
    w.run();
    EXPECT_EQ(w.upstream.started.size(), row.later + 1);
    for (const Client& client : w.clients) EXPECT_EQ(client.caller.bytes, kWhole);
    w.expect_rest();
  }
}

TEST(Once, twenty_samples_in_one_run_are_twenty_answers) {
  World w;
  int number = 0;
  w.upstream.plan_for = [&](const Outbound&) {
    return unary(200, kWhole + std::string(static_cast<std::size_t>(++number), ' '));
  };
  for (int i = 0; i < 20; ++i) w.ask({.run_id = "run"}, i < 10 ? 0ms : 1s * i);
  w.run();
  w.expect_rest();
  EXPECT_EQ(w.upstream.started.size(), 20u);
  std::set<std::string> answers;
  for (const Client& client : w.clients) {
    answers.insert(client.caller.bytes);
    EXPECT_EQ(client.header("callgate-idempotency"), "");
  }
  EXPECT_EQ(answers.size(), 20u);
  EXPECT_TRUE(w.ledger.jobs.empty());
}

TEST(Once, an_answer_that_nobody_got_is_given_to_one_and_once) {
  // Its caller leaves before it is there: it ends in the store, or a twin joins it, or it is in memory.
  for (const auto twin : {1s, 5s}) {
    SCOPED_TRACE(twin.count());
    World w;
    Client& first = w.ask({.run_id = "run"});
    w.leaves(first, 500ms);
    Client& second = w.ask({.run_id = "run"}, twin);
    Client& third = w.ask({.run_id = "run"}, 20s);
    w.run();
    w.expect_rest();
    EXPECT_EQ(w.upstream.started.size(), 2u) << "the third is another sample";
    EXPECT_EQ(second.caller.bytes, kWhole);
    EXPECT_EQ(second.header("callgate-idempotency"), twin == 1s ? "joined" : "replayed");
    EXPECT_EQ(third.header("callgate-idempotency"), "");
    EXPECT_EQ(w.counted["given_once"], 1);
    EXPECT_TRUE(w.ledger.jobs.empty());
    EXPECT_EQ(w.once->figures().bytes, 0u);
  }
}

TEST(Once, a_caller_who_closed_just_before_the_end_has_not_had_it) {
  World w;
  Client& first = w.ask({.run_id = "run"});
  first.caller.here = false;  // The kernel knows; nobody was told.
  Client& second = w.ask({.run_id = "run"}, 5s);
  Client& third = w.ask({.run_id = "run"}, 10s);
  w.run();
  w.expect_rest();
  EXPECT_EQ(w.upstream.started.size(), 2u);
  EXPECT_EQ(second.caller.bytes, kWhole);
  EXPECT_EQ(second.header("callgate-idempotency"), "joined");
  EXPECT_EQ(third.header("callgate-idempotency"), "");
}

TEST(Once, each_leaver_s_answer_is_there_for_one_twin) {
  World w;
  for (int i = 0; i < 5; ++i) w.leaves(w.ask({.run_id = "run"}), 500ms);
  for (int i = 0; i < 6; ++i) w.ask({.run_id = "run"}, 1s + 1ms * i);
  w.run();
  w.expect_rest();
  EXPECT_EQ(w.upstream.started.size(), 6u) << "five are taken over, the sixth twin is new";
}

TEST(Once, leftovers_are_bounded_by_age_and_bytes) {
  Config::Idempotency options;
  options.ttl = 60s;
  options.max_bytes = 4'000;
  World w{options};
  for (int i = 0; i < 10; ++i) {
    Client& client = w.ask({.run_id = "run", .body = std::to_string(i)}, 3s * i);
    client.caller.here = false;
  }
  w.runtime.at(w.at(40s), [&] {
    EXPECT_LE(w.once->figures().bytes, 2'000u);
    EXPECT_GT(w.once->figures().bytes, 0u);
  });
  w.run();
  EXPECT_EQ(w.once->figures().bytes, 0u) << "too old";
}

// ---- Callers leave ----

TEST(Once, a_twin_within_the_linger_gets_the_call_and_later_its_answer) {
  struct Row {
    const char* name;
    std::chrono::milliseconds leaves;
    std::chrono::milliseconds answer;
    std::chrono::milliseconds twin;
    std::size_t calls;
    const char* how;
  };
  const Row rows[] = {{"joins", 1s, 10s, 2s, 1, "joined"},
                      {"it ended meanwhile", 1s, 10s, 14s, 1, "replayed"},
                      {"it was given up", 1s, 30s, 20s, 2, "stored"},
                      {"just in time", 1s, 30s, 15'900ms, 1, "joined"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    World w;
    w.upstream.plans = {unary(200, kWhole, row.answer)};
    Client& first = w.ask({.key = "k"});
    w.leaves(first, row.leaves);
    Client& twin = w.ask({.key = "k"}, row.twin);
    w.run();
    w.expect_rest();
    EXPECT_EQ(w.upstream.started.size(), row.calls);
    EXPECT_EQ(twin.caller.bytes, kWhole);
    EXPECT_EQ(twin.header("callgate-idempotency"), row.how);
    EXPECT_EQ(first.caller.ended, Ended::No);
    const CallRecord& record = w.record_of(first);
    EXPECT_EQ(record.outcome, row.calls == 1 ? Outcome::Answered : Outcome::Cancelled);
    if (row.calls == 2) {
      EXPECT_EQ(record.status, 499);
      EXPECT_EQ(record.duration, row.leaves + 15s);
    }
  }
}

TEST(Once, what_becomes_of_a_lonely_call_is_a_setting) {
  for (const Gone gone : {Gone::Cancel, Gone::Linger, Gone::Finish}) {
    SCOPED_TRACE(static_cast<int>(gone));
    Config::Idempotency options;
    options.on_caller_gone = gone;
    World w{options};
    w.upstream.plans = {unary(200, kWhole, 30s)};
    Client& first = w.ask({.key = "k"});
    w.leaves(first, 5s);
    w.run();
    w.expect_rest();
    const CallRecord& record = w.record_of(first);
    const std::chrono::milliseconds ends = gone == Gone::Cancel ? 5s : (gone == Gone::Linger ? 20s : 31s);
    EXPECT_EQ(record.duration, ends);
    EXPECT_EQ(record.outcome, gone == Gone::Finish ? Outcome::Answered : Outcome::Cancelled);
    EXPECT_EQ(w.ledger.jobs.size(), gone == Gone::Finish ? 1u : 0u) << "the claim is released by the same end";
  }
}

TEST(Once, a_twin_of_a_call_that_is_being_given_up_waits_for_its_claim) {
  Config::Idempotency options;
  options.on_caller_gone = Gone::Cancel;
  World w{options};
  w.ledger.end_takes = 2s;
  Client& first = w.ask({.key = "k"});
  w.leaves(first, 500ms);
  Client& twin = w.ask({.key = "k"}, 600ms);
  w.run();
  w.expect_rest();
  EXPECT_EQ(w.upstream.started.size(), 2u);
  EXPECT_EQ(w.upstream.started[1], w.at(2500ms));
  EXPECT_EQ(twin.caller.bytes, kWhole);
}

TEST(Once, one_reader_leaves_and_the_others_read_on) {
  World w;
  w.upstream.plans = {stream(kEvents())};
  Client& first = w.ask({.key = "k", .streamed = true});
  Client& second = w.ask({.key = "k", .streamed = true}, 1s);
  Client& third = w.ask({.key = "k", .streamed = true}, 2s);
  w.leaves(first, 3500ms);
  w.leaves(third, 4500ms);
  w.run();
  w.expect_rest();
  EXPECT_EQ(second.caller.bytes, all_of(kEvents()));
  EXPECT_EQ(w.record_of(first).outcome, Outcome::Answered) << "the call was";
  EXPECT_EQ(w.record_of(first).bytes_out, first.caller.bytes.size());
  EXPECT_EQ(w.record_of(third).outcome, Outcome::Cancelled);
  EXPECT_EQ(w.record_of(third).status, 499);
  EXPECT_EQ(w.record_of(third).once, "joined");
}

// ---- Deadlines ----

TEST(Once, a_caller_whose_deadline_passes_is_told_so_and_the_call_goes_on) {
  for (const bool by_sdk : {false, true}) {
    SCOPED_TRACE(by_sdk);
    World w;
    w.upstream.plans = {unary(200, kWhole, 30s)};
    Asked hurried{.key = "k"};
    (by_sdk ? hurried.patience : hurried.deadline) = 10s;
    Client& first = w.ask(hurried);
    Client& twin = w.ask({.key = "k"}, 12s);
    w.run();
    w.expect_rest();
    EXPECT_EQ(first.caller.head.status, 504);
    EXPECT_EQ(first.caller.ended_at, w.at(10'020ms));
    EXPECT_EQ(first.header("callgate-retryable"), "true");
    EXPECT_EQ(first.header("x-should-retry"), "false");
    EXPECT_EQ(w.upstream.started.size(), 1u);
    EXPECT_EQ(twin.caller.bytes, kWhole);
    EXPECT_EQ(twin.caller.ended_at, w.at(31s)) << "the joiner's patience holds for the attempt in progress";
  }
}

TEST(Once, a_lonely_call_whose_caller_s_deadline_passed_ends_after_its_linger_as_a_timeout) {
  World w;
  w.upstream.plans = {unary(200, kWhole, 60s)};
  Client& only = w.ask({.key = "k", .deadline = 10s});
  w.run();
  w.expect_rest();
  EXPECT_EQ(only.caller.head.status, 504);
  const CallRecord& record = w.record_of(only);
  EXPECT_EQ(record.outcome, Outcome::Failed);
  EXPECT_EQ(record.cls, Class::Timeout);
  EXPECT_EQ(record.status, 504);
  ASSERT_EQ(record.attempts.size(), 1u);
  EXPECT_TRUE(w.ledger.jobs.empty());
}

TEST(Once, the_most_patient_caller_says_how_long_the_call_may_wait) {
  // All slots are taken for 20 s; the first caller would not have waited so long.
  World w;
  w.slots(1);
  w.upstream.plans = {unary(200, kWhole, 19s), unary(200, kWhole, 1s)};
  w.ask({.key = "other", .body = "other"});
  Client& hurried = w.ask({.key = "k", .deadline = 5s}, 100ms);
  Client& patient = w.ask({.key = "k", .deadline = 60s}, 1s);
  w.run();
  w.expect_rest();
  EXPECT_EQ(hurried.caller.head.status, 504);
  EXPECT_EQ(patient.caller.bytes, kWhole);
  EXPECT_EQ(w.upstream.started.size(), 2u);
}

TEST(Once, a_single_caller_s_deadline_in_the_queue_is_the_call_s_own_ending) {
  World w;
  w.slots(1);
  w.upstream.plans = {unary(200, kWhole, 19s)};
  w.ask({.key = "other", .body = "other"});
  Client& hurried = w.ask({.key = "k", .deadline = 5s}, 100ms);
  w.run();
  w.expect_rest();
  EXPECT_EQ(hurried.caller.head.status, 504);
  EXPECT_NE(hurried.caller.bytes.find("while it waited"), std::string::npos) << hurried.caller.bytes;
  EXPECT_EQ(w.record_of(hurried).outcome, Outcome::Refused);
  EXPECT_EQ(w.upstream.started.size(), 1u);
}

TEST(Once, a_held_head_is_passed_on_before_the_sdk_gives_up) {
  World w;
  w.upstream.plans = {{sim_head(200, kSse, 1s),
                       sim_data("data: {\"choices\":[]}\n\n", 1s),
                       sim_data(kHello, 20s),
                       sim_data(kStop + kDone, 1s),
                       sim_end()}};
  Client& client = w.ask({.key = "k", .streamed = true, .patience = 8s});
  w.run();
  ASSERT_FALSE(client.caller.sends.empty());
  EXPECT_EQ(client.caller.sends.front(), w.at(8s));
  EXPECT_EQ(client.caller.ended, Ended::Finished);
}

// ---- Failures ----

TEST(Once, a_final_failure_goes_to_all_and_is_not_kept) {
  World w;
  w.upstream.plans = {unary(503, kBusy)};
  Client& first = w.ask({.key = "k"});
  Client& second = w.ask({.key = "k"}, 1s);
  w.runtime.at(w.at(60s), [&] { w.upstream.plan_for = [](const Outbound&) { return unary(200, kWhole); }; });
  Client& later = w.ask({.key = "k"}, 61s);
  w.run();
  w.expect_rest();
  for (const Client* client : {&first, &second}) {
    EXPECT_EQ(client->caller.head.status, 503);
    EXPECT_NE(client->caller.bytes.find("busy"), std::string::npos);
    EXPECT_EQ(client->header("callgate-class"), "overloaded");
    EXPECT_EQ(client->header("x-should-retry"), "false");
    EXPECT_EQ(client->header("callgate-call-id"), client->id);
    EXPECT_EQ(w.record_of(*client).outcome, Outcome::Failed);
    EXPECT_EQ(w.record_of(*client).cls, Class::Overloaded);
  }
  EXPECT_EQ(w.record_of(first).attempts.size(), 3u);
  EXPECT_EQ(w.record_of(second).attempts.size(), 0u);
  EXPECT_EQ(later.caller.head.status, 200) << "a transient failure is not what the next one gets";
  EXPECT_EQ(w.counted["released"], 1);
}

TEST(Once, the_remembered_failure_is_still_remembered) {
  World w;
  w.memo.update({.ttl = 15s}, w.runtime.now());
  w.upstream.plans = {unary(503, kBusy)};
  w.ask({.key = "k"});
  Client& retry = w.ask({.key = "k"}, 20s);
  w.run();
  w.expect_rest();
  EXPECT_EQ(w.upstream.started.size(), 3u);
  EXPECT_EQ(retry.header("callgate-source"), "memo");
}

TEST(Once, a_stream_that_breaks_off_does_so_for_all_visibly) {
  World w;
  w.upstream.plans = {stream({kHello, kHello}, sim_fail(Transport::Reset, 1s))};
  Client& first = w.ask({.key = "k", .streamed = true});
  Client& second = w.ask({.key = "k", .streamed = true}, 2500ms);
  w.run();
  w.expect_rest();
  for (const Client* client : {&first, &second}) {
    EXPECT_EQ(client->caller.ended, Ended::Aborted);
    EXPECT_NE(client->caller.bytes.find("callgate_stream_broken"), std::string::npos);
    EXPECT_EQ(client->caller.bytes.find("[DONE]"), std::string::npos);
    EXPECT_EQ(w.record_of(*client).outcome, Outcome::Failed);
  }
  EXPECT_TRUE(w.ledger.jobs.empty());
}

TEST(Once, a_bug_behind_any_door_costs_no_caller_an_answer) {
  for (int door = 0; door < 4; ++door) {
    SCOPED_TRACE(door);
    World w;
    w.ledger.throws_on_claim = door == 0;
    w.ledger.throws_on_open = door == 1;
    w.ledger.throws_on_end = door == 2;
    w.upstream.throws = door == 3;
    Client& first = w.ask({.key = "k"});
    Client& second = w.ask({.key = "k"}, 500ms);
    w.run();
    for (const Client* client : {&first, &second}) {
      EXPECT_TRUE(client->done);
      EXPECT_NE(client->caller.ended, Ended::No);
      EXPECT_EQ(client->caller.head.status, door == 1 || door == 3 ? 500 : 200);
    }
    EXPECT_EQ(w.once->active(), 0u);
    EXPECT_EQ(w.live.size(), 0u);
  }
}

// ---- Every phase of the call × every ending of its callers ----

TEST(Once, every_phase_survives_every_ending) {
  struct Phase {
    const char* name;
    bool streamed;
    SimPlan plan;
    bool blocked = false;
    std::chrono::milliseconds claim = 0ms;
  };
  const SimPlan silent{sim_silence()};
  const Phase phases[] = {
      {"claiming", false, silent, false, 20s},
      {"queued", false, silent, true},
      {"waiting for the head", false, silent},
      {"unary half read", false, {sim_head(200, kJson, 1s), sim_data(kWhole.substr(0, 40), 1s), sim_silence()}},
      {"stream committed", true, {sim_head(200, kSse, 1s), sim_data(kHello, 1s), sim_silence()}},
      {"backing off",
       false,
       {sim_head(429, {{"Content-Type", "application/json"}, {"Retry-After", "30"}}, 1s), sim_data("{}"), sim_end()}},
  };
  struct Ending {
    const char* name;
    std::function<void(World&, Client&, Client&)> happens;
  };
  const Ending endings[] = {
      {"both leave",
       [](World&, Client& a, Client& b) {
         a.signal.stop(StopReason::CallerGone);
         b.signal.stop(StopReason::CallerGone);
       }},
      {"the first leaves, the second is cancelled",
       [](World& w, Client& a, Client& b) {
         a.signal.stop(StopReason::CallerGone);
         EXPECT_EQ(w.live.cancel({.call_id = b.id, .run_id = {}, .tenant = {}}), 1u);
       }},
      {"the call is cancelled",
       [](World& w, Client& a, Client&) {
         EXPECT_EQ(w.live.cancel({.call_id = a.id, .run_id = {}, .tenant = {}}), 1u);
       }},
      {"its run is cancelled",
       [](World& w, Client&, Client&) {
         EXPECT_EQ(w.live.cancel({.call_id = {}, .run_id = "run", .tenant = {}}), 2u);
       }},
      {"shutdown",
       [](World& w, Client& a, Client& b) {
         a.signal.stop(StopReason::Shutdown);
         b.signal.stop(StopReason::Shutdown);
         w.once->stop_all();
       }},
      {"all leave, then shutdown",
       [](World& w, Client& a, Client& b) {
         a.signal.stop(StopReason::CallerGone);
         b.signal.stop(StopReason::CallerGone);
         w.runtime.at(w.at(12s), [&w] { w.once->stop_all(); });
       }},
      {"drain, then shutdown",
       [](World& w, Client& a, Client& b) {
         a.signal.drain();
         b.signal.drain();
         w.once->drain();
         w.runtime.at(w.at(25s), [&w] { w.once->stop_all(); });
       }},
      {"deadline", [](World&, Client&, Client&) {}},
  };
  for (const Phase& phase : phases) {
    for (const Ending& ending : endings) {
      SCOPED_TRACE(std::string{phase.name} + " × " + ending.name);
      World w;
      w.ledger.claim_takes = phase.claim;
      Client* other = nullptr;
      if (phase.blocked) {
        w.slots(1);
        w.upstream.plans = {silent, phase.plan};
        other = &w.ask({.key = "other", .run_id = "elsewhere", .body = "other"});
        w.leaves(*other, 11s);
      } else {
        w.upstream.plans = {phase.plan};
      }
      Asked asked{.key = "k", .run_id = "run", .streamed = phase.streamed};
      const std::string name = ending.name;
      if (name == "deadline") asked.deadline = 10s;
      Client& a = w.ask(asked, 10ms);
      Client& b = w.ask(asked, 3s);
      w.runtime.at(w.at(10s), [&] { ending.happens(w, a, b); });
      w.run();
      w.expect_rest();
      const bool left = name == "both leave" || name == "all leave, then shutdown";
      for (Client* client : {&a, &b}) {
        SCOPED_TRACE(client->id);
        const bool gone = left || (client == &a && name == "the first leaves, the second is cancelled");
        if (gone) {
          EXPECT_TRUE(client->caller.ended == Ended::No || client->caller.ended == Ended::Aborted);
        } else {
          EXPECT_NE(client->caller.ended, Ended::No) << "left without an end";
          EXPECT_EQ(client->caller.ended == Ended::Aborted, phase.streamed);
        }
        EXPECT_EQ(client->caller.bytes.find("[DONE]"), std::string::npos);
        EXPECT_NE(w.record_of(*client).outcome, Outcome::Answered);
      }
      if (name == "deadline" && !phase.streamed) {
        EXPECT_TRUE(a.caller.head.status == 504 || a.caller.head.status == 429) << a.caller.head.status;
      }
    }
  }
}

// ---- Readers of different pace ----

TEST(Once, the_fastest_reader_sets_the_pace_and_a_stalled_one_holds_nobody_up) {
  World w;
  std::vector<std::string> events(40, hello_of(16'000));
  events.push_back(kStop);
  events.push_back(kDone);
  SimPlan plan{sim_head(200, kSse, 1s)};
  for (const std::string& event : events) plan.push_back(sim_data(event, 10ms));
  plan.push_back(sim_end());
  w.upstream.plans = {plan};
  Client& stalled = w.ask({.key = "k", .streamed = true});
  stalled.caller.slow_signal = &stalled.signal;
  stalled.caller.send_takes = 600s;
  Client& slow = w.ask({.key = "k", .streamed = true}, 10ms);
  slow.caller.slow_signal = &slow.signal;
  slow.caller.send_takes = 2s;
  Client& fast = w.ask({.key = "k", .streamed = true}, 20ms);
  w.leaves(stalled, 60s);
  w.run();
  w.expect_rest();
  EXPECT_EQ(fast.caller.bytes, all_of(events));
  EXPECT_LT(fast.caller.ended_at, w.at(3s));
  EXPECT_EQ(slow.caller.bytes, all_of(events));
  EXPECT_GT(slow.caller.ended_at, w.at(10s));
  EXPECT_EQ(w.upstream.started.size(), 1u);
}

TEST(Once, a_single_slow_reader_slows_the_provider) {
  World w;
  std::vector<std::string> events(100, hello_of(16'000));
  SimPlan plan{sim_head(200, kSse, 1s)};
  for (const std::string& event : events) plan.push_back(sim_data(event));
  plan.push_back(sim_data(kStop + kDone));
  plan.push_back(sim_end());
  w.upstream.plans = {plan};
  Client& slow = w.ask({.key = "k", .streamed = true});
  slow.caller.slow_signal = &slow.signal;
  slow.caller.send_takes = 1s;
  w.runtime.at(w.at(5s), [&] {
    EXPECT_LE(w.once->figures().bytes, slow.caller.bytes.size() + 4 * 64 * 1024) << "not the whole stream";
  });
  w.run();
  w.expect_rest();
  EXPECT_EQ(slow.caller.bytes, all_of(events) + kStop + kDone);
}

TEST(Once, an_answer_that_is_too_large_is_neither_kept_nor_shared_and_fills_no_memory) {
  for (const bool streamed : {true, false}) {
    SCOPED_TRACE(streamed);
    Config::Idempotency options;
    options.max_entry = 64 * 1024;
    World w{options};
    std::vector<std::string> events(60, hello_of(16'000));
    events.push_back(kStop + kDone);
    const std::string large =
        R"({"id":"c1","object":"chat.completion","model":"gpt-5","choices":[{"message":{"content":")" +
        std::string(100'000, 'x') + R"("},"finish_reason":"stop"}]})";
    const SimPlan plan = streamed ? stream(events) : unary(200, large);
    w.upstream.plans = {plan};
    Client& first = w.ask({.key = "k", .streamed = streamed});
    Client& early = w.ask({.key = "k", .streamed = streamed}, 500ms);
    Client& late = w.ask({.key = "k", .streamed = streamed}, 40s);
    Client& later = w.ask({.key = "k", .streamed = streamed}, 300s);
    std::uint64_t most = 0;
    for (int i = 0; i < 400; ++i) {
      w.runtime.at(w.at(250ms * i), [&] { most = std::max(most, w.once->figures().bytes); });
    }
    w.run();
    w.expect_rest();
    const std::string whole = streamed ? all_of(events) : large;
    for (const Client* client : {&first, &early, &late, &later}) EXPECT_EQ(client->caller.bytes, whole);
    EXPECT_EQ(w.upstream.started.size(), 3u) << "who came early has joined, the others are calls of their own";
    EXPECT_EQ(w.counted["too_large"], 3);
    EXPECT_EQ(w.counted["stored"], 0);
    if (streamed) {
      EXPECT_LE(most, 3u * 256 * 1024);
    }
    EXPECT_EQ(w.once->figures().bytes, 0u);
  }
}

TEST(Once, a_reader_who_falls_too_far_behind_an_answer_that_is_not_kept_is_cut_off) {
  Config::Idempotency options;
  options.max_entry = 64 * 1024;
  World w{options};
  std::vector<std::string> events(60, hello_of(16'000));
  events.push_back(kStop + kDone);
  w.upstream.plans = {stream(events)};
  Client& fast = w.ask({.key = "k", .streamed = true});
  Client& slow = w.ask({.key = "k", .streamed = true}, 500ms);
  slow.caller.slow_signal = &slow.signal;
  slow.caller.send_takes = 50s;
  w.run();
  w.expect_rest();
  EXPECT_EQ(fast.caller.bytes, all_of(events));
  EXPECT_EQ(slow.caller.ended, Ended::Aborted);
  EXPECT_EQ(w.record_of(slow).reason, "too_slow");
}

TEST(Once, a_lonely_call_whose_answer_outgrows_what_is_kept_is_stopped) {
  Config::Idempotency options;
  options.max_entry = 64 * 1024;
  World w{options};
  std::vector<std::string> events(60, hello_of(16'000));
  w.upstream.plans = {stream(events)};
  Client& first = w.ask({.key = "k", .streamed = true});
  w.leaves(first, 2500ms);
  w.run();
  w.expect_rest();
  EXPECT_LT(w.record_of(first).duration, 10s);
  EXPECT_EQ(w.record_of(first).outcome, Outcome::Cancelled);
}

TEST(Once, all_answers_in_memory_together_are_bounded) {
  Config::Idempotency options;
  options.max_bytes = 1024 * 1024;
  World w{options};
  std::vector<std::string> events(60, hello_of(16'000));
  events.push_back(kStop + kDone);
  w.upstream.plans = {stream(events)};
  for (int i = 0; i < 8; ++i) w.ask({.key = "k" + std::to_string(i), .streamed = true});
  std::uint64_t most = 0;
  for (int i = 0; i < 400; ++i) {
    w.runtime.at(w.at(250ms * i), [&] { most = std::max(most, w.once->figures().bytes); });
  }
  w.run();
  w.expect_rest();
  EXPECT_LE(most, 1024u * 1024 + 8 * 128 * 1024);
  for (const Client& client : w.clients) EXPECT_EQ(client.caller.bytes, all_of(events));
  EXPECT_GT(w.counted["too_large"], 0);
}

// ---- What the store says ----

TEST(Once, what_the_store_says_is_done) {
  using ClaimKind = ledger::ClaimAnswer::Kind;
  using OnUnknown = Config::Idempotency::OnUnknown;
  struct Row {
    const char* name;
    ClaimKind kind;
    OnUnknown on_unknown;
    bool refuse;
    std::size_t calls;
    int status;
    const char* how;
    const char* says;
    const char* sdk_may_retry;
    const char* earlier = "earlier-call";  // The call that the store names.
  };
  const Row rows[] = {
      {"ours", ClaimKind::Ours, OnUnknown::Rerun, false, 1, 200, "stored", "hello", ""},
      {"unknown, rerun", ClaimKind::Unknown, OnUnknown::Rerun, false, 1, 200, "recovered", "hello", ""},
      {"unknown, fail", ClaimKind::Unknown, OnUnknown::Fail, false, 0, 502, "", "earlier-call", "false"},
      {"held", ClaimKind::Held, OnUnknown::Rerun, false, 0, 503, "", "earlier-call", "true"},
      {"another body", ClaimKind::OtherBody, OnUnknown::Rerun, false, 0, 422, "", "callgate_key_reused", "false"},
      {"no store", ClaimKind::NoStore, OnUnknown::Rerun, false, 1, 200, "", "hello", "", ""},
      {"no store to write to, an earlier call is read",
       ClaimKind::NoStore,
       OnUnknown::Rerun,
       false,
       1,
       200,
       "recovered",
       "hello",
       ""},
      {"no store, refuse",
       ClaimKind::NoStore,
       OnUnknown::Rerun,
       true,
       0,
       503,
       "",
       "callgate_store_unavailable",
       "true",
       ""},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Config::Idempotency options;
    options.on_unknown = row.on_unknown;
    World w{options};
    w.once->configure(options, row.refuse);
    ledger::ClaimAnswer answer;
    answer.kind = row.kind;
    answer.call_id = row.earlier;
    answer.until = w.runtime.wall_now() + 12s;
    w.ledger.claim_answer = answer;
    w.ledger.claim_takes = 100ms;
    Client& first = w.ask({.key = "k"});
    Client& second = w.ask({.key = "k"}, 50ms);
    w.run();
    w.expect_rest();
    EXPECT_EQ(w.upstream.started.size(), row.calls);
    EXPECT_EQ(first.header("callgate-idempotency"), row.how);
    for (const Client* client : {&first, &second}) {
      EXPECT_EQ(client->caller.head.status, row.status);
      EXPECT_NE(client->caller.bytes.find(row.says), std::string::npos) << client->caller.bytes;
      EXPECT_EQ(client->header("x-should-retry"), row.sdk_may_retry);
      EXPECT_EQ(client->header("callgate-call-id"), client->id);
      if (row.kind == ClaimKind::Held) {
        EXPECT_EQ(client->header("retry-after"), "12");
      }
    }
    EXPECT_EQ(w.record_of(first).once, row.how);
  }
}

TEST(Once, without_a_store_memory_does_what_it_can) {
  for (const bool loses : {false, true}) {
    SCOPED_TRACE(loses ? "the ending is lost" : "the claim is");
    World w;
    if (loses) {
      w.ledger.loses_answers = true;
    } else {
      ledger::ClaimAnswer none;
      none.kind = ledger::ClaimAnswer::Kind::NoStore;
      w.ledger.claim_answer = none;
    }
    w.held_on_purpose = true;
    w.ask({.key = "k"});
    Client& joined = w.ask({.key = "k"}, 500ms);
    Client& later = w.ask({.key = "k"}, 60s);
    w.run();
    EXPECT_EQ(w.upstream.started.size(), 1u);
    EXPECT_EQ(joined.caller.bytes, kWhole);
    EXPECT_EQ(later.caller.bytes, kWhole);
  }
}

TEST(Once, a_job_that_is_certainly_new_waits_for_no_answer_to_its_claim) {
  World w;
  w.ledger.claims_ahead = true;
  w.ledger.claim_takes = 30s;
  Client& first = w.ask({.key = "k"});
  Client& twin = w.ask({.key = "k"}, 500ms);
  Client& later = w.ask({.key = "k"}, 60s);
  w.run();
  w.expect_rest();
  EXPECT_EQ(w.ledger.ahead, 1);
  EXPECT_EQ(w.ledger.claims, 1) << "the later one asks";
  ASSERT_EQ(w.upstream.started.size(), 1u);
  EXPECT_EQ(first.caller.bytes, kWhole);
  EXPECT_EQ(first.header("callgate-idempotency"), "stored");
  EXPECT_LT(first.caller.ended_at, w.at(30s));
  EXPECT_EQ(twin.header("callgate-idempotency"), "joined");
  EXPECT_EQ(later.header("callgate-idempotency"), "replayed");
}

TEST(Once, a_failure_gives_up_a_claim_that_went_ahead_and_the_next_one_asks) {
  World w;
  w.ledger.claims_ahead = true;
  int number = 0;
  w.upstream.plan_for = [&](const Outbound&) { return ++number == 1 ? unary(400, "{}") : unary(200, kWhole); };
  Client& first = w.ask({.key = "k"});
  Client& second = w.ask({.key = "k"}, 60s);
  w.run();
  w.expect_rest();
  EXPECT_EQ(first.caller.head.status, 400);
  EXPECT_EQ(w.counted["released"], 1);
  EXPECT_EQ(second.caller.bytes, kWhole);
  EXPECT_EQ(w.ledger.ahead, 1);
  EXPECT_EQ(w.ledger.claims, 1);
}

TEST(Once, a_claim_that_went_ahead_and_was_given_up_is_said_again_with_the_end) {
  for (const bool undelivered : {false, true}) {
    SCOPED_TRACE(undelivered);
    World w;
    w.ledger.claims_ahead = w.ledger.loses_ahead = true;
    const Asked asked = undelivered ? Asked{.run_id = "run"} : Asked{.key = "k"};
    Client& first = w.ask(asked);
    if (undelivered) w.leaves(first, 500ms);
    Client& later = w.ask(asked, 60s);
    w.run();
    w.expect_rest();
    ASSERT_EQ(w.ledger.ahead, 1);
    EXPECT_EQ(w.upstream.started.size(), 1u);
    EXPECT_EQ(later.caller.bytes, kWhole);
    EXPECT_EQ(later.header("callgate-idempotency"), "replayed");
  }
}

TEST(Once, where_the_ending_is_lost_too_memory_does_what_it_can) {
  World w;
  w.ledger.claims_ahead = w.ledger.loses_ahead = true;
  w.ledger.loses_answers = true;
  w.held_on_purpose = true;
  w.ask({.key = "k"});
  Client& later = w.ask({.key = "k"}, 60s);
  w.run();
  EXPECT_EQ(w.upstream.started.size(), 1u);
  EXPECT_EQ(later.caller.bytes, kWhole);
}

TEST(Once, who_would_rather_fail_than_pay_twice_waits_for_the_store) {
  using OnUnknown = Config::Idempotency::OnUnknown;
  for (const bool refuse : {false, true}) {
    Config::Idempotency options;
    options.on_unknown = refuse ? OnUnknown::Rerun : OnUnknown::Fail;
    World w{options};
    w.once->configure(options, refuse);
    w.ledger.claims_ahead = true;
    w.ask({.key = "k"});
    w.run();
    w.expect_rest();
    EXPECT_EQ(w.ledger.ahead, 0);
    EXPECT_EQ(w.ledger.claims, 1);
  }
}

TEST(Once, an_unknown_outcome_that_is_not_to_be_repeated_is_told_again_until_somebody_says_fresh) {
  Config::Idempotency options;
  options.on_unknown = Config::Idempotency::OnUnknown::Fail;
  World w{options};
  Call call = w.call_for({.key = "k"});
  const JobKey key = *job_key(call, *call.request.body, options.derive);
  w.ledger.jobs[key.scope] = {key.fingerprint, "before-the-crash", {}, true, false, nullptr};
  w.held_on_purpose = true;
  Client& first = w.ask({.key = "k"});
  Client& second = w.ask({.key = "k"}, 1s);
  Client& later = w.ask({.key = "k"}, 200s);
  Client& fresh = w.ask({.key = "k", .fresh = true}, 210s);
  Client& after = w.ask({.key = "k"}, 300s);
  w.run();
  for (const Client* client : {&first, &second, &later}) {
    EXPECT_EQ(client->caller.head.status, 502);
    EXPECT_NE(client->caller.bytes.find("before-the-crash"), std::string::npos) << client->caller.bytes;
    EXPECT_EQ(w.record_of(*client).reason, "outcome_unknown");
  }
  EXPECT_EQ(fresh.caller.bytes, kWhole);
  EXPECT_EQ(after.header("callgate-idempotency"), "replayed");
  EXPECT_EQ(w.upstream.started.size(), 1u);
}

TEST(Once, fresh_buys_again_and_replaces_what_was_stored_but_joins_what_is_under_way) {
  World w;
  int number = 0;
  w.upstream.plan_for = [&](const Outbound&) {
    return unary(200, kWhole + std::string(static_cast<std::size_t>(++number), ' '));
  };
  w.ask({.key = "k"});
  Client& fresh = w.ask({.key = "k", .fresh = true}, 10s);
  Client& twin = w.ask({.key = "k", .fresh = true}, 11s);
  Client& later = w.ask({.key = "k"}, 20s);
  w.run();
  w.expect_rest();
  EXPECT_EQ(w.upstream.started.size(), 2u);
  EXPECT_EQ(fresh.caller.bytes, kWhole + "  ");
  EXPECT_EQ(fresh.header("callgate-idempotency"), "stored");
  EXPECT_EQ(twin.caller.bytes, kWhole + "  ");
  EXPECT_EQ(later.caller.bytes, kWhole + "  ");
  EXPECT_EQ(later.header("callgate-idempotency"), "replayed");
}

// ---- Any schedule ----

TEST(Once, holds_its_promises_under_any_schedule) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 chance{seed};
    const auto up_to = [&](int most) { return static_cast<int>(chance() % static_cast<unsigned>(most)); };
    Config::Idempotency options;
    options.on_caller_gone = static_cast<Gone>(up_to(3));
    options.linger = 1ms * (1 + up_to(10'000));
    World w{options};
    w.ledger.end_takes = 1ms * up_to(300);
    w.ledger.claim_takes = 1ms * up_to(300);
    w.ledger.claims_ahead = seed % 2 == 0;
    w.ledger.loses_ahead = seed % 4 == 0;
    const bool streamed = up_to(2) == 0;
    w.upstream.plan_for = [&](const Outbound&) -> SimPlan {
      if (up_to(4) == 0) return unary(503, kBusy);
      if (streamed && up_to(5) == 0) return stream({kHello}, sim_fail(Transport::Reset, 1s));
      return streamed ? stream(kEvents()) : unary(200, kWhole, 1ms * up_to(8'000));
    };
    for (int i = 0; i < 12; ++i) {
      Asked asked{.key = "k" + std::to_string(up_to(2)), .streamed = streamed};
      if (up_to(3) == 0) asked = {.run_id = "run", .streamed = streamed};
      if (up_to(4) == 0) asked.deadline = 1ms * up_to(6'000);
      const auto comes = 1ms * up_to(15'000);
      Client& client = w.ask(asked, comes);
      if (up_to(3) == 0) w.leaves(client, comes + 1ms * up_to(6'000));
      if (up_to(4) == 0) {
        client.caller.slow_signal = &client.signal;
        client.caller.send_takes = 1ms * up_to(1'000);
      }
    }
    if (up_to(4) == 0) {
      w.runtime.at(w.at(1ms * up_to(20'000)), [&] {
        for (Client& client : w.clients) client.signal.stop(StopReason::Shutdown);
        w.once->stop_all();
      });
    }
    w.run();
    w.expect_rest();
    // Of one key no answer is bought twice: all whole answers of a key are of one paid call.
    std::map<std::string, int> paid;
    for (const CallRecord& record : w.records) {
      if (record.outcome == Outcome::Answered && !record.attempts.empty() && record.once == "stored" &&
          record.run_id.empty())
        ++paid[record.idempotency_key];
    }
    for (const auto& [key, count] : paid) EXPECT_EQ(count, 1) << key;
    for (const Client& client : w.clients) {
      if (client.caller.ended == Ended::Answered || client.caller.ended == Ended::Finished) {
        if (client.caller.head.status == 200) {
          EXPECT_EQ(client.caller.bytes, streamed ? all_of(kEvents()) : kWhole);
        }
      }
    }
  }
}

}  // namespace once_test
}  // namespace gateway
