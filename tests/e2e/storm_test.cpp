// Whatever fails below, the provider sees few and well-spaced attempts: keys of our own, routes, breakers, pauses and
// remembered failures over real sockets.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace storm_test {

using Json = nlohmann::json;
using support::Callgate;
using support::chat_saying;
using support::eventually;
using support::FakeProvider;
using support::http;
using support::kStream;
using support::kUnary;
using support::RawClient;
using support::request_text;
using support::Response;
using support::TempDir;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Two providers, with keys of ours in files, and a route over both.
struct TwoHouses {
  explicit TwoHouses(const std::string& more = "retry: {base: 10ms}\n") {
    write_key("main", "sk-main-0123456789");
    write_key("second", "sk-second-0123456789");
    callgate.emplace(
        "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\n"
        "upstreams:\n"
        "  first: {dialect: openai, url: " +
        first.url() +
        "}\n"
        "  eu:\n"
        "    dialect: openai\n"
        "    url: " +
        eu.url() +
        "/base/v1\n"
        "    credentials:\n"
        "      - {name: main, key: {file: " +
        key_file("main") +
        "}}\n"
        "      - {name: second, key: {file: " +
        key_file("second") +
        "}, weight: 0}\n"
        "routes:\n"
        "  both: {try: [first, {upstream: eu, models: {gpt-5: gpt-5-eu}}]}\n" +
        more);
  }
  [[nodiscard]] std::string key_file(const std::string& name) const { return keys.path() + "/" + name; }
  /// Moved to its place, as agents that deliver secrets do.
  void write_key(const std::string& name, const std::string& key) const {
    const std::string fresh = key_file(name) + ".new";
    std::ofstream{fresh} << key << "\n";
    ::chmod(fresh.c_str(), 0600);
    ASSERT_EQ(std::rename(fresh.c_str(), key_file(name).c_str()), 0);
  }
  Response call(const std::string& route, const std::string& body = kUnary, const Pairs& headers = {}) const {
    return http("POST", callgate->data_url() + "/" + route + "/v1/chat/completions", body, headers);
  }
  [[nodiscard]] double figure(std::string_view name, std::string_view labels = {}) const {
    return support::metric(support::http_get(callgate->health_url() + "/metrics").body, name, labels);
  }
  [[nodiscard]] double awaited(double expected, std::string_view name, std::string_view labels = {}) const {
    return support::awaited(expected, [&] { return figure(name, labels); });
  }
  Json call_line() { return callgate->process().json_line("call"); }
  [[nodiscard]] Json admin(const std::string& path) const {
    return Json::parse(support::http_get(callgate->admin_url() + path).body);
  }

  TempDir keys{};
  FakeProvider first{};
  FakeProvider eu{};
  std::optional<Callgate> callgate{};
};

std::string header_of(const Json& request, const std::string& name) {
  std::string value;
  for (const Json& header : request.at("headers")) {
    std::string lower = header.at(0);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (lower == name) value += header.at(1).get<std::string>();
  }
  return value;
}

TEST(Credentials, our_key_goes_out_and_the_callers_never_beside_it) {
  TwoHouses houses;
  const Response answer =
      houses.call("eu", kUnary, {{"Authorization", "Bearer placeholder-of-a-caller"}, {"x-api-key", "another"}});
  EXPECT_EQ(answer.status, 200) << answer.body;
  const Json seen = houses.eu.seen();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(header_of(seen[0], "authorization"), "Bearer sk-main-0123456789");
  EXPECT_EQ(header_of(seen[0], "x-api-key"), "");
  EXPECT_EQ(seen[0].dump().find("placeholder"), std::string::npos);
  EXPECT_EQ(houses.call_line().at("attempts").at(0).at("credential"), "main");
}

TEST(Credentials, no_spelling_of_a_key_in_the_query_goes_out_beside_ours) {
  TwoHouses houses;
  for (const char* query :
       {"?key=mine", "?k%65y=mine", "?$key=mine", "?api_key=mine", "?access_token=mine", "?a=1;key=mine"}) {
    const Response answer =
        http("POST", houses.callgate->data_url() + "/eu/v1/chat/completions" + query + "&keep=1", kUnary);
    EXPECT_EQ(answer.status, 200) << query;
    const std::string target = houses.eu.seen().back().at("target");
    EXPECT_EQ(target.find("mine"), std::string::npos) << target;
    EXPECT_NE(target.find("keep=1"), std::string::npos) << target;
  }
}

TEST(Credentials, no_piece_of_a_key_reaches_the_log) {
  TwoHouses houses;
  houses.eu.script(
      R"([{"answer": {"status": 400, "headers": [["x-request-id", "sk-main-0123456789"]], "json": {"error": {"message": "no", "code": "prefix_MAIN-0123456789_sfx"}}}}])");
  EXPECT_EQ(houses.call("eu", kUnary, {{"Authorization", "Bearer sk-callers-9876543210"}}).status, 400);
  const std::string line = houses.call_line().dump();
  EXPECT_EQ(line.find("0123456789"), std::string::npos) << line;
  EXPECT_EQ(line.find("9876543210"), std::string::npos) << line;
}

TEST(Pauses, a_hint_of_nothing_spaces_all_the_same) {
  TwoHouses houses{"retry: {base: 10ms, bulk: {attempts: 3}}\n"};
  houses.first.script(
      R"([{"answer": {"status": 429, "headers": [["retry-after", "0"]], "json": {"error": {"message": "slow down"}}}}])");
  const auto before = Clock::now();
  EXPECT_EQ(houses.call("first").status, 429);
  EXPECT_GT(Clock::now() - before, 20ms);
}

TEST(Credentials, without_any_the_callers_own_key_is_passed_through) {
  TwoHouses houses;
  EXPECT_EQ(houses.call("first", kUnary, {{"Authorization", "Bearer mine"}}).status, 200);
  EXPECT_EQ(header_of(houses.first.seen().at(0), "authorization"), "Bearer mine");
  EXPECT_EQ(houses.call_line().at("attempts").at(0).at("credential"), "caller");
}

TEST(Faults, F34_a_rotated_key_is_used_without_a_restart_and_a_bad_file_changes_nothing) {
  TwoHouses houses;
  EXPECT_EQ(houses.call("eu").status, 200);
  houses.write_key("main", "sk-rotated-0123456789");
  EXPECT_EQ(houses.callgate->process().json_line("key_changed").at("credential"), "main");
  EXPECT_EQ(houses.call("eu").status, 200);
  houses.write_key("main", "two lines\nare no key");
  EXPECT_EQ(houses.callgate->process().json_line("key_unreadable").at("credential"), "main");
  EXPECT_EQ(houses.call("eu").status, 200);
  EXPECT_EQ(houses.awaited(0, "callgate_key_file_good", "credential=\"main\""), 0);
  const Json seen = houses.eu.seen();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(header_of(seen[0], "authorization"), "Bearer sk-main-0123456789");
  EXPECT_EQ(header_of(seen[1], "authorization"), "Bearer sk-rotated-0123456789");
  EXPECT_EQ(header_of(seen[2], "authorization"), "Bearer sk-rotated-0123456789") << "the last good one";
}

TEST(Credentials, a_reload_that_sees_a_rotated_key_first_takes_it) {
  TwoHouses houses;
  EXPECT_EQ(houses.call("eu").status, 200);
  houses.write_key("main", "sk-rotated-0123456789");
  EXPECT_EQ(http("POST", houses.callgate->admin_url() + "/v1/reload").status, 200);
  EXPECT_EQ(houses.callgate->process().json_line("key_changed").at("credential"), "main");
  EXPECT_EQ(houses.call("eu").status, 200);
  EXPECT_EQ(header_of(houses.eu.seen().at(1), "authorization"), "Bearer sk-rotated-0123456789");
}

TEST(Credentials, of_two_keys_one_without_money_no_caller_sees_it) {
  TwoHouses houses;
  houses.eu.script(
      R"([{"match": {"header": {"authorization": "Bearer sk-main-0123456789"}}, "answer": {"status": 429, "json":
          {"error": {"message": "You exceeded your current quota, please check your plan and billing details.",
                     "type": "insufficient_quota", "code": "insufficient_quota"}}}}])");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(houses.call("eu", chat_saying(std::to_string(i))).status, 200);
  EXPECT_EQ(houses.eu.seen().size(), 6u) << "the poor key is asked once";
  const Json told = houses.callgate->process().json_line("credential_quarantined");
  EXPECT_EQ(told.at("credential"), "main");
  EXPECT_EQ(told.at("class"), "quota_exhausted");
  const Json line = houses.call_line();
  EXPECT_EQ(line.at("attempts").at(0).at("class"), "quota_exhausted");
  EXPECT_EQ(line.at("attempts").at(1).at("credential"), "second");
  ASSERT_TRUE(
      eventually([&] { return houses.figure("callgate_credential_quarantined", "credential=\"main\"") == 1; }));
  EXPECT_EQ(houses.awaited(1, "callgate_credentials_usable", "upstream=\"eu\""), 1);

  // Another key in its file frees it at once.
  houses.write_key("main", "sk-rich-0123456789");
  EXPECT_EQ(houses.callgate->process().json_line("credential_freed").at("reason"), "changed");
  EXPECT_EQ(houses.call("eu").status, 200);
  EXPECT_EQ(header_of(houses.eu.seen().back(), "authorization"), "Bearer sk-rich-0123456789");
}

TEST(Credentials, all_of_them_gone_is_said_without_asking_again) {
  TwoHouses houses;
  const std::string refused =
      R"({"error": {"message": "Incorrect API key provided: sk-second-0123456789", "type": "invalid_request_error", "code": "invalid_api_key"}})";
  houses.eu.script(R"([{"answer": {"status": 401, "headers": [["content-type", "application/json"]], "body": )" +
                   Json(refused).dump() + "}}]");
  const Response first = houses.call("eu");
  EXPECT_EQ(first.status, 401);
  EXPECT_EQ(first.header("callgate-class"), "auth");
  EXPECT_EQ(first.header("callgate-attempts"), "2") << "each key once";
  EXPECT_EQ(houses.eu.seen().size(), 2u);
  const Response second = houses.call("eu");
  EXPECT_EQ(second.status, 401);
  EXPECT_EQ(second.header("callgate-source"), "callgate");
  EXPECT_EQ(second.header("callgate-retryable"), "false");
  EXPECT_EQ(Json::parse(second.body).at("error").at("code"), "callgate_no_credential");
  EXPECT_EQ(houses.eu.seen().size(), 2u) << "nobody is asked";
  EXPECT_EQ(first.body.find("sk-second-0123456789"), std::string::npos) << "a provider's echo does not show our key";
  ASSERT_TRUE(eventually([&] { return houses.figure("callgate_credentials_usable", "upstream=\"eu\"") == 0; }));
}

TEST(Routes, what_fails_in_one_place_is_asked_in_the_next_at_once) {
  TwoHouses houses{"retry: {base: 20s}\n"};
  houses.first.script(R"([{"answer": 503}])");
  const auto before = Clock::now();
  const Response answer = houses.call("both", kUnary, {{"Authorization", "Bearer mine"}});
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_LT(Clock::now() - before, 5s) << "without a backoff";
  EXPECT_EQ(answer.header("callgate-upstream"), "eu");
  EXPECT_EQ(answer.header("callgate-attempts"), "2");
  const Json seen = houses.eu.seen();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].at("target"), "/base/v1/chat/completions");
  std::string renamed = kUnary;
  renamed.replace(renamed.find("gpt-5"), 5, "gpt-5-eu");
  EXPECT_EQ(seen[0].at("body"), renamed) << "all other bytes as they were";
  EXPECT_EQ(header_of(seen[0], "authorization"), "Bearer sk-main-0123456789");
  EXPECT_EQ(header_of(houses.first.seen().at(0), "authorization"), "Bearer mine");
  const Json line = houses.call_line();
  EXPECT_EQ(line.at("route"), "both");
  EXPECT_EQ(line.at("upstream"), "eu");
  EXPECT_EQ(line.at("attempts").at(1).at("model"), "gpt-5-eu");
}

TEST(Routes, a_pause_of_the_first_sends_calls_to_the_second_and_a_fault_of_the_caller_nowhere) {
  TwoHouses houses;
  houses.first.script(
      R"([{"answer": {"status": 429, "headers": [["retry-after", "30"]], "json": {"error": {"message": "slow down"}}}}])");
  EXPECT_EQ(houses.call("both").header("callgate-upstream"), "eu");
  EXPECT_EQ(houses.call("both").header("callgate-attempts"), "1") << "the paused one is left out";
  EXPECT_EQ(houses.first.seen().size(), 1u);
  houses.eu.script(
      R"([{"answer": {"status": 400, "json": {"error": {"message": "no such parameter", "type": "invalid_request_error", "code": "unsupported_parameter"}}}}])");
  const Response wrong = houses.call("both");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(wrong.header("callgate-attempts"), "1");
}

TEST(Pauses, a_429_stops_its_model_for_everybody_and_no_other) {
  TwoHouses houses;
  houses.first.script(
      R"([{"match": {"body_contains": "gpt-5", "times": 1}, "answer": {"status": 429, "headers": [["retry-after", "1"]], "json": {"error": {"message": "slow down"}}}}])");
  const std::string other = R"({"model":"o9","messages":[{"role":"user","content":"hi"}]})";
  RawClient throttled{houses.callgate->data_port()};
  throttled.send(request_text("POST", "/first/v1/chat/completions", kUnary, {}));
  houses.first.wait("ended=1");
  const auto before = Clock::now();
  EXPECT_EQ(houses.call("first", other).status, 200);
  EXPECT_LT(Clock::now() - before, 900ms) << "a 429 on one model stops no other model of the key";
  EXPECT_EQ(houses.call("first", chat_saying("somebody else")).status, 200);
  EXPECT_GE(Clock::now() - before, 900ms) << "but everybody of that model";
  EXPECT_EQ(throttled.read_response().status, 200);
  EXPECT_EQ(houses.first.seen().size(), 4u);
}

TEST(Pauses, what_the_provider_has_left_slows_us_before_it_must_refuse) {
  TwoHouses houses;
  houses.first.script(
      R"([{"match": {"times": 1}, "answer": {"headers": [["x-ratelimit-limit-requests", "100"], ["x-ratelimit-remaining-requests", "0"], ["x-ratelimit-reset-requests", "1s"]]}}])");
  EXPECT_EQ(houses.call("first").status, 200);
  const auto before = Clock::now();
  EXPECT_EQ(houses.call("first").status, 200);
  EXPECT_GE(Clock::now() - before, 900ms);
  EXPECT_EQ(houses.first.seen().size(), 2u);
}

TEST(Memo, an_identical_call_gets_the_remembered_failure_and_the_provider_is_spared) {
  TwoHouses houses{"retry: {base: 1ms, bulk: {attempts: 2}}\n"};
  houses.first.script(R"([{"answer": 503}])");
  const Response first = houses.call("first", kUnary, {{"Callgate-Run-Id", "job-1"}});
  EXPECT_EQ(first.status, 503);
  EXPECT_EQ(houses.first.seen().size(), 2u);
  const Response again =
      houses.call("first", kUnary, {{"Callgate-Run-Id", "job-1"}, {"x-stainless-retry-count", "1"}});
  EXPECT_EQ(again.status, 503);
  EXPECT_EQ(again.body, first.body);
  EXPECT_EQ(again.header("callgate-source"), "memo");
  EXPECT_EQ(again.header("callgate-attempts"), "0");
  EXPECT_EQ(again.header("callgate-class"), "overloaded");
  EXPECT_EQ(again.header("x-should-retry"), "false");
  EXPECT_NE(again.header("callgate-call-id"), first.header("callgate-call-id"));
  EXPECT_EQ(houses.first.seen().size(), 2u) << "no new attempt";
  EXPECT_EQ(houses.awaited(1, "callgate_memo_answers_total", "upstream=\"first\""), 1);
  EXPECT_EQ(houses.awaited(1, "callgate_caller_retries_total", "seen_by=\"sdk\""), 1);
  EXPECT_EQ(houses.awaited(1, "callgate_caller_retries_total", "seen_by=\"memo\""), 1);

  EXPECT_EQ(houses.call("first", kUnary, {{"Callgate-Run-Id", "job-2"}}).header("callgate-source"), "provider")
      << "another job is never refused by a neighbour's failure";
  EXPECT_EQ(houses.call("first", kUnary, {{"Callgate-Run-Id", "job-1"}, {"Callgate-Fresh", "true"}})
                .header("callgate-source"),
            "provider");
  // The first success clears what that upstream and model had left.
  houses.first.script("[]");
  EXPECT_EQ(houses.call("first", kUnary, {{"Callgate-Run-Id", "job-3"}}).status, 200);
  EXPECT_EQ(houses.call("first", kUnary, {{"Callgate-Run-Id", "job-1"}}).status, 200);
}

TEST(Memo, a_failure_while_others_are_answered_is_not_the_last_word) {
  TwoHouses houses{"retry: {base: 800ms, bulk: {attempts: 3}}\n"};
  houses.first.script(R"([{"match": {"body_contains": "unlucky"}, "answer": 503}])");
  const std::string unlucky = chat_saying("unlucky");
  Response first;
  std::thread job{[&] { first = houses.call("first", unlucky, {{"Callgate-Run-Id", "job-1"}}); }};
  // Another job is answered between its attempts.
  while (houses.first.seen().empty()) std::this_thread::yield();
  EXPECT_EQ(houses.call("first", kUnary, {{"Callgate-Run-Id", "job-2"}}).status, 200);
  job.join();
  EXPECT_EQ(first.status, 503);
  EXPECT_EQ(first.header("callgate-attempts"), "3");
  EXPECT_EQ(houses.call("first", unlucky, {{"Callgate-Run-Id", "job-1"}}).header("callgate-source"), "provider");
  // Nobody was answered during that one.
  EXPECT_EQ(houses.call("first", unlucky, {{"Callgate-Run-Id", "job-1"}}).header("callgate-source"), "memo");
}

TEST(Memo, what_cannot_be_repeated_or_was_the_callers_fault_is_not_remembered) {
  TwoHouses houses;
  houses.first.script(
      R"([{"answer": {"status": 400, "json": {"error": {"message": "no", "type": "invalid_request_error"}}}}])");
  EXPECT_EQ(houses.call("first").status, 400);
  EXPECT_EQ(houses.call("first").header("callgate-source"), "provider");
  EXPECT_EQ(houses.first.seen().size(), 2u);

  // Nor is what only one customer was told another's: by whatever header they say who they are.
  houses.first.script(R"([{"answer": 503}])");
  TwoHouses other{"retry: {base: 1ms, bulk: {attempts: 1}}\n"};
  other.first.script(R"([{"answer": 503}])");
  EXPECT_EQ(other.call("first", kUnary, {{"Authorization", "Bearer a"}}).header("callgate-source"), "provider");
  EXPECT_EQ(other.call("first", kUnary, {{"Authorization", "Bearer b"}}).header("callgate-source"), "provider");
  EXPECT_EQ(other.call("first", kUnary, {{"Ocp-Apim-Subscription-Key", "c"}}).header("callgate-source"), "provider");
  EXPECT_EQ(other.call("first", kUnary, {{"Ocp-Apim-Subscription-Key", "d"}}).header("callgate-source"), "provider");
  EXPECT_EQ(other.call("first", kUnary, {{"Authorization", "Bearer a"}}).header("callgate-source"), "memo");
  // A hurry of the caller's is not the provider's last word.
  const std::string hurried = chat_saying("hurried");
  TwoHouses slow;
  slow.first.script(R"([{"match": {"times": 1}, "answer": {"status": 500, "headers": [["retry-after", "30"]]}}])");
  EXPECT_EQ(slow.call("first", hurried, {{"Callgate-Deadline", "2s"}}).status, 500);
  EXPECT_EQ(slow.call("first", hurried).status, 200);
}

const std::string kQuick =
    "retry: {base: 1ms, bulk: {attempts: 1}, interactive: {attempts: 1}}\nmemo: {final_failure: 0s}\n"
    "breaker: {window: 10s, min_calls: 4, open_for: 1s}\n";

TEST(Breaker, an_upstream_that_keeps_failing_is_left_alone_and_comes_back) {
  // Longer than a busy machine may stall between the opening and who is refused for it.
  std::string patient = kQuick;
  patient.replace(patient.find("open_for: 1s"), 12, "open_for: 4s");
  TwoHouses houses{patient};
  houses.first.script(R"([{"match": {"body_contains": "gpt-5"}, "answer": 503}])");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(houses.call("first").status, 503);
  const Json opened = houses.callgate->process().json_line("breaker_opened");
  EXPECT_EQ(opened.at("upstream"), "first");
  EXPECT_EQ(opened.at("model"), "gpt-5");
  const Response fast = houses.call("first", kUnary, {{"Callgate-Lane", "interactive"}});
  EXPECT_EQ(fast.status, 503);
  EXPECT_EQ(fast.header("callgate-class"), "local_breaker");
  EXPECT_EQ(Json::parse(fast.body).at("error").at("code"), "callgate_breaker_open");
  EXPECT_NE(fast.header("retry-after"), "");
  EXPECT_EQ(houses.first.seen().size(), 4u) << "nobody is asked";
  EXPECT_EQ(houses.call("first", R"({"model":"o9","messages":[]})").status, 200) << "another model is";
  const Json upstreams = houses.admin("/v1/upstreams");
  for (const Json& one : upstreams.at("upstreams")) {
    if (one.at("name") != "first") continue;
    EXPECT_EQ(one.at("breakers").at(0).at("model"), "gpt-5");
    EXPECT_EQ(one.at("breakers").at(0).at("state"), "open");
    EXPECT_TRUE(one.at("breakers").at(0).at("next_probe_ms").is_number());
  }

  // Healed: bulk waits for the probe, and all is as before.
  houses.first.script("[]");
  EXPECT_EQ(houses.call("first", kUnary, {{"Callgate-Lane", "bulk"}}).status, 200);
  EXPECT_EQ(houses.callgate->process().json_line("breaker_closed").at("model"), "gpt-5");
  EXPECT_EQ(houses.call("first", kUnary, {{"Callgate-Lane", "interactive"}}).status, 200);
  EXPECT_EQ(houses.awaited(1, "callgate_breaker_transitions_total", "to=\"opened\""), 1);
  EXPECT_EQ(houses.awaited(1, "callgate_breaker_transitions_total", "to=\"closed\""), 1);
}

TEST(Breaker, every_ending_of_a_probe_gives_its_place_back) {
  const std::string endings[] = {
      R"({"hang": true})",                                         // The caller leaves, or its deadline comes.
      R"({"status": 400, "json": {"error": {"message": "no"}}})",  // A fault of the caller says nothing.
      R"({"status": 429, "headers": [["retry-after", "1"]], "json": {"error": {"message": "slow down"}}})",
      R"({"drop": "rst"})",
      "503",
  };
  for (const std::string& ending : endings) {
    SCOPED_TRACE(ending);
    TwoHouses houses{kQuick};
    houses.first.script(R"([{"answer": 503}])");
    for (int i = 0; i < 4; ++i) EXPECT_EQ(houses.call("first").status, 503);
    houses.callgate->process().json_line("breaker_opened");
    houses.first.script(R"([{"match": {"times": 1}, "answer": )" + ending + "}]");
    // The probe, which ends like that.
    const Response probe = houses.call("first", kUnary, {{"Callgate-Deadline", "3s"}});
    EXPECT_NE(probe.status, 200);
    // Within one open time (and the jitter of at most a fifth) after that it works again.
    const auto healed = Clock::now();
    EXPECT_EQ(houses.call("first", chat_saying("healed"), {{"Callgate-Deadline", "8s"}}).status, 200);
    EXPECT_LT(Clock::now() - healed, 3'500ms);
  }
}

TEST(Faults, F24_no_fault_of_a_caller_opens_a_breaker) {
  TwoHouses houses{kQuick};
  houses.first.script(
      R"([{"answer": {"status": 400, "json": {"error": {"message": "no", "type": "invalid_request_error"}}}}])");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(houses.call("first").status, 400);
  EXPECT_EQ(houses.awaited(0, "callgate_breaker_transitions_total"), 0);
}

TEST(RetryBudget, retries_stay_a_share_of_the_traffic) {
  TwoHouses houses{
      "retry: {base: 1ms, interactive: {attempts: 4}, budget: {share: 0, floor: 3, floor_refill_per_second: 0}}\n"
      "breaker: {consecutive: 1000, min_calls: 1000}\n"};
  houses.first.script(R"([{"answer": 503}])");
  for (int i = 0; i < 5; ++i) {
    const Response answer = houses.call("first", chat_saying(std::to_string(i)), {{"Callgate-Lane", "interactive"}});
    EXPECT_EQ(answer.status, 503);
  }
  EXPECT_EQ(houses.first.seen().size(), 8u) << "five calls and three retries";
  EXPECT_EQ(houses.awaited(4, "callgate_retries_denied_total", "reason=\"retry_budget\""), 4);
}

TEST(RetryBudget, another_upstream_is_no_retry_for_it) {
  TwoHouses houses{
      "retry: {base: 1ms, budget: {share: 0, floor: 0, floor_refill_per_second: 0}}\n"
      "breaker: {consecutive: 1000, min_calls: 1000}\n"};
  houses.first.script(R"([{"answer": 503}])");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(houses.call("both", chat_saying(std::to_string(i))).status, 200);
  EXPECT_EQ(houses.eu.seen().size(), 20u);
}

TEST(Explain, a_call_can_be_told_attempt_by_attempt) {
  TwoHouses houses;
  houses.first.script(R"([{"answer": 503}])");
  const Response answer = houses.call("both");
  const Json told = houses.admin("/v1/calls/" + answer.header("callgate-call-id"));
  EXPECT_EQ(told.at("route"), "both");
  EXPECT_EQ(told.at("attempts").at(0).at("upstream"), "first");
  EXPECT_EQ(told.at("attempts").at(0).at("class"), "overloaded");
  EXPECT_EQ(told.at("attempts").at(0).at("next"), "failover");
  EXPECT_FALSE(told.at("attempts").at(0).at("rule").is_null());
  EXPECT_EQ(told.at("attempts").at(1).at("credential"), "main");
  EXPECT_EQ(support::http_get(houses.callgate->admin_url() + "/v1/calls/nobody").status, 404);
}

}  // namespace storm_test
