// Goal: what finally fails is a dead letter that can be looked at, made good by one order, and is gone by itself once
// its job is done; nothing is paid twice for it, whatever dies meanwhile, and no secret is in it. Method: the real
// binary, the fake provider, the admin API; several lives on one file.

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/ledger_file.h"

namespace dead_test {

using Json = nlohmann::json;
using support::Callgate;
using support::chat_saying;
using support::eventually;
using support::FakeProvider;
using support::http;
using support::http_get;
using support::RawClient;
using support::request_text;
using support::Response;
using support::TempDir;
using namespace std::chrono_literals;
using Pairs = std::vector<std::pair<std::string, std::string>>;

const std::string kChat = "/openai/v1/chat/completions";
const char* const kFails =
    R"([{"answer": {"status": 500, "json": {"error": {"message": "The server had an error on request req_0a1b2c3d4e5f", "type": "server_error"}}}}])";
const char* const kWell = R"([{"answer": "default"}])";
const char* const kRefusesKey =
    R"([{"answer": {"status": 401, "json": {"error": {"message": "Incorrect API key provided: sk-xyz", "type": "invalid_request_error", "code": "invalid_api_key"}}}}])";

struct Lives {
  explicit Lives(std::string more_in = {}) : more(std::move(more_in)) { begin(); }

  void begin() {
    Callgate::Options options;
    options.directory = folder.path();
    options.env = {{"CALLGATE_MEMO__FINAL_FAILURE", "0s"},
                   {"CALLGATE_BREAKER__MIN_CALLS", "1000000"},
                   {"CALLGATE_BREAKER__CONSECUTIVE", "1000000"},
                   {"CALLGATE_RETRY__BUDGET__FLOOR", "1000000"},
                   {"DEAD_TEST_KEY", "sk-the-configured-key"}};
    std::string yaml =
        "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nupstreams: {openai: {url: " + provider.url() +
        ", credentials: [{name: main, key: {env: DEAD_TEST_KEY}}]}, own: {dialect: openai, url: " + provider.url() +
        "}}\n";
    if (more.find("store:") == more.npos) yaml += "store: {path: calls.db, payloads: plain}\n";
    if (more.find("tenants:") == more.npos) yaml += "tenants: {a: {}, b: {}}\n";
    yaml += "retry: {base: 5ms, bulk: {attempts: 2}, backfill: {attempts: 2}}\n";
    callgate = std::make_unique<Callgate>(yaml + more, options);
  }
  void kill() {
    callgate->process().signal(SIGKILL);
    (void)callgate->process().wait();
    callgate.reset();
  }

  /// A job with this key that says its key; the answer's status.
  int job(const std::string& key, const Pairs& headers = {}) const {
    Pairs all{{"Idempotency-Key", key}};
    all.insert(all.end(), headers.begin(), headers.end());
    return http("POST", callgate->data_url() + kChat, chat_saying("words of " + key), all).status;
  }
  [[nodiscard]] Json get(const std::string& path) const {
    const Response answer = http_get(callgate->admin_url() + path);
    EXPECT_EQ(answer.status, 200) << path << answer.body;
    return answer.status == 200 ? Json::parse(answer.body) : Json::object();
  }
  [[nodiscard]] Response post(const std::string& path) const {
    return http("POST", callgate->admin_url() + path, "");
  }
  [[nodiscard]] Json letters(const std::string& query = {}) const { return get("/v1/dead" + query).at("letters"); }
  [[nodiscard]] Json plan(const std::string& query) const {
    const Response answer = post("/v1/replays?reason=test&rate=1000&" + query);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body);
  }
  [[nodiscard]] Response start(const Json& planned) const {
    return post("/v1/replays/" + planned.at("id").get<std::string>() +
                "/start?digest=" + planned.at("digest").get<std::string>());
  }
  [[nodiscard]] Json replay(const Json& planned) const {
    return get("/v1/replays/" + planned.at("id").get<std::string>());
  }
  /// Once it is no longer running.
  [[nodiscard]] Json over(const Json& planned) const {
    EXPECT_TRUE(eventually([&] { return replay(planned).at("state") != "running"; }, 20s));
    return replay(planned);
  }
  [[nodiscard]] int requests() const { return provider.stats().at("requests").get<int>(); }

  std::string more;
  TempDir folder{};
  FakeProvider provider{};
  std::unique_ptr<Callgate> callgate{};
};

// Goal: whatever becomes of calls and runs, retried, edited and replayed, and though the process dies in the midst of
// it, the rows, their sums, the budgets and the metrics tell the same money, to the nano-dollar. Method: a seeded
// schedule over two lives, the first of which ends by SIGKILL with a call and a run under way.
TEST(Dead, every_sum_of_money_is_that_of_the_rows_whatever_was_done_and_though_it_died) {
  constexpr unsigned kSeed = 1'130;
  std::mt19937 random{kSeed};
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Lives lives{"runs: {max_attempts: 1}\ntenants: {default: {budget: {daily_usd: \"1000\"}}}\n"};
  const auto rows = [&](const std::string& sql) {
    return support::number_in(lives.folder.path() + "/calls.db", sql);
  };
  const auto figure = [&](std::string_view name, std::string_view labels = {}) {
    return std::llround(support::metric(http_get(lives.callgate->health_url() + "/metrics").body, name, labels) *
                        1e9);
  };
  const std::string runs = "/callgate/v1/runs";
  const auto order = [&](const std::string& words) {
    const Json run = {{"path", kChat}, {"body", Json::parse(chat_saying(words))}};
    const Response answer = http("POST", lives.callgate->data_url() + runs, run.dump());
    EXPECT_EQ(answer.status, 202) << answer.body;
    return answer.status == 202 ? Json::parse(answer.body).at("id").get<std::string>() : std::string{};
  };
  const auto over = [&](const std::string& id) {
    return Json::parse(http_get(lives.callgate->data_url() + runs + "/" + id + "?wait=20s").body).at("state");
  };
  const auto replay_all = [&] {
    const Json planned = lives.plan("class=server_error");
    if (planned.at("count") != 0 && lives.start(planned).status == 200) (void)lives.over(planned);
  };
  constexpr const char* kScript = R"([
    {"match": {"body_contains": "slow"}, "answer": {"hold": "door"}},
    {"match": {"body_contains": "wrong"}, "answer": 400},
    {"match": {"body_contains": "broken", "times": 30}, "answer": 500},
    {"answer": {"usage": {"input": 21, "output": 13}}}])";
  lives.provider.script(kScript);
  std::int64_t before = 0;  // What earlier lives had cost.
  const auto expect_one_sum = [&] {
    ASSERT_TRUE(eventually(
        [&] {
          return rows(
                     "SELECT (SELECT count(*) FROM calls WHERE state = 0) + (SELECT count(*) FROM attempts WHERE "
                     "state = 0) + (SELECT count(*) FROM runs WHERE state < 2)") == 0;
        },
        30s));
    const std::int64_t charged = rows("SELECT sum(charged_nano) FROM attempts");
    EXPECT_GT(charged, 0);
    EXPECT_EQ(rows("SELECT sum(charged_nano) FROM spend_by_period"), charged);
    EXPECT_EQ(rows("SELECT sum(cost_nano) FROM spend_by_period"), rows("SELECT sum(cost_nano) FROM attempts"));
    EXPECT_EQ(rows("SELECT count(*) FROM attempts WHERE charged_nano > reserved_nano"), 0)
        << "what is put aside is the most that it costs";
    EXPECT_TRUE(eventually([&] { return figure("callgate_budget_spent_usd", "period=\"day\"") == charged; }, 20s))
        << figure("callgate_budget_spent_usd", "period=\"day\"") << " and not " << charged;
    EXPECT_EQ(figure("callgate_budget_held_usd"), 0);
    EXPECT_EQ(figure("callgate_cost_usd_total"), rows("SELECT sum(cost_nano) FROM attempts") - before);
  };
  std::vector<std::string> dead;
  for (int life = 0; life < 2; ++life) {
    for (int i = 0; i < 30; ++i) {
      const std::string n = std::to_string(life) + "-" + std::to_string(i);
      switch (random() % 7) {
        case 0:
          EXPECT_EQ(lives.job("good" + n), 200);
          break;
        case 1:
          EXPECT_EQ(lives.job("wrong" + n), 400);
          break;
        case 2:
          (void)lives.job("broken" + n);
          break;
        case 3: {
          const std::string id = order("broken run " + n);
          if (over(id) == "dead") dead.push_back(id);
          break;
        }
        case 4:
          EXPECT_EQ(over(order("good run " + n)), "succeeded");
          break;
        case 5:
          if (dead.empty()) break;
          http("POST", lives.callgate->data_url() + runs + "/" + dead.back() + "/retry");
          (void)over(dead.back());
          dead.pop_back();
          break;
        default: {
          const Json open = lives.letters();
          if (!open.empty()) {
            (void)lives.post("/v1/dead/" + open[0].at("id").get<std::string>() +
                             "/edit?reason=x&set=%7B%22%2Fmodel%22%3A%22gpt-5-nano%22%7D");
          }
          replay_all();
        }
      }
    }
    if (life == 1) break;
    expect_one_sum();
    // A call and a run are cut off, and a caller leaves one.
    RawClient gone{lives.callgate->data_port()};
    gone.send(request_text("POST", kChat, chat_saying("slow, and left")));
    RawClient cut{lives.callgate->data_port()};
    cut.send(request_text("POST", kChat, chat_saying("slow, and cut")));
    (void)order("slow run");
    lives.provider.wait("held=3");
    { const RawClient leaving = std::move(gone); }
    lives.kill();
    before = rows("SELECT sum(cost_nano) FROM attempts");
    lives.provider.script(kScript);
    lives.provider.release("door");
    lives.begin();
    lives.provider.release("door");
  }
  lives.provider.release("door");
  expect_one_sum();
  EXPECT_GT(rows("SELECT count(*) FROM attempts WHERE state = 2"), 0) << "something was cut off";
  EXPECT_GT(rows("SELECT sum(resolved + dead_again) FROM replays"), 0) << "something was replayed";
}

TEST(Dead, a_job_that_finally_fails_leaves_a_letter_and_its_success_resolves_it) {
  const Lives lives;
  lives.provider.script(kFails);
  EXPECT_EQ(lives.job("k1"), 500);
  EXPECT_EQ(lives.job("k1"), 500) << "the queue delivers it again";
  EXPECT_EQ(lives.job("k2"), 500);
  const Json open = lives.letters();
  ASSERT_EQ(open.size(), 2u);
  const Json& first = open[1];
  EXPECT_EQ(first.at("key"), "k1");
  EXPECT_EQ(first.at("failures"), 2);
  EXPECT_EQ(first.at("class"), "server_error");
  EXPECT_EQ(first.at("advice"), "replay");
  EXPECT_EQ(first.at("group"), open[0].at("group"));
  EXPECT_EQ(first.at("cause"), "The server had an error on request #");
  const Json detail = lives.get("/v1/dead/" + first.at("id").get<std::string>() + "?request=true");
  ASSERT_EQ(detail.at("history").size(), 2u);
  EXPECT_EQ(detail.at("history")[0].at("attempts").size(), 2u);
  EXPECT_EQ(detail.at("kept_request").at("target"), kChat);
  EXPECT_EQ(detail.at("kept_request").at("body").at("messages")[0].at("content"), "words of k1");
  EXPECT_EQ(lives.get("/v1/audit").at("acts")[0].at("act"), "dead.reveal") << "who looks at a prompt leaves a trace";
  const Json groups = lives.get("/v1/dead/groups").at("groups");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].at("count"), 2);

  lives.provider.script(kWell);
  EXPECT_EQ(lives.job("k1"), 200);
  EXPECT_TRUE(eventually([&] { return lives.letters().size() == 1; }));
  EXPECT_EQ(lives.letters("?state=resolved")[0].at("key"), "k1");
}

TEST(Dead, only_what_somebody_can_do_something_about_leaves_one) {
  const Lives lives;
  lives.provider.script(
      R"([{"answer": {"status": 400, "json": {"error": {"message": "bad", "type": "invalid_request_error"}}}}])");
  EXPECT_EQ(lives.job("bad-request"), 400);
  lives.provider.script(kFails);
  EXPECT_EQ(http("POST", lives.callgate->data_url() + kChat, chat_saying("no key, no run id")).status, 500);
  EXPECT_EQ(lives.job("get-one"), 500);
  EXPECT_TRUE(eventually([&] { return lives.letters().size() == 1; }));
  EXPECT_EQ(lives.letters()[0].at("key"), "get-one");
}

TEST(Dead, no_secret_is_in_it) {
  const Lives lives;
  lives.provider.script(kFails);
  const Response answer = http("POST",
                               lives.callgate->data_url() + "/own/v1/chat/completions?api_key=MARKER1&key=MARKER2",
                               chat_saying("words"),
                               {{"Idempotency-Key", "s1"},
                                {"Authorization", "Bearer MARKER3"},
                                {"x-api-key", "MARKER4"},
                                {"Cookie", "MARKER5"},
                                {"X-Own-Secret", "MARKER6"}});
  EXPECT_EQ(answer.status, 500);
  ASSERT_EQ(lives.letters().size(), 1u);
  const std::string id = lives.letters()[0].at("id");
  EXPECT_EQ(lives.letters()[0].at("callers_key"), true);
  EXPECT_EQ(lives.get("/v1/dead/" + id + "?request=true").dump().find("MARKER"), std::string::npos);
  // Nobody's key is there to send: it is left out, not sent without one.
  lives.provider.script(kWell);
  const int before = lives.requests();
  const Json planned = lives.plan("key=s1");
  EXPECT_EQ(planned.at("count"), 0);
  EXPECT_EQ(planned.at("skipped_at_plan")[0].at("why"), "no_credential") << planned;
  EXPECT_EQ(lives.requests(), before);
  for (const auto& file : std::filesystem::directory_iterator{lives.folder.path()}) {
    std::ifstream in{file.path(), std::ios::binary};
    const std::string bytes{std::istreambuf_iterator<char>{in}, {}};
    EXPECT_EQ(bytes.find("MARKER"), std::string::npos) << file.path();
    EXPECT_EQ(bytes.find("sk-the-configured-key"), std::string::npos) << file.path();
  }
}

/// Whatever a provider says beside its answer may repeat a key: its code, its type, its message, its ids, its
/// headers.
TEST(Dead, what_a_provider_repeats_of_keys_is_nowhere) {
  Lives lives;
  const struct {
    std::string way;
    std::string key;  // Letters alone, so that no rule for keys of known forms sees it.
    Pairs headers;
    std::string query;
  } kCases[] = {
      {"openai", "sk-the-configured-key", {}, ""},
      {"own", "Markerofthecallerskey", {{"Authorization", "Bearer Markerofthecallerskey"}}, ""},
      {"own", "Markerinaquery", {}, "?api_key=Markerinaquery"},
      {"own", "Mark/er+of.base=", {{"x-api-key", "Mark/er+of.base="}}, ""},
  };
  std::string said;
  int number = 0;
  for (const auto& one : kCases) {
    const std::string& key = one.key;
    for (const std::string& code : {key, "bad_" + key + "_" + key, "K" + key.substr(0, 9)}) {
      lives.provider.script(Json::array({{{"answer",
                                           {{"status", 503},
                                            {"headers",
                                             {{"x-request-id", "req_" + key},
                                              {"request-id", key},
                                              {"x-note", "of " + key},
                                              {"retry-after", key}}},
                                            {"json",
                                             {{"error",
                                               {{"message", "no: " + key + ", that is " + key + "."},
                                                {"type", "type_" + key},
                                                {"param", key},
                                                {"code", code}}},
                                              {"model", key},
                                              {"id", key}}}}}}})
                                .dump());
      Pairs headers = one.headers;
      headers.emplace_back("Idempotency-Key", "echo-" + std::to_string(++number));
      const Response answer = http("POST",
                                   lives.callgate->data_url() + "/" + one.way + "/v1/chat/completions" + one.query,
                                   chat_saying("words"),
                                   headers);
      EXPECT_EQ(answer.status, 503) << answer.body;
      // A piece of ours is no key; to the caller the provider's words go on with the key itself masked.
      if (one.way == "openai" && code != "K" + key.substr(0, 9)) {
        said += answer.body;
        for (const auto& [name, value] : answer.headers) said += value + "\n";
      }
    }
  }
  ASSERT_EQ(lives.letters().size(), static_cast<std::size_t>(number));
  for (const Json& letter : lives.letters()) {
    said += lives.get("/v1/dead/" + letter.at("id").get<std::string>() + "?request=true").dump() + "\n";
    said += lives.get("/v1/calls/" + letter.at("call_id").get<std::string>()).dump() + "\n";
  }
  said +=
      lives.get("/v1/dead/groups").dump() + lives.get("/v1/unknown-answers").dump() + lives.get("/v1/audit").dump();
  said += http_get(lives.callgate->data_url() + "/callgate/v1/events?after=0").body;
  said += http_get(lives.callgate->health_url() + "/metrics").body;
  lives.callgate->process().signal(SIGTERM);
  (void)lives.callgate->process().wait();
  for (const std::string& line : lives.callgate->process().lines()) said += line + "\n";
  said += lives.callgate->process().err();
  for (const auto& file : std::filesystem::directory_iterator{lives.folder.path()}) {
    if (file.path().extension() == ".yaml") continue;
    std::ifstream in{file.path(), std::ios::binary};
    said.append(std::istreambuf_iterator<char>{in}, {});
  }
  EXPECT_NE(said.find("echo-1"), std::string::npos) << "or nothing was looked at";
  for (const auto& one : kCases) {
    // In any case of letters, and no piece of it either.
    std::string low;
    for (const char c : said) low += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    std::string key;
    for (const char c : one.key.substr(0, 9)) key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const std::size_t at = low.find(key);
    EXPECT_EQ(at, std::string::npos) << key << ": " << said.substr(at < 200 ? 0 : at - 200, 400);
  }
}

TEST(Dead, a_plan_leaves_out_letters_of_a_route_or_tenant_that_is_gone) {
  Lives lives{"routes: {old: {try: [openai]}}\n"};
  lives.provider.script(kFails);
  EXPECT_EQ(lives.job("k1"), 500);
  EXPECT_EQ(http("POST",
                 lives.callgate->data_url() + "/old/v1/chat/completions",
                 chat_saying("x"),
                 {{"Idempotency-Key", "k2"}})
                .status,
            500);
  EXPECT_EQ(lives.plan("class=server_error").at("count"), 2);
  lives.kill();
  lives.more.clear();
  lives.begin();
  const Json planned = lives.plan("class=server_error");
  EXPECT_EQ(planned.at("count"), 1) << planned;
  EXPECT_EQ(planned.at("skipped_at_plan"), Json::parse(R"([{"why":"not_configured","count":1}])"));
  ASSERT_EQ(planned.at("groups").size(), 1u);
  EXPECT_EQ(planned.at("groups")[0].at("count"), 1);
  EXPECT_EQ(planned.at("groups")[0].at("estimate").at("without_estimate"), 1);
}

TEST(Dead, a_replay_makes_good_what_failed_and_pays_once) {
  const Lives lives;
  lives.provider.script(kFails);
  constexpr int kJobs = 12;
  for (int i = 0; i < kJobs; ++i) EXPECT_EQ(lives.job("k" + std::to_string(i)), 500);
  lives.provider.script(kWell);
  EXPECT_EQ(lives.job("k3"), 200) << "one is done by its queue meanwhile";
  const int before = lives.requests();
  const std::string group = lives.letters()[0].at("group");
  const Json planned = lives.plan("group=" + group);
  EXPECT_EQ(planned.at("count"), kJobs - 1);
  EXPECT_EQ(lives.requests(), before) << "a plan sends nothing";
  ASSERT_EQ(lives.start(planned).status, 200);
  EXPECT_EQ(lives.start(planned).status, 200) << "twice is once";
  const Json end = lives.over(planned);
  EXPECT_EQ(end.at("state"), "done") << end;
  EXPECT_EQ(end.at("resolved"), kJobs - 1);
  EXPECT_EQ(lives.requests(), before + kJobs - 1);
  EXPECT_TRUE(lives.letters().empty());
  // The queue delivers them all once more: each gets the answer that the replay has bought.
  for (int i = 0; i < kJobs; ++i) EXPECT_EQ(lives.job("k" + std::to_string(i)), 200);
  EXPECT_EQ(lives.requests(), before + kJobs - 1);
  EXPECT_EQ(lives.plan("group=" + group).at("count"), 0);
}

TEST(Dead, a_plan_that_is_no_longer_true_is_refused) {
  const Lives lives;
  lives.provider.script(kFails);
  EXPECT_EQ(lives.job("k1"), 500);
  EXPECT_EQ(lives.job("k2"), 500);
  const Json planned = lives.plan("class=server_error");
  lives.provider.script(kWell);
  EXPECT_EQ(lives.job("k1"), 200);
  EXPECT_TRUE(eventually([&] { return lives.letters().size() == 1; }));
  const Response stale = lives.start(planned);
  EXPECT_EQ(stale.status, 409) << stale.body;
  Json other = planned;
  other["digest"] = "00";
  EXPECT_EQ(lives.start(other).status, 409);
  EXPECT_EQ(lives.replay(planned).at("state"), "planned");
}

TEST(Dead, a_replay_stops_by_itself_when_there_is_no_use_in_it) {
  const Lives lives;
  lives.provider.script(kFails);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(lives.job("k" + std::to_string(i)), 500);
  const int before = lives.requests();
  const Json still = lives.plan("class=server_error&canary=4");
  ASSERT_EQ(lives.start(still).status, 200);
  const Json end = lives.over(still);
  EXPECT_EQ(end.at("state"), "stopped") << end;
  EXPECT_EQ(end.at("dead_again"), 4);
  EXPECT_EQ(end.at("waiting"), 16);
  EXPECT_NE(end.at("why").get<std::string>().find("canary"), std::string::npos);
  EXPECT_EQ(lives.requests(), before + 2 * 4);

  // Mended, the same replay goes on: what died before says nothing of now.
  lives.provider.script(kWell);
  ASSERT_EQ(lives.start(still).status, 200);
  const Json done = lives.over(still);
  EXPECT_EQ(done.at("state"), "done") << done;
  EXPECT_EQ(done.at("resolved"), 16);

  // Those of the canary are dead still; their key is refused now.
  lives.provider.script(kRefusesKey);
  const Json locked = lives.plan("class=server_error&canary=10&concurrency=1");
  ASSERT_EQ(lives.start(locked).status, 200);
  const Json stopped = lives.over(locked);
  EXPECT_EQ(stopped.at("state"), "stopped") << stopped;
  EXPECT_EQ(stopped.at("dead_again"), 1) << stopped;
  EXPECT_NE(stopped.at("why").get<std::string>().find("auth"), std::string::npos);
}

TEST(Dead, a_key_that_the_provider_says_in_base64_reaches_neither_caller_nor_letter) {
  const Lives lives;
  // Of it alone, and as a password behind names of different length.
  const std::string in_base64 =
      "c2stdGhlLWNvbmZpZ3VyZWQta2V5 dTpzay10aGUtY29uZmlndXJlZC1rZXk= "
      "dXNyOnNrLXRoZS1jb25maWd1cmVkLWtleTp4 bWU6c2stdGhlLWNvbmZpZ3VyZWQta2V5";
  lives.provider.script(R"([{"answer": {"status": 500, "json": {"error": {"message": "Basic )" + in_base64 +
                        R"( is wrong", "type": "server_error", "code": "c2stdGhlLWNvbmZpZ3VyZWQta2V5"}}}}])");
  const Response told =
      http("POST", lives.callgate->data_url() + kChat, chat_saying("words"), {{"Idempotency-Key", "k1"}});
  EXPECT_EQ(told.status, 500);
  const std::string id = lives.letters()[0].at("id");
  const std::string all = told.body + lives.get("/v1/dead/" + id).dump() + lives.get("/v1/unknown-answers").dump();
  for (const char* part : {"dGhlLWNvbmZpZ3VyZW", "RoZS1jb25maWd1cm", "0aGUtY29uZmlndX"}) {
    EXPECT_NE(in_base64.find(part), std::string::npos);
    EXPECT_EQ(all.find(part), std::string::npos) << part << all;
  }
}

TEST(Dead, a_replay_goes_on_after_every_death_and_pays_once) {
  Lives lives;
  lives.provider.script(kFails);
  constexpr int kJobs = 40;
  for (int i = 0; i < kJobs; ++i) EXPECT_EQ(lives.job("k" + std::to_string(i)), 500);
  lives.provider.script(R"([{"answer": {"delay_ms": 20, "status": 200, "json": {"id":"c","object":"chat.completion",
      "model":"gpt-5-mini","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],
      "usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}}}])");
  const int before = lives.requests();
  const Json planned = lives.plan("class=server_error&concurrency=4");
  ASSERT_EQ(lives.start(planned).status, 200);
  int in_flight = 0;
  for (const int until : {8, 18, 28}) {
    EXPECT_TRUE(eventually([&] { return lives.replay(planned).at("resolved") >= until; }, 20s));
    lives.kill();
    in_flight += 4;
    lives.begin();
  }
  const Json end = lives.over(planned);
  EXPECT_EQ(end.at("state"), "done") << end;
  EXPECT_EQ(end.at("resolved"), kJobs) << end;
  EXPECT_TRUE(lives.letters().empty());
  EXPECT_GE(lives.requests(), before + kJobs);
  EXPECT_LE(lives.requests(), before + kJobs + in_flight);
}

TEST(Dead, an_edited_request_is_what_is_replayed) {
  const Lives lives;
  lives.provider.script(kFails);
  EXPECT_EQ(lives.job("k1"), 500);
  lives.provider.script(kWell);
  const std::string id = lives.letters()[0].at("id");
  const std::string set = "%7B%22%2Fmodel%22%3A%22gpt-5-nano%22%7D";  // {"/model":"gpt-5-nano"}
  const Response dry = lives.post("/v1/dead/" + id + "/edit?dry=true&set=" + set);
  EXPECT_EQ(dry.status, 200) << dry.body;
  EXPECT_EQ(lives.letters()[0].at("revision"), 0);
  EXPECT_EQ(lives.post("/v1/dead/" + id + "/edit?set=" + set).status, 400) << "a reason is asked for";
  const Response edited = lives.post("/v1/dead/" + id + "/edit?reason=other%20model&set=" + set);
  ASSERT_EQ(edited.status, 200) << edited.body;
  EXPECT_EQ(Json::parse(edited.body).at("revision"), 1);
  EXPECT_EQ(Json::parse(edited.body).at("difference")[0].at("is"), "gpt-5-nano");
  const Json planned = lives.plan("id=" + id);
  ASSERT_EQ(lives.start(planned).status, 200);
  EXPECT_EQ(lives.over(planned).at("resolved"), 1);
  const int bought = lives.requests();
  EXPECT_EQ(lives.job("k1"), 200) << "the queue delivers the job as it was, and gets the answer that was bought";
  EXPECT_EQ(lives.requests(), bought);
  const Json seen = lives.provider.seen();
  EXPECT_NE(seen.back().dump().find("gpt-5-nano\\\""), std::string::npos) << seen.back();
}

TEST(Dead, discarding_needs_a_reason_and_leaves_a_trace) {
  const Lives lives;
  lives.provider.script(kFails);
  EXPECT_EQ(lives.job("k1"), 500);
  EXPECT_EQ(lives.job("k2"), 500);
  EXPECT_EQ(lives.post("/v1/dead/discard?class=server_error").status, 400);
  EXPECT_EQ(lives.post("/v1/dead/discard?reason=all").status, 400) << "everything is not what anybody means";
  const Response done = lives.post("/v1/dead/discard?class=server_error&reason=test");
  ASSERT_EQ(done.status, 200) << done.body;
  EXPECT_EQ(Json::parse(done.body).at("count"), 2);
  EXPECT_TRUE(lives.letters().empty());
  EXPECT_EQ(lives.letters("?state=discarded").size(), 2u);
  const Json act = lives.get("/v1/audit").at("acts")[0];
  EXPECT_EQ(act.at("act"), "dead.discard");
  EXPECT_EQ(act.at("reason"), "test");
}

TEST(Dead, a_tenant_s_question_is_answered_of_its_own_alone) {
  const Lives lives;
  lives.provider.script(kFails);
  EXPECT_EQ(lives.job("k", {{"Callgate-Tenant", "a"}}), 500);
  EXPECT_EQ(lives.job("k", {{"Callgate-Tenant", "b"}}), 500);
  const Json of_a = lives.letters("?tenant=a");
  ASSERT_EQ(of_a.size(), 1u);
  const std::string id = of_a[0].at("id");
  EXPECT_EQ(http_get(lives.callgate->admin_url() + "/v1/dead/" + id + "?tenant=b").status, 404);
  EXPECT_EQ(lives.plan("tenant=b").at("count"), 1);
}

TEST(Dead, without_payloads_a_letter_is_there_but_cannot_be_replayed) {
  const Lives lives{"store: {path: calls.db}\n"};
  lives.provider.script(kFails);
  EXPECT_EQ(lives.job("k1"), 500);
  ASSERT_EQ(lives.letters().size(), 1u);
  EXPECT_EQ(lives.letters()[0].at("request"), "left_out");
  const Json planned = lives.plan("key=k1");
  EXPECT_EQ(planned.at("count"), 0);
  EXPECT_EQ(planned.at("skipped_at_plan")[0].at("why"), "no_request");
}

TEST(Dead, bad_questions_are_told_what_is_wrong) {
  const Lives lives;
  for (const char* path : {"/v1/dead?state=ripe",
                           "/v1/dead?most=0",
                           "/v1/dead?colour=red",
                           "/v1/dead?queue=",
                           "/v1/dead/groups?since=yesterday"}) {
    const Response answer = http_get(lives.callgate->admin_url() + path);
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_FALSE(Json::parse(answer.body).at("detail").get<std::string>().empty());
  }
  EXPECT_EQ(http_get(lives.callgate->admin_url() + "/v1/dead/nobody").status, 404);
  EXPECT_EQ(http_get(lives.callgate->admin_url() + "/v1/replays/nobody").status, 404);
  EXPECT_EQ(lives.post("/v1/replays/nobody/start?digest=1").status, 404);
  EXPECT_EQ(lives.post("/v1/replays?reason=x&rate=-1").status, 400);
  EXPECT_EQ(lives.post("/v1/replays?reason=x&rate=nan").status, 400);
  EXPECT_EQ(lives.post("/v1/replays?reason=x&max_cost_usd=lots").status, 400);
  EXPECT_EQ(http_get(lives.callgate->admin_url() + "/v1/dead/discard").status, 405);
}

}  // namespace dead_test
