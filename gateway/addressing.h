#pragma once
// Which upstream does this path mean, and what is left of it for the provider? (design §3)

#include <expected>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/call.h"

namespace gateway {

struct Directory {
  std::map<std::string, std::shared_ptr<const Route>, std::less<>> routes{};  // Upstreams among them.
  std::map<std::string, std::string, std::less<>> default_upstream{};         // dialect -> one of them
};

struct Addressed {
  std::shared_ptr<const Route> route{};
  std::string asked{};   // What stood behind the name, as it was written.
  std::string path{};    // "/v1/chat/completions", as the route's first upstream has it.
  std::string query{};   // Without the question mark.
  std::string target{};  // Both, as sent on.
};

struct Unaddressed {
  int status = 404;
  std::string code{};
  std::string message{};
};

/// `target` in origin form, with the caller's headers, since the kind of its key decides about paths that several
/// APIs have. The caller can never name a host: only the part behind an upstream's name is used.
///
/// Forgiving where workers err with their base URLs: the API's version may be missing or there twice, and so may the
/// path of the upstream's own URL. All other paths go on byte for byte.
[[nodiscard]] std::expected<Addressed, Unaddressed> address(const Directory& directory, std::string_view target,
                                                            const classifier::Headers& headers);

/// The path as that upstream has it; `asked` as in Addressed.
[[nodiscard]] std::string providers_path(const Target& to, std::string_view asked);

/// In whose words is an error said for a target that led nowhere? Never null.
[[nodiscard]] const classifier::Dialect& dialect_for(const Directory& directory, std::string_view target);

}  // namespace gateway
