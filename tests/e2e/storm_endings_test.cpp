// How a storm ends: the reopening after a pause, and a breaker's trial that ends in any way.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace storm_endings_test {

using Json = nlohmann::json;
using support::chat_saying;
using support::eventually;
using support::House;
using support::http;
using support::kUnary;
using support::RawClient;
using support::request_text;
using support::Response;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(Pauses, of_200_who_wait_none_comes_early_and_they_come_back_spread) {
  constexpr int kCallers = 200;
  constexpr std::int64_t kHintMs = 3'000, kSpreadMs = 1'000, kSliceMs = 100;
  House house;
  house.provider.script(
      R"([{"match": {"times": 1}, "answer": {"status": 429, "headers": [["retry-after", "3"]], "json": {"error": {"message": "slow down"}}}}])");
  std::vector<RawClient> callers;
  callers.push_back(house.begin_chat(chat_saying("0")));
  house.callgate.process().json_line("paused");
  for (int i = 1; i < kCallers; ++i) callers.push_back(house.begin_chat(chat_saying(std::to_string(i))));
  for (RawClient& caller : callers) EXPECT_EQ(caller.read_response().status, 200);

  const Json seen = house.provider.seen();
  ASSERT_EQ(seen.size(), static_cast<std::size_t>(kCallers) + 1) << "one refusal, and each once";
  const auto ends = seen[0].at("ended").at("at_ms").get<std::int64_t>() + kHintMs;
  std::vector<std::int64_t> came;
  for (std::size_t i = 1; i < seen.size(); ++i) came.push_back(seen[i].at("at_ms").get<std::int64_t>());
  std::ranges::sort(came);
  EXPECT_GE(came.front(), ends - 1) << "the provider's clock is in whole milliseconds";
  std::ptrdiff_t peak = 0;
  for (auto first = came.begin(); first != came.end(); ++first) {
    peak = std::max(peak, std::lower_bound(first, came.end(), *first + kSliceMs) - first);
  }
  EXPECT_LE(peak, 2 * kCallers * kSliceMs / kSpreadMs) << "of any 100 ms";
}

struct Trial {
  const char* name;
  std::string script;  // While the trial is out.
  bool stream = false;
  bool leaves = false;                     // The caller, once the provider has it.
  std::chrono::milliseconds hinted = 0ms;  // By the answer, with its spread.
  const char* url = nullptr;               // Instead of the provider's.
};

const Trial kTrials[] = {
    {.name = "silent", .script = R"([{"answer": {"hang": true}}])"},
    {.name = "silent, and the caller leaves", .script = R"([{"answer": {"hang": true}}])", .leaves = true},
    {.name = "400", .script = R"([{"answer": {"status": 400, "json": {"error": {"message": "no"}}}}])"},
    {.name = "401", .script = R"([{"answer": 401}])"},
    {.name = "429", .script = R"([{"answer": 429}])", .hinted = 1s},
    {.name = "429 with a hint",
     .script = R"([{"answer": {"status": 429, "headers": [["retry-after", "1"]]}}])",
     .hinted = 2s},
    {.name = "503", .script = R"([{"answer": 503}])"},
    {.name = "reset", .script = R"([{"answer": {"drop": "rst"}}])"},
    {.name = "refused before it went out", .script = "[]", .url = "http://127.0.0.1:1"},
    {.name = "no such host", .script = "[]", .url = "http://nobody.invalid"},
    {.name = "a stream's head, then silence",
     .script = R"([{"answer": {"stream": [{"hang": true}]}}])",
     .stream = true},
    {.name = "a stream's head, then silence, and the caller leaves",
     .script = R"([{"answer": {"stream": [{"hang": true}]}}])",
     .stream = true,
     .leaves = true},
};

constexpr auto kOpenFor = 500ms;
const std::string kTimeouts = ", timeouts: {first_byte: 700ms, idle: 700ms}";
const std::string kQuick =
    "retry: {base: 1ms, bulk: {attempts: 1}, interactive: {attempts: 1}}\n"
    "breaker: {window: 10s, min_calls: 4, open_for: 500ms}\n";

void open_breaker(House& house) {
  house.provider.script(R"([{"answer": 503}])");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(house.chat().status, 503);
  house.callgate.process().json_line("breaker_opened");
}

void point_to(const House& house, const std::string& url) {
  std::string yaml = house.yaml(kTimeouts, kQuick);
  for (std::size_t at = 0; !url.empty() && (at = yaml.find(house.provider.url(), at)) != yaml.npos; at += url.size())
    yaml.replace(at, house.provider.url().size(), url);
  house.callgate.write_config(yaml);
  EXPECT_EQ(http("POST", house.callgate.admin_url() + "/v1/reload").status, 200);
}

/// The provider is well: within one open time (and the fifth that is added to it) so is the service.
void expect_back(House& house, std::chrono::milliseconds more) {
  const auto healed = Clock::now();
  EXPECT_EQ(house.chat(chat_saying("healed")).status, 200);
  // 400 ms for a machine that is busy with other things.
  EXPECT_LT(Clock::now() - healed, kOpenFor * 6 / 5 + more + 400ms);
  EXPECT_EQ(house.callgate.process().json_line("breaker_closed").at("model"), "gpt-5");
}

TEST(Breaker, is_back_within_one_open_time_however_its_trial_ended) {
  for (const Trial& trial : kTrials) {
    SCOPED_TRACE(trial.name);
    House house{kTimeouts, kQuick};
    open_breaker(house);
    if (trial.url) point_to(house, trial.url);
    house.provider.script(trial.script);
    const int before = house.requests();
    {
      RawClient caller = house.begin_chat(chat_saying("trial", trial.stream));
      if (trial.leaves) {
        house.provider.wait("requests=" + std::to_string(before + 1));
        caller.rst();
        house.provider.wait("open_requests=0");
      } else {
        const Response answer = caller.read_response();
        EXPECT_FALSE(answer.status == 200 && answer.end == Response::End::Complete && !trial.stream) << answer.body;
      }
    }
    EXPECT_EQ(house.requests() - before, trial.url ? 0 : 1);
    house.provider.script("[]");
    if (trial.url) point_to(house, {});
    expect_back(house, trial.hinted);
  }
}

TEST(Breaker, a_trial_given_up_in_the_queue_leaves_its_place_to_the_next) {
  House house{", limits: {concurrent: 1}" + kTimeouts, kQuick};
  open_breaker(house);
  house.provider.script(
      R"([{"match": {"body_contains": "o9"}, "answer": {"stream": [{"say": "hi"}, {"hold": "door"}]}}])");
  const int before = house.requests();
  // Another model has the only slot while the trial waits for it.
  RawClient holder = house.begin_chat(R"({"model":"o9","stream":true,"messages":[{"role":"user","content":"hi"}]})");
  house.provider.wait("requests=" + std::to_string(before + 1));
  RawClient trial = house.begin_chat(chat_saying("trial"));
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 1; }));
  trial.rst();
  EXPECT_TRUE(eventually([&] { return house.figure("callgate_queue_depth") == 0; }));
  house.provider.release("door");
  expect_back(house, 0ms);
  EXPECT_EQ(house.requests() - before, 2) << "who left was never sent";
}

}  // namespace storm_endings_test
