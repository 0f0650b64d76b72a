#include "gateway/key_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>

namespace gateway {
namespace key_files_test {

using namespace std::chrono_literals;

/// A folder with keys in it, and what is told of them.
class KeyFilesTest : public testing::Test {
 protected:
  KeyFilesTest() {
    std::string made = (std::filesystem::temp_directory_path() / "keys-XXXXXX").string();
    folder_ = ::mkdtemp(made.data());
  }
  ~KeyFilesTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream{path(name + ".new")} << text;
    ::chmod(path(name + ".new").c_str(), 0600);
    std::filesystem::rename(path(name + ".new"), path(name));
  }
  [[nodiscard]] KeySource source(const std::string& name) const {
    return {name, {SecretSource::From::File, path(name)}};
  }
  void told(KeyChange change) {
    const std::scoped_lock lock{mutex_};
    told_.push_back(std::move(change));
    more_.notify_all();
  }
  /// "name=key", "name!" for one that cannot be used; empty: nothing came in time.
  std::string next(std::chrono::milliseconds patience = 10s) {
    std::unique_lock lock{mutex_};
    if (!more_.wait_for(lock, patience, [this] { return !told_.empty(); })) return {};
    const KeyChange change = std::move(told_.front());
    told_.pop_front();
    if (!change.key) {
      EXPECT_EQ(change.key.error().find("sk-"), std::string::npos) << "nothing of the file is said";
      return change.name + "!";
    }
    return change.name + "=" + *change.key;
  }

 private:
  std::string folder_{};
  std::mutex mutex_{};
  std::condition_variable more_{};
  std::deque<KeyChange> told_{};
};

TEST_F(KeyFilesTest, each_is_told_of_once_and_then_only_when_it_changes) {
  write("a", "sk-1\n");
  write("b", "sk-2\n");
  KeyFiles files{[this](KeyChange change) { told(std::move(change)); }};
  files.watch({source("a"), source("b")});
  EXPECT_EQ(next(), "a=sk-1");
  EXPECT_EQ(next(), "b=sk-2");
  // Whatever it holds, and only what changed.
  for (const auto& [text, want] :
       {std::pair{"sk-3\n", "a=sk-3"}, {"sk-two\nsk-lines\n", "a!"}, {"", "a!"}, {"sk-4", "a=sk-4"}}) {
    write("a", text);
    EXPECT_EQ(next(), want);
  }
  files.watch({source("b")});
  EXPECT_EQ(next(), "b=sk-2") << "once more, since it may have changed before";
  write("a", "sk-5\n");
  write("b", "sk-6\n");
  EXPECT_EQ(next(), "b=sk-6") << "nobody watches the other any more";
}

TEST_F(KeyFilesTest, the_swap_of_a_link_is_seen) {
  write("old", "sk-old\n");
  write("fresh", "sk-fresh\n");
  std::filesystem::create_symlink(path("old"), path("key"));
  KeyFiles files{[this](KeyChange change) { told(std::move(change)); }};
  files.watch({source("key")});
  EXPECT_EQ(next(), "key=sk-old");
  std::filesystem::create_symlink(path("fresh"), path("next"));
  std::filesystem::rename(path("next"), path("key"));
  EXPECT_EQ(next(), "key=sk-fresh");
}

}  // namespace key_files_test
}  // namespace gateway
