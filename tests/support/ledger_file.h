#pragma once
// What stands in the ledger's file, seen from outside?

#include <sqlite3.h>

#include <cstdint>
#include <string>

namespace support {

/// The first column of the first row, of a ledger that may be in use.
inline std::int64_t number_in(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
  sqlite3_busy_timeout(db, 2'000);
  sqlite3_stmt* made = nullptr;
  std::int64_t found = -1;
  if (sqlite3_prepare_v2(db, sql.c_str(), -1, &made, nullptr) == SQLITE_OK && sqlite3_step(made) == SQLITE_ROW)
    found = sqlite3_column_int64(made, 0);
  sqlite3_finalize(made);
  sqlite3_close(db);
  return found;
}

}  // namespace support
