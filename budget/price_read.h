#pragma once
// What both readers of price files need; inside budget/price_*.cpp only.

#include <optional>
#include <string>
#include <string_view>

#include "budget/price_file.h"
#include "budget/price_json.h"

namespace budget {

/// Problems of a file, gathered with their places.
class PriceProblems {
 public:
  explicit PriceProblems(std::string_view text) : lines_(text) {}
  void error(std::size_t at, std::string path, std::string message) {
    add(PriceProblem::Severity::Error, at, std::move(path), std::move(message));
  }
  void warning(std::size_t at, std::string path, std::string message) {
    add(PriceProblem::Severity::Warning, at, std::move(path), std::move(message));
  }
  [[nodiscard]] std::vector<PriceProblem> take() { return std::move(problems_); }

 private:
  void add(PriceProblem::Severity severity, std::size_t at, std::string path, std::string message) {
    const JsonLines::Place place = lines_.place(at);
    problems_.push_back({severity, place.line, place.column, std::move(path), std::move(message)});
  }
  JsonLines lines_;
  std::vector<PriceProblem> problems_{};
};

/// 1000 USD for one token, image or page is no price but an error of units.
inline constexpr std::int64_t kMostRate = 1'000'000'000'000'000;

/// A number or a text that is one, as units of 10^-digits; nothing if it is neither, or negative.
[[nodiscard]] std::optional<Decimal> decimal_of(const Json& json, int digits);

/// The table for a tier and threshold, made if there is none.
[[nodiscard]] Rates& rates_of(Price& price, Tier tier, std::int64_t over);

void read_own_prices(const Json& root, PriceFile& file, PriceProblems& problems);
void read_litellm_prices(const Json& root, PriceFile& file, PriceProblems& problems);

}  // namespace budget
