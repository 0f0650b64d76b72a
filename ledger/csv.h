#pragma once
// How are tables written for spreadsheets, and read from them? RFC 4180.

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace ledger {

/// One row with its CRLF. A text that a spreadsheet would take for a formula gets an apostrophe in front; numbers,
/// negative ones too, stay as they are.
void append_csv(std::string& out, const std::vector<std::string>& cells);

struct CsvTable {
  std::vector<std::string> heading{};
  std::vector<std::vector<std::string>> rows{};  // As long as the heading; missing cells are empty.
};

/// With or without a byte order mark, CRLF or LF; separated by the tab, semicolon or comma, whichever the heading
/// has. The error says what is wrong, in which row. Rows without any text are left out.
[[nodiscard]] std::expected<CsvTable, std::string> read_csv(std::string_view text);

}  // namespace ledger
