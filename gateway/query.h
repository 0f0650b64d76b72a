#pragma once
// What stands behind a path's question mark?

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace gateway {

/// The parameters of a query, percent-decoded; nothing: it is not well formed, or one stands there twice.
[[nodiscard]] std::optional<std::map<std::string, std::string>> parameters_of(std::string_view query);

}  // namespace gateway
