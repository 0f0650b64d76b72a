// Goal: who is called at night finds what the alert names: a section that says what to do with commands that exist,
// and a panel that shows something. Method: the shipped rules, dashboard and documents are held against each other
// and against a running callgate, which a real Prometheus scrapes.

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/house.h"

namespace {

using Json = nlohmann::json;
using support::Callgate;
using support::chat_saying;
using support::eventually;
using support::FakeProvider;
using support::http;
using support::http_get;
using support::Process;
using support::Response;
using support::TempDir;
using namespace std::chrono_literals;
using Pairs = std::vector<std::pair<std::string, std::string>>;

const std::string kRoot = PROJECT_ROOT;
const std::string kAlerts = kRoot + "/helm/callgate/files/alerts.yaml";

std::string read(const std::string& path) {
  std::ifstream file{path};
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// What a program has to say; empty if it ended well and said nothing but that.
std::string trouble(const std::vector<std::string>& command) {
  Process process{command};
  const int code = process.wait(60s);
  std::string said = process.err();
  for (const std::string& line : process.lines()) said += line + "\n";
  return code == 0 ? "" : "exit code " + std::to_string(code) + "\n" + said;
}

struct Alert {
  std::string name, expr;
  std::map<std::string, std::string> labels, annotations;
};
std::vector<Alert> shipped_alerts() {
  std::vector<Alert> alerts;
  for (const YAML::Node& group : YAML::LoadFile(kAlerts)["groups"]) {
    for (const YAML::Node& rule : group["rules"]) {
      if (!rule["alert"]) continue;
      alerts.push_back({rule["alert"].as<std::string>(),
                        rule["expr"].as<std::string>(),
                        rule["labels"].as<std::map<std::string, std::string>>(),
                        rule["annotations"].as<std::map<std::string, std::string>>()});
    }
  }
  return alerts;
}

struct Query {
  int panel = 0;
  std::string title, expr;
};
std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}
/// As Grafana would send it with everything chosen.
std::string chosen(std::string expr) {
  expr = replaced(std::move(expr), "$__rate_interval", "1m");
  return std::regex_replace(expr, std::regex{R"(\$(namespace|instance|upstream|model|tenant)\b)"}, ".*");
}
Json dashboard() { return Json::parse(read(kRoot + "/helm/callgate/files/dashboard.json")); }
std::vector<Query> queries() {
  std::vector<Query> all;
  const Json board = dashboard();  // A temporary of a range-for's would not live to its end.
  for (const Json& panel : board.at("panels")) {
    const Json targets = panel.value("targets", Json::array());
    for (const Json& target : targets) all.push_back({panel.at("id"), panel.at("title"), chosen(target.at("expr"))});
  }
  return all;
}

std::set<std::string> metrics_in(const std::string& text) {
  std::set<std::string> names;
  const std::regex name{R"(\b(callgate|process)_[a-z0-9_]+)"};
  for (std::sregex_iterator found{text.begin(), text.end(), name}; found != std::sregex_iterator{}; ++found)
    names.insert(found->str());
  return names;
}
/// Families of a scrape, by their TYPE lines; of a histogram also what its series are called.
std::set<std::string> families_in(const std::string& scrape) {
  std::set<std::string> names;
  std::istringstream lines{scrape};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    std::istringstream words{line.substr(7)};
    std::string name, type;
    words >> name >> type;
    names.insert(name);
    if (type == "histogram") {
      for (const char* part : {"_bucket", "_sum", "_count"}) names.insert(name + part);
    }
  }
  return names;
}

TEST(Watch, promtool_has_nothing_against_the_rules_and_what_the_dashboard_asks) {
  EXPECT_EQ(trouble({"promtool", "check", "rules", "--lint-fatal", kAlerts}), "");

  Json asked = Json::array();
  for (const Query& query : queries()) asked.push_back(query.expr);
  const Json board = dashboard();
  for (const Json& one : board.at("annotations").at("list")) asked.push_back(chosen(one.at("expr")));
  std::string rules = "groups:\n  - name: dashboard\n    rules:\n";
  for (std::size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(asked[i].get<std::string>().find('$'), std::string::npos) << "an unknown variable in " << asked[i];
    rules += "      - {record: 'dashboard:query:" + std::to_string(i) + "', expr: " + asked[i].dump() + "}\n";
  }
  const TempDir folder;
  EXPECT_EQ(trouble({"promtool", "check", "rules", "--lint-fatal", folder.file("rules.yaml", rules)}), "");
}

TEST(Watch, each_alert_has_a_section_a_panel_and_cases) {
  std::set<int> panels;
  const Json board = dashboard();
  for (const Json& panel : board.at("panels"))
    EXPECT_TRUE(panels.insert(panel.at("id").get<int>()).second) << "twice: " << panel.at("id");
  const std::string guide = read(kRoot + "/docs/operations.md");
  const std::string cases =
      read(kRoot + "/tests/watch/alerts_test.yaml") + read(kRoot + "/tests/watch/alerts_day_test.yaml");
  const std::vector<Alert> alerts = shipped_alerts();
  EXPECT_GT(alerts.size(), 20U);
  for (const Alert& alert : alerts) {
    SCOPED_TRACE(alert.name);
    EXPECT_TRUE(std::regex_match(alert.name, std::regex{"Callgate([A-Z][a-z]+)+"}));
    EXPECT_TRUE(alert.labels.at("severity") == "page" || alert.labels.at("severity") == "ticket");
    EXPECT_FALSE(alert.annotations.at("summary").empty());
    EXPECT_FALSE(alert.annotations.at("description").empty());
    EXPECT_EQ(alert.annotations.at("__dashboardUid__"), board.at("uid"));
    EXPECT_TRUE(panels.contains(std::stoi(alert.annotations.at("__panelId__"))));

    std::string anchor = "alert-" + alert.name;
    std::ranges::transform(anchor, anchor.begin(), [](unsigned char c) { return std::tolower(c); });
    EXPECT_EQ(alert.annotations.at("runbook"), "docs/operations.md#" + anchor);
    const std::size_t begin = guide.find("\n### Alert " + alert.name + "\n");
    ASSERT_NE(begin, std::string::npos) << "no section in docs/operations.md";
    const std::string section = guide.substr(begin, guide.find("\n#", begin + 2) - begin);
    for (const char* part : {"**Means**", "**Look**", "**Do**"})
      EXPECT_NE(section.find(part), std::string::npos) << part;
    EXPECT_TRUE(std::regex_search(section, std::regex{"`(callgate|curl|kubectl|systemctl|df) "})) << "no command";

    // A case names all that fires, so one check without it is one in which it is silent.
    EXPECT_NE(cases.find("alertname=\"" + alert.name + "\""), std::string::npos) << "no case in which it fires";
    // The panel shows what the alert looks at.
    std::string shown;
    for (const Query& query : queries()) {
      if (std::to_string(query.panel) == alert.annotations.at("__panelId__")) shown += query.expr + " ";
    }
    std::string looked_at = alert.expr;
    if (looked_at.find("up{") != std::string::npos) looked_at = "callgate_build_info";
    std::size_t together = 0;
    for (const std::string& name : metrics_in(looked_at)) together += metrics_in(shown).count(name);
    const bool recorded = looked_at.find(":callgate_") != std::string::npos;
    EXPECT_TRUE(together > 0 || recorded) << "its panel shows something else: " << shown;
  }
}

TEST(Watch, the_commands_of_the_guide_exist) {
  Process help{{CALLGATE_EXE, "help"}};
  ASSERT_EQ(help.wait(), 0);
  std::set<std::string> commands;
  bool listed = false;
  for (const std::string& line : help.lines()) {
    if (line == "Commands") listed = true;
    const std::size_t end = line.find("  ", 2);
    if (listed && line.starts_with("  ") && end != line.npos) commands.insert(line.substr(2, end - 2));
  }
  ASSERT_TRUE(commands.contains("dead replay"));

  // What stands in `…`, also over a line's end, and lines of blocks.
  const std::string guide = read(kRoot + "/docs/operations.md");
  std::vector<std::string> said;
  std::string prose;
  std::istringstream lines{guide};
  bool block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      block = !block;
      continue;
    }
    if (!block) prose += line + " ";
    if (!block) continue;
    if (line.starts_with("$ ")) line = line.substr(2);
    if (line.starts_with("callgate ")) said.push_back(line.substr(0, line.find(" #")));
  }
  const std::regex span{"`(callgate [^`]+)`"};
  for (std::sregex_iterator found{prose.begin(), prose.end(), span}; found != std::sregex_iterator{}; ++found)
    said.push_back(std::regex_replace((*found)[1].str(), std::regex{" +"}, " "));
  EXPECT_GT(said.size(), 60U);

  std::map<std::string, std::string> helps;
  for (const std::string& line : said) {
    SCOPED_TRACE(line);
    std::string meant;
    for (const std::string& command : commands) {
      const std::string words = "callgate " + command;
      const bool begins = line.starts_with(words) && (line.size() == words.size() || line[words.size()] == ' ');
      if (begins && command.size() > meant.size()) meant = command;
    }
    if (meant.empty() && (line == "callgate dead" || line == "callgate runs"))
      continue;  // "The `callgate dead` commands".
    ASSERT_FALSE(meant.empty()) << "there is no such command";
    if (!helps.contains(meant)) {
      std::vector<std::string> words{CALLGATE_EXE, "help"};
      std::istringstream parts{meant};
      for (std::string part; parts >> part;) words.push_back(part);
      Process one{words};
      ASSERT_EQ(one.wait(), 0);
      for (const std::string& text : one.lines()) helps[meant] += text + "\n";
    }
    const std::string own = line.substr(0, line.find_first_of("|>"));
    const std::regex option{" (--[a-z-]+)"};
    for (std::sregex_iterator found{own.begin(), own.end(), option}; found != std::sregex_iterator{}; ++found)
      EXPECT_NE(helps[meant].find((*found)[1].str()), std::string::npos) << "it has no option " << (*found)[1];
  }
}

TEST(Watch, the_dashboard_shows_every_metric) {
  std::string shown;
  for (const Query& query : queries()) shown += query.expr + " ";
  std::ifstream page{kRoot + "/docs/metrics.md"};
  const std::set<std::string> names = metrics_in(shown);
  int told = 0;
  for (std::string line; std::getline(page, line);) {
    const std::regex row{R"(\| `((callgate|process)_[a-z0-9_]+)` \|.*)"};
    std::smatch found;
    if (!std::regex_match(line, found, row)) continue;
    ++told;
    const std::string name = found[1];
    const bool there = names.contains(name) || names.contains(name + "_bucket") || names.contains(name + "_sum");
    EXPECT_TRUE(there) << name << " is in no panel";
  }
  EXPECT_GT(told, 100);
}

// ---- Live

const char* const kScript = R"([
 {"match": {"path": "/hook"}, "answer": {"status": 200, "body": "ok"}},
 {"match": {"header": {"authorization": "Bearer sk-revoked"}}, "answer": {"status": 401, "json":
   {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error", "code": "invalid_api_key"}}}},
 {"match": {"header": {"authorization": "Bearer sk-empty"}}, "answer": {"status": 429, "json":
   {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}}},
 {"match": {"header": {"authorization": "Bearer sk-broken"}}, "answer": 503},
 {"match": {"body_contains": "too-fast", "times": 1}, "answer": {"status": 429, "headers": [["retry-after", "1"]], "json":
   {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}}},
 {"match": {"body_contains": "unlucky", "times": 1}, "answer": 503},
 {"match": {"body_contains": "wrong"}, "answer": {"status": 400, "json":
   {"error": {"message": "Unknown parameter", "type": "invalid_request_error", "code": "unknown_parameter"}}}},
 {"match": {"body_contains": "strange"}, "answer": {"status": 418, "json": {"error": {"message": "engine is warming up"}}}},
 {"match": {"body_contains": "fails"}, "answer": 500},
 {"match": {"body_contains": "cached"}, "answer": {"json": {"id": "chatcmpl-1", "object": "chat.completion",
   "model": "gpt-5", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
   "usage": {"prompt_tokens": 1200, "completion_tokens": 300, "total_tokens": 1500, "prompt_tokens_details":
   {"cached_tokens": 1024}, "completion_tokens_details": {"reasoning_tokens": 256}}}}},
 {"match": {"body_contains": "breaks"}, "answer": {"stream": [{"say": "hel"}, {"close": "rst"}]}}
])";

/// callgate in front of the provider, doing all that it has a number for, and a Prometheus that looks at it.
class WatchLive : public testing::Test {
 protected:
  WatchLive() {
    Callgate::Options options;
    options.directory = folder_.path();
    options.env = {{"KEY_MAIN", "sk-main"},
                   {"KEY_REVOKED", "sk-revoked"},
                   {"KEY_EMPTY", "sk-empty"},
                   {"KEY_BROKEN", "sk-broken"},
                   {"HOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}};
    const auto upstream = [&](const std::string& name, const std::string& keys) {
      return "  " + name + ": {dialect: openai, url: " + provider_.url() + ", credentials: [" + keys + "]}\n";
    };
    callgate_ = std::make_unique<Callgate>(
        "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nupstreams:\n"
        "  anthropic: {url: " +
            provider_.url() + "}\n" + upstream("openai", "{name: main, key: {env: KEY_MAIN}}") +
            upstream("refused", "{name: revoked, key: {env: KEY_REVOKED}}, {name: empty, key: {env: KEY_EMPTY}}") +
            upstream("broken", "{name: main, key: {env: KEY_BROKEN}}") +
            "tenants:\n  search: {budget: {daily_usd: \"50\", monthly_usd: \"1000\"}}\n"
            "  poor: {budget: {daily_usd: \"0.000001\"}}\n"
            "  near: {budget: {daily_usd: \"1\", warn_at: 0.001}}\n  mail: {}\n"
            "store: {path: calls.db, payloads: plain}\n"
            "retry: {base: 20ms, bulk: {attempts: 3}, interactive: {attempts: 3}}\n"
            "breaker: {min_calls: 100000, open_for: 1s}\n"
            "webhooks: {allow_hosts: [127.0.0.1], secret: {env: HOOK_SECRET}}\n"
            "queues:\n  invoices:\n    owner: {team: billing, contact: \"#billing\"}\n"
            "    slo: {oldest_wait: 5m, success_ratio: 0.99, complete_within: 30m}\n"
            "    dead_letter: {retention: 30d}\n    retry: {max_attempts: 1}\n",
        options);
  }

  int post(const std::string& path, const std::string& body, const Pairs& headers = {}) const {
    return http("POST", callgate_->data_url() + path, body, headers).status;
  }
  int chat(const std::string& words, const Pairs& headers = {}, bool stream = false,
           const std::string& upstream = "openai") const {
    return post("/" + upstream + "/v1/chat/completions", chat_saying(words, stream), headers);
  }
  Json admin(const std::string& path) const {
    const Response answer = http("POST", callgate_->admin_url() + path, "");
    EXPECT_EQ(answer.status, 200) << path << answer.body;
    return answer.status == 200 ? Json::parse(answer.body) : Json::object();
  }
  void run(const std::string& words) const {
    const Json order{{"path", "/openai/v1/chat/completions"},
                     {"body", Json::parse(chat_saying(words))},
                     {"queue", "invoices"},
                     {"webhook", provider_.url() + "/hook"}};
    const Response answer = http("POST", callgate_->data_url() + "/callgate/v1/runs", order.dump());
    ASSERT_EQ(answer.status, 202) << answer.body;
    const std::string id = Json::parse(answer.body).at("id");
    (void)http_get(callgate_->data_url() + "/callgate/v1/runs/" + id + "?wait=20s");
  }

  /// Everything once; what must not be the same as before has the round in its words.
  void work(int round) const {
    const std::string n = " " + std::to_string(round);
    provider_.script(kScript);
    const Pairs search{{"Callgate-Tenant", "search"}};
    EXPECT_EQ(chat("plain" + n, search), 200);
    EXPECT_EQ(chat("plain stream" + n, {{"Callgate-Lane", "interactive"}, {"Callgate-Tenant", "search"}}, true), 200);
    EXPECT_EQ(chat("cached" + n, search), 200);
    EXPECT_EQ(chat("too-fast" + n), 200);
    EXPECT_EQ(chat("unlucky" + n), 200);
    EXPECT_EQ(chat("wrong" + n), 400);
    EXPECT_EQ(chat("plain" + n, {{"x-stainless-retry-count", "1"}}), 200);
    EXPECT_NE(chat("strange" + n), 200);
    for (int twice = 0; twice < 2; ++twice) EXPECT_EQ(chat("fails" + n), 500);  // The second is remembered.
    EXPECT_EQ(chat("plain once more" + n), 200);
    EXPECT_EQ(chat("fails with a key" + n, {{"Idempotency-Key", "dead" + n}}), 500);
    for (int twice = 0; twice < 2; ++twice)
      EXPECT_EQ(chat("cached for both" + n, {{"Idempotency-Key", "twin" + n}}), 200);
    EXPECT_EQ(chat("cached for near" + n, {{"Callgate-Tenant", "near"}}), 200);
    EXPECT_EQ(chat("poor" + n, {{"Callgate-Tenant", "poor"}}), 402);
    EXPECT_EQ(http_get(callgate_->data_url() + "/nowhere/v1/models").status, 404);
    (void)chat("breaks" + n, {}, true);
    (void)post(
        "/anthropic/v1/messages",
        R"({"model":"claude-sonnet-4-5","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"breaks)" +
            n + R"("}]})",
        {{"x-api-key", "sk-own"}, {"anthropic-version", "2023-06-01"}});
    for (int twice = 0; twice < 2; ++twice) EXPECT_NE(chat("left out" + n, {}, false, "refused"), 200);
    for (int often = 0; often < 3; ++often)
      EXPECT_NE(chat("down " + std::to_string(often) + n, {}, false, "broken"), 200);
    run("a run" + n);
    run("a run that fails" + n);
    const Json planned = admin("/v1/replays?reason=test&rate=1000&class=server_error");
    (void)admin("/v1/replays/" + planned.at("id").get<std::string>() +
                "/start?digest=" + planned.at("digest").get<std::string>());
    (void)admin("/v1/pause?what=tenant&name=mail");
    (void)admin("/v1/pause?what=upstream&name=anthropic");
    (void)admin("/v1/resume?what=upstream&name=anthropic");
    (void)admin("/v1/pause?what=upstream&name=broken");
    if (round == 1) (void)admin("/v1/resume?what=upstream&name=broken");
    (void)admin("/v1/reload");
  }

  void begin_prometheus() {
    const std::string own = folder_.file("queues.yaml", [&] {
      Process rules{{CALLGATE_EXE, "alerts", "--config", callgate_->config_file()}};
      EXPECT_EQ(rules.wait(), 0) << rules.err();
      std::string text;
      for (const std::string& line : rules.lines()) text += line + "\n";
      return text;
    }());
    const std::string config = folder_.file(
        "prometheus.yml",
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: ['" + kAlerts +
            "', '" + own + "']\nscrape_configs: [{job_name: callgate, static_configs: [{targets: ['127.0.0.1:" +
            std::to_string(callgate_->health_port()) + "']}]}]\n");
    prometheus_ =
        std::make_unique<Process>(std::vector<std::string>{"prometheus",
                                                           "--config.file=" + config,
                                                           "--storage.tsdb.path=" + folder_.path() + "/tsdb",
                                                           "--web.listen-address=127.0.0.1:0"});
    const std::regex listening{R"re(msg="Listening on" address=(127\.0\.0\.1:\d+))re"};
    std::smatch found;
    std::string said;
    ASSERT_TRUE(eventually(
        [&] {
          said = prometheus_->err();
          return std::regex_search(said, found, listening);
        },
        20s))
        << said;
    prometheus_url_ = "http://" + found[1].str();
  }
  [[nodiscard]] Json prometheus(const std::string& path) const {
    const Response answer = http_get(prometheus_url_ + path);
    const Json json = Json::parse(answer.body, nullptr, false);
    return json.is_object() ? json : Json{{"status", "error"}, {"error", answer.body}};
  }
  /// Some number in the answer.
  [[nodiscard]] bool answers(const std::string& expr) const {
    std::string encoded;
    for (const char c : expr) {
      std::array<char, 4> text{};
      std::snprintf(text.data(), text.size(), "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      encoded += text.data();
    }
    const Json said = prometheus("/api/v1/query?query=" + encoded);
    if (said.value("status", "") != "success") return false;
    return std::ranges::any_of(said.at("data").at("result"), [](const Json& one) {
      return one.contains("value") && !std::isnan(std::stod(one.at("value").at(1).get<std::string>()));
    });
  }
  /// So many scrapes from now on.
  void scraped(int more) const {
    const auto count = [this] {
      const Json said = prometheus("/api/v1/query?query=scrape_samples_scraped%5B10m%5D");
      if (said.value("status", "") != "success" || said.at("data").at("result").empty()) return std::size_t{0};
      return said.at("data").at("result").at(0).at("values").size();
    };
    const std::size_t before = count();
    ASSERT_TRUE(eventually(
        [&] {
          support::dawdle(50ms);
          return count() >= before + static_cast<std::size_t>(more);
        },
        20s))
        << prometheus_->err();
  }
  [[nodiscard]] std::string scrape() const { return http_get(callgate_->health_url() + "/metrics").body; }

  TempDir folder_{};
  FakeProvider provider_{};
  std::unique_ptr<Callgate> callgate_{};
  std::unique_ptr<Process> prometheus_{};
  std::string prometheus_url_{};
};

TEST_F(WatchLive, prometheus_answers_all_that_the_dashboard_asks_and_the_rules_work) {
  begin_prometheus();
  scraped(1);
  work(1);
  scraped(2);  // A histogram that is new says nothing of a rate yet.
  work(2);

  std::vector<Query> open = queries();
  ASSERT_GT(open.size(), 80U);
  // Depths of queues are read every five seconds, the last replay and webhook take a moment.
  (void)eventually(
      [&] {
        std::erase_if(open, [&](const Query& query) { return answers(query.expr); });
        if (!open.empty()) support::dawdle(200ms);
        return open.empty();
      },
      20s);
  for (const Query& query : open)
    ADD_FAILURE() << "no answer for panel " << query.panel << " (" << query.title << "): " << query.expr;

  const std::string text = scrape();
  EXPECT_EQ(trouble({"sh", "-c", "promtool check metrics < " + folder_.file("metrics.txt", text)}), "");
  const std::set<std::string> live = families_in(text);
  std::string looked_at;
  for (const Query& query : queries()) looked_at += query.expr + " ";
  for (const YAML::Node& group : YAML::LoadFile(kAlerts)["groups"]) {
    // The names of recorded series have a colon before "callgate_".
    for (const YAML::Node& rule : group["rules"])
      looked_at +=
          std::regex_replace(rule["expr"].as<std::string>(), std::regex{"[a-z_]+:callgate_[a-z_]+:"}, " ") + " ";
  }
  for (const std::string& name : metrics_in(looked_at))
    EXPECT_TRUE(live.contains(name)) << name << " is not in the scrape";

  std::set<std::string> firing;
  ASSERT_TRUE(eventually(
      [&] {
        support::dawdle(200ms);
        firing.clear();
        const Json said = prometheus("/api/v1/alerts");
        if (said.value("status", "") != "success") return false;
        for (const Json& alert : said.at("data").at("alerts")) {
          if (alert.at("state") == "firing") firing.insert(alert.at("labels").at("alertname"));
        }
        return firing.contains("CallgateUpstreamAuthFailing") && firing.contains("CallgateProviderQuotaExhausted");
      },
      20s));
  EXPECT_FALSE(firing.contains("CallgateTargetDown"));
  EXPECT_FALSE(firing.contains("CallgateLedgerDown"));
  std::size_t rules = 0;
  const Json loaded = prometheus("/api/v1/rules");
  for (const Json& group : loaded.at("data").at("groups")) {
    for (const Json& rule : group.at("rules")) {
      EXPECT_EQ(rule.at("health"), "ok") << rule;
      ++rules;
    }
  }
  EXPECT_GT(rules, 34U) << "those of the file and of callgate alerts";
}

}  // namespace
