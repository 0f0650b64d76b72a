#pragma once
// `callgate upstreams` and `callgate explain`: how are the providers, and what became of a call?

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace cli {

/// A call's JSON (docs/spend.md) as rows of a word and a text; nothing: it is not such a thing.
[[nodiscard]] std::optional<std::vector<std::vector<std::string>>> rows_of_call(const std::string& json);
/// Of its attempts alone, a JSON array.
[[nodiscard]] std::optional<std::vector<std::vector<std::string>>> rows_of_attempts(const std::string& json);

int upstreams(const Arguments& arguments, Terminal& terminal);
int explain(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
