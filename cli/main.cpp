#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value != '\0';
}

bool is_dumb() {
  const char* terminal = std::getenv("TERM");
  return !terminal || std::string_view{terminal} == "dumb";
}

bool wants_colour(int fd) {
  if (is_set("NO_COLOR")) return false;
  if (is_set("FORCE_COLOR")) return true;
  return ::isatty(fd) == 1 && !is_dumb();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  cli::Terminal terminal{std::cin, std::cout, std::cerr, wants_colour(STDOUT_FILENO), wants_colour(STDERR_FILENO)};
  const bool err_shown = ::isatty(STDERR_FILENO) == 1;
  terminal.in_person = ::isatty(STDIN_FILENO) == 1 && err_shown;
  terminal.live_err = err_shown && !is_dumb();
  try {
    return cli::run(words, terminal);
  } catch (const std::exception& error) {
    std::cerr << "callgate: " << error.what() << '\n';
    return cli::kFailed;
  }
}
