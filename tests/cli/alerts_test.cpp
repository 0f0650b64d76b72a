// Goal: the rules that a contract turns into are rules, fire when it is broken and not before, and nothing that
// stands in a contract can be more than text in them. Method: promtool, on what the command wrote.

#include "cli/alerts.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace alerts_test {

using namespace std::chrono_literals;

struct Said {
  int code = -1;
  std::string out{};
  std::string err{};
};

class Alerts : public testing::Test {
 protected:
  Alerts() : folder_(std::filesystem::temp_directory_path() / ("callgate_alerts." + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Alerts() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    std::ofstream{folder_ / name} << text;
    return (folder_ / name).string();
  }
  Said alerts(const std::string& yaml) {
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    cli::Terminal terminal{in, out, err};
    const int code = cli::run({"alerts", "--config", file("callgate.yaml", yaml)}, terminal);
    return {code, out.str(), err.str()};
  }
  /// What promtool has against it; empty: nothing.
  static std::string promtool(const std::string& what, const std::string& path) {
    FILE* const pipe = ::popen(("promtool " + what + " " + path + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return "no shell";
    std::string said;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
    const int status = ::pclose(pipe);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : said;
  }

  std::filesystem::path folder_;
};

const char* const kContract = R"(queues:
  invoices:
    owner: {team: billing-ml, contact: "#billing-oncall", runbook: "https://wiki.example.com/invoices"}
    slo: {oldest_wait: 5m, success_ratio: 0.9, complete_within: 30m}
    dead_letter: {retention: 10d}
  mail:
    slo: {complete_within: 2d}
)";

TEST_F(Alerts, fire_when_a_contract_is_broken_and_not_before) {
  const Said said = alerts(kContract);
  ASSERT_EQ(said.code, 0) << said.err;
  const std::string rules = file("rules.yaml", said.out);
  EXPECT_EQ(promtool("check rules --lint-fatal", rules), "") << said.out;

  std::ostringstream cases;
  cases << "rule_files: [rules.yaml]\nevaluation_interval: 5m\ntests:\n";
  struct Row {
    const char* alert;
    const char* severity;
    const char* labels;  // Of the result, beside queue and owner.
    std::vector<std::pair<const char*, const char*>> broken;
    std::vector<std::pair<const char*, const char*>> kept;
  };
  const std::vector<Row> rows{
      {"CallgateQueueOldestWait",
       "page",
       "",
       {{"callgate_runs_oldest_wait_seconds{Q}", "301x400"}},
       {{"callgate_runs_oldest_wait_seconds{Q}", "299x400"}}},
      {"CallgateQueueNoConsumers",
       "page",
       R"(instance="i", )",
       {{"callgate_runs_waiting{Q}", "3x400"}, {"callgate_runs_running{Q}", "0x400"}},
       {{"callgate_runs_waiting{Q}", "3x400"}, {"callgate_runs_running{Q}", "1x400"}}},
      {"CallgateQueueSuccessRatio",
       "ticket",
       "",
       {{R"(callgate_runs_ended_total{Q,state="dead",class="timeout"})", "0+2x400"},
        {R"(callgate_runs_ended_total{Q,state="queued",class="timeout"})", "0+50x400"},
        {R"(callgate_runs_ended_total{Q,state="succeeded",class="none"})", "0+8x400"}},
       {{R"(callgate_runs_ended_total{Q,state="dead",class="timeout"})", "0+2x400"},
        {R"(callgate_runs_ended_total{Q,state="succeeded",class="none"})", "0+98x400"}}},
      {"CallgateQueueCompleteWithin",
       "ticket",
       "",
       {{R"(callgate_run_duration_seconds_bucket{Q,le="1800"})", "0+90x400"},
        {R"(callgate_run_duration_seconds_bucket{Q,le="3600"})", "0+100x400"},
        {R"(callgate_run_duration_seconds_bucket{Q,le="+Inf"})", "0+100x400"}},
       {{R"(callgate_run_duration_seconds_bucket{Q,le="1800"})", "0+96x400"},
        {R"(callgate_run_duration_seconds_bucket{Q,le="3600"})", "0+100x400"},
        {R"(callgate_run_duration_seconds_bucket{Q,le="+Inf"})", "0+100x400"}}},
      {"CallgateQueueDeadLetterArrivalsStep",
       "page",
       "",
       {{"callgate_dead_letters_arrived_total{Q}", "0x390 0+5x10"}},
       {{"callgate_dead_letters_arrived_total{Q}", "0+5x400"}}},
      {"CallgateQueueDeadLettersNearExpiry",
       "ticket",
       "",
       {{R"(callgate_dead_letters_oldest_seconds{Q,class="auth"})", "700000x400"}},
       {{R"(callgate_dead_letters_oldest_seconds{Q,class="auth"})", "690000x400"}}},
  };
  for (const Row& row : rows) {
    EXPECT_NE(said.out.find(std::string{"alert: "} + row.alert + "\n"), std::string::npos) << row.alert;
    for (const bool broken : {true, false}) {
      cases << "  - interval: 5m\n    input_series:\n";
      for (const auto& [name, values] : broken ? row.broken : row.kept) {
        std::string series{name};
        series.replace(series.find('Q'), 1, R"(instance="i",queue="invoices",owner="billing-ml")");
        cases << "      - {series: '" << series << "', values: '" << values << "'}\n";
        // The same of another queue is none of its business.
        series.replace(series.find("invoices"), 8, "others");
        cases << "      - {series: '" << series << "', values: '" << values << "'}\n";
      }
      const bool by_the_day_before = std::string_view{row.alert}.ends_with("Step");
      cases << "    promql_expr_test:\n      - expr: ALERTS{alertstate=\"firing\"}\n        eval_time: "
            << (by_the_day_before ? "1980m" : "420m") << "\n";
      cases << "        exp_samples:";
      if (!broken) {
        cases << " []\n";
        continue;
      }
      cases << "\n          - {labels: 'ALERTS{alertname=\"" << row.alert << "\", alertstate=\"firing\", "
            << "severity=\"" << row.severity << "\", " << row.labels
            << "queue=\"invoices\", owner=\"billing-ml\", team=\"billing-ml\", contact=\"#billing-oncall\"}', "
            << "value: 1}\n";
    }
  }
  EXPECT_EQ(promtool("test rules", file("cases.yaml", cases.str())), "") << said.out;
}

TEST_F(Alerts, wake_at_the_step_that_the_contract_says) {
  const auto say = [](auto& queue) {
    if constexpr (requires { queue.alerts.step_factor; }) {
      queue.alerts.arrivals_floor = 9;
      queue.alerts.step_factor = 2.5;
    }
    return requires { queue.alerts.step_factor; };
  };
  gateway::QueueContract queue;
  queue.name = "invoices";
  const bool said = say(queue);
  const std::string text = cli::alert_rules(std::vector{queue}, 24h);
  EXPECT_NE(text.find(said ? "[15m])) > 9 unless" : "[15m])) > 5 unless"), std::string::npos) << text;
  EXPECT_NE(text.find(said ? " <= 2.5 * sum" : " <= 4 * sum"), std::string::npos) << text;
}

TEST_F(Alerts, without_contracts_are_an_empty_file_of_rules) {
  const Said said = alerts("{}\n");
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.err.find("no queue has a contract"), std::string::npos);
  EXPECT_EQ(promtool("check rules --lint-fatal", file("rules.yaml", said.out)), "") << said.out;
}

TEST_F(Alerts, need_contracts_without_errors_and_no_keys) {
  for (const char* bad : {"queues: 7\n", "queues: {mail: {slo: {oldest_wait: soon}}}\n", "queues: {\n"}) {
    const Said said = alerts(bad);
    EXPECT_EQ(said.code, 3) << bad;
    EXPECT_EQ(said.out, "") << bad;
    EXPECT_NE(said.err.find("error"), std::string::npos) << bad;
  }
  const Said said = alerts("upstreams: {openai: {credentials: [{name: main, key: {file: /nowhere/key}}]}}\n" +
                           std::string{kContract});
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.err.find("/nowhere/key"), std::string::npos) << said.err;
  EXPECT_EQ(said.out, alerts(kContract).out);
}

TEST_F(Alerts, take_no_word_of_a_contract_for_more_than_text) {
  const std::string hostile =
      "a\"b\\c\n'd' {{ $labels.x }} {{{ }} {%} #e: [f]\t\x01\x7f \xc2\x85\xe2\x80\xa8\xef\xbb\xbf ü 🙂 {";
  gateway::QueueContract queue;
  queue.name = "q\"} or vector(1) # \\ {{ end }}\n";
  queue.owner = {.team = hostile, .contact = hostile, .runbook = "https://example.com/{{x}}\"\n"};
  queue.slo.oldest_wait = 300s;
  queue.slo.success_ratio = 0.995;
  queue.slo.complete_within = 1800s;
  const std::string text = cli::alert_rules(std::vector{queue}, 24h);
  EXPECT_EQ(promtool("check rules --lint-fatal", file("rules.yaml", text)), "") << text;

  // As labels and summary they come out as they went in: promtool fills in the templates.
  const std::string name = R"(q\"} or vector(1) # \\ {{ end }}\n)";
  const std::string words = R"(a\"b\\c\n'd' {{ $labels.x }} {{{ }} {%} #e: [f]\t\x01\x7f \u0085\u2028\ufeff ü 🙂 {)";
  std::string cases =
      "rule_files: [rules.yaml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n";
  // In a YAML text of its own quotation: the series is PromQL, whose escapes are those of `name`.
  cases += "      - {series: 'callgate_runs_oldest_wait_seconds{queue=\"" + name + "\"}', values: '400x20'}\n";
  cases += "      - {series: 'callgate_runs_oldest_wait_seconds{queue=\"other\"}', values: '400x20'}\n";
  cases +=
      "    alert_rule_test:\n      - alertname: CallgateQueueOldestWait\n        eval_time: 10m\n        "
      "exp_alerts:\n";
  cases += "          - exp_labels:\n              severity: page\n              queue: \"" + name +
           "\"\n              team: \"" + words + "\"\n              contact: \"" + words + "\"\n";
  cases += "            exp_annotations:\n              summary: \"a run of " + name +
           " has waited 6m 40s for its start\"\n              description: \"Promised is 5m (slo.oldest_wait).\"\n"
           "              runbook_url: \"https://example.com/{{x}}\\\"\\n\"\n"
           "              runbook: docs/operations.md#a-queue-breaks-its-contract\n"
           "              __dashboardUid__: callgate\n              __panelId__: \"606\"\n";
  EXPECT_EQ(promtool("test rules", file("cases.yaml", cases)), "") << text;
}

}  // namespace alerts_test
