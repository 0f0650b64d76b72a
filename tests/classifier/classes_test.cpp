// Goal: docs/concepts.md explains every class that there is, and no other.

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "classifier/verdict.h"

namespace classes_test {

TEST(Classes, are_all_explained) {
  std::ifstream file{PROJECT_ROOT "/docs/concepts.md"};
  std::set<std::string> explained;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    in_table = line == "| class | meaning | tried again |" || (in_table && line.starts_with("|"));
    if (!in_table) continue;
    const std::string first = line.substr(0, line.find('|', 1));
    for (std::size_t at = first.find('`'); at != std::string::npos;) {
      const std::size_t end = first.find('`', at + 1);
      ASSERT_NE(end, std::string::npos) << line;
      const std::string name = first.substr(at + 1, end - at - 1);
      EXPECT_TRUE(explained.insert(name).second) << name << " is explained twice";
      at = first.find('`', end + 1);
    }
  }
  std::set<std::string> there;
  for (const std::string_view name : classifier::kClassNames) {
    if (name != "none") there.emplace(name);
  }
  EXPECT_EQ(explained, there);
}

}  // namespace classes_test
