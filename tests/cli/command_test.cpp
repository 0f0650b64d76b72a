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
#include "tests/support/raw_peer.h"

namespace command_test {

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

TEST(Command, has_the_options_that_come_with_others) {
  for (const cli::Command& command : cli::commands()) {
    SCOPED_TRACE(command.words);
    std::set<std::string_view> names;
    for (const cli::Option& option : cli::options_of(command)) {
      EXPECT_TRUE(names.insert(option.name).second) << option.name << " is there twice";
      EXPECT_FALSE(option.meaning.empty()) << option.name;
    }
    EXPECT_TRUE(names.contains("--help") && names.contains("--no-color"));
    EXPECT_EQ(names.contains("--no-input"), names.contains("--yes"));
    EXPECT_EQ(names.contains("--timeout"), names.contains("--admin"));
    // What is for scripts is also for programs.
    EXPECT_TRUE(names.contains("--json") || !names.contains("--plain"));
  }
  EXPECT_EQ(callgate({"help", "--no-color"}, {}, true).out, callgate({"help"}).out);
  EXPECT_NE(callgate({"help"}, {}, true).out, callgate({"help"}).out);
}

TEST(Command, waits_for_callgate_as_long_as_it_is_told) {
  // Takes the connection, and says nothing.
  raw::Peer silent{[](raw::Connection& connection) {
    while (!connection.read_some().empty()) {
    }
  }};
  const std::string there = "127.0.0.1:" + std::to_string(silent.port());
  EXPECT_EQ(callgate({"status", "--admin", there, "--timeout", "50ms"}).code, 9);
  for (const char* wrong : {"0s", "-1s", "soon", "5"}) {
    const Said said = callgate({"status", "--admin", there, "--timeout", wrong});
    EXPECT_EQ(said.code, 2) << wrong;
    EXPECT_NE(said.err.find("--timeout must be a duration such as"), std::string::npos) << said.err;
  }
}

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

TEST_F(Validate, takes_warnings_for_errors_if_it_is_to_be_strict) {
  const std::string file = write("loose.yaml", "queues:\n  a: {owner: {team: t}}\n");
  const Said lenient = callgate({"validate", file});
  EXPECT_EQ(lenient.code, 0);
  EXPECT_EQ(lenient.err, "0 errors, 1 warning\n");
  const Said strict = callgate({"validate", "--strict", file});
  EXPECT_EQ(strict.code, 3);
  EXPECT_EQ(strict.out,
            file + ":2:3: error: queues.a: leaves out slo: {oldest_wait: …}, dead_letter: {retention: …}\n");
  EXPECT_EQ(strict.err, "1 error, 0 warnings\n");
}

TEST_F(Validate, says_what_a_contract_promises_less_than_the_one_that_holds) {
  const std::string whole =
      "queues: {a: {owner: {team: t}, slo: {oldest_wait: 1m}, dead_letter: {retention: 30d}}}\n";
  const std::string old = write("old.yaml", whole);
  std::string text = whole;
  const std::string fresh = write("fresh.yaml", text.replace(text.find("30d"), 3, "7d"));
  const Said refused = callgate({"validate", "--against", old, fresh});
  EXPECT_EQ(refused.code, 3);
  EXPECT_EQ(refused.out,
            fresh +
                ":1:1: error: queues.a.dead_letter.retention: is shorter than before (30d, now 7d); `callgate "
                "reload --accept-weaker` accepts it\n");
  EXPECT_EQ(callgate({"validate", "--against", old, "--accept-weaker", fresh}).code, 0);
  EXPECT_EQ(callgate({"validate", "--strict", "--against", old, "--accept-weaker", fresh}).code, 0);
  EXPECT_EQ(callgate({"validate", "--against", fresh, old}).code, 0);
  EXPECT_EQ(callgate({"validate", "--against", fresh + ".missing", old}).code, 3);
}

TEST_F(Validate, tells_programs_code_place_and_severity) {
  const std::string file =
      write("bad.yaml", "retry: {base: 1, base: 2s}\nlisten: {tls: {data: {cert: {file: /c}}}}\n");
  const Said said = callgate({"validate", "--json", file});
  EXPECT_EQ(said.code, 3);
  EXPECT_EQ(said.err, "");
  const json report = json::parse(said.out);
  EXPECT_EQ(report["valid"], false);
  ASSERT_EQ(report["files"].size(), 1U);
  EXPECT_EQ(report["files"][0]["file"], file);
  const json& problems = report["files"][0]["problems"];
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_EQ(problems[0]["code"], "type");
  EXPECT_EQ(problems[1]["code"], "duplicate_key");
  EXPECT_EQ(problems[2]["code"], "not_in_this_version");
  EXPECT_EQ(problems[2]["path"], "listen.tls.data");
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

TEST_F(ConfigShow, of_a_file_turns_no_writing_and_moves_no_cursor_nor_does_any_other_command) {
  const std::string odd = "team \u202egnillib\u009b2J\u0085";
  const std::string text = "queues: {invoices: {owner: {team: billing, contact: \"" + odd + "\\e[2J\"}}}\n";
  const std::string file = write("callgate.yaml", text);
  const std::string bad = write("bad.yaml", "tenants: {\"a\u202eb\": 1}\n\"c\u2067\": 2\n");
  const std::vector<std::vector<std::string>> commands = {{"config", "show", "--config", file},
                                                          {"config", "show", "--json", "--config", file},
                                                          {"alerts", "--config", file},
                                                          {"validate", bad},
                                                          {"validate", "--json", bad},
                                                          {"validate", "no-such\u202efile"},
                                                          {"a\u202eb"},
                                                          {"config", "show", "--a\u202eb"}};
  for (const std::vector<std::string>& words : commands) {
    for (const bool colour : {false, true}) {
      const Said said = callgate(words, {}, colour);
      const std::string all = said.out + said.err;
      EXPECT_TRUE(all.contains("\\u202e") || all.contains("\\u2067")) << words[0] << all;
      for (const std::string_view harm : {"\u202e", "\u2067", "\u009b", "\u0085", "\x1b[2J"})
        EXPECT_FALSE(all.contains(harm)) << words[0] << all;
    }
  }
  // What reads it, reads what stood there.
  const Said shown = callgate({"config", "show", "--config", file});
  const Said again = callgate({"config", "show", "--json", "--config", write("again.yaml", shown.out)});
  const json settings = json::parse(again.out)["settings"];
  const auto contact =
      std::ranges::find_if(settings, [](const json& one) { return one["path"] == "queues.invoices.owner.contact"; });
  ASSERT_NE(contact, settings.end());
  EXPECT_TRUE((*contact)["value"].get<std::string>().contains(R"(\u202e)")) << *contact;
}

TEST(ConfigCommands, print_schema_and_documentation_as_they_are) {
  EXPECT_EQ(callgate({"config", "schema"}).out, gateway::config_schema());
  EXPECT_EQ(json::parse(gateway::config_schema())["$schema"], "http://json-schema.org/draft-07/schema#");
  EXPECT_EQ(callgate({"config", "docs"}).out, gateway::config_docs());
}

TEST(Reload, of_what_is_no_callgate_says_so) {
  const std::pair<std::string, std::string> kAnswers[] = {
      {"200 OK", R"({"status":"ok"})"},
      {"200 OK", R"({"changed":[],"restart_needed":[],"problems":[{"file":1}]})"},
      {"200 OK", R"({"changed":[{"path":"a","from":{},"to":""}],"restart_needed":[],"problems":[]})"},
      {"200 OK", "[]"},
      {"200 OK", "<html>"},
      {"404 Not Found", R"({"detail":[{"msg":"no such route"}]})"},
      {"404 Not Found", R"({"error":"nobody"})"},
      {"422 Unprocessable Content", R"({"detail":[{"msg":"field required"}]})"},
  };
  for (const auto& [status, body] : kAnswers) {
    SCOPED_TRACE(body);
    const std::string answer = "HTTP/1.1 " + status + "\r\nConnection: close\r\n\r\n" + body;
    raw::Peer peer{[&](raw::Connection& connection) {
      connection.request();
      connection.send(answer);
    }};
    const std::string address = "127.0.0.1:" + std::to_string(peer.port());
    const Said said = callgate({"reload", "--admin", address});
    EXPECT_EQ(said.code, 5);
    EXPECT_EQ(said.out, "");
    EXPECT_EQ(said.err,
              "callgate reload: what listens at " + address +
                  " is no callgate\nGive the address of its admin listener with --admin.\n");
  }
}

/// What the command says to a listener that answers so; "ADDRESS" stands for that listener's.
Said ask(const std::string& command, const std::string& status, const std::string& body,
         const std::vector<std::string>& more = {}) {
  raw::Peer peer{[&](raw::Connection& connection) {
    connection.request();
    connection.send("HTTP/1.1 " + status + "\r\nConnection: close\r\n\r\n" + body);
  }};
  const std::string address = "127.0.0.1:" + std::to_string(peer.port());
  std::vector<std::string> words{command, "--admin", address};
  words.insert(words.end(), more.begin(), more.end());
  Said said = callgate(words);
  for (std::size_t at = 0; (at = said.err.find(address)) != std::string::npos;)
    said.err.replace(at, address.size(), "ADDRESS");
  return said;
}

std::string one_unknown(const std::string& upstream, const std::string& line) {
  const json one = {{"fingerprint", "2c0b1d7e9a54"},
                    {"upstream", upstream},
                    {"status", 418},
                    {"class", "unknown"},
                    {"count", 12},
                    {"first_seen", "T1"},
                    {"last_seen", "T2"},
                    {"last_call_id", "c-1"},
                    {"case_line", line}};
  return json{{"answers", {one}}, {"dropped", 3}}.dump();
}

TEST(Unknown, is_a_table_with_a_case_line_under_each_row) {
  const Said said = ask("unknown", "200 OK", one_unknown("lab", R"({"id":"x"})"));
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.out,
            "fingerprint   upstream  status  class    count  first seen  last seen  last call\n"
            "2c0b1d7e9a54  lab       418     unknown  12     T1          T2         c-1\n"
            "{\"id\":\"x\"}\n");
  EXPECT_EQ(said.err, "3 more had to make room for these; callgate_unknown_answers_total counts all\n");
}

TEST(Unknown, says_that_there_is_nothing) {
  const Said said = ask("unknown", "200 OK", R"({"answers":[],"dropped":0})");
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.out, "no unknown answers since callgate was started\n");
  EXPECT_EQ(said.err, "");
}

TEST(Unknown, is_json_as_it_came_for_programs) {
  const std::string body = one_unknown("lab", R"({"id":"x"})");
  const Said said = ask("unknown", "200 OK", body, {"--json"});
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.out, body);
  EXPECT_EQ(said.err, "");
}

TEST(Unknown, prints_nothing_that_a_terminal_obeys) {
  const Said said = ask("unknown", "200 OK", one_unknown("lab\x1b[2J\n", "{\"id\":\"\\u001b[2J\xe2\x80\xae\"}"));
  EXPECT_EQ(said.code, 0);
  EXPECT_FALSE(said.out.contains('\x1b')) << said.out;
  EXPECT_FALSE(said.out.contains("\xe2\x80\xae")) << said.out;
  EXPECT_EQ(std::ranges::count(said.out, '\n'), 3);
}

TEST(Unknown, says_why_it_gets_no_answer) {
  const std::string problem = R"({"title":"t","detail":"told so"})";
  struct Row {
    std::string status;
    std::string body;
    int code;
    std::string_view err;
  };
  const Row kRows[] = {
      {"200 OK", R"({"status":"ok"})", 5, "what listens at ADDRESS is no callgate"},
      {"200 OK", R"({"answers":[{"fingerprint":1}],"dropped":0})", 5, "what listens at ADDRESS is no callgate"},
      {"200 OK", one_unknown("lab", "no JSON"), 5, "what listens at ADDRESS is no callgate"},
      {"200 OK", "<html>", 5, "what listens at ADDRESS is no callgate"},
      {"401 Unauthorized", problem, 6, "callgate at ADDRESS answers 401: told so"},
      {"404 Not Found", problem, 1, "callgate at ADDRESS answers 404: told so"},
      {"503 Service Unavailable", problem, 9, "callgate at ADDRESS answers 503: told so"},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.body);
    const Said said = ask("unknown", row.status, row.body);
    EXPECT_EQ(said.code, row.code);
    EXPECT_EQ(said.out, "");
    EXPECT_TRUE(said.err.starts_with("callgate unknown: " + std::string{row.err})) << said.err;
  }
}

}  // namespace command_test
