// Goal: providers' own reports are read as they are written, and compared to the token and the nano-dollar.
// Method: tables of each form, small and with the habits of the real ones; broken ones too.

#include "ledger/reconcile.h"

#include <gtest/gtest.h>

#include "ledger/usage_export.h"

namespace reconcile_test {

using ledger::Difference;
using ledger::ExportLine;
using ledger::read_usage_export;
using ledger::UsageExport;
using ledger::UsageLine;

UsageExport read(const std::string& text) {
  auto out = read_usage_export(text);
  EXPECT_TRUE(out) << (out ? "" : out.error());
  return out.value_or(UsageExport{});
}

// 1730419200 is 2024-11-01T00:00:00Z.
const std::string kOpenAiUsage = R"({"object":"page","data":[
  {"object":"bucket","start_time":1730419200,"end_time":1730505600,"results":[
    {"object":"organization.usage.completions.result","input_tokens":1000,"output_tokens":500,"input_cached_tokens":800,
     "input_audio_tokens":0,"output_audio_tokens":0,"num_model_requests":5,"project_id":null,"user_id":null,
     "api_key_id":"key_1","model":"gpt-4o-2024-08-06","batch":false,"service_tier":"default"},
    {"object":"organization.usage.completions.result","input_tokens":10,"output_tokens":5,"input_cached_tokens":0,
     "num_model_requests":1,"api_key_id":"key_2","model":"gpt-4o-2024-08-06"}]},
  {"object":"bucket","start_time":1730505600,"end_time":1730592000,"results":[]}],"has_more":false,"next_page":null})";

TEST(UsageExport, of_openai_as_json) {
  const UsageExport out = read(kOpenAiUsage);
  EXPECT_EQ(out.form, "openai-usage-json");
  EXPECT_EQ(out.provider, "openai");
  EXPECT_EQ(out.days, (std::vector<std::string>{"2024-11-01", "2024-11-02"}));
  EXPECT_TRUE(out.whole);
  ASSERT_EQ(out.lines.size(), 1U);
  EXPECT_EQ(out.lines[0].requests, 6);
  EXPECT_EQ(out.lines[0].input, 1010);
  EXPECT_EQ(out.lines[0].cached_input, 800);
  EXPECT_EQ(out.lines[0].output, 505);
  EXPECT_FALSE(out.lines[0].cost_nano);
}

TEST(UsageExport, of_openai_costs_as_json) {
  const UsageExport out = read(R"({"object":"page","data":[{"object":"bucket","start_time":1730419200,
    "end_time":1730505600,"results":[
    {"object":"organization.costs.result","amount":{"value":0.06,"currency":"usd"},"line_item":"gpt-4o-2024-08-06, input"},
    {"object":"organization.costs.result","amount":{"value":"0.0000000014999","currency":"usd"},
     "line_item":"gpt-4o-2024-08-06, output"},
    {"object":"organization.costs.result","amount":{"value":-0.01,"currency":"usd"},"line_item":"Image models"}]}],
    "has_more":true,"next_page":"page_2"})");
  EXPECT_EQ(out.form, "openai-costs-json");
  EXPECT_FALSE(out.whole);
  ASSERT_EQ(out.lines.size(), 2U);
  EXPECT_EQ(out.lines[0].model, "Image models");
  EXPECT_EQ(out.lines[0].cost_nano, -10'000'000);
  EXPECT_EQ(out.lines[1].cost_nano, 60'000'001);
}

TEST(UsageExport, of_openai_as_csv_with_decimals_and_empty_days) {
  const std::string csv =
      "start_time,end_time,start_time_iso,end_time_iso,project_id,num_model_requests,user_id,api_key_id,model,batch,"
      "service_tier,input_tokens,output_tokens,input_cached_tokens,input_uncached_tokens\r\n"
      "1759622400,1759708800,2025-10-05T00:00:00+00:00,2025-10-06T00:00:00+00:00,proj_1,10.0,user-1,key_1,"
      "gpt-5-mini-2025-08-07,FALSE,default,59200.0,10646.0,5760.0,53440.0\r\n"
      "1759708800,1759795200,2025-10-06T00:00:00+00:00,2025-10-07T00:00:00+00:00,,,,,,,,,,,\r\n";
  const UsageExport out = read(csv);
  EXPECT_EQ(out.form, "openai-usage-csv");
  EXPECT_EQ(out.days.size(), 2U);
  ASSERT_EQ(out.lines.size(), 1U);
  EXPECT_EQ(out.lines[0].day, "2025-10-05");
  EXPECT_EQ(out.lines[0].requests, 10);
  EXPECT_EQ(out.lines[0].input, 59'200);
}

TEST(UsageExport, of_openai_costs_as_csv) {
  const UsageExport out = read(
      "start_time\tend_time\tstart_time_iso\tend_time_iso\tamount_value\tamount_currency\tline_item\tproject_id\n"
      "1759622400\t1759708800\t2025-10-05T00:00:00+00:00\t2025-10-06T00:00:00+00:00\t0.8958740000000000\tusd\t\t\n"
      "1759708800\t1759795200\t2025-10-06T00:00:00+00:00\t2025-10-07T00:00:00+00:00\t\t\t\t\n");
  EXPECT_EQ(out.form, "openai-costs-csv");
  EXPECT_EQ(out.days.size(), 2U);
  ASSERT_EQ(out.lines.size(), 1U);
  EXPECT_EQ(out.lines[0].model, "");
  EXPECT_EQ(out.lines[0].cost_nano, 895'874'000);
}

TEST(UsageExport, of_anthropic_as_json_counts_cached_tokens_as_input) {
  const UsageExport out = read(R"({"data":[{"starting_at":"2026-11-28T00:00:00Z","ending_at":"2026-11-29T00:00:00Z",
    "results":[{"uncached_input_tokens":1500,"cache_creation":{"ephemeral_1h_input_tokens":1000,
    "ephemeral_5m_input_tokens":500},"cache_read_input_tokens":200,"output_tokens":500,
    "server_tool_use":{"web_search_requests":10},"api_key_id":null,"workspace_id":null,
    "model":"claude-sonnet-4-5-20250929","service_tier":"standard","context_window":"0-200k"}]}],
    "has_more":false,"next_page":null})");
  EXPECT_EQ(out.form, "anthropic-usage-json");
  ASSERT_EQ(out.lines.size(), 1U);
  EXPECT_EQ(out.lines[0].input, 3'200);
  EXPECT_EQ(out.lines[0].cached_input, 200);
  EXPECT_EQ(out.lines[0].cache_write, 1'500);
  EXPECT_FALSE(out.lines[0].requests);
}

TEST(UsageExport, of_anthropic_costs_is_in_cents) {
  const UsageExport out = read(R"({"data":[{"starting_at":"2026-11-28T00:00:00Z","ending_at":"2026-11-29T00:00:00Z",
    "results":[{"amount":"123.78912","currency":"USD","cost_type":"tokens","description":"Claude Sonnet 4.5 Usage",
    "model":"claude-sonnet-4-5-20250929","token_type":"output_tokens"}]}],"has_more":false,"next_page":null})");
  EXPECT_EQ(out.form, "anthropic-costs-json");
  EXPECT_EQ(out.lines[0].cost_nano, 1'237'891'200);
}

TEST(UsageExport, of_anthropic_as_csv) {
  const UsageExport usage = read(
      "usage_date_utc,model_version,api_key,workspace,usage_type,context_window,usage_input_tokens_no_cache,"
      "usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,"
      "usage_output_tokens,web_search_count,inference_geo,speed\n"
      "2026-11-27,claude-opus-5,App,Default,standard,≤ 200k,46981,15969,0,7,16932,0,global,\n"
      "2026-11-29,claude-opus-5,App,Default,standard,≤ 200k,1,0,0,0,1,0,global,\n");
  EXPECT_EQ(usage.form, "anthropic-usage-csv");
  EXPECT_EQ(usage.days.size(), 3U);
  EXPECT_EQ(usage.lines[0].input, 46'981 + 15'969 + 7);
  const UsageExport costs = read(
      "usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,list_price_usd,cost_type,"
      "inference_geo,speed\n"
      "2026-11-27,Claude Haiku 4.5,Default,k,message,≤ 200k,input_no_cache,0.05,0.05,token,global,\n"
      "2026-11-27,Claude Haiku 4.5,Default,k,message,≤ 200k,output,0.02,0.02,token,global,\n");
  EXPECT_EQ(costs.form, "anthropic-costs-csv");
  EXPECT_EQ(costs.lines[0].cost_nano, 70'000'000);
  EXPECT_EQ(costs.lines[0].rounding_nano, 10'000'000);
}

TEST(UsageExport, of_several_pages_is_one) {
  const UsageExport array = read("[" + kOpenAiUsage + "," + kOpenAiUsage + "]");
  EXPECT_EQ(array.lines[0].requests, 12);
  std::string one_line = kOpenAiUsage;
  std::erase(one_line, '\n');
  EXPECT_EQ(read(one_line + "\n" + one_line + "\n").lines[0].requests, 12);
}

TEST(UsageExport, that_is_not_known_is_refused_with_what_was_seen) {
  const std::pair<const char*, const char*> kRows[] = {
      {"", "it is empty"},
      {"{\"hello\":1}", "an object with 'hello'"},
      {"{\"object\":\"page\",\"data\":[{\"start_time\":1,\"end_time\":2,\"results\":[{\"object\":\"x.y\"}]}]}",
       "a result of the kind 'x.y'"},
      {"{\"data\":[{\"id\":1}],\"has_more\":false}", "neither OpenAI's buckets nor Anthropic's"},
      {"date,model,cost\n1,2,3\n", "its columns are 'date', 'model', 'cost'"},
      {"usage_date_utc,cost_usd,model\nyesterday,1,m\n", "'yesterday', no date"},
      {"usage_date_utc,cost_usd,model\n2026-11-27,1.2.3,m\n", "'1.2.3', no amount"},
      {"{\"object\":\"page\",\"data\":[{\"start_time\":1,\"end_time\":2,\"results\":[{\"object\":"
       "\"organization.costs.result\",\"amount\":{\"value\":1,\"currency\":\"eur\"}}]}]}",
       "only usd"},
      {"{\"object\":\"page\",\"data\":[{\"start_time\":1,\"end_time\":2,\"results\":[{\"object\":"
       "\"organization.costs.result\"}]}]}",
       "something is missing"},
      {"{\"object\":\"page\",\"data\":[", "no JSON"},
      {"[1]", "JSON that is no object"},
      {"[]", "there is nothing in it"},
      {"{\"object\":\"page\",\"data\":[{\"start_time\":0,\"end_time\":99999999999,\"results\":[]}]}",
       "more than a year"},
  };
  for (const auto& [text, why] : kRows) {
    SCOPED_TRACE(text);
    const auto out = read_usage_export(text);
    ASSERT_FALSE(out);
    EXPECT_NE(out.error().find(why), std::string::npos) << out.error();
  }
}

UsageLine ours(const std::string& day, const std::string& model, std::int64_t requests, std::int64_t input) {
  UsageLine line;
  line.day = day;
  line.model = model;
  line.requests = line.attempts = requests;
  line.input = input;
  line.cached_input = 800;
  line.output = 505;
  return line;
}

TEST(Reconcile, is_silent_where_all_is_equal) {
  const auto found = ledger::reconcile(read(kOpenAiUsage), {ours("2024-11-01", "gpt-4o-2024-08-06", 6, 1010)});
  EXPECT_EQ(found.compared, 1);
  EXPECT_TRUE(found.differences.empty());
}

TEST(Reconcile, names_each_figure_that_differs_and_what_only_one_side_has) {
  UsageLine some = ours("2024-11-01", "gpt-4o-2024-08-06", 5, 1000);
  some.unknown = 1;
  UsageLine other = ours("2024-11-02", "gpt-5", 2, 7);
  const UsageLine outside = ours("2024-11-09", "gpt-5", 2, 7);
  const auto found = ledger::reconcile(read(kOpenAiUsage), {some, other, outside});
  EXPECT_EQ(found.compared, 2);
  ASSERT_EQ(found.differences.size(), 6U);
  EXPECT_EQ(found.differences[0].what, "requests");
  EXPECT_EQ(found.differences[0].ours, 5);
  EXPECT_EQ(found.differences[0].theirs, 6);
  EXPECT_EQ(found.differences[0].perhaps, "1 attempts told no usage");
  EXPECT_EQ(found.differences[2].model, "gpt-5");
  EXPECT_NE(found.differences[2].perhaps.find("not in the export"), std::string::npos);
  const auto none = ledger::reconcile(read(kOpenAiUsage), {});
  ASSERT_EQ(none.differences.size(), 4U);
  EXPECT_NE(none.differences[0].perhaps.find("not in the ledger"), std::string::npos);
}

TEST(Reconcile, compares_costs_up_to_what_was_rounded) {
  UsageExport theirs;
  theirs.days = {"2026-11-27"};
  theirs.display_names = true;
  ExportLine line;
  line.day = "2026-11-27";
  line.model = "Claude Haiku 4.5";
  line.cost_nano = 70'000'000;
  line.rounding_nano = 10'000'000;
  theirs.lines = {line};
  UsageLine mine = ours("2026-11-27", "claude-haiku-4-5-20251001", 3, 1);
  mine.cost_nano = 80'000'003;
  EXPECT_TRUE(ledger::reconcile(theirs, {mine}).differences.empty());
  mine.cost_nano = 80'000'004;
  const auto found = ledger::reconcile(theirs, {mine});
  ASSERT_EQ(found.differences.size(), 1U);
  EXPECT_EQ(found.differences[0].what, "cost_usd");
}

TEST(Reconcile, takes_all_models_together_where_the_export_does_not_tell_them_apart) {
  UsageExport theirs;
  theirs.days = {"2026-11-27"};
  ExportLine line;
  line.day = "2026-11-27";
  line.requests = 5;
  theirs.lines = {line};
  EXPECT_TRUE(
      ledger::reconcile(theirs, {ours("2026-11-27", "a", 2, 1), ours("2026-11-27", "b", 3, 1)}).differences.empty());
}

}  // namespace reconcile_test
