#include "ledger/usage_export.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "budget/price.h"
#include "ledger/csv.h"
#include "ledger/spend_sums.h"
#include "ledger/times.h"

namespace ledger {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kKnown =
    "; read are OpenAI's and Anthropic's usage and cost reports, as JSON from their admin APIs and as CSV from their "
    "consoles (docs/spend.md)";
constexpr std::int64_t kNanoPerCent = 10'000'000;

/// What is wrong with the file; thrown here and caught here.
struct Wrong {
  std::string text;
};

[[noreturn]] void wrong(std::string text) { throw Wrong{std::move(text)}; }

std::string shown(std::string_view text) {
  std::string out{text.substr(0, 60)};
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return "'" + out + (text.size() > 60 ? "…" : "") + "'";
}

class Reading {
 public:
  Reading(std::string form, std::string provider) {
    out_.form = std::move(form);
    out_.provider = std::move(provider);
  }
  ExportLine& at(const std::string& day, const std::string& model) {
    ExportLine& line = lines_[{day, model}];
    line.day = day;
    line.model = model;
    return line;
  }
  /// All days from `begin` to before `end`.
  void covers(std::int64_t begin_ms, std::int64_t end_ms) {
    if (end_ms - begin_ms > 400 * kDayMs) wrong("it has a bucket of more than a year");
    for (std::int64_t ms = floor_to(begin_ms, kDayMs); ms < std::max(end_ms, begin_ms + 1); ms += kDayMs)
      days_.insert(day_text(ms));
  }
  UsageExport& out() { return out_; }
  UsageExport told() {
    for (auto& [key, line] : lines_) {
      days_.insert(line.day);
      out_.lines.push_back(std::move(line));
    }
    out_.days.assign(days_.begin(), days_.end());
    return std::move(out_);
  }

 private:
  UsageExport out_{};
  std::map<std::pair<std::string, std::string>, ExportLine> lines_{};
  std::set<std::string> days_{};
};

void count(std::optional<std::int64_t>& to, std::int64_t amount) {
  std::int64_t sum = to.value_or(0);
  add(sum, amount);
  to = sum;
}

/// Also "59200.0", as spreadsheets write it.
std::int64_t whole_number(std::string_view text, const std::string& what) {
  if (text.empty()) return 0;
  const auto number = budget::parse_decimal(text, 0);
  if (!number || !number->exact) wrong(what + " is " + shown(text) + ", no whole number");
  return number->units;
}

/// Credits are negative.
std::int64_t amount_of(std::string_view text, const std::string& what, std::int64_t nano_per_unit = 1'000'000'000) {
  const bool negative = text.starts_with('-');
  const auto amount = budget::parse_decimal(negative ? text.substr(1) : text, nano_per_unit == kNanoPerCent ? 7 : 9);
  if (!amount) wrong(what + " is " + shown(text) + ", no amount");
  return negative ? -amount->units : amount->units;
}

/// Half a unit of its last digit.
std::int64_t rounding_of(std::string_view text) {
  const std::size_t point = text.find('.');
  std::int64_t half = 500'000'000;
  for (std::size_t i = point == std::string_view::npos ? text.size() : point + 1; i < text.size(); ++i) half /= 10;
  return half;
}

std::int64_t number_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return 0;
  if (found->is_number_unsigned() || found->is_number_integer()) return found->get<std::int64_t>();
  if (found->is_number_float()) return whole_number(found->dump(), name);
  wrong(std::string{name} + " is " + shown(found->dump()) + ", no whole number");
}

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

std::string amount_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// "gpt-4o-mini-2024-07-18, input" is of that model; what names no model ("Image models") stays as it is.
std::string model_of_line_item(const std::string& item) { return item.substr(0, item.find(", ")); }

void expect_usd(const std::string& currency) {
  std::string lower = currency;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (!lower.empty() && lower != "usd") wrong("its amounts are in " + shown(currency) + "; only usd is read");
}

UsageExport openai_page(const Json& page) {
  Reading reading{"", "openai"};
  for (const Json& bucket : page.at("data")) {
    const std::int64_t begin = number_at(bucket, "start_time") * 1'000;
    const std::int64_t end = number_at(bucket, "end_time") * 1'000;
    reading.covers(begin, end);
    const std::string day = day_text(begin);
    const Json& results = bucket.contains("results") ? bucket.at("results") : bucket.at("result");
    for (const Json& one : results) {
      const std::string object = text_at(one, "object");
      const bool costs = object == "organization.costs.result";
      const bool usage = object.starts_with("organization.usage.");
      if (!costs && !usage) wrong("it has a result of the kind " + shown(object) + std::string{kKnown});
      const std::string form = costs ? "openai-costs-json" : "openai-usage-json";
      if (!reading.out().form.empty() && reading.out().form != form)
        wrong("it has both usage and costs; give one at a time");
      reading.out().form = form;
      if (costs) {
        const Json& amount = one.at("amount");
        expect_usd(text_at(amount, "currency"));
        ExportLine& line = reading.at(day, model_of_line_item(text_at(one, "line_item")));
        count(line.cost_nano, amount_of(amount_text(amount.at("value")), "amount.value"));
        continue;
      }
      ExportLine& line = reading.at(day, text_at(one, "model"));
      count(line.requests, number_at(one, "num_model_requests"));
      count(line.input, number_at(one, "input_tokens"));
      count(line.cached_input, number_at(one, "input_cached_tokens"));
      count(line.output, number_at(one, "output_tokens"));
    }
  }
  // Of a time without anything nobody can say what it is of.
  if (reading.out().form.empty()) reading.out().form = "openai-usage-json";
  return reading.told();
}

UsageExport anthropic_page(const Json& page) {
  Reading reading{"", "anthropic"};
  for (const Json& bucket : page.at("data")) {
    const auto begin = read_time(text_at(bucket, "starting_at"));
    const auto end = read_time(text_at(bucket, "ending_at"));
    if (!begin || !end) wrong("a bucket has no starting_at and ending_at");
    reading.covers(*begin, *end);
    const std::string day = day_text(*begin);
    for (const Json& one : bucket.at("results")) {
      const bool costs = one.contains("amount");
      if (!costs && !one.contains("output_tokens"))
        wrong("it has a result without amount and output_tokens" + std::string{kKnown});
      const std::string form = costs ? "anthropic-costs-json" : "anthropic-usage-json";
      if (!reading.out().form.empty() && reading.out().form != form)
        wrong("it has both usage and costs; give one at a time");
      reading.out().form = form;
      ExportLine& line = reading.at(day, text_at(one, "model"));
      if (costs) {
        expect_usd(text_at(one, "currency"));
        // In cents.
        count(line.cost_nano, amount_of(amount_text(one.at("amount")), "amount", kNanoPerCent));
        continue;
      }
      const Json none = Json::object();
      const Json& creation =
          one.contains("cache_creation") && one.at("cache_creation").is_object() ? one.at("cache_creation") : none;
      const std::int64_t written =
          number_at(creation, "ephemeral_5m_input_tokens") + number_at(creation, "ephemeral_1h_input_tokens");
      const std::int64_t cached = number_at(one, "cache_read_input_tokens");
      count(line.cache_write, written);
      count(line.cached_input, cached);
      count(line.input, number_at(one, "uncached_input_tokens") + written + cached);
      count(line.output, number_at(one, "output_tokens"));
    }
  }
  if (reading.out().form.empty()) reading.out().form = "anthropic-usage-json";
  return reading.told();
}

UsageExport page_of(const Json& page) {
  if (!page.is_object() || !page.contains("data") || !page.at("data").is_array()) {
    std::string seen = page.is_object() ? "an object with" : "JSON that is no object";
    if (page.is_object()) {
      for (const auto& [name, value] : page.items()) seen += " " + shown(name);
    }
    wrong("it is " + seen + std::string{kKnown});
  }
  const Json& data = page.at("data");
  const bool openai = text_at(page, "object") == "page";
  const bool anthropic = !openai && page.contains("has_more") && (data.empty() || data[0].contains("starting_at"));
  if (!openai && !anthropic) wrong("it is a list of neither OpenAI's buckets nor Anthropic's" + std::string{kKnown});
  UsageExport read = openai ? openai_page(page) : anthropic_page(page);
  const auto more = page.find("has_more");
  read.whole = more == page.end() || !more->is_boolean() || !more->get<bool>();
  return read;
}

/// Columns by their names.
class Columns {
 public:
  explicit Columns(const CsvTable& table) : table_(table) {}
  [[nodiscard]] bool has(std::string_view name) const {
    return std::ranges::find(table_.heading, name) != table_.heading.end();
  }
  [[nodiscard]] std::string text(const std::vector<std::string>& row, std::string_view name) const {
    const auto found = std::ranges::find(table_.heading, name);
    return found == table_.heading.end() ? std::string{}
                                         : row[static_cast<std::size_t>(found - table_.heading.begin())];
  }
  [[nodiscard]] std::int64_t number(const std::vector<std::string>& row, std::string_view name) const {
    return whole_number(text(row, name), std::string{name});
  }

 private:
  const CsvTable& table_;
};

UsageExport openai_csv(const CsvTable& table, bool costs) {
  const Columns columns{table};
  Reading reading{costs ? "openai-costs-csv" : "openai-usage-csv", "openai"};
  for (const auto& row : table.rows) {
    const std::int64_t begin = columns.number(row, "start_time") * 1'000;
    reading.covers(begin, columns.number(row, "end_time") * 1'000);
    const std::string day = day_text(begin);
    if (costs) {
      const std::string amount = columns.text(row, "amount_value");
      if (amount.empty()) continue;  // A day without any.
      expect_usd(columns.text(row, "amount_currency"));
      count(reading.at(day, model_of_line_item(columns.text(row, "line_item"))).cost_nano,
            amount_of(amount, "amount_value"));
      continue;
    }
    if (columns.text(row, "num_model_requests").empty()) continue;
    ExportLine& line = reading.at(day, columns.text(row, "model"));
    count(line.requests, columns.number(row, "num_model_requests"));
    count(line.input, columns.number(row, "input_tokens"));
    count(line.cached_input, columns.number(row, "input_cached_tokens"));
    count(line.output, columns.number(row, "output_tokens"));
  }
  return reading.told();
}

UsageExport anthropic_csv(const CsvTable& table, bool costs) {
  const Columns columns{table};
  Reading reading{costs ? "anthropic-costs-csv" : "anthropic-usage-csv", "anthropic"};
  reading.out().display_names = costs;
  std::optional<std::int64_t> first, last;
  for (const auto& row : table.rows) {
    const std::string date = columns.text(row, "usage_date_utc").substr(0, 10);
    const auto ms = read_time(date);
    if (!ms) wrong("usage_date_utc is " + shown(date) + ", no date");
    first = std::min(first.value_or(*ms), *ms);
    last = std::max(last.value_or(*ms), *ms);
    if (costs) {
      const std::string amount = columns.text(row, "cost_usd");
      ExportLine& line = reading.at(date, columns.text(row, "model"));
      count(line.cost_nano, amount_of(amount, "cost_usd"));
      add(line.rounding_nano, rounding_of(amount));
      continue;
    }
    ExportLine& line = reading.at(date, columns.text(row, "model_version"));
    std::int64_t written = columns.number(row, "usage_input_tokens_cache_write");
    add(written, columns.number(row, "usage_input_tokens_cache_write_5m"));
    add(written, columns.number(row, "usage_input_tokens_cache_write_1h"));
    const std::int64_t cached = columns.number(row, "usage_input_tokens_cache_read");
    count(line.cache_write, written);
    count(line.cached_input, cached);
    count(line.input, columns.number(row, "usage_input_tokens_no_cache") + written + cached);
    count(line.output, columns.number(row, "usage_output_tokens"));
  }
  if (first) reading.covers(*first, *last + kDayMs);
  return reading.told();
}

UsageExport csv_of(std::string_view text) {
  const auto table = read_csv(text);
  if (!table) wrong(table.error());
  const Columns columns{*table};
  if (columns.has("start_time") && columns.has("amount_value")) return openai_csv(*table, true);
  if (columns.has("start_time") && columns.has("num_model_requests")) return openai_csv(*table, false);
  // OpenAI's export of days without anything has no other columns.
  if (columns.has("start_time") && columns.has("end_time") && table->heading.size() <= 4)
    return openai_csv(*table, false);
  if (columns.has("usage_date_utc") && columns.has("cost_usd")) return anthropic_csv(*table, true);
  if (columns.has("usage_date_utc") && columns.has("usage_input_tokens_no_cache"))
    return anthropic_csv(*table, false);
  std::string seen;
  for (std::size_t i = 0; i < std::min<std::size_t>(table->heading.size(), 8); ++i)
    seen += (i == 0 ? "" : ", ") + shown(table->heading[i]);
  wrong("its columns are " + seen + std::string{kKnown});
}

}  // namespace

std::expected<UsageExport, std::string> joined(std::vector<UsageExport> pages) {
  if (pages.empty()) return std::unexpected("there is nothing in it");
  if (pages.size() == 1) return std::move(pages[0]);
  std::map<std::pair<std::string, std::string>, ExportLine> lines;
  std::set<std::string> days;
  UsageExport out;
  for (UsageExport& page : pages) {
    if (page.lines.empty()) page.form = out.form;  // Nothing in it says of what it is.
    if (!out.form.empty() && !page.form.empty() && page.form != out.form)
      return std::unexpected("one part is " + out.form + ", another " + page.form + "; give one form at a time");
    if (out.form.empty()) out.form = page.form;
    out.provider = page.provider;
    out.whole = page.whole;  // The last page has no more behind it.
    out.display_names = page.display_names;
    days.insert(page.days.begin(), page.days.end());
    for (const ExportLine& line : page.lines) {
      ExportLine& sum = lines[{line.day, line.model}];
      sum.day = line.day;
      sum.model = line.model;
      constexpr std::optional<std::int64_t> ExportLine::*kFigures[] = {&ExportLine::requests,
                                                                       &ExportLine::input,
                                                                       &ExportLine::cached_input,
                                                                       &ExportLine::cache_write,
                                                                       &ExportLine::output,
                                                                       &ExportLine::cost_nano};
      for (const auto figure : kFigures) {
        if (line.*figure) count(sum.*figure, *(line.*figure));
      }
      add(sum.rounding_nano, line.rounding_nano);
    }
  }
  for (auto& [key, line] : lines) out.lines.push_back(std::move(line));
  out.days.assign(days.begin(), days.end());
  return out;
}

std::expected<UsageExport, std::string> read_usage_export(std::string_view text) {
  try {
    const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    if (first == std::string_view::npos) wrong("it is empty");
    if (text[first] != '{' && text[first] != '[') return csv_of(text);
    std::vector<UsageExport> pages;
    const Json whole = Json::parse(text.substr(first), nullptr, false);
    if (whole.is_array()) {
      for (const Json& page : whole) pages.push_back(page_of(page));
    } else if (!whole.is_discarded()) {
      pages.push_back(page_of(whole));
    } else {
      // Pages one below the other.
      for (std::string_view rest = text.substr(first); !rest.empty();) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
        const Json page = Json::parse(line, nullptr, false);
        if (page.is_discarded()) wrong("it is no JSON");
        pages.push_back(page_of(page));
      }
    }
    return joined(std::move(pages));
  } catch (const Wrong& what) {
    return std::unexpected(what.text);
  } catch (const Json::exception& what) {
    return std::unexpected("something is missing or of another kind than in a usage export: " +
                           std::string{what.what()});
  }
}

}  // namespace ledger
