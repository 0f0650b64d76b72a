// Goal: docs/logs.schema.json describes each line of real runs, and docs/logs.md has the same events and fields.

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "gateway/json_schema.h"
#include "tests/support/harness.h"
#include "tests/support/house.h"

namespace {

using Json = nlohmann::ordered_json;

const std::set<std::string> kOfEveryLine = {"ts", "level", "msg", "event", "service.name", "service.version", "pid"};

std::string text_of(const std::string& name) {
  std::ifstream file{PROJECT_ROOT "/docs/" + name};
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

/// The definition alone that a line's event names: a fault in it says more than "is none of them".
std::string definition_of(const Json& schema, const std::string& event) {
  Json one = schema["$defs"].value(event == "call" ? "call" : "event_" + event, Json(false));
  if (one.is_object()) one["$defs"] = schema["$defs"];
  return one.dump();
}

std::set<std::string> expect_described(const std::vector<std::string>& lines) {
  const std::string text = text_of("logs.schema.json");
  const Json schema = Json::parse(text);
  const auto whole = gateway::JsonSchema::read(text);
  EXPECT_TRUE(whole);
  std::set<std::string> events;
  if (!whole) return events;
  for (const std::string& line : lines) {
    const std::string event = Json::parse(line).at("event");
    events.insert(event);
    const auto one = gateway::JsonSchema::read(definition_of(schema, event));
    EXPECT_TRUE(one) << event;
    if (!one) continue;
    for (const gateway::PayloadFault& fault : (*one)->check(line)) ADD_FAILURE() << text_of(fault) << "\n" << line;
    EXPECT_TRUE((*whole)->check(line).empty()) << line;
  }
  return events;
}

TEST(LogSchema, describes_every_line_of_real_runs) {
  const support::FakeProvider collector;
  const support::TempDir directory;
  support::House house{
      ", credentials: [{name: main, key: {file: \"" + directory.file("key", "sk-test") + "\"}}]",
      "retry: {base: 10ms}\nstore: {payloads: plain}\ntracing: {otlp_url: \"" + collector.url() +
          "\"}\n"
          "tenants: {default: {budget: {daily_usd: \"0.000001\", warn_at: 0.1}}, free: {weight: 1}}\n"};
  const std::vector<std::pair<std::string, std::string>> free = {{"Callgate-Tenant", "free"}};
  const auto with = [&](const char* name, const char* value) {
    auto headers = free;
    headers.emplace_back(name, value);
    return headers;
  };
  house.provider.script(R"([{"match": {"body_contains": "odd"}, "answer": 418},
                            {"match": {"body_contains": "slow down"}, "answers": [429, "default"]},
                            {"match": {"body_contains": "never"}, "answer": 500}])");
  EXPECT_EQ(house.chat(support::kUnary, free).status, 200);
  EXPECT_EQ(house.chat(support::kStream, free).status, 200);
  EXPECT_EQ(house.chat(support::chat_saying("odd"), free).status, 418);
  EXPECT_EQ(house.chat(support::chat_saying("slow down"), free).status, 200);
  EXPECT_GE(house.chat(support::chat_saying("never"), free).status, 500);
  EXPECT_EQ(house.chat(support::kUnary, with("Idempotency-Key", "a")).status, 200);
  EXPECT_EQ(house.chat(support::kUnary, with("Idempotency-Key", "a")).status, 200);
  const support::Response accepted = house.chat(support::kUnary, with("Prefer", "respond-async"));
  EXPECT_EQ(accepted.status, 202) << accepted.body;
  EXPECT_EQ(house.chat(support::kUnary, with("Callgate-Lane", "nowhere")).status, 400);
  EXPECT_EQ(house.chat().status, 402) << "more than the budget";
  house.callgate.write_config("nonsense: 1\n");
  house.callgate.process().signal(SIGHUP);
  house.callgate.process().json_line("reload_refused");
  EXPECT_EQ(house.callgate.stop(), 0);
  const std::set<std::string> events = expect_described(house.callgate.process().lines());
  for (const char* event : {"call", "listening", "request_refused", "reload_refused", "draining", "stopped"})
    EXPECT_TRUE(events.contains(event)) << event;
}

TEST(LogSchema, refuses_what_is_not_described) {
  const auto schema = gateway::JsonSchema::read(text_of("logs.schema.json"));
  ASSERT_TRUE(schema);
  Json line = Json::parse(
      R"({"ts":"2026-11-29T16:40:01.123456Z","level":"info","msg":"m","event":"stopped","service.name":"callgate",)"
      R"("service.version":"1","pid":1,"calls":3})");
  EXPECT_TRUE((*schema)->check(line.dump()).empty());
  line["prompt"] = "hello";
  EXPECT_FALSE((*schema)->check(line.dump()).empty()) << "a field that nobody has named";
  line.erase("prompt");
  line["event"] = "unheard_of";
  EXPECT_FALSE((*schema)->check(line.dump()).empty());
}

TEST(LogSchema, has_the_events_and_fields_that_the_page_has) {
  const Json schema = Json::parse(text_of("logs.schema.json"));
  const std::string page = text_of("logs.md");
  std::set<std::string> in_schema;
  for (const auto& [name, definition] : schema["$defs"].items()) {
    if (name.starts_with("event_")) in_schema.insert(name.substr(6));
  }
  std::set<std::string> in_page;
  std::istringstream rows{page.substr(page.find("## Other events"))};
  for (std::string row; std::getline(rows, row);) {
    if (!row.starts_with("| `")) continue;
    const std::string first = row.substr(2, row.find(" | ") - 2);
    std::set<std::string> names;
    for (std::size_t at = 0; (at = first.find('`', at)) != first.npos;) {
      const std::size_t end = first.find('`', at + 1);
      names.insert(first.substr(at + 1, end - at - 1));
      at = end + 1;
    }
    in_page.insert(names.begin(), names.end());
    // Each field of theirs is named in their row.
    for (const std::string& name : names) {
      const Json of_it = schema["$defs"].value("event_" + name, Json{{"properties", Json::object()}});
      for (const auto& [field, what] : of_it["properties"].items()) {
        if (kOfEveryLine.contains(field)) continue;
        EXPECT_NE(row.find("`" + field + "`"), std::string::npos) << name << " " << field;
      }
    }
  }
  EXPECT_EQ(in_schema, in_page);

  const std::size_t begin = page.find("```json\n") + 8;
  const Json example = Json::parse(page.substr(begin, page.find("```", begin) - begin));
  std::set<std::string> required;
  for (const Json& name : schema["$defs"]["call"]["required"]) required.insert(name);
  std::set<std::string> shown;
  for (const auto& [name, value] : example.items()) shown.insert(name);
  EXPECT_EQ(required, shown);
  expect_described({example.dump()});
}

}  // namespace
