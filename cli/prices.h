#pragma once
// What does a model cost, why, and is a price file right?

#include <optional>

#include "budget/price_book.h"
#include "cli/command.h"

namespace cli {

/// The shipped table and the files of --file over it; nothing, after saying why, if one of them is wrong.
[[nodiscard]] std::optional<budget::PriceBook> price_book_of(const Arguments& arguments, Terminal& terminal);

int prices_list(const Arguments& arguments, Terminal& terminal);
int prices_show(const Arguments& arguments, Terminal& terminal);
int prices_check(const Arguments& arguments, Terminal& terminal);

}  // namespace cli
