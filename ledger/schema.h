#pragma once
// The tables, as text.

#include <string_view>

namespace ledger {

inline constexpr int kSchemaVersion = 1;

[[nodiscard]] std::string_view schema_sql();

}  // namespace ledger
