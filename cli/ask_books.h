#pragma once
// How is the ledger asked: by a running callgate, or in a file that --store names?

#include <expected>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command.h"

namespace cli {

/// "?by=tenant&since=7d"; what has no value is left out.
[[nodiscard]] std::string query_of(std::initializer_list<std::pair<std::string_view, std::string>> parameters);

struct BookReply {
  std::string from{};  // The address, or the file.
  int status = 0;
  std::string body{};
};
/// `path` with its query, as in gateway/book_answers.h. The error is the exit code; why stands on terminal.err by
/// then.
[[nodiscard]] std::expected<BookReply, int> ask_books(std::string_view command, const std::string& path,
                                                      const Arguments& arguments, Terminal& terminal);
/// The reply is no 200: says its detail; the exit code.
int refused_books(std::string_view command, const BookReply& reply, Terminal& terminal);
/// What was answered is not what a callgate would say: says so; the exit code.
int no_books(std::string_view command, const BookReply& reply, Terminal& terminal);

/// "callgate COMMAND: WHAT" and where its help is; the exit code.
int misuse(std::string_view command, std::string_view what, Terminal& terminal);

}  // namespace cli
