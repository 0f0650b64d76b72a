#pragma once
// How is the table of keys told to editors and to people?

#include <string>

namespace gateway {

/// JSON Schema draft-07. Never refuses what the validator takes; what only the validator can see (ranges of
/// durations, names that must exist) it lets pass.
[[nodiscard]] std::string config_schema();
/// docs/configuration.md
[[nodiscard]] std::string config_docs();

}  // namespace gateway
