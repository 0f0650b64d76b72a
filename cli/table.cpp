#include "cli/table.h"

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string_view>
#include <utility>

#include "gateway/json_out.h"

namespace cli {
namespace {

/// How many columns a terminal gives it: code points, which suffices for "–" and "×".
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string cell(std::string_view text, std::size_t most) {
  std::string out;
  gateway::append_escaped(out, text, most);
  return out.empty() ? "-" : out;
}

std::vector<std::string> aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - columns_of(row[i]) + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

void print_rows(const std::vector<std::vector<std::string>>& rows, std::ostream& out) {
  for (const std::string& line : aligned(rows)) out << line << '\n';
}

void print_list(const std::vector<std::vector<std::string>>& rows, const Arguments& arguments, Terminal& terminal,
                std::string_view kind) {
  if (!arguments.has("--plain")) {
    const std::vector<std::string> lines = aligned(rows);
    for (std::size_t i = 0; i < lines.size(); ++i)
      terminal.out << (i == 0 ? toned(lines[i], Tone::Bold, terminal.colour_out) : lines[i]) << '\n';
    return;
  }
  std::string first;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (!kind.empty()) terminal.out << kind << '\t';
    for (std::size_t j = 0; j < rows[i].size(); ++j) {
      // For people a name stands once above what belongs to it.
      if (j == 0 && !rows[i][0].empty()) first = rows[i][0];
      terminal.out << (j == 0 ? "" : "\t") << (j == 0 ? first : rows[i][j]);
    }
    terminal.out << '\n';
  }
}

}  // namespace cli
