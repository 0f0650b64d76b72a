// What shells complete is what the table has; tests/host/host_test.sh lets real shells do it.
#include "cli/completion.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cli/man.h"

namespace completion_test {

TEST(Completion, knows_the_words_of_every_option_that_takes_one_of_a_few) {
  std::set<std::string> found;
  for (const cli::Command& command : cli::commands()) {
    for (const cli::Option& option : command.options) {
      const cli::Choices choices = cli::choices_of(option);
      if (choices.words.empty()) continue;
      found.insert(std::string{option.name});
      // The same words as its help, unless that shows only an example.
      const bool by_example = option.meaning.find("such as") != std::string_view::npos || option.name == "--dialect";
      for (const std::string& word : choices.words) {
        EXPECT_TRUE(by_example || option.meaning.find(word) != std::string_view::npos)
            << command.words << " " << option.name << " " << word;
      }
    }
  }
  EXPECT_EQ(found,
            (std::set<std::string>{"--advice",
                                   "--by",
                                   "--class",
                                   "--dialect",
                                   "--outcome",
                                   "--period",
                                   "--progress",
                                   "--state",
                                   "--transport",
                                   "--type"}));
}

TEST(Completion, is_of_every_command_and_option) {
  for (const std::string& script : {cli::bash_completion(), cli::zsh_completion()}) {
    for (const cli::Command& command : cli::commands()) {
      EXPECT_NE(script.find("'" + std::string{command.words} + "'"), std::string::npos) << command.words;
      for (const cli::Option& option : command.options)
        EXPECT_NE(script.find(std::string{option.name}), std::string::npos) << option.name;
    }
  }
}

TEST(ManualPage, has_every_exit_code_and_every_option) {
  const std::string page = cli::command_page();
  for (const cli::ExitMeaning& one : cli::exit_codes())
    EXPECT_NE(page.find("\\fB" + std::to_string(one.code) + "\\fR\n"), std::string::npos) << one.code;
  EXPECT_NE(page.find("\\fB\\-\\-upstream\\fR \\fINAME\\fR"), std::string::npos);
  for (std::size_t at = 0; at < page.size(); at = page.find('\n', at) + 1) {
    const std::string_view line = std::string_view{page}.substr(at, page.find('\n', at) - at);
    EXPECT_LE(line.size(), 120U) << line;
  }
}

}  // namespace completion_test
