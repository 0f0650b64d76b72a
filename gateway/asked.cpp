#include "gateway/asked.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "gateway/book_answers.h"
#include "gateway/query.h"
#include "ledger/times.h"

namespace gateway {

Asked::Asked(std::string_view query, WallTime now) : now_(now) {
  auto parameters = parameters_of(query);
  if (!parameters) {
    wrong_ = "must be name=value&…, each name once, percent-encoded";
    return;
  }
  given_ = std::move(*parameters);
  // A variable that was not set must not mean: all of them.
  for (const auto& [name, value] : given_) {
    if (value.empty()) wrong_ = "has an empty " + name;
  }
}

std::string Asked::take(const char* name) {
  const auto found = given_.find(name);
  if (found == given_.end()) return {};
  std::string value = std::move(found->second);
  given_.erase(found);
  return value;
}

std::string_view Asked::given(const char* name) const {
  const auto found = given_.find(name);
  return found == given_.end() ? std::string_view{} : found->second;
}

std::int64_t Asked::time(const char* name, std::int64_t otherwise) {
  const std::string value = take(name);
  if (value.empty()) return otherwise;
  const auto ms = read_since(value, now_);
  if (!ms)
    wrong(std::string{name} + " must be a time such as 2026-11-29, 2026-11-29T16:40Z, or 7d for that long ago");
  return ms.value_or(otherwise);
}

std::size_t Asked::number(const char* name, std::size_t otherwise, std::size_t most) {
  const std::string value = take(name);
  if (value.empty()) return otherwise;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number < 1 || number > most)
    wrong(std::string{name} + " must be between 1 and " + std::to_string(most));
  return number;
}

double Asked::real(const char* name, double otherwise, double least, double most) {
  const std::string value = take(name);
  if (value.empty()) return otherwise;
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || !(number > least && number <= most))
    wrong(std::string{name} + " must be a number above " + std::to_string(least) + ", at most " +
          std::to_string(most));
  return number;
}

void Asked::wrong(std::string what) {
  if (wrong_.empty()) wrong_ = std::move(what);
}

std::optional<EndpointAnswer> Asked::refusal() const {
  const std::string what = wrong_.empty() && !given_.empty() ? "does not know " + given_.begin()->first : wrong_;
  if (what.empty()) return std::nullopt;
  return plain_problem(400, "Bad request", "This question " + what + ".");
}

std::int64_t Asked::now_ms() const {
  return std::chrono::floor<std::chrono::milliseconds>(now_.time_since_epoch()).count();
}

std::int64_t Asked::week_ago() const { return std::max<std::int64_t>(now_ms() - 7 * ledger::kDayMs, 0); }

std::vector<std::string> listed_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    if (!word.empty()) words.emplace_back(word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return words;
}

}  // namespace gateway
