// Goal: callgate doctor finds what is wrong, says the mend, spends nothing and prints no secret. Method: the real
// binary, on configurations that have one thing wrong each, before fake providers.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/harness.h"

namespace doctor_test {

using Json = nlohmann::json;
using support::Callgate;
using support::FakeProvider;
using support::Process;
using support::TempDir;

struct Seen {
  int code = -1;
  Json findings{};
  std::string text{};
  /// The first finding of a check at a level with these words in it; null if there is none.
  [[nodiscard]] Json find(const std::string& check, const std::string& level, const std::string& words = {}) const {
    for (const Json& one : findings) {
      if (one.at("check") == check && one.at("level") == level &&
          one.at("says").get<std::string>().find(words) != std::string::npos)
        return one;
    }
    return nullptr;
  }
};

const std::string kListen = "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0, admin: 127.0.0.1:0}\n";

class Doctor : public ::testing::Test {
 protected:
  [[nodiscard]] Seen look(const std::string& config_file, const std::string& timeout = "5s",
                          std::vector<std::string> more = {},
                          std::vector<std::pair<std::string, std::string>> env = {}) const {
    std::vector<std::string> command{CALLGATE_EXE, "doctor", "--config", config_file, "--timeout", timeout};
    command.insert(command.end(), more.begin(), more.end());
    return look_by(std::move(command), std::move(env));
  }
  [[nodiscard]] Seen look_by(std::vector<std::string> command,
                             std::vector<std::pair<std::string, std::string>> env = {}) const {
    command.emplace_back("--json");
    Process::Options options;
    options.env = std::move(env);
    options.directory = folder_.path();
    Process process{std::move(command), options};
    Seen seen;
    seen.code = process.wait();
    for (const std::string& line : process.lines()) seen.text += line + "\n";
    if (seen.text.starts_with("{")) seen.findings = Json::parse(seen.text).at("findings");
    seen.text += process.err();
    return seen;
  }
  [[nodiscard]] std::string config(const std::string& yaml) const { return folder_.file("callgate.yaml", yaml); }

  TempDir folder_{};
};

TEST_F(Doctor, finds_nothing_to_fail_where_all_is_well_and_asks_the_provider_nothing) {
  FakeProvider provider{{"--self-signed", folder_.path()}};
  const std::string key = folder_.file("key", "sk-0123456789abcdef\n");
  ::chmod(key.c_str(), 0640);
  const Seen seen = look(config(
      kListen + "upstreams:\n  openai:\n    url: https://localhost:" + std::to_string(provider.port()) +
      "\n    ca_file: " + folder_.path() + "/ca.pem\n    credentials: [{name: main, key: {file: " + key + "}}]\n"));
  EXPECT_EQ(seen.code, 0) << seen.text;
  EXPECT_FALSE(seen.find("upstream", "ok", "its certificate is believed").is_null()) << seen.text;
  EXPECT_FALSE(seen.find("keys", "ok", "openai/main").is_null()) << seen.text;
  EXPECT_FALSE(seen.find("store", "ok", "not there yet").is_null()) << seen.text;
  EXPECT_FALSE(seen.find("port", "ok", "listen.data").is_null()) << seen.text;
  EXPECT_EQ(seen.text.find("sk-0123456789abcdef"), std::string::npos);
  EXPECT_EQ(provider.seen().size(), 0U) << "a handshake is no request";
}

TEST_F(Doctor, tells_a_certificate_that_is_not_believed_from_a_port_where_nobody_is) {
  FakeProvider provider{{"--self-signed", folder_.path()}};
  const std::string url = "https://localhost:" + std::to_string(provider.port());
  const Seen stranger = look(config(kListen + "upstreams: {openai: {url: \"" + url + "\"}}\n"));
  EXPECT_EQ(stranger.code, 1) << stranger.text;
  const Json untrusted = stranger.find("upstream", "fail", "certificate is not believed");
  ASSERT_FALSE(untrusted.is_null()) << stranger.text;
  EXPECT_NE(untrusted.at("mend").get<std::string>().find("upstreams.openai.ca_file"), std::string::npos);

  // What listens there does not speak TLS: it says so, or just waits.
  const Callgate plain{kListen};
  const Seen wrong = look(config(
      kListen + "upstreams: {openai: {url: \"https://127.0.0.1:" + std::to_string(plain.data_port()) + "\"}}\n"));
  EXPECT_EQ(wrong.code, 1);
  EXPECT_FALSE(wrong.find("upstream", "fail", "no TLS 1.2").is_null()) << wrong.text;
  FakeProvider silent;
  const Seen late = look(
      config(kListen + "upstreams: {openai: {url: \"https://127.0.0.1:" + std::to_string(silent.port()) + "\"}}\n"),
      "300ms");
  EXPECT_EQ(late.code, 1);
  EXPECT_FALSE(late.find("upstream", "fail", "no TLS handshake within 300ms").is_null()) << late.text;

  const Seen nobody = look(config(kListen + "upstreams: {openai: {url: \"http://127.0.0.1:1\"}}\n"));
  EXPECT_EQ(nobody.code, 1);
  EXPECT_FALSE(nobody.find("upstream", "fail", "cannot connect").is_null()) << nobody.text;

  const Seen nowhere = look(config(kListen + "upstreams: {openai: {url: \"https://callgate.invalid\"}}\n"),
                            "5s",
                            {},
                            {{"https_proxy", ""}, {"HTTPS_PROXY", ""}, {"all_proxy", ""}, {"ALL_PROXY", ""}});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_FALSE(nowhere.find("upstream", "fail").is_null()) << nowhere.text;
}

TEST_F(Doctor, tells_what_a_proxy_has_to_do_with_it_and_keeps_its_password) {
  const Seen seen = look(config(kListen + "upstreams: {openai: {url: \"https://callgate.invalid\"}}\n"),
                         "5s",
                         {},
                         {{"https_proxy", "http://me:verysecret@127.0.0.1:1"}});
  EXPECT_EQ(seen.code, 1);
  EXPECT_FALSE(seen.find("upstream", "fail", "the proxy cannot be reached").is_null()) << seen.text;
  EXPECT_EQ(seen.text.find("verysecret"), std::string::npos);
}

TEST_F(Doctor, looks_at_keys_closely) {
  const std::string key = folder_.file("key", "sk-0123456789abcdef\n");
  const std::string yaml =
      kListen + "upstreams: {ollama: {url: \"http://127.0.0.1:1\", credentials: [{name: main, key: {file: " + key +
      "}}]}}\n";
  for (const mode_t wide : {mode_t{0644}, mode_t{0660}, mode_t{0750}}) {
    ::chmod(key.c_str(), wide);
    const Json warned = look(config(yaml)).find("keys", "warn", "wider than 0640");
    ASSERT_FALSE(warned.is_null()) << wide;
    EXPECT_EQ(warned.at("mend"), "chmod 0640 " + key);
  }
  // As a kubelet's volume has it; there nobody can mend it.
  const std::filesystem::path link = std::filesystem::path{key}.replace_filename("..data");
  std::filesystem::create_directory_symlink("..2026_11_30", link);
  EXPECT_FALSE(look(config(yaml)).find("keys", "ok", key).is_null());
  std::filesystem::remove(link);
  for (const std::string text : {"", "two words\n"}) {
    (void)folder_.file("key", text);
    const Seen bad = look(config(yaml));
    EXPECT_EQ(bad.code, 3) << bad.text;
    EXPECT_FALSE(bad.find("keys", "fail").is_null()) << bad.text;
  }
  EXPECT_EQ(look(config(kListen + "upstreams: {openai: {credentials: [{name: a, key: {file: /nowhere/k}}]}}\n")).code,
            3);
}

TEST_F(Doctor, says_who_holds_the_ports) {
  FakeProvider other;
  const Seen taken = look(config("listen: {data: 127.0.0.1:" + std::to_string(other.port()) +
                                 ", health: 127.0.0.1:0, admin: 127.0.0.1:0}\n"));
  EXPECT_EQ(taken.code, 1);
  EXPECT_FALSE(taken.find("port", "fail", "another program listens there").is_null()) << taken.text;

  Callgate callgate{kListen};
  const std::string data = "127.0.0.1:" + std::to_string(callgate.data_port());
  const Seen running =
      look(config("listen: {data: \"" + data + "\", health: \"127.0.0.1:" + std::to_string(callgate.health_port()) +
                  "\", admin: \"" + callgate.admin_url().substr(7) + "\"}\n"));
  EXPECT_EQ(running.code, 0) << running.text;
  EXPECT_FALSE(running.find("port", "ok", data + ": held by callgate").is_null()) << running.text;
  EXPECT_FALSE(running.find("instance", "ok", "/readyz says: ok").is_null()) << running.text;

  const Seen elsewhere = look(config(kListen), "5s", {"--admin", callgate.admin_url().substr(7)});
  EXPECT_FALSE(elsewhere.find("instance", "ok", "callgate answers at 127.0.0.1:").is_null()) << elsewhere.text;

  Process pause{{CALLGATE_EXE, "pause", "upstream", "openai", "--admin", callgate.admin_url().substr(7)}};
  ASSERT_EQ(pause.wait(), 0);
  const Json paused = look(config(kListen), "5s", {"--admin", callgate.admin_url().substr(7)})
                          .find("instance", "warn", "upstream openai is paused");
  ASSERT_FALSE(paused.is_null());
  EXPECT_EQ(paused.at("mend"), "callgate resume upstream openai");
}

TEST_F(Doctor, tells_one_who_may_not_ask_from_one_who_finds_nobody) {
  ::chmod(folder_.path().c_str(), 0755);
  const std::string closed = folder_.path() + "/closed";
  ASSERT_EQ(::mkdir(closed.c_str(), 0700), 0);
  const Callgate callgate{"listen: {data: 127.0.0.1:0, health: 127.0.0.1:0, admin: \"unix:" + closed +
                          "/admin.sock\"}\n"};
  ASSERT_EQ(::chmod(closed.c_str(), 0), 0);
  const std::string file =
      config("listen: {data: \"127.0.0.1:" + std::to_string(callgate.data_port()) +
             "\", health: \"127.0.0.1:" + std::to_string(callgate.health_port()) + "\", admin: \"unix:" + closed +
             "/admin.sock\"}\nstore: {path: " + closed + "/callgate.db}\n");
  // Root may do everything, so it becomes nobody, who may not look where the executable lies.
  const std::string executable = folder_.path() + "/callgate";
  std::filesystem::copy_file(CALLGATE_EXE, executable);
  std::vector<std::string> as_stranger{executable};
  if (::geteuid() == 0) as_stranger = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", executable};
  std::vector<std::string> command = as_stranger;
  command.insert(command.end(), {"status", "--config", file});
  Process status{command};
  EXPECT_EQ(status.wait(), 6);
  EXPECT_NE(status.err().find("members of its group"), std::string::npos) << status.err();

  command = as_stranger;
  command.insert(command.end(), {"doctor", "--config", file});
  const Seen seen = look_by(command);
  EXPECT_EQ(seen.code, 0) << seen.text;
  EXPECT_FALSE(seen.find("instance", "warn", "this user may not ask at unix:").is_null()) << seen.text;
  EXPECT_FALSE(seen.find("port", "ok", ": held by callgate").is_null()) << seen.text;
  EXPECT_FALSE(seen.find("store", "warn", "this user may not look into").is_null()) << seen.text;
  ASSERT_EQ(::chmod(closed.c_str(), 0700), 0);
}

TEST_F(Doctor, looks_into_the_store) {
  const std::string file =
      folder_.file("callgate.db", "this is no ledger of anybody's, although it is long enough\n");
  const Seen broken = look(config(kListen + "store: {path: " + file + "}\n"));
  EXPECT_EQ(broken.code, 1);
  EXPECT_FALSE(broken.find("store", "fail").is_null()) << broken.text;

  const Seen nowhere = look(config(kListen + "store: {path: /nowhere/at/all/callgate.db}\n"));
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_FALSE(nowhere.find("store", "fail", "/nowhere/at/all").is_null()) << nowhere.text;

  Callgate::Options options;
  options.directory = folder_.path();
  Callgate callgate{kListen, options};
  ASSERT_EQ(callgate.stop(), 0);
  const Seen memory = look(config(kListen + "store: {path: \":memory:\"}\n"));
  EXPECT_FALSE(memory.find("store", "warn", ":memory:").is_null()) << memory.text;
}

TEST_F(Doctor, ends_by_what_it_has_found) {
  const std::string bad = config("listne: {}\n");
  const Seen invalid = look(bad);
  EXPECT_EQ(invalid.code, 3);
  EXPECT_FALSE(invalid.find("config", "fail", "listne").is_null()) << invalid.text;
  EXPECT_TRUE(invalid.find("port", "ok").is_null()) << "what is not understood is not looked at";

  const std::string good = config(kListen);
  EXPECT_EQ(look(good, "5s", {"--upstream", "opnai"}).code, 2);
  EXPECT_NE(look(good, "5s", {"--upstream", "opnai"}).text.find("did you mean openai?"), std::string::npos);
  Process misused{{CALLGATE_EXE, "doctor", "--timeout", "soon"}};
  EXPECT_EQ(misused.wait(), 2);

  // For people: a line each, and the mend below.
  Process people{{CALLGATE_EXE, "doctor", "--config", good, "--set", "store.path=/nowhere/callgate.db"}};
  EXPECT_EQ(people.wait(), 1);
  std::string text;
  for (const std::string& line : people.lines()) text += line + "\n";
  EXPECT_NE(text.find("ok    config    " + good + " is valid\n"), std::string::npos) << text;
  EXPECT_NE(text.find("fail  store     "), std::string::npos) << text;
  EXPECT_NE(text.find("\n                mend: make /nowhere"), std::string::npos) << text;
}

}  // namespace doctor_test
