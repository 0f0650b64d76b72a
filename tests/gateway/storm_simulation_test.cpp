// Goal: whatever a provider does and whoever leaves, the rules of design §4 hold. Method: the real story and the real
// admission in virtual time, under thousands of seeded schedules of failures, hints, aborts and reloads.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gateway/admission.h"
#include "gateway/call.h"
#include "gateway/unknown_answers.h"
#include "gateway/ways.h"
#include "tests/support/sim_world.h"

namespace gateway {
namespace storm_simulation_test {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int kSchedules = 2'000;
constexpr int kCalls = 14;
constexpr int kAttempts = 5;

const std::string kWhole =
    R"({"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",)"
    R"("content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}})";
const classifier::Headers kJson = {{"Content-Type", "application/json"}};

std::string error_of(const std::string& code) { return R"({"error":{"message":"no","code":")" + code + "\"}}"; }

/// One call and all that belongs to it.
struct Caller1 {
  Caller1(SimRuntime& runtime, int number)
      : caller(runtime), signal(runtime.io()), name("call-" + std::to_string(number)) {}
  SimCaller caller;
  Signal signal;
  std::string name;
  Call call{};
  CallRecord record{};
  bool over = false;
  int live = 0;
  int attempts = 0;
};

class Storm {
 public:
  explicit Storm(unsigned seed) : chance_(seed), runtime_(seed), upstream_(runtime_), ledger_(runtime_) {
    DispatchAdmission::Listeners listeners;
    listeners.moved = [this](budget::Lane, int by) { queued_ += by; };
    admission_ = std::make_unique<DispatchAdmission>(runtime_, listeners);
    two_steps_ = one_in(2);
    make_route(true);
    configure(pick(1, 8));
    admission_->take_keys({{"a/one", "key-one"}, {"a/two", "key-two"}});
    for (auto& retry : policy_->retry)
      retry = {.attempts = kAttempts, .base = 200ms, .cap = 5s, .longest_wait = 20s, .max_elapsed = 40s};
    upstream_.plan_for = [this](const Outbound& request) { return answer(request); };
    upstream_.ended = [this](const Outbound& request) { --whose(request).live; };
  }

  void play() {
    for (int i = 0; i < kCalls; ++i) add_call(i);
    // Reloads with other limits, credentials and keys, in the midst of it.
    for (int i = 0; i < 6; ++i) {
      const int slots = pick(1, 8);
      const bool both = one_in(2);
      const bool other_key = one_in(2);
      runtime_.at(start_ + milliseconds{pick(0, 30'000)}, [this, slots, both, other_key, i] {
        make_route(both);
        configure(slots);
        const std::string one = other_key ? "key-one-" + std::to_string(i) : "key-one";
        admission_->take_keys({{"a/one", one}, {"a/two", "key-two"}});
        keys_ = {one, "key-two"};
      });
    }
    runtime_.run();
    expect_rest();
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<>{low, high}(chance_); }
  bool one_in(int many) { return pick(1, many) == 1; }

  /// `both` credentials of the first upstream, or one of them; calls that wait go on as they began.
  void make_route(bool both) {
    both_ = both;
    auto route = std::make_shared<Route>();
    route->name = "both";
    for (const char* name : {"a", "b"}) {
      auto target = std::make_shared<Target>();
      target->config.name = name;
      target->config.dialect = "openai";
      target->config.timeouts = {.connect = 2s, .first_byte = 6s, .idle = 4s, .total = 0s};
      target->dialect = classifier::find_dialect("openai");
      auto wire = std::make_shared<WireOptions>();
      wire->base_url = name;
      target->wire = wire;
      if (*name == 'a') target->config.credentials = {{"one", {}, 1}};
      if (*name == 'a' && both) target->config.credentials.push_back({"two", {}, 1});
      route->steps.push_back({.to = target, .weight = {}, .models = {}});
    }
    if (!two_steps_) route->steps.pop_back();
    route_ = route;
  }

  void configure(int slots) {
    budget::DispatchPolicy dispatch;
    budget::HealthPolicy& health = dispatch.health;
    health.credentials["a"] = {"one"};
    if (both_) health.credentials["a"].push_back("two");
    health.credentials["b"];
    health.breaker.min_calls = pick(3, 10);
    health.breaker.open_for = milliseconds{pick(500, 5'000)};
    health.retry_budget.floor = pick(0, 20);
    dispatch.upstreams = {{"a", {.concurrent = slots}}, {"b", {.concurrent = slots}}};
    admission_->configure(std::move(dispatch));
  }

  void add_call(int number) {
    auto& one = *calls_.emplace_back(std::make_unique<Caller1>(runtime_, number));
    Call& call = one.call;
    call.id = one.name;
    call.lane = static_cast<budget::Lane>(pick(0, 2));
    call.route = route_;
    call.to = route_->steps.front().to;
    call.policy = policy_;
    call.request.method = "POST";
    call.path = call.target = call.asked = "/v1/chat/completions";
    call.endpoint = call.to->dialect->endpoint("POST", call.path);
    auto body = std::make_shared<std::string>(R"({"model":"m)" + std::to_string(pick(1, 2)) + R"(","user":")" +
                                              one.name + R"(","messages":[]})");
    body->reserve(body->size() + 64);
    call.request.body = body;
    call.facts = call.to->dialect->read_request(call.endpoint, call.path, "", *body);
    call.tenant = one_in(2) ? "t1" : "t2";
    const TimePoint arrives = start_ + milliseconds{pick(0, 20'000)};
    call.request.arrived = arrives;
    if (one_in(3)) call.deadline = arrives + milliseconds{pick(100, 30'000)};
    runtime_.at(arrives, [this, &one] { begin(one); });
    if (one_in(5)) {
      runtime_.at(arrives + milliseconds{pick(0, 15'000)}, [&one] {
        if (!one.over) one.signal.stop(StopReason::CallerGone);
      });
    }
  }

  void begin(Caller1& one) {
    // Under the configuration of that moment.
    one.call.route = route_;
    one.call.to = route_->steps.front().to;
    choose_ways(one.call, "");
    boost::asio::co_spawn(
        runtime_.io(),
        run_call(
            one.call, Services{runtime_, *admission_, ledger_, upstream_, memo_, unknown_}, one.caller, one.signal),
        [this, &one](const std::exception_ptr& escaped, CallRecord ended) {
          EXPECT_FALSE(escaped);
          one.record = std::move(ended);
          one.over = true;
          const TimePoint by = one.call.deadline;
          EXPECT_TRUE(by == TimePoint::max() || runtime_.now() <= by + 1ms)
              << one.name << " went on after its deadline";
        });
  }

  Caller1& whose(const Outbound& request) {
    for (const auto& one : calls_) {
      if (request.body->find("\"" + one->name + "\"") != std::string::npos) return *one;
    }
    throw std::logic_error("nobody's request");
  }

  /// The provider, which watches the rules as it answers.
  SimPlan answer(const Outbound& request) {
    Caller1& one = whose(request);
    const TimePoint now = runtime_.now();
    EXPECT_EQ(one.live++, 0) << one.name << " has two attempts at once";
    EXPECT_LE(++one.attempts, kAttempts) << one.name;
    EXPECT_LT(now, one.call.deadline) << one.name << " begins after its deadline";
    EXPECT_FALSE(one.over) << one.name;
    const std::string key{classifier::find(request.headers, "authorization").value_or("")};
    const std::string group = request.wire->base_url + key + one.call.facts.model;
    if (request.wire->base_url == "a") {
      const bool known = std::ranges::any_of(keys_, [&](const auto& held) { return key == "Bearer " + held; });
      EXPECT_TRUE(known) << one.name << " goes out with a key that was changed: " << key;
    }
    EXPECT_GE(now, not_before_[group]) << one.name << " comes before a hint is over: " << group;

    const milliseconds takes{pick(1, 3'000)};
    const auto fails = [&](int status, const std::string& code, classifier::Headers more = {}) -> SimPlan {
      more.push_back({"Content-Type", "application/json"});
      return {sim_head(status, std::move(more), takes), sim_data(error_of(code)), sim_end()};
    };
    switch (pick(0, 11)) {
      case 0: {
        const int hint = pick(1, 30);
        // Known to us once the answer is there.
        TimePoint& until = not_before_[group];
        runtime_.at(now + takes, [&until, when = now + takes + std::chrono::seconds{hint}, this, &one] {
          if (one.live > 0) until = std::max(until, when);
        });
        return fails(429, "rate_limit_exceeded", {{"Retry-After", std::to_string(hint)}});
      }
      case 1:
        return fails(503, "overloaded");
      case 2:
        return fails(500, "server_error");
      case 3:
        return fails(400, "unsupported_parameter");
      case 4:
        return fails(401, "invalid_api_key");
      case 5:
        return {sim_silence()};
      case 6:
        return {sim_fail(classifier::Transport::Reset, takes)};
      case 7:
        return {sim_fail(classifier::Transport::ConnectRefused, takes)};
      case 8:
        return {sim_head(200, kJson, takes), sim_data("{\"broken"), sim_end()};
      default:
        return {sim_head(200, kJson, takes), sim_data(kWhole), sim_end()};
    }
  }

  void expect_rest() {
    for (const auto& one : calls_) {
      EXPECT_TRUE(one->over) << one->name << " never ended";
      EXPECT_EQ(one->live, 0);
      EXPECT_EQ(one->record.attempts.size(), static_cast<std::size_t>(one->attempts)) << one->name;
    }
    EXPECT_EQ(ledger_.ended.size(), calls_.size()) << "a row for each, once";
    EXPECT_EQ(ledger_.open_rows(), 0u);
    EXPECT_EQ(admission_->in_use("a"), 0);
    EXPECT_EQ(admission_->in_use("b"), 0);
    EXPECT_EQ(admission_->waiting(), 0u);
    EXPECT_EQ(queued_, 0);
    EXPECT_EQ(upstream_.live, 0);
    // No probe's permit is held by anybody: who asks after all that waits only for what has a time.
    for (const budget::UpstreamHealth& health : admission_->health()) {
      for (const auto& breaker : health.breakers) EXPECT_TRUE(breaker.next_probe.has_value());
    }
  }

  std::mt19937 chance_;
  SimRuntime runtime_;
  SimUpstream upstream_;
  SimLedger ledger_;
  budget::Memo memo_{};
  UnknownAnswers unknown_{};
  std::unique_ptr<DispatchAdmission> admission_{};
  std::shared_ptr<CallPolicy> policy_ = std::make_shared<CallPolicy>();
  std::shared_ptr<const Route> route_{};
  bool two_steps_ = false;
  bool both_ = true;
  std::vector<std::string> keys_{"key-one", "key-two"};  // Of the upstream that has some.
  const TimePoint start_{1'000s};
  std::vector<std::unique_ptr<Caller1>> calls_{};
  std::map<std::string, TimePoint> not_before_{};
  int queued_ = 0;
};

TEST(StormSimulation, the_rules_hold_under_every_schedule) {
  for (unsigned seed = 1; seed <= kSchedules; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Storm storm{seed};
    storm.play();
    if (testing::Test::HasFailure()) return;  // One is enough to look at.
  }
}

}  // namespace storm_simulation_test
}  // namespace gateway
