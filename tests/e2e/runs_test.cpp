// Goal: what was accepted as a run ends exactly once, whatever dies meanwhile; it can be asked for, taken back and
// waited for; and nobody sees another's. Method: the real binary and the fake provider, over several lives on one
// file.

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/ledger_file.h"

namespace runs_test {

using Json = nlohmann::json;
using support::Callgate;
using support::chat_saying;
using support::eventually;
using support::FakeProvider;
using support::http;
using support::http_get;
using support::kUnary;
using support::RawClient;
using support::request_text;
using support::Response;
using support::TempDir;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Pairs = std::vector<std::pair<std::string, std::string>>;

const std::string kChat = "/openai/v1/chat/completions";
const std::string kRuns = "/callgate/v1/runs";

/// One provider, and callgates one after the other on one file.
struct Lives {
  explicit Lives(std::string more_in = {}, const Pairs& files = {}) : more(std::move(more_in)) {
    for (const auto& [name, text] : files) (void)folder.file(name, text);
    begin();
  }

  void begin() {
    Callgate::Options options;
    options.directory = folder.path();
    options.env = {{"CALLGATE_MEMO__FINAL_FAILURE", "0s"},
                   {"CALLGATE_BREAKER__MIN_CALLS", "1000000"},
                   {"CALLGATE_BREAKER__CONSECUTIVE", "1000000"},
                   {"CALLGATE_RETRY__BUDGET__FLOOR", "1000000"},
                   {"RUNS_TEST_KEY", "sk-the-configured-key"},
                   {"RUNS_TEST_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}};
    std::string yaml =
        "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nupstreams: {openai: {url: " + provider.url() +
        ", credentials: [{name: main, key: {env: RUNS_TEST_KEY}}]}, anthropic: {url: " + provider.url() + "}}\n";
    if (more.find("store:") == more.npos) yaml += "store: {path: calls.db, payloads: plain}\n";
    if (more.find("tenants:") == more.npos) yaml += "tenants: {a: {}, b: {}}\n";
    if (more.find("retry:") == more.npos) yaml += "retry: {base: 10ms}\n";
    callgate = std::make_unique<Callgate>(yaml + more, options);
  }
  void kill() {
    callgate->process().signal(SIGKILL);
    (void)callgate->process().wait();
    callgate.reset();
  }
  [[nodiscard]] std::string url(const std::string& path) const { return callgate->data_url() + path; }

  /// A run of a chat that says these words.
  Response order(const std::string& words, const Json& more_members = Json::object(),
                 const Pairs& headers = {}) const {
    Json run = {{"path", kChat}, {"body", Json::parse(chat_saying(words))}};
    run.update(more_members);
    return http("POST", url(kRuns), run.dump(), headers);
  }
  [[nodiscard]] std::string accepted(const std::string& words, const Json& more_members = Json::object()) const {
    const Response answer = order(words, more_members);
    EXPECT_EQ(answer.status, 202) << answer.body;
    return answer.status == 202 ? Json::parse(answer.body).at("id").get<std::string>() : std::string{};
  }
  [[nodiscard]] Json run(const std::string& id, const std::string& query = {}) const {
    const Response answer = http_get(url(kRuns + "/" + id + query));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? Json::parse(answer.body) : Json{{"state", "none"}};
  }
  [[nodiscard]] std::string state(const std::string& id) const { return run(id).at("state"); }
  [[nodiscard]] Json over(const std::string& id) const { return run(id, "?wait=20s"); }
  Response cancel(const std::string& id) const { return http("DELETE", url(kRuns + "/" + id)); }
  [[nodiscard]] double figure(std::string_view name, std::string_view labels = {}) const {
    return support::metric(http_get(callgate->health_url() + "/metrics").body, name, labels);
  }
  [[nodiscard]] int requests() const { return provider.stats().at("requests").get<int>(); }
  /// How often the provider was asked with these words.
  [[nodiscard]] int asked(const std::string& words) const {
    int count = 0;
    const Json seen = provider.seen();
    for (const Json& one : seen.is_array() ? seen : seen.at("requests")) {
      if (one.contains("body") && one.at("body").is_string() &&
          one.at("body").get<std::string>().find("\"" + words + "\"") != std::string::npos)
        ++count;
    }
    return count;
  }
  /// The first column of the first row.
  [[nodiscard]] std::int64_t number(const std::string& sql) const {
    return support::number_in(folder.path() + "/calls.db", sql);
  }

  std::string more;
  TempDir folder{};
  FakeProvider provider{};
  std::unique_ptr<Callgate> callgate{};
};

TEST(Runs, a_run_is_accepted_made_and_its_answer_is_the_provider_s) {
  const Lives lives;
  const Response accepted =
      lives.order("hello there", {{"queue", "q"}, {"run_id", "job-1"}, {"labels", {{"team", "search"}}}});
  ASSERT_EQ(accepted.status, 202) << accepted.body;
  const std::string id = Json::parse(accepted.body).at("id");
  EXPECT_EQ(accepted.header("Location"), kRuns + "/" + id);
  EXPECT_EQ(accepted.header("Retry-After"), "2");
  const Json run = lives.over(id);
  EXPECT_EQ(run.at("state"), "succeeded") << run;
  EXPECT_EQ(run.at("class"), "none");
  EXPECT_EQ(run.at("queue"), "q");
  EXPECT_EQ(run.at("run_id"), "job-1");
  EXPECT_EQ(run.at("labels").at("team"), "search");
  EXPECT_EQ(run.at("starts"), 1);
  EXPECT_EQ(run.at("attempts").size(), 1u);
  EXPECT_TRUE(run.at("cost_usd").is_string());
  EXPECT_EQ(run.at("result").at("status"), 200);
  EXPECT_EQ(run.at("result").at("body").at("object"), "chat.completion");
  const Response result = http_get(lives.url(kRuns + "/" + id + "/result"));
  EXPECT_EQ(result.status, 200);
  EXPECT_EQ(Json::parse(result.body), run.at("result").at("body"));
  EXPECT_EQ(lives.requests(), 1);
  // It was sent with our key, and byte for byte.
  const Json seen = lives.provider.seen();
  EXPECT_NE(seen.dump().find("Bearer sk-the-configured-key"), std::string::npos);
  const Json list = Json::parse(http_get(lives.url(kRuns + "?queue=q&state=succeeded")).body);
  ASSERT_EQ(list.at("runs").size(), 1u);
  EXPECT_EQ(list.at("runs")[0].at("id"), id);
  EXPECT_EQ(Json::parse(http_get(lives.url(kRuns + "?queue=other")).body).at("runs").size(), 0u);
}

TEST(Runs, respond_async_on_a_provider_s_path_and_with_a_wait_the_answer_itself) {
  const Lives lives;
  const Response now = http("POST", lives.url(kChat), kUnary, {{"Prefer", "respond-async"}});
  EXPECT_EQ(now.status, 202) << now.body;
  EXPECT_EQ(now.header("Preference-Applied"), "respond-async");
  EXPECT_EQ(now.header("Vary"), "Prefer");
  EXPECT_EQ(lives.over(Json::parse(now.body).at("id")).at("state"), "succeeded");

  const Response waited = http("POST", lives.url(kChat), kUnary, {{"Prefer", "respond-async, wait=10"}});
  EXPECT_EQ(waited.status, 200) << waited.body;
  EXPECT_EQ(Json::parse(waited.body).at("object"), "chat.completion");
  EXPECT_EQ(waited.header("x-request-id"), "req_2");

  lives.provider.script(R"([{"answer": {"hold": "door"}}])");
  const Response late = http("POST", lives.url(kChat), kUnary, {{"Prefer", "respond-async, wait=1"}});
  EXPECT_EQ(late.status, 202) << late.body;
  lives.provider.release("door");
  EXPECT_EQ(lives.over(Json::parse(late.body).at("id")).at("state"), "succeeded");
}

TEST(Runs, the_same_key_is_the_same_run_and_another_body_under_it_is_refused) {
  const Lives lives;
  const std::string id = lives.accepted("one", {{"key", "job:1"}});
  EXPECT_EQ(lives.over(id).at("state"), "succeeded");
  const Response again = lives.order("one", {{"key", "job:1"}});
  EXPECT_EQ(again.status, 200) << again.body;
  EXPECT_EQ(Json::parse(again.body).at("id"), id);
  EXPECT_EQ(lives.order("two", {{"key", "job:1"}}).status, 422);
  EXPECT_EQ(lives.requests(), 1);
  // And without a key each is its own.
  EXPECT_NE(lives.accepted("one"), lives.accepted("one"));
}

TEST(Runs, what_cannot_be_made_is_refused_at_once_with_the_mend) {
  const Lives lives;
  const auto said = [&](const Json& body) {
    const Response answer = http("POST", lives.url(kRuns), body.is_string() ? body.get<std::string>() : body.dump());
    EXPECT_EQ(answer.header("Content-Type"), "application/problem+json");
    return std::to_string(answer.status) + " " + answer.body;
  };
  EXPECT_NE(said({{"pth", "/openai/v1/x"}}).find("did you mean \\\"path\\\"?"), std::string::npos);
  EXPECT_NE(said(Json("{\"path\":")).find("400"), std::string::npos);
  EXPECT_NE(said({{"path", "/nobody/v1/x"}}).find("404"), std::string::npos);
  EXPECT_NE(said({{"path", kChat}, {"lane", "fast"}}).find("400"), std::string::npos);
  EXPECT_NE(said({{"path", kChat}, {"headers", {{"Callgate-Tenant", "a"}}}}).find("400"), std::string::npos);
  EXPECT_NE(said({{"path", kChat}, {"body", "text"}}).find("body_text"), std::string::npos);
  EXPECT_NE(said({{"path", kChat}, {"body", Json::object()}, {"webhook", "https://hooks.example.com/x"}}).find("422"),
            std::string::npos);
  const std::string own = said({{"path", "/anthropic/v1/messages"}, {"body", Json::object()}});
  EXPECT_NE(own.find("422"), std::string::npos) << own;
  EXPECT_NE(own.find("upstreams.anthropic.credentials"), std::string::npos) << own;
  EXPECT_EQ(lives.requests(), 0);

  const Lives keeps_nothing{"store: {path: calls.db}\n"};
  const Response refused = keeps_nothing.order("x");
  EXPECT_EQ(refused.status, 422);
  EXPECT_NE(refused.body.find("store.payload_key"), std::string::npos) << refused.body;
  const Lives off{"runs: {enabled: false}\n"};
  EXPECT_EQ(off.order("x").status, 501);
}

TEST(Runs, F39_a_tenant_sees_its_own_runs_alone) {
  const Lives lives;
  const Pairs a = {{"Callgate-Tenant", "a"}};
  const Pairs b = {{"Callgate-Tenant", "b"}};
  const Response of_a = lives.order("same", {{"key", "k"}}, a);
  const Response of_b = lives.order("same", {{"key", "k"}}, b);
  const std::string id = Json::parse(of_a.body).at("id");
  EXPECT_NE(Json::parse(of_b.body).at("id"), id);
  const std::string unknown = "01a22ce1-d221-7000-b9b5-000000000000";
  for (const char* below : {"", "/result"}) {
    const Response foreign = http("GET", lives.url(kRuns + "/" + id + below), {}, b);
    const Response none = http("GET", lives.url(kRuns + "/" + unknown + below), {}, b);
    EXPECT_EQ(foreign.status, 404);
    EXPECT_EQ(foreign.body, none.body);
  }
  EXPECT_EQ(http("DELETE", lives.url(kRuns + "/" + id), {}, b).status, 404);
  EXPECT_EQ(http("POST", lives.url(kRuns + "/" + id + "/retry"), {}, b).status, 404);
  EXPECT_EQ(Json::parse(http("GET", lives.url(kRuns + "/" + id + "?wait=10s"), {}, a).body).at("state"), "succeeded");
  for (const Json& run : Json::parse(http("GET", lives.url(kRuns), {}, b).body).at("runs"))
    EXPECT_NE(run.at("id"), id);
  ASSERT_TRUE(eventually([&] { return lives.requests() == 2; }));
}

TEST(Runs, a_request_at_fault_fails_and_what_is_given_up_is_dead_and_can_be_retried) {
  const Lives lives{"runs: {max_attempts: 2}\n"};
  lives.provider.script(R"([{"match": {"body_contains": "wrong"}, "answer": 400},
                            {"match": {"body_contains": "broken", "times": 2}, "answer": 500}])");
  const Json failed = lives.over(lives.accepted("wrong"));
  EXPECT_EQ(failed.at("state"), "failed") << failed;
  EXPECT_EQ(failed.at("class"), "invalid_request");
  EXPECT_EQ(failed.at("result").at("status"), 400);

  const std::string id = lives.accepted("broken", {{"key", "b"}});
  const Json dead = lives.over(id);
  EXPECT_EQ(dead.at("state"), "dead") << dead;
  EXPECT_EQ(dead.at("class"), "server_error");
  EXPECT_EQ(dead.at("attempts").size(), 2u);
  EXPECT_EQ(lives.number("SELECT count(*) FROM dead_letters WHERE state = 0"), 2);
  EXPECT_EQ(lives.figure("callgate_dead_letters_total", "class=\"server_error\""), 1);
  EXPECT_EQ(http("POST", lives.url(kRuns + "/" + id + "/retry")).status, 202);
  const Json again = lives.over(id);
  EXPECT_EQ(again.at("state"), "succeeded") << again;
  EXPECT_EQ(http("POST", lives.url(kRuns + "/" + id + "/retry")).status, 409);
  // Resolved by itself.
  EXPECT_EQ(lives.number("SELECT count(*) FROM dead_letters WHERE state = 0"), 1);
}

TEST(Runs, where_a_contract_wants_replays_approved_a_run_is_not_retried_without) {
  const Lives lives{R"(queues:
  q:
    owner: {team: a}
    slo: {oldest_wait: 5m}
    retry: {max_attempts: 1}
    dead_letter: {retention: 30d}
    replay: {requires_approval: true}
)"};
  lives.provider.script(R"([{"match": {"body_contains": "broken", "times": 2}, "answer": 500}])");
  const std::string id = lives.accepted("broken", {{"queue", "q"}});
  EXPECT_EQ(lives.over(id).at("state"), "dead");
  const Response worker = http("POST", lives.url(kRuns + "/" + id + "/retry"));
  EXPECT_EQ(worker.status, 409) << worker.body;
  EXPECT_EQ(Json::parse(worker.body).at("code"), "callgate_needs_approval");
  EXPECT_EQ(Json::parse(worker.body).at("state"), "dead");
  const Response byhand = http("POST", lives.callgate->admin_url() + "/v1/runs/" + id + "/retry?reason=test");
  EXPECT_EQ(byhand.status, 409) << byhand.body;
  EXPECT_NE(byhand.body.find("dead approve"), std::string::npos) << byhand.body;
  EXPECT_EQ(lives.requests(), 1);
}

TEST(Runs, F43_a_cancelled_run_is_cancelled_in_every_phase) {
  Lives lives{"runs: {concurrent: 1}\nretry: {base: 20s, cap: 20s}\n"};
  const auto ends_cancelled = [&](const std::string& id, const char* phase) {
    SCOPED_TRACE(phase);
    const auto begun = Clock::now();
    const Response answer = lives.cancel(id);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_LT(Clock::now() - begun, 1500ms);
    const Json run = lives.run(id);
    EXPECT_EQ(run.at("state"), "cancelled") << run;
    EXPECT_EQ(lives.cancel(id).status, 200) << "twice is harmless";
  };
  lives.provider.script(R"([{"match": {"body_contains": "silent"}, "answer": {"hang": true}},
                            {"match": {"body_contains": "stream"}, "answer": {"stream": [{"say": "hel"}, {"hang": true}]}},
                            {"match": {"body_contains": "busy"}, "answer": 503}])");
  const std::string silent = lives.accepted("silent");
  lives.provider.wait("requests=1");
  const std::string queued = lives.accepted("queued");
  EXPECT_EQ(lives.state(queued), "queued");
  ends_cancelled(queued, "queued");
  ends_cancelled(silent, "silent");
  lives.provider.wait("open_requests=0", 1s);
  const std::string scheduled = lives.accepted("later", {{"not_before", "2099-01-01T00:00:00Z"}});
  ends_cancelled(scheduled, "not before");

  const std::string busy = lives.accepted("busy");
  lives.provider.wait("ended=2");
  ends_cancelled(busy, "in backoff");

  Json streaming = {{"path", kChat}, {"body", Json::parse(chat_saying("stream", true))}};
  const Response accepted = http("POST", lives.url(kRuns), streaming.dump());
  lives.provider.wait("requests=3");
  ends_cancelled(Json::parse(accepted.body).at("id"), "mid-answer");
  lives.provider.wait("open_requests=0", 1s);

  const std::string over = lives.accepted("well");
  EXPECT_EQ(lives.over(over).at("state"), "succeeded");
  const Response late = lives.cancel(over);
  EXPECT_EQ(late.status, 409) << late.body;
  EXPECT_EQ(Json::parse(late.body).at("state"), "succeeded");
  EXPECT_EQ(lives.state(over), "succeeded");
  EXPECT_EQ(lives.asked("queued"), 0);
  EXPECT_EQ(lives.asked("later"), 0);
  EXPECT_EQ(lives.asked("busy"), 1);
  EXPECT_GE(lives.number("SELECT count(*) FROM audit WHERE act = 'run.cancel'"), 5);
}

TEST(Runs, one_ordering_key_is_served_in_order_and_one_at_a_time) {
  const Lives lives;
  lives.provider.script(
      R"([{"match": {"body_contains": "step-0", "times": 1}, "answer": {"status": 503, "hold": "door"}},
                            {"answer": {"delay_ms": 20}}])");
  std::vector<std::string> ids;
  for (int i = 0; i < 12; ++i)
    ids.push_back(lives.accepted("step-" + std::to_string(i), {{"queue", "q"}, {"ordering_key", "customer-1"}}));
  const std::string other = lives.accepted("other", {{"queue", "q"}, {"ordering_key", "customer-2"}});
  EXPECT_EQ(lives.over(other).at("state"), "succeeded");
  for (std::size_t i = 1; i < ids.size(); ++i)
    EXPECT_EQ(lives.state(ids[i]), "queued") << "another key does not wait";
  lives.provider.release("door");
  for (const std::string& id : ids) EXPECT_EQ(lives.over(id).at("state"), "succeeded");
  std::vector<std::string> order;
  std::int64_t before_ended = 0;
  const Json seen = lives.provider.seen();
  for (const Json& one : seen.is_array() ? seen : seen.at("requests")) {
    const std::string body = one.at("body");
    const std::size_t at = body.find("step-");
    if (at == body.npos) continue;
    order.push_back(body.substr(at, body.find('"', at) - at));
    EXPECT_GE(one.at("at_ms").get<double>(), static_cast<double>(before_ended)) << "two at once";
    before_ended = static_cast<std::int64_t>(one.at("ended").at("at_ms").get<double>());
  }
  ASSERT_EQ(order.size(), 13u);
  EXPECT_EQ(order[0], "step-0");
  for (int i = 0; i < 12; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i) + 1], "step-" + std::to_string(i));
}

TEST(Runs, a_scheduled_run_waits_for_its_time_and_a_late_one_is_dead_without_a_call) {
  const Lives lives{"runs: {concurrent: 1}\n"};
  const auto rfc3339 = [](std::chrono::system_clock::time_point when) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[32];
    return std::string{text, std::strftime(text, sizeof text, "%FT%TZ", &parts)};
  };
  const auto when = std::chrono::ceil<std::chrono::seconds>(std::chrono::system_clock::now() + 1s);
  const std::string later = lives.accepted("later", {{"not_before", rfc3339(when)}});
  EXPECT_EQ(lives.state(later), "queued");
  EXPECT_EQ(lives.over(later).at("state"), "succeeded");
  EXPECT_GE(std::chrono::system_clock::now(), when);
  EXPECT_LT(std::chrono::system_clock::now(), when + 3s);

  lives.provider.script(R"([{"answer": {"hold": "door"}}])");
  const std::string first = lives.accepted("first");
  lives.provider.wait("requests=2");
  const std::string late = lives.accepted("late", {{"deadline", "100ms"}});
  support::dawdle(200ms);
  lives.provider.release("door");
  const Json dead = lives.over(late);
  EXPECT_EQ(dead.at("state"), "dead") << dead;
  EXPECT_EQ(dead.at("class"), "timeout");
  EXPECT_EQ(lives.over(first).at("state"), "succeeded");
  EXPECT_EQ(lives.asked("late"), 0);
}

TEST(Runs, a_kill_in_mid_run_loses_nothing_and_three_of_them_are_enough) {
  Lives lives;
  lives.provider.script(R"([{"match": {"body_contains": "killer"}, "answer": {"hold": "door"}}])");
  const std::string good = lives.accepted("good");
  const std::string killer = lives.accepted("killer");
  lives.provider.wait("held=1");
  EXPECT_EQ(lives.over(good).at("state"), "succeeded");
  for (int starts = 2; starts <= 3; ++starts) {
    lives.kill();
    lives.begin();
    ASSERT_TRUE(eventually([&] { return lives.asked("killer") == starts; }));
    EXPECT_EQ(lives.run(killer).at("crashes"), starts - 1);
  }
  lives.kill();
  lives.begin();
  const Json dead = lives.over(killer);
  EXPECT_EQ(dead.at("state"), "dead") << dead;
  EXPECT_EQ(dead.at("class"), "crash");
  EXPECT_EQ(lives.asked("killer"), 3) << "not begun a fourth time";
  EXPECT_EQ(lives.asked("good"), 1);
  EXPECT_EQ(lives.figure("callgate_dead_letters_page_total", "class=\"crash\""), 1);
  EXPECT_EQ(lives.number("SELECT count(*) FROM dead_letters WHERE class = 'crash'"), 1);
}

TEST(Runs, a_drain_parks_runs_and_the_next_start_makes_them) {
  Lives lives{"runs: {concurrent: 2}\nretry: {base: 20s, cap: 20s}\nshutdown: {drain: 500ms}\n"};
  lives.provider.script(R"([{"match": {"body_contains": "backs-off", "times": 1}, "answer": 503},
                            {"match": {"body_contains": "silent", "times": 1}, "answer": {"hang": true}}])");
  const std::string waits = lives.accepted("backs-off");
  const std::string silent = lives.accepted("silent");
  lives.provider.wait("requests=2");
  const std::string queued = lives.accepted("queued");
  (void)lives.callgate->stop();
  EXPECT_EQ(lives.number("SELECT count(*) FROM runs WHERE state = 0"), 3);
  EXPECT_EQ(lives.number("SELECT max(crashes) FROM runs"), 0) << "a shutdown is no crash";
  lives.begin();
  for (const std::string& id : {waits, silent, queued}) EXPECT_EQ(lives.over(id).at("state"), "succeeded");
}

TEST(Runs, a_drain_of_runs_alone_begins_none_and_goes_on_serving_calls) {
  Lives lives{"runs: {concurrent: 1}\n"};
  lives.provider.script(R"([{"match": {"body_contains": "the first"}, "answer": {"hold": "g"}}])");
  const std::string first = lives.accepted("the first");
  lives.provider.wait("requests=1");
  const std::string second = lives.accepted("the second");
  const std::string drain = lives.callgate->admin_url() + "/v1/drain?what=runs";
  const Response begun = http("POST", drain);
  EXPECT_EQ(Json::parse(begun.body), Json({{"done", true}, {"count", 1}})) << begun.body;
  lives.provider.release("g");
  EXPECT_EQ(lives.over(first).at("state"), "succeeded");
  // Its end is told before its place is free: were there anything to begin the second, this would be the moment.
  EXPECT_TRUE(eventually([&] { return Json::parse(http("POST", drain).body).at("count") == 0; }));
  EXPECT_EQ(http("POST", lives.url(kChat), chat_saying("a call"), {{"Content-Type", "application/json"}}).status,
            200);
  EXPECT_EQ(lives.state(second), "queued");
  EXPECT_EQ(lives.asked("the second"), 0);
  EXPECT_EQ(lives.figure("callgate_operator_acts_total", R"(act="drain",what="runs")"), 1);
  EXPECT_EQ(http("POST", lives.callgate->admin_url() + "/v1/drain?what=some").status, 400);

  EXPECT_EQ(http("POST", lives.callgate->admin_url() + "/v1/drain?what=all").status, 200);
  EXPECT_EQ(lives.callgate->process().wait(), 0);
  lives.begin();
  EXPECT_EQ(lives.over(second).at("state"), "succeeded");
}

TEST(Runs, F41_leases_are_renewed_and_a_stopped_process_makes_nothing_twice) {
  const Lives lives{"runs: {lease: 1s}\n"};
  lives.provider.script(R"([{"match": {"body_contains": "long"}, "answer": {"delay_ms": 4000}}])");
  const std::string id = lives.accepted("long");
  lives.provider.wait("requests=1");
  support::dawdle(1200ms);
  lives.callgate->process().signal(SIGSTOP);
  support::dawdle(2500ms);
  lives.callgate->process().signal(SIGCONT);
  const Json run = lives.over(id);
  EXPECT_EQ(run.at("state"), "succeeded") << run;
  EXPECT_EQ(lives.asked("long"), 1);
  EXPECT_EQ(lives.number("SELECT count(*) FROM events WHERE type = 'run.ended'"), 1);
  EXPECT_EQ(lives.number("SELECT count(*) FROM attempts"), lives.asked("long"));
}

TEST(Runs, F40_a_store_that_refuses_takes_no_run_and_loses_none) {
  Lives lives;
  lives.provider.script(R"([{"match": {"body_contains": "fails"}, "answer": {"status": 400, "hold": "door"}}])");
  const std::string id = lives.accepted("fails");
  lives.provider.wait("held=1");
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((lives.folder.path() + "/calls.db").c_str(), &db), SQLITE_OK);
  sqlite3_busy_timeout(db, 5'000);
  ASSERT_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  lives.provider.release("door");
  ASSERT_TRUE(eventually(
      [&] { return lives.figure("callgate_store_up") == 0 || lives.figure("callgate_store_failures_total") > 0; }));
  const Response refused = lives.order("new", {{"key", "new"}});
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_FALSE(refused.header("Retry-After").empty());
  sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  const Json run = lives.over(id);
  EXPECT_EQ(run.at("state"), "failed") << run;
  EXPECT_EQ(lives.number("SELECT count(*) FROM dead_letters WHERE run = '" + id + "'"), 1);
  ASSERT_TRUE(eventually([&] { return lives.order("new", {{"key", "new"}}).status < 300; }));
  EXPECT_EQ(lives.number("SELECT count(*) FROM runs WHERE key = 'new'"), 1);
}

TEST(Runs, a_paused_queue_accepts_and_starts_nothing_over_a_restart_too) {
  Lives lives;
  EXPECT_EQ(lives.over(lives.accepted("first", {{"queue", "q"}})).at("state"), "succeeded");
  const auto act = [&](const std::string& what) {
    return http("POST", lives.callgate->admin_url() + "/v1/" + what + "?what=queue&name=q").status;
  };
  EXPECT_EQ(act("pause"), 200);
  const std::string held = lives.accepted("held", {{"queue", "q"}});
  const std::string free = lives.accepted("free", {{"queue", "p"}});
  EXPECT_EQ(lives.over(free).at("state"), "succeeded");
  lives.kill();
  lives.begin();
  EXPECT_EQ(lives.over(lives.accepted("free again", {{"queue", "p"}})).at("state"), "succeeded");
  EXPECT_EQ(lives.state(held), "queued");
  EXPECT_EQ(lives.asked("held"), 0);
  const auto paused = [&] {
    const Json status = Json::parse(http_get(lives.callgate->admin_url() + "/v1/status").body);
    for (const Json& queue : status.at("queues")) {
      if (queue.at("name") == "q") return !queue.at("paused").is_null();
    }
    return false;
  };
  EXPECT_TRUE(paused());
  EXPECT_EQ(lives.figure("callgate_queue_paused"), 1);
  EXPECT_EQ(act("resume"), 200);
  EXPECT_FALSE(paused());
  EXPECT_EQ(lives.figure("callgate_queue_paused"), 0);
  EXPECT_EQ(lives.over(held).at("state"), "succeeded");
  EXPECT_EQ(act("resume"), 404);
  EXPECT_EQ(lives.number("SELECT count(*) FROM audit WHERE act LIKE 'queue.%'"), 2);
}

TEST(Runs, a_contract_checks_bodies_names_keys_and_blocks_a_queue_whose_dead_letters_are_full) {
  Lives lives{R"(queues:
  invoices:
    owner: {team: billing, contact: "#billing"}
    slo: {oldest_wait: 5m}
    payload_schema: invoices.json
    version_from: $.metadata.prompt_version
    idempotency_key: {from: $.metadata.invoice}
    ordering_key: $.metadata.customer
    concurrency: {max: 2}
    retry: {max_attempts: 1}
    dead_letter: {retention: 30d, max_items: 1, on_full: block_enqueue}
)",
              {{"invoices.json",
                R"({"type": "object", "required": ["metadata"], "properties": {"model": {"type": "string"}}})"}}};
  const auto order = [&](const Json& body) {
    return http("POST", lives.url(kRuns), Json{{"path", kChat}, {"queue", "invoices"}, {"body", body}}.dump());
  };
  const Response misshapen = order({{"model", 5}});
  EXPECT_EQ(misshapen.status, 422) << misshapen.body;
  EXPECT_EQ(Json::parse(misshapen.body).at("places").size(), 2u);
  EXPECT_EQ(order({{"model", "gpt-5"}, {"metadata", Json::object()}}).status, 422) << "no key";

  Json body = Json::parse(chat_saying("good"));
  body["metadata"] = {{"prompt_version", "v7"}, {"invoice", "i-1"}, {"customer", "c-1"}};
  body["unknown"] = {{"x", 1}};
  const Response good = order(body);
  ASSERT_EQ(good.status, 202) << good.body;
  const Json run = lives.over(Json::parse(good.body).at("id"));
  EXPECT_EQ(run.at("state"), "succeeded") << run;
  EXPECT_EQ(run.at("version"), "v7");
  EXPECT_EQ(run.at("key"), "invoices:i-1");
  EXPECT_EQ(run.at("ordering_key"), "c-1");
  EXPECT_EQ(Json::parse(order(body).body).at("id"), run.at("id"));

  lives.provider.script(R"([{"answer": 500}])");
  body["metadata"]["invoice"] = "i-2";
  EXPECT_EQ(lives.over(Json::parse(order(body).body).at("id")).at("state"), "dead");
  EXPECT_EQ(lives.figure("callgate_dead_letters_total", "owner=\"billing\""), 1);
  body["metadata"]["invoice"] = "i-3";
  Response blocked = order(body);
  EXPECT_EQ(blocked.status, 503) << blocked.body;
  EXPECT_EQ(blocked.header("Retry-After"), "30");
}

TEST(Runs, orders_that_come_at_once_do_not_overshoot_a_queue_s_letters) {
  const Lives lives{R"(queues:
  q:
    owner: {team: a}
    slo: {oldest_wait: 5m}
    retry: {max_attempts: 1}
    dead_letter: {retention: 30d, max_items: 3}
)"};
  lives.provider.script(R"([{"answer": {"delay_ms": 100, "status": 500, "json": {"error": {"message": "no"}}}}])");
  std::vector<std::thread> callers;
  std::atomic<int> accepted{0};
  std::atomic<int> blocked{0};
  for (int i = 0; i < 24; ++i) {
    callers.emplace_back([&, i] {
      const int status = lives.order("words " + std::to_string(i), {{"queue", "q"}}).status;
      accepted += status == 202 ? 1 : 0;
      blocked += status == 503 ? 1 : 0;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(accepted, 3);
  EXPECT_EQ(blocked, 21);
  ASSERT_TRUE(
      eventually([&] { return lives.number("SELECT count(*) FROM dead_letters WHERE state = 0") == 3; }, 20s));
  EXPECT_EQ(lives.order("one more", {{"queue", "q"}}).status, 503);
  EXPECT_EQ(lives.order("of another queue", {{"queue", "other"}}).status, 202);
  const Response discarded = http("POST", lives.callgate->admin_url() + "/v1/dead/discard?queue=q&reason=test", "");
  EXPECT_EQ(Json::parse(discarded.body).at("count"), 3);
  EXPECT_EQ(lives.order("again", {{"queue", "q"}}).status, 202);
}

TEST(Runs, two_queues_may_name_their_jobs_by_the_same_value) {
  Lives lives{R"(queues:
  extract: {owner: {team: a}, slo: {oldest_wait: 5m}, idempotency_key: {from: $.metadata.invoice}, dead_letter: {retention: 30d}}
  summary: {owner: {team: a}, slo: {oldest_wait: 5m}, idempotency_key: {from: $.metadata.invoice}, dead_letter: {retention: 30d}}
)"};
  const auto order = [&](const std::string& queue, const std::string& words) {
    Json body = Json::parse(chat_saying(words));
    body["metadata"] = {{"invoice", "i-1"}};
    return http("POST", lives.url(kRuns), Json{{"path", kChat}, {"queue", queue}, {"body", body}}.dump());
  };
  const Response extract = order("extract", "same");
  const Response summary = order("summary", "same");
  ASSERT_EQ(extract.status, 202) << extract.body;
  ASSERT_EQ(summary.status, 202) << summary.body;
  const std::string first = Json::parse(extract.body).at("id");
  const std::string second = Json::parse(summary.body).at("id");
  EXPECT_NE(first, second);
  EXPECT_EQ(lives.over(first).at("key"), "extract:i-1");
  EXPECT_EQ(lives.over(second).at("key"), "summary:i-1");
  EXPECT_EQ(order("summary", "another").status, 422) << "within one queue it is another body under one key";
  EXPECT_EQ(Json::parse(order("extract", "same").body).at("id"), first);
}

TEST(Runs, an_end_that_cannot_be_read_any_more_is_not_told_and_leaves_a_letter) {
  Lives lives{
      "store: {path: calls.db, payload_key: {file: payload-key}}\n"
      "webhooks: {allow_hosts: [127.0.0.1], secret: {env: RUNS_TEST_SECRET}}\n",
      {{"payload-key", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"}}};
  lives.provider.script(R"([{"match": {"path": "/hook/token"}, "answer": 503}])");
  const std::string id = lives.accepted("told", {{"webhook", lives.provider.url() + "/hook/token?sig=secret"}});
  EXPECT_EQ(lives.over(id).at("state"), "succeeded");
  EXPECT_EQ(lives.number("SELECT sum(instr(hex(webhook), hex('token'))) FROM runs"), 0);
  ASSERT_TRUE(eventually([&] { return lives.figure("callgate_webhooks_total", "result=\"again\"") > 0; }, 20s));
  const int asked = lives.requests();
  lives.kill();
  (void)lives.folder.file("payload-key", "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=\n");
  lives.begin();
  ASSERT_TRUE(eventually([&] { return lives.run(id).value("webhook", "") == "dead"; }, 30s));
  EXPECT_EQ(lives.requests(), asked) << "something was told";
  EXPECT_EQ(lives.number("SELECT count(*) FROM dead_letters WHERE operation = 'webhook' AND class = 'internal'"), 1);
}

TEST(Runs, a_receiver_that_retries_from_within_hears_of_both_ends) {
  const Lives lives{
      "runs: {max_attempts: 1}\n"
      "webhooks: {allow_hosts: [127.0.0.1], secret: {env: RUNS_TEST_SECRET}}\n"};
  lives.provider.script(R"([{"match": {"path": "/hook", "times": 1}, "answer": {"status": 200, "hold": "door"}},
                            {"match": {"path": "/hook"}, "answer": {"status": 200, "body": "ok"}},
                            {"match": {"body_contains": "once-bad", "times": 1}, "answer": 500}])");
  const std::string id = lives.accepted("once-bad", {{"webhook", lives.provider.url() + "/hook"}});
  EXPECT_EQ(lives.over(id).at("state"), "dead");
  lives.provider.wait("held=1", 20s);
  EXPECT_EQ(http("POST", lives.url(kRuns + "/" + id + "/retry")).status, 202);
  EXPECT_EQ(lives.over(id).at("state"), "succeeded");
  lives.provider.release("door");
  ASSERT_TRUE(eventually([&] { return lives.run(id).value("webhook", "") == "told"; }, 20s));
  std::set<std::string> types;
  std::set<std::string> messages;
  const Json seen = lives.provider.seen();
  for (const Json& one : seen.is_array() ? seen : seen.at("requests")) {
    if (one.at("target") != "/hook") continue;
    types.insert(Json::parse(one.at("body").get<std::string>()).at("type"));
    const std::string text = one.dump();
    messages.insert(text.substr(text.find(id + "-"), id.size() + 3));
  }
  EXPECT_EQ(types, (std::set<std::string>{"run.dead", "run.succeeded"}));
  EXPECT_EQ(messages.size(), 2u) << "two ends under one webhook-id";
}

TEST(Runs, a_cancelled_run_that_was_never_begun_is_told_too) {
  const Lives lives{"webhooks: {allow_hosts: [127.0.0.1], secret: {env: RUNS_TEST_SECRET}}\n"};
  lives.provider.script(R"([{"match": {"path": "/hook"}, "answer": {"status": 200, "body": "ok"}}])");
  const std::string id =
      lives.accepted("later", {{"webhook", lives.provider.url() + "/hook"}, {"not_before", "2099-01-01T00:00:00Z"}});
  EXPECT_EQ(lives.cancel(id).status, 200);
  ASSERT_TRUE(eventually([&] { return lives.run(id).value("webhook", "") == "told"; }, 20s));
  EXPECT_NE(lives.provider.seen().dump().find("run.cancelled"), std::string::npos);
}

TEST(Runs, an_end_that_could_not_be_told_is_told_by_a_replay_of_its_letter) {
  const Lives lives{"webhooks: {allow_hosts: [127.0.0.1], secret: {env: RUNS_TEST_SECRET}}\n"};
  const std::string admin = lives.callgate->admin_url();
  const auto letters = [&](const std::string& query) {
    return Json::parse(http_get(admin + "/v1/dead" + query).body).at("letters");
  };
  const auto replayed = [&](const std::string& id) {
    const Json plan = Json::parse(http("POST", admin + "/v1/replays?id=" + id, "").body);
    EXPECT_EQ(plan.at("count"), 1) << plan;
    EXPECT_EQ(plan.at("estimate").at("without_estimate"), 0) << "it costs nothing";
    const std::string path = admin + "/v1/replays/" + plan.at("id").get<std::string>();
    EXPECT_EQ(http("POST", path + "/start?digest=" + plan.at("digest").get<std::string>(), "").status, 200);
    EXPECT_TRUE(eventually([&] { return Json::parse(http_get(path).body).at("state") != "running"; }, 20s));
    return Json::parse(http_get(path).body);
  };
  lives.provider.script(R"([{"match": {"path": "/hook"}, "answer": {"status": 403, "body": ""}}])");
  const std::string id = lives.accepted("told", {{"webhook", lives.provider.url() + "/hook"}, {"queue", "q"}});
  ASSERT_TRUE(eventually([&] { return lives.run(id).value("webhook", "") == "dead"; }, 20s));
  Json open = letters("?operation=webhook");
  ASSERT_EQ(open.size(), 1u);
  const std::string letter = open[0].at("id");
  EXPECT_EQ(open[0].at("class"), "permission") << "of what came of it last";
  EXPECT_EQ(open[0].at("status"), 403);
  EXPECT_EQ(open[0].at("queue"), "q");
  EXPECT_EQ(open[0].at("advice"), "fix-first");
  // In vain, by another cause.
  lives.provider.script(R"([{"match": {"path": "/hook"}, "answer": {"status": 500, "body": ""}}])");
  const Json vain = replayed(letter);
  EXPECT_EQ(vain.at("dead_again"), 1) << vain;
  open = letters("?operation=webhook");
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0].at("class"), "server_error");
  EXPECT_EQ(open[0].at("failures"), 2);
  lives.provider.script(R"([{"match": {"path": "/hook"}, "answer": {"status": 200, "body": "ok"}}])");
  const Json done = replayed(letter);
  EXPECT_EQ(done.at("resolved"), 1) << done;
  EXPECT_EQ(letters("").size(), 0u);
  EXPECT_EQ(letters("?state=resolved")[0].at("request"), "erased");
  EXPECT_TRUE(letters("?state=resolved")[0].at("request_erased_at").is_string());
  EXPECT_EQ(lives.run(id).value("webhook", ""), "told");
  // The same message, each time: a receiver knows it again.
  std::set<std::string> bodies;
  int tellings = 0;
  const Json seen = lives.provider.seen();
  for (const Json& one : seen.is_array() ? seen : seen.at("requests")) {
    if (one.at("target") != "/hook") continue;
    bodies.insert(one.at("body").get<std::string>());
    EXPECT_NE(one.dump().find(id + "-1"), std::string::npos) << one;
    ++tellings;
  }
  EXPECT_EQ(tellings, 3);
  EXPECT_EQ(bodies.size(), 1u);
  // After a retry of its run an old end is news to nobody; but it can be discarded.
  lives.provider.script(R"([{"match": {"path": "/hook"}, "answer": {"status": 410, "body": ""}}, {"answer": 400}])");
  const std::string other = lives.accepted("bad", {{"webhook", lives.provider.url() + "/hook"}});
  ASSERT_TRUE(eventually([&] { return lives.run(other).value("webhook", "") == "dead"; }, 20s));
  lives.provider.script(R"([{"match": {"path": "/hook"}, "answer": {"status": 200, "body": "ok"}}])");
  EXPECT_EQ(http("POST", lives.url(kRuns + "/" + other + "/retry")).status, 202);
  ASSERT_TRUE(eventually([&] { return lives.run(other).value("webhook", "") == "told"; }, 20s));
  const Json late = Json::parse(http("POST", admin + "/v1/replays?operation=webhook&reason=test", "").body);
  EXPECT_EQ(late.at("count"), 0);
  EXPECT_EQ(late.at("skipped_at_plan"), Json::parse(R"([{"why":"told_anew","count":1}])"));
  const Response discarded = http("POST", admin + "/v1/dead/discard?operation=webhook&reason=test", "");
  EXPECT_EQ(Json::parse(discarded.body).at("count"), 1);
}

TEST(Runs, ends_are_told_with_a_signature_again_if_need_be_and_given_up_with_a_letter) {
  const Lives lives{"webhooks: {allow_hosts: [127.0.0.1], secret: {env: RUNS_TEST_SECRET}}\n"};
  lives.provider.script(R"([{"match": {"path": "/hook"}, "answers": [503, {"status": 200, "body": "ok"}]},
                            {"match": {"path": "/gone"}, "answer": {"status": 410, "body": ""}}])");
  const std::string told = lives.accepted("told", {{"webhook", lives.provider.url() + "/hook"}, {"queue", "q"}});
  const std::string gone = lives.accepted("gone", {{"webhook", lives.provider.url() + "/gone"}});
  EXPECT_EQ(lives.over(told).at("state"), "succeeded");
  ASSERT_TRUE(eventually([&] { return lives.run(told).value("webhook", "") == "told"; }, 20s));
  ASSERT_TRUE(eventually([&] { return lives.run(gone).value("webhook", "") == "dead"; }));
  EXPECT_EQ(lives.number("SELECT count(*) FROM dead_letters WHERE operation = 'webhook'"), 1);
  const Json open = Json::parse(http_get(lives.callgate->admin_url() + "/v1/dead").body).at("letters");
  ASSERT_EQ(open.size(), 1u);
  const Json letter = Json::parse(
      http_get(lives.callgate->admin_url() + "/v1/dead/" + open[0].at("id").get<std::string>() + "?request=true")
          .body);
  EXPECT_EQ(letter.at("kept_request").at("target"), lives.provider.url())
      << "what stands behind its host may be a secret of the receiver's";
  int tellings = 0;
  std::string id;
  const Json seen = lives.provider.seen();
  for (const Json& one : seen.is_array() ? seen : seen.at("requests")) {
    if (one.at("target") != "/hook") continue;
    ++tellings;
    const Json said = Json::parse(one.at("body").get<std::string>());
    EXPECT_EQ(said.at("type"), "run.succeeded");
    EXPECT_EQ(said.at("data").at("id"), told);
    EXPECT_EQ(said.at("data").at("queue"), "q");
    EXPECT_NE(one.dump().find("v1,"), std::string::npos);
    EXPECT_NE(one.dump().find(told), std::string::npos);
  }
  EXPECT_EQ(tellings, 2);
  EXPECT_EQ(lives.figure("callgate_webhooks_total", "result=\"told\""), 1);
}

TEST(Runs, a_run_and_a_call_with_the_same_key_are_one_request_and_both_have_the_answer) {
  const Lives lives;
  lives.provider.script(R"([{"answer": {"hold": "door"}}])");
  auto call = std::async(std::launch::async, [&] {
    return http("POST", lives.url(kChat), chat_saying("shared"), {{"Idempotency-Key", "k"}});
  });
  lives.provider.wait("held=1");
  // As text, since the same body means the same bytes.
  const Response accepted =
      http("POST",
           lives.url(kRuns),
           R"({"path":")" + kChat + R"(","key":"k","headers":{"Content-Type":"application/json"},"body":)" +
               chat_saying("shared") + "}");
  ASSERT_EQ(accepted.status, 202) << accepted.body;
  const std::string id = Json::parse(accepted.body).at("id");
  ASSERT_TRUE(eventually([&] { return lives.state(id) == "running"; }));
  lives.provider.release("door");
  const Response answer = call.get();
  EXPECT_EQ(answer.status, 200) << answer.body;
  const Json run = lives.over(id);
  EXPECT_EQ(run.at("state"), "succeeded") << run;
  EXPECT_EQ(run.at("result").at("body"), Json::parse(answer.body));
  EXPECT_EQ(lives.requests(), 1);
}

TEST(Runs, an_answer_too_large_to_be_joined_is_kept_for_a_run_all_the_same) {
  const Lives lives;
  lives.provider.script(R"([{"match": {"body_contains": "large"}, "answer": {"fill": 7000000}},
                            {"match": {"body_contains": "stream"}, "answer": {"stream": {"events": 3000, "size": 2000, "every_ms": 0}}}])");
  const std::string large = lives.accepted("large");
  const Json run = lives.over(large);
  EXPECT_EQ(run.at("state"), "succeeded") << run.at("state") << run.value("why", "");
  const Response whole = http_get(lives.url(kRuns + "/" + large + "/result"));
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.body.size(), 7'000'000u);

  const Response accepted = http(
      "POST", lives.url(kRuns), Json{{"path", kChat}, {"body", Json::parse(chat_saying("stream", true))}}.dump());
  const std::string id = Json::parse(accepted.body).at("id");
  EXPECT_EQ(lives.over(id).at("state"), "succeeded");
  const Response events = http_get(lives.url(kRuns + "/" + id + "/result"));
  EXPECT_TRUE(events.header("Content-Type").starts_with("text/event-stream"));
  EXPECT_GT(events.body.size(), 6'000'000u);
  EXPECT_TRUE(events.body.ends_with("data: [DONE]\n\n"));
}

struct Told {
  int code = -1;
  std::string out{};
  std::string err{};
};
/// `callgate runs …` against that callgate.
Told operators(const Lives& lives, std::vector<std::string> words) {
  words.insert(words.begin(), {CALLGATE_EXE, "runs"});
  words.insert(words.end(), {"--admin", lives.callgate->admin_url().substr(7)});
  support::Process process{words};
  Told told;
  told.code = process.wait();
  for (const std::string& line : process.lines()) told.out += line + "\n";
  told.err = process.err();
  return told;
}

TEST(Runs, an_operator_lists_shows_cancels_and_retries_anybody_s) {
  const Lives lives{"runs: {max_attempts: 1}\n"};
  lives.provider.script(R"([{"match": {"body_contains": "broken", "times": 1}, "answer": 500},
                            {"match": {"body_contains": "silent"}, "answer": {"hang": true}}])");
  const std::string of_a =
      Json::parse(lives.order("broken", {{"queue", "q"}}, {{"Callgate-Tenant", "a"}}).body)["id"];
  const std::string of_b = Json::parse(lives.order("well", {{"queue", "q"}}, {{"Callgate-Tenant", "b"}}).body)["id"];
  const auto line = [&](const std::string& id) {
    const Told told = operators(lives, {"show", id, "--json"});
    EXPECT_EQ(told.code, 0) << told.err;
    return told.code == 0 ? Json::parse(told.out) : Json{{"state", "none"}};
  };
  ASSERT_TRUE(eventually([&] { return line(of_a).at("state") == "dead" && line(of_b).at("state") == "succeeded"; }));

  const Json list = Json::parse(operators(lives, {"list", "--queue", "q", "--since", "1h", "--json"}).out);
  ASSERT_EQ(list.at("runs").size(), 2u);
  EXPECT_EQ(list.at("runs")[0].at("id"), of_b) << "the newest first";
  EXPECT_EQ(list.at("runs")[1].at("tenant"), "a");
  EXPECT_EQ(Json::parse(operators(lives, {"list", "--tenant", "a", "--json"}).out).at("runs").size(), 1u);
  EXPECT_EQ(Json::parse(operators(lives, {"list", "--state", "dead", "--json"}).out).at("runs").size(), 1u);
  const Json page = Json::parse(operators(lives, {"list", "--most", "1", "--json"}).out);
  EXPECT_EQ(page.at("next"), of_b);
  EXPECT_EQ(Json::parse(operators(lives, {"list", "--after", of_b, "--json"}).out).at("runs")[0].at("id"), of_a);
  EXPECT_EQ(operators(lives, {"list", "--state", "ded"}).code, 2);

  const Json dead = line(of_a);
  EXPECT_EQ(dead.at("class"), "server_error") << dead;
  EXPECT_EQ(dead.at("attempts").size(), 1u);
  EXPECT_EQ(dead.at("dead_letter").at("advice"), "replay");
  EXPECT_EQ(line(of_b).at("result").at("at"), kRuns + "/" + of_b + "/result");
  EXPECT_TRUE(line(of_b).at("cost_usd").is_string());
  EXPECT_TRUE(line(of_b).at("dead_letter").is_null());
  EXPECT_EQ(dead.dump().find("broken\"}"), std::string::npos) << "what was asked is nobody's business here";
  EXPECT_EQ(operators(lives, {"show", of_a, "--tenant", "b"}).code, 4);
  EXPECT_EQ(operators(lives, {"show", "01a22ce1-d221-7000-b9b5-000000000000"}).code, 4);
  // The file itself says the same.
  const std::string file = lives.folder.path() + "/calls.db";
  EXPECT_EQ(Json::parse(operators(lives, {"show", of_a, "--store", file, "--json"}).out).at("state"), "dead");

  EXPECT_EQ(operators(lives, {"retry", of_b}).code, 8);
  EXPECT_EQ(operators(lives, {"retry", of_a, "--tenant", "b"}).code, 4);
  EXPECT_EQ(operators(lives, {"retry", of_a, "--reason", "it is over"}).code, 0);
  ASSERT_TRUE(eventually([&] { return line(of_a).at("state") == "succeeded"; }));

  const std::string silent = lives.accepted("silent");
  ASSERT_TRUE(eventually([&] { return lives.asked("silent") == 1; }));
  const auto begun = Clock::now();
  const Told cancelled = operators(lives, {"cancel", silent, "--reason", "by mistake"});
  EXPECT_EQ(cancelled.code, 0) << cancelled.err;
  EXPECT_EQ(cancelled.out, "run " + silent + " is cancelled\n");
  EXPECT_LT(Clock::now() - begun, 5s);
  EXPECT_EQ(operators(lives, {"cancel", silent}).code, 0) << "twice is harmless";
  EXPECT_EQ(operators(lives, {"cancel", of_a}).code, 8);
  EXPECT_EQ(operators(lives, {"cancel", "01a22ce1-d221-7000-b9b5-000000000000"}).code, 4);

  const Json acts = Json::parse(http_get(lives.callgate->admin_url() + "/v1/audit").body).at("acts");
  const auto written = [&](const char* act, const std::string& of, const char* reason) {
    return std::ranges::count_if(acts, [&](const Json& one) {
      return one.at("act") == act && one.at("what") == of && one.at("reason") == reason && one.at("who") == "admin";
    });
  };
  EXPECT_EQ(written("run.retry", of_a, "it is over"), 1) << acts;
  EXPECT_EQ(written("run.cancel", silent, "by mistake"), 1) << acts;
  EXPECT_EQ(http("POST", lives.callgate->admin_url() + "/v1/runs").status, 405);
  EXPECT_EQ(http_get(lives.callgate->admin_url() + "/v1/runs/x/y").status, 404);
}

TEST(Runs, as_many_are_open_as_may_be_and_who_comes_then_is_told_to_come_again) {
  Lives lives{"runs: {max_open: 2}\n"};
  lives.provider.script(R"([{"match": {"body_contains": "held"}, "answer": {"hold": "door"}}])");
  const std::string first = lives.accepted("held 1", {{"key", "k"}});
  const std::string second = lives.accepted("held 2");
  const Response refused = lives.order("third");
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_EQ(Json::parse(refused.body).at("code"), "callgate_runs_full");
  EXPECT_NE(refused.body.find("runs.max_open"), std::string::npos);
  EXPECT_EQ(refused.header("Retry-After"), "30");
  EXPECT_EQ(lives.order("held 1", {{"key", "k"}}).status, 202) << "the same run is no further one";
  ASSERT_TRUE(eventually([&] { return lives.figure("callgate_runs_open") == 2; }));
  EXPECT_GT(lives.figure("callgate_runs_open_bytes"), 0);
  EXPECT_EQ(lives.figure("callgate_runs_refused_total", "reason=\"max_open\""), 1);
  // A restart counts them anew.
  lives.kill();
  lives.begin();
  EXPECT_EQ(lives.order("third").status, 503);
  lives.provider.release("door");
  EXPECT_EQ(lives.over(first).at("state"), "succeeded") << "nothing that was accepted is dropped";
  EXPECT_EQ(lives.over(second).at("state"), "succeeded");
  EXPECT_EQ(lives.over(lives.accepted("third")).at("state"), "succeeded");

  const Lives narrow{"runs: {max_bytes: 1MiB}\n"};
  narrow.provider.script(R"([{"match": {"body_contains": "held"}, "answer": {"hold": "door"}}])");
  std::mt19937 chance{7};
  std::string noise;  // It may be packed.
  while (noise.size() < 900'000) noise += static_cast<char>('0' + chance() % 75);
  std::erase(noise, '\\');
  const std::string large = narrow.accepted("held " + noise);
  const Response full = narrow.order("more " + noise);
  EXPECT_EQ(full.status, 503) << full.body.substr(0, 400);
  EXPECT_NE(full.body.find("runs.max_bytes"), std::string::npos);
  narrow.provider.release("door");
  EXPECT_EQ(narrow.over(large).at("state"), "succeeded");
  EXPECT_EQ(narrow.over(narrow.accepted("more " + noise)).at("state"), "succeeded");
}

TEST(Runs, one_that_only_waited_at_three_kills_is_no_suspect) {
  // One call in flight at once: the second run is taken, and waits for it.
  Lives lives{
      "runs: {concurrent: 2, max_elapsed: 1h}\ntenants: {default: {limits: {concurrent: 1}}, a: {}, b: {}}\n"};
  lives.provider.script(R"([{"match": {"body_contains": "busy"}, "answer": {"hold": "door"}}])");
  const std::string busy = lives.accepted("busy");
  ASSERT_TRUE(eventually([&] { return lives.asked("busy") == 1; }));
  const std::string waits = lives.accepted("waits");
  for (int kills = 1; kills <= 3; ++kills) {
    ASSERT_TRUE(eventually([&] { return lives.state(waits) == "running" && lives.asked("busy") == kills; }));
    lives.kill();
    lives.begin();
  }
  const Json dead = lives.over(busy);
  EXPECT_EQ(dead.at("class"), "crash") << dead;
  const Json well = lives.over(waits);
  EXPECT_EQ(well.at("state"), "succeeded") << well;
  EXPECT_EQ(well.value("crashes", 0), 0);
  EXPECT_EQ(lives.asked("waits"), 1);
}

TEST(Runs, a_stream_that_breaks_in_mid_answer_is_made_anew_since_nobody_has_seen_it) {
  const Lives lives;
  lives.provider.script(
      R"([{"match": {"body_contains": "cut", "times": 1}, "answer": {"stream": [{"say": "half"}, {"say": "way"}, {"close": "rst"}]}},
          {"match": {"body_contains": "busy", "times": 1}, "answer": {"stream": [{"say": "half"}, {"error": 529}]}},
          {"match": {"body_contains": "always"}, "answer": {"stream": [{"say": "hel"}, {"close": "rst"}]}}])");
  const auto streamed = [&](const std::string& words) {
    const Response accepted =
        http("POST", lives.url(kRuns), Json{{"path", kChat}, {"body", Json::parse(chat_saying(words, true))}}.dump());
    EXPECT_EQ(accepted.status, 202) << accepted.body;
    return lives.over(Json::parse(accepted.body).at("id"));
  };
  for (const std::string words : {"cut", "busy"}) {
    SCOPED_TRACE(words);
    const Json run = streamed(words);
    EXPECT_EQ(run.at("state"), "succeeded") << run;
    ASSERT_EQ(run.at("attempts").size(), 2u) << run;
    EXPECT_EQ(run.at("attempts")[1].at("class"), "none");
    const Response whole = http_get(lives.url(run.at("links").at("result").get<std::string>()));
    EXPECT_EQ(whole.status, 200);
    EXPECT_TRUE(whole.body.ends_with("data: [DONE]\n\n")) << whole.body;
    EXPECT_EQ(whole.body.find("\"half\""), std::string::npos) << "of the broken one nothing is left: " << whole.body;
  }
  EXPECT_EQ(lives.number("SELECT count(*) FROM attempts WHERE possibly_billed = 1 AND class = 'network'"), 1);
  const Json given_up = streamed("always");
  EXPECT_EQ(given_up.at("state"), "dead") << given_up;
  EXPECT_EQ(lives.asked("always"), 6) << "runs.max_attempts";
  EXPECT_EQ(lives.number("SELECT count(*) FROM dead_letters WHERE state = 0"), 1);
}

TEST(Runs, a_stream_that_somebody_has_seen_is_not_made_anew) {
  const Lives lives;
  lives.provider.script(
      R"([{"match": {"body_contains": "cut", "times": 1}, "answer": {"stream": [{"say": "hel"}, {"hold": "door"}, {"close": "rst"}]}}])");
  const std::string body = chat_saying("cut", true);
  const Response accepted = http(
      "POST",
      lives.url(kRuns),
      R"({"path":")" + kChat + R"(","key":"k","headers":{"Content-Type":"application/json"},"body":)" + body + "}");
  ASSERT_EQ(accepted.status, 202) << accepted.body;
  lives.provider.wait("held=1");
  RawClient reader{lives.callgate->data_port()};
  reader.send(request_text("POST", kChat, body, {{"Idempotency-Key", "k"}}));
  Response had = reader.read_head();
  ASSERT_TRUE(reader.read_until(had, "hel")) << had.body;
  lives.provider.release("door");
  const Json run = lives.over(Json::parse(accepted.body).at("id"));
  EXPECT_EQ(run.at("state"), "dead") << run;
  EXPECT_EQ(lives.asked("cut"), 1) << "he would have had two halves";
}

TEST(Runs, a_run_s_answer_stands_in_its_json_byte_for_byte_and_what_it_used_is_counted_however_it_ends) {
  const Lives lives;
  const std::string odd = R"({"id":12345678901234567890123,"x": 1.10e2,  "b":[1, 2],"a":"\u00e9"})";
  lives.provider.script(R"([{"match": {"body_contains": "odd"}, "answer": {"body": )" + Json(odd).dump() +
                        R"(, "headers": {"Content-Type": "application/json"}}},
          {"match": {"body_contains": "stream"}, "answer": {"stream": [{"say": "hello there"}, {"hang": true}]}}])");
  // What is no answer of a chat is passed on all the same where the endpoint is not understood.
  const Response accepted =
      http("POST", lives.url(kRuns), Json{{"path", "/openai/v1/odd"}, {"body", {{"say", "odd"}}}}.dump());
  ASSERT_EQ(accepted.status, 202) << accepted.body;
  const std::string id = Json::parse(accepted.body).at("id");
  EXPECT_EQ(lives.over(id).at("state"), "succeeded");
  const std::string told = http_get(lives.url(kRuns + "/" + id)).body;
  EXPECT_NE(told.find("\"body\":" + odd), std::string::npos) << told;
  EXPECT_EQ(Json::parse(told).at("id"), id);

  const Response stream = http(
      "POST", lives.url(kRuns), Json{{"path", kChat}, {"body", Json::parse(chat_saying("stream", true))}}.dump());
  const std::string left = Json::parse(stream.body).at("id");
  ASSERT_TRUE(eventually([&] { return lives.asked("stream") == 1; }));
  EXPECT_EQ(lives.cancel(left).status, 200);
  const Json run = lives.run(left);
  EXPECT_EQ(run.at("state"), "cancelled") << run;
  ASSERT_EQ(run.at("attempts").size(), 1u) << run;
  // As of a live call that was left: what is known of it, and that it may have been billed.
  EXPECT_EQ(lives.number("SELECT possibly_billed FROM attempts WHERE call_id = '" +
                         run.at("call_id").get<std::string>() + "'"),
            1);
  EXPECT_GT(lives.number("SELECT charged_nano FROM attempts WHERE call_id = '" +
                         run.at("call_id").get<std::string>() + "'"),
            0);
}

TEST(Runs, F47_every_accepted_id_ends_once_whatever_is_killed) {
  Lives lives{"runs: {lease: 2s}\n"};
  lives.provider.script(R"([{"answer": {"delay_ms": 5}}])");
  std::mt19937 chance{47};
  std::set<std::string> ids;
  int number = 0;
  constexpr int kRounds = 12;
  for (int round = 0; round < kRounds; ++round) {
    const auto until = Clock::now() + std::chrono::milliseconds{20 + chance() % 120};
    while (Clock::now() < until) {
      const std::string name = "job-" + std::to_string(number++);
      const Response answer = lives.order(name, {{"key", name}, {"queue", "q" + std::to_string(number % 3)}});
      ASSERT_EQ(answer.status, 202) << answer.body;
      ids.insert(Json::parse(answer.body).at("id").get<std::string>());
    }
    lives.kill();
    lives.begin();
  }
  for (const std::string& id : ids) {
    const Json run = lives.over(id);
    // One that was under way at three ends of the process is given up, by rule.
    if (run.at("state") == "dead") {
      EXPECT_EQ(run.at("class"), "crash") << run;
    } else {
      EXPECT_EQ(run.at("state"), "succeeded") << run;
    }
  }
  EXPECT_EQ(lives.number("SELECT count(*) FROM runs"), static_cast<std::int64_t>(ids.size()));
  EXPECT_EQ(lives.number("SELECT count(*) FROM events WHERE type = 'run.ended'"),
            static_cast<std::int64_t>(ids.size()));
  EXPECT_EQ(lives.number("SELECT count(*) - count(DISTINCT key) FROM runs"), 0);
}

}  // namespace runs_test
