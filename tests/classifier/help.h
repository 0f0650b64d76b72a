#pragma once
// What do the tests of this room share? Fixtures as bytes, bodies with room behind them, results as one line of text.

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "classifier/dialect.h"

namespace classifier_tests {

inline std::string fixture(std::string_view name) {
  std::ifstream file{std::string{PROJECT_ROOT} + "/tests/fixtures/" + std::string{name}, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// `text` as zlib packs it; window_bits as in deflateInit2().
inline constexpr int kGzip = 31;
inline constexpr int kZlib = 15;
inline constexpr int kRawDeflate = -15;
std::string deflated(std::string_view text, int window_bits);

/// As the gateway holds a request's body.
inline std::string padded(std::string_view text) {
  std::string out;
  out.reserve(text.size() + classifier::kBodyPadding);
  out = text;
  return out;
}

/// "rate_limited retryable 2500 ms".
inline std::string spelled(const classifier::Verdict& verdict) {
  std::string out{name_of(verdict.cls)};
  if (verdict.cls == classifier::Class::None) return out;
  out += verdict.retryable ? " retryable" : " final";
  if (verdict.retry_after) out += " " + std::to_string(verdict.retry_after->count()) + " ms";
  return out;
}

/// "gpt-4o 14 0 0 0 9 0 stop": model, the six counts in the order of TokenCounts, finish.
inline std::string spelled(const classifier::Usage& usage) {
  std::string out = usage.model;
  if (usage.tokens) {
    const classifier::TokenCounts& t = *usage.tokens;
    for (const std::int64_t part :
         {t.input, t.cached_input, t.cache_write_5m, t.cache_write_1h, t.output, t.reasoning}) {
      out += " " + std::to_string(part);
    }
  } else {
    out += " unknown";
  }
  return out + " " + usage.finish.value_or("unfinished");
}

}  // namespace classifier_tests
