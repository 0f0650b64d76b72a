#include "cli/prices.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace prices_test {

using nlohmann::json;

const std::string kExcerpt = PROJECT_ROOT "/tests/fixtures/prices/litellm_excerpt.json";

struct Said {
  int code = -1;
  std::string out{};
  std::string err{};
};

Said prices(std::vector<std::string> words, const std::string& input = {}) {
  words.insert(words.begin(), "prices");
  std::istringstream in{input};
  std::ostringstream out;
  std::ostringstream err;
  cli::Terminal terminal{in, out, err};
  const int code = cli::run(words, terminal);
  return {code, out.str(), err.str()};
}

class Prices : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "callgate_prices_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string file = folder_ / name;
    std::ofstream{file} << text;
    return file;
  }
  std::filesystem::path folder_;
};

const std::string kOwn = R"({"callgate_prices": 1, "version": "ours", "models": [
  {"model": "gpt-5", "provider": "openai", "usd_per_mtok": {"input": 1, "output": 8}}]})";

TEST_F(Prices, are_listed_with_the_files_that_override_them) {
  const Said all = prices({"list"});
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.err, "");
  EXPECT_TRUE(all.out.starts_with("model ")) << all.out.substr(0, 100);
  EXPECT_NE(all.out.find("\nclaude-haiku-4-5 "), std::string::npos);
  EXPECT_NE(all.out.find("from 2026-09-01"), std::string::npos);

  const json listed = json::parse(prices({"list", "--json", "--file", write("own.json", kOwn), "gpt-5"}).out);
  std::size_t found = 0;
  for (const json& one : listed) {
    EXPECT_NE(one["model"].get<std::string>().find("gpt-5"), std::string::npos);
    if (one["model"] != "gpt-5") continue;
    ++found;
    EXPECT_EQ(one["table"]["version"], "ours");
    EXPECT_EQ(one["rates"][0]["usd"]["input"], "0.000001");
  }
  EXPECT_EQ(found, 1U) << "the shipped one is hidden";
  const Said none = prices({"list", "no such model"});
  EXPECT_EQ(none.code, 4);
  EXPECT_EQ(none.err, "callgate prices list: no model or provider has \"no such model\" in its name\n");
}

TEST_F(Prices, of_a_call_are_shown_step_by_step) {
  const Said said = prices({"show",
                            "gpt-5.4-2026-03-05",
                            "--provider",
                            "openai",
                            "--tier",
                            "flex",
                            "--usage",
                            "input=300000,cached=200000,output=900,reasoning=100"});
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.err, "");
  for (const char* line : {
           "gpt-5.4 of openai\n",
           "  found   gpt-5.4-2026-03-05 → gpt-5.4 (provider, without date)\n",
           "  as of   2026-08-21, sources L G W\n",
           "What it costs, tier flex, prompt above 272000 tokens\n",
           "  input         100000  × 5 USD/Mtok × 0.5     = 0.25 USD\n",
           "  cached_input  200000  × 0.5 USD/Mtok × 0.5   = 0.05 USD\n",
           "  output        800     × 22.5 USD/Mtok × 0.5  = 0.009 USD\n",
           "  reasoning     100     × 22.5 USD/Mtok × 0.5  = 0.001125 USD  (at the price of output)\n",
           "  total 0.310125 USD\n",
       }) {
    EXPECT_NE(said.out.find(line), std::string::npos) << line << said.out;
  }
  const json shown = json::parse(prices({"show",
                                         "claude-sonnet-5",
                                         "--date",
                                         "2026-08-31",
                                         "--modifier",
                                         "us",
                                         "--usage",
                                         "write_1h=1000,web_searches=1",
                                         "--json"})
                                     .out);
  EXPECT_EQ(shown["cost"]["cost_nano_usd"], 1000 * 4'400 + 10'000'000);
  EXPECT_EQ(shown["cost"]["parts_nano_usd"]["write"], 4'400'000);
  EXPECT_EQ(shown["how"], "exact");
  EXPECT_EQ(shown["price"]["table"]["name"], "shipped");
}

TEST_F(Prices, that_are_missing_are_unknown_not_zero) {
  const Said said = prices({"show", "whisper-1", "--usage", "output=5,input_ms=1000"});
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.out.find("no price for it, so the cost is unknown\n"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("  input_second  1000 ms  × 0.0001 USD  = 0.0001 USD\n"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("  total unknown\n"), std::string::npos);
  const json shown = json::parse(prices({"show", "whisper-1", "--usage", "output=5", "--json"}).out);
  EXPECT_TRUE(shown["cost"]["cost_nano_usd"].is_null());
  EXPECT_EQ(shown["cost"]["unpriced"], "no_rate");
  const Said flex = prices({"show", "gpt-4.1", "--tier", "flex", "--usage", "input=1"});
  EXPECT_NE(flex.out.find("plain price"), std::string::npos) << flex.out;
}

TEST_F(Prices, say_what_was_meant_where_a_word_is_wrong) {
  struct Row {
    std::vector<std::string> words;
    int code;
    std::string err;
  };
  const Row kRows[] = {
      {{"show"}, 2, "callgate prices show: needs a model"},
      {{"show", "gpt-5", "--usage", "inputs=5"}, 2, "--usage knows no inputs; did you mean input?"},
      {{"show", "gpt-5", "--usage", "input=1.5"}, 2, "--usage needs a whole number: input=1000 (has \"input=1.5\")"},
      {{"show", "gpt-5", "--usage", "input"}, 2, "--usage needs a whole number"},
      {{"show", "gpt-5", "--usage", "input=-5"}, 2, "--usage needs a whole number"},
      {{"show", "gpt-5", "--usage", ""}, 2, "--usage must not be empty"},
      {{"show", "gpt-5", "--tier", "quick"}, 2, "--tier knows standard, flex, priority and batch"},
      {{"show", "gpt-5", "--date", "tomorrow"}, 2, "--date needs a date such as 2026-09-01"},
      {{"show", "gpt-55"}, 4, "callgate prices show: gpt-55: no price for it"},
      {{"show", "gpt-5", "--provider", "groq"}, 4, "no price for it"},
      {{"show", "gpt-5", "--file", "/no/such/file"}, 3, "/no/such/file:1:1: error: cannot be read"},
      {{"check"}, 2, "callgate prices check: needs a file"},
  };
  for (const Row& row : kRows) {
    const Said said = prices(row.words);
    EXPECT_EQ(said.code, row.code) << row.err;
    EXPECT_EQ(said.out, "");
    EXPECT_NE(said.err.find(row.err), std::string::npos) << said.err;
  }
}

TEST_F(Prices, of_our_own_are_checked_with_place_and_mend) {
  const std::string good = write("good.json", kOwn);
  const std::string bad =
      write("bad.json", R"({"callgate_prices": 1, "models": [{"model": "m", "usd_per_mtok": {"in": 1}}]})");
  EXPECT_EQ(prices({"check", good}).out, good + ": valid, entries: 1\n");
  const Said said = prices({"check", good, bad});
  EXPECT_EQ(said.code, 3);
  EXPECT_NE(said.out.find(bad + ":1:67: error: m: usd_per_mtok.in: unknown key; known are input,"), std::string::npos)
      << said.out;
  const json report = json::parse(prices({"check", "--json", bad}).out);
  EXPECT_EQ(report["valid"], false);
  EXPECT_EQ(report["files"][0]["problems"][0]["line"], 1);
  EXPECT_EQ(report["files"][0]["format"], "callgate");
  EXPECT_EQ(prices({"check", "-"}, kOwn).out, "<stdin>: valid, entries: 1\n");
  EXPECT_EQ(prices({"check", folder_}).code, 3) << "a folder is no file";
  EXPECT_EQ(prices({"list", "--file", bad}).code, 3);
}

TEST_F(Prices, of_LiteLLM_are_checked_entry_by_entry) {
  const Said said = prices({"check", kExcerpt});
  EXPECT_EQ(said.code, 0) << "warnings alone are no failure";
  EXPECT_EQ(said.err, "");
  for (const char* line : {
           "warning: gpt-5-nano: priority input is 50.00 times input\n",
           ": LiteLLM's format, entries: 37; understood: 31, in part: 2, not: 4\n",
           "    1    web searches of any context size are charged as medium ones\n         gpt-4o-search-preview\n",
           "    1    no price in it\n         github_copilot/gpt-4o\n",
       }) {
    EXPECT_NE(said.out.find(line), std::string::npos) << line << said.out;
  }
  const json report = json::parse(prices({"check", kExcerpt, "--json"}).out)["files"][0];
  EXPECT_EQ(report["format"], "litellm");
  EXPECT_EQ(report["entries"], 37);
  EXPECT_EQ(report["models"], 33);
  EXPECT_EQ(report["not_understood"]["no price in it"], json::array({"github_copilot/gpt-4o"}));
  EXPECT_EQ(report["problems"].size(), 4U);

  const json shown = json::parse(
      prices({"show", "gpt-4o", "--provider", "azure", "--file", kExcerpt, "--usage", "input=1000", "--json"}).out);
  EXPECT_EQ(shown["price"]["model"], "azure/gpt-4o");
  EXPECT_EQ(shown["price"]["table"]["name"], kExcerpt);
}

}  // namespace prices_test
