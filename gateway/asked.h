#pragma once
// The parameters of a question to the admin listener, taken one after the other; what is wrong is said once.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/endpoint.h"
#include "gateway/services.h"

namespace gateway {

class Asked {
 public:
  Asked(std::string_view query, WallTime now);

  /// Empty: it was not given.
  std::string take(const char* name);
  [[nodiscard]] std::string_view given(const char* name) const;
  /// "2026-11-29T16:40Z", "7d" ago; milliseconds since the epoch.
  std::int64_t time(const char* name, std::int64_t otherwise);
  std::size_t number(const char* name, std::size_t otherwise, std::size_t most);
  /// More than `least`, at most `most`.
  double real(const char* name, double otherwise, double least, double most);
  void wrong(std::string what);
  /// To be asked when all is taken.
  [[nodiscard]] std::optional<EndpointAnswer> refusal() const;
  /// Who asks, where that is known.
  std::optional<Peer> who{};
  [[nodiscard]] WallTime now() const { return now_; }
  [[nodiscard]] std::int64_t now_ms() const;
  [[nodiscard]] std::int64_t week_ago() const;

 private:
  WallTime now_;
  std::map<std::string, std::string> given_{};
  std::string wrong_{};
};

/// "a,b" → a, b.
[[nodiscard]] std::vector<std::string> listed_words(std::string_view text);

}  // namespace gateway
