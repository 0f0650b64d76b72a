#pragma once
// How are rows of words printed so that their columns stand below each other?

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace cli {

/// A word of somebody else's, for a table: anything may listen at an address, and say what moves a terminal's cursor.
[[nodiscard]] std::string cell(std::string_view text, std::size_t most = 96);

/// A JSON library's value, whichever, as a cell: "-" for null.
template <typename Json>
[[nodiscard]] std::string word(const Json& value) {
  if (value.is_null()) return "-";
  return cell(value.is_string() ? value.template get<std::string>() : value.dump());
}

/// One line a row, without its end.
[[nodiscard]] std::vector<std::string> aligned(const std::vector<std::vector<std::string>>& rows);
void print_rows(const std::vector<std::vector<std::string>>& rows, std::ostream& out);

/// Rows behind their heading. With --plain: no heading, tabs between the cells, before them `kind` if there is one;
/// an empty first cell is the one above.
void print_list(const std::vector<std::vector<std::string>>& rows, const Arguments& arguments, Terminal& terminal,
                std::string_view kind = {});

}  // namespace cli
