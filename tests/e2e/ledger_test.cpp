// Goal: what callgate knows outlives it, whichever way it ends, and whoever follows the feed hears of every call
// once. Method: the real binary with a file of its own, killed and started again in the same directory.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/house.h"
#include "tests/support/ledger_file.h"
#include "tests/support/pace.h"

namespace ledger_test {

using Json = nlohmann::json;
using support::Callgate;
using support::FakeProvider;
using support::http;
using support::http_get;
using support::kUnary;
using support::RawClient;
using support::Response;
using support::TempDir;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using HeaderList = std::vector<std::pair<std::string, std::string>>;

/// One provider, and callgates one after the other on one file.
struct Lives {
  explicit Lives(std::string more_in) : more(std::move(more_in)) { begin(); }

  void begin(const std::string& other = {}) {
    Callgate::Options options;
    options.directory = folder.path();
    callgate = std::make_unique<Callgate>(
        "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nupstreams: {openai: {url: " + provider.url() + "}}\n" +
            (other.empty() ? more : other),
        options);
  }
  void kill() {
    callgate->process().signal(SIGKILL);
    (void)callgate->process().wait();
    callgate.reset();
  }
  Response chat(const std::string& body = kUnary, const HeaderList& headers = {}) const {
    return http("POST", callgate->data_url() + "/openai/v1/chat/completions", body, headers);
  }
  [[nodiscard]] Json admin(const std::string& path) const {
    return Json::parse(http_get(callgate->admin_url() + path).body);
  }
  /// The line with that event among those said so far; what is said before it listens is passed over elsewhere.
  [[nodiscard]] Json said(std::string_view event) const {
    for (const std::string& line : callgate->process().lines()) {
      Json json = Json::parse(line);
      if (json.at("event") == event) return json;
    }
    return {};
  }
  Response order(const std::string& what) const { return http("POST", callgate->admin_url() + "/v1/" + what); }
  [[nodiscard]] Json budget(const std::string& period) const {
    const Json all = admin("/v1/budgets");
    for (const Json& one : all.at("budgets")) {
      if (one.at("period") == period) return one;
    }
    return {};
  }
  [[nodiscard]] double figure(std::string_view name, std::string_view labels = {}) const {
    return support::metric(http_get(callgate->health_url() + "/metrics").body, name, labels);
  }
  [[nodiscard]] Json events(const std::string& query, const HeaderList& headers = {}) const {
    const Response answer = http("GET", callgate->data_url() + "/callgate/v1/events?" + query, {}, headers);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body);
  }

  std::string more;
  TempDir folder{};
  FakeProvider provider{};
  std::unique_ptr<Callgate> callgate{};
};

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

constexpr const char* kBudgeted =
    "tenants: {default: {budget: {daily_usd: '1.00', monthly_usd: '2.00', per_run_usd: '0.5'}}}\n";

TEST(Ledger, budgets_grants_and_pauses_outlive_a_kill) {
  Lives lives{kBudgeted};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lives.chat(kUnary, {{"Callgate-Run-Id", "r"}}).status, 200);
  const std::string spent = lives.budget("day").at("spent_usd");
  EXPECT_NE(spent, "0");
  EXPECT_EQ(lives.order("budgets/grant?tenant=default&period=day&usd=0.25").status, 200);
  EXPECT_EQ(lives.order("budgets/grant?tenant=default&period=run&run_id=r&usd=0.125").status, 200);
  EXPECT_EQ(lives.order("pause?what=lane&name=backfill&for_ms=3600000").status, 200);
  EXPECT_EQ(lives.order("pause?what=tenant&name=default").status, 200);
  EXPECT_EQ(lives.order("resume?what=tenant&name=default").status, 200);
  // The act's answer does not wait for the disk.
  EXPECT_TRUE(support::eventually(
      [&] { return lives.admin("/v1/audit").dump().find("tenant.resume") != std::string::npos; }));

  lives.kill();
  lives.begin();
  EXPECT_EQ(lives.budget("day").at("spent_usd"), spent);
  EXPECT_EQ(lives.budget("month").at("spent_usd"), spent);
  EXPECT_EQ(lives.budget("run").at("spent_usd"), spent);
  EXPECT_EQ(lives.budget("day").at("limit_usd"), "1.25");
  EXPECT_EQ(lives.budget("month").at("limit_usd"), "2");
  EXPECT_EQ(lives.budget("run").at("limit_usd"), "0.625");
  const Json status = lives.admin("/v1/status");
  for (const Json& lane : status.at("lanes")) {
    EXPECT_EQ(lane.at("paused").is_null(), lane.at("name") != "backfill") << lane;
  }
  EXPECT_EQ(lives.chat().status, 200) << "who was resumed stays so";
}

/// What was on its way when it died may have been paid: it is charged, and told.
TEST(Ledger, F05_an_attempt_that_a_kill_cut_off_is_charged_and_told) {
  Lives lives{kBudgeted};
  lives.provider.script(R"([{"answer": {"hold": "door"}}])");
  RawClient client{lives.callgate->data_port()};
  const std::string body = R"({"model":"gpt-5-mini","max_tokens":1000,"messages":[{"role":"user","content":"hi"}]})";
  client.send(support::request_text("POST", "/openai/v1/chat/completions", body, {}));
  lives.provider.wait("held=1");
  EXPECT_TRUE(support::eventually([&] { return lives.figure("callgate_store_rows_total") > 0; }));
  lives.kill();
  lives.begin();
  EXPECT_EQ(lives.said("outcomes_unknown").value("attempts", 0), 1);
  EXPECT_EQ(support::awaited(1, [&] { return lives.figure("callgate_outcomes_unknown_total"); }), 1);
  EXPECT_NE(lives.budget("day").at("spent_usd"), "0");
  const Json page = lives.events("after=0");
  ASSERT_EQ(page.at("events").size(), 1u);
  EXPECT_EQ(page.at("events").at(0).at("type"), "call.unknown");
  const std::string once = lives.budget("day").at("spent_usd");
  lives.kill();
  lives.begin();
  EXPECT_EQ(lives.budget("day").at("spent_usd"), once) << "it is charged once, however often we start";
}

/// A tenant whose budget comes with a reload has spent what its rows say.
TEST(Ledger, a_budget_that_comes_with_a_reload_knows_what_was_spent) {
  Lives lives{"retry: {base: 10ms}\n"};
  EXPECT_EQ(lives.chat().status, 200);
  lives.callgate->write_config("listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nupstreams: {openai: {url: " +
                               lives.provider.url() + "}}\n" + kBudgeted);
  EXPECT_TRUE(support::eventually([&] { return !lives.budget("day").is_null(); }));
  EXPECT_EQ(lives.budget("day").at("spent_usd"), "0.00003125");
}

TEST(Ledger, a_second_callgate_on_the_same_file_does_not_start) {
  Lives lives{""};
  support::Process second{{CALLGATE_EXE,
                           "serve",
                           "--set",
                           "listen.data=127.0.0.1:0",
                           "--set",
                           "listen.health=127.0.0.1:0",
                           "--set",
                           "listen.admin=127.0.0.1:0"},
                          {.env = {}, .directory = lives.folder.path()}};
  EXPECT_EQ(second.wait(), 1);
  EXPECT_NE(second.err().find(std::to_string(lives.callgate->process().pid())), std::string::npos) << second.err();
  EXPECT_EQ(lives.chat().status, 200);
}

TEST(Ledger, without_a_usable_file_calls_are_served_and_it_is_told_or_it_does_not_start) {
  const TempDir folder;
  const std::string nowhere = folder.path() + "/no/such/folder/callgate.db";
  {
    Lives lives{"store: {path: " + nowhere + "}\n"};
    const Json line = lives.said("store_failed");
    EXPECT_NE(line.value("msg", "").find(nowhere), std::string::npos) << line;
    EXPECT_EQ(lives.figure("callgate_store_up"), 0);
    EXPECT_EQ(lives.chat().status, 200);
    EXPECT_EQ(lives.events("after=0").at("events").size(), 1u);
  }
  support::Process strict{{CALLGATE_EXE,
                           "serve",
                           "--set",
                           "listen.data=127.0.0.1:0",
                           "--set",
                           "store.on_failure=refuse",
                           "--set",
                           "store.path=" + nowhere}};
  EXPECT_EQ(strict.wait(), 1);
  EXPECT_NE(strict.err().find(nowhere), std::string::npos) << strict.err();
}

TEST(Ledger, a_place_that_is_there_at_last_takes_what_was_known_without_a_restart) {
  const TempDir folder;
  const std::string volume = folder.path() + "/volume";
  Lives lives{"store: {path: " + volume + "/callgate.db}\n"};
  EXPECT_EQ(lives.chat().status, 200);
  const Response ready = http_get(lives.callgate->health_url() + "/readyz");
  EXPECT_EQ(ready.status, 200);
  EXPECT_NE(ready.body.find("not in the file"), std::string::npos) << ready.body;
  std::filesystem::create_directory(volume);
  EXPECT_EQ(support::awaited(1, [&] { return lives.figure("callgate_store_up"); }), 1);
  EXPECT_EQ(lives.callgate->process().json_line("store_moved").at("level"), "error");
  (void)lives.callgate->process().json_line("store_recovered");
  EXPECT_EQ(http_get(lives.callgate->health_url() + "/readyz").body, "ok\n");
  EXPECT_EQ(lives.chat().status, 200);
  EXPECT_TRUE(support::eventually([&] { return lives.events("after=0").at("events").size() == 2; }));
  lives.kill();
  lives.begin();
  EXPECT_EQ(lives.events("after=0").at("events").size(), 2u);
}

TEST(Ledger, a_file_that_is_removed_is_noticed_and_a_kill_afterwards_loses_nothing) {
  Lives lives{"store: {payloads: plain}\n"};
  const HeaderList key{{"Idempotency-Key", "job:1"}};
  EXPECT_EQ(lives.chat(kUnary, key).status, 200);
  ASSERT_TRUE(std::filesystem::remove(lives.folder.path() + "/callgate.db"));
  EXPECT_EQ(support::awaited(1, [&] { return lives.figure("callgate_store_moves_total"); }), 1);
  EXPECT_NE(lives.callgate->process().json_line("store_moved").value("msg", "").find("removed"), std::string::npos);
  EXPECT_EQ(support::awaited(1, [&] { return lives.figure("callgate_store_up"); }), 1);
  EXPECT_EQ(lives.chat().status, 200);
  lives.kill();
  lives.begin();
  EXPECT_EQ(lives.chat(kUnary, key).header("callgate-idempotency"), "replayed");
  EXPECT_EQ(lives.events("after=0").at("events").size(), 3u);
  EXPECT_EQ(lives.provider.stats().at("requests"), 2);
}

/// Neither keys nor what was asked and answered is in the file, unless it is told to keep answers.
TEST(Ledger, F36_no_key_and_no_body_is_in_the_file) {
  const TempDir keys;
  const std::string payload_key = keys.file("payload-key", "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=\n");
  for (const std::string& store :
       {std::string{"store: {}\n"}, "store: {payload_key: {file: " + payload_key + "}}\n"}) {
    SCOPED_TRACE(store);
    Lives lives{store};
    lives.provider.script(R"([{"answer": {"status": 200, "json": {"id": "c", "object": "chat.completion",
      "model": "gpt-5-mini", "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}, "choices": [
      {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "marker-of-the-answer"}}]}}}])");
    const std::string body =
        R"({"model":"gpt-5-mini","messages":[{"role":"user","content":"marker-of-the-prompt"}]})";
    for (const char* run : {"r1", "r2"}) {
      const Response answer = lives.chat(
          body,
          {{"Authorization", "Bearer sk-marker-of-the-key"}, {"Idempotency-Key", "k1"}, {"Callgate-Run-Id", run}});
      EXPECT_EQ(answer.status, 200);
      EXPECT_NE(answer.body.find("marker-of-the-answer"), std::string::npos) << "else nothing is shown";
    }
    EXPECT_EQ(lives.callgate->stop(), 0);
    std::string all;
    for (const auto& entry : std::filesystem::directory_iterator(lives.folder.path())) {
      if (entry.path().filename().string().starts_with("callgate.db")) all += text_of(entry.path());
    }
    EXPECT_NE(all.find("gpt-5-mini"), std::string::npos) << "this is the file";
    EXPECT_EQ(all.find("marker-of"), std::string::npos);
  }
}

/// The write lock of SQLite's log (https://www.sqlite.org/walformat.html, 2.3.2), held by somebody else.
class LockedStore {
 public:
  explicit LockedStore(const std::string& folder) : file_(::open((folder + "/callgate.db-shm").c_str(), O_RDWR)) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = 120;
    lock.l_len = 1;
    held_ = file_ >= 0 && ::fcntl(file_, F_SETLKW, &lock) == 0;
  }
  ~LockedStore() { ::close(file_); }
  LockedStore(const LockedStore&) = delete;
  LockedStore& operator=(const LockedStore&) = delete;
  [[nodiscard]] bool held() const { return held_; }

 private:
  int file_;
  bool held_ = false;
};

TEST(Ledger, F44_a_locked_store_kills_nobody_and_loses_nothing) {
  Lives lives{"store: {commit_wait: 50ms}\n"};
  EXPECT_EQ(lives.chat().status, 200);
  {
    const LockedStore lock{lives.folder.path()};
    ASSERT_TRUE(lock.held());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(lives.chat().status, 200) << "calls go on";
    EXPECT_EQ(http_get(lives.callgate->health_url() + "/livez").status, 200);
    EXPECT_EQ(http_get(lives.callgate->health_url() + "/readyz").status, 200);
    EXPECT_EQ(support::awaited(0, [&] { return lives.figure("callgate_store_up"); }), 0) << "but it is told";
    EXPECT_GE(lives.figure("callgate_commits_late_total"), 3);
    EXPECT_EQ(lives.callgate->process().json_line("store_failed").at("level"), "error");
  }
  EXPECT_EQ(support::awaited(1, [&] { return lives.figure("callgate_store_up"); }), 1);
  EXPECT_EQ(support::awaited(4, [&] { return static_cast<double>(lives.events("after=0").at("events").size()); }), 4);
  EXPECT_EQ(lives.figure("callgate_store_rows_lost_total"), 0);
}

/// Nor is a job bought again that was done meanwhile.
TEST(Ledger, F44_what_was_done_while_the_store_was_locked_is_known_afterwards) {
  Lives lives{"store: {commit_wait: 50ms, payloads: plain}\n"};
  const HeaderList key{{"Idempotency-Key", "job:1"}};
  EXPECT_EQ(lives.chat(kUnary, {{"Idempotency-Key", "job:0"}}).status, 200);
  {
    const LockedStore lock{lives.folder.path()};
    ASSERT_TRUE(lock.held());
    EXPECT_EQ(lives.chat(kUnary, key).status, 200);
    EXPECT_EQ(lives.chat(kUnary, key).header("callgate-idempotency"), "joined") << "memory knows it";
    EXPECT_EQ(support::awaited(0, [&] { return lives.figure("callgate_store_up"); }), 0);
  }
  EXPECT_EQ(support::awaited(1, [&] { return lives.figure("callgate_store_up"); }), 1);
  EXPECT_TRUE(support::eventually(
      [&] { return support::number_in(lives.folder.path() + "/callgate.db", "SELECT count(*) FROM calls") == 3; }));
  lives.kill();
  lives.begin();
  EXPECT_EQ(lives.chat(kUnary, key).header("callgate-idempotency"), "replayed");
  EXPECT_EQ(lives.provider.stats().at("requests"), 2);
}

/// A disk that refuses to be written can be read.
TEST(Ledger, F44_a_job_of_an_earlier_process_is_not_paid_again_while_the_store_is_locked) {
  Lives lives{"store: {commit_wait: 50ms, payloads: plain}\n"};
  const HeaderList key{{"Idempotency-Key", "job:1"}};
  EXPECT_EQ(lives.chat(kUnary, key).status, 200);
  lives.kill();
  lives.begin();
  const LockedStore lock{lives.folder.path()};
  ASSERT_TRUE(lock.held());
  EXPECT_EQ(lives.chat().status, 200);
  EXPECT_EQ(support::awaited(0, [&] { return lives.figure("callgate_store_up"); }), 0);
  EXPECT_EQ(lives.chat(kUnary, key).header("callgate-idempotency"), "replayed");
  EXPECT_EQ(lives.chat(R"({"model":"gpt-5-mini","messages":[]})", key).status, 422);
  EXPECT_EQ(lives.provider.stats().at("requests"), 2);
}

/// Whoever stops it was told how long that takes.
TEST(Ledger, an_end_keeps_its_time_with_a_store_that_refuses) {
  Lives lives{"store: {commit_wait: 50ms}\nshutdown: {drain: 500ms}\n"};
  lives.provider.script(R"([{"answer": {"hold": "door"}}])");
  const LockedStore lock{lives.folder.path()};
  ASSERT_TRUE(lock.held());
  RawClient client{lives.callgate->data_port()};
  client.send(support::request_text("POST", "/openai/v1/chat/completions", kUnary, {}));
  lives.provider.wait("held=1");
  EXPECT_EQ(support::awaited(0, [&] { return lives.figure("callgate_store_up"); }), 0);
  const Clock::time_point begun = Clock::now();
  lives.callgate->process().signal(SIGTERM);
  const Json line = lives.callgate->process().json_line("draining");
  EXPECT_EQ(line.value("end_takes_ms", 0), 5'500);
  EXPECT_EQ(lives.callgate->process().wait(), 1) << "rows were lost, and that is told";
  EXPECT_LE(Clock::now() - begun, 5'500ms);
}

/// With store.on_failure: refuse, nothing is called that could not be remembered.
TEST(Ledger, F44_where_all_must_be_remembered_a_locked_store_refuses_and_is_not_ready) {
  Lives lives{"store: {commit_wait: 50ms, on_failure: refuse}\n"};
  EXPECT_EQ(lives.chat().status, 200);
  {
    const LockedStore lock{lives.folder.path()};
    ASSERT_TRUE(lock.held());
    EXPECT_TRUE(support::eventually([&] { return lives.chat().status == 503; }));
    const Response refused = lives.chat();
    EXPECT_NE(refused.body.find("callgate_store"), std::string::npos) << refused.body;
    EXPECT_EQ(refused.header("retry-after"), "1");
    const Response ready = http_get(lives.callgate->health_url() + "/readyz");
    EXPECT_EQ(ready.status, 503);
    EXPECT_NE(ready.body.find("store"), std::string::npos) << ready.body;
    EXPECT_EQ(http_get(lives.callgate->health_url() + "/livez").status, 200);
  }
  EXPECT_TRUE(support::eventually([&] { return lives.chat().status == 200; }));
}

// ---- The feed

TEST(Events, are_read_on_from_where_one_was) {
  Lives lives{"tenants: {default: {}, other: {}}\n"};
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(lives.chat(kUnary, {{"Callgate-Run-Id", "r" + std::to_string(i)}}).status, 200);
  EXPECT_EQ(lives.chat(kUnary, {{"Callgate-Tenant", "other"}}).status, 200);
  const auto ids = [](const Json& page) {
    std::vector<std::string> all;
    for (const Json& event : page.at("events")) all.push_back(event.at("data").value("run_id", ""));
    return all;
  };
  const Json first = lives.events("after=0&limit=3");
  EXPECT_EQ(ids(first), (std::vector<std::string>{"r0", "r1", "r2"}));
  const Json rest = lives.events("after=" + first.at("next").dump());
  EXPECT_EQ(ids(rest), (std::vector<std::string>{"r3", "r4"})) << "another tenant's are nobody else's";
  EXPECT_EQ(rest.at("next"), 6) << "but passed over";
  EXPECT_TRUE(lives.events("").at("events").empty()) << "from now on";
  EXPECT_EQ(lives.events("after=0", {{"Callgate-Tenant", "other"}}).at("events").size(), 1u);

  // Over a restart, the numbers go on.
  lives.kill();
  lives.begin();
  EXPECT_EQ(lives.events("after=0&limit=3"), first);
  EXPECT_EQ(lives.chat().status, 200);
  EXPECT_EQ(lives.events("after=6").at("events").at(0).at("id"), 7);
}

TEST(Events, a_long_poll_is_answered_when_something_happens) {
  Lives lives{""};
  RawClient poll{lives.callgate->data_port()};
  poll.send(support::request_text("GET", "/callgate/v1/events?wait=30s", {}, {}));
  EXPECT_TRUE(support::eventually([&] { return lives.figure("callgate_event_subscribers") == 1; }));
  EXPECT_EQ(lives.chat().status, 200);
  const Response answer = poll.read_response();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(Json::parse(answer.body).at("events").size(), 1u) << answer.body;
  EXPECT_EQ(support::awaited(0, [&] { return lives.figure("callgate_event_subscribers"); }), 0);

  const auto begun = Clock::now();
  EXPECT_TRUE(lives.events("after=1&wait=50ms").at("events").empty());
  EXPECT_GE(Clock::now() - begun, 50ms);
}

TEST(Events, come_as_server_sent_events_until_a_drain) {
  Lives lives{""};
  EXPECT_EQ(lives.chat().status, 200);
  RawClient stream{lives.callgate->data_port()};
  stream.send(support::request_text(
      "GET", "/callgate/v1/events", {}, {{"Accept", "text/event-stream"}, {"Last-Event-ID", "0"}}));
  EXPECT_TRUE(support::eventually([&] { return lives.figure("callgate_event_subscribers") == 1; }));
  EXPECT_EQ(lives.chat().status, 200);
  // A drain ends it properly, and nothing that was written is lost.
  EXPECT_TRUE(support::eventually([&] { return lives.events("after=0").at("events").size() == 2; }));
  support::dawdle(50ms);
  lives.callgate->process().signal(SIGTERM);
  const Response answer = stream.read_response();
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("id: 1\nevent: call.ended\ndata: {"), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find("id: 2\nevent: call.ended\ndata: {"), std::string::npos) << answer.body;
  EXPECT_EQ(lives.callgate->process().wait(), 0);
}

TEST(Events, odd_questions_are_refused_with_what_would_be_right) {
  Lives lives{""};
  const auto ask = [&](const std::string& method, const std::string& query, const HeaderList& headers = {}) {
    return http(method, lives.callgate->data_url() + "/callgate/v1/events" + query, {}, headers);
  };
  for (const char* query : {"?after=-1",
                            "?after=x",
                            "?after=99999999999999999999",
                            "?wait=2m",
                            "?wait=soon",
                            "?limit=0",
                            "?limit=1001",
                            "?since=7"}) {
    const Response answer = ask("GET", query);
    EXPECT_EQ(answer.status, 400) << query;
    EXPECT_EQ(answer.header("content-type"), "application/problem+json");
  }
  EXPECT_EQ(ask("POST", "").status, 405);
  EXPECT_EQ(ask("GET", "", {{"Accept", "text/event-stream"}, {"Last-Event-ID", "seven"}}).status, 400);
  EXPECT_EQ(ask("GET", "?after=0").status, 200);
  for (const char* query : {"?after=1", "?after=1000", "?after=9223372036854775807"})
    EXPECT_EQ(ask("GET", query).status, 410) << query << " is of another file";
}

}  // namespace ledger_test
