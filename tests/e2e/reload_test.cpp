// A running callgate gets another configuration: by signal, by the file and by the admin API; whole, or not at all.

#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/harness.h"
#include "tests/support/pace.h"

namespace reload_test {

using Json = nlohmann::json;
using support::Callgate;
using support::eventually;
using support::FakeProvider;
using support::http;
using support::RawClient;
using support::request_text;
using support::Response;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const std::string kUnary = R"({"model":"gpt-5","messages":[{"role":"user","content":"hi"}]})";
const std::string kStream = R"({"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]})";

/// `concurrent` of the upstream openai, and more lines.
std::string config_for(const FakeProvider& provider, int concurrent = 256, const std::string& more = {}) {
  return "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\n"
         "upstreams:\n"
         "  openai: {url: " +
         provider.url() + ", limits: {concurrent: " + std::to_string(concurrent) +
         "}}\n"
         "  anthropic: {url: " +
         provider.url() + "}\n" + more;
}

struct House {
  explicit House(int concurrent = 256, const std::string& more = {})
      : callgate(config_for(provider, concurrent, more)) {}

  [[nodiscard]] std::string url_of(const std::string& upstream) const {
    return callgate.data_url() + "/" + upstream + "/v1/chat/completions";
  }
  [[nodiscard]] int call(const std::string& upstream = "openai") const {
    return http("POST", url_of(upstream), kUnary).status;
  }
  Json log(std::string_view event) { return callgate.process().json_line(event); }
  [[nodiscard]] Response admin(std::string_view method, const std::string& path) const {
    return http(method, callgate.admin_url() + path);
  }
  /// The value of a series, such as "callgate_draining"; -1 if there is none.
  [[nodiscard]] double metric(const std::string& series) const {
    const std::string text = support::http_get(callgate.health_url() + "/metrics").body;
    const std::size_t at = text.find("\n" + series + " ");
    return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + series.size() + 2, nullptr);
  }
  [[nodiscard]] double reloads(const std::string& result) const {
    return metric("callgate_config_reloads_total{result=\"" + result + "\"}");
  }
  /// A setting that holds, as the admin API tells it.
  [[nodiscard]] std::string setting(const std::string& path) const {
    const Json config = Json::parse(admin("GET", "/v1/config").body);
    for (const Json& one : config.at("settings")) {
      if (one.at("path") == path) return one.at("value");
    }
    return "(absent)";
  }

  FakeProvider provider{};
  Callgate callgate;
};

/// A stream that has begun and goes on at its gate.
struct HeldStream {
  explicit HeldStream(const House& house, const std::string& target = "/openai/v1/chat/completions")
      : client(house.callgate.data_port()) {
    client.send(request_text("POST", target, kStream, {{"Authorization", "Bearer sk-x"}}));
    answer = client.read_head();
    client.read_until(answer, "hel");
  }
  [[nodiscard]] bool ends_well() {
    client.read_rest(answer);
    return answer.status == 200 && answer.end == Response::End::Complete && answer.body.ends_with("data: [DONE]\n\n");
  }
  RawClient client;
  Response answer{};
};
constexpr const char* kHeldStreams =
    R"([{"match": {"body_contains": "\"stream\":true"}, "answer": {"stream": [{"say": "hel"}, {"hold": "door"}, {"say": "lo"}]}}])";

// --- Contracts of queues

TEST(Reload, a_contract_that_promises_less_is_refused_whole_unless_that_is_accepted) {
  const auto kept = [](const std::string& retention) {
    return "queues: {a: {owner: {team: t}, slo: {oldest_wait: 1m}, dead_letter: {retention: " + retention + "}}}\n";
  };
  House house{256, kept("30d")};
  const std::string path = "queues.a.dead_letter.retention";
  house.callgate.write_config(config_for(house.provider, 7, kept("7d")));
  const Response refused = house.admin("POST", "/v1/reload");
  EXPECT_EQ(refused.status, 422);
  const Json problem = Json::parse(refused.body).at("problems").at(0);
  EXPECT_EQ(problem.at("code"), "weaker");
  EXPECT_EQ(problem.at("path"), path);
  EXPECT_EQ(house.setting(path), "30d");
  EXPECT_EQ(house.setting("upstreams.openai.limits.concurrent"), "256") << "all of it or nothing";
  EXPECT_EQ(house.admin("POST", "/v1/reload?accept_weaker=yes").status, 400);
  EXPECT_EQ(house.admin("POST", "/v1/reload?accept_weaker=true").status, 200);
  EXPECT_EQ(house.setting(path), "7d");
  EXPECT_EQ(house.setting("upstreams.openai.limits.concurrent"), "7");
  house.callgate.write_config(config_for(house.provider, 7, kept("31d")));
  EXPECT_EQ(house.admin("POST", "/v1/reload").status, 200) << "more is no question";
}

// --- Triggers

TEST(Reload, a_hang_up_signal_reads_the_file_again) {
  House house;
  house.callgate.process().signal(SIGHUP);
  const Json line = house.log("reloaded");
  EXPECT_EQ(line.at("cause"), "signal");
  EXPECT_EQ(line.at("changed"), "");
  EXPECT_EQ(house.reloads("unchanged"), 1);
  EXPECT_EQ(house.call(), 200);
}

TEST(Reload, a_file_that_is_renamed_over_the_old_one_is_taken) {
  House house;
  EXPECT_EQ(house.call("mine"), 404);
  house.callgate.write_config(
      config_for(house.provider, 7, "  mine: {dialect: openai, url: " + house.provider.url() + "}\n"));
  const Json line = house.log("reloaded");
  EXPECT_EQ(line.at("cause"), "file_change");
  EXPECT_NE(line.at("changed").get<std::string>().find("upstreams.openai.limits.concurrent"), std::string::npos);
  EXPECT_EQ(house.call("mine"), 200);
  EXPECT_EQ(house.setting("upstreams.openai.limits.concurrent"), "7");
  EXPECT_EQ(house.metric("callgate_calls_in_flight{lane=\"bulk\",upstream=\"mine\"}"), 0) << "a new name has series";
}

TEST(Reload, prices_that_have_changed_are_another_configuration) {
  const support::TempDir folder;
  const auto prices = [](const char* usd) {
    return std::string{R"({"callgate_prices": 1, "models": [{"model": "m-new", "usd_per_mtok": {"input": )"} + usd +
           R"(, "output": 1}}]})";
  };
  const std::string file = folder.file("prices.json", prices("1"));
  House house;
  house.callgate.write_config(config_for(house.provider, 7) + "prices: {files: [" + file + "]}\n");
  house.log("reloaded");
  folder.file("prices.json", prices("2"));
  house.callgate.process().signal(SIGHUP);
  EXPECT_EQ(house.log("reloaded").at("changed"), "prices.files");
  house.callgate.process().signal(SIGHUP);
  EXPECT_EQ(house.log("reloaded").at("changed"), "") << "nothing";
}

TEST(Reload, a_file_that_is_written_in_place_is_taken) {
  House house;
  std::ofstream{house.callgate.config_file(), std::ios::binary} << config_for(house.provider, 9);
  house.log("reloaded");
  EXPECT_EQ(house.setting("upstreams.openai.limits.concurrent"), "9");
}

// The first half is a configuration too: one in which openai has its built-in URL.
TEST(Reload, half_a_file_is_never_taken) {
  House house;
  const std::string url = house.setting("upstreams.openai.url");
  const std::string half =
      "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nupstreams:\n  anthropic: {url: " + house.provider.url() +
      "}\n";
  const std::pair<const char*, std::function<void()>> kTriggers[] = {
      {"a signal", [&] { house.callgate.process().signal(SIGHUP); }},
      {"a file beside it",
       [&] { std::ofstream{std::filesystem::path{house.callgate.config_file()}.replace_filename("beside")} << "x"; }},
      {"the admin API", [&] { EXPECT_EQ(house.admin("POST", "/v1/reload").status, 503) << "not in time"; }},
  };
  int concurrent = 10;
  for (const auto& [name, trigger] : kTriggers) {
    SCOPED_TRACE(name);
    std::ofstream file{house.callgate.config_file(), std::ios::binary};
    file << half << std::flush;
    trigger();
    support::dawdle(500ms);
    EXPECT_EQ(house.setting("upstreams.openai.url"), url);
    EXPECT_EQ(house.call(), 200);
    file << "  openai: {url: " << house.provider.url() << ", limits: {concurrent: " << ++concurrent << "}}\n";
    file.close();
    EXPECT_EQ(house.log("reloaded").at("changed"), "upstreams.openai.limits.concurrent");
    EXPECT_EQ(house.setting("upstreams.openai.url"), url);
  }
}

TEST(Reload, a_file_that_is_away_or_empty_is_waited_for_and_then_refused) {
  House house;
  const auto begin = Clock::now();
  std::filesystem::remove(house.callgate.config_file());
  EXPECT_EQ(house.log("reload_refused").at("cause"), "file_change");
  EXPECT_GE(Clock::now() - begin, 2s) << "as long as a deployment may be away with it";
  const auto emptied = Clock::now();
  std::ofstream{house.callgate.config_file()};
  EXPECT_EQ(house.log("reload_refused").at("cause"), "file_change");
  EXPECT_GE(Clock::now() - emptied, 2s) << "as long as an editor may take to write it";

  std::filesystem::remove(house.callgate.config_file());
  std::ofstream{house.callgate.config_file()};
  std::ofstream{house.callgate.config_file(), std::ios::binary} << config_for(house.provider, 9);
  house.log("reloaded");
  EXPECT_EQ(house.setting("upstreams.openai.limits.concurrent"), "9");
  EXPECT_EQ(house.reloads("refused"), 2) << "and not once more while it was away for a moment";
}

// As kubelet does: the file is a link through ..data, which is swapped for another folder.
TEST(Reload, a_config_map_s_link_swap_is_seen) {
  namespace fs = std::filesystem;
  FakeProvider provider;
  support::TempDir volume;
  const fs::path root = volume.path();
  const auto version = [&](const std::string& name, int concurrent) {
    fs::create_directory(root / name);
    std::ofstream{root / name / "callgate.yaml"} << config_for(provider, concurrent) << "  # " << name << "\n";
    fs::create_directory_symlink(name, root / "..data_tmp");
    fs::rename(root / "..data_tmp", root / "..data");
  };
  version("..2026_1", 5);
  fs::create_symlink("..data/callgate.yaml", root / "callgate.yaml");
  support::Process process{{CALLGATE_EXE,
                            "serve",
                            "--config",
                            (root / "callgate.yaml").string(),
                            "--set",
                            "listen.admin=127.0.0.1:0",
                            "--set",
                            "store.path=:memory:"}};
  const std::string admin = "http://" + process.json_line("listening").at("admin").get<std::string>();
  for (int i = 2; i <= 4; ++i) {
    version("..2026_" + std::to_string(i), 5 * i);
    fs::remove_all(root / ("..2026_" + std::to_string(i - 1)));
    const Json line = process.json_line("reloaded");
    EXPECT_EQ(line.at("changed"), "upstreams.openai.limits.concurrent");
    EXPECT_NE(support::http_get(admin + "/v1/config").body.find('"' + std::to_string(5 * i) + '"'),
              std::string::npos);
  }
}

TEST(Reload, the_admin_api_tells_what_has_changed) {
  House house;
  const Json same = Json::parse(house.admin("POST", "/v1/reload").body);
  EXPECT_EQ(same.at("result"), "unchanged");
  EXPECT_EQ(same.at("changed"), Json::array());
  // Changed by us alone, so that the watch does not come first.
  house.callgate.write_config(config_for(house.provider, 6));
  const Response answer = house.admin("POST", "/v1/reload");
  EXPECT_EQ(answer.status, 200);
  const Json told = Json::parse(answer.body);
  EXPECT_EQ(told.at("result"), "applied");
  EXPECT_EQ(told.at("changed"),
            Json::parse(R"([{"path": "upstreams.openai.limits.concurrent", "from": "256", "to": "6"}])"));
  EXPECT_EQ(told.at("restart_needed"), Json::array());
  EXPECT_EQ(house.metric("callgate_config_last_reload_successful"), 1);
}

TEST(Reload, ten_triggers_at_once_end_in_the_newest_state) {
  House house;
  for (int i = 1; i <= 10; ++i) {
    house.callgate.write_config(config_for(house.provider, i));
    house.callgate.process().signal(SIGHUP);
  }
  EXPECT_EQ(house.admin("POST", "/v1/reload").status, 200);
  EXPECT_EQ(house.setting("upstreams.openai.limits.concurrent"), "10");
  EXPECT_LE(house.reloads("applied") + house.reloads("unchanged"), 12);
}

TEST(Reload, overrides_of_the_start_win_again) {
  FakeProvider provider;
  Callgate callgate{config_for(provider),
                    {.arguments = {"--set", "retry.base=7ms"}, .env = {{"CALLGATE_RETRY__CAP", "9s"}}}};
  callgate.write_config(config_for(provider, 3, "retry: {base: 1s, cap: 2s, longest_wait: 3s}\n"));
  EXPECT_EQ(http("POST", callgate.admin_url() + "/v1/reload").status, 200);
  const std::string body = support::http_get(callgate.admin_url() + "/v1/config").body;
  const Json settings = Json::parse(body).at("settings");
  std::map<std::string, std::string> values;
  for (const Json& one : settings) values[one.at("path")] = one.at("value");
  EXPECT_EQ(values["retry.base"], "7ms");
  EXPECT_EQ(values["retry.cap"], "9s");
  EXPECT_EQ(values["retry.longest_wait"], "3s");
}

TEST(Reload, without_a_file_has_nothing_to_read_and_says_so) {
  support::Process process{{CALLGATE_EXE,
                            "serve",
                            "--set",
                            "listen.data=127.0.0.1:0",
                            "--set",
                            "listen.health=127.0.0.1:0",
                            "--set",
                            "listen.admin=127.0.0.1:0",
                            "--set",
                            "store.path=:memory:"}};
  const std::string admin = "http://" + process.json_line("listening").at("admin").get<std::string>();
  EXPECT_EQ(Json::parse(http("POST", admin + "/v1/reload").body).at("result"), "unchanged");
}

// --- F-32: a bad file is refused whole

struct Bad {
  std::string name;
  std::string text;  // For the file; empty: it is removed.
  std::string path;
  std::string kind;
};

TEST(Reload, F32_a_bad_file_is_refused_whole) {
  House house{4};
  house.provider.script(kHeldStreams);
  HeldStream stream{house};
  const std::string good = config_for(house.provider, 9, "retry: {base: 9ms}\n");  // Would change two things.
  const Bad kBad[] = {
      {"broken syntax", good + "queue: {total: 5\n", "", "syntax"},
      {"an unknown key", good + "queue: {totl: 5}\n", "queue.totl", "unknown_key"},
      {"a negative limit", good + "queue: {total: -5}\n", "queue.total", "range"},
      {"a missing file", "", "", "unreadable"},
      {"an upstream that is in use is gone, and named elsewhere",
       config_for(house.provider, 9) + "default_upstream: {openai: gone}\n",
       "default_upstream.openai",
       "reference"},
      {"a bad value in the last section, after good ones", good + "log: {level: loud}\n", "log.level", "range"},
  };
  int refused = 0;
  for (const Bad& bad : kBad) {
    SCOPED_TRACE(bad.name);
    if (bad.text.empty()) {
      std::filesystem::remove(house.callgate.config_file());
    } else {
      house.callgate.write_config(bad.text);
    }
    const Response answer = house.admin("POST", "/v1/reload");
    EXPECT_EQ(answer.status, 422);
    const Json told = Json::parse(answer.body);
    EXPECT_EQ(told.at("result"), "refused");
    const Json& problem = told.at("problems").at(0);
    EXPECT_EQ(problem.at("path"), bad.path);
    EXPECT_EQ(problem.at("code"), bad.kind);
    EXPECT_EQ(problem.at("file"), house.callgate.config_file());
    EXPECT_FALSE(problem.at("message").get<std::string>().empty());
    const Json line = house.log("reload_refused");
    EXPECT_EQ(line.at("level"), "error");
    EXPECT_EQ(line.at("path"), bad.path);
    if (bad.kind != "unreadable") {
      EXPECT_GT(problem.at("line"), 0);
      EXPECT_GT(problem.at("column"), 0);
      EXPECT_EQ(line.at("line"), problem.at("line"));
    }
    ++refused;
    EXPECT_GE(house.reloads("refused"), refused);
    EXPECT_EQ(house.metric("callgate_config_last_reload_successful"), 0);
    EXPECT_EQ(house.setting("upstreams.openai.limits.concurrent"), "4") << "not even the good part is taken";
    EXPECT_EQ(house.setting("retry.base"), "500ms");
    EXPECT_EQ(house.call(), 200);
  }
  house.provider.release("door");
  EXPECT_TRUE(stream.ends_well());

  house.callgate.write_config(good);
  EXPECT_TRUE(eventually([&] { return house.setting("retry.base") == "9ms"; })) << "the next good one is taken";
  EXPECT_EQ(house.metric("callgate_config_last_reload_successful"), 1);
  EXPECT_EQ(house.reloads("applied"), 1);
}

TEST(Reload, F32_an_upstream_that_is_removed_while_in_use_ends_its_calls_in_peace) {
  const auto with_mine = [](const FakeProvider& provider) {
    return config_for(
        provider, 256, "  mine: {dialect: openai, url: " + provider.url() + ", limits: {concurrent: 1}}\n");
  };
  House house;
  house.callgate.write_config(with_mine(house.provider));
  house.log("reloaded");
  house.provider.script(kHeldStreams);
  HeldStream running{house, "/mine/v1/chat/completions"};
  RawClient waiting{house.callgate.data_port()};
  waiting.send(request_text("POST", "/mine/v1/chat/completions", kUnary, {{"Authorization", "Bearer sk-x"}}));
  EXPECT_TRUE(eventually([&] { return house.metric("callgate_queue_depth{lane=\"bulk\"}") == 1; }));

  house.callgate.write_config(config_for(house.provider));
  house.log("reloaded");
  EXPECT_EQ(house.call("mine"), 404);
  EXPECT_EQ(house.metric("callgate_queue_depth{lane=\"bulk\"}"), 1) << "under the limit that it came under";
  house.provider.release("door");
  EXPECT_TRUE(running.ends_well());
  EXPECT_EQ(waiting.read_response().status, 200);
  EXPECT_TRUE(
      eventually([&] { return house.metric("callgate_calls_in_flight{lane=\"bulk\",upstream=\"mine\"}") == 0; }));
}

// --- F-33: an unchanged file changes nothing, a changed limit holds at once

TEST(Reload, F33_an_unchanged_file_refills_and_moves_nothing) {
  House house{1};
  house.provider.script(kHeldStreams);
  HeldStream running{house};
  RawClient waiting{house.callgate.data_port()};
  waiting.send(request_text("POST", "/openai/v1/chat/completions", kUnary, {{"Authorization", "Bearer sk-x"}}));
  const auto depth = [&] { return house.metric("callgate_queue_depth{lane=\"bulk\"}"); };
  EXPECT_TRUE(eventually([&] { return depth() == 1; }));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(house.admin("POST", "/v1/reload").status, 200);
  EXPECT_EQ(house.reloads("unchanged"), 10);
  EXPECT_EQ(house.reloads("applied"), 0);
  EXPECT_EQ(depth(), 1) << "no slot came from nowhere";
  EXPECT_EQ(house.metric("callgate_calls_in_flight{lane=\"bulk\",upstream=\"openai\"}"), 2);
  house.provider.release("door");
  EXPECT_TRUE(running.ends_well());
  EXPECT_EQ(waiting.read_response().status, 200);
}

TEST(Reload, F33_a_changed_limit_holds_at_once_for_who_waits) {
  House house{4};
  house.provider.script(kHeldStreams);
  std::vector<std::unique_ptr<HeldStream>> running;
  for (int i = 0; i < 4; ++i) running.push_back(std::make_unique<HeldStream>(house));
  const auto reload_to = [&](int concurrent) {
    house.callgate.write_config(config_for(house.provider, concurrent));
    EXPECT_EQ(house.admin("POST", "/v1/reload").status, 200);
  };
  const auto depth = [&] { return house.metric("callgate_queue_depth{lane=\"bulk\"}"); };
  const auto on_wire = [&] { return house.provider.stats().at("open_requests").get<int>(); };

  reload_to(2);  // Halved: those four go on, nobody else begins.
  std::vector<RawClient> more;
  for (int i = 0; i < 4; ++i) {
    more.emplace_back(house.callgate.data_port());
    more.back().send(
        request_text("POST", "/openai/v1/chat/completions", kStream, {{"Authorization", "Bearer sk-x"}}));
  }
  EXPECT_TRUE(eventually([&] { return depth() == 4; }));
  EXPECT_EQ(on_wire(), 4);
  reload_to(6);  // Two of those who wait may go, without anything having ended.
  EXPECT_TRUE(eventually([&] { return depth() == 2 && on_wire() == 6; }));
  house.provider.release("door");
  for (const auto& stream : running) EXPECT_TRUE(stream->ends_well());
  for (RawClient& client : more) EXPECT_EQ(client.read_response().status, 200);
}

TEST(Reload, a_shorter_patience_of_the_queue_holds_for_who_waits_already) {
  House house{1};
  house.provider.script(kHeldStreams);
  HeldStream running{house};
  RawClient waiting{house.callgate.data_port()};
  waiting.send(request_text("POST", "/openai/v1/chat/completions", kUnary, {{"Authorization", "Bearer sk-x"}}));
  EXPECT_TRUE(eventually([&] { return house.metric("callgate_queue_depth{lane=\"bulk\"}") == 1; }));
  house.callgate.write_config(config_for(house.provider, 1, "queue: {max_wait: {bulk: 10ms}}\n"));
  EXPECT_EQ(waiting.read_response().status, 429);
  house.provider.release("door");
  EXPECT_TRUE(running.ends_well());
}

// --- What a reload does to the wire, and what it cannot do

TEST(Reload, a_new_url_is_used_by_new_calls_while_old_ones_end_at_the_old_one) {
  House house;
  house.provider.script(kHeldStreams);
  HeldStream old{house};
  FakeProvider other;
  house.callgate.write_config(config_for(other));
  house.log("reloaded");
  EXPECT_EQ(house.call(), 200);
  EXPECT_EQ(other.stats().at("requests"), 1);
  house.provider.release("door");
  EXPECT_TRUE(old.ends_well());
  EXPECT_EQ(house.provider.stats().at("requests"), 1);
}

std::string with_openai(const std::string& keys) {
  return "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nretry: {bulk: {attempts: 1}}\nupstreams: {openai: {" +
         keys + "}}\n";
}

TEST(Reload, another_http_version_uses_connections_of_its_own) {
  FakeProvider provider{{"--http2"}};
  const auto config = [&](int version) {
    return with_openai("url: " + provider.url() + ", http: " + std::to_string(version));
  };
  Callgate callgate{config(1)};
  const auto call = [&] {
    EXPECT_EQ(http("POST", callgate.data_url() + "/openai/v1/chat/completions", kUnary).status, 200);
    return provider.seen().back();
  };
  const Json first = call();
  EXPECT_EQ(call().at("connection"), first.at("connection")) << "else there is nothing to be left behind";
  callgate.write_config(config(2));
  callgate.process().json_line("reloaded");
  const Json second = call();
  EXPECT_NE(second.at("connection"), first.at("connection"));
  EXPECT_NE(second.at("http"), first.at("http"));
  callgate.write_config(config(1));
  callgate.process().json_line("reloaded");
  EXPECT_EQ(call().at("http"), first.at("http"));
}

TEST(Reload, other_authorities_hold_for_new_calls_although_a_connection_is_open) {
  support::TempDir folder;
  FakeProvider provider{{"--self-signed", folder.path()}};
  const auto config = [&](const std::string& ca) {
    return with_openai("url: " + provider.url() + ", ca_file: " + ca);
  };
  Callgate callgate{config(folder.path() + "/ca.pem")};
  const auto call = [&] { return http("POST", callgate.data_url() + "/openai/v1/chat/completions", kUnary).status; };
  provider.script(kHeldStreams);
  RawClient client{callgate.data_port()};
  client.send(request_text("POST", "/openai/v1/chat/completions", kStream, {{"Authorization", "Bearer sk-x"}}));
  Response running = client.read_head();
  client.read_until(running, "hel");
  EXPECT_EQ(call(), 200);
  callgate.write_config(config(PROJECT_ROOT "/tests/fixtures/authority.pem"));
  callgate.process().json_line("reloaded");
  EXPECT_EQ(call(), 502) << "the provider is not trusted any more";
  provider.release("door");
  client.read_rest(running);
  EXPECT_TRUE(running.body.ends_with("data: [DONE]\n\n")) << "what had begun goes on";
  callgate.write_config(config(folder.path() + "/ca.pem"));
  callgate.process().json_line("reloaded");
  EXPECT_EQ(call(), 200);
}

TEST(Reload, new_timeouts_hold_for_new_calls) {
  House house;
  house.provider.script(R"([{"answer": {"hold": "door"}}])");
  house.callgate.write_config(
      "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\nretry: {bulk: {attempts: 1}}\n"
      "upstreams: {openai: {url: " +
      house.provider.url() + ", timeouts: {first_byte: 50ms}}}\n");
  house.log("reloaded");
  EXPECT_EQ(house.call(), 504);
  house.provider.release("door");
}

TEST(Reload, what_needs_a_restart_is_named_and_the_rest_is_applied) {
  House house;
  const std::string data = house.setting("listen.data");
  house.callgate.write_config(
      "listen: {data: 127.0.0.1:1, health: 127.0.0.1:0}\nretry: {base: 9ms}\n"
      "upstreams: {openai: {url: " +
      house.provider.url() + "}}\n");
  const Json told = Json::parse(house.admin("POST", "/v1/reload").body);
  EXPECT_EQ(told.at("restart_needed"), Json::array({"listen.data"}));
  EXPECT_EQ(house.log("restart_needed").at("keys"), "listen.data");
  EXPECT_EQ(house.metric("callgate_config_restart_needed{key=\"listen.data\"}"), 1);
  EXPECT_EQ(house.setting("listen.data"), data) << "what holds, not what is wished";
  EXPECT_EQ(house.setting("retry.base"), "9ms");
  EXPECT_EQ(house.call(), 200);
  house.callgate.write_config(config_for(house.provider));
  EXPECT_TRUE(eventually([&] { return house.metric("callgate_config_restart_needed{key=\"listen.data\"}") == 0; }));
}

TEST(Reload, of_the_log_and_of_the_server_s_limits_takes_effect) {
  House house;
  house.callgate.write_config(config_for(house.provider, 256, "limits: {body_bytes: 1KiB}\nlog: {level: error}\n"));
  EXPECT_EQ(house.admin("POST", "/v1/reload").status, 200);
  EXPECT_EQ(http("POST", house.url_of("openai"), std::string(4096, 'x')).status, 413);
  house.callgate.write_config(config_for(house.provider));
  EXPECT_EQ(house.admin("POST", "/v1/reload").status, 200);
  EXPECT_EQ(house.call(), 200);
  EXPECT_EQ(house.log("call").at("status"), 200) << "the first line of a call is that of the louder log";
}

// --- The admin listener

TEST(Admin, answers_only_whom_and_what_it_should) {
  House house;
  struct Row {
    std::string request;
    int status;
    std::string_view told;
  };
  const Row kRows[] = {
      {"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "version"},
      {"GET /v1/version HTTP/1.1\r\nHost: 127.0.0.1:4602\r\n\r\n", 200, "version"},
      {"GET /v1/version HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "listen.hosts"},
      {"GET /v1/version HTTP/1.1\r\nHost: localhost:abc\r\n\r\n", 403, "listen.hosts"},
      {"GET /v1/version HTTP/1.1\r\n\r\n", 400, "Host"},
      {"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400, "Host"},
      {"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 0\r\n\r\n",
       403,
       "Origin"},
      {"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nOrigin:\r\n\r\n", 403, "Origin"},
      {"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nOrigin: \r\n\r\n", 403, "Origin"},
      {"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nOrigin : x\r\n\r\n", 400, "malformed"},
      {"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nX: y\r\n Origin: x\r\n\r\n", 400, "white space"},
      {"GET /v1/version HTTP/1.1\r\nHost: localhost:evil\r\n\r\n", 403, "listen.hosts"},
      {"GET /v1/version HTTP/1.1\r\nHost: localhost:1:evil\r\n\r\n", 403, "listen.hosts"},
      {"GET http://evil.example/v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n", 403, "listen.hosts"},
      {"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
       400,
       "malformed"},
      {"POST /v1/reload HTTP/1.1\nHost: localhost\n\n", 400, "CR and LF"},
      {"nonsense\r\n\r\n", 400, "malformed"},
      {"PROPFIND /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "Only GET"},
      {"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(70'000, 'x') + "\r\n\r\n", 431, "64 KiB"},
      {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "POST /v1/reload"},
      {"GET /v1/reload HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "POST"},
      {"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n{}\n", 200, "unchanged"},
      {"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", 413, "too large"},
      {"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
       400,
       "malformed"},
      {"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400, "malformed"},
      {"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411, "Length"},
  };
  const int port = std::stoi(house.callgate.admin_url().substr(house.callgate.admin_url().rfind(':') + 1));
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.request);
    RawClient client{port};
    client.send(row.request);
    const Response answer = client.read_response();
    EXPECT_EQ(answer.status, row.status);
    EXPECT_NE(answer.body.find(row.told), std::string::npos) << answer.body;
    EXPECT_EQ(answer.header("allow").empty(), row.status != 405);
    if (answer.status == 200) continue;
    EXPECT_EQ(answer.header("content-type"), "application/problem+json");
    const Json problem = Json::parse(answer.body);
    EXPECT_EQ(problem.at("status"), row.status);
    EXPECT_FALSE(problem.at("title").get<std::string>().empty());
  }
}

TEST(Admin, is_not_starved_by_silent_connections) {
  House house;
  const int port = std::stoi(house.callgate.admin_url().substr(house.callgate.admin_url().rfind(':') + 1));
  std::vector<RawClient> silent;
  for (int i = 0; i < 200; ++i) {
    silent.emplace_back(port);
    if (i % 2 == 0)
      silent.back().try_send("POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n");
  }
  const auto begin = Clock::now();
  EXPECT_EQ(house.admin("GET", "/v1/version").status, 200);
  EXPECT_LT(Clock::now() - begin, 2s);
}

TEST(Admin, with_a_token_asks_every_caller_for_it_and_follows_its_rotation) {
  FakeProvider provider;
  support::TempDir folder;
  const std::string file = folder.file("token", "first-CANARY-token-1\n");
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  Callgate callgate{
      "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0, admin: 127.0.0.1:0, admin_token: {file: " + file + "}}\n"};
  const auto ask = [&](const std::string& authorization) {
    std::vector<std::pair<std::string, std::string>> headers;
    if (!authorization.empty()) headers.emplace_back("Authorization", authorization);
    return http("GET", callgate.admin_url() + "/v1/config", {}, headers);
  };
  const Response refused = ask("");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.header("www-authenticate"), "Bearer");
  EXPECT_EQ(ask("Bearer first-CANARY-token-2").status, 401);
  EXPECT_EQ(ask("Basic first-CANARY-token-1").status, 401);
  EXPECT_EQ(ask("Bearer ").status, 401);
  const Response good = ask("Bearer first-CANARY-token-1");
  EXPECT_EQ(good.status, 200);
  EXPECT_NE(good.body.find("{file: " + file + "}"), std::string::npos);
  EXPECT_EQ(good.body.find("CANARY"), std::string::npos);

  std::ofstream{file} << "second-CANARY-token\n";
  EXPECT_EQ(ask("Bearer second-CANARY-token").status, 200);
  EXPECT_EQ(ask("Bearer first-CANARY-token-1").status, 401);
  std::ofstream{file};
  EXPECT_EQ(ask("Bearer second-CANARY-token").status, 200) << "an empty file keeps the last good token";
  EXPECT_EQ(ask("Bearer ").status, 401);
  std::ofstream{file} << "CANARY-2-short\n";
  EXPECT_EQ(ask("Bearer CANARY-2-short").status, 401) << "what a start would refuse";
  EXPECT_EQ(ask("Bearer second-CANARY-token").status, 200);
  EXPECT_EQ(callgate.stop(), 0);
  for (const std::string& line : callgate.process().lines())
    EXPECT_EQ(line.find("CANARY"), std::string::npos) << line;
  EXPECT_EQ(callgate.process().err().find("CANARY"), std::string::npos);
}

TEST(Admin, takes_another_token_and_other_hosts_with_a_reload) {
  House house;
  const auto version = [&](const std::vector<std::pair<std::string, std::string>>& headers) {
    return http("GET", house.callgate.admin_url() + "/v1/version", {}, headers).status;
  };
  EXPECT_EQ(version({}), 200);
  support::TempDir folder;
  const std::string file = folder.file("token", "0123456789abcdef");
  house.callgate.write_config("listen: {data: 127.0.0.1:0, health: 127.0.0.1:0, admin_token: {file: " + file +
                              "}}\n");
  house.log("reloaded");
  EXPECT_EQ(version({}), 401);
  EXPECT_EQ(version({{"Authorization", "bearer 0123456789abcdef"}}), 200);
  const int port = std::stoi(house.callgate.admin_url().substr(house.callgate.admin_url().rfind(':') + 1));
  const auto version_of = [&](const std::string& host) {
    RawClient client{port};
    client.send("GET /v1/version HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n");
    return client.read_response().status;
  };
  EXPECT_EQ(version_of("elsewhere"), 403);
  EXPECT_EQ(version_of("[::1]"), 200);
  house.callgate.write_config("listen: {data: 127.0.0.1:0, health: 127.0.0.1:0, hosts: [elsewhere]}\n");
  house.log("reloaded");
  EXPECT_EQ(version_of("elsewhere"), 200);
  EXPECT_EQ(version_of("[::1]"), 403);
  EXPECT_EQ(house.call(), 403) << "and so has the data listener";
}

TEST(Admin, answers_to_its_own_address_and_to_localhost_whatever_the_hosts) {
  House house;
  house.callgate.write_config("listen: {data: 127.0.0.1:0, health: 127.0.0.1:0, hosts: [callgate.local]}\n");
  house.log("reloaded");
  EXPECT_EQ(house.admin("GET", "/v1/version").status, 200) << house.callgate.admin_url();
  support::Process reload{{CALLGATE_EXE, "reload", "--admin", house.callgate.admin_url().substr(7)}};
  EXPECT_EQ(reload.wait(), 0) << reload.err();
}

TEST(Admin, on_a_socket_file_is_for_its_owner_and_group) {
  support::TempDir folder;
  const std::string socket = folder.path() + "/admin.sock";
  Callgate callgate{"listen: {data: 127.0.0.1:0, health: 127.0.0.1:0, admin: \"unix:" + socket + "\"}\n"};
  struct stat about {};
  ASSERT_EQ(::stat(socket.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0660U);
  support::Process reload{{CALLGATE_EXE, "reload", "--config", callgate.config_file()}};
  EXPECT_EQ(reload.wait(), 0);
  EXPECT_EQ(reload.line(), "nothing has changed");
  EXPECT_EQ(callgate.stop(), 0);
  EXPECT_FALSE(std::filesystem::exists(socket));
}

TEST(Admin, over_a_socket_file_knows_whose_orders_they_are) {
  const passwd* const known = ::getpwuid(::getuid());
  const std::string user = known ? known->pw_name : std::to_string(::getuid());
  support::TempDir folder;
  Callgate callgate{"listen: {data: 127.0.0.1:0, health: 127.0.0.1:0, admin: \"unix:" + folder.path() +
                    "/admin.sock\"}\ntenants: {search: {budget: {daily_usd: \"5.00\"}}}\n"};
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), CALLGATE_EXE);
    words.insert(words.end(), {"--config", callgate.config_file()});
    support::Process process{words};
    EXPECT_EQ(process.wait(), 0) << process.err();
    return process.lines();
  };
  run({"pause", "tenant", "search"});
  run({"resume", "tenant", "search"});
  run({"budget", "grant", "7", "--tenant", "search"});
  const std::vector<std::string> acts = run({"dead", "audit", "--plain"});
  ASSERT_EQ(acts.size(), 3u);
  const char* const kActs[] = {"budget.grant", "tenant.resume", "tenant.pause"};
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NE(acts[i].find("\t" + user + "\t" + kActs[i] + "\tsearch\t"), std::string::npos) << acts[i];
}

TEST(Admin, leaves_alone_what_came_to_its_socket_s_place) {
  support::TempDir folder;
  const std::string socket = folder.path() + "/admin.sock";
  Callgate callgate{"listen: {data: 127.0.0.1:0, health: 127.0.0.1:0, admin: \"unix:" + socket + "\"}\n"};
  std::filesystem::remove(socket);
  std::ofstream{socket} << "precious";
  EXPECT_EQ(callgate.stop(), 0);
  EXPECT_TRUE(std::filesystem::exists(socket));
}

// Its configuration comes through a pipe, so that it is held where it has not begun.
TEST(Signals, before_callgate_listens_do_not_kill_it) {
  const std::vector<std::string> command{CALLGATE_EXE,
                                         "serve",
                                         "--config",
                                         "-",
                                         "--set",
                                         "store.path=:memory:",
                                         "--set",
                                         "listen.data=127.0.0.1:0",
                                         "--set",
                                         "listen.health=127.0.0.1:0",
                                         "--set",
                                         "listen.admin=127.0.0.1:0"};
  const auto ignores_hang_ups = [](const support::Process& process) {
    std::ifstream status{"/proc/" + std::to_string(process.pid()) + "/status"};
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigIgn:")) return (std::stoull(line.substr(7), nullptr, 16) >> (SIGHUP - 1) & 1U) == 1;
    }
    return false;
  };
  support::Process hung_up{command};
  ASSERT_TRUE(eventually([&] { return ignores_hang_ups(hung_up); }));
  hung_up.signal(SIGHUP);
  hung_up.close_stdin();
  hung_up.json_line("listening");
  hung_up.signal(SIGTERM);
  EXPECT_EQ(hung_up.wait(), 0);

  support::Process ended{command};
  ASSERT_TRUE(eventually([&] { return ignores_hang_ups(ended); }));
  ended.signal(SIGTERM);
  EXPECT_EQ(ended.wait(), 0);
}

TEST(Admin, a_taken_port_is_named_with_the_mend) {
  House house;
  const std::string address = house.callgate.admin_url().substr(7);
  support::Process second{{CALLGATE_EXE,
                           "serve",
                           "--set",
                           "listen.data=127.0.0.1:0",
                           "--set",
                           "listen.health=127.0.0.1:0",
                           "--set",
                           "store.path=:memory:",
                           "--set",
                           "listen.admin=" + address}};
  EXPECT_EQ(second.wait(), 1);
  EXPECT_NE(second.err().find("cannot listen on " + address + " for the admin API"), std::string::npos)
      << second.err();
  EXPECT_NE(second.err().find("set listen.admin to a free address"), std::string::npos) << second.err();
}

// --- `callgate reload`

struct Said {
  int code = -1;
  std::vector<std::string> out{};
  std::string err{};
};
Said reload_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{CALLGATE_EXE, "reload"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  support::Process process{command};
  Said said;
  said.code = process.wait();
  // Its end may be known before its last line is read.
  const bool done = eventually([&] { return !process.lines().empty() || !process.err().empty(); });
  EXPECT_TRUE(done);
  said.out = process.lines();
  said.err = process.err();
  return said;
}

TEST(ReloadCommand, says_what_has_changed_or_lists_the_problems) {
  House house;
  const std::string admin = house.callgate.admin_url().substr(7);
  house.callgate.write_config(config_for(house.provider, 6, "retry: {base: 9ms}\n"));
  const Said done = reload_command({"--admin", admin});
  EXPECT_EQ(done.code, 0) << done.err;
  house.callgate.write_config(config_for(house.provider, 6, "retry: {bse: 9ms}\n"));
  const Said refused = reload_command({"--admin", admin});
  EXPECT_EQ(refused.code, 3);
  ASSERT_EQ(refused.out.size(), 1U);
  EXPECT_EQ(refused.out[0], house.callgate.config_file() + ":5:9: error: retry.bse: unknown key; did you mean base?");
  EXPECT_NE(refused.err.find("the old configuration stays"), std::string::npos);
  const Said json = reload_command({"--admin", admin, "--json"});
  EXPECT_EQ(json.code, 3);
  std::string text;
  for (const std::string& line : json.out) text += line;
  EXPECT_EQ(Json::parse(text).at("problems").at(0).at("code"), "unknown_key");
}

TEST(ReloadCommand, finds_callgate_by_its_configuration_and_says_where_it_looked_in_vain) {
  support::TempDir folder;
  const std::string file =
      folder.file("callgate.yaml", "listen: {admin: \"unix:" + folder.path() + "/none.sock\"}\n");
  const Said said = reload_command({"--config", file});
  EXPECT_EQ(said.code, 5);
  EXPECT_NE(said.err.find("cannot ask callgate at unix:" + folder.path() + "/none.sock: No such file"),
            std::string::npos)
      << said.err;
}

// --- Under load

struct Load {
  int streams = 6;
  std::chrono::milliseconds time{3'000};
  std::chrono::milliseconds between{200};
};

/// Swaps the file again and again, on a thread of its own; each time it asks for the reload and looks at its answer.
class Swapper {
 public:
  Swapper(House& house, const Load& load) : house_(house), load_(load), thread_([this] { run(); }) {}
  ~Swapper() { stop(); }
  void stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] int swaps() const { return swaps_; }
  [[nodiscard]] int wrong() const { return wrong_; }
  [[nodiscard]] Clock::duration slowest() const { return slowest_; }

 private:
  void run() {
    for (auto at = Clock::now(); !stopping_; at += load_.between) {
      while (!stopping_ && Clock::now() < at) support::dawdle(5ms);
      // A limit that goes up and down, above what the streams take; an upstream that comes and goes.
      const int concurrent = load_.streams + 1 + swaps_ % 2;
      const std::string mine = "  mine: {dialect: openai, url: " + house_.provider.url() + "}\n";
      house_.callgate.write_config(config_for(house_.provider, concurrent, swaps_ % 3 == 0 ? mine : ""));
      if (swaps_ % 5 == 0) house_.callgate.process().signal(SIGHUP);
      const auto asked = Clock::now();
      if (house_.admin("POST", "/v1/reload").status != 200) ++wrong_;
      if (house_.setting("upstreams.openai.limits.concurrent") != std::to_string(concurrent)) ++wrong_;
      slowest_ = std::max(slowest_, Clock::now() - asked);
      ++swaps_;
    }
  }

  House& house_;
  const Load load_;
  std::atomic<bool> stopping_{false};
  int swaps_ = 0;  // Read by others when the thread has ended.
  int wrong_ = 0;
  Clock::duration slowest_{};
  std::thread thread_;
};

double milliseconds_of(Clock::duration time) { return std::chrono::duration<double, std::milli>{time}.count(); }

/// Goal: nothing is cut and no call fails while the file is swapped again and again; at the end all is at rest.
/// Method: streams that pause between their events, each begun anew when it has ended, and unary calls between.
void keep_reloading(const Load& load) {
  House house{load.streams + 2};
  house.provider.script(
      R"([{"match": {"body_contains": "\"stream\":true"}, "answer": {"stream": [{"say": "hel"}, {"wait_ms": 700}, {"say": "l"}, {"wait_ms": 700}, {"say": "o"}]}}])");
  const auto begin_stream = [&] {
    RawClient client{house.callgate.data_port()};
    client.send(request_text("POST", "/openai/v1/chat/completions", kStream, {{"Authorization", "Bearer sk-x"}}));
    return client;
  };
  std::vector<RawClient> streams;
  for (int i = 0; i < load.streams; ++i) streams.push_back(begin_stream());
  const auto in_flight = [&] { return house.metric("callgate_calls_in_flight{lane=\"bulk\",upstream=\"openai\"}"); };
  EXPECT_TRUE(eventually([&] { return in_flight() == load.streams; }));

  Swapper swapper{house, load};
  int ended = 0;
  int calls = 0;
  std::vector<double> times;
  for (const auto begin = Clock::now(); Clock::now() - begin < load.time;) {
    for (RawClient& stream : streams) {
      const auto asked = Clock::now();
      ASSERT_EQ(house.call(), 200);
      times.push_back(milliseconds_of(Clock::now() - asked));
      ++calls;
      const Response answer = stream.read_response();
      ASSERT_EQ(answer.status, 200);
      ASSERT_EQ(answer.end, Response::End::Complete);
      ASSERT_TRUE(answer.body.ends_with("data: [DONE]\n\n")) << answer.body;
      ++ended;
      stream = begin_stream();
    }
    EXPECT_LE(in_flight(), load.streams);
  }
  swapper.stop();
  for (RawClient& stream : streams) {
    const Response answer = stream.read_response();
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n")) << answer.body;
    ++ended;
  }
  EXPECT_EQ(swapper.wrong(), 0);
  EXPECT_TRUE(
      eventually([&] { return in_flight() == 0 && house.metric("callgate_queue_depth{lane=\"bulk\"}") == 0; }));
  EXPECT_EQ(house.reloads("refused"), 0);
  EXPECT_GE(house.reloads("applied"), swapper.swaps() - 1) << "each swap changes something, save maybe the first";
  EXPECT_EQ(house.metric("callgate_config_last_reload_successful"), 1);
  std::ranges::sort(times);
  std::printf(
      "%d swaps, %.0f reloads (%.0f applied), slowest %.0f ms; %d streams and %d calls, all whole; "
      "a call took p50 %.1f, p99 %.1f, at most %.1f ms; rss %.1f MiB, %zu files open, cpu %.2f s\n",
      swapper.swaps(),
      house.reloads("applied") + house.reloads("unchanged"),
      house.reloads("applied"),
      milliseconds_of(swapper.slowest()),
      ended,
      calls,
      times[times.size() / 2],
      times[times.size() * 99 / 100],
      times.back(),
      static_cast<double>(house.callgate.process().rss_bytes()) / (1 << 20),
      house.callgate.process().open_files(),
      std::chrono::duration<double>{house.callgate.process().cpu()}.count());
  EXPECT_EQ(house.callgate.stop(), 0);
}

// RELOAD_SOAK=1 makes a whole minute with 50 streams of it.
TEST(Reload, under_load_cuts_nothing_and_fails_no_call) {
  std::getenv("RELOAD_SOAK") ? keep_reloading({.streams = 50, .time = 60s, .between = 200ms}) : keep_reloading({});
}

}  // namespace reload_test
