#include "cli/command.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <streambuf>
#include <string>
#include <vector>

#include "gateway/config_print.h"

namespace {

using nlohmann::json;

struct Said {
  int code = -1;
  std::string out{};
  std::string err{};
};

Said callgate(const std::vector<std::string>& words, const std::string& input = {}, bool colour = false) {
  std::istringstream in{input};
  std::ostringstream out;
  std::ostringstream err;
  cli::Terminal terminal{in, out, err, colour, colour};
  const int code = cli::run(words, terminal);
  return {code, out.str(), err.str()};
}

std::vector<std::string> split(std::string_view text) {
  std::istringstream in{std::string{text}};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(Command, that_does_not_exist_is_answered_with_the_one_that_was_meant) {
  struct Row {
    std::vector<std::string> words;
    std::string_view err;
  };
  const Row kRows[] = {
      {{"validat"}, "callgate: unknown command: validat\nDid you mean \"callgate validate\"?\n"},
      {{"config", "shwo"}, "callgate: unknown command: config shwo\nDid you mean \"callgate config show\"?\n"},
      {{"confg", "show"}, "callgate: unknown command: confg\nDid you mean \"callgate config\"?\n"},
      {{"frobnicate"}, "callgate: unknown command: frobnicate\nSee \"callgate --help\".\n"},
      {{"config", "frobnicate"}, "callgate: unknown command: config frobnicate\nSee \"callgate config --help\".\n"},
      {{"-x"}, "callgate: unknown command: -x\nSee \"callgate --help\".\n"},
      {{"help", "validat"}, "callgate: unknown command: validat\nDid you mean \"callgate validate\"?\n"},
      {{"val"}, "callgate: unknown command: val\nSee \"callgate --help\".\n"},  // No abbreviations.
      {{"validate", "--jsn"},
       "callgate validate: unknown option --jsn; did you mean --json?\nSee \"callgate validate --help\".\n"},
      {{"validate", "--json=1"}, "callgate validate: --json takes no value\nSee \"callgate validate --help\".\n"},
      {{"validate", "--json", "--json"},
       "callgate validate: --json is given twice\nSee \"callgate validate --help\".\n"},
      {{"config", "show", "--config"},
       "callgate config show: --config needs a value: --config FILE\nSee \"callgate config show --help\".\n"},
      {{"serve", "--config", ""},
       "callgate serve: --config must not be empty: --config FILE\nSee \"callgate serve --help\".\n"},
      {{"reload", "--admin", "4602"},
       "callgate reload: --admin must be an address such as 127.0.0.1:4602 or unix:/path (is 4602)\n"
       "See \"callgate reload --help\".\n"},
      {{"validate", "--set="},
       "callgate validate: --set must not be empty: --set KEY=VALUE\nSee \"callgate validate --help\".\n"},
      {{"validate", ""},
       "callgate validate: an argument is empty; is a variable not set?\nSee \"callgate validate --help\".\n"},
      {{"config", "show", "x"},
       "callgate config show: does not take the argument x\nSee \"callgate config show --help\".\n"},
      {{"version", "--", "--json"},
       "callgate version: does not take the argument --json\nSee \"callgate version --help\".\n"},
  };
  for (const Row& row : kRows) {
    const Said said = callgate(row.words);
    EXPECT_EQ(said.code, 2) << row.err;
    EXPECT_EQ(said.err, row.err);
    EXPECT_EQ(said.out, "") << "talk is not a result";
  }
}

TEST(Command, alone_shows_the_overview_as_talk_since_nothing_was_asked_for) {
  const Said nothing = callgate({});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_EQ(nothing.out, "");
  const Said help = callgate({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.out, nothing.err);
  EXPECT_EQ(callgate({"help"}).out, help.out);
  const Said group = callgate({"config"});
  EXPECT_EQ(group.code, 2);
  EXPECT_TRUE(group.err.starts_with("callgate: config needs one more word\n")) << group.err;
  EXPECT_EQ(callgate({"config", "--help"}).code, 0);
}

TEST(Command, has_help_that_begins_with_examples_in_three_ways) {
  for (const cli::Command& command : cli::commands()) {
    SCOPED_TRACE(command.words);
    std::vector<std::string> words = split(command.words);
    words.push_back("--help");
    const Said asked = callgate(words);
    EXPECT_EQ(asked.code, 0);
    EXPECT_EQ(asked.err, "");
    EXPECT_LT(asked.out.find("Examples"), asked.out.find("Usage")) << asked.out;
    words.back() = "-h";
    EXPECT_EQ(callgate(words).out, asked.out);
    words.pop_back();
    words.insert(words.begin(), "help");
    EXPECT_EQ(callgate(words).out, asked.out);
    for (const cli::Option& option : command.options) {
      EXPECT_NE(asked.out.find(option.name), std::string::npos);
      EXPECT_FALSE(option.meaning.empty());
    }
  }
}

TEST(Command, has_examples_that_use_only_what_exists) {
  for (const cli::Command& command : cli::commands()) {
    SCOPED_TRACE(command.words);
    EXPECT_FALSE(command.examples.empty());
    EXPECT_FALSE(command.summary.empty());
    for (const cli::Example& example : command.examples) {
      EXPECT_NE(example.line.find("callgate " + std::string{command.words}), std::string_view::npos) << example.line;
      for (const std::string& word : split(example.line)) {
        if (!word.starts_with("--")) continue;
        EXPECT_NE(std::ranges::find(command.options, word, &cli::Option::name), command.options.end())
            << example.line;
      }
    }
  }
}

TEST(Command, explains_its_exit_codes) {
  const Said said = callgate({"help", "exit-codes"});
  EXPECT_EQ(said.code, 0);
  for (const char* line :
       {"  0    done\n", "  2    wrong usage", "  3    invalid configuration", "  9    timed out"}) {
    EXPECT_NE(said.out.find(line), std::string::npos) << line;
  }
}

TEST(Command, colours_only_where_it_is_told_to) {
  EXPECT_EQ(callgate({"--help"}).out.find('\x1b'), std::string::npos);
  EXPECT_NE(callgate({"--help"}, "", true).out.find("\x1b[1mExamples\x1b[0m"), std::string::npos);
  EXPECT_NE(callgate({"validate", "-"}, "x: 1", true).out.find(":1:1: \x1b[31merror:\x1b[0m x: unknown key"),
            std::string::npos);
  EXPECT_EQ(callgate({"validate", "--json", "-"}, "x: 1", true).out.find('\x1b'), std::string::npos);
}

struct FullDisk : std::streambuf {
  int overflow(int) override { return traits_type::eof(); }
};

TEST(Command, fails_when_its_result_could_not_be_written) {
  FullDisk disk;
  std::istringstream in;
  std::ostream out{&disk};
  std::ostringstream err;
  cli::Terminal terminal{in, out, err};
  EXPECT_EQ(cli::run({"version"}, terminal), 1);
  EXPECT_EQ(err.str(), "callgate: the output could not be written\n");
}

TEST(About, says_version_and_dialects_for_people_and_programs) {
  EXPECT_EQ(callgate({"version"}).out, "callgate " CALLGATE_VERSION "\n");
  EXPECT_EQ(callgate({"--version"}).out, "callgate " CALLGATE_VERSION "\n");
  EXPECT_EQ(json::parse(callgate({"version", "--json"}).out)["version"], CALLGATE_VERSION);
  EXPECT_NE(callgate({"dialects"}).out.find("anthropic   built-in upstreams: anthropic\n"), std::string::npos);
  std::set<std::string> dialects;
  for (const json& one : json::parse(callgate({"dialects", "--json"}).out)) dialects.insert(one["dialect"]);
  EXPECT_TRUE(dialects.contains("openai") && dialects.contains("anthropic") && dialects.contains("gemini"));
}

class Validate : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "callgate_cli_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    const std::string file = folder_ / name;
    std::ofstream{file} << text;
    EXPECT_EQ(::chmod(file.c_str(), 0640), 0);
    return file;
  }
  std::filesystem::path folder_;
};

TEST_F(Validate, lists_the_problems_of_all_files_as_its_result) {
  const std::string good = write("good.yaml", "retry: {base: 1s}\n");
  const std::string bad = write("bad.yaml", "retry: {base: 1, cup: 2}\n");
  const Said said = callgate({"validate", good, bad});
  EXPECT_EQ(said.code, 3);
  EXPECT_EQ(said.out,
            good + ": valid\n" + bad +
                ":1:15: error: retry.base: must be a duration such as 250ms, 30s or 5m (is 1; write 1s or "
                "another unit)\n" +
                bad + ":1:18: error: retry.cup: unknown key; did you mean cap?\n");
  EXPECT_EQ(said.err, "2 errors, 0 warnings\n");
  EXPECT_EQ(callgate({"validate", good}).code, 0);
  EXPECT_EQ(callgate({"validate", good}).err, "");
}

TEST_F(Validate, counts_a_warning_as_valid) {
  const std::string file = write("warned.yaml", "upstreams: {openai: {url: http://example.com}}\n");
  const Said said = callgate({"validate", file});
  EXPECT_EQ(said.code, 0);
  EXPECT_TRUE(said.out.ends_with(file + ": valid\n")) << said.out;
  EXPECT_EQ(said.err, "0 errors, 1 warning\n");
}

TEST_F(Validate, tells_programs_code_place_and_severity) {
  const std::string file = write("bad.yaml", "retry: {base: 1, base: 2s}\nqueues: {a: 1}\n");
  const Said said = callgate({"validate", "--json", file});
  EXPECT_EQ(said.code, 3);
  EXPECT_EQ(said.err, "");
  const json report = json::parse(said.out);
  EXPECT_EQ(report["valid"], false);
  ASSERT_EQ(report["files"].size(), 1U);
  EXPECT_EQ(report["files"][0]["file"], file);
  const json& problems = report["files"][0]["problems"];
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_EQ(problems[0]["kind"], "type");
  EXPECT_EQ(problems[1]["kind"], "duplicate_key");
  EXPECT_EQ(problems[2]["kind"], "not_in_this_version");
  EXPECT_EQ(problems[2]["path"], "queues");
  EXPECT_EQ(problems[0]["line"], 1);
  EXPECT_EQ(problems[0]["column"], 15);
  EXPECT_EQ(problems[0]["severity"], "error");
  EXPECT_EQ(json::parse(callgate({"validate", "--json", "-"}, "x: \xFF").out)["valid"], false);
}

TEST_F(Validate, reads_standard_input_the_environment_and_the_file_that_it_names) {
  EXPECT_EQ(callgate({"validate", "-"}, "log: {level: warn}").out, "<stdin>: valid\n");
  EXPECT_EQ(callgate({"validate", "-"}, "x").out,
            "<stdin>:1:1: error: must be a map of keys such as listen: and upstreams: (is a single value)\n");
  EXPECT_EQ(callgate({"validate", "-"}, std::string(2'000'000, '#')).out,
            "<stdin>: error: it is larger than 1MiB; this cannot be a configuration\n");
  EXPECT_EQ(callgate({"validate"}).out, "defaults and environment: valid\n");
  const Variable level{"CALLGATE_LOG__LEVEL", "loud"};
  EXPECT_EQ(callgate({"validate"}).out,
            "CALLGATE_LOG__LEVEL: error: log.level: must be debug, info, warn or error (is loud)\n");
  EXPECT_EQ(callgate({"validate", "--set", "log.level=info"}).code, 3) << "what is overridden is wrong all the same";
  const std::string file = write("named.yaml", "nonsense: 1\n");
  const Variable config{"CALLGATE_CONFIG", file.c_str()};
  EXPECT_NE(callgate({"validate"}).out.find(file + ":1:1: error: nonsense"), std::string::npos);
  EXPECT_EQ(callgate({"serve"}).code, 3);
}

using ConfigShow = Validate;

TEST_F(ConfigShow, prints_what_holds_and_who_decided_it_as_yaml_again) {
  const std::string file =
      write("callgate.yaml", "retry: {base: 1s, cap: 9s}\nupstreams: {openai: {url: \"https://h\"}}\n");
  const Variable cap{"CALLGATE_RETRY__CAP", "8s"};
  const Said said = callgate({"config", "show", "--config", file, "--set", "log.level=warn"});
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.err, "");
  const auto has = [&](const std::string& start, const std::string& origin) {
    const std::size_t at = said.out.find("\n" + start + " ");
    ASSERT_NE(at, std::string::npos) << start;
    const std::string line = said.out.substr(at + 1, said.out.find('\n', at + 1) - at - 1);
    EXPECT_TRUE(line.ends_with("  # " + origin)) << line;
  };
  has("  base: 1s", file + ":1");
  has("  cap: 8s", "CALLGATE_RETRY__CAP");
  has("  longest_wait: 60s", "default");
  has("    url: https://h", file + ":2");
  has("    url: https://api.anthropic.com", "built in");
  has("  level: warn", "--set");
  EXPECT_TRUE(said.out.starts_with("listen:\n  data: 127.0.0.1:4600 ")) << said.out.substr(0, 80);

  const Said again = callgate({"validate", "-"}, said.out);
  EXPECT_EQ(again.out, "<stdin>: valid\n");
  const json settings = json::parse(callgate({"config", "show", "--json", "--config", file}).out)["settings"];
  const auto base = std::ranges::find_if(settings, [](const json& one) { return one["path"] == "retry.base"; });
  ASSERT_NE(base, settings.end());
  EXPECT_EQ((*base)["value"], "1s");
  EXPECT_EQ((*base)["origin"], file + ":1");
}

TEST_F(ConfigShow, shows_nothing_of_a_configuration_that_does_not_hold) {
  const Said said = callgate({"config", "show", "--config", write("bad.yaml", "x: 1\n")});
  EXPECT_EQ(said.code, 3);
  EXPECT_EQ(said.out, "");
  EXPECT_NE(said.err.find("x: unknown key"), std::string::npos);
}

TEST(ConfigCommands, print_schema_and_documentation_as_they_are) {
  EXPECT_EQ(callgate({"config", "schema"}).out, gateway::config_schema());
  EXPECT_EQ(json::parse(gateway::config_schema())["$schema"], "http://json-schema.org/draft-07/schema#");
  EXPECT_EQ(callgate({"config", "docs"}).out, gateway::config_docs());
}

}  // namespace
