#pragma once
// Is a ledger's file sound, and how is it copied? Both may be asked of one that is being served.

#include <chrono>
#include <expected>
#include <string>
#include <vector>

namespace ledger {

/// What is wrong with it, one line each; empty: nothing. It looks at the file's inside, its schema, whether the sums
/// of spend_by_period are those of the rows, and at rows that lack what they belong to. Reads all of it.
[[nodiscard]] std::vector<std::string> check(const std::string& path);

struct QuickLook {
  std::vector<std::string> wrong{};
  bool whole = true;  // Else its time was over before all was seen.
};
/// The same without indexes, sums and belongings: whether it is a ledger of ours and its pages hang together.
[[nodiscard]] QuickLook quick_check(const std::string& path, std::chrono::milliseconds patience);

/// Copies all that is committed into a new file of mode 0600; an existing one is refused. The error says what and
/// why, and then there is no file left behind.
[[nodiscard]] std::expected<void, std::string> backup(const std::string& path, const std::string& to);

}  // namespace ledger
