#include "gateway/reload.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gateway/config_keys.h"
#include "gateway/file_watch.h"
#include "gateway/loop_door.h"
#include "tests/support/pace.h"

namespace gateway {
namespace reload_test {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using support::eventually;

Setting setting(const Path& path, const std::string& value) { return {path, value, "somewhere"}; }

TEST(Changes, are_what_has_another_value_has_come_or_has_gone) {
  const std::vector<Setting> before{setting({"retry", "base"}, "1s"),
                                    setting({"retry", "cap"}, "9s"),
                                    setting({"upstreams", "a.b", "url"}, "https://a")};
  const std::vector<Setting> after{setting({"retry", "base"}, "2s"),
                                   setting({"retry", "cap"}, "9s"),
                                   setting({"upstreams", "c", "url"}, "https://c")};
  EXPECT_EQ(changes(before, before), std::vector<Change>{});
  EXPECT_EQ(changes(before, after),
            (std::vector<Change>{{"retry.base", "1s", "2s"},
                                 {"upstreams.c.url", "", "https://c"},
                                 {"upstreams.\"a.b\".url", "https://a", ""}}));
}

/// Of those whose path has no name in it.
bool in_order_of_the_documentation(const std::vector<Setting>& settings) {
  std::vector<std::ptrdiff_t> places;
  for (const Setting& one : settings) {
    const auto key = std::ranges::find(config_keys(), text_of(one.path), &Key::path);
    if (key != config_keys().end()) places.push_back(key - config_keys().begin());
  }
  return places.size() > 10 && std::ranges::is_sorted(places);
}

TEST(KeepUntilRestart, puts_back_what_is_bound_and_names_it) {
  const Overrides overrides{.environment = {{"TOKEN", "0123456789abcdef"}, {"OTHER", "0123456789abcdeg"}}};
  const auto load = [&](const std::string& text) { return parse_config(text, "f", overrides); };
  struct Row {
    std::string running;
    std::string fresh;
    std::vector<std::string> keys;
  };
  const Row kRows[] = {
      {"", "retry: {base: 1s}", {}},
      {"", "listen: {hosts: [a]}", {}},
      {"", "listen: {data: 127.0.0.1:1}", {"listen.data"}},
      {"",
       "listen: {data: 127.0.0.1:1, health: 127.0.0.1:2, admin: 127.0.0.1:3}",
       {"listen.data", "listen.health", "listen.admin"}},
      {"", "listen: {admin_token: {env: TOKEN}}", {}},
      {"listen: {admin_token: {env: TOKEN}}", "", {}},
      {"listen: {admin: 0.0.0.0:4602, admin_token: {env: TOKEN}}",
       "listen: {admin: 0.0.0.0:4602, admin_token: {env: OTHER}}",
       {}},
      // The listener stays where others can reach it, so it must not lose its token.
      {"listen: {admin: 0.0.0.0:4602, admin_token: {env: TOKEN}}", "", {"listen.admin", "listen.admin_token"}},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.fresh);
    const Loaded running = load(row.running);
    Loaded fresh = load(row.fresh);
    EXPECT_EQ(keep_until_restart(running, fresh), row.keys);
    EXPECT_EQ(fresh.config.listen.data, running.config.listen.data);
    EXPECT_EQ(fresh.config.listen.health, running.config.listen.health);
    EXPECT_EQ(fresh.config.listen.admin, running.config.listen.admin);
    for (const Change& change : changes(running.settings, fresh.settings)) {
      EXPECT_EQ(std::ranges::find(row.keys, change.path), row.keys.end()) << change.path << " does not hold yet";
    }
    EXPECT_TRUE(in_order_of_the_documentation(fresh.settings));
    for (const std::string& key : row.keys) {
      EXPECT_NE(std::ranges::find(kRestartKeys, key), kRestartKeys.end()) << "is not in the metric's label";
    }
  }
}

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "callgate_reload_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const fs::path& name, const std::string& text) const { std::ofstream{root_ / name} << text; }
  void link(const fs::path& target, const fs::path& name) const {
    fs::create_symlink(target, root_ / "fresh");
    fs::rename(root_ / "fresh", root_ / name);
  }
  fs::path root_;
};

using FileWatchTest = Folder;

TEST_F(FileWatchTest, hears_of_every_way_in_which_the_file_can_become_another) {
  fs::create_directories(root_ / "real/one");
  fs::create_directories(root_ / "real/two");
  fs::create_directories(root_ / "etc");
  write("real/one/c.yaml", "1");
  write("real/two/c.yaml", "2");
  link(root_ / "real", "etc/far");
  link("far/one", "etc/..data");
  link("..data/c.yaml", "etc/c.yaml");
  FileWatch watch{(root_ / "etc/c.yaml").string()};
  ASSERT_GE(watch.descriptor(), 0);
  EXPECT_EQ(watch.look_again(), 10s);
  const std::pair<const char*, std::function<void()>> kWays[] = {
      {"written in place", [&] { write("real/one/c.yaml", "11"); }},
      {"renamed over",
       [&] {
         write("real/one/new", "12");
         fs::rename(root_ / "real/one/new", root_ / "real/one/c.yaml");
       }},
      {"a link in the middle", [&] { link("far/two", "etc/..data"); }},
      {"in the new place", [&] { write("real/two/c.yaml", "22"); }},
      {"the last link", [&] { link("far/one/c.yaml", "etc/c.yaml"); }},
      {"the farthest link",
       [&] {
         fs::create_directories(root_ / "other/one");
         write("other/one/c.yaml", "333");
         link(root_ / "other", "etc/far");
       }},
      {"removed", [&] { fs::remove(root_ / "other/one/c.yaml"); }},
      {"there again", [&] { write("other/one/c.yaml", "4444"); }},
      {"its folder renamed away", [&] { fs::rename(root_ / "other/one", root_ / "other/gone"); }},
  };
  for (const auto& [name, change] : kWays) {
    SCOPED_TRACE(name);
    watch.listen();
    watch.listen();  // What is listened to no more says so once.
    const FileStamp before = stamp_of(watch.file());
    pollfd heard{watch.descriptor(), POLLIN, 0};
    EXPECT_EQ(::poll(&heard, 1, 0), 0) << "quiet before";
    change();
    EXPECT_EQ(::poll(&heard, 1, 5'000), 1);
    EXPECT_NE(stamp_of(watch.file()), before);
  }
  watch.listen();
  EXPECT_EQ(watch.look_again(), 1s) << "the folder is not there to be listened to";
}

TEST_F(FileWatchTest, without_inotify_looks_every_second) {
  write("c.yaml", "1");
  FileWatch watch{(root_ / "c.yaml").string(), false};
  EXPECT_EQ(watch.descriptor(), -1);
  EXPECT_EQ(watch.look_again(), 1s);
  const FileStamp before = stamp_of(watch.file());
  write("c.yaml", "12");
  watch.listen();
  EXPECT_NE(stamp_of(watch.file()), before);
}

TEST_F(FileWatchTest, knows_whether_somebody_is_writing) {
  write("c.yaml", "1");
  FileWatch watch{(root_ / "c.yaml").string()};
  const auto being_written = [&] {
    watch.listen();
    return watch.being_written();
  };
  EXPECT_FALSE(being_written());
  std::ofstream in_place{root_ / "c.yaml"};
  EXPECT_TRUE(being_written()) << "emptied";
  EXPECT_TRUE(being_written()) << "and not closed since";
  in_place << "12" << std::flush;
  EXPECT_TRUE(being_written());
  in_place.close();
  EXPECT_FALSE(being_written());

  std::ofstream beside{root_ / "new"};
  beside << "3" << std::flush;
  EXPECT_FALSE(being_written()) << "another file";
  beside.close();
  fs::rename(root_ / "new", root_ / "c.yaml");
  EXPECT_FALSE(being_written());
  EXPECT_TRUE(watch.moved_in());

  std::ofstream replaced{root_ / "c.yaml"};
  replaced << "4" << std::flush;
  EXPECT_TRUE(being_written());
  EXPECT_FALSE(watch.moved_in());
  write("new", "5");
  fs::rename(root_ / "new", root_ / "c.yaml");
  replaced << "44" << std::flush;
  EXPECT_FALSE(being_written()) << "the writer's file is another one by now";
  EXPECT_FALSE(being_written());

  fs::remove(root_ / "c.yaml");
  EXPECT_FALSE(being_written());
  std::ofstream made{root_ / "c.yaml"};
  EXPECT_TRUE(being_written()) << "made, and not closed since";
  made.close();
  EXPECT_FALSE(being_written());
  fs::remove(root_ / "c.yaml");
  write("other", "6");
  fs::create_hard_link(root_ / "other", root_ / "c.yaml");
  EXPECT_FALSE(being_written()) << "a second name for what is there";
}

using LoadAgain = Folder;

TEST_F(LoadAgain, refuses_an_empty_file_but_not_an_empty_map) {
  const std::string file = root_ / "c.yaml";
  write("c.yaml", "");
  const Loaded empty = gateway::load_config(file, {});
  ASSERT_EQ(empty.problems.size(), 1U);
  EXPECT_EQ(text_of(empty.problems[0]),
            file +
                ": error: it is empty, which would set everything to the defaults; write {} into it if that is "
                "meant");
  write("c.yaml", "{}");
  EXPECT_TRUE(gateway::load_config(file, {}).usable());
  EXPECT_TRUE(gateway::load_config("", {}).usable()) << "no file at all";
}

TEST_F(LoadAgain, decides_by_what_was_read_and_not_by_the_size_that_the_file_has_then) {
  // Files of the kernel have bytes but no size, as one that an editor empties behind our back.
  const std::string file = "/proc/self/comm";
  ASSERT_EQ(stamp_of(file).size, 0);
  const Loaded loaded = gateway::load_config(file, {});
  for (const Problem& problem : loaded.problems) EXPECT_EQ(problem.message.find("is empty"), std::string::npos);
}

/// Doors that count, and can be held shut.
struct Doors {
  Reloader::Doors doors() {
    return {[this] {
              std::unique_lock lock{mutex};
              ++reads;
              opened.wait(lock, [&] { return !shut; });
              return Loaded{};
            },
            [this](Loaded fresh, ReloadCause cause) -> std::optional<ReloadReport> {
              const std::scoped_lock lock{mutex};
              causes.push_back(cause);
              if (late > 0) {
                --late;
                return std::nullopt;
              }
              ReloadReport report;
              report.result = ReloadReport::Result::Applied;
              report.problems = fresh.problems;
              return report;
            }};
  }
  std::vector<ReloadCause> handed_over() {
    const std::scoped_lock lock{mutex};
    return causes;
  }
  int count() {
    const std::scoped_lock lock{mutex};
    return reads;
  }
  void set_shut(bool value) {
    {
      const std::scoped_lock lock{mutex};
      shut = value;
    }
    opened.notify_all();
  }
  std::mutex mutex{};
  std::condition_variable opened{};
  bool shut = false;
  int reads = 0;
  int late = 0;  // So many times nobody takes what was read.
  std::vector<ReloadCause> causes{};
};

TEST(ReloaderTest, serves_all_who_asked_meanwhile_with_one_reload) {
  Doors doors;
  Reloader reloader{"", {}, doors.doors()};
  doors.set_shut(true);
  reloader.ask(ReloadCause::Signal);
  EXPECT_TRUE(eventually([&] { return doors.count() == 1; }));
  std::vector<std::thread> asking;
  std::atomic<int> served{0};
  for (int i = 0; i < 10; ++i) {
    asking.emplace_back([&] {
      if (reloader.ask_and_wait(ReloadCause::Admin, 10s)) ++served;
    });
  }
  EXPECT_FALSE(reloader.ask_and_wait(ReloadCause::Admin, 20ms)) << "the one that is under way began too early for it";
  doors.set_shut(false);
  for (std::thread& one : asking) one.join();
  EXPECT_EQ(served, 10);
  EXPECT_LE(doors.count(), 3);
  EXPECT_GE(doors.count(), 2);
}

TEST_F(Folder, a_file_that_others_write_beside_it_reloads_nothing) {
  Doors doors;
  write("c.yaml", "{}");
  const std::string file = root_ / "c.yaml";
  Reloader reloader{file, stamp_of(file), doors.doors()};
  for (int i = 0; i < 20; ++i) write("other", std::to_string(i));
  EXPECT_TRUE(reloader.ask_and_wait(ReloadCause::Signal, 10s).has_value());
  EXPECT_EQ(doors.count(), 1) << "the one that was asked for";
  write("c.yaml", "{ }");
  EXPECT_TRUE(eventually([&] { return doors.count() == 2; }));
  write("other", "x");
  EXPECT_TRUE(reloader.ask_and_wait(ReloadCause::Signal, 10s).has_value());
  EXPECT_EQ(doors.count(), 3);
}

TEST_F(Folder, a_file_that_changed_before_it_was_watched_is_read) {
  Doors doors;
  write("c.yaml", "{}");
  const std::string file = root_ / "c.yaml";
  const FileStamp stamp = stamp_of(file);
  write("c.yaml", "{ }");
  Reloader reloader{file, stamp, doors.doors()};
  EXPECT_TRUE(eventually([&] { return doors.count() == 1; }, 5s));
}

TEST_F(Folder, a_file_that_is_being_written_is_read_when_its_writer_closes_it) {
  write("c.yaml", "{}");
  const std::string file = root_ / "c.yaml";
  for (const char* const trigger : {"nothing", "signal", "admin", "sibling"}) {
    SCOPED_TRACE(trigger);
    Doors doors;
    Reloader reloader{file, stamp_of(file), doors.doors()};
    // One reload, so that the watch is there.
    ASSERT_TRUE(reloader.ask_and_wait(ReloadCause::Signal, 10s).has_value());
    std::ofstream writer{file};
    writer << "half" << std::flush;
    const std::string_view name{trigger};
    if (name == "signal") reloader.ask(ReloadCause::Signal);
    if (name == "admin") {
      EXPECT_FALSE(reloader.ask_and_wait(ReloadCause::Admin, 20ms).has_value());
    }
    if (name == "sibling") write("sibling", "x");
    support::dawdle(400ms);
    EXPECT_EQ(doors.count(), 1) << "half of it was read";
    writer << " and half" << std::flush;
    writer.close();
    EXPECT_TRUE(eventually([&] { return doors.count() == 2; }, 5s));
  }
}

TEST_F(Folder, whose_writer_has_no_end_is_read_for_who_asks_and_with_a_warning) {
  Doors doors;
  write("c.yaml", "{}");
  const std::string file = root_ / "c.yaml";
  Reloader reloader{file, stamp_of(file), doors.doors()};
  ASSERT_TRUE(reloader.ask_and_wait(ReloadCause::Signal, 10s).has_value());
  std::ofstream writer{file};
  writer << "half" << std::flush;
  const auto begin = std::chrono::steady_clock::now();
  const auto report = reloader.ask_and_wait(ReloadCause::Admin, 20s);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 9s);
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->problems.size(), 1U);
  EXPECT_EQ(text_of(report->problems[0]),
            file + ": warning: somebody has been writing it for 10 s without an end; it was read as it stands");
}

TEST_F(Folder, a_file_that_is_written_to_while_it_is_read_is_read_again) {
  Doors doors;
  write("c.yaml", "{}");
  const std::string file = root_ / "c.yaml";
  Reloader reloader{file, stamp_of(file), doors.doors()};
  doors.set_shut(true);
  reloader.ask(ReloadCause::Signal);
  ASSERT_TRUE(eventually([&] { return doors.count() == 1; }));
  write("c.yaml", "{ }");
  doors.set_shut(false);
  EXPECT_TRUE(eventually([&] { return doors.handed_over().size() == 1; }));
  EXPECT_EQ(doors.count(), 2) << "of the first reading nothing is taken";
}

TEST_F(Folder, at_rest_or_renamed_over_is_read_at_once) {
  Doors doors;
  write("c.yaml", "{}");
  const std::string file = root_ / "c.yaml";
  Reloader reloader{file, stamp_of(file), doors.doors()};
  const auto time = [&](const auto& before) {
    auto best = std::chrono::steady_clock::duration::max();  // Of several, for the sake of a busy machine.
    for (int i = 0; i < 5; ++i) {
      before();
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_TRUE(reloader.ask_and_wait(ReloadCause::Admin, 10s).has_value());
      best = std::min(best, std::chrono::steady_clock::now() - begin);
    }
    return best;
  };
  EXPECT_LT(time([] {}), 50ms);
  EXPECT_LT(time([&] {
              write("new", "{ }");
              fs::rename(root_ / "new", file);
            }),
            50ms);
  EXPECT_LT(time([&] {
              write("c.yaml", "{  }");
              support::dawdle(150ms);
            }),
            50ms);
}

TEST_F(Folder, a_change_that_could_not_be_handed_over_is_handed_over_again) {
  Doors doors;
  doors.late = 1;
  write("c.yaml", "{}");
  const std::string file = root_ / "c.yaml";
  Reloader reloader{file, stamp_of(file), doors.doors()};
  write("c.yaml", "{ }");
  EXPECT_TRUE(eventually([&] { return doors.handed_over().size() == 2; }));
  EXPECT_EQ(doors.handed_over(), (std::vector{ReloadCause::FileChange, ReloadCause::FileChange}));
  EXPECT_TRUE(reloader.ask_and_wait(ReloadCause::Admin, 10s).has_value());
  EXPECT_EQ(doors.count(), 3) << "what was taken does not come again";
}

TEST(ReloaderTest, a_signal_that_came_to_nothing_is_served_later) {
  Doors doors;
  doors.late = 1;
  Reloader reloader{"", {}, doors.doors()};
  EXPECT_FALSE(reloader.ask_and_wait(ReloadCause::Signal, 10s)) << "who waits is told at once";
  EXPECT_TRUE(eventually([&] { return doors.handed_over().size() == 2; }));
  EXPECT_EQ(doors.handed_over(), (std::vector{ReloadCause::Signal, ReloadCause::Signal}));
}

TEST(LoopDoor, has_work_done_on_the_loop_or_never) {
  boost::asio::io_context io;
  LoopDoor door{io};
  std::atomic<int> done{0};
  EXPECT_FALSE(door.run([&] { ++done; }, 30ms)) << "the loop does not turn";
  io.poll();
  EXPECT_EQ(done, 0) << "who has given up is not served later";
  io.restart();
  const auto work = boost::asio::make_work_guard(io);
  std::thread loop{[&] { io.run(); }};
  EXPECT_TRUE(door.run([&] { ++done; }, 10s));
  EXPECT_EQ(done, 1);
  io.stop();
  loop.join();
  door.close();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(door.run([&] { ++done; }, 10s));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

}  // namespace reload_test
}  // namespace gateway
