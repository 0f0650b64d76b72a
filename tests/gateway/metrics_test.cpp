#include "gateway/metrics.h"

#include "gateway/once.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>

namespace metrics_test {

using classifier::Class;
using gateway::CallRecord;
using gateway::MetricNames;
using gateway::Metrics;
using gateway::Outcome;
using namespace std::chrono_literals;

const MetricNames kNames{.upstreams = {"openai", "anthropic"},
                         .routes = {"both"},
                         .credentials = {{"openai", "main"}},
                         .models = {"gpt-5"},
                         .tenants = {"default", "search"}};

gateway::AttemptRow attempt(int number, Class cls, int status) {
  return {.number = number, .upstream = "openai", .status = status, .cls = cls, .took = 250ms};
}

CallRecord answered() {
  CallRecord record;
  record.tenant = "search";
  record.route = record.upstream = "openai";
  record.operation = "chat";
  record.model = "gpt-5";
  record.outcome = Outcome::Answered;
  record.status = 200;
  record.attempts = {attempt(1, Class::None, 200)};
  record.usage.tokens = classifier::TokenCounts{
      .input = 100, .cached_input = 60, .cache_write_5m = 10, .cache_write_1h = 5, .output = 40, .reasoning = 30};
  record.duration = 300ms;
  return record;
}

void play(Metrics& metrics, const CallRecord& record) {
  metrics.call_began(record.upstream, record.lane);
  metrics.call_ended(record);
}

/// Every way in which a number can move, once.
void work_everything(Metrics& metrics) {
  metrics.run_accepted("invoices", true);
  metrics.run_refused("invoices", "max_open");
  metrics.paused(std::array{std::string{"invoices"}});
  metrics.run_began("invoices", std::chrono::milliseconds{20});
  metrics.run_ended("invoices", ledger::RunState::Dead, "auth");
  metrics.run_took("invoices", std::chrono::milliseconds{500});
  metrics.letter_written("invoices", classifier::Class::Auth);
  metrics.webhook(ledger::Store::Telling::Told);
  metrics.replay_moved("running");
  metrics.replay_item("resolved");
  MetricNames with_queue;
  with_queue.queues.push_back(
      {"invoices", "billing", std::chrono::milliseconds{1'000}, 0.995, std::chrono::minutes{30}});
  metrics.update(with_queue);
  metrics.pending({{.queue = "invoices", .waiting = 2, .oldest_ms = 1'000}},
                  {{.cls = "auth", .queue = "invoices", .count = 1, .oldest_ms = 1'000}},
                  gateway::WallTime{std::chrono::seconds{10}});
  CallRecord hard = answered();
  hard.stream = true;
  hard.sdk_retry = true;
  hard.commit_late = true;
  hard.first_content = 120ms;
  hard.attempts = {attempt(1, Class::Timeout, 0), attempt(2, Class::RateLimited, 429), attempt(3, Class::None, 200)};
  hard.attempts[0].possibly_billed = true;
  hard.attempts[0].cost = budget::NanoUsd{1'500'000'000};
  hard.attempts[0].cost_source = "fallback";
  hard.attempts[1].waited_before = 500ms;
  hard.attempts[1].waited_for = ledger::WaitedFor::Computed;
  hard.attempts[1].fingerprint = "0123456789ab";
  hard.attempts[2].waited_before = 2s;
  hard.attempts[2].waited_for = ledger::WaitedFor::RetryAfter;
  hard.waits[0] = 2s;
  play(metrics, hard);
  CallRecord refused = answered();
  refused.outcome = Outcome::Refused;
  refused.cls = Class::LocalLimit;
  refused.reason = "queue_full";
  refused.attempts.clear();
  refused.usage = {};
  play(metrics, refused);
  CallRecord remembered = answered();
  remembered.outcome = Outcome::Failed;
  remembered.cls = Class::Overloaded;
  remembered.reason = ledger::kRemembered;
  remembered.attempts.clear();
  remembered.usage = {};
  play(metrics, remembered);
  ledger::StoreFigures store;
  store.commits = store.rows = store.failures = store.lost_open_rows = store.lost_endings = store.lost_others = 1;
  store.unknown_outcomes = store.answers_evicted = 1;
  store.letters_without = store.letters_expired = 1;
  metrics.store(store, true);
  metrics.live({1, 1, 1, 1, 1, 1});
  CallRecord replayed = answered();
  replayed.attempts.clear();
  replayed.usage = {};
  replayed.once = "replayed";
  replayed.origin = "another";
  replayed.saved = budget::NanoUsd{2'500'000'000};
  play(metrics, replayed);
  for (const std::string_view result : gateway::kOnceResults) metrics.idempotency(result);
  using Event = budget::HealthEvent;
  metrics.health_event({Event::Kind::BreakerOpened, "openai", "gpt-5", "", "consecutive", {}});
  metrics.health_event({Event::Kind::Quarantined, "openai", "", "main", "auth", {}});
  metrics.health_event({Event::Kind::Paused, "openai", "gpt-5", "main", "rate_limited", {}});
  budget::UpstreamHealth health{.name = "openai"};
  health.retries_available = 4;
  health.breakers.push_back({"gpt-5", budget::Breaker::State::Open, budget::Breaker::Reason::Consecutive, {}, {}});
  health.credentials.push_back({"main", Class::Auth, {}, {}});
  health.pauses.push_back({"main", true, "gpt-5", {}, {}});
  metrics.health({health});
  budget::UpstreamLoad load;
  load.name = "openai";
  budget::TenantState tenant;
  tenant.name = "search";
  budget::BudgetState money{.tenant = "search", .period = budget::Period::Day, .resets = budget::WallTime{} + 1h};
  metrics.loads({load}, {tenant}, {money});
  metrics.lanes({}, {});
  metrics.budget_event({.kind = budget::SpendEvent::Kind::Warned, .tenant = "search", .period = budget::Period::Day});
  metrics.operator_act("pause", "tenant");
  metrics.estimated({.input = 10, .output = 10}, {.input = 5, .output = 20});
  metrics.key_read("openai", "main", false);
  metrics.queue_entered(budget::Lane::Bulk);
  metrics.retry_denied("openai", "attempts_used");
  metrics.request_refused("callgate_bad_request");
  metrics.log_message("warn");
  metrics.live({.connections = 3,
                .upstream_connections = 2,
                .upstream_exchanges = 1,
                .buffered_bytes = 99,
                .log_lines_dropped = 4});
  gateway::TraceExporter::Figures exports;
  exports.exports = {4, 3, 2, 1};
  exports.spans = 40;
  metrics.exports(exports);
}

/// Series by name and labels as they stand in the text: `name{a="x",b="y"}`.
std::map<std::string, double> series_of(const std::string& text) {
  std::map<std::string, double> series;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t blank = line.rfind(' ');
    series[line.substr(0, blank)] = std::strtod(line.c_str() + blank, nullptr);
  }
  return series;
}

double value(const Metrics& metrics, const std::string& name) {
  const auto series = series_of(metrics.text());
  const auto found = series.find(name);
  if (found == series.end()) {
    ADD_FAILURE() << "no series " << name << " in\n" << metrics.text();
    return -1;
  }
  return found->second;
}

/// What promtool says of the text; empty if it has nothing against it.
std::string promtool(const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / ("callgate_metrics_test." + std::to_string(::getpid()));
  std::ofstream{path} << text;
  FILE* const pipe = ::popen(("promtool check metrics < " + path.string() + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return "no shell";
  std::string said;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
  const int status = ::pclose(pipe);
  std::filesystem::remove(path);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? said
                                                       : said + " (exit " + std::to_string(WEXITSTATUS(status)) + ")";
}

struct Family {
  std::string type{};
  std::set<std::string> labels{};
  bool operator==(const Family&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Family& family) {
  out << family.type << " {";
  for (const std::string& label : family.labels) out << ' ' << label;
  return out << " }";
}

std::map<std::string, Family> families_of(const std::string& text) {
  std::map<std::string, Family> families;
  std::istringstream lines{text};
  std::string current;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      std::istringstream words{line.substr(7)};
      words >> current;
      words >> families[current].type;
    } else if (!line.starts_with('#')) {
      const std::size_t open = line.find('{');
      if (open == std::string::npos) continue;
      for (std::size_t at = open + 1; at < line.rfind('}');) {
        const std::size_t equals = line.find("=\"", at);
        const std::string label = line.substr(at, equals - at);
        if (label != "le") families[current].labels.insert(label);
        at = line.find('"', equals + 2) + 2;
      }
    }
  }
  return families;
}

/// Rows "| `name` | type | labels | meaning |".
std::map<std::string, Family> families_in_docs() {
  std::ifstream file{PROJECT_ROOT "/docs/metrics.md"};
  std::map<std::string, Family> families;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `")) continue;
    std::istringstream cells{line};
    std::string nothing, name, type, labels;
    std::getline(cells, nothing, '|');
    std::getline(cells, name, '|');
    std::getline(cells, type, '|');
    std::getline(cells, labels, '|');
    Family& family = families[name.substr(2, name.size() - 4)];
    std::istringstream{type} >> family.type;
    std::istringstream words{labels};
    for (std::string word; words >> word;) {
      if (word != "–") family.labels.insert(word.substr(0, word.find(',')));
    }
  }
  return families;
}

TEST(Metrics, promtool_has_nothing_against_the_scrape) {
  Metrics metrics{kNames};
  EXPECT_EQ(promtool(metrics.text()), "");
  work_everything(metrics);
  EXPECT_EQ(promtool(metrics.text()), "");
}

TEST(Metrics, the_page_in_docs_lists_exactly_the_families_that_are_there) {
  Metrics metrics{kNames};
  work_everything(metrics);
  EXPECT_EQ(families_in_docs(), families_of(metrics.text()));
}

TEST(Metrics, a_call_is_counted_at_its_end_under_its_own_names) {
  Metrics metrics{kNames};
  metrics.call_began("openai", budget::Lane::Bulk);
  EXPECT_EQ(value(metrics, R"(callgate_calls_in_flight{lane="bulk",upstream="openai"})"), 1);
  metrics.call_ended(answered());
  EXPECT_EQ(value(metrics, R"(callgate_calls_in_flight{lane="bulk",upstream="openai"})"), 0);
  EXPECT_EQ(
      value(
          metrics,
          R"(callgate_calls_total{class="none",model="gpt-5",outcome="answered",tenant="search",upstream="openai"})"),
      1);
  EXPECT_EQ(
      value(
          metrics,
          R"(callgate_call_duration_seconds_sum{model="gpt-5",operation="chat",outcome="answered",upstream="openai"})"),
      0.3);
  EXPECT_EQ(value(metrics, R"(callgate_attempts_total{class="none",model="gpt-5",upstream="openai"})"), 1);
}

TEST(Metrics, what_a_replay_saved_is_counted_and_its_usage_is_not_missing) {
  Metrics metrics{kNames};
  const std::string saved = R"(callgate_saved_usd_total{model="gpt-5",tenant="search",upstream="openai"})";
  const double missing = value(metrics, R"(callgate_usage_missing_total{upstream="openai"})");
  CallRecord record = answered();
  record.attempts.clear();
  record.usage = {};
  record.once = "joined";
  record.origin = "another";
  record.saved = budget::NanoUsd{250'000'000};
  play(metrics, record);
  EXPECT_EQ(value(metrics, saved), 0.25);
  EXPECT_EQ(value(metrics, R"(callgate_usage_missing_total{upstream="openai"})"), missing);
  for (const std::string_view result : gateway::kOnceResults) {
    const std::string name = "callgate_idempotency_total{result=\"" + std::string{result} + "\"}";
    EXPECT_EQ(value(metrics, name), 0) << "there from the start";
    metrics.idempotency(result);
    EXPECT_EQ(value(metrics, name), 1);
  }
}

TEST(Metrics, money_is_told_to_the_last_nano_dollar) {
  Metrics metrics{kNames};
  CallRecord record = answered();
  record.attempts[0].cost_source = "table";
  const std::string line =
      R"(callgate_cost_usd_total{model="gpt-5",source="table",tenant="search",upstream="openai"} )";
  const auto after = [&](std::int64_t nano) {
    record.attempts[0].cost = budget::NanoUsd{nano};
    play(metrics, record);
    const std::string text = metrics.text();
    const std::size_t at = text.find(line);
    return at == text.npos ? "" : text.substr(at + line.size(), text.find('\n', at) - at - line.size());
  };
  record.attempts[0].cost = budget::NanoUsd{1};
  for (int i = 0; i < 999'999; ++i) play(metrics, record);
  EXPECT_EQ(after(1), "0.001") << "a million times one";
  EXPECT_EQ(after(9'699'000'000), "9.7") << "as a double 9.699999999999999";
  EXPECT_EQ(after(1'234'567'000'000'850), "1234576.70000085");

  std::vector<budget::BudgetState> budgets(1);
  budgets[0].tenant = "search";
  budgets[0].period = budget::Period::Day;
  budgets[0].limit = budget::NanoUsd{9'700'000'000};
  budgets[0].spent = budget::NanoUsd{700'850};
  metrics.loads({}, {}, budgets);
  const std::string text = metrics.text();
  EXPECT_TRUE(text.contains("callgate_budget_limit_usd{period=\"day\",tenant=\"search\"} 9.7\n")) << text;
  EXPECT_TRUE(text.contains("callgate_budget_spent_usd{period=\"day\",tenant=\"search\"} 0.00070085\n")) << text;
  metrics.loads({}, {}, {});
  EXPECT_TRUE(metrics.text().contains("callgate_budget_limit_usd{period=\"day\",tenant=\"search\"} NaN\n"))
      << "a budget that is no more";
}

TEST(Metrics, retries_are_counted_by_what_caused_them_and_their_waits_by_who_named_them) {
  Metrics metrics{kNames};
  work_everything(metrics);
  EXPECT_EQ(value(metrics, R"(callgate_retries_total{class="timeout",model="gpt-5",upstream="openai"})"), 1);
  EXPECT_EQ(value(metrics, R"(callgate_retries_total{class="rate_limited",model="gpt-5",upstream="openai"})"), 1);
  EXPECT_EQ(value(metrics, R"(callgate_backoff_wait_seconds_sum{source="computed",upstream="openai"})"), 0.5);
  EXPECT_EQ(value(metrics, R"(callgate_backoff_wait_seconds_sum{source="retry_after",upstream="openai"})"), 2);
  EXPECT_EQ(value(metrics, R"(callgate_possibly_billed_attempts_total{upstream="openai"})"), 1);
  EXPECT_EQ(value(metrics, R"(callgate_caller_retries_total{seen_by="sdk",tenant="search"})"), 1);
  EXPECT_EQ(value(metrics, R"(callgate_refusals_total{limit="queue_full"})"), 1);
}

TEST(Metrics, token_kinds_are_disjoint_and_each_attempt_counts_once) {
  const auto tokens = [](const Metrics& metrics, const std::string& kind) {
    return value(metrics,
                 R"(callgate_tokens_total{kind=")" + kind + R"(",model="gpt-5",tenant="search",upstream="openai"})");
  };
  CallRecord in_both_places = answered();
  in_both_places.attempts[0].usage = in_both_places.usage;
  CallRecord in_the_row = in_both_places;
  in_the_row.usage = {};
  for (const CallRecord& record : {answered(), in_both_places, in_the_row}) {
    Metrics metrics{kNames};
    play(metrics, record);
    EXPECT_EQ(tokens(metrics, "input"), 25);
    EXPECT_EQ(tokens(metrics, "cache_read"), 60);
    EXPECT_EQ(tokens(metrics, "cache_write"), 15);
    EXPECT_EQ(tokens(metrics, "output"), 10);
    EXPECT_EQ(tokens(metrics, "reasoning"), 30);
  }
}

TEST(Metrics, an_answer_without_usage_is_missed_only_where_usage_is_told) {
  struct Case {
    const char* name;
    std::string_view operation;
    Class cls;
    bool content;
    double want;
  };
  const Case cases[] = {
      {"a whole answer", "chat", Class::None, false, 1},
      {"a list of models", "other", Class::None, false, 0},
      {"a stream cut after its content", "chat", Class::Network, true, 1},
      {"a failure before any content", "chat", Class::Overloaded, false, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    CallRecord record = answered();
    record.operation = c.operation;
    record.usage = {};
    record.cls = c.cls;
    record.outcome = c.cls == Class::None ? Outcome::Answered : Outcome::Failed;
    if (c.content) record.first_content = 1ms;
    Metrics metrics{kNames};
    play(metrics, record);
    EXPECT_EQ(value(metrics, R"(callgate_usage_missing_total{upstream="openai"})"), c.want);
  }
}

TEST(Metrics, a_broken_stream_is_laid_at_the_right_door) {
  struct Case {
    Outcome outcome;
    Class cls;
    std::string side;  // Empty: not broken.
  };
  const Case cases[] = {
      {Outcome::Answered, Class::None, ""},
      {Outcome::Failed, Class::Network, "upstream"},
      {Outcome::Cancelled, Class::Cancelled, "caller"},
      {Outcome::Failed, Class::Internal, "gateway"},
      {Outcome::Drained, Class::LocalDraining, "gateway"},
  };
  for (const Case& c : cases) {
    CallRecord record = answered();
    record.stream = true;
    record.first_content = 10ms;
    record.outcome = c.outcome;
    record.cls = c.cls;
    Metrics metrics{kNames};
    play(metrics, record);
    for (const std::string side : {"caller", "upstream", "gateway"}) {
      EXPECT_EQ(value(metrics, R"(callgate_streams_broken_total{side=")" + side + R"(",upstream="openai"})"),
                side == c.side ? 1 : 0);
    }
  }
}

TEST(Metrics, unknown_answers_have_at_most_fifty_fingerprints_and_lose_none) {
  Metrics metrics{kNames};
  constexpr int kKinds = 60;
  for (int i = 0; i < 2 * kKinds; ++i) {
    CallRecord record = answered();
    record.attempts[0].fingerprint = "fingerprint" + std::to_string(i % kKinds);
    play(metrics, record);
  }
  std::size_t kinds = 0;
  double sum = 0;
  for (const auto& [name, count] : series_of(metrics.text())) {
    if (!name.starts_with("callgate_unknown_answers_total{") || !name.contains(R"(upstream="openai")")) continue;
    kinds += 1;
    sum += count;
  }
  EXPECT_EQ(kinds, 51U) << "fifty and _other";
  EXPECT_EQ(sum, 2 * kKinds);
  EXPECT_EQ(value(metrics, R"(callgate_unknown_answers_total{fingerprint="fingerprint0",upstream="openai"})"), 2);
  EXPECT_EQ(value(metrics, R"(callgate_unknown_answers_total{fingerprint="_other",upstream="openai"})"), 20);
}

TEST(Metrics, what_is_known_beforehand_stands_at_zero_from_the_start) {
  const Metrics metrics{kNames};
  for (const char* name : {R"(callgate_calls_in_flight{lane="interactive",upstream="anthropic"})",
                           R"(callgate_streams_broken_total{side="upstream",upstream="anthropic"})",
                           R"(callgate_usage_missing_total{upstream="openai"})",
                           R"(callgate_unknown_answers_total{fingerprint="_other",upstream="openai"})",
                           R"(callgate_queue_depth{lane="backfill"})",
                           R"(callgate_queue_wait_seconds_count{lane="bulk"})",
                           R"(callgate_log_messages_total{level="error"})",
                           R"(callgate_caller_retries_total{seen_by="sdk",tenant="default"})",
                           "callgate_commits_late_total",
                           "callgate_draining",
                           "callgate_connections",
                           "callgate_metric_series_folded_total"}) {
    EXPECT_EQ(value(metrics, name), 0) << name;
  }
  EXPECT_EQ(value(metrics, R"(callgate_build_info{version=")" CALLGATE_VERSION R"("})"), 1);
}

TEST(Metrics, what_alerts_look_at_is_there_before_its_first_event_and_beside_its_target) {
  MetricNames names = kNames;
  names.queues.push_back({.name = "invoices", .owner = "billing", .letters_kept = 90 * 24h});
  names.queues.push_back({.name = "mail"});
  names.letters_kept = 30 * 24h;
  names.max_wait = {30s, 5min, 30min};
  Metrics metrics{names};
  for (const char* name : {R"(callgate_attempts_page_total{class="auth",upstream="openai"})",
                           R"(callgate_attempts_page_total{class="quota_exhausted",upstream="anthropic"})",
                           R"(callgate_dead_letters_arrived_total{owner="billing",queue="invoices"})",
                           R"(callgate_dead_letters_arrived_total{owner="_none",queue="_none"})",
                           R"(callgate_dead_letters_arrived_total{owner="_none",queue="_other"})",
                           R"(callgate_dead_letters_page_total{class="crash",owner="billing",queue="invoices"})",
                           R"(callgate_queue_oldest_wait_seconds{lane="interactive"})"}) {
    EXPECT_EQ(value(metrics, name), 0) << name;
  }
  EXPECT_EQ(value(metrics, R"(callgate_queue_max_wait_seconds{lane="bulk"})"), 300);
  EXPECT_EQ(value(metrics, R"(callgate_dead_letters_retention_seconds{owner="billing",queue="invoices"})"),
            90 * 86'400);
  EXPECT_EQ(value(metrics, R"(callgate_dead_letters_retention_seconds{owner="_none",queue="mail"})"), 30 * 86'400);
  EXPECT_EQ(value(metrics, R"(callgate_dead_letters_retention_seconds{owner="_none",queue="_other"})"), 30 * 86'400);

  metrics.letter_written("invoices", Class::ServerError);
  metrics.letter_written("invoices", Class::Auth);
  EXPECT_EQ(value(metrics, R"(callgate_dead_letters_arrived_total{owner="billing",queue="invoices"})"), 2);
  EXPECT_EQ(value(metrics, R"(callgate_dead_letters_page_total{class="auth",owner="billing",queue="invoices"})"), 1);
  CallRecord refused = answered();
  refused.outcome = Outcome::Failed;
  refused.attempts = {attempt(1, Class::ServerError, 500), attempt(2, Class::QuotaExhausted, 429)};
  play(metrics, refused);
  EXPECT_EQ(value(metrics, R"(callgate_attempts_page_total{class="quota_exhausted",upstream="openai"})"), 1);

  metrics.pending({}, {}, gateway::WallTime{10s});
  for (const char* name : {"waiting", "scheduled", "running", "oldest_wait_seconds"}) {
    const std::string series = std::string{"callgate_runs_"} + name + R"({owner="billing",queue="invoices"})";
    EXPECT_EQ(value(metrics, series), 0);
  }

  const budget::TimePoint now{100s};
  std::array<budget::LaneState, 3> lanes{};
  for (std::size_t i = 0; i < 3; ++i) lanes[i].lane = static_cast<budget::Lane>(i);
  lanes[1].oldest = now - 7s;
  metrics.lanes(lanes, now);
  EXPECT_EQ(value(metrics, R"(callgate_queue_oldest_wait_seconds{lane="bulk"})"), 7);
  EXPECT_EQ(value(metrics, R"(callgate_queue_oldest_wait_seconds{lane="interactive"})"), 0);
  lanes[1].oldest.reset();
  metrics.lanes(lanes, now);
  EXPECT_EQ(value(metrics, R"(callgate_queue_oldest_wait_seconds{lane="bulk"})"), 0);
}

TEST(Metrics, gauges_follow_and_counters_only_rise) {
  Metrics metrics{kNames};
  metrics.queue_entered(budget::Lane::Backfill);
  metrics.queue_entered(budget::Lane::Backfill);
  metrics.queue_left(budget::Lane::Backfill);
  EXPECT_EQ(value(metrics, R"(callgate_queue_depth{lane="backfill"})"), 1);
  metrics.draining(true);
  EXPECT_EQ(value(metrics, "callgate_draining"), 1);
  for (const std::uint64_t dropped : {4, 4, 9}) {
    metrics.live({.connections = dropped, .buffered_bytes = 70 * dropped, .log_lines_dropped = dropped});
  }
  EXPECT_EQ(value(metrics, "callgate_connections"), 9);
  EXPECT_EQ(value(metrics, "callgate_buffered_bytes"), 630);
  EXPECT_EQ(value(metrics, "callgate_log_lines_dropped_total"), 9);
}

TEST(Metrics, the_process_tells_of_itself) {
  const Metrics metrics{kNames};
  EXPECT_GT(value(metrics, "process_cpu_seconds_total"), 0);
  EXPECT_GT(value(metrics, "process_resident_memory_bytes"), 1e6);
  EXPECT_GT(value(metrics, "process_open_fds"), 2);
  EXPECT_GE(value(metrics, "process_max_fds"), value(metrics, "process_open_fds"));
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(value(metrics, "process_start_time_seconds"), now, 600);
}

// F-35: label values came straight from clients, so junk grew memory and the scrape without end.
TEST(Metrics, junk_from_callers_does_not_grow_the_scrape) {
  Metrics metrics{kNames};
  play(metrics, answered());
  const std::size_t before = series_of(metrics.text()).size();
  for (int i = 0; i < 20'000; ++i) {
    CallRecord record = answered();
    const std::string junk = "junk-" + std::to_string(i);
    record.model = i % 3 == 0 ? junk : i % 3 == 1 ? junk + "\"\n\\ \xff" : junk + std::string(4096, 'x');
    record.tenant = "tenant " + junk;
    record.path = "/" + junk;
    if (i % 5 == 0) record.outcome = Outcome::Failed, record.cls = Class::NotFound;
    play(metrics, record);
    metrics.request_refused("callgate_\n" + junk);
    metrics.retry_denied(junk, "\xff" + junk);
    metrics.call_began(junk, budget::Lane::Bulk);
  }
  const std::string text = metrics.text();
  EXPECT_LT(series_of(text).size(), before + 200);
  EXPECT_EQ(promtool(text), "");
  EXPECT_GT(value(metrics, R"(callgate_attempts_total{class="none",model="_other",upstream="openai"})"), 19'990);
  EXPECT_EQ(value(metrics, R"(callgate_requests_refused_total{code="_other"})"), 20'000);
}

TEST(Metrics, a_model_becomes_a_label_by_being_answered) {
  Metrics metrics{kNames};
  CallRecord failed = answered();
  failed.model = "never-answered";
  failed.outcome = Outcome::Failed;
  failed.cls = Class::NotFound;
  for (int i = 0; i < 100; ++i) play(metrics, failed);
  CallRecord first = answered();
  first.model = "local/llama-4:8b";
  play(metrics, first);
  const std::string text = metrics.text();
  EXPECT_EQ(text.find("never-answered"), std::string::npos);
  EXPECT_NE(text.find("local/llama-4:8b"), std::string::npos);
}

TEST(Metrics, at_most_fifty_models_are_learned) {
  Metrics metrics{kNames};
  for (int i = 0; i < 200; ++i) {
    CallRecord record = answered();
    record.model = "m" + std::to_string(i);
    for (int n = 0; n < 20; ++n) play(metrics, record);
  }
  std::set<std::string> models;
  for (const auto& [name, count] : series_of(metrics.text())) {
    if (!name.starts_with("callgate_attempts_total{")) continue;
    const std::size_t at = name.find("model=\"") + 7;
    models.insert(name.substr(at, name.find('"', at) - at));
  }
  EXPECT_EQ(models.size(), 51);  // And "_other".
}

TEST(Metrics, a_call_without_a_model_says_so) {
  Metrics metrics{kNames};
  CallRecord record = answered();
  record.model.clear();
  play(metrics, record);
  EXPECT_EQ(value(metrics, R"(callgate_attempts_total{class="none",model="_none",upstream="openai"})"), 1);
}

TEST(Metrics, never_more_than_ten_thousand_series_and_no_count_is_lost) {
  MetricNames names;
  for (int i = 0; i < 20; ++i) names.upstreams.push_back("u" + std::to_string(i));
  for (int i = 0; i < 40; ++i) names.models.push_back("m" + std::to_string(i));
  for (int i = 0; i < 20; ++i) names.tenants.push_back("t" + std::to_string(i));
  Metrics metrics{names};
  double played = 0;
  for (const std::string& upstream : names.upstreams) {
    for (const std::string& model : names.models) {
      for (const std::string& tenant : names.tenants) {
        for (const Class cls : {Class::None, Class::Overloaded}) {
          CallRecord record = answered();
          record.upstream = upstream;
          record.model = model;
          record.tenant = tenant;
          record.cls = cls;
          record.attempts[0].upstream = upstream;
          record.attempts[0].cls = cls;
          play(metrics, record);
          played += 1;
        }
      }
    }
  }
  const std::string text = metrics.text();
  const auto series = series_of(text);
  EXPECT_LE(series.size(), 10'000);
  EXPECT_GT(series.size(), 9'000);
  EXPECT_EQ(promtool(text), "");
  EXPECT_GT(series.at("callgate_metric_series_folded_total"), 0);
  double counted = 0;
  for (const auto& [name, count] : series) {
    if (name.starts_with("callgate_calls_total{")) counted += count;
  }
  EXPECT_EQ(counted, played);
  // Once room is scarce, models and tenants go first: which upstream fails how is still told apart.
  EXPECT_TRUE(series.contains(
      R"(callgate_calls_total{class="overloaded",model="_other",outcome="answered",tenant="_other",upstream="u12"})"));
}

// For the thread sanitizer: new series, old counters and histograms while another thread scrapes.
TEST(Metrics, the_scrape_reads_while_the_io_thread_counts) {
  Metrics metrics{kNames};
  std::atomic<bool> done = false;
  std::atomic<int> scrapes = 0;
  std::thread prometheus{[&] {
    while (!done || scrapes == 0) {
      EXPECT_NE(metrics.text().find("callgate_build_info"), std::string::npos);
      scrapes += 1;
    }
  }};
  int played = 0;
  while (played < 2'000 || scrapes < 3) {
    CallRecord record = answered();
    record.model = "m" + std::to_string(played % 90);
    play(metrics, record);
    metrics.live({.connections = static_cast<std::size_t>(played)});
    played += 1;
  }
  done = true;
  prometheus.join();
}

}  // namespace metrics_test
