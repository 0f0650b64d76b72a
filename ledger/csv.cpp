#include "ledger/csv.h"

#include <algorithm>
#include <optional>

namespace ledger {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  bool point = false;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
    } else if (c < '0' || c > '9') {
      return false;
    }
  }
  return !text.empty() && text != ".";
}

/// Spreadsheets look behind what is not seen, too.
bool may_be_formula(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \v\f");
  if (first == std::string_view::npos) return false;
  return std::string_view{"=+-@\t\r\n"}.contains(text[first]) && !is_number(text);
}

char separator_of(std::string_view heading) {
  for (const char c : {'\t', ';'}) {
    if (heading.contains(c)) return c;
  }
  return ',';
}

}  // namespace

void append_csv(std::string& out, const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out += ',';
    const std::string text = (may_be_formula(cells[i]) ? "'" : "") + cells[i];
    if (text.find_first_of(",\"\r\n") == std::string::npos) {
      out += text;
      continue;
    }
    out += '"';
    for (const char c : text) {
      if (c == '"') out += '"';
      out += c;
    }
    out += '"';
  }
  out += "\r\n";
}

std::expected<CsvTable, std::string> read_csv(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const char separator = separator_of(text.substr(0, text.find('\n')));
  CsvTable table;
  std::vector<std::string> row;
  std::string cell;
  std::size_t line = 1;
  std::size_t began = 1;
  bool quoted = false;
  bool was_quoted = false;
  std::optional<std::string> wrong;
  const auto end_cell = [&] {
    row.push_back(std::move(cell));
    cell.clear();
    was_quoted = false;
  };
  const auto end_row = [&] {
    end_cell();
    const bool hollow = std::ranges::all_of(row, &std::string::empty);
    if (!hollow && table.heading.empty()) {
      table.heading = std::move(row);
    } else if (!hollow) {
      if (row.size() > table.heading.size()) {
        wrong = "row " + std::to_string(began) + " has " + std::to_string(row.size()) + " cells, the heading " +
                std::to_string(table.heading.size());
      }
      row.resize(table.heading.size());
      table.rows.push_back(std::move(row));
    }
    row.clear();
    began = line;
  };
  for (std::size_t i = 0; i < text.size() && !wrong; ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (quoted) {
      if (c != '"') {
        cell += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        cell += '"';
        ++i;
      } else {
        quoted = false;
      }
    } else if (c == '"' && cell.empty() && !was_quoted) {
      quoted = was_quoted = true;
    } else if (c == separator) {
      end_cell();
    } else if (c == '\n') {
      end_row();
    } else if (c != '\r' || (i + 1 < text.size() && text[i + 1] != '\n')) {
      if (was_quoted) wrong = "row " + std::to_string(began) + " has text behind a closing quote";
      cell += c;
    }
  }
  if (quoted) wrong = "the quote that opens in row " + std::to_string(began) + " is never closed";
  if (!wrong && (!cell.empty() || !row.empty())) end_row();
  if (wrong) return std::unexpected(*wrong);
  if (table.heading.empty()) return std::unexpected("it is empty");
  return table;
}

}  // namespace ledger
