#pragma once
// What prices does a file hold? Our own format (docs/prices.md) or LiteLLM's model_prices_and_context_window.json,
// whichever it is; what cannot be understood is named with its place.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "budget/price.h"

namespace budget {

struct PriceProblem {
  enum class Severity : std::uint8_t { Error, Warning };
  Severity severity = Severity::Error;
  std::size_t line = 1;    // Both from 1.
  std::size_t column = 1;  // In bytes.
  std::string path{};      // "gpt-5.4: long[0].above"; empty: the file as a whole.
  std::string message{};   // With what would be right.
  bool operator==(const PriceProblem&) const = default;
};
/// "prices.json:3:14: error: gpt-5.4: usd_per_mtok.input: must be …"
[[nodiscard]] std::string text_of(const PriceProblem& problem, std::string_view file);

enum class PriceFormat : std::uint8_t { Own, LiteLlm };

/// The prices of one file, with what names the file's very bytes in a log line.
struct PriceTable {
  std::string name{};     // "shipped", or the file's.
  std::string version{};  // As it says itself; LiteLLM's does not.
  std::string digest{};   // 16 hexadecimal digits; tells two states of a file apart, protects from nobody.
  PriceFormat format = PriceFormat::Own;
  std::vector<Price> prices{};
};

/// What became of one entry of a LiteLLM file.
struct EntryReading {
  enum class How : std::uint8_t { Whole, Partly, NotAtAll };
  std::string model{};
  How how = How::Whole;
  std::string reason{};  // What is left out and why; the same words for the same reason.
};

struct PriceFile {
  PriceTable table{};
  std::vector<PriceProblem> problems{};
  std::vector<EntryReading> readings{};  // LiteLLM only, every entry in the file's order.
  /// Without an error. A file of our own with an error is refused as a whole; of a LiteLLM file that is JSON, entries
  /// that cannot be understood are left out.
  [[nodiscard]] bool usable() const;
};

inline constexpr std::string_view kShippedPrices = "shipped";

/// "2026-09-01"; nothing if it is no such date.
[[nodiscard]] std::optional<std::chrono::sys_days> price_date(std::string_view text);

/// Never throws, whatever the text is.
[[nodiscard]] PriceFile read_price_file(std::string_view text, std::string name);
/// What is compiled in.
[[nodiscard]] std::string_view shipped_prices_text();

/// What may be wrong with a price that can be read: a priority tier at 50 times the plain price, cached tokens dearer
/// than fresh ones. One sentence each.
[[nodiscard]] std::vector<std::string> suspicions(const Price& price);

}  // namespace budget
