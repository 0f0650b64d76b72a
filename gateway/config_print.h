#pragma once
// How is the table of keys told to editors and to people?

#include <span>
#include <string>

#include "gateway/config.h"

namespace gateway {

/// What `config show --json` and the admin API say: {"settings": [{"path", "value", "origin"}, …]}. Of a secret it
/// has the place.
[[nodiscard]] std::string settings_json(std::span<const Setting> settings);
/// What `validate --json` and the admin API say: [{"file", "line", "column", "path", "severity", "kind", "message"},
/// …]
[[nodiscard]] std::string problems_json(std::span<const Problem> problems);

/// JSON Schema draft-07. Never refuses what the validator takes; what only the validator can see (ranges of
/// durations, names that must exist) it lets pass.
[[nodiscard]] std::string config_schema();
/// docs/configuration.md
[[nodiscard]] std::string config_docs();

}  // namespace gateway
