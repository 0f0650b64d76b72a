#pragma once
// How are rows of words printed so that their columns stand below each other?

#include <iosfwd>
#include <string>
#include <vector>

namespace cli {

/// One line a row, without its end.
[[nodiscard]] std::vector<std::string> aligned(const std::vector<std::vector<std::string>>& rows);
void print_rows(const std::vector<std::vector<std::string>>& rows, std::ostream& out);

}  // namespace cli
