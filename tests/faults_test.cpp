// Goal: docs/faults.md is true: each fault has its row, each test that a row names is there, and each test that is
// named after a fault stands in that fault's row. Method: the page is read, and the sources of all tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr int kFaults = 47;

std::string id_of(int number) {
  char text[8];
  std::snprintf(text, sizeof text, "F-%02d", number);
  return text;
}

/// "e2e/Faults.F01_a_broken_stream_is_not_begun_again", as ctest has them.
using Tests = std::set<std::string>;

/// What is wrong with the page, one line each.
std::vector<std::string> wrongs_of(const std::string& page, const Tests& tests) {
  static const std::regex kRow{R"(\| (F-\d\d) \| (critical|high|medium) \| ([^|]+) \| ([^|]+) \|)"};
  static const std::regex kTest{R"(`(\w+/\w+\.\w+)`)"};
  static const std::regex kNumber{R"(F(\d\d)_)"};
  std::vector<std::string> wrongs;
  std::map<std::string, Tests> named;  // By fault.
  for (std::sregex_iterator row{page.begin(), page.end(), kRow}, end; row != end; ++row) {
    const std::string id = (*row)[1];
    const std::string cell = (*row)[4];
    if (named.contains(id)) wrongs.push_back(id + " has two rows");
    Tests& mine = named[id];
    for (std::sregex_iterator test{cell.begin(), cell.end(), kTest}; test != end; ++test) mine.insert((*test)[1]);
    if (mine.empty() && cell.find("waits for: ") == std::string::npos)
      wrongs.push_back(id + " has no test and waits for nothing");
    for (const std::string& test : mine) {
      if (!tests.contains(test)) wrongs.push_back(id + " names " + test + ", which does not exist");
    }
  }
  for (int number = 1; number <= kFaults; ++number) {
    if (!named.contains(id_of(number))) wrongs.push_back(id_of(number) + " has no row");
  }
  if (named.size() > kFaults) wrongs.push_back("there are rows of unknown faults");
  for (const std::string& test : tests) {
    const std::string name = test.substr(test.find('.') + 1);
    // F08_F09_… shows two of them.
    std::smatch number;
    for (std::string rest = name; std::regex_search(rest, number, kNumber) && number.position() == 0;
         rest = number.suffix()) {
      const std::string id = "F-" + number[1].str();
      if (!named[id].contains(test)) wrongs.push_back(id + " does not name " + test);
    }
  }
  return wrongs;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

Tests tests_in(const std::filesystem::path& folder) {
  static const std::regex kTest{R"(\nTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\))"};
  Tests tests;
  for (const auto& room : std::filesystem::directory_iterator{folder}) {
    if (!room.is_directory()) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator{room.path()}) {
      if (!entry.path().filename().string().ends_with("_test.cpp")) continue;
      const std::string text = text_of(entry.path());
      for (std::sregex_iterator test{text.begin(), text.end(), kTest}, end; test != end; ++test) {
        tests.insert(room.path().filename().string() + "/" + (*test)[1].str() + "." + (*test)[2].str());
      }
    }
  }
  return tests;
}

const std::filesystem::path kRoot{PROJECT_ROOT};

TEST(FaultsPage, is_true) {
  const Tests tests = tests_in(kRoot / "tests");
  ASSERT_GT(tests.size(), 200u) << "they could not be found";
  for (const std::string& wrong : wrongs_of(text_of(kRoot / "docs/faults.md"), tests)) ADD_FAILURE() << wrong;
}

TEST(FaultsPage, what_is_wrong_with_it_is_seen) {
  const std::string page = text_of(kRoot / "docs/faults.md");
  const Tests tests = tests_in(kRoot / "tests");
  const auto wrongs = [&](const std::string& what, const std::string& by, const Tests& of) {
    std::string edited = page;
    if (!what.empty()) {
      const auto at = edited.find(what);
      EXPECT_NE(at, std::string::npos) << what;
      edited.replace(at, what.size(), by);
    }
    std::string all;
    for (const std::string& wrong : wrongs_of(edited, of)) all += wrong + "\n";
    return all;
  };
  EXPECT_NE(wrongs("| F-01 |", "| F-51 |", tests).find("F-01 has no row"), std::string::npos);
  EXPECT_NE(wrongs("| F-02 |", "| F-01 |", tests).find("F-01 has two rows"), std::string::npos);
  EXPECT_NE(wrongs("`e2e/Faults.F28_who_leaves_the_queue_is_never_sent`", "nothing", tests)
                .find("F-28 has no test and waits for nothing"),
            std::string::npos);
  Tests fewer = tests;
  ASSERT_EQ(fewer.erase("e2e/Faults.F01_a_broken_stream_is_not_begun_again"), 1u);
  EXPECT_NE(wrongs({}, {}, fewer).find("which does not exist"), std::string::npos);
  Tests more = tests;
  more.insert("e2e/Some.F08_F33_made_up");
  EXPECT_NE(wrongs({}, {}, more).find("F-08 does not name e2e/Some.F08_F33_made_up"), std::string::npos);
  EXPECT_NE(wrongs({}, {}, more).find("F-33 does not name e2e/Some.F08_F33_made_up"), std::string::npos);
}

}  // namespace
