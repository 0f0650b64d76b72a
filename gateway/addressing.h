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
  std::map<std::string, std::shared_ptr<const Target>, std::less<>> upstreams{};
  std::map<std::string, std::string, std::less<>> default_upstream{};  // dialect -> upstream
};

struct Addressed {
  std::shared_ptr<const Target> to{};
  std::string path{};    // "/v1/chat/completions"
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

/// In whose words is an error said for a target that led nowhere? Never null.
[[nodiscard]] const classifier::Dialect& dialect_for(const Directory& directory, std::string_view target);

}  // namespace gateway
