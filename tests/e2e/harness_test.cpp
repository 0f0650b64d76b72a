// Goal: a test that fails does so in time, and tells why. Method: programs that misbehave on purpose.

#include "tests/support/harness.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace harness_test {

using namespace std::chrono_literals;
using support::Failed;
using support::Process;
using support::TempDir;

Process shell(const std::string& script, Process::Options options = {}) {
  return Process{{"/bin/sh", "-c", script}, std::move(options)};
}

std::string told_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const Failed& failure) {
    return failure.what();
  }
  return "nothing";
}

TEST(Harness, reads_lines_as_they_come_and_waits_for_events_among_them) {
  auto process = shell(R"(echo noise; echo '{"event":"other"}'; echo '{"event":"ready","port":7}'; echo last; cat)");
  EXPECT_EQ(process.json_line("ready").at("port"), 7);
  EXPECT_EQ(process.line(), "last");
  EXPECT_EQ(process.lines().size(), 4U);
  EXPECT_TRUE(process.running());
  EXPECT_GT(process.rss_bytes(), 0U);
  EXPECT_GT(process.open_files(), 0U);
  process.close_stdin();
  EXPECT_EQ(process.wait(), 0);
  EXPECT_FALSE(process.running());
}

TEST(Harness, tells_what_a_program_said_instead) {
  auto silent = shell("echo what; echo why >&2; exec cat");
  silent.line();
  const auto late = told_by([&] { silent.json_line("ready", 50ms); });
  EXPECT_NE(late.find("what"), std::string::npos) << late;
  auto gone = shell("echo no config >&2; exit 3");
  const auto early = told_by([&] { gone.json_line("ready"); });
  EXPECT_NE(early.find("no config"), std::string::npos) << early;
  EXPECT_EQ(gone.wait(), 3);
  EXPECT_NE(told_by([] { Process{{"/no/such/program"}}; }).find("cannot run"), std::string::npos);
}

TEST(Harness, reports_the_signal_that_ended_a_program) {
  auto process = shell("exec cat");
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait(), 128 + SIGKILL);
  auto patient = shell("exec cat");
  EXPECT_THROW(patient.wait(20ms), Failed);
}

TEST(Harness, leaves_no_program_behind) {
  int pid = 0;
  {
    auto process = shell("trap '' TERM; echo up; cat");
    process.line();
    pid = process.pid();
  }
  EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(pid)));
}

TEST(Harness, runs_a_program_where_and_with_what_it_is_told) {
  const TempDir directory;
  directory.file("there", "text");
  auto process = shell("cat there; echo; echo $HARNESS_TEST", {{{"HARNESS_TEST", "given"}}, directory.path()});
  EXPECT_EQ(process.line(), "text");
  EXPECT_EQ(process.line(), "given");
}

TEST(Harness, starts_callgate_with_a_configuration_and_waits_until_it_listens) {
  const TempDir directory;
  support::Callgate::Options options;
  options.executable = directory.file("stand-in", R"(#!/bin/sh
trap 'exit 5' TERM
echo '{"event":"started"}'
grep -q good callgate.yaml || { echo no good >&2; exit 1; }
printf '{"event":"listening","data":"127.0.0.1:%s","health":"[::]:12","admin":"127.0.0.1:13","words":"%s"}\n' "$DATA" "$*"
while :; do read line; done
)");
  std::filesystem::permissions(options.executable, std::filesystem::perms::owner_all);
  options.arguments = {"--more"};
  options.env = {{"DATA", "11"}};
  support::Callgate callgate{"good: yes\n", options};
  EXPECT_EQ(callgate.data_url(), "http://127.0.0.1:11");
  EXPECT_EQ(callgate.health_port(), 12);
  EXPECT_NE(callgate.process().lines().back().find("serve --config " + callgate.config_file() + " --more"),
            std::string::npos);
  EXPECT_EQ(callgate.stop(), 5);

  const auto failure = told_by([&] { const support::Callgate broken{"bad: yes\n", options}; });
  EXPECT_NE(failure.find("no good"), std::string::npos) << failure;
}

TEST(Harness, removes_its_directories) {
  std::string path;
  {
    const TempDir directory;
    path = directory.path();
    directory.file("a", "b");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace harness_test
