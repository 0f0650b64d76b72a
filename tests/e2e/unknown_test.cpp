// Goal: an answer that no rule knew is told by metric, log, admin API and `callgate unknown` alike, without a key,
// and the printed line means to `callgate classify` what the answer meant to callgate.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/harness.h"
#include "tests/support/house.h"
#include "tests/support/pace.h"

namespace unknown_test {

using Json = nlohmann::json;
using support::House;

struct Said {
  int code = -1;
  std::vector<std::string> out{};
  std::string err{};
};
Said callgate(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{CALLGATE_EXE};
  command.insert(command.end(), arguments.begin(), arguments.end());
  support::Process process{command};
  Said said;
  said.code = process.wait();
  // Its end may be known before its last line is read.
  EXPECT_TRUE(support::eventually([&] { return !process.lines().empty() || !process.err().empty(); }));
  said.out = process.lines();
  said.err = process.err();
  return said;
}

std::string admin_of(const House& house) { return house.callgate.admin_url().substr(7); }
Json unknown_answers(const House& house) {
  return Json::parse(support::http_get(house.callgate.admin_url() + "/v1/unknown-answers").body);
}

TEST(Unknown, is_told_by_metric_log_api_and_command_without_the_key) {
  House house;
  const Said nothing = callgate({"unknown", "--admin", admin_of(house)});
  EXPECT_EQ(nothing.code, 0) << nothing.err;
  EXPECT_EQ(nothing.out, std::vector<std::string>{"no unknown answers since callgate was started"});

  house.provider.script(R"([{"answer": {"status": 418, "headers": [["retry-after", "9"]], "body":
      "{\"error\":{\"code\":\"kettle_odd\",\"type\":\"verysecretkey\",\"message\":\"Kettle 7 of 'this prompt' refuses verysecretkey\"}}"}}])");
  EXPECT_EQ(house.chat(support::kUnary, {{"Authorization", "Bearer verysecretkey"}}).status, 418);
  const Json line = house.call_line();
  const std::size_t attempts = line.at("attempts").size();
  const std::string fingerprint = line.at("attempts").at(0).at("fingerprint");
  EXPECT_EQ(
      house.awaited(
          static_cast<double>(attempts), "callgate_unknown_answers_total", "fingerprint=\"" + fingerprint + "\""),
      attempts);

  const Json list = unknown_answers(house);
  ASSERT_EQ(list.at("answers").size(), 1U) << list;
  const Json& one = list.at("answers").at(0);
  EXPECT_EQ(one.at("fingerprint"), fingerprint);
  EXPECT_EQ(one.at("upstream"), "openai");
  EXPECT_EQ(one.at("status"), 418);
  EXPECT_EQ(one.at("class"), line.at("attempts").at(0).at("class"));
  EXPECT_EQ(one.at("count"), attempts);
  EXPECT_EQ(one.at("last_call_id"), line.at("call_id"));
  EXPECT_EQ(list.at("dropped"), 0);
  EXPECT_FALSE(list.dump().contains("verysecret")) << list;
  EXPECT_FALSE(list.dump().contains("this prompt")) << list;

  const Said table = callgate({"unknown", "--admin", admin_of(house)});
  EXPECT_EQ(table.code, 0) << table.err;
  ASSERT_EQ(table.out.size(), 3U);
  EXPECT_TRUE(table.out[1].starts_with(fingerprint + "  openai")) << table.out[1];
  EXPECT_EQ(table.out[2], one.at("case_line"));
  std::string json;
  for (const std::string& part : callgate({"unknown", "--json", "--admin", admin_of(house)}).out) json += part;
  EXPECT_EQ(Json::parse(json), list);
}

TEST(Unknown, lines_mean_to_classify_what_the_answers_meant) {
  House house;
  struct Row {
    const char* name;
    const char* answer;
    bool stream;
  };
  const Row kRows[] = {
      {"a status that nobody has",
       R"({"status": 418, "body": "{\"error\":{\"code\":\"kettle_odd\",\"message\":\"Kettle 7\"}}"})",
       false},
      {"a hint and odd words",
       R"({"status": 429, "headers": [["retry-after-ms", "30"]], "body": "{\"error\":{\"code\":\"odd_429\",\"message\":\"x\"}}"})",
       false},
      {"an error inside a 200", R"({"status": 200, "body": "{\"error\":{\"message\":\"odd inside\"}}"})", false},
      {"no answer", R"({"status": 200, "body": "{\"result\":1}"})", false},
      {"a page", R"({"status": 200, "body": "<html>log in</html>"})", false},
      {"an error inside a stream",
       R"({"status": 200, "headers": [["content-type", "text/event-stream"]], "body": "data: {\"error\":{\"code\":\"odd_stream\",\"message\":\"x\"}}\n\n"})",
       true},
  };
  std::string lines;
  std::vector<Json> wanted;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    house.provider.script(R"([{"answer": )" + std::string{row.answer} + "}]");
    EXPECT_GE(house.chat(row.stream ? support::kStream : support::kUnary).status, 400);
    const Json call = house.call_line();
    const Json list = unknown_answers(house);
    ASSERT_EQ(list.at("answers").size(), wanted.size() + 1) << list;
    const Json& one = list.at("answers").at(0);
    EXPECT_EQ(one.at("class"), call.at("class"));
    EXPECT_EQ(one.at("fingerprint"), call.at("attempts").back().at("fingerprint"));
    lines += one.at("case_line").get<std::string>() + "\n";
    wanted.push_back(one);
  }
  const support::TempDir folder;
  const Said said = callgate({"classify", "--cases", folder.file("unknown.jsonl", lines)});
  EXPECT_EQ(said.code, 0) << said.err;
  ASSERT_EQ(said.out.size(), wanted.size()) << said.err;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(kRows[i].name);
    const Json got = Json::parse(said.out[i]);
    EXPECT_EQ(got.at("id"), "unknown-" + wanted[i].at("fingerprint").get<std::string>());
    EXPECT_EQ(got.at("class"), wanted[i].at("class"));
    EXPECT_EQ(got.at("retryable"), wanted[i].at("retryable"));
  }
  EXPECT_EQ(Json::parse(said.out[1]).at("retry_after_ms"), 30) << "the hint is part of the verdict";
}

TEST(Unknown, is_not_what_an_operator_s_rule_knows) {
  House house{", classifier: {rules: [{status: 418, class: overloaded}]}"};
  house.provider.script(R"([{"answers": [418, "default"]}])");
  EXPECT_EQ(house.chat().status, 200);
  EXPECT_TRUE(house.call_line().at("attempts").at(0).at("fingerprint").is_null());
  EXPECT_TRUE(unknown_answers(house).at("answers").empty());
}

}  // namespace unknown_test
